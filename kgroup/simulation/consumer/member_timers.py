"""What is to happen to members of consumer groups if they are not heard of in time."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum

from kgroup.simulation.clock import Clock, Timer


class TimerKind(Enum):
    """What a member is to do in time."""

    SESSION = "be heard of"
    REBALANCE = "give up partitions"
    JOIN = "join again (of those that speak the classic protocol)"
    SYNC = "sync (likewise)"


class MemberTimers:
    """One timer of each kind for each member, by their ids: they outlive the members."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._timers: dict[tuple[TimerKind, str, str], Timer] = {}

    def start(
        self,
        kind: TimerKind,
        group_id: str,
        member_id: str,
        delay_ms: int,
        action: Callable[[], None],
        *,
        anew: bool = True,
    ) -> None:
        """Have something happen; what was to happen does not, unless it is not to begin anew."""
        key = (kind, group_id, member_id)
        if key in self._timers:
            if not anew:
                return
            self._timers[key].cancel()

        def end() -> None:
            del self._timers[key]
            action()

        self._timers[key] = self._clock.after(delay_ms, end)

    def cancel(self, kind: TimerKind, group_id: str, member_id: str) -> None:
        """See that it does not happen."""
        if (timer := self._timers.pop((kind, group_id, member_id), None)) is not None:
            timer.cancel()

    def cancel_all(self, group_id: str, member_id: str) -> None:
        """See that nothing happens to a member that is removed (`cancelTimers`)."""
        for kind in TimerKind:
            self.cancel(kind, group_id, member_id)

    def clear(self) -> None:
        """See that nothing happens at all."""
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()
