"""Specs and files of offsets, damaged and up to 200 MB large; the peak of memory is measured.

An input is the seed of a file: one in twenty is large.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from random import Random

from tests.fuzz.mutation import Input
from tests.fuzz.run import Lane

_MARK = b"large file "
_BASE_MIB = 250
_TIMES = 30
"""How many times its size a file may take: `{}` becomes 64 bytes."""
_LARGE = 20
_PEAK = """
import resource, subprocess, sys
run = subprocess.run([sys.executable, "-m", "kgroup", *sys.argv[1:]], capture_output=True)
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss >> 10, run.returncode)
print(run.stderr[-4000:].decode(errors="replace"))
"""
_ROW = {"group_id": "g", "topic": "t", "partition": 0, "committed_offset": 1, "metadata": ""}
_MEMBER = {"member_id": "m", "topics": ["t"], "owned": [["t", 0]]}
_PARTS = (
    *(b"{}", b"[]", b"0", b'""', b"[", b"{", b"\n", b"\0", b"\xff", b" ", b'{"a":', b"g,t,0,1\n"),
    json.dumps(_ROW).encode(),
    json.dumps(_MEMBER).encode(),
)
_HEADS = (
    *(b"", b"[", b'{"data":[', b'{"x":['),
    b'{"command":"offsets show","schema_version":1,"data":[\n',
    b'{"strategy":"range","topics":{"t":{"partitions":3}},"members":[',
    b"\xff\xfe",
)
_COMMANDS = ("offsets show --all --file", "offsets show g --file", "assign --dry-run --spec")


def _make_file(seed: int, number: int) -> Input:
    random = Random(f"files/{seed}/{number}")
    return Input("files", _MARK + f"{random.getrandbits(64)}\n".encode(), random)


def _check_file(data: bytes, folder: Path, random: Random) -> None:
    """Read a file by a command of its own.

    Raises:
        AssertionError: it ends as no command may, or takes too much memory.
    """
    random = Random(data)
    most = 200_000_000 if random.random() < 1 / _LARGE else 200_000
    size = random.randrange(most)
    part = random.choice(_PARTS) + random.choice((b",", b",\n", b"\n", b""))
    text = random.choice(_HEADS) + part * (size // len(part)) + random.choice((b"]}", b"]", b""))
    file = folder / "file"
    file.write_bytes(text)
    command = random.choice(_COMMANDS).split()
    try:
        run = subprocess.run(
            [sys.executable, "-c", _PEAK, *command, str(file), "-o", "csv"],
            capture_output=True,
            text=True,
            check=True,
        )
    finally:
        file.unlink()
    figures, said = run.stdout.split("\n", 1)
    peak, status = map(int, figures.split())
    assert 0 <= status <= 4, (command, text[:200], status, said)
    assert "bug in kgroup" not in said, (command, text[:200], said)
    limit = _BASE_MIB + _TIMES * (len(text) >> 20)
    assert peak < limit, (command, text[:200], len(text), peak, limit)


def _read_sound_file(folder: Path) -> None:
    file = folder / "sound.csv"
    file.write_text("g,t,0,1\n")
    subprocess.run(
        [sys.executable, "-m", "kgroup", "offsets", "show", "g", "--file", str(file)],
        capture_output=True,
        check=True,
    )


FILES = Lane(_make_file, _check_file, _read_sound_file, _MARK)
"""Files that are damaged, and may be large."""
