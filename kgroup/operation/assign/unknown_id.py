"""What of an assignment depends on member ids that nobody can know before.

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
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import permutations
from random import Random
from string import ascii_lowercase
from uuid import UUID

from kgroup.assignor.java.java_hash import utf16
from kgroup.assignor.spec import GroupSpec, MemberSpec
from kgroup.assignor.strategy import CLIENTS, computed_as, has_static_members
from kgroup.model.client.library import KAFKA_CLIENTS
from kgroup.operation.assign.move import Move
from kgroup.operation.assign.outcome import AssignPlan, dry_run

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
    """Tell whether it takes no long time to assign a group again and again."""
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
    client = member.client or computed_as(spec)
    if spec.protocol != "classic" or not CLIENTS[client.name].draws_topic_order:
        return member.topics
    if len(member.topics) <= _FEW_TOPICS:
        orders = list(permutations(member.topics))
        return orders[seed % len(orders)]
    return tuple(Random(seed).sample(member.topics, len(member.topics))) if seed else member.topics


def _order(spec: GroupSpec, ids: Mapping[str, str], seed: int) -> tuple[str, ...]:
    """Give the order of the JoinGroup response: new members last, and then anywhere."""
    if spec.protocol != "classic" or computed_as(spec).name == KAFKA_CLIENTS or not seed:
        return spec.member_order
    order = [each.member_id for each in spec.members_as_sent if each.member_id not in ids]
    for name, made in ids.items():
        order.insert(Random(f"{seed} {name}").randint(0, len(order)), made)
    return tuple(order)


def random_ids(spec: GroupSpec, seed: int) -> dict[str, str]:
    """Give each new member, by the id that stands for its own, one as it might have."""
    leads = computed_as(spec)
    unknown = [replace(m, client=m.client or leads) for m in spec.members if m.unknown_id]
    libraries = {m.client.name for m in unknown if m.client is not None and not m.client_id}
    usual = {library: _usual_client_ids(spec, library) for library in libraries}
    return {each.member_id: _random_id(each, spec, usual, seed) for each in unknown}


def _usual_client_ids(spec: GroupSpec, library: str) -> Sequence[str]:
    """Give the client ids that most members of a library have; none of Java, which numbers them."""
    if spec.protocol != "classic" or library == KAFKA_CLIENTS:
        return ()
    leads = computed_as(spec)
    for members in (spec.members, spec.departed):
        alike = (each for each in members if (each.client or leads).name == library)
        times = Counter(each.client_id for each in alike if each.client_id)
        if times:
            most = max(times.values())
            return [client_id for client_id, number in times.items() if number == most]
    return ()


def _random_id(
    member: MemberSpec, spec: GroupSpec, usual: Mapping[str, Sequence[str]], seed: int
) -> str:
    """Give a new member, of a library that is told, an id as it might have.

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
    if member.instance_id and has_static_members(spec.protocol, client):
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
        and {name(member_id): got for member_id, got in plan.assignment.items()},
        members=tuple(replace(each, member_id=name(each.member_id)) for each in plan.members),
        moves=tuple(
            move._replace(
                from_member=name(move.from_member),
                to_member=move.to_member and name(move.to_member),
            )
            for move in plan.moves
        ),
        balance=balance,
        threads=plan.threads
        and {(name(member_id), number): got for (member_id, number), got in plan.threads.items()},
        owners=plan.owners
        and tuple(
            replace(each, given=each.given and (name(each.given[0]), each.given[1]))
            for each in plan.owners
        ),
        overlaps=plan.overlaps
        and tuple(replace(each, members=tuple(map(name, each.members))) for each in plan.overlaps),
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
        for member, got in plan.assignment.items():
            there = other.assignment if other is not None else None
            if there is None or set(there[member]) != set(got):
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
