"""``make bench``: decode the same segments with Kafka's dump tool and with kgroup, side by side.

Prints a Markdown table, with the machine, for the README. Segments are written once by Kafka's own
`MemoryRecordsBuilder` (see `java/WriteSegment.java`) into `bench/data`.
"""

import argparse
import os
import shutil
import statistics
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter

from tests.broker import maven

HERE = Path(__file__).parent
KAFKA = "4.3.1"
KGROUP = [sys.executable, "-m", "kgroup"]
SAMPLE = HERE.parent / "kgroup" / "sample" / "log-dir"


@dataclass(frozen=True)
class Variant:
    """A segment to write: its name, the most commits in a batch, its codec."""

    name: str
    commits: int
    codec: str


VARIANTS = (
    Variant("1 to 8 commits a batch", 8, "none"),
    Variant("1 commit a batch", 1, "none"),
    Variant("lz4", 8, "lz4"),
    Variant("zstd", 8, "zstd"),
)
PARTITIONS_OF_A_GROUP = 50


@dataclass(frozen=True)
class Measurement:
    """One process: wall clock and processor time in seconds, peak of resident memory in MiB."""

    wall: float
    cpu: float
    memory: float


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", type=int, default=1024, help="MiB a segment (default 1024)")
    parser.add_argument("--runs", type=int, default=3, help="runs of kgroup; the median counts")
    parser.add_argument("--variant", action="append", choices=[v.name for v in VARIANTS])
    options = parser.parse_args()
    print(f"Machine: {_machine()}. Kafka {KAFKA}, Python {sys.version.split()[0]}.\n")
    columns = ("segment", "records", "job", "Kafka's tool, s", "kgroup, s", "ratio", "peak, MB")
    _print_row(*columns)
    _print_row(*("---" for _ in columns))
    for variant in VARIANTS:
        if not options.variant or variant.name in options.variant:
            _bench_decoding(variant, options.size << 20, options.runs)
    print()
    _bench_start()


def _bench_decoding(variant: Variant, size: int, runs: int) -> None:
    segment, records = _segment(variant, size)
    with _output() as folder:
        dump = _kafka_dump(segment)
        jobs = {
            "to Parquet": ["--parquet", str(folder / "rows.parquet")],
            "`--latest -o jsonl`": ["--latest", "-o", "jsonl"],
            "`-o jsonl`": ["-o", "jsonl"],
        }
        for job, arguments in jobs.items():
            command = [*KGROUP, "decode-offsets", str(segment), *arguments]
            measured = _median([_measure(command) for _ in range(runs + 1)][1:])
            _print_row(
                f"{variant.name}, {size >> 20} MiB",
                f"{records:,}",
                job,
                f"{dump.wall:.1f}",
                f"{measured.wall:.2f}",
                f"{dump.wall / measured.wall:.0f}",
                f"{measured.memory:.0f}",
            )


def _bench_start() -> None:
    small = min(
        SAMPLE.glob("__consumer_offsets-*/*.log"), key=lambda f: abs(f.stat().st_size - 10_000)
    )
    _print_row("start-up, warm", "s")
    _print_row("---", "---")
    for name, arguments in (
        ("`kgroup --help`", ["--help"]),
        (
            f"`kgroup decode-offsets`, a segment of {small.stat().st_size / 1000:.0f} KB",
            ["decode-offsets", str(small), "-o", "jsonl"],
        ),
    ):
        measured = _median([_measure([*KGROUP, *arguments]) for _ in range(12)][2:])
        _print_row(name, f"{measured.wall:.3f}")


def _print_row(*cells: str) -> None:
    print("| " + " | ".join(cells) + " |", flush=True)


def _segment(variant: Variant, size: int) -> tuple[Path, int]:
    """Write the segment, if it is not there yet; return it and its number of records."""
    source = HERE / "java" / "WriteSegment.java"
    classes = maven.compile_java([source], KAFKA)
    folder = HERE / "data" / f"{classes.name}-{size}-{variant.commits}-{variant.codec}"
    segment = folder / "__consumer_offsets-7" / f"{5_000_000_000:020}.log"
    count = folder / "records"
    if not count.exists():
        shutil.rmtree(folder, ignore_errors=True)
        segment.parent.mkdir(parents=True)
        arguments = [segment, size, variant.commits, variant.codec, PARTITIONS_OF_A_GROUP]
        done = maven.run_java(
            KAFKA, "WriteSegment", list(map(str, arguments)), classes=classes, timeout=900
        )
        count.write_bytes(done.stdout)
    _read_once(segment)
    return segment, int(count.read_text())


def _kafka_dump(segment: Path) -> Measurement:
    main_class = "org.apache.kafka.tools.DumpLogSegments"
    arguments = ["--offsets-decoder", "--print-data-log", "--files", str(segment)]
    classpath = maven.java_classpath(KAFKA)
    # kafka-run-class.sh: 256 MB of heap, G1 with the options of KAFKA_JVM_PERFORMANCE_OPTS.
    jvm = ["-Xmx256M", "-server", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20"]
    return _measure(["java", *jvm, "-cp", classpath, main_class, *arguments])


def _measure(command: Sequence[str]) -> Measurement:
    """Run a process to its end, its output thrown away."""
    begin = perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    assert process.stderr is not None
    said = process.stderr.read()
    _, status, usage = os.wait4(process.pid, 0)
    wall = perf_counter() - begin
    process.returncode = os.waitstatus_to_exitcode(status)
    if status:
        raise SystemExit(f"{' '.join(command)}: status {status}\n{said.decode()}")
    return Measurement(wall, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024)


def _median(runs: Sequence[Measurement]) -> Measurement:
    return Measurement(
        statistics.median(run.wall for run in runs),
        statistics.median(run.cpu for run in runs),
        max(run.memory for run in runs),
    )


def _read_once(file: Path) -> None:
    """Bring the file into the page cache, so that both read it from there."""
    with file.open("rb") as opened:
        while opened.read(1 << 24):
            pass


@contextmanager
def _output() -> Iterator[Path]:
    with TemporaryDirectory(dir=HERE / "data") as folder:
        yield Path(folder)


def _machine() -> str:
    model = "unknown processor"
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            model = line.split(":", 1)[1].strip()
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / (1 << 30)
    return f"{os.cpu_count()} cores, {model}, {memory:.0f} GiB"


if __name__ == "__main__":
    main()
