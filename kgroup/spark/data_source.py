"""The data source `kgroup`: `__consumer_offsets` as Spark rows.

    spark.dataSource.register(KgroupDataSource)
    spark.read.format("kgroup").load("/var/lib/kafka/data")
    spark.read.format("kgroup").option("kafka.bootstrap.servers", "kafka-1:9092").load()
    spark.readStream.format("kgroup").option("kafka.bootstrap.servers", "kafka-1:9092").load()

A row is a record: the column `cluster`, then the columns of `kgroup decode-offsets --parquet`.
Unreadable data is a row of type "Damage" with a JSON object of kind, reason, path, position and
size as its `value_json`.

Options; others are refused:
    path, paths: segment files, folders of a partition, or log directories; also as URIs
        (s3://, gs://, hdfs://).
    splitSize: bytes that a task reads of them.
    kafka.*: client settings, for the live topic.
    startingOffsets: for a stream, earliest (the default) or latest.
    cluster: name of the cluster; by default the id in the log directory or of the live cluster.
    pushFilters: true if tasks filter the rows, and only the splits of wanted partitions are read.
        Spark must be set to spark.sql.python.filterPushdown.enabled=true. Not for streams.

Executors decode into Arrow batches, which Spark uses directly: there is no Python object for each
record, and no JVM object until rows are requested.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import msgspec
import pyarrow as pa
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    InputPartition,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
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
"""The `type` of a row that is not a record."""

ROWS = pa.schema(
    [
        pa.field("cluster", pa.string()),
        *(
            field.with_type(field.type.value_type) if pa.types.is_dictionary(field.type) else field
            for field in DECODED
        ),
    ]
)
"""Schema of the rows, without dictionaries, which Spark does not support."""

MOST_SILENCE_S = 600.0
"""Maximum time that a stream waits for the cluster or for partition leaders."""

_KAFKA = "kafka."
_PUSH = "pushFilters"
_TYPES = {"string": "string", "int64": "bigint", "int32": "int", "int16": "smallint"}


class KgroupDataSource(DataSource):
    """The data source; see the module. Register it with `spark.dataSource.register`."""

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return "kgroup"

    def schema(self) -> str:
        """Return the columns, as a Spark DDL string."""
        return ", ".join(f"`{field.name}` {_TYPES[str(field.type)]}" for field in ROWS)

    def reader(self, schema: StructType) -> KgroupReader:
        """Return a reader of segments, or of the live topic up to its current end."""
        if _config_of(self.options) is None:
            known = ("path", "paths", "splitSize", "cluster", _PUSH)
            _check_options(self.options, "of files", known)
        elif self.options.get("path") or self.options.get("paths"):
            raise UsageError("a path and kafka.bootstrap.servers are two sources; choose one")
        else:
            _check_options(self.options, "of the live topic", ("kafka.*", "cluster", _PUSH))
        push = self.options.get(_PUSH, "false").lower()
        if push not in ("true", "false"):
            raise UsageError(f"expected {_PUSH} true or false, found {push!r}")
        # Spark refuses readers that take filters unless it is set to push them.
        return (FilteringReader if push == "true" else KgroupReader)(self.options)

    def streamReader(self, schema: StructType) -> KgroupStreamReader:  # noqa: N802
        """Return a reader that follows the live topic."""
        config = _config_of(self.options)
        if config is None:
            raise UsageError("a stream needs the option kafka.bootstrap.servers; found none")
        _check_options(self.options, "of a stream", ("kafka.*", "startingOffsets", "cluster"))
        start = self.options.get("startingOffsets", "earliest")
        if start not in ("earliest", "latest"):
            raise UsageError(f"expected startingOffsets earliest or latest, found {start!r}")
        return KgroupStreamReader(config, self.options.get("cluster"), at_end=start == "latest")


class KgroupReader(DataSourceReader):
    """Reads segments, or the live topic up to its current end."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self._options = options  # a case-insensitive mapping

    def partitions(self) -> Sequence[InputPartition]:
        """Return the splits; runs in the driver."""
        config = _config_of(self._options)
        if config is None:
            return list(map(InputPartition, _file_splits(self._options)))
        live = ask_live(config, self._options.get("cluster"))
        return list(map(InputPartition, live.splits()))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Decode a split; runs in an executor."""
        return _rows_of(partition)


class FilteringReader(KgroupReader):
    """A `KgroupReader` whose tasks drop rows that Spark's filters would drop."""

    def __init__(self, options: Mapping[str, str]) -> None:
        super().__init__(options)
        self._filters: list[Filter] = []

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802
        """Keep the filters that can be used, and return all: Spark applies them, too."""
        self._filters = [each for each in filters if _can_use(each)]
        return filters

    def partitions(self) -> Sequence[InputPartition]:
        """Return the splits with rows that the filters may keep; runs in the driver."""
        return [each for each in super().partitions() if self._may_have(each.value)]

    def _may_have(self, split: Split) -> bool:
        place = {"cluster": split.cluster, "partition": split.offsets_partition}
        row = pa.RecordBatch.from_pylist([place], schema=ROWS)
        of_place = [each for each in self._filters if _column(each) in place]
        return bool(len(_filtered(row, of_place)))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Decode a split, and drop rows; runs in an executor."""
        for batch in _rows_of(partition):
            if len(rows := _filtered(batch, self._filters)):
                yield rows


_COMPARISONS: Mapping[type[Filter], str] = {
    EqualTo: "equal",
    GreaterThan: "greater",
    GreaterThanOrEqual: "greater_equal",
    LessThan: "less",
    LessThanOrEqual: "less_equal",
}
"""Arrow's functions for filters that compare a column with a value."""


def _column(a_filter: Filter) -> str:
    return ".".join(getattr(a_filter, "attribute", ()))


def _can_use(a_filter: Filter) -> bool:
    """Return whether a filter compares a column with values of its type."""
    if _column(a_filter) not in ROWS.names:
        return False
    if isinstance(a_filter, IsNotNull):
        return True
    if isinstance(a_filter, In):
        values = list(a_filter.value)
    elif type(a_filter) in _COMPARISONS:
        values = [getattr(a_filter, "value", None)]
    else:
        return False
    kind = str if ROWS.field(_column(a_filter)).type == pa.string() else int
    return all(type(value) is kind for value in values)


def _filtered(batch: pa.RecordBatch, filters: Iterable[Filter]) -> pa.RecordBatch:
    """Return the rows for which all filters are true."""
    import pyarrow.compute as pc

    for each in filters:
        column = batch[_column(each)]
        if isinstance(each, IsNotNull):
            mask = pc.is_valid(column)
        elif isinstance(each, In):
            mask = pc.is_in(column, pa.array(each.value, column.type))
        else:
            value = pa.scalar(getattr(each, "value", None), column.type)
            mask = pc.call_function(_COMPARISONS[type(each)], [column, value])
        batch = batch.filter(mask)
    return batch


class KgroupStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Follows the live topic. An offset of the stream is the next offset of each partition."""

    def __init__(self, config: ClientConfig, cluster: str | None, *, at_end: bool = False) -> None:
        self._config = config
        self._cluster = cluster
        self._at_end = at_end
        self._last: Mapping[int, tuple[int, int]] | None = None
        self._silent_since: float | None = None

    def initialOffset(self) -> dict[str, int]:  # noqa: N802
        """Return the offset at which a new stream starts; "latest" waits for all leaders.

        Raises:
            BrokerError: no broker answers, or a partition has had no leader for too long.
        """
        live = self._ask()
        if self._at_end and live.problems:
            live = await_live(self._ask, lambda live: not live.problems)
        return {str(number): ends[self._at_end] for number, ends in live.ranges.items()}

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Use the current end of the topic as the end of the stream."""
        self._last = self._ask().ranges

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:  # noqa: N802
        """Return the current end of the topic; the previous one while no broker answers.

        A partition without a leader keeps its offset, even if the stream was stopped meanwhile.

        Raises:
            BrokerError: no broker has answered for too long.
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
        """Return splits for the records between two offsets of the stream.

        Raises:
            BrokerError: one of its partitions has had no leader for too long.
        """
        wanted = {int(number) for number in end if start.get(number, 0) < end[number]}
        live = await_live(self._ask, lambda live: wanted <= live.ranges.keys())
        starts = {number: start.get(str(number), 0) for number in live.ranges}
        ends = {number: end.get(str(number), 0) for number in live.ranges}
        return list(map(InputPartition, live.splits(starts, ends)))

    def _ask(self) -> LiveSource:
        return ask_live(self._config, self._cluster)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Fetch and decode a split; runs in an executor."""
        return _rows_of(partition)


def await_live(
    ask: Callable[[], LiveSource],
    is_enough: Callable[[LiveSource], bool] = lambda live: True,
    ended: threading.Event | None = None,
) -> LiveSource:
    """Ask a cluster until it answers, and the answer is sufficient.

    Args:
        ask: asks the cluster once.
        is_enough: whether an answer is sufficient.
        ended: set when the answer is no longer needed.

    Raises:
        BrokerError: there was no sufficient answer for too long.
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
    split: Split | None = partition.value
    if split is None:  # Spark's own partition where there are none
        return
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
    """Return how to connect; None if there are no client settings."""
    overrides = [
        f"{name.removeprefix(_KAFKA)}={value}"
        for name, value in options.items()
        if name.startswith(_KAFKA)
    ]
    return client_config(environment={}, overrides=overrides) if overrides else None


def _check_options(options: Mapping[str, str], what: str, known: Sequence[str]) -> None:
    """Raise UsageError for unknown options, such as misspelt ones."""
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
