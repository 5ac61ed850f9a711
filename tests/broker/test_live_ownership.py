"""Who owned what, as the log says, and as the consumers noted it themselves."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from kgroup.history.build.build import BuildFrom, build_from_files
from kgroup.history.build.recorded import build_from_recent, recorded
from kgroup.history.build.task import run_here
from kgroup.history.input import live_source
from kgroup.history.query.owner import timeline
from kgroup.history.rebalance.query import rebalances
from kgroup.history.sql.engine import DuckEngine
from kgroup.source.config.client_config import client_config
from tests.broker.live_groups import MODERN_CONFIG
from tests.broker.maven import version_tuple
from tests.broker.servers import Broker, broker
from tests.history.derived import decoded, derived, tables
from tests.record.clients import ASSIGNOR, java, join_java, make_topics
from tests.record.recording import Recording
from tests.record.session import Session
from tests.waiting import PATIENCE_S

Row = dict[str, Any]
Owned = frozenset[tuple[str, int]]

TOPICS = {"orders": 5, "payments": 3}
QUICK = {"session.timeout.ms": "15000", "heartbeat.interval.ms": "500"}
KINDS = {
    "range": {**QUICK, "partition.assignment.strategy": f"{ASSIGNOR}RangeAssignor"},
    "cooperative": {
        **QUICK,
        "partition.assignment.strategy": f"{ASSIGNOR}CooperativeStickyAssignor",
    },
    "modern": {"group.protocol": "consumer"},
}
"""Groups by name, and how their consumers are configured."""


@dataclass(frozen=True)
class Note:
    """What a consumer noted: when, as whom, in which generation or epoch it had what."""

    time_ms: int
    member_id: str
    generation: int
    owned: Owned


@dataclass
class Lives:
    """What consumers noted, by group.

    Attributes:
        notes: each whenever it was told what it has.
        rests: all at once, whenever nothing moved.
        rows: of `assignments`.
        told: member, generation and offset of each classic generation's record, and of each
            member's.
        answers: what the log directory, and then the live topic, says of the group's past.
    """

    notes: dict[str, list[Note]] = field(default_factory=dict)
    rests: dict[str, list[list[Note]]] = field(default_factory=dict)
    rows: dict[str, list[Row]] = field(default_factory=dict)
    told: dict[str, list[tuple[str | None, int, int]]] = field(default_factory=dict)
    answers: dict[str, list[tuple[Any, ...]]] = field(default_factory=dict)


class _Rounds:
    """Consumers of one group, in two JVMs, of which one is to crash."""

    def __init__(self, group: str, lives: Lives) -> None:
        self.group = group
        self._notes = lives.notes.setdefault(group, [])
        self._rests = lives.rests.setdefault(group, [])
        self._where: dict[str, Session] = {}

    def join(self, clients: Session, name: str, **config: str) -> None:
        full = f"{self.group}-{name}"
        join_java(clients, self.group, full, "orders,payments", **KINDS[self.group], **config)
        self._where[full] = clients

    def leave(self, name: str) -> None:
        full = f"{self.group}-{name}"
        self._keep(full)
        self._where.pop(full).call("leave", name=full)

    def crash(self, name: str) -> None:
        self._keep(f"{self.group}-{name}")
        del self._where[f"{self.group}-{name}"]

    def rest(self) -> None:
        """Wait until all partitions have an owner and nothing has moved for a second."""
        deadline, steady, before = time.monotonic() + PATIENCE_S, 0, None
        while steady < 5:
            notes = [self._diary(name)[-1] for name in self._where]
            state = [(note.member_id, note.generation, note.owned) for note in notes]
            every = sorted(partition for note in notes for partition in note.owned)
            is_whole = len(every) == len(set(every)) == sum(TOPICS.values())
            steady = steady + 1 if is_whole and state == before else 0
            before = state
            assert time.monotonic() < deadline, notes
            time.sleep(0.2)
        self._rests.append(notes)

    def end(self) -> None:
        for name in self._where:
            self._keep(name)

    def _keep(self, name: str) -> None:
        self._notes.extend(self._diary(name))

    def _diary(self, name: str) -> list[Note]:
        lines = self._where[name].call("diary", name=name).split("\n")
        return [_note(line) for line in lines]


def _note(line: str) -> Note:
    time_ms, member_id, generation, owned = line.split(" ")
    places = (each.rpartition("-") for each in owned.split(",") if each)
    return Note(
        int(time_ms),
        member_id,
        int(generation),
        frozenset((topic, int(number)) for topic, _, number in places),
    )


@pytest.fixture(scope="module", params=["4.3.1", "2.8.2"])
def lives(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Lives:
    version: str = request.param
    work = tmp_path_factory.mktemp("ownership")
    recording = Recording("live", work)
    is_modern = version_tuple(version) >= (4,)
    lives = Lives()
    config = {"group.initial.rebalance.delay.ms": "0"}
    if is_modern:
        config |= MODERN_CONFIG | {
            f"group.consumer.{word}session.timeout.ms": "15000" for word in ("", "min.")
        }
    with ExitStack() as stack:
        server = stack.enter_context(broker(version, work, config=config))
        stay = stack.enter_context(java(recording, server, "Consumers", "Producers"))
        crash = stack.enter_context(java(recording, server, "Consumers"))
        make_topics(recording, server, stay, TOPICS)
        groups = [
            _Rounds(name, lives)
            for name in ("range", "cooperative", *(["modern"] if is_modern else []))
        ]

        def rest() -> None:
            for group in groups:
                group.rest()

        for group in groups:
            group.join(stay, "one")
        rest()
        for group in groups:
            group.join(stay, "two", group_instance_id="pod-2")
            group.join(crash, "three")
        rest()
        for group in groups:
            group.crash("three")
        crash.halt()
        rest()
        for group in groups:
            group.join(stay, "four")
        rest()
        for group in groups:
            group.leave("one")
        rest()
        for group in groups:
            group.end()
        for folder in sorted(server.log_dir.glob("__consumer_offsets-*")):
            _derive(folder, server.log_dir, lives)
        for group in groups:
            lives.answers[group.group] = list(_answers(server, group.group))
    return lives


def _answers(server: Broker, group_id: str) -> Iterator[tuple[Any, ...]]:
    """Yield the answers of the log directory, of the live topic, and of parts of it."""
    files = _answer(build_from_files([str(server.log_dir)], None), group_id)
    yield files
    config = client_config(environment={}, bootstrap_server=server.bootstrap)
    build_from = build_from_recent(
        config, group_id, cluster=None, timeout_s=120, since_ms=None, budget=1 << 30
    )
    yield _answer(build_from, group_id)
    of_all = build_from_recent(
        config, None, cluster=None, timeout_s=120, since_ms=None, budget=1 << 30
    )
    yield _answer(of_all, group_id, only_group=False)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(live_source, "FIRST_WINDOW", 1)
        patch.setattr(live_source, "LEAST_WINDOW", 1)
        patch.setattr(live_source, "WINDOW_BYTES", 1)
        patch.setattr(live_source, "ALWAYS_BYTES", 0)
        yield _answer(build_from, group_id)
        yield _answer(of_all, group_id, only_group=False)
        # from the last rebalance on; of a consumer group all records are needed
        last_ms = files[0][-1].time_ms
        recent = build_from_recent(
            config, group_id, cluster=None, timeout_s=120, since_ms=last_ms, budget=1 << 30
        )
        yield _answer(recent, group_id)


def _answer(build_from: BuildFrom, group_id: str, *, only_group: bool = True) -> tuple[Any, ...]:
    kept = group_id if only_group else None
    with recorded(build_from, run_here, group_id=kept, base=None) as (warehouse, report):
        assert report.errors == ()
        with DuckEngine(warehouse.files()) as engine:
            return rebalances(engine, group_id).data, timeline(engine, group_id).data, report.notes


def _derive(folder: Path, log_dir: Path, lives: Lives) -> None:
    found = tables(decoded(folder))
    names = {
        path.read_text().split()[-1]: path.parent.name.rpartition("-")[0]
        for path in log_dir.glob("*/partition.metadata")
    }
    for row in derived(int(folder.name.rpartition("-")[2]), [found], names):
        lives.rows.setdefault(row["group_id"], []).append(row)
    for row in found["group_generations"].to_pylist():
        place = (None, row["generation_id"], row["log_offset"])
        lives.told.setdefault(row["group_id"], []).append(place)
    for row in found["consumer_group_epochs"].to_pylist():
        if row["type"] == "ConsumerGroupCurrentMemberAssignment":
            place = (row["member_id"], row["epoch"], row["log_offset"])
            lives.told.setdefault(row["group_id"], []).append(place)


def owned_at(rows: list[Row], member_id: str, log_offset: int) -> Owned:
    return frozenset(
        (row["topic"], row["partition"])
        for row in rows
        if row["member_id"] == member_id
        and row["from_log_offset"] <= log_offset
        and (row["to_log_offset"] is None or log_offset < row["to_log_offset"])
    )


def test_each_consumer_had_what_it_noted(lives: Lives) -> None:
    """In the generation that it noted; of epochs, in any: they go on beside what it is told."""
    for group, notes in lives.notes.items():
        assert len(notes) > 6
        for note in notes:
            offsets = [
                log_offset
                for member_id, generation, log_offset in lives.told[group]
                if member_id in (None, note.member_id)
                and (group == "modern" or generation == note.generation)
            ]
            assert note.owned in {
                owned_at(lives.rows[group], note.member_id, log_offset) for log_offset in offsets
            }, (group, note)


def test_at_rest_all_owners_are_those_who_noted_it(lives: Lives) -> None:
    for group, rests in lives.rests.items():
        assert len(rests) == 5
        for notes in rests:
            time_ms = min(note.time_ms for note in notes)
            owners = {
                (row["member_id"], row["topic"], row["partition"])
                for row in lives.rows[group]
                if row["from_ms"] <= time_ms and (row["to_ms"] is None or time_ms < row["to_ms"])
            }
            assert owners == {
                (note.member_id, *partition) for note in notes for partition in note.owned
            }


def test_the_live_topic_says_what_the_log_directory_says(lives: Lives) -> None:
    for group, (files, *live, recent) in lives.answers.items():
        assert len(files[0]) >= 5
        assert len(files[1]) >= 16
        for answer in live:
            assert answer[:2] == files[:2], group
            assert answer[2] == ()
        if group == "modern":
            assert recent[:2] == files[:2]
        else:
            first, *rest = recent[0]
            whole = files[0][len(files[0]) - len(recent[0]) :]
            assert len(whole) < len(files[0])
            assert rest == list(whole[1:])
            assert (first.time_ms, first.members) == (whole[0].time_ms, whole[0].members)
            assert (first.members_before, first.cause) == (None, "unknown")
            assert ["what the group was before" in note for note in recent[2]] == [True]


def test_members_are_told_apart_by_how_they_went(lives: Lives) -> None:
    for group, rows in lives.rows.items():
        ends = {(row["client_id"].rpartition("-")[2], row["ended_by"]) for row in rows}
        assert {("three", "gone"), ("one", "gone")} <= ends, group
        statics = {row["client_id"] for row in rows if row["instance_id"] == "pod-2"}
        assert statics == {f"{group}-two"}
        open_rows = [row for row in rows if row["to_log_offset"] is None]
        assert {row["client_id"] for row in open_rows} == {f"{group}-two", f"{group}-four"}
        assert len(open_rows) == sum(TOPICS.values())
