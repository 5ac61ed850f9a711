"""A group that is about to be assigned, whatever its protocol, and the software that assigns it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from kgroup.assignor.base import TopicMetadata, TopicPartition
from kgroup.assignor.client.franz_go import FRANZ_GO
from kgroup.assignor.client.java import JAVA
from kgroup.assignor.client.kafka_go import KAFKA_GO
from kgroup.assignor.client.kafka_python import KAFKA_PYTHON
from kgroup.assignor.client.kafkajs import KAFKAJS
from kgroup.assignor.client.librdkafka import LIBRDKAFKA
from kgroup.assignor.client.sarama import SARAMA
from kgroup.assignor.client_library import ClientLibrary
from kgroup.assignor.member_spec import NEWEST, OF_ZOOKEEPER, MemberSpec, Software
from kgroup.model.client_library import KAFKA_CLIENTS

CLIENTS: Mapping[str, ClientLibrary] = {
    library.name: library
    for library in (JAVA, LIBRDKAFKA, FRANZ_GO, SARAMA, KAFKA_GO, KAFKA_PYTHON, KAFKAJS)
}
"""The libraries that are imitated, by name."""


def versions(protocol: str) -> tuple[str, ...]:
    """Return the versions of Kafka that are imitated, the newest first."""
    if protocol == "zookeeper":
        return (OF_ZOOKEEPER,)
    return JAVA.versions if protocol == "classic" else (NEWEST,)


def newest(protocol: str) -> Software:
    """Return what is imitated of Kafka itself unless something else is asked for."""
    names = {"classic": KAFKA_CLIENTS, "zookeeper": "kafka"}
    return Software(names.get(protocol, "group-coordinator"), versions(protocol)[0])


@dataclass(frozen=True, slots=True)
class GroupSpec:
    """A group before its next assignment.

    Attributes:
        strategy: name of the assignor.
        members: in the order in which they are put in a map, unless there is another: of a classic
            group that of the JoinGroup response.
        topics: of the cluster, by name.
        protocol: "classic", "consumer", "share" or "zookeeper".
        client: whose assignor is asked for; None: none is, see `computed_as`.
        topic_ids: 16 bytes each, by name, of topics that are gone too; the order of what the
            coordinator assigns depends on them.
        id: of the group, or of the case.
        departed: members that have left since the assignment before, with what they owned.
        leader_id: of a classic group the member that will assign; None where that is not known.
        member_order: ids in that order, if it is another one; who is not among them comes last.
        leader_client: of a classic group the leader's library, where it is known and the leader is
            not.
        not_imitated: libraries of members of a classic group that have no model here.
        lags: records by which the group is behind in partitions, for which that is known.
        computed_as: the software whose assignor computes the assignment: `client`, or that of the
            leader. Where the leader's is not known, it is the library of all members of which one
            is known and that have the strategy, if it is a single one and what the leader sent
            does not rule it out; else the newest of Kafka's own.
    """

    strategy: str
    members: tuple[MemberSpec, ...]
    topics: Mapping[str, TopicMetadata]
    protocol: str = "classic"
    client: Software | None = None
    topic_ids: Mapping[str, bytes] = field(default_factory=dict)
    id: str | None = None
    departed: tuple[MemberSpec, ...] = ()
    leader_id: str | None = None
    member_order: tuple[str, ...] = ()
    leader_client: Software | None = None
    not_imitated: tuple[str, ...] = ()
    lags: Mapping[TopicPartition, int] = field(default_factory=dict)
    computed_as: Software = field(init=False)

    def __post_init__(self) -> None:
        """Decide which software computes the assignment; whatever changes the group does so too."""
        object.__setattr__(self, "computed_as", self._software())

    def _software(self) -> Software:
        if self.client is not None or self.protocol != "classic":
            return self.client or newest(self.protocol)
        leader = self.leader
        own = self.leader_client if leader is None or leader.client is None else leader.client
        if own is not None:
            return own
        libraries = {
            each
            for each in {member.client for member in self.members}
            if each is not None
            and (not self.strategy or self.strategy in CLIENTS[each.name].strategies[each.version])
        }
        of_all = libraries.pop() if len(libraries) == 1 else None
        if of_all is None or (leader is not None and of_all.name in leader.not_of):
            return newest("classic")
        return of_all

    def client_of(self, member: MemberSpec) -> Software:
        """Give the library of a member, which counts as that of the leader where it is unknown."""
        return member.client or self.computed_as

    def may_be_static(self, client: Software) -> bool:
        """Return whether members of a library may be static in this group."""
        if self.protocol != "classic":
            return self.protocol == "consumer"
        return CLIENTS[client.name].has_static_members(client.version)

    @property
    def members_as_sent(self) -> list[MemberSpec]:
        """The members as who assigns is given them: a leader, or the coordinator's assignor."""
        ranks = {member_id: rank for rank, member_id in enumerate(self.member_order)}
        return sorted(self.members, key=lambda member: ranks.get(member.member_id, len(ranks)))

    @property
    def leader(self) -> MemberSpec | None:
        """The member that will assign; None where it is not known."""
        return next((member for member in self.members if member.member_id == self.leader_id), None)

    @property
    def has_topic_ids(self) -> bool:
        """Return whether the coordinator assigns, which names topics by their ids."""
        return self.protocol in ("consumer", "share")

    @property
    def is_cooperative(self) -> bool:
        """Return whether members keep what they own while the group is assigned anew."""
        return self.has_topic_ids or self.strategy == "cooperative-sticky"
