"""What `kgroup check` finds in a warehouse: each rule by rows written by hand, and nothing else."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from kgroup.errors import InputError, UsageError
from kgroup.history.query.check import look_back
from kgroup.history.sql.engine import DuckEngine
from kgroup.model.cluster import ClusterView
from kgroup.operation.check.check import Request, check
from kgroup.operation.check.look import Evidence, Look
from kgroup.operation.check.rule import Basis, Finding, Rule
from kgroup.operation.describe import describe
from kgroup.operation.report import Report
from kgroup.sample import sample_log_dir
from kgroup.source.log.source import LogDir
from tests.history.owner_story import interval
from tests.history.past_check import DAY_MS, NOW_MS, Rows, evidence, group, of_generations
from tests.history.past_log import T, commit, end
from tests.history.rebalance_case import A, B, classic, member
from tests.history.recorded import Ask
from tests.history.warehouse_files import write_rows
from tests.operation.sources import FakeSource

MINUTE_MS = 60_000


def found(
    folder: Path, rows: Rows, seen: Evidence | None = None, cluster: str | None = None
) -> Report[Finding]:
    with DuckEngine(write_rows(folder, rows)) as engine:
        return look_back(engine, seen or evidence(), cluster=cluster)


def flapping(
    first: int, count: int, every_s: float, others: str = ""
) -> list[tuple[Any, Sequence[Any]]]:
    """A member beside A and others comes and goes, under another id each time."""
    there = [A, *(member(f"{name}1", "") for name in others)]
    return [
        classic(first + n, (first + n) * every_s, *there, *[member(f"b{n}", "23")] * (n % 2))
        for n in range(count)
    ]


def test_a_member_that_comes_and_goes(tmp_path: Path) -> None:
    report = found(tmp_path, of_generations(*flapping(1, 6, 60)))
    (finding,) = report.data
    assert (finding.code, finding.basis, finding.group_id) == (
        Rule.REBALANCE_STORM,
        Basis.WAREHOUSE,
        "g",
    )
    assert finding.reason == (
        "6 rebalances within 5 minutes, since 2023-11-14T22:14:20.000Z; client-b was among "
        "the causes of 5 of them."
    )
    assert finding.since_ms == T + MINUTE_MS
    span = (T + 1, T + 6 * MINUTE_MS)
    assert (finding.evidence_from_ms, finding.evidence_to_ms) == span
    assert report.notes == (
        "Checked the past of cluster test from 2023-11-14T22:13:20.001Z to "
        "2023-11-14T22:19:20.000Z.",
    )


def replacing(
    count: int, every_s: float, instance_id: str | None = "i-1"
) -> list[tuple[Any, Sequence[Any]]]:
    """Two processes that take each other's place in generation 7: each time under a new id."""
    hosts = ("/10.0.0.1", "/10.0.0.2")
    return [
        classic(
            7,
            60 + n * every_s,
            member("a1", "01", instance_id="i-0"),
            member(f"b{n}", "23", instance_id=instance_id, client_host=hosts[n % 2]),
        )
        for n in range(count)
    ]


def test_two_processes_with_one_instance_id(tmp_path: Path) -> None:
    """In the records: one generation, and another member id each time."""
    (finding,) = found(tmp_path, of_generations(*replacing(51, 2))).data
    assert (finding.code, finding.basis, finding.group_id, finding.member_id) == (
        Rule.SHARED_INSTANCE_ID,
        Basis.WAREHOUSE,
        "g",
        "b50",
    )
    assert finding.reason == (
        "i-1 was replaced 50 times within 100 seconds in generation 7, since "
        "2023-11-14T22:14:20.000Z, on 10.0.0.1, 10.0.0.2."
    )
    assert finding.since_ms == T + MINUTE_MS


@pytest.mark.parametrize(
    ("generations", "limits"),
    [
        (replacing(5, 2), {}),  # restarted four times
        (replacing(51, 300), {}),  # every five minutes
        (replacing(51, 2, None), {}),  # dynamic members have ids of their own
        (replacing(51, 2), {"rebalances": 51}),
        ([classic(n, n, member(f"b{n}", "0", instance_id="i-1")) for n in range(60, 64)], {}),
    ],
)
def test_a_static_member_that_is_restarted(
    tmp_path: Path, generations: list[tuple[Any, Sequence[Any]]], limits: dict[str, Any]
) -> None:
    report = found(tmp_path, of_generations(*generations), evidence(**limits))
    assert Rule.SHARED_INSTANCE_ID not in {finding.code for finding in report.data}


def restart() -> list[tuple[Any, Sequence[Any]]]:
    """Two members leave and come back, one after the other: more rebalances than a storm wants."""
    new_a, new_b = member("a2", "01"), member("b2", "23")
    stages = [[A, B], [B], [B, new_a], [new_a], [new_a, new_b]]
    return [classic(n, n * 10, *members) for n, members in enumerate(stages, 41)]


@pytest.mark.parametrize(
    ("generations", "limits", "codes"),
    [
        (restart(), {}, []),
        (flapping(1, 6, 60, others="cdef"), {}, [Rule.REBALANCE_STORM]),
        ([classic(n, n * 60, A, B) for n in range(1, 7)], {}, [Rule.REBALANCE_STORM]),
        (flapping(1, 5, 60), {}, []),
        (flapping(1, 5, 60), {"rebalances": 4}, [Rule.REBALANCE_STORM]),
        (flapping(1, 6, 200), {}, []),
        (flapping(1, 6, 200), {"generations": 5}, [Rule.GENERATION_CHURN]),
        # compaction has left two records, and what the numbers say
        ([classic(1, 1, A), classic(102, 9000, A)], {}, [Rule.GENERATION_CHURN]),
        ([classic(1, 1, A), classic(100, 9000, A)], {}, []),
        # made anew
        ([classic(101, 1, A), classic(1, 9000, A)], {}, []),
        (flapping(1, 6, 60), {"past_ms": DAY_MS // 2 - 3 * MINUTE_MS}, []),
    ],
)
def test_how_often_groups_rebalance(
    tmp_path: Path,
    generations: Sequence[tuple[Any, Sequence[Any]]],
    limits: Mapping[str, Any],
    codes: Sequence[Rule],
) -> None:
    report = found(tmp_path, of_generations(*generations), evidence(**limits))
    assert [finding.code for finding in report.data] == codes


def test_churn_says_how_much_of_it_is_recorded(tmp_path: Path) -> None:
    rows = of_generations(classic(1, 1, A, B), classic(150, 9000, A, B), classic(151, 9900, A, B))
    (finding,) = found(tmp_path, rows).data
    assert finding.reason == (
        "151 rebalances within 1 day, up to generation 151; 3 are recorded, and 2 of these "
        "moved nothing."
    )


def test_a_commit_that_went_back(tmp_path: Path) -> None:
    """By the owner it is a warning; a reset, which nobody who owns it makes, is told, no more."""
    rows = {
        "offset_commits": [
            *(commit(at, offset) for at, offset in ((10, 50), (20, 30), (30, 40), (40, 5))),
            *(commit(at, offset, partition=1) for at, offset in ((11, 50), (41, 30))),
            *(commit(at, offset, partition=2) for at, offset in ((12, 50), (42, 30))),
        ],
        "assignments": [interval("a", 0, None, partition=0, from_log_offset=0, ended_by=None)],
        "tombstones": [
            {
                "offsets_partition": 7,
                "log_offset": 25,
                "group_id": "g",
                "type": "OffsetCommit",
                "topic": "orders",
                "partition": 2,
            }
        ],
    }
    data = found(tmp_path, rows).data
    told = [(finding.partition, finding.severity, finding.reason) for finding in data]
    assert told == [
        (
            0,
            "warning",
            "orders-0: a committed 5 at 2023-11-14T22:13:20.040Z, after 40; it was the last of 2 "
            "backward commits.",
        ),
        (
            1,
            "info",
            "orders-1: a client that did not own the partition committed 30 at "
            "2023-11-14T22:13:20.041Z, after 50.",
        ),
    ]
    assert {finding.code for finding in data} == {Rule.BACKWARD_COMMIT}


@pytest.mark.parametrize(
    ("seconds", "offsets", "ids", "severity", "ending"),
    [
        ((1, 2), (10, 3), "on", "info", ", after 10; the topic was deleted and created again."),
        # as Java's consumer does, which knows the new topic before it starts again
        (
            (1, 2, 3),
            (10, 10, 3),
            "onn",
            "info",
            ", after 10; the topic was deleted and created again.",
        ),
        ((1, 2, 99, 100), (10, 3, 5, 4), "onnn", "warning", ", after 5."),
        ((1, 2, 7200), (10, 3, 1), "onn", "warning", ", after 3."),
        ((1, 2, 3, 4), (10, 0, 50, 4), "onnn", "warning", ", after 50."),
        ((1, 2, 3), (10, 3, 5), "ooo", "warning", ", after 10."),
        ((1, 2, 3), (10, 3, 5), "oon", "warning", ", after 10."),
    ],
)
def test_a_commit_that_went_back_in_a_recreated_topic(
    tmp_path: Path,
    seconds: Sequence[int],
    offsets: Sequence[int],
    ids: str,
    severity: str,
    ending: str,
) -> None:
    commits = [
        commit(second * 1000, offset, topic_id=topic_id)
        for second, offset, topic_id in zip(seconds, offsets, ids, strict=True)
    ]
    owner = interval("a", 0, None, partition=0, from_log_offset=0, ended_by=None)
    (finding,) = found(tmp_path, {"offset_commits": commits, "assignments": [owner]}).data
    assert (finding.code, finding.severity) == (Rule.BACKWARD_COMMIT, severity)
    assert finding.reason.endswith(ending), finding.reason


def paused(*ends: tuple[int, int]) -> Rows:
    """Nothing was committed for 20 minutes; ends of the log were recorded at these minutes."""
    rows = [commit(1, 100, time_ms=T), commit(2, 150, time_ms=T + 20 * MINUTE_MS)]
    return {
        "offset_commits": rows,
        "log_ends": [end(at * MINUTE_MS, size) for at, size in ends],
        "assignments": [interval("a", 0, None, partition=0, from_log_offset=0)],
    }


@pytest.mark.parametrize(
    ("ends", "limits", "most"),
    [
        ([(5, 100)], {}, None),  # nothing was there to read
        ([], {}, None),  # nobody knows
        ([(5, 100), (10, 130), (15, 120), (25, 900)], {}, 30),
        ([(10, 130)], {"old_commit_ms": 20 * MINUTE_MS}, None),
    ],
)
def test_pauses_while_records_waited(
    tmp_path: Path, ends: Sequence[tuple[int, int]], limits: Mapping[str, Any], most: int | None
) -> None:
    data = found(tmp_path, paused(*ends), evidence(**limits)).data
    if most is None:
        assert data == ()
        return
    (finding,) = data
    assert finding.code is Rule.COMMIT_PAUSE
    assert (finding.topic, finding.partition, finding.member_id) == ("orders", 0, "a")
    assert finding.reason == (
        f"orders-0: nothing was committed for 20 minutes, since 2023-11-14T22:13:20.000Z, while "
        f"up to {most} records waited; its owner was a."
    )


@pytest.mark.parametrize(
    ("committed", "log_end", "ends", "lag"),
    [
        (100, 140, [(5, 100), (10, 110), (15, 120)], 10),
        (100, 140, [(5, 100)], None),  # it had read all
        (100, 120, [(10, 120)], None),  # nothing came
        (101, 140, [(10, 110)], None),  # it went on
        (100, None, [(10, 110)], None),  # where the log ends now, nobody tells
    ],
)
def test_a_partition_whose_lag_only_grows(
    tmp_path: Path,
    committed: int,
    log_end: int | None,
    ends: Sequence[tuple[int, int]],
    lag: int | None,
) -> None:
    rows = {
        "offset_commits": [commit(1, 100, time_ms=T)],
        "log_ends": [end(at * MINUTE_MS, size) for at, size in ends],
    }
    seen = evidence(end=log_end, committed=committed)
    data = found(tmp_path, rows, seen).data
    if lag is None:
        assert data == ()
        return
    (finding,) = data
    assert (finding.code, finding.offset, finding.member_id) == (Rule.STUCK_PARTITION, 100, "now")
    assert finding.since_ms == finding.evidence_from_ms == T + 10 * MINUTE_MS
    assert finding.evidence_to_ms == NOW_MS, "the look is part of it"
    assert finding.reason == (
        "orders-0: the committed offset has been 100 for 11 hours, and the lag grew from "
        f"{lag} to 40; its owner is now."
    )
    patient = evidence(end=log_end, committed=committed, stuck_ms=DAY_MS)
    assert found(tmp_path / "again", rows, patient).data == ()


def test_what_stands_still_since_long_ago(tmp_path: Path) -> None:
    """The last commit was before the time that is looked back on; another group has others."""
    rows = {
        "offset_commits": [
            commit(1, 100, time_ms=T),
            commit(2, 100, time_ms=NOW_MS - 1, group_id="other"),
        ],
        "log_ends": [end(11 * 60 * MINUTE_MS, 110)],
    }
    seen = evidence(end=140, committed=100, past_ms=2 * 60 * MINUTE_MS)
    (finding,) = found(tmp_path, rows, seen).data
    assert finding.code is Rule.STUCK_PARTITION
    unknown = {**rows, "offset_commits": rows["offset_commits"][1:]}
    assert found(tmp_path / "unknown", unknown, seen).data == ()


def test_which_cluster_is_meant(tmp_path: Path) -> None:
    """The one looked at, or the only one, or the one that is named."""
    files = write_rows(tmp_path, {"offset_commits": [commit(1, 9), commit(2, 1)]}, cluster="east")
    west = write_rows(tmp_path, {"offset_commits": [commit(1, 9)]}, cluster="west")
    files["offset_commits"] += west["offset_commits"]
    seen = evidence()
    ours = Evidence(seen.now, cluster=ClusterView("east", None, {}, {}))
    with DuckEngine(files) as engine:
        with pytest.raises(UsageError, match="several clusters: east, west; choose one with --clu"):
            look_back(engine, seen)
        assert len(look_back(engine, seen, cluster="east").data) == 1
        assert look_back(engine, seen, cluster="west").data == ()
        assert len(look_back(engine, ours).data) == 1
    with DuckEngine(west) as engine:
        assert look_back(engine, ours).data == ()
    with DuckEngine({}) as engine, pytest.raises(InputError, match="has no commits yet"):
        look_back(engine, seen)


@pytest.mark.parametrize("now_ms", [T - 1, T + 2 * DAY_MS])
def test_a_warehouse_of_another_time(tmp_path: Path, now_ms: int) -> None:
    rows = {"offset_commits": [commit(1, 9), commit(2, 1)]}
    report = found(tmp_path, rows, evidence(now_ms=now_ms))
    assert report.data == ()
    assert "none is within the period to check" in report.notes[0]


def test_what_is_seen_counts_more_than_what_was(tmp_path: Path) -> None:
    """One finding where both say the same; findings of the past are known by a baseline too."""
    rows = {"offset_commits": [commit(1, 9), commit(2, 1)]}
    source = FakeSource(group(committed=9))

    def go_back() -> None:
        source.replace(group(committed=1))

    with DuckEngine(write_rows(tmp_path, rows)) as engine:

        def checked(pause: Callable[[], object] | None, **request: Any) -> Sequence[Finding]:
            past = lambda seen: look_back(engine, seen)  # noqa: E731
            rules = frozenset({Rule.BACKWARD_COMMIT})
            asked = Request(rules=rules, **request)
            return check(source, asked, lambda: NOW_MS, pause, past).report.data

        (finding,) = checked(None)
        assert finding.basis is Basis.WAREHOUSE
        assert checked(None, known=frozenset({finding.key})) == ()
        (finding,) = checked(go_back)
        assert finding.basis is Basis.LOOKS


def test_the_recorded_groups_did_nothing_wrong(recorded_engine: Ask) -> None:
    """Their members started one after another, which are many rebalances at once; one is slow."""
    engine = recorded_engine(sample_log_dir())
    report = describe(LogDir([sample_log_dir()]), [])
    groups = {description.group.group_id: description for description in report.data}
    times = [o.commit_timestamp_ms or 0 for description in report.data for o in description.offsets]
    seen = Evidence(Look(max(times), groups))
    found = {(finding.group_id, finding.code) for finding in look_back(engine, seen).data}
    assert found == {("billing", Rule.LATE_POLL), ("billing", Rule.REBALANCE_STORM)}
