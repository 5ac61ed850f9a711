"""Schema of decoded records as Arrow columns, used by all decoders.

A record of `__consumer_offsets` is one row of `DECODED`. Offset commits, which are nearly all
records of a log, are completely in typed columns; every other record has its key and value as the
JSON text of `DecodedRecord`. `ColumnBuilder` makes rows with the reference decoder; the compiled
decoder in `columnar.segment` must make the same rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import orjson
import pyarrow as pa

from kgroup.columnar.chunk_size import SIZES
from kgroup.columnar.locator import Locators, wanted_records
from kgroup.model.record import DecodedRecord
from kgroup.protocol.batch.batch import Damage, RecordBatch
from kgroup.protocol.batch.transaction import TransactionIndex
from kgroup.protocol.record.coordinator_record import decode_control, decode_record

COMMIT_TYPES = ("LegacyOffsetCommit", "OffsetCommit")
"""Record types that the typed columns represent completely; the index is the key's version."""


_NAME = pa.dictionary(pa.int8(), pa.string())
_TEXT = pa.dictionary(pa.int32(), pa.string())

DECODED = pa.schema(
    [
        pa.field("partition", pa.int32()),
        pa.field("offset", pa.int64()),
        pa.field("timestamp_ms", pa.int64()),
        pa.field("timestamp_type", _NAME),
        pa.field("leader_epoch", pa.int32()),
        pa.field("producer_id", pa.int64()),
        pa.field("producer_epoch", pa.int16()),
        pa.field("transaction", _NAME),
        pa.field("type", _NAME),
        pa.field("key_type", pa.int16()),
        pa.field("group", _TEXT),
        pa.field("topic", _TEXT),
        pa.field("topic_partition", pa.int32()),
        pa.field("value_version", pa.int16()),
        pa.field("committed_offset", pa.int64()),
        pa.field("committed_leader_epoch", pa.int32()),
        pa.field("metadata", _TEXT),
        pa.field("commit_timestamp_ms", pa.int64()),
        pa.field("expire_timestamp_ms", pa.int64()),
        pa.field("topic_id", _TEXT),
        pa.field("key_json", pa.string()),
        pa.field("value_json", pa.string()),
        pa.field("size", pa.int32()),
    ]
)
"""One row for each record. Null means unknown or absent.

The first eight columns, and `type`, are the fields of `DecodedRecord`. The others:

key_type: the first int16 of the key; null for control records and for keys without it.
group: id of the group that the record is about, for any type of record.
topic, topic_partition: partition of an offset commit, also of its tombstone.
value_version: null for a tombstone, and for a value too short to have one.
committed_offset, metadata, commit_timestamp_ms: as stored.
committed_leader_epoch, expire_timestamp_ms: null if stored as -1 or absent in this version.
topic_id: base64url as Kafka prints it; null if not stored.
key_json, value_json: JSON texts; null for an offset commit that is completely in typed columns,
    and for a key or a value that is null.
size: number of bytes of the key and the value.
"""


class ColumnBuilder:
    """Builds rows with the reference decoder: for small inputs and for unusual records."""

    def __init__(self, partition: int | None = None) -> None:
        self._partition = partition
        self._columns: list[list[Any]] = [[] for _ in DECODED]
        self._size = 0

    def __len__(self) -> int:
        return len(self._columns[0])

    @property
    def is_full(self) -> bool:
        """Whether the rows are so many or so large that `finish` should be called."""
        return len(self) >= SIZES.plain_rows or self._size >= SIZES.plain_bytes

    def add(
        self,
        key: bytes | None,
        value: bytes | None,
        *,
        offset: int | None = None,
        timestamp_ms: int | None = None,
        timestamp_type: str | None = None,
        leader_epoch: int | None = None,
        producer_id: int | None = None,
        producer_epoch: int | None = None,
        transaction: str | None = None,
        is_control: bool = False,
    ) -> None:
        """Decode one record and append its row."""
        row = (
            self._partition,
            offset,
            timestamp_ms,
            timestamp_type,
            leader_epoch,
            producer_id,
            producer_epoch,
            transaction,
            *decoded_cells(key, value, is_control=is_control),
            record_size(key, value),
        )
        for column, cell in zip(self._columns, row, strict=True):
            column.append(cell)
        self._size += record_size(key, value)

    def add_batch(
        self,
        batch: RecordBatch,
        transactions: Callable[[], TransactionIndex],
        locators: Locators | None = None,
    ) -> Iterator[pa.RecordBatch | Damage]:
        """Append a row for each record of a batch; yield the rows whenever the builder is full.

        Damage in the batch is yielded at the end, after the rows so far.

        Args:
            batch: batch of the log.
            transactions: returns the partition's markers; called for transactional batches only.
            locators: locators of the wanted records; by default all.
        """
        damages: list[Damage] = []
        for record in wanted_records(batch, locators):
            if isinstance(record, Damage):
                damages.append(record)
                continue
            transaction = None
            if batch.is_transactional and batch.producer_id is not None:
                transaction = transactions().status(batch.producer_id, batch.base_offset or 0)
            self.add(
                record.key,
                record.value,
                offset=record.offset,
                timestamp_ms=record.timestamp_ms,
                timestamp_type=batch.timestamp_type,
                leader_epoch=batch.leader_epoch,
                producer_id=batch.producer_id,
                producer_epoch=batch.producer_epoch,
                transaction=transaction,
                is_control=batch.is_control,
            )
            if self.is_full:
                yield self.finish()
        if damages and self:
            yield self.finish()
        yield from damages

    def finish(self) -> pa.RecordBatch:
        """Return the rows so far as one batch, and remove them."""
        arrays = [
            pa.array(column, type=field.type)
            for column, field in zip(self._columns, DECODED, strict=True)
        ]
        self._columns = [[] for _ in DECODED]
        self._size = 0
        return pa.RecordBatch.from_arrays(arrays, schema=DECODED)


def decoded_cells(key: bytes | None, value: bytes | None, *, is_control: bool) -> tuple[Any, ...]:
    """Decode a record; return its cells of the columns from `type` to `value_json`."""
    decode = decode_control if is_control else decode_record
    type_name, key_tree, value_tree = decode(key, value)
    key_data = (key_tree or {}).get("data") or {}
    value_data = (value_tree or {}).get("data") or {}
    is_commit = type_name in COMMIT_TYPES
    commit = value_data if is_commit else {}
    whole = is_commit and _is_whole(key_tree, value_tree)
    leader_epoch = commit.get("leaderEpoch", -1)
    expire_timestamp_ms = commit.get("expireTimestamp", -1)
    return (
        type_name,
        (key_tree or {}).get("type"),
        None if is_control else key_data.get("group", key_data.get("groupId")),
        key_data.get("topic") if is_commit else None,
        key_data.get("partition") if is_commit else None,
        (value_tree or {}).get("version"),
        commit.get("offset"),
        None if leader_epoch == -1 else leader_epoch,
        commit.get("metadata"),
        commit.get("commitTimestamp"),
        None if expire_timestamp_ms == -1 else expire_timestamp_ms,
        commit.get("topicId"),
        None if whole else _json(key_tree),
        None if whole else _json(value_tree),
    )


def record_size(key: bytes | None, value: bytes | None) -> int:
    """Return the number of bytes of a record's key and value."""
    return len(key or b"") + len(value or b"")


def commit_key(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return the key of an offset commit, as in `DecodedRecord`, from its typed columns."""
    data = {"group": row["group"], "topic": row["topic"], "partition": row["topic_partition"]}
    return {"type": row["key_type"], "data": data}


def commit_value(row: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the value of an offset commit, as in `DecodedRecord`, from its typed columns."""
    version = row["value_version"]
    if version is None:
        return None
    data: dict[str, Any] = {"offset": row["committed_offset"]}
    if version >= 3:
        epoch = row["committed_leader_epoch"]
        data["leaderEpoch"] = -1 if epoch is None else epoch
    data["metadata"] = row["metadata"]
    data["commitTimestamp"] = row["commit_timestamp_ms"]
    if version == 1:
        expire_timestamp_ms = row["expire_timestamp_ms"]
        data["expireTimestamp"] = -1 if expire_timestamp_ms is None else expire_timestamp_ms
    if row["topic_id"] is not None:
        data["topicId"] = row["topic_id"]
    return {"version": version, "data": data}


def records(batch: pa.RecordBatch) -> Iterator[DecodedRecord]:
    """Yield the rows of `DECODED` as objects."""
    for row in batch.to_pylist():
        key: Mapping[str, Any] | None
        value: Mapping[str, Any] | None
        if row["type"] in COMMIT_TYPES and row["key_json"] is None:
            key, value = commit_key(row), commit_value(row)
        else:
            key, value = _tree(row["key_json"]), _tree(row["value_json"])
        yield DecodedRecord(
            **{name: row[name] for name in DECODED.names[:8]},
            type=row["type"],
            key=key,
            value=value,
        )


def _is_whole(key_tree: Mapping[str, Any] | None, value_tree: Mapping[str, Any] | None) -> bool:
    """Return whether the typed columns represent an offset commit completely."""
    return (
        key_tree is not None
        and key_tree.keys() == {"type", "data"}
        and (
            value_tree is None
            or (value_tree.keys() == {"version", "data"} and "_tagged" not in value_tree["data"])
        )
    )


def _json(tree: Mapping[str, Any] | None) -> str | None:
    return None if tree is None else orjson.dumps(tree).decode()


def _tree(text: str | None) -> Any:
    return None if text is None else orjson.loads(text)
