import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kgroup.columnar.schema import ColumnBuilder
from kgroup.errors import InputError, UsageError
from kgroup.render.record.parquet import write_parquet
from kgroup.render.record.record import RECORD_COLUMNS, Rows
from tests.operation.log_files import commit

T = TypeVar("T")


def rows(*groups: str) -> pa.RecordBatch:
    builder = ColumnBuilder()
    for offset, group in enumerate(groups):
        record = commit(offset, group)
        builder.add(record.key, record.value, offset=offset)
    return builder.finish()


def of(*batches: pa.RecordBatch) -> Rows:
    return lambda function: map(function, batches)


def test_batches_with_dictionaries_of_their_own(tmp_path: Path) -> None:
    path = tmp_path / "out.parquet"
    assert write_parquet(path, of(rows("a", "b"), rows(), rows("c")), ()) == 3
    table = pq.read_table(path)
    assert table["group"].to_pylist() == ["a", "b", "c"]
    assert table.schema.names == [column.name for column in RECORD_COLUMNS]
    assert table.schema.field("commit_timestamp_ms").type == pa.int64()


def test_a_file_without_rows_has_its_columns(tmp_path: Path) -> None:
    path = tmp_path / "out.parquet"
    assert write_parquet(path, of(), ("offset", "group")) == 0
    assert pq.read_table(path).schema.names == ["offset", "group"]


def test_a_failure_half_way_leaves_what_was_there(tmp_path: Path) -> None:
    def broken(function: Callable[[pa.RecordBatch], T]) -> Iterator[T]:
        yield function(rows("a"))
        raise KeyboardInterrupt

    path = tmp_path / "out.parquet"
    path.write_bytes(b"old")
    with pytest.raises(KeyboardInterrupt):
        write_parquet(path, broken, ())
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_unknown_columns_are_told_before_anything_is_written(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no column detail; there are: partition, offset,"):
        write_parquet(tmp_path / "out.parquet", of(), ("detail",))
    assert list(tmp_path.iterdir()) == []


def test_what_is_no_file_is_left_alone(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    link = tmp_path / "link"
    link.symlink_to(pipe)
    for path in (pipe, link, tmp_path):
        with pytest.raises(UsageError, match="expected a file, or the name of a new one"):
            write_parquet(path, of(rows("a")), ())
    assert pipe.is_fifo()
    assert link.is_symlink()
    assert sorted(tmp_path.iterdir()) == [link, pipe]


def test_a_link_to_a_file_stays_a_link(tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "file")
    assert write_parquet(link, of(rows("a")), ()) == 1
    assert link.is_symlink()
    assert pq.read_table(tmp_path / "file")["group"].to_pylist() == ["a"]


def test_a_folder_that_does_not_exist(tmp_path: Path) -> None:
    path = tmp_path / "none" / "out.parquet"
    with pytest.raises(InputError) as error:
        write_parquet(path, of(), ())
    assert str(error.value) == f"{path}: No such file or directory"
