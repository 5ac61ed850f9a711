"""Columns of the records of one chunk."""

from __future__ import annotations

import ctypes
from collections.abc import Callable

import pyarrow as pa

from kgroup.protocol import kernel_memory as memory
from kgroup.protocol.column_buffer import ColumnBuffer
from kgroup.protocol.compiled import kernels
from kgroup.protocol.log_chunk import Chunk, Runs, Walk, unpacked_or_not
from kgroup.protocol.record_batch import Damage
from kgroup.protocol.record_place import Places, numbers_in
from kgroup.protocol.schema_program import machine_block
from kgroup.protocol.transaction import TransactionIndex

__all__ = ["decode_chunk"]

_MOST_ROWS = 1 << 19
_MOST_ENLARGED = 2
_MOST_BYTES = 128 << 20
"""Of the parts of one chunk: compressed ones may be a thousand times as large as the chunk."""


def decode_chunk(
    chunk: Chunk,
    partition: int | None,
    transactions: Callable[[], TransactionIndex],
    places: Places | None = None,
) -> tuple[list[pa.RecordBatch | Damage], int | None]:
    """Decode a chunk; give its rows, damage inside batches, and where it cannot go on.

    That is where damage between the batches begins, behind a batch with damage in it, or where a
    chunk of compressed batches has become too large. The position is None where the chunk was
    decoded to its end. With `places` only the records that stand there are decoded.
    """

    def decode(runs: Runs) -> tuple[list[pa.RecordBatch | Damage], int | None]:
        return _Decoder(chunk, partition, transactions, places).decode(runs)

    return unpacked_or_not(chunk, decode)


class _Decoder:
    """Decodes one chunk; `decode` is its only use."""

    def __init__(
        self,
        chunk: Chunk,
        partition: int | None,
        transactions: Callable[[], TransactionIndex],
        places: Places | None,
    ) -> None:
        self._chunk = chunk
        self._partition = partition
        self._transactions = transactions
        self._places = places
        self._walk = Walk(chunk, kernels().decode, places)
        self._block = machine_block()
        self._walk.state[memory.MACHINE] = self._block.ctypes.data
        self._rows = min(max(chunk.records, 1), _MOST_ROWS)
        if places is not None:
            self._rows = min(self._rows, 1 << 12)
        self._buffer = self._new_buffer()
        self._parts: list[pa.RecordBatch] = []
        self._damages: list[Damage] = []

    def decode(self, runs: Runs) -> tuple[list[pa.RecordBatch | Damage], int | None]:
        stop = None
        state = self._walk.state
        enlarged = size = 0
        for reason in self._walk.steps(runs):
            position = self._walk.position
            if reason == memory.FULL:
                if not self._buffer.is_empty:
                    size += self._flush()
                    self._buffer = self._new_buffer()
                    enlarged = 0
                elif enlarged < _MOST_ENLARGED:
                    self._buffer.enlarge()
                    enlarged += 1
                else:
                    size = _MOST_BYTES
                if size >= _MOST_BYTES:
                    stop = position
                    break
            elif reason == memory.GROW:
                self._buffer.grow(int(state[memory.GROWING]))
            elif reason == memory.ODD:
                self._add_odd_record()
            elif (stop := self._add_bad_batch()) is not None:
                break
        self._flush()
        return [*self._parts, *self._damages], stop

    def _flush(self) -> int:
        """Finish the rows so far; give the bytes that they take."""
        if self._buffer.is_empty:
            return 0
        self._parts.append(rows := self._buffer.finish(self._transactions))
        return int(rows.nbytes)

    def _new_buffer(self) -> ColumnBuffer:
        return ColumnBuffer(self._partition, self._walk.state, self._rows, self._chunk.batches)

    def _add_odd_record(self) -> None:
        parts: list[bytes | None] = []
        for at in (memory.ODD_KEY, memory.ODD_VALUE):
            address, size = self._walk.state[at : at + 2].tolist()
            parts.append(ctypes.string_at(address, size) if address else None)
        batch = self._walk.batch
        is_control = batch[16] == 2 and bool(batch[22] & memory.CONTROL)
        self._buffer.add(*parts, is_control=is_control)

    def _add_bad_batch(self) -> int | None:
        """Take the batch with the reference reader, if it can be trusted and is not too large.

        Gives where to stop: rows end at damage, and if there were more of it, a buffer made for
        all rows of the chunk would be spent on each few of them.
        """
        position = self._walk.position
        batch = self._walk.read_bad_batch()
        if batch is None or (batch.record_count or 0) > _MOST_ROWS:
            return position
        self._damages = self._buffer.add_batch(batch, numbers_in(self._places, batch))
        return self._walk.position if self._damages else None
