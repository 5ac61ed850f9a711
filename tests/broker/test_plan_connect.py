"""Tasks of a sink connector are moved over REST as plans say, and it costs what it should."""

from __future__ import annotations

import re
import shlex
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from kgroup.model.group import GroupState
from tests.broker.migration import RATE, MovedGroup, close_to, kgroup
from tests.broker.servers import Broker, broker
from tests.record.connect import Worker, worker
from tests.record.raw import await_coordinator, create_topics
from tests.record.session import session
from tests.record.wire import Wire
from tests.waiting import until, until_steady

CONNECTOR = "to file"
TASKS = 2
PARTITIONS = 6
BEAT_MS = 1_000
CONFIG = {
    # Tasks start at the same moment: without a delay it is chance whether the first of them is
    # given all partitions before the second has joined.
    "group.initial.rebalance.delay.ms": "1000",
    "group.consumer.heartbeat.interval.ms": str(BEAT_MS),
    "group.consumer.min.heartbeat.interval.ms": str(BEAT_MS),
}
WAYS = (("assignor", "cooperative-sticky"), ("consumer-protocol",))
COUNTED = (
    r"Stabilized group GROUP generation|Group GROUP with generation \d+ is now empty|"
    r"\[GroupId GROUP\] Bumped group epoch"
)
REQUEST = re.compile(r"\b([A-Z]+) (/[^\s,;)]+)")


class Tasks(MovedGroup):
    """Tasks of one sink connector, which note in a file what they do."""

    def __init__(self, server: Broker, work: Path, connect: Worker) -> None:
        super().__init__(server, work / "clients.log", f"connect-{CONNECTOR}", restart_s=4)
        self._connect = connect
        self._journal = work / "journal"
        config = {"topics": "orders", "journal": str(self._journal)}
        connect.create(CONNECTOR, "Sink", TASKS, **config)
        self.settle()

    def journal(self) -> str:
        return self._journal.read_text().rstrip("\n")

    def generation(self) -> int:
        """Count them in the broker's log: of a group that was stopped epochs begin anew."""
        text = (self._server.folder / "server.log").read_text("utf-8", "replace")
        return len(re.findall(COUNTED.replace("GROUP", re.escape(self.group)), text))

    def settle(self) -> None:
        """Wait until all tasks run, and own all partitions in peace."""
        self._connect.await_running(CONNECTOR, TASKS)
        until_steady(self._rests, times=5)

    def _rests(self) -> bool:
        group = self.look()
        owned = [len(member.assignment or ()) for member in group.members]
        return group.state is GroupState.STABLE and owned == [PARTITIONS // TASKS] * TASKS

    def carry_out(self, path: Path, step: dict[str, Any]) -> None:
        """Do what actions say, in their order: requests to the worker, and waits."""
        since_s = time.monotonic()
        for action in step["actions"]:
            if shown := re.search(r"kgroup (describe .+) shows it Empty", action):
                until(partial(_shows_empty, shlex.split(shown[1])))
                assert self.verify(path, step["number"]) == "half-done"
            for method, where in REQUEST.findall(action):
                config = None
                if where.endswith("/config"):
                    assert self.look().state is GroupState.EMPTY
                    config = _changed(self._connect.request(where), step["settings"])
                    time.sleep(max(0, since_s + self.restart_s - time.monotonic()))
                self._connect.request(where, config, method)
        self.settle()


def _shows_empty(words: list[str]) -> bool:
    return bool(kgroup(*words)[0]["state"] == "Empty")


def _changed(config: dict[str, str], settings: list[dict[str, str | None]]) -> dict[str, str]:
    """Change settings; what becomes nothing is taken out."""
    whole = {**config, **{str(setting["name"]): setting["after"] for setting in settings}}
    return {name: value for name, value in whole.items() if value is not None}


@contextmanager
def _tasks(server: Broker, work: Path) -> Iterator[Tasks]:
    with Wire(server.version, server.bootstrap) as wire:
        create_topics(wire, {"orders": PARTITIONS})
        await_coordinator(wire)
    at, log = server.bootstrap, work / "producer.log"
    with (
        session(server.version, ["Producers"], bootstrap=at, log=log) as producers,
        worker(work, server, "workers", "sessioned", "worker-1") as connect,
    ):
        producers.call("flow", topic="orders", partitions=PARTITIONS, rate=RATE)
        yield Tasks(server, work, connect)


def test_to_another_strategy_and_to_the_consumer_protocol(tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    with broker("4.3.1", tmp_path, config=CONFIG) as server, _tasks(server, tmp_path) as tasks:
        for words in WAYS:
            (step,) = tasks.plan(path, *words)["steps"]
            assert tasks.verify(path, 1) == "not-begun"
            with tasks.watched() as happened:
                tasks.carry_out(path, step)
            assert tasks.verify(path, 1, "--done") == "done"
            print(step["forecast"], happened)
            close_to(step["forecast"], happened[0], BEAT_MS)
