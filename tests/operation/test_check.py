"""What `kgroup check` judges, and in which order and forms it is said.

Rules find what they should on real brokers, in `tests/broker/test_live_check.py`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import pytest

from kgroup.errors import ExitStatus, InputError
from kgroup.model.assignment import AssignedPartition
from kgroup.model.cluster import Broker, ClusterView, Partition, Placement, Topic
from kgroup.model.group import Group, GroupState, GroupType, Member, Subscription
from kgroup.model.log_range import LogRange
from kgroup.model.next_record import NextReading, NextRecord, Position
from kgroup.model.offset import CommittedOffset
from kgroup.operation.check.check import Audit, Request, check
from kgroup.operation.check.limit import LIMITS, parse_limit, read_baseline, with_limits
from kgroup.operation.check.look import Limits
from kgroup.operation.check.rule import Finding, Rule, Severity
from kgroup.render.document import document, json_rows
from kgroup.render.group.finding import nagios_lines, nagios_status, prometheus_lines
from kgroup.sample import sample_log_dir
from kgroup.source.log.source import LogDir
from tests.operation.sources import FakeSource

NOW_MS = 1_700_000_000_000


def member(name: str, *partitions: int, **more: Any) -> Member:
    owned = tuple(AssignedPartition(None, "orders", number) for number in partitions)
    subscription = Subscription(("orders",), None, (), None, None)
    return Member(name, subscription=subscription, assignment=owned, **more)


def group(group_id: str, *members: Member, **more: Any) -> Group:
    state = GroupState.STABLE if members else GroupState.EMPTY
    return Group(group_id, GroupType.CLASSIC, state, members=members, **more)


def commit(partition: int, offset: int, age_ms: int = 0, **more: Any) -> CommittedOffset:
    return CommittedOffset("orders", partition, offset, commit_timestamp_ms=NOW_MS - age_ms, **more)


def audit(*groups: Group, ranges: Mapping[int, LogRange] | None = None, **request: Any) -> Audit:
    logs = {("orders", number): log for number, log in (ranges or {}).items()}
    return check(FakeSource(*groups, ranges=logs), Request(**request), lambda: NOW_MS)


def said(found: Audit) -> list[tuple[str | None, str, str]]:
    return [(each.group_id, each.severity, each.code) for each in found.report.data]


LAGGING = group("b", offsets=(commit(0, 3),))
EXPIRING = group("a", offsets=(commit(0, 10, expire_timestamp_ms=NOW_MS + 7_200_000),))
LOGS = {0: LogRange(0, 10)}


def test_the_worst_of_each_group_first_and_the_exit_status() -> None:
    both = group("b", offsets=(commit(0, 3, expire_timestamp_ms=NOW_MS + 1),))
    found = audit(both, EXPIRING, ranges=LOGS)
    assert said(found) == [
        ("a", "warning", "expiring-offset"),
        ("b", "error", "nobody-reads"),
        ("b", "warning", "expiring-offset"),
    ]
    assert found.report.data[0].reason == (
        "1 commit of the group will be forgotten, the first in 2.0 hours."
    )
    assert found.report.exit_status is ExitStatus.PROBLEM
    for severity, groups, status in (
        (Severity.ERROR, (EXPIRING,), ExitStatus.DONE),
        (Severity.ERROR, (EXPIRING, LAGGING), ExitStatus.PROBLEM),
        (Severity.WARNING, (EXPIRING,), ExitStatus.PROBLEM),
        (Severity.INFO, (), ExitStatus.DONE),
    ):
        assert audit(*groups, ranges=LOGS, fail_on=severity).report.exit_status is status


class SeenSource(FakeSource):
    """Implements `NextRecordSource`: partitions whose last offsets are markers have no record."""

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
    found = check(source, Request(), lambda: NOW_MS).report.data
    claims = [each for each in found if each.code in (Rule.NOBODY_READS, Rule.OLD_COMMIT)]
    assert bool(claims) == bool(records)
    for each in claims:
        assert f"p to {records} records wait" in each.reason
    assert not (log.end == 5000 and source.asked), "so many are not looked for"


def test_only_these_rules_and_not_what_is_known() -> None:
    found = audit(LAGGING, EXPIRING, ranges=LOGS, rules=frozenset({Rule.NOBODY_READS}))
    assert said(found) == [("b", "error", "nobody-reads")]
    text = b"".join(document("check", json_rows(found.report.data), ()))
    known = read_baseline(text, "known.json")
    later = group("b", offsets=(commit(0, 1),))  # lags more, and is the same
    found = audit(later, EXPIRING, ranges=LOGS, known=known)
    assert said(found) == [("a", "warning", "expiring-offset")]
    assert found.report.notes == ("1 known finding is left out",)
    found = audit(later, ranges=LOGS, known=known)
    assert found.report.exit_status is ExitStatus.DONE
    other = group("c", offsets=(commit(0, 1),))
    assert said(audit(other, ranges=LOGS, known=known)) == [("c", "error", "nobody-reads")]


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
    assert [each.kind for each in found.report.errors] == ["not-found"]
    assert nagios_status(found) == 3


def test_limits() -> None:
    late = group("late", member("one", 0), offsets=(commit(0, 3, age_ms=601_000),))
    for name, value, is_found in (("old-commit", "10m", True), ("old-commit", "602s", False)):
        limits = with_limits(Limits(), [parse_limit(name, value)])
        assert bool(audit(late, ranges=LOGS, limits=limits).report.data) is is_found
    assert audit(late, ranges=LOGS).report.data[0].reason == (
        "orders-0: the last commit was 10 minutes ago, and up to 7 records wait; its owner is one."
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


def test_on_what_a_finding_rests() -> None:
    """One look, what the log alone tells, or two looks with their times."""
    times = iter((NOW_MS - 60_000, NOW_MS))
    source = FakeSource(LAGGING, EXPIRING, group("g", member("one", instance_id="pod-1")))

    def leave() -> None:
        source.replace(group("g", member("two")))

    found = check(source, Request(), lambda: next(times), leave).report.data
    looks = (NOW_MS - 60_000, NOW_MS)
    rests = {each.code: (each.basis, each.evidence_from_ms, each.evidence_to_ms) for each in found}
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
    assert {(each.group_id, each.code) for each in found.report.data} == {
        ("connect-shipments-warehouse", "eager-strategy"),
        ("payment-service", "eager-strategy"),
        ("invoice-batch", "nobody-reads"),
        ("ledger", "nobody-reads"),
        ("legacy-report", "nobody-reads"),
        ("search-index", "nobody-reads"),
        ("pricing", "mixed-protocols"),
    }


class FakeCluster(FakeSource):
    """Has brokers too; implements `ClusterSource` and `SettingSource`."""

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
        ([Partition(0, (0, 1), (0,)), Partition(0, (0, 1), (0, 1))], ["are not in sync: 0."]),
        ([Partition(0, (0,), (0,)), Partition(1, (1,), (1,))], ["One replica, of 3 brokers."]),
        ([], []),
    ],
)
def test_where_commits_are_kept(offsets: Sequence[Partition], reasons: Sequence[str]) -> None:
    found = check(FakeCluster(offsets=offsets), Request(), lambda: NOW_MS).report
    assert len(found.data) == len(reasons)
    for finding, reason in zip(found.data, reasons, strict=True):
        assert finding.code is Rule.OFFSETS_TOPIC
        assert finding.reason.endswith(reason)
    named = check(FakeCluster(LAGGING, offsets=offsets), Request(["b"]), lambda: NOW_MS).report
    assert named.data == ()


def test_forms_for_monitoring() -> None:
    bad = 'b|"\\\n'
    found = audit(group(bad, offsets=(commit(0, 3),)), EXPIRING, ranges=LOGS, fail_on=Severity.INFO)
    assert nagios_status(found) == 2
    first, *rest = "".join(nagios_lines(found)).splitlines()
    assert first == (
        "KGROUP CRITICAL - 1 error, 1 warning; 2 groups checked | error=1 warning=1 info=0"
    )
    assert rest == [
        "warning: a: expiring-offset: 1 commit of the group will be forgotten, the first in 2.0 "
        "hours.",
        'error: b/"\\\\n: nobody-reads: Up to 7 records wait, and the group has no members.',
    ]
    assert nagios_status(audit(EXPIRING, ranges=LOGS)) == 1
    assert nagios_status(audit()) == 0
    lines = "".join(prometheus_lines(found)).splitlines()
    series = [line for line in lines if not line.startswith("#")]
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
