"""Causes of rebalances on a real broker, while they happen, each beside one that looks alike.

Kafka Connect: connectors are made, workers get lost, leave, and return during the delay. Kafka
Streams: a probing rebalance, and a thread that restarts. Consumers: the strategy changes by the
votes of members; topics are deleted and created again. All of it happens at once.
"""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import time
from base64 import urlsafe_b64encode
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from kafka import KafkaProducer

from kgroup.model.group import Group
from kgroup.operation.assign.connect import connect_spec
from kgroup.operation.check.check import Audit, Request, check
from kgroup.operation.describe import describe
from kgroup.source.broker.source import LiveCluster
from tests.broker.live_groups import MODERN_CONFIG
from tests.broker.servers import Broker, broker
from tests.cli.command_line import Cli
from tests.record.clients import ASSIGNOR, java, join_java, make_topics, settle, start_streams
from tests.record.connect import Worker, worker
from tests.record.raw import create_topics
from tests.record.recording import Recording
from tests.record.wire import Wire
from tests.waiting import until

VERSION = "4.3.1"
TOPICS = dict.fromkeys(("orders", "again", "kept", "deleted", "order-totals"), 2)
DELAY_MS = 5_000
LONG_DELAY_MS = 600_000
PROBING_MS = 60_000
"""The shortest that Kafka Streams takes."""
QUICK = {"session_timeout_ms": "30000", "heartbeat_interval_ms": "500"}
PATIENT = {"session_timeout_ms": "250000", "heartbeat_interval_ms": "500"}
"""Nobody's session expires, even on a slow machine."""
STREAMS = {
    "num_standby_replicas": "1",
    "num_stream_threads": "1",
    "acceptable_recovery_lag": "0",
    "probing_rebalance_interval_ms": str(PROBING_MS),
    **PATIENT,
}
PATIENT_WORKER = PATIENT | {"rebalance_timeout_ms": "300000"}
RANGE, ROUND_ROBIN = f"{ASSIGNOR}RangeAssignor", f"{ASSIGNOR}RoundRobinAssignor"


@dataclass
class Stage:
    """Where it happens, and what was seen meanwhile.

    Attributes:
        server: the broker.
        recording: the folder of logs.
        stack: ends what is left.
        seen: by a name of the test.
    """

    server: Broker
    recording: Recording
    stack: ExitStack
    seen: dict[str, Any] = field(default_factory=dict)

    def group(self, group_id: str) -> Group:
        """Return a group as it is now."""
        with LiveCluster(self.server.bootstrap, of_silence=True) as source:
            (description,) = describe(source, [group_id]).data
        return description.group

    def check(self, group_id: str) -> Audit:
        """Check a group by one look, without its past."""
        with LiveCluster(self.server.bootstrap, of_silence=True) as source:
            return check(source, Request([group_id]), lambda: time.time_ns() // 1_000_000)

    def page(self, *words: str) -> str:
        """Return what a command writes, as a process: others run meanwhile."""
        where = ("-b", self.server.bootstrap, "--timeout", "60")
        command = [sys.executable, "-m", "kgroup", *words, *where]
        return subprocess.run(command, capture_output=True, text=True, check=False).stdout

    def await_members(self, group_id: str, count: int, but: Collection[str] = ()) -> None:
        """Wait until a group is complete with `count` members, other ones than just `but`."""

        def is_complete() -> bool:
            group = self.group(group_id)
            members = {member.member_id for member in group.members}
            return group.state == "Stable" and len(members) == count and members != set(but)

        until(is_complete, every_s=0.5)

    def worker(self, cluster: str, number: int, delay_ms: int, **config: str) -> Worker:
        """Start a worker of a Connect cluster."""
        name = f"{cluster}-{number}"
        config["scheduled_rebalance_max_delay_ms"] = str(delay_ms)
        started = worker(self.recording.work, self.server, cluster, "sessioned", name, **config)
        return self.stack.enter_context(started)


@contextmanager
def stage(work: Path) -> Iterator[Stage]:
    recording = Recording("causes", work)
    config = MODERN_CONFIG | {"group.min.session.timeout.ms": "1000"}
    with broker(VERSION, work, config=config) as server, ExitStack() as stack:
        with java(recording, server, "Producers") as producers:
            make_topics(recording, server, producers, TOPICS)
        yield Stage(server, recording, stack)


# ---- Kafka Connect


def lost_worker(stage: Stage, group: str) -> None:
    """A worker crashes: what it ran waits for it, and is then given to the other one."""
    first = stage.worker(group, 1, DELAY_MS, **PATIENT_WORKER)
    second = stage.worker(group, 2, DELAY_MS, **QUICK)
    first.create("src", "Source", 3)
    first.await_running("src", 3)
    status = first.request("/connectors/src/status")
    places = {f"src-{task['id']}": task["worker_id"] for task in status["tasks"]}
    places["src"] = status["connector"]["worker_id"]
    stage.seen["idle"] = {name for name in places if places[name] != first.address}
    words = ("--remove-member", f"{group}-2", "--max-delay", f"{DELAY_MS}ms", "--settle")
    stage.seen["plan"] = json.loads(stage.page("assign", group, *words, "-o", "jsonl"))
    second.process.kill()
    stage.await_members(group, 1)

    def is_over() -> bool:
        now = stage.group(group)
        return now.state == "Stable" and now.connect_delay_ms is None

    until(is_over, every_s=0.5)
    stage.seen["runs"] = connect_spec(stage.group(group), None, None, 0).members


def delayed_workers(stage: Stage, group: str) -> None:
    """Workers leave or get lost, and one of them is back before the delay is over."""
    first = stage.worker(group, 1, LONG_DELAY_MS, **PATIENT_WORKER)
    frozen = stage.worker(group, 2, LONG_DELAY_MS, **QUICK)
    leaving = stage.worker(group, 3, LONG_DELAY_MS, **PATIENT_WORKER)
    first.create("src", "Source", 6)
    first.await_running("src", 6)
    stage.seen["running"] = stage.page("check", group), stage.page("describe", group)
    from_ms = time.time() * 1000
    leaving.process.send_signal(signal.SIGTERM)
    stage.await_members(group, 2)
    to_ms = time.time() * 1000
    stage.seen["due"] = from_ms + LONG_DELAY_MS, to_ms + LONG_DELAY_MS
    stage.seen["left"] = stage.page("check", group), stage.page("describe", group)
    first.create("more", "Source", 1)
    first.await_running("more", 1)
    stage.seen["more"] = stage.page("check", group), stage.page("describe", group)
    frozen.process.send_signal(signal.SIGSTOP)
    stage.await_members(group, 1)
    frozen.process.send_signal(signal.SIGCONT)
    stage.await_members(group, 2)


# ---- Kafka Streams


def streams(stage: Stage, *groups: str) -> None:
    """An instance warms up until a probing rebalance; of another group a thread restarts."""
    producer = KafkaProducer(bootstrap_servers=stage.server.bootstrap)
    for key in range(20):
        producer.send("orders", key=b"%d" % key, value=b"x", partition=key % 2).get(30)
    producer.close()
    apps = stage.stack.enter_context(
        java(stage.recording, stage.server, "StreamsApps", artifacts="streams")
    )
    for group in groups:
        for number in (1, 2):
            name = f"{group}-{number}"
            start_streams(stage.recording, apps, group, name, is_keyed=True, **STREAMS)
        stage.await_members(group, 2)
        stage.seen[group] = stage.check(group)
    probing, restarting = groups
    before = stage.group(restarting)
    assert before.probing_ms is not None
    time.sleep(max(0, before.probing_ms / 1000 - 20 - time.time()))
    apps.call("streams-restart-thread", name=f"{restarting}-2")
    stage.await_members(restarting, 2, but=[member.member_id for member in before.members])
    until(lambda: all(member.assignment for member in stage.group(probing).members), every_s=0.5)


# ---- consumers


def consumers(stage: Stage) -> None:
    """The strategy changes twice; topics are deleted, and one is created again."""
    clients = stage.stack.enter_context(java(stage.recording, stage.server, "Consumers"))
    strategies = (f"{RANGE},{ROUND_ROBIN}", f"{RANGE},{ROUND_ROBIN}", ROUND_ROBIN)
    for number, strategy in enumerate(strategies, 1):
        config = PATIENT | {"partition_assignment_strategy": strategy}
        join_java(clients, "voting", f"vote-{number}", "orders,kept", **config)
        settle(clients, 4, *(f"vote-{each}" for each in range(1, number + 1)))
    clients.call("leave", name="vote-3")
    settle(clients, 4, "vote-1", "vote-2")

    config = PATIENT | {"metadata_max_age_ms": "500", "partition_assignment_strategy": RANGE}
    modern = {"group_protocol": "consumer", "metadata_max_age_ms": "500"}
    commits = {"enable_auto_commit": "true", "auto_commit_interval_ms": "200"}
    join_java(clients, "recreated", "again-1", "again,kept", **config, **commits)
    join_java(clients, "stored", "stored-1", "again,kept", **config)
    join_java(clients, "gone", "gone-1", "deleted,kept", **config)
    join_java(clients, "gone-modern", "gone-2", "deleted,kept", **modern)
    for name in ("again-1", "stored-1", "gone-1", "gone-2"):
        settle(clients, 4, name)
    until(lambda: len(stage.group("recreated").offsets) == 4)
    log = stage.recording.work / "clients.log"
    with Wire(VERSION, stage.server.bootstrap) as wire:
        before = _topic_id(wire)
        wire.call("DeleteTopics", 5, timeout_ms=30_000, topic_names=["again", "deleted"])
        noticed = re.compile("clientId=again-1.*again=UNKNOWN_TOPIC_OR_PARTITION")
        until(lambda: noticed.search(log.read_text("utf-8", "replace")))
        for group in ("gone", "gone-modern"):
            until(lambda group=group: _owned(stage.group(group)) == {"kept"}, every_s=0.5)  # type: ignore[misc]
        create_topics(wire, {"again": 2})
        stage.seen["topic ids"] = before, _topic_id(wire)
    until(lambda: _committed(stage.group("recreated"), "again") == {0}, every_s=0.5)
    clients.call("commit", name="stored-1", offsets="again:0:10", metadata="")


def _owned(group: Group) -> set[str | None]:
    return {at.topic for member in group.members for at in member.assignment or ()}


def _committed(group: Group, topic: str) -> set[int | None]:
    return {at.committed_offset for at in group.offsets if at.topic == topic}


def _topic_id(wire: Wire) -> str:
    topics = wire.call("Metadata", topics=None)["topics"]
    topic_id = next(topic["topic_id"] for topic in topics if topic["name"] == "again")
    return urlsafe_b64encode(UUID(str(topic_id)).bytes).decode().rstrip("=")


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """Play everything at once."""
    plays: Sequence[Callable[[Stage], None]] = (
        lambda stage: streams(stage, "probing", "restarting"),
        lambda stage: delayed_workers(stage, "awaited"),
        lambda stage: lost_worker(stage, "lost"),
        consumers,
    )
    with (
        ThreadPoolExecutor(len(plays)) as pool,  # clients end with the thread that started them
        stage(tmp_path_factory.mktemp("causes")) as place,
    ):
        for done in [pool.submit(play, place) for play in plays]:
            done.result()
        yield place


def rebalances(stage: Stage, cli: Cli, group: str) -> list[dict[str, Any]]:
    """Return what `kgroup history rebalances` says."""
    result = cli("history", "rebalances", group, "-b", stage.server.bootstrap, "-o", "json")
    assert result.status == 0, result.err
    rows: list[dict[str, Any]] = json.loads(result.out)["data"]
    return rows


def kinds(row: dict[str, Any]) -> list[tuple[str, str]]:
    return [(cause["kind"], cause["certainty"]) for cause in row["causes"]]


def codes(stage: Stage, cli: Cli, group: str) -> list[str]:
    """Return what `kgroup check` finds that is wrong."""
    result = cli("check", group, "-b", stage.server.bootstrap, "-o", "json")
    assert result.status in (0, 5), result.err
    return [row["code"] for row in json.loads(result.out)["data"] if row["severity"] != "info"]


def test_a_lost_worker(played: Stage, cli: Cli) -> None:
    """Its connectors were delayed, and the rebalance at the end of the delay was scheduled."""
    *made, lost, assigned = rebalances(played, cli, "lost")
    assert {kind for row in made for kind, _ in kinds(row)} == {"joined", "metadata_changed"}
    assert [("metadata_changed", "certain")] in [kinds(row) for row in made]
    assert kinds(lost) == [("gone", "inferred")]
    assert kinds(assigned) == [("scheduled", "certain")]
    assert f"{DELAY_MS} ms (delay)" in assigned["evidence"]
    (idle,) = re.findall("these did not run: (.+); all", assigned["evidence"])
    assert set(idle.split(", ")) == played.seen["idle"]
    assert assigned["time_ms"] - lost["time_ms"] >= DELAY_MS - 500
    assert codes(played, cli, "lost") == []
    plan = played.seen["plan"]
    assert plan["connect"]["delay_ms"] == DELAY_MS
    waiting = {
        name if task is None else f"{name}-{task}" for name, task in plan["connect"]["waiting"]
    }
    assert waiting == played.seen["idle"]
    (worker,), (after,) = played.seen["runs"], plan["following"]
    runs = [[name, None if task < 0 else task] for name, task in worker.owned]
    assert sorted(map(str, runs)) == sorted(map(str, after["assignment"][worker.member_id]))


def test_workers_that_are_awaited(played: Stage, cli: Cli) -> None:
    """Connectors wait for a worker that left; meanwhile one is made, and a worker returns."""
    check, page = played.seen["running"]
    assert (check, "delayed" in page) == ("Group awaited: no findings\n", False)
    earliest, latest = played.seen["due"]
    for name in ("left", "more"):
        check, page = played.seen[name]
        for text, start in ((check, "warning .* delayed-tasks .* "), (page, "\ndelayed .* ")):
            (due,) = re.findall(f"{start}until ([0-9T:.+Z-]+) ", text)
            due_ms = datetime.fromisoformat(due).timestamp() * 1000
            assert earliest - 30_000 <= due_ms <= latest, (name, due)
    rows = rebalances(played, cli, "awaited")
    counts = [len(row["members"]) for row in rows]
    left, lost = counts.index(2, counts.index(3)), counts.index(1, counts.index(3))
    assert kinds(rows[left]) == [("left", "certain")]
    assert kinds(rows[left + 1]) == [("metadata_changed", "certain")]
    meanwhile = {kind for row in rows[left + 1 : lost] for kind, _ in kinds(row)}
    assert meanwhile == {"metadata_changed"}
    assert kinds(rows[lost]) == [("gone", "inferred")]
    assert kinds(rows[lost + 1])[0] == ("restarted", "inferred")
    assert not [row for row in rows if "scheduled" in dict(kinds(row))]
    assert codes(played, cli, "awaited") == ["delayed-tasks"]


def test_a_probing_rebalance(played: Stage, cli: Cli) -> None:
    """The one that the previous assignment scheduled; until then one instance only warms up."""
    look = played.seen["probing"]
    (description,) = look.groups
    owned = [len(member.assignment or ()) for member in description.group.members]
    standby = [
        len(member.assignment_user_data["standbyTasks"]) for member in description.group.members
    ]
    assert (sorted(owned), sorted(standby)) == ([0, 2], [0, 2])
    assert [finding.code for finding in look.report.data] == []
    rows = rebalances(played, cli, "probing")
    scheduled = next(row for row in rows if dict(kinds(row)).get("scheduled") == "certain")
    assert kinds(scheduled) == [("scheduled", "certain")]
    assert str(description.group.probing_ms) in scheduled["evidence"]
    assert codes(played, cli, "probing") == []


def test_a_thread_that_restarts_before_a_probing_rebalance(played: Stage, cli: Cli) -> None:
    rows = rebalances(played, cli, "restarting")
    changed = [row for row in rows if row["members"] != row["members_before"]]
    causes = [row["cause"] for row in changed]
    assert causes[:2] == ["joined", "joined"]
    assert causes[2:] in (["left", "restarted"], ["restarted"])  # perhaps both in one rebalance
    assert not [row for row in changed if dict(kinds(row)).get("scheduled") == "certain"]


def test_the_strategy_changes(played: Stage, cli: Cli) -> None:
    rows = rebalances(played, cli, "voting")
    assert [row["protocol"] for row in rows] == ["range", "range", "roundrobin", "range"]
    joined = ("joined", "certain")
    changed = ("strategy_changed", "inferred")
    assert [kinds(row) for row in rows] == [
        [joined],
        [joined],
        [joined, changed],
        [("left", "certain"), changed],
    ]
    for row, text in zip(rows[2:], ("joined", "left"), strict=True):
        assert re.search(rf"the strategy changed .+ when vote-3\S* {text}$", row["evidence"])


def test_a_topic_that_is_created_again(played: Stage, cli: Cli) -> None:
    """Its members' commits have another topic id; an application may commit its old offsets."""
    before, after = played.seen["topic ids"]
    rows = rebalances(played, cli, "recreated")
    assert kinds(rows[0]) == [("joined", "certain")]
    again = rows[-1]
    assert kinds(again) == [("topics_changed", "inferred")]
    assert f"topic id {before} before, and {after} after" in again["evidence"]
    assert codes(played, cli, "recreated") == []
    assert codes(played, cli, "stored") == ["past-end"]


def test_a_topic_that_is_deleted(played: Stage, cli: Cli) -> None:
    for group, certainty, text in (
        ("gone", "inferred", "no partition of topic deleted is assigned any more"),
        ("gone-modern", "certain", "a topic was created or deleted"),
    ):
        assert codes(played, cli, group) == ["no-topic"]
        *_, last = rebalances(played, cli, group)
        assert kinds(last) == [("topics_changed", certainty)]
        assert text in last["evidence"]
