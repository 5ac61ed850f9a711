"""The size of a classic group's record: computed and found, as real brokers write and refuse it."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from kgroup.model.group import Group, GroupState
from kgroup.operation.check.check import Request, check
from kgroup.operation.check.rule import Finding, Rule
from kgroup.protocol.batch.batch import Record, RecordBatch
from kgroup.protocol.batch.record_batch import read_batches, read_records
from kgroup.protocol.record.group_record import group_record_size
from kgroup.source.broker.source import LiveCluster
from tests.broker.servers import Broker, broker
from tests.cli.command_line import Cli
from tests.record.raw import (
    RawMember,
    await_coordinator,
    consumer_protocol,
    create_topics,
    join,
    knock,
)
from tests.record.wire import Wire, WireError
from tests.waiting import until

LIMIT = 200_000
UNKNOWN_SERVER_ERROR = -1
ASSIGNMENT = consumer_protocol(["orders"], 0)
LARGE = frozenset({Rule.LARGE_GROUP_RECORD})


def test_the_record_has_the_computed_size(tmp_path: Path) -> None:
    """Also one byte below and above the limit."""
    with limited("4.3.1", tmp_path) as server, Wire("4.3.1", server.bootstrap) as wire:
        await_coordinator(wire)
        raw(server, "half", 120_000)
        raw(server, "small", 95_000, instance_id="pod-1")
        whole = {group: described(server, group) for group in ("half", "small")}
        found = findings(server, "half", "small")
        assert [(row.group_id, row.severity) for row in found] == [("half", "warning")]
        assert found[0].record_limit_bytes == LIMIT
        assert "60% of max.message.bytes" in found[0].reason
        rest = (found[0].record_bytes or 0) - 120_000 - len("half")
        most = LIMIT - rest - len("exact")
        raw(server, "exact", most)
        whole["exact"] = described(server, "exact")
        (row,) = findings(server, "exact")
        assert (row.record_bytes, row.severity) == (LIMIT, "warning")
        with pytest.raises(WireError, match=f"'error_code': {UNKNOWN_SERVER_ERROR}"):
            raw(server, "above", most + 1)
        assert described(server, "above").state is GroupState.PREPARING_REBALANCE
    sizes = written(server)
    for group_id, group in whole.items():
        size = group_record_size(group)
        assert size is not None
        assert size.total == sizes[group_id], group_id
    assert "above" not in sizes


def test_a_group_that_outgrows_the_limit(tmp_path: Path) -> None:
    """Two members have about twice the record of one; the coordinator returns no metadata then."""
    with limited("4.3.1", tmp_path) as server, Wire("4.3.1", server.bootstrap) as wire:
        await_coordinator(wire)
        first, second = raw(server, "grows", 120_000), RawMember("4.3.1", server.bootstrap, "raw")
        protocols = {"range": metadata(120_000)}
        seen: list[Finding] = []
        knock(second, "grows", protocols)
        until(lambda: described(server, "grows").state is GroupState.PREPARING_REBALANCE)
        (row,) = findings(server, "grows")
        assert row.severity == "warning"
        assert "with the 2 current members it would have about 240," in row.reason
        with pytest.raises(WireError, match=f"'error_code': {UNKNOWN_SERVER_ERROR}"):
            join(
                first,
                "grows",
                protocols,
                {},
                before_sync=lambda: seen.extend(findings(server, "grows")),
            )
        assert second.wire.receive()["error_code"] == 0
    assert [(row.severity, row.record_limit_bytes) for row in seen] == [("error", LIMIT)]
    assert "The current rebalance cannot complete." in seen[0].reason


def test_a_dry_run_knows_the_record_of_more_members(tmp_path: Path, cli: Cli) -> None:
    names = [f"{'topic':_<96}{number:04}" for number in range(400)]
    sent = {"range": consumer_protocol(names)}
    with limited("4.3.1", tmp_path) as server, Wire("4.3.1", server.bootstrap) as wire:
        await_coordinator(wire)
        create_topics(wire, dict.fromkeys(names, 1))
        first, *others = (RawMember("4.3.1", server.bootstrap, "raw") for _ in range(4))
        join(first, "wide", sent, ASSIGNMENT)
        options = ("assign", "wide", "-b", server.bootstrap, "--dry-run", "-o", "jsonl")
        alone, three, four = (
            cli(*options, *(("--add-member", str(more)) if more else ())) for more in (0, 1, 3)
        )
        assert "max.message.bytes" not in alone.err
        for result, share in ((three, "of"), (four, "more than")):
            assert f"{share} max.message.bytes of __consumer_offsets (200,000)" in result.err
        # and so it is
        for other in others:
            knock(other, "wide", sent)
        until(lambda: len(described(server, "wide").members) == 4)
        with pytest.raises(WireError, match=f"'error_code': {UNKNOWN_SERVER_ERROR}"):
            join(first, "wide", sent, consumer_protocol(names, 0))


@pytest.mark.parametrize("version", ["2.8.2", "3.9.2"])
def test_older_brokers_write_and_refuse_the_same(version: str, tmp_path: Path) -> None:
    with limited(version, tmp_path) as server, Wire(version, server.bootstrap) as wire:
        await_coordinator(wire)
        raw(server, "half", 120_000, instance_id="pod-1")
        (row,) = findings(server, "half")
        assert row.severity == "warning"
        with pytest.raises(WireError, match=f"'error_code': {UNKNOWN_SERVER_ERROR}"):
            raw(server, "above", LIMIT)
    assert row.record_bytes == written(server)["half"]


def limited(version: str, work: Path) -> AbstractContextManager[Broker]:
    config = {"message.max.bytes": str(LIMIT), "offsets.topic.num.partitions": "1"}
    return broker(version, work, config=config)


def raw(server: Broker, group: str, size: int, instance_id: str | None = None) -> RawMember:
    """Join a group alone, with metadata of this size."""
    member = RawMember(server.version, server.bootstrap, "raw")
    join(member, group, {"range": metadata(size)}, ASSIGNMENT, instance_id=instance_id)
    return member


def metadata(size: int) -> bytes:
    return consumer_protocol(["orders"]).ljust(size, b"x")


def described(server: Broker, group: str) -> Group:
    with LiveCluster(server.bootstrap, of_silence=True) as source:
        return source.read([group]).image.groups[group]


def findings(server: Broker, *groups: str) -> Sequence[Finding]:
    with LiveCluster(server.bootstrap, of_silence=True) as source:
        audit = check(source, Request(groups, rules=LARGE), lambda: time.time_ns() // 1_000_000)
    assert (audit.report.errors, audit.report.notes) == ((), ())
    return audit.report.data


def written(server: Broker) -> dict[str, int]:
    """Return the size of the batch with the last record of each group that has members."""
    sizes = {}
    for segment in server.log_dir.glob("__consumer_offsets-0/*.log"):
        for batch in read_batches(memoryview(segment.read_bytes())):
            assert isinstance(batch, RecordBatch)
            (record,) = read_records(batch)
            assert isinstance(record, Record)
            assert record.key is not None
            if len(record.value or b"") > LIMIT // 4:
                sizes[record.key[4:].decode()] = batch.size
    return sizes
