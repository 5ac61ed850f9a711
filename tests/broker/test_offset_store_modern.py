"""Offsets of groups that only Kafka 4 has, and of brokers older than all of `test_offset_store`."""

from __future__ import annotations

import base64
import json
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from kgroup.errors import BrokerError, ProblemKind
from kgroup.model.pattern import parse_regex
from kgroup.operation.offsets.deletion import plan_idle_deletion
from kgroup.operation.offsets.plan import IdleSince, Result, carry_out
from kgroup.source.base import DEFAULT_LOG_BUDGET
from kgroup.source.broker.source import LiveCluster
from tests.broker.group_tools import consumer_groups, offsets_by_kafka
from tests.broker.maven import version_tuple
from tests.broker.servers import Broker
from tests.cli.command_line import Cli
from tests.contract.offset_store import changes_to, essence
from tests.record.raw import commit, create_topics
from tests.record.raw_consumer import RawConsumer
from tests.record.wire import Wire
from tests.waiting import until

AT = ("orders", 0)


@pytest.fixture
def store(orders_broker: Broker) -> Iterator[LiveCluster]:
    with LiveCluster(orders_broker.bootstrap, of_silence=True) as store:
        yield store


def test_members_of_the_consumer_protocol(orders_broker: Broker, store: LiveCluster) -> None:
    version, bootstrap = orders_broker.version, orders_broker.bootstrap
    member = RawConsumer(version, bootstrap, "member", "modern", instance_id="pod-1")
    member.join(["orders"])
    there = {("orders", 0): 1, ("kept", 0): 2}
    with Wire(version, bootstrap) as wire:
        create_topics(wire, {"kept": 1})
        commit(wire, "modern", there, member=(member.member_id, member.epoch))

    (problem,) = store.write_offsets({"modern": changes_to({AT: 5}, there)})
    assert (problem.kind, problem.topic) == (ProblemKind.ACTIVE, None)
    assert "with 1 member" in problem.reason
    gone = changes_to({AT: None, ("kept", 0): None}, there)
    (problem,) = store.write_offsets({"modern": gone})
    assert (problem.kind, problem.topic, problem.partition) == (ProblemKind.ACTIVE, *AT)
    assert "GROUP_SUBSCRIBED_TO_TOPIC (members of the group subscribe" in problem.reason
    assert offsets_by_kafka(orders_broker, "modern") == {AT: 1}
    member.heartbeat()  # the tool may have taken as long as the session lasts
    (problem,) = store.delete_groups(["modern"])
    assert (problem.kind, problem.group_id) == (ProblemKind.ACTIVE, "modern")

    (problem,) = store.remove_members("modern", {"its predecessor": "pod-1"}).values()
    assert problem.reason.startswith("pod-1: The cluster returned FENCED_INSTANCE_ID")
    assert store.remove_members("modern", {member.member_id: "pod-1"}, "it is over") == {}
    member.close()
    assert store.write_offsets({"modern": changes_to({AT: 5}, {AT: 1})}) == ()
    assert offsets_by_kafka(orders_broker, "modern") == {AT: 5}
    assert store.delete_groups(["modern"]) == ()
    assert store.read_offsets(["modern"]).offsets == {}


def test_idle_groups_are_deleted_and_those_that_become_active_stay(
    orders_broker: Broker, store: LiveCluster, cli: Cli, tmp_path: Path
) -> None:
    version, bootstrap = orders_broker.version, orders_broker.bootstrap
    where = ["-b", bootstrap, "--regex", "idle-.*", "--idle-for", "1s"]

    def idle() -> list[str]:
        lines = cli("list", *where, "-o", "jsonl").out.splitlines()
        return [json.loads(line)["group_id"] for line in lines]

    with Wire(version, bootstrap) as wire:
        for group_id in ("idle-1", "idle-2"):
            commit(wire, group_id, {AT: 1})
        until(lambda: idle() == ["idle-1", "idle-2"])
        since = IdleSince(time.time_ns() // 1_000_000 - 1_000, DEFAULT_LOG_BUDGET)
        plan = plan_idle_deletion(store, since, parse_regex("idle-.*"))
        assert (plan.deleted, plan.notes) == (("idle-1", "idle-2"), ())
        commit(wire, "idle-1", {AT: 1})  # the same offset: only its time tells of it
        report = carry_out(store, plan)
    assert [row.result for row in report.data] == [Result.REFUSED, Result.DONE]
    assert [problem.kind for problem in report.errors] == [ProblemKind.CHANGED]
    groups = {row["group"] for row in consumer_groups(version, bootstrap, "--list")}
    assert groups & {"idle-1", "idle-2"} == {"idle-1"}

    until(lambda: idle() == ["idle-1"])
    backup = tmp_path / "backup.json"
    line = ["offsets", "delete", *where, "--execute", "--yes", "--backup", backup]
    assert cli(*map(str, line)).status == 0
    assert store.read_offsets(["idle-1"]).offsets == {}
    undo = ["offsets", "import", backup, "--all", "-b", bootstrap, "--execute", "--yes"]
    assert cli(*map(str, undo), "--backup", str(tmp_path / "undo.json")).status == 0
    assert offsets_by_kafka(orders_broker, "idle-1") == {AT: 1}


def test_the_group_with_an_empty_id(store: LiveCluster) -> None:
    """Kafka 4 answers ConsumerGroupDescribe for it with INVALID_GROUP_ID."""
    there = {AT: 1}
    absent = store.read([""])
    assert (absent.image.groups, absent.problems) == ({}, ())
    assert store.read_offsets([""]).offsets == {}
    assert store.write_offsets({"": changes_to(there)}) == ()
    assert essence(store.read_offsets([""]).offsets[""]) == there
    assert [*store.read([""]).image.groups] == [""]
    assert store.delete_groups([""]) == ()
    absent = store.read([""])
    assert (absent.image.groups, absent.problems) == ({}, ())
    assert store.write_offsets({"": changes_to(there)}) == (), "what a deletion removed comes back"
    assert store.delete_groups([""]) == ()


def test_a_member_of_the_consumer_protocol_by_its_id(
    orders_broker: Broker, store: LiveCluster
) -> None:
    member = RawConsumer(orders_broker.version, orders_broker.bootstrap, "member", "by-id")
    member.join(["orders"])
    assert store.write_offsets({"by-id": changes_to({AT: 5})}) != ()
    (problem,) = store.remove_members("by-id", {"nobody": None, member.member_id: None}).values()
    assert problem.reason == "nobody: The group has no such member."
    member.close()
    assert store.write_offsets({"by-id": changes_to({AT: 5})}) == ()


def test_share_groups_commit_no_offsets(orders_broker: Broker, store: LiveCluster) -> None:
    member_id = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
    with Wire(orders_broker.version, orders_broker.bootstrap) as wire:

        def beat(epoch: int) -> None:
            answer = wire.call(
                "ShareGroupHeartbeat",
                group_id="shared",
                member_id=member_id,
                member_epoch=epoch,
                subscribed_topic_names=["orders"] if not epoch else None,
            )
            assert not answer["error_code"], answer

        beat(0)
        (problem,) = store.write_offsets({"shared": changes_to({AT: 5})})
        assert problem.kind is ProblemKind.UNSUPPORTED
        assert problem.reason == "It is a share group, which commits no offsets."
        reading = store.read_offsets(["shared"])
        assert (reading.offsets, reading.problems) == ({}, ())
        assert "shared" not in store.read_offsets().offsets
        (problem,) = store.delete_groups(["shared"])
        assert problem.kind is ProblemKind.ACTIVE
        beat(-1)
        assert store.delete_groups(["shared"]) == ()


def test_every_version(every_broker: Broker) -> None:
    """Before 0.10 simple groups are not listed, and in 0.8 none: they are named."""
    number = version_tuple(every_broker.version)
    topic = "offset-store"
    every_broker.create_topic(topic, 2)
    at, other = (topic, 0), (topic, 1)
    with LiveCluster(every_broker.bootstrap, of_silence=True) as store:
        assert store.write_offsets({"offset-store": changes_to({at: 5, other: 6})}) == ()
        assert store.write_offsets({"offset-store": changes_to({at: 0}, {at: 5})}) == ()
        (problem,) = store.write_offsets({"offset-store": changes_to({at: 1}, {at: 5})})
        assert problem.kind is ProblemKind.CHANGED
        offsets = store.read_offsets(["offset-store", "nobody"]).offsets
        assert {key: essence(found) for key, found in offsets.items()} == {
            "offset-store": {at: 0, other: 6}
        }
        if number >= (0, 10):
            assert "offset-store" in store.read_offsets().offsets
        elif number < (0, 9):
            with pytest.raises(BrokerError, match="name them"):
                store.read_offsets()
        (deleted,) = store.delete_groups(["offset-store", "nobody"])[:1]
        if number < (1, 1):
            assert deleted.kind is ProblemKind.UNSUPPORTED
        else:
            assert (deleted.kind, deleted.group_id) == (ProblemKind.NOT_FOUND, "nobody")
        if number < (2, 4):
            store.write_offsets({"offset-store": changes_to({at: 3})})
            (now,) = store.read_offsets(["offset-store"]).offsets["offset-store"][:1]
            gone = changes_to({at: None}, {at: now.committed_offset})
            (problem,) = store.write_offsets({"offset-store": gone})
            assert problem.kind is ProblemKind.UNSUPPORTED
            assert "delete the whole group" in problem.reason
