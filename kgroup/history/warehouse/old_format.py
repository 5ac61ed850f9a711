"""Read a warehouse of the older format: a manifest named the state of each cluster, with its files.

<table>/cluster=<name>/date=<day>/*.parquet
_kgroup/builds/<number>.json               manifest; the newest one is valid
_kgroup/state/<build>-<number>.json        state of a cluster
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from typing import TypeVar

import msgspec

from kgroup.errors import InputError
from kgroup.history.remote import first_line
from kgroup.history.warehouse.state import ClusterState, PartitionState, SeenSegment
from kgroup.history.warehouse.store import Location
from kgroup.history.warehouse.table import TABLES
from kgroup.history.warehouse.table_file import OWN, FactWriter, WrittenFile, row_groups

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class _Manifest:
    build: int
    clusters: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class _File:
    table: str
    path: str
    is_open: bool

    @property
    def folder(self) -> str:
        return self.path.rpartition("/")[0]


@dataclass(frozen=True, slots=True)
class _Partition:
    coverage: str | None
    seen: tuple[SeenSegment, ...]
    live_end: int | None
    derived_end: int | None
    members: str | None

    @property
    def state(self) -> PartitionState:
        return PartitionState(
            self.coverage, self.seen, self.live_end, self.derived_end, self.members, None
        )


@dataclass(frozen=True, slots=True)
class _State:
    files: tuple[_File, ...]
    partitions: Mapping[int, _Partition]
    topic_names: Mapping[str, str]


def has_old_format(root: Location) -> bool:
    """Return whether there is a manifest; also if the warehouse was converted, but not cleaned."""
    return isinstance(root, Path) and any(_manifests(root))


def rewritten_states(root: Path) -> tuple[int, dict[str, ClusterState]]:
    """Write the tables' files anew, beside the old ones.

    Returns:
        The number of the last build, and the state of each cluster.

    Raises:
        InputError: the warehouse is damaged.
        OSError: a file cannot be written.
    """
    newest = max(_manifests(root), key=lambda path: int(path.stem))
    manifest = _read(newest, _Manifest)
    states: dict[str, ClusterState] = {}
    for cluster, path in manifest.clusters.items():
        old = _read(root / path, _State)
        files: list[WrittenFile] = []
        folders = attrgetter("folder", "is_open")
        for _, alike in groupby(sorted(old.files, key=folders), key=folders):
            # a writer for each folder: there may be very many
            with FactWriter(root, cluster, manifest.build + 1) as writer:
                for file in alike:
                    for rows in row_groups(root / file.path, TABLES[file.table].schema):
                        writer.add({file.table: rows}, is_open=file.is_open)
                files += writer.finish()
        partitions = {number: each.state for number, each in old.partitions.items()}
        states[cluster] = ClusterState(tuple(files), partitions, old.topic_names)
    return manifest.build, states


def remove_old_format(root: Path) -> None:
    """Remove the manifest, states and locks; the tables' files are unlisted now."""
    own = root / OWN
    for path in (*own.glob("state/*.json"), *own.glob("builds/*"), own / "readers"):
        path.unlink(missing_ok=True)
    (own / "builds").rmdir()


def _manifests(root: Path) -> list[Path]:
    found = (root / OWN / "builds").glob("*.json")
    return [path for path in found if path.stem.isdecimal()]


def _read(path: Path, kind: type[_T]) -> _T:
    try:
        return msgspec.json.decode(path.read_bytes(), type=kind)
    except (OSError, msgspec.DecodeError) as error:
        raise _damaged(path, error) from None


def _damaged(path: Path, error: Exception) -> InputError:
    return InputError(
        f"{path}: not as the build wrote it; {first_line(error)}. The warehouse cannot be "
        "converted without this file: restore it, or build a new warehouse in another folder.",
        path=str(path),
    )
