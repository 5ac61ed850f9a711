"""What a damaged log goes through, and what has to hold."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random
from unittest.mock import patch

from kgroup.cli.main import status_of
from kgroup.columnar import input_size
from kgroup.columnar.chunk_size import SIZES
from kgroup.columnar.segment_check import is_allocated_ahead
from kgroup.errors import ExitStatus
from kgroup.protocol.batch.batch import Damage, RecordBatch
from kgroup.protocol.batch.record_batch import read_batches, read_file_batches, read_records
from kgroup.source.log.segment_file import log_end
from tests.columnar.equality import (
    Decoded,
    DifferentError,
    decoded,
    groups,
    same,
    same_lines,
    same_rows,
    scanned,
)
from tests.fresh_file import write_fresh

_COMMANDS = (
    *(("decode-offsets", "FILE", "-o", form) for form in ("json", "csv", "table", "markdown")),
    ("decode-offsets", "FILE", "--strict", "-o", "tsv"),
    ("decode-offsets", "FILE", "--stats"),
    ("decode-offsets", "FILE", "--stats", "-o", "json"),
    ("decode-offsets", "FILE", "--latest", "-o", "jsonl"),
    ("decode-offsets", "FILE", "--as-of", "1790000000000", "-o", "jsonl"),
    ("decode-offsets", "FILE", "--as-of", "offset:20", "--isolation", "read-committed"),
    ("decode-offsets", "FILE", "--since", "2d", "--regex", ".*o.*", "--type", "OffsetCommit"),
    ("decode-offsets", "FILE", "--parquet", "PARQUET"),
    ("decode-offsets", "PLAIN"),
    ("list", "--log-dir", "FOLDER"),
    ("list", "--log-dir", "FOLDER", "-o", "json"),
    ("describe", "--log-dir", "FOLDER", "--all"),
    ("describe", "--log-dir", "FOLDER", "--all", "-o", "json"),
)
_OFTEN = 6
"""One of so many inputs goes through a command too."""


@dataclass(frozen=True)
class _Sizes:
    """Of chunks, so that even a short log is cut, and decoding goes on behind damage."""

    chunk: int
    smallest: int
    piece: int
    sound: int

    @classmethod
    def chosen(cls, random: Random) -> _Sizes:
        return cls(
            random.choice((100, 1000, 16 << 20)),
            random.choice((100, 1000)),
            random.choice((64, 500, 1 << 19)),
            random.choice((0, 300, 1 << 10)),
        )

    @contextmanager
    def set(self) -> Iterator[None]:
        with (
            patch.object(SIZES, "chunk", self.chunk),
            patch.object(SIZES, "smallest_chunk", self.smallest),
            patch.object(SIZES, "piece", self.piece),
            patch.object(SIZES, "sound", (self.sound, 1 << 16)),
        ):
            yield


def check(data: bytes, folder: Path, random: Random, *, every_command: bool = False) -> None:
    """Read a log in every way.

    Args:
        data: the log.
        folder: where to write it.
        random: chooses sizes of chunks, and one command for some inputs.
        every_command: whether to run all commands instead.

    Raises:
        DifferentError: see there.
        Exception: whatever a reader lets out.
    """
    _read_batches(data, random)
    partition = folder / "__consumer_offsets-3"
    partition.mkdir(exist_ok=True)
    path = partition / "00000000000000000000.log"
    write_fresh(path, data)
    log_end(path, 0)
    expected = decoded(path, by_kernel=False)
    sizes = _Sizes.chosen(random)
    with sizes.set():
        compiled = decoded(path, by_kernel=True)
        scan, replayed = scanned(path, compiled=True), groups(path, compiled=True)
    same([scan], [scanned(path, compiled=False)], "compiled and reference scan")
    same(replayed, groups(path, compiled=False), "groups by compiled and by plain replay")
    same_rows(compiled, expected)
    if every_command or random.randrange(_OFTEN) == 0:
        _check_json_lines(path, expected, compiled)
        chosen = _COMMANDS if every_command else [random.choice(_COMMANDS)]
        plain = folder / "some.log"
        write_fresh(plain, data)
        names = {"FILE": path, "PLAIN": plain, "FOLDER": folder, "PARQUET": folder / "some.parquet"}
        for command in chosen:
            _run_both_ways([str(names.get(word, word)) for word in command], sizes)


def _read_batches(data: bytes, random: Random) -> None:
    """Every byte once, in chunks as in one piece, and every record of what can be trusted."""
    items = list(read_batches(data))
    _tiled(items, 0, len(data))
    chunk_size = random.choice((1, 61, 100, 1000, 1 << 16))
    chunked = list(read_file_batches(io.BytesIO(data), chunk_size=chunk_size))
    same(chunked, items, f"a log in chunks of {chunk_size} bytes and in one piece")
    _tiled(list(read_batches(data, final=False)), 0, None)
    for item in items:
        if isinstance(item, RecordBatch):
            _read_records(item)


def _tiled(items: Sequence[RecordBatch | Damage], start: int, end: int | None) -> None:
    position = start
    for before, item in zip([None, *items], items, strict=False):
        if item.position != position or item.size <= 0:
            raise DifferentError(f"expected an item at byte {position}, found {item}")
        if isinstance(before, Damage) and isinstance(item, Damage):
            raise DifferentError(f"damage beside damage: {before}, {item}")
        position += item.size
    if end is not None and position != end:
        raise DifferentError(f"expected items up to byte {end}, found them up to {position}")


def _read_records(batch: RecordBatch) -> None:
    found = list(read_records(batch))
    damages = [item for item in found if isinstance(item, Damage)]
    for damage in damages:
        end = damage.position + damage.size
        if damage.position < batch.position or end > batch.position + batch.size:
            raise DifferentError(f"damage beyond its batch at {batch.position}: {damage}")
    if not damages and batch.record_count not in (None, len(found)):
        raise DifferentError(
            f"{batch.record_count} records announced, {len(found)} read, no damage"
        )


def _check_json_lines(path: Path, expected: Decoded, compiled: Decoded) -> None:
    """One text by the command line, from compiled columns, and from records as objects."""
    lines = same_lines(compiled, expected)
    status, out = _run(["decode-offsets", str(path), "-o", "jsonl"])
    same(out.splitlines(), lines.splitlines(), "lines of the command and of records")
    damaged = any(not is_allocated_ahead(damage, path) for _, damage in expected.damages)
    same([status], [ExitStatus.PARTLY if damaged else ExitStatus.DONE], "exit status")


def _run_both_ways(args: Sequence[str], sizes: _Sizes) -> None:
    """Run a command on a log that counts as small, and as large: one status, one output."""
    never = 1 << 62
    with patch.multiple(
        input_size, LARGE=never, _LARGE_IF_KEPT=never, _LARGE_IF_LOADED=never, _MANY=never
    ):
        status, out = _run(args)
    with patch.object(input_size, "LARGE", 0), sizes.set():
        found = _run(args)
    command = f"compiled and plain {' '.join(args)}"
    same([found[0]], [status], f"exit status of {command}")
    same(found[1].splitlines(), out.splitlines(), command)


def _run(args: Sequence[str]) -> tuple[int, bytes]:
    """Run a command in this process; give its exit status and standard output."""
    out = io.TextIOWrapper(io.BytesIO(), "utf-8")
    with (
        patch.object(sys, "stdout", out),
        patch.object(sys, "stderr", io.StringIO()),
        patch.dict(os.environ, {"KGROUP_DEBUG": "1"}),  # which lets unexpected errors out
    ):
        status = status_of(args)
    if status not in (*ExitStatus,) or status == ExitStatus.USAGE:
        raise DifferentError(f"exit status {status} of {' '.join(args)}")
    out.seek(0)
    return status, out.buffer.read()
