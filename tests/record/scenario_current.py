"""Kafka 4.x, KRaft: classic, KIP-848, share and streams groups, transactions, odd names."""

from __future__ import annotations

import time

from tests.broker.servers import Broker, broker
from tests.record.clients import ASSIGNOR, finish, java, join_java, make_topics, settle
from tests.record.raw import (
    RawMember,
    add_offsets_to_transaction,
    commit,
    configure_group,
    delete_groups,
    delete_offsets,
    join,
    knock,
)
from tests.record.raw_consumer import RawConsumer
from tests.record.recording import Recording
from tests.record.session import Session
from tests.record.wire import Wire

__all__ = ["record_4_3_1"]

CONFIG = {
    "offsets.topic.num.partitions": "4",
    "transaction.state.log.num.partitions": "1",
    "group.consumer.heartbeat.interval.ms": "1000",
    "group.consumer.min.heartbeat.interval.ms": "1000",
    "group.share.heartbeat.interval.ms": "1000",
    "group.share.min.heartbeat.interval.ms": "1000",
    "group.streams.heartbeat.interval.ms": "1000",
    "group.streams.min.heartbeat.interval.ms": "1000",
    "group.streams.num.standby.replicas": "1",
    "group.streams.initial.rebalance.delay.ms": "0",
    "log.message.timestamp.after.max.ms": "9223372036854775807",
}

TOPICS = {"orders": 6, "payments": 3, "shipments": 4, "audit.log": 1, "order-totals": 3}


def record_4_3_1(recording: Recording) -> None:
    """Everything that a 4.3.1 broker knows, in one log directory."""
    recording.note(broker="4.3.1", mode="KRaft", config=CONFIG)
    with (
        broker("4.3.1", recording.work, config=CONFIG) as server,
        java(
            recording, server, "Consumers", "Producers", "Transactions", "ShareConsumers"
        ) as clients,
        java(recording, server, "StreamsApps", artifacts="streams") as apps,
    ):
        make_topics(recording, server, clients, TOPICS)
        classic_groups(recording, clients)
        consumer_groups(recording, clients)
        upgraded_groups(recording, clients)
        share_groups(recording, server, clients)
        streams_groups(recording, apps)
        transactions(recording, server, clients)
        deletions(recording, server)
        odd_groups(recording, server)
        unfinished_groups(recording, server, clients)
        finish(recording, server)


def classic_groups(recording: Recording, clients: Session) -> None:
    for short, assignor in [
        ("range", "RangeAssignor"),
        ("roundrobin", "RoundRobinAssignor"),
        ("sticky", "StickyAssignor"),
        ("cooperative", "CooperativeStickyAssignor"),
    ]:
        group = f"orders-{short}"
        options = {"partition_assignment_strategy": ASSIGNOR + assignor}
        first, second = f"{group}-1", f"{group}-2"
        join_java(clients, group, first, "orders,payments", **options, client_rack="rack-a")
        settle(clients, 9, first)
        clients.call("commit", name=first, offsets="orders:0:5:0,payments:1:3", metadata="")
        join_java(clients, group, second, "orders,payments", **options, client_rack="rack-b")
        settle(clients, 9, first, second)
        clients.call("commit", name=second, offsets="orders:4:2:0", metadata=f"by {second}")
        recording.did(f"{group}: two Java consumers with {assignor}; the second joined later")
    for number in (1, 2):
        join_java(
            clients,
            "payments-static",
            f"payments-static-{number}",
            "payments",
            group_instance_id=f"payments-pod-{number}",
            session_timeout_ms="120000",
        )
    settle(clients, 3, "payments-static-1", "payments-static-2")
    clients.call("commit", name="payments-static-1", offsets="payments:0:7:0", metadata="pod 1")
    recording.did("payments-static: two static members, default assignors")
    join_java(clients, "billing-empty", "billing-1", "payments")
    settle(clients, 3, "billing-1")
    clients.call("commit", name="billing-1", offsets="payments:0:1,payments:1:2:0", metadata="run")
    clients.call("leave", name="billing-1")
    recording.did("billing-empty: one Java consumer committed and left; the group is empty")


def consumer_groups(recording: Recording, clients: Session) -> None:
    new = {"group_protocol": "consumer"}
    for number in (1, 2):
        name = f"fulfilment-{number}"
        rack = f"rack-{number}"
        join_java(clients, "fulfilment", name, "orders,shipments", **new, client_rack=rack)
        settle(clients, 10, *(f"fulfilment-{n}" for n in range(1, number + 1)))
    clients.call("commit", name="fulfilment-1", offsets="orders:0:3:0", metadata="KIP-848")
    recording.did("fulfilment: two KIP-848 consumers with racks, server-side default assignor")
    for number in (1, 2):
        name = f"analytics-regex-{number}"
        join_java(
            clients,
            "analytics-regex",
            name,
            "^(orders|audit.*)$",
            **new,
            group_remote_assignor="range",
        )
    settle(clients, 7, "analytics-regex-1", "analytics-regex-2")
    recording.did("analytics-regex: two KIP-848 consumers subscribed by regex, assignor range")
    for number in (1, 2):
        name = f"warehouse-static-{number}"
        join_java(
            clients,
            "warehouse-static",
            name,
            "shipments",
            **new,
            group_instance_id=f"warehouse-pod-{number}",
        )
    settle(clients, 4, "warehouse-static-1", "warehouse-static-2")
    clients.call("commit", name="warehouse-static-1", offsets="shipments:0:4", metadata="")
    recording.did("warehouse-static: two static KIP-848 consumers")
    for number in (1, 2, 3):
        join_java(clients, "returns", f"returns-{number}", "shipments", **new)
    settle(clients, 4, "returns-1", "returns-2", "returns-3")
    clients.call("leave", name="returns-2")
    settle(clients, 4, "returns-1", "returns-3")
    recording.did("returns: three KIP-848 consumers, of which one left: its records are tombstones")
    join_java(clients, "reporting-empty", "reporting-1", "payments", **new)
    settle(clients, 3, "reporting-1")
    clients.call("commit", name="reporting-1", offsets="payments:2:9:0", metadata="report 9")
    clients.call("leave", name="reporting-1")
    recording.did("reporting-empty: one KIP-848 consumer committed and left; the group is empty")


def upgraded_groups(recording: Recording, clients: Session) -> None:
    group = "inventory-upgraded"
    old = {"partition_assignment_strategy": ASSIGNOR + "CooperativeStickyAssignor"}
    for number in (1, 2):
        join_java(clients, group, f"inventory-old-{number}", "orders", **old)
    settle(clients, 6, "inventory-old-1", "inventory-old-2")
    clients.call("commit", name="inventory-old-1", offsets="orders:1:4:0", metadata="classic")
    for number in (1, 2):
        join_java(clients, group, f"inventory-new-{number}", "orders", group_protocol="consumer")
        clients.call("leave", name=f"inventory-old-{number}")
    settle(clients, 6, "inventory-new-1", "inventory-new-2")
    clients.call("commit", name="inventory-new-1", offsets="orders:1:5:0", metadata="consumer")
    recording.did(f"{group}: two classic members, replaced one by one by KIP-848 members")
    group = "pricing-upgrading"
    for number in (1, 2):
        join_java(clients, group, f"pricing-old-{number}", "orders", **old)
    settle(clients, 6, "pricing-old-1", "pricing-old-2")
    join_java(clients, group, "pricing-new-1", "orders", group_protocol="consumer")
    settle(clients, 6, "pricing-old-1", "pricing-old-2", "pricing-new-1")
    clients.call("commit", name="pricing-new-1", offsets="orders:2:6:0", metadata="half way")
    recording.did(f"{group}: two classic members (cooperative-sticky) and one KIP-848 member")


def share_groups(recording: Recording, server: Broker, clients: Session) -> None:
    with Wire(server.version, server.bootstrap) as wire:
        for group in ("notifications-share", "emails-share-empty"):
            configure_group(wire, group, share_auto_offset_reset="earliest")
    for number in (1, 2):
        name = f"notifications-{number}"
        clients.call(
            "share-join",
            name=name,
            topics="payments",
            config={
                "group.id": "notifications-share",
                "client.id": name,
                "client.rack": f"rack-{number}",
            },
        )
    clients.call("share-read", names="notifications-1,notifications-2", count=33)
    recording.did("notifications-share: two share consumers read and acknowledged 33 records")
    clients.call(
        "share-join",
        name="emails-1",
        topics="orders",
        config={"group.id": "emails-share-empty", "client.id": "emails-1"},
    )
    clients.call("share-read", names="emails-1", count=75)
    clients.call("share-leave", name="emails-1")
    recording.did("emails-share-empty: one share consumer read 75 records and left")


def streams_groups(recording: Recording, apps: Session) -> None:
    for number in (1, 2):
        apps.call(
            "streams-start",
            name=f"totals-{number}",
            source="orders",
            sink="order-totals",
            config={
                "application.id": "order-totals-streams",
                "client.id": f"totals-{number}",
                "group.protocol": "streams",
                "num.standby.replicas": "1",
                "commit.interval.ms": "500",
                "state.dir": str(recording.work / f"state-{number}"),
                "application.server": f"totals-{number}.internal:8080",
                "replication.factor": "1",
            },
        )
        apps.call("streams-running", name=f"totals-{number}")
    time.sleep(3)
    recording.did(
        "order-totals-streams: two Kafka Streams processes of group protocol streams; topology "
        "orders -> group by value (repartition) -> count (state store, changelog) -> order-totals"
    )


def transactions(recording: Recording, server: Broker, clients: Session) -> None:
    for name, end, offsets, metadata in [
        ("committed", "commit", "payments:0:11:0,payments:1:12", "first"),
        ("committed", "commit", "payments:0:21:0", "second"),
        ("aborted", "commit", "payments:0:30", "kept"),
        ("aborted", "abort", "payments:0:31,payments:2:32", "aborted"),
        ("open", "commit", "payments:0:40", "kept"),
        ("open", "open", "payments:0:41,payments:1:42", "pending"),
    ]:
        clients.call(
            "transaction",
            id=f"ledger-tx-{name}",
            group=f"ledger-{name}",
            offsets=offsets,
            metadata=metadata,
            end=end,
        )
        recording.did(f"ledger-{name}: transaction of {offsets} ({metadata}), then {end}")
    with Wire(server.version, server.bootstrap) as wire:
        for committed in (True, False):
            add_offsets_to_transaction(
                wire, f"ledger-tx-raw-{committed}", "ledger-marker-only", commit=committed
            )
    recording.did(
        "ledger-marker-only: AddOffsetsToTxn without any offset, one transaction committed and one "
        "aborted: two markers and no record"
    )


def deletions(recording: Recording, server: Broker) -> None:
    with Wire(server.version, server.bootstrap) as wire:
        commit(wire, "cleanup-partly", {("orders", 0): 1, ("orders", 1): 2, ("orders", 2): 3})
        delete_offsets(wire, "cleanup-partly", [("orders", 1)])
        commit(wire, "archive-deleted", {("orders", 0): 1, ("payments", 0): 2})
        delete_groups(wire, "archive-deleted")
    recording.did("cleanup-partly: three offsets committed, one deleted (OffsetDelete)")
    recording.did("archive-deleted: two offsets committed, then the group deleted (DeleteGroups)")


def odd_groups(recording: Recording, server: Broker) -> None:
    with Wire(server.version, server.bootstrap) as wire:
        week = 7 * 24 * 3600 * 1000
        commit(wire, "retention-week", {("orders", 0): 3}, version=2, retention_time_ms=week)
        recording.did("retention-week: OffsetCommit v2 with a retention of a week (value v1)")
        commit(wire, "", {("orders", 0): 8}, metadata="committed by the group without a name")
        for group in ODD_GROUPS:
            commit(wire, group, {("orders", 0): 8}, metadata=f"¡{group}!")
        commit(wire, "metadata-null", {("orders", 0): 8}, metadata=None)
        commit(wire, "metadata-long", {("orders", 0): 8}, metadata="Ω" * 2000)
        commit(wire, "offset-extremes", {("orders", 0): 0, ("orders", 1): 2**63 - 1})
        recording.did("commits of groups with odd names and metadata: empty, null, long, unicode")
    members = []
    for group, protocol_type, metadata, assignment in RAW_GROUPS:
        member = RawMember(server.version, server.bootstrap, f"{group}-client")
        members.append(member)
        join(member, group, {"mystery": metadata}, assignment, protocol_type=protocol_type)
        recording.did(
            f"{group}: raw member of protocol type {protocol_type!r}, metadata {metadata!r}, "
            f"assignment {assignment!r}"
        )
    for member in members:
        member.close()


ODD_GROUPS = (
    "группа-заказов",
    "emoji-🛒-𝄞",
    "two\nlines",
    "tab\tand\x00nul",
    'colon:and,comma"quote\\backslash',
    " leading and trailing space ",
    "e\u0301-combining",
    "x" * 500,
)

NO_TOPICS = bytes.fromhex("00000000ffffffff")
"""The part of a subscription that this broker itself reads: no topic, no user data."""

RAW_GROUPS = (
    ("raw-bad-version", "consumer", b"\xff\xfe" + NO_TOPICS + b"gar:bage\n\x80", b"\x7f\xff\xff"),
    ("raw-new-version", "consumer", b"\x00\x09" + NO_TOPICS + b"\x00\x00", b"\x00\x09"),
    (
        "raw-trailing",
        "consumer",
        b"\x00\x00" + NO_TOPICS + b"more",
        b"\x00\x00\x00\x00\x00\x00more",
    ),
    (
        "raw-bad-owned",
        "consumer",
        b"\x00\x01" + NO_TOPICS + b"\x7f\xff\xff\xff",
        b"\x00\x01\xff\xff",
    ),
    ("raw-one-byte", "consumer", b"\x00", b"\n"),
    ("raw-empty", "consumer", b"", b""),
    ("raw-workers", "workers", b"\x00\x01\x02 bytes of another protocol:", b"task: 7\n"),
)
"""Group, protocol type, member metadata, assignment: bytes that are no ConsumerProtocol."""


def unfinished_groups(recording: Recording, server: Broker, clients: Session) -> None:
    """Rebalances that never end: last of all, for these members soon time out."""
    clients.call("leave", name="warehouse-static-2")
    recording.did("warehouse-static: the second closed and is away until it times out (epoch -2)")
    consumers = []
    for number in (1, 2):
        name = f"restocking-{number}"
        consumer = RawConsumer(server.version, server.bootstrap, name, "restocking-unfinished")
        consumer.join(["orders"])
        consumers.append(consumer)
    consumers[0].heartbeat(topic_partitions=consumers[0].owned)
    consumers[1].heartbeat(topic_partitions=consumers[1].owned)
    recording.did("restocking-unfinished: a raw KIP-848 member does not give up what a second gets")
    away = RawConsumer(
        server.version, server.bootstrap, "carrier-1", "carriers-away", instance_id="carrier-pod-1"
    )
    away.join(["shipments"])
    away.pause()
    recording.did("carriers-away: a raw static KIP-848 member went away for a while (epoch -2)")
    member = RawMember(server.version, server.bootstrap, "cart-1")
    join(member, "cart-rebalancing", {"range": SUBSCRIPTION}, ASSIGNMENT)
    second = RawMember(server.version, server.bootstrap, "cart-2")
    knock(second, "cart-rebalancing", {"range": SUBSCRIPTION})
    recording.did(
        "cart-rebalancing: a raw classic member was stable when a second asked to join; the broker "
        "says PreparingRebalance, which is nowhere in the log"
    )


SUBSCRIPTION = bytes.fromhex("0000 00000001 0006") + b"orders" + bytes.fromhex("ffffffff")
ASSIGNMENT = (
    bytes.fromhex("0000 00000001 0006")
    + b"orders"
    + bytes.fromhex("00000002 00000000 00000001 ffffffff")
)
"""ConsumerProtocol version 0: topic orders; its partitions 0 and 1."""
