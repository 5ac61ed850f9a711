"""A warehouse: Delta tables in a folder, and which of their versions belong together.

    <table>/_delta_log/                       which files a table has, see `delta_log`
    <table>/<cluster>/<day>/*.parquet         rows, see `table_file`
    _kgroup/state/                            Delta table with the state of the last build
    _kgroup/coverage/<build>-<number>.npy     known offsets of a partition
    _kgroup/members/<build>-<...>.parquet     members of a partition, see `ownership`
    _kgroup/lock, _kgroup/unfinished          lock and mark, see below

A build writes its files under their final names, then commits the tables that have changed, and
last the state, which names a version of each table: that is the commit point. Questions read these
versions. Other engines read the newest version of a table; between two commits of a build, or
after it was killed there, that is one build ahead of the state. The next build makes each table
what it must be, whatever the newest version has. No state names the files of a killed build; the
next one removes them.

In a folder, one build runs at a time: it holds `lock`. `unfinished` exists while it runs; if it
was left behind, the next build searches all folders for unlisted files. Files that a build replaces
are kept for `KEPT_MS`, for those who are reading them.

In an object store, several builds may run at once, without lock and mark. The one that commits its
state first wins. The others fail, because their version of the state exists already, and have then
written files that no state names; `vacuum` removes them when they are a day old. Winner and losers
check at the end that the newest versions of the tables are those of the state.
"""

from __future__ import annotations

import os
import re
import socket
import time
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from kgroup.errors import BusyError, InputError
from kgroup.history.remote import first_line
from kgroup.history.warehouse.coverage import Coverage
from kgroup.history.warehouse.delta_log import (
    NO_FILES,
    AddedFile,
    DeltaLog,
    added_file,
    check_statistics,
    written_files,
)
from kgroup.history.warehouse.old_format import has_old_format, remove_old_format, rewritten_states
from kgroup.history.warehouse.state import ClusterState, PartitionState
from kgroup.history.warehouse.store import (
    Location,
    RemotePath,
    check_path,
    file_at,
    locked,
    open_input,
    open_output,
    remove,
    sizes,
    sync,
    sync_one,
    unreachable,
    what_is,
    written_as,
)
from kgroup.history.warehouse.table import TABLES
from kgroup.history.warehouse.table_file import (
    OWN,
    WrittenFile,
    cluster_folder,
    damaged_file,
    set_umask,
    unique_stem,
)
from kgroup.limited_input import read_limited
from kgroup.operation.printed_command import kgroup_command

FORMAT = 2
"""Version of the format of the state and all files that it names."""

LARGEST = 1 << 27
"""Maximum bytes of a state or coverage."""

KEPT_MS = 3_600_000
"""How long replaced files are kept."""

UNCOMMITTED_S = 86_400
"""How long files in an object store are kept that no state lists: a build may commit them."""

_STATE = f"{OWN}/state"
_STARTED = f"{OWN}/started"
"""File that shows that a place in an object store is a warehouse, also before its first commit."""
_STATE_SCHEMA = pa.schema([("cluster", pa.string()), ("state", pa.string())])
_TABLE_FILE = re.compile(r"[0-9]+-.*\.parquet")
_FREE = ("nothing", "an empty folder")
"""Values of `what_is` for a path that can become a warehouse."""

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class _SavedCluster:
    """What a row of the state table has of a cluster; its files are in the tables' logs."""

    partitions: Mapping[int, PartitionState]
    topic_names: Mapping[str, str]
    retained_ms: int | None


@dataclass(frozen=True, slots=True)
class _Head:
    """The row of the state table without a cluster.

    Attributes:
        format: `FORMAT`.
        build: number of the build that wrote it, from 1; 0 if there was none.
        versions: version of each table.
        replaced: files that are no longer valid, with the time of the build that replaced them.
    """

    format: int
    build: int
    versions: Mapping[str, int]
    replaced: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class _Format:
    """The part of a `_Head` that is read first."""

    format: int


class Warehouse:
    """A warehouse as of one build, in the folder `root` or at this place in an object store."""

    def __init__(self, root: Location) -> None:
        """Read the newest state.

        Raises:
            InputError: the state is damaged, or of another format.
        """
        self.root = root
        self._logs = {
            name: DeltaLog(root / name, table.full_schema, table.row)
            for name, table in TABLES.items()
        }
        self._state_log = DeltaLog(root / _STATE, _STATE_SCHEMA, "State of a cluster.")
        self._rows: dict[str | None, str] = {}
        self._head = _Head(FORMAT, 0, {}, {})
        self._states: dict[str, ClusterState] = {}
        self._partitions: dict[str, Mapping[int, PartitionState]] = {}
        self._files: dict[str, dict[str, list[WrittenFile]]] = {}
        self._read()

    @property
    def build(self) -> int:
        """Number of the last build; 0 if there was none."""
        return self._head.build

    @property
    def clusters(self) -> tuple[str, ...]:
        """Names of the clusters, sorted."""
        return tuple(sorted(name for name in self._rows if name is not None))

    def state(self, cluster: str) -> ClusterState:
        """Return the state of a cluster; an empty one if it is new.

        Raises:
            InputError: its files are damaged.
        """
        if cluster not in self._states and cluster in self._rows:
            saved = self._saved(cluster)
            files = [file for name in TABLES for file in self._of_table(name).get(cluster, ())]
            self._states[cluster] = ClusterState(
                tuple(files), saved.partitions, saved.topic_names, saved.retained_ms
            )
        return self._states.get(cluster, ClusterState.none())

    def partitions(self, cluster: str) -> Mapping[int, PartitionState]:
        """Return `ClusterState.partitions`, without reading the tables' logs.

        Raises:
            InputError: its file is damaged.
        """
        if cluster in self._states:
            return self._states[cluster].partitions
        if cluster not in self._partitions:
            is_new = cluster not in self._rows
            self._partitions[cluster] = {} if is_new else self._saved(cluster).partitions
        return self._partitions[cluster]

    def retained_ms(self, cluster: str) -> int | None:
        """Return `ClusterState.retained_ms`, without reading the tables' logs.

        Raises:
            InputError: its file is damaged.
        """
        return self._saved(cluster).retained_ms

    def _saved(self, cluster: str) -> _SavedCluster:
        return _read_state(self.root / self._rows[cluster], _SavedCluster)

    def coverage(self, cluster: str, partition: int) -> Coverage:
        """Return the known offsets of a partition.

        Raises:
            InputError: its file is damaged.
        """
        state = self.partitions(cluster).get(partition, PartitionState.none())
        if state.coverage is None:
            return Coverage()
        path = self.root / state.coverage
        try:
            return Coverage.read(_bytes(path))
        except (OSError, InputError) as error:
            raise _damaged(path, error) from None

    def files(self, cluster: str | None = None) -> dict[str, list[Location]]:
        """Return the files of each table, of one cluster or of all; empty without rows."""
        return {
            table: [self.root / table / path for path in self._column(table, "path", cluster)]
            for table in TABLES
        }

    def row_count(self, table: str, cluster: str | None = None) -> int:
        """Return the number of rows of a table, of one cluster or of all."""
        return sum(self._column(table, "num_records", cluster))

    def _column(self, table: str, name: str, cluster: str | None) -> list[Any]:
        rows = self._logged(table)
        if cluster is not None:
            rows = rows.filter(pc.equal(rows["min.cluster"], cluster))
        values: list[Any] = rows[name].to_pylist()
        return values

    def _of_table(self, table: str) -> dict[str, list[WrittenFile]]:
        """Return the files of a table by cluster, in the version of the state."""
        if table not in self._files:
            files: dict[str, list[WrittenFile]] = {}
            for file in written_files(table, self._logged(table)):
                files.setdefault(file.cluster, []).append(file)
            self._files[table] = files
        return self._files[table]

    def _logged(self, table: str) -> pa.Table:
        """Return the files of a table in the version of the state; see `DeltaLog.files`."""
        log = self._logs[table]
        version = self._head.versions.get(table)
        if version is None:  # even if a killed build has created it
            return NO_FILES
        if not log.read(version):
            raise _damaged(log.path, FileNotFoundError(2, "no such table"))
        files = log.files()
        check_statistics(table, files, "min.cluster")
        return files

    def listed(self, clusters: Iterable[str] | None = None) -> set[str]:
        """Return the files that are valid, or kept for readers, of some clusters or of all.

        Raises:
            InputError: the state is damaged.
        """
        valid = self._valid(self.clusters if clusters is None else clusters)
        return valid.union(self._rows.values(), self._head.replaced)

    def unneeded(self, kept_ms: int) -> list[Location]:
        """Return the files that were replaced so long ago, or that a killed build left.

        Raises:
            InputError: the state is damaged.
        """
        last_ms = time.time_ns() // 1_000_000 - kept_ms
        due = [
            self.root / path for path, time_ms in self._head.replaced.items() if time_ms <= last_ms
        ]
        return [*(path for path in due if path.exists()), *self._unlisted()]

    def _unlisted(self) -> list[Location]:
        if not self._rows and has_old_format(self.root):
            return []  # its files are listed elsewhere
        found = (
            *self._table_files("*", "*"),
            *self.root.glob(f"{_STATE}/*.parquet"),
            *self.root.glob(f"{OWN}/coverage/*.npy"),
            *self.root.glob(f"{OWN}/members/*.parquet"),
        )
        if isinstance(self.root, RemotePath):
            last = time.time() - UNCOMMITTED_S
            found = tuple(path for path in found if path.stat().st_mtime < last)
        return self._without_listed(found, self.clusters)

    def _table_files(self, cluster: str, stem: str) -> Iterator[Location]:
        """Yield files of tables that match patterns of the cluster's folder and of the name."""
        for table in TABLES:
            for path in self.root.glob(f"{table}/{cluster}/*/{stem}.parquet"):
                if _TABLE_FILE.fullmatch(path.name) and path.parts[-3] != "_delta_log":
                    yield path

    def _without_listed(self, found: Iterable[Location], clusters: Iterable[str]) -> list[Location]:
        listed = self.listed(clusters)
        return [path for path in found if self._relative(path) not in listed]

    def _relative(self, path: Location) -> str:
        root: Any = self.root  # of the same kind
        return str(path.relative_to(root))

    def _valid(self, clusters: Iterable[str]) -> set[str]:
        """Return the valid files of clusters, without those of the state table."""
        return set[str]().union(*(self.state(cluster).paths for cluster in clusters))

    def _read(self) -> None:
        if not self._state_log.read():
            if has_old_format(self.root):
                raise InputError(
                    f"{self.root}: an older version of kgroup wrote this warehouse; the next "
                    "'kgroup history build' into it converts it",
                    path=str(self.root),
                )
            return
        rows = self._state_log.files()
        names, paths = rows["min.cluster"].to_pylist(), rows["path"].to_pylist()
        self._rows = {name: f"{_STATE}/{path}" for name, path in zip(names, paths, strict=True)}
        if None not in self._rows:
            raise _damaged(self._state_log.path, InputError("it has no row of the warehouse"))
        path = self.root / self._rows[None]
        found = _read_state(path, _Format).format
        if found > FORMAT:
            raise InputError(
                f"{path}: expected format {FORMAT}, found {found}: a newer version of kgroup wrote "
                "this warehouse; use that version",
                path=str(path),
            )
        self._head = _read_state(path, _Head)


class WarehouseWriter(Warehouse):
    """A warehouse that this process has locked for changes.

    Attributes:
        notes: sentences about what was done beside the build.
    """

    notes: tuple[str, ...] = ()

    def __init__(self, root: Location) -> None:
        """Read the newest state; see `Warehouse`."""
        super().__init__(root)
        self._opened_s = time.monotonic()

    def convert(self) -> None:
        """Convert a warehouse of the older format, if it is one.

        Raises:
            InputError: it is damaged.
            OSError: a file cannot be written.
        """
        if not isinstance(self.root, Path) or not has_old_format(self.root):
            return
        if self.build:  # it was converted, but not cleaned
            remove_old_format(self.root)
            return
        build, states = rewritten_states(self.root)
        self._head = replace(self._head, build=build)
        self.commit(states, {})
        remove_old_format(self.root)
        self.sweep()
        self.notes = (
            f"{self.root} was converted: its tables are Delta tables now, and versions of kgroup "
            "before this one cannot read it any more.",
        )

    def _read(self) -> None:
        if self._state_log.read() or not has_old_format(self.root):
            super()._read()

    def check(self, cluster: str) -> None:
        """Check that the files of a cluster's tables exist and have the size that was written.

        Raises:
            InputError: a file is missing or has another size.
        """
        written = {file.path: file.size for file in self.state(cluster).files}
        for path, found in sizes(self.root, written):
            name = str(file_at(self.root, path))
            if isinstance(found, OSError):
                raise damaged_file(name, found.strerror or str(found))
            if found != written[path]:
                reason = f"expected {written[path]:,} bytes, found {found:,}"
                raise damaged_file(name, reason)

    def commit(
        self,
        states: Mapping[str, ClusterState],
        coverages: Mapping[tuple[str, int], Coverage],
        kept_ms: int | None = None,
    ) -> None:
        """Commit a new state.

        Args:
            states: states of the clusters that changed.
            coverages: coverages of the partitions in which they changed, by cluster and partition.
            kept_ms: how long replaced files are kept; by default `KEPT_MS`.

        Raises:
            BusyError: another build was committed first.
            OSError: a file cannot be written.
        """
        build = self.build + 1
        before = self._valid(states)
        states = dict(states)
        for (cluster, partition), coverage in coverages.items():
            path = f"{OWN}/coverage/{unique_stem(build)}.npy"
            _write(self.root / path, coverage.written())
            states[cluster] = _with_coverage(states[cluster], partition, path)
        after = set[str]().union(*(state.paths for state in states.values()))
        sync(self.root, after - before)
        self._check_kept(after - before)
        versions = self._commit_tables(build, states)
        rows: dict[str | None, str] = {
            cluster: self._write_state(
                build,
                cluster,
                _SavedCluster(state.partitions, state.topic_names, state.retained_ms),
            )
            for cluster, state in states.items()
        }
        gone = [self._rows[name] for name in (*states, None) if name in self._rows]
        now = time.time_ns() // 1_000_000
        replaced = {**self._head.replaced, **dict.fromkeys(sorted({*before, *gone} - after), now)}
        last_ms = now - (KEPT_MS if kept_ms is None else kept_ms)
        due = [path for path, time_ms in replaced.items() if time_ms <= last_ms]
        kept = {path: replaced[path] for path in replaced.keys() - {*due}}
        head = _Head(FORMAT, build, versions, dict(sorted(kept.items())))
        rows[None] = self._write_state(build, None, head)
        self._commit_state(build, rows, gone)
        self._head = head
        self._rows |= rows
        self._states |= states
        self._files.clear()
        for log in (*self._logs.values(), self._state_log):
            written = [self._relative(path) for path in log.summarize()]
            sync(self.root, written)
        for path in due:
            remove(self.root / path)
        if isinstance(self.root, RemotePath):
            # Another build makes the tables right, at the same time or next: this one is committed.
            with suppress(BusyError, OSError, InputError):
                self.repair()
            return
        # Lost executors whose tasks were repeated may have left files. Their names have the number
        # of this build, and they are in its clusters' folders. All folders are searched only after
        # a build that did not finish.
        stem = f"{build}-*"
        left = [path for name in states for path in self._table_files(cluster_folder(name), stem)]
        for unlisted in self._without_listed(left, states):
            remove(unlisted)

    def _check_kept(self, paths: Collection[str]) -> None:
        """Check that files are still there if the build took so long that a vacuum may remove them.

        Raises:
            OSError: a file is gone.
        """
        if time.monotonic() - self._opened_s < UNCOMMITTED_S:
            return
        for path, found in sizes(self.root, paths):
            if isinstance(found, OSError):
                raise OSError(
                    f"{self.root / path}: {found.strerror or found}; 'history vacuum' has removed "
                    "files of this build, which took more than a day. Repeat it"
                )

    def _commit_tables(self, build: int, states: Mapping[str, ClusterState]) -> dict[str, int]:
        """Make each table have the files of these states, and of other clusters as before.

        Returns:
            The version of each table.
        """
        versions: dict[str, int] = {}
        for name, log in self._logs.items():
            known = self._of_table(name)
            wanted = {
                file.path: file
                for cluster in {*known, *states}
                for file in (states[cluster].files if cluster in states else known[cluster])
                if file.table == name
            }
            log.read()
            pinned = self._head.versions.get(name)
            if log.version == pinned:
                found = {file.path: file.size for files in known.values() for file in files}
            else:  # a build was killed between its commits
                rows = log.files()
                paths = (f"{name}/{path}" for path in rows["path"].to_pylist())
                found = dict(zip(paths, rows["size_bytes"].to_pylist(), strict=True))
            added = {
                path.removeprefix(f"{name}/"): added_file(wanted[path])
                for path in wanted.keys() - found.keys()
            }
            removed = {
                path.removeprefix(f"{name}/"): found[path] for path in found.keys() - wanted.keys()
            }
            if log.version is None or added or removed:
                self._commit(log, build, added, removed)
            assert log.version is not None
            versions[name] = log.version
        return versions

    def _commit_state(
        self, build: int, rows: Mapping[str | None, str], gone: Iterable[str]
    ) -> None:
        added: dict[str, AddedFile] = {}
        for cluster, path in rows.items():
            name = {} if cluster is None else {"cluster": cluster}
            statistics = {"numRecords": 1, "minValues": name, "maxValues": name}
            added[Path(path).name] = (self.root / path).stat().st_size, statistics
        removed = {Path(path).name: (self.root / path).stat().st_size for path in gone}
        sync(self.root, rows.values())
        self._commit(self._state_log, build, added, removed)

    def _commit(
        self, log: DeltaLog, build: int, added: Mapping[str, AddedFile], removed: Mapping[str, int]
    ) -> None:
        """Commit a version of a table and sync it to disk."""
        if not log.commit(build, added, removed):
            raise BusyError(
                f"{self.root}: another build was committed at the same time, and nothing of this "
                "one; repeat it",
                path=str(self.root),
            )
        sync(self.root, [self._relative(log.last_commit)])

    def _write_state(self, build: int, cluster: str | None, value: _SavedCluster | _Head) -> str:
        """Write a file of the state table; return its path."""
        path = f"{_STATE}/{unique_stem(build)}.parquet"
        text = msgspec.json.encode(value).decode()
        row = pa.Table.from_pylist([{"cluster": cluster, "state": text}], _STATE_SCHEMA)
        with open_output(self.root / path) as file:
            pq.write_table(row, file)
        return path

    def repair(self) -> None:
        """Make the tables what the state says, if a build was killed between their commits.

        Raises:
            OSError: a file cannot be written.
        """
        is_old = not self._rows and has_old_format(self.root)
        for name, log in self._logs.items():
            if not is_old and log.read() and log.version != self._head.versions.get(name):
                self.commit({}, {})
                return

    def sweep(self) -> None:
        """Remove files of tables and states that no state lists."""
        for path in self._unlisted():
            remove(path)

    def vacuum(self, kept_ms: int) -> None:
        """Remove the files that `unneeded` returns.

        Raises:
            OSError: a file cannot be written.
        """
        self.commit({}, {}, kept_ms)
        self.sweep()


class TemporaryWarehouse(WarehouseWriter):
    """A warehouse whose state is only in this process; its files are in a temporary folder.

    It begins with the contents of another one, whose files it never changes.
    """

    def __init__(self, root: Path, base: Warehouse | None) -> None:
        """Create a warehouse.

        Args:
            root: its folder.
            base: the other warehouse; None for an empty one.
        """
        (root / OWN).mkdir(parents=True)
        super().__init__(root)
        self._coverages: dict[tuple[str, int], Coverage] = {}
        self._base = base
        for cluster in () if base is None else base.clusters:
            assert base is not None
            state = base.state(cluster)
            folder = base.root.absolute()
            files = (replace(file, path=written_as(folder / file.path)) for file in state.files)
            partitions = {number: each.below(folder) for number, each in state.partitions.items()}
            self._states[cluster] = replace(state, files=tuple(files), partitions=partitions)

    def _read(self) -> None:
        pass

    @property
    def clusters(self) -> tuple[str, ...]:
        """Names of the clusters, sorted."""
        return tuple(sorted(self._states))

    def coverage(self, cluster: str, partition: int) -> Coverage:
        """Return the known offsets of a partition; see `Warehouse.coverage`."""
        known = self._coverages.get((cluster, partition))
        if known is None:
            known = Coverage() if self._base is None else self._base.coverage(cluster, partition)
        return known

    def commit(
        self,
        states: Mapping[str, ClusterState],
        coverages: Mapping[tuple[str, int], Coverage],
        kept_ms: int | None = None,
    ) -> None:
        """Take over a new state; see `WarehouseWriter.commit`."""
        self._states |= states
        self._coverages |= coverages
        self._files.clear()
        self._head = replace(self._head, build=self.build + 1)

    def files(self, cluster: str | None = None) -> dict[str, list[Location]]:
        """Return the files of each table; see `Warehouse.files`."""
        paths: dict[str, list[Location]] = {name: [] for name in TABLES}
        for file in self._select(cluster):
            paths[file.table].append(file_at(self.root, file.path))
        return paths

    def row_count(self, table: str, cluster: str | None = None) -> int:
        """Return the number of rows of a table; see `Warehouse.row_count`."""
        return sum(file.rows for file in self._select(cluster) if file.table == table)

    def _select(self, cluster: str | None) -> Iterator[WrittenFile]:
        for name in self.clusters if cluster is None else (cluster,):
            yield from self.state(name).files


@contextmanager
def read_warehouse(root: Location) -> Iterator[Warehouse]:
    """Yield a warehouse for reading.

    Raises:
        InputError: there is no warehouse, or it is damaged.
        UsageError: libraries do not understand its path.
    """
    check_path(root)
    if not _is_warehouse(root):
        folder = str(root) if what_is(root) in _FREE else "FOLDER"
        build = kgroup_command("history build", (), ("--from", "LOG_DIR", "--to", folder))
        raise InputError(
            f"{root}: expected a warehouse, found {what_is(root)}; create one with {build}",
            path=str(root),
        )
    yield Warehouse(root)


@contextmanager
def write_warehouse(root: Location) -> Iterator[WarehouseWriter]:
    """Yield a warehouse for writing; it is created if there is none.

    Files of an unfinished build are removed, at the start and at the end. In an object store, they
    stay until `vacuum`: another build may be about to commit them.

    Raises:
        BusyError: another process is changing the warehouse.
        InputError: the folder is not a warehouse.
        UsageError: libraries do not understand its path.
        OSError: the warehouse cannot be written.
    """
    check_path(root)
    if (
        not _is_warehouse(root)
        and (found := what_is(root)) not in _FREE
        and not _is_warehouse(root)  # another build may have created it meanwhile
    ):
        raise InputError(
            f"{root}: expected a warehouse, an empty folder or the name of a new one; found "
            f"{found}",
            path=str(root),
        )
    if isinstance(root, RemotePath):
        with _shared(root) as writer:
            yield writer
        return
    own = root / OWN
    holder = f"process {os.getpid()} on {socket.gethostname()}"
    with _permissions(root), locked(own / "lock", holder) as is_alone:
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
            writer.repair()
            writer.sweep()
        unfinished.touch()
        # Otherwise a power failure may leave files without the mark that reveals them.
        sync_one(own)
        try:
            writer.convert()
            yield writer
        except BaseException:
            # The mark stays: executors may still be writing. The state is read again: the error,
            # such as Ctrl-C, may have come between its commit and the next line.
            with suppress(OSError, InputError):
                left = WarehouseWriter(writer.root)
                left.repair()
                left.sweep()
            raise
        if was_left:
            writer.sweep()  # executors of the unfinished build may have written more files
        unfinished.unlink()


def _is_warehouse(root: Location) -> bool:
    if isinstance(root, Path):
        return (root / OWN).is_dir()
    try:
        return not (root / OWN).is_empty()  # `started`, or all of a folder that was copied there
    except OSError as error:
        raise unreachable(error) from None


@contextmanager
def _shared(root: RemotePath) -> Iterator[WarehouseWriter]:
    """Yield a warehouse that other processes may change at the same time."""
    if not _is_warehouse(root):
        (root / _STARTED).write_bytes(b"")
    writer = WarehouseWriter(root)
    try:
        yield writer
    except BusyError:
        # The tables may have commits of this build after those of the other one. If that one has
        # not committed its state yet, it will see them then.
        with suppress(OSError, InputError, BusyError):
            winner = WarehouseWriter(root)
            if winner.build > writer.build:
                winner.repair()
        raise


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


def _with_coverage(state: ClusterState, partition: int, path: str) -> ClusterState:
    changed = replace(state.partitions.get(partition, PartitionState.none()), coverage=path)
    return replace(state, partitions={**state.partitions, partition: changed})


def _read_state(path: Location, kind: type[_T]) -> _T:
    """Read a file of the state table; a missing field without a default is damage."""
    try:
        _check_size(path.stat().st_size)
        with open_input(path) as source, pq.ParquetFile(source) as file:
            _check_size(file.metadata.row_group(0).total_byte_size)
            [text] = file.read(["state"])["state"].to_pylist()
        return msgspec.json.decode(text, type=kind)
    except (OSError, InputError, ValueError, TypeError, KeyError, pa.ArrowException) as error:
        raise _damaged(path, error) from None


def _check_size(size: int) -> None:
    if size > LARGEST:
        raise InputError(
            f"expected at most {LARGEST:,} bytes, found {size:,}; a build writes no larger one"
        )


def _bytes(path: Location) -> bytes:
    """Read a whole file.

    Raises:
        InputError: the file is larger than any that a build writes.
    """
    with path.open("rb") as file:
        return read_limited(file, LARGEST, "a build writes no larger one", is_text=False)


def _damaged(path: Location, error: Exception) -> InputError:
    return InputError(
        f"{path}: not as the build wrote it; {first_line(error)}. A warehouse cannot be read "
        "without this file: restore it, or build a new warehouse in another folder.",
        path=str(path),
    )


def _write(path: Location, data: bytes) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(data)
