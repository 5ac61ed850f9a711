"""Kafka 0.9 to 3.9: classic groups and, since 0.11, transactions."""

from __future__ import annotations

from contextlib import ExitStack

from tests.broker.maven import version_tuple
from tests.broker.servers import broker
from tests.record.classic import (
    CLASSIC_CONFIG,
    ODD_COMMITS,
    classic_groups,
    deletions,
    odd_groups,
    rebalancing_group,
    transactions,
)
from tests.record.clients import finish, java, make_topics
from tests.record.python_client import python_consumer
from tests.record.recording import Recording, everything

TOPICS = {"orders": 6, "payments": 3}

WHOLE = "2.8.2"
"""The version whose log directory is kept with every file in it."""

COMMITTED_BY_NOBODY = (
    "retention-week",
    "expired-offsets",
    "cleanup-partly",
    "offset-extremes",
    "billing-empty",
)
"""Groups that only commit: 0.9 does not list them."""


def record_older(recording: Recording, version: str) -> None:
    """Classic groups of one version, with the Java clients of that version."""
    recording.note(broker=version, mode="ZooKeeper", config=CLASSIC_CONFIG)
    has_transactions = version_tuple(version) >= (0, 11)
    actors = ["Consumers", "Producers"] + ["Transactions"] * has_transactions
    with (
        ExitStack() as stack,
        broker(version, recording.work, config=CLASSIC_CONFIG) as server,
        java(recording, server, *actors) as clients,
    ):
        make_topics(recording, server, clients, TOPICS)
        python = ("orders-python", "orders-python-1", "orders", 3)
        stack.enter_context(python_consumer(version, server.bootstrap, *python))
        recording.did("orders-python: a consumer of kafka-python")
        classic_groups(recording, server, clients)
        if has_transactions:
            transactions(recording, server, clients)
        odd_groups(recording, server)
        deletions(recording, server)
        rebalancing_group(recording, server)
        unlisted = [*COMMITTED_BY_NOBODY, *(group for group, _ in ODD_COMMITS)]
        finish(
            recording,
            server,
            partitions=TOPICS,
            more_groups=unlisted,
            wanted=everything if version == WHOLE else None,
        )
