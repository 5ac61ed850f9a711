"""The keys in a batch that count for what compaction keeps, by the reference reader."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from kgroup.columnar.locator import place
from kgroup.protocol.batch.record_batch import Damage, Record, RecordBatch, read_records
from kgroup.protocol.batch.transaction import TransactionIndex
from kgroup.protocol.record.coordinator_record import decode_record

__all__ = ["Keyed", "Limits", "Place", "keys_in"]


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
