"""Contents of a log: record batches, records, and the damage between and inside them."""

from __future__ import annotations

from dataclasses import dataclass, field

from kgroup.errors import ProblemKind

LOG_OVERHEAD = 12
"""Bytes before the part that a batch's length counts: the base offset and the length itself."""

MAX_BATCH_SIZE = 64 * 1024 * 1024
"""Largest plausible size of a batch, in bytes; brokers accept 1 MiB by default."""

MAX_UNCOMPRESSED = 64 * 1024 * 1024
"""Largest size, in bytes, to which the records of one batch may be decompressed."""

MOST_RECORDS = 1 << 20
"""Largest plausible number of records in one batch; a coordinator's batches rarely exceed 1 MiB.

Ten times as many compress to a kilobyte, and take gigabytes as objects.
"""

MOST_TIMES = 100
"""Largest ratio of uncompressed to compressed size of a batch that does not count as inflated."""

MOST_INFLATED = 128 * 1024 * 1024
"""Total bytes of inflated records that are decompressed per log."""

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
"""Names of the compression codecs, by their number in a batch's attributes."""


class Effort:
    """Work spent so far on bytes of one log that may have been crafted to be expensive.

    A kilobyte of compressed data can expand to 64 MiB of records, so a log of such batches could
    take unbounded time. Batches of coordinators expand by a factor of ten, rarely a hundred (big
    groups whose members all have the same subscription). Expansion up to that factor is always
    allowed; larger batches are decompressed in log order until a total is reached.

    Attributes:
        is_known: whether the uncompressed sizes of the preceding batches are known. If not, batches
            that expand further are left to a reader that reads the log in order.
        start: position where reading of the log started.
        summed: bytes after `start` for which a checksum was computed and did not match.
    """

    def __init__(self, start: int = 0, *, is_known: bool = True) -> None:
        self.is_known = is_known
        self.start = start
        self.summed = 0
        self._inflated = 0

    def limit(self, size: int) -> int:
        """Return the largest size in bytes to which a batch of `size` bytes may be decompressed."""
        if self.is_known and self._inflated < MOST_INFLATED:
            return MAX_UNCOMPRESSED
        return min(MOST_TIMES * size, MAX_UNCOMPRESSED)

    def note(self, size: int, uncompressed: int) -> None:
        """Record that a batch of `size` bytes was decompressed to at least `uncompressed` bytes."""
        if uncompressed > MOST_TIMES * size:
            self._inflated += uncompressed


@dataclass(frozen=True, slots=True)
class RecordBatch:
    """A batch of message format v2, or one outer message of v0 or v1, with a correct checksum.

    Attributes:
        position: byte position of its first byte in the file or stream.
        size: bytes, including the header.
        magic: message format: 0, 1 or 2.
        base_offset: offset of the first record when the batch was written (compaction may have
            removed it since); None for a compressed message of v0/v1, which stores only its last
            offset.
        last_offset: offset of the last record, even if compaction has removed that record.
        compression: one of `CODECS`, or "unknown" for an undefined codec number.
        timestamp_type: "create" or "log_append"; None in v0.
        base_timestamp_ms: timestamp that the records' timestamps are relative to; None before v2.
        max_timestamp_ms: largest timestamp of the records; None in v0.
        delete_horizon_ms: time from which compaction may remove the batch's tombstones, if set; it
            is then also the base timestamp (KIP-534).
        leader_epoch: epoch of the partition leader that appended the batch; None before v2.
        producer_id: id of the idempotent or transactional producer; also its epoch and first
            sequence.
        is_transactional: whether the batch belongs to a transaction.
        is_control: whether the batch holds a control record, that is a transaction marker.
        record_count: number of records; None for a compressed message of v0/v1.
        data: all bytes of the batch; they keep the chunk that they were read with in memory.
        effort: work spent on the log that the batch is from.
    """

    position: int
    size: int
    magic: int
    base_offset: int | None
    last_offset: int
    compression: str
    timestamp_type: str | None
    max_timestamp_ms: int | None
    record_count: int | None
    data: memoryview
    base_timestamp_ms: int | None = None
    delete_horizon_ms: int | None = None
    leader_epoch: int | None = None
    producer_id: int | None = None
    producer_epoch: int | None = None
    base_sequence: int | None = None
    is_transactional: bool = False
    is_control: bool = False
    effort: Effort = field(default_factory=Effort, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Record:
    """One record; `timestamp_ms` is None if it has no timestamp (v0, or stored as -1)."""

    offset: int
    timestamp_ms: int | None
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]


@dataclass(frozen=True, slots=True)
class Damage:
    """Bytes that could not be read.

    Attributes:
        position: byte position of the first of them in the file or stream.
        size: number of bytes; for damage inside a compressed batch, the size of the whole batch.
        kind: a stable short word.
        reason: a sentence: what was expected, what was found.
        is_unwritten: whether the bytes are zeros up to the end of the file or stream.
    """

    position: int
    size: int
    kind: ProblemKind
    reason: str
    is_unwritten: bool = False
