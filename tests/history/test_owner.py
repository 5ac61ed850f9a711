"""Who owned a partition: each case is rows of `assignments`, and what follows from them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import orjson
import pytest

from kgroup.errors import NotFoundError, UsageError
from kgroup.history.query.owner import Owner, owners, timeline
from kgroup.history.query.past_group import PastGroups
from kgroup.history.sql.engine import DuckEngine
from kgroup.sample import sample_log_dir
from tests.examples import examples
from tests.history.owner_story import STORY, T, generation, interval
from tests.history.past_log import LOGS, expected_groups
from tests.history.random_history import RandomHistory
from tests.history.recorded import Ask, engine_of_log, log_of, time_of
from tests.history.warehouse_files import write_rows


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DuckEngine]:
    rows = {
        "assignments": [*STORY, interval("x", 0, None, partition=4)],
        "group_generations": [generation(second) for second in (5, 10, 90)],
    }
    with DuckEngine(write_rows(tmp_path_factory.mktemp("rows"), rows)) as engine:
        yield engine


def said(row: Owner) -> tuple[str, str | None, float | None, float | None]:
    def seconds(time_ms: int | None) -> float | None:
        return None if time_ms is None else (time_ms - T) / 1000

    return row.status, row.member_id, seconds(row.since_ms), seconds(row.until_ms)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("second", "expected", "reason"),
    [
        (4.999, ("unknown", None, None, 5), "before its first record"),
        (5, ("nobody", None, 5, 10), "no member had owned it yet"),
        (10, ("owned", "a", 10, 20), None),
        (19.999, ("owned", "a", 10, 20), None),
        (20, ("owned", "b", 20, 30), None),
        (30, ("nobody", None, 30, 40), "its owner had left"),
        (39.999, ("nobody", None, 30, 40), "its owner had left"),
        (40, ("owned", "c", 40, 50), None),
        (55, ("nobody", None, 50, 60), "its owner had released it"),
        (70, ("nobody", None, 70, None), "the group had been deleted"),
        (1000, ("nobody", None, 70, None), "the group had been deleted"),
    ],
)
def test_one_instant(
    engine: DuckEngine, second: float, expected: tuple[Any, ...], reason: str | None
) -> None:
    at_ms = T + int(second * 1000)
    report = owners(engine, "orders", 3, at_ms, at_ms)
    assert [said(row) for row in report.data] == [expected]
    found = report.data[0].reason
    assert found is None if reason is None else reason in (found or "")
    # the last record is the generation at 90 seconds
    assert len(report.notes) == (second > 90)


def test_stretch_of_time_has_no_hole(engine: DuckEngine) -> None:
    report = owners(engine, "orders", 3, T + 25_000, T + 60_000)
    assert [said(row) for row in report.data] == [
        ("owned", "b", 20, 30),
        ("nobody", None, 30, 40),
        ("owned", "c", 40, 50),
        ("nobody", None, 50, 60),
    ]
    report = owners(engine, "orders", 3, T, T + 100_000)
    times = [said(row)[2:] for row in report.data]
    assert times[0] == (None, 5)
    assert times[-1] == (70, None)
    assert all(before[1] == after[0] for before, after in pairwise(times))


def test_owner_has_what_the_table_tells(engine: DuckEngine) -> None:
    row = owners(engine, "orders", 3, T + 20_000, T + 20_000).data[0]
    assert (row.group_id, row.cluster, row.generation_id) == ("g", "test", 2)
    assert (row.client_id, row.client_host, row.ended_by) == ("client of b", "/10.0.0.1", "gone")


def test_partition_that_is_owned_still_is_so_behind_the_last_record(engine: DuckEngine) -> None:
    report = owners(engine, "orders", 4, T + 500_000, T + 500_000)
    assert [said(row) for row in report.data] == [("owned", "x", 0, None)]
    assert "known up to 2023-11-14T22:14:50.000Z" in report.notes[0]


@pytest.mark.slow
def test_every_group_has_its_story(tmp_path: Path) -> None:
    rows = {
        "assignments": [
            interval("a", 0, None),
            interval("s2", 1, 9, "gone", group_id="shared", group_type="share"),
            interval("s1", 2, 8, "gone", group_id="shared", group_type="share"),
        ],
        "group_generations": [generation(0)],
        "consumer_group_epochs": [generation(1, "shared")],
    }
    with DuckEngine(write_rows(tmp_path, rows)) as engine:
        at_ms = T + 5000
        both = owners(engine, "orders", 3, at_ms, at_ms)
        one = owners(engine, "orders", 3, at_ms, at_ms, group_id="shared")
        late = owners(engine, "orders", 3, T + 9000, T + 9000, group_id="shared")
        with pytest.raises(NotFoundError, match="group 'g' is not known to have owned"):
            owners(engine, "orders", 4, at_ms, at_ms, group_id="g")
    assert [(row.group_id, row.member_id) for row in both.data] == [
        ("g", "a"),
        ("shared", "s2"),
        ("shared", "s1"),
    ]
    assert one.data == both.data[1:]
    assert [said(row) for row in late.data] == [("nobody", None, 9, None)]


def test_times_that_the_log_does_not_have_are_unknown(tmp_path: Path) -> None:
    # Kafka 0.9 writes GroupMetadata without times.
    rows = {"assignments": [interval("a", None, None), interval("b", None, None, "gone")]}
    with DuckEngine(write_rows(tmp_path, rows)) as engine:
        report = owners(engine, "orders", 3, T, T)
    assert {(row.status, row.member_id) for row in report.data} == {
        ("unknown", "a"),
        ("unknown", "b"),
    }


def test_an_end_without_a_time_is_unknown(tmp_path: Path) -> None:
    rows = {"assignments": [interval("a", 0, None, "moved"), interval("b", 9, None)]}
    with DuckEngine(write_rows(tmp_path, rows)) as engine:
        early = owners(engine, "orders", 3, T + 5000, T + 5000)
    assert [(row.status, row.member_id) for row in early.data] == [("unknown", "a")]


def test_commits_do_not_tell_of_members(tmp_path: Path) -> None:
    """Before the first record that names members nothing is known of them."""
    rows = {
        "assignments": [interval("a", 9, None)],
        "group_generations": [generation(5)],
        "offset_commits": [{"group_id": "g", "topic": "orders", "partition": 3, "time_ms": T}],
    }
    with DuckEngine(write_rows(tmp_path, rows)) as engine:
        report = owners(engine, "orders", 3, T, T + 10_000)
    assert [said(row) for row in report.data] == [
        ("unknown", None, None, 5),
        ("nobody", None, 5, 9),
        ("owned", "a", 9, None),
    ]


def test_what_cannot_be_read_is_unknown_and_not_nobody(tmp_path: Path) -> None:
    rows = {"assignments": [interval("a", 0, 10, to_log_offset=10)]}
    with DuckEngine(write_rows(tmp_path, rows)) as engine:
        report = owners(engine, "orders", 3, T + 20_000, T + 20_000)
    assert [said(row) for row in report.data] == [("unknown", None, 10, None)]
    assert "cannot be read" in (report.data[0].reason or "")


def test_streams_task_reads_the_partitions_of_its_topics(tmp_path: Path) -> None:
    topology = {
        "subtopologies": [
            {
                "subtopologyId": "1",
                "sourceTopics": ["orders"],
                "repartitionSourceTopics": [{"name": "by-user"}],
            },
            {"subtopologyId": "2", "sourceTopics": ["other"], "repartitionSourceTopics": []},
        ]
    }
    task = {"group_type": "streams", "topic": None, "role": "active"}
    rows = {
        "assignments": [
            interval("a", 0, None, subtopology="1", **task),
            interval("b", 0, None, subtopology="2", **task),
            interval("c", 0, None, subtopology="1", **task | {"role": "standby"}),
        ],
        "consumer_group_epochs": [
            generation(0)
            | {
                "type": "StreamsGroupTopology",
                "value_json": orjson.dumps({"version": 0, "data": topology}).decode(),
            }
        ],
    }
    with DuckEngine(write_rows(tmp_path, rows)) as engine:
        for topic in ("orders", "by-user"):
            report = owners(engine, topic, 3, T, T)
            found = [(row.member_id, row.topic, row.subtopology) for row in report.data]
            assert found == [("a", topic, "1")]


def test_topic_is_found_by_its_id(tmp_path: Path) -> None:
    rows = {"assignments": [interval("a", 0, None, topic=None, topic_id="UX8f3nSqTZm0cRj1mY4Q9A")]}
    with DuckEngine(write_rows(tmp_path, rows)) as engine:
        report = owners(engine, "UX8f3nSqTZm0cRj1mY4Q9A", 3, T, T)
        with pytest.raises(NotFoundError):
            owners(engine, "orders", 3, T, T)
    assert [row.member_id for row in report.data] == ["a"]


def test_what_was_only_committed_has_no_owner_that_is_known(tmp_path: Path) -> None:
    commit = {"group_id": "by-hand", "topic": "orders", "partition": 3, "time_ms": T}
    with (
        DuckEngine(write_rows(tmp_path, {"offset_commits": [commit]})) as engine,
        pytest.raises(NotFoundError, match="'by-hand' committed its offsets"),
    ):
        owners(engine, "orders", 3, T, T)
    other = {"group_id": "another", "topic": "orders", "partition": 2, "time_ms": T}
    with (
        DuckEngine(write_rows(tmp_path, {"offset_commits": [commit, other]})) as engine,
        pytest.raises(NotFoundError, match=r"owned partition 3 of topic orders$"),
    ):
        owners(engine, "orders", 3, T, T, group_id="another")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("topic", "partition", "group_id", "reason"),
    [
        ("orders-typo", 0, None, "topic 'orders-typo' is not in the records; did you mean 'ord"),
        ("orders-typo", 0, "order-service", "topic 'orders-typo' is not in the records; did"),
        ("nosuch", 0, None, "'nosuch' is not in the records; choose one of invoices, order-"),
        ("orders", 6, None, "no group is known .* partition 6 of topic orders; the highest .* 5$"),
        ("orders", 0, "order-servise", "'order-servise' is not in the records; did you mean 'or"),
        ("shipments", 0, "order-service", "'order-service' is not known .* of topic shipments$"),
    ],
)
def test_what_is_like_that_which_is_not_there(
    recorded_engine: Ask, topic: str, partition: int, group_id: str | None, reason: str
) -> None:
    with pytest.raises(NotFoundError, match=reason):
        owners(recorded_engine(sample_log_dir()), topic, partition, T, T, group_id=group_id)


def test_clusters_are_kept_apart(tmp_path: Path) -> None:
    first = write_rows(tmp_path, {"assignments": [interval("a", 0, None)]}, cluster="east")
    second = write_rows(tmp_path, {"assignments": [interval("b", 0, None)]}, cluster="west")
    files = {"assignments": first["assignments"] + second["assignments"]}
    with DuckEngine(files) as engine:
        with pytest.raises(UsageError, match="east, west; choose one with --cluster"):
            owners(engine, "orders", 3, T, T)
        report = owners(engine, "orders", 3, T, T, cluster="west")
    assert [(row.cluster, row.member_id) for row in report.data] == [("west", "b")]


# --- timeline ------------------------------------------------------------------------------------


def test_timeline_gives_the_rows_of_the_group(engine: DuckEngine) -> None:
    report = timeline(engine, "g")
    found = [(row.partition, row.member_id, row.from_ms, row.to_ms) for row in report.data]
    assert found == [
        *((3, row["member_id"], row["from_ms"], row["to_ms"]) for row in STORY),
        (4, "x", T, None),
    ]


@pytest.mark.parametrize(
    ("since", "until", "members"),
    [
        (20, 40, "bx"),
        (19.999, 40.001, "abcx"),
        (50, None, "cx"),
        (None, 10, "x"),
        (None, 10.001, "ax"),
        (70, 200, "x"),
    ],
)
def test_timeline_of_some_time(
    engine: DuckEngine, since: float | None, until: float | None, members: str
) -> None:
    report = timeline(
        engine,
        "g",
        since_ms=None if since is None else T + int(since * 1000),
        until_ms=None if until is None else T + int(until * 1000),
    )
    assert "".join(row.member_id for row in report.data) == members


def test_timeline_says_what_has_no_times(tmp_path: Path) -> None:
    rows = {
        "assignments": [
            interval("a", None, None),
            interval("b", 0, None, "moved"),
            interval("c", 9, None),
        ],
        "group_generations": [generation(0)],
    }
    with DuckEngine(write_rows(tmp_path, rows)) as engine:
        report = timeline(engine, "g")
    assert [(row.member_id, row.is_timed) for row in report.data] == [
        ("b", False),
        ("c", True),
        ("a", False),
    ]
    assert report.notes == ("The log has no times for 2 of the intervals, only offsets.",)


def test_timeline_says_why_it_is_empty(engine: DuckEngine) -> None:
    report = timeline(engine, "g", topic="orders", until_ms=T)
    assert report.data == ()
    assert "owned other partitions" in report.notes[0]
    with pytest.raises(NotFoundError, match="group 'h' is not in the records"):
        timeline(engine, "h")
    with pytest.raises(NotFoundError, match="not in cluster west, but in test"):
        timeline(engine, "g", cluster="west")


# ---- who owned a partition: compared with a replay of all records up to each instant


Owned = dict[tuple[str, int], set[tuple[str, str]]]


def replayed(directory: Path, at_ms: int, names: dict[str, str]) -> Owned:
    """Give groups and members by topic and partition, as coordinators had them."""
    found: Owned = defaultdict(set)
    for group_id, group in expected_groups(log_of(directory), at_ms, names).items():
        for member in group.members:
            for partition in member.assignment or ():
                topic = partition.topic or partition.topic_id
                assert topic is not None
                found[topic, partition.partition].add((group_id, member.member_id))
    return found


def check(engine: DuckEngine, directory: Path) -> None:
    log = log_of(directory)
    times = sorted({time_of(record) or 0 for records in log.values() for record in records} - {0})
    names = dict(PastGroups(engine, "c", times[-1]).read().image.topic_names)
    step = max(1, len(times) // examples(2, 6))
    partitions = sorted(replayed(directory, times[-1], names))[: examples(3, 6)]
    for at_ms in times[step // 2 :: step]:
        expected = replayed(directory, at_ms, names)
        for topic, partition in partitions:
            try:
                rows = owners(engine, topic, partition, at_ms, at_ms).data
            except NotFoundError:
                rows = ()
            found = {
                (row.group_id, row.member_id)
                for row in rows
                if row.status == "owned" and row.group_type != "streams"
            }
            assert found == expected.get((topic, partition), set())


@pytest.mark.slow
@pytest.mark.parametrize("name", ["log-dir", "kafka-2.8.2"])
def test_recorded_owners(name: str, recorded_engine: Ask) -> None:
    directory = next(path for path in LOGS if path.name == name)
    check(recorded_engine(directory), directory)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(examples(1)))
def test_random_owners(seed: int, tmp_path: Path) -> None:
    RandomHistory(seed).write(tmp_path / "log")
    with engine_of_log(tmp_path / "log", tmp_path / "w") as engine:
        check(engine, tmp_path / "log")
