"""The sample inside the package: one small shop on Kafka 4.3.1, as an operator might meet it."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from contextlib import ExitStack

from kgroup.model.group import GroupState
from kgroup.operation.describe import describe
from kgroup.source.broker.source import LiveCluster
from tests.broker.client import faulty_member
from tests.broker.client.faulty_member import Faults
from tests.broker.maven import die_with_parent
from tests.broker.servers import Broker, broker
from tests.record.clients import (
    ASSIGNOR,
    finish,
    java,
    join_java,
    make_topics,
    settle,
    start_streams,
)
from tests.record.connect import worker
from tests.record.raw import commit, configure_group, delete_groups, delete_offsets
from tests.record.recording import Recording
from tests.record.scenario_current import CONFIG
from tests.record.session import Session
from tests.record.wire import Wire
from tests.waiting import until

TOPICS = {"orders": 6, "payments": 3, "shipments": 4, "order-totals": 3, "invoices": 6}

WEEK_MS = 7 * 24 * 3600 * 1000


def record_sample(recording: Recording) -> None:
    """Groups of every type: most are stable, some empty, one has a consumer that is too slow."""
    config = CONFIG | {"offsets.topic.num.partitions": "8"}
    recording.note(broker="4.3.1", mode="KRaft", config=config)
    with (
        ExitStack() as stack,
        broker("4.3.1", recording.work, config=config) as server,
        java(
            recording, server, "Consumers", "Producers", "Transactions", "ShareConsumers"
        ) as clients,
        java(recording, server, "StreamsApps", artifacts="streams") as apps,
    ):
        make_topics(recording, server, clients, TOPICS)
        start_slow_consumer(server, clients, stack)
        time.sleep(30)
        with Wire(server.version, server.bootstrap, "ops-laptop") as wire:
            configure_group(wire, "notifications", share_auto_offset_reset="earliest")
        services(recording, clients)
        migrations(recording, clients)
        others(recording, server, clients, apps)
        connector = stack.enter_context(
            worker(recording.work, server, "warehouse-sync", "sessioned", "warehouse-sync-1")
        )
        connector.create("shipments-warehouse", "Sink", 2, topics="shipments")
        connector.await_running("shipments-warehouse", 2)
        recording.did("warehouse-sync: Kafka Connect, one worker")
        recording.did("connect-shipments-warehouse: the consumers of its sink, two tasks")
        await_late_poll(recording, server, clients)
        finish(recording, server)


def services(recording: Recording, clients: Session) -> None:
    names = ["order-service-1", "order-service-2", "order-service-3"]
    cooperative = ASSIGNOR + "CooperativeStickyAssignor"
    for number, name in enumerate(names, 1):
        join_java(
            clients, "order-service", name, "orders", partition_assignment_strategy=cooperative
        )
        settle(clients, 6, *names[:number])
    for partition, offset in enumerate([10, 11, 12, 9, 4, 15]):
        offsets = f"orders:{partition}:{offset}:0"
        clients.call(
            "commit", name=owner(clients, "orders", partition, names), offsets=offsets, metadata=""
        )
    recording.did("order-service: classic, cooperative-sticky, three members, some lag")
    for number in (0, 1):
        join_java(
            clients,
            "payment-service",
            f"payment-service-{number}",
            "payments",
            group_instance_id=f"payment-service-{number}",
            session_timeout_ms="60000",
        )
    settle(clients, 3, "payment-service-0", "payment-service-1")
    clients.call(
        "commit", name="payment-service-0", offsets="payments:0:10:0,payments:1:11:0", metadata=""
    )
    clients.call("commit", name="payment-service-1", offsets="payments:2:12:0", metadata="")
    recording.did("payment-service: classic, range, two static members")
    names = ["shipping-1", "shipping-2"]
    for rack, name in zip(["eu-central-1a", "eu-central-1b"], names, strict=True):
        join_java(
            clients,
            "shipping",
            name,
            "shipments,orders",
            group_protocol="consumer",
            client_rack=rack,
        )
    settle(clients, 10, *names)
    clients.call("commit", name="shipping-1", offsets="shipments:0:10:0", metadata="")
    clients.call("commit", name="shipping-2", offsets="shipments:2:7:0", metadata="")
    recording.did("shipping: KIP-848, two members with racks")
    names = ["fraud-check-1", "fraud-check-2"]
    for name in names:
        join_java(
            clients,
            "fraud-check",
            name,
            "^(orders|payments)$",
            group_protocol="consumer",
            group_remote_assignor="range",
        )
    settle(clients, 9, *names)
    clients.call("commit", name="fraud-check-1", offsets="payments:0:9:0", metadata="model 2026-11")
    recording.did("fraud-check: KIP-848, two members that subscribe by regex")


def migrations(recording: Recording, clients: Session) -> None:
    cooperative = ASSIGNOR + "CooperativeStickyAssignor"
    for name in ("pricing-1", "pricing-2"):
        join_java(clients, "pricing", name, "orders", partition_assignment_strategy=cooperative)
    settle(clients, 6, "pricing-1", "pricing-2")
    clients.call("commit", name="pricing-1", offsets="orders:0:10:0", metadata="")
    join_java(clients, "pricing", "pricing-3", "orders", group_protocol="consumer")
    settle(clients, 6, "pricing-1", "pricing-2", "pricing-3")
    recording.did("pricing: half way to KIP-848, two classic members and one new")
    join_java(clients, "invoice-batch", "invoice-batch-1", "payments")
    settle(clients, 3, "invoice-batch-1")
    for offset in (4, 8):
        clients.call(
            "commit",
            name="invoice-batch-1",
            offsets=f"payments:0:{offset}:0,payments:1:{offset}:0,payments:2:{offset}:0",
            metadata="nightly run",
        )
    clients.call("leave", name="invoice-batch-1")
    recording.did("invoice-batch: classic, committed twice and left")


def others(recording: Recording, server: Broker, clients: Session, apps: Session) -> None:
    for number in (1, 2):
        clients.call(
            "share-join",
            name=f"notifications-{number}",
            topics="payments",
            config={"group.id": "notifications", "client.id": f"notifications-{number}"},
        )
    clients.call("share-read", names="notifications-1,notifications-2", count=33)
    recording.did("notifications: share group, two members")
    for number in (1, 2):
        start_streams(
            recording, apps, "order-totals", f"order-totals-{number}", group_protocol="streams"
        )
    time.sleep(3)
    recording.did("order-totals: streams group, two processes, with a standby replica")
    for end, offsets in [
        ("commit", "payments:0:5:0,payments:1:5:0"),
        ("abort", "payments:0:6:0"),
        ("commit", "payments:0:7:0"),
        ("open", "payments:0:9:0,payments:2:9:0"),
    ]:
        clients.call(
            "transaction",
            id="ledger-writer-1",
            group="ledger",
            offsets=offsets,
            metadata="",
            end=end,
        )
        recording.did(f"ledger: transaction of {offsets}, then {end}")
    with Wire(server.version, server.bootstrap, "ops-laptop") as wire:
        commit(
            wire,
            "legacy-report",
            {("orders", 0): 3},
            version=2,
            retention_time_ms=WEEK_MS,
            metadata="monthly",
        )
        commit(wire, "search-index", {("orders", p): 10 for p in range(6)})
        delete_offsets(wire, "search-index", [("orders", 5)])
        commit(wire, "old-dashboard", {("orders", 0): 1, ("orders", 1): 1})
        delete_groups(wire, "old-dashboard")
    recording.did("legacy-report: OffsetCommit v2 with a retention of a week")
    recording.did("search-index: commits without membership, the offset of orders-5 deleted")
    recording.did("old-dashboard: committed, then deleted")


def start_slow_consumer(server: Broker, clients: Session, stack: ExitStack) -> None:
    """Start three consumers, one of which works longer on what it has polled than it may."""
    clients.call("flow", topic="invoices", partitions=6, rate=25, config={"linger.ms": "1000"})
    for number in (1, 2, 3):
        faults: Faults = {
            "subscriptions": [["invoices"]],
            "config": {
                "bootstrap.servers": server.bootstrap,
                "group.id": "billing",
                "client.id": f"billing-{number}",
                "enable.auto.commit": True,
                "auto.commit.interval.ms": 1000,
                "heartbeat.interval.ms": 1000,
                "session.timeout.ms": 6000,
                "max.poll.interval.ms": 15_000,
            },
        }
        if number == 2:
            faults |= {"slow_s": 17, "slow_times": 100}
        process = subprocess.Popen(
            [sys.executable, faulty_member.__file__, json.dumps(faults)],
            preexec_fn=die_with_parent(),
        )
        stack.callback(process.wait)
        stack.callback(process.kill)  # before that


def await_late_poll(recording: Recording, server: Broker, clients: Session) -> None:
    """Wait until the slow consumer has polled too late once more, and lags."""
    before = slow_members(server)

    def is_back() -> bool:
        now = slow_members(server)
        return bool(now) and now != before

    until(is_back, every_s=0.3)
    time.sleep(6)
    clients.call("flow-stop", topic="invoices")
    time.sleep(2)  # the others commit what they have read
    recording.did("billing: classic, range, three members, of which one polls too late")


def slow_members(server: Broker) -> set[str]:
    """Return the id of the slow member; nothing while the group rebalances."""
    with LiveCluster(server.bootstrap, of_silence=True) as source:
        groups = [each.group for each in describe(source, ["billing"], log_budget=0).data]
    members = [
        member for group in groups if group.state is GroupState.STABLE for member in group.members
    ]
    return {member.member_id for member in members if member.client_id == "billing-2"}


def owner(clients: Session, topic: str, partition: int, names: list[str]) -> str:
    """The consumer that owns a partition."""
    for name in names:
        if f"{topic}-{partition}" in clients.call("owned", name=name).split(","):
            return name
    raise AssertionError(f"nobody owns {topic}-{partition}")
