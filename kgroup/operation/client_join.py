"""Whether a consumer of a client library can join a group, and what would follow.

Source: `ClassicGroup.supportsProtocols` (a member must have the group's protocol type, and list a
strategy that all members list), `ConsumerGroup.supportsClassicProtocols`,
`GroupMetadataManager.classicGroupJoin`, `validateOnlineUpgrade` of Kafka 4.3.1.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from kgroup.assignor.client_facts import FACTS, ON_ERROR
from kgroup.assignor.group_spec import CLIENTS, GroupSpec
from kgroup.assignor.strategy import strategies
from kgroup.errors import InputError, UnfitError, UsageError
from kgroup.model.client_library import FRANZ_GO, KAFKA_CLIENTS, Certainty
from kgroup.model.group import Group, GroupState, GroupType
from kgroup.model.member_name import name_of
from kgroup.operation.assign.client import later_note
from kgroup.operation.assign.dry_run import Run, failing, led_later, settled
from kgroup.operation.assign.group import NO_ADVICE, find_group, group_spec
from kgroup.operation.assign.joining_client import (
    JoiningClient,
    can_list,
    joining_client,
    no_common_strategy,
)
from kgroup.operation.assign.vote import INCONSISTENT, listable, may_list
from kgroup.operation.assign.what_if import AddedMembers, Changes, begin, changed
from kgroup.operation.plan.coordinator import (
    CONSUMER_GROUP_HEARTBEAT,
    LEAST_SESSION,
    MIGRATION_POLICY,
    MOST_SESSION,
    Brokers,
    read_brokers,
)
from kgroup.operation.plan.plan import Precondition, Verdict
from kgroup.operation.report import Report
from kgroup.simulation.rules import MigrationPolicy
from kgroup.source.base import GroupSource, Reading

_CONSUMER = "consumer"
_FEATURE = "group.version"
_STREAM = "stream"
_WITHOUT_USER_DATA = (KAFKA_CLIENTS, FRANZ_GO)
"""Libraries whose sticky assignors add no data of their own to assignments."""
_NOT_FOUND = "GROUP_ID_NOT_FOUND"


@dataclass(frozen=True, slots=True)
class ClientJoin:
    """Whether a client can join a group, and what would follow.

    Attributes:
        id: group id.
        type: group type.
        state: group state; None if unknown.
        strategy: assignor that the group uses; None if unknown, or if it has none.
        client: client library.
        version: version of the library that the user named; None: its newest.
        protocol: protocol that the client uses, `classic` or `consumer`.
        strategies: strategies that the client lists, in order of preference; empty with the
            consumer protocol.
        can_join: whether the client can join; None if that is unknown.
        answer: error with which the coordinator refuses the client, by Kafka's name; None if it
            does not, if that is unknown, or if the client itself fails.
        conditions: what must hold, and what is known about it.
        consequences: what follows if the client joins, in sentences.
        then: the rebalance with the client, and its follow-up rebalances; None if the client cannot
            join, or if nothing can be computed.
    """

    id: str
    type: GroupType
    state: GroupState | None
    strategy: str | None
    client: str
    version: str | None
    protocol: str
    strategies: tuple[str, ...]
    can_join: bool | None
    answer: str | None
    conditions: tuple[Precondition, ...]
    consequences: tuple[str, ...] = ()
    then: Run | None = None


def client_join(source: GroupSource, group_id: str, text: str) -> Report[ClientJoin]:
    """Return whether a client can join a group; see `joining_client`.

    Raises:
        NotFoundError: the group does not exist.
        InputError: the group cannot be read, or has no coordinator.
        UsageError: there is no such client.
    """
    try:
        client = joining_client(text)
    except ValueError as error:
        raise UsageError(f"--may-join: expected {error}") from None
    reading, group = find_group(source, group_id, generations=True)
    if group.type is GroupType.ZOOKEEPER:
        raise UnfitError.of_group(
            group_id,
            "expected a group with a coordinator, found consumers that are registered in "
            "ZooKeeper, which clients of this kind cannot join",
        )
    brokers = read_brokers(source, group)
    of_spec: list[str] = []
    spec = _spec(source, reading, group, of_spec) if group.members else None
    refusals: list[str] = []
    conditions = tuple(_conditions(group, spec, client, brokers, refusals))
    verdicts = {condition.verdict for condition in conditions}
    can_join: bool | None = None
    if Verdict.REFUTED in verdicts:
        can_join = False
    elif Verdict.UNKNOWN not in verdicts:
        can_join = True
    join = ClientJoin(
        group_id,
        group.type,
        group.state,
        group.assignor,
        client.library,
        client.version,
        "consumer" if client.uses_consumer_protocol else "classic",
        client.strategies,
        can_join,
        refusals[0] if refusals else None,
        conditions,
    )
    notes = [*reading.notes, *filter(None, [later_note(text.partition(":")[0])])]
    if refusals:
        refused = f"If it joins, then {ON_ERROR[client.library].refused}."
        join = replace(join, consequences=(refused,))
    if can_join is False:
        return Report((join,), reading.problems, tuple(notes))
    notes += of_spec
    if spec is not None and _is_computed(group, client):
        join = replace(join, then=_then(spec, client))
    join = replace(join, consequences=tuple(_consequences(group, client, spec)))
    return Report((join,), reading.problems, tuple(dict.fromkeys(notes)))


def _conditions(
    group: Group,
    spec: GroupSpec | None,
    client: JoiningClient,
    brokers: Brokers,
    refusals: list[str],
) -> Iterator[Precondition]:
    """Yield what must hold; errors of the coordinator are appended to `refusals`."""
    yield from _abilities(client)
    if client.uses_consumer_protocol and brokers.features is not None:
        serves = CONSUMER_GROUP_HEARTBEAT in brokers.features.apis
        serves &= (brokers.features.levels or {_FEATURE: 1}).get(_FEATURE, 0) > 0
        text = "Brokers serve the consumer protocol (Kafka 4.0 or later)."
        verdict = Verdict.VERIFIED if serves else Verdict.REFUTED
        yield Precondition("broker-support", text, verdict, f"as {brokers.name} reports")
        if not serves:
            refusals.append("UNSUPPORTED_VERSION")
    is_empty = not group.members
    if is_empty and group.type in (GroupType.CLASSIC, GroupType.CONSUMER):
        text = "The group has no members: it takes the protocol and strategy of the first one."
        yield Precondition("empty", text, Verdict.VERIFIED, f"state {group.state}")
        yield from _limits(group, client, brokers, refusals)
        return
    protocol_type = _protocol_type(group, client)
    yield protocol_type
    if protocol_type.verdict is Verdict.REFUTED:
        refusals.append(_NOT_FOUND if client.uses_consumer_protocol else INCONSISTENT)
        return
    if client.uses_consumer_protocol != (group.type is GroupType.CONSUMER):
        policy = _policy(group, client, brokers)
        yield policy
        if policy.verdict is Verdict.REFUTED:
            refusals.append(_NOT_FOUND if client.uses_consumer_protocol else INCONSISTENT)
        elif client.uses_consumer_protocol and "sticky" in (group.assignor or ""):
            yield from _user_data(group)
    if not client.uses_consumer_protocol:
        common = _common(group, spec, client)
        yield common
        if common.verdict is Verdict.REFUTED:
            refusals.append(INCONSISTENT)
    yield from _limits(group, client, brokers, refusals)


def _abilities(client: JoiningClient) -> Iterator[Precondition]:
    """Yield whether the client can be configured so."""
    facts = FACTS[client.library]
    if client.uses_consumer_protocol:
        text = f"{client.library} has the consumer protocol."
        since = facts.consumer_since
        if since is None:
            found = "no version has it"
            yield Precondition("client-protocol", text, Verdict.REFUTED, found)
            return
        version, library = client.version, CLIENTS[client.library]
        is_old = version is not None and not library.has_consumer_protocol(version)
        yield Precondition(
            "client-protocol",
            text,
            Verdict.REFUTED if is_old else Verdict.VERIFIED,
            f"since {since}, with {facts.consumer_setting}",
        )
        return
    known, lacking = strategies("classic", client.software), client.lacking
    yield Precondition(
        "client-strategies",
        f"{client} has the strategies {', '.join(client.strategies)}.",
        Verdict.REFUTED if lacking else Verdict.VERIFIED,
        f"not {', '.join(lacking)}" if lacking else "its default" if client.is_default else None,
        f"Choose from {', '.join(known)} ({facts.strategy_setting})." if lacking else None,
    )
    if client.refuses_mix:
        yield Precondition(
            "mixed-strategies",
            "Clients accept a list with an eager and the cooperative assignor.",
            Verdict.REFUTED,
            f"{client.library} fails when it starts",
        )


def _protocol_type(group: Group, client: JoiningClient) -> Precondition:
    """Return whether the group is one of consumers."""
    text = "The group is one of consumers."
    if group.type not in (GroupType.CLASSIC, GroupType.CONSUMER):
        found = f"a group of type {group.type}"
        return Precondition("protocol-type", text, Verdict.REFUTED, found)
    if group.type is GroupType.CLASSIC and not group.protocol_type:
        found = "its protocol type is unknown"
        return Precondition("protocol-type", text, Verdict.UNKNOWN, found)
    found = f"protocol type {group.protocol_type or _CONSUMER}"
    is_consumer = group.protocol_type in (None, "", _CONSUMER)
    verdict = Verdict.VERIFIED if is_consumer else Verdict.REFUTED
    return Precondition("protocol-type", text, verdict, found)


def _policy(group: Group, client: JoiningClient, brokers: Brokers) -> Precondition:
    """Return whether members of both protocols may be in the group at a time."""
    upgrades = client.uses_consumer_protocol
    needed = "upgrade or bidirectional" if upgrades else "not disabled"
    text = (
        f"A client of the {_CONSUMER if upgrades else 'classic'} protocol may join a {group.type} "
        f"group with members: {MIGRATION_POLICY} is {needed}."
    )
    policy = brokers.policy
    code = "migration-policy"
    if policy is None:
        found = brokers.why or f"{brokers.name} does not report {MIGRATION_POLICY}"
        return Precondition(code, text, Verdict.UNKNOWN, found, brokers.ask(MIGRATION_POLICY))
    allows = policy.upgrades if upgrades else policy is not MigrationPolicy.DISABLED
    verdict = Verdict.VERIFIED if allows else Verdict.REFUTED
    return Precondition(code, text, verdict, f"{policy} on {brokers.name}")


def _user_data(group: Group) -> Iterator[Precondition]:
    """Yield that the coordinator may refuse to convert a group whose assignments have user data."""
    libraries = {member.client_library for member in group.members}
    if not libraries <= {*_WITHOUT_USER_DATA}:
        yield Precondition(
            "user-data",
            "Assignments contain no data of a client-side assignor that would be lost.",
            Verdict.UNKNOWN,
            f"{group.assignor} of some libraries adds data, such as that of librdkafka",
            f"If it does, the coordinator refuses the client ({_NOT_FOUND}): stop the group first.",
        )


def _common(group: Group, spec: GroupSpec | None, client: JoiningClient) -> Precondition:
    """Return whether the client lists a strategy that all members list.

    A coordinator shows only the chosen strategy, which all members list. What members with the
    classic protocol list in a consumer group is only in its log.
    """
    code, text = "common-strategy", "The client lists a strategy that all members list."
    if group.type is GroupType.CONSUMER:
        classic = [member for member in group.members if member.uses_classic_protocol is not False]
        if not classic:
            found = "no member uses the classic protocol"
            return Precondition(code, text, Verdict.VERIFIED, found)
        lists = [member.classic_protocols for member in classic if member.classic_protocols]
        common = [name for name in client.strategies if all(name in each for each in lists)]
        if common and len(lists) < len(classic):
            found = "what members with the classic protocol list is unknown"
            return Precondition(code, text, Verdict.UNKNOWN, found, _check(client))
        found = f"members list {', '.join(dict.fromkeys(n for each in lists for n in each))}"
        return Precondition(code, text, Verdict.VERIFIED if common else Verdict.REFUTED, found)
    now = group.assignor
    if not now:
        found = "the group's strategy is unknown"
        return Precondition(code, text, Verdict.UNKNOWN, found, _check(client))
    if now in client.strategies:
        return Precondition(code, text, Verdict.VERIFIED, f"{now}, which the group uses")
    if now == _STREAM:
        found = f"threads of Kafka Streams list only {_STREAM}"
        return Precondition(code, text, Verdict.REFUTED, found)
    refused = no_common_strategy(now, _lists(group, spec, now), client.strategies)
    if refused is not None:
        return Precondition(code, text, Verdict.REFUTED, refused, f"List {now} too.")
    found = (
        f"the group uses {now}, which the client does not list; no coordinator shows what else "
        "members list"
    )
    return Precondition(code, text, Verdict.UNKNOWN, found, _check(client))


def _check(client: JoiningClient) -> str:
    names = " or ".join(client.strategies)
    return (
        f"Check whether every member also lists {names}. If not, the coordinator refuses the "
        f"client ({INCONSISTENT})."
    )


def _lists(
    group: Group, spec: GroupSpec | None, now: str
) -> Iterator[tuple[str, frozenset[str] | None]]:
    """Yield how a sentence about each member begins, and what it may list; None if unknown."""
    if spec is not None:
        yield from ((begin(spec, member), may_list(member, now)) for member in spec.members)
        return
    for each in group.members:
        is_certain = each.client_library_certainty is Certainty.CERTAIN
        library = each.client_library if is_certain else None
        yield can_list(name_of(each).label, library), listable(library, now)


def _limits(
    group: Group, client: JoiningClient, brokers: Brokers, refusals: list[str]
) -> Iterator[Precondition]:
    """Yield limits of brokers that are known."""
    remains = group.type is GroupType.CONSUMER and bool(group.members)
    is_consumer = client.uses_consumer_protocol or remains
    name = "group.consumer.max.size" if is_consumer else "group.max.size"
    limit, count = brokers.number(name), len(group.members) + 1
    if limit is not None:
        is_full = count > limit
        yield Precondition(
            "group-size",
            f"The group may have {count} members.",
            Verdict.REFUTED if is_full else Verdict.VERIFIED,
            f"{name} is {limit}",
        )
        if is_full:
            refusals.append("GROUP_MAX_SIZE_REACHED")
    least, most = brokers.number(LEAST_SESSION), brokers.number(MOST_SESSION)
    facts = FACTS[client.library]
    if not client.uses_consumer_protocol and least is not None and most is not None:
        fits = least <= facts.session_ms <= most
        yield Precondition(
            "session-timeout",
            f"Brokers allow the client's {facts.session_setting}, by default {facts.session_ms} "
            "ms.",
            Verdict.VERIFIED if fits else Verdict.REFUTED,
            f"{least} to {most} ms",
            None if fits else f"Set {facts.session_setting} to an allowed value.",
        )
        if not fits:
            refusals.append("INVALID_SESSION_TIMEOUT")


def _spec(
    source: GroupSource, reading: Reading, group: Group, notes: list[str]
) -> GroupSpec | None:
    """Return the group for a dry run; None if it cannot be computed, with a note."""
    try:
        report = group_spec(source, reading, group, advice=NO_ADVICE)
    except InputError as error:
        notes.append(f"what would move is unknown: {error}")
        return None
    notes += report.notes
    return report.data[0]


def _is_computed(group: Group, client: JoiningClient) -> bool:
    """Return whether the strategy after the join is known enough for a dry run."""
    is_assigned_by_coordinator = group.type is GroupType.CONSUMER or client.uses_consumer_protocol
    return is_assigned_by_coordinator or group.assignor in client.strategies


def _added(spec: GroupSpec, client: JoiningClient) -> GroupSpec:
    """Return the group with the client."""
    if spec.protocol != "classic" or client.uses_consumer_protocol:
        protocol = _CONSUMER if client.uses_consumer_protocol else None
        return changed(spec, Changes(add=[AddedMembers(protocol=protocol)]))
    added = AddedMembers(library=client.name, strategies=client.strategies)
    # Computed for the present strategy; what else may win is said in words.
    return changed(replace(spec, has_votes=None), Changes(add=[added]))


def _then(spec: GroupSpec, client: JoiningClient) -> Run:
    return settled(_added(spec, client))


def _consequences(group: Group, client: JoiningClient, spec: GroupSpec | None) -> Iterator[str]:
    """Yield what follows if the client joins."""
    if not group.members:
        yield "The client is the only member, and gets all partitions of its topics."
        return
    if group.type is GroupType.CONSUMER:
        kept = "" if client.uses_consumer_protocol else "; the client answers as a classic member"
        yield f"The coordinator assigns{kept}."
        return
    if client.uses_consumer_protocol:
        yield (
            "The group becomes a consumer group: the coordinator assigns, and the members continue "
            "with the classic protocol until they are restarted with the other one."
        )
        return
    yield from _vote(group, spec, client)
    if spec is None or group.assignor not in client.strategies:
        return
    yield from _leadership(group, client, spec)


def _vote(group: Group, spec: GroupSpec | None, client: JoiningClient) -> Iterator[str]:
    now = group.assignor
    others = [name for name in client.strategies if name != now]
    if now not in client.strategies:
        yield (
            f"If all members also list {' or '.join(others)}, the group changes from {now} to a "
            "strategy that all list."
        )
        return
    if not others:
        yield f"The strategy stays {now}: the client lists no other one."
        return
    possible = [may for _, may in _lists(group, spec, now or "")]
    open_names = [name for name in others if all(may is None or name in may for may in possible)]
    if not open_names:
        yield f"The strategy stays {now}: members cannot list another one of the client's."
        return
    yield (
        f"The strategy stays {now}, unless all members also list {' or '.join(open_names)}: then "
        "members vote on it again. No coordinator shows what they list."
    )


def _leadership(group: Group, client: JoiningClient, spec: GroupSpec) -> Iterator[str]:
    """Yield who assigns, and what the client would do as leader."""
    leads = spec.computed_as
    by_id = {member.member_id: member for member in group.members}
    leader = by_id.get(group.leader_id or "")
    who = "The leader" if leader is None else name_of(leader).label
    joined = _added(spec, client)
    ours = settled(joined, alone=True).first
    if ours.error is not None:
        yield f"{who} stays leader, and {failing(ours.error, leads.name)}."
        return
    yield f"{who} stays leader, and assigns as {leads.name} does."
    if leads.name == client.library:
        return
    led = led_later(joined, client.software, joined.members[-1].member_id)
    if led.error is not None:
        then = failing(led.error, client.library)
        yield f"When a member of {client.library} leads later, {then}."
    elif led.assignment is not None and led.assignment != ours.assignment:
        yield f"When a member of {client.library} leads later, it assigns differently."
