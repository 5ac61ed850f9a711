"""Times before the first and after the last record of a warehouse: each answer says so."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from kgroup.history.query.commit_summary import commit_summaries
from kgroup.history.query.group_page import group_page
from kgroup.history.query.lag import lags
from kgroup.history.query.owner import timeline
from kgroup.history.query.past_group import describe_past
from kgroup.history.query.stale import stale_offsets
from kgroup.history.rebalance.query import find_storms, rebalances
from kgroup.history.sql.engine import DuckEngine
from tests.history.owner_story import T, generation
from tests.history.past_log import commit
from tests.history.warehouse_files import write_rows

FIRST, LAST = T + 10_000, T + 90_000
SINCE = "Records of cluster test are known since 2023-11-14T22:13:30.000Z; earlier records are "
UP_TO = (
    "Records of cluster test are known up to 2023-11-14T22:14:50.000Z; later records, if any, are "
)

PERIODS: dict[str, Callable[..., Any]] = {
    "commits": lambda engine, **span: commit_summaries(engine, "g", pause_ms=1, **span),
    "lag": lambda engine, **span: lags(engine, "g", **span),
    "rebalances": lambda engine, **span: rebalances(engine, "g", **span),
    "rebalances of all groups": rebalances,
    "report": lambda engine, **span: group_page(engine, "g", **span),
    "storms": lambda engine, **span: find_storms(engine, count=2, within_ms=1, **span),
    "timeline": lambda engine, **span: timeline(engine, "g", **span),
}
INSTANTS: dict[str, Callable[..., Any]] = {
    "as-of": lambda engine, at_ms: describe_past(engine, "g", at_ms),
    "lag": lambda engine, at_ms: lags(engine, "g", at_ms=at_ms),
    "stale": lambda engine, at_ms: stale_offsets(
        engine, silent_ms=1, expiring_ms=1, retention_ms=1, at_ms=at_ms
    ),
}


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DuckEngine]:
    rows = {
        "group_generations": [generation(second) for second in (10, 90)],
        "offset_commits": [commit(20_000, 5)],
    }
    with DuckEngine(write_rows(tmp_path_factory.mktemp("rows"), rows)) as engine:
        yield engine


def outside(report: Any) -> list[str]:
    return [note.removesuffix("unknown.") for note in report.notes if note.startswith("Records")]


@pytest.mark.parametrize("question", PERIODS)
def test_periods(engine: DuckEngine, question: str) -> None:
    ask = PERIODS[question]
    assert outside(ask(engine, since_ms=FIRST, until_ms=LAST)) == []
    assert outside(ask(engine, until_ms=FIRST - 1)) == [SINCE]
    assert outside(ask(engine, since_ms=LAST + 1)) == [UP_TO]
    assert outside(ask(engine, since_ms=FIRST - 1, until_ms=LAST + 1)) == [SINCE, UP_TO]


@pytest.mark.parametrize("question", INSTANTS)
def test_instants(engine: DuckEngine, question: str) -> None:
    ask = INSTANTS[question]
    assert outside(ask(engine, at_ms=FIRST)) == outside(ask(engine, at_ms=LAST)) == []
    assert outside(ask(engine, at_ms=LAST + 1)) == [UP_TO]
    if question != "as-of":  # an error: `test_past_group`
        assert outside(ask(engine, at_ms=FIRST - 1)) == [SINCE]
