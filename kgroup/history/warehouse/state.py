"""What a build knows of a cluster, to continue from there.

Fields with a default were added later: a state without them is complete.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from kgroup.history.warehouse.store import Location, written_as
from kgroup.history.warehouse.table_file import WrittenFile


@dataclass(frozen=True, slots=True)
class SeenSegment:
    """A segment file that was read from its start.

    Attributes:
        base_offset: base offset in the file name; None if the name is not a number.
        size: number of bytes read; if the file has grown, the next build continues from there.
        fingerprint: fingerprint of these bytes.
        damaged: position and size of damage in these bytes.
    """

    base_offset: int | None
    size: int
    fingerprint: str
    damaged: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True, slots=True)
class PartitionBase:
    """Ownership in a partition of `__consumer_offsets` where its retained records begin.

    Attributes:
        end: offset of the last record that it includes; assignments are derived anew from the
            records after that.
        opened: file with the assignments that had not ended; None if there were none.
        members: file with the members; None if there were none.
    """

    end: int
    opened: str | None
    members: str | None


@dataclass(frozen=True, slots=True)
class LeaderEpoch:
    """Records of a leader epoch that were read.

    Attributes:
        number: the leader epoch.
        first: lowest offset of these records.
        last: highest offset of these records.
        name: file or live partition where they were read first.
    """

    number: int
    first: int
    last: int
    name: str


@dataclass(frozen=True, slots=True)
class LogTrace:
    """What other copies of a partition are compared with.

    Attributes:
        epochs: leader epochs, ascending, as their offsets are.
        samples: offset and timestamp of some records.
    """

    epochs: tuple[LeaderEpoch, ...] = ()
    samples: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True, slots=True)
class PartitionState:
    """State of a partition of `__consumer_offsets`.

    Attributes:
        coverage: file with the known offsets; None if there are none.
        seen: segment files read, the latest ones.
        live_end: offset up to which the live log was read; None if it was never read.
        derived_end: last offset from which assignments were derived; None if there are none.
        members: file with the members, for the next derivation; None if there are none.
        base: ownership before the retained records; None if all records are retained.
        sound: first and last offsets between which a copy of the log was read without damage.
        trace: what other copies are compared with.
    """

    coverage: str | None
    seen: tuple[SeenSegment, ...]
    live_end: int | None
    derived_end: int | None
    members: str | None
    base: PartitionBase | None
    sound: tuple[tuple[int, int], ...] = ()
    trace: LogTrace = LogTrace()

    @classmethod
    def none(cls) -> PartitionState:
        """Return the state of a new partition."""
        return cls(None, (), None, None, None, None)

    def below(self, root: Location) -> PartitionState:
        """Return it with absolute paths or URIs, given the warehouse's place, without coverage."""

        def absolute(path: str | None) -> str | None:
            return path and written_as(root / path)

        base = self.base
        if base is not None:
            base = PartitionBase(base.end, absolute(base.opened), absolute(base.members))
        return replace(self, coverage=None, members=absolute(self.members), base=base)

    @property
    def paths(self) -> set[str]:
        """Its files."""
        paths = {self.coverage, self.members}
        if self.base is not None:
            paths |= {self.base.opened, self.base.members}
        return {path for path in paths if path is not None}


@dataclass(frozen=True, slots=True)
class ClusterState:
    """State of a cluster.

    Attributes:
        files: files of the tables.
        partitions: partitions of `__consumer_offsets`, by number.
        topic_names: known names of users' topics, by topic id.
        retained_ms: time from which all records are retained; None if none have expired.
    """

    files: tuple[WrittenFile, ...]
    partitions: Mapping[int, PartitionState]
    topic_names: Mapping[str, str]
    retained_ms: int | None = None

    @classmethod
    def none(cls) -> ClusterState:
        """Return the state of a new cluster."""
        return cls((), {}, {})

    @property
    def paths(self) -> set[str]:
        """Files of its tables and partitions."""
        own = (partition.paths for partition in self.partitions.values())
        return {file.path for file in self.files}.union(*own)
