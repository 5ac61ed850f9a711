"""Groups that a broker coordinates, and Java's consumers."""

from __future__ import annotations

from random import Random

from kgroup.model.group import GroupState
from kgroup.simulation.client.application import Consumer, Habits
from kgroup.simulation.client.config import Joined
from kgroup.simulation.cluster import Cluster
from kgroup.simulation.message import (
    CommittedPartition,
    FetchAnswer,
    LeaveGroup,
    LeavingMember,
    OffsetCommit,
    OffsetFetch,
    TopicPartition,
)
from kgroup.simulation.scenario.scenario import KeptIn, MemberPlan, Scenario, Step
from kgroup.simulation.scenario.stage import Stage
from kgroup.simulation.scenario.start import joined, write_start
from kgroup.simulation.world import OPERATOR


class CoordinatorStage(Stage[Consumer]):
    """Brokers, one of which coordinates the group, and its members.

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
        """Tell whether they are a stable group that owns all it subscribes to, or it is empty."""
        group = self.cluster.group
        if self.cluster.logs.is_held:
            return False
        if group is None or group.state is GroupState.EMPTY:
            return not members
        is_stable = group.state is GroupState.STABLE and len(group) == len(members)
        if not is_stable or not all(each.is_settled for each in members):
            return False
        wanted = {
            (topic.name, number)
            for topic in self.cluster.topics
            if any(each.client.config.subscribes_to(topic.name) for each in members)
            for number in range(topic.partitions)
        }
        owned = [partition for each in members for partition in each.client.owned]
        return len(owned) == len(wanted) and wanted.issuperset(owned)

    def _run(self, name: str, stands: Joined | None = None) -> None:
        plan = self._plans[name]
        store = None if plan.offsets is KeptIn.KAFKA else self._store
        takes_later = plan.offsets is KeptIn.BOTH
        habits = Habits(plan.processing_ms, plan.auto_offset_reset, store, takes_later)
        self._running[name] = Consumer(
            name, plan.config, habits, self.cluster, self._poison, stands
        )

    def _configure(self, step: Step) -> None:
        assert step.member is not None
        if isinstance(step.plan, MemberPlan):
            self._plans[step.member] = step.plan

    def _commit(self, member: Consumer, step: Step) -> None:
        member.commit(step.generation_id)

    def _remove(self, step: Step) -> None:
        """Ask the coordinator to remove a member, which need not run: a static one by its instance.

        Who restarts configured anew is removed as what it was.
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
            self.cluster.note(OPERATOR, str(step.action), "there is no other broker")
        elif broker == self.cluster.coordinator:
            self.cluster.note(f"broker {broker}", str(step.action), "coordinates already")
        elif not self._is_up(broker):
            self.cluster.note(f"broker {broker}", str(step.action), "does not run")
        else:
            self.cluster.move_coordinator(broker)

    def _copy_offsets(self, step: Step) -> None:
        broker, group_id = self.cluster.coordinator, self._scenario.group_id
        if broker is None:
            self.cluster.note(OPERATOR, str(step.action), "there is no coordinator")
            return
        self.cluster.note(OPERATOR, str(step.action), f"to {step.to}")
        if step.to is KeptIn.KAFKA:
            offsets = {each: CommittedPartition(offset) for each, offset in self._store.items()}
            self.cluster.send(OPERATOR, broker, OffsetCommit(group_id, offsets), lambda _: None)
        else:
            self.cluster.send(OPERATOR, broker, OffsetFetch(group_id), self._take)

    def _take(self, answer: FetchAnswer | None) -> None:
        """Have in the external store what is committed."""
        if answer is not None:
            offsets = answer.offsets.items()
            self._store.update({each: at.committed_offset for each, at in offsets})

    def _is_up(self, broker: int) -> bool:
        return self.cluster.is_up(broker)

    def _stop_broker(self, broker: int) -> None:
        self.cluster.stop_broker(broker, self._scenario.failover_ms)

    def _start_broker(self, broker: int) -> None:
        self.cluster.start_broker(broker)
