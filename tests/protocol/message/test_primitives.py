"""Varints, texts and uuids at their edges, as Kafka and Java read them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kgroup.protocol.message.primitives import (
    JAVA_UTF8,
    DecodeError,
    base64_bytes,
    base64_text,
    compact_length,
    unsigned_varint,
    uuid_bytes,
    uuid_text,
)


@pytest.mark.parametrize(
    ("raw", "value"),
    [
        ("00", 0),
        ("7f", 127),
        ("8001", 128),
        ("ff7f", 16_383),
        ("808001", 16_384),
        ("ffffffff07", 2**31 - 1),
        ("ffffffff0f", -1),  # Kafka's varint is a Java int
        ("8080808008", -(2**31)),
        ("8080808000", 0),  # leading zeros
        ("8080808010", 0),  # a 33rd bit is lost
    ],
)
def test_unsigned_varint(raw: str, value: int) -> None:
    data = b"\xff" + bytes.fromhex(raw)
    assert unsigned_varint(data + b"\x55", 1, len(data) + 1, "f") == (value, len(data))
    for size in range(1, len(data)):
        with pytest.raises(DecodeError, match="f: the bytes end inside") as caught:
            unsigned_varint(data, 1, size, "f")
        assert caught.value.position == 1


def test_varint_of_six_bytes() -> None:
    with pytest.raises(DecodeError, match="more than 5 bytes") as caught:
        unsigned_varint(bytes.fromhex("8080808080 01"), 0, 6, "f")
    assert caught.value.position == 0
    assert str(caught.value) == "f: a variable-length integer of more than 5 bytes (at byte 0)"


@given(st.integers(0, 2**31 - 1))
def test_any_varint(value: int) -> None:
    groups = [value >> shift & 0x7F for shift in range(0, 35, 7)]
    while len(groups) > 1 and groups[-1] == 0:
        groups.pop()
    raw = bytes([group | 0x80 for group in groups[:-1]] + groups[-1:])
    assert unsigned_varint(raw, 0, len(raw), "f") == (value, len(raw))


@pytest.mark.parametrize(
    ("raw", "length"),
    [
        ("00", -1),  # null
        ("01", 0),
        ("8101", 128),
        ("ffffffff0f", -2),
        ("8080808008", 2**31 - 1),  # the smallest int less one is the largest
    ],
)
def test_compact_length(raw: str, length: int) -> None:
    data = bytes.fromhex(raw)
    assert compact_length(data, 0, len(data), "f") == (length, len(data))


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        # What Java 17 prints of `new String(bytes, UTF_8)`; R stands for U+FFFD.
        ("61ff62", "aRb"),
        ("c0af", "RR"),
        ("c3", "R"),
        ("c328", "R("),
        ("e28261", "Ra"),
        ("e282", "R"),
        ("eda080", "R"),
        ("eda0", "R"),
        ("ed80", "R"),
        ("eda041", "RA"),
        ("edbfbf", "R"),
        ("eda080edb080", "RR"),
        ("edeaa080", "R\ua800"),
        ("f0908d", "R"),
        ("f09041", "RA"),
        ("f4908080", "RRRR"),
        ("f5808080", "RRRR"),
        ("e08080", "RRR"),
        ("f8888080", "RRRR"),
        ("80bf", "RR"),
        ("f09f9880", "\U0001f600"),
        ("efbfbd", "R"),
    ],
)
def test_text_that_is_no_utf8(raw: str, text: str) -> None:
    assert bytes.fromhex(raw).decode("utf-8", JAVA_UTF8) == text.replace("R", "\ufffd")


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_utf8(text: str) -> None:
    assert text.encode().decode("utf-8", JAVA_UTF8) == text


def test_error_handler_is_for_decoding() -> None:
    with pytest.raises(UnicodeEncodeError):
        "\ud800".encode("utf-8", JAVA_UTF8)


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        # org.apache.kafka.common.Uuid: ZERO_UUID, METADATA_TOPIC_ID, and both special characters.
        (bytes(16), "AAAAAAAAAAAAAAAAAAAAAA"),
        (bytes(15) + b"\1", "AAAAAAAAAAAAAAAAAAAAAQ"),
        (b"\xff" * 16, "_____________________w"),
        (b"\xfb\xef\xbe" * 5 + b"\xfb", "----------------------"[:20] + "-w"),
    ],
)
def test_uuid(raw: bytes, text: str) -> None:
    assert uuid_text(raw) == text
    assert uuid_bytes(text) == raw


@pytest.mark.parametrize("text", ["", "AAAA", "A" * 24, "?" * 22])
def test_text_that_is_no_uuid(text: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011
        uuid_bytes(text)


@given(st.binary(min_size=16, max_size=16))
def test_any_uuid(raw: bytes) -> None:
    assert uuid_bytes(uuid_text(raw)) == raw


def test_base64() -> None:
    assert base64_text(b"\xfb\xff\xfe\0") == "+//+AA=="
    assert base64_bytes("+//+AA==") == b"\xfb\xff\xfe\0"
    with pytest.raises(ValueError):  # noqa: PT011
        base64_bytes("+//+AA")
