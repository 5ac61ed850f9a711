"""`kgroup decode-offsets -b` against the segments of the same broker, and what comes meanwhile."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.structs import OffsetAndMetadata
from pyarrow import parquet

from kgroup.model.problem import Problem
from kgroup.source.broker.live_log import LiveLogs, StartPosition
from kgroup.source.broker.source import LiveCluster
from tests.broker.follower import Follower
from tests.broker.maven import version_tuple
from tests.broker.proxy import RecordingProxy, why_not_harmless
from tests.broker.servers import Broker, broker
from tests.cli.command_line import Cli
from tests.record.raw import (
    RawMember,
    await_coordinator,
    commit,
    consumer_protocol,
    create_topics,
    delete_groups,
    join,
)
from tests.record.wire import Wire
from tests.waiting import until

CODECS = {"4.3.1": 4, "2.8.2": 1, "0.10.2.2": 2}
"""Numbers of the codecs that the coordinator uses: zstd, gzip, snappy (message format v1)."""
TRANSACTIONS_SINCE = (0, 11)


@dataclass
class Live:
    """A broker at rest, with records of many kinds.

    Attributes:
        server: the broker.
        middle_ms: a time before which about half of the records were written.
    """

    server: Broker
    middle_ms: int = 0
    producers: tuple[KafkaProducer, ...] = ()

    def commit(self, group: str, offset: int) -> None:
        with Wire(self.server.version, self.server.bootstrap) as wire:
            commit(wire, group, {("orders", 0): offset})

    @property
    def has_transactions(self) -> bool:
        return version_tuple(self.server.version) >= TRANSACTIONS_SINCE


def fill(live: Live, stack: ExitStack) -> None:
    version, bootstrap = live.server.version, live.server.bootstrap
    wire = stack.enter_context(Wire(version, bootstrap))
    create_topics(wire, {"orders": 3})
    await_coordinator(wire)
    member = RawMember(version, bootstrap, "steady")
    stack.callback(member.close)
    names = ["orders"]
    join(member, "steady", {"range": consumer_protocol(names)}, consumer_protocol(names, 0))
    for number in range(12):
        offsets = {("orders", partition): number for partition in range(3)}
        commit(wire, f"group-{number}", offsets, metadata="é" * 20 * number)
    time.sleep(0.05)
    live.middle_ms = int(1000 * time.time())
    time.sleep(0.05)
    for number in range(0, 12, 2):
        commit(wire, f"group-{number}", {("orders", 0): 100 + number})
    if version_tuple(version) >= (1, 1):
        delete_groups(wire, "group-3")
    if live.has_transactions:
        finished, pending = (
            KafkaProducer(
                bootstrap_servers=bootstrap, transactional_id=name, transaction_timeout_ms=600_000
            )
            for name in ("finished", "pending")
        )
        stack.callback(finished.close)
        for group, end in (("paid", True), ("unpaid", False)):
            finished.init_transactions()
            send(finished, group, 5)
            finished.commit_transaction() if end else finished.abort_transaction()
        pending.init_transactions()
        send(pending, "paid", 6)
        stack.callback(pending.close)
        stack.callback(pending.abort_transaction)


def send(producer: KafkaProducer, group: str, offset: int) -> None:
    """Begin a transaction, and commit an offset within it."""
    producer.begin_transaction()
    at = {TopicPartition("orders", 0): OffsetAndMetadata(offset, "", -1)}
    producer.send_offsets_to_transaction(at, group)


@pytest.fixture(scope="module", params=CODECS)
def live(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Live]:
    version: str = request.param
    config = {"offsets.topic.compression.codec": str(CODECS[version])}
    work = tmp_path_factory.mktemp(f"records-{version}")
    with broker(version, work, config=config) as server, ExitStack() as stack:
        found = Live(server)
        fill(found, stack)
        yield found


OPTIONS = [
    "-o jsonl",
    "-o csv",
    "-o table",
    "-o markdown",
    "-o json",
    "--isolation read-committed -o tsv",
    "--regex group-.* --partition 0 --type offsetcommit -o jsonl",
    "--topic orders --until {middle} -o jsonl",
    "--latest -o jsonl",
    "--latest --isolation read-committed --group paid --group group-1 -o jsonl",
    "--as-of {middle} -o jsonl",
    "--offsets-partition 1 --as-of 4 -o jsonl",
    "--stats",
    # What follows is looked for; a file is read from its beginning.
    "--since {middle} -o jsonl",
    "--since {middle} --latest -o jsonl",
    "--from-offset 5 -o jsonl",
    "--from-offset 5 --since {middle} --isolation read-committed -o jsonl",
    "--from-offset 1000000 -o csv",
    "--since 2999-01-01 -o csv",
    "--group paid --group group-4 -o jsonl",
]


@pytest.mark.parametrize("line", OPTIONS)
def test_the_same_as_from_its_files(live: Live, cli: Cli, line: str) -> None:
    options = line.format(middle=live.middle_ms).split()
    files = cli("decode-offsets", "--log-dir", live.server.log_dir, *options)
    result = cli("decode-offsets", "-b", live.server.bootstrap, *options)
    assert result.out.splitlines() == files.out.splitlines()
    assert result.status == files.status
    if "2999" in line:  # nothing is fetched, so the last record stays unknown
        assert "No record is known from 2999-01-01T00:00:00.000Z on." in result.err
        assert "The last record is from " in files.err
    else:
        assert result.err == files.err
    if "1000000" not in line and "2999" not in line:
        assert len(result.out.splitlines()) > 1


def test_there_is_something_of_everything(live: Live, cli: Cli) -> None:
    result = cli("decode-offsets", "-b", live.server.bootstrap, "--stats", "-o", "json")
    counts = {(row["by"], row["name"]) for row in json.loads(result.out)["data"]}
    codec = {4: "zstd", 1: "gzip", 2: "snappy"}[CODECS[live.server.version]]
    assert {("type", "GroupMetadata"), ("type", "OffsetCommit"), ("batch", codec)} <= counts
    if live.has_transactions:
        for status in ("committed", "aborted", "open"):
            assert ("transaction", status) in counts


def test_parquet(live: Live, cli: Cli, tmp_path: Path) -> None:
    files, result = tmp_path / "files.parquet", tmp_path / "live.parquet"
    bootstrap = live.server.bootstrap
    cli("decode-offsets", "--log-dir", live.server.log_dir, "--parquet", files)
    assert cli("decode-offsets", "-b", bootstrap, "--parquet", result).status == 0
    assert parquet.read_table(result).equals(parquet.read_table(files))


def test_less_is_fetched_where_it_is_known_where_to_begin(live: Live, tmp_path: Path) -> None:
    def fetched(start: StartPosition) -> int:
        with LiveCluster(live.server.bootstrap) as cluster:
            topic = cluster.offsets_log(tmp_path)
            for log in LiveLogs(topic, list(topic.leaders), start):
                assert not isinstance(log, Problem)
            return topic.bytes_copied

    everything = fetched(StartPosition())
    assert everything == sum(
        path.stat().st_size for path in live.server.log_dir.glob("__consumer_offsets-*/*.log")
    )
    assert 0 < fetched(StartPosition(time_ms=live.middle_ms)) < everything
    assert 0 < fetched(StartPosition(offset=5)) < everything
    assert fetched(StartPosition(at_end=True)) == 0
    assert list(tmp_path.iterdir()) == []


def test_names_that_are_not_there(live: Live, cli: Cli) -> None:
    result = cli("decode-offsets", "-b", live.server.bootstrap, "--group", "nobody", "-o", "tsv")
    assert (result.status, len(result.out.splitlines())) == (3, 1)
    assert result.err == (
        "kgroup: group 'nobody': not-found: There is no record about the group.\n"
    )
    # Whether there is one before that place is not known.
    options = ("--group", "nobody", "--from-offset", "1", "-o", "jsonl")
    result = cli("decode-offsets", "-b", live.server.bootstrap, *options)
    assert (result.status, result.out) == (0, "")
    assert result.err.startswith("kgroup: note: found no records of 'nobody'")
    result = cli("decode-offsets", "-b", live.server.bootstrap, "--offsets-partition", "4")
    assert (result.status, result.out) == (1, "")
    assert result.err == "kgroup: error: __consumer_offsets has no partition 4; it has 0 to 3\n"


def test_follow_begins_at_the_end(live: Live) -> None:
    with Follower(live.server.bootstrap) as follower:
        sent = 0
        while follower.is_quiet():
            sent += 1
            live.commit("late", sent)
            time.sleep(0.1)
        first = follower.row()
        assert first["key"]["data"] == {"group": "late", "topic": "orders", "partition": 0}
        begun = first["value"]["data"]["offset"]
        assert 1 <= begun <= sent
        rows = follower.rows(sent - begun)
        assert [row["value"]["data"]["offset"] for row in rows] == list(range(begun + 1, sent + 1))
        live.commit("late", 1000)  # a record at a time, however long after the last
        assert follower.row()["value"]["data"]["offset"] == 1000
        assert follower.is_quiet()
    assert (follower.status, follower.notes) == (130, [])


def test_follow_from_a_place(live: Live, cli: Cli) -> None:
    """All that is there, as in a run that ends; then what comes."""
    bootstrap = live.server.bootstrap
    before = cli("decode-offsets", "-b", bootstrap, "-o", "jsonl").out.splitlines()
    with Follower(bootstrap, "--from-offset", "0") as follower:
        assert follower.rows(len(before)) == [json.loads(line) for line in before]
        live.commit("early", 7)
        assert follower.row()["key"]["data"]["group"] == "early"
    since = [json.loads(line) for line in before]
    wanted = [row for row in since if (row["timestamp_ms"] or 0) >= live.middle_ms]
    with Follower(bootstrap, "--since", str(live.middle_ms)) as follower:
        assert follower.rows(len(wanted)) == wanted
    assert follower.status == 130


def test_follow_a_consumer(live: Live) -> None:
    """Its commits, and what its group is at the time, come as they are made."""
    bootstrap = live.server.bootstrap
    producer = KafkaProducer(bootstrap_servers=bootstrap)
    for _ in range(3):
        producer.send("orders", b"x", partition=2).get(30)
    producer.close()
    with Follower(bootstrap, "--group", "walker", "--from-offset", "0") as follower:
        consumer = KafkaConsumer(
            "orders",
            bootstrap_servers=bootstrap,
            group_id="walker",
            enable_auto_commit=False,
            auto_offset_reset="earliest",
        )
        at = TopicPartition("orders", 2)

        def has_read() -> bool:
            consumer.poll(timeout_ms=200)
            return at in consumer.assignment() and consumer.position(at) >= 3

        # kafka-python that joins before it knows of a topic may never be given its partitions.
        until(lambda: consumer.partitions_for_topic("orders"))
        until(has_read)
        consumer.commit()
        commit_of_2 = follower.row_of("walker", 3)
        while commit_of_2["key"]["data"]["partition"] != 2:
            commit_of_2 = follower.row_of("walker", 3)
        metadata = [row for row in follower.seen if row["type"] == "GroupMetadata"]
        generation = metadata[-1]["value"]["data"]
        assert generation["protocolType"] == "consumer"
        assert len(generation["members"]) == 1
        consumer.close()
        while follower.row()["type"] != "GroupMetadata":
            pass
        assert follower.seen[-1]["value"]["data"]["members"] == []
    assert {row["key"]["data"]["group"] for row in follower.seen} == {"walker"}


def test_who_reads_committed_records_waits_for_the_marker(live: Live) -> None:
    if not live.has_transactions:
        with Follower(live.server.bootstrap, "--isolation", "read-committed") as follower:
            while follower.is_quiet():
                live.commit("none", 1)
                time.sleep(0.1)
        return
    bootstrap = live.server.bootstrap
    wanted = ("--group", "waits", "--from-offset", "0")
    producer, other = (
        KafkaProducer(
            bootstrap_servers=bootstrap, transactional_id=name, transaction_timeout_ms=600_000
        )
        for name in ("waiting", "longer")
    )
    producer.init_transactions()
    other.init_transactions()
    with (
        Follower(bootstrap, *wanted) as at_once,
        Follower(bootstrap, *wanted, "--isolation", "read-committed") as waiting,
    ):

        def told(follower: Follower) -> tuple[Any, Any]:
            row = follower.row()
            return row["value"]["data"]["offset"], row["transaction"]

        live.commit("waits", 0)
        assert told(at_once) == told(waiting) == (0, None)
        send(producer, "waits", 1)
        assert told(at_once) == (1, "open")
        send(other, "waits", 2)
        assert told(at_once) == (2, "open")
        live.commit("waits", 3)
        assert told(at_once) == (3, None)
        time.sleep(1)
        assert waiting.is_quiet()
        # Its marker stands behind the first record of a transaction that is still open.
        producer.commit_transaction()
        assert told(waiting) == (1, "committed")
        other.abort_transaction()
        assert told(waiting) == (3, None)
        send(producer, "waits", 4)
        assert told(at_once) == (4, "open")
        producer.abort_transaction()
        live.commit("waits", 5)
        assert told(waiting) == told(at_once) == (5, None)
    producer.close()
    other.close()


def test_following_sends_only_questions(live: Live) -> None:
    server = live.server
    with RecordingProxy([server.port]) as proxy, Follower(proxy.bootstrap) as follower:
        while follower.is_quiet():
            live.commit("watched", 1)
            time.sleep(0.1)
    assert proxy.requests
    flaws = [why_not_harmless(request, server.version) for request in proxy.requests]
    assert [flaw for flaw in flaws if flaw] == []


def test_damage_and_a_restart(live: Live, cli: Cli) -> None:
    """Last: a batch is damaged while the broker is down. Who follows waits until it is back."""
    server = live.server
    with Follower(server.bootstrap) as follower:
        while follower.is_quiet():
            live.commit("over", 1)
            time.sleep(0.1)
        number = follower.row()["partition"]
        server.stop()
        assert "trying again" in follower.note()
        hit = (number + 1) % 4
        log = server.log_dir / f"__consumer_offsets-{hit}" / f"{0:020}.log"
        data = bytearray(log.read_bytes())
        data[len(data) // 2] ^= 0x10
        log.write_bytes(data)
        server.start()
        live.commit("over", 2)
        assert follower.row_of("over", 2)["partition"] == number
        until(lambda: any("can be read again" in note for note in follower.notes))
    assert follower.status == 130
    places = [(row["partition"], row["offset"]) for row in follower.seen]
    assert len(set(places)) == len(places)

    wanted = ("--offsets-partition", str(hit), "-o", "json")
    files = cli("decode-offsets", "--log-dir", server.log_dir, *wanted)
    result = cli("decode-offsets", "-b", server.bootstrap, *wanted)
    assert (result.status, files.status) == (4, 4)
    found, expected = json.loads(result.out), json.loads(files.out)
    assert found["data"] == expected["data"]
    (damage,), (there,) = found["errors"], expected["errors"]
    assert (damage["kind"], damage["reason"]) == (there["kind"], there["reason"])
    assert (damage["offsets_partition"], damage["broker"]) == (hit, server.broker_id)
    assert damage["path"] is damage["position"] is None
    offsets = [row["offset"] for row in expected["data"]]
    missing = set(range(max(offsets))) - set(offsets)
    assert damage["offset"] == min(missing)
