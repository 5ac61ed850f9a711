"""Where a batch may begin behind damage."""

import struct

import pytest

from kgroup.protocol.batch.batch_search import plausible_headers

_LEAST = 61 - 12  # Kafka's `DefaultRecordBatch`: the header alone, behind offset and length


def header_v2(length: int) -> bytes:
    """Offset, length, epoch, magic, CRC, attributes, last delta, 2 times, producer, count."""
    return struct.pack(">qiibIhiqqqhii", 5, length, 0, 2, 1, 0, 9, 1, 1, -1, -1, -1, 10)


@pytest.mark.parametrize("most", [1 << 20, (1 << 25) - 1, 1 << 25, (1 << 31) - 1])
def test_a_batch_of_any_length_up_to_the_limit_may_begin(most: int) -> None:
    for length in {_LEAST, 1 << 16, 1 << 20, (1 << 24) - 1, 1 << 24, most - 1, most, most + 1}:
        if length < 1 << 31:
            data = memoryview(b"\xff" * 7 + header_v2(length))
            expected = [7] if length <= most else []
            assert plausible_headers(data, 8, most) == expected, length
    assert plausible_headers(memoryview(header_v2(_LEAST - 1)), 1, most) == []
