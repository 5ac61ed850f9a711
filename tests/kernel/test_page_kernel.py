"""What compiled code encodes for Parquet's pages, and how far it reads and writes."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np
import pytest

from kgroup.kernel.compiled import kernels
from kgroup.kernel.memory import PADDING

GUARD = 0xA5

_Array = np.ndarray[Any, Any]


def room(size: int) -> _Array:
    """Bytes to write to, `size` of them, and behind them as many as nothing may touch."""
    return np.full(size + 256, GUARD, np.uint8)


def check_guard(out: _Array) -> None:
    assert (out[-256:] == GUARD).all()


def bitmaps(random: np.random.Generator, size: int) -> Iterator[_Array]:
    """Bits, with words of nothing but ones and of nothing but zeros among mixed ones."""
    yield np.ones(size, bool)
    yield np.zeros(size, bool)
    yield random.random(size) < 0.5
    words = random.integers(0, 3, size // 64 + 1)
    yield (np.repeat(words, 64)[:size] + (random.random(size) < 0.5)) >= 2


@pytest.mark.parametrize("width", [1, 2, 4, 8])
def test_picked_numbers(width: int) -> None:
    random = np.random.default_rng(width)
    for count, first in product((0, 1, 63, 64, 65, 128, 200, 330), (0, 1, 7, 8, 61, 64)):
        numbers = random.integers(0, 256, count * width, np.uint8).view(f"u{width}")
        for bits in bitmaps(random, first + count):
            bitmap = np.packbits(bits, bitorder="little")
            out = room(numbers.nbytes + PADDING)
            found = kernels().pick(
                numbers.ctypes.data, width, bitmap.ctypes.data, first, count, out.ctypes.data
            )
            expected = numbers[bits[first:]]
            assert found == len(expected)
            assert out[: expected.nbytes].tobytes() == expected.tobytes()
            check_guard(out)


def unpacked(page: bytes, width: int) -> list[int]:
    """Read the hybrid of runs and groups as Parquet's format describes it."""
    numbers: list[int] = []
    at = 0
    while at < len(page):
        head = shift = 0
        while True:
            byte = page[at]
            at += 1
            head |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                break
        size = 8 * (head >> 1) * width if head & 1 else width
        part = np.frombuffer(page[at : at + size], f"<u{width}").tolist()
        numbers += part if head & 1 else part * (head >> 1)
        at += size
    assert at == len(page)
    return numbers


@pytest.mark.parametrize("low", [-120, 0, 3])
@pytest.mark.parametrize(("width", "out_width"), [(1, 1), (2, 1), (4, 1), (8, 1), (4, 2), (4, 4)])
def test_runs_of_numbers(width: int, out_width: int, low: int) -> None:
    random = np.random.default_rng(width)
    most = {1: min(256, (1 << 8 * width - 1) - low), 2: 1 << 16, 4: (1 << 31) - 200}[out_width]
    for count in (1, 7, 8, 9, 15, 64, 65, 511, 512, 513, 520, 1100):
        unlike = random.integers(0, most, count)
        like = np.full(count, most - 1)
        groups = np.repeat(random.integers(0, 2, count // 8 + 1), 8)[:count] == 1
        rows = np.repeat(random.integers(0, 3, count // 20 + 1), 20)[:count]
        but_one = like.copy()
        but_one[np.arange(0, count - 7, 8) + np.arange(count // 8) % 8] = 0
        for more in (unlike, like, like * 0, np.where(groups, unlike, like), rows, but_one):
            numbers = (more + low).astype(f"i{width}")
            behind = np.concatenate([numbers, random.integers(0, 100, 8).astype(numbers.dtype)])
            out = room(out_width * (count + 8) + count // 8 + 2 * PADDING)
            address, start = behind.ctypes.data, out.ctypes.data
            end = kernels().pack_runs(address, width, low, count, start, out_width)
            found = unpacked(out[: end - start].tobytes(), out_width)
            assert found[:count] == more.tolist()
            assert not any(found[count:])  # what fills up the last group
            assert len(found) < count + 8
            if len(set(more)) == 1 and (more[0] == 0 or count % 8 == 0):  # one run
                assert len(found) == count
                assert end - start == (1 if count < 64 else 2) + out_width
            check_guard(out)
