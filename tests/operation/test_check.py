"""What `kgroup check` judges, and in which order and forms it is said.

Rules find what they should on real brokers, in `tests/broker/test_live_check.py`.
"""

from __future__ import annotations

import gzip
import json
import re
import time
from base64 import b64decode
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from itertools import repeat
from pathlib import Path
from random import Random
from typing import Any

import pytest

from kgroup.errors import BrokerError, ExitStatus, InputError, ProblemKind
from kgroup.model.client_library import Certainty
from kgroup.model.cluster import ClusterView, Partition, Placement, Topic
from kgroup.model.group import (
    AssignedPartition,
    Broker,
    Group,
    GroupState,
    GroupType,
    Member,
    Membership,
    Subscription,
)
from kgroup.model.instant import shown_time
from kgroup.model.log_range import LogRange, NextReading, NextRecord, OffsetMark, Position
from kgroup.model.offset import CommittedOffset
from kgroup.model.problem import Problem
from kgroup.operation.check.check import Audit, Request, check
from kgroup.operation.check.commit import out_of_range
from kgroup.operation.check.look import (
    LIMITS,
    Evidence,
    Past,
    Thresholds,
    finding_of,
    parse_group_limits,
    parse_limit,
    read_baseline,
    with_limits,
)
from kgroup.operation.check.rule import Basis, Finding, Rule, Severity
from kgroup.operation.plan.advice import advise
from kgroup.operation.plan.coordinator import MIGRATION_POLICY
from kgroup.operation.plan.forecast import USUAL
from kgroup.operation.plan.plan import MigrationTarget
from kgroup.protocol.record.consumer_protocol import decode_assignment, decode_subscription
from kgroup.render.check import nagios_lines, nagios_status, prometheus_lines
from kgroup.render.json_document import json_document, json_rows
from kgroup.sample import sample_log_dir
from kgroup.source.base import SettingReading
from kgroup.source.log.source import LogDir
from tests.field_log import groups_of
from tests.model.records import classic, classic_member, groups
from tests.operation.plan.fake_cluster import FakeCluster, group_of
from tests.operation.sources import FakeSource

NOW_MS = 1_700_000_000_000
DAY_MS = 86_400_000


def member(name: str, *partitions: int, **more: Any) -> Member:
    owned = tuple(AssignedPartition(None, "orders", number) for number in partitions)
    subscription = Subscription(("orders",), None, (), None, None)
    return Member(name, subscription=subscription, assignment=owned, **more)


def group(group_id: str, *members: Member, **more: Any) -> Group:
    state = GroupState.STABLE if members else GroupState.EMPTY
    return Group(group_id, GroupType.CLASSIC, state, members=members, **more)


def commit(partition: int, offset: int, age_ms: int = DAY_MS, **more: Any) -> CommittedOffset:
    return CommittedOffset("orders", partition, offset, commit_timestamp_ms=NOW_MS - age_ms, **more)


def audit(*groups: Group, ranges: Mapping[int, LogRange] | None = None, **request: Any) -> Audit:
    logs = {("orders", number): log for number, log in (ranges or {}).items()}
    return check(FakeSource(*groups, ranges=logs), Request(**request), lambda: NOW_MS)


def said(found: Audit) -> list[tuple[str | None, str, str]]:
    return [(finding.group_id, finding.severity, finding.code) for finding in found.report.data]


LAGGING = group("b", offsets=(commit(0, 3),))
EXPIRING = group("a", offsets=(commit(0, 10, expire_timestamp_ms=NOW_MS + 7_200_000),))
LOGS = {0: LogRange(0, 10)}
EMPTY = group("a", offsets=(commit(0, 10),))


def test_the_worst_of_each_group_first_and_the_exit_status() -> None:
    both = group("b", offsets=(commit(0, 3, expire_timestamp_ms=NOW_MS + 1),))
    found = audit(both, EXPIRING, ranges=LOGS)
    assert said(found) == [
        ("a", "warning", "expiring-offset"),
        ("b", "error", "nobody-reads"),
        ("b", "warning", "expiring-offset"),
    ]
    assert found.report.data[0].reason == (
        "1 committed offset of the group will expire, the first in 2.0 hours."
    )
    assert found.report.exit_status is ExitStatus.PROBLEM
    for severity, expiring, status in (
        (Severity.ERROR, (EXPIRING,), ExitStatus.DONE),
        (Severity.ERROR, (EXPIRING, LAGGING), ExitStatus.PROBLEM),
        (Severity.WARNING, (EXPIRING,), ExitStatus.PROBLEM),
        (Severity.INFO, (), ExitStatus.DONE),
    ):
        assert audit(*expiring, ranges=LOGS, fail_on=severity).report.exit_status is status


class SeenSource(FakeSource):
    """Has records; partitions whose last offsets are markers have none."""

    def __init__(self, *groups: Group, markers: int, **more: Any) -> None:
        super().__init__(*groups, **more)
        self.asked: list[Position] = []
        self._markers = markers

    def next_records(
        self, positions: Collection[Position], *, committed: bool = False
    ) -> NextReading:
        self.asked += sorted(positions)
        ends = self.log_ranges({at[:2] for at in positions}).ranges
        return NextReading(
            {
                at: NextRecord(at[2], 1)
                if at[2] < (ends[at[:2]].end or 0) - self._markers
                else NextRecord()
                for at in positions
            }
        )


@pytest.mark.parametrize(
    ("log", "committed", "records"),
    [
        (LogRange(0, 21), 20, 0),
        (LogRange(0, 21), 19, 2),
        (LogRange(20, 21), 3, 0),
        (LogRange(1000, 1000), 10, 0),
        (LogRange(0, 5000), 10, 4990),
    ],
    ids=["marker", "record and marker", "marker left by retention", "nothing left", "many"],
)
def test_records_wait_only_where_there_are_records(
    log: LogRange, committed: int, records: int
) -> None:
    """A transaction's marker has an offset, and nobody reads it; nor what retention removed."""
    old = 700_000
    empty = group("empty", offsets=(commit(0, committed),))
    owned = group("owned", member("one", 0), offsets=(commit(0, committed, age_ms=old),))
    source = SeenSource(empty, owned, markers=1, ranges={("orders", 0): log})
    findings = check(source, Request(), lambda: NOW_MS).report.data
    claims = [
        finding for finding in findings if finding.code in (Rule.NOBODY_READS, Rule.OLD_COMMIT)
    ]
    assert bool(claims) == bool(records)
    for claim in claims:
        assert f"p to {records} records wait" in claim.reason
    assert not (log.end == 5000 and source.asked), "so many are not looked for"


def test_only_these_rules_and_not_what_is_known() -> None:
    found = audit(LAGGING, EXPIRING, ranges=LOGS, rules=frozenset({Rule.NOBODY_READS}))
    assert said(found) == [("b", "error", "nobody-reads")]
    text = b"".join(json_document("check", json_rows(found.report.data), ()))
    known = read_baseline(text, "known.json")
    later = group("b", offsets=(commit(0, 1),))  # lags more, and is the same
    found = audit(later, EXPIRING, ranges=LOGS, known=known)
    assert said(found) == [("a", "warning", "expiring-offset")]
    assert found.report.notes == ("1 known finding is not shown",)
    found = audit(later, ranges=LOGS, known=known)
    assert found.report.exit_status is ExitStatus.DONE
    other = group("c", offsets=(commit(0, 1),))
    assert said(audit(other, ranges=LOGS, known=known)) == [("c", "error", "nobody-reads")]


def looked_back(evidence: Evidence) -> Past:
    """A member of g polls too late, and the group rebalances; z has had another storm."""
    late = finding_of(
        Rule.LATE_POLL,
        "late",
        "g",
        basis=Basis.LOG,
        member_id="one",
        client_id="billing-2",
        client_host="/10.0.3.7",
        event_count=3,
        timeout_ms=10_000,
        evidence_to_ms=NOW_MS - 60_000,
    )
    storm = finding_of(Rule.REBALANCE_STORM, "storm", "g", caused_by=Rule.LATE_POLL)
    other = finding_of(Rule.REBALANCE_STORM, "other", "z")
    return Past((storm, other, late))


def audit_back(committed: int = 9, **request: Any) -> Audit:
    owner = replace(member("one", 0), client_id="billing-2", client_host="/10.0.3.7")
    behind = group("g", owner, offsets=(commit(0, committed, age_ms=400_000),))
    source = FakeSource(behind, group("z"), ranges={("orders", 0): LOGS[0]})
    return check(source, Request(**request), lambda: NOW_MS, look_back=looked_back)


def test_what_follows_from_a_cause_is_part_of_its_finding() -> None:
    found = audit_back(committed=1)
    assert said(found)[0] == ("g", "warning", "late-poll")
    (cause, *_) = found.report.data
    assert [each.code for each in cause.consequences] == [Rule.OLD_COMMIT, Rule.REBALANCE_STORM]
    assert ("z", "warning", "rebalance-storm") in said(found)
    counted = "".join(prometheus_lines(found))
    for code in ("late-poll", "old-commit", "rebalance-storm"):
        assert f'{{group="g",code="{code}",severity="warning"}} 1\n' in counted
    only = audit_back(rules=frozenset({Rule.REBALANCE_STORM}))
    assert said(only) == [("g", "warning", "rebalance-storm"), ("z", "warning", "rebalance-storm")]
    assert [finding.caused_by for finding in only.report.data] == [Rule.LATE_POLL, None]


@pytest.mark.parametrize(
    ("others", "name"), [((), "billing-2"), (("billing-2",), "one")], ids=["unique", "ambiguous"]
)
def test_commands_name_a_member_as_options_take_it(others: tuple[str, ...], name: str) -> None:
    members = [
        replace(member(member_id, number), client_id=client_id)
        for number, (member_id, client_id) in enumerate(
            [("one", "billing-2"), *((f"m-{each}", each) for each in others)]
        )
    ]
    source = FakeSource(group("g", *members), ranges={})
    found = check(source, Request(), lambda: NOW_MS, look_back=looked_back).report.data
    (late,) = (finding for finding in found if finding.code is Rule.LATE_POLL)
    (shown,) = (command for command in late.commands if " assign " in command)
    assert f" --remove-member {name}" in shown


def test_what_follows_from_a_known_cause_is_known() -> None:
    text = b"".join(json_document("check", json_rows(audit_back(committed=1).report.data), ()))
    known = read_baseline(text, "known.json")
    assert said(audit_back(committed=1, known=known)) == []
    assert ("late-poll", "g", None, None, "billing-2", None, None) in known


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"[]",
        b"{",
        b'{"command":"list","data":[]}',
        b'{"command":"check","data":[{"code":"no-such-rule","group_id":"g"}]}',
        b'{"command":"check","data":[{"code":"no-owner"}]}',
        b'{"command":"check","data":[1]}',
        b'{"command":"check","data":{}}',
        b'{"code":"no-owner","group_id":"g","topic":["x"]}',
    ],
)
def test_a_file_that_has_no_findings(text: bytes) -> None:
    if text == b"":
        assert read_baseline(text, "known.json") == frozenset(), "a check that found nothing"
        return
    with pytest.raises(InputError, match=r"known\.json: .*expected "):
        read_baseline(text, "known.json")


def test_groups_that_do_not_exist() -> None:
    found = audit(LAGGING, ranges=LOGS, group_ids=["nobody"])
    assert found.report.exit_status is ExitStatus.NOT_FOUND
    assert [error.kind for error in found.report.errors] == ["not-found"]
    assert nagios_status(found) == 3


def test_limits() -> None:
    late = group("late", member("one", 0), offsets=(commit(0, 3, age_ms=601_000),))
    for name, value, is_found in (("old-commit", "10m", True), ("old-commit", "602s", False)):
        limits = with_limits(Thresholds(), [parse_limit(name, value)])
        assert bool(audit(late, ranges=LOGS, limits=limits).report.data) is is_found
    assert audit(late, ranges=LOGS).report.data[0].reason == (
        "orders-0: the last commit was 10 minutes ago, with up to 7 records "
        "waiting; its owner is one."
    )
    for name in LIMITS:
        assert parse_limit(name, "2h" if LIMITS[name].endswith("_ms") else "2")
    for name, value in (("old", "1h"), ("stuck", "x"), ("uneven", "0"), ("uneven", "nan")):
        with pytest.raises(ValueError, match="expected "):
            parse_limit(name, value)


def test_shares_are_compared_among_those_that_subscribe_alike() -> None:
    other = Subscription(("clicks",), None, (), None, None)
    clicks = (AssignedPartition(None, "clicks", 0),)
    uneven = group("uneven", member("one", 0, 1, 2, 3, 4), member("two", 5))
    apart = group(
        "apart", member("one", 0, 1, 2), Member("x", subscription=other, assignment=clicks)
    )
    alone = group("alone", member("one", 0, 1, 2))
    assert said(audit(uneven, apart, alone)) == [("uneven", "warning", "uneven-load")]
    idle = group("idle", member("one", 0, 1), member("two"))
    many = group("many", member("one", 0), member("two"), member("three"))
    assert said(audit(idle, many)) == [
        ("idle", "warning", "idle-member"),
        ("many", "info", "too-many-members"),
    ]
    assert audit(many).report.exit_status is ExitStatus.DONE, "nothing is wrong"


def test_many_members_without_work_are_one_finding() -> None:
    """Range gives the first three members all partitions of ten topics of three each."""
    busy = [
        member(f"m-{number}", client_id=f"c-{number}", session_timeout_ms=9, rebalance_timeout_ms=5)
        for number in range(20)
    ]
    many = [
        replace(
            each, assignment=tuple(AssignedPartition(None, f"t{topic}", n) for topic in range(10))
        )
        if n < 3
        else each
        for n, each in enumerate(busy)
    ]
    idle, slow = audit(group("wide", *many)).report.data
    assert (idle.code, idle.member_id) == (Rule.IDLE_MEMBER, None)
    assert idle.member_ids == tuple(f"m-{number}" for number in range(3, 20))
    names = ", ".join(f"c-{number}" for number in range(3, 13))
    assert idle.reason == (
        f"17 members ({names} and 7 more) have no partitions; 20 members share 30."
    )
    assert (slow.code, len(slow.member_ids)) == (Rule.SESSION_TIMEOUT, 20)
    assert slow.reason.endswith(
        " have a session timeout of 9 ms, longer than the poll interval of 5 ms."
    )
    rows = json.loads(b"".join(json_document("check", json_rows([idle]), ())))["data"]
    assert rows[0]["member_ids"] == [*idle.member_ids]


def test_members_of_which_some_are_static() -> None:
    dynamic, static = (
        member(name, number, client_id=name, instance_id=instance_id)
        for number, (name, instance_id) in enumerate([("web-1", None), ("web-2", "pod-2")])
    )
    (finding,) = audit(group("g", dynamic, static)).report.data
    assert (finding.code, finding.severity) == (Rule.MIXED_MEMBERSHIP, Severity.INFO)
    assert finding.reason == "1 of 2 members are static; partitions move when these restart: web-1."
    assert finding.commands == ("kgroup plan static-membership g",)
    for alike in (dynamic, static):
        other = replace(alike, member_id="b", instance_id=alike.instance_id and "pod-3")
        other = replace(other, assignment=(AssignedPartition(None, "orders", 2),))
        assert said(audit(group("g", alike, other))) == []
    for library, is_found in (("kafka-go", False), ("kafka-clients", True)):
        other = replace(dynamic, client_library=library)
        found = audit(group("g", other, static)).report.data
        assert any(each.code == Rule.MIXED_MEMBERSHIP for each in found) is is_found


def test_static_members_that_leave_when_they_close() -> None:
    """`performLeaveGroup` of @platformatic/kafka makes no difference for an instance id."""
    members = [
        member(name, number, client_id=name, instance_id=f"pod-{number}", client_library=library)
        for number, (name, library) in enumerate(
            [("web-1", "@platformatic/kafka"), ("web-2", "kafka-clients")]
        )
    ]
    (finding,) = (
        each
        for each in audit(group("g", *members)).report.data
        if each.code is Rule.LEAVING_STATIC_MEMBERS
    )
    assert (finding.severity, finding.reason) == (
        Severity.INFO,
        "Members of @platformatic/kafka leave when they close, also if they are static; partitions "
        "move when these restart: web-1.",
    )
    # Only the leader writes what no other library does.
    unknown = replace(members[1], client_library=None, client_library_candidates=("aiokafka",))
    for other, ending in (
        (unknown, ": web-1."),
        (replace(unknown, client_library_candidates=("aiokafka", "@platformatic/kafka")), "web-2."),
    ):
        both = audit(group("g", members[0], other)).report.data
        (reason,) = (each.reason for each in both if each.code is Rule.LEAVING_STATIC_MEMBERS)
        assert reason.endswith(ending)
        assert (" Maybe also: " in reason) is ("web-2" in ending)
    # To make the others static, too, would not help.
    dynamic = replace(members[0], instance_id=None)
    found = {each.code for each in audit(group("g", dynamic, members[1])).report.data}
    assert not found & {Rule.LEAVING_STATIC_MEMBERS, Rule.MIXED_MEMBERSHIP}


def test_on_what_a_finding_rests() -> None:
    """One look, what the log alone tells, or two looks with their times."""
    times = iter((NOW_MS - 60_000, NOW_MS))
    source = FakeSource(LAGGING, EXPIRING, group("g", member("one", instance_id="pod-1")))

    def leave() -> None:
        source.replace(group("g", member("two")))

    findings = check(source, Request(), lambda: next(times), leave).report.data
    looks = (NOW_MS - 60_000, NOW_MS)
    rests = {
        finding.code: (finding.basis, finding.evidence_from_ms, finding.evidence_to_ms)
        for finding in findings
    }
    assert rests == {
        "expiring-offset": ("log", None, None),
        "missing-static-member": ("looks", *looks),
    }
    lagging = audit(LAGGING, ranges=LOGS).report.data[0]
    assert (lagging.basis, lagging.evidence_from_ms) == ("look", None)


def test_what_the_sample_has() -> None:
    """Recorded of a broker; its newest time is now, however long ago it was."""
    found = check(LogDir([sample_log_dir()]), Request(), lambda: None)
    assert found.report.errors == ()
    assert {(finding.group_id, finding.code) for finding in found.report.data} == {
        ("billing", "eager-strategy"),
        ("connect-shipments-warehouse", "eager-strategy"),
        ("payment-service", "eager-strategy"),
        ("invoice-batch", "nobody-reads"),
        ("ledger", "nobody-reads"),
        ("legacy-report", "nobody-reads"),
        ("search-index", "nobody-reads"),
        ("pricing", "mixed-protocols"),
    }


class OffsetsTopicSource(FakeSource):
    """Has brokers too, and their settings."""

    def __init__(self, *groups: Group, offsets: Sequence[Partition], brokers: int = 3) -> None:
        super().__init__(*groups)
        self._topic = Topic("__consumer_offsets", None, dict(enumerate(offsets)))
        self._brokers = {number: Broker(number, "b", 9092) for number in range(brokers)}

    def placements(
        self, keys: Collection[str], *, transactional: bool = False
    ) -> Mapping[str, Placement]:
        return {}

    def view(self, topics: Collection[str]) -> ClusterView:
        return ClusterView(None, 0, self._brokers, {self._topic.name: self._topic})


@pytest.mark.parametrize(
    ("offsets", "reasons"),
    [
        ([Partition(0, (0, 1, 2), (0, 1, 2))] * 2, []),
        ([Partition(0, (0, 1), (0, 1)), Partition(None, (0, 1), (0, 1))], ["without a leader: 1."]),
        ([Partition(0, (0, 1), (0,)), Partition(0, (0, 1), (0, 1))], ["out-of-sync replicas: 0."]),
        (
            [Partition(0, (0,), (0,)), Partition(1, (1,), (1,))],
            ["One replica only, although there are 3 brokers."],
        ),
        ([], []),
    ],
)
def test_where_commits_are_kept(offsets: Sequence[Partition], reasons: Sequence[str]) -> None:
    report = check(OffsetsTopicSource(offsets=offsets), Request(), lambda: NOW_MS).report
    assert len(report.data) == len(reasons)
    for finding, reason in zip(report.data, reasons, strict=True):
        assert finding.code is Rule.OFFSETS_TOPIC
        assert finding.reason.endswith(reason)
    named = check(
        OffsetsTopicSource(LAGGING, offsets=offsets), Request(["b"]), lambda: NOW_MS
    ).report
    assert named.data == ()


class MuteCluster(OffsetsTopicSource):
    """Brokers that do not tell how they, and the topic with the commits, are configured."""

    def __init__(self, *groups: Group, offsets: Sequence[Partition], kind: ProblemKind) -> None:
        super().__init__(*groups, offsets=offsets)
        self.kind = kind

    def broker_settings(self, names: Collection[str]) -> SettingReading:
        return SettingReading({}, (Problem(self.kind, "broker 1 says no", broker=1),))

    def topic_settings(self, topic: str, names: Collection[str]) -> Mapping[str, str]:
        raise BrokerError(self.kind, "any broker says no")

    def group_settings(self, group_id: str, names: Collection[str]) -> Mapping[str, str]:
        raise AssertionError(group_id)


IN_SYNC = [Partition(0, (0, 1, 2), (0, 1, 2))] * 2
NOT_FULLY = "{} is not fully checked: {}"


@pytest.mark.parametrize(
    ("offsets", "kind", "reason"),
    [
        ([], ProblemKind.UNUSABLE, "the cluster does not show __consumer_offsets"),
        (IN_SYNC, ProblemKind.UNSUPPORTED, "its cleanup.policy is unknown: any broker says no"),
        (IN_SYNC, ProblemKind.DENIED, "its cleanup.policy is unknown: any broker says no"),
    ],
)
def test_what_a_cluster_cannot_tell_or_must_not_is_a_note(
    offsets: Sequence[Partition], kind: ProblemKind, reason: str
) -> None:
    """As of franz-go's kfake, of Kafka 0.10, and without DESCRIBE_CONFIGS: in every check."""
    told = {
        Rule.OFFSETS_TOPIC: NOT_FULLY.format(Rule.OFFSETS_TOPIC, reason),
        Rule.EXPIRING_OFFSET: NOT_FULLY.format(Rule.EXPIRING_OFFSET, "broker 1 says no"),
    }
    source = MuteCluster(EMPTY, offsets=offsets, kind=kind)
    report = check(source, Request(), lambda: NOW_MS).report
    assert (report.data, report.errors, report.exit_status) == ((), (), ExitStatus.DONE)
    assert {*told.values()} <= {*report.notes}
    for rule, text in told.items():  # asked for, and not answered
        report = check(source, Request(rules=frozenset({rule})), lambda: NOW_MS).report
        assert ([error.reason for error in report.errors], report.exit_status) == (
            [text],
            ExitStatus.PARTLY,
        )
    report = check(source, Request(rules=frozenset({Rule.NO_OWNER})), lambda: NOW_MS).report
    assert not any("not fully checked" in note for note in report.notes)
    report = check(source, Request(["a"]), lambda: NOW_MS).report
    assert told[Rule.OFFSETS_TOPIC] not in report.notes  # a cluster's rule


def test_a_broker_that_does_not_answer_for_its_settings_is_a_problem() -> None:
    source = MuteCluster(EMPTY, offsets=IN_SYNC, kind=ProblemKind.SILENT)
    report = check(source, Request(), lambda: NOW_MS).report
    assert {error.kind for error in report.errors} == {ProblemKind.SILENT}
    assert report.exit_status is ExitStatus.PARTLY


class LimitedCluster(OffsetsTopicSource):
    """Brokers with a limit of records, or that do not tell it."""

    def __init__(
        self, *groups: Group, limit: str | None = "1048588", codec: str | None = "0"
    ) -> None:
        broker = Broker(1, "h", 9092)
        super().__init__(*(replace(each, coordinator=broker) for each in groups), offsets=IN_SYNC)
        self.asked: list[str] = []
        self._limit, self._codec = limit, codec

    def topic_settings(self, topic: str, names: Collection[str]) -> Mapping[str, str]:
        self.asked += names
        if self._limit is None:
            raise BrokerError(ProblemKind.DENIED, "not told")
        return {"max.message.bytes": self._limit}

    def broker_settings(self, names: Collection[str]) -> SettingReading:
        self.asked += names
        if self._codec is None:
            raise BrokerError(ProblemKind.SILENT, "no answer")
        if self._codec == "denied":
            others = {2: {"offsets.topic.compression.codec": "0"}}
            problems = (Problem(ProblemKind.SILENT, "no answer", broker=3),)
            denied = Problem(ProblemKind.DENIED, "not told", broker=1)
            return SettingReading(others, (*problems, denied))
        settings = {"offsets.topic.compression.codec": self._codec} if self._codec else {}
        return SettingReading({1: settings})


def of_size(metadata: int, assignments: int = 8, *, members: int = 10, **more: Any) -> Group:
    """A group whose members have together so many bytes."""
    return group(
        "big",
        *(
            member(
                f"m-{number}",
                number,
                metadata_bytes=metadata // members,
                assignment_bytes=assignments // members,
            )
            for number in range(members)
        ),
        **more,
    )


LARGE = frozenset({Rule.LARGE_GROUP_RECORD})


@pytest.mark.parametrize(
    ("large", "limit", "severity", "says"),
    [
        (of_size(520_000), "1048588", None, ""),
        (of_size(524_000), "1048588", "warning", "524,000 of them are the subscriptions of 10 m"),
        (of_size(3_000, 600_000), "1048588", "warning", "600,000 of them are the assignments of"),
        (of_size(1_040_000), "1048588", "warning", "99% of max.message.bytes"),
        (of_size(1_047_000), "1048588", "warning", "99% of max.message.bytes"),  # 99.9%
        (of_size(1_050_000), "1048588", "error", "more than max.message.bytes of __consumer_off"),
        (of_size(1_050_000), "8388608", None, ""),
        (of_size(90_000), "100000", "warning", "of max.message.bytes"),
        (of_size(20_000), "30000", "warning", "of max.message.bytes"),
        (of_size(20_000), "100000", None, ""),
    ],
)
def test_a_large_record(large: Group, limit: str, severity: str | None, says: str) -> None:
    source = LimitedCluster(large, limit=limit)
    rows = check(source, Request(["big"], rules=LARGE), lambda: NOW_MS).report.data
    assert [row.severity for row in rows] == ([] if severity is None else [severity])
    for row in rows:
        assert says in row.reason
        assert row.record_limit_bytes == int(limit)
        # Ids, client ids and hosts are short, so that most bytes are those of the members.
        assert (
            0
            < (row.record_bytes or 0)
            - sum(
                (each.metadata_bytes or 0) + (each.assignment_bytes or 0) for each in large.members
            )
            < 10 * 30 + 150
        )
        assert ("cannot complete" in row.reason) == (severity == "error")


def test_the_limit_of_records_is_read_only_if_it_may_matter() -> None:
    for large, asked in (
        (group("big", *[member(f"m-{n}", n, metadata_bytes=50) for n in range(8)]), []),
        (of_size(20_000), ["max.message.bytes"]),
        (of_size(300_000), ["max.message.bytes"]),
        (of_size(600_000), ["max.message.bytes", "offsets.topic.compression.codec"]),
    ):
        source = LimitedCluster(large)
        check(source, Request(["big"], rules=LARGE), lambda: NOW_MS)
        assert source.asked == asked
        check(source, Request(["big"], rules=frozenset({Rule.LAG})), lambda: NOW_MS)
        assert source.asked == asked, "another rule"
    whole = LimitedCluster(of_size(300_000))
    check(whole, Request(), lambda: NOW_MS)
    assert whole.asked == ["cleanup.policy", "max.message.bytes"], "one request for both"


@pytest.mark.parametrize(
    ("codec", "size", "severity"),
    [
        ("0", 1_100_000, "error"),
        ("1", 1_100_000, None),
        ("", 1_100_000, "warning"),
        ("", 600_000, "warning"),
        ("", 300_000, None),
        ("9", 1_100_000, "warning"),
        ("denied", 1_100_000, "warning"),
        (None, 1_100_000, "warning"),
    ],
)
def test_a_record_that_may_be_compressed(
    codec: str | None, size: int, severity: str | None
) -> None:
    source = LimitedCluster(of_size(size), codec=codec)
    report = check(source, Request(["big"]), lambda: NOW_MS).report
    rows = [row for row in report.data if row.code is Rule.LARGE_GROUP_RECORD]
    assert [row.severity for row in rows] == ([] if severity is None else [severity])
    assert all(
        ("whether brokers compress it is unknown" in row.reason) == (codec != "0") for row in rows
    )
    unknown = "whether brokers compress records of large groups is unknown"
    hidden = "(big): the coordinator does not report offsets.topic.compression.codec"
    gaps = {
        "1": "the compressed size of the records of large groups is unknown: big",
        "": f"{unknown} {hidden}",
        "9": f"{unknown} {hidden}",
        "denied": f"{unknown} (big): not told",
        None: f"{unknown}: no answer",
    }
    expected = gaps.get(codec) if size > 524_294 else None
    expected = expected and NOT_FULLY.format(Rule.LARGE_GROUP_RECORD, expected)
    said = [each for each in report.notes if "large-group-record" in each]
    said += [each.reason for each in report.errors if "large-group-record" in each.reason]
    assert said == ([] if expected is None else [expected])
    # A broker that does not answer is a problem, as is every gap of a rule that is asked for.
    assert len([each for each in report.errors if each.reason in said]) == (codec is None)
    asked = check(source, Request(["big"], rules=LARGE), lambda: NOW_MS).report
    assert [each.reason for each in asked.errors] == said
    assert asked.notes == ()


def test_an_unknown_limit_of_records_is_a_note() -> None:
    source = LimitedCluster(of_size(600_000), limit=None)
    report = check(source, Request(["big"]), lambda: NOW_MS).report
    text = NOT_FULLY.format(
        Rule.LARGE_GROUP_RECORD, "__consumer_offsets: max.message.bytes is unknown: not told"
    )
    assert text in report.notes
    assert Rule.LARGE_GROUP_RECORD not in {row.code for row in report.data}
    report = check(source, Request(["big"], rules=LARGE), lambda: NOW_MS).report
    assert [error.reason for error in report.errors] == [text]
    small = LimitedCluster(of_size(5_000), limit=None)
    assert not check(small, Request(["big"], rules=LARGE), lambda: NOW_MS).report.errors


@pytest.mark.parametrize(
    ("state", "count", "before", "severity"),
    [
        (GroupState.PREPARING_REBALANCE, 10, 500_000, None),
        (GroupState.PREPARING_REBALANCE, 11, 500_000, "warning"),
        (GroupState.PREPARING_REBALANCE, 30, 500_000, "warning"),  # some of them may be gone
        (GroupState.COMPLETING_REBALANCE, 30, 500_000, "error"),
        (GroupState.COMPLETING_REBALANCE, 30, 50_000, None),
        (GroupState.COMPLETING_REBALANCE, 30, None, None),
    ],
)
def test_a_record_that_grows_in_a_rebalance(
    state: GroupState, count: int, before: int | None, severity: str | None
) -> None:
    """The metadata of members that join is unknown: they are taken to be like the others."""
    last = Membership(3, "m-0", "range", NOW_MS, tuple(member(f"m-{n}") for n in range(10)), before)
    members = [member(f"m-{number}") for number in range(count)]
    growing = replace(group("big", *members, last_stable=last), state=state)
    source = LimitedCluster(growing)
    rows = check(source, Request(["big"], rules=LARGE), lambda: NOW_MS).report.data
    assert [row.severity for row in rows] == ([] if severity is None else [severity])
    assert [row.record_bytes for row in rows] == [count * 50_000 for row in rows]
    request = Request(
        ["big"], rules=LARGE | {Rule.LONG_REBALANCE}, limits=Thresholds(rebalance_ms=0)
    )
    rows = check(LimitedCluster(growing), request, lambda: NOW_MS, lambda: None).report.data
    assert {row.code for row in rows if severity == "error"} <= LARGE
    assert [each.code for row in rows for each in row.consequences] == (
        [Rule.LONG_REBALANCE] * (severity == "error")
    )


def test_only_classic_groups_have_one_record() -> None:
    for other in (GroupType.CONSUMER, GroupType.SHARE):
        source = LimitedCluster(replace(of_size(1_100_000), type=other))
        check(source, Request(["big"], rules=LARGE), lambda: NOW_MS)
        assert source.asked == []


def test_forms_for_monitoring() -> None:
    bad = 'b|"\\\n'
    found = audit(group(bad, offsets=(commit(0, 3),)), EXPIRING, ranges=LOGS, fail_on=Severity.INFO)
    assert nagios_status(found) == 2
    first, *rest = "".join(nagios_lines(found)).splitlines()
    assert first == (
        "KGROUP CRITICAL - 1 error, 1 warning; 2 groups checked | error=1 warning=1 info=0 lag=7"
    )
    assert rest == [
        'error: b/"\\\\n: nobody-reads: Up to 7 records waiting, and no active member.',
        "warning: a: expiring-offset: 1 committed offset of the group will "
        "expire, the first in 2.0 hours.",
    ]
    assert nagios_status(audit(EXPIRING, ranges=LOGS)) == 1
    assert nagios_status(audit()) == 0
    lines = "".join(prometheus_lines(found)).splitlines()
    series = [line for line in lines if line.startswith("kgroup_check_")]
    assert series == [
        'kgroup_check_findings{group="a",code="expiring-offset",severity="warning"} 1',
        'kgroup_check_findings{group="b|\\"\\\\\\n",code="nobody-reads",severity="error"} 1',
        "kgroup_check_groups 2",
        "kgroup_check_errors 0",
        "kgroup_check_timestamp_seconds 1700000000.000",
    ]


def test_a_finding_is_the_same_whatever_its_numbers_are() -> None:
    def of(**more: Any) -> Finding:
        more = {"topic": "t", "partition": 1} | more
        return Finding(Rule.NO_OWNER, Severity.ERROR, "look", "g", "", "", **more)  # type: ignore[arg-type]

    assert of(offset=1, since_ms=1).key == of(offset=2).key
    assert len({of().key, of(topic="u").key, of(partition=2).key, of(member_id="m").key}) == 4


def streams_thread(name: str, active: int, standby: int, *partitions: int) -> Member:
    """A thread of Kafka Streams 4.3; tasks as its assignor writes them, decoded."""

    def tasks(count: int) -> list[dict[str, Any]]:
        return [{"topicGroupId": 0, "partition": n, "namedTopology": None} for n in range(count)]

    data = {"version": 11, "activeTasks": tasks(active), "standbyTasks": tasks(standby)}
    return replace(member(name, *partitions), assignment_user_data=data)


def test_standby_tasks_are_work() -> None:
    """As in a group that was recorded while its second instance warmed up: four standby tasks."""
    one, two = streams_thread("A", 4, 0, 0, 1, 2, 3), streams_thread("B", 0, 4)
    assert said(audit(group("wc", one, two, assignor="stream"))) == []
    idle = streams_thread("B", 0, 0)
    (finding,) = audit(group("wc", one, idle, assignor="stream")).report.data
    assert (finding.code, finding.member_id) == (Rule.IDLE_MEMBER, "B")
    assert "range" not in finding.advice
    few = group("wc", streams_thread("A", 1, 0, 0), idle, assignor="stream")
    assert said(audit(few)) == [("wc", "info", "too-many-members")]
    unreadable = replace(idle, assignment_user_data={"raw": "AAAA"})
    assert said(audit(group("wc", one, unreadable, assignor="stream"))) == [], "nobody knows"


def test_an_instance_that_warms_up_is_not_idle() -> None:
    """Before and after the probing rebalance, B had standby tasks, at first nothing else."""
    seen = {each.generation_id: each for each in groups_of("streams-probing")}
    for number, owned in ((2, [4, 0]), (3, [2, 0]), (4, [2, 2])):
        assert [len(each.assignment or ()) for each in seen[number].members] == owned
        codes = [finding.code for finding in audit(seen[number]).report.data]
        assert Rule.IDLE_MEMBER not in codes
        assert Rule.TOO_MANY_MEMBERS not in codes


def test_connectors_of_a_lost_worker_wait() -> None:
    """Generation 13 of a recorded cluster lacks src1 and src4 for 60 s; 12 and 14 have all."""
    seen = {each.generation_id: each for each in groups_of("connect-delay")}
    assert [bool(audit(seen[number]).report.data) for number in (12, 14)] == [False, False]
    since_ms = seen[13].state_timestamp_ms
    assert since_ms is not None
    for now_ms, left in ((since_ms + 18_000, " (42 seconds left)"), (since_ms + 60_000, "")):
        clock = repeat(now_ms).__next__
        (finding,) = check(FakeSource(seen[13]), Request(), clock).report.data
        assert (finding.code, finding.severity) == (Rule.DELAYED_TASKS, "warning")
        assert (finding.since_ms, finding.timeout_ms) == (since_ms, 60_000)
        until = shown_time(since_ms + 60_000)
        assert f"a part of the assignment until {until}{left}: " in finding.reason
    unknown = replace(seen[13], state_timestamp_ms=None)
    (finding,) = audit(unknown).report.data
    assert "a part of the assignment until 1 minute after the last rebalance: " in finding.reason


def twice(
    before: Sequence[Group], after: Sequence[Group], *more: Sequence[Group], **logs: int
) -> Sequence[Finding]:
    """Check groups in looks that are two minutes apart; `first` and `last` are log ends."""
    rounds = [before, after, *more]
    clock = [NOW_MS - 120_000 * left for left in reversed(range(len(rounds)))]
    ends = [logs.get("first", 10)] + [logs.get("last", 10)] * len(rounds)
    source = FakeSource(*before, ranges={("orders", 0): LogRange(0, ends[0])})

    def instant_ms() -> int:
        rounds.pop(0)
        return clock.pop(0)

    def wait() -> None:
        ends.pop(0)
        source.ranges[("orders", 0)] = LogRange(0, ends[0])
        for each in rounds[0]:
            source.replace(each)

    return check(source, Request(), instant_ms, wait).report.data


def test_a_reader_that_is_no_member() -> None:
    """It commits for the group: nobody is told that nobody reads, or to delete the group."""

    def reader(offset: int, age_ms: int = DAY_MS, **more: Any) -> Group:
        return group("b", offsets=(commit(0, offset, age_ms),), **more)

    codes = [finding.code for finding in twice([reader(3)], [reader(5)])]
    assert codes == [Rule.READER_WITHOUT_MEMBERSHIP]
    assert [finding.code for finding in twice([reader(3)], [reader(3)])] == [Rule.NOBODY_READS]
    for age_ms, left_ms, code in (
        (1000, None, "reader-without-membership"),
        (300_000, None, "nobody-reads"),
        (120_000, NOW_MS - DAY_MS, "reader-without-membership"),
        (5000, NOW_MS - 4000, "nobody-reads"),  # it was by the one that just left
        (120_000, NOW_MS - 110_000, "nobody-reads"),
    ):
        found = audit(reader(3, age_ms, state_timestamp_ms=left_ms), ranges=LOGS)
        assert said(found) == [("b", "warning" if code[0] == "r" else "error", code)]
        assert not any("offsets delete" in finding.advice for finding in found.report.data)
    source = FakeSource(reader(3, 0), ranges={("orders", 0): LogRange(0, 10)})
    found = check(source, Request(), lambda: None)
    assert said(found) == [("b", "error", "nobody-reads")], "a log's newest time is no clock"


@pytest.mark.parametrize("kind", [GroupType.CLASSIC, GroupType.CONSUMER])
def test_the_log_shows_whether_the_last_member_made_the_last_commit(kind: GroupType) -> None:
    """A coordinator accepts commits of an application that is no member only in an empty group."""

    def codes(emptied_ms: int, *members: Member) -> Sequence[Rule]:
        seen = replace(group("b", *members, offsets=(commit(0, 3, age_ms=10_000),)), type=kind)
        source = FakeSource(seen, ranges={("orders", 0): LOGS[0]})
        past = Past((), emptied_ms={"b": emptied_ms})
        found = check(source, Request(), lambda: NOW_MS, look_back=lambda _: past)
        return [finding.code for finding in found.report.data]

    assert codes(NOW_MS - 9000) == [Rule.NOBODY_READS]
    assert codes(NOW_MS - 11_000) == [Rule.READER_WITHOUT_MEMBERSHIP]
    assert codes(NOW_MS - 9000, member("one", 0)) == [], "it has joined since"


def test_a_member_that_never_commits() -> None:
    old = {"state_timestamp_ms": NOW_MS - 300_000}
    silent = group("g", member("one", 0), **old)
    (finding,) = twice([silent], [silent], first=10, last=14)
    assert (finding.code, finding.severity, finding.basis) == (
        Rule.NEVER_COMMITTED,
        Severity.WARNING,
        "looks",
    )
    assert finding.reason == (
        "orders-0: nothing is committed, but the log has grown by 4 records "
        "within 120 s; its owner is one."
    )
    assert said(audit(silent, ranges=LOGS)) == [("g", "info", "never-committed")]
    assert said(audit(silent, ranges={0: LogRange(10, 10)})) == [], "there is nothing to read"
    young = group("g", member("one", 0), state_timestamp_ms=NOW_MS - 1000)
    assert said(audit(young, ranges=LOGS)) == []
    denied = Problem(ProblemKind.NOT_AUTHORIZED, "no", group_id="g")
    source = FakeSource(silent, ranges={("orders", 0): LogRange(0, 10)}, problems=[denied])
    assert check(source, Request(), lambda: NOW_MS).report.data == (), "what is not seen may exist"


def test_two_processes_of_one_instance_id() -> None:
    """They replace each other without a rebalance; a restart does so once."""

    def of(name: str, generation: int = 7) -> Group:
        pod = member(name, 0, instance_id="pod-1", client_host="/10.0.0.9")
        return group("g", pod, generation_id=generation, offsets=(commit(0, 10),))

    (finding,) = twice([of("a")], [of("b")], [of("c")])
    assert (finding.code, finding.severity) == (Rule.SHARED_INSTANCE_ID, Severity.ERROR)
    assert finding.reason == (
        "pod-1 had the member ids a, then b, then c within 240 s in generation "
        "7; the last member runs on 10.0.0.9."
    )
    assert finding.evidence_from_ms == NOW_MS - 240_000
    assert twice([of("a")], [of("b")], [of("b")]) == ()
    assert twice([of("a")], [of("b", 8)]) == (), "there is no third look after a rebalance"


@pytest.mark.parametrize(
    ("library", "certainty", "expected"),
    [
        ("aiokafka", Certainty.INFERRED, "The replaced process, in aiokafka (inferred): it takes"),
        ("kafka-python", Certainty.CERTAIN, "The replaced process, in kafka-python: it sends no"),
        ("kafkajs", Certainty.CERTAIN, None),  # without static members
        (None, None, None),
    ],
)
def test_what_a_replaced_process_does(
    library: str | None, certainty: Certainty | None, expected: str | None
) -> None:
    def of(name: str) -> Group:
        pod = member(name, 0, instance_id="pod-1", client_library=library)
        pod = replace(pod, client_library_certainty=certainty)
        return group("g", pod, generation_id=7, offsets=(commit(0, 10),))

    (finding,) = twice([of("a")], [of("b")], [of("c")])
    assert finding.code is Rule.SHARED_INSTANCE_ID
    assert ("The replaced process" in finding.reason) == (expected is not None)
    assert (expected or "") in finding.reason


def test_members_own_partitions_that_do_not_exist() -> None:
    gone = {
        ("orders", 1): LogRange(mark=OffsetMark.PARTITION_GONE),
        ("orders", 2): LogRange(mark=OffsetMark.PARTITION_GONE),
    }
    owner = member("one", 0, 1, 2, client_id="pod-1", client_host="/10.0.0.9")
    (finding,) = check(
        FakeSource(group("g", owner), ranges=gone), Request(), lambda: NOW_MS
    ).report.data
    assert (finding.code, finding.member_id, finding.topic) == (
        Rule.PARTITION_GONE,
        "one",
        "orders",
    )
    assert finding.reason == (
        "pod-1 at 10.0.0.9 owns orders-1, orders-2; orders has no such partitions."
    )
    deleted = {("orders", 0): LogRange(mark=OffsetMark.TOPIC_GONE)}
    source = FakeSource(group("g", member("one", 0)), ranges=deleted)
    (finding,) = check(source, Request(), lambda: NOW_MS).report.data
    assert finding.reason == "one owns orders-0; orders does not exist."


class TimedSource(FakeSource):
    """Every record is ten minutes old."""

    def next_records(
        self, positions: Collection[Position], *, committed: bool = False
    ) -> NextReading:
        then_ms = time.time_ns() // 1_000_000 - 600_000
        return NextReading({at: NextRecord(at[2], then_ms) for at in positions})


def test_limits_of_lag() -> None:
    late = group("late", member("one", 0), offsets=(commit(0, 3, age_ms=1000),))
    source = TimedSource(late, ranges={("orders", 0): LogRange(0, 10)})

    def codes(**request: Any) -> list[str]:
        return [
            finding.code
            for finding in check(source, Request(**request), lambda: NOW_MS).report.data
        ]

    def limits(*texts: str) -> Thresholds:
        return with_limits(Thresholds(), [parse_limit(*text.split("=")) for text in texts])

    assert codes() == []
    assert codes(limits=limits("lag=7")) == []
    assert codes(limits=limits("lag=6")) == ["lag"]
    assert codes(limits=limits("time-lag=11m")) == []
    assert codes(limits=limits("time-lag=9m", "lag=0")) == ["lag", "time-lag"]
    own = parse_group_limits("la.*", {"lag": "6", "time-lag": "1h"})
    assert codes(group_limits=[own]) == ["lag"]
    assert codes(group_limits=[own, parse_group_limits("late", {"lag": "60"})]) == []
    assert codes(group_limits=[parse_group_limits("late", {"lag": "60"}), own]) == [], "its name"
    assert codes(group_limits=[parse_group_limits("ate", {"lag": "1"})]) == [], "whole ids match"
    assert codes(group_limits=[parse_group_limits("la.*", {"lag": "6"}, ["lag"])]) == []
    with pytest.raises(ValueError, match="past: this limit cannot be set for single groups"):
        parse_group_limits("g", {"past": "1d"})
    without = check(FakeSource(late), Request(limits=limits("time-lag=9m")), lambda: NOW_MS).report
    assert any("require a live cluster" in note for note in without.notes)


SAMPLE = re.compile(
    r'([a-zA-Z_:][\w:]*)(?:\{((?:[a-zA-Z_]\w*="(?:[^"\\\n]|\\["\\n])*",?)*)\})? (\S+)'
)
"""A line of Prometheus' text format 0.0.4: name, labels, value."""
LABEL = re.compile(r'([a-zA-Z_]\w*)="((?:[^"\\\n]|\\["\\n])*)"')

UNESCAPED = {"\\\\": "\\", '\\"': '"', "\\n": "\n"}


def metrics(found: Audit) -> dict[tuple[str, ...], float]:
    """Read a check as Prometheus does; HELP and TYPE come before the samples of each metric."""
    samples: dict[tuple[str, ...], float] = {}
    typed: list[str] = []
    for line in "".join(prometheus_lines(found)).splitlines():
        if line.startswith("# HELP "):
            assert line.split()[2] not in typed
            continue
        if line.startswith("# TYPE "):
            name, kind = line.split()[2:]
            assert kind == "gauge"
            typed.append(name)
            continue
        matched = SAMPLE.fullmatch(line)
        assert matched, line
        name, labels, value = matched.groups()
        assert name == typed[-1], "a metric's samples stand together"
        told = [
            re.sub(r'\\[\\"n]', lambda part: UNESCAPED[part[0]], text)
            for _, text in LABEL.findall(labels or "")
        ]
        key = (name.removeprefix("kgroup_"), *told)
        assert key not in samples
        samples[key] = float(value)
    return samples


def test_metrics_of_groups() -> None:
    bad = 'b"\\\n'
    known = (commit(0, 3, age_ms=1500), commit(1, 9, age_ms=2500))
    groups = (
        group("known", member("one", 0, 1), offsets=known),
        group(bad, offsets=(commit(0, 12), commit(2, 1))),
        Group("unknown", GroupType.CLASSIC, None, offsets=(CommittedOffset("orders", 2, 1),)),
    )
    ranges = {("orders", 0): LogRange(0, 10), ("orders", 1): LogRange(0, 10)}
    source = TimedSource(*groups, ranges=ranges)
    found = metrics(check(source, Request(time_lags=True), lambda: NOW_MS))
    lags = {key: value for key, value in found.items() if "_lag_records" in key[0]}
    assert lags == {
        ("group_lag_records", "known"): 8,
        ("topic_lag_records", "known", "orders"): 8,
        ("partition_lag_records", "known", "orders", "0"): 7,
        ("partition_lag_records", "known", "orders", "1"): 1,
        ("partition_lag_records", bad, "orders", "0"): -2,
    }, "a sum of which a part is not known is none"
    assert found["group_time_lag_seconds", "known"] == pytest.approx(600, abs=60)
    assert found["partition_commit_age_seconds", "known", "orders", "1"] == 2.5
    assert found["group_commit_age_seconds", "known"] == 1.5
    assert ("group_commit_age_seconds", "unknown") not in found
    assert found["group_members", "known"] == 1
    assert found["group_members", bad] == 0
    assert ("group_members", "unknown") not in found
    states = {key[1:] for key in found if key[0] == "group_state"}
    assert states == {("known", "classic", "Stable"), (bad, "classic", "Empty")}
    assert found["check_groups",] == 3


def test_a_commit_past_the_end_of_a_log_whose_start_is_not_known() -> None:
    """As in a log directory."""
    past = group("past", member("one", 0), offsets=(commit(0, 12, age_ms=0),))
    (finding,) = audit(past, ranges={0: LogRange(end=10)}).report.data
    assert (finding.code, finding.log_end_offset) == (Rule.PAST_END, 10)
    assert finding.reason.startswith(
        "The committed offset is 12, but the log end offset of orders-0 is 10."
    )
    assert "earliest reads the whole log again" in finding.reason


RECORDED = Path(__file__).parents[1] / "data" / "clients" / "live-members.jsonl.gz"


@cache
def recorded() -> Sequence[dict[str, Any]]:
    """A row for each member of a group of one library on a real broker, in each of its rounds."""
    lines = gzip.decompress(RECORDED.read_bytes()).splitlines()
    return [json.loads(line) for line in lines]


def rounds() -> Iterator[list[dict[str, Any]]]:
    found: dict[tuple[str, ...], list[dict[str, Any]]] = defaultdict(list)
    for row in recorded():
        found[row["broker"], row["group_id"], str(row["round"])].append(row)
    yield from found.values()


def findings(*rows: dict[str, Any]) -> Sequence[Finding]:
    """Put these members into one group, of which the first one leads, and check it."""
    strategy = rows[0]["strategy"]
    members = [
        classic_member(
            f"member-{number}",
            clientId=row["client_id"].replace(row["group_id"], "mixed"),  # its default has it
            groupInstanceId=row["instance_id"],
            subscription=decode_subscription(b64decode(row["subscription"]), strategy),
            assignment=decode_assignment(b64decode(rows[0]["assignment"]), strategy),
        )
        for number, row in enumerate(rows)
    ]
    made = groups(classic("mixed", members, protocol=strategy))
    request = Request(rules=frozenset({Rule.MIXED_CLIENTS}))
    return check(FakeSource(*made.values()), request, lambda: NOW_MS).report.data


def row_of(library: str, version: str, strategy: str = "range") -> dict[str, Any]:
    wanted = (library, version, strategy)
    return next(
        row for row in recorded() if (row["library"], row["version"], row["strategy"]) == wanted
    )


def test_groups_of_one_library_have_nothing_of_it() -> None:
    every = list(rounds())
    assert len({row["library"] for rows in every for row in rows}) >= 7
    for rows in every:
        assert findings(*rows) == ()


@pytest.mark.parametrize(
    ("members", "severity", "reason"),
    [
        (
            [("librdkafka", "2.16.1"), ("kafka-clients", "4.3.1"), ("librdkafka", "2.0.2")],
            "warning",
            "Members use different client libraries: 1 with kafka-clients, 2 with librdkafka, "
            "inferred from client ids.",
        ),
        (
            [("kafka-clients", "1.1.1"), ("kafka-clients", "3.9.2")],
            "info",
            "1 of 2 members with kafka-clients have an older version, which does not "
            "send owned partitions: consumer-1 at 127.0.0.1.",
        ),
        ([("kafka-clients", "3.9.2"), ("kafka-clients", "4.3.1")], None, None),
    ],
)
def test_mixed(members: Sequence[tuple[str, str]], severity: str | None, reason: str) -> None:
    found = findings(*(row_of(*member) for member in members))
    told = [(finding.severity, finding.reason) for finding in found]
    assert told == ([] if severity is None else [(severity, reason)])


ASKED = frozenset({Rule.CONSUMER_PROTOCOL})
SETTINGS = {
    MIGRATION_POLICY: "bidirectional",
    "group.consumer.max.size": "100",
    "group.consumer.assignors": "uniform,range",
}


def readiness(group: Group, settings: Mapping[str, str], rules: frozenset[Rule] = ASKED) -> Audit:
    there = replace(group, coordinator=Broker(1, "b", 9092))
    source = FakeCluster(there, topics={"t": 6}, settings={1: settings})
    return check(source, Request(rules=rules), lambda: 1)


def of_library(name: str) -> Group:
    return group_of("ab", "cooperative-sticky", library=name)


@pytest.mark.parametrize(
    ("group", "settings", "reason"),
    [
        (group_of("ab"), SETTINGS, "Ready as far as known; unknown: client-version, listeners."),
        (
            group_of("ab"),
            SETTINGS | {MIGRATION_POLICY: "disabled", "group.consumer.max.size": "1"},
            "Not ready: migration-policy (disabled on broker 1); "
            "group-size (group.consumer.max.size is 1).",
        ),
        (of_library("kafka-clients"), SETTINGS, "Ready as far as known; unknown: client-version."),
        (
            of_library("librdkafka"),
            SETTINGS,
            "Not ready: user-data (none yet; librdkafka adds some with cooperative-sticky from the "
            "second rebalance on).",
        ),
        (of_library("sarama"), SETTINGS, "Not ready: client-version (sarama does not support it)."),
    ],
)
def test_preconditions_of_the_plan(group: Group, settings: Mapping[str, str], reason: str) -> None:
    (finding,) = readiness(group, settings).report.data
    assert (finding.severity, finding.reason) == ("info", reason)


def test_nothing_is_told_unasked_nor_of_a_group_that_nobody_is_in() -> None:
    unasked = readiness(group_of("ab"), SETTINGS, frozenset()).report.data
    assert Rule.CONSUMER_PROTOCOL not in {finding.code for finding in unasked}
    assert readiness(group_of(""), SETTINGS).report.data == ()


def test_a_group_of_a_strategy_that_nobody_knows_is_an_error() -> None:
    report = readiness(group_of("ab", "mine"), SETTINGS).report
    assert report.data == ()
    assert [(error.kind, error.group_id) for error in report.errors] == [("unfit", "g")]


EAGER = frozenset({Rule.EAGER_STRATEGY})


def random_groups(count: int) -> Iterator[Group]:
    """Groups with an eager strategy; the last one is large, which is what gains."""
    random = Random(5)
    for number in range(count):
        names = "abcdefghijklmnopqrst"[: 20 if number == count - 1 else random.randint(2, 6)]
        yield group_of(
            names,
            random.choice(("range", "roundrobin", "sticky")),
            each=5 if number == count - 1 else random.randint(1, 4),
            static=bool(number % 3 == 0) and number < count - 1,
        )


@pytest.mark.slow
def test_check_recommends_a_strategy_just_where_its_plan_does(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """By the same numbers: what stops partitions for longer is not recommended."""
    monkeypatch.setattr("kgroup.operation.plan.forecast._COURSES", 2)
    recommended = []
    for group in random_groups(9):
        source = FakeSource(group)
        (row,) = advise(source, ["g"], USUAL).data
        plans = [
            proposal for proposal in row.proposals if proposal.target is MigrationTarget.ASSIGNOR
        ]
        plan = plans[0] if plans else None
        (finding,) = check(source, Request(rules=EAGER), lambda: 1).report.data
        if plan is None or plan.against is not None:
            assert "cooperative-sticky is not worthwhile: " in finding.reason
            assert finding.advice == "Nothing to do."
            assert finding.commands == ("kgroup plan g",)
            (why,) = (
                [plan.against]
                if plan
                else [reason for reason in row.reasons if "sticky: " in reason]
            )
            assert why is not None
            assert why.partition("sticky: ")[2].rstrip(".") in finding.reason
        else:
            assert plan.now is not None
            assert plan.then is not None
            now, then = plan.now.forecast.stopped_ms, plan.then.forecast.stopped_ms
            assert then < now
            assert f"for {now / 1000:g} s in total" in finding.reason
            assert f"with cooperative-sticky, for {then / 1000:g} s." in finding.reason
            assert finding.commands == (plan.command,)
        recommended.append(finding.advice != "Nothing to do.")
    assert {True, False} == {*recommended}


def test_a_strategy_is_judged_where_that_is_asked_for_only() -> None:
    """The forecast takes requests and time, which monitoring does not have for each group."""
    source = FakeSource(group_of("ab", each=1))
    (finding,) = check(source, Request(), lambda: 1).report.data
    assert (finding.code, finding.advice) == (Rule.EAGER_STRATEGY, Rule.EAGER_STRATEGY.advice)
    assert "cooperative-sticky" not in finding.reason + finding.advice
    assert finding.commands == ("kgroup plan g",)


@pytest.mark.parametrize(
    ("state", "there", "waits"),
    [
        (
            GroupState.PREPARING_REBALANCE,
            ("one", "two", "new"),
            "The coordinator waits for some of these members to rejoin, for at most 2 minutes "
            "(rebalance timeout): ",
        ),
        (
            GroupState.PREPARING_REBALANCE,
            ("two", "new"),
            "The coordinator waits for two to rejoin, for at most 2 minutes (rebalance timeout).",
        ),
        (GroupState.PREPARING_REBALANCE, ("new",), None),
        (GroupState.COMPLETING_REBALANCE, ("one", "two"), None),
        (GroupState.STABLE, ("one", "two"), None),
    ],
)
def test_a_rebalance_in_progress_names_the_awaited_members(
    state: GroupState, there: Sequence[str], waits: str | None
) -> None:
    """Only members of the previous generation have to rejoin."""
    before = tuple(
        replace(member(name), rebalance_timeout_ms=timeout)
        for name, timeout in (("one", 60_000), ("two", 120_000))
    )
    waiting = replace(
        group("g", *map(member, there), last_stable=Membership(3, "one", "range", NOW_MS, before)),
        state=state,
    )
    rows = audit(waiting, rules=frozenset({Rule.LONG_REBALANCE})).report.data
    assert [row.severity for row in rows] == [Severity.INFO] * (waits is not None)
    if waits is not None:
        assert waits in rows[0].reason
        assert "new" not in rows[0].reason


def test_a_rebalance_in_progress_names_members_of_earlier_epochs() -> None:
    members = (replace(member("one"), member_epoch=4), replace(member("two"), member_epoch=5))
    slow = replace(
        group("g", *members, group_epoch=5), type=GroupType.CONSUMER, state=GroupState.RECONCILING
    )
    (row,) = audit(slow, rules=frozenset({Rule.LONG_REBALANCE})).report.data
    assert "Not yet in epoch 5: one." in row.reason


def test_two_looks_soon_after_each_other_show_a_rebalance_as_one_does() -> None:
    before = (replace(member("one"), rebalance_timeout_ms=60_000),)
    waiting = replace(
        group("g", member("one"), last_stable=Membership(3, "one", "range", NOW_MS, before)),
        state=GroupState.PREPARING_REBALANCE,
    )
    for between_ms, severity in ((59_000, Severity.INFO), (60_000, Severity.WARNING)):
        clock = iter((NOW_MS - between_ms, NOW_MS))
        found = check(FakeSource(waiting), Request(), clock.__next__, lambda: None)
        (row,) = found.report.data
        assert (row.code, row.severity) == (Rule.LONG_REBALANCE, severity)
        assert "one" in row.reason


@pytest.mark.parametrize(
    ("hosts", "topics", "is_shared"),
    [
        (("/10.0.0.1", "/10.0.0.2"), (("orders",), ("bills",)), True),
        (("/10.0.0.1", "/10.0.0.2"), (("orders",), ("orders", "bills")), False),
        (("/10.0.0.1", "/10.0.0.1"), (("orders",), ("bills",)), False),
        (("/10.0.0.1", "/10.0.0.2"), (("orders",), ()), False),
    ],
)
def test_two_applications_of_one_group_id(
    hosts: Sequence[str], topics: Sequence[tuple[str, ...]], is_shared: bool
) -> None:
    members = [
        replace(
            member(name, number, client_id=f"c-{number}", client_host=host),
            subscription=Subscription(subscribed, None, (), None, None),
        )
        for number, (name, host, subscribed) in enumerate(zip("ab", hosts, topics, strict=True))
    ]
    rows = audit(group("g", *members), rules=frozenset({Rule.SHARED_GROUP_ID})).report.data
    assert [row.reason for row in rows] == [
        "Members subscribe to disjoint topics and run apart: bills (1: c-1 at 10.0.0.2); orders "
        "(1: c-0 at 10.0.0.1)."
    ] * is_shared


def test_past_the_end_of_an_empty_partition() -> None:
    text = out_of_range(Rule.PAST_END, "orders-0", 7, 5, 5, ("earliest", "latest"))
    assert "0 records" not in text
    assert "has no records" in text
    assert "goes to 5 and reads only new records" in text
