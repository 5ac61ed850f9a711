from __future__ import annotations

import csv
import io
import re

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kgroup.render.cell import HARMFUL, Column, Kind, visible
from kgroup.render.delimited import Delimited, delimited, delimited_table
from kgroup.render.record_table import delimited_batch

COLUMNS = (
    Column("group_id", Kind.TEXT, ""),
    Column("commit_timestamp_ms", Kind.TIME, ""),
    Column("agrees", Kind.FLAG, ""),
)
CSV, TSV = delimited("csv", terminal=False), delimited("tsv", terminal=False)
SHOWN_CSV = delimited("csv", terminal=True)
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


def test_csv_on_a_terminal() -> None:
    rows = [
        ("a,\x1b[2J\n\\", 1, True),
        ("\x9b2J\u202e", None, None),
        ("", 0, False),
        ("a b", 0, False),
    ]
    assert "".join(delimited_table(SHOWN_CSV, COLUMNS, rows, headers=False)) == (
        '"a,\\x1b[2J\\n\\\\",1,true\n\\x9b2J\\u202e,,\n"",0,false\na b,0,false\n'
    )


@given(rows=ROWS)
def test_csv_on_a_terminal_is_csv_of_harmless_texts(rows: list[tuple[object, ...]]) -> None:
    text = "".join(delimited_table(SHOWN_CSV, COLUMNS, rows, headers=False))
    assert not HARMFUL.search(text.replace("\n", ""))
    read = list(csv.reader(io.StringIO(text, newline="")))
    assert read == [["" if value is None else visible(str(value)) for value in row] for row in rows]


def test_names_of_columns_are_fields_too() -> None:
    """A query's answer has any names, such as those that its expressions are given."""
    columns = [Column("greatest(1, 2)", Kind.NUMBER, ""), Column("a\tb", Kind.TEXT, "")]
    assert "".join(delimited_table(CSV, columns, [], headers=True)) == '"greatest(1, 2)",a\tb\n'
    assert "".join(delimited_table(TSV, columns, [], headers=True)) == "greatest(1, 2)\ta\\tb\n"


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


@pytest.mark.slow
@pytest.mark.parametrize("form", [CSV, SHOWN_CSV, TSV], ids=["csv", "shown", "tsv"])
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
