"""Groups of every type that live at random, and the records that their coordinator writes.

Every change gives one write: records that stand next to each other in the log, with one time. What
the members of classic and consumer groups get is what Kafka's own assignors give them.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from kgroup.assignor.base import TopicMetadata
from kgroup.assignor.group_spec import GroupSpec
from kgroup.assignor.member_spec import MemberSpec
from kgroup.assignor.strategy import assign

Data = Mapping[str, Any]
Partition = tuple[str, int]
"""Topic and number; of a task, subtopology and number."""


@dataclass(frozen=True)
class Entry:
    """A record to write: its type, key and value; None for a tombstone."""

    type: str
    key: Data
    value: Data | None
    version: int = 0


@dataclass
class World:
    """What all groups of a history share."""

    random: random.Random
    topics: dict[str, int]
    topic_ids: dict[str, str]
    now_ms: int = 1_700_000_000_000
    _members: int = 0

    def member_id(self, client_id: str) -> str:
        self._members += 1
        return f"{client_id}-{self._members}"

    def some_topics(self) -> tuple[str, ...]:
        return tuple(self.random.sample(sorted(self.topics), self.random.randint(1, 2)))

    def spec(self, protocol: str, strategy: str, members: Iterable[MemberSpec]) -> GroupSpec:
        return GroupSpec(
            strategy,
            tuple(members),
            {name: TopicMetadata(count) for name, count in self.topics.items()},
            protocol,
            topic_ids={name: name.encode().ljust(16)[:16] for name in self.topics},
        )

    def by_topic(self, owned: Iterable[Partition]) -> list[dict[str, Any]]:
        return [
            {"topic": topic, "partitions": [number for name, number in partitions]}
            for topic, partitions in _grouped(owned)
        ]

    def by_id(self, owned: Iterable[Partition]) -> list[dict[str, Any]]:
        return [
            {
                "topicId": self.topic_ids[topic],
                "partitions": [number for name, number in partitions],
                "assignmentEpochs": None,
            }
            for topic, partitions in _grouped(owned)
        ]


def _grouped(owned: Iterable[Partition]) -> list[tuple[str, list[Partition]]]:
    partitions: dict[str, list[Partition]] = {}
    for partition in owned:
        partitions.setdefault(partition[0], []).append(partition)
    return list(partitions.items())


@dataclass
class Member:
    member_id: str
    client_id: str
    client_host: str
    topics: tuple[str, ...]
    instance_id: str | None = None
    epoch: int = 0
    owned: set[Any] = field(default_factory=set)
    revoking: set[Any] = field(default_factory=set)
    target: set[Any] = field(default_factory=set)

    def spec(self, generation: int | None) -> MemberSpec:
        return MemberSpec(
            self.member_id,
            self.topics,
            self.instance_id,
            owned=tuple(sorted(self.owned)) if generation else None,
            generation=generation,
        )


class Group:
    """A group that lives: `step` gives what the coordinator writes next, maybe nothing."""

    kind = ""

    def __init__(self, world: World, group_id: str) -> None:
        self.world, self.group_id = world, group_id
        self.members: dict[str, Member] = {}
        self.epoch = 0
        self.did = ""

    def step(self) -> list[Entry]:
        draw = self.world.random
        if not self.members:
            do = draw.choices([self.join, self.delete, self.nothing], [8, 1, 3])[0]
        else:
            changes = [*self.changes(), (self.nothing, 1)]
            do = draw.choices([do for do, _ in changes], [often for _, often in changes])[0]
        self.did = do.__name__
        return do()

    def changes(self) -> list[tuple[Callable[[], list[Entry]], int]]:
        return [(self.join, 4 if len(self.members) < 5 else 0), (self.leave, 2)]

    def join(self) -> list[Entry]:
        draw = self.world.random
        client = f"{self.group_id}-{draw.randint(0, 3)}"
        instance = client if draw.random() < 0.3 else None
        if any(member.instance_id == instance for member in self.members.values() if instance):
            instance = None
        return self.add(self.new_member(client, instance))

    def new_member(self, client: str, instance: str | None) -> Member:
        host = f"/10.0.0.{self.world.random.randint(1, 9)}"
        topics = self.world.some_topics()
        return Member(self.world.member_id(client), client, host, topics, instance)

    def some_member(self) -> Member:
        return self.members[self.world.random.choice(sorted(self.members))]

    def nothing(self) -> list[Entry]:
        return []

    def add(self, member: Member) -> list[Entry]:
        raise NotImplementedError

    def leave(self) -> list[Entry]:
        raise NotImplementedError

    def delete(self) -> list[Entry]:
        raise NotImplementedError


class ClassicGroup(Group):
    """Kafka: `ClassicGroup` and what `GroupMetadataManager` writes of it."""

    kind = "classic"

    def __init__(self, world: World, group_id: str) -> None:
        super().__init__(world, group_id)
        draw = world.random
        self.strategy = draw.choice(["range", "roundrobin", "sticky", "cooperative-sticky"])
        self.protocol_type = draw.choices(["consumer", "connect"], [9, 1])[0]
        self.version = draw.choice([0, 1, 2, 3, 3, 3])
        self.given: dict[str, set[Partition]] = {}

    def changes(self) -> list[tuple[Callable[[], list[Entry]], int]]:
        return [
            *super().changes(),
            (self.rebalance, 2),
            (self.subscribe, 1),
            (self.come_back, 2),
            (self.remove_all, 1),
        ]

    def add(self, member: Member) -> list[Entry]:
        created = []
        if not self.epoch:
            created = [self.record([])]
        self.members[member.member_id] = member
        return created + self.rebalance()

    def leave(self) -> list[Entry]:
        del self.members[self.some_member().member_id]
        return self.rebalance()

    def subscribe(self) -> list[Entry]:
        self.some_member().topics = self.world.some_topics()
        return self.rebalance()

    def rebalance(self) -> list[Entry]:
        """A generation; cooperative members do not get yet what others must give up first."""
        self.epoch += 1
        members = list(self.members.values())
        if members:
            specs = [each.spec(each.epoch or None) for each in members]
            for member_id, partitions in assign(
                self.world.spec("classic", self.strategy, specs)
            ).items():
                self.members[member_id].owned = set(partitions)
                self.members[member_id].epoch = self.epoch
        return [self.record(members)]

    def come_back(self) -> list[Entry]:
        """A static member under another id: the same generation again."""
        for old in self.members.values():
            if old.instance_id and not old.revoking:
                new = Member(
                    self.world.member_id(old.client_id),
                    *(old.client_id, old.client_host, old.topics, old.instance_id),
                    *(old.epoch, old.owned),
                )
                del self.members[old.member_id]
                self.members[new.member_id] = new
                return [self.record(list(self.members.values()))]
        return []

    def remove_all(self) -> list[Entry]:
        self.members.clear()
        if self.world.random.random() < 0.3:  # as 0.9 and 0.10.0 do
            return self.delete()
        return self.rebalance()

    def delete(self) -> list[Entry]:
        if not self.epoch:
            return []
        self.epoch = 0
        return [Entry("GroupMetadata", {"group": self.group_id}, None)]

    def record(self, members: list[Member]) -> Entry:
        return Entry(
            "GroupMetadata",
            {"group": self.group_id},
            {
                "protocolType": self.protocol_type if members else "",
                "generation": self.epoch,
                "protocol": self.strategy if members else None,
                "leader": members[0].member_id if members else None,
                "currentStateTimestamp": self.world.now_ms,
                "members": [self.member(each) for each in members],
            },
            self.version,
        )

    def member(self, member: Member) -> Data:
        draw = self.world.random
        subscription: Any = b"\0\1"
        assignment: Any = b"\0\1\2"
        if self.protocol_type == "consumer":
            version = draw.choice([0, 1, 2, 3])
            subscription = {
                "version": version,
                "topics": list(member.topics),
                "userData": None,
                "ownedPartitions": [],
                "generationId": -1,
                "rackId": None,
            }
            if draw.random() > 0.03:
                assignment = {
                    "version": version,
                    "assignedPartitions": self.world.by_topic(
                        draw.sample(sorted(member.owned), len(member.owned))
                    ),
                    "userData": None,
                }
            elif draw.random() < 0.5:
                assignment = b""
        return {
            "memberId": member.member_id,
            "groupInstanceId": member.instance_id,
            "clientId": member.client_id,
            "clientHost": member.client_host,
            "rebalanceTimeout": 300_000,
            "sessionTimeout": 45_000,
            "subscription": subscription,
            "assignment": assignment,
        }


class EpochGroup(Group):
    """Kafka: `ModernGroup`: what consumer, share and streams groups have in common."""

    name = ""

    def changes(self) -> list[tuple[Callable[[], list[Entry]], int]]:
        return [*super().changes(), (self.heartbeat, 12)]

    def of_group(self, what: str, value: Data | None) -> Entry:
        return Entry(f"{self.name}Group{what}", {"groupId": self.group_id}, value)

    def of_member(self, what: str, member_id: str, value: Data | None) -> Entry:
        key = {"groupId": self.group_id, "memberId": member_id}
        return Entry(f"{self.name}Group{what}", key, value)

    def add(self, member: Member) -> list[Entry]:
        self.members[member.member_id] = member
        entries = [
            self.of_member("MemberMetadata", member.member_id, self.metadata(member)),
            *self.retarget(),
        ]
        self.reconcile(member)
        return [*entries, self.current(member)]

    def leave(self) -> list[Entry]:
        return self.remove(self.some_member())

    def remove(self, member: Member) -> list[Entry]:
        del self.members[member.member_id]
        return [*self.tombstones(member.member_id), *self.retarget()]

    def tombstones(self, member_id: str) -> list[Entry]:
        kinds = ("CurrentMemberAssignment", "TargetAssignmentMember", "MemberMetadata")
        return [self.of_member(kind, member_id, None) for kind in kinds]

    def delete(self) -> list[Entry]:
        if not self.epoch:
            return []
        self.epoch = 0
        return [self.of_group("TargetAssignmentMetadata", None), self.of_group("Metadata", None)]

    def heartbeat(self) -> list[Entry]:
        member = self.some_member()
        before = (member.epoch, set(member.owned), set(member.revoking))
        self.reconcile(member)
        if before == (member.epoch, member.owned, member.revoking):
            return []
        return [self.current(member)]

    def reconcile(self, member: Member) -> None:
        """Kafka: `CurrentAssignmentBuilder`, as far as it matters here."""
        if member.owned - member.target:
            member.revoking = member.owned - member.target
            member.owned &= member.target
            return
        member.revoking = set()
        taken = {
            each
            for other in self.members.values()
            if other is not member
            for each in other.owned | other.revoking
        }
        member.owned |= {each for each in member.target if not self.is_exclusive(each)}
        member.owned |= member.target - taken
        member.epoch = self.epoch

    def is_exclusive(self, owned: Any) -> bool:
        return True

    def retarget(self) -> list[Entry]:
        self.epoch += 1
        before = {member.member_id: member.target for member in self.members.values()}
        if self.members:
            self.assign()
        return [
            self.of_group("Metadata", {"epoch": self.epoch, "metadataHash": 0}),
            *(
                self.of_member("TargetAssignmentMember", member.member_id, self.target(member))
                for member in self.members.values()
                if member.target != before[member.member_id] or not member.epoch
            ),
            self.of_group("TargetAssignmentMetadata", {"assignmentEpoch": self.epoch}),
        ]

    def assign(self) -> None:
        raise NotImplementedError

    def metadata(self, member: Member) -> Data:
        raise NotImplementedError

    def target(self, member: Member) -> Data:
        return {"topicPartitions": self.world.by_id(sorted(member.target))}

    def current(self, member: Member) -> Entry:
        value = {
            "memberEpoch": member.epoch,
            "previousMemberEpoch": member.epoch - 1,
            "state": 1 if member.revoking else 0,
            "assignedPartitions": self.world.by_id(sorted(member.owned)),
            "partitionsPendingRevocation": self.world.by_id(sorted(member.revoking)),
        }
        return self.of_member("CurrentMemberAssignment", member.member_id, value)


class ConsumerGroup(EpochGroup):
    kind = "consumer"
    name = "Consumer"

    def __init__(self, world: World, group_id: str) -> None:
        super().__init__(world, group_id)
        self.strategy = world.random.choice(["uniform", "range"])

    def changes(self) -> list[tuple[Callable[[], list[Entry]], int]]:
        return [*super().changes(), (self.come_back, 2), (self.change, 1)]

    def assign(self) -> None:
        specs = [
            MemberSpec(member.member_id, member.topics, owned=tuple(sorted(member.target)))
            for member in self.members.values()
        ]
        for member_id, partitions in assign(
            self.world.spec("consumer", self.strategy, specs)
        ).items():
            self.members[member_id].target = set(partitions)

    def change(self) -> list[Entry]:
        """A member subscribes to other topics, from another address."""
        member = self.some_member()
        member.topics = self.world.some_topics()
        member.client_host = "/10.0.1.1"
        described = self.of_member("MemberMetadata", member.member_id, self.metadata(member))
        return [described, *self.retarget()]

    def come_back(self) -> list[Entry]:
        """A static member leaves for a while, or is back under another id."""
        for old in self.members.values():
            if old.instance_id and old.epoch == -2:
                new = self.new_member(old.client_id, old.instance_id)
                new.owned, new.target, new.epoch = old.owned, old.target, self.epoch
                new.topics = old.topics  # or the epoch would rise
                del self.members[old.member_id]
                self.members[new.member_id] = new
                return [
                    *self.tombstones(old.member_id),
                    self.of_member("MemberMetadata", new.member_id, self.metadata(new)),
                    self.of_member("TargetAssignmentMember", new.member_id, self.target(new)),
                    self.current(new),
                ]
            if old.instance_id:
                old.epoch, old.revoking = -2, set()
                return [self.current(old)]
        return []

    def metadata(self, member: Member) -> Data:
        return {
            "instanceId": member.instance_id,
            "rackId": None,
            "clientId": member.client_id,
            "clientHost": member.client_host,
            "subscribedTopicNames": sorted(member.topics),
            "subscribedTopicRegex": "",
            "rebalanceTimeoutMs": 300_000,
            "serverAssignor": None,
            "classicMemberMetadata": None,
        }


class ShareGroup(EpochGroup):
    kind = "share"
    name = "Share"

    def assign(self) -> None:
        for member in self.members.values():
            everything = [
                (topic, number) for topic in member.topics for number in range(self.count(topic))
            ]
            size = self.world.random.randint(0, len(everything))
            member.target = set(self.world.random.sample(everything, size))

    def count(self, topic: str) -> int:
        return self.world.topics[topic]

    def reconcile(self, member: Member) -> None:
        member.owned, member.epoch = set(member.target), self.epoch

    def metadata(self, member: Member) -> Data:
        return {
            "rackId": None,
            "clientId": member.client_id,
            "clientHost": member.client_host,
            "subscribedTopicNames": sorted(member.topics),
        }


class StreamsGroup(EpochGroup):
    """Its things are tasks with their role."""

    kind = "streams"
    name = "Streams"
    roles = ("active", "standby", "warmup")

    def assign(self) -> None:
        draw = self.world.random
        members = list(self.members.values())
        for member in members:
            member.target = set()
        for subtopology in ("0", "1"):
            for number in range(4):
                chosen = draw.sample(members, min(len(members), draw.randint(1, 3)))
                for role, member in zip(self.roles, chosen, strict=False):
                    member.target.add((role, subtopology, number))

    def is_exclusive(self, owned: Any) -> bool:
        return bool(owned[0] == "active")

    def tasks(self, owned: Iterable[Any], ending: str = "") -> Data:
        return {
            f"{role}Tasks{ending}": [
                {
                    "subtopologyId": subtopology,
                    "partitions": [number for _, number in partitions],
                    "assignmentEpochs": None,
                }
                for subtopology, partitions in _grouped(
                    sorted(task[1:] for task in owned if task[0] == role)
                )
            ]
            for role in self.roles
        }

    def target(self, member: Member) -> Data:
        return self.tasks(member.target)

    def current(self, member: Member) -> Entry:
        value = {
            "memberEpoch": member.epoch,
            "previousMemberEpoch": member.epoch - 1,
            "state": 2 if member.revoking else 1,
            **self.tasks(member.owned),
            **self.tasks(member.revoking, "PendingRevocation"),
        }
        return self.of_member("CurrentMemberAssignment", member.member_id, value)

    def metadata(self, member: Member) -> Data:
        return {
            "instanceId": member.instance_id,
            "rackId": None,
            "clientId": member.client_id,
            "clientHost": member.client_host,
            "rebalanceTimeoutMs": 300_000,
            "topologyEpoch": 1,
            "processId": member.client_id,
            "userEndpoint": None,
            "clientTags": [],
        }


class ConvertedGroup(Group):
    """A group of consumers that is upgraded online, and goes back (KIP-848)."""

    kind = "converted"

    def __init__(self, world: World, group_id: str) -> None:
        super().__init__(world, group_id)
        self.classic, self.consumer = ClassicGroup(world, group_id), ConsumerGroup(world, group_id)
        self.classic.protocol_type, self.classic.version = "consumer", 3
        self.now: ClassicGroup | ConsumerGroup = self.classic

    def step(self) -> list[Entry]:
        if self.now.members and self.world.random.random() < 0.15:
            return self.upgrade() if self.now is self.classic else self.downgrade()
        entries = self.now.step()
        self.did, self.members = self.now.did, self.now.members
        return entries

    def upgrade(self) -> list[Entry]:
        """Kafka: `convertToConsumerGroup`; then a member joins, in the same write."""
        self.did = "upgrade"
        old, new = self.classic, self.consumer
        new.members, new.epoch = dict(old.members), old.epoch
        for member in new.members.values():
            member.target, member.epoch = set(member.owned), old.epoch
        old.members, self.now = {}, new
        members = new.members.values()
        return [
            *old.delete(),
            *(
                new.of_member("MemberMetadata", each.member_id, new.metadata(each))
                for each in members
            ),
            new.of_group("Metadata", {"epoch": new.epoch, "metadataHash": 0}),
            *(
                new.of_member("TargetAssignmentMember", each.member_id, new.target(each))
                for each in members
            ),
            new.of_group("TargetAssignmentMetadata", {"assignmentEpoch": new.epoch}),
            *(new.current(each) for each in members),
            *new.join(),
        ]

    def downgrade(self) -> list[Entry]:
        """Kafka: `convertToClassicGroup`, as one member leaves."""
        self.did = "downgrade"
        old, new = self.consumer, self.classic
        new.members, new.epoch = dict(old.members), old.epoch
        del new.members[old.some_member().member_id]
        gone = [
            old.of_member(kind, member_id, None)
            for kind in ("CurrentMemberAssignment", "TargetAssignmentMember", "MemberMetadata")
            for member_id in old.members
        ]
        for member in new.members.values():
            member.owned, member.revoking, member.epoch = set(member.target), set(), old.epoch
        old.members, self.now = {}, new
        return [*gone, *old.delete(), new.record(list(new.members.values()))]


_KINDS = (ClassicGroup, ConsumerGroup, ShareGroup, StreamsGroup, ConvertedGroup)


def new_group(world: World, group_id: str) -> Group:
    """Make one of any type, most often a classic one."""
    return world.random.choices(_KINDS, [5, 4, 1, 1, 3])[0](world, group_id)
