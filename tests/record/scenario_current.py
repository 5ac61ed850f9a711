"""Kafka 4.x, KRaft: KIP-848, share and streams groups beside everything that is classic."""

from __future__ import annotations

import time
from contextlib import ExitStack

from tests.broker.maven import version_tuple
from tests.broker.servers import Broker, broker
from tests.record.classic import (
    CLASSIC_CONFIG,
    classic_groups,
    deletions,
    odd_groups,
    rebalancing_group,
    transactions,
)
from tests.record.clients import (
    ASSIGNOR,
    finish,
    java,
    join_java,
    make_topics,
    settle,
    start_streams,
)
from tests.record.raw import configure_group, delete_groups
from tests.record.raw_consumer import RawConsumer
from tests.record.recording import Recording
from tests.record.session import Session
from tests.record.wire import Wire

CONFIG = CLASSIC_CONFIG | {
    "group.consumer.heartbeat.interval.ms": "1000",
    "group.consumer.min.heartbeat.interval.ms": "1000",
    "group.share.heartbeat.interval.ms": "1000",
    "group.share.min.heartbeat.interval.ms": "1000",
    "group.streams.heartbeat.interval.ms": "1000",
    "group.streams.min.heartbeat.interval.ms": "1000",
    "group.streams.num.standby.replicas": "1",
    "group.streams.initial.rebalance.delay.ms": "0",
}

PREVIEW = {
    "group.coordinator.rebalance.protocols": "classic,consumer",
    "group.consumer.migration.policy": "bidirectional",
    "unstable.api.versions.enable": "true",
    "unstable.feature.versions.enable": "true",
}
"""What 3.9 asks for before it takes KIP-848 members."""

TOPICS = {"orders": 6, "payments": 3, "shipments": 4, "audit.log": 1, "order-totals": 3}


def record_current(recording: Recording, version: str) -> None:
    """Everything that a broker of 3.9 (preview of KIP-848) or later knows, in one log directory."""
    number = version_tuple(version)
    config = CONFIG | (PREVIEW if number < (4,) else {})
    recording.note(broker=version, mode="KRaft", config=config)
    actors = ["Consumers", "Producers", "Transactions"]
    actors += ["ShareConsumers"] * (number >= (4,))
    with (
        broker(version, recording.work, config=config) as server,
        java(recording, server, *actors) as clients,
    ):
        make_topics(recording, server, clients, TOPICS)
        classic_groups(recording, server, clients)
        consumer_groups(recording, server, clients)
        upgraded_groups(recording, clients)
        if number >= (4,):
            share_groups(recording, server, clients)
        retired_groups(recording, server, clients)
        transactions(recording, server, clients)
        deletions(recording, server)
        odd_groups(recording, server)
        with ExitStack() as stack:
            if number >= (4, 1):
                streams = java(recording, server, "StreamsApps", artifacts="streams")
                apps = stack.enter_context(streams)
                streams_groups(recording, apps)
                retired_streams(recording, server, apps)
            unfinished_groups(recording, server, clients)
            rebalancing_group(recording, server)
            finish(recording, server)


def consumer_groups(recording: Recording, server: Broker, clients: Session) -> None:
    """KIP-848 groups: with racks, static members, members that left, empty."""
    new = {"group_protocol": "consumer"}
    for number in (1, 2):
        name = f"fulfilment-{number}"
        rack = f"rack-{number}"
        join_java(clients, "fulfilment", name, "orders,shipments", **new, client_rack=rack)
        settle(clients, 10, *(f"fulfilment-{n}" for n in range(1, number + 1)))
    clients.call("commit", name="fulfilment-1", offsets="orders:0:3:0", metadata="KIP-848")
    recording.did("fulfilment: two KIP-848 consumers with racks, server-side default assignor")
    if version_tuple(server.version) >= (4,):
        regex_group(recording, clients)
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


def regex_group(recording: Recording, clients: Session) -> None:
    """Subscriptions that the broker resolves."""
    for number in (1, 2):
        name = f"analytics-regex-{number}"
        join_java(
            clients,
            "analytics-regex",
            name,
            "^(orders|audit.*)$",
            group_protocol="consumer",
            group_remote_assignor="range",
        )
    settle(clients, 7, "analytics-regex-1", "analytics-regex-2")
    recording.did("analytics-regex: two KIP-848 consumers subscribed by regex, assignor range")


def upgraded_groups(recording: Recording, clients: Session) -> None:
    """Groups on the way from the classic protocol to KIP-848."""
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
    """Share groups, with members and empty."""
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
    """A topology with a repartition, a state store and standby tasks."""
    for number in (1, 2):
        start_streams(
            recording, apps, "order-totals-streams", f"totals-{number}", group_protocol="streams"
        )
    time.sleep(3)
    recording.did(
        "order-totals-streams: two Kafka Streams processes of group protocol streams; topology "
        "orders -> group by value (repartition) -> count (state store, changelog) -> order-totals"
    )


def retired_groups(recording: Recording, server: Broker, clients: Session) -> None:
    """Groups that were deleted with everything they had, and one that went back to classic."""
    number = version_tuple(server.version)
    topics = "^audit.*$" if number >= (4,) else "audit.log"
    join_java(clients, "retired-consumers", "retired-1", topics, group_protocol="consumer")
    settle(clients, 1, "retired-1")
    clients.call("commit", name="retired-1", offsets="audit.log:0:3:0", metadata="")
    clients.call("leave", name="retired-1")
    retired = ["retired-consumers"]
    if number >= (4, 1):
        with Wire(server.version, server.bootstrap) as wire:
            configure_group(wire, "retired-share", share_auto_offset_reset="earliest")
        config = {"group.id": "retired-share", "client.id": "retired-share-1"}
        clients.call("share-join", name="retired-share-1", topics="audit.log", config=config)
        clients.call("share-read", names="retired-share-1", count=10)
        clients.call("share-leave", name="retired-share-1")
        retired.append("retired-share")
    with Wire(server.version, server.bootstrap) as wire:
        delete_groups(wire, *retired)
    recording.did(f"{', '.join(retired)}: one member each, which left; then the group was deleted")
    group = "catalogue-downgraded"
    options = {"partition_assignment_strategy": ASSIGNOR + "CooperativeStickyAssignor"}
    join_java(clients, group, "catalogue-old-1", "orders", **options)
    settle(clients, 6, "catalogue-old-1")
    join_java(clients, group, "catalogue-new-1", "orders", group_protocol="consumer")
    settle(clients, 6, "catalogue-old-1", "catalogue-new-1")
    clients.call("leave", name="catalogue-new-1")
    settle(clients, 6, "catalogue-old-1")
    clients.call("commit", name="catalogue-old-1", offsets="orders:3:1:0", metadata="classic again")
    recording.did(f"{group}: a classic member, joined by a KIP-848 one, which left: classic again")


def retired_streams(recording: Recording, server: Broker, apps: Session) -> None:
    """A streams group that was deleted."""
    group = "retired-streams"
    start_streams(recording, apps, group, group, "audit.log", group_protocol="streams")
    apps.call("streams-close", name=group)
    with Wire(server.version, server.bootstrap) as wire:
        delete_groups(wire, group)
    recording.did(f"{group}: one process, which ended; then the group was deleted")


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
