"""Every assignor on its named cases: the answers are those of Kafka that `record` records."""

from __future__ import annotations

import json

import pytest

from kgroup.assignor.strategy import assign
from kgroup.operation.assign.spec import read_spec
from tests.assignor.case.notation import Assignor, answer_of, assigned
from tests.assignor.case.table import CASES, UNSOUND
from tests.assignor.invariant import broken

RECORDED = {assignor: json.loads(assignor.answers.read_text("utf-8")) for assignor in CASES}


@pytest.mark.parametrize("assignor", CASES, ids=str)
def test_every_case_is_recorded(assignor: Assignor) -> None:
    assert list(RECORDED[assignor]) == list(CASES[assignor])


@pytest.mark.parametrize(
    ("assignor", "name"),
    [(assignor, name) for assignor, cases in CASES.items() for name in cases],
    ids=str,
)
def test_answers_as_kafka(assignor: Assignor, name: str) -> None:
    answer = answer_of(assigned(CASES[assignor][name].spec(assignor)))
    assert answer == RECORDED[assignor].get(name)


@pytest.mark.parametrize("assignor", CASES, ids=str)
def test_invariants_hold_unless_kafka_breaks_them(assignor: Assignor) -> None:
    found = {}
    for name, case in CASES[assignor].items():
        if not isinstance(RECORDED[assignor].get(name), str):  # an error
            spec = read_spec(case.spec(assignor))
            found[name] = " ".join(broken(spec, assign(spec)))
    unsound = {name: invariants for name, invariants in found.items() if invariants}
    assert unsound == UNSOUND.get(str(assignor), {})
