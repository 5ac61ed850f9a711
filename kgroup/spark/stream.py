"""Keep a warehouse up to date from the live topic, with Structured Streaming.

    latestOffset ──► partitions: a task for each range of a partition ──► read, in executors: write
    files of the tables, yield a row for each new record ──► foreachBatch: collect, derive, commit

Spark asks for the end of the topic and stores it in its checkpoint. A batch reads what the
warehouse lacks of each partition, up to that end. An executor writes the records of a range into
files of the tables, and yields a row for each; the last row also has the result of the task, which
names the files. They are valid once the driver has committed them, as in any build. An interrupted
batch is repeated, and records that are known by then are left out. Every record is therefore in the
tables exactly once.

The tables are committed before Spark's checkpoint, and they alone decide where a batch begins: what
could not be read, for example because a partition had no leader, is read with the next batch.
"""

from __future__ import annotations

import pickle
import threading
import time
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING
from urllib.parse import quote

import pyarrow as pa
from pyspark.sql.datasource import DataSource, InputPartition
from pyspark.sql.streaming import StreamingQueryListener
from pyspark.sql.streaming.datasource import ReadLimit
from pyspark.sql.types import StructType

from kgroup.errors import BusyError, KgroupError, ProblemKind
from kgroup.history.build.build import Build, ClusterReport, live_tasks
from kgroup.history.build.task import TaskResult, run_task
from kgroup.history.input.live_source import LiveSource, ask_live
from kgroup.history.warehouse.store import Location, location_of, written_as
from kgroup.history.warehouse.warehouse import WarehouseWriter, read_warehouse, write_warehouse
from kgroup.interrupt import kept_signals
from kgroup.model.problem import Problem
from kgroup.operation.report import Report
from kgroup.pandas_import import leave_out_pandas
from kgroup.spark.data_source import KgroupStreamReader, await_live
from kgroup.spark.session import first_line, run_on

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.listener import (
        QueryIdleEvent,
        QueryProgressEvent,
        QueryStartedEvent,
        QueryTerminatedEvent,
    )

    from kgroup.source.config.client_config import ClientConfig

LOG_ENDS_EVERY_S = 60.0
"""Approximate time between two records of the log ends, which are also due without commits."""

LOCK_WAIT_S = 600.0
"""Maximum time that a batch waits for another build of the warehouse."""

_DUE = "log-ends"
"""Key in the stream's offsets, beside those of partitions."""

_CONFIG = "secretConfig"
"""Option with the pickled configuration; Spark redacts options with such names."""

_WAREHOUSE = "secretWarehouse"
"""Option with the warehouse, whose URI may contain a password."""

_RESULT = "result"
"""Column of the stream. It is null except in the last row of a task, which has the pickled
`TaskResult`, or the exception that the task raised.
"""


@dataclass(frozen=True, slots=True)
class BatchProgress:
    """What Spark measured of a batch.

    Attributes:
        number: number of the batch in the checkpoint.
        records: number of new records that executors have written. A range that turned out to have
            no new records, in a batch that is repeated, counts as one.
        seconds: duration of the batch, with its commit.
    """

    number: int
    records: int
    seconds: float


def stream_history(
    session: SparkSession,
    config: ClientConfig,
    cluster: str,
    root: Location,
    *,
    every_s: float,
    on_report: Callable[[Report[ClusterReport]], None],
    on_progress: Callable[[BatchProgress], None] = lambda progress: None,
) -> None:
    """Write new records into the tables until a signal; a running batch is finished.

    Args:
        session: session to run on.
        config: how to connect.
        cluster: name of the cluster.
        root: where the warehouse is.
        every_s: seconds from the start of a batch to the start of the next.
        on_report: called with the report of each batch.
        on_progress: called after a batch with new records, in another thread.

    Raises:
        BrokerError: the cluster does not answer, or a partition has no leader, for too long.
        KgroupError: the stream failed.
        OSError: a file cannot be written.
    """
    ended = threading.Event()
    batch = _Batch(session, config, cluster, root, on_report, ended)
    options = {"cluster": cluster, _WAREHOUSE: written_as(root.absolute())}
    options[_CONFIG] = b64encode(pickle.dumps(config)).decode()
    listener = _Listener(on_progress)
    with kept_signals(ended.set) as kept, TemporaryDirectory(prefix="kgroup-") as temporary:
        checkpoint = Path(temporary)  # of no use later: the tables tell where a batch begins
        with batch.warehouse():  # fail at once if it is not a warehouse
            if isinstance(root, Path):
                checkpoint = root.absolute() / "_kgroup" / "stream" / quote(cluster, safe="")
                checkpoint.mkdir(parents=True, exist_ok=True)
        session.dataSource.register(_WrittenRecords)
        session.streams.addListener(listener)
        query = (
            session.readStream.format(_WrittenRecords.name())
            .options(**options)
            .load()
            .writeStream.foreachBatch(batch.write)
            .option("checkpointLocation", checkpoint.as_uri())
            .trigger(processingTime=f"{round(every_s * 1000)} milliseconds")
            .start()
        )
        try:
            while not ended.wait(1) and query.isActive and batch.error is None:
                pass
        finally:
            with batch.running:  # let a running batch finish
                query.stop()
            session.streams.removeListener(listener)
        failure = query.exception()
    if kept:
        raise kept[0]
    if batch.error is not None:
        raise batch.error
    if failure is not None:
        raise KgroupError(f"the stream failed: {first_line(failure)}")


class _Listener(StreamingQueryListener):
    def __init__(self, on_progress: Callable[[BatchProgress], None]) -> None:
        self._on_progress = on_progress

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802
        progress = event.progress
        if progress.numInputRows:
            seconds = progress.batchDuration / 1000
            self._on_progress(BatchProgress(progress.batchId, progress.numInputRows, seconds))

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802
        pass

    def onQueryIdle(self, event: QueryIdleEvent) -> None:  # noqa: N802
        pass

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802
        pass


@dataclass
class _Batch:
    """Writes batches; see `stream_history` for the first attributes.

    Attributes:
        ended: set when the stream must end.
        running: held while a batch is written.
        error: exception of the last batch.
        log_ends_at: monotonic time in seconds of the last request of log ends; None before it.
        earlier: answer to that request until a batch has written it: all commits up to then are
            known once the next batch is read.
    """

    session: SparkSession
    config: ClientConfig
    cluster: str
    root: Location
    on_report: Callable[[Report[ClusterReport]], None]
    ended: threading.Event
    running: threading.Lock = field(default_factory=threading.Lock)
    error: Exception | None = None
    log_ends_at: float | None = None
    earlier: LiveSource | None = None

    def write(self, rows: DataFrame, number: int) -> None:
        """Write one batch; called by Spark, which stops if it raises."""
        with self.running:
            try:
                self.on_report(self._commit(rows))
            except Exception as error:
                self.error = error
                raise

    def _commit(self, rows: DataFrame) -> Report[ClusterReport]:
        """Have executors read the batch, and commit it."""
        now, before = time.monotonic(), self.log_ends_at
        # A batch that starts each minute may start a little early.
        is_due = before is None or now - before >= 0.8 * LOG_ENDS_EVERY_S
        ask = partial(ask_live, self.config, self.cluster, with_log_ends=is_due)
        try:
            with self.warehouse() as writer:
                source = await_live(ask, ended=self.ended)
                build = Build(writer, partial(run_on, self.session))
                build.accept_live(source, _results(rows), self.earlier)
                report = build.commit()
        except BusyError as error:
            if isinstance(self.root, Path):
                raise
            # Nobody locks an object store. The next batch reads what the tables lack then.
            reason = f"{error}; the next batch does"
            return Report((), (Problem(ProblemKind.BUSY, reason),))
        self.earlier = source if is_due else None
        self.log_ends_at = now if is_due else before
        return report

    @contextmanager
    def warehouse(self) -> Iterator[WarehouseWriter]:
        """Yield the warehouse once no other build changes it; otherwise like `write_warehouse`."""
        deadline = time.monotonic() + LOCK_WAIT_S
        with ExitStack() as stack:
            while True:
                try:
                    writer = stack.enter_context(write_warehouse(self.root))
                    break
                except BusyError:
                    if self.ended.wait(1) or time.monotonic() > deadline:
                        raise
            yield writer


def _results(rows: DataFrame) -> list[TaskResult]:
    """Run the tasks of a batch in executors; return their results.

    Raises:
        KgroupError: an executor failed, and Spark gave up.
        OSError: a file cannot be written.
    """
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    try:
        found = rows.where(f"{_RESULT} IS NOT NULL").select(_RESULT).collect()
    except (Py4JError, PySparkException) as error:
        raise KgroupError(f"Spark gave up: {first_line(error)}") from None
    results = [pickle.loads(row[_RESULT]) for row in found]
    for result in results:
        if isinstance(result, Exception):
            raise result
    return results


class _WrittenRecords(DataSource):
    """A stream whose rows are the records that were written into files of the tables."""

    @classmethod
    def name(cls) -> str:
        return "kgroup-written-records"

    def schema(self) -> str:
        return f"{_RESULT} binary"

    def streamReader(self, schema: StructType) -> _WrittenRecordsReader:  # noqa: N802
        config = pickle.loads(b64decode(self.options[_CONFIG]))
        return _WrittenRecordsReader(config, self.options["cluster"], self.options[_WAREHOUSE])


class _WrittenRecordsReader(KgroupStreamReader):
    def __init__(self, config: ClientConfig, cluster: str, root: str) -> None:
        super().__init__(config, cluster, at_end=False)
        self._root = location_of(root)

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:  # noqa: N802
        """Return the end of the topic, and a number that grows when log ends are due."""
        end = super().latestOffset(start, limit)
        if self._silent_since is not None:
            return end
        return end | {_DUE: int(time.time() / LOG_ENDS_EVERY_S)}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        """Return a task for each range of offsets that the warehouse lacks, up to `end`."""
        ends = {int(number): offset for number, offset in end.items() if number != _DUE}
        live = await_live(self._ask)
        with read_warehouse(self._root) as warehouse:
            return [InputPartition(task) for task in live_tasks(warehouse, live, ends)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Write the records of a range into files of the tables; runs in an executor."""
        leave_out_pandas()
        try:
            result = run_task(partition.value)
        except Exception as error:
            yield _rows(1, error)
        else:
            yield _rows(sum(read.coverage.count for read in result.reads), result)


def _rows(count: int, result: TaskResult | Exception) -> pa.RecordBatch:
    column = [pa.nulls(max(count, 1) - 1, pa.binary()), pa.array([pickle.dumps(result)])]
    return pa.RecordBatch.from_arrays([pa.concat_arrays(column)], [_RESULT])
