"""Groups that brokers of every version since 0.9 know, each as far as the version goes."""

from __future__ import annotations

import time

from tests.broker.maven import version_tuple
from tests.broker.servers import Broker
from tests.record.clients import ASSIGNOR, join_java, settle
from tests.record.raw import (
    RawMember,
    add_offsets_to_transaction,
    await_expired,
    commit,
    delete_groups,
    delete_offsets,
    join,
    knock,
)
from tests.record.recording import Recording
from tests.record.session import Session
from tests.record.wire import Wire

CLASSIC_CONFIG = {
    "offsets.topic.num.partitions": "4",
    "offsets.retention.check.interval.ms": "2000",
    "transaction.state.log.num.partitions": "1",
    "group.max.session.timeout.ms": "1800000",
}


def classic_groups(recording: Recording, server: Broker, clients: Session) -> None:
    """Java consumers with every assignor of their version, static members, an empty group."""
    number = version_tuple(server.version)
    epoch = ":0" if number >= (2, 1) else ""
    for short, assignor, since in ASSIGNORS:
        if number < since:
            continue
        group = f"orders-{short}"
        options = {"partition_assignment_strategy": ASSIGNOR + assignor}
        first, second = f"{group}-1", f"{group}-2"
        join_java(clients, group, first, "orders,payments", **options, client_rack="rack-a")
        settle(clients, 9, first)
        clients.call("commit", name=first, offsets=f"orders:0:5{epoch},payments:1:3", metadata="")
        join_java(clients, group, second, "orders,payments", **options, client_rack="rack-b")
        settle(clients, 9, first, second)
        clients.call("commit", name=second, offsets=f"orders:4:2{epoch}", metadata=f"by {second}")
        recording.did(f"{group}: two Java consumers with {assignor}; the second joined later")
    if number >= (2, 3):
        static_members(recording, clients)
    join_java(clients, "billing-empty", "billing-1", "payments")
    settle(clients, 3, "billing-1")
    clients.call(
        "commit", name="billing-1", offsets=f"payments:0:1,payments:1:2{epoch}", metadata="run"
    )
    clients.call("leave", name="billing-1")
    recording.did("billing-empty: one Java consumer committed and left; the group is empty")


def static_members(recording: Recording, clients: Session) -> None:
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


def transactions(recording: Recording, server: Broker, clients: Session) -> None:
    """Offsets in transactions: committed, aborted, open, and markers with nothing before them."""
    epoch = ":0" if version_tuple(server.version) >= (2, 1) else ""
    for name, end, offsets, metadata in [
        ("committed", "commit", f"payments:0:11{epoch},payments:1:12", "first"),
        ("committed", "commit", f"payments:0:21{epoch}", "second"),
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
    """Tombstones: offsets that expired or were deleted, groups that were deleted."""
    number = version_tuple(server.version)
    with Wire(server.version, server.bootstrap) as wire:
        commit(wire, "expired-offsets", {("orders", 0): 5}, version=2, retention_time_ms=1)
        await_expired(wire, "expired-offsets", "orders", 0)
        recording.did("expired-offsets: OffsetCommit v2 with a retention of 1 ms, which is over")
        if number >= (1, 1):
            commit(wire, "archive-deleted", {("orders", 0): 1, ("payments", 0): 2})
            delete_groups(wire, "archive-deleted")
            recording.did("archive-deleted: two offsets committed, the group deleted")
        commit(wire, "cleanup-partly", {("orders", 0): 1, ("orders", 1): 2, ("orders", 2): 3})
        if number >= (2, 4):
            delete_offsets(wire, "cleanup-partly", [("orders", 1)])
            recording.did("cleanup-partly: three offsets committed, one deleted (OffsetDelete)")
        else:
            commit(wire, "cleanup-partly", {("orders", 1): 2}, version=2, retention_time_ms=1)
            await_expired(wire, "cleanup-partly", "orders", 1)
            recording.did("cleanup-partly: three offsets committed, one of them expired")


def odd_groups(recording: Recording, server: Broker) -> None:
    """Odd group ids and metadata, an explicit retention, members with any bytes."""
    with Wire(server.version, server.bootstrap) as wire:
        week = 7 * 24 * 3600 * 1000
        commit(wire, "retention-week", {("orders", 0): 3}, version=2, retention_time_ms=week)
        recording.did("retention-week: OffsetCommit v2 with a retention of a week (value v1)")
        for group, metadata in ODD_COMMITS:
            commit(wire, group, {("orders", 0): 8}, metadata=metadata)
        commit(wire, "offset-extremes", {("orders", 0): 0, ("orders", 1): 2**63 - 1})
        recording.did("commits of groups with odd names and metadata: empty, null, long, unicode")
    groups = list(RAW_GROUPS)
    if version_tuple(server.version) < (2, 4):
        groups += UNREADABLE_GROUPS
    for group, protocol_type, subscription, assignment in groups:
        member = RawMember(server.version, server.bootstrap, f"{group}-client")
        join(member, group, {"mystery": subscription}, assignment, protocol_type=protocol_type)
        member.close()
        recording.did(
            f"{group}: raw member of protocol type {protocol_type!r}, metadata {subscription!r}, "
            f"assignment {assignment!r}"
        )


def rebalancing_group(recording: Recording, server: Broker) -> None:
    """A group whose rebalance never ends; last of all, for its members soon time out."""
    member = RawMember(server.version, server.bootstrap, "cart-1")
    join(member, "cart-rebalancing", {"range": SUBSCRIPTION}, ASSIGNMENT)
    second = RawMember(server.version, server.bootstrap, "cart-2")
    knock(second, "cart-rebalancing", {"range": SUBSCRIPTION})
    time.sleep(0.5)
    recording.did(
        "cart-rebalancing: a raw classic member was stable when a second asked to join; the broker "
        "says PreparingRebalance, which is nowhere in the log"
    )


ASSIGNORS = (
    ("range", "RangeAssignor", (0, 9)),
    ("roundrobin", "RoundRobinAssignor", (0, 9)),
    ("sticky", "StickyAssignor", (0, 11)),
    ("cooperative", "CooperativeStickyAssignor", (2, 4)),
)
"""Short name, class, first version."""

ODD_COMMITS = (
    ("", "committed by the group without a name"),
    ("группа-заказов", "¡заказ № 1!"),
    ("emoji-🛒-𝄞", "🛒"),
    ("two\nlines", "first\nsecond"),
    ("tab\tand\x00nul", "\t\x00"),
    ('colon:and,comma"quote\\backslash', 'a:b,c"d\\e'),
    (" leading and trailing space ", " "),
    ("e\u0301-combining", "\u0301"),
    ("x" * 500, ""),
    ("metadata-null", None),
    ("metadata-long", "Ω" * 2000),
)
"""Group and metadata."""

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

UNREADABLE_GROUPS = (
    ("raw-garbage", "consumer", b"\xff\xfe\x00garbage\n:\x80", b"\x00\x00\x80\x00\x00\x00"),
    ("raw-lying-count", "consumer", bytes.fromhex("00007fffffff"), bytes.fromhex("00007fffffff")),
    ("raw-no-utf8", "consumer", bytes.fromhex("0000000000010002c328ffffffff"), b"\x00"),
)
"""The same; brokers since 2.4 read subscriptions of consumers and fail on these."""

SUBSCRIPTION = bytes.fromhex("0000 00000001 0006") + b"orders" + bytes.fromhex("ffffffff")
ASSIGNMENT = (
    bytes.fromhex("0000 00000001 0006")
    + b"orders"
    + bytes.fromhex("00000002 00000000 00000001 ffffffff")
)
"""ConsumerProtocol version 0: topic orders; its partitions 0 and 1."""
