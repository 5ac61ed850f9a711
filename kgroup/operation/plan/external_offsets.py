"""Move offsets from Kafka to a table next to an application's results, or back.

The application's rebalance listener decides where a member resumes: the version that uses the table
seeks to the offsets in it, and starts at Kafka's commit otherwise. Either the group is stopped in
between, or there are two rolling restarts: the intermediate version keeps offsets in both stores
and starts at the later one. Partitions may then move back and forth between any two versions that
run at the same time. A single rolling restart is not safe: a member that gets a partition back
would resume at the outdated offset in its own store.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from kgroup.errors import InputError
from kgroup.model.cluster import TopicPartition
from kgroup.model.group import GroupState
from kgroup.operation.plan.connect import how_to_resume
from kgroup.operation.plan.coordinator import address_of, kgroup_on
from kgroup.operation.plan.forecast import (
    NOT_PLANNED,
    PlayedStep,
    ProgramBehavior,
    copied_offsets,
    forecast,
    how_to_restart,
    rolling_restart,
    started_group,
    stopped_members,
)
from kgroup.operation.plan.plan import (
    Expected,
    MigrationTarget,
    NaiveWay,
    OffsetCopy,
    Plan,
    PlanStep,
    Precondition,
    SettingChange,
    Verdict,
)
from kgroup.operation.plan.running_group import RunningGroup, plan_of
from kgroup.operation.plan.stop import how_to_stop, removal, seen_stopped
from kgroup.operation.report import first_names
from kgroup.simulation.scenario.scenario import KeptIn, MemberPlan, Scenario
from kgroup.source.base import GroupSource, OffsetTable


@dataclass(frozen=True, slots=True)
class Stores:
    """Offsets of a group in both stores.

    Attributes:
        committed: offsets in Kafka.
        stored: offsets in the table.
        is_there: whether the table exists.
        fault: why the table cannot be used; None if it can.
    """

    committed: Mapping[TopicPartition, int]
    stored: Mapping[TopicPartition, int]
    is_there: bool
    fault: str | None

    @property
    def behind(self) -> Mapping[TopicPartition, int]:
        """Offset in Kafka minus offset in the table, for partitions that both have."""
        both = self.committed.keys() & self.stored.keys()
        return {at: self.committed[at] - self.stored[at] for at in sorted(both)}


def read_stores(running: RunningGroup, table: OffsetTable) -> Stores:
    """Read the offsets of a group from both stores.

    Raises:
        BrokerError: the database does not answer.
    """
    group_id = running.group.group_id
    committed = {
        (offset.topic, offset.partition): offset.committed_offset
        for offset in running.group.offsets
    }
    try:
        is_there = table.has_table()
        reading = table.read_offsets([group_id])
    except InputError as error:
        return Stores(committed, {}, True, str(error))
    stored = {
        (offset.topic, offset.partition): offset.committed_offset
        for offset in reading.offsets.get(group_id, ())
    }
    fault = reading.problems[0].reason if reading.problems else None
    return Stores(committed, stored, is_there, fault)


def preconditions(
    running: RunningGroup, table: OffsetTable, stores: Stores, *, to_kafka: bool, rolling: bool
) -> tuple[Precondition, ...]:
    """Return the preconditions to move a group's offsets to the table, or back to Kafka."""
    known = stores.stored if to_kafka else stores.committed
    conditions = [
        running.rests,
        _usable(table, stores, to_kafka=to_kafka),
        _one_ahead(stores),
        _known(running, known, "the table" if to_kafka else "Kafka"),
    ]
    if not to_kafka or rolling:
        conditions.append(
            Precondition(
                "one-transaction",
                "The application stores results and offsets in one transaction of this database.",
                Verdict.UNKNOWN,
                None,
                "Look at its code: what it writes elsewhere counts twice when it crashes in "
                "between. docs/offsets.md shows it with kgroup's OffsetStore.",
            )
        )
        conditions.append(_fenced(table))
    return tuple(conditions)


def _usable(table: OffsetTable, stores: Stores, *, to_kafka: bool) -> Precondition:
    code, text = "table", "The table exists, with its columns and a unique key, and can be read."
    if stores.fault is not None:
        return Precondition(code, text, Verdict.REFUTED, stores.fault, "Repair it, and plan again.")
    if stores.is_there:
        return Precondition(code, text, Verdict.VERIFIED, table.where)
    found = f"{table.where}: does not exist"
    if to_kafka:
        check = "Name the one that the application uses: --sql, --sql-table, --sql-column."
        return Precondition(code, text, Verdict.REFUTED, found, check)
    check = "Step 1 creates it: its user needs the right to create tables. Or create it beforehand."
    return Precondition(code, text, Verdict.UNKNOWN, found, check)


def _one_ahead(stores: Stores) -> Precondition:
    """Return the precondition that one store is never behind the other."""
    code, text = (
        "one-ahead",
        "Neither store is behind the other in some partitions and ahead in others.",
    )
    behind = {at: count for at, count in stores.behind.items() if count > 0}
    ahead = {at: -count for at, count in stores.behind.items() if count < 0}
    if not (behind and ahead):
        which = "the table" if ahead else "Kafka" if behind else "neither"
        return Precondition(code, text, Verdict.VERIFIED, f"{which} is ahead")
    return Precondition(
        code,
        text,
        Verdict.REFUTED,
        f"Kafka is ahead in {_named(behind)}, the table in {_named(ahead)}",
        "Find out which store the members use. Delete leftover rows from the table "
        "('kgroup offsets delete').",
    )


def _known(running: RunningGroup, known: Mapping[TopicPartition, int], where: str) -> Precondition:
    code, text = "known-offsets", f"{where[0].upper()}{where[1:]} has an offset for each partition."
    assert running.scenario.start is not None
    owned = {at for member in running.scenario.start.members.values() for at in member.owned}
    if running.is_stopped:
        if known:
            return Precondition(code, text, Verdict.VERIFIED, f"{len(known)} partitions")
        check = "Members start where auto.offset.reset says."
        return Precondition(code, text, Verdict.UNKNOWN, "it has none", check)
    missing = sorted(owned - known.keys())
    if not missing:
        return Precondition(code, text, Verdict.VERIFIED, f"{len(owned)} partitions")
    return Precondition(
        code,
        text,
        Verdict.UNKNOWN,
        f"none of {_named(missing)}",
        "Make sure that they have not been read yet: members start where auto.offset.reset says.",
    )


def _fenced(table: OffsetTable) -> Precondition:
    code, text = "fencing", "The table fences a member that has lost a partition."
    if table.fences:
        return Precondition(code, text, Verdict.VERIFIED, "it has a column for the generation")
    return Precondition(
        code,
        text,
        Verdict.UNKNOWN,
        "no column for the generation is named",
        "Name one (--sql-column generation=generation), or make sure that the application compares "
        "the offset that it overwrites: a member that was paused may process again what others "
        "have processed.",
    )


def reached(stores: Stores, *, to_kafka: bool) -> str | None:
    """Return a summary that the group already uses the other store, which is ahead."""
    ahead = {at for at, count in stores.behind.items() if (count > 0 if to_kafka else count < 0)}
    if not ahead:
        return None
    origin, other = ("Kafka", "the table") if to_kafka else ("the table", "Kafka")
    return (
        f"Nothing to do: {origin} is ahead of {other} in {_named(sorted(ahead))}, so "
        f"members already keep offsets there. If it is left over, delete what {origin} has first."
    )


def _named(partitions: Iterable[TopicPartition]) -> str:
    return first_names([f"{topic}-{partition}" for topic, partition in partitions])


_AUTO_COMMIT = "enable.auto.commit"
_TRANSACTION = "It stores results and offsets in one transaction."
_SEEKS = {
    KeptIn.EXTERNAL: (
        "When partitions are assigned, this version seeks to the offsets in the table; without one "
        "there, it starts at the offset committed to Kafka, as every consumer does by default.",
        _TRANSACTION,
        "It may commit to Kafka after the transaction, although nothing depends on it: tools then "
        "see the lag, and the group keeps its generation.",
    ),
    KeptIn.BOTH: (
        "When partitions are assigned, this version seeks to the larger of the offset in the table "
        "and the one committed to Kafka, and stores and commits that at once.",
        _TRANSACTION,
        "It commits to Kafka (commitSync) after each transaction, before the next poll().",
    ),
    KeptIn.KAFKA: (
        "This version does not seek: it starts at the offset committed to Kafka, and commits there "
        "what it has processed.",
    ),
}
_CALLED = {
    KeptIn.EXTERNAL: "uses the table",
    KeptIn.BOTH: "keeps offsets in both",
    KeptIn.KAFKA: "uses the offsets in Kafka",
}


def plan_external_offsets(
    running: RunningGroup,
    source: GroupSource,
    table: OffsetTable,
    copy: OffsetCopy,
    behavior: ProgramBehavior,
    *,
    to_kafka: bool = False,
    rolling: bool = False,
) -> Plan:
    """Return a plan to move a group's offsets to a table, or back.

    Args:
        running: the group.
        source: source of the group.
        table: table of offsets.
        copy: copy from Kafka to the table, with the store names for the plan.
        behavior: behavior of the group's applications.
        to_kafka: move the offsets back to Kafka.
        rolling: do not stop the group; ignored for tasks of a connector, which are always stopped.

    Raises:
        BrokerError: the database does not answer.
    """
    rolling = rolling and not running.connectors  # all tasks have the same version
    stores = read_stores(running, table)
    if to_kafka:
        copy = replace(copy, origin=copy.goal, goal=copy.origin)
    conditions = preconditions(running, table, stores, to_kafka=to_kafka, rolling=rolling)
    plan = plan_of(running.group, MigrationTarget.EXTERNAL_OFFSETS, copy.goal, conditions)
    if plan.is_refuted:
        return plan.refused()
    if summary := reached(stores, to_kafka=to_kafka):
        return replace(plan, summary=summary)
    if running.is_stopped:
        copy = replace(copy, creates_table=not stores.is_there)
    way = _Way(running, _as_it_is(running, source, stores, to_kafka=to_kafka), copy, behavior)
    goal = KeptIn.KAFKA if to_kafka else KeptIn.EXTERNAL
    what = "From the table to Kafka" if to_kafka else "From Kafka to the table"
    if running.is_stopped:
        moves = way.copied_and_started(goal)
        if stores.stored and stores.stored == stores.committed:
            del moves[0]
        steps = tuple(replace(step.step, number=n) for n, step in enumerate(moves, 1))
        return plan.carried_out(f"{what}, as the group is stopped.", steps)
    moves = [] if stores.is_there else [way.first_copy()]
    moves += way.rolling(goal) if rolling else way.stopped(goal)
    steps, total = forecast(way.scenario, moves, behavior)
    return plan.carried_out(
        f"{what} " + ("in two rolling restarts." if rolling else "with the group stopped."),
        steps,
        total,
        None if running.connectors else way.naive(goal),
    )


def _as_it_is(
    running: RunningGroup, source: GroupSource, stores: Stores, *, to_kafka: bool
) -> Scenario:
    """Return the scenario with the table's offsets, and with members that use the current store."""
    scenario = running.scenario
    assert scenario.start is not None
    stored = {at: offset for at, offset in stores.stored.items() if _is_in(at, scenario)}
    ends = dict(scenario.start.ends)
    ranges = source.log_ranges([at for at in stored if at not in ends]).ranges
    for at, offset in stored.items():
        known = ranges[at].end if at in ranges else None
        ends[at] = max(ends.get(at, 0), known or 0, offset)
    start = replace(scenario.start, stored=stored, ends=ends)
    scenario = replace(scenario, start=start)
    if not to_kafka:
        return scenario
    plans = {name: _keeping(plan, KeptIn.EXTERNAL) for name, plan in scenario.members.items()}
    return replace(scenario, members=plans)


def _is_in(at: TopicPartition, scenario: Scenario) -> bool:
    return at[1] < scenario.topics.get(at[0], 0)


def _keeping(plan: MemberPlan, offsets: KeptIn) -> MemberPlan:
    config = replace(plan.config, enable_auto_commit=offsets is not KeptIn.EXTERNAL)
    return replace(plan, offsets=offsets, config=config)


@dataclass(frozen=True, slots=True)
class _Way:
    """Steps of the plan, for both directions."""

    running: RunningGroup
    scenario: Scenario
    copy: OffsetCopy
    behavior: ProgramBehavior

    def first_copy(self) -> PlayedStep:
        """Create the table while members run."""
        copy = replace(self.copy, creates_table=True, is_last=False)
        step = PlanStep(
            0,
            "Create the table, with a first copy",
            actions=("Members continue meanwhile: none uses the table yet.", *self._hidden()),
            commands=(copy.command(self._group_id, self._server),),
            copies=copy,
            see=("The command shows done for each partition.",),
            back="Drop the table.",
            expected=Expected(),
        )
        return copied_offsets(step, None)

    def stopped(self, goal: KeptIn) -> list[PlayedStep]:
        """Stop all members, copy the offsets, and start the members."""
        stop = PlanStep(
            0,
            "Stop all members",
            actions=how_to_stop(self.running.group),
            commands=removal(self.running.group),
            see=(f"{seen_stopped(self.running.group)}.",),
            back="Start them as they were.",
            expected=Expected(state=GroupState.EMPTY),
        )
        return [stopped_members(stop, self.scenario, self.behavior), *self.copied_and_started(goal)]

    def copied_and_started(self, goal: KeptIn) -> list[PlayedStep]:
        """Copy the offsets of stopped members, and start the members."""
        group_id = self._group_id
        to = "the table" if goal is KeptIn.EXTERNAL else "Kafka"
        last = PlanStep(
            0,
            f"Copy their offsets to {to}",
            actions=self._hidden(),
            commands=(self.copy.command(group_id, self._server),),
            copies=self.copy,
            see=(f"{self.copy.comparison(group_id, self._server)} finds no difference.",),
            back="Start the members as they were: the store that they use is unchanged.",
            expected=Expected(state=GroupState.EMPTY),
        )
        start = self._restart(goal, f"Start all members with the version that {_CALLED[goal]}")
        if connectors := self.running.connectors:
            start = replace(start, actions=(*start.actions, how_to_resume(connectors)))
        start = replace(start, back=self._back(goal))
        return [
            copied_offsets(last, goal),
            started_group(start, self.scenario, self._plans(goal), self.behavior),
        ]

    def rolling(self, goal: KeptIn) -> list[PlayedStep]:
        """Restart all members twice; versions that run at the same time are compatible."""
        before = "as it was" if goal is KeptIn.EXTERNAL else "that uses the table"
        backs = {
            KeptIn.BOTH: f"Restart the members one by one with the version {before}.",
            goal: "Restart the members one by one with the version that keeps offsets in both.",
        }
        moves = []
        for offsets, back in backs.items():
            title = f"Restart every member with the version that {_CALLED[offsets]}"
            step = self._restart(offsets, title)
            how = how_to_restart(self.behavior, len(self.scenario.members))
            step = replace(step, actions=(how, *step.actions), back=back)
            moves.append(rolling_restart(step, self.scenario, self._plans(offsets), self.behavior))
        return moves

    def naive(self, goal: KeptIn) -> NaiveWay:
        """Simulate a single rolling restart without a copy."""
        move = rolling_restart(NOT_PLANNED, self.scenario, self._plans(goal), self.behavior)
        _, cost = forecast(self.scenario, [move], self.behavior)
        text = f"One rolling restart with the version that {_CALLED[goal]}, and no copy"
        if goal is KeptIn.KAFKA:
            text += ", if members do not commit to Kafka"
        return NaiveWay(text, cost)

    @property
    def _group_id(self) -> str:
        return self.running.group.group_id

    @property
    def _server(self) -> str:
        return address_of(self.running.group.coordinator)

    def _hidden(self) -> tuple[str, ...]:
        """Return where to find the URL of the database, which the plan does not contain."""
        if "sql" not in (self.copy.origin, self.copy.goal):
            return ()
        return ("sql is the database of $KGROUP_SQL_URL or of the profile (-C).",)

    def _plans(self, offsets: KeptIn) -> Mapping[str, MemberPlan]:
        return {
            name: _keeping(self.scenario.members[name], offsets) for name in self.running.by_name
        }

    def _restart(self, offsets: KeptIn, title: str) -> PlanStep:
        settings: tuple[SettingChange, ...] = (SettingChange(None, _AUTO_COMMIT, None, "false"),)
        if offsets is KeptIn.KAFKA or self.running.connectors:  # Connect commits explicitly
            settings = ()
        comparison = self.copy.comparison(self._group_id, self._server)
        seen = {
            KeptIn.EXTERNAL: "the table is ahead by what members do not commit to Kafka, or have "
            "not yet committed.",
            KeptIn.BOTH: "twice, some seconds apart: a partition with the same difference both "
            "times was not stored and committed when it was assigned.",
            KeptIn.KAFKA: "from now on, Kafka is ahead: the table remains as it is.",
        }
        return PlanStep(
            0,
            title,
            tuple(self.running.by_name),
            settings,
            _SEEKS[offsets],
            see=(
                f"{kgroup_on(self.running.group, 'describe')} shows it stable"
                + (
                    "."
                    if self.running.is_stopped
                    else ", and every member with a new member id (--members --columns member_id)."
                ),
                f"{comparison}: {seen[offsets]}",
            ),
            expected=Expected(
                self.running.group.type,
                is_restarted=not self.running.is_stopped,
                members=len(self.running.by_name) or 1,
            ),
        )

    def _back(self, goal: KeptIn) -> str:
        options = (*self.copy.table_words, *(["--to-kafka"] if goal is KeptIn.EXTERNAL else []))
        return (
            "Before any of them has processed a record: stop them, and start them as they were. "
            "Later, their progress is in the store that they use now, and must be copied back "
            "first: plan that with "
            f"{kgroup_on(self.running.group, 'plan external-offsets', *options)}"
        )
