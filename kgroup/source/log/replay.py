"""Replay a log's segments: from files to decoded records to what takes them.

Of a partition of `__consumer_offsets` only what compaction would keep is decoded and replayed
(`replay_groups`): the last record of each key, transactions settled by their markers. A coordinator
that loads the log after a compaction gets no more, and the groups are the same. A small log is read
once, and the last records are kept as they come; the keys of a large one are searched with compiled
code first (`last_record`), and then its last records are decoded (`columnar.segment`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from kgroup.columnar.log_reader import FileLogs, LogReader
from kgroup.columnar.segment_check import is_allocated_ahead
from kgroup.model.delta import Delta, Producer
from kgroup.model.problem import Problem, ProblemLog
from kgroup.model.record import DecodedRecord, TransactionStatus
from kgroup.model.segment import Log, Segment
from kgroup.protocol.batch.batch import Damage, Record, RecordBatch
from kgroup.protocol.batch.record_batch import read_file_batches, read_records
from kgroup.protocol.record.coordinator_record import (
    decode_control,
    decode_record,
    decode_subscriptions,
)

if TYPE_CHECKING:
    import pyarrow as pa

    from kgroup.columnar.batch_key import KeyedRecord

_Decoded = dict[str, Any] | None

Decode = Callable[[bytes | None, bytes | None], tuple[str, _Decoded, _Decoded]]
"""From the bytes of a record to type, key and value: `decode_group_record`, say."""

_COMMIT_COLUMNS = (
    "group",
    "topic",
    "topic_partition",
    "committed_offset",
    "committed_leader_epoch",
    "metadata",
    "commit_timestamp_ms",
    "expire_timestamp_ms",
    "topic_id",
    "offset",
    "value_version",
    "transaction",
    "producer_id",
    "producer_epoch",
)
"""Of `columnar.schema.DECODED`: what `Delta.commit` takes, then what tells how to call it."""


def decode_group_record(key: bytes | None, value: bytes | None) -> tuple[str, _Decoded, _Decoded]:
    """Decode a record of `__consumer_offsets` for `Delta`.

    That is `decode_record`, and beyond what Kafka's tools show the subscriptions of a consumer that
    still speaks the classic protocol in a consumer group.
    """
    kind, decoded_key, decoded = decode_record(key, value)
    decode_subscriptions(kind, decoded)
    return kind, decoded_key, decoded


def replay_groups(
    log: Iterable[Segment],
    target: Delta,
    damage: ProblemLog,
    *,
    compiled: bool | None = None,
    on_compile: Callable[[], None] | None = None,
    on_progress: Callable[[int], None] = lambda size: None,
) -> tuple[str, ...]:
    """Feed what compaction would keep of a log to `target`; what cannot be read goes to `damage`.

    The log is the segments of one partition of `__consumer_offsets`, in order. By default compiled
    code is used where it is large; `on_compile` is called before code is compiled, see
    `columnar.segment.decode_chunks`, and `on_progress` now and then with the bytes that were read.

    Returns:
        Notes, see `LogReader.notes`.
    """
    reader = LogReader(
        FileLogs([Log(tuple(log))]),
        last_only=True,
        for_replay=True,
        compiled=compiled,
        on_compile=on_compile,
        on_search=on_progress,
        on_problem=damage.add,
    )
    partition = target.offsets_partition
    kept: pa.RecordBatch | Sequence[KeyedRecord]
    for kept in reader.map(lambda rows: rows, lambda records: records):
        if isinstance(kept, tuple):
            for _, _, is_open, batch, record in kept:
                decoded = _decoded(partition, batch, record, decode_group_record, is_open=is_open)
                target.replay(decoded)
        else:
            _replay_columns(kept, target)
    return reader.notes


def read_segment(
    segment: Segment, damage: ProblemLog, decode: Decode = decode_group_record
) -> Iterator[DecodedRecord]:
    """Decode a segment's records in order, for `Delta`: transactional ones are all "open".

    What cannot be read goes to `damage`; `decode` is that of the topic's records.

    Raises:
        OSError: the file cannot be read.
    """
    with segment.path.open("rb") as file:
        for batch in read_file_batches(file):
            if isinstance(batch, Damage):
                if not is_allocated_ahead(batch, segment.path):
                    damage.add(_problem(batch, segment))
                continue
            # Whether a marker follows is seen when it comes, as it is for a coordinator.
            is_open = batch.is_transactional and not batch.is_control
            decode_it = decode_control if batch.is_control else decode
            for record in read_records(batch):
                if isinstance(record, Damage):
                    damage.add(_problem(record, segment))
                else:
                    yield _decoded(segment.partition, batch, record, decode_it, is_open=is_open)


def _problem(damage: Damage, segment: Segment) -> Problem:
    return Problem(damage.kind, damage.reason, path=str(segment.path), position=damage.position)


def _decoded(
    partition: int | None, batch: RecordBatch, record: Record, decode: Decode, *, is_open: bool
) -> DecodedRecord:
    kind, key, value = decode(record.key, record.value)
    return DecodedRecord(
        partition,
        record.offset,
        record.timestamp_ms,
        batch.timestamp_type,
        batch.leader_epoch,
        batch.producer_id,
        batch.producer_epoch,
        TransactionStatus.OPEN if is_open else None,
        kind,
        key,
        value,
    )


def _replay_columns(rows: pa.RecordBatch, target: Delta) -> None:
    """Replay rows of `columnar.schema.DECODED`: offset commits straight, the others as records."""
    import pyarrow as pa

    from kgroup.columnar.schema import COMMIT_TYPES, records

    types = _cells(rows["type"])
    is_other = rows["key_json"].is_valid().to_pylist()
    is_commit = [
        kind in COMMIT_TYPES and not other for kind, other in zip(types, is_other, strict=True)
    ]
    others = records(rows.filter(pa.array([not plain for plain in is_commit], pa.bool_())))
    columns = zip(*(_cells(rows[name]) for name in _COMMIT_COLUMNS), strict=True)
    for is_plain, cells in zip(is_commit, columns, strict=True):
        *commit, version, transaction, producer_id, producer_epoch = cells
        is_open = transaction == TransactionStatus.OPEN
        if not is_plain:
            record = next(others)
            decode_subscriptions(record.type, record.value)
            target.replay(record if is_open else replace(record, transaction=None))
        elif version is None:
            target.remove_offset(*commit[:3])
        else:
            pending = Producer(producer_id, producer_epoch) if is_open else None
            target.commit(*commit, pending=pending)


def _cells(column: pa.Array) -> list[Any]:
    """Give a column's cells; of a dictionary's texts, rows share them."""
    import pyarrow as pa

    if not pa.types.is_dictionary(column.type):
        cells: list[Any] = column.to_pylist()
        return cells
    texts = column.dictionary.to_pylist()
    return [None if index is None else texts[index] for index in column.indices.to_pylist()]
