"""Decode the records of one chunk into columns."""

from __future__ import annotations

import ctypes
from collections.abc import Callable

import pyarrow as pa

from kgroup.columnar.buffer import ColumnBuffer
from kgroup.columnar.chunk_size import SIZES
from kgroup.columnar.locator import Locators, between
from kgroup.columnar.log_chunk import Chunk, ChunkWalk, unpacked_or_not
from kgroup.kernel import entry, memory
from kgroup.kernel.schema_program import machine
from kgroup.protocol.batch.batch import Damage, RecordBatch
from kgroup.protocol.batch.transaction import TransactionIndex

_LEAST_ROWS = 1 << 12
_ROW_SIZE = 64
"""Approximate minimum bytes of an uncompressed log for a row."""
_MOST_ENLARGED = 3


def decode_chunk(
    chunk: Chunk,
    partition: int | None,
    transactions: Callable[[], TransactionIndex],
    locators: Locators | None = None,
) -> tuple[list[pa.RecordBatch | Damage], int | None]:
    """Decode a chunk; return its rows, the damage inside batches, and where it stopped.

    It stops where damage between batches begins, after a batch with damage in it, and where a chunk
    of compressed batches has become too large. The position is None if the chunk was decoded to its
    end. With `locators`, only those records are decoded.
    """

    def decode(part: Chunk, is_unpacked: bool) -> tuple[list[pa.RecordBatch | Damage], int | None]:
        walk = ChunkWalk(part, entry.decode, is_unpacked=is_unpacked, locators=locators)
        rows = part.size // _ROW_SIZE
        if locators is not None:
            rows = len(between(locators, part.position, part.end))
        # a power of two, so that memory is reused from chunk to chunk
        rows = min(max(1 << rows.bit_length(), _LEAST_ROWS), SIZES.rows)
        return _Decoder(walk, rows, partition, transactions, locators).decode()

    return unpacked_or_not(chunk, decode)


class _Decoder:
    """Decodes one chunk; call `decode` once."""

    def __init__(
        self,
        walk: ChunkWalk,
        rows: int,
        partition: int | None,
        transactions: Callable[[], TransactionIndex],
        locators: Locators | None,
    ) -> None:
        self._walk = walk
        self._rows = rows
        self._partition = partition
        self._transactions = transactions
        self._locators = locators
        self._machine = machine()
        self._buffer = self._new_buffer()
        self._parts: list[pa.RecordBatch] = []
        self._damages: list[Damage] = []
        self._size = self._enlarged = 0

    def decode(self) -> tuple[list[pa.RecordBatch | Damage], int | None]:
        for reason in self._walk.steps():
            if reason == memory.FULL:
                if not self._make_room():
                    break
            elif reason == memory.GROW:
                self._buffer.grow(int(self._walk.words["growing"]))
            elif reason == memory.ODD:
                self._add_odd_record()
            elif not self._add_bad_batch():
                break
        self._flush()
        return [*self._parts, *self._damages], self._walk.stop

    def _make_room(self) -> bool:
        """Flush the rows or, if there are none, enlarge the buffer; False if it gets too large."""
        if not self._buffer.is_empty:
            self._size += self._flush()
            self._buffer = self._new_buffer()
            self._enlarged = 0
            return self._size < SIZES.columns
        count = self._walk.record_count
        if self._enlarged == _MOST_ENLARGED or count > 2 * SIZES.rows:
            return False
        self._buffer.enlarge(count)
        self._enlarged += 1
        return True

    def _flush(self) -> int:
        """Finish the rows so far; return their size in bytes."""
        if self._buffer.is_empty:
            return 0
        self._parts.append(rows := self._buffer.finish(self._transactions))
        return int(rows.nbytes)

    def _new_buffer(self) -> ColumnBuffer:
        return ColumnBuffer(self._partition, self._walk.state, self._machine, self._rows)

    def _add_odd_record(self) -> None:
        parts: list[bytes | None] = []
        words = self._walk.words
        for part in ("odd_key", "odd_value"):
            address, size = int(words[part]), int(words[f"{part}_size"])
            parts.append(ctypes.string_at(address, size) if address else None)
        batch = self._walk.batch
        is_control = batch[16] == 2 and bool(batch[22] & memory.CONTROL)
        self._buffer.add(*parts, is_control=is_control)

    def _add_bad_batch(self) -> bool:
        """Add a batch with the reference reader, if it is valid and not too large.

        Returns whether to continue after it: not after damage, which ends the rows. With more
        damage, a buffer for all rows of the chunk would be used for a few of them each time.
        """
        if not self._walk.read_bad_batch(self._add_batch, SIZES.rows) or self._damages:
            return False
        return self._walk.words["rows"] < self._rows or self._make_room()

    def _add_batch(self, batch: RecordBatch) -> None:
        self._damages = self._buffer.add_batch(batch, self._locators)
