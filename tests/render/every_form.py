"""Every table and page that commands write, of random reports, in every form."""

from __future__ import annotations

import ast
import csv
import inspect
import io
import json
import re
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from functools import cache, partial
from itertools import chain, pairwise, product
from random import Random
from types import ModuleType
from typing import Any, TypeAlias

import pyarrow as pa

from kgroup.errors import ProblemKind
from kgroup.history.build.build import ClusterReport
from kgroup.history.build.retention import TableRemoval, UnneededFiles
from kgroup.history.query.commit_summary import CommitSummary
from kgroup.history.query.inventory import ClusterInventory, GroupInventory, TableColumn
from kgroup.history.query.lag import Lag
from kgroup.history.query.owner import Owner
from kgroup.history.query.stale import StaleOffset
from kgroup.history.rebalance.query import Storm
from kgroup.history.rebalance.rebalance import Rebalance
from kgroup.history.sql.question import Interval
from kgroup.history.sql.user_query import Answer
from kgroup.model.offset import StoredOffset
from kgroup.model.problem import Problem
from kgroup.operation.assign.dry_run import Bounce, Run
from kgroup.operation.check.rule import Finding, RuleDescription
from kgroup.operation.client_join import ClientJoin
from kgroup.operation.decode import Count
from kgroup.operation.describe import GroupDescription
from kgroup.operation.doctor import Diagnosis
from kgroup.operation.list_groups import ListedGroup
from kgroup.operation.locate import GroupLocation, TransactionLocation
from kgroup.operation.offsets.diff import OffsetDifference
from kgroup.operation.offsets.plan import PlannedOffset
from kgroup.operation.plan.advice import GroupAdvice, ListedTarget
from kgroup.operation.plan.plan import Plan
from kgroup.operation.plan.verify import StepCheck
from kgroup.operation.remove_members import RemovedMember
from kgroup.operation.report import Report
from kgroup.operation.simulate import ShippedScenario
from kgroup.operation.watch import compare
from kgroup.operation.zookeeper.fetcher import Fetch
from kgroup.operation.zookeeper.nodes import OwnedPartition, RegisteredConsumer, TreeNode
from kgroup.render import (
    assignment,
    check,
    client_join,
    doctor,
    group,
    history,
    offsets,
    plan,
    profile,
    record,
    simulation,
    zookeeper,
)
from kgroup.render.assignment_object import assign_object
from kgroup.render.cell import HARMFUL, Column, cell
from kgroup.render.form import page_text
from kgroup.render.group_page import SECTIONS, description_page, watch_page
from kgroup.render.json_document import json_document, json_on_terminal, json_rows
from kgroup.render.markup import MARKUPS
from kgroup.render.record import RECORD_COLUMNS, record_text
from kgroup.render.sheet import Part, Sheet
from kgroup.simulation.timeline import Simulation
from kgroup.source.config.profile import ListedProfile, ProfileSetting
from tests.cli.json_schemas import ROWS, check_document
from tests.render.random_report import RandomReport
from tests.render.read_markup import LANGUAGES, read, squeezed

Rows: TypeAlias = Sequence[Any]
Table: TypeAlias = Callable[..., Sheet] | tuple[Column, ...]
NOW_MS = 1_700_000_000_004


def _of_each(sheet: Callable[[Any], Sheet]) -> Callable[[Rows], Sheet]:
    """Let a sheet of one object take several: their rows, one behind the other."""

    def of_all(items: Rows) -> Sheet:
        sheets = [sheet(item) for item in items]
        return Sheet(sheets[0].columns, [row for each in sheets for row in each.rows])

    return of_all


def _of_each_group(sheet: Callable[[Any], Sheet]) -> Callable[[Rows], Sheet]:
    """Make rows of all groups of descriptions by what makes them of one group."""
    each = _of_each(sheet)
    return lambda rows: each([row.group for row in rows])


def _answer_sheet(rows: Rows) -> Sheet:
    """Take rows for what a query gave, with columns called as their first texts are."""
    names = {field.name: f"{field.name} {rows[0].topic}" for field in fields(Interval)}
    types = {
        name: pa.int64() if field.endswith("_ms") else pa.string() for field, name in names.items()
    }
    data = ({name: getattr(row, field) for field, name in names.items()} for row in rows)
    role = names["role"]  # a query gives valid texts only
    deep = tuple(
        {**row, role: [str(row[role]).encode("utf-8", "replace").decode(), {"a": 1}]}
        for row in data
    )
    return history.answer_sheet(Answer(deep, columns=types))


SHEETS: Mapping[Table, type] = {
    group.LIST_COLUMNS: ListedGroup,
    profile.PROFILE_COLUMNS: ListedProfile,
    profile.SETTING_COLUMNS: ProfileSetting,
    group.list_sheet: ListedGroup,
    group.LOCATION_COLUMNS: GroupLocation,
    group.TRANSACTION_COLUMNS: TransactionLocation,
    group.state_sheet: GroupDescription,
    group.members_sheet: GroupDescription,
    group.offsets_sheet: GroupDescription,
    group.topology_sheet: GroupDescription,
    offsets.STORED_COLUMNS: StoredOffset,
    offsets.PLAN_COLUMNS: PlannedOffset,
    offsets.DIFFERENCE_COLUMNS: OffsetDifference,
    offsets.REMOVAL_COLUMNS: RemovedMember,
    assignment.moves_sheet: Run,
    assignment.compared_sheet: Run,
    assignment.bounces_sheet: Bounce,
    client_join.joins_sheet: ClientJoin,
    simulation.events_sheet: Simulation,
    simulation.SCENARIO_COLUMNS: ShippedScenario,
    plan.advice_sheet: GroupAdvice,
    plan.TARGET_COLUMNS: ListedTarget,
    plan.steps_sheet: Plan,
    plan.checks_sheet: StepCheck,
    zookeeper.CONSUMER_COLUMNS: RegisteredConsumer,
    zookeeper.OWNER_COLUMNS: OwnedPartition,
    zookeeper.NODE_COLUMNS: TreeNode,
    zookeeper.FETCH_COLUMNS: Fetch,
    check.FINDING_COLUMNS: Finding,
    check.RULE_COLUMNS: RuleDescription,
    doctor.DIAGNOSIS_COLUMNS: Diagnosis,
    record.STATS_COLUMNS: Count,
    history.OWNER_COLUMNS: Owner,
    history.INTERVAL_COLUMNS: Interval,
    history.COMMIT_COLUMNS: CommitSummary,
    history.pause_sheet: CommitSummary,
    history.jump_sheet: CommitSummary,
    history.LAG_COLUMNS: Lag,
    history.STALE_COLUMNS: StaleOffset,
    history.CLUSTER_INVENTORY_COLUMNS: ClusterInventory,
    history.GROUP_INVENTORY_COLUMNS: GroupInventory,
    history.TABLE_COLUMNS: TableColumn,
    history.partition_inventory_sheet: ClusterInventory,
    history.answer_sheet: Interval,
    history.REBALANCE_COLUMNS: Rebalance,
    history.STORM_COLUMNS: Storm,
    history.build_sheet: ClusterReport,
    history.REMOVAL_COLUMNS: TableRemoval,
    history.VACUUM_COLUMNS: UnneededFiles,
}
"""Every set of columns of a row, and every function that makes a sheet; and of what."""

_OF_ROWS: Mapping[Any, Callable[[Rows], Sheet]] = {
    group.topology_sheet: _of_each_group(group.topology_sheet),
    group.list_sheet: partial(group.list_sheet, now_ms=1 << 40),
    history.answer_sheet: _answer_sheet,
}
"""How to call those that take something else than rows."""


def sheet_of(table: Table, rows: Rows) -> Sheet:
    """Make a sheet of rows by their columns, or however its function wants them."""
    if isinstance(table, tuple):
        return Sheet.of(table, rows)
    make: Callable[[Rows], Sheet] = _OF_ROWS.get(table, table)
    return make(rows)


def _watch(groups: Rows) -> Iterator[Part]:
    """Show groups with the changes since each was what the group behind it is."""
    known = {
        each.group.group_id: replace(
            other, group=replace(other.group, group_id=each.group.group_id)
        )
        for each, other in pairwise(groups)
    }
    changes, descriptions = compare(known, Report(tuple(groups)), NOW_MS)
    problems = [
        Problem(ProblemKind.FAILED, "\x1b[2J", group_id=each.group.group_id) for each in groups
    ]
    return watch_page(
        descriptions.values(),
        changes,
        changes,
        problems,
        sections=SECTIONS,
        interval_s=2,
        now_ms=NOW_MS,
    )


def _grids(runs: Rows) -> Iterator[Part]:
    plans = (plan for run in runs for plan in run.plans if plan.assignment is not None)
    return chain.from_iterable(assignment.grid_page(plan, 60) for plan in plans)


def _each(page: Callable[..., Iterable[Part]], *how: int) -> Callable[[Rows], Iterable[Part]]:
    """Let a page of one object take several."""
    return lambda rows: chain.from_iterable(page(row, *how) for row in rows)


PAGES: Mapping[Callable[..., Any], tuple[type, Callable[[Rows], Iterable[Part]]]] = {
    description_page: (
        GroupDescription,
        partial(description_page, sections=SECTIONS, now_ms=NOW_MS, explain=True),
    ),
    watch_page: (GroupDescription, _watch),
    group.list_page: (ListedGroup, partial(group.list_page, now_ms=NOW_MS, time_lag=True)),
    assignment.runs_page: (Run, assignment.runs_page),
    assignment.compared_page: (Run, assignment.compared_page),
    assignment.bounces_page: (Bounce, assignment.bounces_page),
    client_join.joins_page: (ClientJoin, client_join.joins_page),
    assignment.grid_page: (Run, _grids),
    simulation.simulations_page: (Simulation, simulation.simulations_page),
    simulation.scenarios_page: (ShippedScenario, simulation.scenarios_page),
    simulation.grid_text: (Simulation, _each(simulation.grid_text, 60)),
    simulation.diagram_text: (Simulation, _each(simulation.diagram_text)),
    plan.advice_page: (GroupAdvice, plan.advice_page),
    plan.plans_page: (Plan, plan.plans_page),
    plan.checks_page: (StepCheck, plan.checks_page),
    plan.diagram_text: (Plan, _each(plan.diagram_text)),
    offsets.plan_page: (PlannedOffset, offsets.plan_page),
    check.findings_page: (Finding, partial(check.findings_page, groups=["g"], explain=True)),
    doctor.diagnoses_page: (Diagnosis, doctor.diagnoses_page),
    record.stats_page: (Count, record.stats_page),
    history.commit_page: (CommitSummary, history.commit_page),
    history.rebalance_page: (Rebalance, history.rebalance_page),
    history.picture_text: (Interval, lambda rows: history.picture_text(rows, 80)),
}
"""Every function that makes a page: of what, and how to call it."""

_COMMANDS = {kind: command for command, kinds in ROWS.items() for kind in kinds} | {
    Run: "assign",
    Bounce: "assign",
    ClientJoin: "assign",
    GroupDescription: "describe",
}
"""A command whose documents have rows of a type."""

_ONLY_TABLES = frozenset(
    {
        watch_page,
        assignment.grid_page,
        history.picture_text,
        plan.diagram_text,
        simulation.grid_text,
        simulation.diagram_text,
    }
)
"""Pages that have no other form."""

_STYLES = re.compile(r"\x1b\[[0-9;]*m")


def _check_sheet(sheet: Sheet, markup: str, *, headers: bool) -> None:
    """Write a sheet in every form, of documents in one, and read back what can be read."""
    rows = list(sheet.rows)
    texts = [[cell(*pair) for pair in _with_kinds(sheet.columns, row)] for row in rows]

    def written(form: str, *, terminal: bool = False) -> str:
        whole = Sheet(sheet.columns, rows)
        return "".join(page_text([whole], form, headers=headers, terminal=terminal))

    def lines(form: str) -> list[str]:
        return written(form).split("\n")[:-1]

    _harmless(written("table", terminal=True))
    plain = lines("table")
    assert len(plain) == len(rows) + headers
    for line, row in zip(plain[headers:], texts, strict=True):
        _harmless(line)
        for text in row:
            assert line.lstrip().startswith(text.strip())
            line = line.lstrip().removeprefix(text.strip())
        assert not line
    marked = written(markup)
    _harmless(marked)
    if headers:
        (table,) = read(markup, marked)
        head = [column.title for column in sheet.columns]
        blank = [] if texts or not LANGUAGES[markup].needs_row else [[""] * len(head)]
        assert table == [[*map(squeezed, row)] for row in [head, *texts, *blank]]
    tsv = [line.split("\t") for line in lines("tsv")]
    assert len(tsv) == len(rows) + headers
    assert all(len(fields) == len(sheet.columns) for fields in tsv)
    _harmless(written("csv", terminal=True))
    found = [row or [""] for row in csv.reader(io.StringIO(written("csv"), newline=""))]
    names = [[column.name for column in sheet.columns]] if headers else []
    assert found == names + [[*map(_csv_field, row)] for row in rows]


def _with_kinds(columns: Sequence[Column], row: Sequence[object]) -> Iterator[tuple[object, Any]]:
    return ((value, column.kind) for column, value in zip(columns, row, strict=True))


def _csv_field(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return "" if value is None else str(value)


def _harmless(text: str) -> None:
    """Let nothing through that breaks a line or drives a terminal, but styles."""
    assert not HARMFUL.search(_STYLES.sub("", text).replace("\n", ""))


def _check_page(page: Callable[[Rows], Iterable[Part]], rows: Rows, forms: Iterable[str]) -> None:
    """Write a page in some forms, for a pipe and for a terminal, and read documents back."""
    for form, terminal, headers in product(forms, (True, False), (True, False)):
        text = "".join(page_text(page(rows), form, terminal=terminal, headers=headers))
        _harmless(text)
        if form != "table" and headers:
            found = read(form, text)
            assert bool(found) == bool(text)


def _check_json(kind: type, rows: Rows) -> None:
    """Write rows as JSON lines and as a document, read them back, and compare with its schema."""
    objects = [_object(row) for row in rows]
    found = [json.loads(line) for line in b"".join(json_rows(objects)).splitlines()]
    whole = b"".join(json_document(_COMMANDS[kind], json_rows(objects), []))
    check_document(whole)
    assert json.loads(whole)["data"] == json.loads(json_on_terminal(whole))["data"] == found
    _harmless(json_on_terminal(whole))
    for row, each in zip(rows, found, strict=True):
        if is_dataclass(row) and _object(row) is row:
            assert list(each) == [field.name for field in fields(row)]


def _object(row: Any) -> Any:
    """Return what a command writes of a row as JSON."""
    if isinstance(row, GroupDescription):
        return group.description_object(row)
    if isinstance(row, ClientJoin):
        return client_join.join_object(row)
    return assign_object(row) if isinstance(row, Run | Bounce) else row


def _check_records(batch: pa.RecordBatch, markup: str) -> None:
    """Write decoded records in every form, of documents in one, and read back what can be read."""

    def text(form: str, *, terminal: bool = False) -> str:
        written = record_text(
            lambda function: iter([function(batch)]),
            form,
            (),
            headers=True,
            terminal=terminal,
            errors=list,
        )
        return b"".join(
            block.encode() if isinstance(block, str) else bytes(block) for block in written
        ).decode()

    _harmless(text("table", terminal=True))
    for form in ("table", "tsv", markup):
        shown = text(form)
        _harmless(shown.replace("\t", "") if form == "tsv" else shown)
        rows = read(form, shown)[0] if form == markup else shown.split("\n")[:-1]
        assert len(rows) == max(len(batch), form == markup and LANGUAGES[form].needs_row) + 1
    names, *found = csv.reader(io.StringIO(text("csv"), newline=""))
    assert names == [column.name for column in RECORD_COLUMNS]
    assert found == [[*map(_csv_field, row.values())][: len(names)] for row in batch.to_pylist()]
    lines = [json.loads(line) for line in text("jsonl").split("\n")[:-1]]
    assert [line["offset"] for line in lines] == batch["offset"].to_pylist()
    assert json.loads(text("json"))["data"] == lines


def try_sheet(table: Table, draw: Random, blank: Collection[str] | None = None) -> None:
    """Write a random sheet: with all columns, without blank ones, and with some.

    Args:
        table: its columns, or the function that makes it.
        draw: draws its rows.
        blank: fields that say nothing in any row, and no others do so; None: random ones.
    """
    kind = SHEETS[table]
    fixed = {} if blank is None else {kind: (blank, ())}
    rows: Rows = RandomReport(draw, fixed).rows(kind, count=draw.choice([1, 2, 4]))
    sheet = sheet_of(table, rows)
    whole = Sheet(sheet.columns, list(sheet.rows))
    names = [column.name for column in sheet.columns]
    some = whole.select(draw.sample(names, draw.randint(1, len(names))))
    for each in (whole, whole.without_blank(), some):
        _check_sheet(each, draw.choice([*MARKUPS]), headers=draw.random() < 0.8)
    _check_json(kind, rows)


def _try_page(function: Callable[..., object], draw: Random) -> None:
    kind, page = PAGES[function]
    others = () if function in _ONLY_TABLES else draw.sample([*MARKUPS], 2)
    _check_page(page, RandomReport(draw).rows(kind), ("table", *others))


def _try_records(draw: Random) -> None:
    _check_records(RandomReport(draw).records(), draw.choice([*MARKUPS]))


def name_of(value: object) -> str:
    """Name a function or columns of `kgroup.render` by the module and the name in it."""
    return next(
        f"{path.removeprefix('kgroup.render.')}.{name}"
        for path, module in list(sys.modules.items())
        if path.startswith("kgroup.render.")
        for name in public_names(module)
        if getattr(module, name) is value
    )


@cache
def public_names(module: ModuleType) -> tuple[str, ...]:
    """List the functions and values that a module defines, without what it imports."""
    names = []
    for node in ast.parse(inspect.getsource(module)).body:
        match node:
            case ast.FunctionDef(name=name) | ast.Assign(targets=[ast.Name(id=name)]):
                names.append(name)
    return tuple(name for name in names if not name.startswith("_"))


EVERY: Mapping[str, Callable[[Random], None]] = {
    **{name_of(function): partial(try_sheet, function) for function in SHEETS},
    **{name_of(function): partial(_try_page, function) for function in PAGES},
    "record": _try_records,
}
"""What writes random reports of each kind, by name."""
