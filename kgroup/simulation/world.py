"""Shared parts of a simulation: clock, random numbers, network delays, logs, and timeline."""

from __future__ import annotations

from random import Random

from kgroup.model.cluster import TopicPartition
from kgroup.model.group import GroupState
from kgroup.simulation.clock import Clock
from kgroup.simulation.partition_logs import PartitionLogs
from kgroup.simulation.timeline import Event, Timeline

OPERATOR = "operator"
"""Actor of the operator's events."""


class World:
    """A simulation of machines on a network.

    Args:
        rate: records per second and partition.
        delay_ms: shortest and longest network delay of a message.
        random: source of random numbers.

    Attributes:
        clock: the clock of the simulation.
        timeline: recorder of events.
        logs: the partitions.
    """

    def __init__(self, rate: float, delay_ms: tuple[int, int], random: Random) -> None:
        self.clock = Clock()
        self.logs = PartitionLogs(self.clock, rate)
        self.timeline = Timeline(self.clock, self.logs)
        self._delay_ms = delay_ms
        self._random = random

    def chance(self, below: int) -> int:
        """Return a random integer from 0 to `below` - 1."""
        return int(self._random.random() * below)

    def delay(self) -> int:
        """Return the network delay of the next message, in ms."""
        low, high = self._delay_ms
        return low + self.chance(high - low + 1)

    @property
    def standing(self) -> tuple[GroupState | None, int | None]:
        """State and generation of the group."""
        return None, None

    def note(
        self,
        actor: str,
        event: str,
        answer: str | None = None,
        error: str | None = None,
        partitions: tuple[TopicPartition, ...] | None = None,
    ) -> None:
        """Record an event, and the group's state after it."""
        state, generation_id = self.standing
        self.timeline.events.append(
            Event(self.clock.now_ms, actor, event, answer, error, state, generation_id, partitions)
        )
