"""A member before an assignment, for every protocol."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from msgspec import Struct, field

from kgroup.model.cluster import TopicPartition
from kgroup.value_class import value_class

NEWEST = "4.3.1"
"""Version of Kafka's own assignors that is used by default."""

OF_ZOOKEEPER = "0.8.2.2"
"""Implemented version of the ZooKeeper consumer: the first with both strategies."""

NEWEST_VERSION = 3
"""Newest version of the classic subscription message."""


class Software(NamedTuple):
    """A client library, or a part of Kafka, in one version; `str` gives "NAME VERSION"."""

    name: str
    version: str

    def __str__(self) -> str:
        return f"{self.name} {self.version}"


@dataclass(frozen=True, slots=True)
class UserData:
    """A member's user data as a sticky assignor reads it.

    Attributes:
        owned: partitions; None without user data.
        generation: generation of `owned`; None if the user data has none.
        failure_in_1_1: message of the exception that a leader of version 1.1.1 throws on it; None
            if that leader can read it.
        generation_again: cooperative-sticky: generation in the bytes after `generation`; -1 if
            there are none.
    """

    owned: tuple[TopicPartition, ...] | None = None
    generation: int | None = None
    failure_in_1_1: str | None = None
    generation_again: int = -1


@value_class
class MemberSpec(Struct, frozen=True):
    """A member before an assignment.

    Attributes:
        member_id: member id, assigned by the coordinator.
        topics: subscribed topics, including those that match a regex.
        regex: regular expression that the coordinator matches (KIP-848); `topics` has the matches.
        matched: topics that match `regex`.
        assignor: assignor of the coordinator that the member prefers; None if none, or unknown.
        instance_id: `group.instance.id` of a static member; else None.
        client_id: `client.id` that the client sent.
        rack: `client.rack`.
        owned: assigned partitions, in the order of the assignment; the target assignment in a
            consumer or share group. None for a member that was never assigned anything.
        generation: generation of `owned`; None if unknown.
        version: version of the classic subscription message.
        subscription_generation: generation in that message, if it differs from `generation`.
        user_data: user data as the assignor reads it, if it differs from what the library sends.
        unknown_id: `member_id` is a placeholder, because the coordinator has not assigned one.
        host: client address; of a new ZooKeeper consumer, the first part of its id.
        streams: threads of a ZooKeeper consumer by topic; see `streams_of`.
        threads: thread of a ZooKeeper consumer that owns each partition, where known.
        process_id: Streams: id of the member's process; None for a new one.
        standby: Streams: standby tasks, by subtopology and partition; `owned` are the active ones.
        client: library that wrote the subscription; None if unknown.
        versions: versions of `client` that write such a subscription, newest first, if it is known
            to be an older one; `client` has the first.
        is_client_inferred: `client` is likely, not certain.
        may_be: known libraries that write such subscriptions; None if they are unknown.
        is_subscription_assumed: a new member's subscription is unknown, and others differ.
        is_order_assumed: a new member's topics are in the order in which another library sends
            them; its application may name them in another one.
        lists: strategies that a new member of a classic group lists, in order of preference; None
            if they are unknown.
        keeps: whether the member keeps its partitions in a rebalance, and claims them; False if it
            lists another strategy, with which it gives them up; None if that is unknown.
        is_keeping_open: whether `keeps` may be otherwise.
        unfit: software that would not have assigned what the member has as the leader.
        is_unlike: as the leader, it has assigned what no imitated library would have that it may
            use.
        is_led: whether another member leads, even if it is unknown which.
        is_classic: consumer groups: whether the member is known to use the classic protocol.
        has_one_timeout: classic groups: whether its rebalance timeout is its session timeout, as by
            default in aiokafka; None if they are unknown.
    """

    member_id: str
    topics: tuple[str, ...]
    instance_id: str | None = None
    client_id: str | None = None
    rack: str | None = None
    owned: tuple[TopicPartition, ...] | None = None
    generation: int | None = None
    version: int = NEWEST_VERSION
    subscription_generation: int | None = None
    user_data: UserData | None = None
    unknown_id: bool = False
    host: str | None = None
    streams: Mapping[str, int] = field(default_factory=dict)
    threads: Mapping[TopicPartition, int] = field(default_factory=dict)
    process_id: str | None = None
    standby: tuple[TopicPartition, ...] = ()
    client: Software | None = None
    versions: tuple[str, ...] = ()
    is_client_inferred: bool = False
    may_be: frozenset[str] | None = None
    assignor: str | None = None
    regex: str | None = None
    matched: tuple[str, ...] = ()
    is_subscription_assumed: bool = False
    is_order_assumed: bool = False
    lists: tuple[str, ...] | None = None
    keeps: bool | None = None
    is_keeping_open: bool = False
    unfit: frozenset[Software] = frozenset()
    is_unlike: bool = False
    is_led: bool = False
    is_classic: bool = False
    has_one_timeout: bool | None = None

    @property
    def certain_client(self) -> Software | None:
        """The library that wrote the subscription; None if it is unknown, or only likely."""
        return None if self.is_client_inferred else self.client

    def streams_of(self, topic: str) -> int:
        """Return the number of threads for a topic; the largest number for a topic not listed."""
        return self.streams.get(topic, max(self.streams.values(), default=1))
