"""Record what members of each library send: `python -m tests.broker.client.record [LIBRARY…]`.

For each library, version and strategy a group is played in three rounds: one member with the
library's default client id, then one more with a client id of its own, then a static one with a
rack where the library has such. After each round a line is written for each member, with the bytes
that DescribeGroups gives. Go, Node, a JDK and Maven are needed; what is recorded of the named
libraries takes the place of what was there.
"""

from __future__ import annotations

import gzip
import json
import sys
import tempfile
from base64 import b64encode
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from kgroup.operation.assign.group import find_group
from kgroup.source.log.source import LogDir
from tests.broker.client.member import LibraryMember
from tests.broker.servers import Broker, broker
from tests.record.clients import ASSIGNOR
from tests.record.raw import await_coordinator, create_topics
from tests.record.session import Session, session
from tests.record.wire import Wire
from tests.waiting import until_steady

FILE = Path(__file__).parents[2] / "data" / "clients" / "live-members.jsonl.gz"
BROKERS = ("3.9.2", "4.3.1")
TOPICS = {"zoo": 3, "ant": 4, "Mole": 2}
ONE_TOPIC = "ant"
_EAGER = ("range", "roundrobin")
_JAVA = {
    "range": "RangeAssignor",
    "roundrobin": "RoundRobinAssignor",
    "sticky": "StickyAssignor",
    "cooperative-sticky": "CooperativeStickyAssignor",
}


class Case(NamedTuple):
    """What is recorded of a library.

    Attributes:
        library: as its users call it.
        version: None for the one that the program has; Java's is Kafka's.
        strategies: names of them.
        is_static: whether it has static members.
        protocol_version: see `LibraryMember`.
        brokers: whose versions it can talk to.
        has_rack: whether it knows of racks.
    """

    library: str
    version: str
    strategies: tuple[str, ...]
    is_static: bool = True
    protocol_version: str | None = None
    brokers: tuple[str, ...] = BROKERS
    has_rack: bool = True


_OLD = ("3.9.2",)
CASES = (
    Case("kafka-clients", "1.1.1", (*_EAGER, "sticky"), is_static=False, brokers=_OLD),
    Case("kafka-clients", "2.8.2", tuple(_JAVA), brokers=_OLD),
    Case("kafka-clients", "3.9.2", tuple(_JAVA), brokers=_OLD),
    Case("kafka-clients", "4.3.1", tuple(_JAVA)),
    Case("librdkafka", "2.0.2", (*_EAGER, "cooperative-sticky"), brokers=_OLD),
    Case("librdkafka", "2.16.1", (*_EAGER, "cooperative-sticky")),
    Case("franz-go", "1.7.0", tuple(_JAVA), brokers=_OLD),
    Case("franz-go", "1.18.1", tuple(_JAVA), brokers=_OLD),
    Case("franz-go", "1.21.0", tuple(_JAVA), brokers=_OLD),
    Case("franz-go", "1.22.3", tuple(_JAVA)),
    Case("sarama", "1.40.1", (*_EAGER, "sticky"), is_static=False, brokers=_OLD),
    Case("sarama", "1.43.3", (*_EAGER, "sticky"), protocol_version="3.6.0", brokers=_OLD),
    *(
        Case("sarama", "1.61.1", (*_EAGER, "sticky"), protocol_version=spoken)
        for spoken in ("2.3.0", None, "3.6.0")
    ),
    *(
        Case("sarama", "1.61.1", ("cooperative-sticky",), protocol_version=spoken)
        for spoken in ("2.4.0", None, "3.6.0")
    ),
    Case("kafka-go", "0.4.42", (*_EAGER, "rack-affinity"), is_static=False, brokers=_OLD),
    Case("kafka-go", "0.4.51", (*_EAGER, "rack-affinity"), is_static=False),
    Case("kafka-python", "2.0.2", _EAGER, False, None, _OLD, has_rack=False),
    Case("kafka-python", "2.3.3", (*_EAGER, "sticky"), brokers=_OLD, has_rack=False),
    Case("kafka-python", "3.0.12", tuple(_JAVA)),
    Case("kafkajs", "1.16.0", ("RoundRobinAssigner",), is_static=False, brokers=_OLD),
    Case("kafkajs", "2.2.4", ("RoundRobinAssigner",), is_static=False),
    Case("aiokafka", "0.14.0", (*_EAGER, "sticky"), has_rack=False),
    Case("kafka-node", "5.0.0", _EAGER, False, None, _OLD, has_rack=False),
    Case("kafka-ts", "1.5.0", ("RoundRobinAssigner",), has_rack=False),
    Case("@platformatic/kafka", "1.35.0", ("roundrobin",), has_rack=False),
    Case("node-rdkafka", "3.6.1", (*_EAGER, "cooperative-sticky")),
    Case("@confluentinc/kafka-javascript", "1.10.1", (*_EAGER, "cooperative-sticky")),
)


class Stoppable(Protocol):
    """A member that runs."""

    def stop(self) -> None:
        """Leave in order."""


class _JavaMember:
    def __init__(self, clients: Session, name: str) -> None:
        self._clients = clients
        self._name = name

    def stop(self) -> None:
        self._clients.call("leave", name=self._name)


Start = Callable[[str, Sequence[str], str, str | None, str | None, str | None], Stoppable]
"""Starts a member from group, topics, strategy, client id, instance id and rack."""


def starter(case: Case, server: Broker, stack: ExitStack, log: Path) -> Start:
    """Return what starts members of a library."""
    if case.library != "kafka-clients":

        def start(
            group: str,
            topics: Sequence[str],
            strategy: str,
            client_id: str | None,
            instance_id: str | None,
            rack: str | None,
        ) -> Stoppable:
            return LibraryMember(
                case.library,
                server.bootstrap,
                group,
                topics,
                strategy,
                log,
                client_id=client_id,
                instance_id=instance_id,
                rack=rack,
                protocol_version=case.protocol_version,
                version=case.version,
            )

        return start
    clients = stack.enter_context(
        session(case.version, ["Consumers"], bootstrap=server.bootstrap, log=log)
    )
    numbers = count()

    def start_java(
        group: str,
        topics: Sequence[str],
        strategy: str,
        client_id: str | None,
        instance_id: str | None,
        rack: str | None,
    ) -> Stoppable:
        config = {
            "group.id": group,
            "client.id": client_id,
            "group.instance.id": instance_id,
            "client.rack": rack,
            "partition.assignment.strategy": ASSIGNOR + _JAVA[strategy],
            "heartbeat.interval.ms": "200",
        }
        name = f"{group}-{next(numbers)}"
        given = {key: value for key, value in config.items() if value is not None}
        clients.call("join", name=name, topics=",".join(topics), config=given)
        return _JavaMember(clients, name)

    return start_java


def settled(wire: Wire, group: str, members: int, partitions: int) -> dict[str, Any]:
    """Wait until a group is at rest, with so many members and partitions; give its description."""
    seen: list[dict[str, Any]] = []

    def is_whole() -> bool:
        answer = wire.call("DescribeGroups", groups=[group])["groups"][0]
        before = seen[-1] if seen else None
        seen.append(answer)
        return (
            answer["group_state"] == "Stable"
            and len(answer["members"]) == members
            and answer == before
        )

    until_steady(is_whole, times=8)
    return seen[-1]


def lines_of(case: Case, strategy: str, server: Broker, start: Start) -> Iterator[dict[str, Any]]:
    """Play a group, and give a line for each member after each round."""
    group = f"{case.library}-{case.version}-{case.protocol_version}-{strategy}"
    topics = list(TOPICS)
    members: list[Stoppable] = []
    # Members of kafka-ts restart until they own only partitions to whose topics they subscribe.
    is_alike = strategy == "roundrobin" or case.library == "kafka-ts"
    joins = [
        (topics, None, None, None),
        (topics if is_alike else [ONE_TOPIC], "till-4", None, None),
        (
            topics,
            "shop",
            "counter-1" if case.is_static else None,
            "rack-a" if case.has_rack else None,
        ),
    ]
    try:
        with Wire(server.version, server.bootstrap) as wire:
            for number, join in enumerate(joins, 1):
                members.append(start(group, join[0], strategy, *join[1:]))
                answer = settled(wire, group, number, sum(TOPICS.values()))
                leader = find_group(LogDir([server.log_dir]), group)[1].leader_id
                for member in answer["members"]:
                    yield {
                        "library": case.library,
                        "version": case.version,
                        "protocol_version": case.protocol_version,
                        "broker": server.version,
                        "strategy": answer["protocol_data"],
                        "round": number,
                        "group_id": group,
                        "member_id": member["member_id"],
                        "client_id": member["client_id"],
                        "instance_id": member.get("group_instance_id"),
                        "is_leader": member["member_id"] == leader,
                        "subscription": b64encode(member["member_metadata"]).decode(),
                        "assignment": b64encode(member["member_assignment"]).decode(),
                    }
    finally:
        for stoppable in members:
            stoppable.stop()


def record(libraries: Sequence[str]) -> None:
    """Record what members of these libraries send, or of all."""
    known = (
        list(map(json.loads, gzip.decompress(FILE.read_bytes()).splitlines()))
        if FILE.exists()
        else []
    )
    lines = [line for line in known if libraries and line["library"] not in libraries]
    for version in BROKERS:
        with tempfile.TemporaryDirectory() as folder, broker(version, Path(folder)) as server:
            with Wire(version, server.bootstrap) as wire:
                create_topics(wire, TOPICS)
                await_coordinator(wire)
            for case in CASES:
                if version not in case.brokers or (libraries and case.library not in libraries):
                    continue
                with ExitStack() as stack:
                    start = starter(case, server, stack, Path(folder) / "clients.log")
                    for strategy in case.strategies:
                        print(version, *case[:2], case.protocol_version, strategy, flush=True)
                        lines.extend(lines_of(case, strategy, server, start))
    text = "".join(json.dumps(line) + "\n" for line in lines)
    FILE.write_bytes(gzip.compress(text.encode(), mtime=0))


if __name__ == "__main__":
    record(sys.argv[1:])
