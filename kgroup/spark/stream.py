"""Keep a warehouse current from the live topic: Structured Streaming, batch after batch.

Spark asks how far the topic goes, and remembers it in its checkpoint. A batch says that there is
something new, and brings nothing along: what is new is what the warehouse does not know, and that
is read and counts as in any build. A batch that was cut off comes again, and what of it is known
already is left out. So every record is in the tables exactly once.
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

LOCK_WAIT_S = 600.0
"""How long a batch waits for a build to be done with the warehouse."""

_CONFIG = "secretConfig"
"""Option with the pickled configuration; Spark does not show options of such names."""


def stream_history(
    session: SparkSession,
    config: ClientConfig,
    cluster: str,
    root: Path,
    *,
    every_s: float,
    on_report: Callable[[Report[ClusterReport]], None],
) -> None:
    """Write what comes into the tables, until a signal ends it; a batch that runs is finished.

    Args:
        session: to run on.
        config: how to connect.
        cluster: its name.
        root: the warehouse's folder.
        every_s: seconds from the begin of a batch to that of the next.
        on_report: called with what a batch did.

    Raises:
        BrokerError: the cluster does not answer, or has no leader for a partition, for long.
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
        with batch.warehouse():  # so that what is no warehouse is told at once
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
            with batch.running:  # what has begun comes to its end
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
    """Writes batches; of its first attributes see `stream_history`.

    Attributes:
        ended: set when nobody waits any more.
        running: held while one is written.
        error: what went wrong with the last.
    """

    session: SparkSession
    config: ClientConfig
    cluster: str
    root: Path
    on_report: Callable[[Report[ClusterReport]], None]
    ended: threading.Event
    running: threading.Lock = field(default_factory=threading.Lock)
    error: Exception | None = None

    def write(self, rows: DataFrame, number: int) -> None:
        """Write one batch; Spark calls it, and does not go on where it raises."""
        with self.running:
            try:
                self.on_report(self._commit())
            except Exception as error:
                self.error = error
                raise

    def _commit(self) -> Report[ClusterReport]:
        """Read the topic up to its present end, as far as the warehouse does not have it.

        A partition that had no leader at its own batch is read with the next one of any partition.
        """
        ask = partial(ask_live, self.config, self.cluster)
        with self.warehouse() as writer:
            build = Build(writer, partial(run_on, self.session))
            build.read_live(await_live(ask, ended=self.ended))
            return build.commit()

    @contextmanager
    def warehouse(self) -> Iterator[WarehouseWriter]:
        """Yield the warehouse, once no build changes it; otherwise as `write_warehouse`."""
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
    """The stream of `KgroupDataSource` without its rows."""

    @classmethod
    def name(cls) -> str:
        return "kgroup-trigger"

    def streamReader(self, schema: StructType) -> _TriggerReader:  # noqa: N802
        config = pickle.loads(b64decode(self.options[_CONFIG]))
        return _TriggerReader(config, self.options.get("cluster"))


class _TriggerReader(KgroupStreamReader):
    def partitions(self, start: dict[str, int], end: dict[str, int]) -> list[InputPartition]:
        return []
