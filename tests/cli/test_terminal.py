"""Tables on terminals of many widths: folded, or a field a line, but no number or time is cut."""

from __future__ import annotations

import json
import re
import sys
import time
from collections.abc import Callable
from typing import Any

import pytest

from kgroup.model.instant import rfc3339
from kgroup.render.cell import HARMFUL
from kgroup.render.form import FORMS
from kgroup.sample import sample_log_dir
from tests.cli.command_line import Cli
from tests.history.recorded import Built
from tests.operation.log_files import commit_key

HOSTILE = "\x1b]0;a\x07\x1b[2J\x9b31m\u202e,\\"
COLUMNS = (
    *("topic", "partition", "committed_offset", "log_end_offset", "lag", "commit_timestamp_ms"),
    "member_id",
)
STYLE = re.compile(r"\x1b\[[0-9;]*m")


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    "args",
    [
        ("coordinator", HOSTILE, "--offsets-partitions", 50),
        ("decode-offsets", "--key", commit_key(HOSTILE, "orders", 0).hex()),
        ("history", "sql", f"SELECT '{HOSTILE}' AS \"{HOSTILE}\""),
    ],
)
def test_no_name_drives_a_terminal(
    cli: Cli,
    monkeypatch: pytest.MonkeyPatch,
    recorded_warehouse: Built,
    args: tuple[object, ...],
    form: str,
) -> None:
    if args[0] == "history":
        args = (*args, "--warehouse", recorded_warehouse(sample_log_dir()))
    piped = cli(*args, "-o", form)
    with monkeypatch.context() as patch:
        patch.setattr(sys.stdout, "isatty", lambda: True)
        shown = cli(*args, "-o", form)
    assert shown.status == piped.status == 0
    assert not HARMFUL.search(STYLE.sub("", shown.out).replace("\n", "").replace("\t", ""))
    if form == "csv":
        assert HOSTILE in piped.out
    if form in ("json", "jsonl"):
        read = json.loads if form == "json" else lambda text: [*map(json.loads, text.splitlines())]
        assert read(shown.out) == read(piped.out)
        assert repr(HOSTILE) in repr(read(shown.out))


def text_at(cli: Cli, monkeypatch: pytest.MonkeyPatch, width: int, *args: str) -> str:
    """Run a command as if standard output were a terminal of that width."""
    with monkeypatch.context() as patch:
        patch.setattr(sys.stdout, "isatty", lambda: True)
        patch.setenv("COLUMNS", str(width))
        result = cli(*args, "--sample")
    assert result.status == 0
    assert "\x1b[" in result.out
    return STYLE.sub("", result.out)


@pytest.mark.slow
@pytest.mark.parametrize("width", [24, 40, 60, 80, 100, 140, 200])
@pytest.mark.parametrize(
    ("args", "rows", "times", "numbers"),
    [
        (
            ("describe", "order-service", "--offsets", "--columns", ",".join(COLUMNS)),
            lambda data: data[0]["offsets"],
            ("commit_timestamp_ms",),
            ("partition", "committed_offset", "log_end_offset", "lag"),
        ),
        (
            ("decode-offsets", "--group", "order-service", "--type", "OffsetCommit"),
            lambda data: [
                {"timestamp_ms": row["timestamp_ms"], "offset": row["offset"]} for row in data
            ],
            ("timestamp_ms",),
            ("offset",),
        ),
    ],
)
def test_no_number_and_no_time_is_cut(
    cli: Cli,
    monkeypatch: pytest.MonkeyPatch,
    width: int,
    args: tuple[str, ...],
    rows: Callable[[Any], list[dict[str, Any]]],
    times: tuple[str, ...],
    numbers: tuple[str, ...],
) -> None:
    words = text_at(cli, monkeypatch, width, *args).split()
    chosen = args[: args.index("--columns")] if "--columns" in args else args
    expected = rows(json.loads(cli(*chosen, "--sample", "-o", "json").out)["data"])
    assert expected
    for row in expected:
        assert {rfc3339(row[name]) for name in times} <= set(words)
        assert {str(row[name]) for name in numbers} <= set(words)


def test_people_are_shown_local_times(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    """Scripts get epoch milliseconds."""
    args = ("offsets", "show", "--sample", "ledger")
    document = cli(*args, "-o", "json").out
    times = [offset["commit_timestamp_ms"] for offset in json.loads(document)["data"]]
    with monkeypatch.context() as patch:
        patch.setenv("TZ", "Asia/Kathmandu")
        time.tzset()
        tables = [cli(*args, "-o", form).out for form in ("table", "markdown")]
        in_utc = cli(*args, "--utc")
        csv = cli(*args, "-o", "csv", "--columns", "commit_timestamp_ms", "--no-headers")
        assert cli(*args, "-o", "json").out == document
    time.tzset()
    local = [rfc3339(ms + 20_700_000).replace("Z", "+05:45") for ms in times]
    for table in tables:
        assert re.findall(r"20\S+\+05:45", table) == local
    assert in_utc.out == cli(*args).out
    assert re.findall(r"20\S+Z", in_utc.out) == [rfc3339(ms) for ms in times]
    assert csv.out.split() == list(map(str, times))


@pytest.mark.parametrize(
    ("color", "on_terminal", "no_color", "expected"),
    [
        ("auto", True, False, "\x1b[1mledger\x1b[0m  \x1b[36mEmpty\x1b[0m"),
        ("auto", True, True, "\x1b[1mledger\x1b[0m  Empty"),
        ("auto", False, False, "ledger  Empty"),
        ("always", False, False, "\x1b[1mledger\x1b[0m  \x1b[36mEmpty\x1b[0m"),
        ("always", False, True, "\x1b[1mledger\x1b[0m  \x1b[36mEmpty\x1b[0m"),
        ("never", True, False, "ledger  Empty"),
    ],
)
def test_colors(
    cli: Cli,
    monkeypatch: pytest.MonkeyPatch,
    color: str,
    on_terminal: bool,
    no_color: bool,
    expected: str,
) -> None:
    monkeypatch.setenv("TERM", "dumb" if color == "always" else "ansi")
    monkeypatch.setenv("NO_COLOR", "1") if no_color else monkeypatch.delenv("NO_COLOR", False)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: on_terminal)
    result = cli("describe", "--sample", "ledger", "--color", color)
    assert result.out.startswith(expected)
    if color == "never":
        assert "\x1b" not in result.out


@pytest.mark.parametrize("width", [40, 80, 120, 200])
def test_columns_takes_the_names_that_heads_show(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, width: int
) -> None:
    args = ("describe", "order-service", "--members")
    names = "member_id,session_timeout,assignment"
    text = text_at(cli, monkeypatch, width, *args, "--columns", names)
    head = "".join(text.partition("order-ser")[0].split())
    assert sorted(head) == sorted(names.replace(",", ""))
