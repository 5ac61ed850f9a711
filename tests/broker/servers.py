"""Real ZooKeeper and Kafka servers on loopback, as context managers.

    with broker("4.3.1", work) as server:
        KafkaConsumer(bootstrap_servers=server.bootstrap)

Everything a server writes lies under `work`: `zookeeper/`, `kafka-<id>/data` (the log directory)
and `kafka-<id>/server.log`. The same `work` may be opened again, also by a newer Kafka. A server
is ready when it answers and names itself; it ends with its context, with this process at the
latest, and never outlives it.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import socket
import struct
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import IO, Any

from kafka import KafkaAdminClient
from kafka.admin import NewTopic
from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError

from tests.broker.maven import CACHE, Artifacts, made_once, run_java, version_tuple
from tests.broker.process import HOST, START_DEADLINE_S, Server, ServerError, free_port, running
from tests.record.wire import Wire
from tests.waiting import until

KAFKA_VERSIONS = ("0.8.2.2", "0.9.0.1", "0.10.2.2", "0.11.0.3", "1.1.1", "2.8.2", "3.9.2", "4.3.1")

ZOOKEEPER_FROM = "3.9.2"
"""The Kafka version whose ZooKeeper (3.8) serves all: it understands clients since 3.4."""

KRAFT_SINCE = (3, 9)
"""From here on a broker without a ZooKeeper runs in KRaft mode; since 4.0 every broker does."""

CLUSTER_ID = "a2dyb3VwLXRlc3RzLTAwMQ"

CONTROLLER_ID = 1000


class ZooKeeper(Server):
    """One ZooKeeper server."""

    main = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
    started = "PrepRequestProcessor (sid:0) started"
    heap = "128m"
    jvm: tuple[str, ...] = (
        "-Dzookeeper.admin.enableServer=false",
        "-Dzookeeper.jmx.log4j.disable=true",
        "-Dzookeeper.forceSync=no",
        "-Dzookeeper.4lw.commands.whitelist=*",
    )

    def __init__(self, work: Path) -> None:
        super().__init__("ZooKeeper of Kafka", ZOOKEEPER_FROM, work / "zookeeper")

    @property
    def connect(self) -> str:
        """`host:port`, for `zookeeper.connect`."""
        return f"{HOST}:{self.port}"

    @property
    def config(self) -> dict[str, str]:
        return {
            "dataDir": str(self.folder / "data"),
            "clientPort": str(self.port),
            "clientPortAddress": HOST,
            "tickTime": "1000",  # sessions of at least 2 s
            "maxSessionTimeout": "60000",
            "maxClientCnxns": "0",
        }

    def answers(self) -> bool:
        with socket.create_connection((HOST, self.port), timeout=5) as connection:
            connection.sendall(b"srvr")
            return b"Mode: standalone" in connection.recv(4096)


class _Controller(Server):
    """A KRaft controller alone, so that every broker of a cluster may be killed.

    It decides when a broker is missed: of the cluster's configuration it takes that.
    """

    heap = "192m"
    writes_archive = False

    def __init__(self, version: str, work: Path, config: Mapping[str, str] | None) -> None:
        super().__init__("Controller", version, work / "controller")
        name = "broker.session.timeout.ms"
        self._config = {name: config[name]} if config and name in config else {}

    @property
    def voter(self) -> str:
        """Its entry in `controller.quorum.voters`."""
        return f"{CONTROLLER_ID}@{HOST}:{self.port}"

    @property
    def config(self) -> dict[str, str]:
        return (
            _common_config(self.version)
            | {
                **_kraft_config(CONTROLLER_ID, "controller", self.voter),
                "listeners": f"CONTROLLER://{HOST}:{self.port}",
                "log.dirs": str(self.folder / "data"),
            }
            | self._config
        )

    def prepare(self) -> None:
        super().prepare()
        _format(self.version, CONTROLLER_ID, self.folder / "data")

    def answers(self) -> bool:
        with socket.create_connection((HOST, self.port), timeout=5):
            return True


class Broker(Server):
    """One Kafka broker. In KRaft mode it is its own controller, unless a cluster has one."""

    def __init__(
        self,
        version: str,
        work: Path,
        *,
        broker_id: int = 1,
        zookeeper: ZooKeeper | None = None,
        controller: _Controller | None = None,
        config: Mapping[str, str] | None = None,
        rack: str | None = None,
        artifacts: Artifacts = "server",
    ) -> None:
        super().__init__("Kafka", version, work / f"kafka-{broker_id}")
        self.artifacts = artifacts
        self.broker_id = broker_id
        self.zookeeper = zookeeper
        self.rack = rack
        self.log_dir = self.folder / "data"
        self._config = dict(config or {})
        self._controller = controller
        self._controller_port = 0

    @property
    def bootstrap(self) -> str:
        """`host:port`, for `bootstrap.servers`."""
        return f"{HOST}:{self.port}"

    @property
    def config(self) -> dict[str, str]:
        mode = self._kraft() if self.zookeeper is None else self._zookeeper(self.zookeeper)
        rack = {} if self.rack is None else {"broker.rack": self.rack}
        return _common_config(self.version) | mode | rack | self._config

    @property
    def client_options(self) -> dict[str, Any]:
        """What every kafka-python client of this broker needs; it detects 0.10 and newer."""
        options: dict[str, Any] = {"bootstrap_servers": self.bootstrap}
        number = version_tuple(self.version)
        if number < (0, 10):
            options["api_version"] = number[:3] if number < (0, 9) else number[:2]
        return options

    def create_topic(self, name: str, partitions: int = 1, replication: int = 1) -> None:
        """Create a topic, and wait until this broker knows a leader of each partition."""
        self._ask_for_topic(name, partitions, replication)
        with Wire(self.version, self.bootstrap) as wire:
            until(lambda: _leaders(wire, name) == partitions)

    def _ask_for_topic(self, name: str, partitions: int, replication: int) -> None:
        """Create a topic, in ZooKeeper where Kafka has no API for it yet (before 0.10.1)."""
        number = version_tuple(self.version)
        if number < (0, 8, 1):
            where = ["--zookeeper", self.config["zookeeper.connect"], "--topic", name]
            size = ["--partition", str(partitions), "--replica", str(replication)]
            run_java(self.version, "kafka.admin.CreateTopicCommand", [*where, *size])
            return
        if number < (0, 10, 1):
            where = ["--zookeeper", self.config["zookeeper.connect"]]
            size = ["--partitions", str(partitions), "--replication-factor", str(replication)]
            arguments = [*where, "--create", "--topic", name, *size]
            run_java(self.version, "kafka.admin.TopicCommand", arguments)
            return
        admin = KafkaAdminClient(**self.client_options)
        try:
            admin.create_topics([NewTopic(name, partitions, replication)])
        finally:
            admin.close()

    def await_cluster(self, n: int) -> None:
        """Wait until this broker knows `n` live ones."""
        self._await(lambda: len(self._live_brokers()) == n, f"does not see {n} brokers")

    def restart(self) -> None:
        """Stop where it runs, then start on the same port and data, also after `kill`."""
        self.stop()
        self._await_deregistered()
        self.start()

    def _kraft(self) -> dict[str, str]:
        listeners = f"PLAINTEXT://{HOST}:{self.port}"
        if self._controller is not None:
            config = _kraft_config(self.broker_id, "broker", self._controller.voter)
        else:
            voter = f"{self.broker_id}@{HOST}:{self._controller_port}"
            config = _kraft_config(self.broker_id, "broker,controller", voter)
            listeners += f",CONTROLLER://{HOST}:{self._controller_port}"
        return config | {"listeners": listeners, "log.dirs": str(self.log_dir)}

    def _zookeeper(self, zookeeper: ZooKeeper) -> dict[str, str]:
        config = {
            "broker.id": str(self.broker_id),
            "zookeeper.connect": zookeeper.connect,
            "zookeeper.connection.timeout.ms": "30000",
            "zookeeper.session.timeout.ms": "6000",
            "log.dirs": str(self.log_dir),
        }
        if version_tuple(self.version) < (0, 9):
            return config | {"host.name": HOST, "port": str(self.port)}
        return config | {"listeners": f"PLAINTEXT://{HOST}:{self.port}"}

    def prepare(self) -> None:
        super().prepare()
        if self.zookeeper is None:
            _format(self.version, self.broker_id, self.log_dir)

    def answers(self) -> bool:
        return (self.broker_id, self.port) in self._live_brokers()

    def choose_ports(self) -> None:
        self.port, self._controller_port = free_port(), free_port()

    def await_stop(self) -> None:
        """Wait for the end; before 0.8.2 brokers that stop together may wait for each other."""
        if version_tuple(self.version) < (0, 8, 2):
            self.kill()
        super().await_stop()

    def _await_deregistered(self) -> None:
        """Wait until ZooKeeper has dropped the session of a killed broker.

        A broker that finds its own id registered by a session still alive gives up.
        """
        if self.zookeeper is not None:
            self._await(
                lambda: self.broker_id not in dict(self._registered()),
                "is still registered in ZooKeeper",
            )

    def _await(self, condition: Callable[[], bool], complaint: str) -> None:
        deadline = time.monotonic() + START_DEADLINE_S
        while not condition():
            if time.monotonic() > deadline:
                raise ServerError(f"{self} {complaint}\n{self.log_tail()}")
            time.sleep(0.1)

    def _live_brokers(self) -> set[tuple[int, int]]:
        """Return id and port of each broker of the cluster that this one knows to be alive.

        A 0.8 controller tells the brokers nothing before there is a topic.
        """
        if version_tuple(self.version) < (0, 9):
            with socket.create_connection((HOST, self.port), timeout=5):
                return self._registered()
        return _metadata_brokers(self.port)

    def _registered(self) -> set[tuple[int, int]]:
        """Return id and port of each broker registered in ZooKeeper."""
        client = KazooClient(hosts=self.config["zookeeper.connect"], timeout=20)
        client.start(timeout=START_DEADLINE_S)
        try:
            brokers = set()
            with suppress(NoNodeError):
                for broker_id in client.get_children("/brokers/ids"):
                    data, _ = client.get(f"/brokers/ids/{broker_id}")
                    brokers.add((int(broker_id), int(json.loads(data)["port"])))
            return brokers
        finally:
            client.stop()
            client.close()


@contextmanager
def zookeeper(work: Path) -> Iterator[ZooKeeper]:
    """Run a ZooKeeper on `work/zookeeper`, with the data that is there already."""
    server = ZooKeeper(work)
    with running(server):
        yield server


@contextmanager
def broker(
    version: str,
    work: Path,
    *,
    zookeeper: ZooKeeper | None = None,
    broker_id: int = 1,
    config: Mapping[str, str] | None = None,
    rack: str | None = None,
    artifacts: Artifacts = "server",
) -> Iterator[Broker]:
    """Run a broker on `work/kafka-<id>`, with the data that is there already.

    Given a ZooKeeper it uses that. Else 2.8 and older start their own on the same `work`, and
    3.9 and newer run in KRaft mode. `config` overrides any of `server.properties`.
    """
    with ExitStack() as stack:
        if zookeeper is None and version_tuple(version) < KRAFT_SINCE:
            zookeeper = ZooKeeper(work)
            stack.enter_context(running(zookeeper))
        server = Broker(
            version,
            work,
            broker_id=broker_id,
            zookeeper=zookeeper,
            config=config,
            rack=rack,
            artifacts=artifacts,
        )
        stack.enter_context(running(server))
        yield server


@contextmanager
def cluster(
    version: str,
    n: int,
    work: Path,
    *,
    zookeeper: ZooKeeper | None = None,
    config: Mapping[str, str] | None = None,
    racks: Sequence[str] | None = None,
) -> Iterator[tuple[Broker, ...]]:
    """Run brokers 1 to `n` of one cluster, any of which may be stopped, killed and restarted.

    They share a ZooKeeper (2.8 and older, or the one given) or one separate KRaft controller.
    """
    with ExitStack() as stack:
        controller = None
        if zookeeper is None and version_tuple(version) < KRAFT_SINCE:
            zookeeper = ZooKeeper(work)
            stack.enter_context(running(zookeeper))
        elif zookeeper is None:
            controller = _Controller(version, work, config)
        brokers = tuple(
            Broker(
                version,
                work,
                broker_id=number + 1,
                zookeeper=zookeeper,
                controller=controller,
                config=config,
                rack=racks[number] if racks else None,
            )
            for number in range(n)
        )
        if controller is not None:
            stack.enter_context(running(controller))
        stack.enter_context(running(*brokers))
        for server in brokers:
            server.await_cluster(n)
        yield brokers


def _leaders(wire: Wire, name: str) -> int:
    """Count the partitions of a topic that have a leader."""
    return sum(
        partition["leader_id"] >= 0
        for topic in wire.call("Metadata", 0, topics=[])["topics"]  # all: a name could create it
        if topic["name"] == name
        for partition in topic["partitions"]
    )


def _common_config(version: str) -> dict[str, str]:
    """Keep it small, quick and local; what a version does not know it ignores with a warning."""
    number = version_tuple(version)
    config = {
        "num.network.threads": "2",
        "num.io.threads": "2",
        "background.threads": "2",
        "log.cleaner.dedupe.buffer.size": str(4 << 20),
        "auto.create.topics.enable": "false",
        "delete.topic.enable": "true",
        "controlled.shutdown.enable": "true",
        "controlled.shutdown.max.retries": "1",
        "controlled.shutdown.retry.backoff.ms": "100",
        "offsets.topic.num.partitions": "4",
        "offsets.topic.replication.factor": "1",
    }
    if number >= (0, 11):
        config |= {
            "group.initial.rebalance.delay.ms": "0",
            "transaction.state.log.num.partitions": "2",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
        }
    if number >= (4,):
        config |= {
            "share.coordinator.state.topic.num.partitions": "1",
            "share.coordinator.state.topic.replication.factor": "1",
            "share.coordinator.state.topic.min.isr": "1",
        }
    if (4,) <= number < (4, 2):  # early access and preview; 4.2 has them as they are
        protocols = "classic,consumer,share" + (",streams" if number >= (4, 1) else "")
        config |= {
            "group.coordinator.rebalance.protocols": protocols,
            "group.share.enable": "true",
            "unstable.api.versions.enable": "true",
            "unstable.feature.versions.enable": "true",
        }
    return config


def _kraft_config(node_id: int, roles: str, voter: str) -> dict[str, str]:
    return {
        "node.id": str(node_id),
        "process.roles": roles,
        "controller.quorum.voters": voter,
        "controller.listener.names": "CONTROLLER",
        "broker.heartbeat.interval.ms": "1000",
        "broker.session.timeout.ms": "9000",  # a killed broker is missed, and may return, after it
        "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
    }


def _format(version: str, node_id: int, log_dir: Path) -> None:
    """Format the log directory for KRaft, once, as `kafka-storage format` does.

    What the tool writes beside ids is the same for all servers of a version, and is kept: the tool
    takes a quarter of the CPU time that a broker takes from start to end. The server itself adds
    the id of the directory. Share and streams groups need no `--feature`: they are on by default
    since 4.2, and before by `unstable.feature.versions.enable`.
    """
    properties = log_dir / "meta.properties"
    if properties.exists():
        return

    config = _common_config(version) | {
        **_kraft_config(CONTROLLER_ID, "controller", f"{CONTROLLER_ID}@{HOST}:1"),
        "listeners": f"CONTROLLER://{HOST}:1",
    }

    def format_into(folder: Path) -> None:
        file = folder / "server.properties"
        lines = (f"{key}={value}\n" for key, value in {**config, "log.dirs": str(folder)}.items())
        file.write_text("".join(lines))
        arguments = ["format", "--cluster-id", CLUSTER_ID, "--config", str(file)]
        run_java(version, "kafka.tools.StorageTool", arguments)

    digest = hashlib.sha256(repr(config).encode()).hexdigest()[:8]
    kept = made_once(CACHE / f"kraft-{version}-{digest}", format_into, "kraft-lock")
    log_dir.mkdir(parents=True, exist_ok=True)
    shutil.copy(kept / "bootstrap.checkpoint", log_dir)
    properties.write_text(f"version=1\ncluster.id={CLUSTER_ID}\nnode.id={node_id}\n")


def _metadata_brokers(port: int) -> set[tuple[int, int]]:
    """Return id and port of each broker that the one on `port` names in a Metadata answer.

    Request and response of version 0, which every Kafka speaks:
        request   int32 size, int16 api key 3, int16 version 0, int32 correlation id,
                  string client id, int32 0 (no topic named)
        response  int32 size, int32 correlation id, int32 count, count of
                  (int32 node id, string host, int32 port), topics
    """
    client = b"kgroup-test"
    body = struct.pack(f">hhih{len(client)}si", 3, 0, 1, len(client), client, 0)
    with socket.create_connection((HOST, port), timeout=10) as connection:
        connection.sendall(struct.pack(">i", len(body)) + body)
        with connection.makefile("rb") as answer:
            _, _, count = struct.unpack(">iii", _exactly(answer, 12))
            brokers = set()
            for _ in range(count):
                node_id, length = struct.unpack(">ih", _exactly(answer, 6))
                _exactly(answer, length)
                (broker_port,) = struct.unpack(">i", _exactly(answer, 4))
                brokers.add((node_id, broker_port))
            return brokers


def _exactly(stream: IO[bytes], size: int) -> bytes:
    data = stream.read(size)
    if len(data) != size:
        raise ConnectionError("the server closed the connection")
    return data
