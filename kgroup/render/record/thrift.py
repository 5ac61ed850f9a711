"""Thrift's compact protocol, as far as Parquet's headers need it: values to bytes.

struct    its fields in the order of their numbers: a byte (number less that of the field
before) << 4 | type, then the value; at the end a byte 0
integer   zig-zag varint
binary    size (varint), bytes
list      a byte size << 4 | type of the elements (or 15 in the place of the size, which follows
as a varint), then the elements
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

__all__ = ["Value", "binary", "i32", "i64", "sequence", "struct", "varint", "zigzag"]

_STRUCT = 12


class Value(NamedTuple):
    """A value: its type's number, and its bytes."""

    type: int
    data: bytes


@lru_cache(maxsize=1 << 12)  # most are numbers of Parquet's, such as those of encodings
def i32(number: int) -> Value:
    """Give an integer of up to 32 bits."""
    return Value(5, zigzag(number))


def i64(number: int) -> Value:
    """Give an integer of up to 64 bits."""
    return Value(6, zigzag(number))


def binary(data: bytes | str) -> Value:
    """Give bytes, or a text."""
    raw = data.encode() if isinstance(data, str) else data
    return Value(8, varint(len(raw)) + raw)


def sequence(values: Sequence[Value]) -> Value:
    """Give a list of values, all of one type; an empty one is of structs."""
    size, kind = len(values), values[0].type if values else _STRUCT
    head = bytes([size << 4 | kind]) if size < 15 else bytes([0xF0 | kind]) + varint(size)
    return Value(9, head + b"".join(value.data for value in values))


def struct(fields: dict[int, Value]) -> Value:
    """Give a struct of fields by their numbers, in order."""
    out = bytearray()
    last = 0
    for number, value in fields.items():
        out.append((number - last) << 4 | value.type)
        out += value.data
        last = number
    out.append(0)
    return Value(_STRUCT, bytes(out))


def zigzag(number: int) -> bytes:
    """Write a signed number of up to 64 bits."""
    return varint((number << 1) ^ (number >> 63))


def varint(number: int) -> bytes:
    """Write an unsigned number, seven bits a byte."""
    out = bytearray()
    while number >= 0x80:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)
