"""The last record of each key of a log: what compaction keeps.

The log is read twice: here its keys, to find where the last records stand, and then only these
records are decoded (`segment.map_chunks`). So memory grows with the number of keys, not with that
of records.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, Protocol

from kgroup.columnar.input_size import is_large
from kgroup.columnar.locator import Places, place
from kgroup.kernel.memory import PLACE_SHIFT
from kgroup.protocol.batch.record_batch import (
    Damage,
    Record,
    RecordBatch,
    read_file_batches,
    read_records,
)
from kgroup.protocol.batch.transaction import TransactionIndex
from kgroup.protocol.record.coordinator_record import decode_record

__all__ = ["KeySearch", "Keyed", "LastRecords", "Limits", "Place", "keys_in", "last_records"]


@dataclass(frozen=True, slots=True)
class Limits:
    """Which records of a log count.

    Attributes:
        transactions: gives the markers of the partition; called for transactional batches only.
        offset: the last one; None: there is none.
        time_ms: likewise, of the record or, where it has none, of the commit; a record without any
            counts.
        with_open: whether records of open transactions are found.
        with_removals: whether the tombstones of their keys are found too, also those that are not
            the last of their keys: they end what the open transaction would do.
    """

    transactions: Callable[[], TransactionIndex]
    offset: int | None = None
    time_ms: int | None = None
    with_open: bool = True
    with_removals: bool = False

    def has(self, record: Record) -> bool:
        """Tell whether a record is within offset and time."""
        if self.offset is not None and record.offset > self.offset:
            return False
        if self.time_ms is None:
            return True
        time_ms = record.timestamp_ms
        if time_ms is None:
            _, _, value = decode_record(record.key, record.value)
            time_ms = ((value or {}).get("data") or {}).get("commitTimestamp", -1)
        return time_ms <= self.time_ms


@dataclass(frozen=True, slots=True)
class LastRecords:
    """Where the last records stand in one segment of a log.

    Attributes:
        path: the segment.
        places: of the records, in order.
        damages: what could not be read.
        keyless: how many records have no key: compaction keeps none of them.
    """

    path: Path
    places: Places
    damages: tuple[Damage, ...]
    keyless: int


def last_records(
    paths: Sequence[Path],
    limits: Limits,
    *,
    compiled: bool | None = None,
    announce: Callable[[], None] | None = None,
    watch: Callable[[int], None] = lambda position: None,
) -> list[LastRecords]:
    """Find the last record of each key of one log, tombstones too.

    Records of aborted transactions do not count, nor do markers. A record of an open transaction
    does not take the place of an earlier one of its key: both are found, since compaction does not
    come so far as that.

    Args:
        paths: the segments of one partition, in the order of the log.
        limits: which records count.
        compiled: whether to use compiled code; by default where a file is large.
        announce: called before code is compiled.
        watch: called now and then with the bytes of the log that have been read.

    Raises:
        OSError: a file cannot be read.
    """
    import numpy as np

    if compiled is None:
        compiled = is_large(paths)
    find = _compiled(announce) if compiled else _Reference()
    bases: list[int] = []
    damages: list[tuple[Damage, ...]] = []
    keyless: list[int] = []
    base = 0
    for path in paths:
        bases.append(base)
        before = find.keyless
        damages.append(tuple(find.read(path, base, limits, watch)))
        keyless.append(find.keyless - before)
        base += path.stat().st_size
        watch(base)
    places = find.places()
    starts = places.searchsorted(np.array(bases, np.int64) << PLACE_SHIFT).tolist()
    ends = [*starts[1:], len(places)]
    return [
        LastRecords(path, places[start:end] - (base << PLACE_SHIFT), found, without)
        for path, base, start, end, found, without in zip(
            paths, bases, starts, ends, damages, keyless, strict=True
        )
    ]


class KeySearch(Protocol):
    """Reads the keys of a log, segment by segment.

    Attributes:
        keyless: how many records without a key there were so far.
    """

    keyless: int

    def read(
        self, path: Path, base: int, limits: Limits, watch: Callable[[int], None]
    ) -> Iterator[Damage]:
        """Read the keys of a file whose first byte is at `base` of the log."""
        ...

    def places(self) -> Places:
        """Give the places in the log of what was found, in order."""
        ...


def _compiled(announce: Callable[[], None] | None) -> KeySearch:
    from kgroup.columnar.key_chunk import CompiledSearch

    return CompiledSearch(announce)


class _Reference:
    def __init__(self) -> None:
        self._last: dict[bytes, int] = {}
        self._open: list[int] = []
        self._open_keys: set[bytes] = set()
        self.keyless = 0

    def read(
        self, path: Path, base: int, limits: Limits, watch: Callable[[int], None]
    ) -> Iterator[Damage]:
        with path.open("rb", buffering=0) as file:
            for item in read_file_batches(file):
                if isinstance(item, Damage):
                    yield item
                    continue
                keyed = keys_in(item, limits)
                at = base << PLACE_SHIFT
                self._last.update((each.key, at + each.place) for each in keyed.last)
                self._open += [at + each.place for each in keyed.open]
                self._open_keys.update(each.key for each in keyed.open)
                if limits.with_removals and self._open_keys:
                    self._open += [
                        at + each.place
                        for each in keyed.last
                        if each.is_tombstone and each.key in self._open_keys
                    ]
                self.keyless += keyed.keyless
                yield from keyed.damages

    def places(self) -> Places:
        import numpy as np

        return np.array(sorted({*self._last.values(), *self._open}), np.int64)


class Place(NamedTuple):
    """A record with a key, and where it stands."""

    key: bytes
    place: int
    is_tombstone: bool


@dataclass(slots=True)
class Keyed:
    """What counts in a batch.

    Attributes:
        last: the records that take the places of earlier ones of their keys, in order.
        open: the records of open transactions.
        damages: what could not be read.
        keyless: how many records have no key.
    """

    last: list[Place]
    open: list[Place]
    damages: list[Damage]
    keyless: int = 0


def keys_in(batch: RecordBatch, limits: Limits) -> Keyed:
    """Read the keys in a batch with the reference reader."""
    keyed = Keyed([], [], [])
    number = -1
    for record in read_records(batch):
        if isinstance(record, Damage):
            keyed.damages.append(record)
            continue
        number += 1
        if record.key is None and not batch.is_control:
            keyed.keyless += 1
        if record.key is None or batch.is_control or not limits.has(record):
            continue
        found = Place(record.key, place(batch, number), record.value is None)
        status = None
        if batch.is_transactional and batch.producer_id is not None:
            status = limits.transactions().status(batch.producer_id, batch.base_offset or 0)
        if status == "open":
            if limits.with_open:
                keyed.open.append(found)
        elif status != "aborted":
            keyed.last.append(found)
    return keyed
