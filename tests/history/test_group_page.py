"""The page of a group: what it shows of a recorded group, and what it leaves out."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from kgroup.history.query import group_page as module
from kgroup.history.query.group_page import GroupPage, MembershipPeriod, group_page
from kgroup.history.query.lag import GroupLag
from kgroup.history.query.owner import timeline
from kgroup.history.rebalance.rebalance import Cause, CauseCertainty, CauseKind, Participant
from kgroup.history.sql.engine import DuckEngine
from kgroup.model.instant import rfc3339
from kgroup.render.cell import age
from kgroup.render.history_page import group_html
from kgroup.sample import sample_log_dir
from tests.history.owner_story import generation, interval
from tests.history.page_reader import PageReader
from tests.history.past_log import T, commit, end
from tests.history.recorded import Ask, log_of, time_of
from tests.history.warehouse_files import write_rows


def page_of(
    engine: DuckEngine, group_id: str, since_ms: int | None = None, until_ms: int | None = None
) -> GroupPage:
    return group_page(engine, group_id, since_ms=since_ms, until_ms=until_ms).data[0]


def read(page: GroupPage) -> PageReader:
    return PageReader("".join(group_html(page)))


OWNERS, CAUSES, MEMBERS = "Who owned what", "Rebalances and their causes", "Members by client id"
LAGS = "Lag, where log end offsets were recorded"


def test_page_of_a_recorded_group(recorded_engine: Ask) -> None:
    engine = recorded_engine(sample_log_dir())
    page = page_of(engine, "order-service")
    rows = timeline(engine, "order-service").data
    assert tuple(stretch for row in page.rows for stretch in row.stretches) == rows
    assert [rebalance.generation_id for rebalance in page.rebalances] == [1, 2, 3, 4, 5]
    # Three members came one after the other (see the manifest), and stayed.
    assert [life.who.client_id for life in page.lives] == [
        f"order-service-{number}" for number in (1, 2, 3)
    ]
    assert {life.to_ms for life in page.lives} == {None}
    html = "".join(group_html(page))
    sections = PageReader(html).sections
    assert list(sections) == [CAUSES, "Commits per 1 s", MEMBERS, OWNERS, "Rebalances as a table"]
    assert sections[OWNERS].count("rect") == len(rows)
    assert sections[OWNERS].texts[:6] == [f"orders-{number}" for number in range(6)]
    assert sections[MEMBERS].texts[:3] == [f"order-service-{number}" for number in (1, 2, 3)]
    assert [text.splitlines()[0] for text in sections[CAUSES].hovers] == [
        f"{cause} ({certainty})"
        for cause, certainty in (
            *(("joined", "certain"), ("joined", "certain"), ("follow up", "inferred")),
            *(("joined", "certain"), ("follow up", "inferred")),
        )
    ]
    assert html.count("<tr><td>") == 5
    assert len(html) < 30_000


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
        sections = read(page_of(engine, "order-service", until_ms=until_ms)).sections
        of_owners = [text.splitlines() for text in sections[OWNERS].hovers]
        ends = [lines[4:] for lines in of_owners if "not over" in lines[4]]
        assert {end for end, _ in ends} == {f"not over at {rfc3339(last_ms)}"}
        assert {length for _, length in ends} == {f"{age(last_ms - at)} by then" for at in begin_ms}
        there = min(last_ms, until_ms or last_ms)
        lives = [text.splitlines() for text in sections[MEMBERS].hovers]
        told = [lines[3] for lines in lives if lines[0].startswith("client")]
        assert told == [f"not over at {rfc3339(there)}"] * 3
    ended = [lines[4:] for lines in of_owners if "not over" not in lines[4]]
    assert len(ended) == sum(stretch.to_ms is not None for stretch in stretches)
    assert all(re.fullmatch(r"to 2026-\S+Z \(released\)", end) for end, _ in ended)


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
    told = read(page)
    assert (len(page.lives), len(page.rebalances), len(page.rows)) == (1, 1, 1)
    assert told.paragraphs[0].startswith("1 rebalance; cause: ")
    assert ": 1 client id, 1 member, 1 partition or task, 1 commit. " in told.paragraphs[1]
    assert [told.sections[name].hovers[0][26:] for name in ("Commits per 1 s", LAGS)] == [
        "1 commit",
        "1 record in 1 partition",
    ]


@pytest.mark.slow
def test_nothing_is_fetched(recorded_engine: Ask) -> None:
    html = "".join(group_html(page_of(recorded_engine(sample_log_dir()), "order-service")))
    assert not re.findall(r"(?:src|href)=|@import|url\(|<script", html)
    assert "default-src 'none'; style-src 'unsafe-inline'" in html


@pytest.mark.slow
def test_names_cannot_break_the_page(tmp_path: Path) -> None:
    evil = "</title></svg><script>alert(1)</script>"
    of_evil = {"group_id": evil, "client_id": evil, "instance_id": evil, "client_host": evil}
    rows = {
        "assignments": [interval(evil, 0, None, topic=evil, **of_evil)],
        "group_generations": [generation(0) | {"group_id": evil, "generation_id": 1}],
        "members": [generation(0) | {"member_id": evil, "group_type": "classic", **of_evil}],
        "offset_commits": [commit(1, 10, group_id=evil, topic=evil)],
        "log_ends": [end(2, 11) | {"topic": evil}],
    }
    with DuckEngine(write_rows(tmp_path, rows)) as engine:
        page = page_of(engine, evil)
    told = read(page)
    assert (len(page.lives), len(page.rebalances), len(page.lags)) == (1, 1, 1)
    assert "script" not in told.tags
    assert f"client {evil}, {evil}" in told.sections[OWNERS].hovers[-1]
    assert "".join(group_html(page)).count("<script") == 0


def member(client_id: str, host: str, from_ms: int, to_ms: int | None) -> MembershipPeriod:
    who = Participant(f"{client_id}-{host}-{from_ms}", None, client_id, f"/{host}")
    return MembershipPeriod(who, T + from_ms, None if to_ms is None else T + to_ms)


@pytest.mark.parametrize(
    ("lives", "names"),
    [
        ([member("a", "h1", 0, 10), member("a", "h2", 10, 20), member("b", "h1", 5, None)], "a b"),
        ([member("a", "h1", 0, None), member("a", "h2", 5, None)], "a h1|a h2"),
        ([member("a", "h1", 0, 9), member("a", "h1", 5, 20)], "a #1|a #2"),
        # a restart of one of two on different hosts stays in its row
        (
            [
                *(member("a", "h1", 0, 9), member("a", "h2", 0, 9)),
                *(member("a", "h2", 10, 20), member("a", "h1", 11, 20)),
            ],
            "a h1|a h2",
        ),
        ([member("x" * 50, "h1", 0, 9), member("x" * 51, "h1", 0, 9)], None),
    ],
)
def test_members_are_in_the_rows_of_their_client_id(
    recorded_engine: Ask, lives: list[MembershipPeriod], names: str | None
) -> None:
    page = page_of(recorded_engine(sample_log_dir()), "order-service")
    page = replace(page, lives=tuple(lives), since_ms=T, until_ms=T + 30, rows=(), loads=())
    texts = [text for text in read(page).sections[MEMBERS].texts if "2023" not in text]
    labels = [text for text in texts if text[0] in "abx"]
    assert len(set(labels)) == len(labels)
    if names is not None:
        assert labels == (names.split("|") if "|" in names else names.split())


def test_many_partitions_with_equal_owners_share_a_row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MOST_SINGLE", 5)
    intervals = [
        interval("ab"[number % 2], 0, 10 + number // 4 * 10, partition=number)
        for number in range(6)
    ]
    with DuckEngine(
        write_rows(tmp_path, {"assignments": intervals, "offset_commits": [commit(1, 1)]})
    ) as engine:
        page = page_of(engine, "g")
    assert [[number for _, number in row.owned] for row in page.rows] == [[0, 2], [1, 3], [4], [5]]
    assert page.owned_count == 6
    assert [
        (load.member_id, load.from_ms - T, (load.to_ms or 0) - T, load.count) for load in page.loads
    ] == [
        *(("a", 0, 10_000, 3), ("b", 0, 10_000, 3)),
        *(("a", 10_000, 20_000, 1), ("b", 10_000, 20_000, 1)),
    ]
    assert read(page).sections[OWNERS].texts[:4] == [
        "orders-0 and 1 more",
        "orders-1 and 1 more",
        "orders-4",
        "orders-5",
    ]


@pytest.mark.slow
def test_big_groups_are_bounded(recorded_engine: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, most in (
        ("ROWS", 4),
        ("STRETCHES", 2),
        ("LOADS", 2),
        ("REBALANCES", 2),
        ("LIVES", 1),
    ):
        monkeypatch.setattr(module, f"MOST_{name}", most)
    page = page_of(recorded_engine(sample_log_dir()), "order-service")
    assert sum(len(row.stretches) for row in page.rows) == 2
    assert (len(page.loads), len(page.rebalances), len(page.lives)) == (2, 2, 1)
    assert len(page.left_out) == 5
    left_out = "Left out: owners of 2 partitions or tasks in 2 rows; "
    assert read(page).paragraphs[2].startswith(left_out)


@pytest.mark.slow
def test_group_that_only_commits(recorded_engine: Ask) -> None:
    page = page_of(recorded_engine(sample_log_dir()), "search-index")
    assert (page.rows, page.rebalances) == ((), ())
    assert sum(rate.commits for rate in page.rates) > 0
    told = read(page)
    assert [name.partition(" per")[0] for name in told.sections] == ["Commits"]
    assert told.paragraphs[0] == (
        "No rebalance; lag unknown, because no log end offset was recorded."
    )


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
    hovers = read(page).sections[MEMBERS].hovers
    last = next(text for text in hovers if text.startswith("client order-service-3"))
    assert last.splitlines()[2:5] == [
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
    assert (before.since_ms, before.until_ms, before.rows) == (early, early, ())
    behind = page_of(engine, "order-service", since_ms=late)
    assert (behind.since_ms, behind.until_ms) == (late, late)
    # as the last rebalance left it
    assert {stretch.to_ms for row in behind.rows for stretch in row.stretches} == {None}
    told = read(behind)
    assert told.paragraphs[0].startswith("No rebalance; ")
    assert "(0 ms): " in told.paragraphs[1]


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
    assert [stretch.member_id for row in page.rows for stretch in row.stretches] == ["a"]
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


def test_lags_of_many_times_are_thinned_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last one is always there; where a partition is missing, the sum is a lower limit."""
    monkeypatch.setattr(module, "MOST_LAGS", 20)
    rows = {
        "offset_commits": [commit(1, 10), commit(1, 10, partition=1, log_offset=2)],
        "log_ends": [end(2 + at, 100 - at) for at in range(50)],
    }
    with DuckEngine(write_rows(tmp_path, rows)) as engine:
        page = page_of(engine, "g")
    assert [lag.time_ms - T for lag in page.lags] == [*range(3, 52, 3)]
    assert page.left_out == ("lag at 33 of 50 times",)
    told = read(page)
    assert "; lag of at least 41 at " in told.paragraphs[0]
    assert ", at worst at least 89 at " in told.paragraphs[0]
    assert told.sections[LAGS].hovers[0].endswith(": 89 records in 1 partition, unknown in 1")


def test_the_sentence_on_top_says_what_happened(recorded_engine: Ask) -> None:
    """The main cause is the restart, where as many rebalances are about the member that left."""
    page = page_of(recorded_engine(sample_log_dir()), "order-service")
    [first, *_] = page.rebalances
    cause = Cause(CauseKind.RESTARTED, CauseCertainty.CERTAIN, "", client_id="b-2")
    changes = [
        replace(first, cause=CauseKind.LEFT, commit_gap_ms=None),
        replace(first, cause=CauseKind.RESTARTED, causes=(cause,), commit_gap_ms=7_000),
        replace(first, cause=CauseKind.LEFT, commit_gap_ms=2_000),
        replace(first, cause=CauseKind.RESTARTED, causes=(cause,), commit_gap_ms=None),
        replace(first, cause=CauseKind.JOINED, commit_gap_ms=None),
    ]
    lags = (GroupLag(T, 70, 2, 0), GroupLag(T + 1000, 90, 2, 1), GroupLag(T + 2000, 8, 2, 0))
    told = read(replace(page, rebalances=tuple(changes), lags=lags)).paragraphs[0]
    assert told == (
        "5 rebalances; main cause: restarted (2 of 5, all by b-2); no commits for up to "
        "7.000 s around the rebalance at 2026-11-29 19:51:19; lag 8 at 2023-11-14 22:13:22, at "
        "worst at least 90 at 22:13:21."
    )
