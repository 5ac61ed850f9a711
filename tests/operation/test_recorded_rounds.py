"""Dry runs of groups whose next rebalances were recorded: none is wrong without a warning."""

from __future__ import annotations

import pytest

from kgroup.assignor.base import Assignment, AssignorError
from kgroup.assignor.group_spec import GroupSpec
from kgroup.operation.assign import outcome
from tests.operation.recorded_rounds import PAGE, Result, Round, all_rounds, replayed, written


@pytest.fixture(scope="module")
def rounds() -> list[Round]:
    return list(all_rounds())


def test_no_round_differs_without_a_warning(rounds: list[Round]) -> None:
    assert [each.story for each in rounds if each.result is Result.WRONG] == []


def test_a_round_counts_as_matched_only_if_the_dry_run_names_an_owner(rounds: list[Round]) -> None:
    nothing = [each.result for each in rounds if not each.foretold]
    assert nothing
    assert set(nothing) == {Result.CHANCE}


def test_a_round_is_wrong_if_the_assignor_fails_in_the_dry_run_only(
    rounds: list[Round], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(spec: GroupSpec) -> Assignment:
        raise AssignorError("KeyError", spec.strategy)

    line = next(each.line for each in rounds if each.result is Result.MATCHED)
    monkeypatch.setattr(outcome, "assign", fail)
    assert replayed("kafka-clients", line).result is Result.WRONG


def test_nearly_all_rounds_are_foretold(rounds: list[Round]) -> None:
    """All but those of @platformatic/kafka, which cannot be told from kafka-go: 97 %."""
    known = [each for each in rounds if each.family != "@platformatic/kafka"]
    decided = [each for each in known if each.result is not Result.CHANCE]
    matched = [each for each in decided if each.result in (Result.MATCHED, Result.WARNED)]
    assert len(matched) >= 0.96 * len(decided)


def test_warnings_are_rare_where_the_dry_run_is_right(rounds: list[Round]) -> None:
    matched = [each for each in rounds if each.result in (Result.MATCHED, Result.WARNED)]
    warned = [each.story for each in matched if each.result is Result.WARNED]
    assert len(warned) <= 0.16 * len(matched), warned


def test_every_library_and_every_change_is_among_the_rounds(rounds: list[Round]) -> None:
    assert len(rounds) >= 300
    assert {each.line["change"] for each in rounds} >= {
        *("join", "join-two", "leave", "leave-two", "leave-leader", "restart", "restart-three"),
        *("bounce", "grow", "add-topic", "drop-topic"),
    }


def test_the_table_of_rounds_is_that_of_the_page(rounds: list[Round]) -> None:
    text = PAGE.read_text("utf-8")
    assert written(text, rounds) == text, "run: python -m tests.operation.recorded_rounds"
