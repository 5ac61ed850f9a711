"""What classic groups do, case by case, as Kafka's documents and its `GroupCoordinatorTest` say."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kgroup.model.group import GroupState
from kgroup.protocol.error_code import ErrorCode
from kgroup.protocol.record.coordinator_record import encode_key, encode_value
from kgroup.simulation.classic.group import member_table
from kgroup.simulation.group_coordinator import GroupCoordinatorShard
from kgroup.simulation.message import (
    CommittedPartition,
    DeleteGroup,
    Heartbeat,
    JoinAnswer,
    LeaveGroup,
    LeavingMember,
    OffsetCommit,
    OffsetDelete,
    SyncAnswer,
    SyncGroup,
)
from kgroup.simulation.rules import BrokerSettings, Version
from tests.columnar import log_writer as log
from tests.columnar.log_writer import Plain
from tests.simulation.classic_table import NEW, OLD, VERSIONS, Table, make_join, stable
from tests.simulation.world import GROUP


@pytest.fixture(params=VERSIONS, ids=lambda version: ".".join(map(str, version)))
def table(request: pytest.FixtureRequest) -> Table:
    return Table(request.param)


def test_first_member_leads_and_assigns(table: Table) -> None:
    a = table.joined("a")
    assert (a.error, a.generation_id, a.leader_id) == (ErrorCode.NONE, 1, a.member_id)
    assert [member.member_id for member in a.members] == [a.member_id]
    assert table.state() is GroupState.COMPLETING_REBALANCE
    answer = table.sync(a, **{a.member_id: b"all"})
    assert (answer.error, answer.assignment) == (ErrorCode.NONE, b"all")
    assert table.state() is GroupState.STABLE


def test_second_member_waits_for_the_first_to_join_again(table: Table) -> None:
    a = stable(table)
    waiting = table.join("b")
    assert table.take() == []
    assert table.state() is GroupState.PREPARING_REBALANCE
    assert table.beat(a) is ErrorCode.REBALANCE_IN_PROGRESS
    again = table.join("a", a.member_id)
    answers = table.join_answers()
    assert answers[waiting].generation_id == answers[again].generation_id == 2
    assert answers[again].leader_id == answers[waiting].leader_id == a.member_id
    assert answers[waiting].members == ()
    assert len(answers[again].members) == 2


def test_who_does_not_join_in_time_is_removed(table: Table) -> None:
    """`rebalance.timeout.ms` of the most patient member, which is max.poll.interval.ms."""
    a = stable(table)
    waiting = table.join("b", rebalance_timeout_ms=30_000)
    for now_ms in range(5_000, 60_000, 5_000):
        table.clock.run(now_ms)
        assert table.take() == []
        assert table.beat(a) is ErrorCode.REBALANCE_IN_PROGRESS
    table.clock.run(60_000)
    b = table.join_answer(waiting)
    assert (b.generation_id, b.leader_id) == (2, b.member_id)
    assert table.beat(a) is ErrorCode.UNKNOWN_MEMBER_ID


def test_who_is_not_heard_of_is_removed(table: Table) -> None:
    stable(table)
    table.clock.run(9_999)
    assert table.state() is GroupState.STABLE
    table.clock.run(10_000)
    assert table.state() is GroupState.EMPTY


def test_heartbeats_and_commits_keep_a_member(table: Table) -> None:
    a = stable(table)
    for now_ms in range(6_000, 60_000, 6_000):
        table.clock.run(now_ms)
        say: Callable[[], ErrorCode] = (
            (lambda: table.beat(a))
            if now_ms % 12_000
            else (lambda: table.commit(a.generation_id, a.member_id))
        )
        assert say() is ErrorCode.NONE
    assert table.state() is GroupState.STABLE


def test_leaving_empties_the_group_and_its_generation_counts(table: Table) -> None:
    a = stable(table)
    table.ask(LeaveGroup(GROUP, (LeavingMember(a.member_id),)))
    assert table.state() is GroupState.EMPTY
    b = table.joined("b")
    assert b.generation_id == 3  # the empty generation was the second


@pytest.mark.parametrize(
    ("first", "second", "chosen"),
    [
        ("range,roundrobin", "roundrobin,range", ("range", "roundrobin")),
        ("range,sticky", "sticky,other", ("sticky",)),
        ("range,sticky,other", "other,sticky", ("sticky", "other")),
    ],
)
def test_members_vote_among_common_protocols(
    table: Table, first: str, second: str, chosen: tuple[str, ...]
) -> None:
    a = table.joined("a", protocols=first)
    table.sync(a)
    table.join("b", protocols=second)
    again = table.join("a", a.member_id, protocols=first)
    assert table.join_answer(again).protocol in chosen


@pytest.mark.parametrize(
    ("given", "code"),
    [
        ({"protocols": "other"}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocols": ""}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocol_type": "connect"}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"session_timeout_ms": 1}, ErrorCode.INVALID_SESSION_TIMEOUT),
        ({"session_timeout_ms": 2_000_000}, ErrorCode.INVALID_SESSION_TIMEOUT),
        ({"member_id": "nobody"}, ErrorCode.UNKNOWN_MEMBER_ID),
    ],
)
def test_who_does_not_fit_is_refused(table: Table, given: dict[str, Any], code: ErrorCode) -> None:
    stable(table)
    assert table.joined("b", **given).error is code
    assert table.state() is GroupState.STABLE


def test_member_id_is_required_since_2_2() -> None:
    """KIP-394."""
    table = Table((2, 2))
    answer = table.ask(make_join("a"))
    assert isinstance(answer, JoinAnswer)
    assert (answer.error, answer.member_id) == (ErrorCode.MEMBER_ID_REQUIRED, "a-1")
    assert table.state() is GroupState.EMPTY
    old = Table((2, 1))
    request = make_join("a")
    old.send(request)
    old.clock.run(0)
    assert old.join_answer(request).error is ErrorCode.NONE


@pytest.mark.parametrize(
    ("version", "code"),
    [((2, 1), ErrorCode.UNKNOWN_MEMBER_ID), ((2, 2), ErrorCode.INVALID_GROUP_ID)],
)
def test_a_group_without_a_name(version: Version, code: ErrorCode) -> None:
    """KIP-289, in 2.2: `GroupCoordinatorShard.isValidGroupId`."""
    table = Table(version)
    assert table.ask(Heartbeat("", 1, "a")).error is code
    left = table.ask(LeaveGroup("", (LeavingMember("a"),)))
    assert code in (left.error, *(each for _, each in left.members))


@pytest.mark.parametrize(("version", "types"), [((3, 9, 2), []), (NEW, ["GroupMetadata"])])
def test_a_new_group_is_written_since_4_0(version: Version, types: list[str]) -> None:
    """`classicGroupJoinToClassicGroup`: `newEmptyGroupMetadataRecord` "if the group is new"."""
    table = Table(version)
    table.ask(make_join("a"))
    assert [type_ for type_, _, _ in table.written] == types


@pytest.mark.parametrize(
    ("version", "code"), [((2, 8, 2), ErrorCode.NONE), ((3, 0), ErrorCode.UNKNOWN_MEMBER_ID)]
)
def test_a_member_that_names_an_unknown_instance(version: Version, code: ErrorCode) -> None:
    """`isStaticMemberFenced` before 3.0, `validateCurrentMember` since."""
    table = Table(version)
    assert table.beat(stable(table), "i") is code


def test_a_static_member_that_does_not_join_in_time_stays_since_2_3() -> None:
    """KIP-345: until its session ends."""
    table = Table((2, 3))
    a = table.joined("a", instance_id="i", session_timeout_ms=90_000)
    table.sync(a)
    waiting = table.join("b")
    table.clock.run(60_000)
    b = table.join_answer(waiting)
    assert (b.leader_id, len(b.members)) == (b.member_id, 2)


@pytest.mark.parametrize(
    ("version", "code"),
    [
        (OLD, ErrorCode.UNKNOWN_MEMBER_ID),
        ((2, 0), ErrorCode.REBALANCE_IN_PROGRESS),
        ((3, 9, 2), ErrorCode.REBALANCE_IN_PROGRESS),
        (NEW, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS),
    ],
)
def test_who_syncs_while_the_coordinator_loads(version: Version, code: ErrorCode) -> None:
    """`handleSyncGroup`: "the coordinator is loading, ... start over at JoinGroup" (2.0 to 3.9)."""
    table = Table(version)
    a = stable(table)
    table.coordinator.resign()
    table.coordinator.elect(table.log, 1_000)
    assert table.sync(a).error is code


def test_an_id_that_does_not_join_is_forgotten() -> None:
    table = Table(NEW)
    a = stable(table)
    knock = make_join("b", session_timeout_ms=8_000)
    answer = table.ask(knock)
    assert isinstance(answer, JoinAnswer)
    again = make_join("a", a.member_id, protocols="range,other")
    table.send(again)
    assert table.take() == []  # b is waited for
    table.clock.run(8_000)
    assert len(table.join_answer(again).members) == 1
    assert table.joined("b", answer.member_id).error is ErrorCode.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize("version", [(3, 9, 2), NEW])
def test_initial_delay_is_longer_while_members_come(version: Version) -> None:
    """`group.initial.rebalance.delay.ms` (KIP-134): at most the rebalance timeout in all."""
    table = Table(version, initial_rebalance_delay_ms=3_000)
    first = table.join("a")
    for count, now_ms in enumerate((2_000, 5_000, 8_000)):
        table.clock.run(now_ms)
        assert table.take() == [], now_ms
        if count < 2:
            table.join("bc"[count])
    table.clock.run(9_000)
    assert len(table.join_answer(first).members) == 3


def test_static_member_comes_back_without_a_rebalance() -> None:
    """KIP-345."""
    table = Table(NEW)
    a = table.joined("a", instance_id="i")
    table.sync(a, **{a.member_id: b"all"})
    back = table.joined("a", instance_id="i")
    assert (back.error, back.generation_id) == (ErrorCode.NONE, a.generation_id)
    assert back.member_id != a.member_id
    assert table.state() is GroupState.STABLE
    assert table.sync(back).assignment == b"all"
    assert table.beat(a, "i") is ErrorCode.FENCED_INSTANCE_ID


@pytest.mark.parametrize(("version", "skips"), [(8, False), (9, True)])
def test_a_static_leader_that_comes_back_assigns_nothing(version: int, *, skips: bool) -> None:
    """KIP-814: `SkipAssignment` of JoinGroup 9; older ones are told that its old id leads."""
    table = Table((3, 2))
    a = table.joined("a", instance_id="i")
    table.sync(a, **{a.member_id: b"all"})
    back = table.joined("a", instance_id="i", version=version)
    assert back.skip_assignment is skips
    assert back.leader_id == (back if skips else a).member_id
    assert len(back.members) == int(skips)


def test_group_max_size() -> None:
    """KIP-389, in 2.2."""
    table = Table((2, 2), max_size=1)
    stable(table)
    assert table.joined("b").error is ErrorCode.GROUP_MAX_SIZE_REACHED


@pytest.mark.parametrize("version", VERSIONS)
def test_a_record_above_message_max_bytes(version: Version) -> None:
    """As brokers of 2.8.2, 3.9.2 and 4.3.1 answer (tests/broker/test_group_record.py)."""
    table = Table(version)
    stable(table)
    key = encode_key("GroupMetadata", {"group": GROUP})
    (value,) = (each for _, _, each in table.written if each and each["members"])
    most = len(log.batch([Plain(0, 0, key, encode_value("GroupMetadata", 3, value))]))
    stable(Table(version, message_max_size=most))
    table = Table(version, message_max_size=most - 1)
    a = table.joined("a")
    for _ in range(3):
        answer = table.sync(a, **{a.member_id: b"all"})
        assert (answer.error, answer.assignment) == (ErrorCode.UNKNOWN_SERVER_ERROR, b"")
        assert table.state() is GroupState.PREPARING_REBALANCE
        a = table.joined("a", a.member_id)
        assert a.error is ErrorCode.NONE
    assert not [each for type_, _, each in table.written if each and each["members"]]


@pytest.mark.parametrize(
    ("version", "limit"), [((2, 4, 1), 1_000_012), ((2, 5), 1_048_588), ((4, 3, 1), 1_048_588)]
)
def test_the_default_of_message_max_bytes(version: Version, limit: int) -> None:
    """As `kafka.server.Defaults` of these versions has it."""
    assert BrokerSettings.of(version).message_max_size == limit


def test_all_members_fail_with_a_record_that_is_too_large() -> None:
    table = Table(NEW, message_max_size=400)
    a = stable(table)
    waiting = table.join("b")
    again = table.join("a", a.member_id)
    answers = table.join_answers()
    b, a = answers[waiting], answers[again]
    for answer, assignments in ((b, {}), (a, {a.member_id: bytes(200)})):
        table.send(
            SyncGroup(
                *(GROUP, answer.generation_id, answer.member_id, assignments),
                protocol_type="consumer",
                protocol=answer.protocol,
            )
        )
    assert [answer for _, answer in table.take()] == [
        SyncAnswer(ErrorCode.UNKNOWN_SERVER_ERROR)
    ] * 2
    assert table.state() is GroupState.PREPARING_REBALANCE


@pytest.mark.parametrize("version", VERSIONS)
def test_a_group_that_had_no_generation_is_removed_without_a_record_before_4_0(
    version: Version,
) -> None:
    """`cleanupGroupMetadata`: "this group is only using Kafka for offset storage"."""
    table = Table(version)
    table.commit(-1)
    table.written.clear()
    table.ask(DeleteGroup(GROUP))
    removed = ["GroupMetadata"] if version == NEW else []
    assert [type_ for type_, _, value in table.written if value is None] == [
        "OffsetCommit",
        *removed,
    ]


@pytest.mark.parametrize(
    ("protocol_type", "code"),
    [("connect", ErrorCode.NON_EMPTY_GROUP), ("consumer", ErrorCode.NONE)],
)
def test_offsets_of_others_than_consumers_are_not_deleted_while_they_are_there(
    table: Table, protocol_type: str, code: ErrorCode
) -> None:
    """KIP-496."""
    table.commit(-1)
    table.joined("a", protocol_type=protocol_type)
    assert table.ask(OffsetDelete(GROUP, (("t", 0),))).error is code
    assert table.ask(OffsetDelete("other", (("t", 0),))).error is ErrorCode.GROUP_ID_NOT_FOUND


def test_commits_are_fenced(table: Table) -> None:
    assert table.commit(-1) is ErrorCode.NONE  # who is in no group, while it has no members
    a = stable(table)
    assert table.commit(-1) is ErrorCode.UNKNOWN_MEMBER_ID
    assert table.commit(a.generation_id, "nobody") is ErrorCode.UNKNOWN_MEMBER_ID
    assert table.commit(a.generation_id - 1, a.member_id) is ErrorCode.ILLEGAL_GENERATION
    assert table.commit(a.generation_id, a.member_id, 9) is ErrorCode.NONE
    assert table.committed() == 9
    table.join("b")
    assert (
        table.commit(a.generation_id, a.member_id, 10) is ErrorCode.NONE
    )  # it may, until it joins
    again = table.join("a", a.member_id)
    assert table.join_answer(again).generation_id == a.generation_id + 1
    assert table.commit(a.generation_id + 1, a.member_id) is ErrorCode.REBALANCE_IN_PROGRESS
    assert table.committed() == 10


@pytest.mark.parametrize(
    ("version", "request_version", "code"),
    [
        ((3, 9, 2), 9, ErrorCode.ILLEGAL_GENERATION),
        (NEW, 8, ErrorCode.ILLEGAL_GENERATION),
        (NEW, 9, ErrorCode.GROUP_ID_NOT_FOUND),
    ],
)
def test_commits_of_a_generation_of_no_group(
    version: Version, request_version: int, code: ErrorCode
) -> None:
    """`OffsetMetadataManager.validateOffsetCommit`, `handleCommitOffsets` before 4.0."""
    offsets = {("t", 0): CommittedPartition(7)}
    answer = Table(version).ask(OffsetCommit(GROUP, offsets, 1, "a", version=request_version))
    assert answer.errors == {("t", 0): code}


def test_offsets_of_an_empty_group_expire_after_the_retention() -> None:
    """KIP-211: seven days after the last member has gone, and the group with them."""
    table = Table(NEW)
    a = stable(table)
    table.commit(a.generation_id, a.member_id)
    table.ask(LeaveGroup(GROUP, (LeavingMember(a.member_id),)))
    week_ms = 7 * 24 * 3_600_000
    table.clock.run(week_ms - 1)
    assert table.committed() == 7
    table.clock.run(week_ms + 600_000)
    assert table.committed() is None
    assert table.state() is GroupState.DEAD
    assert table.log.groups() == {}


def test_offsets_of_an_active_group_expire_too_before_2_1() -> None:
    table = Table(OLD, offsets_retention_ms=3_600_000)
    a = stable(table)
    table.commit(a.generation_id, a.member_id)
    for now_ms in range(0, 5_000_000, 5_000):
        table.clock.run(now_ms)
        assert table.beat(a) is ErrorCode.NONE
    assert table.committed() is None


def test_fail_over(table: Table) -> None:
    """Who is in a generation stays, with a whole session to be heard of; who waits asks again."""
    a = stable(table)
    table.commit(a.generation_id, a.member_id)
    waiting = table.join("b")
    table.coordinator.resign()
    assert table.join_answer(waiting).error is ErrorCode.NOT_COORDINATOR
    assert table.beat(a) is ErrorCode.NOT_COORDINATOR
    table.clock.run(4_000)
    table.coordinator.elect(table.log, 1_000)
    assert table.beat(a) is ErrorCode.NONE  # while it loads nobody is sent away
    assert table.commit(a.generation_id, a.member_id) is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    table.clock.run(5_000)
    assert (table.state(), table.committed()) == (GroupState.STABLE, 7)
    table.clock.run(14_999)
    assert table.beat(a) is ErrorCode.NONE
    assert table.sync(a).assignment == b"all"


def test_the_initial_delay_ends_when_the_rebalance_timeout_is_over() -> None:
    """`InitialDelayedJoin`: each time that somebody comes, less of the timeout is left."""
    table = Table(NEW, initial_rebalance_delay_ms=3_000)
    for now_ms, client in ((0, "a"), (2_000, "b"), (4_000, "c"), (4_900, "d")):
        table.clock.run(now_ms)
        table.join(client, rebalance_timeout_ms=5_000)
    table.clock.run(4_999)
    assert table.join_answers() == {}
    table.clock.run(5_000)
    assert len(table.join_answers()) == 4


@pytest.mark.parametrize(("version", "joined_ms"), [((3, 9, 2), 6_000), (NEW, 9_000)])
def test_the_initial_delay_of_a_group_that_others_have_left(
    version: Version, joined_ms: int
) -> None:
    """Who comes prolongs it: "generationId == 0" in 3.9, "previousState() == EMPTY" in 4.0."""
    table = Table(version, initial_rebalance_delay_ms=3_000)
    request = table.join("a")
    table.clock.run(3_000)
    a = table.join_answer(request)
    table.ask(LeaveGroup(GROUP, (LeavingMember(a.member_id),)))
    table.join("b")
    table.clock.run(5_000)
    table.join("c")
    table.clock.run(joined_ms - 1)
    assert table.join_answers() == {}
    table.clock.run(joined_ms)
    assert len(table.join_answers()) == 2


@pytest.mark.parametrize(("version", "joined_ms"), [((3, 9, 2), 5_000 + 8_000), (NEW, 6_000)])
def test_an_id_that_is_forgotten_may_end_the_initial_delay(
    version: Version, joined_ms: int
) -> None:
    """`removePendingMemberAndUpdateClassicGroup` of 4.0; `InitialDelayedJoin` before waits on."""
    table = Table(version, initial_rebalance_delay_ms=8_000)
    table.ask(make_join("a", session_timeout_ms=6_000))
    table.clock.run(5_000)
    table.join("b")
    table.clock.run(joined_ms - 1)
    assert table.join_answers() == {}
    table.clock.run(joined_ms)
    assert len(table.join_answers()) == 1


@pytest.mark.parametrize("version", [OLD, (2, 2), NEW])
def test_a_new_member_that_waits_is_removed_after_five_minutes(version: Version) -> None:
    """`NewMemberJoinTimeoutMs`, KAFKA-7610; before 2.2 a member that waits stays."""
    table = Table(version)
    a = table.joined("a", rebalance_timeout_ms=600_000)
    table.sync(a)
    table.join("b", rebalance_timeout_ms=600_000)
    removed_ms = None
    for now_ms in range(0, 310_000, 5_000):
        table.clock.run(now_ms)
        table.take()  # what the new member is told in the end
        assert table.beat(a) is ErrorCode.REBALANCE_IN_PROGRESS
        if removed_ms is None and table.removals:
            removed_ms = now_ms
    assert removed_ms == (None if version == OLD else 300_000)


@pytest.mark.parametrize("version", [(2, 2), NEW])
def test_a_group_that_is_too_large_when_it_is_loaded_rebalances(version: Version) -> None:
    """`onGroupLoaded`: "Freshly-loaded group is over capacity"."""
    for max_size, state in ((1, GroupState.PREPARING_REBALANCE), (2, GroupState.STABLE)):
        table = Table(version)
        a = stable(table)
        table.join("b")
        table.join("a", a.member_id)
        table.clock.run(table.clock.now_ms)
        leader = next(answer for answer in table.join_answers().values() if answer.members)
        table.sync(leader)
        assert table.state() is GroupState.STABLE
        settings = BrokerSettings(version, initial_rebalance_delay_ms=0, max_size=max_size)
        next_one = GroupCoordinatorShard(settings, table)
        next_one.elect(table.log, 0)
        table.clock.run(table.clock.now_ms)
        group = next_one.classic.groups[GROUP]
        assert (group.state, len(group)) == (state, 2)


# ---- in which order brokers keep members; who leads and what wins votes depends on it


@pytest.mark.parametrize(
    ("version", "order"),
    [
        ((2, 5, 1), ["b", "a", "c"]),  # as Scala 2.11 prints it, see `test_java_hash`
        ((2, 6), ["a", "b", "c"]),  # Scala 2.13: in buckets by the hashes 97, 98 and 99
        ((3, 9, 2), ["a", "b", "c"]),
    ],
)
def test_brokers_since_2_6_run_on_scala_2_13(version: Version, order: list[str]) -> None:
    """The downloads page recommends Scala 2.12 for Kafka 2.5, and 2.13 for 2.6."""
    table = member_table(version)
    for name in "cba":
        table.put(name)
    assert list(table) == order


def test_a_table_of_scala_2_13_is_doubled_when_it_is_three_quarters_full() -> None:
    """The hashes of the letters, 97 to 116, are in order in 32 buckets, and not in 16."""
    letters = "abcdefghijklmnopqrst"
    table = member_table((2, 6))
    for name in letters[:11]:
        table.put(name)
    table.put("q")  # the twelfth, which is in the bucket of a among 16
    assert list(table) == [*letters[:11], "q"]
    for name in reversed(letters):
        table.put(name)
    assert list(table) == [*letters]
