"""Create a scenario that starts from the current state of an existing group."""

from __future__ import annotations

from base64 import urlsafe_b64encode
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import replace

from kgroup.assignor.base import AssignorError
from kgroup.assignor.client.java import JAVA
from kgroup.assignor.client_facts import FACTS, ClientFacts
from kgroup.assignor.group_spec import ASSIGNS_LIKE, GroupSpec
from kgroup.assignor.member_spec import MemberSpec
from kgroup.assignor.strategy import assignor_of, is_determined, strategies
from kgroup.errors import UnfitError, named_group, shown_id
from kgroup.model.client_library import KAFKA_CLIENTS
from kgroup.model.cluster import TopicPartition
from kgroup.model.group import AssignedPartition, Group, GroupType, Member, MemberState
from kgroup.model.member_name import MemberName, find_member
from kgroup.model.offset import CommitStore
from kgroup.model.zookeeper import SubscriptionPattern
from kgroup.operation.assign.connect import CONNECT
from kgroup.operation.assign.group import (
    NO_ADVICE,
    Advice,
    before_rebalance,
    find_group,
    group_spec,
)
from kgroup.operation.assign.group_record import accepted_record_bytes
from kgroup.operation.printed_command import Reach, kgroup_command, reaching
from kgroup.operation.record_limit import (
    NO_LIMIT,
    compresses_records,
    read_record_limit,
    with_record_limit,
)
from kgroup.operation.report import Report, first_names
from kgroup.operation.zookeeper.commit import with_kafka_commits
from kgroup.simulation.client.config import ConsumerConfig
from kgroup.simulation.consumer.message import PAUSE_EPOCH
from kgroup.simulation.rules import BrokerSettings
from kgroup.simulation.scenario.scenario import (
    Action,
    InitialGroup,
    MemberPlan,
    Scenario,
    StartMember,
    Step,
    ZookeeperMemberPlan,
)
from kgroup.simulation.zookeeper.config import Registration, ZookeeperConfig
from kgroup.source.base import GroupSource, Reading

_WATCHED_MS = 120_000
"""Minimum duration of a simulation with no step, or with steps at its start only."""
_LARGEST_GENERATION = 1 << 30
"""Largest generation that is simulated; later generations must fit in 32 bits."""
_SOON_MS = 1_000
_SIMULATED = (GroupType.CLASSIC, GroupType.CONSUMER, GroupType.ZOOKEEPER)
_ADVICE = NO_ADVICE._replace(partitions="; a step of a file may add_partitions")
"""Advice on unknown values if the scenario comes from a file."""


def group_as_it_is(source: GroupSource, group_id: str) -> Report[Scenario]:
    """Return a scenario that starts from the current state of a group and has no steps.

    Returns:
        The scenario; notes list the assumptions.

    Raises:
        NotFoundError: the group does not exist.
        InputError: the group cannot be simulated, or its members' subscriptions are unknown.
    """
    reading, found = find_group(source, group_id)
    report = scenario_of(source, reading, found, advice=_ADVICE)
    (scenario,) = report.data
    if scenario.connectors:
        return report
    compressed = compresses_records(source, found.coordinator)
    settings = with_record_limit(scenario.settings, read_record_limit(source), compressed)
    return replace(report, data=(replace(scenario, settings=settings),))


def scenario_of(
    source: GroupSource, reading: Reading, found: Group, *, advice: Advice = NO_ADVICE
) -> Report[Scenario]:
    """Return a scenario of a group that was read before; otherwise like `group_as_it_is`."""
    group_id = found.group_id
    if found.type not in _SIMULATED:
        *others, last = _SIMULATED
        removed = [f"--remove-member={member.member_id}" for member in found.members[:1]]
        options = (*removed, *reaching(Reach.SOURCE))
        raise UnfitError.of_group(
            group_id,
            f"expected a group of type {', '.join(others)} or {last}, found {found.type}. To see "
            f"what moves without a member, run: {kgroup_command('assign', [group_id], options)}",
        )
    if found.type is GroupType.CLASSIC and found.protocol_type == CONNECT and found.members:
        leaves = f"--remove-member={found.members[0].member_id}"
        change = "--add-member" if len(found.members) == 1 else leaves
        options = (change, *reaching(Reach.SOURCE))
        raise UnfitError.of_group(
            group_id,
            f"expected members of protocol type 'consumer', found {CONNECT!r}: groups of Connect "
            "workers are not simulated. To see what moves if one joins or leaves, run: "
            f"{kgroup_command('assign', [group_id], options)}",
        )
    if not found.members:
        raise UnfitError.of_group(
            group_id, f"expected members, found none (state {found.state or 'unknown'})"
        )
    report = group_spec(source, reading, found, advice=advice)
    (spec,) = report.data
    if found.type is GroupType.ZOOKEEPER:
        (with_commits,) = (committed := with_kafka_commits(source, [found])).groups
        stores = frozenset(committed.stores.values())
        scenario = _on_zookeeper(with_commits, spec, stores, notes := list(report.notes))
        return Report((_watched(scenario),), report.errors, tuple(notes))
    if spec.protocol == "classic":
        assignor_of(spec.protocol, spec.strategy, spec.computed_as, group_id=group_id)
    notes = [*report.notes, *_library_notes(spec)]
    group = before_rebalance(found, [])
    names = member_names(group.members)
    known = {names[member.member_id]: member for member in group.members}
    topics = {name: topic.partitions for name, topic in spec.topics.items()}
    is_consumer_group = spec.protocol == "consumer"
    members: dict[str, MemberPlan] = {}
    started: dict[str, StartMember] = {}
    for member_spec in spec.members if is_consumer_group else spec.members_as_sent:
        name = names[member_spec.member_id]
        config = _config(group_id, name, member_spec, known[name])
        if is_consumer_group and known[name].classic_protocols is None:
            config = _of_consumer_group(config, known[name])
            started[name] = _started(group, known[name])
        elif is_consumer_group:
            config = _of_classic_group(config, known[name].classic_protocols or (), known[name])
            started[name] = _started(group, known[name])
        else:
            config = _of_library(config, spec, member_spec, known[name])
            config = _of_classic_group(config, (spec.strategy,), known[name])
            started[name] = StartMember(
                member_spec.member_id, member_spec.owned or (), host=member_spec.host
            )
        members[name] = MemberPlan(config, auto_offset_reset=facts_of(config).reset)
    start = _start(group, spec, _on_known_partitions(started, topics, notes), notes)
    title = f"Group {shown_id(group_id)} as it is"
    settings = BrokerSettings(is_limit_assumed=True, may_compress=True)
    if accepted_record_bytes(spec) > settings.message_max_size:  # the limit is not the default
        settings = replace(settings, message_max_size=NO_LIMIT, is_limit_assumed=False)
    scenario = Scenario(
        group_id, topics, members, (), _WATCHED_MS, title, settings=settings, start=start
    )
    return Report((_watched(scenario),), report.errors, tuple(notes))


def _library_notes(spec: GroupSpec) -> Iterator[str]:
    """Yield whose assignor is played if it is not Java's, and whether its result is certain."""
    leads = spec.computed_as
    if spec.protocol != "classic" or leads.name == KAFKA_CLIENTS:
        return
    yield (
        f"the leader is taken to use {leads.name}, whose assignor {spec.strategy} is played; apart "
        "from that and from errors, members are played as Java consumers"
    )
    try:
        is_known = is_determined(spec)
    except AssignorError:  # shown when the simulated leader fails
        is_known = True
    if not is_known:
        yield (
            f"what {leads.name} assigns is not determined by what is known of the group: "
            "partitions may move to other members"
        )


def facts_of(config: ConsumerConfig) -> ClientFacts:
    """Return the facts of a simulated consumer's library."""
    return FACTS[config.client]


def _watched(scenario: Scenario) -> Scenario:
    """Return the scenario with a duration that covers the effects of steps at its start."""
    watched_ms = max(_WATCHED_MS, _SOON_MS + scenario.settles_ms)
    return replace(scenario, duration_ms=watched_ms)


def _on_zookeeper(
    group: Group, spec: GroupSpec, stores: Set[CommitStore], notes: list[str]
) -> Scenario:
    """Return a scenario of consumers that are registered and own partitions in ZooKeeper.

    No node holds `offsets.storage`; it is derived from the store where commits were found.
    """
    topics = {name: topic.partitions for name, topic in spec.topics.items()}
    is_in_kafka = bool({CommitStore.KAFKA, CommitStore.BOTH} & stores)
    is_dual = is_in_kafka and bool({CommitStore.ZOOKEEPER, CommitStore.BOTH} & stores)
    connectors, started = {}, {}
    for member in group.members:
        subscription = member.subscription
        assert subscription is not None  # otherwise, the group was rejected before
        registration = Registration(
            dict(subscription.streams or {}), subscription.pattern or SubscriptionPattern.STATIC
        )
        config = ZookeeperConfig(
            group.group_id,
            registration,
            strategy=spec.strategy,
            storage="kafka" if is_in_kafka else "zookeeper",
            dual_commit=is_dual,
        )
        owned = _partitions(member.assignment)
        threads = [partition.thread or 0 for partition in member.assignment or ()]
        name = member.member_id.removeprefix(f"{group.group_id}_")
        connectors[name] = ZookeeperMemberPlan(config)
        started[name] = StartMember(
            member.member_id,
            owned,
            threads=dict(zip(owned, threads, strict=True)),
            host=member.client_host,
        )
    started = dict(_on_known_partitions(started, topics, notes))
    free = {
        f"{topic}-{number}"
        for member in spec.members
        for topic in member.topics
        for number in range(topics.get(topic, 0))
    } - {f"{topic}-{number}" for member in started.values() for topic, number in member.threads}
    if free:
        notes.append(f"no member owns {first_names(sorted(free))} until something changes")
    start = InitialGroup(1, spec.strategy, "", started, *_offsets_and_ends(group, spec))
    title = f"Group {shown_id(group.group_id)} as it is"
    return Scenario(
        group.group_id, topics, {}, (), _WATCHED_MS, title, start=start, connectors=connectors
    )


def _start(
    group: Group, spec: GroupSpec, members: Mapping[str, StartMember], notes: list[str]
) -> InitialGroup:
    """Return the initial state of a classic or consumer group."""
    is_consumer_group = spec.protocol == "consumer"
    generation_id = group.group_epoch if is_consumer_group else group.generation_id
    counted = "epoch" if is_consumer_group else "generation"
    if generation_id is None:
        notes.append(f"the group's {counted} is unknown; it starts at 1")
    elif generation_id > _LARGEST_GENERATION:
        raise UnfitError.of_group(
            group.group_id,
            f"expected a {counted} of at most {_LARGEST_GENERATION}, found {generation_id}",
        )
    first, *_ = members
    leader_id = members[first].member_id
    if any(member.member_id == spec.leader_id for member in members.values()):
        leader_id = str(spec.leader_id)
    elif not is_consumer_group:
        notes.append(f"the group's leader is unknown; {first} is assumed")
    if away := [name for name, member in members.items() if member.is_away]:
        notes.append(f"static members that are away and may return: {first_names(away)}")
    return InitialGroup(
        generation_id or 1,
        spec.strategy,
        leader_id,
        members,
        *_offsets_and_ends(group, spec),
        {
            name: urlsafe_b64encode(topic_id).decode()[:22]
            for name, topic_id in spec.topic_ids.items()
        },
        is_consumer_group,
        group.assignment_epoch or generation_id or 1,
    )


def _offsets_and_ends(
    group: Group, spec: GroupSpec
) -> tuple[Mapping[TopicPartition, int], Mapping[TopicPartition, int]]:
    """Return the committed offsets of existing partitions, and their log end offsets."""
    topics = spec.topics
    offsets = {
        (offset.topic, offset.partition): offset.committed_offset
        for offset in group.offsets
        if offset.topic in topics and 0 <= offset.partition < topics[offset.topic].partitions
    }
    return offsets, {
        partition: offset + spec.lags.get(partition, 0) for partition, offset in offsets.items()
    }


def member_names(members: Sequence[Member]) -> Mapping[str, str]:
    """Return names of members by member id; unlike ids, names survive a restart.

    The first of these that is unique is used: instance id, client id, client id with host, client
    id with host and a number in the group's order. Members without client ids, as on ZooKeeper, are
    named by their ids.
    """
    ids = [member.member_id for member in members]
    clients = [member.client_id for member in members if member.client_id]
    if len(clients) == len(ids):
        hosts = [(member.client_host or "unknown").lstrip("/") for member in members]
        places = [f"{client}@{host}" for client, host in zip(clients, hosts, strict=True)]
        seen: Counter[str] = Counter()
        numbered = []
        for place in places:
            seen[place] += 1
            numbered.append(f"{place}#{seen[place]}")
    else:
        places, numbered = [], ids
    instances = [member.instance_id for member in members if member.instance_id]
    for names in (instances, clients, places, numbered):
        if len(set(names)) == len(ids):
            break
    return dict(zip(ids, names, strict=True))


def _started(group: Group, member: Member) -> StartMember:
    """Return the state of a consumer group member, which may be reconciling to another epoch."""
    owned = _partitions(member.assignment)
    target = owned if member.target_assignment is None else _partitions(member.target_assignment)
    epoch = group.group_epoch or 1 if member.member_epoch is None else member.member_epoch
    state = member.state
    if state is None:
        waits = epoch == group.assignment_epoch and set(owned) != set(target)
        state = MemberState.UNRELEASED_PARTITIONS if waits else MemberState.STABLE
    return StartMember(
        member.member_id,
        owned,
        target,
        _partitions(member.pending_revocation),
        epoch,
        epoch if member.previous_member_epoch is None else member.previous_member_epoch,
        state,
        is_away=epoch == PAUSE_EPOCH,
        host=member.client_host,
    )


def _partitions(assigned: Iterable[AssignedPartition] | None) -> tuple[TopicPartition, ...]:
    return tuple(
        (partition.topic or partition.topic_id or "", partition.partition)
        for partition in assigned or ()
    )


def _on_known_partitions(
    members: Mapping[str, StartMember], topics: Mapping[str, int], notes: list[str]
) -> Mapping[str, StartMember]:
    """Return the members without partitions that the source does not know."""
    gone: set[TopicPartition] = set()

    def there(partitions: Iterable[TopicPartition]) -> tuple[TopicPartition, ...]:
        asked = tuple(partitions)
        existing = tuple(
            partition
            for partition in dict.fromkeys(asked)  # a leader may assign one twice
            if 0 <= partition[1] < topics.get(partition[0], 0)
        )
        gone.update(set(asked) - set(existing))
        return existing

    kept = {
        name: replace(
            member,
            owned=there(member.owned),
            target=there(member.target),
            revoking=there(member.revoking),
            threads={at: member.threads[at] for at in there(member.threads)},
        )
        for name, member in members.items()
    }
    if gone:
        text = first_names([f"{topic}-{number}" for topic, number in sorted(gone)])
        notes.append(f"members own partitions that do not exist, which are left out: {text}")
    return kept


def _config(group_id: str, name: str, spec: MemberSpec, member: Member) -> ConsumerConfig:
    """Return a consumer's configuration: values that the coordinator knows, otherwise defaults."""
    config = ConsumerConfig(
        group_id, spec.client_id or name, spec.topics, instance_id=spec.instance_id, rack=spec.rack
    )
    timeout_ms = member.rebalance_timeout_ms or config.max_poll_interval_ms
    return replace(config, max_poll_interval_ms=timeout_ms)


def _of_classic_group(
    config: ConsumerConfig, strategies: tuple[str, ...], member: Member
) -> ConsumerConfig:
    session_ms = member.session_timeout_ms or config.session_timeout_ms
    return replace(
        config,
        strategies=strategies,
        session_timeout_ms=session_ms,
        heartbeat_interval_ms=min(config.heartbeat_interval_ms, session_ms // 3),
    )


def _of_library(
    config: ConsumerConfig, spec: GroupSpec, sent: MemberSpec, member: Member
) -> ConsumerConfig:
    """Set a member's client library and its defaults; the leader's if it is unknown."""
    library = spec.client_of(sent)
    if spec.strategy not in strategies("classic", library):
        library = spec.computed_as
    if library.name == KAFKA_CLIENTS:
        return config if library == JAVA.newest else replace(config, library=library)
    name = member.client_library or ""
    reacts_as = name if ASSIGNS_LIKE.get(name) == library else None
    config = replace(config, library=library, reacts_as=reacts_as)
    facts = facts_of(config)
    rebalance_ms = facts.rebalance_ms or facts.poll_ms
    return replace(
        config,
        session_timeout_ms=facts.session_ms,
        max_poll_interval_ms=member.rebalance_timeout_ms or rebalance_ms,
        metadata_max_age_ms=facts.refresh_ms,
        leaves_if_late=facts.leaves_if_late and rebalance_ms == facts.poll_ms,
    )


def _of_consumer_group(config: ConsumerConfig, member: Member) -> ConsumerConfig:
    subscription = member.subscription
    assert subscription is not None  # otherwise, the group was rejected before
    return replace(
        config,
        topics=tuple(subscription.topics or ()),
        regex=subscription.regex or None,
        group_protocol="consumer",
        remote_assignor=member.assignor,
    )


def assumptions(scenario: Scenario, *, advice: str = "") -> tuple[str, ...]:
    """Return what the simulation assumes about a group and its applications.

    Args:
        scenario: scenario of an existing group.
        advice: how to choose the version of Kafka.
    """
    if scenario.connectors:
        consumer = next(iter(scenario.connectors.values())).config
        return (
            "everything is simulated as in Kafka 0.8.2",
            f"assumed for the consumers: a session timeout of {consumer.session_timeout_ms} "
            f"ms, auto.offset.reset {consumer.reset}, a commit every "
            f"{consumer.auto_commit_interval_ms} ms, offsets.storage "
            f"{consumer.storage}{' and dual.commit.enabled' if consumer.dual_commit else ''}; "
            f"for each partition, {scenario.rate:g} records per second",
        )
    version = ".".join(map(str, scenario.settings.version))
    plans = scenario.members.values()
    resets = {facts_of(plan.config).reset_set(plan.auto_offset_reset) for plan in plans}
    plan = next(iter(plans))
    config, brokers = plan.config, scenario.consumer_settings
    is_classic = config.group_protocol == "classic"
    beats_ms = config.heartbeat_interval_ms if is_classic else brokers.heartbeat_interval_ms
    return (
        f"everything is simulated as in Kafka {version}{advice}",
        f"assumed for the members: {' or '.join(sorted(resets))}, a commit "
        f"every {config.auto_commit_interval_ms} ms, a heartbeat every {beats_ms} ms, a "
        f"poll() every {plan.processing_ms} ms; for each partition, {scenario.rate:g} "
        "records per second",
        "late polls of the past are not repeated: the command check shows whether members polled "
        "too late",
    )


def with_steps(scenario: Scenario, steps: Sequence[tuple[Action, str]]) -> Scenario:
    """Return the scenario with steps that act on existing members one second after its start.

    Raises:
        UsageError: several members have the name of one.
        NotFoundError: the group has no such member.
    """
    members = {} if scenario.start is None else scenario.start.members
    by_name = {_name_of(scenario, name): name for name in members}
    group = named_group(scenario.group_id)
    first_steps = [
        Step(_SOON_MS, action, by_name[find_member(text, [*by_name], group)])
        for action, text in steps
    ]
    return replace(scenario, steps=(*first_steps, *scenario.steps))


def _name_of(scenario: Scenario, name: str) -> MemberName:
    """Return the names of a member at the start of a scenario."""
    assert scenario.start is not None
    member, plan = scenario.start.members[name], scenario.members.get(name)
    if plan is None:
        return MemberName(member.member_id, host=member.host, others=(name,))
    config = plan.config
    return MemberName(member.member_id, config.instance_id, config.client_id, member.host, (name,))
