"""The live `__consumer_offsets` topic, and its splits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from kgroup.errors import InputError
from kgroup.history.input.split import OffsetRange, Split, opened
from kgroup.model.offsets_partition import OFFSETS_TOPIC
from kgroup.model.problem import Problem
from kgroup.source.broker.live_log import StartPosition, problems_of
from kgroup.source.config.client_config import ClientConfig

MOST_OFFSETS = 1 << 20
"""Maximum number of offsets of a split: a few hundred megabytes without compaction."""


@dataclass(frozen=True, slots=True)
class LiveSource:
    """The `__consumer_offsets` topic of a live cluster at one time.

    Attributes:
        cluster: name of the cluster in the warehouse.
        ranges: log start offset and log end offset by partition; partitions without a leader
            are missing.
        topic_names: names of existing topics, by topic id.
        problems: why partitions are missing.
        config: connection configuration.
    """

    cluster: str
    ranges: Mapping[int, tuple[int, int]]
    topic_names: Mapping[str, str]
    problems: tuple[Problem, ...]
    config: ClientConfig

    def splits(
        self,
        starts: Mapping[int, int] | None = None,
        ends: Mapping[int, int] | None = None,
        most_offsets: int = MOST_OFFSETS,
    ) -> list[Split]:
        """Return splits that cover the partitions.

        Args:
            starts: first offsets to read, by partition; by default the log start offsets.
            ends: offsets at which to stop, by partition; by default the log end offsets.
            most_offsets: maximum number of offsets of a split.
        """
        splits = []
        for partition, (first, last) in sorted(self.ranges.items()):
            start = max(first, (starts or {}).get(partition, first))
            end = (ends or {}).get(partition, last)
            while start < end:
                stop = min(end, start + most_offsets)
                place = OffsetRange(start, stop, self.config)
                name = f"{OFFSETS_TOPIC}-{partition}"
                splits.append(Split(self.cluster, partition, place, name, start))
                start = stop
        return splits


def ask_live(
    config: ClientConfig, cluster: str | None = None, timeout_s: float = 10.0
) -> LiveSource:
    """Ask a cluster for the log ranges of its `__consumer_offsets`.

    Args:
        config: how to connect.
        cluster: name for the cluster; by default its cluster id.
        timeout_s: give up after this many seconds without an answer from any broker.

    Raises:
        BrokerError: no broker answers, or the topic may not be described.
        InputError: the cluster has no id (before Kafka 0.10.1), or a file of the configuration
            cannot be read.
    """
    with opened(config, timeout_s) as topic:
        client = topic.client
        view = client.run(client.metadata, None)
        name = cluster or view.cluster_id
        if name is None:
            raise InputError(
                f"the cluster at {', '.join(config.bootstrap_servers)} has no id (Kafka before "
                "0.10.1 has none); name the cluster with --cluster NAME"
            )
        log_ranges, errors = client.run(topic.ranges_from, list(topic.leaders), StartPosition())
    names = {
        topic.topic_id: topic.name for topic in view.topics.values() if topic.topic_id is not None
    }
    return LiveSource(name, log_ranges, names, tuple(problems_of(errors)), config)
