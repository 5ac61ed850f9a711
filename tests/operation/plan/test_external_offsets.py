"""Ways of offsets to a table and back: what is planned, refused, and what it costs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from kgroup.errors import InputError
from kgroup.model.group import Group, GroupState
from kgroup.model.log_range import LogRange
from kgroup.model.problem import Problem
from kgroup.operation.plan.external_offsets import plan_external_offsets
from kgroup.operation.plan.forecast import ProgramBehavior
from kgroup.operation.plan.plan import OffsetCopy, Plan, Verdict
from kgroup.operation.plan.running_group import read_running
from kgroup.source.base import OffsetReading, OffsetTable
from tests.operation.offset_stores import At, Store, commits
from tests.operation.plan.fake_cluster import group_of
from tests.operation.sources import FakeSource

COPY = OffsetCopy("kafka", "sql")
OFFSETS = {("t", number): 100 * number for number in range(6)}
ENDS = {at: LogRange(0, 20_000) for at in OFFSETS}


class Table(Store, OffsetTable):
    """A table, or none."""

    where = "sqlite:///x.db, table t_offset"
    fences = True

    def __init__(
        self,
        stored: Mapping[At, int] | None,
        *,
        fences: bool = True,
        fault: str | None = None,
        problem: Problem | None = None,
    ) -> None:
        super().__init__({"g": stored} if stored else {})
        self.fences = fences
        self._is_there = stored is not None
        self._fault = fault
        self._problem = problem

    def has_table(self) -> bool:
        if self._fault is not None:
            raise InputError(self._fault)
        return self._is_there

    def read_offsets(self, *args: object) -> OffsetReading:
        reading = super().read_offsets(*args)  # type: ignore[arg-type]
        return replace(reading, problems=() if self._problem is None else (self._problem,))


def group_with(committed: Mapping[At, int] = OFFSETS, **of: object) -> Group:
    return replace(group_of(**of), offsets=commits(committed))  # type: ignore[arg-type]


def plan(
    table: Table,
    group: Group | None = None,
    *,
    to_kafka: bool = False,
    rolling: bool = False,
    copy: OffsetCopy = COPY,
) -> Plan:
    source = FakeSource(group or group_with(), ranges=ENDS)
    running = read_running(source, "g")
    return plan_external_offsets(
        running, source, table, copy, ProgramBehavior(), to_kafka=to_kafka, rolling=rolling
    )


def verdicts(found: Plan) -> dict[str, str]:
    return {precondition.code: str(precondition.verdict) for precondition in found.preconditions}


def costs(found: Plan) -> tuple[int, int]:
    assert found.forecast is not None
    return found.forecast.read_again, found.forecast.skipped


def test_a_stopped_group_is_copied_and_started() -> None:
    group = replace(group_of("", state=GroupState.EMPTY), offsets=commits(OFFSETS))
    copied, started = plan(Table(None), group, rolling=True).steps
    assert copied.copies is not None
    assert (copied.copies.creates_table, copied.copies.is_last) == (True, True)
    assert [(setting.name, setting.after) for setting in started.settings] == [
        ("enable.auto.commit", "false")
    ]
    assert (started.expected.is_restarted, started.expected.members) == (False, 1)


def test_who_was_copied_already_is_started() -> None:
    group = replace(group_of("", state=GroupState.EMPTY), offsets=commits(OFFSETS))
    (step,) = plan(Table(OFFSETS), group).steps
    assert step.title == "Start all members with the version that uses the table"
    (step,) = plan(Table(OFFSETS), group, to_kafka=True).steps
    assert step.title == "Start all members with the version that uses the offsets in Kafka"


def test_a_table_that_is_not_there_is_made_first() -> None:
    found = plan(Table(None))
    assert verdicts(found) == {
        "stable": "verified",
        "table": "unknown",
        "one-ahead": "verified",
        "known-offsets": "verified",
        "one-transaction": "unknown",
        "fencing": "verified",
    }
    first, stop, last, start = found.steps
    assert first.copies == replace(COPY, creates_table=True, is_last=False)
    assert first.forecast is not None
    assert (first.forecast.rebalances, first.forecast.stopped) == (0, 0)
    assert (stop.copies, stop.commands, last.copies) == (None, (), COPY)
    assert stop.expected.state is last.expected.state is GroupState.EMPTY
    assert last.commands == ("kgroup offsets copy kafka sql --group g -b HOST:PORT --execute",)
    assert "$KGROUP_SQL_URL" in last.actions[0]
    assert [(setting.name, setting.after) for setting in start.settings] == [
        ("enable.auto.commit", "false")
    ]
    assert (start.restarted, start.expected.members) == (("a", "b", "c"), 3)
    assert costs(found) == (0, 0)
    assert found.summary == "From Kafka to the table with the group stopped."


def test_a_table_that_is_there_is_only_written_in_the_end() -> None:
    found = plan(Table({}), copy=replace(COPY, goal="sql:x.db"))
    assert [step.copies is not None for step in found.steps] == [False, True, False]
    assert found.steps[1].actions == ()
    assert found.goal == "sql:x.db"


def test_what_is_left_in_the_table_is_overwritten() -> None:
    found = plan(Table(dict.fromkeys(OFFSETS, 0)))
    assert costs(found) == (0, 0)
    assert found.naive is not None
    # Without a copy all that was read since then is read again: 0 + 100 + … + 500.
    assert found.naive.forecast.read_again >= sum(OFFSETS.values())


@pytest.mark.parametrize("to_kafka", [False, True])
@pytest.mark.parametrize("strategy", ["range", "cooperative-sticky"])
def test_two_rolling_restarts(to_kafka: bool, strategy: str) -> None:
    stored = OFFSETS if to_kafka else {}
    found = plan(Table(stored), group_with(strategy=strategy), to_kafka=to_kafka, rolling=True)
    assert [len(step.restarted) for step in found.steps] == [3, 3]
    assert [step.copies for step in found.steps] == [None, None]
    first, second = found.steps
    assert [setting.after for setting in first.settings] == ["false"]
    assert [setting.after for setting in second.settings] == ([] if to_kafka else ["false"])
    assert first.forecast is not None
    assert second.forecast is not None
    assert first.forecast.skipped == second.forecast.skipped == 0
    # Who keeps offsets in Kafka alone commits now and then, and goes on to read while others join.
    lags, exact = (second, first) if to_kafka else (first, second)
    assert exact.forecast is not None
    assert lags.forecast is not None
    assert exact.forecast.read_again == 0
    assert (lags.forecast.read_again == 0) is (strategy == "range")


def test_back() -> None:
    ahead = {at: offset + 19_000 for at, offset in OFFSETS.items()}
    found = plan(Table(ahead), to_kafka=True)
    assert found.goal == "kafka"
    assert "one-transaction" not in verdicts(found)
    assert set(verdicts(found).values()) == {"verified"}
    _, last, start = found.steps
    assert last.copies == OffsetCopy("sql", "kafka")
    assert start.settings == ()
    assert costs(found) == (0, 0)
    assert found.naive is not None
    assert found.naive.forecast.read_again >= 6 * 19_000


def test_static_members_are_removed() -> None:
    stop, *_ = plan(Table({}), group_with(static=True)).steps
    assert stop.commands == ("kgroup members remove g -b HOST:PORT --all --execute",)
    assert stop.forecast is not None
    assert (stop.forecast.longest_stop_ms or 0) > 45_000


def test_what_neither_store_has_is_told() -> None:
    committed = {at: offset for at, offset in OFFSETS.items() if at[1] != 4}
    found = plan(Table({}), group_with(committed))
    (known,) = (
        precondition for precondition in found.preconditions if precondition.code == "known-offsets"
    )
    assert (known.verdict, known.found) == (Verdict.UNKNOWN, "none of t-4")
    assert found.steps


def test_a_table_that_keeps_nobody_out() -> None:
    found = plan(Table({}, fences=False))
    assert verdicts(found)["fencing"] == "unknown"
    assert found.steps


@pytest.mark.parametrize("rolling", [False, True])
@pytest.mark.parametrize("to_kafka", [False, True])
def test_two_stores_that_are_both_ahead_are_refused(to_kafka: bool, rolling: bool) -> None:
    found = plan(
        Table({**OFFSETS, ("t", 1): 99, ("t", 2): 201}), to_kafka=to_kafka, rolling=rolling
    )
    (ahead,) = (
        precondition for precondition in found.preconditions if precondition.code == "one-ahead"
    )
    assert ahead.verdict is Verdict.REFUTED
    assert ahead.found == "Kafka is ahead in t-1, the table in t-2"
    assert (found.is_refuted, found.steps) == (True, ())


@pytest.mark.parametrize("to_kafka", [False, True])
def test_a_group_that_goes_by_the_other_store_already(to_kafka: bool) -> None:
    change = -1 if to_kafka else 1
    found = plan(Table({**OFFSETS, ("t", 2): 200 + change}), to_kafka=to_kafka)
    one = "Kafka is ahead of the table" if to_kafka else "the table is ahead of Kafka"
    assert f"Nothing to do: {one} in t-2" in found.summary
    assert (found.is_refuted, found.steps, found.forecast) == (False, (), None)


@pytest.mark.parametrize(
    ("table", "to_kafka", "text"),
    [
        (Table(None), True, "does not exist"),
        (Table({}, fault="expected a unique key"), False, "expected a unique key"),
        (
            Table({}, problem=Problem("unreadable", "Row 3 is none.", group_id="g")),  # type: ignore[arg-type]
            False,
            "Row 3 is none.",
        ),
    ],
)
def test_a_table_that_cannot_be_used_is_refused(table: Table, to_kafka: bool, text: str) -> None:
    found = plan(table, to_kafka=to_kafka)
    (usable,) = (
        precondition for precondition in found.preconditions if precondition.code == "table"
    )
    assert usable.verdict is Verdict.REFUTED
    assert text in (usable.found or "")
    assert found.steps == ()


def test_a_group_that_rebalances_is_refused() -> None:
    found = plan(Table({}), group_with(state=GroupState.PREPARING_REBALANCE))
    assert (verdicts(found)["stable"], found.steps) == ("refuted", ())


def test_tasks_of_a_connector_are_stopped_and_started_together() -> None:
    """They have one version of the connector; Connect commits for them, with no auto commit."""
    group = group_with()
    members = tuple(
        replace(member, client_id=f"connector-consumer-to-db-{number}")
        for number, member in enumerate(group.members)
    )
    found = plan(Table(OFFSETS), replace(group, members=members), rolling=True)
    stop, _, start = found.steps
    assert stop.title == "Stop all members"
    assert "PUT /connectors/to-db/stop" in stop.actions[0]
    assert "PUT /connectors/to-db/resume" in start.actions[-1]
    assert (start.settings, found.naive) == ((), None)
