"""What `kgroup plan verify --wait` does while a cluster is not as it should be."""

from __future__ import annotations

from collections.abc import Collection
from typing import NoReturn

import pytest

from kgroup.cli.option.plan_file import PlanFile
from kgroup.cli.plan import verify
from kgroup.errors import BrokerError, ExitStatus, ProblemKind
from kgroup.operation.plan.assignor import plan_assignor
from kgroup.operation.plan.forecast import Habits
from kgroup.operation.plan.plan import OffsetCopy
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
        found = self._rounds.pop(0)
        if isinstance(found, BrokerError):
            raise found
        return found.read(group_ids, question)

    def renew(self, *, anew: bool = False) -> None:
        self.renewed.append(anew)


def no_stores(copy: OffsetCopy, group_ids: tuple[str, ...]) -> NoReturn:
    raise AssertionError


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verify, "_LOOK_S", 0)


def look(source: FakeSource, wait_s: float) -> ExitStatus:
    file = PlanFile(1, "plan assignor", [plan_assignor(running(BEFORE), "sticky", {}, Habits())])
    return verify.look(source, file, 1, (), no_stores, wait_s).exit_status


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
