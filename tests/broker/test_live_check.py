"""`kgroup check` on a real cluster: every finding is brought about, and sound groups have none."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from dataclasses import dataclass
from functools import partial
from itertools import count
from pathlib import Path
from threading import Event
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError
from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.structs import OffsetAndMetadata

from kgroup.model.group import GroupState
from kgroup.operation.check.check import Request, check
from kgroup.operation.check.look import Thresholds
from kgroup.operation.check.rule import Basis, Finding, Rule, Severity
from kgroup.source.base import Question
from kgroup.source.broker.source import LiveCluster
from kgroup.source.log.source import LogDir
from tests.broker.group_tools import consumer_groups
from tests.broker.live_groups import MODERN_CONFIG, NEW, STICKY
from tests.broker.servers import Broker, broker, cluster
from tests.cli.command_line import Cli, Result
from tests.record.clients import ASSIGNOR, java, join_java, make_topics, settle
from tests.record.raw import (
    RawMember,
    await_coordinator,
    commit,
    configure_topic,
    consumer_protocol,
    create_topics,
    join,
    knock,
)
from tests.record.recording import Recording
from tests.record.session import Session
from tests.record.wire import Wire
from tests.waiting import PATIENCE_S, until

VERSION = "4.3.1"
FENCED_INSTANCE_ID = 82
TOPICS = {"orders": 3, "payments": 2, "clicks": 3, "single": 1, "cut": 1}
"""Ten records in each partition, and one more for each of its number."""
EAGER = {"partition_assignment_strategy": f"{ASSIGNOR}RangeAssignor"}
SOUND = ("sound", "sound-new")
HOUR_MS = 3_600_000
Labels = tuple[tuple[str, str], ...]
"""Names and values, in the order of the names."""
AT_ONCE = Thresholds(stuck_ms=0)
NO_PATIENCE = Thresholds(old_commit_ms=0, rebalance_ms=0, transaction_ms=-1, uneven=1.5)


@dataclass(frozen=True)
class Live:
    """A broker, its Java clients, and who speaks to it by hand."""

    server: Broker
    clients: Session
    wire: Wire
    producer: KafkaProducer

    def findings(
        self,
        *groups: str,
        rules: Collection[Rule] = (),
        limits: Thresholds = Thresholds(),  # noqa: B008, frozen
        meanwhile: Callable[[], object] | None = None,
    ) -> Sequence[Finding]:
        """Check groups, twice where something is to happen meanwhile."""
        request = Request(groups, rules=frozenset(rules), limits=limits)
        with LiveCluster(self.server.bootstrap, of_silence=True) as source:
            audit = check(source, request, now_ms, meanwhile)
        assert audit.report.errors == ()
        assert len(audit.groups) == len(groups)
        return audit.report.data

    def logged(self, *groups: str, limits: Thresholds = Thresholds()) -> Sequence[Finding]:  # noqa: B008
        """Check groups by the broker's own log."""
        request = Request(groups, limits=limits)
        report = check(LogDir([self.server.log_dir]), request, lambda: None).report
        assert report.errors == ()
        return report.data

    def await_members(self, group_id: str, count: int) -> None:
        """Wait until a group is complete with `count` members.

        A member that has its partitions tells the coordinator so a little later.
        """
        with LiveCluster(self.server.bootstrap, of_silence=True) as source:

            def is_complete() -> bool:
                group = source.read([group_id], Question(log_budget=0)).image.groups.get(group_id)
                return (
                    group is not None
                    and group.state is GroupState.STABLE
                    and len(group.members) == count
                )

            until(is_complete)

    def topics(self) -> set[str]:
        answer = self.wire.call("Metadata", 1, topics=None)
        return {topic["name"] for topic in answer["topics"]}

    def produce(self, topic: str, partition: int) -> None:
        self.producer.send(topic, b"x", partition=partition).get(30)


def now_ms() -> int:
    import time

    return time.time_ns() // 1_000_000


def codes(findings: Sequence[Finding]) -> list[tuple[str, str | None, int | None]]:
    return [(finding.code, finding.topic, finding.partition) for finding in findings]


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    work: Path = tmp_path_factory.mktemp("check")
    recording = Recording("check", work)
    config = {**MODERN_CONFIG, "group.min.session.timeout.ms": "1000"}
    with (
        broker(VERSION, work, config=config) as server,
        java(recording, server, "Consumers", "Producers", "Transactions") as clients,
        Wire(VERSION, server.bootstrap) as wire,
    ):
        make_topics(recording, server, clients, TOPICS)
        producer = KafkaProducer(bootstrap_servers=server.bootstrap)
        yield Live(server, clients, wire, producer)
        producer.close()


def test_sound_groups(live: Live, cli: Cli) -> None:
    """Two members each, that have committed all there is."""
    for group, options in zip(SOUND, (STICKY, NEW), strict=True):
        names = [f"{group}-{number}" for number in (1, 2)]
        for name in names:
            join_java(live.clients, group, name, "orders", **options)
        settle(live.clients, 3, *names)
        live.await_members(group, 2)
        owned = {name: live.clients.call("owned", name=name) for name in names}
        for name, partitions in owned.items():
            places = [at.rsplit("-", 1) for at in partitions.split(",")]
            offsets = ",".join(f"{topic}:{n}:{10 + int(n)}" for topic, n in places)
            live.clients.call("commit", name=name, offsets=offsets, metadata="")
    assert live.findings(*SOUND) == ()
    assert live.findings(*SOUND, meanwhile=lambda: None) == ()
    assert live.logged(*SOUND) == ()
    result = cli("check", *SOUND, "-b", live.server.bootstrap)
    assert (result.status, result.out) == (0, "2 groups without findings\n")
    assert re.fullmatch(
        r"(kgroup: note: The past of sound\S* was checked from .+\n){2}", result.err
    )
    ready = live.findings(*SOUND, rules=[Rule.CONSUMER_PROTOCOL])
    assert [(finding.group_id, finding.severity, finding.reason) for finding in ready] == [
        ("sound", "info", "Ready as far as known; unknown: client-version.")
    ]


def test_a_group_that_nobody_reads(live: Live, cli: Cli) -> None:
    commit(live.wire, "nobody", {("orders", 0): 4, ("orders", 1): 11})
    (finding,) = live.findings("nobody")
    assert finding.code is Rule.READER_WITHOUT_MEMBERSHIP, "its commits are fresh"
    late = Thresholds(old_commit_ms=-1, stuck_ms=-1)
    (finding,) = live.findings("nobody", limits=late)
    assert finding.code is Rule.NOBODY_READS
    assert finding.reason == "Up to 6 records waiting, and no active member."
    limits = Thresholds(old_commit_ms=-1, stuck_ms=-1, expiring_ms=8 * 24 * HOUR_MS)
    (_, finding) = live.findings("nobody", limits=limits)
    assert finding.code is Rule.EXPIRING_OFFSET
    assert finding.reason == (
        "2 committed offsets of the group will expire, the first in 168.0 hours."
    ), "seven days are the default of offsets.retention.minutes"
    where = ("-b", live.server.bootstrap, "--log-budget", "0")
    result = cli("check", "nobody", *where, "-o", "json")
    assert result.status == 5
    (row,) = json.loads(result.out)["data"]
    assert (row["code"], row["severity"], row["basis"]) == ("nobody-reads", "error", "look")


def test_commits_beside_the_log(live: Live) -> None:
    """Before its start, past its end."""
    live.wire.call(
        "DeleteRecords",
        timeout_ms=30_000,
        topics=[{"name": "cut", "partitions": [{"partition_index": 0, "offset": 4}]}],
    )
    commit(live.wire, "beside", {("cut", 0): 1, ("orders", 0): 1000})
    rules = (Rule.BEFORE_START, Rule.PAST_END)
    before, past = live.findings("beside", rules=rules)
    assert codes([before, past]) == [("before-start", "cut", 0), ("past-end", "orders", 0)]
    assert (before.log_start_offset, past.log_end_offset) == (4, 10)
    assert "goes to 4 and misses 3 records; with latest" in before.reason
    assert "goes to 10 and skips 6 more" in before.reason
    assert "goes to 0 and reads all of its 10 records again" in past.reason


def test_commits_of_a_topic_that_was_deleted(live: Live) -> None:
    """The broker forgets them some milliseconds after the topic: one has to look before that."""
    numbers = count()

    def is_seen() -> bool:
        name = f"gone-{next(numbers)}"
        found = codes(_findings_of_deleted(live, name))
        assert found[:2] == [("partition-gone", name, 0), ("no-topic", name, None)]
        return found[2:] == [("topic-gone", name, 0)]

    until(is_seen)


def _findings_of_deleted(live: Live, name: str) -> Sequence[Finding]:
    """Check a group whose member has committed, as soon as its topic is gone."""
    member = RawMember(VERSION, live.server.bootstrap, name)
    create_topics(live.wire, {name: 1})
    join(member, name, {"range": consumer_protocol([name])}, consumer_protocol([name], 0))
    commit(live.wire, name, {(name, 0): 0}, member=(member.member_id, member.generation))
    live.wire.call("DeleteTopics", 5, timeout_ms=30_000, topic_names=[name])
    until(lambda: name not in live.topics(), every_s=0.01)
    findings = live.findings(name)
    member.close()
    return findings


def test_a_consumer_that_stands_still(live: Live) -> None:
    """From two looks: its log grows, and its commit does not; and one that goes back."""
    join_java(live.clients, "stuck", "stuck-1", "payments", **STICKY)
    settle(live.clients, 2, "stuck-1")
    live.clients.call("commit", name="stuck-1", offsets="payments:0:9,payments:1:10", metadata="")
    assert live.findings("stuck") == ()
    findings = live.findings("stuck", meanwhile=lambda: live.produce("payments", 1), limits=AT_ONCE)
    assert [(finding.code, finding.partition, finding.basis) for finding in findings] == [
        (Rule.STUCK_PARTITION, 1, Basis.LOOKS)
    ]
    assert "the lag has grown from 1 to 2" in findings[0].reason
    findings = live.findings("stuck", meanwhile=lambda: live.produce("payments", 1))
    assert findings == (), "it may commit less often than that"
    findings = live.findings("stuck", limits=NO_PATIENCE)
    assert codes(findings) == [("old-commit", "payments", 0), ("old-commit", "payments", 1)]

    def go_back() -> None:
        live.clients.call("commit", name="stuck-1", offsets="payments:0:3", metadata="")

    findings = live.findings("stuck", meanwhile=go_back, rules=[Rule.BACKWARD_COMMIT])
    assert codes(findings) == [("backward-commit", "payments", 0)]
    assert findings[0].reason.startswith("payments-0: the committed offset went back from 9 to 3 ")
    live.clients.call("commit", name="stuck-1", offsets="orders:1:3", metadata="")
    findings = live.findings("stuck", rules=[Rule.OUTSIDE_COMMIT])
    assert codes(findings) == [("outside-commit", "orders", 1)]
    live.clients.call("leave", name="stuck-1")


def test_open_transactions(live: Live) -> None:
    """One of records, which a cluster tells; and one of commits, which only its log does."""
    bound = KafkaProducer(
        bootstrap_servers=live.server.bootstrap,
        transactional_id="open",
        transaction_timeout_ms=600_000,
    )
    bound.init_transactions()
    bound.begin_transaction()
    begin_ms = now_ms()
    bound.send("single", b"x", partition=0).get(30)
    commit(live.wire, "waiting", {("single", 0): 10})
    rules = [Rule.OPEN_TRANSACTION]
    findings = live.findings("waiting", meanwhile=lambda: None, rules=rules, limits=AT_ONCE)
    assert codes(findings) == [("open-transaction", "single", 0)]
    assert "the last stable offset is still 10 after" in findings[0].reason
    assert findings[0].log_end_offset == 11
    assert not live.findings("waiting", rules=rules), "it is not a quarter of an hour old"
    (finding,) = live.findings("waiting", rules=rules, limits=NO_PATIENCE)
    assert (finding.basis, finding.log_end_offset) == (Basis.LOOK, 11)
    assert re.match(
        r"single-0: a transaction began .* ago and is still open\. The last stable "
        r"offset is 10, ",
        finding.reason,
    )
    assert finding.since_ms is not None
    assert begin_ms <= finding.since_ms <= now_ms()
    bound.commit_transaction()
    bound.close()
    assert not live.findings("waiting", meanwhile=lambda: None, rules=rules, limits=AT_ONCE)
    live.clients.call(
        "transaction", id="t", group="waiting", offsets="cut:0:7", metadata="", end="open"
    )
    findings = [
        finding
        for finding in live.logged("waiting", limits=NO_PATIENCE)
        if finding.code is Rule.OPEN_TRANSACTION
    ]
    assert codes(findings) == [("open-transaction", "cut", 0)]
    assert findings[0].offset == 7


def test_lag_beyond_its_limits(live: Live, cli: Cli) -> None:
    """What waits is what Kafka's tool says; for how long, the time of the next record says."""
    create_topics(live.wire, {"late": 2})
    hour_ago_ms = now_ms() - HOUR_MS
    for offset in range(5):
        live.producer.send("late", b"x", partition=0, timestamp_ms=hour_ago_ms + offset).get(30)
        live.produce("late", 1)
    join_java(live.clients, "late", "late-1", "late", **STICKY)
    settle(live.clients, 2, "late-1")
    live.clients.call("commit", name="late-1", offsets="late:0:2,late:1:4", metadata="")
    where = ("check", "late", "-b", live.server.bootstrap)
    rows = consumer_groups(VERSION, live.server.bootstrap, "--describe", "--group", "late")
    lags = {(row["topic"], row["partition"]): int(row["lag"]) for row in rows}
    assert lags == {("late", "0"): 3, ("late", "1"): 1}

    def found(limit: str) -> list[str]:
        result = cli(*where, "--limit", limit, "-o", "jsonl")
        codes = [json.loads(line)["code"] for line in result.out.splitlines()]
        assert result.status == (5 if codes else 0), result.err
        return codes

    assert found(f"lag={sum(lags.values())},time-lag=2h") == []
    assert found(f"lag={sum(lags.values()) - 1},time-lag=59m") == ["lag", "time-lag"]
    sound, late = cli(*where, "--nagios"), cli(*where, "--nagios", "--limit", "lag=3,time-lag=59m")
    data = "error=0 warning={} info=0 lag=4"
    assert (sound.status, sound.out) == (
        0,
        f"KGROUP OK - nothing found; 1 group checked | {data.format(0)}\n",
    )
    assert late.status == 1
    first, *others = late.out.splitlines()
    assert first == f"KGROUP WARNING - 2 warning; 1 group checked | {data.format(2)}"
    assert [line[:20] for line in others] == ["warning: late: lag: ", "warning: late: time-"]

    before_ms = now_ms()
    gauges = read_gauges(cli(*where, "--prometheus").out)
    checked_s = gauges["kgroup_check_timestamp_seconds", ()]
    assert before_ms <= checked_s * 1000 <= now_ms()
    group = (("group", "late"),)
    places = {
        partition: (*group, ("partition", partition), ("topic", "late")) for partition in "01"
    }
    with closing(KafkaConsumer(bootstrap_servers=live.server.bootstrap)) as reader:
        at = TopicPartition("late", 0), TopicPartition("late", 1)
        reader.assign(at)
        next_ms = {}
        for partition, offset in zip(at, (2, 4), strict=True):
            reader.seek(partition, offset)
        until(lambda: next_ms.update(_times(reader.poll(200))) or len(next_ms) == 2)
    for partition, place in places.items():
        assert gauges["kgroup_partition_lag_records", place] == lags["late", partition]
        waited_s = checked_s - next_ms[int(partition)] / 1000
        assert gauges["kgroup_partition_time_lag_seconds", place] == pytest.approx(waited_s, abs=1)
    waited_s = checked_s - (hour_ago_ms + 2) / 1000
    whole: Mapping[str, Labels] = {"group": group, "topic": (*group, ("topic", "late"))}
    for name, labels in whole.items():
        assert gauges[f"kgroup_{name}_lag_records", labels] == 4
        assert gauges[f"kgroup_{name}_time_lag_seconds", labels] == pytest.approx(waited_s, abs=1)
    (state,) = consumer_groups(
        VERSION, live.server.bootstrap, "--describe", "--group", "late", "--state"
    )
    assert gauges["kgroup_group_members", group] == int(state["#members"])
    of_state = (*group, ("state", state["state"]), ("type", "classic"))
    assert gauges["kgroup_group_state", of_state] == 1
    assert 0 <= gauges["kgroup_group_commit_age_seconds", group] < 3600
    live.clients.call("leave", name="late-1")


def _times(polled: Mapping[TopicPartition, Sequence[Any]]) -> dict[int, int]:
    """Return the time of the first record of each partition."""
    return {at.partition: records[0].timestamp for at, records in polled.items() if records}


def read_gauges(text: str) -> dict[tuple[str, Labels], float]:
    """Read Prometheus' text format strictly: HELP and TYPE before the samples of each gauge.

    Returns:
        Values by name and labels, these in the order of their names.
    """
    found = {}
    name, helped = "", ""
    for line in text.splitlines():
        if (start := re.fullmatch(r"# HELP ([a-z_]+) \S.*", line)) is not None:
            helped = start[1]
        elif (start := re.fullmatch(r"# TYPE ([a-z_]+) gauge", line)) is not None:
            name = start[1]
            assert name == helped, line
        else:
            sample = re.fullmatch(
                r'([a-z_]+)(?:\{((?:[a-z]+="(?:[^"\\]|\\.)*",?)+)\})? (\S+)', line
            )
            assert sample is not None, line
            assert sample[1] == name, line
            labels = tuple(sorted(re.findall(r'([a-z]+)="((?:[^"\\]|\\.)*)"', sample[2] or "")))
            assert (name, labels) not in found, line
            found[name, labels] = float(sample[3])
    return found


def test_partitions_that_a_smaller_topic_does_not_have(live: Live, cli: Cli) -> None:
    """A member that does not poll for a while keeps them; the broker deletes their commits."""
    create_topics(live.wire, {"shrunk": 3})
    options = {"group_id": "shrunk", "bootstrap_servers": live.server.bootstrap}
    with closing(
        KafkaConsumer("shrunk", **options, enable_auto_commit=False, client_id="shrunk-1")
    ) as consumer:
        # Who joins before it knows the topic's partitions assigns none, and waits for minutes.
        until(lambda: len(consumer.partitions_for_topic("shrunk") or ()) == 3)
        until(lambda: consumer.poll(200) is not None and len(consumer.assignment()) == 3)
        live.await_members("shrunk", 1)
        consumer.commit({at: OffsetAndMetadata(0, "", -1) for at in consumer.assignment()})
        assert live.findings("shrunk") == ()
        live.wire.call("DeleteTopics", 5, timeout_ms=30_000, topic_names=["shrunk"])
        until(lambda: "shrunk" not in live.topics())
        create_topics(live.wire, {"shrunk": 1})
        live.produce("shrunk", 0)  # over when the broker leads it: until then it is as if deleted
        until(lambda: consumer.committed(TopicPartition("shrunk", 0)) is None)
        (finding,) = live.findings("shrunk", rules=[Rule.PARTITION_GONE, Rule.TOPIC_GONE])
        assert (finding.code, finding.topic) == (Rule.PARTITION_GONE, "shrunk")
        rows = consumer_groups(
            VERSION, live.server.bootstrap, "--describe", "--group", "shrunk", "--members"
        )
        assert [(row["consumer-id"], row["#partitions"]) for row in rows] == [
            (finding.member_id, "3")
        ]
        assert finding.reason == (
            "shrunk-1 at 127.0.0.1 owns shrunk-1, shrunk-2; shrunk has no such partitions."
        )
        result = cli("check", "shrunk", "-b", live.server.bootstrap)
        assert (result.status, "partition-gone" in result.out) == (5, True)


def test_two_processes_of_one_instance_id(live: Live, cli: Cli) -> None:
    """Each is started again when the other one has fenced it, as a supervisor does."""
    options = {
        "bootstrap.servers": live.server.bootstrap,
        "group.id": "twins",
        "group.instance.id": "pod-1",
        "heartbeat.interval.ms": 100,
        "log_level": 0,
    }
    is_over, fenced = Event(), [0, 0]

    def run(number: int) -> None:
        while not is_over.is_set():
            with closing(Consumer(options | {"client.id": f"twin-{number}"})) as consumer:
                consumer.subscribe(["orders"])
                while not is_over.is_set():
                    message = consumer.poll(0.1)
                    error = None if message is None else message.error()
                    if error is not None and error.code() == KafkaError._FATAL:
                        fenced[number] += 1
                        break

    def reported(result: Result) -> Result | None:
        return result if result.out else None

    with ThreadPoolExecutor(2) as pool:
        twins = [pool.submit(run, number) for number in range(2)]
        try:
            until(lambda: min(fenced) > 1)
            where = ("check", "twins", "-b", live.server.bootstrap, "--rule", "shared-instance-id")
            looks = ("--interval", "1", "--no-past", "-o", "jsonl")
            result = until(lambda: reported(cli(*where, *looks)))
        finally:
            is_over.set()
    assert [twin.exception() for twin in twins] == [None, None]
    assert result.status == 5, result.err
    row = json.loads(result.out)
    assert (row["group_id"], row["severity"], row["basis"]) == ("twins", "error", "looks")
    ids = re.fullmatch(
        r"pod-1 had the member ids (\S+), then (\S+), then (\S+) within \d+ s in generation "
        r"\d+; the last member runs on 127\.0\.0\.1\. The replaced process, in librdkafka: .+\.",
        row["reason"],
    )
    assert ids is not None, row["reason"]
    assert len(set(ids.groups())) == 3
    assert row["member_id"] == ids[3]


def test_shares_of_members(live: Live) -> None:
    """Range gives the first of two members all topics of one partition; three leave one idle."""
    for number in (1, 2):
        join_java(live.clients, "idle", f"idle-{number}", "single,cut", **EAGER)
        join_java(live.clients, "many", f"many-{number}", "single", **STICKY)
        join_java(live.clients, "uneven", f"uneven-{number}", "orders,clicks", **EAGER)
    for group in ("idle", "many", "uneven"):
        live.await_members(group, 2)
    until(lambda: codes(live.findings("many")) == [("too-many-members", None, None)])
    wanted = [("idle-member", None, None), ("eager-strategy", None, None)]
    until(lambda: codes(live.findings("idle")) == wanted)
    idle, eager = live.findings("idle")
    assert idle.member_id is not None
    assert idle.member_id.startswith("idle-2")
    assert (
        eager.reason == "The assignor range is eager: both members stop reading in each rebalance."
    )
    rules = [Rule.UNEVEN_LOAD]
    until(lambda: codes(live.findings("uneven", limits=NO_PATIENCE, rules=rules)))
    (finding,) = live.findings("uneven", limits=NO_PATIENCE, rules=rules)
    assert " has 4 partitions, but uneven-2" in finding.reason
    assert live.findings("uneven", rules=rules) == (), "twice as many are allowed"
    for group in ("idle", "many", "uneven"):
        for number in (1, 2):
            live.clients.call("leave", name=f"{group}-{number}")


def test_partitions_that_nobody_owns(live: Live) -> None:
    """A leader that gives only one of three away."""
    member = RawMember(VERSION, live.server.bootstrap, "lazy")
    join(member, "lazy", {"range": consumer_protocol(["orders"])}, consumer_protocol(["orders"], 0))
    findings = live.findings("lazy")
    assert codes(findings) == [("no-owner", "orders", 1), ("no-owner", "orders", 2)]
    second = RawMember(VERSION, live.server.bootstrap, "second")
    knock(second, "lazy", {"range": consumer_protocol(["orders"])})
    waits = (
        "The coordinator waits for lazy at 127.0.0.1 to rejoin, for at most 30 minutes (rebalance "
    )
    (finding,) = live.findings("lazy")
    assert (finding.code, finding.severity) == (Rule.LONG_REBALANCE, Severity.INFO)
    assert waits in finding.reason
    (finding,) = live.findings("lazy", meanwhile=lambda: None, limits=NO_PATIENCE)
    assert (finding.code, finding.basis) == (Rule.LONG_REBALANCE, Basis.LOOKS)
    assert waits in finding.reason
    (finding,) = live.findings("lazy", meanwhile=lambda: None)
    assert (finding.severity, finding.basis) == (Severity.INFO, Basis.LOOK), "a minute is allowed"
    (finding,) = live.findings("lazy", rules=[Rule.CONSUMER_PROTOCOL])
    assert finding.reason.startswith("Not ready: stable (state PreparingRebalance of a group of ")
    member.close()
    second.close()


def test_rebalances_that_follow_each_other(live: Live) -> None:
    """And a static member that leaves for now, in a group of the consumer protocol."""
    join_java(live.clients, "busy", "busy-1", "orders", **NEW, group_instance_id="pod-1")
    settle(live.clients, 3, "busy-1")
    live.await_members("busy", 1)

    def come_and_go() -> None:
        join_java(live.clients, "busy", "busy-2", "orders", **NEW, group_instance_id="pod-2")
        settle(live.clients, 3, "busy-1", "busy-2")
        join_java(live.clients, "busy", "busy-3", "orders", **NEW, group_instance_id="pod-3")
        settle(live.clients, 3, "busy-1", "busy-2", "busy-3")
        live.await_members("busy", 3)

    findings = live.findings("busy", meanwhile=come_and_go)
    assert [(finding.code, finding.basis) for finding in findings] == [
        (Rule.LONG_REBALANCE, Basis.LOOKS)
    ]
    assert " rebalances within " in findings[0].reason

    def leave_for_now() -> None:
        live.clients.call("leave", name="busy-2")

    findings = live.findings("busy", meanwhile=leave_for_now, rules=[Rule.MISSING_STATIC_MEMBER])
    assert [finding.reason.partition(" ")[0] for finding in findings] == ["pod-2"]


def test_a_classic_static_member_that_does_not_come_back(live: Live) -> None:
    options = {**STICKY, "group_instance_id": "pod-1", "session_timeout_ms": "10000"}
    join_java(live.clients, "static", "static-1", "orders", **options, heartbeat_interval_ms="900")
    settle(live.clients, 3, "static-1")

    def leave() -> None:
        live.clients.call("leave", name="static-1")
        with LiveCluster(live.server.bootstrap, of_silence=True) as source:
            until(lambda: not source.read(["static"]).image.groups["static"].members)

    findings = live.findings("static", meanwhile=leave, rules=[Rule.MISSING_STATIC_MEMBER])
    assert [(finding.reason, finding.basis) for finding in findings] == [
        ("pod-1 was a member in the first look, but no longer is.", Basis.LOOKS)
    ]


@pytest.mark.parametrize(("group", "options"), [("half", STICKY), ("half-new", NEW)])
def test_members_of_which_one_is_static(
    live: Live, cli: Cli, group: str, options: dict[str, str]
) -> None:
    """The finding's plan is about the other one, and no failure for a monitoring system."""
    static, dynamic = f"{group}-static", f"{group}-dynamic"
    join_java(live.clients, group, static, "orders", **options, group_instance_id="pod-1")
    join_java(live.clients, group, dynamic, "orders", **options)
    settle(live.clients, 3, static, dynamic)
    live.await_members(group, 2)
    (finding,) = live.findings(group, rules=[Rule.MIXED_MEMBERSHIP])
    assert finding.reason.startswith("1 of 2 members are static; partitions move when these ")
    assert finding.reason.endswith(f" restart: {dynamic} at 127.0.0.1.")
    plan = cli(*finding.commands[0].split()[1:], "-b", live.server.bootstrap)
    assert plan.status == 0
    assert re.findall(r"(\S+): group\.instance\.id=", plan.out) == [dynamic]
    past = cli("check", group, "-b", live.server.bootstrap, "--nagios", "--limit", "past=1h")
    assert past.out.startswith(("KGROUP OK", "KGROUP WARNING")), past.out


def test_members_of_two_protocols(live: Live) -> None:
    join_java(live.clients, "mixed", "mixed-old", "orders", **STICKY)
    settle(live.clients, 3, "mixed-old")
    join_java(live.clients, "mixed", "mixed-new", "orders", **NEW)
    settle(live.clients, 3, "mixed-old", "mixed-new")
    live.await_members("mixed", 2)
    (finding,) = live.findings("mixed")
    assert finding.code is Rule.MIXED_PROTOCOLS
    assert finding.reason.startswith("1 of 2 members use the classic protocol: mixed-old at ")


def test_members_that_ask_for_two_assignors(live: Live) -> None:
    """Which one a member asks for stands in the log alone, and is read from a log directory."""
    for number, assignor in enumerate(("uniform", "range", "range"), 1):
        wanted = {**NEW, "group_remote_assignor": assignor}
        join_java(live.clients, "asking", f"asking-{number}", "orders", **wanted)
    settle(live.clients, 3, "asking-1", "asking-2", "asking-3")
    live.await_members("asking", 3)
    (finding,) = live.logged("asking")
    assert (finding.code, finding.basis) == (Rule.MIXED_ASSIGNORS, Basis.LOG)
    assert finding.reason == (
        "Members request different assignors, 2 for range, 1 for uniform; the "
        "coordinator uses range."
    )


def test_a_session_that_is_longer_than_the_poll_interval(live: Live) -> None:
    """What a member asked for stands in the log alone."""
    odd = {"session_timeout_ms": "20000", "max_poll_interval_ms": "15000"}
    join_java(live.clients, "odd", "odd-1", "orders", **STICKY, **odd)
    settle(live.clients, 3, "odd-1")
    (finding,) = live.logged("odd")
    assert finding.code is Rule.SESSION_TIMEOUT
    assert "a session timeout of 20000 ms, longer than the poll interval of 15000 ms" in (
        finding.reason
    )
    (finding,) = live.findings("odd")
    assert finding.code is Rule.SESSION_TIMEOUT


def take_turns(live: Live, group: str, joins: int) -> None:
    """Have processes of one instance id join a group; each fences the one before it."""
    subscription, assignment = consumer_protocol(["orders"]), consumer_protocol(["orders"], 0)
    with ExitStack() as stack:
        members: list[RawMember] = []
        for number in range(joins):
            process = RawMember(VERSION, live.server.bootstrap, f"{group}-{number % 2}")
            stack.callback(process.close)
            join(process, group, {"range": subscription}, assignment, instance_id="pod-1")
            members.append(process)
        codes = [
            member.wire.call(
                "Heartbeat",
                group_id=group,
                generation_id=member.generation,
                member_id=member.member_id,
                group_instance_id="pod-1",
            )["error_code"]
            for member in members
        ]
        assert codes == [FENCED_INSTANCE_ID] * (joins - 1) + [0]
        assert {member.generation for member in members} == {1}


def test_what_a_warehouse_tells(live: Live, cli: Cli, tmp_path: Path) -> None:
    """Somebody comes and goes, a commit goes back and stands still, two share an instance id.

    All that before the look. A static member that is restarted a few times is no finding.
    """
    take_turns(live, "twice", 8)
    take_turns(live, "restarted", 4)
    join_java(live.clients, "past", "past-1", "payments", **STICKY)
    for _ in range(3):
        join_java(live.clients, "past", "past-2", "payments", **STICKY)
        settle(live.clients, 2, "past-1", "past-2")
        live.clients.call("leave", name="past-2")
        settle(live.clients, 2, "past-1")
    for offset in (9, 3):
        live.clients.call("commit", name="past-1", offsets=f"payments:0:{offset}", metadata="")
    where, file, warehouse = ("-b", live.server.bootstrap), tmp_path / "s.json", tmp_path / "w"
    assert cli("check", "past", *where, "--no-past").status == 0
    logged = cli("check", "past", *where, "-X", "no.such.setting=1", "-o", "json")
    assert logged.status == 5, logged.err
    assert logged.err.count("no.such.setting") == 1
    logged_rows = {row["code"]: row for row in json.loads(logged.out)["data"]}
    assert logged_rows.keys() == {"backward-commit", "rebalance-storm"}, "no snapshot: no log ends"
    for row in logged_rows.values():
        assert row["basis"] == "log"
        assert row["commands"][0].endswith(f" -b {live.server.bootstrap} -X no.such.setting=1")
    assert cli("snapshot", "past", *where, "-f", file).status == 0
    for source in (where, ("--from", file)):
        assert cli("history", "build", *source, "--to", warehouse).status == 0
    live.produce("payments", 0)
    time.sleep(1)  # for so long the commit has to stand still
    past = ("--warehouse", warehouse, "--limit", "stuck=1s")
    result = cli("check", "past", *where, *past, "-o", "json")
    assert result.status == 5, result.err
    data = json.loads(result.out)["data"]
    rows = [row for row in data if row["code"] != "never-committed"]  # of the other partitions
    assert [(row["code"], row["partition"], row["basis"]) for row in rows] == [
        ("stuck-partition", 0, "warehouse"),
        ("backward-commit", 0, "warehouse"),
        ("rebalance-storm", None, "warehouse"),
    ]
    for row in rows[1:]:
        assert row["reason"] == logged_rows[row["code"]]["reason"]
    assert rows[1]["reason"].startswith("payments-0: past-1-")
    assert ", after 9" in rows[1]["reason"]
    assert "; past-2 was among the causes of " in rows[2]["reason"]
    for row in rows:
        assert row["evidence_from_ms"] <= row["since_ms"] <= row["evidence_to_ms"] < now_ms()
    sound = cli("check", "sound", *where, *past, "-o", "json")
    assert json.loads(sound.out)["data"] == [], "others did nothing of the kind"
    live.clients.call("leave", name="past-1")
    of_log = tmp_path / "of-log"
    assert cli("history", "build", "--from", live.server.log_dir, "--to", of_log).status == 0
    for built in (warehouse, of_log):
        shared = ("--warehouse", built, "--rule", "shared-instance-id")
        result = cli("check", "twice", *where, *shared, "-o", "json")
        assert result.status == 5, result.err
        (row,) = json.loads(result.out)["data"]
        assert (row["code"], row["basis"]) == ("shared-instance-id", "warehouse")
        assert row["reason"].startswith("pod-1 was replaced 7 times within ")
        assert " in generation 1, since " in row["reason"]
        assert row["reason"].endswith("Z, on 127.0.0.1.")
        assert cli("check", "restarted", *where, *shared).status == 0
    for source in (where, ("--log-dir", live.server.log_dir)):
        result = cli("check", "twice", *source, "--rule", "shared-instance-id", "-o", "json")
        (of_log_row,) = json.loads(result.out)["data"]
        assert (of_log_row["basis"], of_log_row["reason"]) == ("log", row["reason"])


def consume(bootstrap: str, group: str, client: str, waits_s: Sequence[float], end: Event) -> None:
    """Poll, and wait after each assignment; then poll until it is over, and leave."""
    options = {
        "bootstrap.servers": bootstrap,
        "group.id": group,
        "client.id": client,
        "session.timeout.ms": 3000,
        "max.poll.interval.ms": 6000,
        "heartbeat.interval.ms": 500,
        "enable.auto.commit": False,
        "log_level": 0,
    }
    assigned: list[object] = []

    def poll(count: int) -> bool:
        consumer.poll(0.1)
        return len(assigned) > count

    with closing(Consumer(options)) as consumer:
        consumer.subscribe(["orders"], on_assign=lambda _, partitions: assigned.append(partitions))
        for wait_s in waits_s:
            until(partial(poll, len(assigned)))
            time.sleep(wait_s)
        while not end.is_set():
            consumer.poll(0.1)


def test_why_a_group_rebalances(live: Live, cli: Cli, tmp_path: Path) -> None:
    """One member polls too late; in another group one restarts; in a third one is restarted."""
    server, end, at_once = live.server.bootstrap, Event(), Event()
    at_once.set()
    with ThreadPoolExecutor(3) as pool:
        try:
            steady = [
                pool.submit(consume, server, group, "steady", (), end)
                for group in ("slow", "crashing")
            ]
            late = pool.submit(consume, server, "slow", "late-1", [9.0] * 4, at_once)
            for group, client, count in (("crashing", "crash-1", 5), ("deployed", "web-1", 2)):
                for _ in range(count):
                    consume(server, group, client, [0.0], at_once)
            late.result(PATIENCE_S)
        finally:
            end.set()
        for each in steady:
            each.result(PATIENCE_S)
    for group, code, who in (
        ("slow", "late-poll", "late-1"),
        ("crashing", "restarting-member", "crash-1"),
    ):
        where, warehouse = ("-b", server), str(tmp_path / group)
        assert cli("history", "build", *where, "--to", warehouse).status == 0
        answers = []
        for source in (
            where,
            ("--log-dir", str(live.server.log_dir)),
            (*where, "--warehouse", warehouse),
        ):
            result = cli("why", group, *source, "-o", "json")
            assert result.status == 5, result.err
            row, *others = json.loads(result.out)["data"]
            assert (row["code"], row["client_id"]) == (code, who), result.out
            assert row["client_host"] == "/127.0.0.1"
            assert row["event_count"] >= 3
            assert row["evidence_count"] >= len(row["evidence"]) > 0
            answers.append(
                {
                    key: row[key]
                    for key in ("reason", "evidence", "consequences", "since_ms", "timeout_ms")
                }
            )
            assert not {other["code"] for other in others} & {"rebalance-storm"}
        assert answers[0] == answers[1] == answers[2]
        if group == "slow":
            assert answers[0]["timeout_ms"] == 6000
    shown = cli("why", "slow", "-b", server, "--explain")
    assert "max.poll.interval.ms: 6 s" in shown.out
    assert cli("why", "deployed", "-b", server, "--rule", "restarting-member").status == 0


def test_a_commit_of_another_log(tmp_path: Path) -> None:
    """The epoch of the commit ended before it: Java's consumer resumes there, not at the commit."""
    recording = Recording("diverged", tmp_path)
    with broker(VERSION, tmp_path) as server:
        with java(recording, server, "Producers") as clients:
            make_topics(recording, server, clients, {"again": 1})  # 10 records
        server.stop()
        server.start()  # another leader epoch begins
        with (
            java(recording, server, "Consumers", "Producers") as clients,
            Wire(VERSION, server.bootstrap) as wire,
        ):
            await_coordinator(wire)
            clients.call("produce", topic="again", partition=0, count=190)
            for group, epoch in (("same", None), ("first", 0), ("none", 99)):
                more: dict[str, Any] = {"committed_leader_epoch": -1 if epoch is None else epoch}
                commit(wire, group, {("again", 0): 100}, **more)
            commit(wire, "early", {("again", 0): 10}, committed_leader_epoch=0)
            request = Request(rules=frozenset({Rule.DIVERGED_COMMIT}))
            with LiveCluster(server.bootstrap, of_silence=True) as source:
                rows = check(source, request, now_ms).report.data
            assert [(row.group_id, row.offset) for row in rows] == [("first", 100), ("none", 100)]
            assert "ends at 10: a consumer that starts resumes at 10, 90 offsets" in rows[0].reason
            assert "the log has no such epoch" in rows[1].reason
            for group in ("first", "same"):
                join_java(clients, group, group, "again", **STICKY)
                settle(clients, 1, group)
            first, same = (
                until(lambda group=group: reads(clients.call("journal"), group))  # type: ignore[misc]
                for group in ("first", "same")
            )
            assert (first, same) == (10, 100)


def reads(journal: str, name: str) -> int | None:
    """Return the first offset that a consumer of Java's has read."""
    lines = (line.split(" ") for line in journal.splitlines())
    return next((int(line[4]) for line in lines if line[1:3] == [name, "read"]), None)


def test_the_offsets_topic_and_all_groups(live: Live, cli: Cli) -> None:
    where = ("-b", live.server.bootstrap, "--rule", "offsets-topic")
    assert cli("check", *where).status == 0
    configure_topic(live.wire, "__consumer_offsets", cleanup_policy="delete")
    result = cli("check", *where, "-o", "jsonl")
    assert result.status == 5
    row = json.loads(result.out)
    assert (row["code"], row["group_id"]) == ("offsets-topic", None)
    assert row["reason"] == "cleanup.policy is delete, which deletes commits."
    assert cli("check", *where, "nobody").status == 0, "of named groups, the cluster is not judged"
    configure_topic(live.wire, "__consumer_offsets", cleanup_policy="compact")
    result = cli("check", "-b", live.server.bootstrap, "--nagios")
    assert result.status == 2
    assert result.out.startswith("KGROUP CRITICAL - ")


def test_two_brokers(tmp_path: Path) -> None:
    """One coordinates all groups, as there is one partition; then the other is stopped."""
    config = {"offsets.topic.num.partitions": "1", "offsets.topic.replication.factor": "2"}
    with cluster(VERSION, 2, tmp_path, config=config) as brokers:
        with Wire(VERSION, brokers[0].bootstrap) as wire:
            create_topics(wire, {"orders": 1})
            await_coordinator(wire)
            answer = wire.call("FindCoordinator", 0, key="anything")
        leader = next(each for each in brokers if each.broker_id == answer["node_id"])
        with Wire(VERSION, leader.bootstrap) as wire:
            for number in range(20):
                commit(wire, f"group-{number}", {("orders", 0): 0})

        def found() -> list[tuple[str, str]]:
            with LiveCluster(leader.bootstrap, of_silence=True) as source:
                report = check(source, Request(), now_ms).report
            return [
                (finding.code, finding.reason)
                for finding in report.data
                if finding.group_id is None
            ]

        load = (
            "coordinator-load",
            f"Broker {leader.broker_id} coordinates 20 of 20 groups; the mean of 2 brokers is 10.",
        )
        one = ("offsets-topic", "One partition only: one broker coordinates all groups.")
        with LiveCluster(leader.bootstrap, of_silence=True) as source:
            limits = Thresholds(coordinated=1.9)
            report = check(source, Request(limits=limits), now_ms).report
        about_brokers = [finding for finding in report.data if finding.group_id is None]
        assert [(finding.code, finding.reason) for finding in about_brokers] == [load, one]
        assert found() == [one], "no more than twice the mean"
        other = next(each for each in brokers if each is not leader)
        other.stop()
        behind = ("offsets-topic", "Partitions with out-of-sync replicas: 0.")
        until(lambda: behind in found())
