"""What happens to members and brokers in every scenario."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import replace
from random import Random
from typing import Generic, Protocol, TypeVar

from kgroup.simulation.message import TopicPartition
from kgroup.simulation.scenario.scenario import Action, Paused, Scenario, Step
from kgroup.simulation.world import OPERATOR, World


class _Member(Protocol):
    """A running program with a consumer."""

    name: str
    is_running: bool
    is_paused: bool
    paused_until_ms: int

    def stop(self) -> None:
        """End in order."""

    def crash(self) -> None:
        """End without a word."""

    def when_ended(self, action: Callable[[], None]) -> None:
        """Do something as soon as it has ended."""

    def run(self, action: Callable[[], None]) -> None:
        """Do something now, or when it goes on."""

    def pause(self, duration_ms: int | None) -> None:
        """Stand still, at least for so long."""

    def resume(self) -> None:
        """Go on."""

    def process(self, duration_ms: int) -> None:
        """Be busy for so long."""


_M = TypeVar("_M", bound=_Member)


class Stage(ABC, Generic[_M]):
    """A cluster and the members that run on it.

    Args:
        scenario: what happens.
        random: what chance decides.
        world: the cluster.
    """

    def __init__(self, scenario: Scenario, random: Random, world: World) -> None:
        self.clock = world.clock
        self.timeline = world.timeline
        self._world = world
        self._scenario = scenario
        self._running: dict[str, _M] = {}
        self._poison: dict[TopicPartition, tuple[int, int]] = {}
        self._awaited: dict[TopicPartition, int] = {}
        """Offsets that readers must have come to before all has happened that will."""
        self._random = random

    def schedule(self, steps: Iterable[Step]) -> None:
        """See that steps happen, so long from now as they say; each may be late."""
        jitter_ms = self._scenario.jitter_ms
        for step in steps:
            late_ms = self._random.randint(0, jitter_ms) if jitter_ms else 0
            self.clock.after(step.at_ms + late_ms, self._do(step))

    @property
    def consumers(self) -> list[_M]:
        """Those that run."""
        return [each for each in self._running.values() if each.is_running]

    @property
    def is_settled(self) -> bool:
        """Whether the group rests.

        Everybody reads what is theirs and is not late with it, nothing is asked that has no answer
        yet, and whatever a step has done to partitions has been read. Who stands still for ever is
        out of the group.
        """
        awake = [each for each in self.consumers if not each.is_paused]
        return self._rests(awake) and all(
            self._world.logs.is_read_to(*awaited) for awaited in self._awaited.items()
        )

    @abstractmethod
    def _rests(self, members: list[_M]) -> bool:
        """Tell whether these are the group, and each reads what is theirs."""

    @abstractmethod
    def _run(self, name: str) -> None:
        """Start a member's program."""

    @abstractmethod
    def _configure(self, step: Step) -> None:
        """Let a member start with another configuration next time."""

    @abstractmethod
    def _commit(self, member: _M, step: Step) -> None:
        """Let a member commit."""

    @abstractmethod
    def _set_partitions(self, topic: str, count: int) -> None:
        """Create a topic, or give it more partitions."""

    @abstractmethod
    def _is_up(self, broker: int) -> bool:
        """Tell whether a broker runs."""

    @abstractmethod
    def _stop_broker(self, broker: int) -> None:
        """Let a broker crash."""

    @abstractmethod
    def _start_broker(self, broker: int) -> None:
        """Let it come back."""

    def _move_coordinator(self, step: Step) -> None:
        raise NotImplementedError

    def _remove(self, step: Step) -> None:
        raise NotImplementedError

    def _copy_offsets(self, step: Step) -> None:
        raise NotImplementedError

    def _disconnect(self, member: _M, duration_ms: int) -> None:
        raise NotImplementedError

    def _do(self, step: Step) -> Callable[[], None]:
        return lambda: self._act(step)

    def _act(self, step: Step) -> None:
        match step.action:
            case Action.START:
                self._configure(step)
                self._start(step)
            case Action.RESTART:
                self._restart(step)
            case Action.ADD_PARTITIONS | Action.ADD_TOPIC:
                assert step.topic is not None
                self._world.note(OPERATOR, str(step.action), f"{step.topic}: {step.count}")
                self._set_partitions(step.topic, step.count)
            case Action.POISON | Action.DELETE_RECORDS:
                self._change_log(step)
            case Action.REMOVE:
                self._remove(step)
            case Action.MOVE_COORDINATOR:
                self._move_coordinator(step)
            case Action.COPY_OFFSETS:
                self._copy_offsets(step)
            case Action.STOP_BROKER | Action.START_BROKER:
                self._act_on_broker(step)
            case _:
                self._act_on_member(step)

    def _act_on_broker(self, step: Step) -> None:
        """Let a broker stop that runs, or start one that does not."""
        assert step.broker is not None
        is_end = step.action is Action.STOP_BROKER
        if self._is_up(step.broker) is is_end:
            (self._stop_broker if is_end else self._start_broker)(step.broker)
        else:
            remark = "does not run" if is_end else "runs already"
            self._world.note(f"broker {step.broker}", str(step.action), remark)

    def _act_on_member(self, step: Step) -> None:
        """Let something happen to a member that runs."""
        member = self._running.get(step.member or "")
        if member is None or not member.is_running:
            self._world.note(step.member or "", str(step.action), "does not run")
            return
        self._world.note(member.name, str(step.action), step.told)
        match step.action:
            case Action.STOP:
                member.run(member.stop)
            case Action.CRASH:
                member.crash()
            case Action.PAUSE:
                self._pause(member, step)
            case Action.RESUME:
                member.resume()
            case Action.COMMIT:
                member.run(lambda: self._commit(member, step))

    def _start(self, step: Step) -> None:
        assert step.member is not None
        running = self._running.get(step.member)
        if running is not None and running.is_running:
            self._world.note(step.member, "start", "runs already")
            return
        self._world.note(step.member, "start", step.told)
        self._run(step.member)

    def _restart(self, step: Step) -> None:
        self._act_on_member(replace(step, action=Action.STOP, told=None))
        self._configure(step)
        assert step.member is not None
        member = self._running.get(step.member)

        def start() -> None:
            if member is None:
                self._start(step)
            else:
                member.when_ended(lambda: self._start(step))

        self.clock.after(step.for_ms or 0, start)

    def _pause(self, member: _M, step: Step) -> None:
        if step.paused is Paused.PROCESSING:
            member.process(step.for_ms or 0)
        elif step.paused is Paused.ZOOKEEPER:
            self._disconnect(member, step.for_ms or 0)
        else:
            member.pause(step.for_ms)
            if step.for_ms is not None:
                resume = replace(step, action=Action.RESUME, for_ms=None, told=None)
                self.clock.after(step.for_ms, lambda: self._end_pause(member, resume))

    def _end_pause(self, member: _M, resume: Step) -> None:
        """Let a member go on, unless another pause holds it for longer."""
        is_over = self.clock.now_ms >= member.paused_until_ms
        if member.is_running and member.is_paused and is_over:
            self._act(resume)

    def _change_log(self, step: Step) -> None:
        assert step.topic is not None
        partition = (step.topic, step.count)
        if step.action is Action.POISON:
            offset = self._world.logs.end_offset(partition)
            self._poison[partition] = (offset, step.for_ms or 0)
            self._awaited[partition] = offset + 1
        else:
            offset = self._world.logs.delete_records(partition)
            self._awaited[partition] = max(offset, self._awaited.get(partition, 0))
        self._world.note(OPERATOR, str(step.action), f"offset {offset}", None, (partition,))
