"""Damages to the files of a warehouse, and every question asked of what is left."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from kgroup.history.warehouse.table import TABLES
from tests.cli.command_line import Cli
from tests.history.builds import RECORDED

(LOG_DIR,) = (directory for directory in RECORDED if directory.name == "log-dir")


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def empty(path: Path) -> None:
    path.write_bytes(b"")


def write_text(path: Path) -> None:
    path.write_text("time_ms,group_id\n1,a\n")


def change_types(path: Path) -> None:
    rows = pq.read_table(path, partitioning=None)
    texts = [
        [None if value is None else f"x{value}" for value in column.to_pylist()]
        for column in rows.columns
    ]
    pq.write_table(pa.table(dict(zip(rows.schema.names, texts, strict=True))), path)


def drop_columns(path: Path) -> None:
    pq.write_table(pq.read_table(path, partitioning=None).select([0]), path)


def overwrite_pages(path: Path) -> None:
    """Leave the metadata at the end as they are."""
    data = path.read_bytes()
    size = int.from_bytes(data[-8:-4], "little") + 8
    path.write_bytes(b"PAR1" + b"\xff" * (len(data) - size - 4) + data[-size:])


def make_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def delete(path: Path) -> None:
    path.unlink()


DAMAGES: tuple[Callable[[Path], None], ...] = (
    truncate,
    empty,
    write_text,
    change_types,
    drop_columns,
    overwrite_pages,
    make_folder,
    delete,
)

QUESTIONS: Mapping[str, tuple[str, ...]] = {
    "show": ("--groups",),
    "owner": ("orders", "0", "--at", "2100-01-01T00:00:00Z"),
    "timeline": ("pricing",),
    "commits": ("pricing",),
    "stale": (),
    "lag": ("pricing",),
    "rebalances": (),
    "storms": (),
    "report": ("pricing",),
    "as-of": ("2100-01-01T00:00:00Z", "pricing"),
    "sql": ("SELECT * FROM offset_commits",),
}


def damage_all(root: Path, damage: Callable[[Path], None]) -> list[Path]:
    """Damage every file of every table; give the files."""
    files = [path for name in TABLES for path in sorted(root.glob(f"{name}/*/*/*.parquet"))]
    for path in files:
        damage(path)
    return files


def check_every_question(
    whole: Path, cli: Cli, folder: Path, damage: Callable[[Path], None], engine: str
) -> None:
    """Ask an engine every question of a copy of a warehouse all files of which are damaged."""
    root = folder / "warehouse"
    shutil.copytree(whole, root)
    files = damage_all(root, damage)
    for name, arguments in QUESTIONS.items():
        html = ("--html", folder / "page.html") if name == "report" else ()
        asked = cli("history", name, *arguments, *html, "--warehouse", root, "--engine", engine)
        assert asked.status == 1, (name, asked)
        assert any(str(path) in asked.err for path in files), (name, asked)
        assert "bug" not in asked.err
        assert "warehouse in another folder" in asked.err, (name, asked)
