"""`kgroup describe --watch` beside a live group, whose members join, commit and leave."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.broker.servers import Broker, broker
from tests.default_signals import default_signals
from tests.record.clients import java, join_java, settle
from tests.record.raw import await_coordinator, create_topics
from tests.record.recording import Recording
from tests.record.session import Session
from tests.record.wire import Wire
from tests.waiting import PATIENCE_S

VERSION = "4.3.1"
GROUP = "watched"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    with broker(VERSION, tmp_path_factory.mktemp("watch")) as server:
        with Wire(VERSION, server.bootstrap) as wire:
            create_topics(wire, {"orders": 3})
            await_coordinator(wire)
        yield server


class Watch:
    """A watch in a pipe: its lines as they come, and the group as they tell it.

    Attributes:
        seen: all changes.
        errors: lines on standard error.
        owners: client id of the owner of each partition.
        offsets: committed offset of each partition.
        lags: likewise.
    """

    def __init__(self, server: Broker, *options: str) -> None:
        self.process = subprocess.Popen(
            [
                *(sys.executable, "-m", "kgroup", "describe", "-b", server.bootstrap, GROUP),
                *("--watch", "0.2", "--timeout", "30", *options),
            ],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            preexec_fn=default_signals,
        )
        self.seen: list[dict[str, Any]] = []
        self.errors: list[str] = []
        self.owners: dict[int, str] = {}
        self.offsets: dict[int, int] = {}
        self.lags: dict[int, int] = {}
        self._clients: dict[str, str] = {}
        self._threads = [
            threading.Thread(target=self._read_changes, daemon=True),
            threading.Thread(target=self._read_errors, daemon=True),
        ]
        for thread in self._threads:
            thread.start()

    def until(self, is_so: Callable[[], object]) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while not is_so():
            assert self.process.poll() is None, self.errors
            assert time.monotonic() < deadline, (self.seen[-30:], self.errors)
            time.sleep(0.05)

    def owned_by(self, client_id: str) -> set[int]:
        return {at for at, owner in self.owners.items() if owner == client_id}

    def kinds(self, start: int = 0) -> set[str]:
        return {change["change"] for change in self.seen[start:]}

    def end(self) -> int:
        self.process.send_signal(signal.SIGINT)
        status = self.process.wait(PATIENCE_S)
        for thread in self._threads:
            thread.join(PATIENCE_S)
        return status

    def _read_changes(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            change = json.loads(line)
            self._apply(change)
            self.seen.append(change)

    def _read_errors(self) -> None:
        assert self.process.stderr is not None
        self.errors.extend(self.process.stderr)

    def _apply(self, change: dict[str, Any]) -> None:
        kind, at, after = change["change"], change["partition"], change["after"]
        if kind == "group-found":
            for member in after["members"]:
                self._clients[member["member_id"]] = member["client_id"]
            for row in after["offsets"]:
                self._set(self.owners, row["partition"], self._clients.get(row["member_id"]))
                self._set(self.offsets, row["partition"], row["committed_offset"])
                self._set(self.lags, row["partition"], row["lag"])
        elif kind == "member-joined":
            self._clients[change["member_id"]] = after["client_id"]
        elif kind == "owner":
            self._set(self.owners, at, self._clients.get(after))
        elif kind == "committed-offset":
            self._set(self.offsets, at, after)
        elif kind == "lag":
            self._set(self.lags, at, after)

    @staticmethod
    def _set(values: dict[int, Any], at: int, value: Any) -> None:
        values.pop(at, None)
        if value is not None:
            values[at] = value


def test_members_join_commit_leave_and_the_broker_goes_away(server: Broker, tmp_path: Path) -> None:
    watch = Watch(server)
    recording = Recording("watch", tmp_path)
    try:
        with java(recording, server, "Consumers", "Producers") as clients:
            _watch_members(watch, server, clients)
        assert not any("Traceback" in line or "bug" in line for line in watch.errors)
    finally:
        watch.process.kill()
        watch.process.wait()


def _watch_members(watch: Watch, server: Broker, clients: Session) -> None:
    def owned(name: str) -> set[int]:
        """Partitions, as the consumer itself says."""
        return {
            int(number) for number in re.findall(r"orders\D(\d+)", clients.call("owned", name=name))
        }

    watch.until(lambda: any("not-found" in line for line in watch.errors))
    assert watch.seen == []

    join_java(clients, GROUP, "one", "orders")
    settle(clients, 3, "one")
    watch.until(lambda: watch.owners == dict.fromkeys(range(3), "one"))
    assert watch.seen[0]["change"] == "group-found"

    start = len(watch.seen)
    join_java(clients, GROUP, "two", "orders")
    settle(clients, 3, "one", "two")
    watch.until(lambda: watch.owned_by("one") == owned("one"))
    watch.until(lambda: watch.owned_by("two") == owned("two"))
    watch.until(lambda: "generation" in watch.kinds(start))
    joined = [each for each in watch.seen[start:] if each["change"] == "member-joined"]
    assert [each["after"]["client_id"] for each in joined] == ["two"]

    start = len(watch.seen)
    place = min(owned("one"))
    clients.call("commit", name="one", offsets=f"orders:{place}:0", metadata="")
    watch.until(lambda: watch.offsets.get(place) == 0 and watch.lags.get(place) == 0)
    clients.call("produce", topic="orders", partition=place, count=4)
    watch.until(lambda: watch.lags.get(place) == 4)
    clients.call("commit", name="one", offsets=f"orders:{place}:3", metadata="")
    watch.until(lambda: watch.offsets.get(place) == 3 and watch.lags.get(place) == 1)
    assert watch.kinds(start) == {"committed-offset", "lag"}

    start = len(watch.seen)
    clients.call("leave", name="two")
    settle(clients, 3, "one")
    watch.until(lambda: watch.owners == dict.fromkeys(range(3), "one"))
    (left,) = [each for each in watch.seen[start:] if each["change"] == "member-left"]
    assert left["before"]["client_id"] == "two"

    start = len(watch.seen)
    told = len(watch.errors)
    server.kill()  # one that is stopped in order may be seen giving up its partitions
    watch.until(lambda: len(watch.errors) > told)
    time.sleep(1)
    assert watch.seen[start:] == []  # nothing is known to have changed
    server.start()
    watch.until(lambda: "kgroup: note: no more errors\n" in watch.errors[told:])
    settle(clients, 3, "one")
    clients.call("commit", name="one", offsets=f"orders:{place}:4", metadata="")
    watch.until(lambda: watch.offsets.get(place) == 4 and watch.lags.get(place) == 0)
    assert not watch.kinds(start) & {"group-gone", "group-found"}

    clients.call("leave", name="one")
    watch.until(lambda: "Empty" in [each["after"] for each in watch.seen[start:]])
    assert watch.end() == 130
