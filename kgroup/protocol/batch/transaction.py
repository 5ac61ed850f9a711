"""Whether transactional records of a partition were committed, aborted, or are still open.

A producer has one transaction at a time in a partition. It ends with a marker: a control batch of
the same producer id, later in the log (KIP-98). So the first marker of a producer after a record
decides. Producer epochs do not matter: when a producer is fenced, the coordinator aborts its
transaction with an epoch above that of the records.

Compaction keeps a marker as long as a record of its transaction remains
(`CleanedTransactionMetadata`), so a later marker is never mistaken for a missing earlier one; a
marker without records is harmless.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator
from threading import Lock
from typing import TypeVar

from kgroup.model.record import TransactionStatus
from kgroup.protocol.batch.batch import Record, RecordBatch
from kgroup.protocol.batch.record_batch import read_records

_T = TypeVar("_T")

_COMMIT = b"\0\1"
_TYPES = (b"\0\0", _COMMIT)


class TransactionIndex:
    """The transaction markers of one partition.

    Add every batch, in any order, then query.
    """

    def __init__(self, aborted: Iterable[tuple[int, int]] | None = None) -> None:
        """Create an index without markers.

        Args:
            aborted: for a log that holds decided records only, producer id and first offset of each
                aborted transaction, as Fetch returns them with isolation level read_committed. They
                decide where there is no marker.
        """
        # By producer id: offset << 1 | is_commit. There may be millions.
        self._markers: dict[int, list[int]] = {}
        self._unsorted: set[int] = set()
        self._aborted = None if aborted is None else frozenset(aborted)

    def add(self, batch: RecordBatch) -> None:
        """Add the markers of a batch, if it has any."""
        if batch.producer_id is not None:
            for offset, is_commit in markers_in(batch):
                self.add_marker(batch.producer_id, offset, is_commit)

    def add_marker(self, producer_id: int, offset: int, is_commit: bool) -> None:
        """Add a marker of a producer."""
        markers = self._markers.setdefault(producer_id, [])
        if markers and offset <= markers[-1] >> 1:
            self._unsorted.add(producer_id)
        markers.append(offset << 1 | is_commit)

    def status(self, producer_id: int, offset: int) -> TransactionStatus:
        """Return the status of a producer's transactional record, or marker, at an offset."""
        if producer_id in self._unsorted:
            # keep the last of equal offsets (a segment that was read twice)
            latest = {marker >> 1: marker for marker in self._markers[producer_id]}
            self._markers[producer_id] = sorted(latest.values())
            self._unsorted.discard(producer_id)
        markers = self._markers.get(producer_id, [])
        index = bisect_left(markers, offset << 1)
        if index < len(markers):
            return TransactionStatus.COMMITTED if markers[index] & 1 else TransactionStatus.ABORTED
        before = markers[-1] >> 1 if markers else -1
        if self._aborted is None:
            return TransactionStatus.OPEN
        is_aborted = any(
            producer == producer_id and before < first <= offset
            for producer, first in self._aborted
        )
        return TransactionStatus.ABORTED if is_aborted else TransactionStatus.COMMITTED


def once(make: Callable[[], _T]) -> Callable[[], _T]:
    """Return a function that calls `make` on its first call, in any thread, and caches the result.

    Collecting the markers of a partition requires reading it, and most partitions have none.
    """
    lock = Lock()
    made: list[_T] = []

    def get() -> _T:
        with lock:
            if not made:
                made.append(make())
            return made[0]

    return get


def markers_in(batch: RecordBatch) -> Iterator[tuple[int, bool]]:
    """Yield the offset of each marker in a batch, and whether it commits.

    The key of a marker: version int16, type int16 (0 abort, 1 commit).
    """
    if not batch.is_control:
        return
    for record in read_records(batch):
        if isinstance(record, Record):
            key = record.key
            if key is not None and len(key) >= 4 and key[0] <= 0x7F and key[2:4] in _TYPES:
                yield record.offset, key[2:4] == _COMMIT
