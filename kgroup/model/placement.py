"""Where a live cluster says that something is coordinated."""

from dataclasses import dataclass

from kgroup.model.group import Broker

__all__ = ["Placement"]


@dataclass(frozen=True, slots=True)
class Placement:
    """The coordinator of a group or a transactional id, and the partition that makes it that.

    Attributes:
        partition_count: partitions of the topic; None where the topic may not be described.
        coordinator: the broker that says it is the coordinator; None where there is none.
        error: Kafka's name of the error that was given instead.
        leader: of the partition; None where it has none.
        replicas: broker ids, the preferred leader first; None where the topic is not known.
        isr: broker ids of the in-sync replicas; likewise.
    """

    partition_count: int | None
    coordinator: Broker | None
    error: str | None
    leader: Broker | None
    replicas: tuple[int, ...] | None
    isr: tuple[int, ...] | None
