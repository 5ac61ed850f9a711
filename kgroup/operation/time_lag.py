"""How far groups are behind: when the records that they read next were made, and if any are there.

What a committed offset and the ends of the log tell is an upper limit: the offsets between them may
belong to transaction markers, or to records that compaction removed. Only a look at the records
shows whether one waits.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TypeVar

from kgroup.model.log_range import OffsetMark
from kgroup.model.next_record import NextReading, Position
from kgroup.operation.description import GroupDescription, OffsetDescription, ShareOffsetDescription
from kgroup.operation.report import Report
from kgroup.source.base import NextRecordSource

_MOST_OFFSETS = 1000
"""A transaction, or a few, of which nothing but markers is left; a look costs a fetch."""

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
        if not _is_at_end(row) and (position := _position(row)) is not None
    }
    reading = source.next_records(positions, committed=committed)
    now = time.time_ns() // 1_000_000 if now_ms is None else now_ms
    return replace(
        report,
        data=tuple(_timed(group, reading, now) for group in report.data),
        errors=report.errors + reading.problems,
    )


def with_records_seen(
    report: Report[GroupDescription],
    source: NextRecordSource,
    is_asked: Callable[[GroupDescription, OffsetDescription], bool],
) -> Report[GroupDescription]:
    """Set `waiting` to 0 where the offsets before a reader hold no record.

    Partitions with more than 1,000 such offsets are taken to hold one. Where the records cannot be
    read, `waiting` stays the upper limit that it is.

    Args:
        report: of `describe`, with log ends for readers of all records.
        source: where records are read.
        is_asked: tells for which partitions it matters.

    Raises:
        BrokerError: no broker answers.
    """
    positions = {
        position
        for group in report.data
        for row in group.offsets
        if row.waiting and row.waiting <= _MOST_OFFSETS and is_asked(group, row)
        if (position := _waiting_position(row)) is not None
    }
    if not positions:
        return report
    reading = source.next_records(positions)
    empty = {at for at, record in reading.records.items() if record.offset is None}

    def seen(row: OffsetDescription) -> OffsetDescription:
        return replace(row, waiting=0) if row.waiting and _waiting_position(row) in empty else row

    data = tuple(replace(each, offsets=tuple(map(seen, each.offsets))) for each in report.data)
    return replace(report, data=data) if empty else report


def _waiting_position(row: OffsetDescription) -> Position | None:
    """Return where a reader finds the next record: at the commit, or at the start of the log."""
    if row.topic is None or row.committed_offset is None:
        return None
    return (row.topic, row.partition, max(row.committed_offset, row.log_start_offset or 0))


def _is_at_end(row: OffsetDescription | ShareOffsetDescription) -> bool:
    """Tell whether there is nothing left to read, as offsets tell."""
    if isinstance(row, ShareOffsetDescription):
        return row.lag == 0
    return row.waiting == 0 and row.mark is not OffsetMark.PAST_END


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
    if _is_at_end(row):
        return replace(row, time_lag_ms=0)
    position = _position(row)
    record = None if position is None else reading.records.get(position)
    if record is None:
        return row
    if record.offset is None:
        row = replace(row, time_lag_ms=0)
        return replace(row, waiting=0) if isinstance(row, OffsetDescription) else row
    time_ms = record.timestamp_ms
    # A record from a clock that is ahead of this machine's is not read before it was written.
    lag_ms = None if time_ms is None else max(now_ms - time_ms, 0)
    return replace(row, next_timestamp_ms=time_ms, time_lag_ms=lag_ms)
