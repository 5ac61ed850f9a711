from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kgroup.model.instant import rfc3339
from kgroup.render.cell import Column, Kind, age, cell, mermaid_label, ranges, rough_age, visible


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("plain", "plain"),
        ("zwei Wörter, 日本", "zwei Wörter, 日本"),
        ("line\nbreak", r"line\nbreak"),
        ("tab\tand\rreturn", r"tab\tand\rreturn"),
        ("\x1b[31mred\x1b[0m", r"\x1b[31mred\x1b[0m"),
        ("bell\x07 nul\x00 del\x7f", r"bell\x07 nul\x00 del\x7f"),
        ("c1\x9b31m", r"c1\x9b31m"),
        ("right\u202eleft", r"right\u202eleft"),
        ("line\u2028separator", r"line\u2028separator"),
        ("half\ud800", r"half\ud800"),
        (r"a\nb", r"a\\nb"),
    ],
)
def test_visible(text: str, expected: str) -> None:
    assert visible(text) == expected


@given(st.text())
def test_visible_is_one_harmless_line(text: str) -> None:
    shown = visible(text)
    assert len(shown.splitlines()) <= 1
    assert all(character >= " " and character != "\x7f" for character in shown)


@given(st.text(), st.text())
def test_visible_tells_texts_apart(one: str, other: str) -> None:
    assert (visible(one) == visible(other)) == (one == other)


@pytest.mark.parametrize(
    ("epoch_ms", "expected"),
    [
        (0, "1970-01-01T00:00:00.000Z"),
        (1_700_000_000_004, "2023-11-14T22:13:20.004Z"),
        (-1, "1969-12-31T23:59:59.999Z"),
        (253_402_300_799_999, "9999-12-31T23:59:59.999Z"),
        (253_402_300_800_000, "253402300800000 ms"),
        (9_223_372_036_854_775_807, "9223372036854775807 ms"),
        (-9_223_372_036_854_775_808, "-9223372036854775808 ms"),
    ],
)
def test_rfc3339(epoch_ms: int, expected: str) -> None:
    assert rfc3339(epoch_ms) == expected


@pytest.mark.parametrize(
    ("value", "kind", "expected"),
    [
        (None, Kind.TEXT, "-"),
        (None, Kind.NUMBER, "-"),
        (None, Kind.TIME, "-"),
        (0, Kind.NUMBER, "0"),
        (-1, Kind.NUMBER, "-1"),
        ("", Kind.TEXT, ""),
        (45_000, Kind.DURATION, "45 s"),
        (1_500, Kind.DURATION, "1500 ms"),
        (1_700_000_000_004, Kind.TIME, "2023-11-14T22:13:20.004Z"),
        (1_700_000_000_004, Kind.NUMBER, "1700000000004"),
        (True, Kind.FLAG, "yes"),
        (False, Kind.FLAG, "no"),
        ("a\tb", Kind.TEXT, r"a\tb"),
    ],
)
def test_cell(value: object, kind: Kind, expected: str) -> None:
    assert cell(value, kind) == expected


def test_a_time_column_has_a_title_without_its_unit() -> None:
    assert Column("commit_timestamp_ms", Kind.TIME, "").title == "commit_timestamp"
    assert Column("session_timeout_ms", Kind.DURATION, "").title == "session_timeout"


@pytest.mark.parametrize(
    ("ms", "expected"),
    [
        (0, "0 ms"),
        (999, "999 ms"),
        (1_250, "1.250 s"),
        (59_999, "59.999 s"),
        (60_000, "1 min"),
        (60_900, "1 min"),
        (61_000, "1 min 1 s"),
        (3_599_999, "59 min 59 s"),
        (3_600_000, "1 h"),
        (7_500_000, "2 h 5 min"),
        (86_400_000 + 3_599_999, "1 d"),
        (86_400_000 * 3 + 3_600_000 * 4, "3 d 4 h"),
        (-1_250, "-1.250 s"),
    ],
)
def test_age(ms: int, expected: str) -> None:
    assert age(ms) == cell(ms, Kind.AGE) == expected
    rough = "0 s" if ms < 1000 else re.sub(r"[.]\d+", "", expected)
    assert rough_age(ms) == cell(ms, Kind.ROUGH_AGE) == rough


@pytest.mark.parametrize(
    ("partitions", "expected"),
    [
        ([], ""),
        ([("t", 7)], "t 7"),
        ([("t", 0), ("t", 1)], "t 0-1"),
        ([("t", 0), ("t", 1), ("t", 2), ("t", 7), ("u", 8), ("u", 10)], "t 0-2,7; u 8,10"),
        ([("u", 0), ("t", 1), ("t", 1), ("t", 2)], "u 0; t 1,1-2"),
    ],
)
def test_ranges(partitions: list[tuple[str, int]], expected: str) -> None:
    assert ranges(partitions) == expected


@given(st.sets(st.tuples(st.sampled_from(["t", "u", "v"]), st.integers(0, 20))))
def test_ranges_tell_each_partition(partitions: set[tuple[str, int]]) -> None:
    found = set()
    for part in filter(None, ranges(sorted(partitions)).split("; ")):
        topic, numbers = part.split()
        for run in numbers.split(","):
            first, _, last = run.partition("-")
            found |= {(topic, number) for number in range(int(first), int(last or first) + 1)}
    assert found == partitions


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("orders-1", "orders-1"),
        ("a: b; c", "a#58; b#59; c"),
        ("run #7", "run #35;7"),
        ('the "new" group', "the #34;new#34; group"),
    ],
)
def test_mermaid_label(text: str, expected: str) -> None:
    assert mermaid_label(text) == expected
