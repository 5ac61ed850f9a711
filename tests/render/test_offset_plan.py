"""What people are shown of a plan: tables that fit a terminal, and totals."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kgroup.model.log_range import OffsetMark
from kgroup.model.offset import CommittedOffset, StoredOffset
from kgroup.operation.offsets.plan import PlannedOffset, Result
from kgroup.render.form import page_text
from kgroup.render.offsets import file_form, file_lines, plan_page, plan_totals, record_totals
from kgroup.source.base import OffsetReading
from kgroup.source.offset_file import OffsetFile
from tests.examples import examples


def row(
    partition: int,
    now: int | None,
    then: int | None,
    result: Result = Result.PLANNED,
    *,
    group_id: str = "billing",
    mark: OffsetMark | None = None,
) -> PlannedOffset:
    known = now is not None and then is not None
    return PlannedOffset(
        group_id,
        "orders",
        partition,
        now,
        then,
        max((then or 0) - (now or 0), 0) if known else None,
        max((now or 0) - (then or 0), 0) if known else None,
        None,
        0,
        1_000_000_000_000,
        None,
        None,
        mark,
        result,
    )


ROWS = (
    row(0, 1_000_000_000, 7),
    row(1, 3, 3, Result.UNCHANGED),
    row(2, None, 5),
    row(3, 1, 3, mark=OffsetMark.PAST_END),
    row(4, 9, 1, Result.REFUSED),
    row(0, 5, 6, group_id="shipping"),
    row(1, 6, 7, group_id="shipping"),
)


def test_groups_have_tables_of_their_own() -> None:
    text = "".join(page_text(plan_page(ROWS)))
    assert text == (
        "Skips 4 unread records in 3 partitions of 2 groups: billing orders-3 (2), "
        "shipping orders-0 (1), shipping orders-1 (1)\n"
        "\n"
        "Group billing\n"
        "topic   partition  committed_offset  target_offset  skipped  read_again  mark      "
        "result\n"
        "orders          0        1000000000              7        0   999999993  -         "
        "planned\n"
        "orders          1                 3              3        0           0  -         "
        "unchanged\n"
        "orders          2                 -              5        -           -  -         "
        "planned\n"
        "orders          3                 1              3        2           0  past-end  "
        "planned\n"
        "orders          4                 9              1        0           8  -         "
        "refused\n"
        "\n"
        "Group shipping (all: skipped 1, read_again 0, result planned)\n"
        "topic   partition  committed_offset  target_offset\n"
        "orders          0                 5              6\n"
        "orders          1                 6              7\n"
    )


def test_skipped_records_are_red_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    first = next(iter(page_text(plan_page([row(0, 3, 9)]), terminal=True)))
    assert first == "\x1b[1;31mSkips 6 unread records in 1 partition: orders-0 (6)\x1b[0m\n"
    markdown = next(iter(page_text(plan_page([row(0, 3, 9)]), "markdown")))
    assert "Skips 6 unread records in 1 partition: orders-0 (6)" in markdown


def test_totals() -> None:
    assert plan_totals(ROWS) == (
        "7 partitions: 5 planned, 1 unchanged, 1 refused; 4 records skipped, 999999993 read again, "
        "not known of 1 partition"
    )
    assert plan_totals(ROWS[1:2]) == "1 partition: 1 unchanged"
    assert record_totals([row(0, 5, 6, Result.DONE)]) == "1 record skipped, 0 read again"
    assert record_totals([row(0, 5, None)]) == ""


def test_groups_that_have_committed_nothing_are_no_partitions() -> None:
    idle = PlannedOffset.of_group("idle", Result.PLANNED)
    assert plan_totals([idle]) == "1 group without offsets: 1 planned"
    rows = [idle, row(1, 3, None, Result.DONE)]
    assert plan_totals(rows) == "1 partition and 1 group without offsets: 1 planned, 1 done"
    text = "".join(page_text(plan_page([idle])))
    assert text == "Group idle\nresult\nplanned\n"


INT = st.integers(0, (1 << 31) - 1)
LONG = st.integers(0, (1 << 63) - 1)
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=30) | st.sampled_from(
    ["{", "{}", '{"', "\ufeff", "\ufeff{", " ", "\r", "a\r", '"', ",", "\u2028", "\0", "x" * 25]
)
LINE = TEXT.filter(lambda text: not {"\n", "\0"} & set(text))


def rows(
    name: st.SearchStrategy[str], **others: st.SearchStrategy[object]
) -> st.SearchStrategy[list[StoredOffset]]:
    """Draw offsets of different partitions."""
    one = st.builds(StoredOffset, group_id=name, topic=name, partition=INT, **others)
    return st.lists(
        one, min_size=1, max_size=4, unique_by=lambda row: (row.group_id, row.topic, row.partition)
    )


def read(data: bytes, group_ids: list[str] | None = None) -> OffsetReading:
    with TemporaryDirectory() as folder:
        file = Path(folder) / "offsets"
        file.write_bytes(data)
        return OffsetFile(file).read_offsets(group_ids)


def expected(written: list[StoredOffset]) -> dict[str, tuple[CommittedOffset, ...]]:
    found: dict[str, list[CommittedOffset]] = {}
    for row in sorted(written, key=lambda row: (row.group_id, row.topic, row.partition)):
        if row.committed_offset is not None:
            offset = CommittedOffset(
                row.topic,
                row.partition,
                row.committed_offset,
                row.leader_epoch,
                row.metadata,
                row.commit_timestamp_ms,
            )
            found.setdefault(row.group_id, []).append(offset)
    return {group_id: tuple(offsets) for group_id, offsets in found.items()}


@settings(max_examples=examples(100))
@given(
    rows(
        TEXT,
        committed_offset=st.none() | LONG,
        leader_epoch=st.none() | INT,
        metadata=st.none() | TEXT,
        commit_timestamp_ms=st.none() | LONG,
    ),
    st.sampled_from(["json", "jsonl"]),
)
def test_json_has_all(written: list[StoredOffset], form: str) -> None:
    reading = read(b"".join(file_lines(written, form)))
    assert reading.offsets == expected(written)
    absent = {(row.group_id, row.topic, row.partition) for row in written} - {
        (group_id, offset.topic, offset.partition)
        for group_id, offsets in reading.offsets.items()
        for offset in offsets
    }
    assert {(group_id, *at) for group_id, ats in reading.absent.items() for at in ats} == absent


@settings(max_examples=examples(100))
@given(rows(LINE, committed_offset=LONG))
def test_csv_has_offsets(written: list[StoredOffset]) -> None:
    assert read(b"".join(file_lines(written, "kafka-csv"))).offsets == expected(written)
    groups = sorted({row.group_id for row in written})
    if len(groups) == 1:
        data = b"".join(file_lines(written, "kafka-csv", with_group=False))
        assert read(data, groups).offsets == expected(written)


@pytest.mark.parametrize(
    ("name", "form"), [("a.csv", "kafka-csv"), ("b.x.JSON", "json"), ("C.JsonL", "jsonl")]
)
def test_what_a_name_says_of_the_form(name: str, form: str) -> None:
    assert file_form(Path(name)) == form
