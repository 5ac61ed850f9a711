"""Keep a warehouse up to date from the live topic, with Structured Streaming.

Spark asks for the end of the topic and stores it in its checkpoint. A batch only says that there
are new records and has no rows: the new records are those that the warehouse does not have, and
they are read and committed as in any build. An interrupted batch is repeated, and records that are
known by then are left out. Every record is therefore in the tables exactly once.
"""

from __future__ import annotations

import pickle
import threading
import time
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

from pyspark.sql.datasource import InputPartition
from pyspark.sql.streaming.datasource import ReadLimit
from pyspark.sql.types import StructType

from kgroup.errors import BusyError, KgroupError
from kgroup.history.build.build import Build, ClusterReport
from kgroup.history.input.live_source import ask_live
from kgroup.history.warehouse.warehouse import WarehouseWriter, write_warehouse
from kgroup.interrupt import kept_signals
from kgroup.spark.data_source import KgroupDataSource, KgroupStreamReader, await_live
from kgroup.spark.session import first_line, run_on

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from kgroup.operation.report import Report
    from kgroup.source.config.client_config import ClientConfig

LOG_ENDS_EVERY_S = 60.0
"""Approximate time between two records of the log ends, which are also due without commits."""

LOCK_WAIT_S = 600.0
"""Maximum time that a batch waits for another build of the warehouse."""

_DUE = "log-ends"
"""Key in the stream's offsets, beside those of partitions."""

_CONFIG = "secretConfig"
"""Option with the pickled configuration; Spark redacts options with such names."""


def stream_history(
    session: SparkSession,
    config: ClientConfig,
    cluster: str,
    root: Path,
    *,
    every_s: float,
    on_report: Callable[[Report[ClusterReport]], None],
) -> None:
    """Write new records into the tables until a signal; a running batch is finished.

    Args:
        session: session to run on.
        config: how to connect.
        cluster: name of the cluster.
        root: folder of the warehouse.
        every_s: seconds from the start of a batch to the start of the next.
        on_report: called with the report of each batch.

    Raises:
        BrokerError: the cluster does not answer, or a partition has no leader, for too long.
        KgroupError: the stream failed.
        OSError: a file cannot be written.
    """
    ended = threading.Event()
    batch = _Batch(session, config, cluster, root, on_report, ended)
    checkpoint = root.absolute() / "_kgroup" / "stream" / quote(cluster, safe="")
    session.dataSource.register(_Trigger)
    reader = session.readStream.format(_Trigger.name()).option(
        _CONFIG, b64encode(pickle.dumps(config)).decode()
    )
    with kept_signals(ended.set) as kept:
        with batch.warehouse():  # fail at once if it is not a warehouse
            checkpoint.mkdir(parents=True, exist_ok=True)
        query = (
            reader.option("cluster", cluster)
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
        failure = query.exception()
    if kept:
        raise kept[0]
    if batch.error is not None:
        raise batch.error
    if failure is not None:
        raise KgroupError(f"the stream failed: {first_line(failure)}")


@dataclass
class _Batch:
    """Writes batches; see `stream_history` for the first attributes.

    Attributes:
        ended: set when the stream must end.
        running: held while a batch is written.
        error: exception of the last batch.
        log_ends_at: monotonic time in seconds of the last recorded log ends; None before them.
    """

    session: SparkSession
    config: ClientConfig
    cluster: str
    root: Path
    on_report: Callable[[Report[ClusterReport]], None]
    ended: threading.Event
    running: threading.Lock = field(default_factory=threading.Lock)
    error: Exception | None = None
    log_ends_at: float | None = None

    def write(self, rows: DataFrame, number: int) -> None:
        """Write one batch; called by Spark, which stops if it raises."""
        with self.running:
            try:
                self.on_report(self._commit())
            except Exception as error:
                self.error = error
                raise

    def _commit(self) -> Report[ClusterReport]:
        """Read and commit the records, up to the topic's current end, that the warehouse lacks.

        A partition without a leader during its own batch is read with the next batch of any
        partition.
        """
        now, before = time.monotonic(), self.log_ends_at
        # A batch that starts each minute may start a little early.
        is_due = before is None or now - before >= 0.8 * LOG_ENDS_EVERY_S
        ask = partial(ask_live, self.config, self.cluster, with_log_ends=is_due)
        with self.warehouse() as writer:
            build = Build(writer, partial(run_on, self.session))
            build.read_live(await_live(ask, ended=self.ended))
            report = build.commit()
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


class _Trigger(KgroupDataSource):
    """The stream of `KgroupDataSource`, without its rows."""

    @classmethod
    def name(cls) -> str:
        return "kgroup-trigger"

    def streamReader(self, schema: StructType) -> _TriggerReader:  # noqa: N802
        config = pickle.loads(b64decode(self.options[_CONFIG]))
        return _TriggerReader(config, self.options.get("cluster"))


class _TriggerReader(KgroupStreamReader):
    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:  # noqa: N802
        """Return the end of the topic, and a number that grows when log ends are due."""
        end = super().latestOffset(start, limit)
        if self._silent_since is not None:
            return end
        return end | {_DUE: int(time.time() / LOG_ENDS_EVERY_S)}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> list[InputPartition]:
        return []
