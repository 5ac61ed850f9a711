"""What compiled code does with bytes is what libraries do, for every size and place."""

from __future__ import annotations

import zlib

import google_crc32c
import numpy as np
import pytest

pytestmark = pytest.mark.slow


def test_checksums() -> None:
    from kgroup.kernel import intrinsics  # and numba with it, which other tests do not need

    data = np.random.default_rng(7).integers(0, 256, 2100, np.uint8)
    for size in [*range(600), 1024, 2000]:
        start = size % 9
        part = data[start : start + size].tobytes()
        address = data.ctypes.data + start
        assert intrinsics.crc32c(address, size) == google_crc32c.value(part)
        assert intrinsics.crc32(address, size) == zlib.crc32(part)


def test_checksums_without_instructions() -> None:
    from kgroup.kernel import intrinsics

    crc = intrinsics.compiled(intrinsics._table_crc(intrinsics._CASTAGNOLI))
    data = np.random.default_rng(8).integers(0, 256, 300, np.uint8)
    for size in range(300):
        assert crc(data.ctypes.data, size) == google_crc32c.value(data[:size].tobytes())


def test_bytes_are_equal_up_to_their_end_only() -> None:
    from kgroup.kernel import intrinsics

    left = np.random.default_rng(9).integers(0, 256, 200, np.uint8)
    for size in range(100):
        right = left.copy()
        right[size:] ^= 0xFF
        assert intrinsics.equal(left.ctypes.data, right.ctypes.data, size)
        for at in range(size):
            right[at] ^= 0x80
            assert not intrinsics.equal(left.ctypes.data, right.ctypes.data, size)
            right[at] ^= 0x80
