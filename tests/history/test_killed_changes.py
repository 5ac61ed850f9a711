"""Killed at any step, a change of a warehouse leaves the rows of before or after.

It can be repeated then. `make oracle` kills each change at many more of its steps.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from deltalake import DeltaTable

from kgroup.history.warehouse.table import TABLES
from kgroup.history.warehouse.warehouse import write_warehouse
from tests.examples import examples, in_depth
from tests.history.build_file import files_on_disk, files_that_count, write_halves
from tests.history.builds import build
from tests.history.killed_change import CHANGES
from tests.history.table_oracle import Tables, read_tables


@pytest.mark.slow
@pytest.mark.parametrize("name", CHANGES)
def test_killed_at_any_step(tmp_path: Path, name: str) -> None:
    early, late, base = tmp_path / "early", tmp_path / "late", tmp_path / "base"
    write_halves(early, late)
    build(base, early)
    if name != "build":
        build(base, late)
    before = read_tables(base, "c")
    folder = tmp_path / "copies"
    folder.mkdir()
    words = [name, late, base, folder, str(in_depth(60, examples(6, 8))), "1"]
    run = subprocess.run(
        [sys.executable, "-m", "tests.history.killed_change", *map(str, words)],
        capture_output=True,
        text=True,
        check=True,
    )
    steps, *lines = run.stdout.splitlines()
    assert int(steps) > 20
    assert len(lines) > 5
    after = read_tables(folder / "counted", "c")
    assert (after == before) == (name == "vacuum")
    seen: list[Tables] = []
    for line in lines:
        copy, status = line.split()
        assert status == "-9", run.stderr
        root = folder / copy
        left = read_tables(root, "c")
        assert left in (before, after), copy
        seen.append(left)
        CHANGES[name](str(late), root)
        assert read_tables(root, "c") == after, copy
        for table in TABLES:  # as other engines read them
            assert all(Path(path).exists() for path in DeltaTable(root / table).file_uris()), copy
        with write_warehouse(root) as writer:
            writer.vacuum(0)
        assert read_tables(root, "c") == after, copy
        assert files_on_disk(root) == files_that_count(root), copy
    assert before in seen
