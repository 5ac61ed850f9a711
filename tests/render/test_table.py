import re

from kgroup.render.cell import Column, Kind
from kgroup.render.table import PLAIN_PAGE, RICH_PAGE, markdown_table, plain_table, rich_table

COLUMNS = (
    Column("group_id", Kind.TEXT, ""),
    Column("lag", Kind.NUMBER, ""),
    Column("commit_timestamp_ms", Kind.TIME, ""),
)
ROWS = [("orders", 5, 1_700_000_000_004), ("a|b\x1b[31m\n", None, None)]


def test_plain_table() -> None:
    assert "".join(plain_table(COLUMNS, ROWS)).splitlines() == [
        "group_id       lag  commit_timestamp",
        "orders           5  2023-11-14T22:13:20.004Z",
        r"a|b\x1b[31m\n    -  -",
    ]


def test_plain_table_without_headers() -> None:
    assert "".join(plain_table(COLUMNS, ROWS[:1], headers=False)) == (
        "orders  5  2023-11-14T22:13:20.004Z\n"
    )


def test_plain_table_without_rows_has_its_head() -> None:
    assert "".join(plain_table(COLUMNS, [])) == "group_id  lag  commit_timestamp\n"
    assert "".join(plain_table(COLUMNS, [], headers=False)) == ""


def test_plain_table_keeps_numbers_as_they_are() -> None:
    rows = [("007", 9_223_372_036_854_775_807, None), ("1e3", -1, None)]
    lines = "".join(plain_table(COLUMNS, rows)).splitlines()
    assert lines[1].split() == ["007", "9223372036854775807", "-"]
    assert lines[2].split() == ["1e3", "-1", "-"]


def test_later_pages_of_a_plain_table_keep_the_widths_and_have_no_head() -> None:
    rows = [("a-long-name", 1_000_000, None)] + [("x", n, None) for n in range(2 * PLAIN_PAGE)]
    pages = list(plain_table(COLUMNS, rows))
    assert len(pages) == 3
    lines = "".join(pages).splitlines()
    assert len(lines) == 1 + len(rows)
    assert [line for line in lines if "group_id" in line] == lines[:1]
    assert {line.index("-") for line in lines[2:]} == {lines[1].rindex("-")}


def test_plain_table_takes_rows_as_they_come() -> None:
    taken = []

    def rows() -> object:
        for number in range(10 * PLAIN_PAGE):
            taken.append(number)
            yield ("g", number, None)

    next(plain_table(COLUMNS, rows()))  # type: ignore[arg-type]
    assert len(taken) == PLAIN_PAGE


def test_markdown_table() -> None:
    assert "".join(markdown_table(COLUMNS, ROWS)).splitlines() == [
        "| group_id | lag | commit_timestamp |",
        "| --- | --: | --- |",
        "| orders | 5 | 2023-11-14T22:13:20.004Z |",
        r"| a\|b\x1b[31m\n | - | - |",
    ]


def test_rich_table_is_bold_at_the_head_and_lets_no_escape_through() -> None:
    text = "".join(rich_table(COLUMNS, [*ROWS, ("[bold]g[/bold]", 1, None)], width=80))
    assert text.startswith("\x1b[1m")
    assert "\x1b[31m" not in text
    bare = re.sub(r"\x1b\[[0-9;]*m", "", text).splitlines()
    assert bare[1].split() == ["orders", "5", "2023-11-14T22:13:20.004Z"]
    assert bare[2].split() == [r"a|b\x1b[31m\n", "-", "-"]
    assert bare[3].split() == ["[bold]g[/bold]", "1", "-"]


def test_rich_table_folds_and_cuts_nothing() -> None:
    name = "abcdefghij" * 10
    text = re.sub(r"\x1b\[[0-9;]*m", "", "".join(rich_table(COLUMNS, [(name, 1, None)], width=40)))
    assert all(len(line) <= 40 for line in text.splitlines())
    assert "".join(line.split()[0] for line in text.splitlines()[1:]).startswith("abcdefghij")
    assert sum(line.count("j") for line in text.splitlines()) == 10


def test_every_page_of_a_rich_table_has_a_head() -> None:
    pages = list(rich_table(COLUMNS, [("g", n, None) for n in range(RICH_PAGE + 1)], width=80))
    assert len(pages) == 2
    assert all("group_id" in page for page in pages)
