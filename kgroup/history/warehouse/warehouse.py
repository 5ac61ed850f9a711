"""The folder of a warehouse, and which of its files are valid.

    <table>/cluster=<name>/date=<day>/*.parquet         rows
    _kgroup/builds/<number>.json                        manifest: the newest one is valid
    _kgroup/state/<build>-<number>.json                 state of a cluster, with its files
    _kgroup/coverage/<build>-<number>.npy               known offsets of a partition
    _kgroup/members/<build>-<...>.parquet               members of a partition, see `ownership`
    _kgroup/lock, _kgroup/readers, _kgroup/unfinished   locks and mark, see below

Files are written under their final names, and are valid once a manifest lists them. The manifest is
renamed into place after everything that it lists is synced to disk: that is the commit point. No
manifest lists the files of a killed build, and the next build removes them.

One build runs at a time: it holds `lock`. `unfinished` exists while it runs; if it was left behind,
the next build searches all folders for unlisted files. Readers share the lock `readers`. While they
hold it, files that a build replaced are kept, and the manifest lists them for the next build to
remove.
"""

from __future__ import annotations

import fcntl
import os
import re
import socket
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import TypeVar

import msgspec

from kgroup.errors import BusyError, InputError, UsageError
from kgroup.history.warehouse.coverage import Coverage
from kgroup.history.warehouse.table import TABLES
from kgroup.history.warehouse.table_file import (
    OWN,
    WrittenFile,
    cluster_folder,
    damaged_file,
    set_umask,
)
from kgroup.limited_input import read_limited
from kgroup.operation.printed_command import kgroup_command

FORMAT = 1
"""Version of the format of the manifest and all files that it names."""

LARGEST = 1 << 27
"""Maximum bytes of a manifest, state or coverage; a state of 500,000 files is smaller."""

_TABLE_FILE = re.compile(r"[0-9]+-.*\.parquet")
_UNFINISHED = ".unfinished"
_FREE = ("nothing", "an empty folder")
"""Values of `_what_is` for a path that can become a warehouse."""

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class SeenSegment:
    """A segment file that was read from its start.

    Attributes:
        base_offset: base offset in the file name; None if the name is not a number.
        size: number of bytes read; if the file has grown, the next build continues from there.
        fingerprint: fingerprint of these bytes.
    """

    base_offset: int | None
    size: int
    fingerprint: str


@dataclass(frozen=True, slots=True)
class PartitionState:
    """State of a partition of `__consumer_offsets`.

    Attributes:
        coverage: file with the known offsets; None if there are none.
        seen: segment files read, the latest ones.
        live_end: offset up to which the live log was read; None if it was never read.
        derived_end: last offset from which assignments were derived; None if there are none.
        members: file with the members, for the next derivation; None if there are none.
    """

    coverage: str | None
    seen: tuple[SeenSegment, ...]
    live_end: int | None
    derived_end: int | None
    members: str | None

    @classmethod
    def none(cls) -> PartitionState:
        """Return the state of a new partition."""
        return cls(None, (), None, None, None)


@dataclass(frozen=True, slots=True)
class ClusterState:
    """State of a cluster.

    Attributes:
        files: files of the tables.
        partitions: partitions of `__consumer_offsets`, by number.
        topic_names: known names of users' topics, by topic id.
    """

    files: tuple[WrittenFile, ...]
    partitions: Mapping[int, PartitionState]
    topic_names: Mapping[str, str]

    @classmethod
    def none(cls) -> ClusterState:
        """Return the state of a new cluster."""
        return cls((), {}, {})


@dataclass(frozen=True, slots=True)
class _Manifest:
    """State of a warehouse.

    Attributes:
        format: `FORMAT`.
        build: number of the build that wrote it, from 1; 0 if there was none.
        clusters: state file of each cluster, by name.
        replaced: files that are no longer valid, and may still exist.
    """

    format: int
    build: int
    clusters: Mapping[str, str]
    replaced: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Head:
    """The part of a manifest that is read first, to check its format."""

    format: int


class Warehouse:
    """A warehouse as of one build, in the folder `root`."""

    def __init__(self, root: Path) -> None:
        """Read the newest manifest.

        Raises:
            InputError: the manifest is damaged, or of a newer format.
        """
        self.root = root
        self._manifest = _newest(root)
        self._states: dict[str, ClusterState] = {}

    @property
    def build(self) -> int:
        """Number of the last build; 0 if there was none."""
        return self._manifest.build

    @property
    def clusters(self) -> tuple[str, ...]:
        """Names of the clusters, sorted."""
        return tuple(sorted(self._manifest.clusters))

    def state(self, cluster: str) -> ClusterState:
        """Return the state of a cluster; an empty one if it is new.

        Raises:
            InputError: its file is damaged.
        """
        if cluster not in self._states and cluster in self._manifest.clusters:
            path = self.root / self._manifest.clusters[cluster]
            self._states[cluster] = _read(path, ClusterState)
        return self._states.get(cluster, ClusterState.none())

    def coverage(self, cluster: str, partition: int) -> Coverage:
        """Return the known offsets of a partition.

        Raises:
            InputError: its file is damaged.
        """
        state = self.state(cluster).partitions.get(partition, PartitionState.none())
        if state.coverage is None:
            return Coverage()
        path = self.root / state.coverage
        try:
            return Coverage.read(_bytes(path))
        except (OSError, InputError) as error:
            raise _damaged(path, error) from None

    def files(self, cluster: str | None = None) -> dict[str, list[Path]]:
        """Return the files of each table, of one cluster or of all; empty without rows."""
        paths: dict[str, list[Path]] = {name: [] for name in TABLES}
        for name in self.clusters if cluster is None else (cluster,):
            for file in self.state(name).files:
                paths[file.table].append(self.root / file.path)
        return paths

    def row_count(self, table: str, cluster: str | None = None) -> int:
        """Return the number of rows of a table, of one cluster or of all."""
        return sum(
            file.rows
            for name in (self.clusters if cluster is None else (cluster,))
            for file in self.state(name).files
            if file.table == table
        )

    def _listed(self, clusters: Iterable[str]) -> set[str]:
        """Return all valid files of these clusters."""
        there = self._manifest.clusters.keys() & clusters
        paths = {self._manifest.clusters[cluster] for cluster in there}
        return paths.union(*(_paths(self.state(cluster)) for cluster in there))


class WarehouseWriter(Warehouse):
    """A warehouse that this process has locked for changes."""

    def check(self, cluster: str) -> None:
        """Check that the files of a cluster's tables exist and have the size that was written.

        Raises:
            InputError: a file is missing or has another size.
        """
        for file in self.state(cluster).files:
            path = self.root / file.path
            try:
                found = path.stat().st_size
            except OSError as error:
                raise damaged_file(str(path), error.strerror or str(error)) from None
            if found != file.size:
                reason = f"expected {file.size:,} bytes, found {found:,}"
                raise damaged_file(str(path), reason)

    def commit(
        self, states: Mapping[str, ClusterState], coverages: Mapping[tuple[str, int], Coverage]
    ) -> None:
        """Commit a new state atomically.

        Args:
            states: states of the clusters that changed.
            coverages: coverages of the partitions in which they changed, by cluster and partition.

        Raises:
            OSError: a file cannot be written.
        """
        build = self.build + 1
        before = self._listed(states)
        states = dict(states)
        for number, ((cluster, partition), coverage) in enumerate(coverages.items()):
            path = f"{OWN}/coverage/{build}-{number}.npy"
            _write(self.root / path, coverage.written())
            states[cluster] = _with_coverage(states[cluster], partition, path)
        clusters = dict(self._manifest.clusters)
        for number, (cluster, state) in enumerate(states.items()):
            clusters[cluster] = f"{OWN}/state/{build}-{number}.json"
            _write(self.root / clusters[cluster], msgspec.json.encode(state))
        after = {clusters[cluster] for cluster in states}.union(*map(_paths, states.values()))
        _sync(self.root, after - before)
        replaced = [*self._manifest.replaced, *sorted(before - after)]
        if self.build:
            replaced.append(_manifest_path(self.build))
        there = tuple(path for path in replaced if (self.root / path).exists())
        new = _Manifest(FORMAT, build, clusters, there)
        _publish(self.root / _manifest_path(build), msgspec.json.encode(new))
        self._manifest = new
        self._states |= states
        self._remove_replaced()
        # Lost executors whose tasks were repeated may have left files. Their names have the number
        # of this build, and they are in its clusters' folders. All folders are searched only after
        # a build that did not finish.
        stem = f"{build}-*"
        left = [path for name in states for path in self._table_files(cluster_folder(name), stem)]
        self._remove_unlisted(left, states)

    def sweep(self) -> None:
        """Remove files of tables and states that no manifest lists."""
        paths = [
            *self._table_files("cluster=*", "*"),
            *self.root.glob(f"{OWN}/state/*.json"),
            *self.root.glob(f"{OWN}/coverage/*.npy"),
            *self.root.glob(f"{OWN}/members/*.parquet"),
            *self.root.glob(f"{OWN}/builds/*{_UNFINISHED}"),
        ]
        self._remove_unlisted(paths, self.clusters)

    def _table_files(self, cluster: str, stem: str) -> Iterator[Path]:
        """Yield files of tables that match patterns of the cluster's folder and of the name."""
        for table in TABLES:
            for path in self.root.glob(f"{table}/{cluster}/date=*/{stem}.parquet"):
                if _TABLE_FILE.fullmatch(path.name):
                    yield path

    def _remove_unlisted(self, found: Iterable[Path], clusters: Iterable[str]) -> None:
        listed = {*self._listed(clusters), *self._manifest.replaced}
        for path in found:
            if path.relative_to(self.root).as_posix() not in listed:
                _remove(path)

    def _remove_replaced(self) -> None:
        """Remove replaced files, unless a reader holds the lock."""
        with _locked(self.root / OWN / "readers", fcntl.LOCK_EX) as is_alone:
            if is_alone:
                for path in self._manifest.replaced:
                    _remove(self.root / path)


@contextmanager
def read_warehouse(root: Path) -> Iterator[Warehouse]:
    """Yield a warehouse for reading; its files are kept while the context lasts.

    Raises:
        InputError: there is no warehouse, or it is damaged.
    """
    if not (root / OWN).is_dir():
        folder = str(root) if _what_is(root) in _FREE else "FOLDER"
        build = kgroup_command("history build", (), ("--from", "LOG_DIR", "--to", folder))
        raise InputError(
            f"{root}: expected a warehouse, found {_what_is(root)}; create one with {build}",
            path=str(root),
        )
    with _locked(root / OWN / "readers", fcntl.LOCK_SH):
        yield Warehouse(root)


def link_files(base: Path, root: Path) -> None:
    """Create a warehouse with the contents of another one, whose files it links and never changes.

    Raises:
        InputError: the other one is no warehouse, or is damaged.
        OSError: a link cannot be made.
    """
    with read_warehouse(base) as warehouse:
        manifest = {_manifest_path(warehouse.build)} if warehouse.build else set()
        for path in warehouse._listed(warehouse.clusters) | manifest:
            link = root / path
            link.parent.mkdir(parents=True, exist_ok=True)
            link.symlink_to((base / path).absolute())


@contextmanager
def write_warehouse(root: Path) -> Iterator[WarehouseWriter]:
    """Yield a warehouse for writing; it is created if there is none.

    Files of an unfinished build are removed, at the start and at the end.

    Raises:
        BusyError: another process is changing the warehouse.
        InputError: the folder is not a warehouse.
        UsageError: the path is not UTF-8, which the writers and readers of its files require.
        OSError: the warehouse cannot be written.
    """
    own = root / OWN
    try:
        str(own.absolute()).encode()
    except UnicodeEncodeError:
        raise UsageError(
            f"{own.absolute().parent}: expected a folder with a UTF-8 path; choose another one"
        ) from None
    if not own.is_dir() and _what_is(root) not in _FREE:
        raise InputError(
            f"{root}: expected a warehouse, an empty folder or the name of a new one; found "
            f"{_what_is(root)}",
            path=str(root),
        )
    holder = f"process {os.getpid()} on {socket.gethostname()}"
    with _permissions(root), _locked(own / "lock", fcntl.LOCK_EX, holder) as is_alone:
        if not is_alone:
            lock = _bytes(own / "lock").decode("utf-8", "replace")
            holder = lock.strip() or "another process"
            raise BusyError(
                f"{root}: {holder} is changing this warehouse; only one build can run at a time: "
                "wait until it ends",
                path=str(root),
            )
        writer = WarehouseWriter(root.absolute())  # executors have another working directory
        unfinished = own / "unfinished"
        if was_left := unfinished.exists():
            writer.sweep()
        unfinished.touch()
        # Otherwise a power failure may leave files without the mark that reveals them.
        _sync_one(own)
        try:
            yield writer
        except BaseException:
            # The mark stays: executors may still be writing. The manifest is read again: the error,
            # such as Ctrl-C, may have come between publishing a manifest and the next line.
            with suppress(OSError, InputError):
                WarehouseWriter(root).sweep()
            raise
        if was_left:
            writer.sweep()  # executors of the unfinished build may have written more files
        unfinished.unlink()


@contextmanager
def _permissions(root: Path) -> Iterator[None]:
    """Create the folder `OWN` for its owner only, if needed; see `set_umask`."""
    before = os.umask(0o077)
    try:
        (root / OWN).mkdir(parents=True, exist_ok=True)
        set_umask(root)
        yield
    finally:
        os.umask(before)


def _newest(root: Path) -> _Manifest:
    builds = root / OWN / "builds"
    numbers = [int(path.stem) for path in builds.glob("*.json") if path.stem.isdecimal()]
    if not numbers:
        return _Manifest(FORMAT, 0, {}, ())
    path = root / _manifest_path(max(numbers))
    found = _read(path, _Head).format
    if found > FORMAT:
        raise InputError(
            f"{path}: expected format {FORMAT}, found {found}: a newer version of kgroup wrote "
            "this warehouse; use that version",
            path=str(path),
        )
    return _read(path, _Manifest)


def _manifest_path(build: int) -> str:
    return f"{OWN}/builds/{build}.json"


def _paths(state: ClusterState) -> set[str]:
    """Return the files that a state lists."""
    own = ((partition.coverage, partition.members) for partition in state.partitions.values())
    return {*(file.path for file in state.files), *filter(None, chain.from_iterable(own))}


def _with_coverage(state: ClusterState, partition: int, path: str) -> ClusterState:
    changed = replace(state.partitions.get(partition, PartitionState.none()), coverage=path)
    return replace(state, partitions={**state.partitions, partition: changed})


def _read(path: Path, kind: type[_T]) -> _T:
    """Read a file that a build wrote; a missing field is damage, so no field has a default."""
    try:
        return msgspec.json.decode(_bytes(path), type=kind)
    except (OSError, InputError, msgspec.DecodeError) as error:
        raise _damaged(path, error) from None


def _bytes(path: Path) -> bytes:
    """Read a whole file.

    Raises:
        InputError: the file is larger than any that a build writes.
    """
    with path.open("rb") as file:
        return read_limited(file, LARGEST, "a build writes no larger one", is_text=False)


def _damaged(path: Path, error: Exception) -> InputError:
    reason = (error.strerror if isinstance(error, OSError) else None) or error
    return InputError(
        f"{path}: not as the build wrote it; {reason}. A warehouse cannot be read without this "
        "file: restore it, or build a new warehouse in another folder.",
        path=str(path),
    )


def _write(path: Path, data: bytes) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(data)


def _publish(path: Path, data: bytes) -> None:
    """Write a file and sync it to disk before it is renamed into place."""
    _write(unfinished := path.with_name(path.name + _UNFINISHED), data)
    _sync_one(unfinished)
    os.replace(unfinished, path)
    _sync_one(path.parent)


def _sync(root: Path, paths: Iterable[str]) -> None:
    """Sync files, and the folders that contain them, to disk."""
    files = {root / path for path in paths}
    folders = {parent for file in files for parent in file.parents if root in parent.parents}
    for path in (*files, *folders, root):
        _sync_one(path)


def _sync_one(path: Path) -> None:
    number = os.open(path, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)


def _remove(path: Path) -> None:
    """Remove a file, and the folders that become empty, if possible.

    If a build creates a file in such a folder meanwhile, the folder is not empty, or the build
    creates it again.
    """
    with suppress(OSError):
        path.unlink()
    with suppress(OSError):
        path.parent.rmdir()
        path.parent.parent.rmdir()


@contextmanager
def _locked(path: Path, kind: int, holder: str = "") -> Iterator[bool]:
    """Hold a lock while the context lasts; yield whether it is held.

    Args:
        path: file to lock; a process without write permission does not create it.
        kind: `fcntl.LOCK_SH`, shared: waits, because exclusive locks are held briefly. Or
            `fcntl.LOCK_EX`, exclusive: does not wait.
        holder: text to write into the file.
    """
    try:
        number = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
    except OSError:
        if kind == fcntl.LOCK_EX:
            raise
        try:
            number = os.open(path, os.O_RDONLY)
        except OSError:
            yield False
            return
    try:
        try:
            fcntl.flock(number, kind | fcntl.LOCK_NB if kind == fcntl.LOCK_EX else kind)
            is_held = True
        except BlockingIOError:
            is_held = False
        if is_held and holder:
            os.ftruncate(number, 0)
            os.write(number, holder.encode())
        yield is_held
    finally:
        os.close(number)


def _what_is(path: Path) -> str:
    if not path.exists():
        return "nothing"
    if not path.is_dir():
        return "a file"
    return "a folder with other files" if any(path.iterdir()) else "an empty folder"
