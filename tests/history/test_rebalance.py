"""Why groups rebalanced: recorded clients, random histories that know it, and cases by hand."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
import pytest

from kgroup.errors import NotFoundError
from kgroup.history.rebalance.query import find_storms, rebalances
from kgroup.history.rebalance.rebalance import CauseKind, Rebalance
from kgroup.history.sql.engine import DuckEngine, Engine, Parameter
from kgroup.render.json_document import json_rows
from kgroup.sample import sample_log_dir
from tests.examples import examples, some_of
from tests.history.random_history import Happening, RandomHistory
from tests.history.rebalance_case import (
    ALONE,
    STATIC,
    A,
    B,
    Row,
    T,
    ask,
    ask_cases,
    ask_report,
    check_storms,
    classic,
    commits,
    member,
)
from tests.history.recorded import Ask, engine_of_log
from tests.history.warehouse_files import write_rows

DATA = Path(__file__).parents[1] / "data"
CAME = {CauseKind.JOINED, CauseKind.RESTARTED}
WENT = {CauseKind.LEFT, CauseKind.EXPIRED, CauseKind.GONE}


# --- recorded groups: what their clients did is in the manifests ---------------------------------

JOIN, LEAVE, FOLLOW = ("joined", "certain"), ("left", "certain"), ("follow_up", "inferred")
LEAVE_NOW = ("left", "inferred")
TWO_JOINED = ((1, JOIN), (2, JOIN))

RECORDED: Mapping[str, Mapping[str, Sequence[tuple[int, tuple[str, str]]]]] = {
    # members after the rebalance, cause and certainty
    "sample": {
        "order-service": ((1, JOIN), (2, JOIN), (2, FOLLOW), (3, JOIN), (3, FOLLOW)),
        "invoice-batch": ((1, JOIN), (0, LEAVE)),
        "shipping": TWO_JOINED,
    },
    "kafka-4.3.1": {
        "orders-range": TWO_JOINED,  # "the second joined later"
        "orders-roundrobin": TWO_JOINED,
        "orders-sticky": TWO_JOINED,
        "orders-cooperative": (*TWO_JOINED, (2, FOLLOW)),
        "billing-empty": ((1, JOIN), (0, LEAVE)),  # "committed and left"
        "reporting-empty": ((1, JOIN), (0, LEAVE_NOW)),
        "returns": ((1, JOIN), (2, JOIN), (3, JOIN), (2, LEAVE_NOW)),  # "of which one left"
        "warehouse-static": TWO_JOINED,
        "carriers-away": ((1, JOIN),),
        "catalogue-downgraded": ((1, JOIN), (2, JOIN), (1, LEAVE_NOW)),
        "inventory-upgraded": (
            *(*TWO_JOINED, (2, FOLLOW)),
            *((3, JOIN), (2, LEAVE_NOW), (3, JOIN), (2, LEAVE_NOW)),  # "replaced one by one"
        ),
    },
    "kafka-2.8.2": {
        "orders-range": TWO_JOINED,
        "orders-cooperative": (*TWO_JOINED, (2, FOLLOW)),
        "billing-empty": ((1, JOIN), (0, LEAVE)),
    },
    "kafka-0.10.2.2": {"orders-range": TWO_JOINED},
}


@pytest.mark.slow
@pytest.mark.parametrize("name", RECORDED)
def test_recorded_groups(name: str, recorded_engine: Ask) -> None:
    engine = recorded_engine(sample_log_dir() if name == "sample" else DATA / name)
    everything = rebalances(engine).data
    by_group = {
        group_id: tuple(each for each in everything if each.group_id == group_id)
        for group_id in RECORDED[name]
    }
    for group_id, expected in RECORDED[name].items():
        assert [
            (len(each.members), (each.cause.value, each.certainty.value))
            for each in by_group[group_id]
        ] == list(expected), group_id
    for group_id in some_of(list(by_group), 4):
        assert rebalances(engine, group_id).data == by_group[group_id]
    for rebalance in everything:
        assert rebalance.evidence
        assert rebalance.sync_ms is None or 0 <= rebalance.sync_ms < 5000


def test_what_recorded_rebalances_moved(recorded_engine: Ask) -> None:
    found = rebalances(recorded_engine(sample_log_dir()), "order-service").data
    second, third = found[1], found[2]
    # Cooperative: the first member gives three of six up, the second gets them one rebalance later.
    assert [(len(change.got), len(change.lost)) for change in second.moved or ()] == [(0, 3)]
    assert [(len(change.got), len(change.lost)) for change in third.moved or ()] == [(3, 0)]
    assert (second.moved or ())[0].lost == (third.moved or ())[0].got
    assert (second.moved_count, third.moved_count) == (3, 3)
    assert second.members_before == found[0].members


# --- random histories, which know what happened --------------------------------------------------


@pytest.mark.slow
def test_how_many_groups_are_read_at_once_does_not_matter(
    recorded_engine: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = recorded_engine(sample_log_dir())
    found = rebalances(engine).data
    places = [
        (rebalance.group_id, rebalance.offsets_partition, rebalance.log_offset)
        for rebalance in found
    ]
    assert places == sorted(places)
    assert len({group for group, _, _ in places}) > 4
    storms = find_storms(engine, count=2, within_ms=60_000)
    assert storms.data
    for limit, number in (("_MOST_GROUPS", 1), ("_MOST_GROUPS", 3), ("_MOST_RECORDS", 5)):
        with monkeypatch.context() as patch:
            patch.setattr(f"kgroup.history.rebalance.query.{limit}", number)
            if number != 3:  # in this process
                patch.setattr("kgroup.history.sql.engine.FEW_JOBS", 1_000)
            patch.setattr("kgroup.history.rebalance.query._BATCH_ROWS", number)
            few = rebalances(engine)
            assert tuple(few.data) == found
            assert len(few.data) == len(found)
            assert b"".join(json_rows(few.data)) == b"".join(json_rows(found))
            some = find_storms(engine, count=2, within_ms=60_000)
            assert tuple(some.data) == storms.data
            assert some.notes == storms.notes


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(examples(2, 10)))
def test_random_groups(seed: int, tmp_path: Path) -> None:
    history = RandomHistory(seed)
    history.write(tmp_path / "log")
    with engine_of_log(tmp_path / "log", tmp_path / "w") as engine:
        found = defaultdict[str, list[Rebalance]](list)
        for rebalance in rebalances(engine).data:
            found[rebalance.group_id].append(rebalance)
        rates = ((2, 0), (2, 60_000), (3, 3_600_000), (6, 36_000_000), (10_000_000_000, 1))
        check_storms(engine, *rates)
        times = sorted(each.time_ms for every in found.values() for each in every if each.time_ms)
        if times:
            middle_ms = times[len(times) // 2]
            check_storms(engine, *rates, since_ms=middle_ms)
            check_storms(engine, *rates, until_ms=middle_ms)
    if not history.is_whole:
        return  # that nothing is raised is all that can be said
    by_group = defaultdict[str, list[Happening]](list)
    for happening in history.story:
        by_group[happening.group_id].append(happening)
    for group_id, story in by_group.items():
        check(found[group_id], story)


def check(found: Sequence[Rebalance], story: Iterable[Happening]) -> None:
    """Compare generations, members and what they did."""
    rest = iter(found)
    last: int | None = 0
    gone: set[str] = set()
    for happening in story:
        before, after = happening.before, happening.after
        if happening.did == "downgrade":  # shown by the next generation
            gone |= set(before) - set(after)
        for generation in happening.generations:
            if generation in (last, None):
                last = last if generation else 0
                gone = gone if generation else set()
                continue
            last = generation
            if happening.did == "come_back":
                continue
            rebalance = next(rest)
            assert rebalance.generation_id == generation
            assert {member.member_id for member in rebalance.members} == set(after)
            came = {cause.member_id for cause in rebalance.causes if cause.kind in CAME}
            went = {cause.member_id for cause in rebalance.causes if cause.kind in WENT}
            swaps = {
                cause.member_id: cause.before_member_id
                for cause in rebalance.causes
                if cause.kind is CauseKind.RESTARTED and cause.instance_id is not None
                if cause.member_id not in before
            }
            back = {  # had joined in an earlier epoch, before its crashed self was removed
                cause.member_id: cause.before_member_id
                for cause in rebalance.causes
                if cause.kind is CauseKind.RESTARTED and cause.member_id in before
            }
            assert came - back.keys() == set(after) - set(before)
            went |= {name for name in back.values() if name is not None}
            expected = (set(before) - set(after)) | (gone - set(after))
            assert went == expected - set(swaps.values())
            changed = {
                cause.member_id
                for cause in rebalance.causes
                if cause.kind is CauseKind.SUBSCRIPTION_CHANGED
            }
            assert changed >= {
                name for name in after if name in before and before[name] != after[name]
            }
            gone = set()
    assert next(rest, None) is None


HURRIED = {"rebalance_timeout_ms": 10_000}
"""max.poll.interval.ms: consumers that do not poll so long leave, and join again."""
FIRST = classic(1, 1, A, B)

CASES: Mapping[str, tuple[tuple[Any, ...], str, str]] = {
    # generations (and commits), then the cause of the last one, its certainty
    "joined": ((classic(1, 1, ALONE), classic(2, 9, A, B)), "joined", "certain"),
    "left soon": ((FIRST, classic(2, 30, ALONE)), "left", "certain"),
    "left, long after it joined, but committed": (
        (FIRST, classic(2, 500, ALONE), commits(2, 100, 200, 490)),
        "left",
        "inferred",
    ),
    "committed every 5 s, and then not while the other did": (
        (
            FIRST,
            classic(2, 500, ALONE),
            [*commits(2, *range(400, 440, 5)), *commits(0, *range(400, 499, 5))],
        ),
        "expired",
        "inferred",
    ),
    "all were silent: others may have joined slowly": (
        (
            FIRST,
            classic(2, 500, ALONE),
            [*commits(2, *range(400, 440, 5)), *commits(0, *range(400, 440, 5))],
        ),
        "gone",
        "inferred",
    ),
    "committed too seldom to tell": (
        (FIRST, classic(2, 500, ALONE), [*commits(2, 40, 90, 200), *commits(0, 499)]),
        "gone",
        "inferred",
    ),
    "committed twice: that is no pace": (
        (FIRST, classic(2, 500, ALONE), [*commits(2, 400, 405), *commits(0, 499)]),
        "gone",
        "inferred",
    ),
    "never committed": ((FIRST, classic(2, 500, ALONE)), "gone", "inferred"),
    "static, and silent": (
        (classic(1, 1, A, B | STATIC), classic(2, 500, ALONE)),
        "expired",
        "inferred",
    ),
    "static, removed": ((classic(1, 1, A, B | STATIC), classic(2, 30, ALONE)), "left", "certain"),
    "another id for an instance": (
        (classic(1, 1, A, B | STATIC), classic(2, 9, A, member("b2", "23", **STATIC))),
        "restarted",
        "certain",
    ),
    "another id for a client": (
        (FIRST, classic(2, 9, A, member("b2", "23"))),
        "restarted",
        "inferred",
    ),
    "back after a while": (
        (FIRST, classic(2, 9, ALONE), classic(3, 20, A, member("b2", "23"))),
        "restarted",
        "inferred",
    ),
    "polled too late, and is back": (
        (
            classic(1, 1, A, B | HURRIED),
            classic(2, 11.3, ALONE),
            classic(3, 31.6, A, member("b2", "23", **HURRIED)),
        ),
        "polled_late",
        "inferred",
    ),
    "polled too late, and others took a heartbeat interval to notice": (
        (
            classic(1, 1, A, B | HURRIED),
            classic(2, 14, ALONE),
            classic(3, 31.6, A, member("b2", "23", **HURRIED)),
        ),
        "polled_late",
        "inferred",
    ),
    "polled too late, and not back": (
        (classic(1, 1, A, B | HURRIED), classic(2, 11.3, ALONE)),
        "gone",
        "inferred",
    ),
    "polled too late, and was back before the others rejoined": (
        (
            classic(1, 1, A, B | HURRIED),
            classic(2, 12, A, member("b2", "23")),
            commits(0, 3, 7, 11),
        ),
        "polled_late",
        "inferred",
    ),
    "another id at once, but nobody worked meanwhile: it may have crashed after it joined": (
        (classic(1, 1, A, B | HURRIED), classic(2, 12, A, member("b2", "23")), commits(0, 3)),
        "joined",
        "certain",
    ),
    "another id when its rebalance timeout had passed, which is its session timeout too": (
        (
            classic(1, 1, A, B | HURRIED | {"session_timeout_ms": 10_000}),
            classic(2, 11.3, ALONE),
            classic(3, 12, A, member("b2", "23")),
        ),
        "joined",
        "certain",
    ),
    "another id after its session timeout has passed since its last commit": (
        (
            classic(1, 1, A, B | HURRIED | {"session_timeout_ms": 6_000}),
            classic(2, 11.3, ALONE),
            classic(3, 12, A, member("b2", "23")),
            commits(2, 2, 3, 4, 5),
        ),
        "joined",
        "certain",
    ),
    "another id when its rebalance timeout had passed; it committed meanwhile": (
        (
            classic(1, 1, A, B | HURRIED),
            classic(2, 11.3, ALONE),
            classic(3, 12, A, member("b2", "23")),
            commits(2, 2, 5, 8),
        ),
        "joined",  # a restart that chance made look like it
        "certain",
    ),
    "again another id when its rebalance timeout had passed, though it committed meanwhile": (
        (
            classic(1, 1, A, B | HURRIED),
            classic(2, 11.3, ALONE),
            classic(3, 12, A, member("b2", "23", **HURRIED)),
            classic(4, 22.3, ALONE),
            classic(5, 23, A, member("b3", "23", **HURRIED)),
            commits(2, 2, 5, 8, 13, 16, 19),
        ),
        "polled_late",
        "inferred",
    ),
    "another id on another host when its rebalance timeout had passed": (
        (
            classic(1, 1, A, B | HURRIED),
            classic(2, 11.3, ALONE),
            classic(3, 12, A, member("b2", "23", client_host="/10.0.0.9")),
        ),
        "restarted",
        "inferred",
    ),
    "a static member is back when its rebalance timeout had passed": (
        (
            classic(1, 1, A, B | HURRIED | STATIC),
            classic(2, 11.3, ALONE),
            classic(3, 12, A, member("b2", "23", **STATIC)),
        ),
        "restarted",
        "certain",
    ),
    "back after it left within its rebalance timeout": (
        (
            classic(1, 1, A, B | HURRIED),
            classic(2, 10.9, ALONE),
            classic(3, 12, A, member("b2", "23", **HURRIED)),
        ),
        "restarted",
        "inferred",
    ),
    "back after its rebalance timeout had passed in generations that are missing": (
        (
            classic(1, 1, A, B | HURRIED),
            classic(3, 11.3, ALONE),
            classic(4, 12, A, member("b2", "23", **HURRIED)),
        ),
        "restarted",
        "inferred",
    ),
    "another id for a client long after its rebalance timeout": (
        (classic(1, 1, A, B | HURRIED), classic(2, 15, A, member("b2", "23"))),
        "restarted",
        "inferred",
    ),
    "another client": ((FIRST, classic(2, 9, A, B, member("c1"))), "joined", "certain"),
    "the client id of somebody who stays, elsewhere": (
        (
            FIRST,
            classic(2, 9, ALONE),
            classic(3, 20, *(A, member("b2", "2"), member("b3", "3", client_host="/10.0.0.9"))),
        ),
        "restarted",  # b2 is back, b3 is new
        "inferred",
    ),
    "the client id of one that is gone, on another host, beside one that stays": (
        (
            classic(1, 1, A, B, member("b5", "4")),
            classic(2, 9, A, member("b5", "4"), member("b2", "23", client_host="/10.0.0.9")),
        ),
        "joined",
        "certain",
    ),
    "other topics": (
        (FIRST, classic(2, 9, A, B | {"subscribed_topics": ["orders", "payments"]})),
        "subscription_changed",
        "certain",
    ),
    "a partition more": (
        (FIRST, classic(2, 9, A, member("b1", "234"))),
        "partitions_added",
        "inferred",
    ),
    "another strategy": (
        (FIRST, classic(2, 9, A, B, protocol="roundrobin")),
        "strategy_changed",
        "certain",
    ),
    "another strategy, as a member left": (
        (classic(1, 1, A, B), classic(2, 9, ALONE, protocol="cooperative-sticky")),
        "left",
        "certain",
    ),
    "another coordinator": (
        (FIRST, classic(2, 9, A, B, log_leader_epoch=1)),
        "coordinator_moved",
        "inferred",
    ),
    "another coordinator, and a member less": (
        (FIRST, classic(2, 9, ALONE, log_leader_epoch=1)),
        "left",
        "certain",
    ),
    "partitions that were given up": (
        (classic(1, 1, ALONE), classic(2, 5, A, member("b1")), classic(3, 9, A, B)),
        "follow_up",
        "inferred",
    ),
    "partitions that were given up, and another coordinator": (
        (
            classic(1, 1, ALONE),
            classic(2, 5, A, member("b1")),
            classic(3, 9, A, B, log_leader_epoch=1),
        ),
        "follow_up",
        "inferred",
    ),
    "nothing": ((FIRST, classic(2, 9, A, B)), "unknown", "inferred"),
    "generations between are missing": (
        (FIRST, classic(5, 9, A, B, member("c1"))),
        "joined",
        "inferred",
    ),
    "the first that is known": ((classic(5, 9, A, B),), "unknown", "inferred"),
    "lower than before: records are missing": (
        (classic(5, 1, A), classic(3, 9, A, B)),
        "unknown",
        "inferred",
    ),
}


@pytest.fixture(scope="module")
def of_case(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Sequence[Rebalance]]:
    cases = {case: given for case, (given, _, _) in CASES.items()}
    return ask_cases(tmp_path_factory.mktemp("cases"), cases)


@pytest.mark.parametrize("case", CASES)
def test_cause(case: str, of_case: Mapping[str, Sequence[Rebalance]]) -> None:
    _, kind, certainty = CASES[case]
    last = of_case[case][-1]
    assert (last.cause.value, last.certainty.value) == (kind, certainty), last.evidence


def test_evidence_has_numbers(tmp_path: Path) -> None:
    (_, last) = ask(tmp_path, FIRST, classic(2, 500, ALONE), offset_commits=commits(2, 100, 490))
    (cause,) = last.causes
    assert (cause.member_id, cause.last_seen_ms, cause.timeout_ms) == ("b1", T + 490_000, 45_000)
    assert cause.silent_ms == 10_000 - 5
    assert "9995 ms before the rebalance" in cause.evidence
    assert (last.sync_ms, last.commit_gap_ms) == (5, None)


@pytest.mark.parametrize("rebalance_timeout_ms", [0, None])
def test_timeouts_of_nothing_are_not_known(
    tmp_path: Path, rebalance_timeout_ms: int | None
) -> None:
    odd = {"session_timeout_ms": 0, "rebalance_timeout_ms": rebalance_timeout_ms}
    there, gone = member("a1", "01", **odd), member("b1", "23", **odd)
    found = ask(tmp_path, classic(1, 0, there, gone), classic(2, 100, member("a1", "0123", **odd)))
    assert [(cause.kind, cause.timeout_ms) for cause in found[-1].causes] == [
        (CauseKind.GONE, 45_000)
    ]


def test_a_member_that_polls_late_again_and_again(tmp_path: Path) -> None:
    """A consumer with max.poll.interval.ms of 10 s, alone, took 12 s for each batch."""
    generations = []
    for number in range(12):
        who = member(f"b{number}", "0123", **HURRIED)
        generations += [
            classic(2 * number + 1, 1 + 13 * number, who),
            classic(2 * number + 2, 11.3 + 13 * number),
        ]
    found = ask(tmp_path, *generations)
    told = [(cause.kind.value, cause.member_id) for each in found for cause in each.causes]
    assert told == [
        ("joined", "b0"),
        *(
            ("polled_late", name)
            for number in range(11)
            for name in (f"b{number}", f"b{number + 1}")
        ),
        ("gone", "b11"),  # it may come back
    ]
    left, back = found[1], found[2]
    assert [
        (cause.certainty.value, cause.timeout_ms) for cause in (*left.causes, *back.causes)
    ] == [("inferred", 10_000)] * 2
    for cause in (*left.causes, *back.causes):
        assert (cause.client_id, cause.client_host) == ("client-b", "/10.0.0.1")
    assert (left.causes[0].before_member_id, back.causes[0].before_member_id) == (None, "b0")
    assert left.causes[0].silent_ms is not None
    assert "left 10.3 s after its assignment" in left.evidence
    assert "returned as b1 2.7 s later" in left.evidence
    assert left.cause is CauseKind.POLLED_LATE
    assert "10000 ms had passed" in found[-1].evidence


def test_commits_around_it_bound_how_long_it_took(tmp_path: Path) -> None:
    rows = [*commits(0, 2, 8), *commits(2, 12, 30)]
    found = ask(tmp_path, FIRST, classic(2, 9, ALONE), offset_commits=rows)
    assert [rebalance.commit_gap_ms for rebalance in found] == [None, 4000]


def test_a_clock_that_went_back_makes_no_gap_below_nothing(tmp_path: Path) -> None:
    later = [row | {"time_ms": T + 48_000} for row in commits(0, 51)]
    (_, last) = ask(
        tmp_path, FIRST, classic(2, 50, ALONE), offset_commits=[*commits(0, 49), *later]
    )
    assert last.commit_gap_ms == 0


@pytest.mark.parametrize(
    ("at_s", "evidence"), [(12, " 2.0 s after"), (9, "returned after it left as b1")]
)
def test_a_clock_that_went_back_tells_not_how_long_a_member_was_away(
    tmp_path: Path, at_s: float, evidence: str
) -> None:
    place = {"log_offset": 110}
    back = classic(3, at_s, A | place, B | {"member_id": "b2"} | place, **place)
    found = ask(tmp_path, FIRST, classic(2, 10, ALONE), back)
    assert [cause.kind for cause in found[-1].causes] == [CauseKind.RESTARTED]
    assert evidence in found[-1].evidence


def test_several_causes_are_all_told(tmp_path: Path) -> None:
    later = classic(2, 9, A, member("c1", "2"), member("d1", "3"), protocol="sticky")
    last = ask(tmp_path, FIRST, later)[-1]
    assert [(cause.kind.value, cause.member_id) for cause in last.causes] == [
        ("joined", "c1"),
        ("joined", "d1"),
        ("left", "b1"),
        ("strategy_changed", None),
    ]
    assert last.evidence.count(";") == 3
    assert [
        (change.member_id, len(change.got), len(change.lost)) for change in last.moved or ()
    ] == [("b1", 0, 2), ("c1", 1, 0), ("d1", 1, 0)]
    assert last.moved_count == 2


@pytest.mark.parametrize(
    ("first", "second", "ending"),
    [
        ((A, B), (ALONE,), " when b1 (client client-b) left"),
        ((ALONE,), (A, B), " when b1 (client client-b) joined"),
        ((A, B), (A, B), ""),
    ],
)
def test_who_changed_the_strategy(
    tmp_path: Path, first: list[Row], second: list[Row], ending: str
) -> None:
    found = ask(tmp_path, classic(1, 1, *first), classic(2, 9, *second, protocol="sticky"))
    cause = found[-1].causes[-1]
    assert cause.kind is CauseKind.STRATEGY_CHANGED
    assert cause.evidence == f"the strategy changed from range to sticky{ending}"


def with_topic_id(rows: list[Row], topic_id: str) -> list[Row]:
    return [row | {"topic_id": topic_id} for row in rows]


@pytest.mark.parametrize(
    ("last", "first", "kinds"),
    [
        (6, 8, ["topics_changed", None, None]),
        (8, 12, ["topics_changed", "topics_changed", None]),  # before or after the first of them
        (11, 14, [None, "topics_changed", None]),
        (16, 21, [None, None, "topics_changed"]),
        (21, 22, [None, None, None]),  # later than all
    ],
)
def test_a_topic_that_was_created_again(
    tmp_path: Path, last: int, first: int, kinds: list[str | None]
) -> None:
    rows = [
        *with_topic_id(commits(0, 2, last), "oldoldoldoldoldoldoldA"),
        *with_topic_id(commits(0, first, 22), "newnewnewnewnewnewnewA"),
        *commits(2, 2, 20),  # of a client that sends no topic ids
    ]
    generations = [classic(number, 5 * number, A, B) for number in (1, 2, 3, 4)]
    found = ask(tmp_path, *generations, offset_commits=rows)
    assert [each.causes[0].kind.value if each.causes else None for each in found[1:]] == kinds
    told = [each.evidence for each in found if each.causes and each.generation_id > 1]
    assert all("oldoldoldoldoldoldoldA before, and newnew" in evidence for evidence in told)


def test_a_topic_that_was_created_again_is_no_cause_where_there_is_another(tmp_path: Path) -> None:
    rows = [*with_topic_id(commits(0, 2), "old"), *with_topic_id(commits(0, 12), "new")]
    last = ask(tmp_path, FIRST, classic(2, 9, ALONE), offset_commits=rows)[-1]
    assert [cause.kind for cause in last.causes] == [CauseKind.LEFT]


def owning(name: str, **partitions: str) -> Row:
    """A member that subscribes to two topics, and owns partitions by their digits."""
    nothing = {"topic_id": None, "subtopology": None, "role": None}
    assigned = [
        {"topic": topic, "partitions": [*map(int, digits)], **nothing}
        for topic, digits in partitions.items()
    ]
    return member(name, assignment=assigned, subscribed_topics=["orders", "payments"])


@pytest.mark.parametrize(
    ("second", "more", "evidence"),
    [
        (
            (owning("a1", orders="01"), owning("b1", orders="2")),
            {},
            "no partition of topic payments ",
        ),
        ((owning("a1"), owning("b1")), {}, "no partition of topic orders "),
        ((owning("a1", payments="0"), owning("b1", orders="12")), {}, "the log shows no change"),
        # a cooperative strategy assigns what moves later
        (
            (owning("a1", orders="01"), owning("b1", orders="2")),
            {"protocol": "cooperative-sticky"},
            "the log shows no change",
        ),
        # who leaves is the cause
        ((owning("a1", orders="012"),), {}, "member b1 (client client-b) left: "),
    ],
)
def test_a_topic_that_was_deleted(
    tmp_path: Path, second: Sequence[Row], more: Row, evidence: str
) -> None:
    first = owning("a1", orders="01"), owning("b1", orders="2", payments="0")
    last = ask(tmp_path, classic(1, 1, *first, **more), classic(2, 9, *second, **more))[-1]
    assert last.evidence.startswith(evidence)
    if "no partition" in evidence:
        assert {(each.kind, each.certainty) for each in last.causes} == {
            ("topics_changed", "inferred")
        }


def test_partitions_given_up_are_no_cause_where_subscriptions_changed(tmp_path: Path) -> None:
    more = B | {"subscribed_topics": ["orders", "payments"]}
    last = ask(
        tmp_path, classic(1, 1, ALONE), classic(2, 5, A, member("b1")), classic(3, 9, A, more)
    )[-1]
    assert [cause.kind.value for cause in last.causes] == ["subscription_changed"]


def test_static_member_back_in_the_same_generation_is_no_rebalance(tmp_path: Path) -> None:
    back = member("b2", "23", **STATIC)
    found = ask(
        tmp_path, classic(1, 1, A, B | STATIC), classic(1, 5, A, back), classic(2, 9, A, back)
    )
    assert [rebalance.generation_id for rebalance in found] == [1, 2]
    assert (found[1].causes, found[1].moved_count) == ((), 0)


def test_two_processes_that_replace_each_other_in_one_generation(tmp_path: Path) -> None:
    """As seen on 4.3.1: the coordinator keeps the client id and host of the first process."""
    again = [
        classic(1, 5 + number, A, member(f"b{number}", "23", **STATIC)) for number in range(50)
    ]
    generations = [classic(1, 1, A, member("b", "23", **STATIC)), *again, classic(2, 60, ALONE)]
    found, notes = ask_report(tmp_path, *generations)
    takeovers = found[0].takeovers
    assert [each.member_id for each in takeovers] == [f"b{number}" for number in range(50)]
    assert {(each.instance_id, each.client_id, each.client_host) for each in takeovers} == {
        ("pod-1", "client-b", "/10.0.0.1")
    }
    assert [(each.before_member_id, each.time_ms) for each in takeovers[:2]] == [
        ("b", T + 5000),
        ("b0", T + 6000),
    ]
    assert found[1].takeovers == ()
    assert notes[0] == (
        "Group 'g': the instance id pod-1 was taken over 50 times in generation 1: two processes "
        "use it, or one restarts in a loop."
    )


def test_three_takeovers_within_ten_minutes_are_noted(tmp_path: Path) -> None:
    again = [classic(1, each, A, member(f"b{each}", "23", **STATIC)) for each in (9, 300, 600)]
    _, notes = ask_report(tmp_path, classic(1, 1, A, B | STATIC), *again)
    assert len(notes) == 1
    assert "taken over 3 times" in notes[0]


@pytest.mark.parametrize(("count", "seconds"), [(2, 1), (5, 400)])
def test_a_static_member_that_restarts_now_and_then_is_not_noted(
    tmp_path: Path, count: int, seconds: int
) -> None:
    again = [
        classic(1, 5 + each * seconds, A, member(f"b{each}", "23", **STATIC))
        for each in range(count)
    ]
    found, notes = ask_report(tmp_path, classic(1, 1, A, B | STATIC), *again)
    assert [len(each.takeovers) for each in found] == [count]
    assert notes == ()


@pytest.mark.parametrize(
    ("seconds", "kinds"),
    [
        (9, ["restarted", "restarted", "instance_id_used_twice", "instance_id_used_twice"]),
        (30, ["restarted"] * 4),  # a process that crashes and restarts
    ],
)
def test_two_processes_that_replace_each_other_in_rebalances(
    tmp_path: Path, seconds: int, kinds: list[str]
) -> None:
    found = ask(
        tmp_path,
        *(
            classic(number + 1, number * seconds, A, member(f"b{number}", "23", **STATIC))
            for number in range(5)
        ),
    )
    assert [cause.kind.value for each in found[1:] for cause in each.causes] == kinds
    if "instance_id_used_twice" in kinds:
        (cause,) = found[-1].causes
        assert (cause.instance_id, cause.before_member_id) == ("pod-1", "b3")
        assert cause.certainty.value == "inferred"
        assert "taken over 4 times within 30 s" in cause.evidence


def test_takeovers_in_a_generation_count_in_the_next(tmp_path: Path) -> None:
    again = [classic(1, 5 + each, A, member(f"b{each}", "23", **STATIC)) for each in range(2)]
    last = classic(2, 9, A, member("b9", "23", **STATIC))
    found = ask(tmp_path, classic(1, 1, A, B | STATIC), *again, last)
    assert found[-1].cause is CauseKind.INSTANCE_ID_USED_TWICE


def test_a_record_older_than_the_end_of_the_join_phase_tells_no_length(tmp_path: Path) -> None:
    found = ask(tmp_path, FIRST, classic(2, 9, A, B, state_timestamp_ms=T + 9001))
    assert [rebalance.sync_ms for rebalance in found] == [5, None]


def test_an_assignment_that_cannot_be_read_moves_nobody_knows_what(tmp_path: Path) -> None:
    last = ask(tmp_path, FIRST, classic(2, 9, A, member("b1", None)))[-1]
    assert (last.moved, last.moved_count) == (None, None)


def test_generations_without_a_record_are_noted(tmp_path: Path) -> None:
    found, notes = ask_report(tmp_path, classic(1, 1, A), classic(4, 60, A, B), classic(5, 70, A))
    assert [rebalance.generation_id for rebalance in found] == [1, 4, 5]
    assert notes == (
        "No record of 2 generations of 'g', so the cause is unknown: compaction removed the "
        "record, no assignment followed, or the record was larger than brokers accept.",
    )
    rows = {"group_generations": [row for row, _ in (classic(1, 1), classic(3, 2))]}
    with DuckEngine(write_rows(tmp_path / "storm", rows)) as engine:
        storms = find_storms(engine, "g", count=2, within_ms=5_000)
    assert storms.notes[0].startswith("No record of 1 generation of 'g', ")
    backward = (classic(1, 1), classic(2, 100), classic(3, 2, log_offset=2000))
    rows = {"group_generations": [row for row, _ in backward]}
    with DuckEngine(write_rows(tmp_path / "backward", rows)) as engine:
        check_storms(engine, (3, 5_000), until_ms=T + 50_000)


def test_deleted_group_begins_anew(tmp_path: Path) -> None:
    gone = {
        "offsets_partition": 7,
        "log_offset": 60,
        "time_ms": T + 6000,
        "group_id": "g",
        "type": "GroupMetadata",
    }
    found = ask(tmp_path, FIRST, classic(1, 9, member("c1", "0123")), tombstones=[gone])
    assert [(rebalance.generation_before, rebalance.cause.value) for rebalance in found] == [
        (None, "joined"),
        (None, "joined"),
    ]
    assert found[1].members_before == ()


def test_a_tombstone_of_another_group_type_deletes_nothing(tmp_path: Path) -> None:
    """Kafka: `GroupMetadataManager.replay` of ShareGroupMetadataKey ignores it."""
    other = {
        "offsets_partition": 7,
        "log_offset": 60,
        "time_ms": T + 6000,
        "group_id": "g",
        "type": "ShareGroupMetadata",
    }
    found = ask(tmp_path, FIRST, classic(2, 9, ALONE), tombstones=[other])
    assert [(rebalance.generation_before, rebalance.cause.value) for rebalance in found] == [
        (None, "joined"),
        (1, "left"),
    ]


def epoch_rows(*entries: tuple[float, str, Row]) -> list[Row]:
    return [
        {
            "offsets_partition": 7,
            "log_offset": number,
            "time_ms": T + int(at_s * 1000),
            "log_leader_epoch": 0,
            "group_id": "g",
            "group_type": "consumer",
            "type": f"ConsumerGroup{kind}",
            "value_json": orjson.dumps({"version": 0, "data": more.pop("data", {})}).decode(),
        }
        | more
        for number, (at_s, kind, more) in enumerate(entries)
    ]


def given_to(name: str, numbers: Sequence[int], epoch: int | None = None) -> Row:
    assigned = {"topic": "orders", "topic_id": None, "subtopology": None, "role": None}
    return {
        "member_id": name,
        "epoch": epoch,
        "assignment": [assigned | {"partitions": list(numbers)}],
    }


def test_topics_of_a_consumer_group_change(tmp_path: Path) -> None:
    """Kafka 4.1 and later store a hash of the topics, 4.0 their partition counts."""

    def epoch(number: int, topics_hash: int) -> Row:
        return {"epoch": number, "data": {"epoch": number, "metadataHash": topics_hash}}

    def counts(number: int) -> Row:
        return {"data": {"topics": [{"topicName": "orders", "numPartitions": number}]}}

    rows = epoch_rows(
        (1, "MemberMetadata", {"member_id": "a"}),
        (1, "Metadata", epoch(1, 11)),
        (1, "TargetAssignmentMember", given_to("a", [0, 1])),
        (1, "TargetAssignmentMetadata", {"epoch": 1}),
        (1, "CurrentMemberAssignment", given_to("a", [0, 1], 1)),
        (20, "Metadata", epoch(2, 12)),
        (20, "TargetAssignmentMember", given_to("a", [0, 1, 2])),
        (20, "TargetAssignmentMetadata", {"epoch": 2}),
        (21.5, "CurrentMemberAssignment", given_to("a", [0, 1, 2], 2)),
        (30, "PartitionMetadata", counts(3)),
        (40, "PartitionMetadata", counts(4)),
        (40, "Metadata", epoch(3, 12)),
        (50, "Metadata", epoch(4, 13)),
    )
    metadata = rows[0] | {"member_id": "a", "subscribed_topics": ["orders"]}
    for name in ("type", "value_json"):
        del metadata[name]
    # log offset 11, before the last epoch, and 13
    ids = [*with_topic_id(commits(0, 1), "old"), *with_topic_id(commits(0, 1.2), "new")]
    tables = {"consumer_group_epochs": rows, "members": [metadata], "offset_commits": ids}
    with DuckEngine(write_rows(tmp_path, tables)) as engine:
        found = rebalances(engine, "g").data
    assert [
        (rebalance.cause.value, rebalance.certainty.value, rebalance.moved_count)
        for rebalance in found
    ] == [
        ("joined", "certain", 2),
        ("partitions_added", "inferred", 1),
        ("partitions_added", "certain", None),
        ("topics_changed", "certain", None),
    ]
    assert [rebalance.reconcile_ms for rebalance in found] == [0, 1500, None, None]
    assert "orders-2" in found[1].evidence
    assert "grew from 3 to 4 partitions" in found[2].evidence
    last = "; commits of orders had the topic id old before, and new after"
    assert [last in each.evidence for each in found] == [False, False, False, True]


def ask_epochs(
    folder: Path,
    *entries: tuple[float, str, Row],
    tombstones: Iterable[Row] = (),
    offset_commits: Iterable[Row] = (),
) -> Sequence[Rebalance]:
    """Ask about a consumer group; `who` of a MemberMetadata is its row of `members`."""
    rows = epoch_rows(*entries)
    members = []
    for row in rows:
        who = row.pop("who", None)
        if who is not None:
            shared = {name: row[name] for name in row if name not in ("type", "value_json")}
            members.append(shared | {"subscribed_topics": ["orders"]} | who)
    tables = {"consumer_group_epochs": rows, "members": members, "tombstones": tombstones}
    tables["offset_commits"] = offset_commits
    with DuckEngine(write_rows(folder, tables)) as engine:
        return rebalances(engine, "g").data


def comes(name: str, at_s: float, **who: object) -> tuple[float, str, Row]:
    return at_s, "MemberMetadata", {"member_id": name, "who": {"client_id": name, **who}}


def epoch_is(number: int, at_s: float) -> tuple[float, str, Row]:
    return at_s, "Metadata", {"epoch": number}


def removed(at_s: float, number: int, name: str) -> list[Row]:
    """What a coordinator writes when a member is gone."""
    return [
        {
            "offsets_partition": 7,
            "log_offset": number,
            "time_ms": T + int(at_s * 1000),
            "group_id": "g",
            "type": f"ConsumerGroup{kind}",
            "member_id": name,
        }
        for kind in ("CurrentMemberAssignment", "TargetAssignmentMember", "MemberMetadata")
    ]


@pytest.mark.parametrize(("at_s", "reconcile_ms"), [(6, 5000), (0.5, None)])
def test_an_epoch_is_reconciled_when_its_last_member_is(
    tmp_path: Path, at_s: float, reconcile_ms: int | None
) -> None:
    """How long that took is not known where the clock went back."""
    (rebalance,) = ask_epochs(
        tmp_path,
        comes("a", 1),
        comes("b", 1),
        epoch_is(1, 1),
        (1, "TargetAssignmentMember", given_to("a", [0])),
        (1, "TargetAssignmentMember", given_to("b", [1])),
        (1, "TargetAssignmentMetadata", {"epoch": 1}),
        (2, "CurrentMemberAssignment", given_to("a", [0], 1)),
        (3, "CurrentMemberAssignment", given_to("b", [], 1)),  # its partition is not free yet
        (at_s, "CurrentMemberAssignment", given_to("b", [1], 1)),
        (7, "CurrentMemberAssignment", given_to("b", [1], 1)),
    )
    assert (rebalance.reconcile_ms, rebalance.generation_before) == (reconcile_ms, None)


def test_what_was_before_a_late_epoch_is_not_known(tmp_path: Path) -> None:
    (rebalance,) = ask_epochs(tmp_path, comes("a", 1), epoch_is(3, 1))
    assert (rebalance.members_before, rebalance.causes, rebalance.cause.value) == (
        None,
        (),
        "unknown",
    )


@pytest.mark.parametrize(
    "timeouts",
    [
        {"rebalance_timeout_ms": 10_000},
        {"session_timeout_ms": 10_000, "rebalance_timeout_ms": 300_000},
    ],
)
def test_members_of_epoch_groups_expire_by_what_is_known_of_timeouts(
    tmp_path: Path, timeouts: Mapping[str, int]
) -> None:
    """Whoever must give up partitions has the rebalance timeout for that.

    Who speaks the classic protocol has a session timeout of its own, which is stored (Kafka:
    `ConsumerGroupMember.classicProtocolSessionTimeout`).
    """
    _, rebalance = ask_epochs(
        tmp_path,
        comes("a", 1),
        comes("b", 1, **timeouts),
        epoch_is(2, 1),
        (2, "CurrentMemberAssignment", given_to("b", [1], 2)),
        (22, "CurrentMemberAssignment", given_to("a", [0], 2)),
        epoch_is(3, 22),
        tombstones=removed(22, 4, "b"),
    )
    (cause,) = rebalance.causes
    assert (cause.kind.value, cause.member_id, cause.timeout_ms) == ("gone", "b", 10_000)
    assert (cause.last_seen_ms, cause.silent_ms) == (T + 2000, 20_000)


@pytest.mark.parametrize(("silent_s", "how"), [(20, "left"), (43, "gone"), (60, "gone")])
def test_only_heartbeats_keep_members_of_epoch_groups(
    tmp_path: Path, silent_s: int, how: str
) -> None:
    """A member that was killed may have committed after its last heartbeat (seen on 4.3.1)."""
    _, rebalance = ask_epochs(
        tmp_path,
        comes("a", 1),
        comes("b", 1),
        epoch_is(2, 1),
        (2, "CurrentMemberAssignment", given_to("b", [1], 2)),
        (2 + silent_s, "CurrentMemberAssignment", given_to("a", [0], 2)),
        epoch_is(3, 2 + silent_s),
        tombstones=removed(2 + silent_s, 4, "b"),
    )
    (cause,) = rebalance.causes
    assert (cause.kind.value, cause.silent_ms) == (how, silent_s * 1000)


@pytest.mark.parametrize(
    ("alive_s", "commit_s", "name", "kinds"),
    [
        (12, None, "b", ("polled_late", "joined")),
        (12, 3, "b", ("polled_late", "joined")),
        (12, 5, "b", ("expired", "joined")),  # who commits has polled
        (8, None, "b", ("expired", "joined")),
        # another process; an id is made up when it starts
        (12, None, "b2", ("gone", "restarted")),
    ],
)
def test_a_member_of_an_epoch_group_that_returns(
    tmp_path: Path, alive_s: int, commit_s: int | None, name: str, kinds: tuple[str, str]
) -> None:
    """With its own id, its process was not restarted (seen with librdkafka on 4.3.1)."""
    who: dict[str, object] = {"rebalance_timeout_ms": 10_000, "client_id": "b"}
    left_s = 2 + alive_s
    _, gone, back = ask_epochs(
        tmp_path,
        comes("a", 1),
        comes("b", 1, **who),
        epoch_is(2, 1),
        (2, "CurrentMemberAssignment", given_to("b", [1], 2)),
        epoch_is(3, left_s),
        comes(name, left_s + 3, **who),
        epoch_is(4, left_s + 3),
        tombstones=removed(left_s, 3, "b"),
        offset_commits=[
            row | {"log_offset": 3} for row in commits(1, *([commit_s] if commit_s else []))
        ],
    )
    assert (gone.cause.value, back.cause.value) == kinds
    (cause,) = gone.causes
    assert (cause.member_id, cause.timeout_ms) == ("b", 10_000)
    if name == "b":
        assert gone.certainty.value == "inferred"
        assert "returned 3.0 s later under the same member id" in cause.evidence
    (cause,) = back.causes
    assert cause.member_id == name
    assert "returned 3.0 s after it left" in cause.evidence


@pytest.mark.parametrize(
    ("host", "sign_s", "kinds"),
    [
        ("/10.0.0.1", 2, ("joined", "restarted")),
        ("/10.0.0.2", 2, ("joined", "left")),  # another machine
        ("/10.0.0.1", 9, ("joined", "left")),  # the first one lived on
    ],
)
def test_a_crashed_member_that_is_back_before_it_expires(
    tmp_path: Path, host: str, sign_s: float, kinds: tuple[str, str]
) -> None:
    """In a group with epochs both are members for the rest of the session."""
    who: dict[str, object] = {"client_id": "b", "client_host": "/10.0.0.1"}
    _, came, went = ask_epochs(
        tmp_path,
        comes("a", 1),
        comes("b", 1, **who),
        epoch_is(2, 1),
        (2, "CurrentMemberAssignment", given_to("b", [1], 2)),
        comes("b2", 5, **who | {"client_host": host}),
        epoch_is(3, 5),
        (sign_s, "CurrentMemberAssignment", given_to("b", [1], 3 if sign_s > 5 else 2)),
        epoch_is(4, 12),
        tombstones=removed(12, 6, "b"),
    )
    assert (came.cause.value, went.cause.value) == kinds
    (cause,) = went.causes
    if kinds[1] == "restarted":
        assert (cause.member_id, cause.before_member_id) == ("b2", "b")


def test_who_is_gone_takes_no_place(tmp_path: Path) -> None:
    """The member that joined in between has left again, before the first one is removed."""
    who: dict[str, object] = {"client_id": "b", "client_host": "/10.0.0.1"}
    *_, went = ask_epochs(
        tmp_path,
        comes("a", 1),
        comes("b", 1, **who),
        epoch_is(2, 1),
        comes("b2", 5, **who),
        epoch_is(3, 5),
        (6, "CurrentMemberAssignment", given_to("b2", [1], 3)),
        epoch_is(4, 9),
        (10, "CurrentMemberAssignment", given_to("a", [0], 4)),
        epoch_is(5, 12),
        tombstones=[*removed(9, 5, "b2"), *removed(12, 7, "b")],
    )
    (cause,) = went.causes
    assert (cause.kind.value, cause.member_id) == ("left", "b")


def test_a_static_member_that_said_it_would_be_back_and_was_not(tmp_path: Path) -> None:
    _, rebalance = ask_epochs(
        tmp_path,
        comes("a", 1),
        comes("b", 1, **STATIC),
        epoch_is(2, 1),
        (2, "CurrentMemberAssignment", given_to("b", [1], -2)),
        (9, "CurrentMemberAssignment", given_to("a", [0], 2)),
        epoch_is(3, 9),
        tombstones=removed(9, 4, "b"),
    )
    (cause,) = rebalance.causes
    assert (cause.kind.value, cause.certainty.value) == ("expired", "inferred")
    assert "left temporarily (epoch -2) and did not return in time" in cause.evidence


@pytest.mark.slow
@pytest.mark.parametrize(
    ("topics", "causes"),
    [(["orders"], []), (["orders", "payments"], [("restarted", "certain", "b")])],
)
def test_a_static_member_back_under_another_id_in_an_epoch_group(
    tmp_path: Path, topics: list[str], causes: list[tuple[str, str, str]]
) -> None:
    """No epoch tells of it where it subscribes to the same: it is no cause of the next one."""
    _, rebalance = ask_epochs(
        tmp_path,
        comes("a", 1),
        comes("b", 1, **STATIC),
        epoch_is(2, 1),
        comes("b2", 5, **STATIC, subscribed_topics=topics),
        epoch_is(3, 9),
        tombstones=removed(5, 2, "b"),
    )
    assert [
        (cause.kind.value, cause.certainty.value, cause.before_member_id)
        for cause in rebalance.causes
    ] == causes


def test_times_and_groups_that_are_asked_for(tmp_path: Path) -> None:
    rows = {
        "group_generations": [row for row, _ in (FIRST, classic(2, 9, A, B))],
        "members": [each for _, members in (FIRST, classic(2, 9, A, B)) for each in members],
    }
    with DuckEngine(write_rows(tmp_path, rows)) as engine:
        assert len(rebalances(engine).data) == 2
        late = rebalances(engine, "g", since_ms=T + 5000)
        early = rebalances(engine, until_ms=T + 9000, cluster="test")
        nothing = rebalances(engine, "g", since_ms=T + 50_000)
        never = rebalances(engine, since_ms=T + 50_000)
        with pytest.raises(NotFoundError):
            rebalances(engine, "h")
    assert [rebalance.generation_id for rebalance in late.data] == [2]
    assert [rebalance.generation_id for rebalance in early.data] == [1]
    assert nothing.data == ()
    last, end = nothing.notes
    assert last == "Group 'g' did not rebalance in this time, but last at 2023-11-14T22:13:29.000Z."
    assert "later records, if any, are unknown" in end
    assert never.notes[-1] == "No rebalance is recorded in this time."


@dataclass
class Heard:
    """An engine that keeps what is asked for."""

    engine: DuckEngine
    parameters: list[object] = field(default_factory=list)
    has_infinities: bool = True

    def query(
        self, sql: str, parameters: Sequence[Parameter] = (), *, is_trusted: bool = False
    ) -> pa.Table:
        self.parameters += parameters
        return self.engine.query(sql, parameters, is_trusted=is_trusted)

    def each(self, function: Callable[[Engine, Any], Any], jobs: Iterable[Any]) -> Iterator[Any]:
        return (function(self, job) for job in jobs)


def test_groups_that_rebalanced_at_other_times_are_not_read(tmp_path: Path) -> None:
    rows: dict[str, list[Row]] = {"group_generations": [], "members": []}
    groups: list[tuple[str, int, Row]] = [
        *(("early", 2, {}), ("late", 9, {})),
        ("timeless", 2, {"time_ms": None}),
    ]
    for group_id, second, more in groups:
        for row, members in (FIRST, classic(2, second, A, B)):
            rows["group_generations"].append(row | more | {"group_id": group_id})
            rows["members"] += [each | more | {"group_id": group_id} for each in members]
    with DuckEngine(write_rows(tmp_path, rows)) as engine:
        every = rebalances(engine).data
        for since_s, until_s in ((5, 50), (0, 2), (2, 9)):
            heard = Heard(engine)
            when = range(T + since_s * 1000, T + until_s * 1000)
            found = rebalances(heard, since_ms=when.start, until_ms=when.stop).data
            then = [
                rebalance
                for rebalance in every
                if rebalance.time_ms is None or rebalance.time_ms in when
            ]
            assert found == tuple(then)
            read = {name for name, *_ in groups if name in heard.parameters}
            assert read == {rebalance.group_id for rebalance in found}
