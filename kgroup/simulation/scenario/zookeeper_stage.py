"""Groups of consumers that live on ZooKeeper."""

from __future__ import annotations

from random import Random

from kgroup.assignor.base import AssignorError
from kgroup.simulation.scenario.scenario import ConnectorPlan, Scenario, Step
from kgroup.simulation.scenario.stage import Stage
from kgroup.simulation.scenario.start import write_offsets
from kgroup.simulation.zookeeper.cluster import ZookeeperCluster
from kgroup.simulation.zookeeper.config import Registered
from kgroup.simulation.zookeeper.connector import Connector


class ZookeeperStage(Stage[Connector]):
    """Brokers, ZooKeeper, and consumers that find each other there.

    Args:
        scenario: what happens.
        random: what chance decides.

    Attributes:
        cluster: has the clock, on which it all happens.
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
        self._plans: dict[str, ConnectorPlan] = dict(scenario.connectors)
        super().__init__(scenario, random, self.cluster)
        if (start := scenario.start) is not None:
            there = [scenario.connectors[name].config for name in start.members]
            write_offsets(self.cluster, start, there)
            for name, member in start.members.items():
                self._run(name, Registered(member.member_id, member.threads, start.offsets))
        self.schedule(scenario.steps)

    def _rests(self, members: list[Connector]) -> bool:
        """Tell whether they are registered, and each has what is theirs and fetches it."""
        registered = self.cluster.registered()
        if not self.cluster.is_resting or registered.keys() != {e.consumer_id for e in members}:
            return False
        try:
            return all(each.is_settled(registered) for each in members)
        except AssignorError:
            return False

    def _run(self, name: str, registered: Registered | None = None) -> None:
        plan = self._plans[name]
        self._running[name] = Connector(
            name, plan.config, plan.processing_ms, self.cluster, self._poison, registered
        )

    def _configure(self, step: Step) -> None:
        assert step.member is not None
        if isinstance(step.plan, ConnectorPlan):
            self._plans[step.member] = step.plan

    def _commit(self, member: Connector, step: Step) -> None:
        member.commit()

    def _set_partitions(self, topic: str, count: int) -> None:
        self.cluster.set_partitions({topic: count})

    def _disconnect(self, member: Connector, duration_ms: int) -> None:
        member.cut(duration_ms)

    def _is_up(self, broker: int) -> bool:
        return self.cluster.is_up(broker)

    def _stop_broker(self, broker: int) -> None:
        self.cluster.stop_broker(broker, self._scenario.failover_ms)

    def _start_broker(self, broker: int) -> None:
        self.cluster.start_broker(broker, self._scenario.failover_ms)
