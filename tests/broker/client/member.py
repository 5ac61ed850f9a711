"""A consumer of any library under control: it joins, says what it owns, and leaves in order.

Each is a process. It is given one JSON object as its argument (see `_Settings`), writes a JSON line
`{"assignment": [[topic, partition], …]}` whenever what it owns has changed, and leaves its group
when its standard input ends.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path
from threading import Thread
from typing import TypedDict

from tests.broker.client.program import command
from tests.broker.maven import die_with_parent
from tests.waiting import PATIENCE_S


class _Settings(TypedDict):
    """What a program is told; None leaves the library's default.

    Attributes:
        topics: a single one that begins with `^` is a pattern.
        strategy: several are separated by commas; `consumer` is the consumer protocol, followed by
            `:` and the assignor that the member prefers, if it prefers one.
    """

    bootstrap: str
    group: str
    topics: list[str]
    strategy: str | None
    client_id: str | None
    instance_id: str | None
    rack: str | None
    protocol_version: str | None
    refresh_ms: int
    heartbeat_ms: int


class LibraryMember:
    """A running consumer.

    Attributes:
        client_id: that it was given.
        topics: that it subscribes to.
        owned: partitions as it sees them now; None before it has said anything.

    Args:
        library: as its users call it.
        bootstrap: where the broker is.
        group: that it joins.
        topics: in the order in which the application names them; or a pattern, see `_Settings`.
        strategy: name of the assignor, see `_Settings`; KafkaJS has only its own.
        log: file for what the library says.
        client_id: None for the library's default.
        instance_id: of a static member.
        rack: of it.
        protocol_version: of Kafka, that an application of Sarama chooses.
        version: of the library's package; see `command`.
        refresh_ms: how often it looks for new topics and partitions, where the library can be told.
        heartbeat_ms: how often it sends a heartbeat.
    """

    def __init__(
        self,
        library: str,
        bootstrap: str,
        group: str,
        topics: Sequence[str],
        strategy: str | None,
        log: Path,
        *,
        client_id: str | None = None,
        instance_id: str | None = None,
        rack: str | None = None,
        protocol_version: str | None = None,
        version: str | None = None,
        refresh_ms: int = 500,
        heartbeat_ms: int = 200,
    ) -> None:
        self.client_id = client_id
        self.topics = tuple(topics)
        self.owned: frozenset[tuple[str, int]] | None = None
        settings: _Settings = {
            "bootstrap": bootstrap,
            "group": group,
            "topics": list(topics),
            "strategy": strategy,
            "client_id": client_id,
            "instance_id": instance_id,
            "rack": rack,
            "protocol_version": protocol_version,
            "refresh_ms": refresh_ms,
            "heartbeat_ms": heartbeat_ms,
        }
        words, environment = command(library, version)
        with log.open("ab") as errors:
            self._process = subprocess.Popen(
                [*words, json.dumps(settings)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                env=os.environ | environment,
                preexec_fn=die_with_parent(),
            )
        self._reader = Thread(target=self._read, daemon=True)
        self._reader.start()

    @property
    def is_running(self) -> bool:
        """Whether the process has not ended."""
        return self._process.poll() is None

    def stop(self) -> None:
        """Leave the group in order, and end."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(PATIENCE_S)
        finally:
            self.kill()

    def kill(self) -> None:
        """End at once, as a crash would."""
        self._process.kill()
        self._process.wait()
        self._reader.join()

    def _read(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as lines:
            for line in lines:
                self.owned = frozenset((at[0], at[1]) for at in json.loads(line)["assignment"])
