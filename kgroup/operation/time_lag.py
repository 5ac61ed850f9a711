"""How far groups are behind in time: when the records were made that they read next."""

import time
from collections.abc import Iterator
from dataclasses import replace
from typing import TypeVar

from kgroup.model.next_record import NextReading, Position
from kgroup.operation.description import GroupDescription, OffsetDescription, ShareOffsetDescription
from kgroup.operation.report import Report
from kgroup.source.base import NextRecordSource

__all__ = ["with_time_lags"]

Row = TypeVar("Row", OffsetDescription, ShareOffsetDescription)


def with_time_lags(
    report: Report[GroupDescription],
    source: NextRecordSource,
    *,
    committed: bool = False,
    now_ms: int | None = None,
) -> Report[GroupDescription]:
    """Add to descriptions how long ago the next record to read was made.

    That is 0 where nothing is left to read, and unknown where the next record is not: nothing is
    committed, the commit lies outside the log, the topic may not be read, the record has no time.

    Args:
        report: of `describe`.
        source: tells the times of records.
        committed: as it was for `describe`.
        now_ms: epoch milliseconds that are now; None for this machine's clock.

    Raises:
        BrokerError: no broker answers.
    """
    positions = {
        position
        for group in report.data
        for row in _rows(group)
        if row.lag != 0 and (position := _position(row)) is not None
    }
    reading = source.next_records(positions, committed=committed)
    now = time.time_ns() // 1_000_000 if now_ms is None else now_ms
    return replace(
        report,
        data=tuple(_timed(group, reading, now) for group in report.data),
        errors=report.errors + reading.problems,
    )


def _rows(group: GroupDescription) -> Iterator[OffsetDescription | ShareOffsetDescription]:
    yield from group.offsets
    yield from group.share_offsets or ()


def _position(row: OffsetDescription | ShareOffsetDescription) -> Position | None:
    """Return from where the next record is to be looked for; None where that makes no sense."""
    if isinstance(row, ShareOffsetDescription):
        offset, start = row.start_offset, None
    else:
        offset, start = row.committed_offset, row.log_start_offset
    if row.topic is None or row.partition is None or offset is None or row.log_end_offset is None:
        return None
    if offset > row.log_end_offset or (start is not None and offset < start):
        return None
    return (row.topic, row.partition, offset)


def _timed(group: GroupDescription, reading: NextReading, now_ms: int) -> GroupDescription:
    shared = group.share_offsets
    group = replace(
        group,
        offsets=tuple(_timed_row(row, reading, now_ms) for row in group.offsets),
        share_offsets=shared and tuple(_timed_row(row, reading, now_ms) for row in shared),
    )
    lags = [row.time_lag_ms for row in _rows(group) if row.time_lag_ms is not None]
    return replace(group, max_time_lag_ms=max(lags, default=None))


def _timed_row(row: Row, reading: NextReading, now_ms: int) -> Row:
    if row.lag == 0:
        return replace(row, time_lag_ms=0)
    position = _position(row)
    record = None if position is None else reading.records.get(position)
    if record is None:
        return row
    if record.offset is None:
        return replace(row, time_lag_ms=0)
    time_ms = record.timestamp_ms
    lag_ms = None if time_ms is None else now_ms - time_ms
    return replace(row, next_timestamp_ms=time_ms, time_lag_ms=lag_ms)
