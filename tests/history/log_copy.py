"""Copies of a recorded log as brokers have them: cut elsewhere, not at its end yet, compacted."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from kgroup.protocol.batch.batch import RecordBatch
from kgroup.protocol.batch.record_batch import read_file_batches

Log = Mapping[int, Sequence[RecordBatch]]
"""The batches of each partition, in order."""


def read_log(directory: Path) -> dict[int, list[RecordBatch]]:
    """Read the sound batches of a log directory."""
    log: dict[int, list[RecordBatch]] = {}
    for path in sorted(directory.glob("__consumer_offsets-*/*.log")):
        with path.open("rb") as file:
            batches = [item for item in read_file_batches(file) if isinstance(item, RecordBatch)]
        log.setdefault(int(path.parent.name.rpartition("-")[2]), []).extend(batches)
    return log


def write_log(
    directory: Path, log: Mapping[int, Iterable[RecordBatch]], seed: int | None = None
) -> None:
    """Write a log directory; each partition in one segment, or cut at random, always so."""
    for partition, batches in log.items():
        folder = directory / f"__consumer_offsets-{partition}"
        folder.mkdir(parents=True, exist_ok=True)
        base = 0
        path = folder / f"{base:020}.log"
        path.write_bytes(b"")
        for batch in batches:
            if seed is not None and random.Random(f"{seed} {base}").random() < 0.3:
                path = folder / f"{base:020}.log"
            with path.open("ab") as file:
                file.write(batch.data)
            base = batch.last_offset + 1


@dataclass
class Replica:
    """One broker's copy of a log, as time goes by."""

    log: Log
    seed: int

    def __post_init__(self) -> None:
        self._random = random.Random(self.seed)
        self._ends = dict.fromkeys(self.log, 0)
        self._gone: set[tuple[int, int]] = set()

    def grown(self) -> dict[int, list[RecordBatch]]:
        """Let it grow, and be compacted; a marker stays, as long as it may be needed."""
        for partition, batches in self.log.items():
            end = self._random.randint(self._ends[partition], len(batches))
            for number in range(self._ends[partition]):
                if self._random.random() < 0.1 and not batches[number].is_control:
                    self._gone.add((partition, number))
            self._ends[partition] = end
        return {
            partition: [
                batch
                for number, batch in enumerate(batches[: self._ends[partition]])
                if (partition, number) not in self._gone
            ]
            for partition, batches in self.log.items()
        }
