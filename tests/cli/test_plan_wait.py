"""What `kgroup plan verify --wait` does while a cluster is not as it should be."""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import replace
from pathlib import Path
from typing import NoReturn

import pytest

from kgroup.cli.command import plan_step
from kgroup.errors import BrokerError, ExitStatus, ProblemKind
from kgroup.model.problem import Problem
from kgroup.operation.plan.assignor import plan_assignor
from kgroup.operation.plan.forecast import ProgramBehavior
from kgroup.operation.plan.plan import OffsetCopy
from kgroup.operation.plan.plan_file import PlanFile, read_plan_file
from kgroup.operation.plan.verify import verify_step
from kgroup.render.json_document import json_document, json_rows
from kgroup.source.base import EVERYTHING, Question, Reading
from tests.operation.plan.groups import group_of, running
from tests.operation.sources import FakeSource

BEFORE, AFTER = group_of(), group_of(strategy="sticky", incarnation=2)
SILENCE = BrokerError(ProblemKind.UNREACHABLE, "nobody answers")


class Rounds(FakeSource):
    """Another group each time that it is read, or nobody who answers."""

    def __init__(self, *rounds: FakeSource | BrokerError) -> None:
        super().__init__()
        self._rounds = [*rounds]
        self.renewed: list[bool] = []

    def read(
        self, group_ids: Collection[str] | None = None, question: Question = EVERYTHING
    ) -> Reading:
        broker_error = self._rounds.pop(0)
        if isinstance(broker_error, BrokerError):
            raise broker_error
        return broker_error.read(group_ids, question)

    def renew(self, *, anew: bool = False) -> None:
        self.renewed.append(anew)


def no_stores(copy: OffsetCopy, group_ids: tuple[str, ...]) -> NoReturn:
    raise AssertionError


def look(source: FakeSource, wait_s: float) -> ExitStatus:
    file = PlanFile(
        1, "plan assignor", [plan_assignor(running(BEFORE), "sticky", {}, ProgramBehavior())]
    )
    return plan_step.look(source, file, 1, (), no_stores, wait_s, 0).exit_status


def test_a_broker_that_goes_away_is_waited_for() -> None:
    source = Rounds(FakeSource(BEFORE), SILENCE, SILENCE, FakeSource(AFTER))
    assert look(source, 600) is ExitStatus.DONE
    assert source.renewed == [False, True, True]


@pytest.mark.parametrize(
    ("rounds", "wait_s"), [((SILENCE,), 600), ((SILENCE,), 0), ((FakeSource(BEFORE), SILENCE), 0.1)]
)
def test_who_does_not_answer(rounds: tuple[FakeSource | BrokerError, ...], wait_s: float) -> None:
    """At first, or at the end."""
    source = Rounds(*rounds[:-1], *[rounds[-1]] * 1_000_000)
    with pytest.raises(BrokerError, match="nobody answers"):
        look(source, wait_s)


def test_several_may_wait_for_groups_of_a_plan(tmp_path: Path) -> None:
    """Each has read the file before the other one has noted something in it."""
    groups = [replace(BEFORE, group_id=name) for name in "xy"]
    plans = [plan_assignor(running(group), "sticky", {}, ProgramBehavior()) for group in groups]
    path = tmp_path / "plan.json"
    path.write_bytes(b"".join(json_document("plan assignor", json_rows(plans), [])))
    files = [read_plan_file(path) for _ in "xy"]
    there = FakeSource(*(replace(AFTER, group_id=name) for name in "xy"))
    for name, file in zip("xy", files, strict=True):
        plan_step.note_members(path, file, verify_step(there, file.data, 1, [name]))
    assert all(plan.steps[0].seen for plan in read_plan_file(path).data)


def test_a_plan_that_another_one_has_replaced(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "plan.json"
    plan = plan_assignor(running(BEFORE), "sticky", {}, ProgramBehavior())
    path.write_bytes(b"".join(json_document("plan assignor", json_rows([plan]), [])))
    file = read_plan_file(path)
    other = plan_assignor(running(AFTER), "range", {}, ProgramBehavior())
    path.write_bytes(b"".join(json_document("plan assignor", json_rows([other]), [])))
    plan_step.note_members(path, file, verify_step(FakeSource(AFTER), file.data, 1))
    assert read_plan_file(path).data == [other]
    assert "found another one" in capsys.readouterr().err


def test_a_note_changes_nothing_else_in_the_file(tmp_path: Path) -> None:
    """Errors of other groups stay, and what people or later versions have written beside plans."""
    plan = plan_assignor(running(BEFORE), "sticky", {}, ProgramBehavior())
    problem = Problem(ProblemKind.NOT_FOUND, "there is none", group_id="h")
    path = tmp_path / "plan.json"
    path.write_bytes(b"".join(json_document("plan assignor", json_rows([plan]), [problem])))
    before = json.loads(path.read_bytes())
    before["ticket"] = "OPS-1"
    before["data"][0]["steps"][1]["remark"] = {"by": ["us", None, 2**63]}
    path.write_text(json.dumps(before))
    file = read_plan_file(path)
    plan_step.note_members(path, file, verify_step(FakeSource(AFTER), file.data, 1))
    after = json.loads(path.read_bytes())
    seen = after["data"][0]["steps"][0].pop("seen")
    assert [each["member_id"] for each in seen] == ["a-2", "b-2", "c-2"]
    assert before["data"][0]["steps"][0].pop("seen") is None
    assert after == before
    assert [each.name for each in tmp_path.iterdir()] == ["plan.json"]
