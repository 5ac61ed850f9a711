"""The screen of `kgroup top` as lines of text: what it shows, for a width and a height.

A line is a sequence of spans: a text, and rich's name of its style. Nothing is told by colour
alone, so that a screen without colours says the same.
"""

from __future__ import annotations

import codecs
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from rich.cells import cell_len, set_cell_size

from kgroup.model.group import Group, GroupType
from kgroup.model.instant import shown_clock
from kgroup.model.problem import Problem
from kgroup.operation.describe import GroupDescription, OffsetDescription, ShareOffsetDescription
from kgroup.operation.top import FollowedGroup, SeenRebalance, TopRow
from kgroup.render.cell import UNKNOWN, harmless, problem_line, visible
from kgroup.render.table import WORD_STYLES

Span = tuple[str, str]
Line = list[Span]
_GAP = 1
_MARK_WIDTH = 2
_LEAST_NAME = 20
"""Characters of group ids before a column of lower rank is left out."""
_LARGEST_EXACT = 9_999_999
_BARS = "▁▂▃▄▅▆▇█"
KEYS = "Enter open  / filter  < > sort  R reverse  Space pause  ? help  q quit"
_OPEN_KEYS = "Esc back  Up Down scroll  Space pause  ? help  q quit"
_TYPING_KEYS = "Enter keep  Esc clear"

HELP = """\
Up Down, j k    move the cursor; it stays with its group
PgUp PgDn       move by a page; Home End: to the first, to the last
Enter           open the group: members, partitions, rebalances since start
Esc             back; or clear the filter
/               filter: groups whose id contains the text, in either case
l g t n s m r   sort by lag, growth, time lag, name, state, members,
                rebalances
< >             sort by the column to the left, to the right
R               reverse the order
Space, p        pause; once more: go on
e               show what could not be read, and notes
?, h            this help
q, Ctrl-C       quit

LAG             records waiting at most, in all partitions; ?: the lag of
                some is not known
GROWTH/s        change of the lag per second, over the last minute
BEHIND          age of the oldest record that waits; read for the groups on
                the screen, then for those with the most lag, for up to
                1,000 partitions; -: not known
MEM             members
REB             rebalances since the start; ≥: at least, as coordinators of
                classic groups do not count them
TREND           lag in the last refreshes; each group has its own scale
"""


class Field(NamedTuple):
    """A column of the screen.

    Attributes:
        name: what `sort` takes.
        title: head of the column.
        width: characters; of the group id the least.
        is_right: whether texts are aligned to the right.
        text: text and style of a row.
        key: value to sort by; None (unknown) comes last.
        falls: whether the largest comes first.
    """

    name: str
    title: str
    width: int
    is_right: bool
    text: Callable[[TopRow], Span]
    key: Callable[[FollowedGroup], object]
    falls: bool = True


def count_text(number: float | None) -> str:
    """Write a count in at most nine characters: exact up to 9,999,999, then as 12.3M."""
    if number is None:
        return UNKNOWN
    if abs(number) <= _LARGEST_EXACT:
        return f"{int(number):,}"
    for unit in "MGTPE":
        number /= 1000
        if abs(number) < 999_950:
            return f"{number / 1000:.1f}{unit}"
    return f"{number:.0e}"


def growth_text(per_s: float | None) -> str:
    """Write a growth in at most eight characters, with its sign; 0 has none."""
    if per_s is None:
        return UNKNOWN
    size = abs(per_s)
    sign = "+" if per_s > 0 else "-"
    if size < 0.05:
        return "0" if not per_s else f"{sign}0.0"
    if size < 999.95:
        return f"{sign}{size:.1f}"
    for unit in ("k", "M", "G", "T"):
        size /= 1000
        if size < 999.95:
            return f"{sign}{size:.1f}{unit}"
    return f"{sign}{size:.0e}"


def short_age(ms: int | None) -> str:
    """Write a length of time in at most six characters: 52 s, 12 min, 3.1 h, 45 d."""
    if ms is None:
        return UNKNOWN
    seconds = max(ms, 0) / 1000
    if seconds < 99.5:
        return f"{seconds:.0f} s"
    if seconds < 99.5 * 60:
        return f"{seconds / 60:.0f} min"
    if seconds < 48 * 3600:
        return f"{seconds / 3600:.1f} h"
    return f"{min(seconds // 86400, 99_999):.0f} d"


def sparkline(values: Sequence[int | None], width: int) -> str:
    """Draw the last values, between 0 and the largest of them; a blank is unknown."""
    values = values[-width:]
    top = max((value for value in values if value), default=0)
    last = len(_BARS) - 1
    return "".join(
        " " if value is None else _BARS[round(value * last / top) if top else 0] for value in values
    )


_PLAIN = str.maketrans(_BARS + "≥…", "_.-:=+*#" + ">~")
"""What stands for the signs of the screen where the terminal does not have them."""


def for_terminal(text: str, encoding: str) -> str:
    """Return a text in the characters of a terminal's encoding; others become ASCII or "?"."""
    if codecs.lookup(encoding).name == "utf-8":
        return text
    return text.translate(_PLAIN).encode(encoding, "replace").decode(encoding)


def _lag(row: TopRow) -> Span:
    group = row.group
    text = count_text(group.total_lag) + ("?" if group.unknown_count else "")
    if not group.total_lag:
        return text, ""
    return text, "bold red" if not group.member_count else "bold"


def _growth(row: TopRow) -> Span:
    per_s = row.group.growth_per_s
    return growth_text(per_s), "" if not per_s else "yellow" if per_s > 0 else "green"


def _state(row: TopRow) -> Span:
    state = row.group.state
    return (UNKNOWN, "") if state is None else (state, WORD_STYLES.get(state, ""))


def _rebalances(row: TopRow) -> Span:
    return rebalances_text(row.group), "yellow" if row.group.rebalance_count else ""


def rebalances_text(group: FollowedGroup) -> str:
    """Write how many rebalances were seen: ≥ where some may have been missed."""
    least = "" if group.is_rebalance_count_exact or not group.rebalance_count else "≥"
    return f"{least}{group.rebalance_count}"


def _worst(row: TopRow) -> Span:
    group = row.group
    if not group.worst_lag:
        return "", ""
    return f"{group.worst_topic or UNKNOWN}-{group.worst_partition}: {group.worst_lag:,}", ""


NAME = Field(
    "name", "GROUP", 0, False, lambda row: (row.group.group_id, ""), lambda g: g.group_id, False
)
_TREND = Field("trend", "TREND", 8, False, lambda row: ("", ""), lambda g: None)
_RANKED = (
    Field("lag", "LAG", 9, True, _lag, lambda g: g.total_lag),
    Field("growth", "GROWTH/s", 8, True, _growth, lambda g: g.growth_per_s),
    Field(
        "time-lag",
        "BEHIND",
        6,
        True,
        lambda row: (short_age(row.group.max_time_lag_ms), ""),
        lambda g: g.max_time_lag_ms,
    ),
    Field("state", "STATE", 10, False, _state, lambda g: g.state, False),
    Field(
        "members",
        "MEM",
        4,
        True,
        lambda row: (str(row.group.member_count), ""),
        lambda g: g.member_count,
    ),
    Field("rebalances", "REB", 4, True, _rebalances, lambda g: g.rebalance_count),
    _TREND,
    Field("worst", "WORST PARTITION", 32, False, _worst, lambda g: g.worst_lag),
    Field("type", "TYPE", 9, False, lambda row: (row.group.type, ""), lambda g: g.type, False),
)
"""Columns in the order in which a narrow screen keeps them, which is that of the screen."""
_EXTRA = ("worst", "type")
"""Columns that take no room from a group id."""
SORTS = {each.name: each for each in (NAME, *_RANKED) if each is not _TREND}
"""Columns to sort by, from left to right."""


def fields_for(width: int, longest_name: int) -> list[Field]:
    """Return the columns that fit into a width, with their widths; the group id comes first."""
    room = width - _MARK_WIDTH
    whole = max(longest_name, len(NAME.title))
    chosen: list[Field] = []
    for each in _RANKED:
        least = whole if each.name in _EXTRA else min(whole, _LEAST_NAME)
        if room - each.width - _GAP < least:
            break
        room -= each.width + _GAP
        chosen.append(each)
    name_width = max(min(room, whole), 1)
    room -= name_width
    if _TREND in chosen:
        at = chosen.index(_TREND)
        chosen[at] = _TREND._replace(width=_TREND.width + min(room, 52))
    return [NAME._replace(width=name_width), *chosen]


def fit(text: str, width: int, *, right: bool = False, middle: bool = False) -> str:
    """Pad or cut a text to a width in cells; … stands for what is cut, perhaps in the middle."""
    size = cell_len(text)
    if size > width:
        if width < 2:
            return set_cell_size(text, width)
        if middle and text.isascii() and width > 8:
            end = (width - 1) // 2
            return f"{text[: width - 1 - end]}…{text[-end:]}"
        return f"{set_cell_size(text, width - 1)}…"
    return " " * (width - size) + text if right else text + " " * (width - size)


@dataclass(slots=True)
class TopScreen:
    """What the screen shows, and where the user is on it.

    Attributes:
        title: words for the source.
        interval_s: seconds from the start of one refresh to the next.
        rows: groups of the last refresh.
        read_ms: time of the last reading, in epoch milliseconds; None before the first one.
        trouble: why the last refresh failed; None if it did not.
        failing_since_ms: time of the first failed refresh since the last reading.
        problems: what could not be read.
        notes: assumptions of the source.
        paused_ms: since when it is paused; None if it is not.
        sort: one of `SORTS`.
        is_reversed: whether the order is reversed.
        text_filter: part of the ids of groups to show.
        is_typing: whether keys change the filter.
        cursor_id: group at the cursor; None for the first one.
        opened_id: group that is open; None for the list.
        opened: its description; None until it is read.
        first_line: number of lines scrolled away.
        page: "help" or "problems" over all; "" for none.
        shown: rows that pass the filter, in order; see `arrange`.
        name_width: width of the longest group id in `shown`.
    """

    title: str
    interval_s: float
    rows: Sequence[TopRow] = ()
    read_ms: int | None = None
    trouble: str | None = None
    failing_since_ms: int | None = None
    problems: Sequence[Problem] = ()
    notes: Sequence[str] = ()
    paused_ms: int | None = None
    sort: str = "lag"
    is_reversed: bool = False
    text_filter: str = ""
    is_typing: bool = False
    cursor_id: str | None = None
    opened_id: str | None = None
    opened: GroupDescription | None = None
    first_line: int = 0
    page: str = ""
    shown: list[TopRow] = field(default_factory=list)
    name_width: int = 0

    # --- the list ---

    def arrange(self) -> None:
        """Filter and sort the rows again."""
        text = self.text_filter.casefold()
        rows = [row for row in self.rows if text in row.group.group_id.casefold()]
        column = SORTS[self.sort]
        rows.sort(key=lambda row: row.group.group_id)
        known = [row for row in rows if column.key(row.group) is not None]
        unknown = [row for row in rows if column.key(row.group) is None]
        known.sort(
            key=lambda row: column.key(row.group),  # type: ignore[arg-type,return-value]
            reverse=column.falls is not self.is_reversed,
        )
        self.shown = known + unknown
        self.name_width = max((cell_len(visible(each.group.group_id)) for each in rows), default=0)

    @property
    def cursor(self) -> int:
        """Index of the row at the cursor; 0 if there is none."""
        for index, row in enumerate(self.shown):
            if row.group.group_id == self.cursor_id:
                return index
        return 0

    def move(self, to: int) -> None:
        """Move the cursor to a row, or to the nearest one; on the first one it stays first."""
        to = max(0, min(to, len(self.shown) - 1))
        self.cursor_id = self.shown[to].group.group_id if to and self.shown else None

    def row_of(self, group_id: str | None) -> TopRow | None:
        """Return the row of a group; None if it is gone."""
        return next((row for row in self.rows if row.group.group_id == group_id), None)

    def in_view(self, height: int) -> list[str]:
        """Return the ids of groups whose rows are on a screen of that height."""
        if self.opened_id is not None:
            return [self.opened_id]
        room = max(height - _AROUND, 1)
        return [row.group.group_id for row in self.shown[self.first_line :][:room]]

    # --- lines ---

    def lines(self, width: int, height: int, now_ms: int) -> list[Line]:
        """Return the lines of the screen: as many as its height, none longer than its width."""
        head = [self._summary(width, now_ms), self._status(now_ms)]
        if self.page:
            body = _page_lines(self._page_text(), width)
            lines, foot = self._scrolled(body, height - 3), _OPEN_KEYS
        elif self.opened_id is not None:
            body = list(self._opened_lines(width, now_ms))
            lines, foot = self._scrolled(body, height - 3), _OPEN_KEYS
        else:
            lines, foot = self._list_lines(width, height - 3), KEYS
        if self.is_typing:
            foot = _TYPING_KEYS
        lines = [*head, *lines]
        lines = lines[: max(height - 1, 0)]
        lines += [[] for _ in range(height - 1 - len(lines))]
        return [_cut(line, width) for line in [*lines, [(foot, "dim")]][:height]]

    def _summary(self, width: int, now_ms: int) -> Line:
        count = len(self.rows)
        what = f"{count:,} group{'' if count == 1 else 's'}"
        if len(self.shown) != count:
            what += f", {len(self.shown):,} shown"
        lag = f"{sum(row.group.total_lag or 0 for row in self.shown):,}"
        lag += "?" * any(row.group.unknown_count for row in self.shown)
        right = "reading ..." if self.read_ms is None else f"{shown_clock(self.read_ms)}"
        if self.read_ms is not None:
            right += f", {short_age(now_ms - self.read_ms)} ago, every {self.interval_s:g} s"
        left = f"kgroup top  {visible(self.title)}"
        middle = f"  {what}, lag {lag}" if self.read_ms is not None else ""
        room = width - len(right) - len(middle) - 2
        if cell_len(left) > room:
            left = visible(self.title)
        if room < 12:  # too narrow for all: the numbers matter
            return [(f"{middle.strip()}  {right}", "bold")]
        return [(fit(left, min(room, cell_len(left)), middle=True), "bold"), (middle, ""),
                ("  ", ""), (right, "")]  # fmt: skip

    def _status(self, now_ms: int) -> Line:
        spans: Line = []
        if self.trouble is not None:
            since = self.read_ms if self.read_ms is not None else self.failing_since_ms
            age = (
                ""
                if since is None
                else f" since {shown_clock(since)} ({short_age(now_ms - since)})"
            )
            spans.append((f"! stale{age}: {harmless(self.trouble)}", "bold red"))
            return spans
        if self.paused_ms is not None:
            spans.append((f"PAUSED since {shown_clock(self.paused_ms)}", "reverse"))
        if self.is_typing:
            spans.append((f"/{visible(self.text_filter)}_", "bold"))
        elif self.text_filter:
            spans.append((f"filter /{visible(self.text_filter)} (Esc clears it)", "bold"))
        if self.problems:
            more = f" (e: all {len(self.problems)})" if len(self.problems) > 1 else ""
            text = harmless(problem_line(self.problems[0]))
            spans.append((f"!{more} {text}", "bold red"))
        if not spans and self.opened_id is None and not self.page:
            order = ", reversed" if self.is_reversed else ""
            spans.append((f"sorted by {self.sort}{order}", "dim"))
        return [part for span in spans for part in (span, ("  ", ""))]

    def _list_lines(self, width: int, height: int) -> list[Line]:
        rows = self.shown
        room = max(height - 1, 0)
        at = self.cursor
        self.first_line = max(0, min(self.first_line, at, len(rows) - room), at - room + 1)
        fields = fields_for(width, self.name_width)
        head: Line = [(" " * _MARK_WIDTH, "")]
        for each in fields:
            style = "bold reverse" if each.name == self.sort else "bold"
            head += [(fit(each.title, each.width, right=each.is_right), style), (" " * _GAP, "")]
        lines = [head]
        for index, row in enumerate(rows[self.first_line : self.first_line + room]):
            lines.append(self._row(row, fields, is_at=self.first_line + index == at))
        if not rows and self.read_ms is not None:
            lines.append([("  no group" + (" matches the filter" if self.rows else ""), "dim")])
        return lines

    def _row(self, row: TopRow, fields: Sequence[Field], *, is_at: bool) -> Line:
        line: Line = [("> " if is_at else "  ", "reverse" if is_at else "")]
        is_old = self.read_ms is not None and row.group.time_ms < self.read_ms
        for each in fields:
            is_trend = each.name == _TREND.name
            text, style = (sparkline(row.trend, each.width), "cyan") if is_trend else each.text(row)
            text = fit(visible(text), each.width, right=each.is_right, middle=each is fields[0])
            if is_old:
                style = "dim"
            gap = ""
            if is_at and not is_trend:  # one bar: colours in it would be a patchwork
                style = gap = "dim reverse" if is_old else "reverse"
            line += [(text, style), (" " * _GAP, gap)]
        return line

    def _scrolled(self, body: Sequence[Line], room: int) -> list[Line]:
        room = max(room, 0)
        self.first_line = max(0, min(self.first_line, len(body) - room))
        return list(body[self.first_line : self.first_line + room])

    def _page_text(self) -> str:
        if self.page == "help":
            return HELP
        texts = [f"! {harmless(problem_line(problem))}" for problem in self.problems]
        texts += [f"note: {harmless(note)}" for note in self.notes]
        return "\n".join(texts) or "Everything could be read."

    # --- one group ---

    def _opened_lines(self, width: int, now_ms: int) -> Iterator[Line]:
        row = self.row_of(self.opened_id)
        if row is None:
            yield [(visible(self.opened_id or ""), "bold")]
            yield [("The group is gone, or is not in what could be read.", "")]
            return
        group = row.group
        yield [(visible(group.group_id), "bold")]
        state = group.state or UNKNOWN
        members = f"{group.member_count} member{'' if group.member_count == 1 else 's'}"
        yield [
            (f"{group.type}  ", ""),
            (state, WORD_STYLES.get(state, "")),
            (f"  {members}  lag ", ""),
            _lag(row),
            ("  ", ""),
            (f"{growth_text(group.growth_per_s)}/s", _growth(row)[1]),
            (f"  {short_age(group.max_time_lag_ms)} behind", ""),
            (f"  rebalances {rebalances_text(group)}", ""),
        ]
        if row.trend:
            yield [(sparkline(row.trend, width), "cyan")]
        opened = self.opened
        if opened is None or opened.group.group_id != self.opened_id:
            yield []
            yield [("reading members and partitions ...", "dim")]
        else:
            facts = _facts(opened.group)
            if facts:
                yield [(facts, "dim")]
            yield []
            yield from _member_lines(opened, width)
            yield []
            yield from _partition_lines(opened, width)
        yield []
        yield [("REBALANCES seen since the start", "bold")]
        yield from _rebalance_lines(row.rebalances, width)


def _facts(group: Group) -> str:
    facts = {
        "generation": group.generation_id,
        "epoch": group.group_epoch,
        "assignor": group.assignor,
        "coordinator": group.coordinator and group.coordinator.label,
        "leader": group.leader_id,
    }
    return "  ".join(f"{name} {visible(str(fact))}" for name, fact in facts.items() if fact)


_AROUND = 4
"""Lines around the rows of the list: summary, status, titles, keys."""


def _table(
    title: str,
    heads: Sequence[str],
    rows: Sequence[Sequence[str]],
    right: Sequence[bool],
    width: int,
) -> Iterator[Line]:
    """Yield a table; its first column is cut if the width does not suffice."""
    yield [(title, "bold")]
    if not rows:
        return
    widths = [max(cell_len(text) for text in column) for column in zip(heads, *rows, strict=True)]
    widths[0] = min(widths[0], max(width - sum(widths[1:]) - 2 * len(widths), 8))
    for style, texts in [("dim", heads), *(("", row) for row in rows)]:
        cells = [
            fit(text, size, right=is_right, middle=not index)
            for index, (text, size, is_right) in enumerate(zip(texts, widths, right, strict=True))
        ]
        yield [(f"  {'  '.join(cells)}", style)]


def _member_lines(opened: GroupDescription, width: int) -> Iterator[Line]:
    group = opened.group
    lags: dict[str, int] = {}
    counts: dict[str, int] = {}
    for row in opened.offsets:
        if row.member_id is not None:
            counts[row.member_id] = counts.get(row.member_id, 0) + 1
            lags[row.member_id] = lags.get(row.member_id, 0) + max(row.lag or 0, 0)
    tells = group.type is not GroupType.SHARE
    rows = [
        (
            visible(member.instance_id or member.client_id or member.member_id),
            visible((member.client_host or "").lstrip("/")),
            str(counts.get(member.member_id, 0)) if tells else UNKNOWN,
            count_text(lags.get(member.member_id, 0)) if tells else UNKNOWN,
        )
        for member in sorted(
            group.members, key=lambda each: (-lags.get(each.member_id, 0), each.member_id)
        )
    ]
    heads = ("member", "host", "partitions", "lag")
    yield from _table(f"MEMBERS ({len(rows)})", heads, rows, (False, False, True, True), width)


def _partition_lines(opened: GroupDescription, width: int) -> Iterator[Line]:
    names = {
        member.member_id: member.instance_id or member.client_id or member.member_id
        for member in opened.group.members
    }
    parts: list[OffsetDescription | ShareOffsetDescription]
    parts = [*opened.offsets, *(opened.share_offsets or ())]
    parts.sort(key=lambda row: -1 if row.lag is None else row.lag, reverse=True)
    rows = []
    for part in parts:
        place = f"{part.topic or part.topic_id}-{part.partition}"
        if isinstance(part, ShareOffsetDescription):
            offset, owner, mark = part.start_offset, None, None
        else:
            offset, owner, mark = part.committed_offset, part.member_id, part.mark
        rows.append(
            (
                visible(place),
                UNKNOWN if offset is None else f"{offset:,}",
                UNKNOWN if part.log_end_offset is None else f"{part.log_end_offset:,}",
                UNKNOWN if part.lag is None else f"{part.lag:,}",
                short_age(part.time_lag_ms),
                visible(names.get(owner, owner) if owner else mark or UNKNOWN),
            )
        )
    heads = ("partition", "offset", "end", "lag", "behind", "owner")
    right = (False, True, True, True, True, False)
    yield from _table(f"PARTITIONS ({len(rows)}), worst first", heads, rows, right, width)


def _rebalance_lines(rebalances: Sequence[SeenRebalance], width: int) -> Iterator[Line]:
    if not rebalances:
        yield [("  none", "dim")]
    for each in reversed(rebalances):
        least = "" if each.is_exact else "at least "
        text = f"  {shown_clock(each.time_ms)}  {least}{each.count}"
        if not each.is_over:
            text += ", going on"
        for names, verb in ((each.joined, "joined"), (each.left, "left")):
            if names:
                more = f" and {len(names) - 3} more" if len(names) > 3 else ""
                text += f"; {verb}: {', '.join(map(visible, names[:3]))}{more}"
        if each.moved_count:
            text += f"; {each.moved_count} partition{'' if each.moved_count == 1 else 's'} moved"
        yield from _page_lines(text, width)


def _page_lines(text: str, width: int) -> list[Line]:
    """Fold a text to a width; lines that are a table stay as they are."""
    lines: list[Line] = []
    for line in text.splitlines():
        while cell_len(line) > width > 10:
            at = line.rfind(" ", 0, width)
            at = at if at > len(line) - len(line.lstrip()) else width
            lines.append([(line[:at], "")])
            line = "    " + line[at:].lstrip()
        lines.append([(line, "")])
    return lines


def _cut(line: Iterable[Span], width: int) -> Line:
    """Cut a line to a width in cells."""
    room, spans = width, []
    for text, style in line:
        size = cell_len(text)
        if size > room:
            text = fit(text, room) if room > 0 else ""
            size = room
        if text:
            spans.append((text, style))
        room -= size
        if room <= 0:
            break
    return spans
