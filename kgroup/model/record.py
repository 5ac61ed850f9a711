"""One decoded record of `__consumer_offsets`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kgroup.described_enum import DescribedEnum


class TransactionStatus(DescribedEnum):
    """What became of a transactional record."""

    COMMITTED = ("committed", "Its transaction was committed: the record counts.")
    ABORTED = ("aborted", "Its transaction was aborted: the record counts for nothing.")
    OPEN = ("open", "No marker behind it says how its transaction ended: it may count yet.")


@dataclass(frozen=True, slots=True)
class DecodedRecord:
    """A record of `__consumer_offsets` with its place in the log, key and value.

    Attributes:
        partition: partition of `__consumer_offsets`; from the folder's name; None where that does
            not tell.
        offset: offset of the record in that partition; None for `--key`.
        timestamp_ms: time of the record; None where there is none (message format v0).
        timestamp_type: `create` or `log_append`; None in message format v0.
        leader_epoch: epoch of the partition's leader that appended it; None before message format
            v2.
        producer_id: id of an idempotent or transactional producer; else None.
        producer_epoch: epoch of that producer; likewise.
        transaction: `committed`, `aborted` or `open`; the last one where the log has no marker
            (yet); None outside a transaction.
        type: record type: the schema's name without Key and Value; `LegacyOffsetCommit` for key
            version 0; `ControlCommit`, `ControlAbort` (and KRaft's control records, which no log of
            groups has); `Unknown`.
        key: the key, `{"type": 1, "data": {…}}`; None where the record has none.
        value: the value, `{"version": 3, "data": {…}}`; None for a tombstone.
    """

    partition: int | None
    offset: int
    timestamp_ms: int | None
    timestamp_type: str | None
    leader_epoch: int | None
    producer_id: int | None
    producer_epoch: int | None
    transaction: str | None
    type: str
    key: Mapping[str, Any] | None
    value: Mapping[str, Any] | None


def known(number: int | None) -> int | None:
    """Return a number of `data`; None for -1, which Kafka stores for an unknown number."""
    return None if number == -1 else number
