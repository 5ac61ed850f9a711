"""Three brokers of 0.8 with groups of high-level consumers, and what Kafka says of them.

Kept may be the tree of ZooKeeper (`tree.json`) and a snapshot of it, and in the manifest are the
answers of Kafka's own ConsumerOffsetChecker, the fetcher threads of the consumers and the ends of
the logs.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from collections.abc import Collection, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from typing import Any

from tests.broker.maven import run_java, version_tuple
from tests.broker.old_consumers import OldConsumers, old_consumers
from tests.broker.servers import Broker, cluster
from tests.record.raw import await_coordinator, commit
from tests.record.recording import Recording
from tests.record.wire import Wire
from tests.record.zookeeper_tree import read_tree

VERSION = "0.8.2.2"
"""The version that runs where nothing else is said."""

CONFIG = {
    "offsets.topic.num.partitions": "4",
    "offsets.topic.replication.factor": "3",
    "log.retention.check.interval.ms": "1000",
}
SHORT_LOG = {"segment_bytes": "4096", "retention_bytes": "8192"}
"""Configuration of a topic that keeps 8 KB."""

_RESET = re.compile(
    r"Current offset (\d+) for partition \[(.+),(\d+)\] out of range; reset offset to (\d+)"
)
_CHECKED = re.compile(r"(\S+) +(\S+) +(\d+) +(\S+) +(\d+) +(\S+) +(\S+)")

Offsets = Mapping[tuple[str, int], int]


class OldCluster:
    """The brokers, 1 to 3, and the consumers; made by `old_cluster`."""

    def __init__(
        self, recording: Recording, brokers: tuple[Broker, ...], consumers: OldConsumers
    ) -> None:
        assert brokers[0].zookeeper is not None
        self.consumers = consumers
        self._version = brokers[0].version
        self._recording = recording
        self._brokers = brokers
        self._connect = brokers[0].zookeeper.connect
        self._partitions: dict[str, int] = {}

    def create_topic(self, topic: str, replicas: str, **config: str) -> None:
        """Create a topic with the broker ids of each partition, such as ``1:2,1:2``."""
        self.consumers.create_topic(topic, replicas, **config)
        self._partitions[topic] = replicas.count(",") + 1

    def await_coordinator(self) -> None:
        """Wait until offsets can be committed to Kafka."""
        with Wire(self._version, self._brokers[0].bootstrap) as wire:
            await_coordinator(wire)

    def produce(self, topic: str, count: int, *, rising: bool = False) -> None:
        """Write records to each partition; `rising`: one more in each than in the last."""
        for partition in range(self._partitions[topic]):
            self.consumers.host().call(
                "produce",
                topic=topic,
                partition=partition,
                count=count + partition * rising,
                config={"bootstrap.servers": self._brokers[0].bootstrap, "batch.size": "1024"},
            )

    def commit_to_zookeeper(self, group: str, offsets: Offsets) -> None:
        """Let a broker commit to ZooKeeper, by a request of version 0."""
        with Wire(self._version, self._brokers[0].bootstrap) as wire:
            commit(wire, group, offsets, version=0)

    def commit_to_kafka(self, group: str, offsets: Offsets) -> None:
        """Let a group's coordinator commit to Kafka."""
        with Wire(self._version, self._brokers[0].bootstrap) as wire:
            place = wire.call("FindCoordinator", 0, key=group)
        with Wire(self._version, f"{place['host']}:{place['port']}") as wire:
            commit(wire, group, offsets, commit_timestamp=-1)

    def await_shortened(self, topic: str) -> None:
        """Wait until broker 1 has deleted old segments of partition 0, and deletes no more."""
        deadline = time.monotonic() + 60
        with Wire(self._version, self._brokers[0].bootstrap) as wire:
            while _log_range(wire, topic, 0)["start"] == 0:
                assert time.monotonic() < deadline
                time.sleep(0.5)
        time.sleep(3)

    def stop_broker_3(self) -> None:
        """Stop it, and wait until everybody has taken note.

        The state of a partition that only it had then names leader -1, or still 3 where it was the
        controller itself.
        """
        self._brokers[2].stop()
        deadline = time.monotonic() + 60
        while "3" in self.consumers.zookeeper.get_children("/brokers/ids"):
            assert time.monotonic() < deadline
            time.sleep(0.1)
        time.sleep(2)
        self.consumers.settle()

    def take_answers(self, groups: Collection[str]) -> None:
        """Note what Kafka itself says: its tool, its consumers' threads, its brokers' logs."""
        alive = self.consumers.alive.values()
        self._recording.note(
            consumers={consumer.name: consumer.consumer_id for consumer in alive},
            checked={group: self._offset_checker(group) for group in groups},
            fetches={
                consumer.consumer_id: list(map(asdict, self.consumers.fetches(consumer.name)))
                for consumer in alive
            },
            log_ranges=self._log_ranges(),
            resets=self._resets(),
        )

    def keep_tree(self) -> None:
        """Keep every node as it is now."""
        nodes = read_tree(self.consumers.zookeeper)
        lines = ",\n".join(json.dumps(node, ensure_ascii=False) for node in nodes)
        (self._recording.kept / "tree.json").write_text(f"[\n{lines}\n]\n", encoding="utf-8")

    def keep_snapshot(self) -> None:
        """Keep what kgroup makes of them."""
        file = self._recording.kept / "snapshot.json"
        command = [sys.executable, "-m", "kgroup", "snapshot", "--all", "-f", str(file)]
        done = subprocess.run(
            [*command, "--zookeeper", self._connect], capture_output=True, text=True, timeout=60
        )
        assert done.returncode in (0, 4), done.stderr

    def _offset_checker(self, group: str) -> list[dict[str, Any]]:
        """The rows that `kafka.tools.ConsumerOffsetChecker` prints; unknown is None."""
        option = "--zookeeper" if version_tuple(self._version) >= (0, 8, 2) else "--zkconnect"
        arguments = [option, self._connect, "--group", group]
        done = run_java(self._version, "kafka.tools.ConsumerOffsetChecker", arguments)
        rows: list[dict[str, Any]] = []
        for line in done.stdout.decode().splitlines():
            if line.startswith("Group "):
                continue
            match = _CHECKED.fullmatch(line.strip())
            if match is None:
                rows.append({"line": line})
                continue
            _, topic, partition, offset, end, lag, owner = match.groups()
            rows.append(
                {
                    "topic": topic,
                    "partition": int(partition),
                    "offset": None if offset == "unknown" else int(offset),
                    "log_size": int(end),
                    "lag": None if lag == "unknown" else int(lag),
                    "owner": None if owner == "none" else owner,
                }
            )
        return rows

    def _log_ranges(self) -> dict[str, Mapping[str, int]]:
        """Where each partition begins and ends, by `topic-partition`; if it has a leader."""
        ranges = {}
        with (
            Wire(self._version, self._brokers[0].bootstrap) as first,
            Wire(self._version, self._brokers[1].bootstrap) as second,
        ):
            for topic in first.call("Metadata", topics=[])["topics"]:
                for partition in topic["partitions"]:
                    if topic["name"] in self._partitions and partition["leader_id"] in (1, 2):
                        wire = first if partition["leader_id"] == 1 else second
                        number = partition["partition_index"]
                        name = f"{topic['name']}-{number}"
                        ranges[name] = _log_range(wire, topic["name"], number)
        return dict(sorted(ranges.items()))

    def _resets(self) -> list[dict[str, Any]]:
        """Where `auto.offset.reset` sent consumers, says their log."""
        found = []
        for line in (self._recording.work / "consumers.log").read_text("utf-8").splitlines():
            match = _RESET.search(line)
            if match:
                offset, topic, partition, to = match.groups()
                row = {"topic": topic, "partition": int(partition), "offset": int(offset)}
                found.append(row | {"to": int(to)})
        return found


@contextmanager
def old_cluster(recording: Recording, version: str = VERSION) -> Iterator[OldCluster]:
    """Start the brokers, and give the means to start consumers of the same version."""
    recording.note(broker=version, mode="ZooKeeper", config=CONFIG)
    with ExitStack() as stack:
        brokers = stack.enter_context(cluster(version, 3, recording.work, config=CONFIG))
        assert brokers[0].zookeeper is not None
        connect = brokers[0].zookeeper.connect
        consumers = stack.enter_context(old_consumers(connect, recording.work, version))
        yield OldCluster(recording, brokers, consumers)


def _log_range(wire: Wire, topic: str, partition: int) -> dict[str, int]:
    """Offsets of the first record and of the next one, says the leader."""
    found = {}
    for name, timestamp in (("start", -2), ("end", -1)):
        asked = {"partition_index": partition, "timestamp": timestamp, "max_num_offsets": 1}
        topics = [{"name": topic, "partitions": [asked]}]
        (answer,) = wire.call("ListOffsets", replica_id=-1, topics=topics)["topics"]
        found[name] = answer["partitions"][0]["old_style_offsets"][0]
    return found
