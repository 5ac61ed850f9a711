"""The few values that Kafka's messages are made of, read as Kafka's Java reads them.

Wire layout (big endian):
    unsigned varint    7 bits a byte, lowest first, high bit = another byte follows, at most 5 bytes
    compact length     unsigned varint of length + 1; 0 is null
    uuid               16 bytes; as text base64 with the URL alphabet and no padding
    string             UTF-8; what is no UTF-8 becomes U+FFFD; at most 32,767 bytes, always
"""

from __future__ import annotations

import codecs
import re
from binascii import a2b_base64, b2a_base64
from functools import lru_cache

from kgroup.model.offsets_partition import java_int

_LONGEST = 0x7FFF


def java_long(value: int) -> int:
    """Give a sum as Java's long: one that passes its range comes out at the other end."""
    return (value + (1 << 63)) % (1 << 64) - (1 << 63)


@lru_cache(4096)  # the same names come by the hundred thousand
def no_string(text: str) -> str | None:
    """Say why a text cannot be a string of a message; None where it can.

    Versions with compact lengths have no longer ones: brokers end the connection over them
    (`MessageDataGenerator`).
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
    """Bytes that do not fit their layout; never leaves `kgroup.protocol`.

    Attributes:
        position: of the first byte that does not fit, counted from the start of the buffer.
        reason: what was expected and found there, without the position.
    """

    def __init__(self, position: int, reason: str) -> None:
        super().__init__(f"{reason} (at byte {position})")
        self.position = position
        self.reason = reason


JAVA_UTF8 = "java-replace"
"""Error handler of `bytes.decode` that puts U+FFFD where Java's `new String(…, UTF_8)` does."""

_SURROGATE = re.compile(rb"\xed[\xa0-\xbf][\x80-\xbf]?")


def _replace_as_java(error: UnicodeError) -> tuple[str, int]:
    """One U+FFFD for each ill-formed sequence, as Java and Python agree, but for surrogates.

    A surrogate in three bytes (CESU-8) is one ill-formed sequence to Java, three to Python.
    """
    if not isinstance(error, UnicodeDecodeError):
        raise error
    surrogate = _SURROGATE.match(error.object, error.start)
    return "\ufffd", surrogate.end() if surrogate else error.end


codecs.register_error(JAVA_UTF8, _replace_as_java)


def unsigned_varint(buffer: bytes, position: int, size: int, field: str) -> tuple[int, int]:
    """Read an unsigned varint; give its value as a Java int (it may be negative) and its end.

    Like Kafka's `ByteUtils.readUnsignedVarint`: leading zeros are accepted, bits beyond the 32nd
    are lost, and a fifth byte that says that another one follows is an error.
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
    """Read a compact length (-1 and less: null); give it and where what it measures begins."""
    value, position = unsigned_varint(buffer, position, size, field)
    return java_int(value - 1), position


@lru_cache(maxsize=8192)
def uuid_text(raw: bytes) -> str:
    """Kafka's text of a uuid: `AAAAAAAAAAAAAAAAAAAAAA` is 0 (`org.apache.kafka.common.Uuid`)."""
    text = b2a_base64(raw)[:22]
    return text.replace(b"+", b"-").replace(b"/", b"_").decode("ascii")


def uuid_bytes(text: str) -> bytes:
    """The 16 bytes of a uuid's text; ValueError where it is no uuid."""
    raw = a2b_base64(text.replace("-", "+").replace("_", "/") + "==", strict_mode=True)
    if len(raw) != 16:
        raise ValueError(f"{text!r} is no uuid: {len(raw)} bytes instead of 16")
    return raw


def base64_text(raw: bytes) -> str:
    """Bytes as Kafka's JSON has them: base64, standard alphabet, padded, one line."""
    return b2a_base64(raw, newline=False).decode("ascii")


def base64_bytes(text: str) -> bytes:
    """The bytes of a base64 text; ValueError where it is none."""
    return a2b_base64(text, strict_mode=True)
