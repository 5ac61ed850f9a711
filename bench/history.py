"""Build a warehouse with Spark: rate, scaling over cores and sizes, increments, memory.

The log is written once into `bench/data`: partitions with a segment each, and a second folder with
the same and 5 % more behind each.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from time import perf_counter, process_time, sleep
from typing import TypeVar

import pyarrow.parquet as pq

from bench.decoding import PARTITIONS_OF_A_GROUP
from bench.measure import (
    ENVIRONMENT,
    HERE,
    KAFKA,
    KGROUP,
    Measurement,
    measure,
    print_heads,
    print_row,
)
from kgroup.history.build.task import Job
from tests.broker import maven

FILE_SIZE = 4 * (1 << 30) // 40
MORE = 0.05
COMMITS = 8
HOT_SIZE = 512 << 20
SHARES = (1, 2, 4, 8)
DAYS = 268
DAYS_SIZE = 77 << 20
CALM_RATE = "5/30s"
"""Rate at which one group in seven of the log storms."""
DAYS_PACE_MS = 289_000
"""Most time between two batches of that log: its batches are spread over so many days."""
SIZES = (1, 2, 5, 10, 40)
"""Partitions to build by threads and by Spark."""

_WITHOUT_SPARK = """
from kgroup.spark import runner

runner.SPARK_BYTES = 1 << 62
from kgroup.__main__ import main

main()
"""

_J = TypeVar("_J", bound=Job)
_R = TypeVar("_R")


@dataclass(frozen=True)
class Build:
    """Seconds of a build's stages, and the most memory of all its processes in MiB."""

    start: float
    read: float
    rest: float
    records: int
    memory: float

    @property
    def work(self) -> float:
        return self.read + self.rest


def bench(files: int = 40, *, thorough: bool) -> None:
    """Print the tables; if not `thorough`, those of a quarter of the files by the command alone."""
    if not thorough:
        _brief(files // 4)
        return
    print_heads("build of", "cores", "start, s", "read, s", "derive, s", "records/s", "peak, MB")
    one = _row(files, 1)
    two = _row(files, 2)
    more = _build(files, 2, more=True)
    _print(f"the same and {MORE:.0%} more, the first built before", 2, more)
    first = _command(files, more=False)
    second = _command(files, more=True)
    print()
    print_heads("what", "figure", "bar")
    print_row("two cores, times as fast as one", f"{one.work / two.work:.2f}", "1.6")
    print_row("records/s on two cores", f"{two.records / two.work:,.0f}", "600,000")
    print_row("second run in Spark, of the first", f"{more.work / two.work:.1%}", "")
    print_row("`kgroup history build`, first run, s", f"{first:.1f}", "")
    print_row("second run, s", f"{second:.1f}", "")
    print_row("second run, of the first", f"{second / first:.1%}", "12 %")
    print_row("memory, GiB", f"{two.memory / 1024:.2f}", "4")
    rate, total_size = _many_days()
    print_row(f"77 MiB of {DAYS} days, records/s and core", f"{rate:,.0f}", "200,000")
    print_row("its warehouse, MB", f"{total_size / 1e6:.0f}", "39")
    _questions([files // 4, files // 2])
    print()
    print_heads(
        f"tasks for a partition of {HOT_SIZE >> 20} MiB", "slowest, s", "all, s", "times as fast"
    )
    first = 0.0
    for count, times in _hot_partition().items():
        first = first or max(times)
        print_row(str(count), f"{max(times):.2f}", f"{sum(times):.2f}", f"{first / max(times):.1f}")
    print()
    print_heads(
        "MiB", "threads, s", "s of CPU", "MiB of memory", "Spark, s", "s of CPU", "MiB of memory"
    )
    for count in SIZES:
        cells = [
            figure
            for each in _threads_and_spark(count)
            for figure in (f"{each.wall:.1f}", f"{each.cpu:.1f}", f"{each.memory:.0f}")
        ]
        print_row(f"{count * FILE_SIZE >> 20}", *cells)
    print()
    print_heads("GiB", "read and derive, s", "s per GiB")
    for count in (files // 4, files // 2, files, files * 2):
        size = count * FILE_SIZE / (1 << 30)
        work = _build(count, 2).work if count != files else two.work
        print_row(f"{size:.0f}", f"{work:.1f}", f"{work / size:.2f}")


def _brief(files: int) -> None:
    first = _command(files, more=False)
    second = _command(files, more=True)
    print_heads(f"`kgroup history build`, {files * FILE_SIZE / (1 << 30):.1f} GiB", "s")
    print_row("first run", f"{first:.1f}")
    print_row(f"{MORE:.0%} more input", f"{second:.1f}")
    _questions([files])


def _questions(counts: Sequence[int]) -> None:
    """Ask about all groups of so many files: where all of them storm, and where one in seven does.

    All answers are written as JSON lines, into nothing.
    """
    print()
    print_heads("all groups", "records", "s", "s of CPU", "MiB of memory")
    calm = ["--rate", CALM_RATE]
    for count in counts:
        _command(count, more=False)
        records = sum(
            int((_log(count) / f"{number}.records").read_text()) for number in range(count)
        )
        for words in (["storms"], ["storms", *calm], ["rebalances"], ["stale"]):
            asked = [*KGROUP, "history", *words, "--warehouse", str(HERE / "data" / "warehouse")]
            run = measure([*asked, "-o", "jsonl"])
            cells = f"{records:,}", f"{run.wall:.1f}", f"{run.cpu:.1f}", f"{run.memory:.0f}"
            print_row(" ".join(words), *cells)


def _row(files: int, cores: int) -> Build:
    build = _build(files, cores)
    _print(f"{files} files, {files * FILE_SIZE / (1 << 30):.1f} GiB", cores, build)
    return build


def _print(what: str, cores: int, build: Build) -> None:
    print_row(
        what,
        str(cores),
        f"{build.start:.1f}",
        f"{build.read:.1f}",
        f"{build.rest:.1f}",
        f"{build.records / build.work:,.0f}",
        f"{build.memory:.0f}",
    )


def _command(files: int, *, more: bool) -> float:
    """Run the command as people do; give its seconds."""
    folder, warehouse = _log(files) / ("more" if more else "first"), HERE / "data" / "warehouse"
    if not more:
        shutil.rmtree(warehouse, ignore_errors=True)
    places = [str(folder / f"__consumer_offsets-{number}") for number in range(files)]
    command = [*KGROUP, "history", "build", "--cluster", "bench", "--to", str(warehouse)]
    return measure([*command, "--from", *places]).wall


def _build(files: int, cores: int, *, more: bool = False) -> Build:
    log = _log(files)
    warehouse = HERE / "data" / "warehouse"
    if not more:
        shutil.rmtree(warehouse, ignore_errors=True)
    folder = log / ("more" if more else "first")
    places = [str(folder / f"__consumer_offsets-{number}") for number in range(files)]
    command = [sys.executable, "-m", "bench.history", str(warehouse), f"local[{cores}]", *places]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, env=ENVIRONMENT, cwd=HERE.parent)
    with _peak_of(process.pid) as peak:
        said, _ = process.communicate()
    if process.returncode:
        raise SystemExit(f"{' '.join(command[:5])} …: status {process.returncode}")
    stages = json.loads(said)
    return Build(**stages, memory=max(peak) / 1024)


def _threads_and_spark(files: int) -> tuple[Measurement, Measurement]:
    """Build so many partitions in a new warehouse by threads, and by an embedded Spark."""
    folder, warehouse = _log(files) / "first", HERE / "data" / "warehouse"
    places = [str(folder / f"__consumer_offsets-{number}") for number in range(files)]
    build = ["history", "build", "--cluster", "bench", "--to", str(warehouse), "--from", *places]
    measured = []
    for command in (
        [sys.executable, "-c", _WITHOUT_SPARK, *build],
        [*KGROUP, *build, "--master", "local[*]"],
    ):
        shutil.rmtree(warehouse, ignore_errors=True)
        measured.append(_measure_all(command))
    return measured[0], measured[1]


def _measure_all(command: Sequence[str]) -> Measurement:
    """Run a process to its end; measure it together with all processes below it."""
    begin = perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, env=ENVIRONMENT)
    cpu: dict[int, float] = {}
    with _peak_of(process.pid) as peak:
        while process.poll() is None:
            for member in _family(process.pid):
                cpu[member] = max(_cpu(member), cpu.get(member, 0.0))
            sleep(0.05)
        wall = perf_counter() - begin
    if process.returncode:
        raise SystemExit(f"{' '.join(command[:5])} …: status {process.returncode}")
    return Measurement(wall, sum(cpu.values()), max(peak) / 1024)


def _cpu(pid: int) -> float:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _log(files: int) -> Path:
    """Write the partitions that are not there yet."""
    classes = maven.compile_java([HERE / "java" / "WriteSegment.java"], KAFKA)
    root = HERE / "data" / f"{classes.name}-history"
    for number in range(files):
        name = f"__consumer_offsets-{number}"
        done = root / f"{number}.records"
        if done.exists():
            continue
        for part in ("first", "more"):
            shutil.rmtree(root / part / name, ignore_errors=True)
            (root / part / name).mkdir(parents=True)
        segment = root / "first" / name / f"{5_000_000_000:020}.log"
        sizes = (FILE_SIZE, int(FILE_SIZE * MORE))
        arguments = [segment, sizes[0], COMMITS, "none", PARTITIONS_OF_A_GROUP, "-"]
        arguments += [number, root / "more" / name, sizes[1]]
        written = maven.run_java(
            KAFKA, "WriteSegment", list(map(str, arguments)), classes=classes, timeout=900
        )
        (root / "more" / name / segment.name).hardlink_to(segment)
        done.write_bytes(written.stdout)
    return root


def _many_days() -> tuple[float, int]:
    """Build a log of many days; return records per second of CPU, without the start, and bytes."""
    classes = maven.compile_java([HERE / "java" / "WriteSegment.java"], KAFKA)
    root = HERE / "data" / f"{classes.name}-days"
    segment = root / "log" / "__consumer_offsets-0" / f"{0:020}.log"
    if not segment.exists():
        segment.parent.mkdir(parents=True)
        size = DAYS_SIZE
        arguments = [segment, size, COMMITS, "none", PARTITIONS_OF_A_GROUP, "-", 0, DAYS_PACE_MS]
        maven.run_java(
            KAFKA, "WriteSegment", list(map(str, arguments)), classes=classes, timeout=900
        )
    warehouse = root / "warehouse"
    build = [*KGROUP, "history", "build", "--cluster", "bench", "--to", str(warehouse)]
    shutil.rmtree(warehouse, ignore_errors=True)
    first = measure([*build, "--from", str(segment.parent)])
    again = measure([*build, "--from", str(segment.parent)])
    records = sum(
        pq.read_metadata(file).num_rows
        for table in ("offset_commits", "group_generations", "tombstones")
        for file in (warehouse / table).rglob("*.parquet")
    )
    files = [file for file in warehouse.rglob("*") if file.is_file()]
    return records / (first.cpu - again.cpu), sum(file.stat().st_size for file in files)


def _hot_partition() -> dict[int, list[float]]:
    """Derive owners of one partition by so many tasks; return each task's seconds of CPU."""
    from kgroup.history.build.build import Build as WarehouseBuild
    from kgroup.history.build.derivation import DerivationTask, GroupShare, run_derivation
    from kgroup.history.build.task import run_here
    from kgroup.history.input.segment_source import find_sources
    from kgroup.history.warehouse.warehouse import write_warehouse

    classes = maven.compile_java([HERE / "java" / "WriteSegment.java"], KAFKA)
    root = HERE / "data" / f"{classes.name}-hot"
    segment = root / "log" / "__consumer_offsets-0" / f"{0:020}.log"
    if not segment.exists():
        segment.parent.mkdir(parents=True)
        arguments = [segment, HOT_SIZE, COMMITS, "none", PARTITIONS_OF_A_GROUP, "-"]
        maven.run_java(
            KAFKA, "WriteSegment", list(map(str, arguments)), classes=classes, timeout=900
        )
    shutil.rmtree(root / "warehouse", ignore_errors=True)
    tasks: list[DerivationTask] = []

    def run(function: Callable[[_J], _R], jobs: Sequence[_J], /) -> Iterator[_R]:
        tasks.extend(job for job in jobs if isinstance(job, DerivationTask))
        return run_here(function, jobs)

    with write_warehouse(root / "warehouse") as writer:
        build = WarehouseBuild(writer, run)
        build.read(find_sources([str(segment.parent)], "bench").segments)
        build.commit()
    (derivation,) = tasks[0].derivations

    def seconds(share: GroupShare) -> float:
        begin = process_time()
        run_derivation(replace(tasks[0], derivations=(replace(derivation, share=share),)))
        return process_time() - begin

    return {
        count: [seconds(GroupShare(number, count)) for number in range(count)] for count in SHARES
    }


@contextmanager
def _peak_of(pid: int) -> Iterator[list[int]]:
    """Watch the memory of a process and of all below it, in KiB; what they share counts once."""
    found = [0]
    ended = threading.Event()

    def watch() -> None:
        while not ended.is_set():
            found.append(sum(map(_memory, _family(pid))))
            sleep(0.3)

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield found
    finally:
        ended.set()
        thread.join()


def _family(pid: int) -> list[int]:
    members = [pid]
    for member in members:
        try:
            for children in Path(f"/proc/{member}/task").glob("*/children"):
                members += map(int, children.read_text().split())
        except OSError:
            continue
    return members


def _memory(pid: int) -> int:
    """The proportional size, without the pages of files."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    sizes = {line.split(":")[0]: int(line.split()[1]) for line in lines if line.endswith("kB")}
    return sizes.get("Pss_Anon", 0) + sizes.get("Pss_Shmem", 0)


def _warm(number: int) -> int:
    from kgroup.kernel.compiled import load

    load()
    sleep(0.2)  # so that each worker gets one
    return number


def main() -> None:
    """Build once, in a process of its own; print the seconds of the stages."""
    from functools import partial

    from kgroup.history.build.build import Build as WarehouseBuild
    from kgroup.history.input.segment_source import find_sources
    from kgroup.history.warehouse.warehouse import write_warehouse
    from kgroup.spark.session import run_on, spark_session

    warehouse, master, *places = sys.argv[1:]
    times = [perf_counter()]
    with spark_session(master, only_tasks=True) as session:
        list(run_on(session, _warm, range(8)))  # the workers are started, too
        times.append(perf_counter())
        sources = find_sources(places, "bench")
        with write_warehouse(Path(warehouse)) as writer:
            build = WarehouseBuild(writer, partial(run_on, session))
            build.read(sources.segments)
            times.append(perf_counter())
            report = build.commit()
            times.append(perf_counter())
    tables = [table for each in report.data for table in each.tables]
    own = ("offset_commits", "group_generations", "tombstones")
    records = sum(table.new_row_count for table in tables if table.table in own)
    start, read, rest = (after - before for before, after in pairwise(times))
    print(json.dumps({"start": start, "read": read, "rest": rest, "records": records}))


if __name__ == "__main__":
    main()
