"""Clusters and groups that are written down in a test, as plans need them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

from kgroup.errors import BrokerError, ProblemKind
from kgroup.model.client_library import Certainty
from kgroup.model.cluster import ClusterView, Partition, Placement, Topic
from kgroup.model.group import (
    AssignedPartition,
    Broker,
    Group,
    GroupState,
    GroupType,
    Member,
    Subscription,
)
from kgroup.model.offset import CommittedOffset
from kgroup.model.problem import Problem
from kgroup.operation.plan.running_group import RunningGroup, read_running
from kgroup.source.base import BrokerFeatures, SettingReading
from tests.operation.sources import FakeSource

_COORDINATOR = Broker(1, "kafka-1", 9092)


class FakeCluster(FakeSource):
    """Groups of a cluster whose brokers are of 4.3."""

    def __init__(
        self,
        *groups: Group,
        topics: Mapping[str, int] | None = None,
        settings: Mapping[int, Mapping[str, str]] | None = None,
        of_group: Mapping[str, str] | None = None,
        of_offsets_topic: Mapping[str, str] | None = None,
        heartbeat_version: int = 1,
    ) -> None:
        super().__init__(*(replace(group, coordinator=_COORDINATOR) for group in groups))
        self._topics = topics or {}
        self._settings = settings
        self._of_group = of_group
        self._of_offsets_topic = of_offsets_topic or {}
        self._heartbeat_version = heartbeat_version

    def view(self, topics: Collection[str]) -> ClusterView:
        found = {
            name: Topic(name, None, {n: Partition(1, (1,), (1,)) for n in range(count)})
            for name, count in self._topics.items()
            if name in topics
        }
        return ClusterView(None, None, {}, found)

    def placements(
        self, keys: Collection[str], *, transactional: bool = False
    ) -> Mapping[str, Placement]:
        return {}

    def topic_settings(self, topic: str, names: Collection[str]) -> Mapping[str, str]:
        assert topic == "__consumer_offsets"
        settings = self._of_offsets_topic
        return {name: settings[name] for name in names if name in settings}

    def features(self, broker_id: int) -> BrokerFeatures:
        assert broker_id == _COORDINATOR.id
        return BrokerFeatures({68: self._heartbeat_version}, {"group.version": 1})

    def broker_settings(self, names: Collection[str]) -> SettingReading:
        if self._settings is None:
            return SettingReading({}, (Problem(ProblemKind.DENIED, "it is not told"),))
        return SettingReading(
            {
                broker: {name: each[name] for name in names if name in each}
                for broker, each in self._settings.items()
            }
        )

    def group_settings(self, group_id: str, names: Collection[str]) -> Mapping[str, str]:
        if self._of_group is None:
            raise BrokerError(ProblemKind.DENIED, "it is not told")
        return {name: self._of_group[name] for name in names if name in self._of_group}


def member(
    number: int,
    *,
    partitions: Collection[tuple[str, int]],
    topics: tuple[str, ...] = ("orders",),
    client_id: str | None = None,
    host: str = "/10.0.0.1",
    instance_id: str | None = None,
    session_timeout_ms: int | None = 45_000,
    is_old: bool = False,
) -> Member:
    """A member that owns partitions; an old one does not tell so."""
    owned = tuple(AssignedPartition(None, topic, each) for topic, each in partitions)
    return Member(
        f"m{number}",
        instance_id=instance_id,
        client_id=client_id or f"client-{number}",
        client_host=host,
        session_timeout_ms=session_timeout_ms,
        subscription=Subscription(topics, owned=None if is_old else owned),
        assignment=owned,
    )


def classic_group(*members: Member, assignor: str = "range", **more: object) -> Group:
    """A stable group "billing" whose first member leads; what it owns is committed."""
    return _group(GroupType.CLASSIC, members, assignor=assignor, generation_id=7, **more)


def consumer_group(*members: Member, **more: object) -> Group:
    """Likewise, of the consumer protocol."""
    return _group(GroupType.CONSUMER, members, group_epoch=7, assignment_epoch=7, **more)


def _group(type_: GroupType, members: tuple[Member, ...], **more: object) -> Group:
    offsets = tuple(
        CommittedOffset(partition.topic or "", partition.partition, 100)
        for found in members
        for partition in found.assignment or ()
    )
    known: dict[str, object] = {
        "protocol_type": "consumer",
        "leader_id": members[0].member_id if type_ is GroupType.CLASSIC else None,
        "offsets": tuple(sorted(offsets, key=lambda offset: (offset.topic, offset.partition))),
        **more,
    }
    return Group("billing", type_, GroupState.STABLE, members=members, **known)  # type: ignore[arg-type]


def group_of(
    names: str = "abc",
    strategy: str | None = "range",
    *,
    each: int = 2,
    generation_id: int = 7,
    state: GroupState = GroupState.STABLE,
    type_: GroupType = GroupType.CLASSIC,
    owned: bool = True,
    static: bool = False,
    incarnation: int = 1,
    library: str | None = None,
) -> Group:
    """Make a group whose members, called so, have some partitions each of the topic "t".

    Args:
        names: of members, a letter each.
        strategy: that the group uses.
        each: how many partitions a member has.
        generation_id: of the group.
        state: likewise.
        type_: likewise.
        owned: whether subscriptions tell what members own, as those of Kafka 2.4 and later do.
        static: whether members have instance ids.
        incarnation: part of the ids of members: a restarted one has another.
        library: that is certain of all members.
    """
    members = []
    for number, name in enumerate(names):
        partitions = tuple(AssignedPartition(None, "t", number * each + one) for one in range(each))
        members.append(
            Member(
                f"{name}-{incarnation}",
                instance_id=f"i-{name}" if static else None,
                client_id=name,
                session_timeout_ms=45_000,
                rebalance_timeout_ms=300_000,
                subscription=Subscription(("t",), owned=() if owned else None),
                assignment=partitions,
                client_library=library,
                client_library_certainty=Certainty.CERTAIN if library else None,
            )
        )
    return Group(
        "g",
        type_,
        state,
        "consumer",
        strategy,
        generation_id,
        leader_id=members[0].member_id if members else None,
        members=tuple(members),
    )


def running(group: Group) -> RunningGroup:
    """Give such a group as plans need it."""
    return read_running(FakeSource(group), group.group_id)
