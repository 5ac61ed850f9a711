"""Ask a broker about the past of one of its groups: a partition of `__consumer_offsets` of 1 GiB.

The broker makes the topic, then gets a segment that Kafka's own classes have written: 2,000 groups
over 22 hours.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from time import sleep

from kafka import KafkaConsumer, TopicPartition
from kafka.structs import OffsetAndMetadata

from bench.cluster import JVM
from bench.decoding import PARTITIONS_OF_A_GROUP
from bench.measure import ENVIRONMENT, HERE, KAFKA, KGROUP, measure, median, print_heads, print_row
from kgroup.protocol.batch.batch import RecordBatch
from kgroup.protocol.batch.record_batch import read_batches
from tests.broker import maven
from tests.broker.process import running
from tests.broker.servers import Broker

SIZE = 1 << 30
COMMITS = 8
PACE_MS = 66
"""Most time between two batches, exclusive: 2.4 million of them take 22 hours."""
HOUR_MS = 3_600_000
CONFIG = {
    "offsets.topic.num.partitions": "1",
    "offsets.topic.segment.bytes": str((1 << 31) - 1),
    "offsets.retention.minutes": str((1 << 31) - 1),
    "log.cleaner.enable": "false",
}


def bench(runs: int) -> None:
    with TemporaryDirectory() as work, _broker(Path(work)) as (bootstrap, last_ms):
        group_id = _first_group(bootstrap)
        live = ["history", "rebalances", group_id, "-b", bootstrap, "--since"]
        sample = ["history", "rebalances", "order-service", "--sample"]
        print_heads("rebalances of a group", "seconds", "aim", "processor, s", "peak, MB")
        for what, aim, command in (
            ("a partition of 1 GiB", "5", [*live, str(last_ms - 24 * HOUR_MS)]),
            ("its last hour", "1", [*live, str(last_ms - HOUR_MS)]),
            ("the sample", "", sample),
        ):
            kgroup = [*KGROUP, *command]
            measure(kgroup)  # compiles what is not compiled yet
            run = median([measure(kgroup) for _ in range(runs)])
            cells = f"{run.wall:.2f}", aim, f"{run.cpu:.2f}", f"{run.memory:.0f}"
            print_row(what, *cells)


def _first_group(bootstrap: str) -> str:
    """Return a group id, as soon as the coordinator has loaded the partition."""
    listing = ["list", "--no-lag", "-o", "tsv", "--no-headers", "--columns", "group_id"]
    for _ in range(120):
        command = [*KGROUP, *listing, "-b", bootstrap]
        listed = subprocess.run(command, capture_output=True, env=ENVIRONMENT, check=False)
        if listed.returncode == 0 and listed.stdout:
            return listed.stdout.decode().splitlines()[0]
        sleep(1)
    raise SystemExit(f"the coordinator did not load the partition: {listed.stderr.decode()}")


@contextmanager
def _broker(work: Path) -> Iterator[tuple[str, int]]:
    """Run a broker with the segment; give its address, and the time of the last batch."""
    server = Broker(KAFKA, work, config=CONFIG)
    server.heap, server.jvm = "1g", JVM
    with running(server):
        server.create_topic("orders")
        options = {"group_id": "first", "enable_auto_commit": False}
        consumer = KafkaConsumer(**server.client_options, **options)
        consumer.commit({TopicPartition("orders", 0): OffsetAndMetadata(0, "", -1)})
        consumer.close()
    folder = server.log_dir / "__consumer_offsets-0"
    for file in folder.glob("0*"):
        file.unlink()
    segment = folder / f"{5_000_000_000:020}.log"
    arguments = [segment, SIZE, COMMITS, "none", PARTITIONS_OF_A_GROUP, "-", 0, PACE_MS]
    classes = maven.compile_java([HERE / "java" / "WriteSegment.java"], KAFKA)
    maven.run_java(KAFKA, "WriteSegment", list(map(str, arguments)), classes=classes, timeout=900)
    with segment.open("rb") as written:
        written.seek(-(1 << 16), 2)
        found = [item for item in read_batches(written.read()) if isinstance(item, RecordBatch)]
    last_ms = found[-1].max_timestamp_ms
    assert last_ms is not None
    with running(server):
        yield server.bootstrap, last_ms
