"""Classic groups of live brokers of every version, against what Kafka's own tools say of them."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from kgroup.model.group import Group, GroupState, GroupType
from kgroup.model.log_range import LogRange, OffsetMark
from kgroup.model.offsets_partition import offsets_partition
from kgroup.operation.list_groups import LAST_COMMIT_BUDGET, list_with_lag
from kgroup.source.base import GroupSource, Question
from kgroup.source.broker.source import LiveCluster
from kgroup.source.log.source import LogDir
from tests.broker.group_tools import Table, consumer_groups, number
from tests.broker.maven import version_tuple
from tests.broker.servers import Broker, broker
from tests.cli.command_line import Cli
from tests.contract.saved import saved
from tests.record.clients import ASSIGNOR, java, join_java, make_topics, settle
from tests.record.python_client import python_consumer
from tests.record.raw import RawMember, commit, join, knock
from tests.record.recording import Recording
from tests.record.wire import Wire
from tests.waiting import until

VERSIONS = ("4.3.1", "3.9.2", "2.8.2", "1.1.1", "0.11.0.3", "0.10.2.2", "0.9.0.1")
TOPICS = {"orders": 3, "payments": 2}
ASSIGNORS = {
    "pair": ("range", "RangeAssignor", (0, 9)),
    "robin": ("roundrobin", "RoundRobinAssignor", (0, 9)),
    "sticky": ("sticky", "StickyAssignor", (0, 11)),
    "cooperative": ("cooperative-sticky", "CooperativeStickyAssignor", (2, 4)),
    "static": ("range", "RangeAssignor", (2, 3)),
}
"""Groups: the assignor by its name and its class, and the version that first has this."""
TELLS_ALL = (2, 4)
"""From here on the tool describes all groups at once."""
MODERN_TOOL = pytest.mark.parametrize(
    "live", [each for each in VERSIONS if version_tuple(each) >= TELLS_ALL], indirect=True
)
CONFIG = {"group.max.session.timeout.ms": "1800000"}  # 0.9 allows half a minute


@dataclass(frozen=True)
class Live:
    """A broker with groups, and a source that was given nothing but its address.

    "pair": two Java consumers, and so for each group of `ASSIGNORS` that the version has; "static":
    two of a fixed instance id; "python": one of kafka-python; "done": one that committed and left;
    "beyond": commits past the end, for a partition and a topic that are not there; "moving": in the
    middle of a rebalance.

    Attributes:
        server: the broker.
        source: the source.
        settled: groups whose members own all partitions of "orders" and "payments".
    """

    server: Broker
    source: LiveCluster
    settled: tuple[str, ...]

    def tool(self, *arguments: str) -> Table:
        return consumer_groups(self.server.version, self.server.bootstrap, *arguments)

    def described(self, *section: str) -> dict[str, Table]:
        """What the tool says of groups: of all in one run where it can, else of settled ones."""
        if version_tuple(self.server.version) < TELLS_ALL:
            names = (*self.settled, "python")
            return {name: self.tool("--describe", "--group", name, *section) for name in names}
        groups: dict[str, Table] = {}
        for row in self.tool("--describe", "--all-groups", *section):
            groups.setdefault(row["group"], []).append(row)
        return groups


@pytest.fixture(scope="module", params=VERSIONS)
def live(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Live]:
    version: str = request.param
    work: Path = tmp_path_factory.mktemp(f"live-{version}")
    recording = Recording("live", work)
    with (
        broker(version, work, config=CONFIG) as server,
        java(recording, server, "Consumers", "Producers") as clients,
        Wire(version, server.bootstrap) as wire,
        LiveCluster(server.bootstrap, of_silence=True) as source,
    ):
        make_topics(recording, server, clients, TOPICS)
        settled = tuple(
            group for group, (_, _, since) in ASSIGNORS.items() if version_tuple(version) >= since
        )
        for group in settled:
            options = {"partition_assignment_strategy": ASSIGNOR + ASSIGNORS[group][1]}
            for number in (1, 2):
                fixed = {"group_instance_id": f"pod-{number}"} if group == "static" else {}
                name = f"{group}-{number}"
                join_java(clients, group, name, "orders,payments", **options, **fixed)
        for group in settled:
            settle(clients, 5, f"{group}-1", f"{group}-2")
            offsets = "orders:0:5,payments:1:3"
            clients.call("commit", name=f"{group}-1", offsets=offsets, metadata="half")
        join_java(clients, "done", "done-1", "payments")
        settle(clients, 2, "done-1")
        clients.call("commit", name="done-1", offsets="payments:0:10", metadata="")
        clients.call("leave", name="done-1")
        commit(wire, "beyond", {("orders", 0): 1000, ("orders", 2): 12})
        first, second = (RawMember(version, server.bootstrap, f"moving-{n}") for n in (1, 2))
        join(first, "moving", {"range": b""}, b"")
        knock(second, "moving", {"range": b""})
        with python_consumer(version, server.bootstrap, "python", "python-1", "payments", 4):
            yield Live(server, source, settled)
        first.close()
        second.close()


def groups_of(live: Live, *group_ids: str) -> dict[str, Group]:
    reading = live.source.read(group_ids or None)
    assert reading.problems == ()
    return dict(reading.image.groups)


def test_lists_what_the_tool_lists(live: Live) -> None:
    reading = live.source.read(question=Question(members=False))
    assert reading.problems == ()
    listed = {row["group"] for row in live.tool("--list")}
    # Before 1.0 it leaves out groups that have no protocol type.
    is_whole = version_tuple(live.server.version) >= (1,)
    groups = reading.image.groups
    assert listed == {name for name in groups if is_whole or groups[name].protocol_type}
    assert {"pair", "moving"} <= listed
    coordinators = {group.coordinator for group in reading.image.groups.values()}
    assert {(coordinator.id, coordinator.port) for coordinator in coordinators if coordinator} == {
        (live.server.broker_id, live.server.port)
    }


def test_named_and_listed_are_the_same(live: Live) -> None:
    everything = groups_of(live)
    assert groups_of(live, *everything) == everything
    assert groups_of(live, "no such group") == {}
    for group_id, group in everything.items():
        assert group.offsets_partition == offsets_partition(group_id, 4)


def test_same_offsets_owners_and_lags(live: Live) -> None:
    """Every row of the tool, which has one for each commit and for each partition owned."""
    told = live.described()
    assert {*live.settled, "python"} <= set(told)
    groups = groups_of(live, *told)
    places = {place_of(row) for rows in told.values() for row in rows}
    ranges = live.source.log_ranges(places).ranges
    for group_id, rows in told.items():
        if group_id in live.settled:
            assert len(rows) == 5
        same_rows(groups[group_id], rows, ranges)


def same_rows(group: Group, rows: Table, ranges: Mapping[tuple[str, int], LogRange]) -> None:
    committed = {
        (offset.topic, offset.partition): offset.committed_offset for offset in group.offsets
    }
    owners = {
        (owned.topic, owned.partition): member
        for member in group.members
        for owned in member.assignment or ()
    }
    assert {*committed, *owners} == {place_of(row) for row in rows}
    for row in rows:
        place = place_of(row)
        assert committed.get(place) == number(row["current-offset"])
        end = ranges[place].end
        assert end == number(row["log-end-offset"])
        if place in committed and end is not None:
            assert end - committed[place] == number(row["lag"])
        member = owners.get(place)
        if "consumer-id" not in row:  # 0.9
            assert row["owner"] == (
                f"{member.client_id}_{member.client_host}" if member else "none"
            )
        elif member is None:
            assert (row["consumer-id"], row["host"], row["client-id"]) == ("-", "-", "-")
        else:
            assert (row["consumer-id"], row["host"], row["client-id"]) == (
                member.member_id,
                member.client_host,
                member.client_id,
            )


def place_of(row: Mapping[str, str]) -> tuple[str, int]:
    return row["topic"], int(row["partition"])


@MODERN_TOOL
def test_same_members(live: Live) -> None:
    """Of every assignor, with what it gave them, and the names of static ones."""
    told = live.described("--members", "--verbose")
    groups = groups_of(live, *told)
    assert {*live.settled, "python", "moving"} == set(told)
    for group_id, rows in told.items():
        members = {member.member_id: member for member in groups[group_id].members}
        assert set(members) == {row["consumer-id"] for row in rows}
        for row in rows:
            member = members[row["consumer-id"]]
            assert (member.client_host, member.client_id) == (row["host"], row["client-id"])
            assert (member.instance_id or "-") == row.get("group-instance-id", "-")
            ours: dict[str | None, str] = {}
            for partition in member.assignment or ():
                ours[partition.topic] = ",".join(
                    filter(None, (ours.get(partition.topic), str(partition.partition)))
                )
            assigned = row.get("assignment") or row["current-assignment"]
            theirs = re.findall(r"(\w*)[(:]([\d,]+)", assigned)
            if "" in dict(theirs):  # 3.9 leaves out the names of topics
                assert sorted(partitions for _, partitions in theirs) == sorted(ours.values())
            else:
                assert dict(theirs) == ours
    assert {member.instance_id for member in groups["static"].members} == {"pod-1", "pod-2"}


def test_group_that_is_not_there(live: Live) -> None:
    """Brokers describe it as dead."""
    with Wire(live.server.version, live.server.bootstrap) as wire:
        (answer,) = wire.call("DescribeGroups", 0, groups=["nobody"])["groups"]
    assert answer["group_state"] == "Dead"
    assert groups_of(live, "nobody") == {}


def test_what_consumers_committed(live: Live) -> None:
    groups = groups_of(live, "pair", "done", "beyond")
    assert {
        group_id: [
            (offset.topic, offset.partition, offset.committed_offset, offset.metadata)
            for offset in group.offsets
        ]
        for group_id, group in groups.items()
    } == {
        "pair": [("orders", 0, 5, "half"), ("payments", 1, 3, "half")],
        "done": [("payments", 0, 10, "")],
        "beyond": [("orders", 0, 1000, ""), ("orders", 2, 12, "")],
    }


def test_members_subscriptions_and_states(live: Live) -> None:
    # a member that left without a word is missed after a while
    until(lambda: groups_of(live, "done")["done"].state is GroupState.EMPTY, every_s=1)
    groups = groups_of(live, "pair", "done", "moving", "beyond")
    assert {group_id: group.type for group_id, group in groups.items()} == dict.fromkeys(
        groups, GroupType.CLASSIC
    )
    pair = groups["pair"]
    assert (pair.state, pair.protocol_type, pair.assignor) == (
        GroupState.STABLE,
        "consumer",
        "range",
    )
    assert [member.client_id for member in pair.members] == ["pair-1", "pair-2"]
    for member in pair.members:
        assert member.subscription is not None
        # in the order in which the member names them, for clients before 2.4 that of a hash set
        assert set(member.subscription.topics or ()) == {"orders", "payments"}
    assert groups["moving"].state is GroupState.PREPARING_REBALANCE
    assert groups["done"].state is GroupState.EMPTY
    assert groups["beyond"].state is GroupState.EMPTY
    assert groups["beyond"].protocol_type is None


@MODERN_TOOL
def test_same_states(live: Live) -> None:
    told = live.described("--state")
    groups = groups_of(live, *told)
    assert {*live.settled, "python", "moving", "done", "beyond"} == set(told) == set(groups)
    for group_id, (row,) in told.items():
        group = groups[group_id]
        assert group.state == row["state"]
        assert len(group.members) == int(row["#members"])
        assert group.coordinator is not None
        broker_id = f"({group.coordinator.id})"
        assert row["coordinator (id)"].split() == [live.server.bootstrap, broker_id]
        if row["assignment-strategy"] not in ("", "-"):
            assert group.assignor == row["assignment-strategy"]
    for group_id in live.settled:
        assert groups[group_id].assignor == ASSIGNORS[group_id][0]


@MODERN_TOOL
def test_list_has_the_members_and_lags_of_the_tool(live: Live) -> None:
    report = list_with_lag(live.source, log_budget=LAST_COMMIT_BUDGET)
    listed = {row.group_id: row for row in report.data}
    states = live.described("--state")
    assert set(listed) == set(states)
    for group_id, (state,) in states.items():
        row = listed[group_id]
        assert (row.state, row.member_count) == (state["state"], int(state["#members"]))
    for group_id, partitions in live.described().items():
        lags = [lag for each in partitions if (lag := number(each["lag"])) is not None]
        row = listed[group_id]
        assert row.total_lag == (sum(lag for lag in lags if lag > 0) if lags else None)
        assert row.worst_lag == max(lags, default=None)
    logged = {row.group_id: row for row in list_with_lag(LogDir([live.server.log_dir])).data}
    for group_id in (*live.settled, "done", "beyond"):
        last_ms = listed[group_id].last_commit_timestamp_ms
        assert last_ms is not None
        assert last_ms == logged[group_id].last_commit_timestamp_ms


def test_same_as_the_log_that_the_broker_writes(live: Live) -> None:
    """Generation, leader, timeouts and times of commits, which no API tells."""
    logged = LogDir([live.server.log_dir]).read().image.groups
    groups = groups_of(live, "pair", "done", "beyond", "moving")
    assert len(groups) == 4
    for group_id, group in groups.items():
        assert [replace(offset, log_offset=None) for offset in logged[group_id].offsets] == list(
            group.offsets
        )
    pair, log = groups["pair"], logged["pair"]
    assert pair.generation_id is not None
    assert pair.leader_id in {member.member_id for member in pair.members}
    for name in ("generation_id", "leader_id", "state_timestamp_ms", "assignor", "members"):
        assert getattr(pair, name) == getattr(log, name)
    assert all(member.session_timeout_ms for member in pair.members)
    done = groups["done"]
    for name in ("generation_id", "leader_id", "state_timestamp_ms"):
        assert getattr(done, name) == getattr(logged["done"], name)


def test_membership_before_the_rebalance_in_flight(live: Live) -> None:
    (moving,) = groups_of(live, "moving").values()
    assert (moving.generation_id, moving.leader_id) == (None, None)
    before = moving.last_stable
    assert before is not None
    assert before.generation_id == 1
    (member,) = before.members
    assert member.client_id == "moving-1"
    assert before.leader_id == member.member_id
    # Before 0.10 records have no time.
    is_timed = version_tuple(live.server.version) >= (0, 10)
    assert (before.recorded_ms is not None) == is_timed


def test_nothing_is_read_back_where_it_does_not_matter(live: Live) -> None:
    reading = live.source.read(["pair", "moving"], Question(log_budget=0))
    for group in reading.image.groups.values():
        assert (group.generation_id, group.last_stable) == (None, None)
        assert all(offset.commit_timestamp_ms is None for offset in group.offsets)


def test_ranges_of_partitions(live: Live) -> None:
    places = {("orders", 2), ("orders", 3), ("no-such-topic", 0)}
    reading = live.source.log_ranges(places)
    assert reading.problems == ()
    assert reading.ranges == {
        ("orders", 2): LogRange(0, 12),
        ("orders", 3): LogRange(mark=OffsetMark.PARTITION_GONE),
        ("no-such-topic", 0): LogRange(mark=OffsetMark.TOPIC_GONE),
    }


def test_a_snapshot_says_the_same(live: Live, tmp_path: Path) -> None:
    through = saved(live.source, tmp_path)
    reading = live.source.read()
    assert through.read() == reading
    partitions = {at for group in reading.image.groups.values() for at in group.partitions}
    for committed in (False, True):
        ranges = live.source.log_ranges(partitions, committed=committed)
        assert through.log_ranges(partitions, committed=committed) == ranges
    keys = [*reading.image.groups]
    assert through.can(GroupSource.view)
    assert through.placements(keys) == live.source.placements(keys)
    topics = {*TOPICS, "__consumer_offsets"}
    view = through.view(topics)
    assert view == live.source.view(topics)
    assert {name: len(topic.partitions) for name, topic in view.topics.items()} == {
        **TOPICS,
        "__consumer_offsets": 4,
    }


def test_next_records(live: Live) -> None:
    """As `make_topics` wrote them: orders-0 has 10, orders-2 has 12, one a batch."""
    places = {("orders", 0, 0), ("orders", 0, 9), ("orders", 0, 10), ("orders", 2, 11)}
    reading = live.source.next_records({*places, ("no-such-topic", 0, 0)})
    assert reading.problems == ()
    assert {at: found.offset for at, found in reading.records.items()} == {
        ("orders", 0, 0): 0,
        ("orders", 0, 9): 9,
        ("orders", 0, 10): None,
        ("orders", 2, 11): 11,
    }
    now_ms = 1000 * time.time()
    for record in reading.records.values():
        if record.offset is None or version_tuple(live.server.version) < (0, 10):
            assert record.timestamp_ms is None  # records had no time before
        else:
            assert record.timestamp_ms is not None
            assert now_ms - 3_600_000 < record.timestamp_ms <= now_ms


def test_placements(live: Live) -> None:
    placements = live.source.placements(["pair", "no such group"])
    assert list(placements) == ["pair", "no such group"]
    for placement in placements.values():
        assert placement.partition_count == 4
        assert placement.error is None
        assert placement.coordinator == placement.leader
        assert placement.coordinator is not None
        assert placement.coordinator.port == live.server.port
        assert placement.replicas == placement.isr == (live.server.broker_id,)


def test_records_are_those_of_the_segments(live: Live, cli: Cli) -> None:
    for options in (["-o", "jsonl"], ["--latest", "-o", "csv"]):
        files = cli("decode-offsets", "--log-dir", live.server.log_dir, *options)
        result = cli("decode-offsets", "-b", live.server.bootstrap, *options)
        assert (result.status, result.err) == (files.status, files.err) == (0, "")
        assert result.out.splitlines() == files.out.splitlines()
        assert len(result.out.splitlines()) > 5
