"""Offsets, plans and differences: sheets, pages for people, and files that can be read again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING

from kgroup.errors import UsageError
from kgroup.operation.offsets.plan import PlannedOffset, Result
from kgroup.operation.report import first_names
from kgroup.render.cell import GROUP, PARTITION, TOPIC, Column, Kind, cell, columns_of
from kgroup.render.sheet import Part, Sheet, Title, apart

if TYPE_CHECKING:
    from kgroup.model.offset import StoredOffset, StoreName
    from kgroup.model.problem import Problem


_COMMITTED = Column("committed_offset", Kind.NUMBER)

STORED_COLUMNS = columns_of(
    "kgroup.model.offset.StoredOffset",
    GROUP,
    TOPIC,
    PARTITION,
    _COMMITTED,
    Column("leader_epoch", Kind.NUMBER),
    Column("metadata", Kind.TEXT),
    Column("commit_timestamp_ms", Kind.TIME),
)

PLAN_COLUMNS = columns_of(
    "kgroup.operation.offsets.plan.PlannedOffset",
    GROUP,
    TOPIC,
    PARTITION,
    _COMMITTED,
    Column("target_offset", Kind.NUMBER),
    Column("skipped", Kind.NUMBER, is_alarm=True),
    Column("read_again", Kind.NUMBER),
    Column("bytes", Kind.NUMBER),
    Column("committed_ms", Kind.TIME),
    Column("target_ms", Kind.TIME),
    Column("log_start_offset", Kind.NUMBER),
    Column("log_end_offset", Kind.NUMBER),
    Column("mark", Kind.TEXT),
    Column("result", Kind.TEXT),
)

DIFFERENCE_COLUMNS = columns_of(
    "kgroup.operation.offsets.diff.OffsetDifference",
    GROUP,
    TOPIC,
    PARTITION,
    Column("first_offset", Kind.NUMBER, stays=True),
    Column("second_offset", Kind.NUMBER, stays=True),
    Column("difference", Kind.NUMBER),
    Column("first_ms", Kind.TIME),
    Column("second_ms", Kind.TIME),
    Column("time_difference_ms", Kind.AGE),
)

REMOVAL_COLUMNS = columns_of(
    "kgroup.operation.remove_members.RemovedMember",
    GROUP,
    Column("member_id", Kind.NAME),
    Column("instance_id", Kind.NAME),
    Column("client_id", Kind.NAME),
    Column("client_host", Kind.TEXT),
    Column("partition_count", Kind.NUMBER),
    Column("result", Kind.TEXT),
)

FILE_FORMS = ("kafka-csv", "json", "jsonl")
_SUFFIXES = {".csv": "kafka-csv", ".json": "json", ".jsonl": "jsonl"}


def file_form(path: Path) -> str:
    """Return the format that a file name stands for.

    Raises:
        UsageError: the file name has no known extension.
    """
    if (form := _SUFFIXES.get(path.suffix.lower())) is None:
        raise UsageError(
            f"{path}: expected a name that ends in {', '.join(_SUFFIXES)}, or --format "
            f"{'|'.join(FILE_FORMS)}"
        )
    return form


def file_lines(
    rows: Sequence[StoredOffset],
    form: str,
    *,
    with_group: bool = True,
    store: StoreName | None = None,
    errors: Iterable[Problem] = (),
) -> Iterator[bytes]:
    """Yield offsets in a format that `kgroup offsets` and, for CSV, Kafka's tools can read."""
    if form == "kafka-csv":
        from kgroup.protocol.kafka_csv import kafka_csv_lines

        return kafka_csv_lines(rows, with_group=with_group)
    from kgroup.render.json_document import json_document, json_rows

    lines: Iterable[bytes] = json_rows(rows)
    return iter(lines) if form == "jsonl" else json_document("offsets show", lines, errors, store)


_LEFT_OUT = frozenset({"group_id", "log_start_offset", "log_end_offset"})
"""Columns that a plan's tables do not show: they are in the titles, or `mark` suffices."""
_SHOWN = tuple(column for column in PLAN_COLUMNS if column.name not in _LEFT_OUT)
_CHANGED = (Result.PLANNED, Result.DONE)
_OWN = frozenset({"partition", "committed_offset", "target_offset"})
"""Columns that a plan's tables show even if all rows have the same value."""


def plan_page(rows: Sequence[PlannedOffset]) -> Iterator[Part]:
    """Yield a plan for people: each group below its name.

    The first line warns of unread records that would be skipped.
    """
    if (skipped := skip_warning(rows)) is not None:
        yield from (Title(f"Skips {skipped}", warns=True), "\n")
    groups = groupby(rows, key=attrgetter("group_id"))
    yield from apart(_group_plan(group_id, own) for group_id, own in groups)


def _group_plan(group_id: str, rows: Iterable[PlannedOffset]) -> Iterator[Part]:
    sheet, common = Sheet.of(_SHOWN, rows).without_blank().without_common(_OWN)
    of_all = f" (all: {', '.join(common)})" if common else ""
    yield from (Title(f"Group {cell(group_id, Kind.NAME)}{of_all}"), sheet)


def plan_totals(rows: Sequence[PlannedOffset]) -> str:
    """Return totals of a plan or its result: partitions, groups without any, results, records."""
    counts = Counter(row.result for row in rows)
    results = ", ".join(f"{counts[result]} {result}" for result in Result if counts[result])
    records = record_totals(rows)
    bare = sum(row.topic is None for row in rows)
    what = [counted(len(rows) - bare, "partition")] if len(rows) > bare else []
    what += [f"{counted(bare, 'group')} without offsets"] if bare else []
    return f"{' and '.join(what)}: {results}{records and f'; {records}'}"


def skip_warning(rows: Iterable[PlannedOffset]) -> str | None:
    """Return how many unread records a change skips, and where; None if none is known."""
    skipping = [row for row in rows if row.result in _CHANGED and row.skipped]
    if not skipping:
        return None
    groups = {row.group_id for row in skipping}
    total = counted(sum(row.skipped or 0 for row in skipping), "unread record")
    of_groups = f" of {counted(len(groups), 'group')}" if len(groups) > 1 else ""
    partitions = counted(len(skipping), "partition")

    def name(row: PlannedOffset) -> str:
        group = f"{cell(row.group_id, Kind.NAME)} " if of_groups else ""
        return f"{group}{cell(row.topic, Kind.NAME)}-{row.partition} ({row.skipped})"

    skipping.sort(key=lambda row: -(row.skipped or 0))
    return f"{total} in {partitions}{of_groups}: {first_names(skipping, name)}"


def record_totals(rows: Iterable[PlannedOffset]) -> str:
    """Return the number of records skipped and read again because of changes; "" if unknown."""
    changed = [row for row in rows if row.topic is not None and row.result in _CHANGED]
    known = [row for row in changed if row.skipped is not None and row.read_again is not None]
    if not known:
        return ""
    skipped = sum(row.skipped or 0 for row in known)
    again = sum(row.read_again or 0 for row in known)
    left = len(changed) - len(known)
    unknown = f", not known of {counted(left, 'partition')}" if left else ""
    return f"{counted(skipped, 'record')} skipped, {again} read again{unknown}"


def counted(number: int, noun: str) -> str:
    """Return a number with its noun."""
    return f"{number} {noun}{'' if number == 1 else 's'}"
