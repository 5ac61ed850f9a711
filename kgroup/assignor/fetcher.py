"""Which fetcher thread of a ZooKeeper consumer reads a partition.

Source: `kafka.server.AbstractFetcherManager.getFetcherId` of Kafka 0.8.0, 0.8.1.1 and 0.8.2.2.
"""

from __future__ import annotations

from kgroup.model.offsets_partition import string_hash

KAFKA_VERSIONS = ("0.8.2.2", "0.8.1.1", "0.8.0")
"""Versions of Kafka whose consumers choose fetchers each in its own way, the newest first."""

_LEAST_INT = -(1 << 31)


def fetcher_id(
    topic: str, partition: int, count: int, kafka_version: str = KAFKA_VERSIONS[0]
) -> int:
    """Return which of a broker's `count` fetchers reads a partition, in one of `KAFKA_VERSIONS`."""
    value = (31 * string_hash(topic) + partition) & 0xFFFFFFFF
    if kafka_version == "0.8.0":
        return 0
    if kafka_version == "0.8.1.1":
        return (value & 0x7FFFFFFF) % count
    signed = value - (1 << 32) if value >> 31 else value
    return (0 if signed == _LEAST_INT else abs(signed)) % count
