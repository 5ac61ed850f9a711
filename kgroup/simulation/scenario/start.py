"""The records and members of a group that exists at the start of a scenario."""

from __future__ import annotations

import sys
from base64 import b64encode
from collections.abc import Iterable, Iterator, Mapping
from itertools import filterfalse

from kgroup.assignor.member_spec import MemberSpec
from kgroup.model.cluster import TopicPartition, numbers_by_topic
from kgroup.model.offset import CommittedOffset
from kgroup.model.pattern import parse_regex
from kgroup.simulation.client.config import ConsumerConfig, Joined
from kgroup.simulation.cluster import SimulatedCluster
from kgroup.simulation.consumer import record as record_of
from kgroup.simulation.consumer.member import ConsumerMember
from kgroup.simulation.consumer.record import GroupRecord
from kgroup.simulation.message import CONSUMER
from kgroup.simulation.partition_logs import Positions
from kgroup.simulation.position_commit import PositionCommit, PositionCommits, commit_record
from kgroup.simulation.scenario.scenario import InitialGroup, Scenario
from kgroup.simulation.subscription import encode_assignment, encode_subscription
from kgroup.simulation.world import World
from kgroup.simulation.zookeeper.cluster import ZookeeperCluster
from kgroup.simulation.zookeeper.config import ZookeeperConfig


def write_start(cluster: SimulatedCluster, scenario: Scenario, start: InitialGroup) -> None:
    """Write the records of the group and its commits, as a coordinator would."""
    _write_logs(cluster, start)
    cluster.names.update({member.member_id: name for name, member in start.members.items()})
    _write_commits(cluster, scenario, start)
    records = _consumer_group if start.is_consumer_group else _classic_group
    for record in records(cluster, scenario, start):
        cluster.append(*record)


def _write_commits(cluster: SimulatedCluster, scenario: Scenario, start: InitialGroup) -> None:
    """Write the group's commits: records only of partitions that do not exist."""
    group_id, logs, rows = scenario.group_id, cluster.logs, dict[int, tuple[int, int]]()
    counts = {topic.name: topic.partitions for topic in cluster.topics}
    for partition, offset in start.offsets.items():
        topic, number = partition
        if number < counts.get(topic, 0):
            rows[logs.row(partition)] = (offset, sys.maxsize)  # it is never read from there
        else:
            committed = CommittedOffset(topic, number, offset, None, "", 0)
            cluster.append("OffsetCommit", *commit_record(group_id, committed))
    if rows:
        commits = PositionCommits(group_id, logs)
        first = cluster.append_positions(commits, len(rows))
        commits.add(PositionCommit(Positions(rows, 0, logs, sys.maxsize), 0, None, first))


def _write_logs(world: World, start: InitialGroup) -> None:
    """Set initial log end offsets, and mark records below the known offsets as read."""
    logs, read_to = world.logs, dict(start.offsets)
    for row, end in zip(logs.add(start.ends), start.ends.values(), strict=True):
        logs.ends[row] = end
    for partition, offset in start.stored.items():
        read_to[partition] = max(offset, read_to.get(partition, 0))
    logs.was_read(read_to)


def write_offsets(
    cluster: ZookeeperCluster, start: InitialGroup, configs: Iterable[ZookeeperConfig]
) -> None:
    """Write the initial offsets of ZooKeeper consumers to the stores to which they commit."""
    _write_logs(cluster, start)
    stores = {(config.storage, config.is_dual) for config in configs}
    if any(storage == "kafka" for storage, _ in stores):
        cluster.offsets.update(start.offsets)
    if any(storage == "zookeeper" or is_dual for storage, is_dual in stores):
        for (topic, number), offset in start.offsets.items():
            path = f"/consumers/{cluster.group_id}/offsets/{topic}/{number}"
            cluster.server.write(path, str(offset))


def _classic_group(
    cluster: SimulatedCluster, scenario: Scenario, start: InitialGroup
) -> Iterator[GroupRecord]:
    members = []
    for name, member in start.members.items():
        config = scenario.members[name].config
        members.append(
            {
                "memberId": member.member_id,
                "groupInstanceId": config.instance_id,
                "clientId": config.client_id,
                "clientHost": "/127.0.0.1",
                "rebalanceTimeout": config.max_poll_interval_ms,
                "sessionTimeout": config.session_timeout_ms,
                "subscription": _subscription(scenario, start, name, start.protocol),
                "assignment": encode_assignment(member.owned, config.subscription_version),
            }
        )
    value = {
        "protocolType": CONSUMER,
        "generation": start.generation_id,
        "protocol": start.protocol if members else None,
        "leader": start.leader_id or None,
        "currentStateTimestamp": 0,
        "members": members,
    }
    yield GroupRecord("GroupMetadata", {"group": scenario.group_id}, value)


def _subscription(scenario: Scenario, start: InitialGroup, name: str, strategy: str) -> bytes:
    """Return a member's subscription for a strategy of the classic protocol."""
    member, config = start.members[name], scenario.members[name].config
    spec = MemberSpec(
        member.member_id,
        _topics(config, scenario),
        config.instance_id,
        config.client_id,
        config.rack,
        member.owned,
        start.generation_id,
        config.subscription_version,
    )
    return encode_subscription(spec, strategy, config.library)


def _consumer_group(
    cluster: SimulatedCluster, scenario: Scenario, start: InitialGroup
) -> Iterator[GroupRecord]:
    group_id = scenario.group_id
    ids = {topic.name: topic.topic_id for topic in cluster.topics}
    members = [_consumer_member(scenario, start, name, ids) for name in start.members]
    matched = {
        regex: frozenset(filter(parse_regex(regex).fullmatch, scenario.topics))
        for regex in sorted({member.regex for member in members} - {""})
    }
    subscribed = frozenset().union(*matched.values(), *(member.topics for member in members))
    for member in reversed(members):  # a slot of the coordinator's table has the newest one first
        yield record_of.member_metadata(group_id, member)
    for regex, topics in matched.items():
        yield record_of.regular_expression(group_id, regex, (topics, 0, 0))
    epoch = start.generation_id
    yield record_of.group_epoch(group_id, epoch, cluster.topics.hash_of(subscribed))
    for start_member in start.members.values():
        target = _by_id(start_member.target, ids)
        yield record_of.target_assignment(group_id, start_member.member_id, target)
    yield record_of.assignment_epoch(group_id, start.assignment_epoch, 0)
    for member in members:
        yield record_of.current_assignment(group_id, member)


def _consumer_member(
    scenario: Scenario, start: InitialGroup, name: str, ids: Mapping[str, str]
) -> ConsumerMember:
    member, config = start.members[name], scenario.members[name].config
    since = max(member.epoch, 0)
    kept = filterfalse({*member.revoking}.__contains__, member.owned)
    assigned, revoking = (
        {topic_id: dict.fromkeys(numbers, since) for topic_id, numbers in _by_id(some, ids).items()}
        for some in (kept, member.revoking)
    )
    classic = None
    if config.group_protocol == "classic":
        protocols = [
            {
                "name": strategy,
                "metadata": b64encode(_subscription(scenario, start, name, strategy)).decode(),
            }
            for strategy in config.strategies
        ]
        classic = {"sessionTimeoutMs": config.session_timeout_ms, "supportedProtocols": protocols}
    return ConsumerMember(
        member.member_id,
        member.epoch,
        member.previous_epoch,
        member.state,
        instance_id=config.instance_id,
        rack_id=config.rack,
        rebalance_timeout_ms=config.max_poll_interval_ms,
        client_id=config.client_id,
        client_host="/127.0.0.1",
        topics=frozenset(config.topics),
        regex=config.regex or "",
        assignor=config.remote_assignor,
        assigned=assigned,
        revoking=revoking,
        classic=classic,
    )


def _by_id(partitions: Iterable[TopicPartition], ids: Mapping[str, str]) -> dict[str, list[int]]:
    return {ids[name]: numbers for name, numbers in numbers_by_topic(partitions).items()}


def joined(cluster: SimulatedCluster, scenario: Scenario, start: InitialGroup, name: str) -> Joined:
    """Return a member's initial membership."""
    member, config = start.members[name], scenario.members[name].config
    configs = (scenario.members[name].config for name in start.members)
    everything = frozenset(topic for config in configs for topic in _topics(config, scenario))
    leads = member.member_id == start.leader_id and not start.is_consumer_group
    first_beat_ms = start.first_beat_ms
    if first_beat_ms is None:
        first_beat_ms = cluster.chance(config.heartbeat_interval_ms)
    return Joined(
        member.member_id,
        member.epoch if start.is_consumer_group else start.generation_id,
        config.strategies[0] if start.is_consumer_group else start.protocol,
        tuple(sorted(member.owned)),
        _topics(config, scenario),
        everything if leads else None,
        first_beat_ms,
        frozenset(member.revoking),
    )


def _topics(config: ConsumerConfig, scenario: Scenario) -> tuple[str, ...]:
    if config.pattern is None:
        return config.topics
    return tuple(filter(config.pattern, scenario.topics))
