"""Memory that files take which are too large, endless, or hold nothing but millions of values."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

_PEAK = """
import resource, subprocess, sys
run = subprocess.run([sys.executable, "-m", "kgroup", *sys.argv[1:]], capture_output=True)
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
print(run.returncode)
print(run.stderr.decode())
"""
_MOST_MIB = 200
"""Above what every command takes (30 MiB), files of 25 MB are held a few times at most."""


def peak_of(*args: object) -> tuple[int, int, str]:
    """Run a command; give its peak of resident memory in MiB, its status and what it says."""
    command = [sys.executable, "-c", _PEAK, *map(str, args)]
    run = subprocess.run(command, capture_output=True, text=True, check=True)
    peak, status, said = run.stdout.split("\n", 2)
    return int(peak) >> 10, int(status), said


@pytest.mark.slow
@pytest.mark.parametrize(
    ("write", "command"),
    [
        (lambda: b"[" + b"{}," * 8_000_000, "assign --dry-run --spec"),
        (lambda: b"{}\n" * 1_000_000, "assign --dry-run --spec"),
        (lambda: b"{}\n" * 8_000_000, "offsets show --all --file"),
        (lambda: b'{"x":[' + b"{}," * 8_000_000, "offsets show --all --file"),
        (lambda: b'{"schema_version":1,"data":[' + b"{}," * 8_000_000, "offsets show --all --file"),
        (lambda: b"[" + b"{}," * 8_000_000, "offsets show g --file"),
        (lambda: b"x" * 25_000_000, "offsets show --all --file"),
        (lambda: b'{"x":[' + b"{}," * 8_000_000, "describe g --snapshot"),
        (lambda: b'{"x":[' + b"{}," * 8_000_000, "plan verify --sample --step 1"),
    ],
)
def test_millions_of_values(tmp_path: Path, write: Callable[[], bytes], command: str) -> None:
    file = tmp_path / "file"
    file.write_bytes(write())
    peak, status, said = peak_of(*command.split(), file)
    assert status == 1
    assert "error:" in said or "bad-spec:" in said
    assert "bug" not in said
    assert peak < _MOST_MIB, said


@pytest.mark.slow
def test_a_spec_of_too_many_values_is_refused_before_they_are_made(tmp_path: Path) -> None:
    """They took 4.1 GB, and more than three minutes."""
    file = tmp_path / "spec.json"
    topics = b'{"strategy":"range","topics":{"t":{"partitions":3}},"members":['
    file.write_bytes(topics + b"{}," * 40_000_000 + b"{}]}")
    peak, status, said = peak_of("assign", "--dry-run", "--spec", file)
    assert status == 1
    assert "expected at most 10,000,000 values in a file, found 40,000,00" in said.lower()
    assert peak < 2 * (file.stat().st_size >> 20) + 60  # a copy, while it is read


@pytest.mark.parametrize(
    "command",
    [
        "assign --dry-run --spec",
        "offsets show --all --file",
        "describe g --snapshot",
        "plan verify --sample --step 1",
        "simulate",
        "check --sample --all --baseline",
    ],
)
def test_devices_without_an_end(command: str) -> None:
    peak, status, said = peak_of(*command.split(), "/dev/zero")
    assert status == 1
    assert "/dev/zero: expected" in said
    assert peak < _MOST_MIB, said


@pytest.mark.parametrize(
    ("size", "told"),
    [(200_000_000, "expected rows of at most 16 MiB"), (4_000_000, "at most 1,048,576 characters")],
)
def test_a_large_cell_of_a_table(tmp_path: Path, size: int, told: str) -> None:
    """SQLite holds rows as a whole; of others a database sends what is needed to refuse them."""
    file = tmp_path / "offsets.db"
    with closing(sqlite3.connect(file)) as connection, connection:
        connection.execute(
            "CREATE TABLE t_offset "
            "(group_id TEXT, topic TEXT, partition INTEGER, offset INTEGER, metadata TEXT)"
        )
        connection.execute(
            "INSERT INTO t_offset VALUES ('g', 't', 0, 1, hex(zeroblob(?)))", (size // 2,)
        )
    columns = ("--sql-column", "metadata=metadata")
    peak, status, said = peak_of("offsets", "show", "g", "--sql", file, *columns)
    assert (status, told in said) == (1, True), said
    assert peak < 80


@pytest.mark.slow
def test_offsets_of_named_groups_are_read_line_by_line(tmp_path: Path) -> None:
    """Of 300,000 offsets a thousand are kept."""
    file = tmp_path / "offsets.csv"
    file.write_text("".join(f"group-{n >> 10},t,{n & 1023},{n}\n" for n in range(300_000)))
    peak, status, said = peak_of("offsets", "show", "group-7", "--file", file, "-o", "csv")
    assert (status, said.strip()) == (0, "")
    assert peak < 80
