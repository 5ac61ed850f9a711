"""The data source `kgroup`: `__consumer_offsets` as rows of Spark.

    spark.dataSource.register(KgroupDataSource)
    spark.read.format("kgroup").load("/var/lib/kafka/data")
    spark.read.format("kgroup").option("kafka.bootstrap.servers", "kafka-1:9092").load()
    spark.readStream.format("kgroup").option("kafka.bootstrap.servers", "kafka-1:9092").load()

A row is a record, with the columns of `kgroup decode-offsets --parquet` behind `cluster`. What
cannot be read is a row of type "Damage", with a JSON object of kind, reason, path, position and
size as its `value_json`.

Options:
    path, paths: segment files, folders of a partition, or log directories; also as URIs
        (s3://, gs://, hdfs://).
    kafka.*: settings of the client, for the live topic.
    cluster: name of the cluster; by default what the log directory or the cluster itself says.
    splitSize: bytes that a task reads.
    startingOffsets: of a stream, earliest (the default) or latest.

Executors decode into Arrow batches, which Spark takes as they are: there is no object for a record
in Python nor, before rows are asked for, in the JVM.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from kgroup.errors import UsageError
from kgroup.history.segment_source import SPLIT_SIZE, find_sources
from kgroup.history.split import Split, read_split
from kgroup.protocol.batch import Damage
from kgroup.protocol.column_schema import DECODED

__all__ = ["ROWS", "KgroupDataSource", "rows_of"]

DAMAGE = "Damage"
"""The `type` of a row that is no record."""

ROWS = pa.schema(
    [
        pa.field("cluster", pa.string()),
        *(
            field.with_type(field.type.value_type) if pa.types.is_dictionary(field.type) else field
            for field in DECODED
        ),
    ]
)
"""A row: Spark takes no dictionaries."""

_TYPES = {"string": "string", "int64": "bigint", "int32": "int", "int16": "smallint"}


class KgroupDataSource(DataSource):
    """See the module; register it with `spark.dataSource.register`."""

    @classmethod
    def name(cls) -> str:
        """Name of the format."""
        return "kgroup"

    def schema(self) -> str:
        """Columns, as Spark writes them."""
        return ", ".join(f"`{field.name}` {_TYPES[str(field.type)]}" for field in ROWS)

    def reader(self, schema: StructType) -> KgroupReader:
        """Read what is there."""
        return KgroupReader(self.options)


class _Part(InputPartition):
    """A split, as Spark hands it to an executor."""

    def __init__(self, split: Split) -> None:
        super().__init__(split)
        self.split = split


class KgroupReader(DataSourceReader):
    """Reads segments, or the live topic up to its present end."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self._options = dict(options)

    def partitions(self) -> Sequence[InputPartition]:
        """Find the splits, in the driver."""
        return [_Part(split) for split in _file_splits(self._options)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Decode a split, in an executor."""
        assert isinstance(partition, _Part)
        yield from rows_of(partition.split)


def rows_of(split: Split) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a split as batches of `ROWS`."""
    for part in read_split(split):
        if isinstance(part, Damage):
            yield _damage_row(split, part)
            continue
        columns = [pa.repeat(pa.scalar(split.cluster, pa.string()), len(part))]
        for name in ROWS.names[1:]:
            columns.append(part[name].cast(ROWS.field(name).type))
        yield pa.RecordBatch.from_arrays(columns, schema=ROWS)


def _damage_row(split: Split, damage: Damage) -> pa.RecordBatch:
    what = {
        "kind": damage.kind,
        "reason": damage.reason,
        "path": split.name,
        "position": damage.position,
        "size": damage.size,
    }
    row = {
        "cluster": split.cluster,
        "partition": split.offsets_partition,
        "type": DAMAGE,
        "value_json": json.dumps(what),
    }
    return pa.RecordBatch.from_pylist([row], schema=ROWS)


def _file_splits(options: Mapping[str, str]) -> list[Split]:
    places: list[str] = json.loads(options.get("paths") or "[]")
    places += [options["path"]] if options.get("path") else []
    if not places:
        raise UsageError(
            'expected a path, .load("/var/lib/kafka/data"), or the option kafka.bootstrap.servers; '
            "found neither"
        )
    sources = find_sources(places, options.get("cluster"))
    size = _split_size(options.get("splitSize"))
    return [split for segment in sources.segments for split in segment.splits(0, size)]


def _split_size(text: str | None) -> int:
    if text is None:
        return SPLIT_SIZE
    if not text.isdecimal() or int(text) == 0:
        raise UsageError(f"expected a number of bytes as splitSize, found {text!r}")
    return int(text)
