"""Play a scenario: run its steps on members and brokers, and return a `Simulation`.

A `Stage` has the members of a scenario: Java consumers and the brokers that coordinate their group
(`CoordinatorStage`), or consumers that use ZooKeeper (`ZookeeperStage`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import replace
from itertools import chain
from random import Random
from typing import Generic, NamedTuple, Protocol, TypeVar

from kgroup.assignor.base import AssignorError
from kgroup.model.cluster import TopicPartition, partitions_of
from kgroup.model.group import GroupState
from kgroup.simulation.client.application import ApplicationSettings, Consumer
from kgroup.simulation.client.config import Joined
from kgroup.simulation.cluster import SimulatedCluster
from kgroup.simulation.message import (
    CommittedPartition,
    FetchAnswer,
    LeaveGroup,
    LeavingMember,
    OffsetCommit,
    OffsetFetch,
)
from kgroup.simulation.scenario.scenario import (
    Action,
    KeptIn,
    MemberPlan,
    Paused,
    Scenario,
    Step,
    ZookeeperMemberPlan,
    last_ms,
)
from kgroup.simulation.scenario.start import joined, write_offsets, write_start
from kgroup.simulation.timeline import Simulation, Timeline
from kgroup.simulation.world import OPERATOR, World
from kgroup.simulation.zookeeper.cluster import ZookeeperCluster
from kgroup.simulation.zookeeper.config import Registered
from kgroup.simulation.zookeeper.consumer import ZookeeperConsumer


class _Member(Protocol):
    """A running application with a consumer."""

    name: str
    is_running: bool
    is_paused: bool
    paused_until_ms: int

    def stop(self) -> None:
        """Shut down."""

    def crash(self) -> None:
        """End without closing the consumer."""

    def when_ended(self, action: Callable[[], None]) -> None:
        """Run an action when the application ends, or now if it has ended."""

    def run(self, action: Callable[[], None]) -> None:
        """Run an action now, or after the current pause."""

    def pause(self, duration_ms: int | None) -> None:
        """Pause, at least for this duration."""

    def resume(self) -> None:
        """Resume after a pause."""

    def process(self, duration_ms: int) -> None:
        """Process records for this duration."""


_M = TypeVar("_M", bound=_Member)


class Stage(ABC, Generic[_M]):
    """A cluster with its members.

    Args:
        scenario: the scenario to play.
        random: source of random numbers.
        world: the cluster.
    """

    def __init__(self, scenario: Scenario, random: Random, world: World) -> None:
        self.clock = world.clock
        self.timeline = world.timeline
        self._world = world
        self._scenario = scenario
        self._running: dict[str, _M] = {}
        self._poison: dict[TopicPartition, tuple[int, int]] = {}
        self._awaited: dict[int, int] = {}
        """Offsets that readers of rows must reach before all effects of the steps occurred."""
        self._random = random

    def schedule(self, steps: Iterable[Step]) -> None:
        """Schedule steps relative to now, each with random jitter."""
        jitter_ms = self._scenario.jitter_ms
        for step in steps:
            late_ms = self._random.randint(0, jitter_ms) if jitter_ms else 0
            self.clock.after(step.at_ms + late_ms, self._do(step))

    @property
    def consumers(self) -> list[_M]:
        """Running members."""
        return [member for member in self._running.values() if member.is_running]

    @property
    def is_settled(self) -> bool:
        """Whether the group is at rest.

        Every member reads its partitions without delay, no request is pending, and all records that
        a step has affected have been read. Members that are paused are not counted: a member paused
        for ever leaves the group.
        """
        awake = [consumer for consumer in self.consumers if not consumer.is_paused]
        return self._rests(awake) and all(
            self._world.logs.is_read_to(*awaited) for awaited in self._awaited.items()
        )

    @abstractmethod
    def _rests(self, members: list[_M]) -> bool:
        """Return whether these members form the group, and each reads its partitions."""

    @abstractmethod
    def _run(self, name: str) -> None:
        """Start a member's application."""

    @abstractmethod
    def _configure(self, step: Step) -> None:
        """Change a member's configuration from its next start on."""

    @abstractmethod
    def _commit(self, member: _M, step: Step) -> None:
        """Make a member commit."""

    @abstractmethod
    def _set_partitions(self, topic: str, count: int) -> None:
        """Create a topic, or add partitions to it."""

    @abstractmethod
    def _is_up(self, broker: int) -> bool:
        """Return whether a broker is running."""

    @abstractmethod
    def _stop_broker(self, broker: int) -> None:
        """Crash a broker."""

    @abstractmethod
    def _start_broker(self, broker: int) -> None:
        """Restart a broker."""

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
        """Stop or start a broker, or record that there is nothing to do."""
        assert step.broker is not None
        is_end = step.action is Action.STOP_BROKER
        if self._is_up(step.broker) is is_end:
            (self._stop_broker if is_end else self._start_broker)(step.broker)
        else:
            remark = "not running" if is_end else "already running"
            self._world.note(f"broker {step.broker}", str(step.action), remark)

    def _act_on_member(self, step: Step) -> None:
        """Apply a step to a running member."""
        member = self._running.get(step.member or "")
        if member is None or not member.is_running:
            self._world.note(step.member or "", str(step.action), "not running")
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
            self._world.note(step.member, "start", "already running")
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
        """Resume a member, unless another pause lasts longer."""
        is_over = self.clock.now_ms >= member.paused_until_ms
        if member.is_running and member.is_paused and is_over:
            self._act(resume)

    def _change_log(self, step: Step) -> None:
        assert step.topic is not None
        partition, logs = (step.topic, step.count), self._world.logs
        row = logs.row(partition)
        if step.action is Action.POISON:
            offset = logs.end_offset(row)
            self._poison[partition] = (offset, step.for_ms or 0)
            self._awaited[row] = offset + 1
        else:
            offset = logs.delete_records(row)
            self._awaited[row] = max(offset, self._awaited.get(row, 0))
        self._world.note(OPERATOR, str(step.action), f"offset {offset}", None, (partition,))


class CoordinatorStage(Stage[Consumer]):
    """Brokers, one of which coordinates the group, and its members.

    Args:
        scenario: the scenario to play.
        random: source of random numbers.

    Attributes:
        cluster: the simulated cluster, with the clock.
    """

    def __init__(self, scenario: Scenario, random: Random) -> None:
        self.cluster = SimulatedCluster(
            scenario.group_id,
            scenario.settings,
            scenario.consumer_settings,
            tuple(range(1, scenario.brokers + 1)),
            scenario.topics,
            scenario.rate,
            scenario.delay_ms,
            scenario.load_ms,
            random,
            {} if scenario.start is None else scenario.start.topic_ids,
        )
        self._plans: dict[str, MemberPlan] = dict(scenario.members)
        self._store: dict[TopicPartition, int] = {}
        if (start := scenario.start) is not None:
            self._store.update(start.stored)
            write_start(self.cluster, scenario, start)
        self.cluster.begin()
        super().__init__(scenario, random, self.cluster)
        if start is not None:
            for name, member in start.members.items():
                if not member.is_away:
                    self._run(name, joined(self.cluster, scenario, start, name))
        self.schedule(scenario.steps)

    def _rests(self, members: list[Consumer]) -> bool:
        """Return whether the group is stable and owns all subscribed partitions, or is empty."""
        group = self.cluster.group
        if self.cluster.logs.is_held:
            return False
        if group is None or group.state is GroupState.EMPTY:
            return not members
        is_stable = group.state is GroupState.STABLE and len(group) == len(members)
        if not is_stable or not all(member.is_settled for member in members):
            return False
        subscribed = (
            (topic.name, range(topic.partitions))
            for topic in self.cluster.topics
            if any(member.client.config.subscribes_to(topic.name) for member in members)
        )
        wanted = {*partitions_of(subscribed)}
        owned = [partition for member in members for partition in member.client.owned]
        return len(owned) == len(wanted) and wanted.issuperset(owned)

    def _run(self, name: str, stands: Joined | None = None) -> None:
        plan = self._plans[name]
        store = None if plan.offsets is KeptIn.KAFKA else self._store
        takes_later = plan.offsets is KeptIn.BOTH
        settings = ApplicationSettings(
            plan.processing_ms, plan.auto_offset_reset, store, takes_later
        )
        self._running[name] = Consumer(
            name, plan.config, settings, self.cluster, self._poison, stands
        )

    def _configure(self, step: Step) -> None:
        assert step.member is not None
        if isinstance(step.plan, MemberPlan):
            self._plans[step.member] = step.plan

    def _commit(self, member: Consumer, step: Step) -> None:
        member.commit(step.generation_id)

    def _remove(self, step: Step) -> None:
        """Send a LeaveGroup for a member, by instance id if static; it need not be running.

        A restarting member is removed under its old configuration.
        """
        assert step.member is not None
        running = self._running.get(step.member)
        config = self._plans[step.member].config if running is None else running.client.config
        if config.instance_id is not None:
            leaving = LeavingMember("", config.instance_id)
        else:
            leaving = LeavingMember("" if running is None else running.client.member_id)
        self.cluster.note(step.member, str(step.action))
        if (broker := self.cluster.coordinator) is not None:
            request = LeaveGroup(config.group_id, (leaving,))
            self.cluster.send(OPERATOR, broker, request, lambda _: None)

    def _set_partitions(self, topic: str, count: int) -> None:
        self.cluster.set_partitions({topic: count})

    def _move_coordinator(self, step: Step) -> None:
        broker = step.broker or self.cluster.another_broker()
        if broker is None:
            self.cluster.note(OPERATOR, str(step.action), "no other broker")
        elif broker == self.cluster.coordinator:
            self.cluster.note(f"broker {broker}", str(step.action), "already the coordinator")
        elif not self._is_up(broker):
            self.cluster.note(f"broker {broker}", str(step.action), "not running")
        else:
            self.cluster.move_coordinator(broker)

    def _copy_offsets(self, step: Step) -> None:
        broker, group_id = self.cluster.coordinator, self._scenario.group_id
        if broker is None:
            self.cluster.note(OPERATOR, str(step.action), "no coordinator")
            return
        self.cluster.note(OPERATOR, str(step.action), f"to {step.to}")
        if step.to is KeptIn.KAFKA:
            offsets = {
                partition: CommittedPartition(offset) for partition, offset in self._store.items()
            }
            self.cluster.send(OPERATOR, broker, OffsetCommit(group_id, offsets), lambda _: None)
        else:
            self.cluster.send(OPERATOR, broker, OffsetFetch(group_id), self._take)

    def _take(self, answer: FetchAnswer | None) -> None:
        """Copy the committed offsets to the external store."""
        if answer is not None:
            self._store.update(
                {at: offset.committed_offset for at, offset in answer.offsets.items()}
            )

    def _is_up(self, broker: int) -> bool:
        return self.cluster.is_up(broker)

    def _stop_broker(self, broker: int) -> None:
        self.cluster.stop_broker(broker, self._scenario.failover_ms)

    def _start_broker(self, broker: int) -> None:
        self.cluster.start_broker(broker)


class ZookeeperStage(Stage[ZookeeperConsumer]):
    """Brokers, ZooKeeper, and consumers that coordinate through ZooKeeper.

    Args:
        scenario: the scenario to play.
        random: source of random numbers.

    Attributes:
        cluster: the simulated cluster, with the clock.
    """

    def __init__(self, scenario: Scenario, random: Random) -> None:
        self.cluster = ZookeeperCluster(
            scenario.group_id,
            tuple(range(1, scenario.brokers + 1)),
            scenario.topics,
            scenario.tick_ms,
            scenario.rate,
            scenario.delay_ms,
            random,
        )
        self._plans: dict[str, ZookeeperMemberPlan] = dict(scenario.connectors)
        super().__init__(scenario, random, self.cluster)
        if (start := scenario.start) is not None:
            configs = [scenario.connectors[name].config for name in start.members]
            write_offsets(self.cluster, start, configs)
            for name, member in start.members.items():
                self._run(name, Registered(member.member_id, member.threads, start.offsets))
        self.schedule(scenario.steps)

    def _rests(self, members: list[ZookeeperConsumer]) -> bool:
        """Return whether exactly these members are registered and each fetches its partitions."""
        registered = self.cluster.registered()
        if not self.cluster.is_resting or registered.keys() != {e.consumer_id for e in members}:
            return False
        try:
            return all(member.is_settled(registered) for member in members)
        except AssignorError:
            return False

    def _run(self, name: str, registered: Registered | None = None) -> None:
        plan = self._plans[name]
        self._running[name] = ZookeeperConsumer(
            name, plan.config, plan.processing_ms, self.cluster, self._poison, registered
        )

    def _configure(self, step: Step) -> None:
        assert step.member is not None
        if isinstance(step.plan, ZookeeperMemberPlan):
            self._plans[step.member] = step.plan

    def _commit(self, member: ZookeeperConsumer, step: Step) -> None:
        member.commit()

    def _set_partitions(self, topic: str, count: int) -> None:
        self.cluster.set_partitions({topic: count})

    def _disconnect(self, member: ZookeeperConsumer, duration_ms: int) -> None:
        member.cut(duration_ms)

    def _is_up(self, broker: int) -> bool:
        return self.cluster.is_up(broker)

    def _stop_broker(self, broker: int) -> None:
        self.cluster.stop_broker(broker, self._scenario.failover_ms)

    def _start_broker(self, broker: int) -> None:
        self.cluster.start_broker(broker, self._scenario.failover_ms)


_LOOK_MS = 10
"""Interval of checks whether the group is at rest, in ms."""
_LOOK_AGAIN_MS = 100
"""The same interval after the time at which the group should be at rest."""


_SLICE_MS = 600_000
"""Interval of calls about the progress of a long simulation, in ms."""


def play(
    scenario: Scenario,
    seed: int,
    *,
    until_stable: bool = False,
    on_progress: Callable[[int], None] = lambda now_ms: None,
) -> Simulation:
    """Play a scenario to its end.

    Args:
        scenario: the scenario to play.
        seed: seed of the random numbers; the same seed gives the same timeline.
        until_stable: end when the last step is done and the group is at rest.
        on_progress: called with the simulated time.

    Returns:
        The result of the simulation.
    """
    stage = _stage(scenario, seed)
    clock = stage.clock
    last = last_ms(scenario.steps, scenario.jitter_ms) if until_stable else scenario.duration_ms
    for now_ms in chain(range(_SLICE_MS, last, _SLICE_MS), (last,)):
        clock.run(now_ms)
        on_progress(now_ms)
    is_at_rest = _rest(stage, scenario.duration_ms, _LOOK_MS, on_progress)
    return stage.timeline.end(scenario.title, scenario.about, seed, is_at_rest=is_at_rest)


class ScenarioPart(NamedTuple):
    """A part of a scenario; `at_ms` of its steps is relative to the start of the part.

    Attributes:
        steps: steps in order of time.
        duration_ms: minimum duration.
    """

    steps: tuple[Step, ...]
    duration_ms: int


class PartEnd(NamedTuple):
    """What was counted until the end of a part of a scenario.

    Attributes:
        end_ms: time of the end.
        is_at_rest, record_bytes: as in `Simulation`.
        events: number of events.
        read_again, skipped: number of records; as in `PartitionTotal`, of all partitions.
    """

    end_ms: int
    is_at_rest: bool
    record_bytes: int | None
    events: int
    read_again: int
    skipped: int


def play_parts(
    scenario: Scenario, seed: int, parts: Iterable[ScenarioPart], patience_ms: int
) -> tuple[Timeline, tuple[PartEnd, ...]]:
    """Play the parts of a scenario in turn; parts with steps end when the group is at rest.

    Args:
        scenario: the initial scenario, without steps; its duration is ignored.
        seed: seed of the random numbers; the same seed gives the same timeline.
        parts: parts in order.
        patience_ms: longest time to wait for the group to rest, after the duration of a part.

    Returns:
        The timeline, whose events do not list partitions in answers, and the end of each part.
    """
    stage = _stage(scenario, seed)
    timeline = stage.timeline
    timeline.lists_assigned = False
    ends = []
    for part in parts:
        stage.schedule(part.steps)
        end_ms = stage.clock.now_ms + part.duration_ms
        stage.clock.run(end_ms)
        is_at_rest = _rest(stage, end_ms + bool(part.steps) * patience_ms, _LOOK_AGAIN_MS)
        ends.append(
            PartEnd(
                stage.clock.now_ms,
                is_at_rest,
                timeline.record_bytes,
                len(timeline.events),
                *timeline.again_and_skipped(),
            )
        )
    return timeline, tuple(ends)


def _stage(scenario: Scenario, seed: int) -> CoordinatorStage | ZookeeperStage:
    make = ZookeeperStage if scenario.connectors else CoordinatorStage
    return make(scenario, Random(seed))


def _rest(
    stage: CoordinatorStage | ZookeeperStage,
    end_ms: int,
    every_ms: int,
    on_progress: Callable[[int], None] = lambda now_ms: None,
) -> bool:
    """Run until the group is at rest, or to the end; return whether it is at rest."""
    clock = stage.clock
    while not (is_settled := stage.is_settled) and clock.now_ms < end_ms:
        clock.run(min(clock.now_ms + every_ms, end_ms))
        on_progress(clock.now_ms)
    return is_settled
