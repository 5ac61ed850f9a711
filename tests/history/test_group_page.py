"""The page of a group: what it shows of a recorded group, and what it leaves out."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from kgroup.history.query import group_page as module
from kgroup.history.query.group_page import GroupPage, group_page
from kgroup.history.query.owner import timeline
from kgroup.history.sql.engine import DuckEngine
from kgroup.model.instant import rfc3339
from kgroup.render.cell import age
from kgroup.render.history_page import group_html
from kgroup.sample import sample_log_dir
from tests.history.owner_story import generation, interval
from tests.history.past_log import T, commit, end
from tests.history.recorded import Ask, log_of, time_of
from tests.history.warehouse_files import write_rows


def page_of(
    engine: DuckEngine, group_id: str, since_ms: int | None = None, until_ms: int | None = None
) -> GroupPage:
    return group_page(engine, group_id, since_ms=since_ms, until_ms=until_ms).data[0]


def figure_of(html: str) -> Any:
    match = re.search(r"const figure = (.*);\n", html)
    assert match
    return json.loads(match[1])


def test_page_of_a_recorded_group(recorded_engine: Ask) -> None:
    engine = recorded_engine(sample_log_dir())
    page = page_of(engine, "order-service")
    rows = timeline(engine, "order-service").data
    assert page.stretches == rows
    assert [rebalance.generation_id for rebalance in page.rebalances] == [1, 2, 3, 4, 5]
    # Three members came one after the other (see the manifest), and stayed.
    assert [life.who.client_id for life in page.lives] == [
        f"order-service-{number}" for number in (1, 2, 3)
    ]
    assert {life.to_ms for life in page.lives} == {None}
    html = "".join(group_html(page))
    figure = figure_of(html)
    bars = [trace for trace in figure["data"] if trace["type"] == "bar"]
    assert sum(len(bar["y"]) for bar in bars[:3]) == len(rows)
    marks = next(trace for trace in figure["data"] if trace["type"] == "scatter")
    assert marks["y"] == ["joined", "joined", "follow up", "joined", "follow up"]
    assert html.count("<tr><td>") == 5


def hovers_of(html: str) -> list[str]:
    traces = figure_of(html)["data"]
    return [text for trace in traces for text in trace["hovertext"]]


@pytest.mark.slow
def test_the_end_of_what_goes_on_is_that_of_the_records(recorded_engine: Ask) -> None:
    """Not now: nobody knows what came later. Nor is it where the picture ends."""
    engine = recorded_engine(sample_log_dir())
    last_ms = max(
        time_of(record) or 0 for log in log_of(sample_log_dir()).values() for record in log
    )
    stretches = timeline(engine, "order-service").data
    begin_ms = {stretch.from_ms or 0 for stretch in stretches if stretch.to_ms is None}
    for until_ms in (None, last_ms - 1_000, last_ms + 10**9):
        html = "".join(group_html(page_of(engine, "order-service", until_ms=until_ms)))
        open_ones = [text.split("<br>") for text in hovers_of(html) if "not over" in text]
        ends = [lines[4:] for lines in open_ones if lines[0].startswith("<b>")]
        told = f"not over at {rfc3339(last_ms)}, the last record that is known"
        assert {end for end, _ in ends} == {told}
        assert {length for _, length in ends} == {f"{age(last_ms - at)} by then" for at in begin_ms}
        there = min(last_ms, until_ms or last_ms)
        lives = [lines[3:] for lines in open_ones if not lines[0].startswith("<b>")]
        assert [begin for begin, _ in lives] == [f"not over at {rfc3339(there)}"] * 3
        assert not [text for text in hovers_of(html) if "now" in text.split()]
    ended = [text for text in hovers_of(html) if "<br>to " in text]
    assert len(ended) == sum(stretch.to_ms is not None for stretch in stretches)
    assert all(re.search(r"<br>to 2026-\S+Z \(released\)<br>[0-9.]+ s$", text) for text in ended)


@pytest.mark.slow
def test_one_of_something_is_no_plural(tmp_path: Path) -> None:
    rows = {
        "assignments": [interval("a", 0, None)],
        "group_generations": [generation(0) | {"generation_id": 1, "protocol_type": "consumer"}],
        "members": [generation(0) | {"member_id": "a", "group_type": "classic"}],
        "offset_commits": [commit(1, 10)],
        "log_ends": [end(2, 11)],
    }
    with DuckEngine(write_rows(tmp_path, rows)) as engine:
        page = page_of(engine, "g")
        html = "".join(group_html(page))
    assert (len(page.lives), len(page.rebalances), len(page.stretches)) == (1, 1, 1)
    summary = html.partition("<p>")[2].partition("</p>")[0]
    assert re.search(
        r": 1 rebalance \(1 [a-z ]+\), 1 member, 1 partition or task, 1 commit\.$", summary
    )
    assert [text.partition("Z: ")[2] for text in hovers_of(html)[-2:]] == [
        "1 commit",
        "1 record in 1 partition",
    ]


@pytest.mark.slow
def test_nothing_is_fetched(recorded_engine: Ask) -> None:
    html = "".join(group_html(page_of(recorded_engine(sample_log_dir()), "order-service")))
    head = html.split("<script>")[0]
    assert not re.findall(r"(?:src|href)=|@import|url\(", head)
    assert html.count("<script>") == html.count("</script>") == 2


@pytest.mark.slow
def test_names_cannot_break_the_page(tmp_path: Path) -> None:
    evil = "</script><img src=x onerror=alert(1)>"
    rows = {"assignments": [interval("a", 0, None, group_id=evil, client_id=evil, topic="<b>t")]}
    with DuckEngine(
        write_rows(tmp_path, {**rows, "tombstones": [{"group_id": evil, "type": "GroupMetadata"}]})
    ) as engine:
        html = "".join(group_html(page_of(engine, evil)))
    assert "<img" not in html.split("<script>")[0]
    assert html.count("</script>") == 2
    assert figure_of(html)["data"][0]["y"] == ["&lt;b&gt;t-3"]


@pytest.mark.slow
def test_big_groups_are_bounded(recorded_engine: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_PARTITIONS", 4)
    monkeypatch.setattr(module, "MOST_STRETCHES", 3)
    monkeypatch.setattr(module, "MOST_REBALANCES", 2)
    monkeypatch.setattr(module, "MOST_LIVES", 1)
    page = page_of(recorded_engine(sample_log_dir()), "order-service")
    assert (len(page.stretches), len(page.rebalances), len(page.lives)) == (3, 2, 1)
    assert [text.split(" ")[0] for text in page.left_out[:1]] == ["2"]
    assert len(page.left_out) == 4
    assert "Left out: 2 partitions, starting with orders-4" in "".join(group_html(page))


@pytest.mark.slow
def test_group_that_only_commits(recorded_engine: Ask) -> None:
    page = page_of(recorded_engine(sample_log_dir()), "search-index")
    html = "".join(group_html(page))
    assert (page.stretches, page.rebalances) == ((), ())
    assert sum(rate.commits for rate in page.rates) > 0
    assert [trace["type"] for trace in figure_of(html)["data"]] == ["bar"]


@pytest.mark.slow
def test_part_of_the_time(recorded_engine: Ask) -> None:
    engine = recorded_engine(sample_log_dir())
    whole = page_of(engine, "order-service")
    times = [rebalance.time_ms or 0 for rebalance in whole.rebalances]
    begin, end = times[2] + 1, times[3] + 1
    page = page_of(engine, "order-service", since_ms=begin, until_ms=end)
    assert (page.since_ms, page.until_ms) == (begin, end)
    assert [rebalance.generation_id for rebalance in page.rebalances] == [4]
    # The first two members were there before; the third one came.
    assert [(life.who.client_id, life.from_ms, life.to_ms) for life in page.lives] == [
        ("order-service-1", begin, None),
        ("order-service-2", begin, None),
        ("order-service-3", times[3], None),
    ]
    html = "".join(group_html(page))
    last = next(text for text in hovers_of(html)[::-1] if "order-service-3" in text)
    assert last.split("<br>")[2:] == [
        *(f"from {rfc3339(times[3])}", f"not over at {rfc3339(end)}", "1 ms by then")
    ]
    assert {rate.time_ms for rate in page.rates} <= set(range(begin - page.rate_ms, end + 1))


@pytest.mark.slow
def test_time_of_which_nothing_is_known(recorded_engine: Ask) -> None:
    engine = recorded_engine(sample_log_dir())
    whole = page_of(engine, "order-service")
    assert whole.since_ms is not None
    assert whole.until_ms is not None
    early, late = whole.since_ms - 5_000, whole.until_ms + 5_000
    before = page_of(engine, "order-service", until_ms=early)
    assert (before.since_ms, before.until_ms, before.stretches) == (early, early, ())
    behind = page_of(engine, "order-service", since_ms=late)
    assert (behind.since_ms, behind.until_ms) == (late, late)
    assert {stretch.to_ms for stretch in behind.stretches} == {
        None
    }  # as the last rebalance left it
    assert "(0 ms): 0 rebalances" in "".join(group_html(behind))


def test_what_has_no_time_or_did_not_count_is_left_out(tmp_path: Path) -> None:
    rows = {
        "assignments": [interval("a", 0, None), interval("b", None, None)],
        "offset_commits": [
            commit(1, 10),
            commit(2, 20, transaction="committed", producer_id=1),
            commit(3, 30, transaction="aborted", producer_id=1),
            commit(4, 40, transaction="open", producer_id=1),
        ],
    }
    with DuckEngine(write_rows(tmp_path, rows)) as engine:
        page = page_of(engine, "g")
    assert [stretch.member_id for stretch in page.stretches] == ["a"]
    assert page.left_out == ("1 interval without times",)
    assert sum(rate.commits for rate in page.rates) == 2


@pytest.mark.slow
def test_lag_of_part_of_the_time(tmp_path: Path) -> None:
    rows = {
        "offset_commits": [commit(1, 10), commit(2, 20, partition=1)],
        "log_ends": [
            *(end(at, 100) for at in (5, 15, 25)),
            *(end(at, 100, partition=1) for at in (5, 15)),
            end(5, None),
        ],
    }
    with DuckEngine(write_rows(tmp_path, rows)) as engine:
        page = page_of(engine, "g")
        part = page_of(engine, "g", since_ms=T + 6, until_ms=T + 25)
    assert [(lag.time_ms - T, lag.lag, lag.partitions) for lag in page.lags] == [
        (5, 170, 2),
        (15, 170, 2),
        (25, 90, 1),
    ]
    assert [lag.time_ms - T for lag in part.lags] == [15]
