"""One decoded record of `__consumer_offsets`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kgroup.described_enum import DescribedEnum


class TransactionStatus(DescribedEnum):
    """Status of the transaction of a record."""

    COMMITTED = ("committed", "The transaction was committed: the record is effective.")
    ABORTED = ("aborted", "The transaction was aborted: the record has no effect.")
    OPEN = ("open", "The log has no marker yet that commits or aborts the transaction.")


@dataclass(frozen=True, slots=True)
class DecodedRecord:
    """A record of `__consumer_offsets` with its place in the log, key and value.

    Attributes:
        partition: partition of `__consumer_offsets`, from the folder name; None if the name does
            not contain it.
        offset: offset of the record in that partition; None for `--key`.
        timestamp_ms: timestamp of the record; None in message format v0, which has none.
        timestamp_type: timestamp type, `create` or `log_append`; None in message format v0.
        leader_epoch: leader epoch in which the record was appended; None before message format v2.
        producer_id: id of an idempotent or transactional producer; else None.
        producer_epoch: epoch of an idempotent or transactional producer; else None.
        transaction: status of the transaction, `committed`, `aborted` or `open`; `open` if the log
            has no marker (yet); None outside a transaction.
        type: record type, the name of the schema without Key and Value; `LegacyOffsetCommit` for
            key version 0; `ControlCommit`, `ControlAbort` (and KRaft's control records, which
            `__consumer_offsets` never has); `Unknown`.
        key: the key, `{"type": 1, "data": {…}}`; None if the record has none.
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
