"""Where a batch may begin behind damage: what may stand in the fields of Kafka's headers."""

from __future__ import annotations

import struct
from collections.abc import Sequence

import pytest

from kgroup.protocol.batch import batch_v2, message_set
from kgroup.protocol.batch.record_batch import plausible_headers

_LEAST = 61 - 12  # Kafka's `DefaultRecordBatch`: the header alone, behind offset and length
_MOST = 1 << 20


_FIELDS: dict[str, int] = {
    "offset": 5,
    "length": _LEAST,
    "epoch": 0,
    "magic": 2,
    "crc": 1,
    "attributes": 0,
    "last_delta": 9,
    "base_time": 1,
    "max_time": 1,
    "producer": -1,
    "producer_epoch": -1,
    "sequence": -1,
    "count": 10,
}


def header_v2(**fields: int) -> memoryview:
    return memoryview(struct.pack(">qiibIhiqqqhii", *(_FIELDS | fields).values()))


def message(
    key_size: int,
    value_size: int | None,
    *,
    magic: int = 1,
    attributes: int = 0,
    offset: int = 5,
    length: int = 0,
) -> bytes:
    """A message whose sizes need not be true; without the value's if that is None."""
    sizes = struct.pack(">i", key_size) + bytes(max(key_size, 0))
    if value_size is not None:
        sizes += struct.pack(">i", value_size) + bytes(max(value_size, 0))
    body = struct.pack(">Ibb", 1, magic, attributes) + (bytes(8) if magic else b"") + sizes
    return struct.pack(">qi", offset, length or len(body)) + body


@pytest.mark.parametrize("most", [1 << 20, (1 << 25) - 1, 1 << 25, (1 << 31) - 1])
def test_a_batch_of_any_length_up_to_the_limit_may_begin(most: int) -> None:
    for length in {_LEAST, 1 << 16, 1 << 20, (1 << 24) - 1, 1 << 24, most - 1, most, most + 1}:
        if length < 1 << 31:
            data = memoryview(b"\xff" * 7 + bytes(header_v2(length=length)))
            expected = [7] if length <= most else []
            assert plausible_headers(data, 8, most) == expected, length
    assert plausible_headers(header_v2(length=_LEAST - 1), 1, most) == []


@pytest.mark.parametrize(
    ("name", "may_be", "cannot_be"),
    [
        ("offset", (0, (1 << 63) - 1), (-1, -(1 << 63))),
        ("last_delta", (0, (1 << 31) - 1), (-1, -(1 << 31))),
        ("count", (0, (1 << 31) - 1), (-1, -(1 << 31))),
        ("attributes", (0, 0x7F), (0x80, 0x100, -1, -(1 << 15))),  # there are seven
    ],
)
def test_numbers_of_a_batch_are_none_that_no_log_has(
    name: str, may_be: Sequence[int], cannot_be: Sequence[int]
) -> None:
    for value in (*may_be, *cannot_be):
        found = plausible_headers(header_v2(**{name: value}), 1, _MOST)
        assert found == ([0] if value in may_be else []), value


@pytest.mark.parametrize("magic", [0, 1])
def test_key_and_value_of_a_message_fill_it(magic: int) -> None:
    least = (14, 22)[magic]
    for key_size, value_size, length, may_be in (
        (-1, -1, least, True),
        (-1, -1, least - 1, False),
        (-1, -1, least + 1, False),
        (-2, -1, least, False),
        (-1, -2, least, False),
        (0, 0, least, True),
        (3, 4, least + 7, True),
        (3, 4, least + 6, False),
        (3, 4, least + 8, False),
        (3, None, least + 3, True),  # the bytes end before the value's size
        (3, None, least + 1000, True),
        (3, None, least + 2, False),
    ):
        header = memoryview(message(key_size, value_size, magic=magic, length=length))
        assert (plausible_headers(header, 1, _MOST) == [0]) == may_be, (key_size, value_size)
    cut = memoryview(message(99, None, magic=magic, length=least)[: (22, 30)[magic] - 1])
    assert plausible_headers(cut, 1, _MOST) == [0]  # before the key's size ends
    for attributes, may_be in ((0x0F, True), (0x10, False), (-128, False)):
        header = memoryview(message(-1, -1, magic=magic, attributes=attributes))
        assert (plausible_headers(header, 1, _MOST) == [0]) == may_be, attributes


@pytest.mark.parametrize("magic", [0, 1])
def test_fields_of_a_message_that_fit_each_other(magic: int) -> None:
    """Codecs are none, gzip, snappy and lz4; the append time is a bit of v1."""
    least, size = (14, 22)[magic], (22, 30)[magic]

    def value_at(key_size: int = -1, **fields: int) -> int | None:
        header = message(key_size, None, magic=magic, **{"length": least, **fields})
        return message_set.value_position(memoryview(header)[:size])

    assert (value_at(), value_at(0), value_at(offset=0)) == (size, size, size)
    assert value_at(7, length=least + 7) == size + 7
    assert value_at(8, length=least + 7) is None
    assert value_at(-2) is None
    assert value_at(offset=-1) is None
    taken = [each for each in range(32) if value_at(attributes=each) is not None]
    assert taken == [*range(4), *(range(8, 12) if magic else ())]


@pytest.mark.parametrize(
    ("may_be", "cannot_be"),
    [
        ({"offset": 0}, {"offset": -1}),
        ({"length": _LEAST + 70}, {"length": _LEAST + 69}),
        ({"length": _LEAST, "attributes": 1}, {"length": _LEAST, "attributes": 8}),
        ({"length": _LEAST, "count": 0}, {"count": -1}),
        ({"last_delta": 0, "count": 1}, {"last_delta": 0, "count": 2}),
        ({"last_delta": 0, "count": 0}, {"last_delta": -1, "count": 0}),
        *(
            ({name: -1}, {name: -2})  # -1: not known
            for name in (
                *("epoch", "base_time", "max_time"),
                *("producer", "producer_epoch", "sequence"),
            )
        ),
    ],
)
def test_fields_of_a_batch_that_fit_each_other(
    may_be: dict[str, int], cannot_be: dict[str, int]
) -> None:
    """A record takes seven bytes at least, if it is not compressed."""
    long = {"length": _LEAST + 70}
    assert batch_v2.is_plausible_header(header_v2(**long | may_be))
    assert not batch_v2.is_plausible_header(header_v2(**long | cannot_be))


def test_attributes_of_a_batch_name_one_of_five_codecs() -> None:
    taken = [
        each
        for each in range(-1, 256)
        if batch_v2.is_plausible_header(header_v2(length=_LEAST + 70, attributes=each))
    ]
    assert taken == [each for each in range(128) if each % 8 < 5]
