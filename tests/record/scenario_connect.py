"""Groups of protocol type "connect": real workers with each of Connect's three protocols."""

from __future__ import annotations

from contextlib import ExitStack

from tests.broker.servers import broker
from tests.record.classic import CLASSIC_CONFIG
from tests.record.clients import finish, java, make_topics
from tests.record.connect import worker
from tests.record.recording import Recording

PROTOCOLS = (("eager", 1), ("compatible", 1), ("sessioned", 2))
"""`connect.protocol` and the number of workers."""


def record_connect(recording: Recording, version: str) -> None:
    """A source with three tasks and a sink with two in each of three Connect clusters."""
    recording.note(broker=version, mode="KRaft", config=CLASSIC_CONFIG)
    with (
        broker(version, recording.work, config=CLASSIC_CONFIG) as server,
        java(recording, server, "Producers") as clients,
        ExitStack() as stack,
    ):
        make_topics(recording, server, clients, {"payments": 3})
        for protocol, count in PROTOCOLS:
            cluster = f"connect-{protocol}"
            workers = [
                stack.enter_context(
                    worker(recording.work, server, cluster, protocol, f"{cluster}-{number}")
                )
                for number in range(1, count + 1)
            ]
            source, sink = f"{protocol}-source", f"{protocol}-sink"
            workers[0].create(source, "Source", 3)
            workers[0].create(sink, "Sink", 2, topics="payments")
            workers[0].await_running(source, 3)
            workers[0].await_running(sink, 2)
            recording.did(
                f"{cluster}: {count} workers with connect.protocol={protocol}, a source of three "
                f"tasks and a sink of two, whose consumer group is connect-{sink}"
            )
        finish(recording, server)
