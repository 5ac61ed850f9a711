"""A member that is about to join a group, whatever the protocol."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from kgroup.assignor.base import TopicPartition

NEWEST = "4.3.1"
"""The version of Kafka that is imitated unless another is asked for."""

OF_ZOOKEEPER = "0.8.2.2"
"""The version whose ZooKeeper consumer is imitated: the first with both strategies."""

NEWEST_VERSION = 3
"""Of the classic subscription message."""


class Software(NamedTuple):
    """A client library, or another part of Kafka, in one version; as a text, both."""

    name: str
    version: str

    def __str__(self) -> str:
        return f"{self.name} {self.version}"


@dataclass(frozen=True, slots=True)
class UserData:
    """What a sticky assignor reads in a member's user data.

    Attributes:
        owned: partitions; None where there is no user data.
        generation: None where it names none.
        failure_in_1_1: message of the exception of a leader of version 1.1.1; None where it reads
            this.
    """

    owned: tuple[TopicPartition, ...] | None = None
    generation: int | None = None
    failure_in_1_1: str | None = None


@dataclass(frozen=True, slots=True)
class MemberSpec:
    """A member that is about to join, or that the coordinator is about to assign to.

    Attributes:
        member_id: given by the coordinator.
        topics: that it subscribes to, those that a regex gives included.
        instance_id: of a static member.
        client_id: as the client calls itself.
        rack: `client.rack`.
        owned: what it was assigned, in that order; of a consumer or share group its target
            assignment. None for a member that never was assigned anything.
        generation: in which it was; None if not known.
        version: of the classic subscription message.
        subscription_generation: to be sent in that message, if it is not `generation`.
        user_data: what the assignor reads in the user data, if that is not what a client sends.
        unknown_id: whether `member_id` only stands for the one that the member will have.
        host: of a ZooKeeper consumer that joins; its id begins with it.
        streams: threads of a ZooKeeper consumer by topic; see `streams_of`.
        threads: of a ZooKeeper consumer, which of its threads has what it owns, where it is known.
        client: the library that writes its subscription; None where it is not known.
        is_client_inferred: whether that is probable only.
        not_of: where it is not known, the libraries that do not write such a subscription.
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
    client: Software | None = None
    is_client_inferred: bool = False
    not_of: frozenset[str] = frozenset()

    def streams_of(self, topic: str) -> int:
        """Return the threads for a topic; for one that is not named as many as for any other."""
        return self.streams.get(topic, max(self.streams.values(), default=1))
