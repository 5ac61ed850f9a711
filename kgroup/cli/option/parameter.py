"""Parsers of option values that click has no type for: times, durations, topics and bytes."""

from __future__ import annotations

import re
import time
from base64 import b64decode
from binascii import Error as Base64Error
from collections.abc import Iterable
from datetime import UTC, date, datetime, timedelta
from datetime import time as clock_time
from math import nan

from kgroup.model.instant import duration_ms

LEAST_EPOCH_MS = 100_000_000_000
"""Smaller numbers are offsets if both are possible; this time is in March 1973."""

LONGEST_S = 1e6
"""Maximum timeout in seconds; some system calls do not accept longer ones."""

_INT64 = 1 << 63


def parse_instant(text: str) -> int:
    """Parse a time to epoch milliseconds.

    Args:
        text: RFC 3339 (``2023-11-14T22:13:20.004Z``; a date alone is its midnight, without zone it
            is UTC, as for Kafka's tools), local time (``03:12``, ``yesterday 03:12``, ``yesterday``
            for its midnight, ``2023-11-14 22:13:20``; ``03:12Z`` and ``03:12+01:00`` name another
            zone), epoch milliseconds, ``now``, or an age (``2h``, ``1d12h``, ``90s``, ``PT2H``).

    Raises:
        ValueError: the text is invalid, or a local time that does not exist, occurs twice, or is
            later than now and has no day.
    """
    text = text.strip()
    if text == "now":
        return _now_ms()
    if (local := _local_time(text)) is not None:
        return _local_time_ms(local)
    try:
        if re.fullmatch(r"-?\d+", text):
            return _int64(int(text))
        if (ago_ms := duration_ms(text)) is not None:
            return _int64(_now_ms() - ago_ms)
        instant = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(
            f"{text!r} is not a time; expected RFC 3339 (2023-11-14T22:13:20Z), local time (03:12, "
            "yesterday 03:12, 2023-11-14 22:13), epoch milliseconds (1700000000000), now, or an "
            "age (2h, 1d12h)"
        ) from None
    if instant.tzinfo is None:
        instant = instant.replace(tzinfo=UTC)
    return _epoch_ms(instant)


_LOCAL_TIME = re.compile(
    r"(?:(today|yesterday|\d{4}-\d\d-\d\d) )?(\d{1,2}:\d\d(?::\d\d(?:\.\d{1,6})?)?)"
    r"(Z|[-+]\d\d:\d\d)?"
)


def _local_time(text: str) -> re.Match[str] | None:
    return _LOCAL_TIME.fullmatch(f"{text} 00:00" if text in ("today", "yesterday") else text)


def _local_time_ms(match: re.Match[str]) -> int:
    text, day, clock, offset = match.group(0, 1, 2, 3)
    try:
        zone = clock_time.fromisoformat(f"00:00{offset}").tzinfo if offset else None
        today = datetime.fromtimestamp(_now_ms() // 1000, zone).date()
        days = {None: today, "today": today, "yesterday": today - timedelta(days=1)}
        local = datetime.combine(
            days[day] if day in days else date.fromisoformat(day),
            clock_time.fromisoformat(clock if clock[1] != ":" else f"0{clock}"),
        )
        instants = {local.replace(tzinfo=zone, fold=fold).astimezone(UTC) for fold in (0, 1)}
        # Where clocks are set forward, a time does not exist; where they are set back, it is twice.
        instants = {
            instant
            for instant in instants
            if instant.astimezone(zone).replace(tzinfo=None) == local
        }
    except (OverflowError, OSError, ValueError) as error:
        raise ValueError(f"{text!r} is not a local time: {error}") from None
    if not instants:
        raise ValueError(f"{text!r} does not exist: clocks were set forward over it")
    if len(instants) > 1:
        first, second = (instant.astimezone().isoformat() for instant in sorted(instants))
        raise ValueError(f"{text!r} is twice, as clocks were set back; write {first} or {second}")
    epoch_ms = _epoch_ms(instants.pop())
    if day is None and epoch_ms > _now_ms():
        raise ValueError(f"{text!r} is later than now; write 'yesterday {text}' or 'today {text}'")
    return epoch_ms


def _epoch_ms(instant: datetime) -> int:
    seconds = instant.replace(microsecond=0)
    return int(seconds.timestamp()) * 1000 + instant.microsecond // 1000


def local_time_note(text: str) -> str | None:
    """Return what a valid local time means; None for other times, which name their zone."""
    match = _local_time(text.strip())
    if match is None or match[3]:
        return None
    instant = datetime.fromtimestamp(parse_instant(text) / 1000, UTC).astimezone()
    return f"{text.strip()!r} is {instant.isoformat()} ({instant.tzname()})"


def parse_time(text: str) -> int:
    """Parse a time as `parse_instant` does, but reject numbers that may be epoch seconds.

    Raises:
        ValueError: the text is invalid, or a number below `LEAST_EPOCH_MS`. This includes negative
            numbers, which have special meanings in Kafka's ListOffsets.
    """
    instant = parse_instant(text)
    if re.fullmatch(r"-?\d+", text.strip()) and instant < LEAST_EPOCH_MS:
        raise ValueError(
            f"expected epoch milliseconds (1700000000000), found {text!r}, a time before Kafka "
            "existed; if it is in seconds, append 000"
        )
    return instant


def parse_seconds(text: str) -> float:
    """Parse a duration in seconds.

    Raises:
        ValueError: the text is not a number above 0 and up to `LONGEST_S`.
    """
    try:
        seconds = float(text)
    except ValueError:
        seconds = nan
    if not 0 < seconds <= LONGEST_S:
        limit = f" and at most {LONGEST_S:,.0f}" if seconds > LONGEST_S else ""
        raise ValueError(f"expected a number of seconds greater than 0{limit}, found {text!r}")
    return seconds


def parse_duration(text: str) -> int:
    """Parse a duration to milliseconds: ``2h``, ``1d12h``, ``90s``, ``500ms``.

    Raises:
        ValueError: the text is invalid.
    """
    if (length_ms := duration_ms(text)) is None:
        raise ValueError(f"{text!r} is not a duration; expected 90s, 5m, 2h or 1d12h")
    return _int64(length_ms)


def parse_some_time(text: str) -> int:
    """Parse a duration as `parse_duration` does, but reject 0.

    Raises:
        ValueError: the text is invalid.
    """
    if (length_ms := parse_duration(text)) == 0:
        raise ValueError(f"expected a duration greater than 0, found {text!r}")
    return length_ms


def parse_end(text: str) -> tuple[int | None, int | None]:
    """Parse the end of a log to read: an offset, or a time as for `parse_instant`.

    Args:
        text: ``offset:42``, or a time; a number below `LEAST_EPOCH_MS` is an offset, too.

    Returns:
        Offset or None, epoch milliseconds or None.

    Raises:
        ValueError: the text is invalid.
    """
    form, colon, rest = text.strip().partition(":")
    if colon and form == "offset":
        if not re.fullmatch(r"\d{1,18}", rest):
            raise ValueError(f"{text!r} is not an offset; expected offset:42")
        return int(rest), None
    value = parse_instant(text)
    is_offset = re.fullmatch(r"-?\d+", text.strip()) and value < LEAST_EPOCH_MS
    if is_offset and value < 0:
        raise ValueError(f"expected an offset of 0 or more, or a time, found {text!r}")
    return (value, None) if is_offset else (None, value)


def parse_bytes(text: str) -> bytes:
    r"""Parse bytes copied from other output.

    Args:
        text: pairs of hexadecimal digits (spaces, colons, ``0x`` and ``\x`` are ignored), or base64
            (standard or URL alphabet), or text with escapes, see `_unescaped`. Text that is valid
            as hexadecimal and base64 is hexadecimal, unless it begins with a capital A: keys and
            values begin with a zero byte, and their base64 with A. The prefixes ``hex:`` and
            ``base64:`` select the format.

    Raises:
        ValueError: the text is invalid.
    """
    form, colon, rest = text.strip().partition(":")
    if not colon or form not in ("hex", "base64"):
        form, rest = "", text
        literal = _LITERAL.fullmatch(text.strip())
        if literal is not None:
            return _unescaped(literal[2])
        if "\\" in text and not _PREFIXED_HEX.fullmatch(text):
            return _unescaped(text)
    digits = re.sub(r"\\x|0x|[\s:]", "", rest)
    is_hex = re.fullmatch(r"(?:[0-9A-Fa-f]{2})*", digits) is not None
    if form == "hex" or (form == "" and is_hex and not digits.startswith("A")):
        if not is_hex:
            raise ValueError(f"expected pairs of hexadecimal digits, found {rest!r}")
        return bytes.fromhex(digits)
    base64 = re.sub(r"\s", "", rest).replace("-", "+").replace("_", "/")
    if form == "" and len(base64) % 4 and not base64.startswith("A"):
        raise ValueError(
            f"{rest!r} is neither hexadecimal nor the base64 of a key or value, which begins with "
            "A; if it is base64, put base64: before it"
        )
    try:
        return b64decode(base64 + "=" * (-len(base64) % 4), validate=True)
    except Base64Error:
        raise ValueError(
            f"{rest!r} is neither hexadecimal nor base64, nor text with escapes such as "
            r"\x00\x01g"
        ) from None


def parse_record_bytes(text: str) -> bytes:
    """Parse a key or value as `parse_bytes` does; quoted text must have escapes.

    Keys and values begin with a zero byte, which text without escapes does not have.
    """
    literal = _LITERAL.fullmatch(text.strip())
    if literal is not None and literal[2] and "\\" not in literal[2]:
        raise ValueError(
            f"{text.strip()} is text without escapes, but a key or value begins with a zero byte; "
            "if it is hexadecimal or base64, remove the quotes"
        )
    return parse_bytes(text)


_LITERAL = re.compile(r"[bB]?(['\"])(.*)\1", re.DOTALL)
"""Bytes or text as Python, C, Java and JSON write them."""
_PREFIXED_HEX = re.compile(r"\s*\\x[0-9A-Fa-f:\s]*|(?:[\s:]*\\x[0-9A-Fa-f]{2})*[\s:]*")
r"""Digits after one ``\x``, as PostgreSQL writes them, or a ``\x`` before each pair of digits."""
_PIECE = re.compile(
    r"""[^\\]+
    | \\x (?P<hex> [0-9A-Fa-f]{1,2})
    | \\ (?P<octal> [0-3]?[0-7]{1,2})
    | \\u+ (?P<high> [dD][89abAB][0-9A-Fa-f]{2}) \\u+ (?P<low> [dD][c-fC-F][0-9A-Fa-f]{2})
    | \\u+ (?P<unit> [0-9A-Fa-f]{4})
    | \\U (?P<wide> [0-9A-Fa-f]{8})
    | \\ (?P<letter> [abefnrstv\\'"?/])""",
    re.DOTALL | re.VERBOSE,
)
_LETTERS = dict(zip("abefnrstv", "\a\b\x1b\f\n\r \t\v", strict=True))


def _unescaped(text: str) -> bytes:
    r"""Return the bytes of text with escapes for unprintable bytes.

    Escapes are those of Python, C, Java and JSON: ``\x00``, ``\u0000``, ``\000``, ``\0``, ``\n``.
    The hexadecimal escape has two digits, or one if no digit follows. Other characters, and those
    of ``\u``, are encoded in UTF-8.

    Raises:
        ValueError: the text has another escape, or the replacement character of lost bytes.
    """
    pieces: list[bytes] = []
    position = 0
    while position < len(text):
        piece = _PIECE.match(text, position)
        if piece is None:
            rest = text[position : position + 10]
            raise ValueError(
                rf"expected an escape such as \x00, \u0000, \000 or \n, found {rest!r}"
            )
        position = piece.end()
        if (digits := piece["hex"] or piece["octal"]) is not None:
            pieces.append(bytes([int(digits, 16 if piece["hex"] else 8)]))
            continue
        try:
            character = _character(piece)
            pieces.append(character.encode())
        except (ValueError, OverflowError):
            raise ValueError(f"expected a character, found {piece[0][:10]!r}") from None
        if "\ufffd" in character:
            raise ValueError(
                "expected bytes, found U+FFFD, which stands for bytes that were lost when they "
                "were read as text; copy them in hexadecimal or base64"
            )
    return b"".join(pieces)


def _character(piece: re.Match[str]) -> str:
    """Return the text of a piece that is not an escaped byte."""
    if piece["high"] is not None:
        return bytes.fromhex(piece["high"] + piece["low"]).decode("utf-16-be")
    if (digits := piece["unit"] or piece["wide"]) is not None:
        return chr(int(digits, 16))
    letter = piece["letter"]
    return piece[0] if letter is None else _LETTERS.get(letter, letter)


def parse_topics(texts: Iterable[str]) -> dict[str, frozenset[int] | None]:
    """Parse topics with optional partition numbers: ``orders``, ``orders:0,2``.

    Returns:
        Partition numbers by topic; None for all partitions.

    Raises:
        ValueError: a text is invalid.
    """
    topics: dict[str, frozenset[int] | None] = {}
    for name, numbers in map(_topic, texts):
        before = topics.get(name, frozenset())
        topics[name] = None if numbers is None or before is None else before | numbers
    return topics


def _topic(text: str) -> tuple[str, frozenset[int] | None]:
    name, colon, rest = text.partition(":")
    numbers = rest.split(",") if colon else []
    if not name or not all(number.isascii() and number.isdigit() for number in numbers):
        raise ValueError(f"expected TOPIC or TOPIC:0,2, found {text!r}")
    if any(len(number) > 10 or int(number) >= 1 << 31 for number in numbers):
        raise ValueError(f"expected partitions below {1 << 31}, found {text!r}")
    return name, frozenset(map(int, numbers)) if colon else None


def _int64(number: int) -> int:
    if not -_INT64 <= number < _INT64:
        raise ValueError("expected a 64-bit number")
    return number


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
