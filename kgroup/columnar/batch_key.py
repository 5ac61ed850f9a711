"""The keys in a batch that count for what compaction keeps, by the reference reader."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from kgroup.kernel.memory import LOCATOR_SHIFT
from kgroup.model.record import TransactionStatus
from kgroup.protocol.batch.batch import Damage, Record, RecordBatch
from kgroup.protocol.batch.record_batch import read_records
from kgroup.protocol.batch.transaction import TransactionIndex
from kgroup.protocol.record.coordinator_record import decode_record


class Limits(NamedTuple):
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

    def standing(self, status: TransactionStatus | None) -> tuple[bool, bool]:
        """Tell how records count: as the last of their keys, or beside them, as open ones."""
        is_last = status in (None, TransactionStatus.COMMITTED)
        return is_last, status is TransactionStatus.OPEN and self.with_open

    def has(self, record: Record) -> bool:
        """Return whether a record is within offset and time."""
        if self.offset is not None and record.offset > self.offset:
            return False
        if self.time_ms is None:
            return True
        time_ms = record.timestamp_ms
        if time_ms is None:
            _, _, value = decode_record(record.key, record.value)
            time_ms = ((value or {}).get("data") or {}).get("commitTimestamp", -1)
        return time_ms <= self.time_ms


class KeyedRecord(NamedTuple):
    """A record with a key, where in the log it stands, and whether its transaction is open."""

    key: bytes
    locator: int
    is_open: bool
    batch: RecordBatch
    record: Record

    @property
    def is_tombstone(self) -> bool:
        """Whether it says that what has the key is gone."""
        return self.record.value is None


class Keyed(NamedTuple):
    """What counts in a batch.

    Attributes:
        last: the records that take the places of earlier ones of their keys, in order.
        open: the records of open transactions.
        damages: what could not be read.
        keyless: how many records have no key.
    """

    last: list[KeyedRecord]
    open: list[KeyedRecord]
    damages: list[Damage]
    keyless: int = 0


def keys_in(batch: RecordBatch, limits: Limits, base: int = 0) -> Keyed:
    """Read the keys in a batch of a file whose first byte is at `base` of the log."""
    status = None
    if batch.is_transactional and batch.producer_id is not None and not batch.is_control:
        status = limits.transactions().status(batch.producer_id, batch.base_offset or 0)
    is_last, is_open = limits.standing(status)
    counts = not batch.is_control and (is_last or is_open)
    is_limited = limits.offset is not None or limits.time_ms is not None
    found: list[KeyedRecord] = []
    damages: list[Damage] = []
    keyless = 0
    at = batch.position + base << LOCATOR_SHIFT
    for record in read_records(batch):
        if isinstance(record, Damage):
            damages.append(record)
            continue
        if record.key is None:
            keyless += not batch.is_control
        elif counts and (not is_limited or limits.has(record)):
            found.append(KeyedRecord(record.key, at, is_open, batch, record))
        at += 1
    return Keyed([] if is_open else found, found if is_open else [], damages, keyless)
