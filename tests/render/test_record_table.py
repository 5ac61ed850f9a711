from __future__ import annotations

import re
import struct
import time
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kgroup.columnar.schema import ColumnBuilder
from kgroup.model.instant import rfc3339, show_local_time, shown_time
from kgroup.render import record_table
from kgroup.render.cell import Kind, cell
from kgroup.render.markup import MARKUPS
from kgroup.render.record import RECORD_COLUMNS, record_text
from kgroup.render.record_table import DETAIL, MAX_DETAIL, PAGE, as_times, page_fields
from tests.operation.log_files import commit, commit_key, group_metadata, tombstone
from tests.render.read_markup import read

T = TypeVar("T")


def build(*records: Any, **options: Any) -> pa.RecordBatch:
    builder = ColumnBuilder(partition=7)
    for record in records:
        builder.add(record.key, record.value, offset=record.offset, **options)
    return builder.finish()


def table(
    *batches: pa.RecordBatch, form: str = "table", names: tuple[str, ...] = (), **how: Any
) -> str:
    def rows(function: Callable[[pa.RecordBatch], T], /) -> Iterator[T]:
        return map(function, batches)

    how = {"headers": True, "terminal": False, **how}
    parts = record_text(rows, form, names, errors=tuple, **how)
    return "".join(p if isinstance(p, str) else bytes(p).decode() for p in parts)


def details(batch: pa.RecordBatch) -> list[str | None]:
    found: list[str | None] = page_fields(batch, [DETAIL])[0].to_pylist()
    return found


def test_details() -> None:
    expiring = commit(4, "g")
    expiring.value = struct.pack(">hqhqq", 1, 7, 0, 1_000, 2_000)
    damaged = commit(5, "g")
    damaged.value = struct.pack(">h", 3) + b"short"
    batch = build(
        commit(0, "g"),
        commit(1, "g", metadata="it's\n\x1b[31mred"),
        tombstone(2, "g"),
        group_metadata(3, "g", generation=5),
        expiring,
        damaged,
    )
    found = details(batch)
    assert found[:3] == [None, "metadata=it's\\n\\x1b[31mred", "tombstone"]
    assert found[3] == "protocolType=consumer generation=5 members[0]"
    assert found[4] == "expires 1970-01-01T00:00:02.000Z"
    assert (found[5] or "").startswith("version 3: ")


@pytest.mark.parametrize("status", [None, "committed", "aborted", "open"])
def test_a_detail_tells_of_transactions_that_do_not_count(status: str | None) -> None:
    found = details(build(commit(0, "g"), tombstone(1, "g"), transaction=status))
    before = f"{status} transaction" if status in ("aborted", "open") else ""
    assert found == [before or None, f"{before} tombstone".strip()]


def test_a_long_detail_is_shortened() -> None:
    (found,) = details(build(commit(0, "g", metadata="x" * 1000)))
    assert found == "metadata=" + "x" * (MAX_DETAIL - len("metadata=") - 1) + "…"


def test_an_empty_batch() -> None:
    assert details(build()) == []
    assert table(build()).split()[:2] == ["partition", "offset"]
    assert table() == table(build())
    assert table(build(), headers=False) == ""


NAMES = ("group", "committed_offset", "metadata")


def test_columns_are_as_wide_as_all_batches_need() -> None:
    one = build(commit(0, "x", committed=5))
    other = build(commit(0, "long-name", committed=70))
    assert table(one, other, names=("group", "offset")).splitlines() == [
        "group      offset",
        "x               0",
        "long-name       0",
    ]


def test_columns_are_aligned_and_widths_are_kept_where_no_row_may_wait() -> None:
    one = build(commit(0, "a-long-name", committed=1_000_000), commit(1, "ü日", committed=5))
    other = build(commit(0, "x", metadata="m"), tombstone(1, "even-longer-name"))
    assert table(one, other, names=NAMES, at_once=True).splitlines() == [
        "group        committed_offset  metadata",
        "a-long-name           1000000  ",
        "ü日                          5  ",
        "x                                0  m",
        "even-longer-name                 -  -",
    ]


def test_widths_are_judged_page_by_page() -> None:
    records = [commit(n, "x") for n in range(PAGE)] + [commit(PAGE, "y" * 40)]
    lines = table(build(*records), names=("group", "offset")).splitlines()
    assert len(lines) == PAGE + 2
    assert {len(line) for line in lines[:-1]} == {len("group") + 2 + len("offset")}
    assert lines[-1] == "y" * 40 + f"  {PAGE:6}"


def test_a_number_in_the_last_column_is_right() -> None:
    assert table(build(commit(0, "g"), commit(100, "g")), names=("offset",)).splitlines() == [
        "offset",
        "     0",
        "   100",
    ]


def test_markdown() -> None:
    batch = build(commit(0, "a|b", committed=5), tombstone(1, "\x1b"))
    assert table(batch, form="markdown", names=NAMES).splitlines() == [
        "| group   |   committed_offset | metadata   |",
        "|:--------|-------------------:|:-----------|",
        "| a\\|b    |                  5 |            |",
        "| \\\\x1b   |                  - | -          |",
    ]


@pytest.mark.parametrize("form", MARKUPS)
def test_documents_have_a_table_for_many_rows_or_for_those_that_come_together(
    form: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    batches = [build(*(commit(offset, "g") for offset in some)) for some in ((0, 1), (2,), (3, 4))]

    def offsets(**how: bool) -> list[list[str]]:
        tables = read(form, table(*batches, form=form, names=("offset", "group"), **how))
        return [[str(row[0]) for row in each[1:]] for each in tables]

    assert offsets() == [["0", "1", "2", "3", "4"]]
    assert offsets(at_once=True) == [["0", "1"], ["2"], ["3", "4"]]
    monkeypatch.setattr(record_table, "PAGE", 3)
    assert offsets() == [["0", "1", "2"], ["3", "4"]]


def test_terminal() -> None:
    batch = build(commit(0, "[bold]g", committed=5), tombstone(1, "\x1b[31m"))
    text = table(batch, names=NAMES, terminal=True)
    assert text.startswith("\x1b[1m")
    assert "\x1b[31m" not in text
    lines = re.sub(r"\x1b\[[0-9;]*m", "", text).splitlines()
    assert [line.split() for line in lines[-2:]] == [["[bold]g", "5"], ["\\x1b[31m", "-", "-"]]


KIND_COLUMNS = [column for column in RECORD_COLUMNS if column.name in NAMES]


@given(st.lists(st.text().filter(lambda text: not re.search("[\ud800-\udfff]", text)), max_size=5))
def test_arrow_columns_say_what_single_cells_say(texts: list[str]) -> None:
    """The functions of Arrow and those of Python for the same thing."""
    batch = build(*(commit(n, text, metadata=text, committed=n) for n, text in enumerate(texts)))
    fields = [field.to_pylist() for field in page_fields(batch, KIND_COLUMNS)]
    for column, found in zip(KIND_COLUMNS, fields, strict=True):
        values = batch[column.name].to_pylist()
        assert found == [cell(value, column.kind) for value in values]
    assert {column.kind for column in KIND_COLUMNS} == {Kind.NAME, Kind.NUMBER, Kind.TEXT}


@given(st.lists(st.none() | st.integers(-(2**63), 2**63 - 1) | st.integers(-(10**14), 10**15)))
def test_arrow_times_are_python_s(times: list[int | None]) -> None:
    found = as_times(pa.array(times, pa.int64())).to_pylist()
    assert found == [None if time is None else rfc3339(time) for time in times]


@given(st.lists(st.none() | st.integers(-(2**63), 2**63 - 1) | st.integers(-(10**14), 10**15)))
@example([0, None, 1_700_000_000_004, 1_700_000_000_005, -62_135_596_800_000, 253_402_300_799_999])
def test_arrow_times_are_local(times: list[int | None]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TZ", "Asia/Kathmandu")
        time.tzset()
        show_local_time(is_local=True)
        try:
            found = as_times(pa.array(times, pa.int64())).to_pylist()
            assert found == [None if ms is None else shown_time(ms) for ms in times]
        finally:
            show_local_time(is_local=False)
    time.tzset()
    if times and times[0] == 0:
        assert found[0] == "1970-01-01T05:30:00.000+05:30"


def test_commit_key_layout_is_the_decoder_s() -> None:
    assert build(commit(0, "g", "t", 3))["topic_partition"].to_pylist() == [3]
    assert commit_key("g", "t", 3).endswith(b"\0\0\0\3")
