"""Dry runs of a group or of specs: after what-ifs, by one strategy or all, over several rebalances.

A new member's id is chosen at random, by the coordinator (classic groups) or the client (the
others; a ZooKeeper consumer's begins with its host and the time), and assignors walk members in an
order that depends on their ids. So a group is assigned with random ids of the real shape in the
place of the unknown ones. It is assigned again with a few others, and what does not come out the
same is marked. Other libraries than Java's may also mind where in the JoinGroup response a new
member stands, and in which order it names its topics, where that is drawn when it starts: these are
others each time, too.
"""

from __future__ import annotations

from base64 import urlsafe_b64encode
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum, auto
from itertools import islice, permutations
from random import Random
from string import ascii_lowercase
from uuid import UUID

from kgroup.assignor.base import TopicPartition
from kgroup.assignor.group_spec import CLIENTS, GroupSpec
from kgroup.assignor.java.java_hash import utf16
from kgroup.assignor.member_spec import MemberSpec, Software
from kgroup.assignor.strategy import strategies
from kgroup.errors import ExitStatus
from kgroup.model.client_library import KAFKA_CLIENTS
from kgroup.operation.assign.client import later_note, software
from kgroup.operation.assign.group import read_group
from kgroup.operation.assign.outcome import AssignFailure, AssignPlan, Move, after, dry_run
from kgroup.operation.assign.spec import read_specs
from kgroup.operation.assign.what_if import Changes, changed, comes_back, leaves, notes
from kgroup.operation.report import Report
from kgroup.source.base import GroupSource

_FEW_TOPICS = 3
TRIES = 6
"""How often a group is assigned again: an even chance shows in 63 of 64 cases."""

SEEDS = range(1, 1 + TRIES)
"""Of the other ids."""

MOST_IDS = 5_000
"""Partitions, and members, of a group that is assigned again: it takes a few seconds then."""

_MOST_IN_RESTART = 50_000
"""The same, times the rebalances of a rolling restart."""

_LATER = (4_000_000_000_000, 5_000_000_000_000)
"""When new ZooKeeper consumers start: after all others, in milliseconds of as many digits."""


def is_small(spec: GroupSpec) -> bool:
    """Return whether it takes no long time to assign a group again and again."""
    return _size(spec) <= MOST_IDS


def is_small_restart(spec: GroupSpec) -> bool:
    """Tell the same of restarting its members, each of which leaves and comes back."""
    return 2 * len(spec.members) * _size(spec) <= _MOST_IN_RESTART


def _size(spec: GroupSpec) -> int:
    return max(sum(topic.partitions for topic in spec.topics.values()), len(spec.members))


def dry_run_as(spec: GroupSpec, seed: int) -> AssignPlan:
    """Assign a group with random ids in the place of unknown ones; the plan has the unknown ones.

    Args:
        spec: of a group.
        seed: the same one gives a member the same id; 0 is of the run that is shown, the only one
            with warnings.
    """
    ids = random_ids(spec, seed)
    if not ids:
        return dry_run(spec)
    members = tuple(
        replace(m, member_id=ids[m.member_id], topics=_drawn(m, spec, seed)) if m.unknown_id else m
        for m in spec.members
    )
    leader_id = spec.leader_id and ids.get(spec.leader_id, spec.leader_id)
    order = _order(spec, ids, seed)
    made_up = replace(spec, members=members, leader_id=leader_id, member_order=order)
    plan = dry_run(made_up, warns=not seed)
    return replace(
        _renamed(plan, {made: name for name, made in ids.items()}), leader_id=spec.leader_id
    )


def _drawn(member: MemberSpec, spec: GroupSpec, seed: int) -> tuple[str, ...]:
    """Give a new member's topics in the order in which it may name them; every one of up to three.

    The first time it is the order in which they were given.
    """
    client = spec.client_of(member)
    if spec.protocol != "classic" or not CLIENTS[client.name].draws_topic_order:
        return member.topics
    if len(member.topics) <= _FEW_TOPICS:
        orders = list(permutations(member.topics))
        return orders[seed % len(orders)]
    return tuple(Random(seed).sample(member.topics, len(member.topics))) if seed else member.topics


def _order(spec: GroupSpec, ids: Mapping[str, str], seed: int) -> tuple[str, ...]:
    """Return the order of the JoinGroup response: new members last, and then anywhere."""
    if spec.protocol != "classic" or spec.computed_as.name == KAFKA_CLIENTS or not seed:
        return spec.member_order
    order = [each.member_id for each in spec.members_as_sent if each.member_id not in ids]
    for name, made in ids.items():
        order.insert(Random(f"{seed} {name}").randint(0, len(order)), made)
    return tuple(order)


def random_ids(spec: GroupSpec, seed: int) -> dict[str, str]:
    """Give each new member, by the id that stands for its own, one as it might have."""
    unknown = [replace(m, client=spec.client_of(m)) for m in spec.members if m.unknown_id]
    libraries = {m.client.name for m in unknown if m.client is not None and not m.client_id}
    usual = {library: _usual_client_ids(spec, library) for library in libraries}
    return {each.member_id: _random_id(each, spec, usual, seed) for each in unknown}


def _usual_client_ids(spec: GroupSpec, library: str) -> Sequence[str]:
    """Give the client ids that most members of a library have; none of Java, which numbers them."""
    if spec.protocol != "classic" or library == KAFKA_CLIENTS:
        return ()
    for members in (spec.members, spec.departed):
        alike = (member for member in members if spec.client_of(member).name == library)
        times = Counter(each.client_id for each in alike if each.client_id)
        if times:
            most = max(times.values())
            return [client_id for client_id, number in times.items() if number == most]
    return ()


def _random_id(
    member: MemberSpec, spec: GroupSpec, usual: Mapping[str, Sequence[str]], seed: int
) -> str:
    """Return a new member, of a library that is told, an id as it might have.

    Source: `ClassicGroup.generateMemberId`; `Uuid.randomUuid` in the consumers of KIP-848;
    `kafka.consumer.ZookeeperConsumerConnector`.
    """
    random = Random(f"{seed} {member.member_id}")
    if spec.protocol == "zookeeper":
        host = member.host or "".join(random.choices(ascii_lowercase, k=8))
        began = int(random.uniform(*_LATER)), random.getrandbits(32)
        return f"{spec.id or 'group'}_{host}-{began[0]}-{began[1]:08x}"
    while True:
        uuid = UUID(int=random.getrandbits(128), version=4)
        if spec.protocol == "classic":
            return f"{_beginning(member, spec, usual, seed)}-{uuid}"
        text = urlsafe_b64encode(uuid.bytes).decode().rstrip("=")
        if not text.startswith("-"):
            return text


def _beginning(
    member: MemberSpec, spec: GroupSpec, usual: Mapping[str, Sequence[str]], seed: int
) -> str:
    """Give the instance id of a static member, or a client id: its own, a usual, or the default."""
    client = member.client
    assert client is not None
    if member.instance_id and spec.may_be_static(client):
        return member.instance_id
    if member.client_id:
        return member.client_id
    random = Random(f"{seed} {member.member_id} client")
    if known := usual[client.name]:
        return random.choice(known) if seed else known[0]
    word = "".join(random.choices(ascii_lowercase, k=8))
    default = CLIENTS[client.name].client_id
    return default.format(group=spec.id or "group", version=client.version, word=word)


def _renamed(plan: AssignPlan, names: Mapping[str, str]) -> AssignPlan:
    """Put other ids into a plan."""

    def name(member_id: str) -> str:
        return names.get(member_id, member_id)

    balance = plan.balance
    if balance is not None:
        idle = tuple(sorted(map(name, balance.idle_members), key=utf16))
        balance = replace(balance, idle_members=idle)
    return replace(
        plan,
        before={name(member_id): had for member_id, had in plan.before.items()},
        assignment=plan.assignment
        and {name(member_id): partitions for member_id, partitions in plan.assignment.items()},
        members=tuple(replace(member, member_id=name(member.member_id)) for member in plan.members),
        moves=tuple(
            move._replace(
                from_member=name(move.from_member),
                to_member=move.to_member and name(move.to_member),
            )
            for move in plan.moves
        ),
        balance=balance,
        threads=plan.threads
        and {
            (name(member_id), number): partitions
            for (member_id, number), partitions in plan.threads.items()
        },
        owners=plan.owners
        and tuple(
            replace(owner, given=owner.given and (name(owner.given[0]), owner.given[1]))
            for owner in plan.owners
        ),
        overlaps=plan.overlaps
        and tuple(
            replace(overlap, members=tuple(map(name, overlap.members))) for overlap in plan.overlaps
        ),
    )


def mark(plans: Sequence[AssignPlan], tries: Sequence[Sequence[AssignPlan]]) -> list[AssignPlan]:
    """Mark what comes out otherwise with other ids.

    Args:
        plans: a rebalance, and those that follow.
        tries: the same computed with other random ids.
    """
    return [
        _marked(plan, [others[at] if at < len(others) else None for others in tries])
        for at, plan in enumerate(plans)
    ]


def unmarked(
    plans: Sequence[AssignPlan], where: str = f"above {MOST_IDS} partitions or members"
) -> list[AssignPlan]:
    """Say that it was not found out what depends on unknown ids, as the end of a sentence."""
    return [
        replace(
            plan,
            moves=tuple(move._replace(depends_on_id=None) for move in plan.moves),
            members=tuple(replace(member, depends_on_id=None) for member in plan.members),
            warnings=(
                *plan.warnings,
                "Which partitions go where may depend on the ids of new members, which are not "
                f"known; {where} it is not found out which do.",
            ),
        )
        for plan in plans
    ]


def _marked(plan: AssignPlan, others: Sequence[AssignPlan | None]) -> AssignPlan:
    if plan.assignment is None:
        if any(other is not None and other.assignment is not None for other in others):
            warning = "Whether it fails depends on the ids of new members, which are not known."
            return replace(plan, warnings=(*plan.warnings, warning))
        return plan
    always: set[Move] = set(plan.moves)
    unsure: set[str] = set()
    for other in others:
        always &= set(other.moves) if other is not None else set()
        for member, partitions in plan.assignment.items():
            there = other.assignment if other is not None else None
            if there is None or set(there[member]) != set(partitions):
                unsure.add(member)
    warnings = list(plan.warnings)
    counts = (
        (len(plan.moves) - len(always), len(plan.moves), "moves"),
        (len(unsure), len(plan.members), "members"),
    )
    parts = [f"{some} of {every} {what}" for some, every, what in counts if some]
    if parts:
        warnings.append(
            f"What comes of {' and of '.join(parts)} depends on the ids of new members, which are "
            "not known."
        )
    errors = [other.error for other in others if other is not None and other.error is not None]
    if errors:
        warnings.append(
            f"With {len(errors)} of {len(others)} other ids of new members Kafka's own assignor "
            f"fails: {': '.join(filter(None, (errors[0].type, errors[0].message)))}."
        )
    return replace(
        plan,
        moves=tuple(move._replace(depends_on_id=move not in always) for move in plan.moves),
        members=tuple(
            replace(member, depends_on_id=member.member_id in unsure) for member in plan.members
        ),
        warnings=tuple(warnings),
    )


_MOST_REBALANCES = 10
_RESTLESS = (
    f"The group may never come to rest: after {_MOST_REBALANCES} more rebalances members still "
    "give up partitions, and join again."
)
_MANY_RESTARTS = "in a restart of so many members and partitions"
_RACING = (
    "The group may get another assignment than this one: where a member gives up partitions and "
    "joins again before another one has taken its part of the rebalance before, it ends otherwise."
)


@dataclass(frozen=True, slots=True)
class Run:
    """A rebalance and those that follow of themselves, until nothing is left to move.

    Attributes:
        first: the rebalance.
        following: those after it; only cooperative ones need any.
        what: why it happens, in a rolling restart.
        what_of_whom: the same with the id of the member, where others have its client id too.
        rank: of its strategy among those that were compared, 1 is the best; None: none were.
    """

    first: AssignPlan
    following: tuple[AssignPlan, ...] = ()
    what: str | None = None
    what_of_whom: str | None = None
    rank: int | None = None

    @property
    def plans(self) -> tuple[AssignPlan, ...]:
        """All rebalances, in order."""
        return self.first, *self.following

    @property
    def last(self) -> AssignPlan:
        """The one after which all is settled."""
        return self.plans[-1]

    @property
    def error(self) -> AssignFailure | None:
        """Why Kafka's own assignor does not come to an end; None where it does."""
        return self.last.error


@dataclass(frozen=True, slots=True)
class Bounce:
    """A rolling restart of a whole group; more attributes as in `AssignPlan`.

    Attributes:
        dynamic: members that leave when they stop and are new when they start.
        static: members that come back as who they were, within their session timeout: no rebalance
            happens (KIP-345, KIP-848).
        runs: what dynamic members set off by leaving and coming back, in order.
        can_be_static: whether all members could be static ones. Then the whole restart would need
            no rebalance, and move nothing.
    """

    id: str | None
    protocol: str
    strategy: str
    computed_as: str
    dynamic: int
    static: int
    runs: tuple[Run, ...]
    can_be_static: bool

    @property
    def plans(self) -> tuple[AssignPlan, ...]:
        """All rebalances, in order."""
        return tuple(plan for run in self.runs for plan in run.plans)

    @property
    def moves(self) -> int:
        """How often a partition is taken from a member."""
        return sum(len(plan.moves) for plan in self.plans)

    @property
    def error(self) -> AssignFailure | None:
        """Why Kafka's own assignor does not come to an end; None where it does."""
        return self.runs[-1].error if self.runs else None


def settled(spec: GroupSpec, *, alone: bool = False) -> Run:
    """Assign a group until nothing is left to move, or once only if `alone`.

    What depends on unknown ids of members is marked.
    """
    most = 0 if alone else _MOST_REBALANCES
    run, _ = _settle(spec, most=most)
    if is_small(spec) and run.error is None and 0 < len(run.following) < most:
        end = _shares(run)
        if any(_shares(other) != end for other in _races(spec, run.first)):
            *following, last = run.following
            last = replace(last, warnings=(*last.warnings, _RACING))
            run = replace(run, following=(*following, last))
    if not any(member.unknown_id for member in spec.members):
        return run
    if is_small(spec):
        tries = [_settle(spec, most=most, seed=seed)[0].plans for seed in SEEDS]
        return _with_plans(run, mark(run.plans, tries))
    return _with_plans(run, unmarked(run.plans))


def _with_plans(run: Run, plans: Sequence[AssignPlan]) -> Run:
    return replace(run, first=plans[0], following=tuple(plans[1:]))


def _races(spec: GroupSpec, first: AssignPlan) -> Iterator[Run]:
    """Yield what follows where one member that gets another part has not taken it in time.

    It joins again with what it had, as a leader of the first members that give up something calls
    all for the next rebalance. The first few such members are tried.
    """
    assert first.assignment is not None
    joined = after(spec, first)
    giving = {move.from_member for move in first.moves}.intersection(first.assignment)
    late = [
        member
        for member in spec.members
        if giving - {member.member_id}
        and set(member.owned or ()) != set(first.assignment[member.member_id])
    ]
    for member in islice(late, TRIES):
        members = tuple(
            member if each.member_id == member.member_id else each for each in joined.members
        )
        yield _settle(replace(joined, members=members))[0]


def _shares(run: Run) -> dict[str, frozenset[TopicPartition]] | None:
    """Return what each member has in the end, in no order; None where the run fails."""
    if run.last.assignment is None:
        return None
    return {member_id: frozenset(own) for member_id, own in run.last.assignment.items()}


def compared(spec: GroupSpec) -> list[Run]:
    """Assign a group with every strategy of its protocol; the least moves, then balance, first."""
    runs = [
        settled(replace(spec, strategy=name))
        for name in strategies(spec.protocol, spec.computed_as)
    ]

    def cost(run: Run) -> tuple[bool, int, float]:
        balance = run.last.balance
        return balance is None, len(run.first.moves), balance.deviation if balance else 0.0

    return [replace(run, rank=rank) for rank, run in enumerate(sorted(runs, key=cost), 1)]


def bounced(spec: GroupSpec) -> Bounce:
    """Restart every member in turn: it leaves, and comes back.

    With a static member that is no rebalance, if it is back within its session timeout
    (`GroupMetadataManager.updateStaticMemberThenRebalanceOrCompleteJoin`). What depends on the new
    ids of members is marked.
    """
    runs = _bounce(spec)
    if is_small_restart(spec):
        tries = [_bounce(spec, seed) for seed in SEEDS]
        for at, run in enumerate(runs):
            others = [other[at].plans if at < len(other) else () for other in tries]
            runs[at] = _with_plans(run, mark(run.plans, others))
    static = len(spec.members) - len(_dynamic(spec))
    return Bounce(
        spec.id,
        spec.protocol,
        spec.strategy,
        str(spec.computed_as),
        len(spec.members) - static,
        static,
        tuple(runs),
        spec.may_be_static(spec.computed_as),
    )


def _dynamic(spec: GroupSpec) -> list[MemberSpec]:
    """Return the members that are new when they come back; some libraries have no static ones."""
    return [
        member
        for member in spec.members
        if member.instance_id is None or not spec.may_be_static(spec.client_of(member))
    ]


def _bounce(spec: GroupSpec, seed: int = 0) -> list[Run]:
    """Return what each member sets off; where that is too much to try other ids, marked as such."""
    is_small = is_small_restart(spec)
    is_unknown = False
    called = Counter(member.client_id for member in spec.members)
    runs: list[Run] = []
    for member in _dynamic(spec):
        member = next(each for each in spec.members if each.member_id == member.member_id)
        for change, what in ((leaves, "leaves"), (comes_back, "comes back")):
            spec = change(spec, member)
            if not spec.members:  # it was the only one
                continue
            name = member.client_id or member.member_id
            whose = member.member_id if called[member.client_id] > 1 else name
            run, spec = _settle(spec, seed=seed)
            run = replace(run, what=f"{name} {what}", what_of_whom=f"{whose} {what}")
            is_unknown = is_unknown or any(each.unknown_id for each in spec.members)
            if is_unknown and not is_small:
                run = _with_plans(run, unmarked(run.plans, _MANY_RESTARTS))
            runs.append(run)
            if run.error is not None:
                return runs
            spec = after(spec, run.last)
    return runs


def _settle(
    spec: GroupSpec, *, most: int = _MOST_REBALANCES, seed: int = 0
) -> tuple[Run, GroupSpec]:
    """Return the run, with so many following rebalances at most, and the group before the last one.

    A rebalance follows where members have to give up partitions while they go on with others: they
    join again then (`ConsumerCoordinator.onJoinComplete`).
    """
    first = plan = dry_run_as(spec, seed)
    following: list[AssignPlan] = []
    while plan.assignment is not None:
        revoked = any(move.from_member in plan.assignment for move in plan.moves)
        if plan.rebalance != "cooperative" or not revoked:
            break
        if len(following) == most:
            if following:
                following[-1] = replace(plan, warnings=(*plan.warnings, _RESTLESS))
            break
        spec = after(spec, plan)
        plan = dry_run_as(spec, seed)
        following.append(plan)
    return Run(first, tuple(following)), spec


class Mode(Enum):
    """Which rebalances are computed."""

    ONCE = auto()
    """The next one."""
    SETTLE = auto()
    """Also those that follow of themselves."""
    COMPARE = auto()
    """These, with every strategy."""
    BOUNCE = auto()
    """Those of a rolling restart."""


@dataclass(frozen=True, slots=True)
class AssignRequest:
    """What is asked about groups.

    Attributes:
        strategy: name of an assignor; None: each group's own.
        kafka_version: whose assignor is to be imitated; None: each group's own, or the newest.
        client: the library of the leaders of classic groups as `software` reads it, in place of a
            version of Kafka; None: as far as members tell it.
    """

    mode: Mode = Mode.ONCE
    strategy: str | None = None
    kafka_version: str | None = None
    client: str | None = None
    changes: Changes = field(default_factory=Changes)

    @property
    def software(self) -> Software | None:
        """The library that is asked for."""
        return None if self.client is None else software(self.client)


def assign_group(
    source: GroupSource, group_id: str, request: AssignRequest
) -> Report[Run | Bounce]:
    """Run the assignor of a source's group dry.

    Returns:
        One run, one for each strategy, best first, or one rolling restart; it is partly done where
        Kafka's own assignor fails.

    Raises:
        NotFoundError: there is no such group, or none of its members or topics is so called.
        InputError: nobody can tell what the group's members subscribe to.
        UsageError: there is no such strategy for the group, or a change makes no sense.
    """
    group = read_group(
        source,
        group_id,
        strategy=request.strategy,
        kafka_version=request.kafka_version,
        client=request.software,
        topics=request.changes.subscribed_topics,
    )
    return _assign(group, request)


def assign_specs(text: bytes, path: str, request: AssignRequest) -> Report[Run | Bounce]:
    """Run the assignors of specs dry, as `assign_group` does; what is no spec is an error.

    Args:
        text: JSON or JSON lines, see `read_specs`.
        path: what to call it in errors.
        request: what is asked.
    """
    read = read_specs(text, path, request.strategy, request.kafka_version, request.software)
    return _assign(read, request)


def _assign(read: Report[GroupSpec], request: AssignRequest) -> Report[Run | Bounce]:
    specs = [changed(spec, request.changes) for spec in read.data]
    run = _RUNS[request.mode]
    rows = tuple(row for spec in specs for row in run(spec))
    has_failed = any(row.error is not None for row in rows)
    later = None if request.client is None else later_note(request.client)
    of_changes = (note for spec in read.data for note in notes(spec, request.changes))
    told = tuple(dict.fromkeys((*filter(None, (later,)), *read.notes, *of_changes)))
    return Report(rows, read.errors, told, ExitStatus.PARTLY if has_failed else None)


_RUNS: Mapping[Mode, Callable[[GroupSpec], Sequence[Run] | Sequence[Bounce]]] = {
    Mode.ONCE: lambda spec: [settled(spec, alone=True)],
    Mode.SETTLE: lambda spec: [settled(spec)],
    Mode.COMPARE: compared,
    Mode.BOUNCE: lambda spec: [bounced(spec)],
}
