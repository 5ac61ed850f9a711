"""`kgroup simulate`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click
from click.core import ParameterSource

from kgroup.cli.command_group import Command
from kgroup.cli.option.common import ID, examples, output_options
from kgroup.cli.option.file import STDIN, standard_input
from kgroup.cli.option.source import Source, missing_source, source_options
from kgroup.cli.option.suggestion import suggest_groups
from kgroup.cli.output.context import Output, draw, drawing_width, json_errors, show
from kgroup.cli.output.progress import ProgressLine
from kgroup.cli.shell.suggestion import suggest_scenarios
from kgroup.errors import ExitStatus, InputError, near_names
from kgroup.limited_input import read_limited

if TYPE_CHECKING:
    from kgroup.operation.report import Report
    from kgroup.simulation.scenario.scenario import Scenario

_LARGEST_SCENARIO = 1 << 24
"""Maximum size of a scenario in bytes; one of 100,000 members has about 10 million."""
_SMALLER = "simulate fewer members or topics"
_VERSION_ADVICE = "; version in a scenario file changes that"


@click.command(
    "simulate",
    cls=Command,
    epilog=examples(
        "kgroup simulate --list",
        "kgroup simulate two-members",
        "kgroup simulate member-crashes --grid",
        "kgroup simulate rolling-restart --runs 100",
        "kgroup simulate coordinator-fails --diagram",
        "kgroup simulate --from order-service --sample --crash order-service-1",
        "kgroup simulate scenario.toml --until stable -o json",
        "kgroup simulate --from billing -b kafka-1:9092 --crash billing-3-0a4f --grid",
    ),
)
@click.argument("scenario", required=False, shell_complete=suggest_scenarios)
@click.option("--list", "lists", is_flag=True, help="List the scenarios that come with kgroup.")
@click.option(
    "--from",
    "group",
    metavar="GROUP",
    type=ID,
    shell_complete=suggest_groups,
    help="Start with the current state of this group; SCENARIO adds events.",
)
@source_options(required=False)
@click.option(
    "--crash",
    metavar="MEMBER",
    multiple=True,
    help="With --from: crash this member at the start, named by its id or the start of it (longer "
    "than the client id), instance id, client id or host. Repeatable.",
)
@click.option(
    "--stop",
    metavar="MEMBER",
    multiple=True,
    help="With --from: stop this member at the start. Repeatable.",
)
@click.option("--until", type=click.Choice(["stable"]), help="End as soon as the group is stable.")
@click.option(
    "--seed",
    metavar="N",
    type=click.IntRange(0, 2**63 - 1),
    default=0,
    show_default=True,
    help="Seed of everything random, such as delays.",
)
@click.option(
    "--runs",
    metavar="N",
    type=click.IntRange(1, 100_000),
    default=1,
    show_default=True,
    help="Simulate N times, each time with the next seed, and show the distribution of the "
    "results.",
)
@click.option("--grid", is_flag=True, help="Draw which member reads which partition over time.")
@click.option("--diagram", is_flag=True, help="Write Mermaid diagrams of requests and states.")
@output_options("simulation.EVENT_COLUMNS", {"--list": "simulation.SCENARIO_COLUMNS"})
def command(
    scenario: str | None,
    lists: bool,
    group: str | None,
    source: Source,
    crash: Sequence[str],
    stop: Sequence[str],
    until: str | None,
    seed: int,
    runs: int,
    grid: bool,
    diagram: bool,
    output: Output,
) -> ExitStatus:
    """Simulate crashes and restarts, and how long partitions stop.

    SCENARIO is a TOML file, - for standard input, or the name of a scenario that comes with kgroup
    (--list). The coordinator and the consumers are state machines on a virtual clock that answer as
    Kafka's do; nothing is sent to a cluster.
    """
    _check(scenario, group, source, lists=lists, steps=(*crash, *stop))
    played = grid or diagram or runs > 1 or until is not None
    if lists and (played or crash or stop):
        raise click.UsageError("--list simulates nothing; leave out the options of a simulation")
    if grid and diagram:
        raise click.UsageError("--grid and --diagram are two drawings; leave out one of them")
    if grid or diagram:
        drawing = "--grid" if grid else "--diagram"
        output.check_drawing(drawing)
        if runs > 1:
            raise click.UsageError(f"{drawing} draws one run; leave out --runs")
    from kgroup.operation.report import Report
    from kgroup.operation.simulate import shipped_scenarios, simulate
    from kgroup.render import simulation as render

    if lists:
        return show(shipped_scenarios(), output, render.scenarios_page)
    with json_errors(output):
        read = _scenario(scenario, group, source, crash, stop)
        progress = ProgressLine(writes_rows=False)
        simulated = simulate(
            read.data[0],
            seed=seed,
            runs=runs,
            until_stable=until is not None,
            on_progress=progress.show_simulated,
        )
        progress.clear()
        report = Report(simulated.data, read.errors, (*read.notes, *simulated.notes))
    if grid:
        return draw(report, render.grid_text(report.data[0], drawing_width()))
    if diagram:
        return draw(report, render.diagram_text(report.data[0]))
    return show(report, output, render.simulations_page, sheet=render.events_sheet)


def _check(
    scenario: str | None, group: str | None, source: Source, *, lists: bool, steps: Sequence[str]
) -> None:
    """Check the combination of options."""
    if lists and scenario is not None:
        raise click.UsageError("name one scenario, or give --list; found both")
    if lists and group is not None:
        raise click.UsageError("name a group (--from), or give --list; found both")
    if scenario == "":
        raise click.UsageError("SCENARIO is empty; name a file or a scenario of --list")
    if not lists and scenario is None and group is None:
        raise click.UsageError("name one scenario, --from a group, or give --list; found neither")
    if group is not None and source == Source():
        raise missing_source()
    given = click.get_current_context().get_parameter_source("timeout_s")
    if group is None and (source.is_named or given is ParameterSource.COMMANDLINE):
        raise click.UsageError(
            "a source requires --from GROUP; leave out the source, or name a group"
        )
    if group is None and steps:
        raise click.UsageError("--crash and --stop require --from GROUP; a scenario has steps")


def _scenario(
    scenario: str | None,
    group: str | None,
    source: Source,
    crash: Sequence[str],
    stop: Sequence[str],
) -> Report[Scenario]:
    """Read the scenario to simulate."""
    from kgroup.operation.group_scenario import assumptions, group_as_it_is, with_steps
    from kgroup.operation.printed_command import Reach, kgroup_command, reaching
    from kgroup.operation.report import Report, first_names
    from kgroup.operation.simulate import scenario_names
    from kgroup.simulation.scenario.file import read_scenario
    from kgroup.simulation.scenario.scenario import Action

    if group is None:
        assert scenario is not None
        return Report((read_scenario(*_read(scenario)),))
    with source.that_has([group]).open() as opened:
        report = group_as_it_is(opened, group)
        plan = kgroup_command("plan", (group,), reaching(Reach.SOURCE))
    steps = [(Action.CRASH, member) for member in crash] + [
        (Action.STOP, member) for member in stop
    ]
    existing, notes = with_steps(report.data[0], steps), report.notes
    if scenario is not None:
        own, existing = existing, read_scenario(*_read(scenario), existing)
        if scenario in scenario_names():  # its description is about another group
            existing = replace(existing, about=None)
            joined = [name for name in existing.members if name not in own.members]
            if joined:
                note = (
                    f"the scenario's own members join the group: {first_names(joined)}. For a "
                    f"rolling restart of the group's members, run: {plan}"
                )
                notes = (*notes, note)
    assumed = assumptions(existing, advice=_VERSION_ADVICE)
    return replace(report, data=(existing,), notes=(*notes, *assumed))


def _read(scenario: str) -> tuple[str, str]:
    """Return the text of a scenario, and its name for messages."""
    from kgroup.operation.simulate import scenario_names, shipped_scenario

    if scenario in scenario_names():
        return shipped_scenario(scenario), scenario
    path = Path(scenario)
    try:
        if path == STDIN:
            data = read_limited(standard_input(), _LARGEST_SCENARIO, _SMALLER)
        else:
            with path.open("rb") as file:
                data = read_limited(file, _LARGEST_SCENARIO, _SMALLER)
    except FileNotFoundError:
        raise InputError(
            f"{scenario}: expected a file or a scenario of --list, found neither"
            f"{near_names(scenario, scenario_names())}",
            path=scenario,
        ) from None
    except IsADirectoryError:
        raise InputError(
            f"{scenario}: expected a file or a scenario of --list, found a folder", path=scenario
        ) from None
    except OSError as error:
        raise InputError(f"{scenario}: {error.strerror or error}", path=scenario) from None
    except InputError as error:
        raise InputError(f"{scenario}: {error}", path=scenario) from None
    try:
        return data.decode(), scenario
    except UnicodeDecodeError as error:
        from kgroup.source.json_fault import utf8_fault

        raise InputError(f"{scenario}: {utf8_fault(error)}", path=scenario) from None
