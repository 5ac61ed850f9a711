"""Find the keys in a batch that matter for compaction, with the reference reader."""

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
    """Limits of the records to use.

    Attributes:
        transactions: returns the markers of the partition; called for transactional batches only.
        offset: last offset to use; None for no limit.
        time_ms: last time to use, of the record or, if it has none, of the commit; None for no
            limit. A record without either time is used.
        with_open: whether to find records of open transactions.
        with_removals: whether to find all tombstones of the keys of open transactions, not only the
            last of each key: they cancel the transaction's pending commits.
    """

    transactions: Callable[[], TransactionIndex]
    offset: int | None = None
    time_ms: int | None = None
    with_open: bool = True
    with_removals: bool = False

    def standing(self, status: TransactionStatus | None) -> tuple[bool, bool]:
        """Return whether records can be the last of their keys, and whether they count as open."""
        is_last = status in (None, TransactionStatus.COMMITTED)
        return is_last, status is TransactionStatus.OPEN and self.with_open

    def has(self, record: Record) -> bool:
        """Return whether a record is within the limits of offset and time."""
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
    """A record with a key, its locator in the log, and whether its transaction is open."""

    key: bytes
    locator: int
    is_open: bool
    batch: RecordBatch
    record: Record

    @property
    def is_tombstone(self) -> bool:
        """Whether the record deletes its key."""
        return self.record.value is None


class Keyed(NamedTuple):
    """The records of a batch to use.

    Attributes:
        last: records that replace earlier ones of their keys, in order.
        open: records of open transactions.
        damages: what could not be read.
        keyless: number of records without a key.
    """

    last: list[KeyedRecord]
    open: list[KeyedRecord]
    damages: list[Damage]
    keyless: int = 0


def keys_in(batch: RecordBatch, limits: Limits, base: int = 0) -> Keyed:
    """Return the keys in a batch; `base` is the position of the file's first byte in the log."""
    status = None
    if batch.is_transactional and batch.producer_id is not None and not batch.is_control:
        status = limits.transactions().status(batch.producer_id, batch.base_offset or 0)
    is_last, is_open = limits.standing(status)
    counts = not batch.is_control and (is_last or is_open)
    is_limited = limits.offset is not None or limits.time_ms is not None
    records: list[KeyedRecord] = []
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
            records.append(KeyedRecord(record.key, at, is_open, batch, record))
        at += 1
    return Keyed([] if is_open else records, records if is_open else [], damages, keyless)
