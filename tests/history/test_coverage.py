"""`history.coverage` against plain sets of numbers."""

from __future__ import annotations

import random
from io import BytesIO
from pathlib import Path

import numpy as np
import pytest

from kgroup.errors import InputError
from kgroup.history.warehouse.coverage import Coverage
from tests.examples import examples

LARGEST = (1 << 63) - 1


def coverage(*offsets: int) -> Coverage:
    return Coverage.of(np.array(offsets, np.int64))


def pairs(found: Coverage) -> list[tuple[int, int]]:
    return list(zip(found.firsts.tolist(), found.lasts.tolist(), strict=True))


def members(found: Coverage) -> set[int]:
    return {at for first, last in pairs(found) for at in range(first, last + 1)}


def some(random_: random.Random) -> set[int]:
    return set(random_.sample(range(40), random_.randrange(30)))


def test_offsets_in_a_row_are_one_interval() -> None:
    assert pairs(coverage(3, 4, 5, 9, 11, 12)) == [(3, 5), (9, 9), (11, 12)]


def test_offsets_may_come_twice_and_in_any_order() -> None:
    assert pairs(coverage(5, 3, 4, 4, 1)) == [(1, 1), (3, 5)]
    assert pairs(coverage(3, 3, 4, 9, 9)) == [(3, 4), (9, 9)]


def test_the_largest_offset_has_no_successor() -> None:
    found = Coverage.union([coverage(LARGEST), coverage(0, LARGEST - 1)])
    assert pairs(found) == [(0, 0), (LARGEST - 1, LARGEST)]
    assert found.has(np.array([LARGEST, 1], np.int64)).tolist() == [True, False]
    assert pairs(found.within(LARGEST)) == [(LARGEST, LARGEST)]
    whole = Coverage(np.array([0]), np.array([LARGEST]))
    assert pairs(Coverage.union([whole, coverage(5, 8)])) == [(0, LARGEST)]


def test_nothing_is_known_of_nothing() -> None:
    nothing = Coverage()
    assert not nothing
    assert nothing.count == 0
    assert nothing.has(np.array([0, 7], np.int64)).tolist() == [False, False]
    assert not nothing.is_dense(0, 0)
    assert nothing.is_dense(1, 0)
    assert not nothing.overlaps(nothing)
    assert not nothing.overlaps(coverage(1))
    assert Coverage.union([]) == nothing
    assert Coverage.union([nothing, nothing]) == nothing
    assert Coverage.of(np.empty(0, np.int64)) == nothing


@pytest.mark.parametrize("seed", range(examples(100)))
def test_it_is_what_sets_of_numbers_are(seed: int) -> None:
    random_ = random.Random(seed)
    left, right = some(random_), some(random_)
    shuffled = list(left)
    random_.shuffle(shuffled)
    one, other = coverage(*shuffled), coverage(*sorted(right))
    first, last = random_.randrange(40), random_.randrange(40)

    assert members(one) == left
    assert one.count == len(left)
    assert (one == other) == (left == right)
    assert one != coverage(*left, 41)
    assert one != coverage(*left, *range(max(left, default=0) + 1, 41))
    both = Coverage.union([one, other])
    assert members(both) == left | right
    assert both == coverage(*sorted(left | right))  # of as few intervals as can be
    assert one.within(first) == coverage(*sorted(at for at in left if at >= first))
    inside = sorted(at for at in left if first <= at <= last)
    assert one.within(first, last) == coverage(*inside)
    assert one.is_dense(first, last) == set(range(first, last + 1)).issubset(left)
    assert one.end_from(first) == min(set(range(first, 41)) - left)
    assert one.overlaps(other) == bool(left & right)
    asked = np.arange(40, dtype=np.int64)
    assert set(asked[one.has(asked)].tolist()) == left
    assert Coverage.read(one.written()) == one


WHOLE = coverage(1, 5).written()


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"PK",
        b"PK\3\4" + bytes(60),
        b"rows",
        WHOLE[:-1],
        WHOLE + b"\0",
        WHOLE.replace(b"(2, 2)", b"(2, 1)"),
        WHOLE.replace(b"(2, 2)", b"(2, 2 "),
        WHOLE.replace(b"(2, 2), }         ", b"(2, 999999999999)}"),
        b"\x93NUMPY\1",
    ],
)
def test_other_bytes_are_refused(data: bytes) -> None:
    told = rf"expected intervals of offsets, found {len(data)} bytes that are not a complete"
    with pytest.raises(InputError, match=told):
        Coverage.read(data)


def npy(array: object) -> bytes:
    file = BytesIO()
    np.save(file, np.array(array))
    return file.getvalue()


@pytest.mark.parametrize(
    ("array", "found"),
    [
        (np.zeros(3), r"float64 of shape \(3,\)"),
        (np.zeros((2, 3)), r"float64 of shape \(2, 3\)"),
        (np.zeros(2, np.int64), r"int64 of shape \(2,\)"),
        (np.zeros((3, 2), np.int64), r"int64 of shape \(3, 2\)"),
        (np.zeros((2, 3), ">i8"), r">i8 of shape \(2, 3\)"),
    ],
)
def test_other_arrays_are_refused(array: object, found: str) -> None:
    with pytest.raises(InputError, match=f"two rows of int64, found {found}"):
        Coverage.read(npy(array))


class Trap:
    """Leaves a trace when it is made of its pickle."""

    def __init__(self, trace: Path) -> None:
        self.trace = trace

    def __reduce__(self) -> tuple[object, tuple[Path]]:
        return Path.touch, (self.trace,)


def test_nothing_runs_that_a_file_holds(tmp_path: Path) -> None:
    file = BytesIO()
    np.save(file, np.array([[Trap(tmp_path / "trace")]] * 2, object), allow_pickle=True)
    with pytest.raises(InputError, match="expected intervals of offsets"):
        Coverage.read(file.getvalue())
    assert not (tmp_path / "trace").exists()
