import re
from collections.abc import Iterable, Iterator, Sequence

from rich.cells import cell_len

from kgroup.render.cell import Column, Kind, cell
from kgroup.render.table import RICH_PAGE, markdown_table, plain_table, rich_table

COLUMNS = (
    Column("group_id", Kind.TEXT, ""),
    Column("lag", Kind.NUMBER, ""),
    Column("commit_timestamp_ms", Kind.TIME, ""),
)
ROWS = [("orders", 5, 1_700_000_000_004), ("a|b\x1b[31m\n", None, None)]


def texts(rows: Iterable[Sequence[object]]) -> Iterator[list[str]]:
    for row in rows:
        yield [cell(value, column.kind) for column, value in zip(COLUMNS, row, strict=True)]


def test_plain_table() -> None:
    assert plain_table(COLUMNS, texts(ROWS)).splitlines() == [
        "group_id       lag  commit_timestamp",
        "orders           5  2023-11-14T22:13:20.004Z",
        r"a|b\x1b[31m\n    -  -",
    ]


def test_plain_table_without_headers() -> None:
    assert plain_table(COLUMNS, texts(ROWS[:1]), headers=False) == (
        "orders  5  2023-11-14T22:13:20.004Z\n"
    )


def test_plain_table_without_rows_has_its_head() -> None:
    assert plain_table(COLUMNS, texts([])) == "group_id  lag  commit_timestamp\n"
    assert plain_table(COLUMNS, [], headers=False) == ""


def test_plain_table_keeps_numbers_as_they_are() -> None:
    rows = [("007", 9_223_372_036_854_775_807, None), ("1e3", -1, None)]
    lines = plain_table(COLUMNS, texts(rows)).splitlines()
    assert lines[1].split() == ["007", "9223372036854775807", "-"]
    assert lines[2].split() == ["1e3", "-1", "-"]


def test_markdown_table() -> None:
    assert "".join(markdown_table(COLUMNS, texts(ROWS))).splitlines() == [
        "| group_id | lag | commit_timestamp |",
        "| --- | --: | --- |",
        "| orders | 5 | 2023-11-14T22:13:20.004Z |",
        r"| a\|b\x1b[31m\n | - | - |",
    ]


def test_rich_table_is_bold_at_the_head_and_lets_no_escape_through() -> None:
    rows = [*ROWS, ("[bold]g[/bold]", 1, None)]
    text = "".join(rich_table(COLUMNS, texts(rows), terminal_width=80))
    assert text.startswith("\x1b[1m")
    assert "\x1b[31m" not in text
    bare = re.sub(r"\x1b\[[0-9;]*m", "", text).splitlines()
    assert bare[1].split() == ["orders", "5", "2023-11-14T22:13:20.004Z"]
    assert bare[2].split() == [r"a|b\x1b[31m\n", "-", "-"]
    assert bare[3].split() == ["[bold]g[/bold]", "1", "-"]


def bare(pages: Iterable[str]) -> list[str]:
    return re.sub(r"\x1b\[[0-9;]*m", "", "".join(pages)).splitlines()


def test_a_narrow_terminal_folds_long_texts_and_loses_nothing() -> None:
    names = ["abcdefghij" * 10, "日本" * 20, "short"]
    rows = [(name, 1_000_000, 1_700_000_000_004) for name in names]
    lines = bare(rich_table(COLUMNS, texts(rows), terminal_width=50))
    assert max(map(cell_len, lines)) <= 50
    first = "".join(line[: line.find("  ")].strip() for line in lines)
    for name in names:
        assert name in first
    assert sum("1000000" in line for line in lines) == 3
    assert "".join(lines).count("13:20.004Z") == 3


def test_a_terminal_shortens_the_widest_columns_only() -> None:
    rows = [("x" * 200, 1_000_000, 1_700_000_000_004)]
    lines = bare(rich_table(COLUMNS, texts(rows), terminal_width=80))
    assert "  1000000  2023-11-14T22:13:20.004Z" in lines[1]


def test_rich_table_without_rows_has_its_head() -> None:
    lines = bare(rich_table(COLUMNS, [], terminal_width=80))
    assert sorted(" ".join(lines).split()) == ["commit", "group", "id", "lag", "timestamp"]


def test_every_page_of_a_rich_table_has_a_head() -> None:
    rows = [("g", n, None) for n in range(RICH_PAGE + 1)]
    pages = list(rich_table(COLUMNS, texts(rows), terminal_width=80))
    assert len(pages) == 2
    assert all("group" in page for page in pages)
