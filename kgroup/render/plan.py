"""Plans of migrations, and which migrations make sense: tables, a runbook, a diagram."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from kgroup.operation.plan.advice import GroupAdvice, ListedTarget, Proposal
from kgroup.operation.plan.plan import Compared, Plan, PlanStep, SettingChange
from kgroup.operation.plan.verify import StepCheck
from kgroup.render.cell import (
    GROUP,
    PARTS,
    Column,
    Kind,
    age,
    cell,
    columns_of,
    mermaid_label,
    visible,
)
from kgroup.render.sheet import Sheet, prose_text, sheet_text, title_text

_FORECAST = "kgroup.operation.plan.plan.Forecast"
STEP_COLUMNS = columns_of(
    _FORECAST,
    GROUP,
    Column("step", Kind.NUMBER, "number of the step; none where the plan has no steps"),
    Column("title", Kind.TEXT, "what is done, or why nothing is"),
    Column("restarted", Kind.NUMBER, "members that are restarted"),
    Column("rebalances", Kind.NUMBER),
    Column("moved", Kind.NUMBER),
    Column("stopped", Kind.NUMBER),
    Column("longest_stop_ms", Kind.AGE),
    Column("stopped_ms", Kind.AGE),
    Column("most_partitions", Kind.NUMBER),
    Column("read_again", Kind.NUMBER),
    Column("skipped", Kind.NUMBER),
)
_CONDITIONS = tuple(
    Column(name, Kind.TEXT, is_prose=True)
    for name in ("what must hold", "verdict", "found", "check")
)
_ASSUMED = (Column("assumed", Kind.TEXT),)
_FORECASTS = (
    Column("of", Kind.TEXT),
    Column("rebalances", Kind.NUMBER),
    Column("moved", Kind.NUMBER),
    Column("stopped", Kind.NUMBER),
    Column("longest stop", Kind.NUMBER),
    Column("most at one", Kind.NUMBER),
    Column("read again", Kind.NUMBER),
    Column("skipped", Kind.NUMBER),
    Column("failed", Kind.NUMBER),
)


CHECK_COLUMNS = columns_of(
    "kgroup.operation.plan.verify.StepCheck",
    GROUP,
    Column("step", Kind.NUMBER),
    Column("title", Kind.TEXT),
    Column("progress", Kind.TEXT),
    Column("missing", Kind.TEXT),
)
_CHECKED = (
    Column("group_id", Kind.NAME),
    Column("what should be", Kind.TEXT),
    Column("progress", Kind.TEXT),
    Column("found", Kind.TEXT),
)


def steps_sheet(plans: Sequence[Plan]) -> Sheet:
    """Make a row for each step of each plan, and one that says why a plan has none."""
    return Sheet(STEP_COLUMNS, [row for plan in plans for row in _rows(plan)])


def _rows(plan: Plan) -> Iterator[tuple[object, ...]]:
    names = [column.name for column in STEP_COLUMNS[4:]]
    if not plan.steps:
        yield plan.group_id, None, plan.summary, None, *(None for _ in names)
    for step in plan.steps:
        numbers = (getattr(step.forecast, name, None) for name in names)
        yield plan.group_id, step.number, step.title, len(step.restarted), *numbers


def plans_text(plans: Sequence[Plan], form: str, *, headers: bool, terminal: bool) -> Iterator[str]:
    """Write plans as runbooks."""
    for number, plan in enumerate(plans):
        if number:
            yield "\n"
        yield from _plan(plan, form, headers=headers, terminal=terminal)


def _plan(plan: Plan, form: str, *, headers: bool, terminal: bool) -> Iterator[str]:
    goal = "" if plan.goal is None else f" {plan.goal}"
    title = f"{cell(plan.group_id, Kind.NAME)}: {plan.target}{visible(goal)}"
    yield from title_text(title, form, level=2, terminal=terminal)
    yield from summary_lines(plan.summary, form, terminal=terminal)
    yield "\n"
    yield from title_text("Preconditions", form, level=3, terminal=terminal)
    conditions = Sheet(
        _CONDITIONS,
        [
            (precondition.text, precondition.verdict, precondition.found, precondition.check)
            for precondition in plan.preconditions
        ],
    )
    yield from sheet_text(conditions.without_blank(), form, headers=headers, terminal=terminal)
    for step in plan.steps:
        yield "\n"
        title = f"Step {step.number}: {visible(step.title)}"
        yield from title_text(title, form, level=3, terminal=terminal)
        parts = Sheet(PARTS, list(_parts(step)))
        yield from sheet_text(parts, form, headers=form != "table", terminal=terminal)
    if plan.forecast is None:
        return
    yield "\n"
    yield from title_text("Forecast", form, level=3, terminal=terminal)
    forecasts = Sheet(_FORECASTS, [_forecast(forecast) for forecast in _forecasts(plan)])
    yield from sheet_text(forecasts.without_blank(), form, headers=headers, terminal=terminal)
    if said := list(_said(plan)):
        yield "\n"
        parts = Sheet(PARTS, said)
        yield from sheet_text(parts, form, headers=form != "table", terminal=terminal)
    if plan.assumed:
        yield "\n"
        assumed = Sheet(_ASSUMED, [(each,) for each in plan.assumed])
        yield from sheet_text(assumed, form, headers=True, terminal=terminal)


def summary_lines(text: str, form: str, *, terminal: bool) -> Iterator[str]:
    """Write a summary: prose beside tables, else a table of its own."""
    if form == "table":
        yield from prose_text(text, terminal=terminal)
    else:
        parts = Sheet(PARTS, [("summary", text)])
        yield from sheet_text(parts, form, headers=True, terminal=terminal)


def _parts(step: PlanStep) -> Iterator[tuple[str, str]]:
    for setting in step.settings:
        yield "set", _setting(setting)
    for number, action in enumerate(step.actions, 1):
        yield f"do {number}", action
    if step.restarted:
        yield "restart", ", ".join(step.restarted)
    for command in step.commands:
        yield "run", command
    for seen in step.see:
        yield "see", seen
    if step.back is not None:
        yield "go back", step.back


def _setting(setting: SettingChange) -> str:
    of = "" if setting.member is None else f"{setting.member}: "
    was = "" if setting.before is None else f" (was {setting.before})"
    if setting.after is None:
        return f"{of}no {setting.name}{was}"
    return f"{of}{setting.name}={setting.after}{was}"


def _forecasts(plan: Plan) -> Iterator[Compared]:
    for step in plan.steps:
        if step.forecast is not None:
            yield Compared(f"step {step.number}", step.forecast)
    if plan.forecast is not None and len(plan.steps) > 1:
        yield Compared("all steps", plan.forecast)
    if plan.naive is not None:
        yield Compared("without the plan", plan.naive.forecast)


def _said(plan: Plan) -> Iterator[tuple[str, str]]:
    """Say what has no place in rows of numbers."""
    if plan.naive is not None:
        yield "without the plan", f"{plan.naive.text}."
    for forecast in _forecasts(plan):
        if failed := forecast.forecast.failed:
            ended = ", ".join(f"{name}: {error}" for name, error in failed.items())
            yield forecast.text, f"Programs end: {ended}."
        if not forecast.forecast.is_at_rest:
            yield forecast.text, "The group does not rest in the end: there is more to come."


def _forecast(compared: Compared) -> tuple[object, ...]:
    forecast = compared.forecast
    longest_ms = forecast.longest_stop_ms
    return (
        compared.text,
        forecast.rebalances,
        forecast.moved,
        forecast.stopped,
        None if longest_ms is None else age(longest_ms),
        forecast.most_partitions,
        forecast.read_again,
        forecast.skipped,
        len(forecast.failed) or None,
    )


def checks_sheet(checks: Sequence[StepCheck]) -> Sheet:
    """Make a row for each group."""
    return Sheet(
        CHECK_COLUMNS,
        [
            (
                check.group_id,
                check.step,
                check.title,
                check.progress,
                ",".join(check.missing) or None,
            )
            for check in checks
        ],
    )


def checks_text(
    checks: Sequence[StepCheck], form: str, *, headers: bool, terminal: bool
) -> Iterator[str]:
    """Write how far groups are, and what of it is missing."""
    for each in checks:
        title = f"{cell(each.group_id, Kind.NAME)}: step {each.step} is {each.progress}"
        yield from title_text(title, form, level=2, terminal=terminal)
    if not checks:
        return
    yield "\n"
    rows = [
        (check.group_id, condition.text, condition.progress, condition.found)
        for check in checks
        for condition in check.conditions
    ]
    yield from sheet_text(Sheet(_CHECKED, rows), form, headers=headers, terminal=terminal)


def diagram_text(plan: Plan) -> Iterator[str]:
    """Write a Mermaid diagram: the steps, where one looks before the next, and the ways back."""
    yield "```mermaid\nflowchart TD\n"
    yield f'    begin["{mermaid_label(f"{plan.group_id}: {plan.assignor or plan.type}")}"]\n'
    last = "begin"
    for number, precondition in enumerate(plan.preconditions):
        label = mermaid_label(f"{precondition.text} {precondition.verdict}")
        yield f'    {last} --- c{number}{{{{"{label}"}}}}\n'
    for step in plan.steps:
        name, look = f"s{step.number}", f"v{step.number}"
        yield f'    {last} --> {name}["{step.number}. {mermaid_label(step.title)}"]\n'
        yield f'    {name} --> {look}{{"verify --step {step.number}"}}\n'
        if step.back is not None:
            yield f'    {look} -. "{mermaid_label(step.back)}" .-> {last}\n'
        last = look
    yield f'    {last} --> done(["{mermaid_label(plan.goal or str(plan.target))}"])\n'
    yield "```\n"


TARGET_COLUMNS = columns_of(
    "kgroup.operation.plan.advice.ListedTarget",
    Column("target", Kind.TEXT),
    Column("meaning", Kind.TEXT),
    Column("command", Kind.TEXT),
)
_COMPARED = ("rebalances", "moved", "stopped_ms", "read_again", "skipped")
ADVICE_COLUMNS = (
    GROUP,
    *columns_of(
        "kgroup.operation.plan.advice.Proposal",
        Column("target", Kind.TEXT),
        Column("goal", Kind.TEXT),
        Column("why", Kind.TEXT, "what is gained, or why nothing is"),
        Column("against", Kind.TEXT),
        Column("command", Kind.TEXT),
    ),
    *(
        replace(column, name=f"{column.name}_{when}", meaning=column.description, form=form)
        for column in STEP_COLUMNS
        if column.name in _COMPARED
        for when, form in (("now", "without it"), ("then", "with it"))
    ),
)
_COMPARED_COLUMNS = (
    Column("of", Kind.TEXT),
    Column("rebalances", Kind.NUMBER),
    Column("moved", Kind.NUMBER),
    Column("stopped", Kind.NUMBER),
    Column("longest stop", Kind.NUMBER),
    Column("all stops", Kind.NUMBER),
    Column("read again", Kind.NUMBER),
    Column("skipped", Kind.NUMBER),
)


def targets_sheet(targets: Sequence[ListedTarget]) -> Sheet:
    """Make a row for each target."""
    return Sheet.of(TARGET_COLUMNS, targets)


def advice_sheet(groups: Sequence[GroupAdvice]) -> Sheet:
    """Make a row for each target of each group, and one for a group without any."""
    blank = (None,) * len(ADVICE_COLUMNS[6:])
    rows: list[tuple[object, ...]] = []
    for group in groups:
        for proposal in group.proposals:
            named = (
                group.group_id,
                proposal.target,
                proposal.goal,
                proposal.why,
                proposal.against,
                proposal.command,
            )
            rows.append((*named, *_numbers(proposal)))
        if not group.proposals:
            why = " ".join((group.summary, *group.reasons))
            rows.append((group.group_id, None, None, why, None, None, *blank))
    return Sheet(ADVICE_COLUMNS, rows)


def _numbers(proposal: Proposal) -> Iterator[object]:
    for name in _COMPARED:
        for side in (proposal.now, proposal.then):
            yield None if side is None else getattr(side.forecast, name)


def advice_text(
    groups: Sequence[GroupAdvice], form: str, *, headers: bool, terminal: bool
) -> Iterator[str]:
    """Write a part for each group."""
    for number, group in enumerate(groups):
        if number:
            yield "\n"
        title = f"Group {cell(group.group_id, Kind.NAME)}"
        yield from title_text(title, form, level=2, terminal=terminal)
        yield from summary_lines(group.summary, form, terminal=terminal)
        for proposal in group.proposals:
            yield "\n"
            yield from _proposal(proposal, form, headers=headers, terminal=terminal)
        if group.reasons:
            yield "\n"
            rows = Sheet(PARTS, [("else", reason) for reason in group.reasons])
            yield from sheet_text(rows, form, headers=form != "table", terminal=terminal)


def _proposal(proposal: Proposal, form: str, *, headers: bool, terminal: bool) -> Iterator[str]:
    goal = "" if proposal.goal is None else f" {proposal.goal}"
    title = visible(f"{proposal.target}{goal}")
    yield from title_text(title, form, level=3, terminal=terminal)
    against = [] if proposal.against is None else [("but", f"{_sentence(proposal.against)}.")]
    parts = Sheet(PARTS, [("why", proposal.why), *against, ("run", proposal.command)])
    yield from sheet_text(parts, form, headers=form != "table", terminal=terminal)
    compared = [each for each in (proposal.now, proposal.then) if each is not None]
    if compared:
        if form != "table":
            yield "\n"
        sheet = Sheet(_COMPARED_COLUMNS, [_row(each) for each in compared])
        yield from sheet_text(sheet, form, headers=headers, terminal=terminal)


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:]


def _row(compared: Compared) -> tuple[object, ...]:
    forecast = compared.forecast
    longest_ms = forecast.longest_stop_ms
    return (
        compared.text,
        forecast.rebalances,
        forecast.moved,
        forecast.stopped,
        None if longest_ms is None else age(longest_ms),
        age(forecast.stopped_ms),
        forecast.read_again,
        forecast.skipped,
    )
