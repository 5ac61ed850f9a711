import csv
import io
import re

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kgroup.render.cell import Column, Kind
from kgroup.render.delimited import CSV, TSV, Delimited, delimited_batch, delimited_table

COLUMNS = (
    Column("group_id", Kind.TEXT, ""),
    Column("commit_timestamp_ms", Kind.TIME, ""),
    Column("agrees", Kind.FLAG, ""),
)
TEXTS = st.none() | st.text(alphabet=st.sampled_from('aü日",\n\r\t\\\x1b -|')) | st.text()
ROWS = st.lists(st.tuples(TEXTS, st.none() | st.integers(-(2**63), 2**63 - 1), TEXTS), max_size=20)


def test_csv() -> None:
    rows = [("a,b", 1_700_000_000_004, True), ('say "x"', None, None), ("", 0, False)]
    assert "".join(delimited_table(CSV, COLUMNS, rows, headers=True)) == (
        'group_id,commit_timestamp_ms,agrees\n"a,b",1700000000004,true\n"say ""x""",,\n"",0,false\n'
    )


def test_tsv() -> None:
    rows = [("a\tb\n\\", 1_700_000_000_004, True), ("\x1b[31m", None, None), ("", 0, False)]
    assert "".join(delimited_table(TSV, COLUMNS, rows, headers=True)) == (
        "group_id\tcommit_timestamp_ms\tagrees\n"
        "a\\tb\\n\\\\\t1700000000004\ttrue\n"
        "\\x1b[31m\t-\t-\n"
        "\t0\tfalse\n"
    )


def test_a_text_that_is_a_dash_is_told_from_an_unknown_value_in_tsv() -> None:
    rows = [("-", None, None), ("--", None, None)]
    assert "".join(delimited_table(TSV, COLUMNS, rows, headers=False)) == (
        "\\x2d\t-\t-\n--\t-\t-\n"
    )


def test_no_headers() -> None:
    assert "".join(delimited_table(CSV, COLUMNS, [("a", 1, None)], headers=False)) == "a,1,\n"


def batch(rows: list[tuple[object, ...]]) -> pa.RecordBatch:
    first, second, third = ([row[index] for row in rows] for index in range(3))
    return pa.RecordBatch.from_arrays(
        [
            pa.array(first, pa.string()).dictionary_encode(),
            pa.array(second, pa.int64()),
            pa.array(third, pa.string()),
        ],
        names=["a", "b", "c"],
    )


def utf8(text: object) -> bool:
    return not isinstance(text, str) or re.search("[\ud800-\udfff]", text) is None


@pytest.mark.parametrize("form", [CSV, TSV], ids=["csv", "tsv"])
@given(rows=ROWS)
def test_arrow_rows_and_python_rows_are_written_alike(
    form: Delimited, rows: list[tuple[object, ...]]
) -> None:
    rows = [row for row in rows if all(map(utf8, row))]
    expected = "".join(delimited_table(form, COLUMNS, rows, headers=False))
    assert bytes(delimited_batch(form, batch(rows))).decode() == expected


@given(rows=ROWS)
def test_csv_is_read_back_by_the_standard_library(rows: list[tuple[object, ...]]) -> None:
    text = "".join(delimited_table(CSV, COLUMNS, rows, headers=False))
    read = list(csv.reader(io.StringIO(text, newline="")))
    assert read == [["" if value is None else str(value) for value in row] for row in rows]


@given(rows=ROWS)
def test_a_tsv_row_is_a_line_with_its_fields_between_tabs(rows: list[tuple[object, ...]]) -> None:
    text = "".join(delimited_table(TSV, COLUMNS, rows, headers=False))
    lines = text.splitlines()
    assert len(lines) == len(rows)
    assert all(len(line.split("\t")) == 3 for line in lines)


def test_a_slice_of_a_batch_is_written_alone() -> None:
    rows: list[tuple[object, ...]] = [("a", 1, "x"), ("b,", 2, None), (None, 3, "z")]
    assert bytes(delimited_batch(CSV, batch(rows).slice(1, 1))) == b'"b,",2,\n'
    assert bytes(delimited_batch(CSV, batch(rows).slice(0, 0))) == b""
