"""Random groups that rebalance several times, as `kgroup assign --spec` takes them."""

from __future__ import annotations

import base64
import copy
import random
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from tests.assignor.case.notation import Assignor, assigned

_RACKS = ["a", "b", "c", "d"]


def rebalances(assignor: Assignor, seed: int) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """Give five rebalances of one group: what an oracle is asked, and what kgroup says."""
    hashes_partitions = assignor.strategy == "simple" or (
        assignor.strategy in ("sticky", "cooperative-sticky") and assignor.kafka_version < "3"
    )
    group = RandomGroup(
        seed, assignor.strategy, assignor.protocol, hashes_partitions=hashes_partitions
    )
    for _ in range(5):
        spec = group.spec | {"kafka_version": assignor.kafka_version}
        said = assigned(spec)
        yield spec, said
        # the ZooKeeper consumer has no memory
        group.go_on(None if assignor.protocol == "zookeeper" else said.get("assignment"))


@dataclass
class _Topic:
    partitions: int
    racks: list[list[str]] | None


@dataclass
class _Member:
    member_id: str
    topics: list[str]
    instance_id: str | None
    rack: str | None
    version: int
    streams: dict[str, int] = field(default_factory=dict)
    owned: list[list[Any]] | None = None
    generation: int | None = None
    extra: dict[str, Any] = field(default_factory=dict)


class RandomGroup:
    """One group: `spec` is its next rebalance, `go_on` what happens after it.

    What may happen is drawn once for each group, so that there are quiet groups and wild ones.
    Some have member ids, topics and topic ids of which many have one hash. `hashes_partitions`
    says that Java puts partitions of all topics in one table: where many of these have one hash,
    their order is a matter of chance, so then topics have no common hashes. `leaders_differ` says
    that racks of partitions' leaders count, and that some groups have odd ones.
    """

    def __init__(
        self,
        seed: int,
        strategy: str,
        protocol: str = "classic",
        *,
        hashes_partitions: bool = False,
        leaders_differ: bool = False,
    ) -> None:
        self._random = draw = random.Random(f"{protocol}-{strategy}-{seed}")
        self._seed = seed
        self._strategy = strategy
        self._protocol = protocol
        self._topic_ids: dict[str, str] = {}
        self._round = 0
        self._generation = draw.choice([0, 1, 7])
        size = draw.choices(["small", "middle", "large"], [90, 9, 1])[0]
        sizes = {"small": (8, 9, 6), "middle": (40, 30, 20), "large": (300, 100, 30)}
        if protocol == "zookeeper":
            # each consumer reads what all have registered, and the JSON parser of Scala is slow
            sizes = {"small": (5, 9, 5), "middle": (10, 30, 8), "large": (24, 40, 12)}
        self._most_members, self._most_partitions, most_topics = sizes[size]
        self._leaders_differ = leaders_differ
        self._goes_by_leaders = leaders_differ or strategy == "rack-affinity"
        self._has_racks = draw.random() < (0.9 if self._goes_by_leaders else 0.35)
        must_be_equal = (protocol, strategy) == ("zookeeper", "roundrobin")
        self._is_equal = draw.random() < (0.8 if must_be_equal else 0.5)
        self._collides = draw.random() < 0.2
        self._topics_collide = self._collides and not hashes_partitions
        self._is_wild = draw.random() < 0.35
        self._statics = draw.choice([0.0, 0.0, 0.5, 1.0])
        self._versions = draw.choice([[3], [3], [0, 1, 2, 3], [2], [1]])
        self._topics = {
            self._name(): self._topic()
            for _ in range(draw.randint(1, draw.choice([2, most_topics])))
        }
        self._common = self._subscription()
        self._members: list[_Member] = []
        for _ in range(draw.randint(1, self._most_members)):
            self._members.append(self._member())

    @property
    def spec(self) -> dict[str, Any]:
        """The group as it is about to rebalance."""
        spec: dict[str, Any] = {
            "id": f"{self._protocol}-{self._strategy}-{self._seed}-{self._round}",
            "protocol": self._protocol,
            "strategy": self._strategy,
            "topics": {
                name: {"partitions": topic.partitions} | self._racks(topic)
                for name, topic in self._topics.items()
            },
            "members": [self._as_json(member) for member in self._members],
        }
        if self._protocol in ("consumer", "share"):
            spec["topic_ids"] = {**self._topic_ids}
        return copy.deepcopy(spec)  # the group goes on

    def go_on(self, assignment: dict[str, Any] | None) -> None:
        """Take an assignment over, if there is one, and let things happen."""
        draw = self._random
        self._round += 1
        self._generation += 1
        for member in self._members:
            member.extra.clear()
            missed = self._is_wild and draw.random() < 0.15
            if assignment is not None and not missed:
                member.owned = [list(partition) for partition in assignment[member.member_id]]
                member.generation = self._generation
        for _ in range(draw.choice([0, 1, 1, 2, 3])):
            self._happen(draw.choice(["join", "leave", "restart", "grow", "topic", "subscribe"]))
        if self._is_wild:
            for _ in range(draw.choice([0, 1, 2])):
                self._happen(draw.choice(["shrink", "drop", "claim", "forget", "data", "move"]))
        if draw.random() < 0.3:
            draw.shuffle(self._members)

    def _happen(self, event: str) -> None:
        draw = self._random
        member = draw.choice(self._members)
        name = draw.choice(sorted(self._topics)) if self._topics else None
        if event == "join" and len(self._members) < self._most_members:
            self._members.append(self._member())
        elif event == "leave" and len(self._members) > 1:
            self._members.remove(member)
        elif event == "restart":
            again = self._member()
            again.instance_id = member.instance_id
            again.topics = member.topics
            self._members[self._members.index(member)] = again
        elif event == "grow" and name:
            self._grow(self._topics[name], draw.randint(1, 5))
        elif event == "topic":
            self._topics[self._name()] = self._topic()
            if draw.random() < 0.8:
                self._subscribe_anew()
        elif event == "subscribe":
            self._subscribe_anew(member)
        elif event == "shrink" and name:
            topic = self._topics[name]
            topic.partitions = draw.randint(0, topic.partitions)
            topic.racks = topic.racks and topic.racks[: topic.partitions]
        elif event == "drop" and name and len(self._topics) > 1:
            del self._topics[name]
        elif event == "claim" and member.owned is not None and name:
            member.owned.append([name, draw.randint(0, self._topics[name].partitions)])
        elif event == "forget":
            member.owned = member.generation = None
        elif event == "data":
            member.extra["user_data"] = self._user_data()
        elif event == "move":
            member.extra["subscription_generation"] = self._generation - draw.randint(-1, 2)

    def _subscribe_anew(self, member: _Member | None = None) -> None:
        if self._is_equal:
            self._common = self._subscription()
            for each in self._members:
                each.topics = list(self._common)
        elif member is not None:
            member.topics = self._subscription()

    def _subscription(self) -> list[str]:
        draw = self._random
        names = sorted(self._topics)
        if self._is_wild and draw.random() < 0.1:
            names = [*names, "missing", "also-missing"]
        least = 0 if self._is_wild and draw.random() < 0.3 else 1
        if draw.random() < 0.5:
            return names
        return sorted(draw.sample(names, draw.randint(min(least, len(names)), len(names))))

    def _member(self) -> _Member:
        draw = self._random
        if self._collides:
            member_id = "".join(draw.choices(["Aa", "BB"], k=7))
        else:
            member_id = f"consumer-{draw.randint(1, 99)}-{draw.getrandbits(64):016x}"
        taken = {member.member_id for member in self._members}
        while member_id in taken:
            member_id += draw.choice("xyzé\U0001f600￿")
        return _Member(
            member_id=member_id,
            topics=list(self._common) if self._is_equal else self._subscription(),
            instance_id=f"i{draw.getrandbits(32):x}" if draw.random() < self._statics else None,
            rack=draw.choice([*_RACKS[:3], None, "elsewhere"]) if self._has_racks else None,
            version=draw.choice(self._versions),
        )

    def _topic(self) -> _Topic:
        draw = self._random
        topic = _Topic(0, [] if self._has_racks and draw.random() < 0.9 else None)
        self._grow(topic, draw.randint(0 if self._is_wild else 1, self._most_partitions))
        return topic

    def _racks(self, topic: _Topic) -> dict[str, Any]:
        """Return where replicas are; the leader is the first of them, unless leaders differ.

        Then in every fourth group all leaders are in one rack, and in every other fourth a third of
        the partitions has no leader.
        """
        if topic.racks is None:
            return {}
        if not self._goes_by_leaders:
            return {"racks": topic.racks}
        leaders: list[str | None] = [racks[0] for racks in topic.racks]
        if self._leaders_differ and self._seed % 4 == 0:
            leaders = [_RACKS[0]] * len(leaders)
        elif self._leaders_differ and self._seed % 4 == 1:
            leaders[::3] = [None] * len(leaders[::3])
        return {"racks": topic.racks, "leader_racks": leaders}

    def _grow(self, topic: _Topic, by: int) -> None:
        topic.partitions += by
        if topic.racks is not None:
            everywhere = self._random.random() < 0.2
            for _ in range(by):
                replicas = _RACKS if everywhere else self._random.sample(_RACKS, 2)
                topic.racks.append(list(replicas))

    def _streams(self, member: _Member) -> dict[str, int]:
        """Give each topic threads: most consumers have as many for every one."""
        draw = self._random
        counts = [1, 1, 2, 3, 4, 12, 0] if self._is_wild else [1, 1, 2, 3, 4, 12]
        few = draw.choices(counts, [8, 8, 8, 4, 2, 1, 1][: len(counts)])[0]
        differs = draw.random() < (0.05 if self._strategy == "roundrobin" else 0.5)
        topics = draw.sample(member.topics, len(member.topics))
        for topic in topics:
            member.streams.setdefault(topic, draw.randint(1, 4) if differs else few)
        return {topic: member.streams[topic] for topic in topics}

    def _name(self) -> str:
        draw = self._random
        if self._topics_collide:
            name = "".join(draw.choices(["Aa", "BB"], k=5))
        else:
            name = draw.choice(["t", "orders.", "é", "\U0001f600"]) + str(draw.randint(0, 99))
        half = draw.randbytes(8)
        topic_id = half + (half if self._topics_collide else draw.randbytes(8))
        self._topic_ids.setdefault(name, base64.urlsafe_b64encode(topic_id).decode().rstrip("="))
        return name

    def _user_data(self) -> str:
        draw = self._random
        version_0 = struct.pack(">ih", 1, 2) + b"t1" + struct.pack(">iii", 2, 0, 1)
        data = draw.choice(
            [
                b"",
                b"\0\0\0",
                draw.randbytes(draw.randint(1, 12)),
                version_0,
                version_0 + b"\0\0\0\5",
            ]
        )
        return base64.b64encode(data).decode()

    def _as_json(self, member: _Member) -> dict[str, Any]:
        if self._protocol == "zookeeper":
            return {"member_id": member.member_id, "streams": self._streams(member)}
        spec: dict[str, Any] = {"member_id": member.member_id, "topics": member.topics}
        if member.version != 3:
            spec["protocol_version"] = member.version
        for name in ("instance_id", "rack", "owned", "generation"):
            value = getattr(member, name)
            if value is not None:
                spec[name] = value
        return spec | member.extra
