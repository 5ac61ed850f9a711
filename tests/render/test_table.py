from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

import pytest
from rich.cells import cell_len

from kgroup.render.cell import Column, Kind, cell
from kgroup.render.table import RICH_PAGE, plain_table, rich_prose, rich_table

COLUMNS = (
    Column("group_id", Kind.TEXT, ""),
    Column("lag", Kind.NUMBER, ""),
    Column("commit_timestamp_ms", Kind.TIME, ""),
)
ROWS = [("orders", 5, 1_700_000_000_004), ("a|b\x1b[31m\n", None, None)]


def texts(rows: Iterable[Sequence[object]]) -> Iterator[list[str]]:
    for row in rows:
        yield [cell(value, column.kind) for column, value in zip(COLUMNS, row, strict=True)]


@pytest.mark.parametrize(("width", "most"), [(30, 30), (300, 100)])
def test_prose_is_as_wide_as_the_terminal_and_no_wider_than_can_be_read(
    width: int, most: int
) -> None:
    text = "word " * 40 + "\nword\n\n" + "next " * 10
    lines = rich_prose(text, width).splitlines()
    assert max(map(len, lines)) in range(most - 5, most + 1)
    assert " ".join(lines).split() == text.split()
    assert lines.count("") == 1


def test_plain_table() -> None:
    assert plain_table(COLUMNS, texts(ROWS)).splitlines() == [
        "group_id       lag  commit_timestamp",
        "orders           5  2023-11-14T22:13:20.004Z",
        r"a|b\x1b[31m\n    -  -",
    ]


@pytest.mark.parametrize("letter", ["x", "ü"])
def test_a_very_long_text_is_whole_and_widens_no_other_line(letter: str) -> None:
    long = letter * 32_768
    rows = [*[("orders", 5, None)] * 100, (long, 17, None), (letter * 249, 3, None)]
    lines = plain_table(COLUMNS, texts(rows)).splitlines()
    assert lines[101] == f"{long}   17  -"
    assert {len(line) for line in lines[1:101]} == {249 + len("    5  -")}
    assert lines[102] == f"{letter * 249}    3  -"


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
LONG = ["abcdefghij" * 3, "日本" * 5, "short"]
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
    rows = [("x" * 120, 1_000_000, 1_700_000_000_004)]
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


def test_heads_are_folded_between_words_with_blanks_too() -> None:
    columns = (COLUMNS[0], Column("longest stop", Kind.NUMBER, ""))
    lines = bare(rich_table(columns, [["x" * 6, "5"]], terminal_width=18))
    assert [line.split() for line in lines] == [["longest"], ["group_id", "stop"], ["xxxxxx", "5"]]


NAMES = (
    Column("group_id", Kind.NAME, ""),
    Column("topics", Kind.TEXT, ""),
    Column("lag", Kind.NUMBER, ""),
)


def test_texts_are_folded_behind_what_separates_words() -> None:
    rows = [["billing", "orders,payments.eu/returns-2024_q3", "1"], ["b", "ShareGroupMember", "2"]]
    lines = bare(rich_table(NAMES, rows, headers=False, terminal_width=23))
    assert [line.split() for line in lines] == [
        ["billing", "orders,", "1"],
        ["payments."],
        ["eu/returns-"],
        ["2024_q3"],
        ["b", "ShareGroup", "2"],
        ["Member"],
    ]


def test_options_of_commands_are_not_folded_apart() -> None:
    rows = [["b", "ask.sh --bootstrap-server HOST:PORT", "1"]]
    lines = bare(rich_table(NAMES, rows, headers=False, terminal_width=30))
    assert [line.split() for line in lines] == [
        ["b", "ask.sh", "1"],
        ["--bootstrap-server", "HOST:"],
        ["PORT"],
    ]


def test_versions_and_times_are_not_folded_apart() -> None:
    rows = [
        ["b", "at 2026-11-21T22:12:27.551Z, not before", "1"],
        ["c", "computed by java-client 4.3.1.", "2"],
    ]
    lines = bare(rich_table(NAMES, rows, headers=False, terminal_width=32))
    assert [line.split() for line in lines] == [
        ["b", "at", "1"],
        ["2026-11-21T22:12:27.551Z,"],
        ["not", "before"],
        ["c", "computed", "by", "java-client", "2"],
        ["4.3.1."],
    ]


def test_names_keep_twice_the_room_of_other_texts() -> None:
    lines = bare(rich_table(NAMES, [["n" * 40, "t" * 40, "1"]], terminal_width=37))
    assert lines[1].split() == [f"{'n' * 13}…{'n' * 6}", "t" * 10, "1"]


def test_ids_that_have_a_table_of_their_own_are_shortened_in_the_middle() -> None:
    owner = Column("member_id", Kind.NAME, "", is_reference=True)
    rows = [["orders", "app-1-0a1b2c3d"], ["orders", "app-1-0a1b2c3e"], ["orders", "app-2"]]
    columns = (COLUMNS[0], owner)
    assert [
        line.split() for line in bare(rich_table(columns, rows, headers=False, terminal_width=20))
    ] == [["orders", "app-1…1b2c3d"], ["orders", "app-1…1b2c3e"], ["orders", "app-2"]]
    whole = bare(rich_table(columns, rows, headers=False, terminal_width=22))
    assert [line.split()[1] for line in whole] == [row[1] for row in rows]
    assert rows[0][1] in plain_table(columns, rows)


def test_a_row_is_a_field_a_line_where_that_takes_fewer_lines() -> None:
    rows = [["billing", "x" * 80, "1"]]
    lines = bare(rich_table(NAMES, rows, terminal_width=24))
    assert lines[0].split() == ["group_id", "billing"]
    lines = bare(rich_table(NAMES, [["billing", "x" * 30, "1"]], terminal_width=24))
    assert lines[-1].strip("x ") == ""
    assert len(lines) < 6


def test_prose_is_folded_beside_its_title_and_all_else_left_whole() -> None:
    columns = (
        Column("what must hold", Kind.TEXT, "", is_prose=True),
        Column("command", Kind.TEXT, ""),
    )
    words = ["no", "two", "members", "may", "have", "the", "same", "name", "at", "any", "time"]
    command = "kgroup describe billing -b kafka-1:9092 -o json and so on"
    rows = [[" ".join(words), command]]
    lines = bare(rich_table(columns, rows, terminal_width=36))
    *folded, whole = [line for line in lines if line.strip()]
    assert len(folded) > 1
    assert all(len(line) <= 36 for line in folded)
    assert folded[0].startswith("what must hold  no two")
    assert all(line.startswith(" " * 16) for line in folded[1:])
    assert " ".join(folded).removeprefix("what must hold").split() == words
    assert whole == f"command         {command}"
    # Where there is no room beside the title the terminal folds.
    assert bare(rich_table(columns, rows, terminal_width=20))[0].endswith("at any time")


@pytest.mark.parametrize("width", [80, 20, 5])
def test_rich_table_without_rows_has_its_head(width: int) -> None:
    words = "".join(bare(rich_table(COLUMNS, [], terminal_width=width))).split()
    assert sorted("".join(words)) == sorted("group_idlagcommit_timestamp")


@pytest.mark.slow
def test_every_page_of_a_rich_table_has_a_head() -> None:
    rows = [("g", n, None) for n in range(RICH_PAGE + 1)]
    pages = list(rich_table(COLUMNS, texts(rows), terminal_width=80))
    assert len(pages) == 2
    assert all("group_id" in page for page in pages)
