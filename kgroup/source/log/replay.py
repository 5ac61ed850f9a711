"""Replay a log's segments: from files to decoded records to what takes them.

Of a partition of `__consumer_offsets` only what compaction would keep is decoded and replayed
(`replay_groups`): the last record of each key, transactions settled by their markers. A coordinator
that loads the log after a compaction gets no more, and the groups are the same. A small log is read
once, and the last records are kept as they come; the keys of a large one are searched with compiled
code first (`last_record`), and then its last records are decoded (`columnar.segment`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from kgroup.columnar.batch_scan import scan_transactions
from kgroup.columnar.input_size import is_large
from kgroup.columnar.segment_check import why_unusable
from kgroup.model.delta import Delta, Producer
from kgroup.model.offset import CommittedOffset
from kgroup.model.problem import Problem, ProblemLog
from kgroup.model.record import DecodedRecord, known
from kgroup.model.segment import Segment
from kgroup.protocol.batch.batch import Damage, Record, RecordBatch
from kgroup.protocol.batch.record_batch import read_file_batches, read_records
from kgroup.protocol.batch.transaction import once
from kgroup.protocol.message.primitives import base64_bytes
from kgroup.protocol.record.consumer_protocol import decode_subscription
from kgroup.protocol.record.coordinator_record import decode_control, decode_record
from kgroup.source.log.segment_file import partition_of

if TYPE_CHECKING:
    import pyarrow as pa

    from kgroup.protocol.batch.transaction import TransactionIndex

__all__ = [
    "Decode",
    "Replay",
    "decode_group_record",
    "decode_subscriptions",
    "read_segment",
    "replay_groups",
    "replay_log",
]

_Decoded = dict[str, Any] | None

Decode = Callable[[bytes | None, bytes | None], tuple[str, _Decoded, _Decoded]]
"""From the bytes of a record to type, key and value: `decode_group_record`, say."""

_COMMIT_COLUMNS = (
    "group",
    "topic",
    "topic_partition",
    "value_version",
    "committed_offset",
    "committed_leader_epoch",
    "metadata",
    "commit_timestamp_ms",
    "expire_timestamp_ms",
    "topic_id",
    "offset",
    "transaction",
    "producer_id",
    "producer_epoch",
)


class Replay(Protocol):
    """What takes the records of one partition in the log's order: `Delta`, say."""

    def replay(self, record: DecodedRecord) -> None:
        """Take one record."""
        ...


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
    announce: Callable[[], None] | None = None,
    watch: Callable[[int], None] = lambda size: None,
) -> None:
    """Feed what compaction would keep of a log to `target`; what cannot be read goes to `damage`.

    Args:
        log: segments of one partition of `__consumer_offsets`, in order.
        target: takes the records.
        damage: takes the rest.
        compiled: whether to use compiled code; by default where the log is large.
        announce: called before code is compiled, see `columnar.segment.decode_chunks`.
        watch: called now and then with the bytes of the log that have been read.
    """
    segments = list(_usable(log, damage))
    if compiled is None:
        compiled = False
        with suppress(OSError):  # which is said where the records are read
            compiled = is_large(segment.path for segment in segments)
    if compiled:
        _replay_compiled(segments, target, damage, announce, watch)
    else:
        _replay_last(segments, target, damage)


def replay_log(log: Iterable[Segment], decode: Decode, target: Replay, damage: ProblemLog) -> None:
    """Feed all records of a log to `target`; what cannot be read goes to `damage`.

    Args:
        log: segments of one partition, in order.
        decode: key and value of a record of that topic.
        target: takes the records.
        damage: takes the rest.
    """
    for segment in _usable(log, damage):
        try:
            for record in read_segment(segment, damage, decode):
                target.replay(record)
        except OSError as error:
            damage.add(_unreadable(error, segment))


def read_segment(
    segment: Segment, damage: ProblemLog, decode: Decode = decode_group_record
) -> Iterator[DecodedRecord]:
    """Decode a segment's records in order, for `Delta`: transactional ones are all "open".

    What cannot be read goes to `damage`.

    Args:
        segment: to read.
        damage: takes what is damaged.
        decode: key and value of its topic's records.

    Raises:
        OSError: the file cannot be read.
    """
    for batch, record in _read(segment, damage):
        # Whether a marker follows is seen when it comes, as it is for a coordinator.
        is_open = batch.is_transactional and not batch.is_control
        yield _decoded(
            segment.partition,
            batch,
            record,
            "open" if is_open else None,
            decode_control if batch.is_control else decode,
        )


def _usable(log: Iterable[Segment], damage: ProblemLog) -> Iterator[Segment]:
    for segment in log:
        reason = why_unusable(segment)
        if reason is None:
            yield segment
        else:
            damage.add(Problem(*reason, path=str(segment.path)))


def _read(segment: Segment, damage: ProblemLog) -> Iterator[tuple[RecordBatch, Record]]:
    with segment.path.open("rb") as file:
        for batch in read_file_batches(file):
            if isinstance(batch, Damage):
                damage.add(_problem(batch, segment))
                continue
            for record in read_records(batch):
                if isinstance(record, Damage):
                    damage.add(_problem(record, segment))
                else:
                    yield batch, record


def _decoded(
    partition: int | None,
    batch: RecordBatch,
    record: Record,
    transaction: str | None,
    decode: Decode,
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
        transaction,
        kind,
        key,
        value,
    )


# --- a small log: its last records are kept as they come -----------------------------------------


class _Found(NamedTuple):
    segment: Segment
    batch: RecordBatch
    record: Record
    is_open: bool


def _replay_last(segments: Sequence[Segment], target: Delta, damage: ProblemLog) -> None:
    last: dict[bytes, int] = {}
    found: dict[int, _Found] = {}  # by number, so that they come out in the log's order
    open_keys: set[bytes] = set()
    transactions = _transactions(segments, None)
    number = 0
    for segment in segments:
        keyless = 0
        try:
            for batch, record in _read(segment, damage):
                if batch.is_control:
                    continue
                if record.key is None:
                    keyless += 1
                    continue
                fate = None
                if batch.is_transactional and batch.producer_id is not None:
                    fate = transactions().status(batch.producer_id, batch.base_offset or 0)
                if fate == "aborted":
                    continue
                number += 1
                found[number] = _Found(segment, batch, record, fate == "open")
                if fate == "open":
                    open_keys.add(record.key)
                    continue
                earlier = last.get(record.key)
                if earlier is not None and not (
                    record.key in open_keys and found[earlier].record.value is None
                ):
                    del found[earlier]
                last[record.key] = number
        except OSError as error:
            damage.add(_unreadable(error, segment))
        _report_keyless(keyless, segment, damage)
    for segment, batch, record, is_open in found.values():
        transaction = "open" if is_open else None
        target.replay(_decoded(segment.partition, batch, record, transaction, decode_group_record))


def _transactions(
    segments: Sequence[Segment], announce: Callable[[], None] | None
) -> Callable[[], TransactionIndex]:
    """Give a function that collects the markers when it is first called."""
    paths = [segment.path for segment in segments]
    return once(lambda: scan_transactions(paths, announce=announce))


# --- a large log: compiled code finds its last records, and decodes them -------------------------


def _replay_compiled(
    segments: Sequence[Segment],
    target: Delta,
    damage: ProblemLog,
    announce: Callable[[], None] | None,
    watch: Callable[[int], None],
) -> None:
    from kgroup.columnar.batch_key import Limits
    from kgroup.columnar.last_record import last_records
    from kgroup.columnar.segment import map_chunks

    transactions = _transactions(segments, announce)
    try:
        last = last_records(
            [segment.path for segment in segments],
            Limits(transactions, with_removals=True),
            compiled=True,
            announce=announce,
            watch=watch,
        )
        for segment, found in zip(segments, last, strict=True):
            for each in found.damages:
                damage.add(_problem(each, segment))
            _report_keyless(found.keyless, segment, damage)
            for batch in map_chunks(
                segment.path,
                lambda batch: batch,
                partition=segment.partition,
                transactions=transactions,
                places=found.places,
                compiled=True,
                announce=announce,
            ):
                if not isinstance(batch, Damage):
                    _replay_columns(batch, target)
    except OSError as error:
        damage.add(_unreadable(error, segments[0]))


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
        if is_plain:
            _replay_commit(cells, target)
            continue
        record = next(others)
        decode_subscriptions(record.type, record.value)
        is_open = record.transaction == "open"
        target.replay(record if is_open else replace(record, transaction=None))


def _replay_commit(cells: tuple[Any, ...], target: Delta) -> None:
    """Replay one offset commit from its cells of `_COMMIT_COLUMNS`."""
    group_id, topic, partition, version, committed, leader_epoch, *rest = cells
    metadata, commit_ms, expire_ms, topic_id, offset, transaction, *producer = rest
    if version is None:
        target.remove_offset(group_id, topic, partition)
        return
    commit = CommittedOffset(
        topic,
        partition,
        committed,
        leader_epoch,
        metadata,
        known(commit_ms),
        expire_ms,
        topic_id,
        offset,
    )
    target.commit(group_id, commit, Producer(*producer) if transaction == "open" else None)


def _cells(column: pa.Array) -> list[Any]:
    """Give a column's cells; of a dictionary's texts, rows share them."""
    import pyarrow as pa

    if not pa.types.is_dictionary(column.type):
        cells: list[Any] = column.to_pylist()
        return cells
    texts = column.dictionary.to_pylist()
    return [None if index is None else texts[index] for index in column.indices.to_pylist()]


# --- both ----------------------------------------------------------------------------------------


def decode_subscriptions(kind: str, decoded: Mapping[str, Any] | None) -> None:
    """Decode, in a value of `coordinator_record`, the subscriptions of classic consumers."""
    if kind == "ConsumerGroupMemberMetadata" and decoded and decoded["data"]:
        classic = decoded["data"].get("classicMemberMetadata")
        for protocol in classic["supportedProtocols"] if classic else ():
            metadata = base64_bytes(protocol["metadata"])
            protocol["metadata"] = decode_subscription(metadata, protocol["name"])


def _report_keyless(count: int, segment: Segment, damage: ProblemLog) -> None:
    if count:
        reason = f"{count} record{'s' if count > 1 else ''} without a key left out."
        damage.add(_in_segment("unknown-record", reason, segment))


def _unreadable(error: OSError, segment: Segment) -> Problem:
    reason = f"The file cannot be read: {error.strerror or error}."
    return _in_segment("unreadable", reason, segment)


def _problem(damage: Damage, segment: Segment) -> Problem:
    return _in_segment(damage.kind, damage.reason, segment, damage.position)


def _in_segment(kind: str, reason: str, segment: Segment, position: int | None = None) -> Problem:
    return Problem(
        kind,
        reason,
        path=str(segment.path),
        position=position,
        offsets_partition=partition_of(segment.path.absolute().parent),
    )
