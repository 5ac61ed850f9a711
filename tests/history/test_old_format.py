"""A warehouse of the older format is converted by the next build, and nothing is lost."""

from __future__ import annotations

import json
import shutil
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from kgroup.errors import InputError
from kgroup.history.warehouse.delta_log import DeltaLog
from kgroup.history.warehouse.table import TABLES
from kgroup.history.warehouse.table_file import WrittenFile
from kgroup.history.warehouse.warehouse import read_warehouse, write_warehouse
from tests.history.build_file import write_halves
from tests.history.builds import SAMPLE, build
from tests.history.table_oracle import read_tables

CLUSTER = "eu/1"
FOLDER = "cluster=eu%2F1"


def old_path(file: WrittenFile) -> str:
    folder = f"{file.table}/{FOLDER}/date={file.date or '__HIVE_DEFAULT_PARTITION__'}"
    return f"{folder}/{Path(file.path).name}"


def old_warehouse(root: Path, source: Path) -> Path:
    """Give a new warehouse the form that the version before had."""
    new = root.with_name("new")
    build(new, source, cluster=CLUSTER)
    with read_warehouse(new) as warehouse:
        state = warehouse.state(CLUSTER)
    files = []
    for file in state.files:
        path = root / old_path(file)
        path.parent.mkdir(parents=True, exist_ok=True)
        rows = pq.ParquetFile(new / file.path).read().drop_columns(["cluster", "date"])
        pq.write_table(rows, path)
        offsets = {}
        if file.table not in ("log_ends", "damage"):
            offsets = dict.fromkeys(file.partitions, file.offsets)
        said = {
            "size": path.stat().st_size,
            "path": old_path(file),
            "is_open": file.is_open,
            "offsets": offsets,
        }
        files.append({**asdict(file), **said})
    own = root / "_kgroup"
    for name in ("coverage", "members"):
        shutil.copytree(new / "_kgroup" / name, own / name)
    for name in ("builds", "state"):
        (own / name).mkdir()
    saved = {**asdict(state), "files": files}
    (own / "state" / "4-0.json").write_text(json.dumps(saved))
    clusters = {CLUSTER: "_kgroup/state/4-0.json"}
    for number, named in ((3, {}), (4, clusters)):
        manifest = {"format": 1, "build": number, "clusters": named, "replaced": []}
        (own / "builds" / f"{number}.json").write_text(json.dumps(manifest))
    for name in ("lock", "readers"):
        (own / name).touch()
    shutil.rmtree(new)
    return root


def names_of(root: Path) -> list[str]:
    return sorted(path.relative_to(root).parts[1] for path in root.glob("[a-z]*/*"))


def test_the_next_build_converts_it(tmp_path: Path) -> None:
    root = old_warehouse(tmp_path / "old", SAMPLE)
    build(tmp_path / "whole", SAMPLE, cluster=CLUSTER)
    with pytest.raises(InputError, match="an older version of kgroup wrote this warehouse"):
        read_warehouse(root).__enter__()
    report = build(root, SAMPLE, cluster=CLUSTER)
    assert [note for note in report.notes if "was converted" in note] == list(report.notes)
    assert report.data[0].segments_read == 0
    assert read_tables(root, CLUSTER) == read_tables(tmp_path / "whole", CLUSTER)
    with read_warehouse(root) as warehouse:
        assert (warehouse.build, warehouse.clusters) == (5, (CLUSTER,))
        opened = [file for file in warehouse.state(CLUSTER).files if file.is_open]
    assert {file.table for file in opened} == {"offset_commits", "assignments"}
    assert set(names_of(root)) == {"_delta_log", "eu_2F1"}
    assert sorted(path.name for path in (root / "_kgroup").iterdir()) == [
        *("coverage", "lock", "members", "state")
    ]
    assert not build(root, SAMPLE, cluster=CLUSTER).notes


def test_what_is_new_joins_it(tmp_path: Path) -> None:
    """Open transactions and assignments, too, go on."""
    early, late = tmp_path / "early", tmp_path / "late"
    write_halves(early, late)
    root = old_warehouse(tmp_path / "old", early)
    build(root, late, cluster=CLUSTER)
    build(tmp_path / "whole", late, cluster=CLUSTER)
    assert read_tables(root, CLUSTER) == read_tables(tmp_path / "whole", CLUSTER)


@pytest.mark.parametrize("number", [1, len(TABLES), len(TABLES) + 1, len(TABLES) + 2])
def test_a_conversion_that_is_broken_off_is_repeated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    root = old_warehouse(tmp_path / "old", SAMPLE)
    build(tmp_path / "whole", SAMPLE, cluster=CLUSTER)
    commit, count = DeltaLog.commit, 0

    def broken(log: DeltaLog, *args: Any) -> bool:
        nonlocal count
        count += 1
        if count == number:
            raise KeyboardInterrupt
        return commit(log, *args)

    def convert() -> None:
        with write_warehouse(root):
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(DeltaLog, "commit", broken)
        with pytest.raises(KeyboardInterrupt):
            convert()
    build(root, SAMPLE, cluster=CLUSTER)
    assert read_tables(root, CLUSTER) == read_tables(tmp_path / "whole", CLUSTER)
    assert set(names_of(root)) == {"_delta_log", "eu_2F1"}


def test_a_conversion_that_was_not_cleaned_up_is(tmp_path: Path) -> None:
    """As is one that was killed while the log of the state was created."""
    root = old_warehouse(tmp_path / "old", SAMPLE)
    kept = tmp_path / "builds"
    shutil.copytree(root / "_kgroup" / "builds", kept)
    (root / "_kgroup" / "state" / "_delta_log").mkdir()
    build(root, SAMPLE, cluster=CLUSTER)
    shutil.copytree(kept, root / "_kgroup" / "builds")
    tables = read_tables(root, CLUSTER)
    report = build(root, SAMPLE, cluster=CLUSTER)
    assert not [note for note in report.notes if "was converted" in note]
    assert not (root / "_kgroup" / "builds").exists()
    assert read_tables(root, CLUSTER) == tables


@pytest.mark.parametrize("name", ["_kgroup/builds/4.json", "_kgroup/state/4-0.json", "members"])
def test_a_damaged_one_is_left_as_it_is(tmp_path: Path, name: str) -> None:
    root = old_warehouse(tmp_path / "old", SAMPLE)
    path = root / name
    if path.is_dir():
        [path] = path.rglob("*.parquet")
    path.write_bytes(path.read_bytes()[:-5])
    before = {path: path.read_bytes() for path in root.rglob("*") if path.is_file()}
    with pytest.raises(InputError, match=f"{path}: not as the build wrote it; .*estore"):
        build(root, SAMPLE, cluster=CLUSTER)
    after = {path: path.read_bytes() for path in root.rglob("*") if path.is_file()}
    assert before.items() <= {**after, root / "_kgroup" / "lock": b""}.items()
