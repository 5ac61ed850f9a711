"""Play a scenario: from its steps to what happened."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from random import Random

from kgroup.model.group import GroupState
from kgroup.simulation.client.application import Consumer, Habits
from kgroup.simulation.client.config import Joined
from kgroup.simulation.cluster import Cluster
from kgroup.simulation.message import TopicPartition
from kgroup.simulation.scenario.scenario import Action, MemberPlan, Scenario, Step
from kgroup.simulation.scenario.start import joined, write_start
from kgroup.simulation.timeline import Simulation
from kgroup.simulation.world import OPERATOR

__all__ = ["Stage", "play"]

_RESTART_MS = 5_000


def play(scenario: Scenario, seed: int, *, until_stable: bool = False) -> Simulation:
    """Play a scenario to its end.

    Args:
        scenario: what happens.
        seed: of everything that chance decides: the same seed gives the same timeline.
        until_stable: end as soon as the last step is done and the group is stable, or empty.

    Returns:
        What happened.
    """
    stage = Stage(scenario, Random(seed))
    clock = stage.cluster.clock
    ends_ms = (step.at_ms + (step.for_ms or 0) for step in scenario.steps)
    last_ms = max(ends_ms, default=0) + scenario.jitter_ms
    if not until_stable:
        clock.run(scenario.duration_ms)
    else:
        clock.run(last_ms)
        while not stage.is_settled and (due_ms := clock.next_ms) is not None:
            if due_ms > scenario.duration_ms:
                break
            clock.step()
    return stage.cluster.timeline.end(scenario.title, scenario.about, seed)


class Stage:
    """A cluster and the members that run on it.

    Args:
        scenario: what happens.
        random: what chance decides.

    Attributes:
        cluster: has the clock, on which it all happens.
    """

    def __init__(self, scenario: Scenario, random: Random) -> None:
        self.cluster = Cluster(
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
        self._scenario = scenario
        self._plans: dict[str, MemberPlan] = dict(scenario.members)
        self._running: dict[str, Consumer] = {}
        self._poison: dict[TopicPartition, tuple[int, int]] = {}
        self._store: dict[TopicPartition, int] = {}
        if (start := scenario.start) is not None:
            write_start(self.cluster, scenario, start)
        self.cluster.begin()
        if start is not None:
            for name in start.members:
                self._run(name, joined(self.cluster, scenario, start, name))
        for step in scenario.steps:
            late_ms = random.randint(0, scenario.jitter_ms) if scenario.jitter_ms else 0
            self.cluster.clock.after(step.at_ms + late_ms, self._do(step))

    @property
    def consumers(self) -> list[Consumer]:
        """Those that run."""
        return [each for each in self._running.values() if each.is_running]

    @property
    def is_settled(self) -> bool:
        """Whether the group is stable, or empty, of those who run; and each reads what it owns."""
        running = self.consumers
        group = self.cluster.group
        if group is None or group.state is GroupState.EMPTY:
            return not running
        is_stable = group.state is GroupState.STABLE and len(group) == len(running)
        return is_stable and all(each.is_settled for each in running)

    def _do(self, step: Step) -> Callable[[], None]:
        return lambda: _ACTIONS[step.action](self, step)

    def _member(self, step: Step) -> Consumer | None:
        """Return the member of a step, if it runs."""
        member = self._running.get(step.member or "")
        if member is None or not member.is_running:
            self.cluster.note(step.member or "", str(step.action), "does not run")
            return None
        self.cluster.note(member.name, str(step.action))
        return member

    def _start(self, step: Step) -> None:
        assert step.member is not None
        running = self._running.get(step.member)
        if running is not None and running.is_running:
            self.cluster.note(step.member, "start", "runs already")
            return
        self.cluster.note(step.member, "start")
        self._run(step.member)

    def _run(self, name: str, stands: Joined | None = None) -> None:
        plan = self._plans[name]
        store = self._store if plan.is_stored_outside else None
        habits = Habits(plan.processing_ms, plan.auto_offset_reset, store)
        self._running[name] = Consumer(
            name, plan.config, habits, self.cluster, self._poison, stands
        )

    def _stop(self, step: Step) -> None:
        if (member := self._member(step)) is not None:
            member.stop()

    def _crash(self, step: Step) -> None:
        if (member := self._member(step)) is not None:
            member.crash()

    def _restart(self, step: Step) -> None:
        assert step.member is not None
        self._stop(step)
        if step.plan is not None:
            self._plans[step.member] = step.plan
        self.cluster.clock.after(step.for_ms or _RESTART_MS, lambda: self._start(step))

    def _pause(self, step: Step) -> None:
        if (member := self._member(step)) is None:
            return
        if not step.is_whole:
            member.process(step.for_ms or 0)
            return
        member.pause()
        if step.for_ms is not None:
            self.cluster.clock.after(
                step.for_ms, self._do(replace(step, action=Action.RESUME, for_ms=None))
            )

    def _resume(self, step: Step) -> None:
        if (member := self._member(step)) is not None:
            member.resume()

    def _commit(self, step: Step) -> None:
        if (member := self._member(step)) is not None:
            member.commit(step.generation_id)

    def _set_partitions(self, step: Step) -> None:
        assert step.topic is not None
        self.cluster.note(OPERATOR, str(step.action), f"{step.topic}: {step.count}")
        self.cluster.set_partitions({step.topic: step.count})

    def _set_poison(self, step: Step) -> None:
        assert step.topic is not None
        partition = (step.topic, step.count)
        offset = self.cluster.logs.end_offset(partition)
        self._poison[partition] = (offset, step.for_ms or 0)
        self.cluster.note(OPERATOR, str(step.action), f"offset {offset}", partitions=(partition,))

    def _move_coordinator(self, step: Step) -> None:
        broker = step.broker or self.cluster.another_broker()
        if broker is None:
            self.cluster.note(OPERATOR, str(step.action), "there is no other broker")
            return
        self.cluster.note(OPERATOR, str(step.action), f"to broker {broker}")
        self.cluster.move_coordinator(broker)

    def _stop_broker(self, step: Step) -> None:
        assert step.broker is not None
        self.cluster.note(f"broker {step.broker}", str(step.action))
        self.cluster.stop_broker(step.broker, self._scenario.failover_ms)

    def _start_broker(self, step: Step) -> None:
        assert step.broker is not None
        self.cluster.note(f"broker {step.broker}", str(step.action))
        self.cluster.start_broker(step.broker)


_ACTIONS: Mapping[Action, Callable[[Stage, Step], None]] = {
    Action.START: Stage._start,
    Action.STOP: Stage._stop,
    Action.CRASH: Stage._crash,
    Action.RESTART: Stage._restart,
    Action.PAUSE: Stage._pause,
    Action.RESUME: Stage._resume,
    Action.COMMIT: Stage._commit,
    Action.ADD_PARTITIONS: Stage._set_partitions,
    Action.ADD_TOPIC: Stage._set_partitions,
    Action.POISON: Stage._set_poison,
    Action.MOVE_COORDINATOR: Stage._move_coordinator,
    Action.STOP_BROKER: Stage._stop_broker,
    Action.START_BROKER: Stage._start_broker,
}
