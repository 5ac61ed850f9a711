"""The folder that tables lie in, and which of its files count.

    <table>/cluster=<name>/date=<day>/*.parquet         rows
    _kgroup/builds/<number>.json                        manifest: the newest one counts
    _kgroup/state/<build>-<number>.json                 what is known of a cluster, its files too
    _kgroup/coverage/<build>-<number>.npy               offsets of a partition that are known
    _kgroup/members/<build>-<...>.parquet               members of a partition, see `ownership`
    _kgroup/lock, _kgroup/readers, _kgroup/unfinished   who is at work, see below

Files are written under their final names, and count when a manifest lists them. It gets its name
when everything that it lists is on the disk: that is the commit point. What a killed build left is
listed nowhere, and removed by the next.

One build works at a time: it holds `lock`. `unfinished` is there as long as it works: where it was
left, the next build looks through all folders for files that are listed nowhere. Those who ask hold
`readers` together; while they do, files that a build replaced stay where they are, and the manifest
keeps their names for the next build, which removes them.
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
"""Of the manifest and all that it names."""

LARGEST = 1 << 27
"""Bytes of a manifest, a state or a coverage; a state of 500,000 files has less."""

_TABLE_FILE = re.compile(r"[0-9]+-.*\.parquet")
_UNFINISHED = ".unfinished"
_FREE = ("nothing", "an empty folder")
"""What may become a warehouse."""

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class SeenSegment:
    """A segment file that was read, from its beginning.

    Attributes:
        base_offset: that its name gives; None where the name is no number.
        size: bytes that were read; a file that has grown is read from there.
        fingerprint: of these bytes.
    """

    base_offset: int | None
    size: int
    fingerprint: str


@dataclass(frozen=True, slots=True)
class PartitionState:
    """What is known of a partition of `__consumer_offsets`.

    Attributes:
        coverage: file with the offsets that are known; None: none is.
        seen: segment files that were read, the last ones.
        live_end: offset up to which the live log was read; None where it never was.
        derived_end: last offset of what assignments were derived from; None where they never were.
        members: file with what is known of members, for what follows; None where there are none.
    """

    coverage: str | None
    seen: tuple[SeenSegment, ...]
    live_end: int | None
    derived_end: int | None
    members: str | None

    @classmethod
    def none(cls) -> PartitionState:
        """Nothing is known."""
        return cls(None, (), None, None, None)


@dataclass(frozen=True, slots=True)
class ClusterState:
    """What is known of a cluster.

    Attributes:
        files: of the tables.
        partitions: of `__consumer_offsets`, by number.
        topic_names: names of users' topics by their ids, as far as they are known.
    """

    files: tuple[WrittenFile, ...]
    partitions: Mapping[int, PartitionState]
    topic_names: Mapping[str, str]

    @classmethod
    def none(cls) -> ClusterState:
        """Nothing is known."""
        return cls((), {}, {})


@dataclass(frozen=True, slots=True)
class _Manifest:
    """The state of a warehouse.

    Attributes:
        format: `FORMAT`.
        build: number of the build that wrote it, from 1 on; 0: there was none.
        clusters: file of each one's state, by name.
        replaced: files that do not count any more, and may be there still.
    """

    format: int
    build: int
    clusters: Mapping[str, str]
    replaced: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Head:
    """What is looked at first: whether the rest can be understood."""

    format: int


class Warehouse:
    """A warehouse as one build left it, in the folder `root`."""

    def __init__(self, root: Path) -> None:
        """Read the newest manifest.

        Raises:
            InputError: what is there cannot be understood.
        """
        self.root = root
        self._manifest = _newest(root)
        self._states: dict[str, ClusterState] = {}

    @property
    def build(self) -> int:
        """Number of the last build, 0 where there was none."""
        return self._manifest.build

    @property
    def clusters(self) -> tuple[str, ...]:
        """Names of the clusters, sorted."""
        return tuple(sorted(self._manifest.clusters))

    def state(self, cluster: str) -> ClusterState:
        """Tell what is known of a cluster; nothing where it is new.

        Raises:
            InputError: its file cannot be understood.
        """
        if cluster not in self._states and cluster in self._manifest.clusters:
            path = self.root / self._manifest.clusters[cluster]
            self._states[cluster] = _read(path, ClusterState)
        return self._states.get(cluster, ClusterState.none())

    def coverage(self, cluster: str, partition: int) -> Coverage:
        """Tell which offsets of a partition are known.

        Raises:
            InputError: its file cannot be understood.
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
        """Give the files of each table, of one cluster or of all; those without rows have none."""
        paths: dict[str, list[Path]] = {name: [] for name in TABLES}
        for name in self.clusters if cluster is None else (cluster,):
            for file in self.state(name).files:
                paths[file.table].append(self.root / file.path)
        return paths

    def row_count(self, table: str, cluster: str | None = None) -> int:
        """Tell how many rows a table has, of one cluster or of all."""
        return sum(
            file.rows
            for name in (self.clusters if cluster is None else (cluster,))
            for file in self.state(name).files
            if file.table == table
        )

    def _listed(self, clusters: Iterable[str]) -> set[str]:
        """Give every file that counts of these clusters."""
        there = self._manifest.clusters.keys() & clusters
        paths = {self._manifest.clusters[cluster] for cluster in there}
        return paths.union(*(_paths(self.state(cluster)) for cluster in there))


class WarehouseWriter(Warehouse):
    """A warehouse that this process may change; nobody else does meanwhile."""

    def check(self, cluster: str) -> None:
        """See whether the files of a cluster's tables are there, as large as they were written.

        Raises:
            InputError: one is not.
        """
        for file in self.state(cluster).files:
            path = self.root / file.path
            try:
                found = path.stat().st_size
            except OSError as error:
                raise damaged_file(str(path), error.strerror or str(error)) from None
            if found != file.size:
                reason = f"{file.size:,} bytes were written, {found:,} are there"
                raise damaged_file(str(path), reason)

    def commit(
        self, states: Mapping[str, ClusterState], coverages: Mapping[tuple[str, int], Coverage]
    ) -> None:
        """Let a new state count: all of it or, where this fails, nothing.

        Args:
            states: of the clusters that changed.
            coverages: by cluster and partition, of those of their partitions that changed.

        Raises:
            OSError: it cannot be written.
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
        # What executors left that were lost, and whose tasks were done again, has the number of the
        # build, and lies where its clusters have their files. All folders are looked through only
        # behind a build that did not come to its end.
        stem = f"{build}-*"
        left = [path for name in states for path in self._table_files(cluster_folder(name), stem)]
        self._remove_unlisted(left, states)

    def sweep(self) -> None:
        """Remove files of tables, and of states, that no manifest lists."""
        paths = [
            *self._table_files("cluster=*", "*"),
            *self.root.glob(f"{OWN}/state/*.json"),
            *self.root.glob(f"{OWN}/coverage/*.npy"),
            *self.root.glob(f"{OWN}/members/*.parquet"),
            *self.root.glob(f"{OWN}/builds/*{_UNFINISHED}"),
        ]
        self._remove_unlisted(paths, self.clusters)

    def _table_files(self, cluster: str, stem: str) -> Iterator[Path]:
        """Find files of tables by patterns of the cluster's folder and of their names."""
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
        """Remove what does not count any more, unless somebody may be reading it."""
        with _locked(self.root / OWN / "readers", fcntl.LOCK_EX) as is_alone:
            if is_alone:
                for path in self._manifest.replaced:
                    _remove(self.root / path)


@contextmanager
def read_warehouse(root: Path) -> Iterator[Warehouse]:
    """Give a warehouse to ask; its files stay as long as the context lasts.

    Raises:
        InputError: there is none, or it cannot be understood.
    """
    if not (root / OWN).is_dir():
        folder = str(root) if _what_is(root) in _FREE else "FOLDER"
        build = kgroup_command("history build", (), ("--from", "LOG_DIR", "--to", folder))
        raise InputError(
            f"{root}: expected a warehouse, found {_what_is(root)}; {build} makes one",
            path=str(root),
        )
    with _locked(root / OWN / "readers", fcntl.LOCK_SH):
        yield Warehouse(root)


@contextmanager
def write_warehouse(root: Path) -> Iterator[WarehouseWriter]:
    """Give a warehouse to change, a new one where there is none.

    What a build left that did not come to its end is removed, at the beginning and at the end.

    Raises:
        BusyError: another process changes it.
        InputError: there is something else.
        UsageError: its path is not UTF-8, as who writes and reads the files takes it to be.
        OSError: it cannot be written.
    """
    own = root / OWN
    try:
        str(own.absolute()).encode()
    except UnicodeEncodeError:
        raise UsageError(
            f"{own.absolute().parent}: expected a folder whose path is UTF-8; choose another one"
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
                f"{root}: {holder} is changing this warehouse; one build works at a time, so wait "
                "until that has come to its end",
                path=str(root),
            )
        writer = WarehouseWriter(root.absolute())  # executors have another current folder
        unfinished = own / "unfinished"
        if was_left := unfinished.exists():
            writer.sweep()
        unfinished.touch()
        # Else a power failure may leave files, and not the mark that tells of them.
        _sync_one(own)
        try:
            yield writer
        except BaseException:
            # The mark stays: executors may still be writing. What counts is read anew: the error,
            # Ctrl-C for one, may have come between the naming of a manifest and the next line.
            with suppress(OSError, InputError):
                WarehouseWriter(root).sweep()
            raise
        if was_left:
            writer.sweep()  # executors of the build that left the mark may have written on
        unfinished.unlink()


@contextmanager
def _permissions(root: Path) -> Iterator[None]:
    """Make the folder `OWN`, its maker's alone, where there is none; see `set_umask`."""
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
            f"{path}: expected format {FORMAT}, found {found}: a newer version of kgroup wrote it, "
            "which can read it",
            path=str(path),
        )
    return _read(path, _Manifest)


def _manifest_path(build: int) -> str:
    return f"{OWN}/builds/{build}.json"


def _paths(state: ClusterState) -> set[str]:
    """Return the files that a state names."""
    own = ((partition.coverage, partition.members) for partition in state.partitions.values())
    return {*(file.path for file in state.files), *filter(None, chain.from_iterable(own))}


def _with_coverage(state: ClusterState, partition: int, path: str) -> ClusterState:
    changed = replace(state.partitions.get(partition, PartitionState.none()), coverage=path)
    return replace(state, partitions={**state.partitions, partition: changed})


def _read(path: Path, kind: type[_T]) -> _T:
    """Read what a build wrote; a field that is missing is damage, so none has a default."""
    try:
        return msgspec.json.decode(_bytes(path), type=kind)
    except (OSError, InputError, msgspec.DecodeError) as error:
        raise _damaged(path, error) from None


def _bytes(path: Path) -> bytes:
    """Read a file as a whole.

    Raises:
        InputError: it is larger than any that a build writes.
    """
    with path.open("rb") as file:
        return read_limited(file, LARGEST, "a build writes no larger one", is_text=False)


def _damaged(path: Path, error: Exception) -> InputError:
    reason = (error.strerror if isinstance(error, OSError) else None) or error
    return InputError(
        f"{path}: expected what a build wrote there; {reason}. A warehouse cannot be read without "
        "this file: restore it, or build the tables anew in another folder.",
        path=str(path),
    )


def _write(path: Path, data: bytes) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(data)


def _publish(path: Path, data: bytes) -> None:
    """Write a file that is whole, and on the disk, when it has its name."""
    _write(unfinished := path.with_name(path.name + _UNFINISHED), data)
    _sync_one(unfinished)
    os.replace(unfinished, path)
    _sync_one(path.parent)


def _sync(root: Path, paths: Iterable[str]) -> None:
    """See to it that files are on the disk, and so are the folders that name them."""
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
    """Remove a file, and the folders that it leaves empty, as far as that is possible.

    A folder that a build makes a new file in meanwhile is not empty, or made again by it.
    """
    with suppress(OSError):
        path.unlink()
    with suppress(OSError):
        path.parent.rmdir()
        path.parent.parent.rmdir()


@contextmanager
def _locked(path: Path, kind: int, holder: str = "") -> Iterator[bool]:
    """Hold a lock while the context lasts; tell whether it is held.

    Args:
        path: of the file to lock; who cannot write need not make it.
        kind: `fcntl.LOCK_SH`, shared with others, which is waited for: nobody has it alone for
            long. Or `fcntl.LOCK_EX`, alone, if that can be had at once.
        holder: written into the file.
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
