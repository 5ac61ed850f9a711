"""Offsets, plans and differences as sheets, and offsets as files that can be read again."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from kgroup.errors import UsageError
from kgroup.render.cell import Column, Kind
from kgroup.render.column import GROUP, PARTITION, TOPIC
from kgroup.render.sheet import Sheet

if TYPE_CHECKING:
    from kgroup.model.offset import StoredOffset, StoreName
    from kgroup.model.problem import Problem

_COMMITTED = Column("committed_offset", Kind.NUMBER, "offset of the next record to read")

STORED_COLUMNS = (
    GROUP,
    TOPIC,
    PARTITION,
    _COMMITTED,
    Column("leader_epoch", Kind.NUMBER, "epoch of the last record read"),
    Column("metadata", Kind.TEXT, "text that the client stored with the offset"),
    Column("commit_timestamp_ms", Kind.TIME, "when it was committed"),
)
stored_sheet = partial(Sheet.of, STORED_COLUMNS)  # one row a partition

PLAN_COLUMNS = (
    GROUP,
    TOPIC,
    PARTITION,
    _COMMITTED,
    Column("target_offset", Kind.NUMBER, "offset that it shall be"),
    Column("skipped", Kind.NUMBER, "records that the group would not read"),
    Column("read_again", Kind.NUMBER, "records that it would read once more"),
    Column("bytes", Kind.NUMBER, "bytes between the two, where they are the whole partition"),
    Column("committed_ms", Kind.TIME, "time of the next record to read now"),
    Column("target_ms", Kind.TIME, "time of the next record to read then"),
    Column("log_start_offset", Kind.NUMBER, "first record that the partition has"),
    Column("log_end_offset", Kind.NUMBER, "offset that its next record gets"),
    Column("mark", Kind.TEXT, "what is wrong with the partition, or out of its range"),
    Column("result", Kind.TEXT, "planned, unchanged, done, refused or unknown"),
)
plan_sheet = partial(Sheet.of, PLAN_COLUMNS)  # one row a partition

DIFFERENCE_COLUMNS = (
    GROUP,
    TOPIC,
    PARTITION,
    Column("first_offset", Kind.NUMBER, "what the first store has"),
    Column("second_offset", Kind.NUMBER, "what the second store has"),
    Column("difference", Kind.NUMBER, "the second offset less the first"),
    Column("first_ms", Kind.TIME, "time of the next record to read by the first"),
    Column("second_ms", Kind.TIME, "time of the next record to read by the second"),
    Column("time_difference_ms", Kind.AGE, "the second time less the first"),
)
difference_sheet = partial(Sheet.of, DIFFERENCE_COLUMNS)  # one row a partition that differs

REMOVAL_COLUMNS = (
    GROUP,
    Column("member_id", Kind.NAME, "id of the member"),
    Column("instance_id", Kind.NAME, "its group.instance.id"),
    Column("client_id", Kind.NAME, "what the client calls itself"),
    Column("client_host", Kind.TEXT, "its machine"),
    Column("partition_count", Kind.NUMBER, "partitions that it has"),
    Column("result", Kind.TEXT, "planned, done, refused or unknown"),
)
removal_sheet = partial(Sheet.of, REMOVAL_COLUMNS)  # one row a member

FILE_FORMS = ("kafka-csv", "json", "jsonl")
_SUFFIXES = {".csv": "kafka-csv", ".json": "json", ".jsonl": "jsonl"}


def file_form(path: Path) -> str:
    """Tell the form that a file's name stands for.

    Raises:
        UsageError: it ends in none that is known.
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
    """Write offsets so that they can be read again, by `kgroup offsets` and, CSV, by Kafka's tools.

    Args:
        rows: sorted.
        form: one of `FILE_FORMS`.
        with_group: whether CSV says whose offsets they are; Kafka's tool leaves that out where
            it is asked for one group by its name.
        store: that they come from; JSON says it.
        errors: what is missing; likewise.

    Raises:
        UsageError: CSV cannot hold a name.
    """
    if form == "kafka-csv":
        from kgroup.protocol.kafka_csv import kafka_csv_lines

        return kafka_csv_lines(rows, with_group=with_group)
    from kgroup.render.document import document, json_rows

    lines: Iterable[bytes] = json_rows(rows)
    return iter(lines) if form == "jsonl" else document("offsets show", lines, errors, store)
