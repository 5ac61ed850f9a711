"""What a build knows of a cluster, to continue from there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from kgroup.history.warehouse.table_file import WrittenFile


@dataclass(frozen=True, slots=True)
class SeenSegment:
    """A segment file that was read from its start.

    Attributes:
        base_offset: base offset in the file name; None if the name is not a number.
        size: number of bytes read; if the file has grown, the next build continues from there.
        fingerprint: fingerprint of these bytes.
    """

    base_offset: int | None
    size: int
    fingerprint: str


@dataclass(frozen=True, slots=True)
class PartitionState:
    """State of a partition of `__consumer_offsets`.

    Attributes:
        coverage: file with the known offsets; None if there are none.
        seen: segment files read, the latest ones.
        live_end: offset up to which the live log was read; None if it was never read.
        derived_end: last offset from which assignments were derived; None if there are none.
        members: file with the members, for the next derivation; None if there are none.
    """

    coverage: str | None
    seen: tuple[SeenSegment, ...]
    live_end: int | None
    derived_end: int | None
    members: str | None

    @classmethod
    def none(cls) -> PartitionState:
        """Return the state of a new partition."""
        return cls(None, (), None, None, None)


@dataclass(frozen=True, slots=True)
class ClusterState:
    """State of a cluster.

    Attributes:
        files: files of the tables.
        partitions: partitions of `__consumer_offsets`, by number.
        topic_names: known names of users' topics, by topic id.
    """

    files: tuple[WrittenFile, ...]
    partitions: Mapping[int, PartitionState]
    topic_names: Mapping[str, str]

    @classmethod
    def none(cls) -> ClusterState:
        """Return the state of a new cluster."""
        return cls((), {}, {})
