"""Memory comes back only when nothing views it, and not without bounds."""

import subprocess
import sys

import numpy as np
import pyarrow as pa
import pytest

from kgroup.columnar import recycled as module
from kgroup.columnar.recycled import recycled


@pytest.fixture(autouse=True)
def _no_memory_of_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_free", type(module._free)(list))


def test_a_view_keeps_memory_from_coming_back() -> None:
    first = recycled(1000)
    address = first.ctypes.data
    column = pa.Array.from_buffers(pa.int64(), 5, [None, pa.py_buffer(first[80:120].view("i8"))])
    del first
    other = recycled(1000)
    assert other.ctypes.data != address
    del column
    assert recycled(900).ctypes.data == address


def test_what_is_kept_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_MOST_FREE", 3 << 20)
    lent = set(module._lent)
    arrays = [recycled(1 << 20) for _ in range(20)]
    for array in arrays:
        array[:] = np.uint8(1)
    del array, arrays
    assert sum(len(free) for free in module._free.values()) == 3
    assert set(module._lent) <= lent


def test_the_system_gives_small_pages() -> None:
    program = (
        "from kgroup.columnar.recycled import keep_freed_memory; keep_freed_memory(); "
        "print(open('/proc/self/status').read())"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    assert b"THP_enabled:\t0\n" in done.stdout
