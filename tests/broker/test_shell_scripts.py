"""The scripts in docs/scripts.md run as they stand there, on recorded data and on a snapshot of it.

They need `sh` and `jq`. What they print is compared with what the command's JSON says.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "scripts.md").read_text("utf-8")
SCRIPTS = re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL)


class Shell:
    """A folder with `kgroup` on its path."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder / "work"
        self._folder.mkdir()
        command = folder / "bin" / "kgroup"
        command.parent.mkdir()
        command.write_text(f'#!/bin/sh\nexec {sys.executable} -m kgroup "$@"\n')
        command.chmod(0o755)
        path = f"{command.parent}:{os.environ['PATH']}"
        packages = f"{ROOT}:{os.environ.get('PYTHONPATH', '')}"
        self._environment = {**os.environ, "PATH": path, "PYTHONPATH": packages}

    def __call__(self, script: str) -> list[str]:
        done = subprocess.run(
            ["sh", "-u", "-c", script],
            cwd=self._folder,
            env=self._environment,
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.splitlines()


@pytest.fixture(scope="module")
def shell(tmp_path_factory: pytest.TempPathFactory) -> Shell:
    return Shell(tmp_path_factory.mktemp("shell"))


@pytest.fixture(scope="module")
def groups(shell: Shell) -> dict[str, Any]:
    """What `describe` says of the recorded groups."""
    lines = shell("kgroup describe --sample --all -o jsonl")
    return {row["group_id"]: row for row in map(json.loads, lines)}


@pytest.fixture(scope="module", params=["sample", "snapshot"])
def source(request: pytest.FixtureRequest, shell: Shell) -> Iterator[str]:
    """The option that stands for `--sample`."""
    if request.param == "sample":
        yield "--sample"
    else:
        shell("kgroup snapshot --sample --all -f saved.json.gz")
        yield "--snapshot saved.json.gz"


def script(number: int, source: str) -> str:
    text: str = SCRIPTS[number]
    assert "--sample" in text
    return text.replace("--sample", source)


def test_there_is_a_test_for_each() -> None:
    assert len(SCRIPTS) == 5


def test_a_loop_over_groups(shell: Shell, groups: dict[str, Any], source: str) -> None:
    assert shell(script(0, source)) == [
        "\t".join(
            "-" if value is None else str(value)
            for value in (group_id, offset["topic"], offset["partition"], offset["lag"])
        )
        for group_id, group in groups.items()
        if group["type"] == "classic"
        for offset in group["offsets"]
    ]


def test_a_loop_over_lags(shell: Shell, groups: dict[str, Any], source: str) -> None:
    expected = [
        f"{group_id} is {offset['lag']} behind in {offset['topic']}-{offset['partition']}"
        for group_id, group in groups.items()
        for offset in group["offsets"]
        if offset["lag"] is not None and offset["lag"] > 5
    ]
    assert expected
    assert shell(script(1, source)) == expected


def test_jq(shell: Shell, groups: dict[str, Any], source: str) -> None:
    far = [f"{id_} {g['total_lag']}" for id_, g in groups.items() if (g["total_lag"] or 0) > 10]
    forsaken = [
        f"{group_id} {offset['topic']}-{offset['partition']}"
        for group_id, group in groups.items()
        for offset in group["offsets"]
        if offset["member_id"] is None and (offset["lag"] or 0) > 0
    ]
    assert far
    assert forsaken
    assert shell(script(2, source)) == far + forsaken


def test_a_job_for_cron(shell: Shell, groups: dict[str, Any], source: str) -> None:
    told = shell(script(3, source))
    assert told[0].startswith("not known: no-such-group: The group does not exist")
    assert told[1:] == [
        f"look at {group_id}"
        for group_id in ("order-service", "shipping")
        if groups[group_id]["state"] != "Stable" or groups[group_id]["total_lag"] > 10
    ]
    assert told[1:] == ["look at order-service"]
    none = script(3, source).replace("order-service shipping no-such-group", "no-such-group")
    with pytest.raises(AssertionError):
        shell(none)


def test_a_snapshot(shell: Shell, groups: dict[str, Any]) -> None:
    *rows, count = shell(SCRIPTS[4])
    empty = [group_id for group_id, group in groups.items() if group["state"] == "Empty"]
    assert len(empty) > 2
    assert [row.split("\t")[0] for row in rows] == empty
    committed = [
        o for g in groups.values() for o in g["offsets"] if o["committed_offset"] is not None
    ]
    assert int(count) == len(committed)
