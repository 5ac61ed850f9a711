"""Snapshots with anything wrong in them: a clear line, or rows; never a traceback."""

from __future__ import annotations

import copy
import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kgroup.model.snapshot import Origin
from kgroup.operation.take_snapshot import take_snapshot
from kgroup.sample import sample_log_dir
from kgroup.source.log.source import LogDir
from kgroup.source.snapshot.file import snapshot_lines, write_gzip
from tests.cli.command_line import Cli
from tests.examples import examples
from tests.recorded_tree import recorded_source

COMMANDS = (
    ["list"],
    ["list", "-o", "json"],
    ["describe", "--all"],
    ["describe", "--all", "-o", "json"],
    ["describe", "--all", "--members", "-o", "csv"],
    ["describe", "ledger", "-o", "markdown"],
    ["coordinator", "ledger", "nobody"],
)

ZK_COMMANDS = (
    ["zk", "ids", "-o", "json"],
    ["zk", "owners", "-o", "tsv"],
    ["zk", "tree", "-o", "json"],
    ["zk", "tree", "/consumers", "--depth", "3"],
    ["zk", "fetchers", "pricing", "-o", "json"],
    ["zk", "fetchers", "clickstream", "--reset", "smallest"],
)

KINDS = st.sampled_from(["sample", "zookeeper"])

scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.integers(-(1 << 63), (1 << 63) - 1)
    | st.floats()
    | st.text(max_size=5)
    | st.sampled_from(["consumer", "Stable", "", "\ud800", "\x1b[2J", "a\nb", "orders"])
)
values = scalars | st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=5,
)


@cache
def real(kind: str) -> bytes:
    if kind == "zookeeper":
        report = take_snapshot(recorded_source(), Origin("zookeeper"), taken_ms=1)
    else:
        report = take_snapshot(LogDir([sample_log_dir()]), Origin("sample"), taken_ms=1)
    return b"".join(snapshot_lines(report.data[0]))


def mutate(data: st.DataObject, tree: Any) -> None:
    """Change one thing somewhere in a tree: replace it, leave it out, double it, or swap two."""
    node: Any = tree
    while True:
        key = data.draw(st.sampled_from(list(node) if isinstance(node, dict) else range(len(node))))
        deeper = isinstance(node[key], dict | list) and len(node[key])
        if not deeper or data.draw(st.integers(0, 5)) == 0:
            break
        node = node[key]
    kind = data.draw(st.sampled_from(["replace", "remove", "double", "swap"]))
    if kind == "remove":
        del node[key]
    elif kind == "double" and isinstance(node, list):
        node.insert(key, copy.deepcopy(node[key]))
    elif kind == "swap":
        other = data.draw(st.sampled_from(list(node) if isinstance(node, dict) else [0]))
        node[key], node[other] = node[other], node[key]
    else:
        node[key] = data.draw(values)


def check(
    cli: Cli, file: Path, command: list[str], statuses: tuple[int, ...] = (0, 1, 3, 4)
) -> None:
    result = cli(*command, "--snapshot", file)
    assert result.status in statuses, result.err
    assert "bug" not in result.err
    if result.status == 1:
        (line,) = result.err.splitlines()
        assert line.startswith(f"kgroup: error: {file}: ")
    if command[-1] == "json" and result.status != 2:
        name = " ".join(command[:2]) if command[0] == "zk" else command[0]
        assert json.loads(result.out)["command"] == name


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "a.json"


@pytest.mark.slow
@settings(max_examples=examples(40), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data(), kind=KINDS, count=st.integers(1, 3), command=st.sampled_from(COMMANDS))
def test_another_tree(
    cli: Cli, file: Path, data: st.DataObject, kind: str, count: int, command: list[str]
) -> None:
    tree = json.loads(real(kind))
    for _ in range(count):
        mutate(data, tree)
    file.write_text(json.dumps(tree))
    check(cli, file, command)


@pytest.mark.slow
@settings(max_examples=examples(40), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data(), count=st.integers(1, 3), command=st.sampled_from(ZK_COMMANDS))
def test_other_nodes(
    cli: Cli, file: Path, data: st.DataObject, count: int, command: list[str]
) -> None:
    """What is wrong lies in a node, or there are no nodes at all."""
    tree = json.loads(real("zookeeper"))
    for _ in range(count):
        mutate(data, tree["zookeeper"])
    if data.draw(st.integers(0, 20)) == 0:
        tree["zookeeper"] = None
    file.write_text(json.dumps(tree))
    check(cli, file, command, (0, 1, 3, 4) if tree["zookeeper"] is not None else (2,))


@pytest.mark.slow
@settings(max_examples=examples(20), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    data=st.data(),
    kind=KINDS,
    compressed=st.booleans(),
    junk=st.binary(max_size=4),
    command=st.sampled_from(COMMANDS),
)
def test_other_bytes(
    cli: Cli,
    file: Path,
    data: st.DataObject,
    kind: str,
    compressed: bool,
    junk: bytes,
    command: list[str],
) -> None:
    with file.open("wb") as out:
        if compressed:
            write_gzip(out, iter([real(kind)]))
        else:
            out.write(real(kind))
    content = file.read_bytes()
    start = data.draw(st.integers(0, len(content)))
    end = data.draw(st.integers(start, min(len(content), start + 4)) | st.just(len(content)))
    file.write_bytes(content[:start] + junk + content[end:])
    check(cli, file, command)
