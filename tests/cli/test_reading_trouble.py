"""What cannot be read, read twice or written is said, and costs nothing else."""

from __future__ import annotations

import errno
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from kgroup.cli.output.progress import ProgressLine
from kgroup.kernel import compiled
from kgroup.sample import sample_log_dir
from tests.cli.command_line import Cli


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    return Path(shutil.copytree(sample_log_dir(), tmp_path / "data"))


def forbidden(path: Path) -> PermissionError:
    return PermissionError(errno.EACCES, "Permission denied", str(path))


def test_a_partition_that_cannot_be_read(
    cli: Cli, copy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    every = cli("list", "--log-dir", copy, "-o", "jsonl").out.splitlines()
    closed = copy / "__consumer_offsets-1"
    lost = [line for line in every if json.loads(line)["offsets_partition"] == 1]
    assert lost
    scandir = os.scandir

    def guarded(path: Path) -> object:
        if path == closed:
            raise forbidden(closed)
        return scandir(path)

    monkeypatch.setattr(os, "scandir", guarded)
    result = cli("list", "--log-dir", copy, "-o", "jsonl")
    assert result.status == 4
    assert result.out.splitlines() == [line for line in every if line not in lost]
    assert str(closed) in result.err
    assert "unreadable: It cannot be read: Permission denied." in result.err
    decoded = cli("decode-offsets", copy, "-o", "json")
    assert decoded.status == 4
    document = json.loads(decoded.out)
    assert {row["partition"] for row in document["data"]} >= {0}
    assert {row["partition"] for row in document["data"]}.isdisjoint({1})
    (error,) = document["errors"]
    assert (error["kind"], error["offsets_partition"]) == ("unreadable", 1)
    alone = cli("list", "--log-dir", closed)
    assert (alone.status, alone.out) == (1, "")
    assert "Permission denied" in alone.err


def test_a_topic_that_cannot_be_read(cli: Cli, copy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    listdir = os.listdir

    def guarded(path: Path) -> list[str]:
        if path.name.startswith("orders-"):
            raise forbidden(path)
        return listdir(path)

    monkeypatch.setattr(os, "listdir", guarded)
    result = cli("describe", "--log-dir", copy, "order-service", "-o", "json")
    assert result.status == 4
    document = json.loads(result.out)
    (group,) = document["data"]
    ends = {offset["log_end_offset"] for offset in group["offsets"] if offset["topic"] == "orders"}
    assert ends == {None}
    errors = [error for error in document["errors"] if error["topic"] == "orders"]
    assert errors
    assert {error["reason"] for error in errors} == {"Its end is not known: Permission denied."}


def test_replicas_are_read_once(cli: Cli, copy: Path, tmp_path: Path) -> None:
    shutil.copytree(copy, tmp_path / "other")
    once = cli("decode-offsets", copy, "-o", "jsonl")
    twice = cli("decode-offsets", copy, tmp_path / "other", "-o", "jsonl")
    assert len(once.out.splitlines()) == len(twice.out.splitlines()) > 0
    assert twice.status == once.status
    assert "__consumer_offsets-0 left out: it ends at offset" in twice.err


def test_parts_of_a_partition_in_two_folders_are_both_read(
    cli: Cli, copy: Path, tmp_path: Path
) -> None:
    """A folder that ends where the other one begins is no replica."""
    folder = copy / "__consumer_offsets-0"
    for segment in folder.glob("*.log.*"):
        segment.unlink()
    (segment,) = folder.glob("*.log")
    moved = tmp_path / "moved" / folder.name
    moved.mkdir(parents=True)
    shutil.copy(segment, moved / f"{10**9:020}.log")
    count = len(cli("decode-offsets", folder, "-o", "jsonl").out.splitlines())
    both = cli("decode-offsets", folder, moved, "-o", "jsonl")
    assert len(both.out.splitlines()) == 2 * count > 0
    assert "left out" not in both.err


@pytest.mark.slow
def test_notes_are_few(cli: Cli, copy: Path, tmp_path: Path) -> None:
    for number in range(30):
        (copy / "__consumer_offsets-0" / f"{number:020}.log.deleted").touch()
    for command in (("list", "--log-dir"), ("decode-offsets",)):
        err = cli(*command, copy, "-o", "jsonl").err
        (note,) = [line for line in err.splitlines() if "note:" in line]
        assert "0.log.deleted left out, and 29 more likewise." in note

    for folder in ("one", "other"):
        for number in range(30):
            replica = tmp_path / folder / f"__consumer_offsets-{number}"
            shutil.copytree(copy / "__consumer_offsets-1", replica)
    err = cli("decode-offsets", tmp_path / "one", tmp_path / "other", "-o", "jsonl").err
    assert len([line for line in err.splitlines() if "note:" in line]) == 20
    assert "and 10 more notes" in err


def test_sample_and_a_path_are_two_sources(cli: Cli, copy: Path) -> None:
    result = cli("decode-offsets", copy, "--sample")
    assert result.status == 2
    assert "PATH and --sample are two sources" in result.err


@pytest.mark.slow
def test_a_full_disk_is_named() -> None:
    with open("/dev/full", "wb") as full:
        result = subprocess.run(
            [sys.executable, "-m", "kgroup", "list", "--sample"],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
        )
    assert result.returncode == 1
    assert "standard output: No space left on device" in result.stderr


def test_that_compiled_code_cannot_be_kept_is_said(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    folder = tmp_path / "file" / "a"
    code, why = compiled.kept_code(folder / "kernels.o", lambda: b"code")
    assert code == b"code"
    progress = ProgressLine(writes_rows=True)
    progress.finish()
    assert capsys.readouterr().err == ""
    monkeypatch.setattr(compiled, "why_unkept", lambda: why)
    progress.finish()
    assert f"cannot be stored in {folder} (Not a directory)" in capsys.readouterr().err
