"""All groups at one instant."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from kgroup.model.group import Group


@dataclass(frozen=True, slots=True)
class Image:
    """The groups of a cluster, or of the part of it that a source could see.

    Attributes:
        groups: by group id, sorted.
        topic_names: names of topics by their ids, as far as the source knows them.
        cluster_id: Kafka's base64url text.
        broker_ids: brokers whose log directories were read; empty for a live cluster.
        offsets_partition_count: partitions of `__consumer_offsets`; None where the source cannot
            know it.
    """

    groups: Mapping[str, Group] = field(default_factory=dict)
    topic_names: Mapping[str, str] = field(default_factory=dict)
    cluster_id: str | None = None
    broker_ids: tuple[int, ...] = ()
    offsets_partition_count: int | None = None
