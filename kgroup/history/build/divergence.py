"""Find copies of a partition whose records contradict each other.

Each batch has the epoch of the leader that appended it, and in one log epochs only grow with the
offsets. If a copy has records of an older epoch at offsets where another copy has a newer one, it
has a diverging tail: its broker was cut off and did not notice that another one became the leader.
When it follows the new leader, it truncates these records (KIP-101, KIP-279). So the copy with the
newer epoch is right, and the older records are not taken.

Logs of two clusters may have the same epochs. Therefore the timestamps of some records are kept,
chosen by their offsets, so that each copy chooses the same ones: compaction changes none.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kgroup.history.warehouse.coverage import Offsets
from kgroup.history.warehouse.state import LeaderEpoch, LogTrace

MOST_SAMPLES = 64
"""Maximum number of records of a partition whose timestamps are kept."""

_UNKNOWN = -1


@dataclass(frozen=True, slots=True)
class Divergence:
    """Contradiction between a split and what was read before.

    Attributes:
        first: first offset concerned.
        last: last offset concerned.
        reason: a sentence: what was expected, what was found.
        is_lasting: whether the tables have records that do not belong to the log, which reading the
            split again does not change.
    """

    first: int
    last: int
    reason: str
    is_lasting: bool


class CopyCheck:
    """Compares the records of a split with those that were read before.

    Attributes:
        end: offset from which records do not belong to the log; None if there are none.
    """

    def __init__(self, known: LogTrace, name: str) -> None:
        self.end: int | None = None
        self._known = known
        self._name = name
        self._firsts = np.array([epoch.first for epoch in known.epochs], np.int64)
        self._numbers = np.array([_UNKNOWN, *(epoch.number for epoch in known.epochs)], np.int64)
        self._samples = np.array([offset for offset, _ in known.samples], np.int64)
        self._times = dict(known.samples)
        self._epochs: dict[int, tuple[int, int]] = {}
        self._sampled: dict[int, int] = {}
        self._others: list[tuple[int, int]] = []

    def add(self, offsets: Offsets, rows: pa.RecordBatch) -> npt.NDArray[np.bool_] | None:
        """Add records in log order.

        Returns:
            A mask of the records that belong to the log; None if all do.
        """
        if not len(offsets):
            return None
        epochs = _numbers(rows["leader_epoch"])
        for number, first, last in _runs(epochs, offsets):
            before = self._epochs.get(number, (first, last))
            self._epochs[number] = min(first, before[0]), max(last, before[1])
        is_own = None
        if len(self._firsts) and epochs.min() < self._numbers[-1]:
            expected = self._numbers[np.searchsorted(self._firsts, offsets, side="right")]
            is_own = (epochs >= expected) | (epochs == _UNKNOWN)
            if is_own.all():
                is_own = None
            else:
                first = int(offsets[~is_own].min())
                self.end = first if self.end is None else min(first, self.end)
        times = _numbers(rows["timestamp_ms"])
        if is_own is not None:
            offsets, times = offsets[is_own], times[is_own]
        self._compare(offsets, times)
        self._sample(offsets, times)
        return is_own

    def _compare(self, offsets: Offsets, times: Offsets) -> None:
        if not len(self._samples) or not len(offsets):
            return
        at = np.minimum(np.searchsorted(offsets, self._samples), len(offsets) - 1)
        for position, offset in zip(at.tolist(), self._samples.tolist(), strict=True):
            if offsets[position] == offset and times[position] not in (
                _UNKNOWN,
                self._times[offset],
            ):
                self._others.append((offset, int(times[position])))

    def _sample(self, offsets: Offsets, times: Offsets) -> None:
        is_timed = times != _UNKNOWN
        offsets, times = offsets[is_timed], times[is_timed]
        if len(offsets) > MOST_SAMPLES:
            chosen = np.argpartition(_ranks(offsets), MOST_SAMPLES)[:MOST_SAMPLES]
            offsets, times = offsets[chosen], times[chosen]
        self._sampled |= dict(zip(offsets.tolist(), times.tolist(), strict=True))
        self._sampled = _fewest(self._sampled)

    def trace(self) -> LogTrace:
        """Return the epochs and sampled records of the split."""
        epochs = (
            LeaderEpoch(number, first, last, self._name)
            for number, (first, last) in sorted(self._epochs.items())
        )
        return LogTrace(tuple(epochs), tuple(sorted(self._sampled.items())))

    def divergences(self) -> tuple[Divergence, ...]:
        """Return the contradictions found."""
        found: list[Divergence] = []
        own = self.trace().epochs
        pairs = [(one, other) for one in own for other in self._known.epochs]
        stale = [
            (max(one.first, other.first), one.last, one, other)
            for one, other in pairs
            if one.number < other.number and one.last >= other.first
        ]
        newer = [
            (max(one.first, other.first), other.last, one, other)
            for one, other in pairs
            if one.number > other.number and other.last >= one.first
        ]
        rule = "A broker truncates the records of the older epoch"
        if stale:
            first, _, one, other = min(stale, key=lambda pair: pair[0])
            found.append(
                Divergence(
                    first,
                    max(last for _, last, _, _ in stale),
                    f"Expected leader epoch {other.number} from offset {other.first} on, as in "
                    f"{other.name}; found epoch {one.number} up to offset {one.last}. {rule}: "
                    "these are not in the tables.",
                    is_lasting=False,
                )
            )
        if newer:
            first, _, one, other = min(newer, key=lambda pair: pair[0])
            found.append(
                Divergence(
                    first,
                    max(last for _, last, _, _ in newer),
                    f"Expected leader epoch {other.number} up to offset {other.last}, as in "
                    f"{other.name}; found epoch {one.number} from offset {one.first} on. {rule}, "
                    "but the tables have them, as they were read first: build another warehouse, "
                    "first from this copy alone.",
                    is_lasting=True,
                )
            )
        if self._others and not newer:
            (offset, time_ms), *_ = self._others
            found.append(
                Divergence(
                    min(offset for offset, _ in self._others),
                    max(offset for offset, _ in self._others),
                    f"Expected the timestamp {self._times[offset]} at offset {offset}, as in a "
                    f"copy that was read before; found {time_ms}. These are different logs, of "
                    "two clusters or of a topic that was recreated: the tables have the record "
                    "that was read first. Build another warehouse, or give the cluster another "
                    "name with --cluster.",
                    is_lasting=True,
                )
            )
        return tuple(found)


def merged(known: LogTrace, new: LogTrace) -> LogTrace:
    """Return both traces, of an epoch only what a newer one has left of it."""
    by_number: dict[int, LeaderEpoch] = {}
    for epoch in (*known.epochs, *new.epochs):
        before = by_number.get(epoch.number, epoch)
        by_number[epoch.number] = replace(
            before, first=min(before.first, epoch.first), last=max(before.last, epoch.last)
        )
    epochs: list[LeaderEpoch] = []
    for number in sorted(by_number, reverse=True):
        epoch = by_number[number]
        if epochs:
            epoch = replace(epoch, last=min(epoch.last, epochs[-1].first - 1))
        if epoch.first <= epoch.last:
            epochs.append(epoch)
    samples = _fewest(dict(new.samples) | dict(known.samples))
    return LogTrace(tuple(reversed(epochs)), tuple(sorted(samples.items())))


def _fewest(samples: Mapping[int, int]) -> dict[int, int]:
    """Return the samples to keep."""
    if len(samples) <= MOST_SAMPLES:
        return dict(samples)
    offsets = np.array([*samples], np.int64)
    kept: Iterable[int] = offsets[np.argsort(_ranks(offsets))[:MOST_SAMPLES]].tolist()
    return {offset: samples[offset] for offset in kept}


def _ranks(offsets: Offsets) -> npt.NDArray[np.uint64]:
    """Return a number for each offset; records with low ones are kept (Fibonacci hashing)."""
    return offsets.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)


def _runs(epochs: Offsets, offsets: Offsets) -> Iterable[tuple[int, int, int]]:
    """Yield each run of a known epoch: its number, first and last offset."""
    begins = np.flatnonzero(np.diff(epochs, prepend=epochs[0] - 1))
    ends = np.append(begins[1:], len(epochs)) - 1
    for number, first, last in zip(
        epochs[begins].tolist(), offsets[begins].tolist(), offsets[ends].tolist(), strict=True
    ):
        if number != _UNKNOWN:
            yield number, first, last


def _numbers(column: pa.Array) -> Offsets:
    """Return a column's values, -1 for null."""
    numbers = column.fill_null(_UNKNOWN) if column.null_count else column
    return np.asarray(numbers.to_numpy(), np.int64)
