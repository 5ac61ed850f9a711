"""Paths that cannot be read or written, for every option that takes one: an error that names it.

The options are found in the tree of commands; a new one fails here until it has a line.
"""

from __future__ import annotations

import errno
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import click
import pytest

from kgroup.cli.option.common import AnyPath, OutputFolder, OutputPath
from kgroup.cli.output.progress import ProgressLine
from kgroup.kernel import compiled
from kgroup.sample import sample_log_dir
from tests.cli.command_line import Cli
from tests.cli.commands import EVERY_COMMAND
from tests.examples import some_of

GROUP = "order-service"
OLD = "click-stats"
CLUSTER = ("-b", "127.0.0.1:1")

LINES: Mapping[str, Sequence[str]] = {
    "list": [],
    "describe": [GROUP],
    "coordinator": [GROUP],
    "assign": [GROUP, "--dry-run"],
    "check": ["--all"],
    "simulate": ["--from", GROUP],
    "plan": [GROUP],
    "plan assignor": ["cooperative-sticky", GROUP],
    "plan kafka-offsets": [OLD],
    "plan new-consumer": [OLD],
    "plan static-membership": [GROUP],
    "plan partitions": ["orders=9", GROUP],
    "plan consumer-protocol": [GROUP],
    "plan external-offsets": [GROUP, "--sql", "o.db"],
    "plan apply": ["PLAN", "--step", "1"],
    "plan verify": ["PLAN", "--step", "1"],
    "offsets show": [GROUP],
    "offsets export": [GROUP, "--format", "json"],
    "offsets import": ["OFFSETS", GROUP],
    "offsets diff": ["sample", "kafka", "--all"],
    "offsets copy": ["kafka", "sql:o.db", "--all"],
    "offsets reset": [GROUP],
    "offsets delete": [GROUP],
    "members remove": [GROUP, "--all"],
    "snapshot": [GROUP],
    "top": ["--refreshes", "1"],
    "decode-offsets": [],
    "zk ids": [OLD],
    "zk owners": [OLD],
    "zk tree": [],
    "zk fetchers": [OLD],
    "history build": [],
    "history stream": [],
    "history show": ["--groups"],
    "history owner": ["orders", "0", "--at", "2026-11-29T19:51:33Z"],
    "history timeline": [GROUP],
    "history commits": [GROUP],
    "history expire": ["--older-than", "1s"],
    "history delete": ["--group", GROUP],
    "history vacuum": [],
    "history stale": [],
    "history lag": [GROUP],
    "history rebalances": [GROUP],
    "history storms": [],
    "history report": [GROUP],
    "history as-of": ["2026-11-29T19:51:33Z", GROUP],
    "history sql": ["SELECT 1"],
    "doctor": [],
    "profile add": ["prod"],
}
"""What else a command needs: PLAN, OFFSETS and WAREHOUSE stand for files that are good."""

NEEDS: Mapping[str, Sequence[str]] = {
    "snapshot --file": ["--sample"],
    "decode-offsets --parquet": ["--sample"],
    "offsets export --to": ["--sample"],
    "offsets reset": ["--to-earliest"],
    "check --baseline": ["--sample"],
    "check --warehouse": ["--sample"],
    "plan kafka-offsets --consumer-config": ["--sample"],
    "plan new-consumer --consumer-config": ["--sample"],
    "offsets reset --to-file": ["--sample"],
    "history build --to": ["--sample"],
    "history build --metrics": ["--sample"],
    "history stream --to": CLUSTER,
    "offsets import path": ["--sample"],
    "plan verify path": ["--sample"],
}

BACKUPS = {
    "offsets import": ["OFFSETS", GROUP, "--sql", "o.db"],
    "offsets copy": ["sample", "sql:o.db", "--group", GROUP],
    "offsets reset": [GROUP, "--sql", "o.db", "--shift-by", "-1"],
    "offsets delete": [GROUP, "--sql", "o.db"],
}

NOT_REACHED = {
    *(f"zk {word} --log-dir" for word in ("ids", "owners", "tree", "fetchers")),
    *(f"plan {word} --log-dir" for word in ("kafka-offsets", "new-consumer")),
    *(f"plan apply {option}" for option in ("--command-config", "--log-dir", "--snapshot")),
    "plan apply --backup",
    "history stream --to",
}
"""Sources without nodes of ZooKeeper; what is opened only for a step that copies offsets, which the
plan here does not have; or when a cluster answers."""


def parameters() -> Iterator[tuple[str, click.Parameter]]:
    for name, command in EVERY_COMMAND.items():
        for param in command.params:
            if isinstance(param.type, AnyPath):
                yield name, param


def option_of(param: click.Parameter) -> str:
    return max(param.opts, key=len)


def line_of(command: str, param: click.Parameter, path: str) -> list[str]:
    """Write a command line with a path for a parameter, and what it needs beside that."""
    option, others = option_of(param), [option_of(e) for e in EVERY_COMMAND[command].params]
    if option == "--backup" and command in BACKUPS:
        return [*command.split(), *BACKUPS[command], "--execute", "--yes", option, path]
    rest = list(LINES[command])
    if isinstance(param, click.Argument):
        rest = [path if word in ("PLAN", "OFFSETS") else word for word in rest] or [path]
    else:
        rest += [option, path]
    if option == "--spec":
        rest.remove(GROUP)
    if option == "--command-config":
        is_zookeeper = command.startswith(("zk", "plan kafka-offsets", "plan new-consumer"))
        rest += ["--zookeeper", "127.0.0.1:1"] if is_zookeeper else CLUSTER
    rest += NEEDS.get(f"{command} {option}", [])
    for other, value in (("--warehouse", "WAREHOUSE"), ("--html", "page"), ("--to", "-")):
        if other in others and other != option and command not in ("check", "offsets copy"):
            rest += [other, "new" if command in ("history build", "history stream") else value]
    if command == "offsets reset" and option != "--to-file":
        rest.append("--to-earliest")
    if command == "snapshot" and option != "--file":
        rest += ["--file", "-"]
    return [*command.split(), *rest]


_GOOD: dict[str, bytes] = {}
"""The files that are good, once they have been made."""


@pytest.fixture
def run(
    cli: Cli,
    recorded_warehouse: Callable[[Path], Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Cli:
    """Runs a command line in a folder with files that are good."""
    monkeypatch.chdir(tmp_path)
    Path("WAREHOUSE").symlink_to(recorded_warehouse(sample_log_dir()))
    if _GOOD:
        for name, data in _GOOD.items():
            Path(name).write_bytes(data)
        return cli
    planned = cli("plan", "assignor", "range", GROUP, "--sample", "-o", "json")
    Path("PLAN").write_text(planned.out)
    Path("OFFSETS").write_text(cli("offsets", "show", GROUP, "--sample", "-o", "json").out)
    line = ["offsets", "copy", "sample", "sql:o.db", "--all", "--create-table", "--execute"]
    assert cli(*line, "--backup", "first.json").status == 0
    changed = ["offsets", "reset", GROUP, "--sql", "o.db", "--shift-by", "-1", "--execute"]
    assert cli(*changed, "--backup", "second.json").status in (0, 4)
    for file in filter(Path.is_file, Path().iterdir()):
        _GOOD[file.name] = file.read_bytes()
    return cli


def check(run: Cli, line: Sequence[str], *, names_path: bool = True) -> None:
    result = run(*line)
    assert "bug" not in result.err, (line, result.err)
    assert "Traceback" not in result.err
    if names_path:
        assert result.status in (1, 2, 4, 5), (line, result)
        assert "bad-" in result.err or "/dev/" in result.err, (line, result.err)


@pytest.mark.parametrize(
    ("command", "param"),
    [
        pytest.param(*parameter, id=f"{parameter[0]} {option_of(parameter[1])}")
        for parameter in parameters()
    ],
)
@pytest.mark.slow
def test_a_path_that_is_bad(run: Cli, command: str, param: click.Parameter, tmp_path: Path) -> None:
    is_output = isinstance(param.type, OutputPath)
    is_named = f"{command} {option_of(param)}" not in NOT_REACHED
    paths = list(bad_paths(tmp_path, is_output=is_output))
    turn = sum(f"{command} {option_of(param)}".encode()) % len(paths)
    for what, path in some_of(paths[turn:] + paths[:turn], 24):
        line = line_of(command, param, path)
        is_made = what == "no folder" and isinstance(param.type, OutputFolder)
        if what == "harmless" or is_made:
            assert "bug" not in run(*line).err
        else:
            check(run, line, names_path=is_named)
    assert not list(tmp_path.rglob("*.tmp"))


@pytest.mark.parametrize(
    "line",
    [
        ["history", "build", "--to", "new", "--from", "BAD"],
        ["simulate", "BAD"],
        ["offsets", "diff", "BAD", "sample", "--all"],
        ["offsets", "diff", "sample", "BAD", "--all"],
        ["offsets", "diff", "sample", "log-dir:BAD", "--all"],
        ["offsets", "diff", "sample", "snapshot:BAD", "--all"],
        ["offsets", "diff", "sample", "file:BAD", "--all"],
        ["offsets", "diff", "sample", "sql:BAD", "--all"],
        ["offsets", "copy", "BAD", "sql:o.db", "--all"],
        ["offsets", "show", "--sql", "BAD", GROUP],
        ["offsets", "show", "--sql", "@BAD", GROUP],
        ["offsets", "show", "--sql", "sqlite:///BAD", GROUP],
        ["offsets", "copy", "sample", "sql:BAD", "--all", "--create-table", "--execute", "--yes"],
    ],
    ids=" ".join,
)
def test_a_bad_path_in_a_text(run: Cli, line: Sequence[str], tmp_path: Path) -> None:
    for what, path in bad_paths(tmp_path, is_output=False):
        if what not in ("harmless", "NUL"):  # which no command line holds
            # A URL that cannot be read may have a password, and is not shown.
            is_hidden = what == "no UTF-8" and any(
                "sql" in word and "o.db" not in word for word in line
            )
            words = [word.replace("BAD", path) for word in line]
            check(run, words, names_path=not (is_hidden and "@BAD" not in line))


def test_a_bad_path_in_the_environment(
    run: Cli, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for what, path in bad_paths(tmp_path, is_output=False):
        if what not in ("harmless", "NUL"):  # which no environment holds
            with monkeypatch.context() as patched:
                patched.setenv("KGROUP_CONFIG", path)
                check(run, ["list", "-C", "prod"])
                patched.setenv("KGROUP_WAREHOUSE", path)
                check(run, ["history", "show", "--groups"])


@pytest.mark.parametrize(
    "command", ["list --log-dir", "decode-offsets", "snapshot --all -f - --log-dir"]
)
def test_a_segment_that_is_a_loop(run: Cli, command: str, tmp_path: Path) -> None:
    segment = tmp_path / "bad-logs" / "__consumer_offsets-0" / "00000000000000000000.log"
    segment.parent.mkdir(parents=True)
    segment.symlink_to(segment.name)
    check(run, [*command.split(), str(tmp_path / "bad-logs")])


def bad_paths(folder: Path, *, is_output: bool) -> Iterator[tuple[str, str]]:
    """Make what a path may meet; give it, and what it is."""
    bad = folder / "bad-folder"
    bad.mkdir(exist_ok=True)
    for name, target in (("loop", "bad-loop"), ("nowhere", "absent/x"), ("pipe", "")):
        link = folder / f"bad-{name}"
        if not os.path.lexists(link):
            link.symlink_to(target) if target else os.mkfifo(link)
    (folder / "bad-file").write_bytes(b"\x01 neither this nor that")
    yield "loop", str(folder / "bad-loop")
    yield "below a loop", str(folder / "bad-loop" / "x")
    yield "long name", str(folder / ("bad-" + "x" * 300))
    yield "long path", str(folder / "/".join(["bad-" + "x" * 200] * 30))
    yield "NUL", str(folder / "bad-\0")
    yield "below a file", str(folder / "bad-file" / "x")
    yield "dangling", str(folder / "bad-nowhere")
    yield "no UTF-8", os.fsdecode(os.fsencode(folder) + b"/bad-\xff/\xfe")
    yield "no folder", str(folder / "bad-none" / "x")
    yield "read-only", "/sys/bad-none/x"
    if is_output:
        yield "device", "/dev/full"
        yield "folder", str(bad)
        yield "pipe", str(folder / "bad-pipe")
        yield "file", str(folder / "bad-file")
    else:
        yield "harmless", "/dev/null"
        yield "harmless", str(bad)
        yield "harmless", str(folder / "bad-file")


DAMAGED = Path(__file__).parents[1] / "data/damaged"
CASES: dict[str, dict[str, Any]] = json.loads((DAMAGED / "manifest.json").read_text("utf-8"))[
    "cases"
]
"""What was done to each copy, and which records that costs: by Kafka's own dump of the original."""


@pytest.mark.parametrize("name", some_of(list(CASES), 4))
def test_what_is_damaged_is_told_and_the_rest_is_decoded(cli: Cli, name: str) -> None:
    case = CASES[name]
    path = DAMAGED / case["file"]
    result = cli("decode-offsets", path, "-o", "json")
    document = json.loads(result.out)
    offsets = {row["offset"] for row in document["data"]}
    assert set(case["survive"]) <= offsets <= {*case["survive"], *case["uncertain"]}
    errors = document["errors"]
    if name.endswith("zeros-at-end"):  # allocated by the broker, and not written yet
        assert (result.status, errors) == (0, [])
        return
    assert result.status == 4
    assert errors
    assert all(error["path"] == str(path) and error["reason"] for error in errors)
    assert 0 <= errors[0]["position"] < path.stat().st_size
    assert result.err.startswith(f"kgroup: {path}, byte {errors[0]['position']}, ")
    assert errors[0]["reason"] in result.err


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
    assert {error["reason"] for error in errors} == {
        "Its log end offset is unknown: Permission denied."
    }


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
