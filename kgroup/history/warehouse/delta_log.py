"""The Delta log of a table of a warehouse: which files it has, in each version.

delta-rs reads and writes the log, without a JVM. kgroup writes the Parquet files itself.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from kgroup.errors import InputError, KgroupError, install_advice
from kgroup.history.warehouse.store import Location, delta_location
from kgroup.history.warehouse.table import TABLES
from kgroup.history.warehouse.table_file import Limits, WrittenFile

if TYPE_CHECKING:
    from deltalake import CommitProperties, DeltaTable, PostCommitHookProperties

NO_FILES = pa.schema(
    [
        ("path", pa.string()),
        ("size_bytes", pa.int64()),
        ("num_records", pa.int64()),
        ("min.cluster", pa.string()),
    ]
).empty_table()
"""What `DeltaLog.files` returns of a table that does not exist."""

_CHECKPOINT = 100
"""Number of versions between two checkpoints."""

_SETTINGS = {"delta.logRetentionDuration": "interval 1 day"}
"""Old versions are of no use: the files that they name are soon gone."""

AddedFile = tuple[int, Mapping[str, Any]]
"""Size and statistics of a file, as `DeltaLog.commit` needs them."""


class DeltaLog:
    """A Delta table, in one version or not created yet.

    Attributes:
        path: folder of the table.
    """

    def __init__(self, path: Location, schema: pa.Schema, meaning: str) -> None:
        """Refer to a table that may not exist.

        Args:
            path: its folder.
            schema: its columns.
            meaning: meaning of a row.
        """
        self.path = path
        self._schema = schema
        self._meaning = meaning
        self._table: DeltaTable | None = None

    @property
    def version(self) -> int | None:
        """Version that was read last; None if there is no table."""
        return None if self._table is None else self._table.version()

    @property
    def last_commit(self) -> Location:
        """File of the version that was read last."""
        return self.path / "_delta_log" / f"{self.version:020}.json"

    def read(self, version: int | None = None) -> bool:
        """Read a version, or the newest one; return whether there is a table.

        Raises:
            InputError: the log is damaged, or lacks this version.
            KgroupError: deltalake is not installed.
        """
        delta = _library()
        try:
            with _errors(self.path, _unreadable):
                if version is None and self._table is not None:
                    self._table.update_incremental()
                elif self.version is None or self.version != version:
                    path, options = delta_location(self.path)
                    self._table = delta.DeltaTable(path, version, options)
        except delta.exceptions.TableNotFoundError:
            return False
        return True

    def files(self) -> pa.Table:
        """Return path, size_bytes, num_records, min.*, max.*, null_count.* of files, by path.

        Raises:
            InputError: the log is damaged.
        """
        if self._table is None:
            return NO_FILES
        with _errors(self.path, _unreadable):
            return pa.table(self._table.get_add_actions(flatten=True)).sort_by("path")

    def commit(
        self, build: int, added: Mapping[str, AddedFile], removed: Mapping[str, int]
    ) -> bool:
        """Commit a version on top of the one that was read; create the table if there is none.

        Args:
            build: number of the build.
            added: new files, by path.
            removed: sizes of files that are no longer valid, by path.

        Returns:
            False if another commit came first.

        Raises:
            OSError: the log cannot be written.
        """
        from deltalake import CommitProperties, PostCommitHookProperties, Schema
        from deltalake.exceptions import CommitFailedError
        from deltalake.transaction import AddAction, RemoveAction, create_table_with_add_actions

        now = time.time_ns() // 1_000_000
        adds = [
            AddAction(path, size, {}, now, True, json.dumps(dict(statistics)))
            for path, (size, statistics) in added.items()
        ]
        removes = [RemoveAction(path, True, now, size) for path, size in removed.items()]
        schema = Schema.from_arrow(self._schema)
        properties = CommitProperties({"kgroup.build": str(build)}, max_commit_retries=0)
        hooks = PostCommitHookProperties(create_checkpoint=False, cleanup_expired_logs=False)
        before = self.version
        try:
            with _errors(self.path, _unwritable):
                if self._table is None:
                    path, options = delta_location(self.path)
                    create_table_with_add_actions(
                        str(path),
                        schema,
                        adds,
                        name=self.path.name,
                        description=self._meaning,
                        configuration=_SETTINGS,
                        storage_options=options,
                        commit_properties=properties,
                        post_commithook_properties=hooks,
                    )
                else:
                    self._add_columns(properties, hooks)
                    before = self.version
                    self._table.create_write_transaction(
                        [*adds, *removes],
                        "append",
                        schema,
                        commit_properties=properties,
                        post_commithook_properties=hooks,
                    )
        except CommitFailedError:
            return False
        except OSError:
            if before is None and self.read():  # another build has created it
                return False
            raise
        self.read()
        return self.version == (0 if before is None else before + 1)

    def _add_columns(self, properties: CommitProperties, hooks: PostCommitHookProperties) -> None:
        """Add columns that the table lacks, as an older version created it."""
        from deltalake import Schema

        assert self._table is not None
        known = {field.name for field in self._table.schema().fields}
        added = [field for field in self._schema if field.name not in known]
        if added:
            fields = Schema.from_arrow(pa.schema(added)).fields
            self._table.alter.add_columns(
                fields, commit_properties=properties, post_commithook_properties=hooks
            )

    def summarize(self) -> list[Location]:
        """Write a checkpoint, every hundred versions, and remove older versions.

        Call this once the version that was read last is that of the state: what is older may go.

        Returns:
            The files written.

        Raises:
            OSError: the log cannot be written.
        """
        if self._table is None or not self.version or self.version % _CHECKPOINT:
            return []
        with _errors(self.path, _unwritable):
            self._table.create_checkpoint()
            self._table.cleanup_metadata()
        log = self.path / "_delta_log"
        return [log / f"{self.version:020}.checkpoint.parquet", log / "_last_checkpoint"]


def written_files(table: str, rows: pa.Table) -> Iterator[WrittenFile]:
    """Yield the files of a table; see `DeltaLog.files`.

    Raises:
        InputError: statistics are missing, see `check_statistics`.
    """
    if "offsets_partition" in TABLES[table].columns:
        check_statistics(table, rows, "null_count.offsets_partition")
    columns = [rows[name].to_pylist() for name in ("min.cluster", "path", "num_records")]
    sizes = rows["size_bytes"].to_pylist()
    known = [
        name
        for name in TABLES[table].columns
        if f"null_count.{name}" in rows.column_names
        and rows[f"null_count.{name}"].null_count < len(rows)
    ]
    limits = [
        zip(
            *(rows[f"{kind}.{name}"].to_pylist() for kind in ("min", "max", "null_count")),
            strict=True,
        )
        for name in known
    ]
    for cluster, path, count, size, *of_columns in zip(*columns, sizes, *limits, strict=True):
        of_file = {
            name: Limits(*values)
            for name, values in zip(known, of_columns, strict=True)
            if values[2] is not None
        }
        yield WrittenFile(table, cluster, f"{table}/{path}", count, size, of_file)


def check_statistics(table: str, rows: pa.Table, column: str) -> None:
    """Check that the log has a value for each file, without which files would be overlooked.

    Raises:
        InputError: it lacks some.
    """
    if not len(rows):
        return
    of_files = rows["path"]
    if column in rows.column_names:
        of_files = of_files.filter(pc.is_null(rows[column]))
    for path in of_files.slice(0, 1).to_pylist():
        raise InputError(
            f"{path}: the Delta log of the table {table} has no statistics of this file, so kgroup "
            "did not write it. Restore the log, or build a new warehouse in another folder.",
            path=path,
        )


def added_file(file: WrittenFile) -> AddedFile:
    """Return what `DeltaLog.commit` needs of a new file."""
    known = {name: limits for name, limits in file.limits.items() if limits.lowest is not None}
    place = {"cluster": file.cluster} | ({} if file.date is None else {"date": file.date})
    nulls = {name: limits.null_count for name, limits in file.limits.items()}
    statistics = {
        "numRecords": file.rows,
        "minValues": {name: limits.lowest for name, limits in known.items()} | place,
        "maxValues": {name: limits.highest for name, limits in known.items()} | place,
        "nullCount": nulls | {"cluster": 0, "date": file.rows if file.date is None else 0},
    }
    return file.size, statistics


def _library() -> Any:
    try:
        import deltalake
        import deltalake.exceptions
    except ImportError as error:
        raise KgroupError(
            "deltalake, which reads and writes the log of a warehouse, is not installed; "
            f"{install_advice('history')}"
        ) from error
    return deltalake


@contextmanager
def _errors(path: Location, convert: Callable[[Location, str], Exception]) -> Iterator[None]:
    """Convert errors of delta-rs, except that there is no table or that a commit came first."""
    from deltalake.exceptions import CommitFailedError, TableNotFoundError

    try:
        yield
    except (CommitFailedError, TableNotFoundError, MemoryError):
        raise
    except Exception as error:  # its own, pyarrow's, and those of Python's bindings
        raise convert(path, _reason(error)) from error


def _reason(error: Exception) -> str:
    """Return an error and its causes in one line, without colours, stack traces and full stop."""
    first, *rest = re.sub(r"\x1b\[[0-9;]*m", "", str(error)).strip().splitlines() or [""]
    causes = [line.partition("↳")[2].strip() for line in rest if "↳" in line]
    return ": ".join([first.strip() or type(error).__name__, *causes]).rstrip(" .")


def _unreadable(path: Location, reason: str) -> InputError:
    if not isinstance(path, Path) and "Error performing" in reason:  # a request failed
        return InputError(
            f"{path}: {reason}. Check the credentials, the region, the endpoint and the network; "
            "the warehouse is unchanged.",
            path=str(path),
        )
    return InputError(
        f"{path}: its Delta log cannot be read; {reason}. Restore the folder "
        f"{path / '_delta_log'}, or build a new warehouse in another folder.",
        path=str(path),
    )


def _unwritable(path: Location, reason: str) -> OSError:
    return OSError(f"{path / '_delta_log'}: {reason}")
