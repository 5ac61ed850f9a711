"""Dry runs of assignments: a page with a drawing for people, rows for programs.

Topics stand side by side as far as the width allows; long topics continue in the next
block. With many members, those whose partitions stay share a line; with many partitions,
blocks without moves are omitted.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from kgroup.assignor.connect import CONNECTOR
from kgroup.assignor.group_spec import newest
from kgroup.assignor.zookeeper import thread_name
from kgroup.operation.assign.connect import item_name
from kgroup.operation.assign.dry_run import Bounce, Run
from kgroup.operation.assign.outcome import AssignPlan
from kgroup.operation.assign.zookeeper import Overlap
from kgroup.operation.report import first_names
from kgroup.render.assignment_object import lag_moved, move_object
from kgroup.render.cell import Column, Kind, cell, columns_of, ranges
from kgroup.render.sheet import Either, Lines, Part, Sheet, Title, apart, facts, section

_KEPT, _GOT, _LOST, _OTHER, _BOTH = "=", "+", "-", ".", "*"
_STYLES = {_GOT: "bold green", _LOST: "bold red", _BOTH: "bold yellow", _OTHER: "dim"}
_MOST_ROWS = 40
_MOST_COLUMNS = 2_000
_MOST_BLOCKS = 50
_WIDEST_LABEL = 24
_LEAST_ROOM = 10
_GAP = 2


@dataclass(frozen=True, slots=True)
class _Piece:
    """Neighbouring partitions of one topic: numbers from `start` to before `stop`.

    Attributes:
        marks: by member, then by partition number: what happens to a partition that the member
            owns or owned.
        changing: members that get or lose partitions of the piece.
    """

    topic: str
    start: int
    stop: int
    marks: Mapping[str, Mapping[int, str]]
    changing: frozenset[str]

    @property
    def title(self) -> str:
        return cell(self.topic, Kind.NAME)

    @property
    def ruler(self) -> str:
        """Return a line with every tenth number above its column."""
        text = ""
        for number in range(self.start, self.stop):
            at = number - self.start
            if (at == 0 or number % 10 == 0) and (not text or len(text) < at):
                text = f"{text.ljust(at)}{number}"
        return text

    def width(self, room: int) -> int:
        return min(room, max(self.stop - self.start, _width(self.title), len(self.ruler)))


def grid_page(plan: AssignPlan, width: int) -> Iterator[Part]:
    """Draw who owns which partition before and after a rebalance.

    Args:
        plan: a plan with an assignment.
        width: width of a line, in characters.
    """
    labels = _labels(plan, min(_WIDEST_LABEL, width // 3))
    label_width = max(map(_width, [*labels.values(), f"{len(labels)} others"]))
    room = max(_LEAST_ROOM, width - label_width - _GAP)
    pieces = _pieces(plan, room // 10 * 10)
    notes = []
    if len(labels) > _MOST_ROWS or _count(pieces) > _MOST_COLUMNS:
        shown = [piece for piece in pieces if piece.changing]
        still = _count(pieces) - _count(shown)
        if still:
            notes.append(f"{still} partitions around which nothing moves are not drawn")
        pieces = shown
    blocks = list(_packed(pieces, room))
    rest = sum(map(_count, blocks[_MOST_BLOCKS:]))
    if rest:
        notes.append(f"{rest} more partitions are not drawn; -o json has all")
    is_folded = False
    for block in blocks[:_MOST_BLOCKS]:
        rows = _rows(block, labels, room)
        is_folded |= any(_BOTH in cells for _, cells in rows[2:])
        yield from (_block_lines(rows, label_width), "\n")
    yield f"{_legend(plan, is_folded=is_folded)}\n"
    for note in notes:
        yield f"{note}\n"


def _count(pieces: Iterable[_Piece]) -> int:
    return sum(piece.stop - piece.start for piece in pieces)


def _pieces(plan: AssignPlan, size: int) -> list[_Piece]:
    """Cut topics into pieces; pieces without a known partition are omitted."""
    made: dict[tuple[str, int], dict[str, dict[int, str]]] = defaultdict(lambda: defaultdict(dict))
    changing: dict[tuple[str, int], set[str]] = defaultdict(set)
    last: dict[str, int] = defaultdict(int)
    assignment = plan.assignment or {}
    for member in sorted(plan.before):
        before, after = set(plan.before.get(member, ())), set(assignment.get(member, ()))
        for partitions, mark in (
            (before & after, _KEPT),
            (after - before, _GOT),
            (before - after, _LOST),
        ):
            for topic, number in partitions:
                at = topic, number // size
                made[at][member][number] = mark
                last[topic] = max(last[topic], number)
                if mark != _KEPT:
                    changing[at].add(member)
    return [
        _Piece(
            topic if plan.standby is None else f"{_words(plan)[0]} {topic}",
            at * size,
            min((at + 1) * size, last[topic] + 1),
            made[topic, at],
            frozenset(changing[topic, at]),
        )
        for topic, at in sorted(made)
    ]


def _labels(plan: AssignPlan, width: int) -> dict[str, str]:
    """Return a label for each member that fits: remaining members by id, then those that left."""
    staying = sorted(plan.members, key=lambda member: member.member_id)
    names = {outcome.member_id: outcome.instance_id or outcome.client_id for outcome in staying}
    left = {spec.member_id: spec.instance_id or spec.client_id for spec in plan.departed}
    count, count_left = Counter(names.values()), Counter(left.values())
    unsure = {member.member_id for member in plan.members if member.depends_on_id}
    labels: dict[str, str] = {}
    taken: set[str] = set()
    rows = [
        *(
            (member, name, count[name], " ?" if member in unsure else "")
            for member, name in names.items()
        ),
        *((member, name, count_left[name], " (left)") for member, name in left.items()),
    ]
    for number, (member, name, sharing, end) in enumerate(rows, 1):
        text = cell(name if name and sharing == 1 else member, Kind.NAME)
        label = _cut(text, width - len(end)) + end
        if label in taken:  # told apart by its number
            label = _cut(f"{number}:{text}", width - len(end)) + end
        taken.add(label)
        labels[member] = label
    return labels


def _cut(text: str, width: int) -> str:
    """Shorten a text in its middle, because ids differ at their ends."""
    if len(text) <= width:
        return text
    end = (width - 2) // 2
    return f"{text[: width - 2 - end]}..{text[len(text) - end :]}"


def _packed(pieces: Sequence[_Piece], room: int) -> Iterator[list[_Piece]]:
    """Arrange pieces side by side into blocks."""
    block: list[_Piece] = []
    used = 0
    for piece in pieces:
        needed = piece.width(room)
        if block and used + _GAP + needed > room:
            yield block
            block, used = [], 0
        used += needed + (_GAP if block else 0)
        block.append(piece)
    if block:
        yield block


def _rows(block: Sequence[_Piece], labels: Mapping[str, str], room: int) -> list[tuple[str, str]]:
    """Return the lines of a block: label and cells; the two heads come first."""
    members = list(labels)
    folded: list[str] = []
    if len(members) > _MOST_ROWS:
        changing = frozenset[str]().union(*(piece.changing for piece in block))
        members = [member for member in members if member in changing][:_MOST_ROWS]
        apart = set(members)
        folded = [member for member in labels if member not in apart]
    gap = " " * _GAP
    widths = [piece.width(room) for piece in block]

    def line(texts: Iterable[str]) -> str:
        filled = (
            text + " " * (width - _width(text)) for text, width in zip(texts, widths, strict=True)
        )
        return gap.join(filled).rstrip()

    rows = [
        ("", line(_cut(piece.title, width) for piece, width in zip(block, widths, strict=True))),
        ("", line(piece.ruler for piece in block)),
    ]
    rows += (
        (labels[member], line(_cells(piece, [member]) for piece in block)) for member in members
    )
    if folded:
        cells = line(_cells(piece, folded) for piece in block)
        rows.append((f"{len(folded)} others", cells))
    return rows


def _cells(piece: _Piece, members: Sequence[str]) -> str:
    """Return the cells of the partitions of a piece that any of some members owns."""
    cells = [_OTHER] * (piece.stop - piece.start)
    for member in members:
        for number, mark in piece.marks.get(member, {}).items():
            at = number - piece.start
            cells[at] = mark if cells[at] in (_OTHER, mark) else _BOTH
    return "".join(cells)


def _block_lines(rows: Sequence[tuple[str, str]], label_width: int) -> Lines:
    gap = " " * _GAP
    lines = [
        (f"{label}{' ' * (label_width - _width(label))}{gap}" if cells else label, cells)
        for label, cells in rows
    ]
    heads = [[(label, ""), (cells, "bold")] for label, cells in lines[:2]]
    return Lines([*heads, *([(label, ""), *_coloured(cells)] for label, cells in lines[2:])])


def _coloured(cells: str) -> Iterator[tuple[str, str]]:
    for mark, same in groupby(cells):
        yield "".join(same), _STYLES.get(mark, "")


def _legend(plan: AssignPlan, *, is_folded: bool) -> str:
    parts = [f"{_KEPT} keeps", f"{_GOT} gets", f"{_LOST} gives up", f"{_OTHER} not its own"]
    if is_folded:
        parts.append(f"{_BOTH} several of these among the others")
    if any(member.depends_on_id for member in plan.members):
        parts.append("? depends on what is not known of new members")
    return "   ".join(parts)


def _width(text: str) -> int:
    """Return the number of terminal cells that a text takes."""
    if text.isascii():
        return len(text)
    from rich.cells import cell_len

    return cell_len(text)


_MOST_NAMES = 10
_FACTS = (Column("property", Kind.TEXT), Column("value", Kind.TEXT))
_MEMBER_COLUMNS = (
    Column("member_id", Kind.NAME),
    Column("instance_id", Kind.NAME),
    Column("client_id", Kind.NAME),
    Column("rack", Kind.NAME),
    Column("before", Kind.NUMBER),
    Column("after", Kind.NUMBER),
    Column("kept", Kind.NUMBER),
    Column("depends_on_id", Kind.FLAG),
    Column("assignment", Kind.TEXT),
)
_THREAD_COLUMNS = (
    Column("thread_id", Kind.NAME),
    Column("after", Kind.NUMBER),
    Column("assignment", Kind.TEXT),
)
_UNOWNED_COLUMNS = (
    Column("topic", Kind.NAME),
    Column("partition", Kind.NUMBER),
    Column("given", Kind.NAME),
)
_ID = Column("id", Kind.NAME, "group id")
MOVE_COLUMNS = columns_of(
    "kgroup.render.assignment_object.MoveObject",
    _ID,
    Column(
        "rebalance", Kind.NUMBER, "number of the rebalance; 2 and more for follow-up rebalances"
    ),
    Column("topic", Kind.NAME),
    Column("partition", Kind.NUMBER),
    Column("from_member", Kind.NAME, "current owner"),
    Column(
        "to_member", Kind.NAME, "new owner; empty if only revoked; -o json also has later owners"
    ),
    Column("lag", Kind.NUMBER, is_alarm=True),
    Column("depends_on_id", Kind.FLAG),
    Column("from_thread", Kind.NAME),
    Column("to_thread", Kind.NAME),
)
BOUNCE_COLUMNS = columns_of(
    "kgroup.render.assignment_object.RunObject",
    _ID,
    Column("rebalance", Kind.NUMBER, "number of the rebalance"),
    Column("what", Kind.TEXT),
    Column("members", Kind.NUMBER, "number of members that take part"),
    Column("moves", Kind.NUMBER, "number of partitions whose owner changes, or that are revoked"),
    Column("kept", Kind.NUMBER, "number of partitions that keep their owner"),
)
COMPARE_COLUMNS = columns_of(
    "kgroup.render.assignment_object.PlanObject",
    _ID,
    Column("rank", Kind.NUMBER, "rank of the strategy by moves, then by balance"),
    Column("strategy", Kind.NAME, "assignor"),
    Column("moves", Kind.NUMBER, "number of partitions with another owner in the end"),
    Column("kept", Kind.NUMBER),
    *columns_of(
        "kgroup.operation.assign.outcome.Balance",
        Column("minimum", Kind.NUMBER),
        Column("maximum", Kind.NUMBER),
        Column("deviation", Kind.NUMBER),
    ),
    Column("idle", Kind.NUMBER, "members without partitions"),
    Column("rack_local", Kind.NUMBER),
    Column("rebalance", Kind.TEXT, "eager: all members stop; otherwise only moved partitions stop"),
    Column("error", Kind.TEXT, "exception that Kafka's assignor throws"),
)
_MOVES_SHOWN = [column.name for column in MOVE_COLUMNS[2:]]
_COMPARED_SHOWN = [column.name for column in COMPARE_COLUMNS[1:]]
_BOUNCE_SHOWN = [column.name for column in BOUNCE_COLUMNS[1:]]


def moves_sheet(runs: Sequence[Run]) -> Sheet:
    """Return a sheet with a row for each partition that moves."""
    rows = (
        (plan.id, number, *move_object(move).values())
        for run in runs
        for number, plan in enumerate(run.plans, 1)
        for move in plan.moves
    )
    return Sheet(MOVE_COLUMNS, rows)


def runs_page(runs: Sequence[Run], *, grid_width: int | None = None) -> Iterator[Part]:
    """Yield what happens in runs, what moves, and who owns what afterwards.

    Args:
        runs: runs of one group, or several.
        grid_width: maximum width of a drawing that replaces moves and members; None for tables.
    """
    return apart(
        _plan_parts(plan, "The rebalance after it" if number else _title("", plan.id), grid_width)
        for run in runs
        for number, plan in enumerate(run.plans)
    )


def _title(of_what: str, group_id: str | None) -> str:
    return f"Dry run of {of_what}group{'' if group_id is None else f' {cell(group_id, Kind.NAME)}'}"


def _plan_parts(plan: AssignPlan, title: str, grid_width: int | None) -> Iterator[Part]:
    yield from (Title(title), facts(_facts(plan), _FACTS))
    if grid_width is None:
        yield from _tables(plan)
    elif plan.assignment is not None:
        yield from ("\n", *grid_page(plan, grid_width))


def bounces_page(bounces: Sequence[Bounce]) -> Iterator[Part]:
    """Yield the totals of rolling restarts, and every rebalance."""
    return apart(map(_bounce_parts, bounces))


def _bounce_parts(bounce: Bounce) -> Iterator[Part]:
    title = _title("a rolling restart of ", bounce.id)
    yield from (Title(title), facts(_bounce_facts(bounce), _FACTS))
    sheet = bounces_sheet([bounce])
    if sheet.rows:
        yield from ("\n", sheet.select(_BOUNCE_SHOWN).without_blank())


def _bounce_facts(bounce: Bounce) -> Iterator[tuple[str, str]]:
    yield "strategy", f"{bounce.strategy}, computed as {bounce.computed_as}"
    static = f"; {bounce.static} static ones without any rebalance" if bounce.static else ""
    leave = "leaves and comes back" if bounce.dynamic == 1 else "leave and come back"
    in_turn = ", one after the other" if bounce.dynamic > 1 else ""
    yield "members", f"{bounce.dynamic} {leave}{in_turn}{static}"
    rebalances = "1 rebalance" if len(bounce.plans) == 1 else f"{len(bounce.plans)} rebalances"
    yield "as it is", f"{rebalances}, {bounce.moves} move{'' if bounce.moves == 1 else 's'}"
    if bounce.can_be_static:
        yield (
            "static",
            "0 rebalances, 0 moves, if all members had an instance id and were back within "
            "their session timeout",
        )
    else:
        who = f"members of {bounce.computed_as} in {bounce.protocol} groups"
        yield "static", f"{who} leave when they close, whatever their instance id"
    if bounce.error is not None:
        yield "warning", f"The restart ends early: Kafka's own assignor fails with {bounce.error}"
    numbered = {str(number): plan for number, plan in enumerate(bounce.plans, 1)}
    warnings = list(_warnings("rebalance ", numbered, numbered))
    yield from warnings[:_MOST_NAMES]
    if len(warnings) > _MOST_NAMES:
        yield "warning", f"and {len(warnings) - _MOST_NAMES} more, which -o json shows"


def _members_sheet(plan: AssignPlan) -> Sheet:
    """Return a sheet with a row for each member."""
    rows = (
        (
            *(getattr(member, column.name) for column in _MEMBER_COLUMNS[:-1]),
            _owned(plan, member.member_id),
        )
        for member in sorted(plan.members, key=lambda member: member.member_id)
    )
    return Sheet(_MEMBER_COLUMNS, rows)


def _owned(plan: AssignPlan, member_id: str) -> str:
    """Return partitions, the connectors and tasks of a worker, or active and standby tasks."""
    items = sorted((plan.assignment or {})[member_id])
    if plan.standby is not None:
        kinds = (("active", items), ("standby", sorted(plan.standby.get(member_id, ()))))
        return "; ".join(f"{kind} {ranges(tasks)}" for kind, tasks in kinds if tasks)
    if plan.connect is None:
        return ranges(items)
    connectors = [cell(name, Kind.NAME) for name, task in items if task == CONNECTOR]
    tasks = ranges(item for item in items if item[1] != CONNECTOR)
    return "; ".join(filter(None, (", ".join(connectors), tasks and f"tasks {tasks}")))


def _unowned_sheet(plan: AssignPlan) -> Sheet:
    """Return a sheet with a row for each unowned partition that gets an owner; this is no move."""
    owners = plan.owners or ()
    is_known = any(owner.owner is not None for owner in owners)
    rows = (
        (owner.topic, owner.partition, owner.given and thread_name(owner.given))
        for owner in owners
        if is_known and owner.owner is None
    )
    return Sheet(_UNOWNED_COLUMNS, rows)


def _threads_sheet(plan: AssignPlan) -> Sheet:
    """Return a sheet with a row for each thread of ZooKeeper consumers."""
    rows = (
        (thread_name(thread), len(partitions), ranges(sorted(partitions)))
        for thread, partitions in sorted((plan.threads or {}).items())
    )
    return Sheet(_THREAD_COLUMNS, rows)


def compared_sheet(runs: Sequence[Run]) -> Sheet:
    """Return a sheet with a row for each group and strategy, the best strategy of a group first."""
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
                error and str(error),
            )
        )
    return Sheet(COMPARE_COLUMNS, rows)


def compared_page(runs: Sequence[Run]) -> Iterator[Part]:
    """Yield strategies as a table; the name of a group is omitted if it is the only one.

    The simulated library, unless it is Kafka's newest, and the warnings follow below the table.
    """
    sheet = compared_sheet(runs)
    begins = [at for at, run in enumerate(runs) if run.rank == 1]
    is_one = len(begins) == 1
    shown = sheet.select(_COMPARED_SHOWN if is_one else ()).without_blank()
    yield Either((shown,), (sheet,))
    rows = [
        (runs[begin].first.id, *fact)
        for begin, end in zip(begins, [*begins[1:], None], strict=False)
        for fact in _compared_facts(runs[begin:end])
    ]
    if rows:
        notes = facts(rows, (COMPARE_COLUMNS[0], *_FACTS))
        yield from ("\n", notes.select([column.name for column in _FACTS] if is_one else ()))


def _compared_facts(runs: Sequence[Run]) -> Iterator[tuple[str, str]]:
    """Yield each fact of several runs of one group once, with its strategies unless all have it."""
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
    """Yield each warning of several plans once, with the names of its plans unless all have it."""
    warned: dict[str, list[str]] = {}
    for name, plan in plans.items():
        for text in plan.warnings:
            warned.setdefault(text, []).append(name)
    for text, names in warned.items():
        said_by = "" if set(names).issuperset(all_names) else f"{what}{first_names(names)}: "
        yield "warning", f"{said_by}{text}"


def bounces_sheet(bounces: Sequence[Bounce]) -> Sheet:
    """Return a sheet with a row for each rebalance of rolling restarts."""
    rows: list[tuple[object, ...]] = []
    for bounce in bounces:
        steps = (
            ("revoked partitions get new owners" if at else run.what_of_whom, plan)
            for run in bounce.runs
            for at, plan in enumerate(run.plans)
        )
        rows += (
            (bounce.id, number, what, len(plan.members), len(plan.moves), plan.kept)
            for number, (what, plan) in enumerate(steps, 1)
        )
    return Sheet(BOUNCE_COLUMNS, rows)


def _words(plan: AssignPlan) -> tuple[str, str, str]:
    """Return what a plan assigns: the words for a topic, for a partition, and for both."""
    if plan.connect is not None:
        return "connector", "task", "connectors and tasks"
    if plan.standby is not None:
        return "subtopology", "partition", "active tasks"
    return "topic", "partition", "partitions"


def _shown_moves(plan: AssignPlan) -> Sheet:
    """Return the moves, with the columns called after what moves."""
    sheet = moves_sheet([Run(plan)]).select(_MOVES_SHOWN)
    topic, partition, *others = sheet.columns
    words = _words(plan)
    renamed = replace(topic, name=words[0]), replace(partition, name=words[1])
    return Sheet((*renamed, *others), sheet.rows)


def _tables(plan: AssignPlan) -> Iterator[Part]:
    for title, sheet in (
        ("Moves", _shown_moves(plan)),
        ("Members", _members_sheet(plan)),
        ("Threads", _threads_sheet(plan)),
        ("Partitions that nobody owns now", _unowned_sheet(plan)),
    ):
        rows = [tuple(None if value is False else value for value in row) for row in sheet.rows]
        if rows:
            yield from section(title, Sheet(sheet.columns, rows).without_blank())


def _facts(plan: AssignPlan) -> Iterator[tuple[str, str]]:
    yield "strategy", f"{plan.strategy}, computed as {plan.computed_as}"
    stops = {
        "eager": "eager: every member revokes all its partitions and waits for the new ones",
        "cooperative": "cooperative: members continue with what does not move",
        "incremental": f"incremental: the coordinator moves {_words(plan)[2]} member by member",
    }
    yield "rebalance", stops[plan.rebalance]
    if plan.leader_id is not None:
        yield "leader", cell(plan.leader_id, Kind.NAME)
    scheduling = plan.connect or plan.streams
    if scheduling is not None and scheduling.after_ms:
        yield "begins", f"{cell(scheduling.after_ms, Kind.DURATION)} after the first one"
    if plan.error is None:
        waiting = sum(move.to_member is None for move in plan.moves)
        later = f", {waiting} of them revoked without a new owner" if waiting else ""
        moved = lag_moved(plan)
        lag = "" if moved is None else f", with a lag of {moved}"
        yield "moves", f"{len(plan.moves)}{later}{lag}"
        yield "stay", str(plan.kept)
        if plan.connect is not None and (started := _started(plan)):
            yield "start", f"{len(started)}: {_list(started)}"
    if plan.balance is not None:
        balance = plan.balance
        yield (
            "balance",
            f"{balance.minimum} to {balance.maximum} {_words(plan)[2]} a member, "
            f"standard deviation {balance.deviation}",
        )
        if balance.idle_members:
            yield "idle", f"{len(balance.idle_members)}: {_list(balance.idle_members)}"
    idle = [
        thread_name(thread) for thread, partitions in (plan.threads or {}).items() if not partitions
    ]
    if idle:
        yield "idle threads", f"{len(idle)}: {_list(idle)}"
    if plan.connect is not None and plan.connect.is_awaiting:
        yield "next rebalance", "when the worker that restarts is back"
    elif scheduling is not None and (scheduling.is_at_once or scheduling.delay_ms):
        delay_ms = scheduling.delay_ms
        until = "at once" if scheduling.is_at_once else f"in {cell(delay_ms, Kind.DURATION)}"
        probing = ", a probing rebalance" if plan.streams and not scheduling.is_at_once else ""
        yield "next rebalance", f"{until}{probing}"
    if scheduling is not None and scheduling.waiting:
        waits = [item_name(item) for item in scheduling.waiting]
        yield "run nowhere until then", f"{len(waits)}: {_list(waits)}"
    if plan.overlaps is not None:
        yield "rebalance together", _overlaps(plan.overlaps)
    if plan.rack_local is not None:
        total = sum(member.after for member in plan.members)
        yield "rack-local", f"{plan.rack_local} of {total} partitions"
    for warning in plan.warnings:
        yield "warning", warning


def _started(plan: AssignPlan) -> list[str]:
    """Return the connectors and tasks that ran nowhere before, and run now."""
    ran = {item for items in plan.before.values() for item in items}
    given = (item for items in (plan.assignment or {}).values() for item in items)
    return sorted(item_name(item) for item in given if item not in ran)


def _overlaps(overlaps: Sequence[Overlap]) -> str:
    """Return which consumers take partitions from each other; all stop when one joins or leaves."""
    if len(overlaps) == 1:
        return "all consumers: their topics overlap"
    parts = (f"{_list(overlap.members)} ({_list(overlap.topics)})" for overlap in overlaps)
    return (
        f"{'; '.join(parts)}. Every consumer of the group stops when one comes or goes; partitions "
        "change hands only among those whose topics overlap"
    )


def _list(names: Sequence[str]) -> str:
    shown = ", ".join(cell(name, Kind.NAME) for name in names[:_MOST_NAMES])
    return shown if len(names) <= _MOST_NAMES else f"{shown} and {len(names) - _MOST_NAMES} more"
