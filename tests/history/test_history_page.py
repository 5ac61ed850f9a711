"""`docs/reference/warehouse.md` lists every table and column of a warehouse."""

from __future__ import annotations

from tests.history.dictionary import BEGIN, END, PAGE, dictionary


def test_the_data_dictionary_is_that_of_the_tables() -> None:
    _, begin, rest = PAGE.read_text("utf-8").partition(BEGIN)
    found, end, _ = rest.partition(END)
    assert (begin, end) == (BEGIN, END)
    assert found == dictionary(), "run: python -m tests.history.dictionary"
