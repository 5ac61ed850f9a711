"""The page of `kgroup describe`: the verdict, facts, members and partitions of groups."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from random import Random

import pytest
from rich.cells import cell_len

from kgroup.model.group import (
    AssignedPartition,
    Broker,
    Group,
    GroupState,
    GroupType,
    Member,
    Membership,
    MemberState,
    Task,
    TaskAssignment,
)
from kgroup.model.instant import shown_time
from kgroup.model.log_range import LogRange, OffsetMark
from kgroup.model.offset import CommittedOffset, PendingOffset, ShareOffset
from kgroup.operation.describe import GroupDescription, describe, sorted_partitions
from kgroup.operation.report import Sort
from kgroup.operation.watch import Change, ChangeKind
from kgroup.render import explanation
from kgroup.render.form import page_text
from kgroup.render.group import connect_work
from kgroup.render.group_page import description_page
from tests.examples import examples
from tests.field_log import groups_of
from tests.operation.sources import FakeSource

NOW_MS = 1_700_000_000_004
STYLES = re.compile(r"\x1b\[[0-9;]*m")


def described(group: Group, **ends: int) -> GroupDescription:
    """Describe a group; ends are given as ``orders_0=17``."""
    known = {(name.rpartition("_")[0], int(name.rpartition("_")[2])): ends[name] for name in ends}
    (row,) = describe(FakeSource(group, ends=known)).data
    return row


def page(
    group: GroupDescription,
    changes: Sequence[Change] = (),
    *,
    sections: Sequence[str] = (),
    sort: Sort | None = None,
    terminal: bool = False,
) -> list[str]:
    parts = description_page([group], sections=sections, now_ms=NOW_MS, changes=changes, sort=sort)
    return STYLES.sub("", "".join(page_text(parts, terminal=terminal))).splitlines()


def table(lines: Sequence[str], title: str) -> list[list[str]]:
    """Return the cells of a table, its head first."""
    at = next(at for at, line in enumerate(lines) if line.startswith(title))
    own = [line for line in lines[at + 1 :] if line]
    own = own[: lines[at + 1 :].index("")] if "" in lines[at + 1 :] else own
    return [re.split(r" {2,}", line.strip()) for line in own]


def partitions(*numbers: int, topic: str = "orders") -> tuple[AssignedPartition, ...]:
    return tuple(AssignedPartition(None, topic, number) for number in numbers)


def commits(*offsets: int | None, topic: str = "orders") -> tuple[CommittedOffset, ...]:
    """Return commits of partition 0, 1, ..., made 3 s ago; None for one without a commit."""
    return tuple(
        CommittedOffset(topic, number, offset, commit_timestamp_ms=NOW_MS - 3400)
        for number, offset in enumerate(offsets)
        if offset is not None
    )


A = Member("a-1", client_id="a", client_host="/10.0.3.7", assignment=partitions(0, 1))
B = Member("b-1", client_id="b", client_host="/10.0.3.8", assignment=partitions(2))
STABLE = Group("g", GroupType.CLASSIC, GroupState.STABLE, "consumer", "range", members=(A, B))
EMPTY = Group("g", GroupType.CLASSIC, GroupState.EMPTY)
SHARED = Group("g", GroupType.SHARE, GroupState.STABLE, "share", members=(A,))


@pytest.mark.parametrize(
    ("description", "verdict"),
    [
        (
            described(
                replace(STABLE, offsets=commits(5, 5, 5)), orders_0=5, orders_1=537, orders_2=5
            ),
            "g  Stable  2 members  lag 532, all in orders-1 (a at 10.0.3.7)",
        ),
        (
            described(
                replace(STABLE, offsets=commits(5, 5, 5)), orders_0=6, orders_1=8, orders_2=5
            ),
            "g  Stable  2 members  lag 4 in 2 of 3 partitions, 3 of it in orders-1 (a at 10.0.3.7)",
        ),
        (
            described(
                replace(STABLE, offsets=commits(5, 5, 5)), orders_0=5, orders_1=5, orders_2=5
            ),
            "g  Stable  2 members  lag 0",
        ),
        (
            described(replace(STABLE, offsets=commits(5, None, 5)), orders_0=6, orders_2=5),
            "g  Stable  2 members  lag 1, all in orders-0 (a at 10.0.3.7), nothing committed in 1 "
            "of 3 partitions",
        ),
        (
            described(replace(STABLE, offsets=commits(5, 5, 5)), orders_0=6, orders_1=5),
            "g  Stable  2 members  lag at least 1, all in orders-0 (a at 10.0.3.7), unknown in 1 "
            "of 3 partitions: no log end offset of orders-2",
        ),
        (
            described(replace(STABLE, members=(A,), offsets=commits(5, 5))),
            "g  Stable  1 member  lag unknown in 2 partitions, e.g. no log end offset of orders-0",
        ),
        (described(STABLE), "g  Stable  2 members  nothing committed in 3 partitions"),
        (
            described(replace(EMPTY, offsets=commits(5)), orders_0=7),
            "g  Empty  no members  lag 2, all in orders-0, last commit 3 s ago",
        ),
        (
            described(replace(EMPTY, offsets=commits(5))),
            "g  Empty  no members  lag unknown: no log end offset of orders-0, last commit 3 s ago",
        ),
        (described(EMPTY), "g  Empty  no members  no commits found"),
        (described(replace(EMPTY, state=GroupState.DEAD)), "g  Dead  no members  no commits found"),
        (
            described(replace(EMPTY, state=None)),
            "g  state unknown  members unknown  no commits found",
        ),
        (
            described(replace(EMPTY, offsets=commits(5)), orders_0=3),
            "g  Empty  no members  lag 0, last commit 3 s ago",
        ),
        (
            described(replace(SHARED, share_offsets=(ShareOffset("id", "orders", 0, lag=7),))),
            "g  Stable  1 member  lag 7, all in orders-0",
        ),
        (
            described(
                replace(
                    SHARED,
                    share_offsets=(
                        ShareOffset("id", "orders", 0, start_offset=2, delivery_complete_count=3),
                    ),
                ),
                orders_0=10,
            ),
            "g  Stable  1 member  lag 5, all in orders-0",
        ),
        (
            described(
                replace(SHARED, share_offsets=(ShareOffset("id", "orders", 0),)), orders_0=10
            ),
            "g  Stable  1 member  lag unknown: the start offset of orders-0 is not known",
        ),
        (
            described(
                replace(SHARED, share_offsets=(ShareOffset("id", "orders", 0, start_offset=2),)),
                orders_0=10,
            ),
            "g  Stable  1 member  lag unknown: the number of finished records of orders-0 is not "
            "known",
        ),
    ],
)
def test_the_verdict(description: GroupDescription, verdict: str) -> None:
    assert page(description)[0] == verdict


@pytest.mark.parametrize(
    ("mark", "reason"),
    [
        (OffsetMark.TOPIC_GONE, "the topic of orders-0 does not exist any more"),
        (OffsetMark.PARTITION_GONE, "orders-0 does not exist any more"),
        (OffsetMark.NO_LEADER, "orders-0 has no leader"),
        (OffsetMark.NOT_AUTHORIZED, "orders-0 may not be described"),
        (OffsetMark.NO_ANSWER, "the leader of orders-0 gave no answer"),
    ],
)
def test_the_verdict_says_why_a_lag_is_unknown(mark: OffsetMark, reason: str) -> None:
    group = replace(EMPTY, offsets=commits(5))
    (row,) = describe(FakeSource(group, ranges={("orders", 0): LogRange(mark=mark)})).data
    assert f"lag unknown: {reason}" in page(row)[0]
    assert f"Partitions of orders, worst first; 1 {mark}" in page(row)


def test_the_verdict_says_how_long_ago_the_oldest_waiting_record_was_made() -> None:
    group = described(replace(STABLE, offsets=commits(5, 5, 5)), orders_0=5, orders_1=9, orders_2=8)
    lags_ms = (0, 52_300, 3_000)
    rows = [replace(row, time_lag_ms=ms) for row, ms in zip(group.offsets, lags_ms, strict=True)]
    timed = replace(group, offsets=tuple(rows), max_time_lag_ms=52_300)
    assert page(timed)[0].endswith(" (a at 10.0.3.7), up to 52 s behind")
    one = replace(timed, offsets=(*rows[:2], replace(rows[2], lag=0, time_lag_ms=0)))
    assert page(one)[0].endswith(", 52 s behind")
    assert "up to" not in page(one)[0]
    rows[2] = replace(rows[2], time_lag_ms=None)
    assert page(replace(timed, offsets=tuple(rows)))[0].endswith(", at least 52 s behind")


def test_members_are_called_by_client_id_and_host_unless_these_are_not_unique() -> None:
    group = replace(STABLE, offsets=commits(5, 5, 5))
    lines = page(described(group, orders_0=6))
    assert table(lines, "Members") == [
        ["client_id", "host", "partitions"],
        ["a", "10.0.3.7", "2: orders 0-1"],
        ["b", "10.0.3.8", "1: orders 2"],
    ]
    assert [row[-2:] for row in table(lines, "Partitions")] == [
        ["owner", "host"], ["a", "10.0.3.7"], ["a", "10.0.3.7"], ["b", "10.0.3.8"],
    ]  # fmt: skip
    same_id = replace(group, members=(A, replace(B, client_id="a")))
    assert "a-1" not in "".join(page(described(same_id)))
    twins = replace(group, members=(A, replace(B, client_id="a", client_host="/10.0.3.7")))
    lines = page(described(twins, orders_0=6))
    assert "(a-1 at 10.0.3.7)" in lines[0]
    assert [row[:2] for row in table(lines, "Members")] == [
        ["member_id", "client_id"], ["a-1", "a"], ["b-1", "a"],
    ]  # fmt: skip
    assert [row[-1] for row in table(lines, "Partitions")] == ["owner", "a-1", "a-1", "b-1"]


def test_consumers_of_zookeeper_have_no_client_id_and_are_called_by_their_host() -> None:
    members = tuple(replace(member, client_id=None) for member in (A, B))
    group = replace(STABLE, type=GroupType.ZOOKEEPER, members=members, offsets=commits(5, 5, 5))
    lines = page(described(group, orders_0=6))
    assert lines[0].endswith("(10.0.3.7), unknown in 2 of 3 partitions, e.g. no log end offset "
                             "of orders-1")  # fmt: skip
    assert table(lines, "Members")[0] == ["host", "partitions"]
    assert table(lines, "Partitions")[1][-1] == "10.0.3.7"


def test_partitions_are_sorted_worst_first_or_as_chosen() -> None:
    group = described(replace(STABLE, offsets=commits(5, 5, None)), orders_0=6, orders_1=537)
    rows = group.offsets

    def order(sort: Sort | None) -> list[int]:
        return [row.partition for row in sorted_partitions(rows, sort)]

    assert order(None) == [1, 0, 2]
    assert order(Sort("lag")) == [0, 1, 2]
    assert order(Sort("lag", is_descending=True)) == [1, 0, 2]
    assert order(Sort("partition", is_descending=True)) == [2, 1, 0]
    assert order(Sort("owner", is_descending=True)) == [2, 0, 1]
    assert order(Sort("last-commit")) == [0, 1, 2]
    marked = [replace(rows[0], lag=0), replace(rows[2], lag=0, mark=OffsetMark.NO_OWNER)]
    assert [row.partition for row in sorted_partitions(marked, None)] == [2, 0]
    lines = page(group, sort=Sort("partition", is_descending=True))
    assert "Partitions of orders, by partition, largest first" in "\n".join(lines)
    assert [row[0] for row in table(lines, "Partitions")] == ["partition", "2", "1", "0"]


def test_the_group_with_the_largest_lag_comes_first() -> None:
    groups = [
        described(replace(EMPTY, group_id="fine", offsets=commits(5)), orders_0=5),
        described(replace(EMPTY, group_id="late", offsets=commits(5)), orders_0=7),
        described(replace(EMPTY, group_id="later", offsets=commits(5)), orders_0=8),
        described(replace(EMPTY, group_id="unknown", offsets=commits(5))),
    ]
    lines = "".join(page_text(description_page(groups, now_ms=NOW_MS))).splitlines()
    heads = [line.split()[0] for line in lines if "  Empty  " in line]
    assert heads == ["later", "late", "unknown", "fine"]


def test_ages_instead_of_times() -> None:
    group = replace(
        STABLE, generation_id=7, state_timestamp_ms=NOW_MS - 200_500, offsets=commits(5, 5, 5)
    )
    lines = page(described(group))
    assert "protocol  classic, range, generation 7 for 3 min 20 s" in lines
    assert "committed 3 s ago" in "\n".join(lines)
    empty = replace(group, members=(), state=GroupState.EMPTY)
    assert "generation 7, empty for 3 min 20 s" in page(described(empty))[1]


def test_a_coordinator_is_shown_where_it_is_known() -> None:
    broker = Broker(3, "kafka-3", 9092)
    lines = page(described(replace(EMPTY, coordinator=broker, offsets_partition=17)))
    assert "coordinator  kafka-3:9092 (3), partition 17 of __consumer_offsets" in lines
    assert "coordinator" not in "".join(page(described(replace(EMPTY, offsets_partition=17))))


def test_epochs_of_a_group_that_reconciles() -> None:
    member = replace(A, member_epoch=6, state=MemberState.UNREVOKED_PARTITIONS,
                     target_assignment=partitions(0))  # fmt: skip
    group = Group(
        "g",
        GroupType.CONSUMER,
        GroupState.RECONCILING,
        "consumer",
        "uniform",
        group_epoch=7,
        assignment_epoch=6,
        members=(member, replace(B, member_epoch=7)),
    )
    lines = page(described(group))
    assert "protocol  consumer, uniform, epoch 7, target assignment of epoch 6" in lines
    assert table(lines, "Members")[:2] == [
        ["client_id", "host", "state", "member_epoch", "partitions", "target"],
        ["a", "10.0.3.7", "UnrevokedPartitions", "6", "2: orders 0-1", "orders 0"],
    ]


def test_a_rebalance_shows_what_members_had_before_it() -> None:
    gone = Member("c-1", client_id="c", client_host="/10.0.3.9", assignment=partitions(2))
    before = Membership(7, "a-1", "range", NOW_MS - 200_500, (A, gone))
    group = replace(
        STABLE,
        state=GroupState.PREPARING_REBALANCE,
        members=(replace(A, assignment=None),),
        last_stable=before,
    )
    lines = page(described(group))
    assert lines[0].startswith("g  PreparingRebalance  1 member  ")
    assert lines[1].endswith("last complete generation 7, 3 min 20 s ago")
    assert table(lines, "Members, and what each had before") == [
        ["client_id", "host", "state", "had"],
        ["a", "10.0.3.7", "-", "2: orders 0-1"],
        ["c", "10.0.3.9", "gone", "1: orders 2"],
    ]
    unknown = replace(group, last_stable=Membership(None, None, None, None, ()))
    assert page(described(unknown))[1].endswith(", last complete generation unknown")


def test_streams_groups_show_active_standby_and_warmup_tasks() -> None:
    tasks = TaskAssignment(
        active=(Task("0", 0), Task("0", 1), Task("1", 4)), warmup=(Task("1", 2),)
    )
    member = Member("m", client_id="a", client_host="/h", tasks=tasks)
    group = Group("g", GroupType.STREAMS, GroupState.STABLE, "streams", members=(member,))
    assert table(page(described(group)), "Members") == [
        ["client_id", "host", "active", "standby", "warmup"],
        ["a", "h", "3: 0 0-1; 1 4", "0", "1: 1 2"],
    ]


def test_workers_of_connect_run_connectors_and_tasks() -> None:
    """What a worker reports when it joins the next time is what was shown."""
    shown: dict[str, tuple[list[str], list[tuple[str, int]]]] = {}
    compared = 0
    for group in groups_of("connect-delay"):
        for member in group.members:
            allocation = (member.protocol_metadata or {}).get("allocation")
            if allocation is not None and member.member_id in shown:
                work = {part["connector"]: part["tasks"] for part in allocation["assignment"]}
                connectors = sorted(name for name in work if -1 in work[name])
                tasks = sorted((name, task) for name in work for task in work[name] if task >= 0)
                assert shown[member.member_id] == (connectors, tasks)
                compared += 1
        works = {member.member_id: connect_work(member) for member in group.members}
        shown = {member_id: work for member_id, work in works.items() if work is not None}
    assert compared > 15


def test_a_page_shows_what_workers_of_connect_run_and_what_is_delayed() -> None:
    """Generation 13 has a delay of 60 s; generation 14 came 60.2 s later, as scheduled."""
    groups = {group.generation_id: group for group in groups_of("connect-delay")}
    lines = page(described(groups[12]))
    assert lines[0].split("  ")[2:] == ["2 workers", "4 connectors, 4 tasks"]
    assert [row[-2:] for row in table(lines, "Members")] == [
        ["connectors", "tasks"],
        ["2: src2, src3", "2: src2 0; src3 0"],
        ["2: src1, src4", "2: src1 0; src4 0"],
    ]
    assert not [line for line in lines if line.startswith("delayed")]
    began_ms = groups[13].state_timestamp_ms
    assert began_ms is not None
    parts = description_page([described(groups[13])], now_ms=began_ms + 18_000)
    (delayed,) = [line for line in "".join(page_text(parts)).splitlines() if "delayed" in line]
    assert delayed.startswith(
        "delayed   connectors and tasks of workers that left, or that even out"
    )
    assert delayed.endswith("Z (42 s left)")
    assert 60_000 < (groups[14].state_timestamp_ms or 0) - began_ms < 63_000


def test_a_page_shows_when_kafka_streams_rebalances_next() -> None:
    """Generation 2 scheduled a probing rebalance, 4 none."""
    groups = {group.generation_id: group for group in groups_of("streams-probing")}
    due_ms = 1795841058500
    parts = description_page([described(groups[2])], now_ms=due_ms - 42_000)
    (line,) = [line for line in "".join(page_text(parts)).splitlines() if "probing " in line]
    assert line == f"scheduled  probing rebalance, {shown_time(due_ms)} (42 s left)"
    assert not [line for line in page(described(groups[4])) if line.startswith("scheduled")]


def test_commits_of_open_transactions_stand_beside_the_visible_ones() -> None:
    pending = tuple(
        PendingOffset("orders", number, 9, None, None, None, 18, 3, None) for number in (0, 2)
    )
    group = replace(EMPTY, offsets=commits(5), pending_offsets=pending)
    assert table(page(described(group, orders_0=12)), "Partitions") == [
        ["partition", "lag", "offset", "pending", "end", "committed"],
        ["0", "7", "5", "9", "12", "3 s ago"],
        ["2", "-", "-", "9", "-", "-"],
    ]


def test_changes_are_marked_where_they_are_shown() -> None:
    group = described(replace(STABLE, offsets=commits(5, 5, 5)), orders_0=6, orders_1=9)
    changes = (
        Change(0, "g", ChangeKind.LAG, topic="orders", partition=1, before=1, after=4),
        Change(0, "g", ChangeKind.COMMITTED_OFFSET, topic="orders", partition=0),
        Change(0, "g", ChangeKind.MEMBER_JOINED, "b-1"),
        Change(0, "g", ChangeKind.GENERATION),
    )
    lines = page(group, changes)
    assert lines[0].startswith("g  Stable  *2 members  *lag at least 5")
    assert "protocol  *classic, range" in lines
    assert [row[0] for row in table(lines, "Members")] == ["client_id", "a", "*b"]
    assert [row[1:3] for row in table(lines, "Partitions")] == [
        ["lag", "offset"], ["*4", "5"], ["1", "*5"], ["-", "5"],
    ]  # fmt: skip
    plain = [line.replace("*", "").split() for line in lines]
    assert plain == [line.split() for line in page(group)]


# --- any group at 80 columns ---


class AnyGroup:
    """A random group with long ids.

    Attributes:
        group: the group.
        ends: log end offsets of its partitions, as far as they are known.
        ids: its ids, and the names of its partitions.
    """

    def __init__(self, random: Random, count: int, length: int = 60) -> None:
        self._random = random
        self._length = length
        self.ids: set[str] = set()
        topics = [self._id() for _ in range(random.choice((1, 1, 2, 7)))]
        self.names = [(random.choice(topics), number) for number in range(count)]
        self.ids |= {f"{topic}-{number}" for topic, number in self.names}
        type_ = random.choice(list(GroupType))
        members = [self._member(type_) for _ in range(random.choice((0, 1, 2, 40)))]
        self.ends = {at: random.randrange(10**6) for at in self.names if random.random() < 0.9}
        self.group = Group(
            self._id(),
            type_,
            random.choice(sorted(type_.states)),
            random.choice((None, "consumer", "connect")),
            self._id(),
            generation_id=5,
            state_timestamp_ms=NOW_MS - random.randrange(10**9),
            leader_id=members[0].member_id if members else None,
            coordinator=Broker(1, self._id(), 9092),
            members=tuple(members),
            last_stable=self._membership(members) if random.random() < 0.3 else None,
            offsets=self._commits() if type_ is not GroupType.SHARE else (),
            share_offsets=self._share_offsets() if type_ is GroupType.SHARE else None,
        )
        self._own()

    def _id(self) -> str:
        letters = "".join(self._random.choices("abcdefgh0123456789-._", k=self._length - 2))
        self.ids.add(f"x{letters}y")
        return f"x{letters}y"

    def _member(self, type_: GroupType) -> Member:
        random = self._random
        client_id = random.choice((self._id(), "consumer-1", None))
        host = random.choice(("/10.0.3.7", self._id(), None))
        tasks = TaskAssignment(tuple(Task(str(n % 3), n) for n in range(random.choice((0, 90)))))
        member = Member(self._id(), client_id=client_id, client_host=host, assignment=())
        if type_ is GroupType.STREAMS:
            return replace(member, assignment=None, tasks=tasks)
        return replace(member, state=random.choice((None, *MemberState)), rack_id=self._id())

    def _membership(self, members: Sequence[Member]) -> Membership:
        return Membership(4, None, None, NOW_MS, (*members[:1], self._member(GroupType.CLASSIC)))

    def _commits(self) -> tuple[CommittedOffset, ...]:
        return tuple(
            CommittedOffset(*at, self._random.randrange(10**6), commit_timestamp_ms=NOW_MS - 10**7)
            for at in sorted(self.names)
            if self._random.random() < 0.8
        )

    def _share_offsets(self) -> tuple[ShareOffset, ...]:
        lags = (None, 0, 17, 10**6)
        return tuple(
            ShareOffset("id", *at, "initialized", 5, lag=self._random.choice(lags))
            for at in sorted(self.names)
        )

    def _own(self) -> None:
        """Give the partitions to the members by turns, but not those of the last topic."""
        members = [m for m in self.group.members if m.assignment is not None]
        owned = [
            replace(
                m, assignment=tuple(AssignedPartition(None, *at) for at in self.names[n::count])
            )
            for n, m in enumerate(members)
            if (count := len(members))
        ]
        self.group = replace(self.group, members=tuple(owned) or self.group.members)

    def describe(self) -> GroupDescription:
        (description,) = describe(FakeSource(self.group, ends=self.ends)).data
        return description


COUNTS = (1, 2, 3, 17, 60, 500)


@pytest.mark.parametrize("seed", range(examples(24)))
def test_a_page_at_80_columns_has_a_line_for_each_member_and_partition(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    any_group = AnyGroup(Random(seed), COUNTS[seed % len(COUNTS)])
    description = any_group.describe()
    group = description.group
    before = group.last_stable.members if group.last_stable else ()
    members = {member.member_id for member in (*group.members, *before)}
    lines = page(description, terminal=True)
    assert len(lines) <= len(description.rows) + len(members) + 12, "\n".join(lines[:20])
    assert max(map(cell_len, lines)) <= 80
    for line in lines:
        for word in re.split(r"[ (),:;]+", line):
            if len(word) > 20 and word.startswith("x") and "…" not in word:
                assert word in any_group.ids


@pytest.mark.parametrize("seed", range(examples(40)))
def test_the_numbers_of_the_verdict_are_those_of_the_rows(seed: int) -> None:
    any_group = AnyGroup(Random(seed), COUNTS[seed % len(COUNTS)], length=12)
    description = any_group.describe()
    rows = description.rows
    lags = {row: row.lag for row in rows if row.lag is not None}
    uncommitted = [r for r in rows if r.lag is None and getattr(r, "committed_offset", 0) is None]
    unknown = len(rows) - len(lags) - len(uncommitted)
    behind = {row: lag for row, lag in lags.items() if lag > 0}
    verdict = page(description)[0]
    assert f"  {len(description.group.members) or 'no'} " in verdict
    if behind:
        least = "at least " if unknown else ""
        assert f"  lag {least}{sum(behind.values())}" in verdict
        worst = re.search(r"(?:, all|, (\d+) of it) in (\S+)-(\d+)", verdict)
        assert worst is not None
        (row,) = [r for r in rows if (r.topic, r.partition) == (worst[2], int(worst[3]))]
        assert row.lag == max(behind.values())
        assert int(worst[1] or sum(behind.values())) == row.lag
    else:
        assert ("  lag 0" in verdict) == (bool(lags) and not unknown)
    for words, count in (
        ("unknown in", unknown),
        ("nothing committed in", len(uncommitted)),
        (f"{sum(behind.values())} in", len(behind) if len(behind) > 1 else 0),
    ):
        found = re.search(rf"{words} (\d+)( of (\d+))? partition", verdict)
        if count and len(rows) > 1:
            assert found is not None
            assert int(found[1]) == count
            assert int(found[3] or count) == len(rows)
        else:
            assert found is None or len(rows) == 1


@pytest.mark.parametrize("width", [20, 40])
def test_a_narrow_terminal(width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    any_group = AnyGroup(Random(1), 17)
    lines = "\n".join(page(any_group.describe(), terminal=True))
    assert all(re.search(rf"\b{number}\b", lines) for _, number in any_group.names)


@pytest.mark.parametrize("seed", range(examples(24)))
def test_explain_says_once_what_each_word_on_the_page_means(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    description = AnyGroup(Random(seed), COUNTS[seed % len(COUNTS)]).describe()
    group = description.group
    parts = list(description_page([description], now_ms=NOW_MS, explain=True))
    own = STYLES.sub("", "".join(page_text(parts, terminal=True)))
    lines = own.partition("\nWhat it means\n")[2].splitlines()
    explained = [line for line in lines if not line.startswith(" ")]
    assert len(set(explained)) == len(explained)
    assert all(len(line) <= 80 for line in lines)
    marks = {offset.mark for offset in description.offsets} - {None}
    assert {group.type, group.state, *marks} <= set(explained)
    states = {member.state for member in group.members} - {None}
    told = {f"{state} (member)" for state in states}
    assert states <= {MemberState.STABLE} or told <= set(explained)
    shown = page(description)
    has_lag = any(offset.lag is not None for offset in description.offsets)
    assert ("lag" in explained) == (has_lag or bool(description.share_offsets))
    assert ("nothing committed" in explained) == ("nothing committed" in shown[0])
    assert ("lag unknown" in explained) == any(
        row.lag is None and row.mark is None and row.committed_offset is not None
        for row in description.offsets
    )
    twice = "".join(page_text(description_page([description] * 2, now_ms=NOW_MS, explain=True)))
    assert twice.count("Fewer records wait") == own.count("Fewer records wait") <= 1


@pytest.mark.parametrize(
    ("library", "expected", "absent"),
    [
        (
            "kafka-clients",
            "It leaves when max.poll.interval.ms has passed",
            "It stays however late",
        ),
        ("kafka-go", "joins as a new member after JoinGroupBackoff", "with its instance id"),
        ("aiokafka", "it takes the instance id back", "It stays however late"),
    ],
)
def test_explain_says_what_members_of_a_client_library_do(
    library: str, expected: str, absent: str
) -> None:
    member = Member("m-1", instance_id="i-1", client_id="c", client_library=library)
    group = Group("g", GroupType.CLASSIC, GroupState.STABLE, "consumer", "range", members=(member,))
    terms = dict(explanation.terms(describe(FakeSource(group), ["g"]).data[0]))
    assert expected in terms[library]
    assert absent not in terms[library]
