"""What every scenario does: topics with a few records, Java consumers, the recording's end."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager

from tests.broker.maven import Artifacts, run_java, version_tuple
from tests.broker.servers import Broker
from tests.record.answers import ask
from tests.record.raw import await_coordinator, create_topics
from tests.record.recording import Keep, Recording
from tests.record.session import Session, session
from tests.record.wire import Wire

ASSIGNOR = "org.apache.kafka.clients.consumer."
"""The package of the Java client's assignors."""


@contextmanager
def java(
    recording: Recording, server: Broker, *actors: str, artifacts: Artifacts = "server"
) -> Iterator[Session]:
    """Run a JVM with clients of the broker's own version."""
    with session(
        server.version,
        list(actors),
        bootstrap=server.bootstrap,
        log=recording.work / "clients.log",
        artifacts=artifacts,
    ) as clients:
        yield clients


def make_topics(
    recording: Recording, server: Broker, clients: Session, topics: Mapping[str, int]
) -> None:
    """Create topics and `__consumer_offsets`, and produce 10 + partition records everywhere."""
    if version_tuple(server.version) < (0, 10, 1):
        for topic, partitions in topics.items():
            _create_by_zookeeper(server, topic, partitions)
    with Wire(server.version, server.bootstrap) as wire:
        if version_tuple(server.version) >= (0, 10, 1):
            create_topics(wire, topics)
        await_coordinator(wire)
    for topic, partitions in topics.items():
        for partition in range(partitions):
            clients.call("produce", topic=topic, partition=partition, count=10 + partition)
    recording.did(f"topics {dict(topics)}, 10 + partition records in each partition")


def join_java(clients: Session, group: str, name: str, topics: str, **config: str) -> None:
    """Start a Java consumer called `name`; option names have `_` for `.`.

    Topics that begin with `^` are a regex that the broker resolves (KIP-848).
    """
    options = {key.replace("_", "."): value for key, value in config.items()}
    options |= {"group.id": group, "client.id": name}
    key = "regex" if topics.startswith("^") else "topics"
    clients.call("join", name=name, **{key: topics}, config=options)


def settle(clients: Session, partitions: int, *names: str) -> None:
    """Wait until the named consumers, and they alone, own so many partitions in peace."""
    clients.call("settle", names=",".join(names), partitions=partitions)


def start_streams(
    recording: Recording,
    apps: Session,
    application: str,
    name: str,
    source: str = "orders",
    is_keyed: bool = False,
    **config: str,
) -> None:
    """Start one process of the application of `StreamsApps.java` and wait until it runs."""
    options = {key.replace("_", "."): value for key, value in config.items()}
    options |= {
        "application.id": application,
        "client.id": name,
        "commit.interval.ms": "500",
        "state.dir": str(recording.work / name),
        "application.server": f"{name}.shop.internal:8080",
        "replication.factor": "1",
    }
    where = {"source": source, "sink": "order-totals"} | ({"keyed": True} if is_keyed else {})
    apps.call("streams-start", name=name, **where, config=options)
    apps.call("streams-running", name=name)


def finish(
    recording: Recording,
    server: Broker,
    *,
    partitions: Mapping[str, int] | None = None,
    more_groups: Iterable[str] = (),
    wanted: Keep | None = None,
) -> None:
    """Take the broker's answers, stop it while its clients live, keep its log directory.

    `partitions` and `more_groups` are what `ask` needs of old brokers.
    """
    answers = ask(server.version, server.bootstrap, partitions=partitions, more_groups=more_groups)
    recording.note(answers=answers)
    server.stop()
    recording.keep(server.log_dir, wanted=wanted)


def _create_by_zookeeper(server: Broker, topic: str, partitions: int) -> None:
    assert server.zookeeper is not None
    run_java(
        server.version,
        "kafka.admin.TopicCommand",
        [
            *("--zookeeper", server.zookeeper.connect, "--create", "--topic", topic),
            *("--partitions", str(partitions), "--replication-factor", "1"),
        ],
    )
