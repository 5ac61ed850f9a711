"""One server process: launched, awaited until it answers, ended in every case."""

from __future__ import annotations

import atexit
import os
import signal
import socket
import subprocess
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from random import SystemRandom

from tests.broker.maven import Artifacts, class_archive, die_with_parent, java_command
from tests.waiting import PATIENCE_S

HOST = "127.0.0.1"

START_DEADLINE_S = STOP_DEADLINE_S = PATIENCE_S
PORT_ATTEMPTS = 4


class ServerError(AssertionError):
    """A server did not start or stop; the message ends with the tail of its log."""


class Server(ABC):
    """One JVM: launched, awaited until it answers, stopped in every case."""

    name: str
    version: str
    folder: Path
    server_log: Path
    config_file: Path
    main = "kafka.Kafka"
    started = "tarted (kafka.server.Kafka"  # what the log says then; with a capital in 0.8.0
    heap = "256m"
    jvm: Sequence[str] = ()
    artifacts: Artifacts = "server"
    writes_archive = True
    """Whether the server loads the classes that a `class_archive` should have."""

    def __init__(self, name: str, version: str, folder: Path) -> None:
        self.name = name
        self.version = version
        self.folder = folder
        self.server_log = folder / "server.log"
        self.config_file = folder / "server.properties"
        self.port = 0
        self._process: subprocess.Popen[bytes] | None = None
        self._log_start = 0
        self._new_archive: Path | None = None
        folder.mkdir(parents=True, exist_ok=True)

    @property
    @abstractmethod
    def config(self) -> dict[str, str]:
        """The whole configuration file, for the current port."""

    @abstractmethod
    def answers(self) -> bool:
        """Whether the server does its work; False or OSError while it does not yet."""

    @property
    def pid(self) -> int | None:
        """The process id while the server runs."""
        return self._process.pid if self.is_running() and self._process else None

    def is_running(self) -> bool:
        """Whether the process exists."""
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        """Launch and wait until it answers."""
        self.launch()
        self.await_ready()

    def prepare(self) -> None:
        """Choose ports where there are none yet, and write the configuration file."""
        if self.port == 0:
            self.choose_ports()
        lines = (f"{key}={value}\n" for key, value in self.config.items())
        self.config_file.write_text("".join(lines))

    def launch(self) -> None:
        """Start the process and return at once."""
        if self.is_running():
            raise ServerError(f"{self} already runs")
        self.prepare()
        command = java_command(
            self.version,
            heap=self.heap,
            log_level="INFO",
            jvm=[*self.jvm, *self._archive_option()],
            artifacts=self.artifacts,
            archive=self.main,
        )
        with self.server_log.open("ab") as log:
            self._log_start = log.tell()
            self._process = subprocess.Popen(
                [*command, self.main, str(self.config_file)],
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,  # Ctrl-C is for pytest, which then stops the server
                preexec_fn=die_with_parent(),
            )
        _launched.add(self._process)

    def await_ready(self) -> None:
        """Wait until it answers; on a taken port start again with another."""
        deadline = time.monotonic() + START_DEADLINE_S
        attempts = 1
        while True:
            # The log comes first: an answer may come from whoever took our port.
            with suppress(OSError):
                if self.is_running() and self.started in self._log_text() and self.answers():
                    return
            if not self.is_running():
                if attempts == PORT_ATTEMPTS or not self._port_was_taken():
                    raise ServerError(f"{self} ended while it started\n{self.log_tail()}")
                attempts += 1
                self.choose_ports()
                self.launch()
            if time.monotonic() > deadline:
                self.kill()
                limit = f"{START_DEADLINE_S:g} s"
                raise ServerError(f"{self} did not answer within {limit}\n{self.log_tail()}")
            time.sleep(0.1)

    def stop(self) -> None:
        """End the server gracefully: a broker hands over its partitions and flushes segments."""
        self.ask_to_stop()
        self.await_stop()

    def ask_to_stop(self) -> None:
        """Send SIGTERM and return at once."""
        if self._process is not None and self.is_running():
            self._process.send_signal(signal.SIGTERM)

    def await_stop(self) -> None:
        """Wait for the end after `ask_to_stop`."""
        if self._process is None:
            return
        try:
            self._process.wait(STOP_DEADLINE_S)
        except subprocess.TimeoutExpired:
            self.kill()
            limit = f"{STOP_DEADLINE_S:g} s"
            raise ServerError(f"{self} did not stop within {limit}\n{self.log_tail()}") from None
        _launched.discard(self._process)
        if self._new_archive is not None and self._new_archive.exists():
            self._new_archive.rename(self._archive)  # in one step, also beside other processes
            self._new_archive = None

    def kill(self) -> None:
        """End the server with SIGKILL, as a crash would."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            _launched.discard(self._process)

    def restart(self) -> None:
        """Stop where it runs, then start on the same port and data."""
        self.stop()
        self.start()

    def log_tail(self, lines: int = 40) -> str:
        """Return the last lines that the current process logged."""
        return "\n".join(self._log_text().splitlines()[-lines:])

    @property
    def _archive(self) -> Path:
        return class_archive(self.version, self.main)

    def _archive_option(self) -> list[str]:
        """Let the JVM write the class archive at its end, if there is none yet."""
        self._new_archive = None
        if not self.writes_archive or self.artifacts != "server" or self._archive.exists():
            return []
        self._new_archive = self._archive.with_suffix(f".{os.getpid()}-{id(self)}")
        return [f"-XX:ArchiveClassesAtExit={self._new_archive}"]

    def _log_text(self) -> str:
        with self.server_log.open("rb") as log:
            log.seek(self._log_start)
            return log.read().decode(errors="replace")

    def _port_was_taken(self) -> bool:
        text = self._log_text()
        return "Address already in use" in text or "BindException" in text

    def choose_ports(self) -> None:
        """Take new ports, which `config` then names."""
        self.port = free_port()

    def __str__(self) -> str:
        return f"{self.name} {self.version} in {self.folder}"


@contextmanager
def running(*servers: Server) -> Iterator[None]:
    """Start servers together, stop them together; kill them where an exception passes."""
    try:
        for server in servers:
            server.launch()
        for server in servers:
            server.await_ready()
        yield
        for server in servers:
            server.ask_to_stop()
        for server in servers:
            server.await_stop()
    finally:
        for server in servers:
            server.kill()


def free_port() -> int:
    """Return a port that nobody listens on now.

    It is none of those that the kernel lends to connections of clients (Linux): until a server
    listens, one of them could take it.
    """
    try:
        first_lent = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    except OSError:
        first_lent = 0
    for _ in range(100):
        port = SystemRandom().randrange(20_000, first_lent) if first_lent > 21_000 else 0
        with suppress(OSError), socket.socket() as probe:
            probe.bind((HOST, port))
            port = int(probe.getsockname()[1])
            if port not in _given:
                _given.add(port)
                return port
    raise ServerError("no port is free")


_given: set[int] = set()
"""Ports that `free_port` has returned: of one server each."""


_launched: set[subprocess.Popen[bytes]] = set()


@atexit.register
def _kill_launched() -> None:
    """Kill, as the last resort, a server whose context was never left."""
    for process in _launched:
        process.kill()
