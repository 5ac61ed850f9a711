"""The coordinator of one partition of `__consumer_offsets`: as long as its broker leads it.

Source: `GroupCoordinator` of Kafka 1.1.1, 2.8.2 and 3.9.2; `GroupCoordinatorService` and
`CoordinatorRuntime` of 4.3.1.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from kgroup.protocol.error_code import ErrorCode
from kgroup.simulation import rules
from kgroup.simulation.classic.coordinator import ClassicCoordinator
from kgroup.simulation.classic.rebalance import World
from kgroup.simulation.clock import Timer
from kgroup.simulation.coordinator_log import CoordinatorLog
from kgroup.simulation.message import (
    Answer,
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
    Request,
    SyncAnswer,
    SyncGroup,
)
from kgroup.simulation.rules import Settings
from kgroup.word import Word

__all__ = ["CoordinatorState", "GroupCoordinator"]


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

    Attributes:
        state: `resigned` at first.
        classic: the classic groups.
    """

    def __init__(self, settings: Settings, world: World) -> None:
        self.state = CoordinatorState.RESIGNED
        self.classic = ClassicCoordinator(settings, world)
        self._settings = settings
        self._world = world
        self._timer: Timer | None = None

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
            load = _LOADS[record.type]
            load(self.classic, record.key["data"], record.value["data"])
        self.state = CoordinatorState.ACTIVE
        self.classic.loaded()
        self._expire()

    def _expire(self) -> None:
        self.classic.expire_offsets()
        interval_ms = self._settings.offsets_retention_check_interval_ms
        self._timer = self._world.clock.after(interval_ms, self._expire)

    def resign(self) -> None:
        """Lead the partition no more: what was under way is lost."""
        if self._timer is not None:
            self._timer.cancel()
        self.state = CoordinatorState.RESIGNED
        self.classic.unload()
        self.classic = ClassicCoordinator(self._settings, self._world)

    def handle(self, request: Request) -> None:
        """Take a request; it is answered now or later, through the world."""
        handler, refusal = _HANDLERS[type(request)]
        if self.state is CoordinatorState.ACTIVE:
            handler(self.classic, request)
        elif self.state is CoordinatorState.RESIGNED:
            self._world.answer(request, refusal(request, ErrorCode.NOT_COORDINATOR))
        else:
            self._world.answer(request, self._while_loading(request, refusal))

    def _while_loading(
        self, request: Request, refusal: Callable[[Any, ErrorCode], Answer]
    ) -> Answer:
        """Have clients ask again; who is in a group is left in peace, or told to join again."""
        code, version = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, self._settings.version
        if isinstance(request, Heartbeat):
            code = ErrorCode.NONE
        elif isinstance(request, SyncGroup) and version < rules.SYNC_WHILE_LOADING:
            code = ErrorCode.UNKNOWN_MEMBER_ID
        elif isinstance(request, SyncGroup) and version < rules.JAVA:
            code = ErrorCode.REBALANCE_IN_PROGRESS
        return refusal(request, code)


_HANDLERS: Mapping[type, tuple[Callable[[Any, Any], None], Callable[[Any, ErrorCode], Answer]]] = {
    JoinGroup: (
        ClassicCoordinator.join_group,
        lambda request, code: JoinAnswer(code, request.member_id),
    ),
    SyncGroup: (ClassicCoordinator.sync_group, lambda _, code: SyncAnswer(code)),
    Heartbeat: (ClassicCoordinator.heartbeat, lambda _, code: HeartbeatAnswer(code)),
    LeaveGroup: (ClassicCoordinator.leave_group, lambda _, code: LeaveAnswer(code)),
    OffsetCommit: (
        ClassicCoordinator.offset_commit,
        lambda request, code: CommitAnswer(dict.fromkeys(request.offsets, code)),
    ),
    OffsetFetch: (ClassicCoordinator.offset_fetch, lambda _, code: FetchAnswer(code)),
    OffsetDelete: (ClassicCoordinator.offset_delete, lambda _, code: OffsetDeleteAnswer(code)),
    DescribeGroup: (ClassicCoordinator.describe_group, lambda _, code: DescribeAnswer(code)),
    ListGroups: (ClassicCoordinator.list_groups, lambda _, code: ListAnswer(code)),
    DeleteGroup: (ClassicCoordinator.delete_group, lambda _, code: DeleteAnswer(code)),
}
"""For each request what handles it, and the answer that refuses it."""

_LOADS: Mapping[str, Callable[[ClassicCoordinator, Any, Any], None]] = {
    "GroupMetadata": ClassicCoordinator.load,
    "OffsetCommit": lambda classic, key, value: classic.offsets.load(key, value),
}
