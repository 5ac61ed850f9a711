"""Brokers with groups of every type, of which nothing moves any more, and their log directories."""

from __future__ import annotations

import shutil
from collections.abc import Collection, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from kgroup.model.group import Group, GroupState
from kgroup.operation.describe import describe
from kgroup.source.base import Question
from kgroup.source.broker.source import LiveCluster
from tests.broker.maven import version_tuple
from tests.broker.servers import Broker, broker
from tests.record.clients import ASSIGNOR, java, join_java, make_topics, settle
from tests.record.raw import RawMember, commit, configure_group, join, knock
from tests.record.recording import Recording
from tests.record.session import Session
from tests.record.wire import Wire
from tests.waiting import until, until_steady

TOPICS = {"orders": 3, "payments": 2, "totals": 1}
MODERN_CONFIG = {
    f"group.{kind}.{word}heartbeat.interval.ms": "1000"
    for kind in ("consumer", "share", "streams")
    for word in ("", "min.")
}
STICKY = {"partition_assignment_strategy": f"{ASSIGNOR}CooperativeStickyAssignor"}
NEW = {"group_protocol": "consumer"}


@dataclass(frozen=True)
class LiveGroups:
    """What runs, and what its log was when everybody had what they want.

    classic: "pair" (two cooperative consumers, one of them static), "done" (committed and left),
    "simple" (only commits, one of -1, one in a transaction that is open), "moving" (one member, in
    the middle of a rebalance).

    From Kafka 4 on too, consumer: "racks" (two members, a commit), "regex", "upgrading" (one of
    two speaks the classic protocol); share: "shared"; streams: "totals".
    """

    server: Broker
    log_dir: Path


@contextmanager
def live_groups(
    version: str, work: Path, *, config: Mapping[str, str] = {}
) -> Iterator[LiveGroups]:
    """Start all of it, and copy the log directory."""
    recording = Recording("live", work)
    is_modern = version_tuple(version) >= (4,)
    actors = ["Consumers", "Producers", "Transactions", *(["ShareConsumers"] if is_modern else [])]
    with ExitStack() as stack:
        settings = {**(MODERN_CONFIG if is_modern else {}), **config}
        server = stack.enter_context(broker(version, work, config=settings))
        clients = stack.enter_context(java(recording, server, *actors))
        wire = stack.enter_context(Wire(version, server.bootstrap))
        make_topics(recording, server, clients, TOPICS)
        if is_modern:
            apps = stack.enter_context(java(recording, server, "StreamsApps", artifacts="streams"))
            start_streams(apps, work)
            join_consumer_groups(clients)
            join_share_group(clients, wire)
        _join_classic_groups(clients, wire)
        for number in (1, 2):
            member = RawMember(version, server.bootstrap, f"moving-{number}")
            stack.callback(member.close)
            if number == 1:
                join(member, "moving", {"range": b""}, b"")
            else:
                knock(member, "moving", {"range": b""})
        if is_modern:
            await_lag_0(server, "totals")
        with LiveCluster(server.bootstrap, of_silence=True) as source:
            await_rest(source, but=["moving"])
        # A file that is written aside may be gone before it is copied.
        shutil.copytree(server.log_dir, work / "copy", ignore=shutil.ignore_patterns("*.tmp"))
        yield LiveGroups(server, work / "copy")


def _join_classic_groups(clients: Session, wire: Wire) -> None:
    join_java(clients, "pair", "pair-1", "orders,payments", **STICKY)
    join_java(clients, "pair", "pair-2", "orders,payments", **STICKY, group_instance_id="pod-2")
    settle(clients, 5, "pair-1", "pair-2")
    clients.call("commit", name="pair-1", offsets="orders:0:5,payments:1:3", metadata="half")
    join_java(clients, "done", "done-1", "payments")
    settle(clients, 2, "done-1")
    clients.call("commit", name="done-1", offsets="payments:0:10", metadata="")
    clients.call("leave", name="done-1")
    commit(wire, "simple", {("orders", 0): 1, ("orders", 1): -1, ("orders", 2): 1000})
    clients.call(
        "transaction",
        id="open",
        group="simple",
        offsets="payments:1:7",
        metadata="open",
        end="open",
    )


def join_consumer_groups(clients: Session) -> None:
    """Join "racks", "regex" and "upgrading", see `LiveGroups`."""
    join_java(clients, "racks", "racks-1", "orders", **NEW, client_rack="rack-a")
    join_java(clients, "racks", "racks-2", "orders", **NEW, group_instance_id="pod-2")
    join_java(clients, "regex", "regex-1", "^(orders|pay.*)$", **NEW, group_remote_assignor="range")
    join_java(clients, "upgrading", "upgrading-old", "orders", **STICKY)
    settle(clients, 3, "upgrading-old")
    join_java(clients, "upgrading", "upgrading-new", "orders", **NEW)
    settle(clients, 3, "upgrading-old", "upgrading-new")
    settle(clients, 3, "racks-1", "racks-2")
    settle(clients, 5, "regex-1")
    clients.call("commit", name="racks-1", offsets="orders:0:3:0", metadata="KIP-848")


def join_share_group(clients: Session, wire: Wire) -> None:
    """Join "shared", and read what there is."""
    configure_group(wire, "shared", share_auto_offset_reset="earliest")
    options = {"group.id": "shared", "client.id": "shared-1"}
    clients.call("share-join", name="shared-1", topics="payments", config=options)
    clients.call("share-read", names="shared-1", count=21)


def start_streams(apps: Session, work: Path) -> None:
    """Start "totals", and wait until it works."""
    apps.call(
        "streams-start",
        name="totals-1",
        source="orders",
        sink="totals",
        config={
            "application.id": "totals",
            "client.id": "totals-1",
            "group.protocol": "streams",
            "commit.interval.ms": "500",
            "state.dir": str(work / "state"),
            "application.server": "totals.internal:8080",
            "replication.factor": "1",
            "repartition.purge.interval.ms": "3600000",
        },
    )
    apps.call("streams-running", name="totals-1")


def await_rest(source: LiveCluster, *, but: Collection[str] = ()) -> None:
    """Wait until groups are complete or empty, and stay as they are for a second; others may not.

    A member says that it has what it wants a little later than it has it.
    """
    seen: list[Mapping[str, Group]] = [{}]

    def rests() -> bool:
        before = seen.pop()
        seen.append(source.read(question=Question(log_budget=0)).image.groups)
        return all(
            group == before.get(group_id) and group.state in (GroupState.STABLE, GroupState.EMPTY)
            for group_id, group in seen[0].items()
            if group_id not in but
        )

    until_steady(rests, times=3, every_s=0.5)


def await_lag_0(server: Broker, group_id: str) -> None:
    """Wait until a group has committed all there is: nothing changes after that."""
    with LiveCluster(server.bootstrap, of_silence=True) as source:

        def lags() -> set[int | None]:
            (group,) = describe(source, [group_id], log_budget=0).data
            return {offset.lag for offset in group.offsets}

        until(lambda: lags() == {0}, every_s=0.5)
