"""What `kgroup check` says led to the rebalances of a group, and that busy groups have nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from random import Random
from typing import Any

import pytest

from kgroup.history.query.check import look_back
from kgroup.history.rebalance.cause import Commits, CommitSpans
from kgroup.history.rebalance.group_timeline import rebalances_of
from kgroup.history.rebalance.rebalance import (
    Cause,
    CauseCertainty,
    CauseKind,
    Participant,
    Rebalance,
)
from kgroup.history.rebalance.repetition import repetitions_of
from kgroup.history.sql.engine import DuckEngine
from kgroup.operation.check.check import with_consequences
from kgroup.operation.check.rule import Basis, Finding, Rule, Severity
from tests.examples import examples
from tests.history.past_check import evidence, of_generations
from tests.history.rebalance_case import Row, T, classic, commits, member
from tests.history.warehouse_files import write_rows

Generation = tuple[Row, list[Row]]
MINUTE_S = 60
LATE = {"rebalance_timeout_ms": 10_000, "client_host": "/10.0.3.7", "client_id": "billing-2"}


def look(
    folder: Path, generations: Sequence[Generation], more: Sequence[Row] = (), **limits: Any
) -> list[Finding]:
    rows = dict(of_generations(*generations))
    rows["offset_commits"] = [*rows["offset_commits"], *more]
    with DuckEngine(write_rows(folder, rows)) as engine:
        found = look_back(engine, evidence(**limits), basis=Basis.LOG).data
    return list(with_consequences(found))


def late_polls(count: int, every_s: float = 60) -> list[Generation]:
    """B leaves 10.2 s after each assignment, and returns under another id."""
    a = member("a1", "01")
    generations = []
    for n in range(count + 1):
        start = 10 + n * every_s
        generations.append(classic(2 * n + 1, start, a, member(f"b{n}", "23", **LATE)))
        if n < count:
            generations.append(classic(2 * n + 2, start + 10.2, a))
    return generations


def test_a_member_that_polls_too_late(tmp_path: Path) -> None:
    (finding,) = look(tmp_path, late_polls(6))
    assert (finding.code, finding.severity, finding.basis) == (
        Rule.LATE_POLL,
        Severity.WARNING,
        Basis.LOG,
    )
    assert finding.reason.startswith(
        "billing-2 at 10.0.3.7 polled too late 6 times within 6 minutes, since "
        "2023-11-14T22:13:40.200Z (max.poll.interval.ms: 10 seconds); it started 13 of 13 "
        "rebalances."
    )
    assert (finding.member_id, finding.client_id, finding.client_host) == (
        "b6",
        "billing-2",
        "/10.0.3.7",
    )
    assert (finding.timeout_ms, finding.event_count) == (10_000, 6)
    assert (finding.since_ms, finding.evidence_from_ms) == (T + 20_200, T + 20_200)
    assert finding.evidence_to_ms == T + 370_000
    assert finding.evidence_count == 12
    assert len(finding.evidence) == 10
    last = finding.evidence[-1]
    assert (last.offsets_partition, last.log_offset, last.time_ms) == (7, 3700, T + 370_000)
    assert "max.poll.interval.ms" in last.shows
    assert [each.log_offset for each in finding.evidence] == sorted(
        each.log_offset for each in finding.evidence
    )
    (storm,) = finding.consequences
    assert (storm.code, storm.severity) == (Rule.REBALANCE_STORM, Severity.WARNING)
    assert storm.reason.startswith("13 rebalances within 6 minutes, ")


def test_the_lag_of_a_late_member_may_be_known_in_part(tmp_path: Path) -> None:
    """Nothing is committed for its second partition."""
    known = evidence(end=9, committed=4)
    group = known.now.groups["g"]
    for count, lag in ((1, "5"), (2, "at least 5")):
        offsets = tuple(replace(row, member_id="b3") for row in group.offsets[:count])
        now = replace(known.now, groups={"g": replace(group, offsets=offsets)})
        with DuckEngine(write_rows(tmp_path / lag, dict(of_generations(*late_polls(3))))) as engine:
            (finding, _) = look_back(engine, replace(known, now=now), basis=Basis.LOG).data
        assert finding.reason.endswith(f" Its partitions have a lag of {lag} now.")


def crash_loop(count: int, every_s: float, *others: Row, **more: Any) -> list[Generation]:
    """B is replaced by another b again and again."""
    return [
        classic(n + 1, 10 + n * every_s, *others, member(f"b{n}", "23", **more))
        for n in range(count + 1)
    ]


def changing(count: int, every_s: float, first: int = 1, at_s: float = 10) -> list[Generation]:
    """B subscribes to one topic more, one topic less."""
    a = member("a1", "01")
    topics = (["orders"], ["orders", "payments"])
    return [
        classic(
            first + n, at_s + n * every_s, a, member("b1", "23", subscribed_topics=topics[n % 2])
        )
        for n in range(count + 1)
    ]


def expiring(count: int) -> tuple[list[Generation], list[Row]]:
    """B commits, is silent for its session timeout, and returns: as often as that."""
    a, made, own, generations = member("a1", "01"), [], [], []
    for n in range(count + 1):
        start = 10 + n * 300
        generations.append(
            classic(2 * n + 1, start, a, member(f"b{n}", "23", session_timeout_ms=45_000))
        )
        own += [start + second for second in range(1, 50, 5)]
        made += [start + second for second in range(1, 290, 5)]
        if n < count:
            generations.append(classic(2 * n + 2, start + 150, a))
    return generations, [*commits(2, *own), *commits(0, *made)]


A1 = member("a1", "01")


def test_each_cause_that_repeats(tmp_path: Path) -> None:
    expired, made = expiring(3)
    for number, (generations, more, code, words) in enumerate(
        [
            (
                crash_loop(3, 120, A1),
                (),
                Rule.RESTARTING_MEMBER,
                "client-b at 10.0.0.1 came back as a new member 3",
            ),
            (
                crash_loop(4, 30),
                (),
                Rule.RESTARTING_MEMBER,
                "client-b at 10.0.0.1 came back as a new member 4",
            ),
            (
                crash_loop(5, 30, A1, instance_id="i-1"),
                (),
                Rule.RESTARTING_MEMBER,
                "i-1 at 10.0.0.1 came back as a new member 5 times within 2 minutes",
            ),
            (changing(6, 30), (), Rule.CHANGING_SUBSCRIPTION, "client-b at 10.0.0.1 changed its"),
            (expired, made, Rule.EXPIRING_SESSION, "The session of client-b at 10.0.0.1 expired 3"),
            (late_polls(3, 900), (), Rule.LATE_POLL, "billing-2 at 10.0.3.7 polled too late 3"),
        ]
    ):
        findings = look(tmp_path / str(number), generations, more)
        assert [finding.code for finding in findings] == [code]
        assert findings[0].reason.startswith(words)
        assert findings[0].evidence


def twins(count: int) -> list[Generation]:
    """Two processes take an instance id from each other.

    The coordinator keeps the client id and host of the first.
    """
    return [
        classic(n + 1, 10 + n * 9, A1, member(f"b{n}", "23", instance_id="i-1"))
        for n in range(count + 1)
    ]


def test_an_instance_id_of_two_processes(tmp_path: Path) -> None:
    (finding,) = look(tmp_path, twins(8))
    assert (finding.code, finding.severity) == (Rule.SHARED_INSTANCE_ID, Severity.ERROR)
    assert " took its instance id from another process " in finding.reason
    assert finding.reason.startswith("i-1 at 10.0.0.")
    assert [each.code for each in finding.consequences] == [Rule.REBALANCE_STORM]


def test_a_member_of_the_consumer_protocol_keeps_its_id() -> None:
    """Each time it leaves late, and returns: as many events as departures."""
    cause = Cause(
        CauseKind.POLLED_LATE,
        CauseCertainty.INFERRED,
        "late",
        "b",
        client_id="billing-2",
        client_host="/10.0.3.7",
        timeout_ms=10_000,
    )
    unknown: dict[str, Any] = dict.fromkeys(field.name for field in fields(Rebalance))
    epochs = [
        Rebalance(
            **unknown
            | {
                "group_type": "consumer",
                "time_ms": T + n * 60_000,
                "log_offset": n,
                "members": (),
                "causes": (cause,) if n % 2 else (),
            }
        )
        for n in range(6)
    ]
    (only,) = repetitions_of(epochs, count=5, within_ms=600_000)
    assert (only.kind, only.count, len(only.occurrences)) == (CauseKind.POLLED_LATE, 3, 3)


def test_a_crashed_member_beside_its_next_self_is_one() -> None:
    """In a group with epochs the old member stays until its session expires."""
    unknown: dict[str, Any] = dict.fromkeys(field.name for field in fields(Rebalance))

    def who(number: int) -> Participant:
        return Participant(f"b{number}", None, "billing", "/10.0.0.1")

    def restart(number: int) -> Cause:
        kind, certainty = CauseKind.RESTARTED, CauseCertainty.INFERRED
        return Cause(
            *(kind, certainty, "restarted", f"b{number}"),
            client_id="billing",
            client_host="/10.0.0.1",
            before_member_id=f"b{number - 1}",
        )

    epochs = [
        Rebalance(
            **unknown
            | {
                "group_type": "consumer",
                "time_ms": T + n * 10_000,
                "log_offset": n,
                "members": (who(n // 2), who(n // 2 + 1)) if n % 2 else (who(n // 2),),
                "causes": (restart(n // 2),) if n and not n % 2 else (),
            }
        )
        for n in range(8)
    ]
    (only,) = repetitions_of(epochs, count=5, within_ms=600_000)
    assert (only.kind, only.count) == (CauseKind.RESTARTED, 3)


def test_missing_generations_are_noted(tmp_path: Path) -> None:
    rows = of_generations(classic(1, 1, A1), classic(40, 600, A1), classic(42, 700, A1))
    with DuckEngine(write_rows(tmp_path, rows)) as engine:
        *_, note = look_back(engine, evidence(), basis=Basis.LOG).notes
    assert note.startswith("No record of 39 generations of 'g', so the cause is unknown: ")


def test_when_the_last_member_left(tmp_path: Path) -> None:
    rows = of_generations(classic(1, 1, A1), classic(2, 60))
    with DuckEngine(write_rows(tmp_path, rows)) as engine:
        assert look_back(engine, evidence(), basis=Basis.LOG).emptied_ms == {"g": T + 60_000}
        assert look_back(engine, evidence()).emptied_ms == {}, "a warehouse may be old"
    rows = of_generations(classic(1, 1, A1), classic(2, 60), classic(3, 90, A1))
    with DuckEngine(write_rows(tmp_path / "again", rows)) as engine:
        assert look_back(engine, evidence(), basis=Basis.LOG).emptied_ms == {}


def rolling(
    names: str, every_s: float, times: int = 1, *, static: bool = False, **more: Any
) -> list[Generation]:
    """Each member leaves and returns, one after the other, as often as that."""

    def new(name: str, time: int) -> Row:
        instance = {"instance_id": f"i-{name}"} if static else {}
        return member(f"{name}{time}", name_owns(name), **instance, **more)

    running = {name: new(name, 0) for name in names}
    generations, number, at_s = [classic(1, 5, *running.values())], 1, 3600.0
    for time in range(1, times + 1):
        for name in names:
            there = [running[other] for other in names if other != name]
            running[name] = new(name, time)
            for members in (there, list(running.values())):
                number += 1
                generations.append(classic(number, at_s, *members))
                at_s += every_s
    return generations


def name_owns(name: str) -> str:
    return str("abcdefgh".index(name))


def joining(names: str, every_s: float) -> list[Generation]:
    members = [member(f"{name}0", name_owns(name)) for name in names]
    return [classic(n, n * every_s, *members[:n]) for n in range(1, len(names) + 1)]


HEALTHY: Mapping[str, list[Generation]] = {
    "a rolling deployment": rolling("abcdef", 10),
    "a rolling deployment, rolled back": rolling("abcdef", 10, times=2),
    "a rolling deployment of one member": rolling("a", 10, times=2),
    "pods with one client id": rolling("abcdef", 10, times=2, client_id="consumer-billing-1"),
    "static members": rolling("abc", 20, times=2, static=True),
    "a slow rolling deployment": rolling("abcd", 300, times=2),
    "scale out": joining("abcdefgh", 3),
    "scale in": [
        (row | {"generation_id": 9 - row["generation_id"]}, members)
        for row, members in joining("abcdefgh", 3)
    ],
    "the coordinator moved": [
        classic(1, 1, A1),
        classic(2, 60, A1, log_leader_epoch=1),
        classic(3, 120, A1, log_leader_epoch=2),
    ],
    "new topics of a pattern": [*changing(0, 1), *changing(4, 60, first=2, at_s=3600)],
    "one late poll": late_polls(1),
    "a restart each hour": crash_loop(12, 3600, A1),
}


@pytest.mark.parametrize("name", HEALTHY)
def test_busy_groups_have_no_finding(tmp_path: Path, name: str) -> None:
    assert look(tmp_path, HEALTHY[name]) == []


@pytest.mark.parametrize("seed", range(examples(10)))
def test_random_deployments_have_no_cause(seed: int) -> None:
    """Each member restarts at most twice, in any order, on the same host or on another one."""
    random = Random(seed)
    names = [f"{number}" for number in range(random.randint(1, 8))]
    is_static, has_own_ids = random.random() < 0.3, random.random() < 0.5
    ids, at_ms = dict.fromkeys(names, 0), T

    def row(name: str, host: str) -> Row:
        client_id = f"billing-{name}" if has_own_ids else "billing"
        instance_id = f"i-{name}" if is_static else None
        return member(f"m{name}-{ids[name]}", "", client_id=client_id, instance_id=instance_id) | {
            "client_host": host
        }

    there = {name: row(name, f"/10.0.0.{name}") for name in names}
    versions = [dict(there)]
    for name in random.sample(names * 2, random.randint(0, 2 * len(names))):
        ids[name] += 1
        host = there[name]["client_host"]
        if random.random() < 0.3:
            host = f"/10.0.1.{ids[name]}"
        if random.random() < 0.7:
            versions.append({key: each for key, each in there.items() if key != name})
        there = there | {name: row(name, host)}
        versions.append(dict(there))
    rows, members = list[Row](), dict[int, list[Row]]()
    for number, version in enumerate(versions, 1):
        at_ms += random.randint(1000, 60_000)
        row_of, own = classic(number, (at_ms - T) / 1000, *version.values())
        rows.append(row_of | {"value_json": None})
        members[row_of["log_offset"]] = own
    found = rebalances_of(("c", "g", 0), rows, members, Commits(CommitSpans()), {})
    assert len(found) == len(versions)
    assert repetitions_of(found, count=5, within_ms=600_000) == []


def test_a_member_is_named_once(tmp_path: Path) -> None:
    """Whose session expires returns as a new member: that is no restart besides."""
    generations, made = expiring(5)
    (finding,) = look(tmp_path, generations, made)
    assert (finding.code, finding.event_count) == (Rule.EXPIRING_SESSION, 5)


def test_several_members_are_one_finding(tmp_path: Path) -> None:
    first, second = late_polls(3), late_polls(4)
    both = [
        classic(
            row["generation_id"],
            (row["time_ms"] - T) / 1000,
            *members,
            *(replace_name(each) for each in members if each["member_id"].startswith("b")),
        )
        for row, members in second
    ]
    (finding,) = look(tmp_path, both)
    assert "; so did billing-3 at 10.0.3.7, 4 times; " in finding.reason
    assert finding.event_count == 8
    assert first


def replace_name(row: Row) -> Row:
    return row | {"member_id": f"c{row['member_id']}", "client_id": "billing-3"}


def test_a_cause_is_as_severe_as_what_follows(tmp_path: Path) -> None:
    (cause,) = look(tmp_path, late_polls(3, 900))
    worse = replace(
        cause,
        code=Rule.STUCK_PARTITION,
        severity=Severity.ERROR,
        event_count=None,
        caused_by=Rule.LATE_POLL,
    )
    (found,) = with_consequences([worse, cause])
    assert (found.code, found.severity) == (Rule.LATE_POLL, Severity.ERROR)
    assert [each.code for each in found.consequences] == [Rule.STUCK_PARTITION]
    assert list(with_consequences([worse])) == [worse], "the rule of the cause was not checked"
