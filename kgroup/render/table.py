"""Tables for people: rich on a terminal, plain text in a pipe; `markup` has those of documents.

Rows consist of texts, see `cell`. On a terminal a long table is written page by page.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from itertools import chain, islice, repeat, zip_longest
from os.path import commonprefix
from typing import TYPE_CHECKING

from kgroup.render.cell import UNKNOWN, Column, Kind, MarkedText, harmless, visible
from kgroup.render.sheet import Lines, Prose, Title, Verdict, Word

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.text import Text

Row = Sequence[str]

RICH_PAGE = 500
"""Number of rows that share widths and a head."""
LEAST_TEXT = 8
"""Minimum width to which a column of texts is narrowed and wrapped, in characters."""
MOST_PADDED = 256
"""Maximum width to which columns are padded in a pipe, longer than a topic name: a longer cell
overflows only its own line.
"""
PROSE_WIDTH = 100
"""Width to which a paragraph is wrapped, in characters."""
_MOST_PIECE = 16
"""Width up to which a piece of a text is not broken, in characters."""
LEAST_REFERENCE = 10
"""Minimum width to which ids are shortened that have their own table, in characters."""
_READABLE = 20
"""Width to which ids are shortened before columns are left out, in characters."""
_VERDICT_LINES = 4
"""Number of lines above which a verdict is shortened."""

_GAP = 2
_INDENT = " " * 4
"""Blanks before what stands below a row."""
RIGHT = (Kind.NUMBER, Kind.DURATION, Kind.AGE, Kind.ROUGH_AGE)
_ENDING = 6
"""Number of characters of a shortened id after the gap: ids of members differ at their ends."""
_PIECE_ENDS = re.compile(r"(?<=[-_.,:/=])(?=[^-_.,:/= ])|(?<=[a-z])(?=[A-Z])")
"""Where a word may be wrapped: after separators within it, and between humps."""
_WHOLE = re.compile(r"-.*|[0-9][-+0-9T.:]*Z?[.,:;)]* *")
"""A word that is not wrapped if it fits in a line: an option, a number, a version, a time."""
_SHELL_WORD = re.compile(r"(?:-[^ ]+ (?!-))?(?:'[^']*'|\"[^\"]*\"|[^ ])+")
"""A word of a shell command, with its quotes; an option with its value."""
ALARM = "yellow"
"""Style of a lag, and of other numbers that should be 0."""
COMMAND = "cyan"
"""Style of a command to run next."""
WORD_STYLES = {
    "Stable": "green",
    "Empty": "cyan",
    "PreparingRebalance": "yellow",
    "CompletingRebalance": "yellow",
    "Assigning": "yellow",
    "Reconciling": "yellow",
    "NotReady": "red",
    "Dead": "red",
    "aborted": "red",
    "open": "yellow",
    "topic-gone": "red",
    "partition-gone": "red",
    "no-leader": "red",
    "not-authorized": "red",
    "no-answer": "red",
    "past-end": "red",
    "before-start": "red",
    "no-owner": "red",
    "owner-gone": "red",
    "no-offset": "yellow",
    "error": "red",
    "warning": "yellow",
    "info": "dim",
    UNKNOWN: "dim",
}
"""Styles of words on a terminal: states, marks and severities."""


def plain_table(
    columns: Sequence[Column],
    rows: Iterable[Row],
    *,
    headers: bool = True,
    commands: Sequence[Sequence[str]] = (),
) -> str:
    """Return aligned text without lines, for pipes.

    Args:
        columns: columns of the table, in order.
        rows: texts for each column, see `cell`.
        headers: whether a line with the titles comes first, even without rows.
        commands: see `Sheet`.
    """
    lines: list[Row] = [[column.title for column in columns]] if headers else []
    lines += rows
    fields, aligned = [], []
    for column, texts in zip(columns, zip(*lines, strict=True), strict=False):
        right = column.kind in RIGHT
        if all(map(str.isascii, texts)):
            fields.append(f"%{'' if right else '-'}{_padded(map(len, texts))}s")
            aligned.append(texts)
        else:
            fields.append("%s")
            aligned.append(_aligned(texts, right=right))
    layout = (" " * _GAP).join(fields)
    written = [f"{(layout % line).rstrip()}\n" for line in zip(*aligned, strict=True)]
    for at, own in enumerate(commands, headers):
        written[at] += "".join(f"{_INDENT}{harmless(command)}\n" for command in own)
    return "".join(written)


def _padded(widths: Iterable[int]) -> int:
    """Return the width to which the cells of a column are padded."""
    return max((width for width in widths if width <= MOST_PADDED), default=0)


def _aligned(texts: Sequence[str], *, right: bool) -> tuple[str, ...]:
    """Return the texts of a column padded to the same width."""
    from rich.cells import cell_len  # some characters take two terminal cells, or none

    widths = [cell_len(text) for text in texts]
    padded = _padded(widths)
    gaps = [" " * (padded - width) for width in widths]
    return tuple(gap + text if right else text + gap for gap, text in zip(gaps, texts, strict=True))


def rich_table(
    columns: Sequence[Column],
    rows: Iterable[Row],
    *,
    headers: bool = True,
    terminal_width: int | None = None,
    commands: Sequence[Sequence[str]] = (),
) -> Iterator[str]:
    """Yield a table for a terminal; a width of None is that of the terminal itself.

    Columns with a rank are left out, the last columns that may stand below a row do so, and texts
    are shortened or wrapped to fit; if there is too little room, or if a row takes fewer lines this
    way, each field is written on its own line.
    """
    from rich.cells import cell_len
    from rich.console import Console

    full_width = terminal_width or Console().width
    all_columns = columns
    all_commands = iter(commands)
    for page in _pages(rows):
        needed = [max(map(cell_len, texts)) for texts in zip(*page, strict=True)]
        needed = needed or [0] * len(all_columns)
        kept = _kept(all_columns, needed, full_width, headers=headers)
        columns = [all_columns[at] for at in kept]
        if len(kept) < len(all_columns):
            needed = [needed[at] for at in kept]
            page = [[row[at] for at in kept] for row in page]
        titles = [column.title if headers else "" for column in columns]
        count = _beside(columns, titles, needed, full_width)
        below = _below([row[count:] for row in page], all_commands, full_width)
        columns, titles, needed = columns[:count], titles[:count], needed[:count]
        page = [row[:count] for row in page]
        widths = _fit(columns, titles, page, needed, full_width - _GAP * (len(columns) - 1))
        fitted = [] if widths is None else _fitted(columns, page, widths)
        lines = sum(1 + max(text.count("\n") for text in row) for row in fitted)
        if widths is None or lines > len(page) * (len(columns) + 1):
            fields = _fields(columns, titles, page, full_width, below)
            yield _on_terminal(fields, terminal_width, folded=False)
            continue
        heads = [_lines(_words(t), width) for t, width in zip(titles, widths, strict=True)]
        most = max(head.count("\n") for head in heads)
        heads = ["\n" * (most - head.count("\n")) + head.replace(" \n", "\n") for head in heads]
        head = _written(columns, [heads] if headers else [], widths, lambda *_: "bold")
        body = _written(columns, fitted, widths, _style)
        yield "".join([*head, *chain.from_iterable(zip(body, below, strict=True))])


def _beside(
    columns: Sequence[Column], titles: Sequence[str], needed: Sequence[int], full_width: int
) -> int:
    """Return the number of columns that have room beside each other, of those that may go below."""
    count = len(columns)
    widths = [max(pair) for pair in zip(needed, map(len, titles), strict=True)]
    while count > 1 and columns[count - 1].may_go_below:
        if sum(widths[:count]) + _GAP * (count - 1) <= full_width:
            break
        count -= 1
    return count


def _below(
    rows: Iterable[Row], commands: Iterator[Sequence[str]], full_width: int
) -> Iterator[str]:
    """Yield what stands below each row: texts, and commands, wrapped so that they can be pasted."""
    width = full_width - len(_INDENT)
    start, end = _Paints()[COMMAND]
    for row, own in zip(rows, chain(commands, repeat(())), strict=False):
        texts = (text for text in row if text != UNKNOWN)
        lines = [line for text in texts for line in _filled(text.split(" "), width)]
        for command in own:
            filled = _filled(_SHELL_WORD.findall(harmless(command)), width, " \\", "  ")
            lines += [f"{start}{line}{end}" for line in filled]
        yield "".join(f"{_INDENT}{line}\n" for line in lines)


def _filled(words: Iterable[str], width: int, end: str = "", start: str = "") -> list[str]:
    """Return words in lines, broken only between words.

    Args:
        words: the words.
        width: width of the lines.
        end: end of a line that another one follows.
        start: start of the lines after the first.
    """
    from rich.cells import cell_len

    lines: list[str] = []
    for word in words:
        if lines and cell_len(f"{lines[-1]} {word}{end}") <= width:
            lines[-1] += f" {word}"
        elif lines:
            lines[-1] += end
            lines.append(start + word)
        else:
            lines.append(word)
    return lines


def _written(
    columns: Sequence[Column],
    rows: Iterable[Row],
    widths: Sequence[int],
    style_of: Callable[[str, Column], str],
) -> Iterator[str]:
    """Yield the lines of each row, whose texts fit their columns; rich takes ten times as long."""
    from rich.cells import cell_len

    paints = _Paints()
    gap = " " * _GAP
    for row in rows:
        styles = [paints[style_of(*pair)] for pair in zip(row, columns, strict=True)]
        lines = []
        for texts in zip_longest(*(text.split("\n") for text in row), fillvalue=""):
            cells = []
            for at, (text, (start, end)) in enumerate(zip(texts, styles, strict=True)):
                blank = " " * (widths[at] - cell_len(text))
                shown = f"{start}{text}{end}" if text else ""
                cells.append(blank + shown if columns[at].kind in RIGHT else shown + blank)
            lines.append(f"{gap.join(cells).rstrip()}\n")
        yield "".join(lines)


class _Paints(dict[str, tuple[str, str]]):
    """What begins and ends a style on the terminal, as rich writes it; nothing without colours."""

    def __missing__(self, style: str) -> tuple[str, str]:
        from rich.text import Text

        start, _, end = _on_terminal(Text("|", style=style), None).rstrip("\n").partition("|")
        return self.setdefault(style, (start, end))


def _kept(
    columns: Sequence[Column], needed: Sequence[int], full_width: int, *, headers: bool
) -> list[int]:
    """Return the indices of the columns that are not left out for lack of room.

    Columns are left out before ids become unreadable; those of rank 1 only if it does not suffice
    to shorten ids.
    """
    kept = list(range(len(columns)))
    for at in sorted(kept, key=lambda at: (columns[at].rank, at), reverse=True):
        shortest = LEAST_REFERENCE if columns[at].rank == 1 else _READABLE
        room = full_width + _GAP
        for other in kept:
            column, width = columns[other], needed[other]
            is_short = column.is_list or _is_id(column)
            title = len(column.title) if headers else 0
            room -= _GAP + max(min(width, shortest) if is_short else width, title)
        if columns[at].rank and room < 0:
            kept.remove(at)
    return kept


def _fit(
    columns: Sequence[Column],
    titles: Sequence[str],
    page: Sequence[Row],
    needed: Sequence[int],
    room: int,
) -> list[int] | None:
    """Return the widths of columns; the widest columns are narrowed first.

    Heads are wrapped first, then references are shortened, and texts are wrapped last, while names
    are shortened, but stay twice as wide.

    Numbers, times and the words of heads stay whole.

    Args:
        columns: columns of the table.
        titles: their titles.
        page: texts of the rows.
        needed: widths of their longest cells.
        room: available width for all of them.

    Returns:
        The widths; None if there is not enough room.
    """
    words = [max(map(len, _words(title))) for title in titles]
    widths = [max(width, len(title)) for width, title in zip(needed, titles, strict=True)]
    with_folded_heads = [max(pair) for pair in zip(needed, words, strict=True)]
    with_short_ids = [
        max(word, min(width, LEAST_REFERENCE)) if column.is_reference or column.is_list else width
        for column, word, width in zip(columns, words, with_folded_heads, strict=True)
    ]
    is_name = [column.kind is Kind.NAME for column in columns]
    is_folded = [
        column.kind in (Kind.TEXT, Kind.NAME) and not (column.is_reference or column.is_list)
        for column in columns
    ]
    with_folded_texts = [
        max(word, min(width, LEAST_TEXT)) if folds else width
        for folds, word, width in zip(is_folded, words, with_short_ids, strict=True)
    ]
    with_whole_pieces = with_folded_texts
    if sum(with_short_ids) > room:
        with_whole_pieces = [
            least
            if not folds
            else max(least, min(width, LEAST_REFERENCE))
            if name
            else max(least, _longest_piece(row[at] for row in page))
            for at, (name, folds, least, width) in enumerate(
                zip(is_name, is_folded, with_folded_texts, with_short_ids, strict=True)
            )
        ]
    weights = [2 if name else 1 for name in is_name]
    for least in (with_folded_heads, with_short_ids, with_whole_pieces, with_folded_texts):
        limit = min(max(widths), room + 1)
        while sum(widths) > room and limit > 0:
            limit -= 1
            widths = [
                max(low, min(width, limit * weight))
                for width, low, weight in zip(widths, least, weights, strict=True)
            ]
    return widths if sum(widths) <= room else None


def _fitted(
    columns: Sequence[Column], page: Sequence[Row], widths: Sequence[int]
) -> list[tuple[str, ...]]:
    """Shorten or wrap the texts of rows to the widths of their columns."""
    texts = zip(*page, strict=True)
    fitted = [
        _fitted_column(column, own, width)
        for column, own, width in zip(columns, texts, widths, strict=False)
    ]
    return list(zip(*fitted, strict=True))


def _fitted_column(column: Column, texts: Sequence[str], width: int) -> list[str]:
    from rich.cells import cell_len

    long = {text for text in texts if cell_len(text) > width}
    if _is_id(column):
        short = _shortened(long, width)
    else:
        short = {text: (_cut if column.is_list else _folded)(text, width) for text in long}
    return [_like(text, short[text]) if text in long else text for text in texts]


def _is_id(column: Column) -> bool:
    """Return whether values are shortened for lack of room, and never wrapped."""
    return column.is_reference or column.kind is Kind.NAME


def _like(text: str, changed: str) -> str:
    return MarkedText(changed) if isinstance(text, MarkedText) else changed


def _shortened(ids: Collection[str], width: int) -> dict[str, str]:
    """Return ids shortened in their middle, so that they can still be told apart if possible."""
    prefix = max(len(commonprefix([*ids])) - 2, 0)  # noqa: RUF071  # these are no paths
    attempts = [
        *({text: _cut(text, width, text[-end:]) for text in ids} for end in _endings(width)),
        {text: f"…{_cut(text[prefix:], width - 1)}" for text in ids},
    ]
    return next((short for short in attempts if len({*short.values()}) == len(ids)), attempts[0])


def _endings(width: int) -> range:
    """Return numbers of characters of an id after the gap."""
    return range(min(_ENDING, width - 1), max(width - 1, _ENDING + 1))


def _cut(text: str, width: int, end: str = "") -> str:
    """Return as much of the start of a text as fits before a gap and its end."""
    from rich.cells import cell_len

    room = max(width - 1 - cell_len(end), 0)
    start = text[:room]
    while cell_len(start) > room:
        start = start[:-1]
    return f"{start}…{end}"


def _folded(text: str, width: int) -> str:
    """Return a text wrapped between its pieces; pieces that are longer than a line anywhere."""
    from rich.cells import cell_len

    return text if cell_len(text) <= width else _lines(_pieces(text), width)


def _pieces(text: str) -> Iterator[str]:
    """Yield the pieces of a text."""
    for word in re.findall(r"[^ ]+ *| +", text):
        yield from [word] if _WHOLE.fullmatch(word) else _PIECE_ENDS.split(word)


def _longest_piece(texts: Iterable[str]) -> int:
    """Return the width of the longest piece of texts, apart from pieces that cannot stay whole."""
    from rich.cells import cell_len

    widths = (cell_len(piece.rstrip()) for text in {*texts} for piece in _pieces(text))
    return max((width for width in widths if width <= _MOST_PIECE), default=0)


def _lines(pieces: Iterable[str], width: int) -> str:
    from rich.cells import cell_len, chop_cells

    lines = [""]
    for piece in pieces:
        if cell_len(lines[-1] + piece) <= width:
            lines[-1] += piece
        elif cell_len(piece) <= width:
            lines.append(piece)
        else:
            lines += chop_cells(lines.pop() + piece, width)
    return "\n".join(lines)


def _words(title: str) -> list[str]:
    """Return the parts of a title between which it may be wrapped: after underscores and blanks."""
    return re.findall("[^_ ]*[_ ]|[^_ ]+", title) or [""]


def _fields(
    columns: Sequence[Column],
    titles: Sequence[str],
    page: Sequence[Row],
    full_width: int,
    below: Iterable[str],
) -> Text:
    """Return the rows with a field per line and a blank line after each row.

    Prose is wrapped next to its title if there is room; the terminal wraps all other texts.
    """
    from rich.text import Text

    if not page:
        return Text("  ".join(titles), style="bold")
    width = max(map(len, titles))
    room = full_width - width - _GAP
    hanging = f"\n{' ' * (width + _GAP)}"
    fields = Text()
    for number, (row, rest) in enumerate(zip(page, below, strict=True)):
        fields.append("\n" if number else "")
        for column, title, text in zip(columns, titles, row, strict=True):
            if column.is_prose and room >= LEAST_TEXT:
                lines = [line.rstrip() for line in _folded(text, room).split("\n")]
                text = _like(text, hanging.join(lines))
            fields.append(f"{title.ljust(width)}{' ' * _GAP}" if title else "", style="bold")
            fields.append(f"{text}\n", style=_style(text, column))
        fields.append_text(Text.from_ansi(rest.rstrip())).append("\n" if rest else "")
    return fields


def _style(text: str, column: Column) -> str:
    if isinstance(text, MarkedText):
        return "bold reverse"
    if column.may_go_below:
        return ""
    is_alarm = column.is_alarm and text.partition(" ")[0] != "0"
    return WORD_STYLES.get(text, ALARM if is_alarm else "")


def line_text(part: Title | Verdict | Prose | Lines, *, terminal: bool) -> str:
    """Return a heading, paragraphs or lines; on a terminal with colours, wrapped to its width."""
    if isinstance(part, Verdict):
        return _verdict(part.words) if terminal else f"{part.text}\n"
    if isinstance(part, Lines):
        if not terminal:
            return "".join(f"{''.join(text for text, _ in line)}\n" for line in part.lines)
        from rich.text import Text

        lines = Text("\n").join(Text.assemble(*line) for line in part.lines)
        return _on_terminal(lines, None, folded=False)
    if isinstance(part, Prose):
        prose = "\n".join(map(visible, part.text.splitlines()))
        return rich_prose(prose) if terminal else f"{prose}\n"
    if not terminal:
        return f"{part.text}\n"
    from rich.text import Text

    return _on_terminal(Text(part.text, style="bold red" if part.warns else "bold"), None)


def _verdict(words: Sequence[Word]) -> str:
    """Return a verdict with its ids shortened, and details left out, until it takes few lines."""
    from rich.console import Console
    from rich.text import Text

    console = Console()
    limit = min(max([len(word.text) for word in words if word.is_id], default=0), console.width)
    while True:
        text = Text(overflow="ignore")
        for word in words:
            is_long = word.is_id and len(word.text) > limit
            short = _like(word.text, _cut(word.text, limit, word.text[-_ENDING:]))
            text.append(short if is_long else word.text, word.style)
        lines = text.wrap(console, console.width)
        if len(lines) > _VERDICT_LINES and limit > LEAST_REFERENCE:
            limit -= 1
        elif len(lines) > _VERDICT_LINES and any(word.is_optional for word in words):
            words = [word for word in words if not word.is_optional]
        else:
            return _on_terminal(Text("\n").join(lines), None, folded=False)


def rich_prose(text: str, terminal_width: int | None = None) -> str:
    """Return paragraphs as wide as the terminal, up to a readable width."""
    from rich.console import Console
    from rich.text import Text

    width = min(terminal_width or Console().width, PROSE_WIDTH)
    paragraphs = (" ".join(paragraph.split()) for paragraph in text.split("\n\n"))
    return "\n".join(_on_terminal(Text(paragraph), width) for paragraph in paragraphs)


def _on_terminal(renderable: RenderableType, width: int | None, *, folded: bool = True) -> str:
    from io import StringIO

    from rich.console import Console

    text = StringIO()
    Console(file=text, force_terminal=True, width=width).print(renderable, soft_wrap=not folded)
    return text.getvalue()


def _pages(rows: Iterable[Row]) -> Iterator[list[Row]]:
    """Yield rows page by page; one empty page if there are no rows."""
    rest = iter(rows)
    yield list(islice(rest, RICH_PAGE))
    while page := list(islice(rest, RICH_PAGE)):
        yield page
