"""How builds, increments and questions grow with the groups, and with the days, of a warehouse.

Partitions have 2,000 groups each, so groups grow with the partitions. Each log is built four times:
as a whole, with some 64 KiB more in one partition, then in all of them, and with 5 % more.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow.parquet as pq

from bench.decoding import PARTITIONS_OF_A_GROUP
from bench.measure import HERE, KAFKA, KGROUP, Measurement, measure, print_heads, print_row
from tests.broker import maven

GROUPS = 2_000
"""Groups of a partition."""
DAYS = 2
"""Days of the smallest log, of which each has `DAY_SIZE` bytes in each partition."""
DAY_SIZE = 12 << 20
FACTORS = (1, 2, 20)
LITTLE = 64 << 10
MORE = 0.05
COMMITS = 8
PACE_MS = 6_300
"""Most time between two batches; half of it on average makes a day of `DAY_SIZE` bytes."""
QUESTIONS = (
    ("rebalances", "GROUP"),
    ("commits", "GROUP"),
    ("storms", "--rate", "5/30s"),
    ("storms", "--rate", "5/30d"),
    ("rebalances",),
    ("stale", "--for", "36500d", "--retention", "36500d"),
    ("stale", "--for", "1s"),
)


@dataclass(frozen=True)
class Size:
    """Size of a log: its partitions, of 2,000 groups each, and its days."""

    partitions: int
    days: int

    @property
    def name(self) -> str:
        return f"{self.partitions * GROUPS:,} groups × {self.days} days"


@dataclass(frozen=True)
class Step:
    """A build: how much log was new, and what was written."""

    run: Measurement
    new_bytes: int
    written_bytes: int
    written_files: int


@dataclass(frozen=True)
class Growth:
    """What was measured for a log."""

    size: Size
    records: int
    steps: Sequence[Step]
    warehouse_bytes: int
    file_count: int
    questions: Sequence[Measurement]


def bench() -> None:
    """Print the tables: growth by groups, then by days."""
    by_groups = [Size(factor, DAYS) for factor in FACTORS]
    by_days = [Size(1, DAYS * factor) for factor in FACTORS]
    measured = {size: _measure(size) for size in dict.fromkeys([*by_groups, *by_days])}
    for sizes in (by_groups, by_days):
        logs = [measured[size] for size in sizes]
        print_heads("", *(log.size.name for log in logs))
        for cells in _rows(logs):
            print_row(*cells)
        print()


def _rows(logs: Sequence[Growth]) -> Iterator[Sequence[str]]:
    yield "records", *(f"{log.records:,}" for log in logs)
    yield "log, MB", *(_mb(log.steps[0].new_bytes) for log in logs)
    yield "warehouse, MB", *(_mb(log.warehouse_bytes) for log in logs)
    yield "files", *(f"{log.file_count:,}" for log in logs)
    names = (
        "first build",
        f"{LITTLE >> 10} KiB more in one partition",
        f"{LITTLE >> 10} KiB more in each other partition",
        f"{MORE:.0%} more",
    )
    for number, name in enumerate(names):
        steps = [log.steps[number] for log in logs]
        yield f"{name}: s of CPU", *(f"{step.run.cpu:.1f}" for step in steps)
        yield f"{name}: MiB of memory", *(f"{step.run.memory:.0f}" for step in steps)
        yield f"{name}: MB written", *(_mb(step.written_bytes) for step in steps)
        yield (
            f"{name}: bytes written per byte of new log",
            *(
                f"{step.written_bytes / step.new_bytes:.2f}" if step.new_bytes else "-"
                for step in steps
            ),
        )
        yield f"{name}: files written", *(f"{step.written_files:,}" for step in steps)
    for number, words in enumerate(QUESTIONS):
        runs = [log.questions[number] for log in logs]
        yield (
            f"`{' '.join(words)}`: s of CPU, MiB of memory",
            *(f"{run.cpu:.1f}, {run.memory:.0f}" for run in runs),
        )


def _mb(size: int) -> str:
    return f"{size / 1e6:.1f}"


def _measure(size: Size) -> Growth:
    folders = _log(size)
    warehouse = HERE / "data" / "growing"
    shutil.rmtree(warehouse, ignore_errors=True)
    build = [*KGROUP, "history", "build", "--cluster", "bench", "--to", str(warehouse)]
    steps = []
    before: dict[Path, int] = {}
    seen: dict[str, int] = {}
    first, little, more = (sorted(folder.iterdir()) for folder in folders)
    for places in (first, little[:1], little, more):
        sizes = {
            f"{place.name}/{path.name}": size
            for place in places
            for path, size in _sizes(place).items()
        }
        new_bytes = sum(size for name, size in sizes.items() if name not in seen)
        seen |= sizes
        run = measure([*build, "--from", *map(str, places)])
        after = _sizes(warehouse)
        written = {path: size for path, size in after.items() if before.get(path) != size}
        steps.append(Step(run, new_bytes, sum(written.values()), len(written)))
        if not before:
            warehouse_bytes, file_count = sum(after.values()), len(after)
            records = sum(
                pq.read_metadata(file).num_rows
                for table in ("offset_commits", "group_generations", "tombstones")
                for file in (warehouse / table).rglob("*.parquet")
            )
        before = after
    group = _any_group(warehouse)
    questions = [
        measure(
            [
                *(*KGROUP, "history", *(group if word == "GROUP" else word for word in words)),
                *("--warehouse", str(warehouse), "-o", "jsonl"),
            ]
        )
        for words in QUESTIONS
    ]
    return Growth(size, records, steps, warehouse_bytes, file_count, questions)


def _sizes(folder: Path) -> dict[Path, int]:
    return {path: path.stat().st_size for path in folder.rglob("*") if path.is_file()}


def _any_group(warehouse: Path) -> str:
    file = min((warehouse / "group_generations").rglob("*.parquet"))
    return str(pq.read_table(file, columns=["group_id"])["group_id"][0])


def _log(size: Size) -> list[Path]:
    """Write a log, if it is not there yet; return its folders: less, a little more, and more."""
    classes = maven.compile_java([HERE / "java" / "WriteSegment.java"], KAFKA)
    root = HERE / "data" / f"{classes.name}-growth-{size.partitions}-{size.days}"
    folders = [root / name for name in ("first", "little", "more")]
    first = DAY_SIZE * size.days
    for number in range(size.partitions):
        name = f"__consumer_offsets-{number}"
        done = root / f"{number}.records"
        if done.exists():
            continue
        for folder in folders:
            shutil.rmtree(folder / name, ignore_errors=True)
            (folder / name).mkdir(parents=True)
        segment = folders[0] / name / f"{5_000_000_000:020}.log"
        sizes = f"{LITTLE},{int(first * MORE)}"
        arguments = [segment, first, COMMITS, "none", PARTITIONS_OF_A_GROUP, "-", number]
        arguments += [folders[2] / name, sizes, PACE_MS]
        written = maven.run_java(
            KAFKA, "WriteSegment", list(map(str, arguments)), classes=classes, timeout=900
        )
        little = min((folders[2] / name).iterdir())
        (folders[1] / name / little.name).hardlink_to(little)
        for folder in folders[1:]:
            (folder / name / segment.name).hardlink_to(segment)
        done.write_bytes(written.stdout)
    return folders


if __name__ == "__main__":
    bench()
