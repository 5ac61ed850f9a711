"""What is damaged: the recorded segments, cut into batches that can be written anew."""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import google_crc32c

from kgroup.protocol.batch.batch import Record, RecordBatch
from kgroup.protocol.batch.record_batch import read_batches, read_records
from tests.columnar import log_writer
from tests.columnar.log_writer import CODECS, Plain

_ROOT = Path(__file__).parents[2]
_PLACES = ("tests/data", "kgroup/sample")
_V2_HEADER = 61


def sealed(batch: bytes) -> bytes:
    """The bytes of a batch, or of a message, with the length and the checksum that they need."""
    data = bytearray(batch)
    struct.pack_into(">i", data, 8, len(data) - 12)
    if data[16] == 2:
        struct.pack_into(">I", data, 17, google_crc32c.value(bytes(data[21:])))
    else:
        struct.pack_into(">I", data, 12, zlib.crc32(data[16:]))
    return bytes(data)


@dataclass(frozen=True)
class Unit:
    """One sound batch, or one outer message of an older format.

    Attributes:
        data: its bytes.
        magic: message format.
        codec: how its records are compressed.
    """

    data: bytes
    magic: int
    codec: str

    @cached_property
    def plains(self) -> list[Plain]:
        """Its records."""
        (batch,) = read_batches(self.data)
        assert isinstance(batch, RecordBatch)
        records = [record for record in read_records(batch) if isinstance(record, Record)]
        return [
            Plain(
                record.offset,
                -1 if record.timestamp_ms is None else record.timestamp_ms,
                record.key,
                record.value,
                list(record.headers),
            )
            for record in records
        ]

    def body(self, plains: list[Plain]) -> bytes:
        """Records as they stand in this batch before they are compressed."""
        if self.magic == 2:
            base, _, _ = struct.unpack_from(">qiI", self.data)
            (start,) = struct.unpack_from(">q", self.data, 27)
            return b"".join(log_writer.record(plain, base, start) for plain in plains)
        is_relative = self.magic == 1 and self.codec != "none"
        first = plains[0].offset if is_relative and plains else 0
        moved = [replace(plain, offset=plain.offset - first) for plain in plains]
        return log_writer.message_set(moved, magic=self.magic)

    def with_records(self, plains: list[Plain]) -> bytes:
        """The batch with these records instead, right in everything else."""
        body = log_writer.compress(self.codec, self.body(plains))
        return self.with_packed(body, self.codec, len(plains))

    def with_packed(self, packed: bytes, codec: str, count: int | None = None) -> bytes:
        """The batch with these compressed bytes instead, and a right checksum."""
        if self.magic < 2 and codec == "none":
            return packed  # messages beside each other, each with a checksum
        data = bytearray(self.data[: (18, 26, _V2_HEADER)[self.magic]])
        at = 22 if self.magic == 2 else 17
        data[at] = data[at] & ~7 | CODECS.index(codec)
        if self.magic < 2:
            data += struct.pack(">ii", -1, len(packed))
        elif count is not None:
            struct.pack_into(">i", data, 57, count)
        return sealed(bytes(data) + packed)


def recorded_logs() -> list[tuple[Unit, ...]]:
    """The sound batches of every recorded segment of `__consumer_offsets`, in a fixed order."""
    folders = [path for place in _PLACES for path in (_ROOT / place).rglob("__consumer_offsets-*")]
    logs = [
        tuple(
            Unit(bytes(item.data), item.magic, item.compression)
            for item in read_batches(path.read_bytes())
            if isinstance(item, RecordBatch)
        )
        for path in sorted(path for folder in folders for path in folder.glob("*.log"))
    ]
    return [log for log in logs if log]
