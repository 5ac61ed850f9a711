"""Find a group's coordinator: its partition of `__consumer_offsets`, and who leads that."""

from dataclasses import dataclass

from kgroup.model.group import Broker

__all__ = ["GroupLocation"]


@dataclass(frozen=True, slots=True)
class GroupLocation:
    """Where a group is coordinated.

    Attributes:
        group_id: its name; the group need not exist.
        offsets_partition: partition of `__consumer_offsets`, computed from the name.
        partition_count: number of partitions it was computed with.
        found_in: partition of `__consumer_offsets` in which the source holds records of the group;
            None where it holds none, or there is no source.
        agrees: whether `found_in` is `offsets_partition`; None where nothing was found.
        coordinator: the broker that answers for the group; None without a live cluster.
        leader: leader of the partition; likewise.
        replicas: broker ids; likewise.
        isr: broker ids of the in-sync replicas; likewise.
    """

    group_id: str
    offsets_partition: int
    partition_count: int
    found_in: int | None
    agrees: bool | None
    coordinator: Broker | None = None
    leader: Broker | None = None
    replicas: tuple[int, ...] | None = None
    isr: tuple[int, ...] | None = None
