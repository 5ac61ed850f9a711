"""Simulations: the timeline, its totals, and drawings of it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import replace
from typing import Any, TypeAlias

from kgroup.operation.simulate import ShippedScenario
from kgroup.render.cell import Column, Kind, age, columns_of, mermaid_label, ranges, visible
from kgroup.render.sheet import Either, Part, Prose, Sheet, Title, facts, section
from kgroup.simulation.timeline import (
    Event,
    Ownership,
    PartitionTotal,
    SimulatedRebalance,
    Simulation,
    Standstill,
)

EVENT_COLUMNS = columns_of(
    "kgroup.simulation.timeline.Event",
    Column("seed", Kind.NUMBER, "seed of the run"),
    Column("time_ms", Kind.NUMBER),
    Column("actor", Kind.NAME),
    Column("event", Kind.TEXT),
    Column("answer", Kind.TEXT),
    Column("error", Kind.TEXT),
    Column("state", Kind.TEXT),
    Column("generation_id", Kind.NUMBER),
    Column("partitions", Kind.TEXT),
)
_SHOWN = ("time", "actor", "event", "answer", "state", "generation_id", "partitions")
_KINDS = {"time": Kind.NUMBER, "generation_id": Kind.NUMBER, "actor": Kind.NAME}
_SHOWN_COLUMNS = tuple(Column(name, _KINDS.get(name, Kind.TEXT)) for name in _SHOWN)
_REBALANCES = tuple(
    Column(name, kind)
    for name, kind in (
        ("began", Kind.NUMBER),
        ("took", Kind.NUMBER),
        ("generation_id", Kind.NUMBER),
        ("cause", Kind.TEXT),
    )
)
_PARTITIONS = tuple(
    Column(name, kind)
    for name, kind in (
        ("partitions", Kind.TEXT),
        ("unowned", Kind.NUMBER),
        ("unread", Kind.NUMBER),
        ("read again", Kind.NUMBER),
        ("skipped", Kind.NUMBER),
    )
)
_RUNS = tuple(
    Column(name, Kind.TEXT if name == "of all runs" else Kind.NUMBER)
    for name in ("of all runs", "least", "50 %", "99 %", "most")
)
_LIMITS = (Column("limit", Kind.TEXT, "what a real cluster does and the simulation does not"),)
_FACTS = (Column("what", Kind.TEXT), Column("value", Kind.TEXT))
SCENARIO_COLUMNS = columns_of(
    "kgroup.operation.simulate.ShippedScenario",
    Column("name", Kind.NAME),
    Column("title", Kind.TEXT),
    Column("about", Kind.TEXT),
)
_SIGNS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
_NOBODY, _STILL, _SEVERAL, _OTHER = ".", "-", "*", "?"


def _time_text(time_ms: int) -> str:
    """Return a time since the start: ``1:02.345``."""
    return f"{time_ms // 60_000}:{time_ms // 1000 % 60:02}.{time_ms % 1000:03}"


def events_sheet(simulations: Sequence[Simulation]) -> Sheet:
    """Return a sheet with a row for each event of each run."""
    return Sheet(
        EVENT_COLUMNS,
        [
            (
                simulation.seed,
                event.time_ms,
                event.actor,
                event.event,
                event.answer,
                event.error,
                event.state,
                event.generation_id,
                _parts(event),
            )
            for simulation in simulations
            for event in simulation.events
        ],
    )


def scenarios_page(scenarios: Sequence[ShippedScenario]) -> Iterator[Part]:
    """Yield the names and titles of shipped scenarios."""
    yield Sheet.of(SCENARIO_COLUMNS, scenarios).select(("name", "title"))


def simulations_page(simulations: Sequence[Simulation]) -> Iterator[Part]:
    """Yield one run with its timeline, or what several runs have in common."""
    if not simulations:
        return
    first = simulations[0]
    yield Title(visible(first.title or "Simulation"))
    if first.about:
        yield Either(table=(Prose(first.about), "\n"))
    if len(simulations) > 1:
        yield _runs(simulations)
    else:
        yield from _run(first)
    if first.limits:  # with a page for people they are notes
        limits = facts(((limit,) for limit in first.limits), _LIMITS)
        yield Either(document=(*section("Not simulated", limits),))


def _run(run: Simulation) -> Iterator[Part]:
    yield Sheet(_SHOWN_COLUMNS, map(_shown, run.events)).without_blank()
    if run.rebalances:
        rebalances = Sheet(_REBALANCES, map(_rebalance, run.rebalances)).without_blank()
        yield from section("Rebalances", rebalances)
    yield from section("Partitions", Sheet(_PARTITIONS, _partition_rows(run.partitions)))
    yield from ("\n", facts(_facts(run), _FACTS))


def _shown(event: Event) -> tuple[object, ...]:
    return (
        _time_text(event.time_ms),
        event.actor,
        event.event,
        event.error or event.answer,
        event.state,
        event.generation_id,
        _parts(event),
    )


def _parts(event: Event) -> str | None:
    return None if event.partitions is None else ranges(sorted(event.partitions))


def _rebalance(rebalance: SimulatedRebalance) -> tuple[object, ...]:
    took = None if rebalance.end_ms is None else age(rebalance.end_ms - rebalance.begin_ms)
    return _time_text(rebalance.begin_ms), took, rebalance.generation_id, rebalance.cause


def _partition_rows(partitions: Iterable[PartitionTotal]) -> Iterator[tuple[object, ...]]:
    """Combine partitions of a topic with the same totals into one row."""
    alike: dict[PartitionTotal, list[PartitionTotal]] = defaultdict(list)
    for partition in partitions:
        alike[replace(partition, partition=0)].append(partition)
    for total, totals in alike.items():
        names = ranges([(total.topic, total.partition) for total in totals])
        times = age(total.unowned_ms), age(total.unread_ms)
        yield names, *times, total.read_again, total.skipped


def _facts(simulation: Simulation) -> Iterator[tuple[str, str]]:
    states = sorted(simulation.state_ms.items(), key=lambda partition: -partition[1])
    if states:
        yield "states", ", ".join(f"{state} {age(spent_ms)}" for state, spent_ms in states)
    yield "requests", ", ".join(f"{name} {n}" for name, n in simulation.requests.items())
    if simulation.refused_commits:
        refused = simulation.refused_commits.items()
        yield "refused commits", ", ".join(f"{error} {n}" for error, n in refused)
    yield "seed", str(simulation.seed)


def _runs(simulations: Sequence[Simulation]) -> Sheet:
    """Return the distribution of all counts over the runs."""
    rows: list[tuple[object, ...]] = []
    count = max(len(simulation.rebalances) for simulation in simulations)
    for number in range(count):
        begun = [
            simulation.rebalances[number]
            for simulation in simulations
            if number < len(simulation.rebalances)
        ]
        took = [
            rebalance.end_ms - rebalance.begin_ms
            for rebalance in begun
            if rebalance.end_ms is not None
        ]
        causes = sorted({rebalance.cause for rebalance in begun})
        rows.append((f"rebalance {number + 1} ({', '.join(causes)})", *_spread(took, age)))
    rows.append(
        ("rebalances", *_spread([len(simulation.rebalances) for simulation in simulations], str))
    )
    for name, field, join, write in (
        ("longest time without an owner", "longest_unowned_ms", max, age),
        ("longest time unread", "longest_unread_ms", max, age),
        ("records read again", "read_again", sum, str),
        ("records skipped", "skipped", sum, str),
    ):
        values_by_run = [
            [getattr(of, field) for of in simulation.partitions] for simulation in simulations
        ]
        known = [[value for value in values if value is not None] for values in values_by_run]
        rows.append((name, *_spread([join(values) for values in known if values], write)))
    return Sheet(_RUNS, rows)


def _spread(values: Sequence[int], write: Any) -> tuple[str | None, ...]:
    """Return the minimum, the median, the 99th percentile (nearest rank) and the maximum."""
    if not values:
        return (None,) * 4
    ordered = sorted(values)
    at = [0, (len(ordered) - 1) // 2, -(-len(ordered) * 99 // 100) - 1, len(ordered) - 1]
    return tuple(write(ordered[index]) for index in at)


# --- drawings ---------------------------------------------------------------------------------


def grid_text(simulation: Simulation, width: int) -> Iterator[str]:
    """Draw who reads which partition when: a line for each partition, a character for each period.

    Args:
        simulation: one run.
        width: width of a line, in characters.
    """
    owners = sorted({ownership.owner for ownership in simulation.ownerships})
    signs = {owner: _SIGNS[at] if at < len(_SIGNS) else _OTHER for at, owner in enumerate(owners)}
    labels = {total: f"{visible(total.topic)}-{total.partition}" for total in simulation.partitions}
    label_width = max(map(len, labels.values()), default=0)
    room = max(width - label_width - 2, 10)
    end_ms = max(simulation.end_ms, 1)
    owned, still = (
        _columns(spans, end_ms, room) for spans in (simulation.ownerships, simulation.standstills)
    )
    for partition, label in labels.items():
        at = partition.topic, partition.partition
        line = (_sign(owned[at][column], still[at][column], signs) for column in range(room))
        yield f"{label.ljust(label_width)}  {''.join(line)}\n"
    yield f"{'':{label_width}}  {_ruler(end_ms, room)}\n"
    legend = [f"{sign} {visible(owner)}" for owner, sign in signs.items() if sign != _OTHER]
    if (others := len(signs) - len(legend)) > 0:
        legend.append(f"{_OTHER} one of {others} more")
    marks = [f"{_NOBODY} nobody", f"{_STILL} owned, but not read", f"{_SEVERAL} more than one"]
    yield f"\n{', '.join([*legend, *marks])}\n"


_Columns: TypeAlias = Mapping[tuple[str, int], Mapping[int, Set[str]]]
"""Members in each column, by partition."""


def _columns(spans: Iterable[Ownership | Standstill], end_ms: int, room: int) -> _Columns:
    columns: dict[tuple[str, int], dict[int, set[str]]]
    columns = defaultdict(lambda: defaultdict(set))
    for span in spans:
        last_ms = end_ms if span.end_ms is None else span.end_ms
        first = min(max(-(-span.begin_ms * room // end_ms), 0), room - 1)
        stop = min(max(last_ms * room // end_ms, first + 1), room)
        for column in range(first, stop):
            columns[span.topic, span.partition][column].add(span.owner)
    return columns


def _sign(owners: Set[str], still: Set[str], signs: Mapping[str, str]) -> str:
    """Return the character for a partition with these owners, some of which do not read it."""
    if not owners:
        return _NOBODY
    reading = owners - still
    if len(reading) > 1:
        return _SEVERAL
    return signs[min(reading)] if reading else _STILL


def _ruler(end_ms: int, room: int) -> str:
    """Return times below their columns."""
    text = ""
    for at in range(0, room, 20):
        seconds = at * end_ms // room // 1000
        text = f"{text.ljust(at)}{seconds // 60}:{seconds % 60:02}"
    return text[:room]


def diagram_text(simulation: Simulation) -> Iterator[str]:
    """Yield Mermaid diagrams: who sent what to whom, and the states of the group.

    A group on ZooKeeper has no coordinator and no states.
    """
    yield "```mermaid\nsequenceDiagram\n"
    others = {event.actor for event in simulation.events} - {"coordinator"}
    ids = {name: f"p{at}" for at, name in enumerate(sorted(others))}
    for name, short in ids.items():
        yield f"    participant {short} as {mermaid_label(name)}\n"
    if simulation.transitions:
        ids["coordinator"] = "c"
        yield "    participant c as coordinator\n"
    for event in simulation.events:
        yield from _arrows(event, ids)
    yield "```\n"
    if not simulation.transitions:
        return
    yield "\n```mermaid\nstateDiagram-v2\n"
    for transition in simulation.transitions:
        times = f" : {transition.count} times" if transition.count > 1 else ""
        yield f"    {transition.before or '[*]'} --> {transition.after}{times}\n"
    yield "```\n"


def _arrows(event: Event, ids: Mapping[str, str]) -> Iterator[str]:
    actor, when = ids[event.actor], _time_text(event.time_ms)
    parts = _parts(event)
    text = " ".join(filter(None, (event.error or event.answer, parts)))
    if not event.event[:1].isupper() or "coordinator" not in ids:
        yield f"    Note over {actor}: {when} {mermaid_label(f'{event.event} {text}'.strip())}\n"
        return
    if event.answer == "waits":
        yield f"    {actor}->>c: {when} {event.event}\n"
    else:
        yield f"    c-->>{actor}: {when} {event.event}: {mermaid_label(text)}\n"
