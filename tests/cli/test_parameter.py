from __future__ import annotations

import json
import re
import time
from base64 import b64encode
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, timezone
from zoneinfo import ZoneInfo, available_timezones

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kgroup.cli.option.parameter import (
    local_time_note,
    parse_bytes,
    parse_end,
    parse_instant,
    parse_record_bytes,
    parse_time,
)
from kgroup.model.instant import rfc3339, show_local_time, shown_clock, shown_time
from kgroup.model.pattern import parse_regex

NOW = 1_700_000_000_004


@pytest.fixture(autouse=True)
def _clock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "time_ns", lambda: NOW * 1_000_000)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2023-11-14T22:13:20Z", 1_700_000_000_000),
        ("2023-11-14T22:13:20.004Z", 1_700_000_000_004),
        ("2023-11-14T22:13:20", 1_700_000_000_000),
        ("2023-11-14 23:13:20+01:00", 1_700_000_000_000),
        ("2023-11-14", 1_699_920_000_000),
        ("1969-12-31T23:59:59.999Z", -1),
        ("1700000000000", 1_700_000_000_000),
        ("-1", -1),
        ("now", NOW),
        ("2h", NOW - 7_200_000),
        ("1d12h", NOW - 36 * 3_600_000),
        ("90s", NOW - 90_000),
        ("5m", NOW - 300_000),
        ("1w", NOW - 7 * 86_400_000),
        ("250ms", NOW - 250),
        (" 2h ", NOW - 7_200_000),
        ("PT2H", NOW - 7_200_000),
        ("P1DT12H", NOW - 36 * 3_600_000),
        ("P1W", NOW - 7 * 86_400_000),
        ("PT1M30.5S", NOW - 90_500),
    ],
)
def test_instant(text: str, expected: int) -> None:
    assert parse_instant(text) == expected


BERLIN = ZoneInfo("Europe/Berlin")
"""There it is 23:13 on November 14."""


@pytest.fixture
def _berlin(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", str(BERLIN))
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.usefixtures("_berlin")
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("03:12", datetime(2023, 11, 14, 3, 12, tzinfo=BERLIN)),
        ("3:12", datetime(2023, 11, 14, 3, 12, tzinfo=BERLIN)),
        ("23:13:19.5", datetime(2023, 11, 14, 23, 13, 19, 500_000, tzinfo=BERLIN)),
        ("today 23:59", datetime(2023, 11, 14, 23, 59, tzinfo=BERLIN)),
        ("yesterday 03:12", datetime(2023, 11, 13, 3, 12, tzinfo=BERLIN)),
        ("today", datetime(2023, 11, 14, tzinfo=BERLIN)),
        ("yesterday", datetime(2023, 11, 13, tzinfo=BERLIN)),
        ("2023-07-01 05:02", datetime(2023, 7, 1, 5, 2, tzinfo=BERLIN)),
        ("2023-07-01T05:02", datetime(2023, 7, 1, 5, 2, tzinfo=UTC)),  # as Kafka's tools
        ("2023-10-29 01:59:59.999", datetime(2023, 10, 29, 1, 59, 59, 999_000, tzinfo=BERLIN)),
        ("2023-10-29 03:00", datetime(2023, 10, 29, 3, tzinfo=BERLIN)),
    ],
)
def test_local_time(text: str, expected: datetime) -> None:
    assert parse_instant(text) == parse_end(text)[1] == int(expected.timestamp() * 1000)
    note = local_time_note(text)
    assert (note is None) is ("T" in text)
    if note is not None:
        (shown,) = re.findall(r" is (\S+) \(CES?T\)", note)
        assert datetime.fromisoformat(shown) == expected.astimezone(BERLIN)


@pytest.mark.usefixtures("_berlin")
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("03:12Z", datetime(2023, 11, 14, 3, 12, tzinfo=UTC)),
        ("yesterday 03:12:05Z", datetime(2023, 11, 13, 3, 12, 5, tzinfo=UTC)),
        ("04:00+09:00", datetime(2023, 11, 14, 19, tzinfo=UTC)),  # the 15th in Tokyo
        ("2023-10-29 02:30+02:00", datetime(2023, 10, 29, 0, 30, tzinfo=UTC)),
    ],
)
def test_time_of_another_zone(text: str, expected: datetime) -> None:
    assert parse_instant(text) == int(expected.timestamp() * 1000)
    assert local_time_note(text) is None


@pytest.mark.usefixtures("_berlin")
@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("23:14", "is later than now; write 'yesterday 23:14' or 'today 23:14'"),
        ("2023-03-26 02:30", "does not exist: clocks were set forward over it"),
        (
            "2023-10-29 02:30",
            "is twice, as clocks were set back; write 2023-10-29T02:30:00+02:00 or "
            "2023-10-29T02:30:00+01:00",
        ),
        ("24:00", "is not a local time: "),
        ("2023-02-29 10:00", "is not a local time: "),
        ("0001-01-01 00:00", "is not a local time: "),
    ],
)
def test_no_local_time(text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=re.escape(f"{text!r} {reason}")):
        parse_instant(text)


@pytest.mark.parametrize(
    "text", ["", "tomorrow", "yesterdayZ", "2h later", "h", "1y", "2023-13-01", "1.5h"]
)
def test_no_instant(text: str) -> None:
    with pytest.raises(ValueError, match="is not a time; expected RFC 3339"):
        parse_instant(text)


@pytest.mark.parametrize("text", ["-1", "-2", " -3 ", "0", "99999999999"])
def test_what_listoffsets_takes_for_something_else_is_no_time(text: str) -> None:
    with pytest.raises(ValueError, match="expected epoch milliseconds"):
        parse_time(text)


@pytest.mark.parametrize("text", ["-1", "-2", "offset:-1"])
def test_a_log_does_not_end_before_it_begins(text: str) -> None:
    with pytest.raises(ValueError, match="offset"):
        parse_end(text)


@given(
    st.datetimes(
        min_value=datetime(1900, 1, 1),
        timezones=st.just(UTC) | st.just(timezone(timedelta(hours=-5, minutes=-30))),
    )
)
def test_instant_is_exact(instant: datetime) -> None:
    elapsed = instant - datetime(1970, 1, 1, tzinfo=UTC)
    assert parse_instant(instant.isoformat()) == elapsed // timedelta(milliseconds=1)


@pytest.mark.usefixtures("_berlin")
def test_the_time_of_day_names_its_zone() -> None:
    try:
        show_local_time(is_local=True)
        assert shown_clock(NOW) == "23:13:20 CET"
    finally:
        show_local_time(is_local=False)
    assert shown_clock(NOW) == "22:13:20 UTC"


_IN_ZONES = st.integers(100_000_000_000, 4_102_444_800_000) | st.integers(
    1_698_537_600_000,
    1_698_544_800_000,  # two hours around the clock change of 2023 in Europe
)


@given(_IN_ZONES, st.sampled_from(["CET-1CEST,M3.5.0,M10.5.0/3", *sorted(available_timezones())]))
@example(1_698_537_600_004, "Europe/Berlin")  # 02:00:00.004, the first time
@example(1_698_541_200_004, "Europe/Berlin")  # 02:00:00.004, again
@example(1_700_000_000_004, "Asia/Kathmandu")
def test_what_is_shown_is_the_same_instant_as_an_option(instant_ms: int, zone: str) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TZ", zone)
        time.tzset()
        show_local_time(is_local=True)
        try:
            shown = shown_time(instant_ms)
        finally:
            show_local_time(is_local=False)
    time.tzset()
    assert parse_time(shown) == parse_end(shown)[1] == instant_ms
    if not zone.startswith("CET-"):
        local = datetime.fromtimestamp(instant_ms // 1000, ZoneInfo(zone))
        assert datetime.fromisoformat(shown).utcoffset() == local.utcoffset()
    assert shown_time(instant_ms) == rfc3339(instant_ms)
    assert shown.endswith("Z") is (datetime.fromisoformat(shown).utcoffset() == timedelta())


KEY = bytes.fromhex("0001000167000174" + "00000000")


@pytest.mark.parametrize(
    "text",
    [
        "000100016700017400000000",
        "00 01 00 01 67 00 01 74 00 00 00 00",
        "00:01:00:01:67:00:01:74:00:00:00:00",
        "0x000100016700017400000000",
        r"\x00\x01\x00\x01\x67\x00\x01\x74\x00\x00\x00\x00",
        "hex:000100016700017400000000",
        b64encode(KEY).decode(),
        "base64:" + b64encode(KEY).decode(),
        b64encode(KEY).decode().rstrip("="),
        b64encode(KEY).decode() + "\n",
        r"b'\x00\x01\x00\x01g\x00\x01t\x00\x00\x00\x00'",  # Python
        r'b"\x00\x01\x00\x01g\x00\x01t\x00\x00\x00\x00"',
        r'"\u0000\u0001\u0000\u0001g\u0000\u0001t\u0000\u0000\u0000\u0000"',  # Java, JSON
        r"\000\001\000\001g\000\001t\000\000\000\000",  # C
        r"\0\1\0\1g\0\1t\0\0\0\0",
        r"\x00\x01\x00\x01g\u0000\001t\x00\0\u0000\000",
        r"\x000100016700017400000000",  # PostgreSQL
    ],
)
def test_bytes(text: str) -> None:
    assert parse_bytes(text) == KEY


@given(st.binary())
def test_bytes_that_begin_as_keys_do_are_told_apart(rest: bytes) -> None:
    data = b"\x00" + rest
    assert parse_bytes(data.hex()) == data
    assert parse_bytes(data.hex().upper()) == data
    assert parse_bytes(data.hex(" ")) == data
    assert parse_bytes(b64encode(data).decode()) == data


def escaped(data: bytes, form: str) -> str:
    """Escape what cannot be printed in ASCII, and the backslash; the rest stands for itself."""
    return "".join(chr(byte) if 32 <= byte < 127 and byte != 92 else form % byte for byte in data)


@given(st.binary())
@example(b"\x00\x0161")
@example(b"\xef\xbf\xbd")
@example(b"it's \"\\")
def test_what_languages_print_of_bytes_is_read_back(data: bytes) -> None:
    data = b"\x00" + data
    assert parse_bytes(repr(data)) == data
    assert parse_bytes(repr(data + b"'")) == data + b"'"
    for form in (r"\x%02x", r"\%03o"):
        assert parse_bytes(f'"{escaped(data, form)}"') == data
        assert parse_bytes(escaped(data + b"!", form)) == data + b"!"


@given(st.text().filter(lambda text: "\ufffd" not in text))
@example("\x00\x01\x00\x02g1é𝄞")
def test_what_is_text_is_read_back_as_utf_8(text: str) -> None:
    data = text.encode()
    assert parse_bytes(json.dumps(text)) == data
    assert parse_bytes(json.dumps(text, ensure_ascii=False)) == data


@pytest.mark.parametrize(
    ("text", "error"),
    [
        (r"\x00\q", "expected an escape such as"),
        ("\\x00\\", "expected an escape such as"),
        (r"b'\xzz'", "expected an escape such as"),
        (r"\u00", "expected an escape such as"),
        (r"'\ud800g'", "expected a character, found"),
        (r"\U00110000", "expected a character, found"),
        (r'"\u0000\ufffd"', "bytes that were lost"),
        ("\\x00\ufffd", "bytes that were lost"),
    ],
)
def test_escapes_that_stand_for_no_bytes(text: str, error: str) -> None:
    with pytest.raises(ValueError, match=error):
        parse_bytes(text)


@given(st.binary())
def test_bytes_with_their_form_told(data: bytes) -> None:
    assert parse_bytes("hex:" + data.hex()) == data
    assert parse_bytes("base64:" + b64encode(data).decode()) == data


def test_base64_of_the_url_alphabet() -> None:
    assert parse_bytes("AP-_") == b"\x00\xff\xbf"


@pytest.mark.parametrize("text", ["not bytes!", "0", "hex:0", "hex:xy", "base64:!"])
def test_no_bytes(text: str) -> None:
    with pytest.raises(ValueError, match="hexadecimal"):
        parse_bytes(text)


@pytest.mark.parametrize("text", ["zz", "Zm9", "gAAAAA"])
def test_what_begins_as_no_key_does_is_no_base64_unless_it_is_whole(text: str) -> None:
    with pytest.raises(ValueError, match="put base64: before it"):
        parse_bytes(text)


@pytest.mark.parametrize("text", ["'AAEAAmcx'", '"AAEAAmcx"', "b'00010001'", '"g"'])
def test_text_in_quotes_without_a_zero_byte_is_no_key(text: str) -> None:
    with pytest.raises(ValueError, match="remove the quotes"):
        parse_record_bytes(text)


def test_text_in_quotes_with_escapes_is_a_key() -> None:
    for text in (repr(KEY), KEY.hex(), b64encode(KEY).decode()):
        assert parse_record_bytes(text) == KEY
    assert parse_record_bytes("''") == b""


def test_regex() -> None:
    assert parse_regex("a.*").fullmatch("abc")
    with pytest.raises(ValueError, match="is no regular expression"):
        parse_regex("a(")
