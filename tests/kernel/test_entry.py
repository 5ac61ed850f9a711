"""Memory is looked at before compiled code gets it: what is of another kind is refused."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from ctypes import c_int64
from threading import Barrier

import google_crc32c
import numpy as np
import pytest

from kgroup.kernel import entry
from kgroup.kernel.memory import PADDING, Batches
from kgroup.kernel.row_state import RowState, TemplateColumn
from kgroup.kernel.schema_program import machine, programs
from kgroup.kernel.string_table import StringTable
from kgroup.kernel.walk_state import WalkState

BATCHES = Batches(np.int64, np.int32, np.int32, np.int64, np.int16, np.int64)


def walk(word: str | None = None, beyond: int = 0) -> WalkState:
    """Make a state of a piece of 100 bytes, of which one word is too large by so much."""
    state = WalkState(0, 0, 0, 100)
    if word is not None:
        state.words[word] += beyond
    return state


def numbers(count: int, kind: type[np.generic] = np.int64) -> np.ndarray:
    return np.zeros(count, kind)


def listing(hashes: int = 4, locators: int = 4, batches: int = 4) -> None:
    columns = Batches(*(numbers(batches, kind) for kind in BATCHES))
    walk().list_in(numbers(hashes), numbers(locators), columns)


def rows(column: TemplateColumn) -> None:
    RowState(numbers(3, np.uint8), {0: [b"x", column]})


WRONG: dict[str, tuple[Callable[[], object], str]] = {
    "a walk for another function": (lambda: entry.decode(walk()), "one for decode, found one for"),
    "an end behind the piece": (lambda: entry.follow(walk("end", 1)), "in the piece"),
    "a begin that is not its": (lambda: entry.follow(walk("piece", -8)), "in the piece"),
    "more read than there is": (lambda: entry.follow(walk("read_end", 101)), "in order"),
    "more to read than fits": (lambda: entry.follow(walk("read_size", 1)), "room for what is"),
    "more than fits needed": (lambda: entry.follow(walk("needed_size", 101)), "room for what"),
    "more rows than there are": (lambda: entry.follow(walk("rows", 1)), "more"),
    "too few counts": (lambda: walk().count_in(numbers(1)), "elements of int64"),
    "other counts": (lambda: walk().count_in(numbers(99, np.int32)), "found 99 of int32"),
    "counts with gaps": (lambda: walk().count_in(numbers(99)[::2]), "without gaps"),
    "too few locators": (lambda: listing(locators=3), "locators: expected 4"),
    "too few batches": (lambda: listing(batches=3), "expected 4 elements"),
    "records without padding": (lambda: walk().unpack(numbers(3, np.uint8)), "records"),
    "a search behind the end": (lambda: entry.find_batch(numbers(9, np.uint8), 9), "data"),
    "a sum behind the end": (lambda: entry.find_end(numbers(9, np.uint8), 9), "data"),
    "batches of no size": (
        lambda: entry.gather(numbers(99, np.uint8), numbers(1), numbers(1)),
        "indices of batches",
    ),
    "batches behind the end": (
        lambda: entry.gather(numbers(99, np.uint8), numbers(1), numbers(1) + 100),
        "data: expected 100",
    ),
    "slots of another number": (lambda: StringTable(3, 10), "a power of two"),
    "a smaller table": (
        lambda: entry.intern_all(StringTable(8, 10), StringTable(4, 10)),
        "no smaller",
    ),
    "pairs of another number": (
        lambda: entry.note_last(numbers(6).reshape(3, 2), 0, numbers(1), numbers(1)),
        "2\\^n pairs",
    ),
    "pairs that are full": (
        lambda: entry.note_last(numbers(8).reshape(4, 2), 3, numbers(1), numbers(1)),
        "more than 4",
    ),
    "fewer locators than keys": (
        lambda: entry.note_last(numbers(8).reshape(4, 2), 0, numbers(2), numbers(1)),
        "locators: expected 2",
    ),
    "a row behind the last": (
        lambda: entry.spread_ends(
            numbers(1, np.int32) + 2, numbers(1, np.int32), numbers(3, np.int32)
        ),
        "fewer than 2",
    ),
    "other flags": (lambda: entry.flag_bits(numbers(3), 1), "flags"),
    "a text without padding": (
        lambda: entry.quote(np.array([0, 5], np.int32), numbers(5, np.uint8)),
        "text: expected",
    ),
    "ends that go back": (
        lambda: entry.quote(np.array([5, 0], np.int32), numbers(99, np.uint8)),
        "indices in order",
    ),
    "a text that is none": (
        lambda: entry.quote(np.array([0, 1], np.int32), np.full(1 + PADDING, 0xFF, np.uint8)),
        "expected UTF-8",
    ),
    "a column of nothing": (lambda: rows(TemplateColumn(b"")), "numbers or texts"),
    "a long null": (lambda: rows(TemplateColumn(b"123456789", numbers(3))), "up to 8 bytes"),
    "too few numbers": (lambda: rows(TemplateColumn(b"", numbers(2))), "numbers: expected 3"),
    "unsigned numbers": (
        lambda: rows(TemplateColumn(b"", numbers(3, np.uint32))),
        "found 3 of uint32",
    ),
    "too few bits": (
        lambda: rows(TemplateColumn(b"", numbers(3), bitmap=numbers(1, np.uint8), first=6)),
        "bitmap: expected 2",
    ),
    "too few ends": (
        lambda: rows(TemplateColumn(b"", ends=numbers(3, np.int32), text=numbers(9, np.uint8))),
        "ends: expected 4",
    ),
    "a place for text without padding": (
        lambda: entry.write_rows(RowState(numbers(0, np.uint8), {}), numbers(1, np.uint8)),
        "out",
    ),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_wrong_memory_is_refused(wrong: str) -> None:
    call, message = WRONG[wrong]
    with pytest.raises(ValueError, match=message):
        call()


def test_what_a_larger_piece_keeps() -> None:
    """Positions and bytes move with the piece; where it stands in the file stays."""
    state = walk()
    state.piece[:3] = (1, 2, 3)
    state.words["read_end"] += 3
    state.words["whole_end"] += 2
    before = int(state.words["position"] + state.words["file_base"])
    state.enlarge(1 << 20)
    assert len(state.piece) == (1 << 20) + PADDING
    assert state.piece[:3].tolist() == [1, 2, 3]
    assert int(state.words["read_end"] - state.words["piece"]) == 3
    assert int(state.words["position"] + state.words["file_base"]) == before
    first = c_int64.from_address(state.check("follow"))  # of the fields that compiled code sees
    assert first.value == state.words["position"] == state.piece.ctypes.data


# ---- what compiled code does with bytes is what libraries do, for every size and place


@pytest.mark.slow
def test_checksums() -> None:
    from kgroup.kernel import intrinsics  # and numba with it, which other tests do not need

    data = np.random.default_rng(7).integers(0, 256, 2100, np.uint8)
    for size in [*range(600), 1024, 2000]:
        start = size % 9
        part = data[start : start + size].tobytes()
        address = data.ctypes.data + start
        assert intrinsics.crc32c(address, size) == google_crc32c.value(part)
        assert intrinsics.crc32(address, size) == zlib.crc32(part)


@pytest.mark.slow
def test_checksums_without_instructions() -> None:
    from kgroup.kernel import intrinsics

    crc = intrinsics.compiled(intrinsics._table_crc(intrinsics._CASTAGNOLI))
    data = np.random.default_rng(8).integers(0, 256, 300, np.uint8)
    for size in range(300):
        assert crc(data.ctypes.data, size) == google_crc32c.value(data[:size].tobytes())


@pytest.mark.slow
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


def test_threads_that_come_first_at_once_share_one_set_of_programs() -> None:
    """Compiled code knows the programs by address: a second set would be freed under the first."""
    programs.cache_clear()
    threads = 8
    start = Barrier(threads)

    def make(_: int) -> list[int]:
        start.wait()
        (words,) = machine()[["code", "texts", "keys", "values", "parts"]].tolist()
        return list(words)

    with ThreadPoolExecutor(threads) as pool:
        blocks = list(pool.map(make, range(threads)))
    kept = programs()
    assert blocks == [blocks[0]] * threads
    assert blocks[0][:2] == [kept.code.ctypes.data, kept.texts.ctypes.data]
