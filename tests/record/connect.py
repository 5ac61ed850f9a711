"""Workers of Kafka Connect, distributed mode, told over their REST interface what to run."""

from __future__ import annotations

import json
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus
from pathlib import Path
from typing import Any
from urllib.parse import quote

from tests.broker.maven import compile_java, die_with_parent, java_command
from tests.broker.process import free_port
from tests.broker.servers import Broker
from tests.record.session import JAVA
from tests.waiting import until


class Worker:
    """One running worker."""

    def __init__(self, address: str, process: subprocess.Popen[bytes]) -> None:
        self.address = address
        self.process = process
        self._url = f"http://{address}"

    def create(self, name: str, connector: str, tasks: int, **config: str) -> None:
        """Create a connector, a nested class of `IdleConnectors`."""
        whole = config | {"connector.class": f"IdleConnectors${connector}", "tasks.max": str(tasks)}
        self.request("/connectors", {"name": name, "config": whole})

    def await_running(self, name: str, tasks: int) -> None:
        """Wait until a connector and all of its tasks run on some worker."""

        def runs() -> bool:
            try:
                status = self.request(f"/connectors/{quote(name)}/status")
            except OSError:
                return False
            states = [status["connector"]["state"], *(task["state"] for task in status["tasks"])]
            return states == ["RUNNING"] * (1 + tasks)

        until(runs, every_s=0.3)

    def await_ready(self) -> None:
        """Wait until the worker is a member of its cluster."""

        def answers() -> bool:
            assert self.process.poll() is None, "the worker has ended"
            try:
                self.request("/connectors")
            except OSError:
                return False
            return True

        until(answers, every_s=0.3)

    def request(self, path: str, body: Any = None, method: str | None = None) -> Any:
        """GET, or POST where there is a body, or what is said; None where nothing is answered.

        A cluster that rebalances answers that there is a conflict: then it is asked again.
        """
        data = None if body is None else json.dumps(body).encode()
        headers = {"Content-Type": "application/json"}
        request = urllib.request.Request(self._url + path, data, headers, method=method)

        def ask() -> list[Any] | None:
            try:
                with urllib.request.urlopen(request, timeout=60) as answer:
                    return [json.loads(answer.read() or b"null")]
            except urllib.error.HTTPError as error:
                if error.code != HTTPStatus.CONFLICT:
                    raise
                return None

        (answer,) = until(ask, every_s=0.3)
        return answer


@contextmanager
def worker(
    work: Path, server: Broker, cluster: str, protocol: str, name: str, **more: str
) -> Iterator[Worker]:
    """Run a worker that is a member of `cluster`; it vanishes at the end as in a crash.

    `protocol` is its `connect.protocol`: eager, compatible or sessioned. Names of `more` settings
    have `_` for `.`. What it says goes to `clients.log` in `work`.
    """
    port = free_port()
    config = {
        "bootstrap.servers": server.bootstrap,
        "group.id": cluster,
        "client.id": name,
        "connect.protocol": protocol,
        "listeners": f"http://127.0.0.1:{port}",
        "key.converter": "org.apache.kafka.connect.converters.ByteArrayConverter",
        "value.converter": "org.apache.kafka.connect.converters.ByteArrayConverter",
        "config.storage.topic": f"{cluster}-configs",
        "offset.storage.topic": f"{cluster}-offsets",
        "offset.storage.partitions": "1",
        "status.storage.topic": f"{cluster}-status",
        "status.storage.partitions": "1",
        "config.storage.replication.factor": "1",
        "offset.storage.replication.factor": "1",
        "status.storage.replication.factor": "1",
        "scheduled.rebalance.max.delay.ms": "0",
    } | {key.replace("_", "."): value for key, value in more.items()}
    file = work / f"{name}.properties"
    file.write_text("".join(f"{key}={value}\n" for key, value in config.items()))
    classes = compile_java([JAVA / "IdleConnectors.java"], server.version)
    command = java_command(server.version, classes=classes)
    main = "org.apache.kafka.connect.cli.ConnectDistributed"
    with (work / "clients.log").open("ab") as log:
        process = subprocess.Popen(
            [*command, main, str(file)],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            preexec_fn=die_with_parent(),
        )
        try:
            running = Worker(f"127.0.0.1:{port}", process)
            running.await_ready()
            yield running
        finally:
            process.kill()
            process.wait()
