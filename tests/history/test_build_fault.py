"""A build that is killed changes nothing, and the next one completes."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.examples import some_of
from tests.history.build_file import files_on_disk, files_that_count, write_halves
from tests.history.builds import SAMPLE, build
from tests.history.killed_build import COMMITTED, STAGES
from tests.history.paused_command import await_paused, paused_command
from tests.history.table_oracle import read_tables

pytestmark = pytest.mark.slow


def test_killed_at_every_stage(tmp_path: Path) -> None:
    early, late, base = tmp_path / "early", tmp_path / "late", tmp_path / "base"
    write_halves(early, late)
    build(base, early)
    before = read_tables(base, "c")
    stages = some_of(list(STAGES), 4)
    for name in stages:
        shutil.copytree(base, tmp_path / "w" / name)
    run = subprocess.run(
        [sys.executable, "-m", "tests.history.killed_build", late, tmp_path / "w"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert set(run.stdout.splitlines()) == {f"{name} -9" for name in stages}, run.stderr
    build(base, late)
    after = read_tables(base, "c")
    assert after != before
    for name in stages:
        root = tmp_path / "w" / name
        assert read_tables(root, "c") == (after if name in COMMITTED else before), name
        assert files_on_disk(root) >= files_that_count(root), name
        build(root, late)
        assert read_tables(root, "c") == after, name
        if name not in COMMITTED:  # behind it the files go when something changes again
            assert files_on_disk(root) == files_that_count(root), name


def test_two_builds_at_once(tmp_path: Path) -> None:
    """The later one is refused, whatever it was to write, and changes nothing; both can be run."""
    early, late, root = tmp_path / "early", tmp_path / "late", tmp_path / "w"
    write_halves(early, late)
    build(root, early)
    before = read_tables(root, "c")
    args: list[str | Path] = ["history", "build", "--cluster", "c", "--to", root, "--from"]
    first = subprocess.Popen(
        paused_command(*args, late), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    with first:
        try:
            await_paused(first)
            second: list[str | Path] = [sys.executable, "-m", "kgroup", *args, SAMPLE]
            refused = subprocess.run(second, capture_output=True, text=True)
            assert (refused.returncode, refused.stdout) == (1, "")
            assert f"{root}: process {first.pid} on " in refused.stderr
            assert "is changing this warehouse" in refused.stderr
            assert read_tables(root, "c") == before
            first.send_signal(signal.SIGCONT)
            out, err = first.communicate(timeout=100)
        finally:
            first.kill()
    assert (first.returncode, "offset_commits" in out) == (0, True), err
    build(tmp_path / "alone", late)
    assert read_tables(root, "c") == read_tables(tmp_path / "alone", "c") != before
    assert files_on_disk(root) == files_that_count(root)
    subprocess.run(second, check=True, capture_output=True)
    build(tmp_path / "alone", SAMPLE)
    assert read_tables(root, "c") == read_tables(tmp_path / "alone", "c")
