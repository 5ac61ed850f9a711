"""The ends of the partitions of a cluster: how far back, and what is said of the rest."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from kgroup.history.build.recorded import build_from_recent, recorded
from kgroup.history.build.task import run_here
from kgroup.history.input import live_source
from kgroup.history.rebalance.query import rebalances
from kgroup.history.sql.engine import DuckEngine
from kgroup.model.offsets_partition import OFFSETS_TOPIC
from kgroup.model.problem import Problem
from kgroup.protocol.record.coordinator_record import encode_key, encode_value
from kgroup.source.config.client_config import client_config
from tests.columnar.log_writer import Plain, batch
from tests.operation.log_files import commit, group_metadata
from tests.source.broker_answers import metadata, topic
from tests.source.fake_broker import FakeBroker, fake_broker
from tests.source.fake_log import FakeLog, fetched

SECOND_MS = 1000
MIB = 1 << 20


def generations(group_id: str, count: int, *, padding: int) -> list[tuple[int, bytes]]:
    """A log of a group with generation N after N seconds, and commits of so many bytes."""
    batches = []
    for number in range(count):
        time_ms = SECOND_MS * (number + 1)
        made = group_metadata(2 * number, group_id, generation=number + 1, time_ms=time_ms)
        long = commit(2 * number + 1, "other", metadata="x" * padding, time_ms=time_ms)
        batches.append((2 * number + 1, batch([made, long])))
    return batches


@pytest.fixture
def broker(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeBroker]:
    """A broker of which ten generations are copied at once, and no more than needed."""
    for limit in ("FIRST_WINDOW", "LEAST_WINDOW"):
        monkeypatch.setattr(live_source, limit, 20)
    for limit in ("WINDOW_BYTES", "ALWAYS_BYTES"):
        monkeypatch.setattr(live_source, limit, 0)
    with fake_broker() as fake:
        fake.newest = {"Metadata": 4, "Fetch": 4, "ListOffsets": 2}
        yield fake


def serve(broker: FakeBroker, logs: Mapping[int, FakeLog]) -> None:
    """Lead these partitions, as `ListOffsets` of a time has it for records of a second each."""

    def offset(number: int, time_ms: int) -> int:
        log = logs[number]
        end = log.batches[-1][0] + 1 if log.batches else 0
        if time_ms < 0:
            return {-2: 0, -1: end}[time_ms]
        wanted = 2 * max(time_ms // SECOND_MS - 1, 0)
        return wanted if wanted < end else -1

    def list_offsets(request: Any) -> dict[str, Any]:
        rows = [
            {
                "partition_index": asked.partition_index,
                "error_code": 0,
                "timestamp": -1,
                "offset": offset(asked.partition_index, asked.timestamp),
            }
            for asked in request.topics[0].partitions
        ]
        return {"topics": [{"name": OFFSETS_TOPIC, "partitions": rows}]}

    broker.handlers = {
        "Metadata": metadata(broker, topic(OFFSETS_TOPIC, *(1 for _ in logs))),
        "ListOffsets": list_offsets,
        "Fetch": lambda request: fetched(request, lambda number: logs[number]),
    }


def ask(
    broker: FakeBroker, *, since_ms: int | None, budget: int
) -> tuple[dict[str, list[int]], tuple[str, ...], tuple[Problem, ...]]:
    """Return the generations found of each group, and what is said of the others."""
    config = client_config(environment={}, bootstrap_server=broker.bootstrap)
    build_from = build_from_recent(
        config, None, cluster="c", timeout_s=5, since_ms=since_ms, budget=budget
    )
    with (
        recorded(build_from, run_here, group_id=None, base=None) as (warehouse, report),
        DuckEngine(warehouse.files()) as engine,
    ):
        found: dict[str, list[int]] = {}
        for row in rebalances(engine).data:
            assert row.generation_id is not None
            found.setdefault(row.group_id, []).append(row.generation_id)
    return found, report.notes, report.errors


def test_all_of_short_partitions(broker: FakeBroker) -> None:
    serve(broker, {0: FakeLog(generations("a", 3, padding=10)), 1: FakeLog([])})
    assert ask(broker, since_ms=None, budget=MIB) == ({"a": [1, 2, 3]}, (), ())


def test_partitions_share_the_budget_and_keep_their_newest_records(broker: FakeBroker) -> None:
    """A short partition leaves the rest of its share; the note has the latest of the times."""
    logs = {
        0: FakeLog(generations("long", 400, padding=10_000)),
        1: FakeLog(generations("short", 5, padding=10)),
        2: FakeLog(generations("longer", 500, padding=10_000)),
    }
    serve(broker, logs)
    found, (note,), errors = ask(broker, since_ms=0, budget=2 * MIB)
    assert found["short"] == [1, 2, 3, 4, 5]
    first = {name: numbers[0] for name, numbers in found.items()}
    assert found["long"] == list(range(first["long"], 401))
    assert found["longer"] == list(range(first["longer"], 501))
    for name in ("long", "longer"):
        # about a hundred generations are a mebibyte, and no window is begun above it
        assert 90 <= len(found[name]) <= 125
    assert note == (
        f"Records before {_time(first['longer'])} in partitions 0, 2 of __consumer_offsets were "
        "not read (--log-budget): of groups there, the answer is complete only after that time."
    )
    assert errors == ()


def test_a_large_first_window_leaves_something_for_all(
    broker: FakeBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live_source, "FIRST_WINDOW", 2000)
    names = "abcdef"
    logs = [FakeLog(generations(name, 300, padding=10_000)) for name in names]
    serve(broker, dict(enumerate(logs)))
    for budget in (3 * MIB, 1):
        found, (note,), errors = ask(broker, since_ms=0, budget=budget)
        assert {name: numbers[-1] for name, numbers in found.items()} == dict.fromkeys(names, 300)
        latest = max(numbers[0] for numbers in found.values())
        assert note.startswith(f"Records before {_time(latest)} in partitions 0, 1, 2, 3, 4, 5 of ")
        assert errors == ()


def test_records_without_a_time_do_not_tell_from_when_on_an_answer_is_complete(
    broker: FakeBroker,
) -> None:
    timeless = [
        (at, batch([commit(at, "t", metadata="x" * 10_000, time_ms=-1)])) for at in range(300)
    ]
    serve(broker, {0: FakeLog(timeless), 1: FakeLog(generations("a", 300, padding=10_000))})
    found, (timed, untimed), errors = ask(broker, since_ms=0, budget=2 * MIB)
    assert timed.startswith(f"Records before {_time(found['a'][0])} in partition 1 of ")
    assert untimed.startswith("No record with a time was read in partition 0 of ")
    assert errors == ()


def test_what_began_before_the_budget_is_missing(broker: FakeBroker) -> None:
    """An owner of today may have got its partitions at any time before."""
    serve(broker, {0: FakeLog(generations("a", 300, padding=10_000))})
    found, notes, (error,) = ask(broker, since_ms=None, budget=MIB)
    assert (error.kind, error.offsets_partition, notes) == ("not-read", 0, ())
    assert error.reason == (
        f"Records before {_time(found['a'][0])} in partition 0 of __consumer_offsets were not read "
        "(--log-budget): the answer lacks rebalances before that time, and who got partitions in "
        "them."
    )


def test_older_records_than_asked_for(broker: FakeBroker) -> None:
    serve(broker, {0: FakeLog(generations("a", 100, padding=10)), 1: FakeLog([])})
    found, (note,), errors = ask(broker, since_ms=80 * SECOND_MS, budget=MIB)
    assert found["a"] == list(range(71, 101))
    assert note == f"What groups were before {_time(80)} is unknown: older records were not read."
    assert errors == ()


def test_groups_whose_records_tell_only_changes(broker: FakeBroker) -> None:
    """Their partition is read to its start, as far as the budget allows; else that is an error."""
    batches = generations("a", 100, padding=10_000)
    key = encode_key("ConsumerGroupMetadata", {"groupId": "modern"})
    value = encode_value("ConsumerGroupMetadata", 0, {"epoch": 7})
    batches.append((200, batch([Plain(200, 101 * SECOND_MS, key, value)])))
    serve(broker, {0: FakeLog(batches), 1: FakeLog(generations("b", 100, padding=10_000))})
    found, notes, errors = ask(broker, since_ms=90 * SECOND_MS, budget=4 * MIB)
    assert found["a"] == list(range(1, 101))
    assert found["b"] == list(range(81, 101))
    assert (len(notes), errors) == (1, ())
    found, _, (error,) = ask(broker, since_ms=90 * SECOND_MS, budget=MIB)
    assert len(found["a"]) < 100
    assert (error.kind, error.offsets_partition) == ("not-read", 0)
    assert error.reason.startswith(
        f"Records before {_time(found['a'][0])} in partition 0 of __consumer_offsets were not read "
        "(--log-budget): what members got before and have kept since is missing"
    )


def _time(seconds: int) -> str:
    return f"1970-01-01T00:{seconds // 60:02}:{seconds % 60:02}.000Z"
