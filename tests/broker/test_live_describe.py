"""What `kgroup describe` shows of groups in trouble, on a live broker."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from struct import pack
from typing import Any

import pytest
from kafka import KafkaConsumer, KafkaProducer, TopicPartition

from tests.broker.servers import Broker, broker
from tests.cli.command_line import Cli, Result
from tests.record.raw import (
    RawMember,
    await_coordinator,
    commit,
    configure_topic,
    create_topics,
    join,
    knock,
)
from tests.record.wire import Wire
from tests.waiting import until, until_steady

VERSION = "4.3.1"
CONFIG = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "allow.everyone.if.no.acl.found": "true",
    "log.flush.start.offset.checkpoint.interval.ms": "100",
    "log.initial.task.delay.ms": "100",
    "log.retention.check.interval.ms": "100",
    "log.retention.ms": "-1",  # times of records are made up
}


def subscription(*topics: str) -> bytes:
    """ConsumerProtocol, version 0: topics, no user data."""
    return pack(">hi", 0, len(topics)) + b"".join(map(_text, topics)) + pack(">i", -1)


def assignment(partitions: Sequence[tuple[str, int]]) -> bytes:
    """ConsumerProtocol, version 0: each partition as a topic with one of them, no user data."""
    rows = b"".join(_text(topic) + pack(">ii", 1, number) for topic, number in partitions)
    return pack(">hi", 0, len(partitions)) + rows + pack(">i", -1)


def _text(text: str) -> bytes:
    return pack(">h", len(text)) + text.encode()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    with broker(VERSION, tmp_path_factory.mktemp("describe"), config=CONFIG) as server:
        with Wire(VERSION, server.bootstrap) as wire:
            create_topics(wire, {"orders": 4, "gone": 1, "cut": 4, "rolled": 1})
            await_coordinator(wire)
        producer = KafkaProducer(bootstrap_servers=server.bootstrap)
        for number in range(3):
            for _ in range(5):
                producer.send("orders", b"x", partition=number).get(30)
        producer.close()
        yield server


def described(cli: Cli, server: Broker, group: str, *options: str) -> Any:
    result = cli("describe", "-b", server.bootstrap, group, "-o", "jsonl", *options)
    assert (result.status, result.err) == (0, "")
    return json.loads(result.out)


def test_marks(server: Broker, cli: Cli) -> None:
    """Every partition is a row with its mark, and nothing fails."""
    with ExitStack() as stack:
        wire = stack.enter_context(Wire(VERSION, server.bootstrap))
        member = RawMember(VERSION, server.bootstrap, "marked")
        stack.callback(member.close)
        owned = assignment([("gone", 0), ("orders", 0), ("orders", 1), ("orders", 7)])
        join(member, "marks", {"range": subscription("gone", "orders")}, owned)
        who = (member.member_id, member.generation)
        places = {("orders", 0): 2, ("orders", 1): 99, ("orders", 2): 4}
        commit(wire, "marks", places, member=who)
        wire.call(
            "DeleteRecords",
            timeout_ms=30_000,
            topics=[{"name": "orders", "partitions": [{"partition_index": 0, "offset": 3}]}],
        )
        wire.call("DeleteTopics", 5, timeout_ms=30_000, topic_names=["gone"])

        def topics() -> set[str]:
            return {topic["name"] for topic in wire.call("Metadata", 1, topics=None)["topics"]}

        until(lambda: "gone" not in topics())
        group = described(cli, server, "marks")
        assert group["state"] == "Stable"
        assert [
            (o["topic"], o["partition"], o["log_start_offset"], o["lag"], o["mark"])
            for o in group["offsets"]
        ] == [
            ("gone", 0, None, None, "topic-gone"),
            ("orders", 0, 3, 3, "before-start"),
            ("orders", 1, 0, -94, "past-end"),
            ("orders", 2, 0, 1, "no-owner"),
            ("orders", 3, None, None, "no-owner"),  # nor was it ever committed
            ("orders", 7, None, None, "partition-gone"),
        ]
        result = cli("describe", "-b", server.bootstrap, "marks", "--offsets")
        assert (result.status, result.err) == (0, "")
        marks = {o["mark"] for o in group["offsets"]}
        rows = [line.split() for line in result.out.splitlines()[-6:]]
        assert {(row[0], row[1], (marks & {*row}).pop()) for row in rows} == {
            (o["topic"], str(o["partition"]), o["mark"]) for o in group["offsets"]
        }
        assert rows[0][:3] == ["orders", "0", "3"]
        assert result.out.startswith(
            "marks  Stable  1 member  lag 4 in 2 of 6 partitions, 3 of it in orders-0 (marked at "
        )
        result = cli(
            *("describe", "-b", server.bootstrap, "marks", "--offsets", "-o", "csv"),
            *("--no-headers", "--columns", "partition,mark"),
        )
        assert "\n2,no-owner\n" in result.out


def test_log_starts_of_a_log_directory(server: Broker, cli: Cli) -> None:
    """Records are deleted within a segment, to the log end, with whole segments, and not at all."""
    partitions = [("cut", 0), ("cut", 1), ("cut", 2), ("cut", 3), ("rolled", 0)]
    with Wire(VERSION, server.bootstrap) as wire:
        configure_topic(wire, "rolled", segment_ms="1", file_delete_delay_ms="0")
        producer = KafkaProducer(bootstrap_servers=server.bootstrap)
        for topic, number in partitions:
            for _ in range(10):
                producer.send(topic, b"x", partition=number).get(30)
        producer.close()
        deleted = {("cut", 0): 6, ("cut", 1): 10, ("rolled", 0): 4}
        for (topic, number), offset in deleted.items():
            places = [{"partition_index": number, "offset": offset}]
            wire.call(
                "DeleteRecords", timeout_ms=30_000, topics=[{"name": topic, "partitions": places}]
            )
        commit(wire, "cuts", dict(zip(partitions, (2, 1, 3, 99, 1), strict=True)))

    def rows(*where: str) -> list[tuple[Any, ...]]:
        result = cli("describe", *where, "cuts", "-o", "jsonl")
        assert (result.status, result.err) == (0, "")
        names = ("log_start_offset", "log_end_offset", "lag", "waiting", "mark")
        return [tuple(o[name] for name in names) for o in json.loads(result.out)["offsets"]]

    at_broker = rows("-b", server.bootstrap)
    assert at_broker == [
        (6, 10, 8, 4, "before-start"),
        (10, 10, 9, 0, "before-start"),
        (0, 10, 7, 7, None),
        (0, 10, -89, 0, "past-end"),
        (4, 10, 9, 6, "before-start"),
    ]
    until(lambda: rows("--log-dir", str(server.log_dir)) == at_broker)
    result = cli("check", "--log-dir", str(server.log_dir), "cuts", "-o", "json")
    assert result.status == 5
    findings = json.loads(result.out)["data"]
    assert [(f["code"], f["topic"], f["partition"]) for f in findings if f["topic"]] == [
        ("before-start", "cut", 0),
        ("before-start", "cut", 1),
        ("before-start", "rolled", 0),
        ("past-end", "cut", 3),
    ]
    waiting = [f["reason"] for f in findings if f["code"] == "nobody-reads"]
    assert waiting == ["Up to 17 records waiting, and no active member."]


def test_lag_in_time_as_a_consumer_reads(server: Broker, cli: Cli) -> None:
    """At every offset: compressed batches, markers, aborted records, times of appending."""
    with Wire(VERSION, server.bootstrap) as wire:
        create_topics(wire, {"made": 1})
        create_topics(wire, {"appended": 1}, **{"message.timestamp.type": "LogAppendTime"})
        plain = KafkaProducer(bootstrap_servers=server.bootstrap)
        packed = KafkaProducer(
            bootstrap_servers=server.bootstrap, compression_type="gzip", linger_ms=300
        )
        bound = KafkaProducer(bootstrap_servers=server.bootstrap, transactional_id="timed")
        bound.init_transactions()
        for topic in ("made", "appended"):
            for number in range(3):
                plain.send(topic, b"x", timestamp_ms=1_600_000_000_000 + number).get(30)
            sent = [packed.send(topic, b"y" * 999, timestamp_ms=1000 + n) for n in range(50)]
            assert [each.get(30).offset for each in sent] == list(range(3, 53))
            for end in (bound.abort_transaction, bound.commit_transaction):
                bound.begin_transaction()
                for _ in range(2):
                    bound.send(topic, b"z", timestamp_ms=2000).get(30)
                end()
        for producer in (plain, packed, bound):
            producer.close()
        compared = 0
        for topic in ("made", "appended"):
            for isolation in ("read-uncommitted", "read-committed"):
                seen = _consumed(server, topic, isolation.replace("-", "_"))
                for offset in [0, 2, 3, 17, 52, 53, 54, 55, 56, 57, 58, 59]:
                    following = [each for each in seen if each >= offset]
                    commit(wire, "timed", {(topic, 0): offset})
                    (row,) = [
                        row
                        for row in described(
                            *(cli, server, "timed", "--time-lag", "--isolation", isolation)
                        )["offsets"]
                        if row["topic"] == topic
                    ]
                    now_ms = time.time_ns() // 1_000_000
                    expected = seen[following[0]] if following else None
                    assert row["next_timestamp_ms"] == expected, (topic, isolation, offset)
                    if expected is None:
                        assert row["time_lag_ms"] == 0
                    else:
                        assert 0 <= now_ms - expected - row["time_lag_ms"] < 60_000
                    compared += 1
        assert compared == 48


def _consumed(server: Broker, topic: str, isolation: str) -> dict[int, int]:
    """Times by offset of all that a consumer of kafka-python reads."""
    consumer = KafkaConsumer(
        bootstrap_servers=server.bootstrap,
        isolation_level=isolation,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
    )
    consumer.assign([TopicPartition(topic, 0)])
    seen: dict[int, int] = {}
    count = 57 if isolation == "read_uncommitted" else 55

    def is_read() -> bool:
        for records in consumer.poll(500).values():
            seen.update({record.offset: record.timestamp for record in records})
        return len(seen) >= count

    until_steady(is_read, times=3)
    consumer.close()
    assert len(seen) == count
    return seen


def test_records_that_may_not_be_read(server: Broker, cli: Cli) -> None:
    describe, read, allow, topic, literal = 8, 3, 3, 2, 3  # of Kafka's enumerations
    with Wire(VERSION, server.bootstrap) as wire:
        create_topics(wire, {"secret": 2})
        producer = KafkaProducer(bootstrap_servers=server.bootstrap)
        for number in range(2):
            producer.send("secret", b"x", partition=number).get(30)
        producer.close()
        places = {("secret", 0): 0, ("secret", 1): 0, ("orders", 2): 5}
        commit(wire, "outside", places)
        answer = wire.call(
            "CreateAcls",
            creations=[
                {
                    "resource_type": topic,
                    "resource_name": "secret",
                    "resource_pattern_type": literal,
                    "principal": principal,
                    "host": "*",
                    "operation": operation,
                    "permission_type": allow,
                }
                for principal, operation in (("User:ANONYMOUS", describe), ("User:else", read))
            ],
        )
        assert [row["error_code"] for row in answer["results"]] == [0, 0]

        def incomplete() -> Result | None:
            words = ("-b", server.bootstrap, "outside", "--time-lag", "-o", "json")
            found = cli("describe", *words)
            return found if found.status else None

        result = until(incomplete)
    assert result.status == 4
    document = json.loads(result.out)
    (error,) = document["errors"]
    assert (error["kind"], error["topic"], error["partition"]) == ("not-authorized", "secret", None)
    assert "READ on the topic" in error["reason"]
    assert [(o["topic"], o["lag"], o["time_lag_ms"]) for o in document["data"][0]["offsets"]] == [
        ("orders", 0, 0),
        ("secret", 1, None),
        ("secret", 1, None),
    ]


def test_membership_before_the_rebalance_in_flight(server: Broker, cli: Cli) -> None:
    began_ms = time.time_ns() // 1_000_000
    with ExitStack() as stack:
        first, second = (RawMember(VERSION, server.bootstrap, f"moving-{n}") for n in (1, 2))
        stack.callback(first.close)
        stack.callback(second.close)
        join(first, "moving", {"range": subscription("orders")}, assignment([("orders", 1)]))
        knock(second, "moving", {"range": subscription("orders")})

        def moving() -> dict[str, Any] | None:
            group = described(cli, server, "moving")
            return group if group["state"] == "PreparingRebalance" else None

        before = until(moving)["last_stable"]
        assert (before["generation_id"], before["leader_id"]) == (1, first.member_id)
        assert began_ms <= before["recorded_ms"] <= time.time_ns() // 1_000_000
        (member,) = before["members"]
        assert member["client_id"] == "moving-1"
        assert [(a["topic"], a["partition"]) for a in member["assignment"]] == [("orders", 1)]
        lines = cli("describe", "-b", server.bootstrap, "moving").out.splitlines()
        (at,) = [at for at, line in enumerate(lines) if line.startswith("Members, and what each")]
        assert re.search(r"last complete generation 1, \d+ (s|min) ago", lines[1])
        assert "had" in lines[at + 1].split()
        cells = re.split(" {2,}", lines[at + 2])
        assert (cells[0], cells[-1]) == ("moving-1", "1: orders 1")
        assert described(cli, server, "moving", "--log-budget", "0")["last_stable"] is None
