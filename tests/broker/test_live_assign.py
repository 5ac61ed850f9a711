"""Dry runs come true: what is foretold is then done, and the broker describes the same."""

from __future__ import annotations

import random
import struct
from base64 import urlsafe_b64decode
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path

import pytest

from kgroup.assignor.group_spec import GroupSpec
from kgroup.model.group import GroupState
from kgroup.operation.assign import what_if
from kgroup.operation.assign.dry_run import settled
from kgroup.operation.assign.group import find_group, read_group
from kgroup.operation.assign.what_if import AddedMembers
from kgroup.source.broker.source import LiveCluster
from tests.broker.servers import Broker, broker
from tests.examples import in_depth
from tests.record.clients import ASSIGNOR, java, join_java, settle
from tests.record.raw import await_coordinator, create_topics
from tests.record.recording import Recording
from tests.record.session import Session
from tests.record.wire import Wire
from tests.waiting import until

ROUNDS = in_depth(3, 2)
SEED = 20261122
CLASSIC = {
    "range": "RangeAssignor",
    "roundrobin": "RoundRobinAssignor",
    "sticky": "StickyAssignor",
    "cooperative-sticky": "CooperativeStickyAssignor",
}
STRATEGIES = {
    "4.3.1": (*CLASSIC, "consumer-uniform", "consumer-range"),
    "3.9.2": ("range", "sticky", "cooperative-sticky"),
    "1.1.1": ("range", "roundrobin", "sticky"),
}
CONFIG = {"group.initial.rebalance.delay.ms": "0"}
NEW_CONFIG = {
    "group.consumer.heartbeat.interval.ms": "500",
    "group.consumer.min.heartbeat.interval.ms": "500",
}


@dataclass(frozen=True)
class Cluster1:
    server: Broker
    clients: Session
    source: LiveCluster


@pytest.fixture(scope="module", params=STRATEGIES)
def live(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Cluster1]:
    version: str = request.param
    work: Path = tmp_path_factory.mktemp(f"assign-{version}")
    config = CONFIG | (NEW_CONFIG if version == "4.3.1" else {})
    with (
        broker(version, work, config=config) as server,
        java(Recording("assign", work), server, "Consumers") as clients,
        LiveCluster(server.bootstrap, of_silence=True) as source,
    ):
        with Wire(version, server.bootstrap) as wire:
            await_coordinator(wire)
        yield Cluster1(server, clients, source)


def test_what_is_foretold_comes_true(live: Cluster1) -> None:
    version = live.server.version
    done = 0
    for strategy in STRATEGIES[version]:
        group = _Group(live, strategy)
        for _ in range(ROUNDS):
            group.play_a_round()
            done += 1
    print(f"{version}: {done} rounds, all as foretold")
    assert done == ROUNDS * len(STRATEGIES[version])


class _Group:
    """A group of Java consumers; each subscribes to two topics of the group's own."""

    def __init__(self, live: Cluster1, strategy: str) -> None:
        self._live = live
        self._strategy = strategy
        self._random = random.Random(f"{SEED}-{live.server.version}-{strategy}")
        self._name = f"group-{strategy}"
        self._topics = {f"{strategy}.a": 7, f"{strategy}.b": 6}
        self._members: list[str] = []
        self._joined = 0
        with Wire(live.server.version, live.server.bootstrap) as wire:
            create_topics(wire, self._topics)
        if strategy == "consumer-uniform":
            self._let_topics_share_a_bucket()
        for _ in range(3):
            self._join()
        self._settle()

    def _let_topics_share_a_bucket(self) -> None:
        """Take a second topic whose id the coordinator's hash maps have beside that of the first.

        What the assignor takes from a member first then hangs on the order of its target, which
        nothing but the coordinator can tell.
        """
        server = self._live.server
        first, second = self._topics
        for number in count():
            if _bucket(self._topic_id(first)) == _bucket(self._topic_id(second)):
                return
            partitions = self._topics.pop(second)
            second = f"{self._strategy}.b{number}"
            self._topics[second] = partitions
            with Wire(server.version, server.bootstrap) as wire:
                create_topics(wire, {second: partitions})

    def _topic_id(self, topic: str) -> str:
        return until(lambda: self._live.source.view([topic]).topics[topic].topic_id)

    def play_a_round(self) -> None:
        """Foretell a change, make it, and compare."""
        before = self._read()
        kinds = ["join", "grow"] if len(self._members) < 2 else ["join", "leave", "grow"]
        kind = self._random.choice(kinds if len(self._members) < 5 else ["leave", "grow"])
        if kind == "join":
            changed = what_if.add_members(before, AddedMembers())
            self._join()
        elif kind == "leave":
            name = self._members.pop(self._random.randrange(len(self._members)))
            (member_id,) = (m.member_id for m in before.members if m.client_id == name)
            changed = what_if.remove_member(before, member_id)
            self._live.clients.call("leave", name=name)
        else:
            topic = self._random.choice(sorted(self._topics))
            self._topics[topic] += self._random.randint(1, 3)
            changed = what_if.set_partitions(before, topic, self._topics[topic])
            self._grow(topic)
        self._settle()
        after = self._read()
        described = {member.member_id: set(member.owned or ()) for member in after.members}
        if kind == "join":  # the new id takes part in the order, and so does its place in the list
            (new,) = described.keys() - {member.member_id for member in before.members}
            *rest, joined = changed.members
            joined = replace(joined, member_id=new, unknown_id=False)
            changed = replace(changed, members=(*rest, joined), member_order=after.member_order)
        assert self._foretold(changed) == described, (self._strategy, kind, before)

    def _foretold(self, spec: GroupSpec) -> Mapping[str, set[tuple[str, int]]]:
        plan = settled(spec).last
        assert plan.assignment is not None
        return {member_id: set(partitions) for member_id, partitions in plan.assignment.items()}

    def _read(self) -> GroupSpec:
        version = "1.1.1" if self._live.server.version == "1.1.1" else "4.3.1"
        group = read_group(self._live.source, self._name, kafka_version=version)
        assert group.errors == ()
        assert group.data[0].strategy == self._strategy.removeprefix("consumer-")
        assert {
            name: topic.partitions for name, topic in group.data[0].topics.items()
        } == self._topics
        return group.data[0]

    def _join(self) -> None:
        self._joined += 1
        name = f"{self._strategy}-{self._joined}"
        options = {"metadata_max_age_ms": "500"}
        if self._strategy in CLASSIC:
            options["partition_assignment_strategy"] = ASSIGNOR + CLASSIC[self._strategy]
            options["heartbeat_interval_ms"] = "200"
            options["session_timeout_ms"] = "60000"  # nobody is missed, on a busy machine either
        else:
            options["group_protocol"] = "consumer"
            options["group_remote_assignor"] = self._strategy.removeprefix("consumer-")
        join_java(self._live.clients, self._name, name, ",".join(self._topics), **options)
        self._members.append(name)

    def _settle(self) -> None:
        """Wait until all is owned, and nothing is still to be assigned.

        A coordinator of 4.3 computes a target at most once a second (KIP-1263): a member that has
        just joined owns nothing until then, and the others everything.
        """
        settle(self._live.clients, sum(self._topics.values()), *self._members)

        def is_settled() -> bool:
            _, group = find_group(self._live.source, self._name)
            return group.state is GroupState.STABLE and len(group.members) == len(self._members)

        until(is_settled)

    def _grow(self, topic: str) -> None:
        topics = [{"name": topic, "count": self._topics[topic], "assignments": None}]
        with Wire(self._live.server.version, self._live.server.bootstrap) as wire:
            wire.call("CreatePartitions", topics=topics, timeout_ms=30_000, validate_only=False)


def _bucket(topic_id: str) -> int:
    """Give that of `java.util.HashMap`, of 16, by `org.apache.kafka.common.Uuid.hashCode`."""
    high, low = struct.unpack(">QQ", urlsafe_b64decode(topic_id + "=="))
    folded = int(high ^ low) >> 32 ^ int(high ^ low) & 0xFFFFFFFF
    return (folded ^ folded >> 16) & 15
