"""One compression codec of `offsets.topic.compression.codec`, in a small log directory."""

from __future__ import annotations

from tests.broker.maven import version_tuple
from tests.broker.servers import broker
from tests.record.classic import CLASSIC_CONFIG, deletions
from tests.record.clients import ASSIGNOR, finish, java, join_java, make_topics, settle
from tests.record.raw import commit
from tests.record.recording import Recording
from tests.record.wire import Wire

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
"""By the number that stands for them in the broker's configuration."""


def record_codec(
    recording: Recording, version: str, codec: str, timestamps: str = "CreateTime"
) -> None:
    """Record a consumer group, commits of many offsets, transactions, tombstones, compressed.

    `timestamps` is the broker's `log.message.timestamp.type`, which this topic follows.
    """
    config = CLASSIC_CONFIG | {
        "offsets.topic.num.partitions": "2",
        "offsets.topic.compression.codec": str(CODECS.index(codec)),
        "log.message.timestamp.type": timestamps,
    }
    mode = "KRaft" if version_tuple(version) >= (4,) else "ZooKeeper"
    recording.note(broker=version, mode=mode, codec=codec, config=config)
    has_transactions = version_tuple(version) >= (0, 11)
    actors = ["Consumers", "Producers"] + ["Transactions"] * has_transactions
    with (
        broker(version, recording.work, config=config) as server,
        java(recording, server, *actors) as clients,
    ):
        make_topics(recording, server, clients, {"orders": 6, "payments": 3})
        names = ["orders-range-1", "orders-range-2"]
        for name in names:
            join_java(
                clients,
                "orders-range",
                name,
                "orders",
                partition_assignment_strategy=ASSIGNOR + "RangeAssignor",
            )
        settle(clients, 6, *names)
        clients.call("commit", name=names[0], offsets="orders:0:3,orders:1:4", metadata="codec")
        recording.did("orders-range: two Java consumers, two offsets in one commit")
        with Wire(version, server.bootstrap) as wire:
            for offset in (5, 6):
                many = {("orders", partition): offset for partition in range(6)}
                commit(wire, "raw-many", many, metadata=f"{offset} {codec} " * 20)
        recording.did("raw-many: six offsets in one request, with long metadata, twice")
        for end in ("commit", "abort", "open") if has_transactions else ():
            clients.call(
                "transaction",
                id=f"ledger-tx-{end}",
                group=f"ledger-{end}",
                offsets="payments:0:11,payments:1:12,payments:2:13",
                metadata="in a transaction",
                end=end,
            )
            recording.did(f"ledger-{end}: transaction of three offsets, then {end}")
        deletions(recording, server)
        finish(recording, server)
