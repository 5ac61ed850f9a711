"""An assignment as a drawing: a line for each member, a character for each partition.

Topics stand side by side as far as there is room, and long ones go on in the next block. Where
there are very many members, those whose partitions stay share a line; where there are very many
partitions, blocks of them in which nothing moves are left out.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from kgroup.operation.assign.outcome import AssignPlan
from kgroup.render.cell import Kind, cell

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
        marks: by member, then by number: what happens to a partition that the member has or had.
        changing: members that get or give up something of it.
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
        """Write every tenth number above its column."""
        text = ""
        for number in range(self.start, self.stop):
            at = number - self.start
            if (at == 0 or number % 10 == 0) and (not text or len(text) < at):
                text = f"{text.ljust(at)}{number}"
        return text

    def width(self, room: int) -> int:
        return min(room, max(self.stop - self.start, _width(self.title), len(self.ruler)))


def grid_text(plan: AssignPlan, width: int, *, terminal: bool) -> Iterator[str]:
    """Draw who has which partition before and after a rebalance.

    Args:
        plan: with an assignment.
        width: of a line, in characters.
        terminal: whether to colour what changes.
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
        yield from _block_text(rows, label_width, terminal=terminal)
        yield "\n"
    yield f"{_legend(plan, is_folded=is_folded)}\n"
    for note in notes:
        yield f"{note}\n"


def _count(pieces: Iterable[_Piece]) -> int:
    return sum(piece.stop - piece.start for piece in pieces)


def _pieces(plan: AssignPlan, size: int) -> list[_Piece]:
    """Cut topics into pieces; such as hold no known partition are left out."""
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
            topic,
            at * size,
            min((at + 1) * size, last[topic] + 1),
            made[topic, at],
            frozenset(changing[topic, at]),
        )
        for topic, at in sorted(made)
    ]


def _labels(plan: AssignPlan, width: int) -> dict[str, str]:
    """Give every member a name that fits: members that stay by id, then those that have left."""
    staying = sorted(plan.members, key=lambda member: member.member_id)
    names = {each.member_id: each.instance_id or each.client_id for each in staying}
    left = {each.member_id: each.instance_id or each.client_id for each in plan.departed}
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
    """Shorten a text in its middle; ids differ at their ends."""
    if len(text) <= width:
        return text
    end = (width - 2) // 2
    return f"{text[: width - 2 - end]}..{text[len(text) - end :]}"


def _packed(pieces: Sequence[_Piece], room: int) -> Iterator[list[_Piece]]:
    """Put pieces side by side into blocks."""
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
    """Give the lines of a block: label and cells, the two heads first."""
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
    """Write the partitions of a piece that one member has, or any of several."""
    cells = [_OTHER] * (piece.stop - piece.start)
    for member in members:
        for number, mark in piece.marks.get(member, {}).items():
            at = number - piece.start
            cells[at] = mark if cells[at] in (_OTHER, mark) else _BOTH
    return "".join(cells)


def _block_text(
    rows: Sequence[tuple[str, str]], label_width: int, *, terminal: bool
) -> Iterator[str]:
    gap = " " * _GAP
    lines = [
        (f"{label}{' ' * (label_width - _width(label))}{gap}" if cells else label, cells)
        for label, cells in rows
    ]
    if not terminal:
        yield from (f"{label}{cells}\n" for label, cells in lines)
        return
    from kgroup.render.table import rich_lines

    heads = [[(label, ""), (cells, "bold")] for label, cells in lines[:2]]
    yield rich_lines([*heads, *([(label, ""), *_coloured(cells)] for label, cells in lines[2:])])


def _coloured(cells: str) -> Iterator[tuple[str, str]]:
    for mark, same in groupby(cells):
        yield "".join(same), _STYLES.get(mark, "")


def _legend(plan: AssignPlan, *, is_folded: bool) -> str:
    parts = [f"{_KEPT} keeps", f"{_GOT} gets", f"{_LOST} gives up", f"{_OTHER} not its own"]
    if is_folded:
        parts.append(f"{_BOTH} several of these among the others")
    if any(member.depends_on_id for member in plan.members):
        parts.append("? depends on an id that is not known")
    return "   ".join(parts)


def _width(text: str) -> int:
    """Count the cells of a terminal that a text takes."""
    if text.isascii():
        return len(text)
    from rich.cells import cell_len

    return cell_len(text)
