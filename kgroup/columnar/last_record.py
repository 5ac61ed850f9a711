"""The last record of each key of a log: what compaction keeps.

The log is read twice: here its keys, to find where the last records stand, and then only these
records are decoded (`segment.map_chunks`). So memory grows with the number of keys, not with that
of records.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from kgroup.columnar.batch_key import Limits, keys_in
from kgroup.columnar.input_size import is_large
from kgroup.columnar.locator import Places
from kgroup.kernel.memory import PLACE_SHIFT
from kgroup.protocol.batch.record_batch import (
    Damage,
    read_file_batches,
)

__all__ = ["KeySearch", "LastRecords", "last_records"]


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
