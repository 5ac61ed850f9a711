"""Find the last record of each key of a log: what compaction keeps.

The log is read twice: first its keys, to locate the last records; then only these records are
decoded (`segment.decode_chunks`). Memory therefore grows with the number of keys, not of records.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from itertools import starmap
from pathlib import Path
from typing import NamedTuple, Protocol

from kgroup.columnar.batch_key import KeyedRecord, Limits, keys_in
from kgroup.columnar.input_size import is_large
from kgroup.columnar.locator import Locators
from kgroup.kernel.memory import LOCATOR_SHIFT
from kgroup.protocol.batch.batch import Damage
from kgroup.protocol.batch.record_batch import read_file_batches


class LastRecords(NamedTuple):
    """The last records in one segment of a log.

    Attributes:
        path: the segment.
        base: position of its first byte in the log.
        found: locators of the records in the log, in order; for a small log, the records.
        damages: what could not be read.
        keyless: number of records without a key, none of which compaction keeps.
    """

    path: Path
    base: int
    found: Locators | tuple[KeyedRecord, ...]
    damages: tuple[Damage, ...]
    keyless: int

    @property
    def locators(self) -> Locators:
        """Locators of the records in the segment, in order."""
        import numpy as np

        locators = self.found
        if isinstance(locators, tuple):
            locators = np.array([record.locator for record in locators], np.int64)
        return locators - (self.base << LOCATOR_SHIFT)


def last_records(
    paths: Sequence[Path],
    limits: Limits,
    *,
    compiled: bool | None = None,
    on_compile: Callable[[], None] | None = None,
    on_progress: Callable[[int], None] = lambda position: None,
) -> list[LastRecords]:
    """Find the last record of each key of one log, including tombstones.

    Records of aborted transactions and markers are ignored. A record of an open transaction does
    not replace an earlier one of its key: both are found, because compaction stops before it.

    Args:
        paths: the segments of one partition, in log order.
        limits: limits of the records to use.
        compiled: whether to use compiled code; by default if a file is large.
        on_compile: called before code is compiled.
        on_progress: called repeatedly with the number of bytes of the log read so far.

    Raises:
        OSError: a file cannot be read.
    """
    if compiled is None:
        compiled = is_large(paths)
    search = _compiled(on_compile) if compiled else _Reference()
    bases: list[int] = []
    damages: list[tuple[Damage, ...]] = []
    keyless: list[int] = []
    base = 0
    for path in paths:
        bases.append(base)
        before = search.keyless
        damages.append(tuple(search.read(path, base, limits, on_progress)))
        keyless.append(search.keyless - before)
        base += path.stat().st_size
        on_progress(base)
    columns = (paths, bases, search.found(bases), damages, keyless)
    return list(starmap(LastRecords, zip(*columns, strict=True)))


class KeySearch(Protocol):
    """Reads the keys of a log, segment by segment.

    Attributes:
        keyless: number of records without a key so far.
    """

    keyless: int

    def read(
        self, path: Path, base: int, limits: Limits, on_progress: Callable[[int], None]
    ) -> Iterator[Damage]:
        """Read the keys of a file; `base` is the position of its first byte in the log."""
        ...

    def found(self, bases: Sequence[int]) -> Sequence[Locators | tuple[KeyedRecord, ...]]:
        """Return the results of each file, given their base positions in order."""
        ...


def _compiled(on_compile: Callable[[], None] | None) -> KeySearch:
    from kgroup.columnar.key_chunk import CompiledSearch

    return CompiledSearch(on_compile)


class _Reference:
    def __init__(self) -> None:
        self._last: dict[bytes, KeyedRecord] = {}
        self._open: list[KeyedRecord] = []
        self._open_keys: set[bytes] = set()
        self.keyless = 0

    def read(
        self, path: Path, base: int, limits: Limits, on_progress: Callable[[int], None]
    ) -> Iterator[Damage]:
        with path.open("rb", buffering=0) as file:
            for item in read_file_batches(file):
                if isinstance(item, Damage):
                    yield item
                    continue
                keyed = keys_in(item, limits, base)
                self._open += keyed.open
                self._open_keys.update(record.key for record in keyed.open)
                for record in keyed.last:
                    self._last[record.key] = record
                if limits.with_removals and self._open_keys:
                    self._open += [
                        record
                        for record in keyed.last
                        if record.is_tombstone and record.key in self._open_keys
                    ]
                self.keyless += keyed.keyless
                yield from keyed.damages

    def found(self, bases: Sequence[int]) -> list[tuple[KeyedRecord, ...]]:
        records = {record.locator: record for record in (*self._last.values(), *self._open)}
        files: list[list[KeyedRecord]] = [[] for _ in bases]
        for locator in sorted(records):
            files[bisect_right(bases, locator >> LOCATOR_SHIFT) - 1].append(records[locator])
        return [tuple(file) for file in files]
