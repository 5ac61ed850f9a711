"""Replay a log's segments: from files to decoded records to what takes them."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Protocol

from kgroup.model.problem import Problem, ProblemLog
from kgroup.model.record import DecodedRecord
from kgroup.model.segment import Segment
from kgroup.operation.usable import why_unusable
from kgroup.protocol.batch import Damage, RecordBatch
from kgroup.protocol.consumer_protocol import decode_subscription
from kgroup.protocol.coordinator_record import decode_control, decode_record
from kgroup.protocol.primitives import base64_bytes
from kgroup.protocol.record_batch import read_file_batches, read_records
from kgroup.source.segment_file import partition_of

__all__ = ["Decode", "Replay", "decode_group_record", "read_segment", "replay_log"]

_Decoded = dict[str, Any] | None

Decode = Callable[[bytes | None, bytes | None], tuple[str, _Decoded, _Decoded]]
"""From the bytes of a record to type, key and value: `decode_group_record`, say."""


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
    if kind == "ConsumerGroupMemberMetadata" and decoded and decoded["data"]:
        classic = decoded["data"].get("classicMemberMetadata")
        for protocol in classic["supportedProtocols"] if classic else ():
            metadata = base64_bytes(protocol["metadata"])
            protocol["metadata"] = decode_subscription(metadata, protocol["name"])
    return kind, decoded_key, decoded


def replay_log(log: Iterable[Segment], decode: Decode, target: Replay, damage: ProblemLog) -> None:
    """Feed a log's records to `target`; what cannot be read goes to `damage`.

    Args:
        log: segments of one partition, in order.
        decode: key and value of a record of that topic.
        target: takes the records.
        damage: takes the rest.
    """
    for segment in log:
        unusable = why_unusable(segment)
        if unusable is not None:
            damage.add(Problem(*unusable, path=str(segment.path)))
            continue
        try:
            for record in read_segment(segment, damage, decode):
                target.replay(record)
        except OSError as error:
            damage.add(
                Problem(
                    "unreadable",
                    f"The file cannot be read: {error.strerror or error}.",
                    path=str(segment.path),
                    offsets_partition=partition_of(segment.path.absolute().parent),
                )
            )


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
    with segment.path.open("rb") as file:
        for batch in read_file_batches(file):
            if isinstance(batch, Damage):
                damage.add(_problem(batch, segment))
                continue
            for record in _read_batch(batch, segment.partition, decode):
                if isinstance(record, Damage):
                    damage.add(_problem(record, segment))
                else:
                    yield record


def _read_batch(
    batch: RecordBatch, partition: int | None, decode: Decode
) -> Iterator[DecodedRecord | Damage]:
    if batch.is_control:
        decode = decode_control
    # Whether a marker follows is seen when it comes, as it is for a coordinator.
    transaction = "open" if batch.is_transactional and not batch.is_control else None
    for record in read_records(batch):
        if isinstance(record, Damage):
            yield record
            continue
        kind, key, value = decode(record.key, record.value)
        yield DecodedRecord(
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


def _problem(damage: Damage, segment: Segment) -> Problem:
    return Problem(
        damage.kind,
        damage.reason,
        path=str(segment.path),
        position=damage.position,
        offsets_partition=partition_of(segment.path.absolute().parent),
    )
