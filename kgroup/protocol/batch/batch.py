"""What is read from a log: record batches, records, and the damage between and inside them."""

from __future__ import annotations

from dataclasses import dataclass, field

from kgroup.errors import ProblemKind

LOG_OVERHEAD = 12
"""Bytes before the part that a batch's length field counts: base offset and the length itself."""

MAX_BATCH_SIZE = 64 * 1024 * 1024
"""Largest batch, in bytes, that is believed to be one; brokers take 1 MiB by default."""

MAX_UNCOMPRESSED = 64 * 1024 * 1024
"""Largest size, in bytes, to which the records of one batch may be decompressed."""

MOST_RECORDS = 1 << 20
"""Records of one batch that are believed: a coordinator's batches are of 1 MiB, hardly more.

Compressed, ten times as many take a kilobyte, and as objects gigabytes.
"""

MOST_TIMES = 100
"""How many times as large as a batch its records may be without counting as inflated."""

MOST_INFLATED = 128 * 1024 * 1024
"""Bytes of inflated records in all that are decompressed of one log."""

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
"""Names of the compression codecs, by their number in a batch's attributes."""


class Effort:
    """What the bytes of one log have cost so far that were made to cost much.

    A kilobyte of compressed data can stand for 64 MiB of records, a log of such batches for more
    than anybody can wait for. Those of coordinators become ten times as large, rarely a hundred
    times (big groups whose members all subscribe to the same): so much is always decompressed, and
    what becomes larger only up to a sum, in the order of the log.

    Attributes:
        is_known: whether it is known what the batches before have become. Where it is not, what
            becomes larger is left to who reads the log in order.
        start: position where the reading of the log began.
        summed: bytes behind it that were summed for checksums that were wrong.
    """

    def __init__(self, start: int = 0, *, is_known: bool = True) -> None:
        self.is_known = is_known
        self.start = start
        self.summed = 0
        self._inflated = 0

    def limit(self, size: int) -> int:
        """Give the bytes to which a batch of `size` bytes may be decompressed."""
        if self.is_known and self._inflated < MOST_INFLATED:
            return MAX_UNCOMPRESSED
        return min(MOST_TIMES * size, MAX_UNCOMPRESSED)

    def note(self, size: int, uncompressed: int) -> None:
        """Take note that a batch of `size` bytes was decompressed to so many, or that far."""
        if uncompressed > MOST_TIMES * size:
            self._inflated += uncompressed


@dataclass(frozen=True, slots=True)
class RecordBatch:
    """A batch of message format v2, or one outer message of v0 or v1, whose checksum is right.

    Attributes:
        position: byte position of its first byte in the file or stream.
        size: bytes, header included.
        magic: message format, 0, 1 or 2.
        base_offset: offset of the first record when it was written (compaction may have removed
            it since); None for a compressed message of v0/v1, which tells only its last.
        last_offset: offset of the last record, kept also where compaction removed it.
        compression: one of `CODECS`, or "unknown" for a number that is none of theirs.
        timestamp_type: "create" or "log_append"; None in v0.
        base_timestamp_ms: what records' timestamps are relative to; None before v2.
        max_timestamp_ms: the largest timestamp of the records; None in v0.
        delete_horizon_ms: when compaction may remove the tombstones in it, if it was set; it is
            then the base timestamp too (KIP-534).
        leader_epoch: of the partition's leader that appended it; None before v2.
        producer_id: of an idempotent or transactional producer, with epoch and first sequence.
        is_transactional: whether it belongs to a transaction.
        is_control: whether it holds a control record: a transaction's marker.
        record_count: how many records it holds; None for a compressed message of v0/v1.
        data: all of its bytes; they keep the chunk that they were read with in memory.
        effort: of reading the log that it is from.
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
    """One record; `timestamp_ms` is None where it has none (v0, or -1 as stored)."""

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
        size: how many; inside a compressed batch the whole batch's.
        kind: a stable short word.
        reason: a sentence: what was expected, what was found.
        is_unwritten: whether they are zeros up to the end of the file or stream.
    """

    position: int
    size: int
    kind: ProblemKind
    reason: str
    is_unwritten: bool = False
