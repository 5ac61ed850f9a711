"""`docs/output.md` says what the code does: every field, kind and exit status."""

from __future__ import annotations

import pytest

from kgroup.errors import ExitStatus, ProblemKind
from kgroup.operation.check.rule import Basis, Rule, Severity
from kgroup.operation.doctor import Availability
from kgroup.operation.offsets.plan import Result
from kgroup.operation.plan.plan import MigrationTarget, Verdict
from kgroup.operation.plan.verify import StepProgress
from kgroup.operation.watch import Change, ChangeKind
from kgroup.operation.zookeeper.fetcher import FetchState, ResetCause
from kgroup.render.document import SCHEMA_VERSION
from tests.render.field_table import field_names, rows_under, tables


@pytest.mark.parametrize("name", tables("fields"))
def test_fields_are_those_of_the_dataclass(name: str) -> None:
    rows = tables("fields")[name]
    assert [row[0] for row in rows] == [f"`{field}`" for field in field_names(name)]
    assert all(len(row) == 2 and row[1] for row in rows)


def test_what_no_schema_tells_has_its_table() -> None:
    """The schemas of `tests.cli.json_schemas` cannot be made without tables of all the others."""
    assert f"{Change.__module__}.{Change.__qualname__}" in tables("fields")


def test_kinds_of_problems() -> None:
    written = rows_under("| kind | meaning |")
    assert written == {kind.value: kind.sentence for kind in ProblemKind}


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
    assert written == {condition.value: condition.sentence for condition in Availability}


def test_results_of_plans() -> None:
    written = rows_under("| result | meaning |")
    assert written == {result.value: result.sentence for result in Result}


def test_words_of_migrations() -> None:
    for head, words in (
        ("target", MigrationTarget),
        ("verdict", Verdict),
        ("progress", StepProgress),
    ):
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
    assert written - set(ExitStatus) == {129, 130, 141, 143}


def test_schema_version() -> None:
    assert rows_under("| field | meaning |")["schema_version"].startswith(f"{SCHEMA_VERSION};")
