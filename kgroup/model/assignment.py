"""Who owns what: partitions for consumers and share groups, tasks for streams groups."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class AssignedPartition:
    """One partition of a user's topic in an assignment.

    Attributes:
        topic_id: Kafka's base64url text; None where the record names the topic only (classic
            protocol).
        topic: name; None where the record gives the id only (KIP-848, share) and no source knows
            its name.
        since_epoch: epoch in which the member got it (consumer groups since Kafka 4.3); with
            another one it is the same partition still.
        thread: ZooKeeper consumers: number of the member's stream that reads it, from 0.
        since_ms: ZooKeeper consumers: when the member took it.
    """

    topic_id: str | None
    topic: str | None
    partition: int
    since_epoch: int | None = field(default=None, compare=False)
    thread: int | None = field(default=None, compare=False)
    since_ms: int | None = field(default=None, compare=False)

    @property
    def sort_key(self) -> tuple[bool, str, int]:
        """Order in every report: topics by name, after them those of which only the id is known."""
        return (self.topic is None, self.topic or self.topic_id or "", self.partition)


@dataclass(frozen=True, slots=True)
class StrayOwner:
    """A partition whose owner, of this id, is no member."""

    member_id: str
    partition: AssignedPartition


@dataclass(frozen=True, slots=True, order=True)
class Task:
    """One task of a streams group (KIP-1071): a subtopology on one partition number.

    Attributes:
        since_epoch: of an active task the epoch in which the member got it (Kafka 4.3 and later);
            with another one it is the same task still.
    """

    subtopology_id: str
    partition: int
    since_epoch: int | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class TaskAssignment:
    """The tasks of one streams member, each list sorted."""

    active: tuple[Task, ...] = ()
    standby: tuple[Task, ...] = ()
    warmup: tuple[Task, ...] = ()
