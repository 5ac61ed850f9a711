"""What all that is simulated shares: the time, chance, the network, the logs, and the timeline."""

from __future__ import annotations

from random import Random

from kgroup.model.group import GroupState
from kgroup.simulation.clock import Clock
from kgroup.simulation.message import TopicPartition
from kgroup.simulation.partition_logs import PartitionLogs
from kgroup.simulation.timeline import Event, Timeline

OPERATOR = "operator"
"""Who acts where somebody does something to the cluster."""


class World:
    """A world in which machines talk to each other.

    Args:
        rate: records a second that come to each partition.
        delay_ms: least and most that a message takes from one to the other.
        random: what chance decides.

    Attributes:
        clock: the time.
        timeline: what happened.
        logs: the partitions.
    """

    def __init__(self, rate: float, delay_ms: tuple[int, int], random: Random) -> None:
        self.clock = Clock()
        self.logs = PartitionLogs(self.clock, rate)
        self.timeline = Timeline(self.clock, self.logs)
        self._delay_ms = delay_ms
        self._random = random

    def chance(self, below: int) -> int:
        """Return a number below another, as chance decides."""
        return int(self._random.random() * below)

    def delay(self) -> int:
        """Return how long the next message takes."""
        low, high = self._delay_ms
        return low + self.chance(high - low + 1)

    @property
    def standing(self) -> tuple[GroupState | None, int | None]:
        """The group's state and generation now."""
        return None, None

    def note(
        self,
        actor: str,
        event: str,
        answer: str | None = None,
        error: str | None = None,
        partitions: tuple[TopicPartition, ...] | None = None,
    ) -> None:
        """Note what happened, and what the group is after it."""
        state, generation_id = self.standing
        self.timeline.events.append(
            Event(self.clock.now_ms, actor, event, answer, error, state, generation_id, partitions)
        )
