"""Migration plans, and advice on migrations: tables, a runbook, a diagram."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from operator import attrgetter

from kgroup.operation.plan.advice import GroupAdvice, Proposal
from kgroup.operation.plan.plan import Compared, Plan, PlanStep, SettingChange
from kgroup.operation.plan.verify import StepCheck
from kgroup.render.cell import GROUP, Column, Kind, age, cell, columns_of, mermaid_label, visible
from kgroup.render.sheet import Either, Head, Part, Sheet, Title, apart, facts, section, summary

_FORECAST = "kgroup.operation.plan.plan.Forecast"
STEP_COLUMNS = columns_of(
    _FORECAST,
    GROUP,
    Column("step", Kind.NUMBER, "number of the step; empty if the plan has no steps"),
    Column("title", Kind.TEXT, "what the step does, or why the plan has no steps"),
    Column("restarted", Kind.NUMBER, "members that are restarted"),
    Column("rebalances", Kind.NUMBER),
    Column("moved", Kind.NUMBER),
    Column("stopped", Kind.NUMBER),
    Column("longest_stop_ms", Kind.AGE),
    Column("stopped_ms", Kind.AGE),
    Column("most_partitions", Kind.NUMBER),
    Column("read_again", Kind.NUMBER),
    Column("skipped", Kind.NUMBER, is_alarm=True),
)
_CONDITIONS = tuple(
    Column(name, Kind.TEXT, is_prose=True)
    for name in ("what must hold", "verdict", "found", "check")
)
_ASSUMED = (Column("assumed", Kind.TEXT),)
_FORECASTS = (
    Column("of", Kind.TEXT, "", attrgetter("text")),
    *(
        Column(title, Kind.NUMBER, "", value)
        for title, value in (
            ("rebalances", attrgetter("forecast.rebalances")),
            ("moved", attrgetter("forecast.moved")),
            ("stopped", attrgetter("forecast.stopped")),
            ("longest stop", lambda compared: _age(compared.forecast.longest_stop_ms)),
            ("all stops", lambda compared: _age(compared.forecast.stopped_ms)),
            ("most at one", attrgetter("forecast.most_partitions")),
            ("read again", attrgetter("forecast.read_again")),
            ("skipped", attrgetter("forecast.skipped")),
            ("failed", lambda compared: len(compared.forecast.failed) or None),
        )
    ),
)
"""Results of simulations, for steps, plans and unchanged groups."""
_OF_STEPS = [column.name for column in _FORECASTS if column.name != "all stops"]
_OF_GROUPS = [c.name for c in _FORECASTS if c.name not in ("most at one", "failed")]


def _age(ms: int | None) -> str | None:
    return None if ms is None else age(ms)


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
    """Return a sheet with a row for each step of each plan, or with the reason if it has none."""
    return Sheet(STEP_COLUMNS, [row for plan in plans for row in _rows(plan)])


def _rows(plan: Plan) -> Iterator[tuple[object, ...]]:
    names = [column.name for column in STEP_COLUMNS[4:]]
    if not plan.steps:
        yield plan.group_id, None, plan.summary, None, *(None for _ in names)
    for step in plan.steps:
        numbers = (getattr(step.forecast, name, None) for name in names)
        yield plan.group_id, step.number, step.title, len(step.restarted), *numbers


def plans_page(plans: Sequence[Plan]) -> Iterator[Part]:
    """Yield plans as runbooks."""
    return apart(map(_plan, plans))


def _plan(plan: Plan) -> Iterator[Part]:
    goal = "" if plan.goal is None else f" {plan.goal}"
    yield Title(f"{cell(plan.group_id, Kind.NAME)}: {plan.target}{visible(goal)}")
    yield summary(plan.summary)
    conditions = (
        (precondition.text, precondition.verdict, precondition.found, precondition.check)
        for precondition in plan.preconditions
    )
    yield from section("Preconditions", Sheet(_CONDITIONS, conditions).without_blank())
    for step in plan.steps:
        yield from section(f"Step {step.number}: {visible(step.title)}", facts(_parts(step)))
    if plan.forecast is None:
        return
    forecasts = Sheet.of(_FORECASTS, _forecasts(plan)).select(_OF_STEPS)
    yield from section("Forecast", forecasts.without_blank())
    if remarks := list(_remarks(plan)):
        yield from ("\n", facts(remarks))
    if plan.assumed:
        yield from ("\n", Sheet(_ASSUMED, [(text,) for text in plan.assumed], Head.ALWAYS))


def _parts(step: PlanStep) -> Iterator[tuple[str, str]]:
    for setting in step.settings:
        yield "set", _setting(setting)
    for number, action in enumerate(step.actions, 1):
        yield f"do {number}", action
    if step.restarted:
        yield "restart", ", ".join(step.restarted)
    for command in step.commands:
        yield "run", command
    for sight in step.see:
        yield "see", sight
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


def _remarks(plan: Plan) -> Iterator[tuple[str, str]]:
    """Yield the facts that do not fit into rows of numbers."""
    if plan.naive is not None:
        yield "without the plan", f"{plan.naive.text}."
    for forecast in _forecasts(plan):
        if failed := forecast.forecast.failed:
            ended = ", ".join(f"{name}: {error}" for name, error in failed.items())
            yield forecast.text, f"Members fail: {ended}."
        if not forecast.forecast.is_at_rest:
            yield forecast.text, "The group does not rest in the end: there is more to come."


def checks_sheet(checks: Sequence[StepCheck]) -> Sheet:
    """Return a sheet with a row for each group."""
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


def checks_page(checks: Sequence[StepCheck]) -> Iterator[Part]:
    """Yield how far groups have progressed, and what is still missing."""
    for check in checks:
        yield Title(f"{cell(check.group_id, Kind.NAME)}: step {check.step} is {check.progress}")
    if checks:
        rows = (
            (check.group_id, condition.text, condition.progress, condition.found)
            for check in checks
            for condition in check.conditions
        )
        yield from ("\n", Sheet(_CHECKED, rows))


def diagram_text(plan: Plan) -> Iterator[str]:
    """Yield a Mermaid diagram: the steps, the checks before the next step, and the rollbacks."""
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
        Column("why", Kind.TEXT, "what the migration gains, or why it gains nothing"),
        Column("against", Kind.TEXT),
        Column("command", Kind.TEXT),
    ),
    *(
        replace(column, name=f"{column.name}_{when}", meaning=column.description, form=form)
        for column in STEP_COLUMNS
        if column.name in _COMPARED
        for when, form in (("now", "without the migration"), ("then", "with the migration"))
    ),
)


def advice_sheet(groups: Sequence[GroupAdvice]) -> Sheet:
    """Return a sheet with a row for each target of each group, and one for a group without any."""
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


def advice_page(groups: Sequence[GroupAdvice]) -> Iterator[Part]:
    """Yield the advice for each group."""
    return apart(map(_advice, groups))


def _advice(group: GroupAdvice) -> Iterator[Part]:
    yield from (Title(f"Group {cell(group.group_id, Kind.NAME)}"), summary(group.summary))
    for proposal in group.proposals:
        yield from _proposal(proposal)
    if group.reasons:
        yield from ("\n", facts([("else", reason) for reason in group.reasons]))


def _proposal(proposal: Proposal) -> Iterator[Part]:
    goal = "" if proposal.goal is None else f" {proposal.goal}"
    against = [] if proposal.against is None else [("but", f"{_sentence(proposal.against)}.")]
    reasons = facts([("why", proposal.why), *against, ("run", proposal.command)])
    yield from section(visible(f"{proposal.target}{goal}"), reasons)
    compared = [side for side in (proposal.now, proposal.then) if side is not None]
    if compared:
        forecasts = Sheet.of(_FORECASTS, compared).select(_OF_GROUPS)
        yield from (Either(document=("\n",)), forecasts)


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:]
