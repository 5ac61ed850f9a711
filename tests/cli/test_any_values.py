"""Values of options, any text: a value of the right kind comes out, or `ValueError`."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kgroup.cli.option.parameter import parse_bytes, parse_end, parse_instant
from kgroup.model.pattern import parse_regex
from kgroup.protocol.record.coordinator_record import decode_record
from tests.cli.command_line import Cli
from tests.examples import examples

INT64 = 1 << 63

any_text = st.text(max_size=40) | st.text("0123456789abcdefxXmshdw:+-.TZ \\_ ٣", max_size=40)
instants = any_text | st.from_regex(
    r"-?\d{1,25}|(\d{1,25}(ms|s|m|h|d|w)){1,3}|\d{4}-\d\d-\d\d([T ]\d\d:\d\d(:\d\d(\.\d{1,9})?)?)?"
    r"(Z|[+-]\d\d:\d\d(:\d\d)?)?",
    fullmatch=True,
)


@given(instants)
def test_any_instant(text: str) -> None:
    with suppress(ValueError):
        assert -INT64 <= parse_instant(text) < INT64


@given(instants | st.from_regex(r"offset: ?\d{1,25}", fullmatch=True))
def test_any_end_of_a_log(text: str) -> None:
    with suppress(ValueError):
        offset, time_ms = parse_end(text)
        assert (offset is None) != (time_ms is None)
        assert offset is None or 0 <= offset < INT64
        assert time_ms is None or -INT64 <= time_ms < INT64


@given(
    any_text
    | st.text("0123456789ABCDEFabcdef+/=", max_size=40)
    | st.text("\\\\\\xuU0137dDfFbn'\"g\ufffd", max_size=30)
)
def test_any_bytes(text: str) -> None:
    with suppress(ValueError):
        assert isinstance(parse_bytes(text), bytes)


@given(st.text(max_size=20) | st.text("()[]{}*+?|\\^$.ab0", max_size=20))
def test_any_regular_expression(text: str) -> None:
    with suppress(ValueError):
        assert parse_regex(text).pattern == text


@pytest.mark.parametrize("parse", [parse_instant, parse_end, parse_bytes])
@pytest.mark.parametrize(
    "text", ["9" * 5000, "9" * 5000 + "w", "9999-12-31T23:59:59-23:59", "\0", "\ud800"]
)
def test_what_is_out_of_range(parse: Callable[[str], object], text: str) -> None:
    with suppress(ValueError):
        parse(text)


@pytest.mark.parametrize("text", ["(" * 5000, "(a{1000}){1000}", "(?=a)", r"(a)\1"])
def test_regular_expression_that_the_library_cannot_take(text: str) -> None:
    with pytest.raises(ValueError, match="is no regular expression"):
        parse_regex(text)


@settings(max_examples=examples(12), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    key=st.builds(
        lambda number, rest: number.to_bytes(2, "big") + rest,
        st.integers(0, 24),
        st.binary(max_size=20),
    ),
    value=st.none() | st.binary(max_size=20),
)
def test_any_pasted_record(cli: Cli, key: bytes, value: bytes | None) -> None:
    pasted = [] if value is None else ["--value", f"hex:{value.hex()}"]
    result = cli("decode-offsets", "--key", f"hex:{key.hex()}", *pasted, "-o", "jsonl")
    line = json.loads(result.out)
    assert (line["type"], line["key"], line["value"]) == decode_record(key, value)
    is_bad = any("error" in (line[part] or {}) for part in ("key", "value"))
    assert result.status == (4 if is_bad else 0), result.err
