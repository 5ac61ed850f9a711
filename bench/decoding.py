"""Decode the same segments with Kafka's dump tool and with kgroup.

Segments are written once by Kafka's own `MemoryRecordsBuilder` (see `java/WriteSegment.java`) into
`bench/data`. The metadata of their groups is what real clients wrote: that of the recorded data.
"""

from __future__ import annotations

import shutil
import statistics
import struct
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from zlib import crc32

from bench.measure import (
    HERE,
    KAFKA,
    KGROUP,
    Measurement,
    kafka_tool,
    measure,
    median,
    print_heads,
    print_row,
)
from kgroup.columnar.segment import decode_chunks
from kgroup.protocol.batch.batch import Damage, Record, RecordBatch
from kgroup.protocol.batch.record_batch import read_file_batches, read_records
from kgroup.protocol.record.coordinator_record import decode_record
from kgroup.render.parquet import write_parquet
from tests.broker import maven

SAMPLE = HERE.parent / "kgroup" / "sample" / "log-dir"
RECORDED = HERE.parent / "tests" / "data"
PROTOCOLS = {
    *("range", "roundrobin", "sticky", "cooperative-sticky", "stream"),
    *("default", "compatible", "sessioned"),
}
"""What consumers and Connect's workers agree on; others were made up for tests."""


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


def bench(variants: Sequence[str], size: int, runs: int) -> None:
    """Print the table; `variants` are names, `size` is in bytes."""
    print_heads("segment", "records", "job", "Kafka's tool, s", "kgroup, s", "ratio", "peak, MB")
    for variant in VARIANTS:
        if variant.name in variants:
            _bench_decoding(variant, size, runs)


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
            measured = median([_measure_anew(command, folder) for _ in range(runs + 1)][1:])
            print_row(
                f"{variant.name}, {size >> 20} MiB",
                f"{records:,}",
                job,
                f"{dump.wall:.1f}",
                f"{measured.wall:.2f}",
                f"{dump.wall / measured.wall:.0f}",
                f"{measured.memory:.0f}",
            )
        alone = f"{_pyarrow_alone(segment, folder / 'alone.parquet', runs):.2f}"
        print_row("", "", "pyarrow alone, rows in memory to Parquet", "", alone, "", "")


def _pyarrow_alone(segment: Path, file: Path, runs: int) -> float:
    """Tell what of Parquet is the library's: seconds in which all rows are written once decoded."""
    batches = [part for part in decode_chunks(segment) if not isinstance(part, Damage)]
    seconds = []
    for _ in range(runs):
        file.unlink(missing_ok=True)
        begin = perf_counter()
        with file.open("wb", buffering=1 << 20) as output:
            write_parquet(output, lambda function: map(function, batches), ())
        seconds.append(perf_counter() - begin)
    return statistics.median(seconds)


def _measure_anew(command: Sequence[str], folder: Path) -> Measurement:
    """Measure a job that finds nothing of the run before: to remove a file takes a while, too."""
    for file in folder.iterdir():
        file.unlink()
    return measure(command)


def _segment(variant: Variant, size: int) -> tuple[Path, int]:
    """Write the segment, if it is not there yet; return it and its number of records."""
    source = HERE / "java" / "WriteSegment.java"
    classes = maven.compile_java([source], KAFKA)
    metadata = _recorded_metadata()
    metadata_file = HERE / "data" / f"group-metadata-{crc32(metadata):08x}"
    name = f"{classes.name}-{crc32(metadata):08x}-{size}-{variant.commits}-{variant.codec}"
    folder = HERE / "data" / name
    segment = folder / "__consumer_offsets-7" / f"{5_000_000_000:020}.log"
    count = folder / "records"
    if not count.exists():
        shutil.rmtree(folder, ignore_errors=True)
        segment.parent.mkdir(parents=True)
        metadata_file.write_bytes(metadata)
        arguments = [segment, size, variant.commits, variant.codec, PARTITIONS_OF_A_GROUP]
        arguments.append(metadata_file)
        done = maven.run_java(
            KAFKA, "WriteSegment", list(map(str, arguments)), classes=classes, timeout=900
        )
        count.write_bytes(done.stdout)
    _read_once(segment)
    return segment, int(count.read_text())


def _recorded_metadata() -> bytes:
    """The values of recorded groups with members, by protocol, as `WriteSegment` reads them."""
    values: defaultdict[tuple[str, str], list[bytes]] = defaultdict(list)
    folders = [folder for folder in RECORDED.iterdir() if folder.name != "damaged"]
    for folder in (*sorted(folders), SAMPLE):
        for path in sorted(folder.glob("__consumer_offsets-*/*.log")):
            for record in _records(path):
                name, _, decoded = decode_record(record.key, record.value)
                if name == "GroupMetadata" and decoded is not None and record.value:
                    group = decoded["data"]
                    if group["protocol"] in PROTOCOLS and group["members"]:
                        values[group["protocolType"], group["protocol"]].append(record.value)
    out = bytearray()
    for _, found in sorted(values.items()):
        out += struct.pack(">i", len(found))
        out += b"".join(struct.pack(">i", len(value)) + value for value in found)
    return bytes(out)


def _records(path: Path) -> Iterator[Record]:
    with path.open("rb", buffering=0) as file:
        for batch in read_file_batches(file):
            if isinstance(batch, RecordBatch) and not batch.is_control:
                yield from (item for item in read_records(batch) if isinstance(item, Record))


def _kafka_dump(segment: Path) -> Measurement:
    arguments = ["--offsets-decoder", "--print-data-log", "--files", str(segment)]
    return measure(kafka_tool("org.apache.kafka.tools.DumpLogSegments", *arguments))


def _read_once(file: Path) -> None:
    """Bring the file into the page cache, so that both read it from there."""
    with file.open("rb") as opened:
        while opened.read(1 << 24):
            pass


@contextmanager
def _output() -> Iterator[Path]:
    with TemporaryDirectory(dir=HERE / "data") as folder:
        yield Path(folder)
