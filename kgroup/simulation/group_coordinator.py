"""The coordinator of one partition of `__consumer_offsets`: as long as its broker leads it.

Source: `GroupCoordinator` of Kafka 1.1.1, 2.8.2 and 3.9.2; `GroupCoordinatorService` and
`CoordinatorRuntime` of 4.3.1.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from kgroup.protocol.error_code import ErrorCode
from kgroup.simulation import rules
from kgroup.simulation.classic.coordinator import REQUESTS, ClassicCoordinator
from kgroup.simulation.classic.group import ClassicGroup
from kgroup.simulation.clock import Timer
from kgroup.simulation.consumer.group import ConsumerGroup
from kgroup.simulation.consumer.message import (
    AnyAnswer,
    AnyRequest,
    ConsumerDescribeAnswer,
    ConsumerGroupHeartbeat,
    ConsumerHeartbeatAnswer,
    DescribeConsumerGroup,
)
from kgroup.simulation.consumer.record import Record
from kgroup.simulation.consumer.settings import ConsumerSettings
from kgroup.simulation.consumer.topic_image import TopicImage
from kgroup.simulation.consumer.validation import Refusal, check_request
from kgroup.simulation.coordinator_log import CoordinatorLog
from kgroup.simulation.message import (
    CommitAnswer,
    DeleteAnswer,
    DeleteGroup,
    DescribeAnswer,
    DescribeGroup,
    FetchAnswer,
    Heartbeat,
    HeartbeatAnswer,
    JoinAnswer,
    JoinGroup,
    LeaveAnswer,
    LeaveGroup,
    ListAnswer,
    ListGroups,
    OffsetCommit,
    OffsetDelete,
    OffsetDeleteAnswer,
    OffsetFetch,
    SyncAnswer,
    SyncGroup,
)
from kgroup.simulation.mixed_coordinator import MixedCoordinator, World
from kgroup.simulation.rules import Settings
from kgroup.word import Word


class CoordinatorState(Word):
    """Whether a broker answers for the groups of a partition."""

    RESIGNED = ("resigned", "Another broker leads the partition: clients shall look for it.")
    LOADING = ("loading", "The broker reads the partition: clients shall ask again.")
    ACTIVE = ("active", "The broker knows the groups and answers for them.")


class GroupCoordinator:
    """What a broker does with requests of groups, in each of its states.

    Args:
        settings: of the broker.
        world: what is around it.
        consumer: settings for consumer groups, which brokers of 4.0 and later have.
        topics: of the cluster, on which consumer groups depend.

    Attributes:
        state: `resigned` at first.
        classic: the classic groups, and what groups of all protocols have committed.
    """

    def __init__(
        self,
        settings: Settings,
        world: World,
        consumer: ConsumerSettings | None = None,
        topics: TopicImage | None = None,
    ) -> None:
        self.state = CoordinatorState.RESIGNED
        self._settings = settings
        self._consumer = consumer or ConsumerSettings()
        self._world = world
        self._topics = topics or TopicImage()
        self._timer: Timer | None = None
        self._expiry: Timer | None = None
        self._begin()
        self.start()

    def start(self) -> None:
        """Run, as a broker that was started now.

        Before 4.0 it looks for expired offsets now and at every interval, whatever it leads then
        (`GroupMetadataManager.startup`); later for each partition an interval after it was loaded.
        """
        if self._settings.version < rules.JAVA:
            self._expire_after(0)

    def _begin(self) -> None:
        """Know no groups."""
        self._mixed: MixedCoordinator | None = None
        if self._settings.version >= rules.JAVA:
            self._mixed = MixedCoordinator(
                self._settings, self._consumer, self._world, self._topics
            )
            self.classic = self._mixed.classic
        else:
            self.classic = ClassicCoordinator(self._settings, self._world)

    def group(self, group_id: str) -> ClassicGroup | ConsumerGroup | None:
        """Return a group, of either protocol, if it is there."""
        found = None if self._mixed is None else self._mixed.groups.get(group_id)
        return self.classic.groups.get(group_id) if found is None else found

    def update_topics(self, topics: TopicImage) -> None:
        """Take note of topics that were made, changed or deleted; brokers do in every state."""
        self._topics = topics
        if self._mixed is not None:
            self._mixed.update_topics(topics)

    def elect(self, log: CoordinatorLog, load_ms: int) -> None:
        """Begin to lead the partition; its groups are known when all of it is read.

        Kafka: `loadGroupsForPartition`.
        """
        self.state = CoordinatorState.LOADING
        self._timer = self._world.clock.after(load_ms, lambda: self._load(log))

    def _load(self, log: CoordinatorLog) -> None:
        for record in log:
            assert record.key is not None
            assert record.value is not None
            key, value = record.key["data"], record.value["data"]
            if self._mixed is None:
                _LOADS[record.type](self.classic, key, value)
            else:
                self._mixed.replay(Record(record.type, key, value))
        self.state = CoordinatorState.ACTIVE
        if self._mixed is None:
            self.classic.loaded()
        else:
            self._mixed.on_loaded()
            self._expire_after(self._settings.offsets_retention_check_interval_ms)

    def _expire_after(self, delay_ms: int) -> None:
        if self._expiry is not None:
            self._expiry.cancel()
        self._expiry = self._world.clock.after(delay_ms, self._expire)

    def _expire(self) -> None:
        if self.state is CoordinatorState.ACTIVE:
            (self._mixed or self.classic).expire_offsets()
        self._expire_after(self._settings.offsets_retention_check_interval_ms)

    def resign(self) -> None:
        """Lead the partition no more: what was under way is lost."""
        if self._timer is not None:
            self._timer.cancel()
        if self._mixed is not None and self._expiry is not None:
            self._expiry.cancel()
        self.state = CoordinatorState.RESIGNED
        if self._mixed is None:
            self.classic.unload()
        else:
            self._mixed.on_unloaded()
        self._begin()

    def handle(self, request: AnyRequest) -> None:
        """Take a request; it is answered now or later, through the world."""
        refusal = _REFUSALS[type(request)]
        if (code := self._refuse(request)) is not None:
            self._world.answer(request, refusal(request, code))
        else:
            (self._mixed or self.classic).handle(request)

    def _refuse(self, request: AnyRequest) -> ErrorCode | None:
        """Refuse what cannot be asked of the broker at all, and what it cannot answer now."""
        if self._mixed is None and type(request) not in REQUESTS:
            return ErrorCode.UNSUPPORTED_VERSION
        if self.state is CoordinatorState.ACTIVE:
            return None
        if isinstance(request, ConsumerGroupHeartbeat):
            try:
                check_request(request, self._consumer.assignors)
            except Refusal as refusal:
                return refusal.code
        if self.state is CoordinatorState.RESIGNED:
            return ErrorCode.NOT_COORDINATOR
        return self._while_loading(request)

    def _while_loading(self, request: AnyRequest) -> ErrorCode:
        """Have clients ask again; who is in a group is left in peace, or told to join again."""
        version = self._settings.version
        if isinstance(request, Heartbeat):
            return ErrorCode.NONE
        if isinstance(request, SyncGroup) and version < rules.SYNC_WHILE_LOADING:
            return ErrorCode.UNKNOWN_MEMBER_ID
        if isinstance(request, SyncGroup) and version < rules.JAVA:
            return ErrorCode.REBALANCE_IN_PROGRESS
        return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


_REFUSALS: Mapping[type, Callable[[Any, ErrorCode], AnyAnswer]] = {
    JoinGroup: lambda request, code: JoinAnswer(code, request.member_id),
    SyncGroup: lambda _, code: SyncAnswer(code),
    Heartbeat: lambda _, code: HeartbeatAnswer(code),
    LeaveGroup: lambda _, code: LeaveAnswer(code),
    OffsetCommit: lambda request, code: CommitAnswer(dict.fromkeys(request.offsets, code)),
    OffsetFetch: lambda _, code: FetchAnswer(code),
    OffsetDelete: lambda _, code: OffsetDeleteAnswer(code),
    DescribeGroup: lambda _, code: DescribeAnswer(code),
    ListGroups: lambda _, code: ListAnswer(code),
    DeleteGroup: lambda _, code: DeleteAnswer(code),
    ConsumerGroupHeartbeat: lambda _, code: ConsumerHeartbeatAnswer(code),
    DescribeConsumerGroup: lambda _, code: ConsumerDescribeAnswer(code),
}
"""The answer that refuses each request."""

_LOADS: Mapping[str, Callable[[ClassicCoordinator, Any, Any], None]] = {
    "GroupMetadata": ClassicCoordinator.load,
    "OffsetCommit": lambda classic, key, value: classic.offsets.replay(key, value),
}
"""What takes in each record before 4.0."""
