"""What rows and the problems beside them come to."""

from __future__ import annotations

import pytest

from kgroup.errors import ExitStatus, ProblemKind
from kgroup.model.problem import Problem
from kgroup.operation.report import Report

ALONE = {
    ProblemKind.NOT_FOUND: ExitStatus.NOT_FOUND,
    ProblemKind.UNREADABLE: ExitStatus.FAILED,
    ProblemKind.NOT_A_SEGMENT: ExitStatus.FAILED,
    ProblemKind.OTHER_TOPIC: ExitStatus.FAILED,
    ProblemKind.BAD_SPEC: ExitStatus.FAILED,
    ProblemKind.TORN_TAIL: ExitStatus.PARTLY,
    ProblemKind.SILENT: ExitStatus.PARTLY,
    ProblemKind.DENIED_NODE: ExitStatus.PARTLY,
}


def test_no_problem() -> None:
    assert Report(()).exit_status is Report(("row",)).exit_status is ExitStatus.DONE


@pytest.mark.parametrize(("kind", "status"), ALONE.items())
def test_a_problem_without_rows_and_beside_one(kind: ProblemKind, status: ExitStatus) -> None:
    errors = (Problem(kind, "Why."),)
    assert Report((), errors).exit_status is status
    assert Report(("row",), errors).exit_status is ExitStatus.PARTLY


def test_problems_of_several_kinds() -> None:
    missing, file, damage = (
        Problem(kind, "Why.")
        for kind in (ProblemKind.NOT_FOUND, ProblemKind.UNREADABLE, ProblemKind.BAD_CRC)
    )
    assert Report((), (missing, file)).exit_status is ExitStatus.PARTLY
    assert Report((), (file, file)).exit_status is ExitStatus.FAILED
    assert Report((), (file, damage)).exit_status is ExitStatus.PARTLY


def test_groups_of_which_none_could_be_described() -> None:
    denied = Problem(ProblemKind.DENIED, "No.", group_id="a")
    missing = Problem(ProblemKind.NOT_FOUND, "No.", group_id="b")
    assert Report((), (denied, missing)).exit_status is ExitStatus.FAILED
    record = Problem(ProblemKind.BAD_RECORD, "No.", group_id="a", offset=7)
    assert Report((), (record, missing)).exit_status is ExitStatus.PARTLY
