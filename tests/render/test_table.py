import re
from collections.abc import Iterable, Iterator, Sequence

import pytest
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


def test_plain_table_aligns_what_a_terminal_shows_wider_or_not_at_all() -> None:
    rows = [("注文", 5, 0), ("e\u0301", 12, 0), ("abcdefgh", 1, 0)]
    _, *lines = plain_table(COLUMNS, texts(rows)).splitlines()
    assert lines == [
        "注文        5  1970-01-01T00:00:00.000Z",
        "e\u0301          12  1970-01-01T00:00:00.000Z",
        "abcdefgh    1  1970-01-01T00:00:00.000Z",
    ]
    assert {cell_len(line) for line in lines} == {39}


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


NUMBER, TIME = "9223372036854775807", "2023-11-14T22:13:20.004Z"
LONG = ["abcdefghij" * 10, "日本" * 20, "short"]
LEAST = len("group_id") + 2 + len(NUMBER) + 2 + len(TIME)


def long_rows() -> Iterator[list[str]]:
    return texts((name, int(NUMBER), 1_700_000_000_004) for name in LONG)


@pytest.mark.parametrize("width", [LEAST, LEAST + 1, 60, 80, 100, 133])
def test_a_terminal_folds_texts_and_loses_nothing(width: int) -> None:
    lines = bare(rich_table(COLUMNS, long_rows(), terminal_width=width))
    assert max(map(cell_len, lines)) <= width
    assert sum(f"{NUMBER}  {TIME}" in line for line in lines) == len(LONG)
    first = "".join(line.partition("  ")[0] for line in lines)
    assert all(name in first for name in LONG)


@pytest.mark.parametrize("width", [1, 10, 30, LEAST - 1])
@pytest.mark.parametrize("headers", [True, False])
def test_a_row_is_a_field_a_line_where_numbers_and_times_have_no_room(
    width: int, headers: bool
) -> None:
    lines = bare(rich_table(COLUMNS, long_rows(), headers=headers, terminal_width=width))
    heads = ["group_id", "lag", "commit_timestamp"] if headers else [""] * 3
    assert [line.split() for line in lines] == [
        f"{head} {text}".split()
        for name in LONG
        for head, text in zip([*heads, ""], [name, NUMBER, TIME, ""], strict=True)
    ]


def test_a_terminal_shortens_the_widest_columns_only() -> None:
    rows = [("x" * 200, 1_000_000, 1_700_000_000_004)]
    lines = bare(rich_table(COLUMNS, texts(rows), terminal_width=80))
    assert "  1000000  2023-11-14T22:13:20.004Z" in lines[1]


@pytest.mark.parametrize(
    ("width", "head"),
    [
        (80, [["group_id", "committed_offset"]]),
        (26, [["group_id", "committed_offset"]]),
        (25, [["committed_"], ["group_id", "offset"]]),
        (20, [["committed_"], ["group_id", "offset"]]),
        (19, [["group_", "committed_"], ["id", "offset"]]),
        (18, [["group_", "committed_"], ["id", "offset"]]),
    ],
)
def test_heads_are_folded_between_words_and_before_texts(width: int, head: list[list[str]]) -> None:
    columns = (COLUMNS[0], Column("committed_offset", Kind.NUMBER, ""))
    lines = bare(rich_table(columns, [["x" * 6, "5"]], terminal_width=width))
    assert [line.split() for line in lines] == [*head, ["xxxxxx", "5"]]


@pytest.mark.parametrize("width", [80, 20, 5])
def test_rich_table_without_rows_has_its_head(width: int) -> None:
    words = "".join(bare(rich_table(COLUMNS, [], terminal_width=width))).split()
    assert sorted("".join(words)) == sorted("group_idlagcommit_timestamp")


def test_every_page_of_a_rich_table_has_a_head() -> None:
    rows = [("g", n, None) for n in range(RICH_PAGE + 1)]
    pages = list(rich_table(COLUMNS, texts(rows), terminal_width=80))
    assert len(pages) == 2
    assert all("group_id" in page for page in pages)
