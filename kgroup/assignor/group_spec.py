"""A group before an assignment, for every protocol, and the software that computes it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from kgroup.assignor.base import TopicMetadata
from kgroup.assignor.client.franz_go import FRANZ_GO
from kgroup.assignor.client.java import JAVA
from kgroup.assignor.client.kafka_go import KAFKA_GO
from kgroup.assignor.client.kafka_python import KAFKA_PYTHON
from kgroup.assignor.client.kafkajs import KAFKAJS
from kgroup.assignor.client.librdkafka import LIBRDKAFKA
from kgroup.assignor.client.platformatic import PLATFORMATIC
from kgroup.assignor.client.sarama import SARAMA
from kgroup.assignor.client_library import ClientLibrary
from kgroup.assignor.connect import ConnectCluster
from kgroup.assignor.kafka_streams import CLASSIC_STREAMS, STREAMS_VERSIONS, StreamsApplication
from kgroup.assignor.member_spec import NEWEST, OF_ZOOKEEPER, MemberSpec, Software
from kgroup.model.client_library import AIOKAFKA, KAFKA_CLIENTS
from kgroup.model.cluster import TopicPartition
from kgroup.model.group import PastGeneration

CLIENTS: Mapping[str, ClientLibrary] = {
    library.name: library
    for library in (
        *(JAVA, LIBRDKAFKA, FRANZ_GO, SARAMA, KAFKA_GO, KAFKA_PYTHON, KAFKAJS, PLATFORMATIC),
    )
}
"""The client libraries whose assignors are implemented, by name."""

ASSIGNS_LIKE: Mapping[str, Software] = {AIOKAFKA: Software(KAFKA_PYTHON.name, "2.2.21")}
"""Libraries with the assignors of another one."""


def versions(protocol: str) -> tuple[str, ...]:
    """Return the implemented versions of Kafka's own assignors, newest first."""
    if protocol == "zookeeper":
        return (OF_ZOOKEEPER,)
    if protocol == CLASSIC_STREAMS:
        return STREAMS_VERSIONS
    return JAVA.versions if protocol == "classic" else (NEWEST,)


def newest(protocol: str) -> Software:
    """Return the newest implemented version of Kafka's own software for a protocol."""
    names = {
        "classic": KAFKA_CLIENTS,
        "zookeeper": "kafka",
        "connect": "connect-runtime",
        CLASSIC_STREAMS: "kafka-streams",
    }
    return Software(names.get(protocol, "group-coordinator"), versions(protocol)[0])


_COOPERATIVE = ("cooperative-sticky", "sessioned", "compatible")


@dataclass(frozen=True, slots=True)
class StreamsTasks:
    """What a dry run knows of standby tasks.

    Attributes:
        stateful: subtopologies whose tasks have standbys.
        standby_replicas: number of standby tasks of each.
        is_assumed: whether that number is unknown.
    """

    stateful: frozenset[str] = frozenset()
    standby_replicas: int = 0
    is_assumed: bool = False


@dataclass(frozen=True, slots=True)
class GroupSpec:
    """A group before its next assignment.

    Attributes:
        strategy: name of the assignor.
        members: members; in the order of the JoinGroup response for a classic group, unless
            `member_order` gives another one.
        topics: topics of the cluster, by name; Connect: connectors, Streams: subtopologies, with
            their numbers of tasks.
        protocol: "classic", "consumer", "share", "streams", "classic-streams", "connect" or
            "zookeeper".
        client: software chosen by the user; None: see `computed_as`.
        asked_version: version of `client` that the user named; None if none, or unknown. That of
            `client` is the compared one that stands for it.
        topic_ids: 16-byte ids by topic name, including deleted topics; the order of the
            coordinator's assignments depends on them.
        id: group id, or name of the case.
        departed: members that left since the last assignment, with the partitions they owned.
        leader_id: leader of a classic group; None if unknown.
        member_order: member ids in the order of the JoinGroup response, if it differs from
            `members`; other members come last.
        leader_client: library of a classic group's leader, if it is known and the leader is not; if
            the leader has left, that of the one before.
        has_votes: whether it is known what the members prefer, who vote on the strategy; None if
            they do not vote, because the user chose it.
        have_left: members left for good, so that the others vote on the strategy again.
        past_generations: earlier generations of a classic group, from which follows what its
            members may list.
        may_win: strategies that may win the vote of a classic group whose members have left or
            joined, the likeliest first; None if nothing shows what they list.
        may_be_refused: whether the coordinator may refuse the members that join: nothing shows that
            all others list a strategy that they list.
        new_topics: topics that were created since the last assignment.
        grown_topics: topics that got more partitions since the last assignment, as they were.
        dropped_topics: topics that a dry run deletes, also after its first rebalance.
        lags: lag in records by partition, where known.
        connect: what else a Connect cluster has; None for other groups.
        streams: what else a streams group has; None for other groups.
        application: what else threads of classic Streams have; None for other groups.
        returning: Connect: workers that restart, and join when the rebalance without them is over.
        restarting: member ids of static members that restart, and return without a rebalance.
        expiring: member ids of those of `departed` that do not leave, but whose sessions expire.
        is_leader_new: whether the leader of a classic group has left, and another member, known or
            not, leads for the first time.
        have_subscribed: members changed their subscriptions, so that they join again.
        are_orders_known: new members are taken to name their topics in the given order.
        computed_as: the software that computes the assignment: `client`, or else the leader's
            library. If the leader's library is unknown: the library of the leader before, or of
            the members whose library is known and has the strategy, if it is a single one, in the
            newest of their versions, unless the leader's bytes rule it out; else of the libraries
            that they do not rule out, the newest version of the one that most members may have,
            Kafka's own first.
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
    has_votes: bool | None = None
    have_left: bool = False
    past_generations: tuple[PastGeneration, ...] = ()
    may_win: tuple[str, ...] | None = None
    may_be_refused: bool = False
    new_topics: frozenset[str] = frozenset()
    grown_topics: Mapping[str, TopicMetadata] = field(default_factory=dict)
    dropped_topics: frozenset[str] = frozenset()
    lags: Mapping[TopicPartition, int] = field(default_factory=dict)
    connect: ConnectCluster | None = None
    streams: StreamsTasks | None = None
    application: StreamsApplication | None = None
    returning: tuple[MemberSpec, ...] = ()
    restarting: frozenset[str] = frozenset()
    expiring: frozenset[str] = frozenset()
    asked_version: str | None = None
    is_leader_new: bool = False
    have_subscribed: bool = False
    are_orders_known: bool = False
    computed_as: Software = field(init=False)

    def __post_init__(self) -> None:
        """Set `computed_as`, for each copy anew: what-ifs may change members and leader."""
        object.__setattr__(self, "computed_as", self._software())

    def _software(self) -> Software:
        if self.client is not None or self.protocol != "classic":
            return self.client or newest(self.protocol)
        leader = self.leader
        if leader is not None and leader.client is not None:
            return leader.client
        members = self._not_led
        if self.leader_client is not None and self._may_lead(self.leader_client.name):
            name = self.leader_client.name
            alike = {m.client for m in members if m.client and m.client.name == name}
            return alike.pop() if len(alike) == 1 else self.leader_client
        libraries = {
            client
            for client in {member.client for member in members}
            if client is not None
            and (
                not self.strategy
                or self.strategy in CLIENTS[client.name].strategies[client.version]
            )
        }
        names = {client.name for client in libraries}
        if len(names) == 1 and self._may_lead(*names):
            newest_first = CLIENTS[names.pop()].versions
            return min(libraries, key=lambda client: newest_first.index(client.version))
        could = {name for name in CLIENTS if self._may_lead(name)}
        if names and all(member.client is not None for member in members):
            could = names
        able = [
            library
            for library in CLIENTS.values()
            if self.strategy in library.strategies[library.versions[0]]
        ]
        known = [library for library in able if library.name in could] or able
        likely = min(known, key=self._unlikelihood, default=JAVA)
        versions = [Software(likely.newest.name, version) for version in likely.versions]
        unfit = frozenset[Software]() if leader is None else leader.unfit
        return next((each for each in versions if each not in unfit), likely.newest)

    def _unlikelihood(self, library: ClientLibrary) -> tuple[int, bool]:
        """Return how many members are not of a library, and whether others would be of an old one.

        What kafka-python or Sarama may have sent, Java's with `sticky` sent only before 2.4,
        franz-go before 1.15, and librdkafka with `cooperative-sticky` before 2.2. With other
        strategies, Java's assigns like most.
        """
        others = [member for member in self.members if not member.is_led]
        mays = [member.may_be for member in others if member.may_be is not None]
        newer = None
        if library is JAVA and self.strategy == "sticky":
            newer = KAFKA_PYTHON
        elif library is FRANZ_GO:
            newer = SARAMA
        elif library is LIBRDKAFKA and self.strategy == "cooperative-sticky":
            newer = KAFKA_PYTHON
        is_old = newer is not None and any({library.name, newer.name} <= may_be for may_be in mays)
        return sum(library.name not in may_be for may_be in mays), is_old

    def _may_lead(self, name: str) -> bool:
        """Return whether the leader may be of a library; if it is unknown, any member."""
        names = {name, *(other for other, like in ASSIGNS_LIKE.items() if like.name == name)}
        return any(
            member.may_be is None or not names.isdisjoint(member.may_be)
            for member in self.possible_leaders
        )

    @property
    def possible_leaders(self) -> Sequence[MemberSpec]:
        """The leader, or the members of which one leads."""
        return self._not_led if self.leader is None else [self.leader]

    @property
    def _not_led(self) -> Sequence[MemberSpec]:
        """The members that may lead if it is unknown who does: not one that joins another one."""
        return [m for m in self.members if not m.is_led and m.lists is None] or self.members

    def client_of(self, member: MemberSpec) -> Software:
        """Return the library of a member; if unknown, the leader's if it may be that.

        The leader's version is preferred if the member's subscription leaves several.
        """
        leads = self.computed_as
        if member.client is not None and member.client.name == leads.name:
            return leads if leads.version in member.versions else member.client
        if member.client is not None or member.may_be is None or leads.name in member.may_be:
            return member.client or leads
        could = (library for name, library in CLIENTS.items() if name in member.may_be)
        return next((library.newest for library in could), leads)

    def may_be_static(self, client: Software) -> bool:
        """Return whether members that use a library may be static in this group."""
        if self.protocol != "classic":
            return self.protocol in ("consumer", CLASSIC_STREAMS)
        if client != self.client and client in ASSIGNS_LIKE.values():
            return True  # aiokafka 0.10 and later, unlike that version
        is_asked = client == self.client and self.asked_version is not None
        version = self.asked_version if is_asked else client.version
        return CLIENTS[client.name].has_static_members(version or client.version)

    @property
    def members_as_sent(self) -> list[MemberSpec]:
        """The members in the order in which the leader or the coordinator's assignor gets them."""
        ranks = {member_id: rank for rank, member_id in enumerate(self.member_order)}
        return sorted(self.members, key=lambda member: ranks.get(member.member_id, len(ranks)))

    @property
    def leader(self) -> MemberSpec | None:
        """The leader of a classic group; None if unknown."""
        return next((member for member in self.members if member.member_id == self.leader_id), None)

    @property
    def has_topic_ids(self) -> bool:
        """Whether the coordinator assigns and names topics by id."""
        return self.protocol in ("consumer", "share")

    @property
    def is_cooperative(self) -> bool:
        """Whether members keep their partitions during a rebalance."""
        is_incremental = self.has_topic_ids or self.protocol in ("streams", CLASSIC_STREAMS)
        keep = [member.keeps is not False for member in self.members if member.owned]
        return is_incremental or (self.strategy in _COOPERATIVE and (any(keep) or not keep))
