"""One decoded record of `__consumer_offsets`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kgroup.word import Word


class TransactionStatus(Word):
    """What became of a transactional record."""

    COMMITTED = ("committed", "Its transaction was committed: the record counts.")
    ABORTED = ("aborted", "Its transaction was aborted: the record counts for nothing.")
    OPEN = ("open", "No marker behind it says how its transaction ended: it may count yet.")


@dataclass(frozen=True, slots=True)
class DecodedRecord:
    """A record of `__consumer_offsets` with its place in the log, key and value.

    The fields are those of one line of ``kgroup decode-offsets -o jsonl``, in that order.

    Attributes:
        partition: partition of `__consumer_offsets`, None where the source does not tell.
        offset: the record's offset in that partition.
        timestamp_ms: epoch milliseconds, None where there is none (message format v0, or -1).
        timestamp_type: "create" or "log_append", None in message format v0.
        leader_epoch: partition leader epoch of the batch, None before message format v2 or -1.
        producer_id: of an idempotent or transactional producer, else None.
        producer_epoch: likewise.
        transaction: None outside a transaction, else a `TransactionStatus`.
        type: name of the schema without Key/Value ("OffsetCommit"; key version 0 is
            "LegacyOffsetCommit"), one of `CONTROL_TYPES`, or "Unknown".
        key: ``{"type": int, "data": {...}}`` with Kafka's own field names; ``{"type", "raw"}`` with
            base64 where no schema knows the type; None where the record has no key.
        value: ``{"version": int, "data": {...}}``; ``{"version", "data": None, "raw"}`` where the
            version is unknown or the bytes do not fit the schema; None for a tombstone.
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
    """Take a number from `data`, where Kafka stores -1 for what it does not know."""
    return None if number == -1 else number
