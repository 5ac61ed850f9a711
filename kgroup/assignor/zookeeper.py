"""The ZooKeeper consumer (Kafka 0.8): its assignors, range and roundrobin, and its fetchers.

Partitions are assigned to *threads*: a consumer registers a number of streams for each topic and
has the threads `consumer-0`, `consumer-1`, … for them. There is no leader: every consumer reads all
registrations, computes the whole assignment and claims its own part.

Source: `kafka.consumer.RangeAssignor`, `RoundRobinAssignor` and `AssignmentContext`, and
`kafka.utils.ZkUtils`, of Kafka 0.8.2.2.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import cycle

from kgroup.assignor.base import AssignorError, TopicMetadata, java_order
from kgroup.assignor.java.java_hash import utf16
from kgroup.assignor.java.scala_hash import case_class_hash, immutable_order, mutable_order
from kgroup.model.cluster import TopicPartition
from kgroup.model.offsets_partition import string_hash

ThreadId = tuple[str, int]
"""Consumer id and thread number."""

ThreadAssignment = dict[ThreadId, list[TopicPartition]]
"""Partitions by thread, sorted: the assignors return sets."""

_MASK = 0xFFFFFFFF

Consumers = Mapping[str, Mapping[str, int]]
"""Number of streams by consumer id (`group_host-time-random`) and topic, in ZooKeeper's order.

Topics are in the order of the registration, or of ZooKeeper's list if a pattern selects them.
"""

ZookeeperAssignor = Callable[[Consumers, Mapping[str, TopicMetadata]], ThreadAssignment]
"""Assigns the topics that exist to consumers.

Raises `AssignorError` if every consumer fails, for example because topics or threads differ.
"""


def assign_range(consumers: Consumers, topics: Mapping[str, TopicMetadata]) -> ThreadAssignment:
    """Assign consecutive partitions of each topic to its threads; see `ZookeeperAssignor`."""
    assigned = _empty(consumers)
    for topic, threads in _threads_by_topic(consumers).items():
        least, more = divmod(_partitions(topics, topic), len(threads))
        start = 0
        for turn, thread in enumerate(threads):
            stop = start + least + (turn < more)
            assigned[thread] += [(topic, number) for number in range(start, stop)]
            start = stop
    return _sorted(assigned)


def assign_round_robin(
    consumers: Consumers, topics: Mapping[str, TopicMetadata]
) -> ThreadAssignment:
    """Assign the partitions of all topics, in the order of their hashes, to threads in turn.

    Each consumer iterates over topics in the order of a map, which depends on its registration.
    For partitions with the same hash, two consumers may therefore claim the same one.
    """
    assigned = _empty(consumers)
    threads = _threads_by_topic(consumers)
    walks = {consumer_id: _topic_order(list(own)) for consumer_id, own in consumers.items()}
    order = mutable_order(topic for walk in walks.values() for topic in walk)
    if not order:
        raise AssignorError("NullPointerException")
    ring = threads[order[0]]
    for topic in order:
        if threads[topic] != ring:
            raise AssignorError(
                "IllegalArgumentException",
                "requirement failed: Round-robin assignment is allowed only if all consumers in "
                "the group subscribe to the same topics, AND if the stream counts across topics "
                "are identical for a given consumer instance.\n"
                f"Topic {topic} has the following available consumer streams: "
                f"{_shown(threads[topic])}\n"
                f"Topic {order[0]} has the following available consumer streams: {_shown(ring)}\n",
            )
    takers: dict[tuple[str, ...], set[str]] = defaultdict(set)
    for consumer_id, walk in walks.items():
        # the consumer copies topics into two more maps
        takers[tuple(mutable_order(mutable_order(walk)))].add(consumer_id)
    for last_walk, consumer_ids in takers.items():
        for partition, thread in zip(_by_hash(last_walk, topics), cycle(ring), strict=False):
            if thread[0] in consumer_ids:
                assigned[thread].append(partition)
    return _sorted(assigned)


def thread_name(thread: ThreadId) -> str:
    """Return a thread's id as it is written in owner nodes."""
    return f"{thread[0]}-{thread[1]}"


def _empty(consumers: Consumers) -> ThreadAssignment:
    return {
        (consumer_id, number): []
        for consumer_id, streams in consumers.items()
        for number in range(max(streams.values(), default=0))
    }


def _threads_by_topic(consumers: Consumers) -> dict[str, list[ThreadId]]:
    """Return the threads of each topic, sorted by id as a string: `c-10` before `c-2`."""
    threads: dict[str, list[ThreadId]] = defaultdict(list)
    for consumer_id, streams in consumers.items():
        for topic, count in streams.items():
            if count < 1:
                raise AssignorError("AssertionError", "assertion failed")
            threads[topic] += [(consumer_id, number) for number in range(count)]
    names = {thread: utf16(thread_name(thread)) for own in threads.values() for thread in own}
    return {topic: sorted(own, key=names.__getitem__) for topic, own in threads.items()}


def _topic_order(registered: list[str]) -> list[str]:
    """Return a consumer's topics in the order of `TopicCount.makeConsumerThreadIdsPerTopic`."""
    return mutable_order(immutable_order(registered, [string_hash(topic) for topic in registered]))


def _by_hash(walk: Sequence[str], topics: Mapping[str, TopicMetadata]) -> Iterator[TopicPartition]:
    """Return the partitions of topics, sorted by `TopicAndPartition.toString.hashCode`."""
    keyed: list[tuple[int, int, TopicPartition]] = []
    ends: list[tuple[int, int]] = []
    for topic in walk:
        begin = string_hash(f"[{topic},")
        count = _partitions(topics, topic)
        while len(ends) < count:
            end = f"{len(ends)}]"
            ends.append((pow(31, len(end), 1 << 32), string_hash(end)))
        for number in range(count):
            power, end_hash = ends[number]
            # with its sign bit flipped, a signed int sorts as an unsigned one
            turned = (begin * power + end_hash & _MASK) ^ 0x80000000
            keyed.append((turned, len(keyed), (topic, number)))
    keyed.sort()
    return (partition for _, _, partition in keyed)


def _shown(threads: Sequence[ThreadId]) -> str:
    """Return a set of threads as Scala prints it."""
    ordered = immutable_order(
        threads, [case_class_hash(*thread) for thread in threads], of_set=True
    )
    return f"Set({', '.join(map(thread_name, ordered))})"


def _partitions(topics: Mapping[str, TopicMetadata], topic: str) -> int:
    return topics[topic].partitions if topic in topics else 0


def _sorted(assigned: ThreadAssignment) -> ThreadAssignment:
    return {thread: sorted(partitions, key=java_order) for thread, partitions in assigned.items()}


FETCHER_VERSIONS = ("0.8.2.2", "0.8.1.1", "0.8.0")
"""Versions of Kafka whose consumers choose fetchers differently, newest first."""

_LEAST_INT = -(1 << 31)


def fetcher_id(
    topic: str, partition: int, count: int, kafka_version: str = FETCHER_VERSIONS[0]
) -> int:
    """Return the number of the fetcher, of a broker's `count`, that reads a partition.

    Source: `kafka.server.AbstractFetcherManager.getFetcherId` of the `FETCHER_VERSIONS`.
    """
    value = (31 * string_hash(topic) + partition) & 0xFFFFFFFF
    if kafka_version == "0.8.0":
        return 0
    if kafka_version == "0.8.1.1":
        return (value & 0x7FFFFFFF) % count
    signed = value - (1 << 32) if value >> 31 else value
    return (0 if signed == _LEAST_INT else abs(signed)) % count
