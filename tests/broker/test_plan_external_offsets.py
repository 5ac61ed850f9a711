"""Offsets go to a table and back for real, while numbers are counted: each once.

The members are programs of kafka-python; they count beside their offsets, in one transaction.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pytest
from kafka import KafkaProducer
from sqlalchemy import Engine, text

from kgroup.model.group import Group, GroupState
from kgroup.source.base import Question
from kgroup.source.broker.source import LiveCluster
from tests.broker.counting_member import prepare
from tests.broker.maven import die_with_parent
from tests.broker.migration import HABITS, kgroup
from tests.broker.servers import Broker
from tests.broker.sql_servers import PASSWORD, QUOTED, postgresql
from tests.waiting import PATIENCE_S, until, until_steady

NAMES = ["b", "a", "c"]
"""Restarted in this order, by which a partition of b's goes to c for a while, which is not yet."""
PARTITIONS = 6
RATE = 10
"""Records a second into each partition but the last: that one gets none after the first."""

_WHO = Question(offsets=False, log_budget=0, commit_times=False)
"""Nothing that is searched for in the log: members commit so often that it would take long."""
_COUNTED = "SELECT count(DISTINCT number) FROM counted"


class Counters:
    """Members of one group, and the records that they count.

    Args:
        server: the broker.
        group: their group; its topic is called so too.
        engine: the database with the results, and
        url: where it is, as the members are told.
    """

    def __init__(self, server: Broker, group: str, engine: Engine, url: str) -> None:
        self.group = group
        self._server = server
        self._engine = engine
        self._url = url
        self._members: dict[str, subprocess.Popen[bytes]] = {}
        self._produced = 0
        self._is_over = Event()

    def start(self, names: Sequence[str], way: str) -> None:
        """Start members, and wait until the group rests."""
        where = (self._server.bootstrap, self.group, self.group, self._url)
        for name in names:
            command = [sys.executable, "-m", "tests.broker.counting_member", *where, name, way]
            self._members[name] = subprocess.Popen(command, preexec_fn=die_with_parent())
        with self._telling():
            until(self._rests)

    def stop(self, names: Sequence[str]) -> None:
        """Stop members in order."""
        for name in names:
            self._members[name].terminate()
        for name in names:
            assert self._members.pop(name).wait(PATIENCE_S) == 0

    def restart_each(self, names: Sequence[str], way: str) -> None:
        for name in names:
            self.stop([name])
            self.start([name], way)

    @contextmanager
    def _telling(self) -> Iterator[None]:
        """Say how things stand where a wait is in vain."""
        try:
            yield
        except AssertionError as error:
            numbers = f"{self._ask(_COUNTED)} of {self._produced} numbers are counted"
            raise AssertionError(f"{error}; {numbers}; {self._look()}") from None

    def _look(self) -> Group | None:
        with LiveCluster(self._server.bootstrap) as cluster:
            return cluster.read([self.group], _WHO).image.groups.get(self.group)

    def _rests(self) -> bool:
        ended = {name for name, popen in self._members.items() if popen.poll() is not None}
        assert not ended, ended
        group = self._look()
        return (
            group is not None
            and group.state is GroupState.STABLE
            and sorted(member.client_id or "" for member in group.members) == sorted(self._members)
        )

    def see(self) -> int:
        """Wait until all that is there by now is counted; return how many were counted twice."""
        wanted = self._produced
        with self._telling():
            until(lambda: self._rests() and self._ask(_COUNTED) >= wanted)
        return self._ask(f"SELECT count(*) - ({_COUNTED}) FROM counted")

    def _ask(self, statement: str) -> int:
        with self._engine.connect() as connection:
            return int(connection.execute(text(statement)).scalar_one())

    @contextmanager
    def produced(self) -> Iterator[None]:
        """Send numbers until the context ends."""

        def produce() -> None:
            producer = KafkaProducer(bootstrap_servers=self._server.bootstrap)
            numbers = count()
            for partition in range(PARTITIONS):
                producer.send(self.group, b"%d" % next(numbers), partition=partition)
            while not self._is_over.wait(1 / RATE):
                for partition in range(PARTITIONS - 1):
                    producer.send(self.group, b"%d" % next(numbers), partition=partition)
                producer.flush()
                self._produced = next(numbers)
                numbers = count(self._produced)
            producer.close()

        thread = Thread(target=produce)
        thread.start()
        try:
            until(lambda: self._produced > 100)
            yield
        finally:
            self._is_over.set()
            thread.join()
            for member in self._members.values():
                member.kill()
                member.wait()

    def plan(self, path: Path, *options: str) -> Any:
        """Make a plan for the group, and save it."""
        with self._telling():
            until_steady(self._rests)
        where = ("-b", self._server.bootstrap, *HABITS)
        name = "external-offsets"
        data = kgroup("plan", name, self.group, *where, *options)
        document = {"schema_version": 1, "command": f"plan {name}", "data": data}
        path.write_text(json.dumps(document))
        return data[0]

    def verify(self, path: Path, step: int, *, is_done: bool) -> str:
        options = (str(path), "--step", str(step), "-b", self._server.bootstrap)
        (found,) = kgroup("plan", "verify", *options, status=0 if is_done else 5)
        return str(found["progress"])

    def apply(self, path: Path, step: int, *options: str, status: int = 0) -> list[str]:
        """Apply a step; return what became of each partition."""
        where = (str(path), "--step", str(step), "-b", self._server.bootstrap)
        rows = kgroup("plan", "apply", *where, *options, status=status)
        return [row["result"] for row in rows]

    def carry_out(self, path: Path, plan: Any, ways: Sequence[str], backups: Path) -> None:
        """Do what a plan says; each step is verified before and afterwards."""
        left = list(ways)
        again = self.see()
        for step in plan["steps"]:
            number = step["number"]
            assert self.verify(path, number, is_done=False) in ("not-begun", "half-done")
            if step["copies"] is not None:
                if step["copies"]["is_last"]:
                    assert self.apply(path, number).count("planned") >= PARTITIONS - 1
                backup = str(backups / f"{self.group}-{time.time_ns()}.json")
                done = self.apply(path, number, "--execute", "--backup", backup)
                assert set(done) <= {"done", "unchanged"}
            elif step["expected"]["state"] == "Empty":
                assert self.apply(path, number, "--execute") == []  # that is no tool's to do
                refused = self.apply(path, number + 1, "--execute", status=4)  # members run
                assert set(refused) <= {"refused", "unchanged"}
                self.stop(NAMES)
            elif self._members:
                assert sorted(step["restarted"]) == sorted(NAMES)
                self.restart_each(NAMES, left.pop(0))
            else:
                self.start(NAMES, left.pop(0))
            assert self.verify(path, number, is_done=True) == "done"
        found = self.see() - again
        forecast = plan["forecast"]
        assert (forecast["read_again"], forecast["skipped"]) == (0, 0)
        assert found == 0
        assert left == []


def test_a_group_is_stopped_and_its_offsets_copied(
    orders_broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    orders_broker.create_topic("stopping", PARTITIONS)
    path = tmp_path / "plan.json"
    with postgresql() as database:
        monkeypatch.setenv("KGROUP_SQL_URL", database.url())
        url = database.url().replace("postgresql:", "postgresql+psycopg:")
        engine = prepare(url)
        group = Counters(orders_broker, "stopping", engine, url)
        options = ("--sql-column", "generation=generation")
        with group.produced():
            group.start(NAMES, "kafka")
            plan = group.plan(path, "--sql", database.url(), *options)
            assert PASSWORD not in path.read_text()
            assert QUOTED not in path.read_text()
            assert [each["copies"] is not None for each in plan["steps"]] == [
                *(True, False, True, False)
            ]
            group.carry_out(path, plan, ["external"], tmp_path)
            back = group.plan(path, "--to-kafka", *options)
            assert len(back["steps"]) == 3
            group.carry_out(path, back, ["kafka"], tmp_path)
        engine.dispose()


def test_a_group_goes_in_two_rolling_restarts(orders_broker: Broker, tmp_path: Path) -> None:
    orders_broker.create_topic("rolling", PARTITIONS)
    path, file = tmp_path / "plan.json", tmp_path / "offsets.db"
    url = f"sqlite:///{file}"
    engine = prepare(url)
    group = Counters(orders_broker, "rolling", engine, url)
    options = ("--rolling", "--sql", str(file), "--sql-column", "generation=generation")
    with group.produced():
        group.start(NAMES, "kafka")
        group.carry_out(path, group.plan(path, *options), ["both", "external"], tmp_path)
        back = group.plan(path, "--to-kafka", *options)
        group.carry_out(path, back, ["both", "kafka"], tmp_path)
    engine.dispose()
