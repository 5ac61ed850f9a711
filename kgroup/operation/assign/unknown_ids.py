"""Repeated dry runs with random ids in place of unknown ones, and what depends on them.

The coordinator (classic groups) or the client (other groups) chooses the id of a new member at
random; the id of a ZooKeeper consumer begins with its host and the time. The order in which
assignors visit members depends on these ids. Therefore, a dry run uses random ids of the real
format in place of unknown ones. It is repeated with other ids, and results that differ are marked.
With libraries other than Java's, the result may also depend on the position of a new member in the
JoinGroup response and, if the member chooses it at random on startup, or its application is a new
one, on the order of its topics. Each repetition varies these, too; where results differ, further
repetitions vary all but the order.
"""

from __future__ import annotations

from base64 import urlsafe_b64encode
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import permutations
from random import Random
from string import ascii_lowercase
from typing import NamedTuple, TypeVar
from uuid import UUID

from msgspec import structs

from kgroup.assignor.group_spec import CLIENTS, GroupSpec
from kgroup.assignor.java.java_hash import utf16
from kgroup.assignor.kafka_streams import CLASSIC_STREAMS
from kgroup.assignor.member_spec import MemberSpec
from kgroup.model.client_library import KAFKA_CLIENTS
from kgroup.model.cluster import TopicPartition
from kgroup.operation.assign.classic_streams import NEW_PROCESS
from kgroup.operation.assign.outcome import AssignPlan, Move, dry_run, joining

_T = TypeVar("_T")

_FEW_TOPICS = 3
TRIES = 6
"""Number of repetitions: detects a result with probability 1/2 in 63 of 64 cases."""

SEEDS = range(1, 1 + TRIES)
"""Seeds of the repetitions."""

_MANY_SEEDS = range(1, 1 + 5 * TRIES)
"""Seeds for few partitions and members: detect a probability of 1/10 in 24 of 25 cases."""

_FEW = 100
"""Maximum number of partitions, and of members, for these."""

MOST_JOINS = 20
"""Maximum number of new members for these, and to try what happens if each joins alone."""

MOST_IDS = 5_000
"""Maximum number of partitions, and of members, for repetitions, which take a few seconds."""

_MOST_IN_RESTART = 50_000
"""Maximum for a rolling restart: this number, multiplied by the number of rebalances."""

_MOST_IN_TURN = 100_000
"""Maximum for new members for each of which the coordinator assigns: their number, multiplied."""

_LATER = (4_000_000_000_000, 5_000_000_000_000)
"""Start times of new ZooKeeper consumers: later than others, in ms with the same digits."""


def is_small(spec: GroupSpec) -> bool:
    """Return whether repeated dry runs of a group take little time."""
    return _size(spec) <= MOST_IDS and not has_many_joins(spec)


def has_many_joins(spec: GroupSpec) -> bool:
    """Return whether the coordinator assigns for so many new members that repetitions take long."""
    return spec.has_topic_ids and len(joining(spec)) * _size(spec) > _MOST_IN_TURN


def is_small_restart(spec: GroupSpec) -> bool:
    """Return whether repeated dry runs of a rolling restart take little time."""
    return 2 * len(spec.members) * _size(spec) <= _MOST_IN_RESTART


def seeds(spec: GroupSpec) -> range:
    """Return the seeds of the repetitions for a group."""
    is_few = _size(spec) <= _FEW and len(joining(spec)) <= MOST_JOINS
    return _MANY_SEEDS if is_few else SEEDS


def _size(spec: GroupSpec) -> int:
    return max(sum(topic.partitions for topic in spec.topics.values()), len(spec.members))


def dry_run_as(spec: GroupSpec, seed: int, *, warns: bool = True) -> AssignPlan:
    """Run the assignor with random ids in place of unknown ones; the plan has the original ids.

    Args:
        spec: the group.
        seed: seed of the random ids; 0 for the run that is shown, the only one with warnings.
        warns: whether that one has warnings.
    """
    ids = random_ids(spec, seed)
    if not ids:
        return dry_run(spec, warns=warns)
    processes = _random_processes(spec, seed)
    plan = dry_run(made_up(spec, ids, seed), warns=warns and not seed)
    plan = renamed(plan, {made: name for name, made in ids.items()})
    if plan.streams is not None:
        names = {made: name for name, made in {**processes, **ids}.items()}
        application = plan.streams.application.renamed(names)
        plan = replace(plan, streams=replace(plan.streams, application=application))
    return replace(plan, leader_id=spec.leader_id)


def made_up(spec: GroupSpec, ids: Mapping[str, str], seed: int) -> GroupSpec:
    """Return the group with possible ids in place of unknown ones, given by placeholder."""
    processes = _random_processes(spec, seed)
    members = tuple(
        structs.replace(
            m,
            member_id=ids[m.member_id],
            topics=_drawn(m, spec, seed),
            process_id=processes.get(m.process_id or "", m.process_id),
        )
        if m.unknown_id
        else m
        for m in spec.members
    )
    return replace(
        spec,
        members=members,
        leader_id=spec.leader_id and ids.get(spec.leader_id, spec.leader_id),
        member_order=_order(spec, ids, seed),
        connect=spec.connect and spec.connect.renamed(ids),
        application=spec.application and spec.application.renamed({**processes, **ids}),
    )


def _random_processes(spec: GroupSpec, seed: int) -> dict[str, str]:
    """Return a possible id for each new instance of Streams, by its placeholder."""
    names = {member.process_id or "" for member in spec.members}
    return {
        name: str(UUID(int=Random(f"{seed} {name}").getrandbits(128), version=4))
        for name in names
        if name.startswith(NEW_PROCESS)
    }


def _drawn(member: MemberSpec, spec: GroupSpec, seed: int) -> tuple[str, ...]:
    """Return a new member's topics in a possible order; for up to three, seeds cover all orders.

    With seed 0, this is the given order.
    """
    if not _is_order_open(member, spec):
        return member.topics
    if len(member.topics) <= _FEW_TOPICS:
        orders = list(permutations(member.topics))
        return orders[seed % len(orders)]
    return tuple(Random(seed).sample(member.topics, len(member.topics))) if seed else member.topics


def _is_order_open(member: MemberSpec, spec: GroupSpec) -> bool:
    """Return whether it is unknown in which order a new member names its topics."""
    if spec.protocol != "classic" or spec.are_orders_known or len(member.topics) < 2:
        return False
    return member.is_order_assumed or CLIENTS[spec.client_of(member).name].draws_topic_order


def with_known_orders(spec: GroupSpec) -> GroupSpec | None:
    """Return the group if only ids are unknown of new members; None if that is so anyway."""
    is_open = any(_is_order_open(member, spec) for member in spec.members)
    return replace(spec, are_orders_known=True) if is_open else None


def _order(spec: GroupSpec, ids: Mapping[str, str], seed: int) -> tuple[str, ...]:
    """Return the JoinGroup response's order: new members last with seed 0, else anywhere.

    The seeds spread the first new member over all positions.
    """
    if spec.protocol != "classic" or spec.computed_as.name == KAFKA_CLIENTS or not seed:
        return spec.member_order
    order = [member.member_id for member in spec.members_as_sent if member.member_id not in ids]
    for number, (name, made) in enumerate(ids.items()):
        spread = (seed - 1) % TRIES * (len(order) + 1) // TRIES
        at = Random(f"{seed} {name}").randint(0, len(order)) if number else spread
        order.insert(at, made)
    return tuple(order)


def random_ids(spec: GroupSpec, seed: int) -> dict[str, str]:
    """Return a possible member id for each new member, by its placeholder."""
    unknown = [structs.replace(m, client=spec.client_of(m)) for m in spec.members if m.unknown_id]
    libraries = {m.client.name for m in unknown if m.client is not None and not m.client_id}
    usual = {library: _usual_client_ids(spec, library) for library in libraries}
    return {member.member_id: _random_id(member, spec, usual, seed) for member in unknown}


def _usual_client_ids(spec: GroupSpec, library: str) -> Sequence[str]:
    """Return a library's most frequent client ids; none for Java, which numbers them."""
    if spec.protocol != "classic" or library == KAFKA_CLIENTS:
        return ()
    for members in (spec.members, spec.departed):
        alike = (member for member in members if spec.client_of(member).name == library)
        times = Counter(member.client_id for member in alike if member.client_id)
        if times:
            most = max(times.values())
            return [client_id for client_id, number in times.items() if number == most]
    return ()


def _random_id(
    member: MemberSpec, spec: GroupSpec, usual: Mapping[str, Sequence[str]], seed: int
) -> str:
    """Return a possible member id of a new member, whose library is set.

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
        if spec.protocol == "connect":  # the default client id has the worker's address
            host = "".join(random.choices(ascii_lowercase, k=8))
            return f"{member.client_id or f'connect-{host}:8083'}-{uuid}"
        if spec.protocol == CLASSIC_STREAMS:
            return f"{member.instance_id or _thread_name(member, spec, seed)}-{uuid}"
        if spec.protocol == "classic":
            return f"{_beginning(member, spec, usual, seed)}-{uuid}"
        text = urlsafe_b64encode(uuid.bytes).decode().rstrip("=")
        if not text.startswith("-"):
            return text


def _thread_name(member: MemberSpec, spec: GroupSpec, seed: int) -> str:
    """Return the client id of a Streams thread, which begins with that of its client."""
    if member.client_id and "-StreamThread-" in member.client_id:
        return member.client_id
    process = _random_processes(spec, seed).get(member.process_id or "", member.process_id)
    alike = [other.member_id for other in spec.members if other.process_id == member.process_id]
    client_id = member.client_id or f"{spec.id}-{process}"
    return f"{client_id}-StreamThread-{alike.index(member.member_id) + 1}-consumer"


def _beginning(
    member: MemberSpec, spec: GroupSpec, usual: Mapping[str, Sequence[str]], seed: int
) -> str:
    """Return the prefix of a member id: instance id, own client id, frequent or default one."""
    client = member.client
    assert client is not None
    if member.instance_id and spec.may_be_static(client):
        return member.instance_id
    if member.client_id:
        return member.client_id
    own = f"{seed} {member.member_id} client"
    if known := usual[client.name]:
        return Random(own).choice(known) if seed else known[0]
    default = CLIENTS[client.name].client_id
    word = "".join(Random(own).choices(ascii_lowercase, k=8)) if "{word}" in default else ""
    return default.format(group=spec.id or "group", version=client.version, word=word)


def renamed(plan: AssignPlan, names: Mapping[str, str]) -> AssignPlan:
    """Return the plan with other member ids; `names` has those that change."""

    def name(member_id: str) -> str:
        return names.get(member_id, member_id)

    def text(words: str) -> str:
        for changing, other in names.items():
            words = words.replace(changing, other)
        return words

    def by_name(values: Mapping[str, _T]) -> dict[str, _T]:
        return {name(member_id): value for member_id, value in values.items()}

    error, balance = plan.error, plan.balance
    if error is not None and error.message is not None:
        error = replace(error, message=text(error.message))
    if balance is not None:
        idle = tuple(sorted(map(name, balance.idle_members), key=utf16))
        balance = replace(balance, idle_members=idle)
    return replace(
        plan,
        before=by_name(plan.before),
        assignment=plan.assignment and by_name(plan.assignment),
        members=tuple(replace(member, member_id=name(member.member_id)) for member in plan.members),
        moves=tuple(
            move._replace(
                from_member=name(move.from_member),
                to_member=move.to_member and name(move.to_member),
            )
            for move in plan.moves
        ),
        error=error,
        warnings=tuple(map(text, plan.warnings)),
        balance=balance,
        connect=plan.connect and replace(plan.connect, cluster=plan.connect.cluster.renamed(names)),
        standby=plan.standby and by_name(plan.standby),
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


def mark(
    plans: Sequence[AssignPlan],
    tries: Sequence[Sequence[AssignPlan]],
    by_ids: Sequence[Sequence[AssignPlan]],
) -> list[AssignPlan]:
    """Mark results that differ with other ids, or topics in another order.

    Args:
        plans: a rebalance and its follow-up rebalances.
        tries: the same rebalances with other random ids and orders.
        by_ids: the same with other ids only.
    """

    def at(number: int, tries: Sequence[Sequence[AssignPlan]]) -> list[AssignPlan | None]:
        return [others[number] if number < len(others) else None for others in tries]

    return [
        _marked(plan, at(number, tries), at(number, by_ids)) for number, plan in enumerate(plans)
    ]


def unmarked(
    plans: Sequence[AssignPlan], where: str = f"above {MOST_IDS} partitions or members"
) -> list[AssignPlan]:
    """Add a warning that the dependence on unknown ids was not checked; `where` says why."""
    return [
        replace(
            plan,
            moves=tuple(move._replace(depends_on_id=None) for move in plan.moves),
            members=tuple(replace(member, depends_on_id=None) for member in plan.members),
            warnings=(
                *plan.warnings,
                "The assignment may depend on the ids of new members, which are unknown; "
                f"{where}, kgroup does not check which partitions depend on them.",
            ),
        )
        for plan in plans
    ]


class _Differences(NamedTuple):
    """What is not the same in other runs of a rebalance."""

    moves: frozenset[Move]
    members: frozenset[str]
    is_failure_open: bool


def _differences(plan: AssignPlan, others: Sequence[AssignPlan | None]) -> _Differences:
    always = frozenset(plan.moves).intersection(*(other.moves if other else () for other in others))
    members = frozenset(
        member
        for other in others
        for member in plan.assignment or ()
        if other is None or tasks_of(other, member) != tasks_of(plan, member)
    )
    succeeds = any(other is not None and other.assignment is not None for other in others)
    return _Differences(
        frozenset(plan.moves) - always, members, plan.assignment is None and succeeds
    )


def _unknown(differences: _Differences, of_ids: _Differences) -> str:
    """Return the unknown values that cause the differences, and that they are unknown."""
    if of_ids == differences:
        return "the ids of new members, which are unknown"
    order = "the order in which {} name their topics, which {} unknown"
    if any(of_ids):
        return f"the ids of new members and {order.format('they', 'are')}"
    return order.format("new members", "is")


def _marked(
    plan: AssignPlan, others: Sequence[AssignPlan | None], by_ids: Sequence[AssignPlan | None]
) -> AssignPlan:
    differences = _differences(plan, others)
    unknown = _unknown(differences, _differences(plan, by_ids))
    warnings = list(plan.warnings)
    if plan.assignment is None:
        if differences.is_failure_open:
            warnings.append(f"Whether the assignor fails depends on {unknown}.")
        return replace(plan, warnings=tuple(warnings))
    counts = (
        (len(differences.moves), len(plan.moves), "moves"),
        (len(differences.members), len(plan.members), "members"),
    )
    parts = [f"{some} of {every} {what}" for some, every, what in counts if some]
    if parts:
        warnings.append(f"The result for {' and for '.join(parts)} depends on {unknown}.")
    errors = [other.error for other in others if other is not None and other.error is not None]
    if errors:
        runs = f"{len(errors)} of {len(others)} runs with other unknown values of new members"
        warnings.append(f"The assignor fails in {runs}: {errors[0]}.")
    return replace(
        plan,
        moves=tuple(move._replace(depends_on_id=move in differences.moves) for move in plan.moves),
        members=tuple(
            replace(member, depends_on_id=member.member_id in differences.members)
            for member in plan.members
        ),
        warnings=tuple(warnings),
    )


def tasks_of(plan: AssignPlan, member: str) -> tuple[frozenset[TopicPartition], ...] | None:
    """Return a member's partitions, and its standby tasks; None if the assignor fails."""
    if plan.assignment is None:
        return None
    return frozenset(plan.assignment[member]), frozenset((plan.standby or {}).get(member, ()))
