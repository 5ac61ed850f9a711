"""Find the last record of each key of a log, with compiled code."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from kgroup.columnar.batch_key import Limits, keys_in
from kgroup.columnar.chunk_reader import read_chunks
from kgroup.columnar.chunk_size import SIZES
from kgroup.columnar.locator import Locators
from kgroup.columnar.log_chunk import Chunk, ChunkWalk, unpacked_or_not
from kgroup.kernel import entry, memory
from kgroup.kernel.memory import LOCATOR_SHIFT, TRANSACTIONAL, Batches
from kgroup.kernel.walk_state import WalkState
from kgroup.protocol.batch.batch import Damage, RecordBatch

_Array = np.ndarray[Any, Any]

_FULL = 0.8
"""Load factor at which the table grows."""


@dataclass(frozen=True, slots=True)
class _Hashed:
    """Records with keys: hashes of the keys and locators, in order.

    Attributes:
        hashes: hashes of records that can be the last of their keys.
        locators: locators of these records.
        tombstones: whether each of them is a tombstone.
        open_hashes: hashes of records of open transactions.
        open_locators: locators of these records.
        keyless: number of records without a key.
    """

    hashes: _Array
    locators: _Array
    tombstones: _Array
    open_hashes: _Array
    open_locators: _Array
    keyless: int = 0


class _Buffer:
    """Memory for the results of `list_keys`."""

    def __init__(self, state: WalkState, rows: int) -> None:
        self._words = state.words
        self._hashes = np.empty(rows, np.int64)
        self._locators = np.empty(rows, np.int64)
        self._batches = Batches(*(np.empty(rows, kind) for kind in Batches()))
        self._words["rows"] = self._words["batches"] = 0
        state.list_in(self._hashes, self._locators, self._batches)

    def take(self, limits: Limits) -> _Hashed:
        """Remove and return the records found, without those of aborted transactions."""
        rows = int(self._words["rows"])
        hashes, locators = self._hashes[:rows].copy(), self._locators[:rows].copy()
        tombstones = locators < 0
        locators[tombstones] = ~locators[tombstones]
        batches = Batches(*(column[: self._words["batches"]] for column in self._batches))
        self._words["rows"] = self._words["batches"] = 0
        transactional = np.flatnonzero(
            (batches.attributes & TRANSACTIONAL != 0) & (batches.producer_id != -1)
        )
        if len(transactional) == 0:
            return _Hashed(hashes, locators, tombstones, hashes[:0], locators[:0])
        status = limits.transactions().status
        ends = np.append(batches.row[1:], rows)
        is_open = np.zeros(rows, np.bool_)
        is_last = np.ones(rows, np.bool_)
        columns = (batches.row, ends, batches.producer_id, batches.base_offset)
        for row, end, producer_id, offset in np.stack(columns, axis=1)[transactional].tolist():
            is_last[row:end], is_open[row:end] = limits.standing(status(producer_id, offset))
        last = hashes[is_last], locators[is_last], tombstones[is_last]
        return _Hashed(*last, hashes[is_open], locators[is_open])


class CompiledSearch:
    """Reads the keys of a log; see `last_record.KeySearch`."""

    def __init__(self, on_compile: Callable[[], None] | None) -> None:
        self._on_compile = on_compile
        self._seed = secrets.randbits(63)
        self._table = np.zeros((SIZES.key_table, 2), np.int64)
        self._used = 0
        self._open: list[_Array] = []
        # first record of an open transaction, by hash of its key
        self._first_open: dict[int, int] = {}
        self.keyless = 0

    def read(
        self, path: Path, base: int, limits: Limits, on_progress: Callable[[int], None]
    ) -> Iterator[Damage]:
        """Read the keys of a file; `base` is the position of its first byte in the log."""

        def in_chunk(chunk: Chunk) -> tuple[list[_Hashed | Damage], int | None]:
            return unpacked_or_not(chunk, partial(self._read_chunk, limits))

        def in_batches(items: Iterator[RecordBatch | Damage]) -> Iterator[_Hashed | Damage]:
            for item in items:
                yield from ([item] if isinstance(item, Damage) else self._read_batch(item, limits))

        for hashed in read_chunks(path, in_chunk, in_batches, on_compile=self._on_compile):
            if isinstance(hashed, Damage):
                yield hashed
            else:
                locators = hashed.locators + (base << LOCATOR_SHIFT)
                self._note(hashed.hashes, locators)
                if len(hashed.open_locators):
                    self._open.append(hashed.open_locators + (base << LOCATOR_SHIFT))
                    pairs = zip(hashed.open_hashes.tolist(), self._open[-1].tolist(), strict=True)
                    for key, locator in pairs:
                        self._first_open.setdefault(key, locator)
                if limits.with_removals and self._first_open:
                    keys = hashed.hashes[hashed.tombstones].tolist()
                    firsts = [self._first_open.get(key, memory.FOREVER) for key in keys]
                    gone = locators[hashed.tombstones]
                    self._open.append(gone[gone > np.array(firsts, np.int64)])
                self.keyless += hashed.keyless
                if len(hashed.locators):
                    on_progress(base + (int(hashed.locators[-1]) >> LOCATOR_SHIFT))

    def found(self, bases: Sequence[int]) -> list[Locators]:
        """Return the results of each file, given their base positions in order."""
        last = self._table[self._table[:, 0] != 0, 1]
        # not `np.unique`: its hash table takes fifty times as long as sorting
        in_order = np.sort(np.concatenate([last, *self._open]))
        locators = in_order[np.diff(in_order, prepend=-1) != 0]
        starts = locators.searchsorted(np.array(bases, np.int64) << LOCATOR_SHIFT).tolist()
        return [locators[start:end] for start, end in pairwise([*starts, len(locators)])]

    def _note(self, hashes: _Array, locators: _Array) -> None:
        while self._used + len(hashes) > _FULL * len(self._table):
            old = self._table
            self._table = np.zeros((2 * len(old), 2), np.int64)
            entry.note_table(self._table, old)
        self._used = entry.note_last(self._table, self._used, hashes, locators)

    def _read_chunk(
        self, limits: Limits, chunk: Chunk, is_unpacked: bool
    ) -> tuple[list[_Hashed | Damage], int | None]:
        walk = ChunkWalk(chunk, entry.list_keys, is_unpacked=is_unpacked)
        words = walk.words
        words["seed"] = self._seed
        words["through_offset"] = memory.FOREVER if limits.offset is None else limits.offset
        words["through_ms"] = memory.FOREVER if limits.time_ms is None else limits.time_ms
        buffer = _Buffer(walk.state, SIZES.keys)
        parts: list[_Hashed | Damage] = []

        def read(batch: RecordBatch) -> None:
            parts.extend(self._read_batch(batch, limits))

        count = 0
        for reason in walk.steps():
            if reason == memory.FULL and words["rows"] == 0:
                buffer = _Buffer(walk.state, walk.record_count)
            count += int(words["rows"])
            parts.append(buffer.take(limits))
            if reason == memory.BAD:
                if not walk.read_bad_batch(read):
                    break
            elif count > SIZES.most_keys:
                break
        parts.append(replace(buffer.take(limits), keyless=int(words["keyless"])))
        return parts, walk.stop

    def _read_batch(self, batch: RecordBatch, limits: Limits) -> list[_Hashed | Damage]:
        keyed = keys_in(batch, limits)
        columns = (
            np.array([entry.hash_key(record.key, self._seed) for record in keyed.last], np.int64),
            np.array([record.locator for record in keyed.last], np.int64),
            np.array([record.is_tombstone for record in keyed.last], np.bool_),
            np.array([entry.hash_key(record.key, self._seed) for record in keyed.open], np.int64),
            np.array([record.locator for record in keyed.open], np.int64),
        )
        return [_Hashed(*columns, keyless=keyed.keyless), *keyed.damages]
