"""Primitive types of Kafka's messages, decoded as Kafka's Java code does.

Wire layout (big endian):

    unsigned varint    7 bits a byte, lowest first, high bit = another byte follows, at most 5 bytes
    compact length     unsigned varint of length + 1; 0 is null
    uuid               16 bytes; as a string, base64 with the URL alphabet and no padding
    string             UTF-8; invalid bytes become U+FFFD; never more than 32,767 bytes
"""

from __future__ import annotations

import codecs
import re
from binascii import a2b_base64, b2a_base64
from functools import lru_cache

from kgroup.model.offsets_partition import java_int

_LONGEST = 0x7FFF


def java_long(value: int) -> int:
    """Return a sum as a Java long: values out of range wrap around."""
    return (value + (1 << 63)) % (1 << 64) - (1 << 63)


@lru_cache(4096)  # the same names are checked hundreds of thousands of times
def no_string(text: str) -> str | None:
    """Return why a text cannot be a string of a message; None if it can.

    Versions with compact lengths have the same limit: brokers close the connection if it is
    exceeded (`MessageDataGenerator`).
    """
    if text.isascii():
        size = len(text)
    else:
        try:
            size = len(text.encode())
        except UnicodeEncodeError:
            return "expected Unicode characters, found half of a surrogate pair"
    if size <= _LONGEST:
        return None
    return f"expected {_LONGEST:,} bytes at most, which Kafka's protocol can carry, found {size:,}"


class DecodeError(ValueError):
    """Bytes that do not match their layout; never leaves `kgroup.protocol`.

    Attributes:
        position: position of the first invalid byte, from the start of the buffer.
        reason: what was expected and found there, without the position.
    """

    def __init__(self, position: int, reason: str) -> None:
        super().__init__(f"{reason} (at byte {position})")
        self.position = position
        self.reason = reason


JAVA_UTF8 = "java-replace"
"""Error handler of `bytes.decode` that inserts U+FFFD where Java's `new String(…, UTF_8)` does."""

_SURROGATE = re.compile(rb"\xed[\xa0-\xbf][\x80-\xbf]?")


def _replace_as_java(error: UnicodeError) -> tuple[str, int]:
    """Return one U+FFFD per ill-formed sequence; Java and Python differ only for surrogates.

    A surrogate in three bytes (CESU-8) is one ill-formed sequence in Java, three in Python.
    """
    if not isinstance(error, UnicodeDecodeError):
        raise error
    surrogate = _SURROGATE.match(error.object, error.start)
    return "\ufffd", surrogate.end() if surrogate else error.end


codecs.register_error(JAVA_UTF8, _replace_as_java)


def unsigned_varint(buffer: bytes, position: int, size: int, field: str) -> tuple[int, int]:
    """Decode an unsigned varint; return its value as a Java int (may be negative) and its end.

    As in Kafka's `ByteUtils.readUnsignedVarint`, leading zeros are accepted, bits beyond the 32nd
    are dropped, and a fifth byte that announces another one is an error.
    """
    value = 0
    for index in range(5):
        if position + index >= size:
            raise DecodeError(position, f"{field}: the bytes end inside a variable-length integer")
        byte = buffer[position + index]
        value |= (byte & 0x7F) << 7 * index
        if byte < 0x80:
            return java_int(value), position + index + 1
    raise DecodeError(position, f"{field}: a variable-length integer of more than 5 bytes")


def compact_length(buffer: bytes, position: int, size: int, field: str) -> tuple[int, int]:
    """Decode a compact length (negative: null); return it and the start of the content."""
    value, position = unsigned_varint(buffer, position, size, field)
    return java_int(value - 1), position


@lru_cache(maxsize=8192)
def uuid_text(raw: bytes) -> str:
    """Return Kafka's string for a UUID (`org.apache.kafka.common.Uuid`); zero is 22 times "A"."""
    text = b2a_base64(raw)[:22]
    return text.replace(b"+", b"-").replace(b"/", b"_").decode("ascii")


def uuid_bytes(text: str) -> bytes:
    """Return the 16 bytes of a UUID string; ValueError if it is not a UUID."""
    raw = a2b_base64(text.replace("-", "+").replace("_", "/") + "==", strict_mode=True)
    if len(raw) != 16:
        raise ValueError(f"{text!r} is no uuid: {len(raw)} bytes instead of 16")
    return raw


def base64_text(raw: bytes) -> str:
    """Return bytes as in Kafka's JSON: base64, standard alphabet, padded, one line."""
    return b2a_base64(raw, newline=False).decode("ascii")


def base64_bytes(text: str) -> bytes:
    """Return the bytes of a base64 string; ValueError if it is invalid."""
    return a2b_base64(text, strict_mode=True)
