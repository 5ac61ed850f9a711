"""One data directory through the years: 0.8.2.2, then each later broker on the same folders.

So message formats 0, 1 and 2 and every version of the values up to 2.8 lie in one topic. Brokers
write what `inter.broker.protocol.version` allows: 2.8.2 is started with that of older brokers
first, as in a rolling upgrade, which gives the versions that lie between the recorded brokers.
"""

from __future__ import annotations

from typing import NamedTuple

from tests.broker.maven import version_tuple
from tests.broker.servers import Broker, ZooKeeper, broker, zookeeper
from tests.record.classic import CLASSIC_CONFIG, transactions
from tests.record.clients import finish, java, join_java, make_topics, settle
from tests.record.raw import RawMember, commit, join
from tests.record.recording import Recording
from tests.record.session import Session
from tests.record.wire import Wire

TOPICS = {"orders": 6, "payments": 3}


class Step(NamedTuple):
    """A broker, and what it is told to keep to (None: its own newest)."""

    version: str
    protocol: str | None = None

    @property
    def name(self) -> str:
        """The step in names of groups."""
        return f"{self.version}-as-{self.protocol}" if self.protocol else self.version


STEPS = (
    Step("0.8.2.2"),
    Step("0.9.0.1"),
    Step("0.10.2.2", "0.10.0"),
    Step("0.10.2.2"),
    Step("0.11.0.3"),
    Step("1.1.1"),
    Step("2.8.2", "2.1-IV0"),
    Step("2.8.2"),
)


def record_upgrade(recording: Recording) -> None:
    """Do at every step: members that stay, a group that lives on, commits, transactions."""
    names = " -> ".join(step.name for step in STEPS)
    recording.note(broker="2.8.2", mode="ZooKeeper", config=CLASSIC_CONFIG, upgraded=names)
    with zookeeper(recording.work) as keeper:
        for step in STEPS:
            _step(recording, keeper, step)


def _step(recording: Recording, keeper: ZooKeeper, step: Step) -> None:
    config = dict(CLASSIC_CONFIG)
    if step.protocol:
        config["inter.broker.protocol.version"] = step.protocol
        config["log.message.format.version"] = step.protocol
    number = version_tuple(step.version)
    actors = ["Producers"]
    actors += ["Consumers"] * (number >= (0, 9)) + ["Transactions"] * (number >= (0, 11))
    with (
        broker(step.version, recording.work, zookeeper=keeper, config=config) as server,
        java(recording, server, *actors) as clients,
    ):
        if step == STEPS[0]:
            make_topics(recording, server, clients, TOPICS)
        _commits(recording, server, step)
        if number >= (0, 9):
            _members(recording, server, clients, step)
        if step == Step("0.11.0.3"):
            transactions(recording, server, clients)
        if step == STEPS[-1]:
            finish(recording, server)
        else:
            clients.call("leave", name="orders-evolving") if number >= (0, 9) else None
            server.stop()


def _commits(recording: Recording, server: Broker, step: Step) -> None:
    index = STEPS.index(step)
    with Wire(server.version, server.bootstrap) as wire:
        many = {("orders", partition): 10 * index + partition for partition in range(6)}
        version = 1 if version_tuple(step.version) < (0, 9) else None
        commit(wire, f"raw-{step.name}", many, metadata=step.name, version=version)
        commit(wire, "raw-evolving", {("orders", 0): index}, metadata=step.name, version=version)
    recording.did(f"broker {step.name}: raw-{step.name} and raw-evolving commit")


def _members(recording: Recording, server: Broker, clients: Session, step: Step) -> None:
    name = "orders-evolving"
    join_java(clients, name, name, "orders,payments")
    settle(clients, 9, name)
    clients.call("commit", name=name, offsets="orders:0:1,payments:1:2", metadata=step.name)
    member = RawMember(server.version, server.bootstrap, f"worker-{step.name}")
    join(
        member,
        f"workers-{step.name}",
        {"worker": step.name.encode()},
        b"task 1",
        protocol_type="workers",
    )
    member.close()
    recording.did(
        f"broker {step.name}: orders-evolving, a Java consumer of this version that leaves before "
        f"the next step; workers-{step.name}, a raw member that stays"
    )
