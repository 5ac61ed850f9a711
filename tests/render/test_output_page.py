"""`docs/output.md` says what the code does: every field, column, kind and exit status."""

from importlib import import_module

import pytest

from kgroup.errors import ExitStatus, ProblemKind
from kgroup.model.log_range import OffsetMark
from kgroup.model.offset import StoredOffset
from kgroup.model.record import DecodedRecord
from kgroup.operation.change import Change, ChangeKind
from kgroup.operation.check.rule import Basis, Finding, Rule, Severity
from kgroup.operation.decode.statistics import Count
from kgroup.operation.description import GroupDescription
from kgroup.operation.doctor import Condition, Diagnosis
from kgroup.operation.list_groups import ListedGroup
from kgroup.operation.locate import GroupLocation, TransactionLocation
from kgroup.operation.offsets.diff import OffsetDifference
from kgroup.operation.offsets.plan import PlannedOffset, Result
from kgroup.operation.plan.advice import GroupAdvice, ListedTarget
from kgroup.operation.plan.plan import Plan, Target, Verdict
from kgroup.operation.plan.verify.condition import Progress
from kgroup.operation.plan.verify.step import StepCheck
from kgroup.operation.remove_members import RemovedMember
from kgroup.operation.simulate import ShippedScenario
from kgroup.operation.zookeeper.fetcher import Fetch, FetchState, ResetCause
from kgroup.operation.zookeeper.nodes import OwnedPartition, RegisteredConsumer, TreeNode
from kgroup.render.document import SCHEMA_VERSION
from kgroup.simulation.timeline import Simulation
from tests.render.output_page import field_names, load, reachable, rows_under, tables

ROOTS = (
    ListedGroup,
    GroupLocation,
    TransactionLocation,
    GroupDescription,
    Change,
    DecodedRecord,
    Count,
    RegisteredConsumer,
    OwnedPartition,
    TreeNode,
    Fetch,
    Finding,
    Simulation,
    ShippedScenario,
    StoredOffset,
    PlannedOffset,
    OffsetDifference,
    RemovedMember,
    Plan,
    StepCheck,
    GroupAdvice,
    ListedTarget,
    Diagnosis,
)


@pytest.mark.parametrize("name", tables("fields"))
def test_fields_are_those_of_the_dataclass(name: str) -> None:
    rows = tables("fields")[name]
    assert [row[0] for row in rows] == [f"`{field}`" for field in field_names(name)]
    assert all(len(row) == 2 and row[1] for row in rows)


def test_every_dataclass_in_a_document_has_its_table() -> None:
    needed = {f"{c.__module__}.{c.__qualname__}" for root in ROOTS for c in reachable(root)}
    assert needed <= set(tables("fields"))
    assert len(needed) > 12


@pytest.mark.parametrize("name", tables("columns"))
def test_columns_are_those_of_csv_and_tsv(name: str) -> None:
    assert tables("columns")[name] == [
        [f"`{column.name}`", str(column.kind), column.meaning] for column in load(name)
    ]


def test_every_set_of_columns_has_its_table() -> None:
    names = set(tables("columns"))
    for part in (
        "group.group",
        "record.record",
        "record.statistics",
        "group.zookeeper",
        "group.simulation",
        "group.offsets",
        "group.plan",
        "group.advice",
        "doctor",
    ):
        module = f"kgroup.render.{part}"
        sets = {name for name in vars(import_module(module)) if name.endswith("_COLUMNS")}
        public = {f"{module}.{name}" for name in sets if not name.startswith(("_", "PAGE"))}
        assert public
        assert public <= names


def test_kinds_of_problems() -> None:
    written = rows_under("| kind | meaning |")
    assert written == {kind.value: kind.sentence for kind in ProblemKind}


def test_marks() -> None:
    assert (
        rows_under("| mark | meaning |").items()
        >= {m.value: m.sentence for m in OffsetMark}.items()
    )


def test_states_of_fetching() -> None:
    for head, words in (("fetch state", FetchState), ("reset", ResetCause)):
        written = rows_under(f"| {head} | meaning |")
        assert written == {word.value: word.sentence for word in words}


def test_codes_of_findings() -> None:
    for head, words in (("severity", Severity), ("basis", Basis)):
        written = rows_under(f"| {head} | meaning |")
        assert written == {word.value: word.sentence for word in words}
    written = rows_under("| code of a finding | meaning |")
    assert written == {rule.value: rule.sentence for rule in Rule}


def test_conditions_of_the_doctor() -> None:
    written = rows_under("| condition | meaning |")
    assert written == {condition.value: condition.sentence for condition in Condition}


def test_results_of_plans() -> None:
    written = rows_under("| result | meaning |")
    assert written == {result.value: result.sentence for result in Result}


def test_words_of_migrations() -> None:
    for head, words in (("target", Target), ("verdict", Verdict), ("progress", Progress)):
        written = rows_under(f"| {head} | meaning |")
        assert written == {word.value: word.sentence for word in words}


def test_kinds_of_change() -> None:
    written = rows_under("| change | meaning |")
    assert {kind.value: kind.sentence for kind in ChangeKind} == {
        name: text for name, text in written.items() if not name.startswith("---")
    }


def test_exit_statuses() -> None:
    written = {int(status) for status in rows_under("| status | meaning |") if status.isdigit()}
    assert {status.value for status in ExitStatus} <= written
    assert written - set(ExitStatus) == {130, 141, 143}


def test_schema_version() -> None:
    assert rows_under("| field | meaning |")["schema_version"].startswith(f"{SCHEMA_VERSION};")
