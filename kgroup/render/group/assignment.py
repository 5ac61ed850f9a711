"""Dry runs of assignments: for people as a page, for programs as rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from kgroup.assignor.strategy import newest
from kgroup.assignor.zookeeper import thread_name
from kgroup.operation.assign.dry_run import Bounce, Run
from kgroup.operation.assign.outcome import AssignPlan
from kgroup.operation.assign.zookeeper import Overlap
from kgroup.operation.report import first_names
from kgroup.render.cell import Column, Kind, cell, ranges
from kgroup.render.group.assign_object import lag_moved, move_object
from kgroup.render.group.grid import grid_text
from kgroup.render.sheet import Sheet, sheet_text, title_text

_MOST_NAMES = 10
_FACTS = (Column("property", Kind.TEXT, ""), Column("value", Kind.TEXT, ""))
_MEMBER_COLUMNS = (
    Column("member_id", Kind.NAME, "id; one that begins with new- stands for an unknown one"),
    Column("instance_id", Kind.NAME, "of a static member"),
    Column("client_id", Kind.NAME, "as the client calls itself"),
    Column("rack", Kind.NAME, "where it is"),
    Column("before", Kind.NUMBER, "partitions that it has"),
    Column("after", Kind.NUMBER, "partitions that it gets"),
    Column("kept", Kind.NUMBER, "those of them that it had"),
    Column("depends_on_id", Kind.FLAG, "whether it depends on the unknown id of a new member"),
    Column("assignment", Kind.TEXT, "what it gets"),
)
_THREAD_COLUMNS = (
    Column("thread_id", Kind.NAME, "id of a thread of a consumer"),
    Column("after", Kind.NUMBER, "partitions that it gets"),
    Column("assignment", Kind.TEXT, "what it gets"),
)
_UNOWNED_COLUMNS = (
    Column("topic", Kind.NAME, "topic"),
    Column("partition", Kind.NUMBER, "partition"),
    Column("given", Kind.NAME, "thread that the algorithm gives it to"),
)
MOVE_COLUMNS = (
    Column("id", Kind.NAME, "of the group"),
    Column("rebalance", Kind.NUMBER, "1, or that of one that follows"),
    Column("topic", Kind.NAME, "topic"),
    Column("partition", Kind.NUMBER, "partition"),
    Column("from_member", Kind.NAME, "who has it"),
    Column("to_member", Kind.NAME, "who gets it; nobody: only revoked for now, or for good"),
    Column("lag", Kind.NUMBER, "records that the new owner has to catch up with"),
    Column("depends_on_id", Kind.FLAG, "whether it depends on the unknown id of a new member"),
    Column("from_thread", Kind.NAME, "thread of a ZooKeeper consumer that has it"),
    Column("to_thread", Kind.NAME, "thread of a ZooKeeper consumer that gets it"),
)
BOUNCE_COLUMNS = (
    Column("id", Kind.NAME, "of the group"),
    Column("rebalance", Kind.NUMBER, "its number"),
    Column("what", Kind.TEXT, "why it happens"),
    Column("members", Kind.NUMBER, "that take part"),
    Column("moves", Kind.NUMBER, "partitions that change hands or are given up"),
    Column("kept", Kind.NUMBER, "partitions that stay"),
)
COMPARE_COLUMNS = (
    Column("id", Kind.NAME, "of the group"),
    Column("rank", Kind.NUMBER, "by moves, then by balance"),
    Column("strategy", Kind.NAME, "assignor"),
    Column("moves", Kind.NUMBER, "partitions that change hands in the end"),
    Column("kept", Kind.NUMBER, "partitions that stay"),
    Column("minimum", Kind.NUMBER, "partitions of the member with the fewest"),
    Column("maximum", Kind.NUMBER, "partitions of the member with the most"),
    Column("deviation", Kind.NUMBER, "standard deviation over the members"),
    Column("idle", Kind.NUMBER, "members that get nothing"),
    Column("rack_local", Kind.NUMBER, "partitions with a member in a rack of their replicas"),
    Column("rebalance", Kind.TEXT, "eager: everybody stops; else only what moves"),
    Column("error", Kind.TEXT, "exception of Kafka's own assignor"),
)
_MOVES_SHOWN = [column.name for column in MOVE_COLUMNS[2:]]
_COMPARED_SHOWN = [column.name for column in COMPARE_COLUMNS[1:]]
_BOUNCE_SHOWN = [column.name for column in BOUNCE_COLUMNS[1:]]


def moves_sheet(runs: Sequence[Run]) -> Sheet:
    """Make a row for each partition that moves."""
    rows = (
        (plan.id, number, *move_object(move).values())
        for run in runs
        for number, plan in enumerate(run.plans, 1)
        for move in plan.moves
    )
    return Sheet(MOVE_COLUMNS, rows)


def runs_text(
    runs: Sequence[Run], form: str, *, headers: bool, terminal: bool, grid_width: int | None = None
) -> Iterator[str]:
    """Write runs as a page: what happens, what moves, who has what then.

    Args:
        runs: of one group, or several.
        form: "table" or one of `MARKUPS`.
        headers: whether the tables have heads.
        terminal: whether to write for a terminal.
        grid_width: how wide a drawing in place of moves and members may be; None: the tables.
    """
    for at, run in enumerate(runs):
        yield "\n" if at else ""
        for number, plan in enumerate(run.plans):
            if number:
                yield "\n"
                yield from title_text("The rebalance after it", form, level=2, terminal=terminal)
            else:
                name = "" if plan.id is None else f" {cell(plan.id, Kind.NAME)}"
                title = f"Dry run of group{name}"
                yield from title_text(title, form, level=2, terminal=terminal)
            facts = Sheet(_FACTS, _facts(plan))
            yield from sheet_text(facts, form, headers=form != "table", terminal=terminal)
            if grid_width is None:
                yield from _tables_text(plan, form, headers=headers, terminal=terminal)
            elif plan.assignment is not None:
                yield "\n"
                yield from grid_text(plan, grid_width, terminal=terminal)


def bounces_text(
    bounces: Sequence[Bounce], form: str, *, headers: bool, terminal: bool
) -> Iterator[str]:
    """Write rolling restarts as a page: the sums, and every rebalance."""
    for at, bounce in enumerate(bounces):
        yield "\n" if at else ""
        name = "" if bounce.id is None else f" {cell(bounce.id, Kind.NAME)}"
        title = f"Dry run of a rolling restart of group{name}"
        yield from title_text(title, form, level=2, terminal=terminal)
        facts = Sheet(_FACTS, _bounce_facts(bounce))
        yield from sheet_text(facts, form, headers=form != "table", terminal=terminal)
        sheet = bounces_sheet([bounce])
        rows = list(sheet.rows)
        if rows:
            yield "\n"
            shown = Sheet(sheet.columns, rows).select(_BOUNCE_SHOWN).without_blank()
            yield from sheet_text(shown, form, headers=headers, terminal=terminal)


def _bounce_facts(bounce: Bounce) -> Iterator[tuple[str, str]]:
    yield "strategy", f"{bounce.strategy}, computed as {bounce.computed_as}"
    static = f"; {bounce.static} static ones without any rebalance" if bounce.static else ""
    yield "members", f"{bounce.dynamic} leave and come back, one after the other{static}"
    yield "as it is", f"{len(bounce.plans)} rebalances, {bounce.moves} moves"
    if bounce.can_be_static:
        yield (
            "static",
            "0 rebalances, 0 moves, if all members had an instance id and were back within "
            "their session timeout",
        )
    else:
        yield "static", f"{bounce.protocol} groups of {bounce.computed_as} have no static members"
    if bounce.error is not None:
        error = ": ".join(filter(None, (bounce.error.type, bounce.error.message)))
        yield "warning", f"The restart ends early: Kafka's own assignor fails with {error}"
    numbered = {str(number): plan for number, plan in enumerate(bounce.plans, 1)}
    warnings = list(_warnings("rebalance ", numbered, numbered))
    yield from warnings[:_MOST_NAMES]
    if len(warnings) > _MOST_NAMES:
        yield "warning", f"and {len(warnings) - _MOST_NAMES} more, which -o json shows"


def _members_sheet(plan: AssignPlan) -> Sheet:
    """Make a row for each member."""
    rows = (
        (
            *(getattr(member, column.name) for column in _MEMBER_COLUMNS[:-1]),
            ranges(sorted((plan.assignment or {})[member.member_id])),
        )
        for member in sorted(plan.members, key=lambda member: member.member_id)
    )
    return Sheet(_MEMBER_COLUMNS, rows)


def _unowned_sheet(plan: AssignPlan) -> Sheet:
    """Make a row for each partition that nobody has and somebody gets; that is no move."""
    owners = plan.owners or ()
    is_known = any(each.owner is not None for each in owners)
    rows = (
        (each.topic, each.partition, each.given and thread_name(each.given))
        for each in owners
        if is_known and each.owner is None
    )
    return Sheet(_UNOWNED_COLUMNS, rows)


def _threads_sheet(plan: AssignPlan) -> Sheet:
    """Make a row for each thread of ZooKeeper consumers."""
    rows = (
        (thread_name(thread), len(partitions), ranges(sorted(partitions)))
        for thread, partitions in sorted((plan.threads or {}).items())
    )
    return Sheet(_THREAD_COLUMNS, rows)


def compared_sheet(runs: Sequence[Run]) -> Sheet:
    """Make a row for each group and strategy, the best strategy of a group first."""
    rows = []
    for run in runs:
        error = run.error
        balance = run.last.balance
        rows.append(
            (
                run.first.id,
                run.rank,
                run.first.strategy,
                len(run.first.moves) if error is None else None,
                run.first.kept,
                balance and balance.minimum,
                balance and balance.maximum,
                balance and balance.deviation,
                None if balance is None else len(balance.idle_members),
                run.last.rack_local,
                run.first.rebalance,
                error and ": ".join(filter(None, (error.type, error.message))),
            )
        )
    return Sheet(COMPARE_COLUMNS, rows)


def compared_text(
    runs: Sequence[Run], form: str, *, headers: bool, terminal: bool
) -> Iterator[str]:
    """Write strategies as a table, in which a group that is the only one is not named.

    Below stands what is imitated, if that is not Kafka's newest, and the warnings.
    """
    sheet = compared_sheet(runs)
    begins = [at for at, run in enumerate(runs) if run.rank == 1]
    is_one = len(begins) == 1
    if form == "table":
        sheet = sheet.select(_COMPARED_SHOWN if is_one else ()).without_blank()
    yield from sheet_text(sheet, form, headers=headers, terminal=terminal)
    facts = [
        (runs[begin].first.id, *fact)
        for begin, end in zip(begins, [*begins[1:], None], strict=False)
        for fact in _compared_facts(runs[begin:end])
    ]
    if facts:
        yield "\n"
        shown = Sheet((COMPARE_COLUMNS[0], *_FACTS), facts)
        if is_one:
            shown = shown.select([column.name for column in _FACTS])
        yield from sheet_text(shown, form, headers=form != "table", terminal=terminal)


def _compared_facts(runs: Sequence[Run]) -> Iterator[tuple[str, str]]:
    """Say once what runs of one group say, and of which strategies, if not of all."""
    first = runs[0].first
    if first.computed_as != str(newest(first.protocol)):
        yield "computed as", first.computed_as
    named = {
        run.first.strategy if number == 1 else f"{run.first.strategy} (rebalance {number})": plan
        for run in runs
        for number, plan in enumerate(run.plans, 1)
    }
    yield from _warnings("", named, [run.first.strategy for run in runs])


def _warnings(
    what: str, plans: Mapping[str, AssignPlan], all_names: Iterable[str]
) -> Iterator[tuple[str, str]]:
    """Give each warning of several plans once, with the names of those that say it, if not all."""
    warned: dict[str, list[str]] = {}
    for name, plan in plans.items():
        for text in plan.warnings:
            warned.setdefault(text, []).append(name)
    for text, names in warned.items():
        said_by = "" if set(names).issuperset(all_names) else f"{what}{first_names(names)}: "
        yield "warning", f"{said_by}{text}"


def bounces_sheet(bounces: Sequence[Bounce]) -> Sheet:
    """Make a row for each rebalance of rolling restarts."""
    rows: list[tuple[object, ...]] = []
    for bounce in bounces:
        steps = (
            ("what was given up is taken over" if at else run.what_of_whom, plan)
            for run in bounce.runs
            for at, plan in enumerate(run.plans)
        )
        rows += (
            (bounce.id, number, what, len(plan.members), len(plan.moves), plan.kept)
            for number, (what, plan) in enumerate(steps, 1)
        )
    return Sheet(BOUNCE_COLUMNS, rows)


def _tables_text(plan: AssignPlan, form: str, *, headers: bool, terminal: bool) -> Iterator[str]:
    for name, sheet in (
        ("Moves", moves_sheet([Run(plan)]).select(_MOVES_SHOWN)),
        ("Members", _members_sheet(plan)),
        ("Threads", _threads_sheet(plan)),
        ("Partitions that nobody owns now", _unowned_sheet(plan)),
    ):
        rows = [tuple(None if value is False else value for value in row) for row in sheet.rows]
        if rows:
            yield "\n"
            yield from title_text(name, form, level=3, terminal=terminal)
            shown = Sheet(sheet.columns, rows).without_blank()
            yield from sheet_text(shown, form, headers=headers, terminal=terminal)


def _facts(plan: AssignPlan) -> Iterator[tuple[str, str]]:
    yield "strategy", f"{plan.strategy}, computed as {plan.computed_as}"
    stops = {
        "eager": "eager: every member gives up all its partitions and waits for the new ones",
        "cooperative": "cooperative: members go on with what they keep",
        "incremental": "incremental: the coordinator moves partitions member by member",
    }
    yield "rebalance", stops[plan.rebalance]
    if plan.leader_id is not None:
        yield "leader", cell(plan.leader_id, Kind.NAME)
    if plan.error is None:
        waiting = sum(move.to_member is None for move in plan.moves)
        later = f", {waiting} of them given up without a new owner" if waiting else ""
        moved = lag_moved(plan)
        lag = "" if moved is None else f", with a lag of {moved}"
        yield "moves", f"{len(plan.moves)}{later}{lag}"
        yield "stay", str(plan.kept)
    if plan.balance is not None:
        balance = plan.balance
        yield (
            "balance",
            f"{balance.minimum} to {balance.maximum} partitions a member, "
            f"standard deviation {balance.deviation}",
        )
        if balance.idle_members:
            yield "idle", f"{len(balance.idle_members)}: {_list(balance.idle_members)}"
    idle = [thread_name(thread) for thread, got in (plan.threads or {}).items() if not got]
    if idle:
        yield "idle threads", f"{len(idle)}: {_list(idle)}"
    if plan.overlaps is not None:
        yield "rebalance together", _overlaps(plan.overlaps)
    if plan.rack_local is not None:
        total = sum(member.after for member in plan.members)
        yield "rack-local", f"{plan.rack_local} of {total} partitions"
    for warning in plan.warnings:
        yield "warning", warning


def _overlaps(overlaps: Sequence[Overlap]) -> str:
    """Say which consumers take partitions from each other; all stop when one comes or goes."""
    if len(overlaps) == 1:
        return "all consumers: their topics overlap"
    parts = (f"{_list(each.members)} ({_list(each.topics)})" for each in overlaps)
    return (
        f"{'; '.join(parts)}. Every consumer of the group stops when one comes or goes; partitions "
        "change hands only among those whose topics overlap"
    )


def _list(names: Sequence[str]) -> str:
    shown = ", ".join(cell(name, Kind.NAME) for name in names[:_MOST_NAMES])
    return shown if len(names) <= _MOST_NAMES else f"{shown} and {len(names) - _MOST_NAMES} more"
