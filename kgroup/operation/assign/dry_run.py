"""Dry runs of a group or of specs: with what-if changes, strategies and several rebalances."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum, auto
from itertools import islice
from random import Random

from msgspec import structs

from kgroup.assignor.client_facts import ON_ERROR
from kgroup.assignor.group_spec import GroupSpec
from kgroup.assignor.kafka_streams import CLASSIC_STREAMS
from kgroup.assignor.member_spec import MemberSpec, Software
from kgroup.assignor.strategy import strategies
from kgroup.errors import ExitStatus, UsageError
from kgroup.model.client_library import (
    AIOKAFKA,
    FRANZ_GO,
    KAFKA_CLIENTS,
    KAFKA_PYTHON,
    LIBRDKAFKA,
    SARAMA,
)
from kgroup.operation.assign.classic_streams import probing_note
from kgroup.operation.assign.client import assumptions, later_note, software, version_of
from kgroup.operation.assign.connect import CONNECT, during_delay
from kgroup.operation.assign.group import read_group
from kgroup.operation.assign.group_record import (
    accepted_record_bytes,
    assigned_record_bytes,
    assigned_record_notes,
)
from kgroup.operation.assign.outcome import (
    AssignFailure,
    AssignPlan,
    after,
    joining,
    other_plans,
    staying,
)
from kgroup.operation.assign.spec import read_specs
from kgroup.operation.assign.topic_change import noticing
from kgroup.operation.assign.unknown_ids import (
    MOST_JOINS,
    SEEDS,
    TRIES,
    dry_run_as,
    has_many_joins,
    is_small,
    is_small_restart,
    made_up,
    mark,
    random_ids,
    renamed,
    seeds,
    tasks_of,
    unmarked,
    with_known_orders,
)
from kgroup.operation.assign.vote import assignor_of, last_joined
from kgroup.operation.assign.what_if import (
    Changes,
    can_stay,
    changed,
    comes_back,
    forgetful,
    is_static,
    leaves,
    notes,
)
from kgroup.operation.report import Report
from kgroup.source.base import GroupSource

_MOST_REBALANCES = 10
_RESTLESS = (
    f"The group may never become stable: after {_MOST_REBALANCES} more rebalances, "
    "members still revoke partitions and rejoin."
)
_MANY_JOINS = "for this many new members and partitions"
_CHANGES = "the group changes"
_MANY_RESTARTS = "for a restart of this many members and partitions"
_ONE_AFTER_ANOTHER = (
    "Members of {} notice new topics that match their pattern, and deleted topics, one after "
    "another. The group may need several rebalances, in which other partitions move, too; computed "
    "as if all noticed them at once."
)
_IN_OTHER_STEPS = dict.fromkeys(
    ("consumer", "share"),
    "The actual assignment may be different: computed as if the coordinator assigned once after "
    "all members have left, and once after each that joins. It depends on the heartbeats of "
    "others.",
) | {
    "streams": "The actual assignment may be different: computed as if the coordinator assigned "
    "once after all members have left, and for each new process to its first thread, then to all. "
    "It depends on the heartbeats of others."
}
_IN_SEVERAL = (
    "The actual assignment may be different: computed as if {} in a single rebalance. If {}, there "
    "are several."
)
_AWAY = (
    "The actual assignment may be different: computed as if static members that restart had "
    "returned before the rebalance. If they return during it, they claim no partitions."
)
_RACING = (
    "The actual assignment may be different if a member revokes partitions and rejoins before "
    "another one has completed the previous rebalance."
)


@dataclass(frozen=True, slots=True)
class Run:
    """A rebalance and its automatic follow-up rebalances, until no partition moves.

    Attributes:
        first: the rebalance.
        following: follow-up rebalances; only the cooperative protocol has any.
        what: cause of the rebalance in a rolling restart.
        what_of_whom: the cause with the member id instead of the client id, if the latter is not
            unique.
        rank: rank of its strategy in a comparison, 1 is the best; None without a comparison.
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
        """The last rebalance, after which the group is stable."""
        return self.plans[-1]

    @property
    def error(self) -> AssignFailure | None:
        """Failure of the assignor in the last rebalance; None if it succeeds."""
        return self.last.error


@dataclass(frozen=True, slots=True)
class Bounce:
    """A rolling restart of a whole group; more attributes as in `AssignPlan`.

    Attributes:
        dynamic: number of dynamic members, which leave on shutdown and are new on startup.
        static: number of static members, which return within their session timeout without a
            rebalance (KIP-345, KIP-848).
        runs: rebalances of dynamic members that leave and rejoin, in order.
        can_be_static: whether all members could be static. The restart would then need no rebalance
            and move no partition.
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
        """The number of moves of partitions, over all rebalances."""
        return sum(len(plan.moves) for plan in self.plans)

    @property
    def error(self) -> AssignFailure | None:
        """Failure of the assignor in the last rebalance; None if it succeeds."""
        return self.runs[-1].error if self.runs else None


def settled(spec: GroupSpec, *, alone: bool = False) -> Run:
    """Run rebalances until no partition moves, or a single one if `alone`.

    Results that depend on unknown member ids are marked.
    """
    most = 0 if alone else _MOST_REBALANCES
    other = list(_other_steps(spec)) if is_small(spec) else []
    # With Connect, the leader that comes next has no memory, whoever joins before or after that.
    is_apart = spec.protocol == CONNECT and is_small(spec)
    is_apart = is_apart and bool(spec.departed and joining(spec) and staying(spec))
    # What follows may end alike, so the first cooperative rebalance alone is not compared.
    is_compared_later = alone and (is_apart or (spec.is_cooperative and bool(other)))
    run = end = _settled(spec, _MOST_REBALANCES if is_compared_later else most)
    if is_compared_later:
        run = Run(end.first)
    if run.error is not None:
        return run
    # Workers and threads of Streams stop what they give up before they join again.
    may_race = spec.protocol not in (CONNECT, CLASSIC_STREAMS)
    may_race = may_race and is_small(spec) and 0 < len(run.following) < most
    if may_race and any(not _ends_like(run, other.last) for other in _races(spec, run.first)):
        run = _warned(run, _RACING)
    if is_small(spec):
        ids = random_ids(spec, 0)
        names = {made: name for name, made in ids.items()}
        for plan in other_plans(made_up(spec, ids, 0) if ids else spec):
            if not _ends_like(run, renamed(plan, names)):
                run = _warned(run, _IN_OTHER_STEPS[spec.protocol])
                break
    if is_apart and not _ends_like(end, _joined_later(spec).last):
        what = "workers leave and join", "the others have rejoined before a new worker joins"
        run = _warned(run, _IN_SEVERAL.format(*what))
    for warning, steps in other:
        if warning not in run.last.warnings and not _ends_like(end, _in_steps(steps)):
            run = _warned(run, warning)
    parts = noticing(spec)
    if parts:
        # Recorded: members that noticed late kept partitions of the deleted topic.
        is_open = (spec.dropped_topics and spec.is_cooperative) or not is_small(spec)
        if is_open or any(not _ends_like(run, late.last) for late in _noticed(spec, parts, most)):
            libraries = {spec.client_of(member).name for part in parts for member in part}
            who = " and ".join(sorted(libraries))
            who = who if spec.protocol == "classic" else "the classic protocol"
            run = _warned(run, _ONE_AFTER_ANOTHER.format(who))
    return run


def _settled(spec: GroupSpec, most: int) -> Run:
    """Run the rebalance and at most `most` follow-up rebalances; mark what depends on ids."""
    run, _ = _settle(spec, most=most)
    if not any(member.unknown_id for member in (*spec.members, *spec.returning)):
        return run
    if not is_small(spec):
        where = (_MANY_JOINS,) if has_many_joins(spec) else ()
        return _with_plans(run, unmarked(run.plans, *where))

    def tried(group: GroupSpec, seed: int) -> Sequence[Run]:
        return [_settle(group, most=most, seed=seed)[0]]

    (marked,) = _marked([run], spec, seeds(spec), tried)
    return marked


def _marked(
    runs: Sequence[Run],
    spec: GroupSpec,
    seeds: range,
    tried: Callable[[GroupSpec, int], Sequence[Run]],
) -> list[Run]:
    """Mark what depends on unknown values of new members: what differs in other runs by seed."""
    ordered = with_known_orders(spec)
    tries = [tried(spec, seed) for seed in seeds]
    by_ids = tries if ordered is None else [tried(ordered, seed) for seed in seeds]

    def others(at: int, tries: Sequence[Sequence[Run]]) -> list[tuple[AssignPlan, ...]]:
        return [other[at].plans if at < len(other) else () for other in tries]

    return [
        _with_plans(run, mark(run.plans, others(at, tries), others(at, by_ids)))
        for at, run in enumerate(runs)
    ]


def _ends_like(run: Run, plan: AssignPlan | None) -> bool:
    """Return whether members have the same in the end, except those that are marked."""
    if run.last.assignment is None or plan is None or plan.assignment is None:
        return False
    return all(
        tasks_of(run.last, member.member_id) == tasks_of(plan, member.member_id)
        for member in run.last.members
        if not member.depends_on_id
    )


def _with_plans(run: Run, plans: Sequence[AssignPlan]) -> Run:
    return replace(run, first=plans[0], following=tuple(plans[1:]))


_MOST_JOIN_AT_ONCE = 2
"""Of more new members, some are likely to join later than others."""

_JOIN_APART = frozenset({KAFKA_PYTHON, AIOKAFKA, LIBRDKAFKA})
"""Libraries of which even two have joined in two rebalances in recordings."""


def _other_steps(spec: GroupSpec) -> Iterator[tuple[str, Iterable[GroupSpec]]]:
    """Yield what else may happen: the warning, and the group before each rebalance.

    It matters to strategies with memory. Members that restart may be back only after a rebalance
    without them; with `cooperative-sticky`, that mostly matters, and a note says so (`notes`) if
    not many members of Java restart, which then happens (recorded).
    Sarama looks for all subscribed topics before it joins, and tries again if one does not exist.
    New members join one by one; above `MOST_JOINS`, in as many chunks.
    """
    has_memory = spec.strategy in ("sticky", "cooperative-sticky")
    if spec.protocol != "classic" or not has_memory:
        return
    new, others = joining(spec), staying(spec)
    of_java = [each for each in spec.departed if spec.client_of(each).name == KAFKA_CLIENTS]
    is_late = spec.strategy == "sticky" or spec.have_left or len(of_java) > _MOST_JOIN_AT_ONCE
    if new and others and spec.departed and is_late:
        first = replace(spec, members=others)
        what = "members leave and join", "the others have rejoined before a new member joins"
        yield _IN_SEVERAL.format(*what), (first, spec)
    waits = any(SARAMA in (m.may_be or {spec.client_of(m).name}) for m in spec.members) and any(
        topic not in spec.topics for member in new for topic in member.topics
    )
    back = {member.client_id for member in spec.departed}
    is_apart = any(spec.client_of(member).name in _JOIN_APART for member in spec.members)
    most = 1 if is_apart else _MOST_JOIN_AT_ONCE
    many = sum(member.client_id not in back for member in new) > most
    if len(new) > 1 and (many or waits or not others):
        what = "all new members join", "some join later"
        parts = min(len(new), MOST_JOINS)
        yield (
            _IN_SEVERAL.format(*what),
            (
                replace(spec, members=(*others, *new[: -(-len(new) * at // parts)]))
                for at in range(1, parts + 1)
            ),
        )
    changed_topics = sorted(spec.new_topics.union(spec.grown_topics))
    if changed_topics and (new or spec.departed):
        what = "members leave or join, and topics change,", "topics are noticed later"
        yield _IN_SEVERAL.format(*what), (_before(spec, changed_topics), spec)
    if len(changed_topics) > 1:
        what = "all topics change", "one is noticed later"
        for at in (0, -1):
            yield _IN_SEVERAL.format(*what), (_before(spec, [changed_topics[at]]), spec)
    if spec.restarting and (new or spec.departed or changed_topics):
        members = tuple(
            forgetful(member) if member.member_id in spec.restarting else member
            for member in spec.members
        )
        yield _AWAY, (replace(spec, members=members),)


def _joined_later(spec: GroupSpec) -> Run:
    """Return the run of Connect's new workers if they join after the others have rejoined."""
    run, group = _settle(
        replace(spec, members=staying(spec)), most=_MOST_REBALANCES, waits=False, warns=False
    )
    group = after(group, run.last)
    if run.last.connect is not None:
        group = during_delay(group, run.last.connect)
    return _settle(
        replace(group, members=(*group.members, *joining(spec))), most=_MOST_REBALANCES, warns=False
    )[0]


def _before(spec: GroupSpec, unnoticed: Sequence[str]) -> GroupSpec:
    """Return the group as if some topics had not yet changed."""
    new = spec.new_topics.intersection(unnoticed)
    topics = {name: topic for name, topic in spec.topics.items() if name not in new}
    topics |= {name: spec.grown_topics[name] for name in unnoticed if name in spec.grown_topics}
    members = tuple(
        replace(member, topics=tuple(name for name in member.topics if name not in new))
        for member in spec.members
    )
    return replace(spec, members=members, topics=topics)


def _in_steps(steps: Iterable[GroupSpec]) -> AssignPlan | None:
    """Return the last rebalance after several changes, without warnings; None if a run fails."""
    plan: AssignPlan | None = None
    last: GroupSpec | None = None
    for step in steps:
        if last is not None:
            known = {member.member_id: member for member in last.members}
            step = replace(
                step,
                departed=(),
                members=tuple(
                    structs.replace(known.get(member.member_id, member), topics=member.topics)
                    for member in step.members
                ),
            )
        run, group = _settle(step, warns=False)
        plan = run.last
        if plan.assignment is None:
            return None
        last = after(group, plan)
    return plan


_ANSWER_IN_BACKGROUND = frozenset({LIBRDKAFKA, FRANZ_GO, SARAMA})
"""Libraries whose members send SyncGroup at once, whatever the application does."""


def _races(spec: GroupSpec, first: AssignPlan) -> Iterator[Run]:
    """Yield runs in which one member with a new assignment has not received it in time.

    Members that revoke partitions rejoin, which starts the next rebalance; the late member then
    joins with its previous partitions. It is one that asks for its assignment only when its
    application polls; never the leader, as others get theirs when it sends them. At most the first
    `TRIES` such members are tried.
    """
    assert first.assignment is not None
    joined = after(spec, first)
    giving = {move.from_member for move in first.moves}.intersection(first.assignment)
    late = [
        member
        for member in spec.members
        if giving - {member.member_id}
        and member.member_id != spec.leader_id
        and not _libraries(spec, member) <= _ANSWER_IN_BACKGROUND
        and set(member.owned or ()) != set(first.assignment[member.member_id])
    ]
    for member in islice(late, TRIES):
        members = tuple(
            member if other.member_id == member.member_id else other for other in joined.members
        )
        yield _settle(replace(joined, members=members), warns=False)[0]


def _libraries(spec: GroupSpec, member: MemberSpec) -> frozenset[str]:
    """Return the libraries that a member may have."""
    known = frozenset({spec.client_of(member).name})
    return known if member.certain_client else known | (member.may_be or frozenset())


def _warned(run: Run, warning: str) -> Run:
    *before, last = run.plans
    return _with_plans(run, (*before, replace(last, warnings=(*last.warnings, warning))))


def _noticed(spec: GroupSpec, parts: Sequence[Sequence[MemberSpec]], most: int) -> Iterator[Run]:
    """Yield runs in which parts of the group notice new topics in some order, one after another."""
    ids = [{member.member_id for member in part} for part in parts]
    for seed in SEEDS:
        order = Random(seed).sample(ids, len(ids))
        group, run = spec, None
        for number in range(1, len(order) + 1):
            unaware = set().union(*order[number:])
            members = (
                replace(
                    member,
                    topics=_without(every.topics, spec) if is_unaware else every.topics,
                    matched=_without(every.matched, spec) if is_unaware else every.matched,
                )
                for member, every in zip(group.members, spec.members, strict=True)
                for is_unaware in (member.member_id in unaware,)
            )
            run, group = _settle(replace(group, members=tuple(members)), most=most, warns=False)
            if run.last.assignment is None:
                break
            group = after(group, run.last)
        if run is not None:
            yield run


def _without(topics: Sequence[str], spec: GroupSpec) -> tuple[str, ...]:
    return tuple(topic for topic in topics if topic not in spec.new_topics)


def compared(spec: GroupSpec) -> list[Run]:
    """Run all strategies of the group's protocol; sort by moves, then by balance."""
    if spec.protocol == "consumer":
        spec = replace(spec, has_votes=None)
    runs = [
        settled(replace(spec, strategy=name))
        for name in strategies(spec.protocol, spec.computed_as)
    ]

    def cost(run: Run) -> tuple[bool, int, float]:
        balance = run.last.balance
        return balance is None, len(run.first.moves), balance.deviation if balance else 0.0

    return [replace(run, rank=rank) for rank, run in enumerate(sorted(runs, key=cost), 1)]


def bounced(spec: GroupSpec, *, is_changed: bool = False) -> Bounce:
    """Restart every member in turn: it leaves and rejoins.

    A static member that returns within its session timeout causes no rebalance
    (`GroupMetadataManager.updateStaticMemberThenRebalanceOrCompleteJoin`). Results that depend on
    the new member ids are marked.

    Args:
        spec: the group.
        is_changed: whether its members or topics have changed, so that it is assigned first.
    """
    runs = _bounce(spec, is_changed)
    if is_small_restart(spec):
        runs = _marked(runs, spec, SEEDS, lambda group, seed: _bounce(group, is_changed, seed))
    static = len(spec.members) - len(_dynamic(spec))
    return Bounce(
        spec.id,
        spec.protocol,
        spec.strategy,
        str(spec.computed_as),
        len(spec.members) - static,
        static,
        tuple(runs),
        can_stay(spec, spec.computed_as),
    )


def _dynamic(spec: GroupSpec) -> list[MemberSpec]:
    """Return the members that are new after a restart; some libraries have no static members."""
    return [member for member in spec.members if not is_static(spec, member)]


def _bounce(spec: GroupSpec, is_changed: bool, seed: int = 0) -> list[Run]:
    """Return the rebalances that members cause; mark them as unchecked if repetitions take long."""
    is_small = is_small_restart(spec)
    is_unknown = False
    called = Counter(member.client_id for member in spec.members)
    # What only new members are known to prefer counts as long as they are there.
    is_voted = spec.protocol == "consumer" and (
        spec.has_votes
        or (spec.has_votes is False and any(m.assignor == spec.strategy for m in spec.members))
    )
    runs: list[Run] = []
    if is_changed:
        run, spec = _settle(spec, seed=seed)
        run = replace(run, what=_CHANGES, what_of_whom=_CHANGES)
        is_unknown = any(member.unknown_id for member in spec.members)
        runs.append(_with_plans(run, unmarked(run.plans)) if is_unknown and not is_small else run)
        if run.error is not None:
            return runs
        spec = after(spec, run.last)
    for member in _dynamic(spec):
        member = next(current for current in spec.members if current.member_id == member.member_id)
        for change, what in ((leaves, "leaves"), (comes_back, "comes back")):
            spec = change(spec, member)
            if not spec.members:  # the only member has left
                continue
            if is_voted:
                spec = replace(spec, strategy=assignor_of(spec.members, last_joined(spec.members)))
            name = member.client_id or member.member_id
            whose = member.member_id if called[member.client_id] > 1 else name
            is_leaving = change is leaves
            run, spec = _settle(spec, seed=seed, waits=not is_leaving)
            run = replace(run, what=f"{name} {what}", what_of_whom=f"{whose} {what}")
            is_unknown = is_unknown or any(member.unknown_id for member in spec.members)
            if is_unknown and not is_small:
                run = _with_plans(run, unmarked(run.plans, _MANY_RESTARTS))
            runs.append(run)
            if run.error is not None:
                return runs
            spec = after(spec, run.last)
            if is_leaving and run.last.connect is not None:
                spec = during_delay(spec, run.last.connect)
    return runs


def _settle(
    spec: GroupSpec,
    *,
    most: int = _MOST_REBALANCES,
    seed: int = 0,
    waits: bool = True,
    warns: bool = True,
) -> tuple[Run, GroupSpec]:
    """Return a run with at most `most` follow-up rebalances, and the group before the last one.

    In the cooperative protocol, members that revoke partitions rejoin, which causes a follow-up
    rebalance (`ConsumerCoordinator.onJoinComplete`). So does the end of a delay of Connect, and a
    probing rebalance of Streams, unless `waits` is false.
    """
    first = plan = dry_run_as(spec, seed, warns=warns)
    following: list[AssignPlan] = []
    while plan.assignment is not None:
        # Who gives up everything before it joins revokes nothing afterwards.
        revoking = {m.member_id for m in spec.members if m.keeps is not False}
        if not _is_followed(plan, revoking, waits=waits):
            break
        if len(following) == most:
            if following:
                following[-1] = replace(plan, warnings=(*plan.warnings, _RESTLESS))
            break
        spec = after(spec, plan)
        plan = dry_run_as(spec, seed, warns=warns)
        following.append(plan)
    return Run(first, tuple(following)), spec


def _is_followed(plan: AssignPlan, revoking: Collection[str], *, waits: bool) -> bool:
    if plan.connect is not None:
        is_delayed = waits and plan.connect.delay_ms > 0
        return plan.connect.is_at_once or plan.connect.is_awaiting or is_delayed
    if plan.streams is not None:
        return plan.streams.is_at_once or (waits and plan.streams.delay_ms > 0)
    revoked = any(move.from_member in revoking for move in plan.moves)
    return plan.rebalance == "cooperative" and revoked


class Mode(Enum):
    """The rebalances to compute."""

    ONCE = auto()
    """The next rebalance."""
    SETTLE = auto()
    """The next rebalance and its follow-up rebalances."""
    COMPARE = auto()
    """The next rebalance and its follow-up rebalances, for every strategy."""
    BOUNCE = auto()
    """The rebalances of a rolling restart."""


@dataclass(frozen=True, slots=True)
class AssignRequest:
    """Options of a dry run.

    Attributes:
        strategy: name of an assignor; None: the group's own.
        kafka_version: Kafka version of the assignor; None: the group's own, or the newest.
        client: client library of the leaders of classic groups, in the format of `software`,
            instead of a Kafka version; None: as identified from the members.
    """

    mode: Mode = Mode.ONCE
    strategy: str | None = None
    kafka_version: str | None = None
    client: str | None = None
    changes: Changes = field(default_factory=Changes)

    @property
    def software(self) -> Software | None:
        """The requested client library."""
        return None if self.client is None else software(self.client)


def assign_group(
    source: GroupSource, group_id: str, request: AssignRequest
) -> Report[Run | Bounce]:
    """Run the assignor of a group without changing the group.

    Returns:
        One run; or one run for each strategy, best first; or one rolling restart. The exit status
        is PARTLY if the assignor fails.

    Raises:
        NotFoundError: the group, or a member or topic to change, does not exist.
        InputError: the subscriptions of the members are unknown.
        UsageError: the group has no such strategy, or a change is impossible.
    """
    changes = request.changes
    is_known = all(
        (added.topics or added.regex) and (request.strategy or added.strategies or added.library)
        for added in changes.add
    )
    group = read_group(
        source,
        group_id,
        strategy=request.strategy,
        kafka_version=request.kafka_version,
        client=request.software,
        topics=changes.subscribed_topics | changes.matching(source.topic_names),
        generations=bool(changes.remove or changes.restart or changes.add),
        may_be_empty=bool(changes.add) and is_known,
    )
    return _assign(group, [_changed(spec, request) for spec in group.data], request, source)


def assign_specs(text: bytes, path: str, request: AssignRequest) -> Report[Run | Bounce]:
    """Run the assignors of specs, as `assign_group` does.

    Invalid specs are errors, and those of which the request cannot be met, unless all are.

    Args:
        text: JSON or JSON lines, see `read_specs`.
        path: name of the file, for errors.
        request: options of the dry run.
    """
    specs: list[GroupSpec] = []
    read = read_specs(
        text,
        path,
        request.strategy,
        request.kafka_version,
        request.software,
        lambda spec: specs.append(_changed(spec, request)),
    )
    return _assign(read, specs, request)


def _assign(
    read: Report[GroupSpec],
    specs: Sequence[GroupSpec],
    request: AssignRequest,
    source: GroupSource | None = None,
) -> Report[Run | Bounce]:
    """Run the assignors of groups; `specs` has them with the requested changes."""
    changes = request.changes
    by_spec = [
        (spec, _RUNS[request.mode](spec, request.strategy is not None or _is_changed(spec, old)))
        for spec, old in zip(specs, read.data, strict=True)
    ]
    rows = tuple(row for _, runs in by_spec for row in runs)
    has_failed = any(row.error is not None for row in rows)
    is_quiet = bool(rows) and all(len(row.plans) == 1 and not row.error for row in rows)
    size = _largest_record(by_spec)
    accepted = max(map(accepted_record_bytes, read.data), default=0) if size and source else 0
    probing = (
        probing_note(spec)
        for spec, rows in by_spec
        if any(plan.streams and plan.streams.delay_ms for row in rows for plan in row.plans)
    )
    all_notes = (
        later_note(request.client) if request.client is not None else None,
        *probing,
        *read.notes,
        *(note for spec in read.data for note in notes(spec, changes)),
        *(note for spec in specs if not has_failed for note in _failures_later(spec, changes)),
        *(note for spec in specs for note in assumptions(spec)),
        *assigned_record_notes(source, size, accepted),
        "no rebalance follows" if request.mode is Mode.SETTLE and is_quiet else None,
    )
    distinct = tuple(dict.fromkeys(filter(None, all_notes)))
    return Report(rows, read.errors, distinct, ExitStatus.PARTLY if has_failed else None)


def _is_changed(spec: GroupSpec, old: GroupSpec) -> bool:
    """Return whether a group has other members, subscriptions or topics than before."""
    members, before = ([(m.member_id, m.topics) for m in each.members] for each in (spec, old))
    return (members, spec.topics) != (before, old.topics)


def led_later(spec: GroupSpec, client: Software, leader_id: str) -> AssignPlan:
    """Return the rebalance if a member with this library led."""
    return dry_run_as(replace(spec, client=client, leader_id=leader_id), 0, warns=False)


def failing(failure: AssignFailure, library: str) -> str:
    """Return how the assignor of a leader fails, and what the leader does then."""
    return f"its assignor fails with {failure}: {ON_ERROR[library].assignor_failed}"


def _failures_later(spec: GroupSpec, changes: Changes) -> Iterator[str]:
    """Yield a note for each named library of new members that cannot lead the group."""
    joined = {member.client: member.member_id for member in spec.members if member.unknown_id}
    for client in dict.fromkeys(software(added.library) for added in changes.add if added.library):
        if client in joined and client.name != spec.computed_as.name:
            error = led_later(spec, client, joined[client]).error
            if error is not None:
                then = failing(error, client.name)
                yield f"--add-member: when a member of {client.name} leads later, {then}"


def _changed(spec: GroupSpec, request: AssignRequest) -> GroupSpec:
    """Return the spec with the requested changes, and the version that the user named.

    Raises:
        UsageError: the software of a leader is requested, but the coordinator will assign.
    """
    if (
        spec.protocol == "classic"
        and any(added.protocol for added in request.changes.add)
        and (request.strategy or request.client or request.kafka_version)
    ):
        raise UsageError(
            "--add-member: with protocol=consumer, the coordinator assigns: omit --strategy, "
            "--client and --kafka-version; strategies= is group.remote.assignor"
        )
    if request.client is not None:
        spec = replace(spec, asked_version=version_of(request.client))
    return changed(spec, request.changes)


def _largest_record(by_spec: Sequence[tuple[GroupSpec, Sequence[Run | Bounce]]]) -> int:
    """Return the size of the largest record after the last rebalance of each run; 0 if none."""
    return max(
        (
            assigned_record_bytes(replace(spec, strategy=plan.strategy), plan.assignment) or 0
            for spec, rows in by_spec
            for row in rows
            for plan in row.plans[-1:]
            if plan.assignment is not None
        ),
        default=0,
    )


_RUNS: Mapping[Mode, Callable[[GroupSpec, bool], Sequence[Run] | Sequence[Bounce]]] = {
    Mode.ONCE: lambda spec, _: [settled(spec, alone=True)],
    Mode.SETTLE: lambda spec, _: [settled(spec)],
    Mode.COMPARE: lambda spec, _: compared(spec),
    Mode.BOUNCE: lambda spec, is_changed: [bounced(spec, is_changed=is_changed)],
}
