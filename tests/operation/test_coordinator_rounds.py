"""Dry runs of share and streams groups whose next assignments were recorded."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from kgroup.model.group import Group, TaskAssignment
from kgroup.model.snapshot import Snapshot
from kgroup.operation.assign.dry_run import Run, settled
from kgroup.operation.assign.group import find_group, read_group
from kgroup.operation.assign.what_if import Changes, changed
from kgroup.source.base import GroupSource
from kgroup.source.snapshot.source import snapshot_source
from tests.broker.client.rounds import read_rounds
from tests.broker.coordinator_rounds import FILE

Owned = Mapping[str, set[tuple[str, ...]]]
Rounds = Sequence[tuple[str, bool | None, bool]]


def source_of(snapshot: Any) -> GroupSource:
    return snapshot_source(msgspec.convert(snapshot, Snapshot))


def foretold(line: Mapping[str, Any]) -> Run:
    spec = read_group(source_of(line["before"]), line["group"]).data[0]
    changes = msgspec.convert(line["options"], Changes)
    return settled(changed(spec, replace(changes, standbys=line["standbys"])))


def _with_standbys(
    active: Sequence[tuple[str, int]], standby: Sequence[tuple[str, int]]
) -> set[tuple[str, ...]]:
    return {
        (*map(str, task), kind)
        for kind, tasks in (("active", active), ("standby", standby))
        for task in tasks
    }


def recorded(group: Group) -> Owned:
    owned = {}
    for member in group.members:
        partitions = [(at.topic or "", at.partition) for at in member.assignment or ()]
        tasks = member.tasks or TaskAssignment()
        active, standby = (
            [(task.subtopology_id, task.partition) for task in of]
            for of in (tasks.active, tasks.standby)
        )
        owned[member.member_id] = _with_standbys([*partitions, *active], standby)
    return owned


def of_run(run: Run) -> Owned:
    """Return what members have that do not depend on unknown ids."""
    assert run.last.assignment is not None
    return {
        member.member_id: _with_standbys(
            run.last.assignment[member.member_id],
            (run.last.standby or {}).get(member.member_id, ()),
        )
        for member in run.last.members
        if not member.depends_on_id
    }


def results() -> Iterator[tuple[str, bool | None, bool]]:
    """Yield the kind of each round, whether it ended as foretold, and whether a warning said so.

    The result of a round is None if all members depend on unknown ids, or are new.
    """
    for line in read_rounds(FILE):
        run = foretold(line)
        after = recorded(find_group(source_of(line["after"]), line["group"])[1])
        known = {name: own for name, own in of_run(run).items() if name in after}
        is_warned = any(text.startswith("The actual") for text in run.last.warnings)
        matched = all(own == after[name] for name, own in known.items())
        yield line["kind"], matched if known else None, is_warned


@pytest.fixture(scope="module")
def rounds() -> Rounds:
    return list(results())


def test_no_round_differs_without_a_warning(rounds: Rounds) -> None:
    assert [kind for kind, matched, warned in rounds if matched is False and not warned] == []


def test_nearly_all_rounds_are_foretold(rounds: Rounds) -> None:
    counts = Counter((matched, warned) for _, matched, warned in rounds)
    print(dict(counts))
    matched = counts[True, False] + counts[True, True]
    assert matched >= 0.85 * (matched + counts[False, True])
    assert counts[True, True] <= 0.35 * matched


def test_every_change_is_among_the_rounds(rounds: Rounds) -> None:
    words = {(kind.split()[0], kind.split()[-1]) for kind, _, _ in rounds}
    changes = ("join", "join-two", "leave", "restart", "swap")
    assert words >= {(of, word) for of in ("share", "streams") for word in changes}
