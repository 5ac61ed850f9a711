"""The files that kgroup writes, see `kgroup.atomic_file`."""

from __future__ import annotations

import errno
import gzip
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kgroup import atomic_file
from kgroup.atomic_file import INPUTS, FileKind, new_file, output_file
from kgroup.errors import InputError, KgroupError, UsageError

SNAPSHOT = b'{"command":"snapshot",\n"schema_version":2,\n"groups":[]}\n'
KIND = FileKind.SNAPSHOT


@pytest.fixture(autouse=True)
def _no_inputs() -> Iterator[None]:
    INPUTS.clear()
    yield
    INPUTS.clear()


def write(path: Path, data: bytes = SNAPSHOT, *, force: bool = False) -> None:
    with output_file(path, KIND, force=force) as file:
        file.write(data)


def write_new(path: Path) -> None:
    with new_file(path) as file:
        file.write(SNAPSHOT)


@pytest.mark.parametrize("umask", [0, 0o022, 0o077, 0o777])
@pytest.mark.parametrize("make", [write, write_new])
def test_a_new_file_is_its_owners_alone(
    tmp_path: Path, umask: int, make: Callable[[Path], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """From the first byte on: it is looked at while it is written, too."""
    made = []

    def widen(number: int, mode: int) -> None:
        made.append(os.fstat(number).st_mode & 0o177)
        os.chmod(number, mode)

    monkeypatch.setattr(os, "fchmod", widen)
    before = os.umask(umask)
    try:
        with output_file(tmp_path / "open", KIND) as file:
            file.write(b"x")
            file.flush()
            (unfinished,) = tmp_path.iterdir()
            assert unfinished.stat().st_mode & 0o777 == 0o600
        make(tmp_path / "made")
    finally:
        os.umask(before)
    assert {path.name: path.stat().st_mode & 0o777 for path in tmp_path.iterdir()} == {
        "open": 0o600,
        "made": 0o600,
    }
    assert made == [0, 0]


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o666])
def test_a_file_that_is_replaced_keeps_its_permissions(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "old"
    path.write_bytes(SNAPSHOT)
    path.chmod(mode)
    write(path, SNAPSHOT + b"\n")
    assert (path.read_bytes(), path.stat().st_mode & 0o777) == (SNAPSHOT + b"\n", mode)


def parquet(path: Path, **metadata: str) -> None:
    with pq.ParquetWriter(path, pa.schema([("a", pa.int64())])) as writer:
        if metadata:
            writer.add_key_value_metadata(
                {key.replace("_", "."): metadata[key] for key in metadata}
            )


OF_KIND: dict[FileKind, list[bytes]] = {
    FileKind.SNAPSHOT: [
        SNAPSHOT,
        b'{\n  "command": "snapshot",\n  "schema_version": 2}',  # as jq writes it
        gzip.compress(SNAPSHOT),
    ],
    FileKind.OFFSETS: [
        b'{"command":"offsets show","schema_version":1,"data":[]}',
        b'{"group_id":"a\\"b","topic":"t","partition":0,"committed_offset":7,"leader_epoch":null,'
        b'"metadata":"","commit_timestamp_ms":1}\n',
        b'{"group_id":"g","topic":"t","partition":0,"committed_offset":null,"leader_epoch":null,'
        b'"metadata":null,"commit_timestamp_ms":null}\n',
    ],
    FileKind.COMPLETION: [b"# Completion of kgroup for fish.\n"],
    FileKind.METRICS: [b"# HELP kgroup_build_timestamp_seconds Time of the run.\n"],
    FileKind.PAGE: [
        b'<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        b'<meta name="generator" content="kgroup 0.1.0">\n'
    ],
}
OTHERS = [
    b"my notes",
    b"topic,1,7\n",
    b"# HELP node_time_seconds System time.\n",
    b'{"command":"list","schema_version":1,"data":[]}',
    b'{"data":{"command":"snapshot"}}',
    b'{"topic":"t","partition":0,"offset":1}',
    b"\x1f\x8b but no gzip",
    gzip.compress(b"my notes"),
    b"SQLite format 3\0",
    b'<!DOCTYPE html>\n<html><head><meta name="generator" content="Hugo 0.1"></head></html>',
    b"PAR1PAR1",
    bytes(100),
]


@pytest.mark.parametrize("kind", FileKind)
def test_only_a_file_of_the_same_kind_is_replaced(tmp_path: Path, kind: FileKind) -> None:
    path = tmp_path / "file"
    for other, contents in [*OF_KIND.items(), *((None, [each]) for each in OTHERS)]:
        for data in contents:
            path.write_bytes(data)
            assert kind.is_kind_of(path) == (other is kind), data
            if other is kind:
                continue
            with pytest.raises(InputError, match="--force"), output_file(path, kind):
                raise AssertionError
            assert path.read_bytes() == data


def test_parquet_files_are_told_by_their_metadata(tmp_path: Path) -> None:
    own, other, old = tmp_path / "own", tmp_path / "other", tmp_path / "old"
    parquet(own, kgroup_command="decode-offsets")
    assert pq.read_metadata(own).metadata[b"kgroup.command"] == b"decode-offsets"
    parquet(other, kgroup_command="something-else")
    parquet(old)
    told = [FileKind.RECORDS.is_kind_of(path) for path in (own, other, old)]
    assert told == [True, False, False]


def test_an_empty_file_is_replaced(tmp_path: Path) -> None:
    """As `mktemp` makes it: nothing is lost."""
    path = tmp_path / "empty"
    path.touch()
    write(path)
    assert path.read_bytes() == SNAPSHOT


def names_of(path: Path, folder: Path) -> Iterator[Path]:
    """Other names of a file."""
    yield path
    (folder / "link").symlink_to(path)
    yield folder / "link"
    os.link(path, folder / "hard")
    yield folder / "hard"
    yield Path(os.path.relpath(path))
    yield path.parent / "." / ".." / path.parent.name / path.name
    (folder / "links").symlink_to(path.parent)
    yield folder / "links" / path.name
    number = os.open(path, os.O_RDONLY)
    try:
        yield Path(f"/proc/self/fd/{number}")
        yield Path(f"/dev/fd/{number}")
    finally:
        os.close(number)


@pytest.mark.parametrize("data", [SNAPSHOT, b"my notes", b""])
def test_an_input_is_never_replaced(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "in").mkdir()
    path = tmp_path / "in" / "input"
    path.write_bytes(data)
    INPUTS.append(path)
    for name in names_of(path, tmp_path):
        for force in (False, True):
            with pytest.raises(UsageError, match="this command reads that file"):
                write(name, force=force)
        assert path.read_bytes() == data
    assert [each.name for each in (tmp_path / "in").iterdir()] == ["input"]


def test_standard_input_is_an_input(tmp_path: Path) -> None:
    path = tmp_path / "input"
    path.write_bytes(SNAPSHOT)
    script = (
        "import sys; from pathlib import Path; from kgroup.atomic_file import *\n"
        "with output_file(Path(sys.argv[1]), FileKind.SNAPSHOT, force=True) as file: pass"
    )
    with path.open("rb") as file:
        ended = subprocess.run(
            [sys.executable, "-c", script, path], stdin=file, capture_output=True, check=False
        )
    assert b"this command reads that file" in ended.stderr
    assert path.read_bytes() == SNAPSHOT


@pytest.mark.parametrize("data", [b"segment", b""])
def test_what_lies_in_a_folder_that_is_read_is_never_replaced(tmp_path: Path, data: bytes) -> None:
    """A segment that lies elsewhere, too, where the folder has a link to it."""
    logs = tmp_path / "logs" / "__consumer_offsets-0"
    logs.mkdir(parents=True)
    (logs / "loop").symlink_to(logs.parent)
    inside, outside = logs / "0.log", tmp_path / "outside.log"
    for path in (inside, outside):
        path.write_bytes(data)
    (logs / "1.log").symlink_to(outside)
    INPUTS.append(tmp_path / "logs")
    for path in (inside, outside, logs / "1.log"):
        for force in (False, True):
            with pytest.raises(UsageError, match=r"lies in .*logs, which this command reads"):
                write(path, force=force)
    assert (inside.read_bytes(), outside.read_bytes()) == (data, data)
    for _ in range(2):  # a new file there, and yesterday's of the same name
        write(logs / "snapshot.json")


def test_force_replaces_what_is_no_input(tmp_path: Path) -> None:
    path = tmp_path / "notes"
    path.write_bytes(b"my notes")
    write(path, force=True)
    assert path.read_bytes() == SNAPSHOT


def test_a_file_that_comes_meanwhile_stays(tmp_path: Path) -> None:
    path = tmp_path / "file"

    def write_beside(file: BinaryIO) -> None:
        file.write(SNAPSHOT)
        path.write_bytes(b"my notes")

    for context in (output_file(path, KIND), new_file(path)):
        with (
            pytest.raises((InputError, FileExistsError), match=r"found another file|exists"),
            context as file,
        ):
            write_beside(file)
        assert path.read_bytes() == b"my notes"
        path.unlink()


def test_a_link_to_a_file_stays_a_link(tmp_path: Path) -> None:
    """Also one to a file that is made now."""
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "file")
    for _ in range(2):
        write(link)
        assert link.is_symlink()
        assert (tmp_path / "file").read_bytes() == SNAPSHOT


def test_a_backup_takes_the_place_of_nothing(tmp_path: Path) -> None:
    for name in ("empty", "dangling", "folder"):
        path = tmp_path / name
        path.symlink_to("nowhere") if name == "dangling" else path.touch()
        with pytest.raises(FileExistsError):
            write_new(path)
    assert not (tmp_path / "nowhere").exists()


def test_a_failure_half_way_leaves_what_was_there(tmp_path: Path) -> None:
    old, new = tmp_path / "old", tmp_path / "new"
    old.write_bytes(SNAPSHOT)

    def fail(file: BinaryIO, error: BaseException) -> None:
        file.write(b"half")
        file.flush()
        raise error

    for error in (KeyboardInterrupt(), SystemExit(), ValueError(), InputError("no")):
        for context in (output_file(old, KIND), output_file(new, KIND), new_file(new)):
            with pytest.raises(type(error)), context as file:
                fail(file, error)
        assert [path.name for path in tmp_path.iterdir()] == ["old"]
    assert old.read_bytes() == SNAPSHOT


def test_a_full_disk_is_told_with_the_name_that_was_typed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(number: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    for make in (write, write_new):
        with pytest.raises(OSError, match="No space left") as error:
            make(tmp_path / "file")
        assert error.value.filename == str(tmp_path / "file")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("make", [write, write_new])
def test_a_name_as_long_as_names_can_be(tmp_path: Path, make: Callable[[Path], None]) -> None:
    make(tmp_path / ("x" * 255))
    with pytest.raises(InputError, match="File name too long"):
        make(tmp_path / ("x" * 256))
    assert [path.name for path in tmp_path.iterdir()] == ["x" * 255]


@pytest.mark.parametrize("make", [write, write_new])
def test_names_that_no_file_can_have(tmp_path: Path, make: Callable[[Path], None]) -> None:
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "file").write_bytes(SNAPSHOT)
    os.mkfifo(tmp_path / "pipe")
    before = {path: path.lstat().st_ino for path in tmp_path.iterdir()}
    for name in ("loop/x", "loop", "file/x", "none/x", "nul\0", "pipe", ".", "surrogate\ud800"):
        with pytest.raises((KgroupError, FileExistsError)) as error:
            make(tmp_path / name)
        assert str(tmp_path / name) in str(error.value)
    assert {path: path.lstat().st_ino for path in tmp_path.iterdir()} == before


def test_a_file_system_without_hard_links(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.EPERM, os.strerror(errno.EPERM))

    monkeypatch.setattr(os, "link", refuse)
    path = tmp_path / "file"
    write_new(path)
    assert path.read_bytes() == SNAPSHOT
    with pytest.raises(FileExistsError):
        write_new(path)
    assert [each.name for each in tmp_path.iterdir()] == ["file"]


CALLS = ("open", "fchmod", "fsync", "link", "replace", "unlink")
"""What is asked of the system, in which a process may be killed: before and behind each."""


@pytest.mark.parametrize("function", ["output_file", "new_file"])
@pytest.mark.parametrize("old", [None, SNAPSHOT])
def test_a_process_that_is_killed_leaves_nothing_that_is_not_whole(
    tmp_path: Path, function: str, old: bytes | None
) -> None:
    killed = 0
    for call in CALLS:
        for moment in ("before", "behind"):
            path = tmp_path / f"{call}-{moment}"
            if old is not None:
                path.write_bytes(old)
            arguments = "path, FileKind.SNAPSHOT" if function == "output_file" else "path"
            script = f"""
import os, signal, sys
from pathlib import Path
from kgroup.atomic_file import FileKind, {function}
called = os.{call}
def kill(*args, **options):
    if {moment!r} == "behind":
        called(*args, **options)
    os.kill(os.getpid(), signal.SIGKILL)
path = Path({str(path)!r})
os.{call} = kill
with {function}({arguments}) as file:
    file.write({SNAPSHOT!r} * 3)
"""
            ended = subprocess.run([sys.executable, "-c", script], capture_output=True, check=False)
            killed += ended.returncode == -signal.SIGKILL
            there = path.read_bytes() if path.exists() else None
            assert there in (old, None if function == "new_file" and old else SNAPSHOT * 3), call
    # open, fchmod, fsync, then the name; nothing is unlinked behind os.replace but in vain
    assert killed >= 2 * (0 if function == "new_file" and old else 4)


def test_every_kind_has_a_test() -> None:
    assert {*OF_KIND, FileKind.RECORDS} == {*FileKind}
    assert atomic_file.PARQUET_MARK == ("kgroup.command", "decode-offsets")
