"""The data source `kgroup`: `__consumer_offsets` as rows of Spark.

    spark.dataSource.register(KgroupDataSource)
    spark.read.format("kgroup").load("/var/lib/kafka/data")
    spark.read.format("kgroup").option("kafka.bootstrap.servers", "kafka-1:9092").load()
    spark.readStream.format("kgroup").option("kafka.bootstrap.servers", "kafka-1:9092").load()

A row is a record, with the columns of `kgroup decode-offsets --parquet` behind `cluster`. What
cannot be read is a row of type "Damage", with a JSON object of kind, reason, path, position and
size as its `value_json`.

Options, of which others are refused:
    path, paths: segment files, folders of a partition, or log directories; also as URIs
        (s3://, gs://, hdfs://).
    splitSize: bytes of them that a task reads.
    kafka.*: settings of the client, for the live topic.
    startingOffsets: of a stream, earliest (the default) or latest.
    cluster: name of the cluster; by default what the log directory or the cluster itself says.

Executors decode into Arrow batches, which Spark takes as they are: there is no object for a record
in Python nor, before rows are asked for, in the JVM.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence

import msgspec
import pyarrow as pa
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    InputPartition,
)
from pyspark.sql.streaming.datasource import ReadLimit, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from kgroup.columnar.schema import DECODED
from kgroup.errors import BrokerError, ProblemKind, UsageError
from kgroup.history.input.live_source import LiveSource, ask_live
from kgroup.history.input.segment_source import SPLIT_SIZE, find_sources
from kgroup.history.input.split import Split, read_split
from kgroup.model.offsets_partition import OFFSETS_TOPIC
from kgroup.protocol.batch.batch import Damage
from kgroup.source.config.client_config import ClientConfig, client_config
from kgroup.source.config.client_setting import MOST_LONG, whole_number

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

MOST_SILENCE_S = 600.0
"""How long a stream waits for a cluster that does not answer, or for leaders."""

_KAFKA = "kafka."
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
        if _config_of(self.options) is None:
            _check_options(self.options, "of files", ("path", "paths", "splitSize", "cluster"))
        elif self.options.get("path") or self.options.get("paths"):
            raise UsageError("a path and kafka.bootstrap.servers are two sources; choose one")
        else:
            _check_options(self.options, "of the live topic", ("kafka.*", "cluster"))
        return KgroupReader(self.options)

    def streamReader(self, schema: StructType) -> KgroupStreamReader:  # noqa: N802
        """Read the live topic as it grows."""
        config = _config_of(self.options)
        if config is None:
            raise UsageError("a stream needs the option kafka.bootstrap.servers; found none")
        _check_options(self.options, "of a stream", ("kafka.*", "startingOffsets", "cluster"))
        start = self.options.get("startingOffsets", "earliest")
        if start not in ("earliest", "latest"):
            raise UsageError(f"expected startingOffsets earliest or latest, found {start!r}")
        return KgroupStreamReader(config, self.options.get("cluster"), at_end=start == "latest")


class KgroupReader(DataSourceReader):
    """Reads segments, or the live topic up to its present end."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self._options = options  # their names are told without case

    def partitions(self) -> Sequence[InputPartition]:
        """Find the splits, in the driver."""
        config = _config_of(self._options)
        if config is None:
            return list(map(InputPartition, _file_splits(self._options)))
        live = ask_live(config, self._options.get("cluster"))
        return list(map(InputPartition, live.splits()))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Decode a split, in an executor."""
        return _rows_of(partition)


class KgroupStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads the live topic. An offset of the stream is the next one of each partition."""

    def __init__(self, config: ClientConfig, cluster: str | None, *, at_end: bool = False) -> None:
        self._config = config
        self._cluster = cluster
        self._at_end = at_end
        self._last: Mapping[int, tuple[int, int]] | None = None
        self._silent_since: float | None = None

    def initialOffset(self) -> dict[str, int]:  # noqa: N802
        """Tell where a stream begins that has never run: the end is known once all have a leader.

        Raises:
            BrokerError: none answers, or a partition has had no leader for a while.
        """
        live = self._ask()
        if self._at_end and live.problems:
            live = await_live(self._ask, lambda live: not live.problems)
        return {str(number): ends[self._at_end] for number, ends in live.ranges.items()}

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Take the present end for that of the stream."""
        self._last = self._ask().ranges

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:  # noqa: N802
        """Tell how far it goes now; while no broker answers, how far it went before.

        A partition that has no leader stays where it was, also where the stream was stopped since.

        Raises:
            BrokerError: none has answered for a while.
        """
        try:
            ranges = self._ask().ranges if self._last is None else self._last
        except BrokerError:
            self._silent_since = self._silent_since or time.monotonic()
            if time.monotonic() - self._silent_since > MOST_SILENCE_S:
                raise
            return start
        self._silent_since = None
        ends = {str(number): end for number, (_, end) in ranges.items()}
        return start | {number: max(end, start.get(number, 0)) for number, end in ends.items()}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        """Cut what lies between two offsets of the stream.

        Raises:
            BrokerError: one of its partitions has had no leader for a while.
        """
        wanted = {int(number) for number in end if start.get(number, 0) < end[number]}
        live = await_live(self._ask, lambda live: wanted <= live.ranges.keys())
        starts = {number: start.get(str(number), 0) for number in live.ranges}
        ends = {number: end.get(str(number), 0) for number in live.ranges}
        return list(map(InputPartition, live.splits(starts, ends)))

    def _ask(self) -> LiveSource:
        return ask_live(self._config, self._cluster)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Fetch and decode a split, in an executor."""
        return _rows_of(partition)


def await_live(
    ask: Callable[[], LiveSource],
    is_enough: Callable[[LiveSource], bool] = lambda live: True,
    ended: threading.Event | None = None,
) -> LiveSource:
    """Ask a cluster until it answers, and says enough.

    Args:
        ask: asks it once.
        is_enough: tells whether an answer will do.
        ended: set when nobody waits any more.

    Raises:
        BrokerError: it has not for a while.
    """
    ended = ended or threading.Event()
    deadline = time.monotonic() + MOST_SILENCE_S
    while True:
        try:
            live = ask()
            if is_enough(live):
                return live
            reasons = "; ".join(problem.reason for problem in live.problems)
            problem = BrokerError(
                ProblemKind.MOVING, reasons or f"partitions of {OFFSETS_TOPIC} are gone"
            )
        except BrokerError as error:
            problem = error
        if ended.wait(1) or time.monotonic() > deadline:
            raise problem


def _rows_of(partition: InputPartition) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a split as batches of `ROWS`."""
    split: Split = partition.value
    for part in read_split(split):
        if isinstance(part, Damage):
            yield _damage_row(split, part)
            continue
        columns = [pa.repeat(pa.scalar(split.cluster, pa.string()), len(part))]
        for name in ROWS.names[1:]:
            columns.append(part[name].cast(ROWS.field(name).type))
        yield pa.RecordBatch.from_arrays(columns, schema=ROWS)


def _damage_row(split: Split, damage: Damage) -> pa.RecordBatch:
    what = {"kind": damage.kind, "reason": damage.reason, "path": split.name}
    text = json.dumps({**what, "position": damage.position, "size": damage.size})
    row = {"cluster": split.cluster, "partition": split.offsets_partition}
    return pa.RecordBatch.from_pylist([{**row, "type": DAMAGE, "value_json": text}], schema=ROWS)


def _file_splits(options: Mapping[str, str]) -> list[Split]:
    paths = options.get("paths") or "[]"
    try:
        locations = msgspec.json.decode(paths, type=list[str])
    except msgspec.DecodeError:
        raise UsageError(f"paths: expected a JSON list of texts, found {paths!r}") from None
    locations += [options["path"]] if options.get("path") else []
    if not locations:
        raise UsageError(
            'expected a path, .load("/var/lib/kafka/data"), or the option kafka.bootstrap.servers; '
            "found neither"
        )
    sources = find_sources(locations, options.get("cluster"))
    size = _split_size(options.get("splitSize"))
    return [split for segment in sources.segments for split in segment.splits(0, size)]


def _config_of(options: Mapping[str, str]) -> ClientConfig | None:
    """Return how to connect; None where no server is named."""
    overrides = [
        f"{name.removeprefix(_KAFKA)}={value}"
        for name, value in options.items()
        if name.startswith(_KAFKA)
    ]
    return client_config(environment={}, overrides=overrides) if overrides else None


def _check_options(options: Mapping[str, str], what: str, known: Sequence[str]) -> None:
    """Refuse options that would do nothing: one that is misspelt, say."""
    names = {name.lower() for name in known}
    for name in options:
        if name.lower() not in names and not (name.startswith(_KAFKA) and "kafka.*" in names):
            raise UsageError(f"{name}: no option {what}; there are {', '.join(known)}")


def _split_size(text: str | None) -> int:
    if text is None:
        return SPLIT_SIZE
    size = whole_number(text, MOST_LONG)
    if not size:
        raise UsageError(f"expected a number of bytes as splitSize, found {text!r}")
    return size
