"""The page of a group: an HTML file with drawings in SVG, without scripts and other files.

Ids in it come from clients. They are escaped everywhere, and the page's own policy allows no
script, so that they can do no harm.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from html import escape
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from kgroup import __version__
from kgroup.errors import shown_id
from kgroup.history.query.group_page import counted, name_of_owned
from kgroup.history.rebalance.rebalance import CauseKind
from kgroup.model.instant import rfc3339
from kgroup.render.cell import age, ranges, visible

if TYPE_CHECKING:
    from kgroup.history.query.group_page import GroupPage, Load
    from kgroup.history.query.lag import GroupLag
    from kgroup.history.rebalance.rebalance import Rebalance
    from kgroup.history.sql.question import Interval


COLOURS = (
    *("#4c78a8", "#f58518", "#54a24b", "#e45756", "#72b7b2", "#b279a2", "#d6a81d", "#9d755d"),
    *("#2f9ed0", "#d67195", "#8a8f2a", "#7f7fc4", "#17806d", "#c2571a", "#a05ec2", "#6b8e9f"),
)
"""Colours of clients, in turn; they can be distinguished on white and on black."""
_NO_COLOUR = "#888888"

_ENDS = (CauseKind.GONE, CauseKind.LEFT, CauseKind.EXPIRED, CauseKind.FOLLOW_UP)
"""Causes that often come with another one, such as a restart."""

MOST_LISTED = 200
"""Maximum number of rebalances in the table below the drawings, and of lines through them."""

_WIDTH, _LEFT, _RIGHT = 1200, 232, 14
"""Units of a drawing: its width, and the space for labels and beside the last time."""
_PLOT = _WIDTH - _LEFT - _RIGHT
_ROW, _BAR = 17, 12
_MOST_LABEL = 32
"""Maximum length of a label, in small letters."""
_CURVE = 110
"""Height of a drawing of numbers."""
_MOST_TICKS = 8
_MOST_EVIDENCE = 4
"""Maximum number of causes of a rebalance whose evidence is shown."""
_MOST_NAMED = 600
"""Maximum number of characters of a list of partitions where the mouse rests."""
_SECONDS = (1, 2, 5, 10, 15, 30)
_DAY_MS = 86_400_000
_STEPS_MS = (
    *(10**power * digit for power in range(3) for digit in (1, 2, 5)),
    *(1000 * count for count in _SECONDS),
    *(60_000 * count for count in _SECONDS),
    *(3_600_000 * count for count in (1, 2, 3, 6, 12)),
    *(_DAY_MS * count for count in (1, 2, 7, 14, 30, 90, 365)),
)
"""Distances of ticks on the axis of time."""


def group_html(page: GroupPage) -> Iterator[str]:
    """Yield the page."""
    title = f"Consumer group {_text(shown_id(page.group_id))}"
    head = Path(__file__).with_name("page.html").read_text("utf-8")
    yield head.replace("VERSION", __version__).replace("TITLE", title)
    yield f'<h1>{title}</h1>\n<p class="what">{_what_happened(page)}</p>\n'
    yield f"<p>{_contents(page)}</p>\n"
    if page.left_out:
        yield f"<p>Left out: {'; '.join(_text(what) for what in page.left_out)}.</p>\n"
    if page.since_ms is not None and page.until_ms is not None:
        scale = _Scale.around(page.since_ms, max((page.until_ms, *(x.time_ms for x in page.lags))))
        moments = [change.time_ms or 0 for change in page.rebalances]
        lines = _path("moments", (scale.x(ms) for ms in moments[-MOST_LISTED:]))
        clients = _Clients(page)
        for heading, class_name, drawing in (
            ("Rebalances and their causes", "rows", _causes(page, scale, clients)),
            ("Lag, where log end offsets were recorded", "", _lags(page, scale)),
            (f"Commits per {_length(page.rate_ms)}", "", _rates(page, scale)),
            ("Members by client id", "rows", _members(page, scale, clients)),
            ("Who owned what", "rows", _owners(page, scale, clients)),
        ):
            if drawing.shapes:
                yield from _section(heading, class_name, drawing, scale, lines)
    yield from _table(page.rebalances)
    yield "</main>\n</body>\n</html>\n"


def _text(text: str) -> str:
    """Return a text escaped for HTML."""
    return escape(visible(text))


def _what_happened(page: GroupPage) -> str:
    """Return the sentence on top: rebalances and their main cause, pauses, lag."""
    if page.since_ms is None or page.until_ms is None:
        return "No record of the group has a time."
    count = len(page.rebalances)
    parts = [counted(count, "rebalance") if count else "No rebalance"]
    if count:
        kinds = Counter(change.cause for change in page.rebalances)
        kind, most = max(kinds.items(), key=lambda item: (item[1], item[0] not in _ENDS))
        clients = Counter(
            next((c.client_id for c in change.causes if c.kind is kind and c.client_id), None)
            for change in page.rebalances
            if change.cause is kind
        )
        [(client_id, times)] = clients.most_common(1)
        by = ""
        if client_id is not None and times > 1:
            by = f", {'all' if times == most else f'{times} of them'} by {_text(client_id)}"
        elif client_id is not None and count == 1:
            by = f" by {_text(client_id)}"
        of = f" ({most} of {count}{by})" if count > 1 else by
        parts.append(f"{'main ' if len(kinds) > 1 else ''}cause: {_words(kind.value)}{of}")
        gaps = [change for change in page.rebalances if change.commit_gap_ms is not None]
        if gaps:
            worst = max(gaps, key=lambda change: change.commit_gap_ms or 0)
            length = age(worst.commit_gap_ms or 0)
            parts.append(
                f"no commits for up to {length} around the rebalance at {_clock(worst.time_ms)}"
            )
    if page.lags:
        last, high = page.lags[-1], max(page.lags, key=lambda lag: lag.lag)
        text = f"lag {'of ' if last.unknown else ''}{_sum(last)} at {_clock(last.time_ms)}"
        if high.lag > last.lag:
            day = _clock(last.time_ms)[:11]
            text += f", at worst {_sum(high)} at {_clock(high.time_ms).removeprefix(day)}"
        parts.append(text)
    else:
        parts.append("lag unknown, because no log end offset was recorded")
    return f"{'; '.join(parts)}."


def _sum(lag: GroupLag) -> str:
    return f"at least {lag.lag:,}" if lag.unknown else f"{lag.lag:,}"


def _contents(page: GroupPage) -> str:
    cluster = f"Cluster {_text(page.cluster)}"
    if page.since_ms is None or page.until_ms is None:
        return f"{cluster}."
    clients = {life.who.client_id or life.who.member_id for life in page.lives}
    parts = (
        counted(len(clients), "client id"),
        counted(len(page.lives), "member"),
        counted(page.owned_count, "partition or task", "partitions or tasks"),
        counted(sum(rate.commits for rate in page.rates), "commit"),
    )
    return (
        f"{cluster}, {rfc3339(page.since_ms)} to {rfc3339(page.until_ms)} "
        f"({age(page.until_ms - page.since_ms)}): {', '.join(parts)}. Times are in UTC."
    )


def _words(kind: str) -> str:
    return kind.replace("_", " ")


def _clock(time_ms: int | None) -> str:
    """Return a time without fractions of a second: "2026-11-21 22:12:20"."""
    return rfc3339(time_ms or 0).partition(".")[0].replace("T", " ")


def _length(ms: int) -> str:
    """Return the length of a bar: "15 s", "1 h"."""
    for unit, size in (("d", _DAY_MS), ("h", 3_600_000), ("min", 60_000)):
        if ms >= size:
            return f"{ms // size} {unit}"
    return f"{ms // 1000} s"


@dataclass(frozen=True, slots=True)
class _Scale:
    """The times between the left and the right edge of the drawings."""

    begin_ms: int
    end_ms: int

    @classmethod
    def around(cls, since_ms: int, until_ms: int) -> _Scale:
        margin = max(500, (until_ms - since_ms) // 100)
        return cls(since_ms - margin, until_ms + margin)

    def x(self, time_ms: int) -> float:
        """Return the place of a time, at the edge if it is outside."""
        inside = min(max(time_ms, self.begin_ms), self.end_ms) - self.begin_ms
        return round(_LEFT + _PLOT * inside / (self.end_ms - self.begin_ms), 1)

    def span(self, from_ms: int, to_ms: int) -> str:
        """Return the attributes of a rectangle between two times, wide enough to be seen."""
        begin = self.x(from_ms)
        return f'x="{begin:g}" width="{max(self.x(to_ms) - begin, 2):.4g}"'

    def ticks(self) -> Sequence[int]:
        """Return the times with a tick."""
        length = self.end_ms - self.begin_ms
        fits = (step for step in _STEPS_MS if length <= step * _MOST_TICKS)
        step = next(fits, length // _MOST_TICKS)
        return range(-(-self.begin_ms // step) * step, self.end_ms + 1, step)


@dataclass(frozen=True, slots=True)
class _Drawing:
    """A drawing above an axis of time.

    Attributes:
        height: its height.
        shapes: its elements in SVG; empty if there is nothing to draw.
    """

    height: int
    shapes: Sequence[str]


def _section(
    heading: str, class_name: str, drawing: _Drawing, scale: _Scale, lines: str
) -> Iterator[str]:
    """Yield a drawing with its heading and axis; `lines` mark the rebalances."""
    height, ticks = drawing.height, [(tick, scale.x(tick)) for tick in scale.ticks()]
    yield f'<section><h2>{heading}</h2>\n<div class="wide">\n<div class="{class_name}">'
    box = f'viewBox="0 0 {_WIDTH} {height}"'
    yield f'<svg class="drawing" {box} role="group" aria-label="{heading}">\n'
    yield f"{_path('grid', (x for _, x in ticks), height)}{lines.replace('HEIGHT', str(height))}\n"
    yield "\n".join(drawing.shapes)
    yield f'</svg></div>\n<div><svg class="drawing axis" viewBox="0 0 {_WIDTH} 34">'
    days = set()
    for tick, x in ticks:
        day, _, clock = rfc3339(tick).removesuffix("Z").partition("T")
        step = ticks[1][0] - ticks[0][0] if len(ticks) > 1 else 1
        clock = clock if step % 1000 else clock[:8] if step % 60_000 else clock[:5]
        lower = "" if day in days or not clock else day
        days.add(day)
        upper = day if step >= _DAY_MS or not clock else clock
        for y, text in ((13, upper), (29, lower if upper != lower else "")):
            if text:
                yield f'<text x="{x:g}" y="{y}" text-anchor="middle">{text}</text>'
    yield "</svg></div>\n</div></section>\n"


def _path(class_name: str, xs: Iterable[float], height: int | str = "HEIGHT") -> str:
    """Return vertical lines."""
    lines = "".join(f"M{x:g} 0V{height}" for x in dict.fromkeys(xs))
    return f'<path class="{class_name}" d="{lines}"/>' if lines else ""


def _label(row: int, text: str, title: str) -> str:
    """Return a label, which ends where the drawing begins."""
    hover = "" if title == text else f"<title>{_text(title)}</title>"
    return (
        f'<svg y="{row * _ROW}" width="{_LEFT - 6}" height="{_ROW}"><text y="13">{hover}'
        f"{_text(text)}</text></svg>"
    )


def _labels(names: Iterable[str], most: int = _MOST_LABEL) -> dict[str, str]:
    """Return a distinct label for each name; long names are shortened in the middle."""
    labels: dict[str, str] = {}
    used: set[str] = set()
    for name in names:
        label, number = _shortened(name, most), 1
        while label in used:
            number += 1
            label = f"{_shortened(name, most - 5)} ({number})"
        labels[name] = label
        used.add(label)
    return labels


def _shortened(text: str, most: int) -> str:
    """Return a text without its middle if it is longer than most small letters are."""
    is_wide = [char.isupper() or ord(char) > 0x1100 for char in text]
    most = most * len(text) * 10 // (len(text) * 10 + 6 * sum(is_wide)) if text else most
    return text if len(text) <= most else f"{text[: most - most // 2]}…{text[1 - most // 2 :]}"


class _Clients:
    """The rows of a group's clients: members with one client id, one after the other, share one.

    Attributes:
        names: name of each row.
        row_of: row of each member id.
    """

    def __init__(self, page: GroupPage) -> None:
        """Find a row for each member, of which several may be there at the same time."""
        end_ms = page.until_ms or 0
        periods: list[tuple[Any, int, int]] = [
            (life.who, life.from_ms, end_ms if life.to_ms is None else life.to_ms)
            for life in page.lives
        ]
        known = {life.who.member_id for life in page.lives}
        owners: dict[str, tuple[Interval, int, int]] = {}
        for stretch in (stretch for row in page.rows for stretch in row.stretches):
            begin_ms, to_ms = stretch.from_ms or 0, stretch.to_ms
            owner, first, last = owners.get(stretch.member_id, (stretch, begin_ms, 0))
            last = max(last, end_ms if to_ms is None else to_ms)
            owners[stretch.member_id] = owner, min(first, begin_ms), last
        periods += [period for member, period in owners.items() if member not in known]
        self.row_of: dict[str, int] = {}
        rows: list[list[Any]] = []
        free_from: list[int] = []
        by_client: dict[str, list[int]] = {}
        for who, from_ms, to_ms in sorted(periods, key=lambda period: period[1]):
            own = by_client.setdefault(_client(who), [])
            row = self.row_of.get(who.member_id)
            if row is None:
                free = [row for row in own if free_from[row] <= from_ms]
                alike = (row for row in free if rows[row][-1].client_host == who.client_host)
                row = next(alike, free[0] if free else len(rows))
            if row == len(rows):
                own.append(row)
                rows.append([])
                free_from.append(to_ms)
            rows[row].append(who)
            free_from[row] = max(free_from[row], to_ms)
            self.row_of[who.member_id] = row
        self.names = [""] * len(rows)
        for client, own in by_client.items():
            hosts = [{who.client_host for who in rows[row]} for row in own]
            for number, row in enumerate(own):
                name = client
                if len(own) > 1 and len(hosts[number]) == 1 and hosts.count(hosts[number]) == 1:
                    name += f" {(rows[row][0].client_host or '-').removeprefix('/')}"
                elif len(own) > 1:
                    name += f" #{number + 1}"
                self.names[row] = name

    def colour(self, member_id: str | None) -> str:
        """Return the colour of a member."""
        row = self.row_of.get(member_id or "")
        return _NO_COLOUR if row is None else COLOURS[row % len(COLOURS)]


def _client(who: Any) -> str:
    """Return the name of a client: its client id, and its instance id if that differs."""
    client_id, instance_id = who.client_id or "", who.instance_id
    if instance_id and instance_id != client_id:
        return f"{client_id} {instance_id}".strip()
    return client_id or who.member_id


def _causes(page: GroupPage, scale: _Scale, clients: _Clients) -> _Drawing:
    """Draw a mark for each rebalance; an empty one if its cause is inferred."""
    kinds = list(dict.fromkeys(change.cause.value for change in page.rebalances))
    shapes = [_label(row, _words(kind), _words(kind)) for row, kind in enumerate(kinds)]
    for change in page.rebalances:
        by = next((c.member_id for c in change.causes if c.member_id in clients.row_of), None)
        colour = clients.colour(by)
        is_certain = change.certainty.value == "certain"
        look = f'fill="{colour}"' if is_certain else f'class="inferred" stroke="{colour}"'
        y = kinds.index(change.cause.value) * _ROW + 9
        shapes.append(
            f'<circle cx="{scale.x(change.time_ms or 0):g}" cy="{y}" r="5" {look}>'
            f"<title>{_hover(_of_rebalance(change))}</title></circle>"
        )
    return _Drawing(len(kinds) * _ROW + 2, shapes)


def _hover(lines: Iterable[str]) -> str:
    """Return what a browser shows where the mouse rests."""
    return "\n".join(map(_text, lines))


def _of_rebalance(change: Rebalance) -> Iterator[str]:
    yield f"{_words(change.cause.value)} ({change.certainty.value})"
    yield rfc3339(change.time_ms or 0)
    moved = "-" if change.moved_count is None else change.moved_count
    yield f"generation {change.generation_id}, members {_members_of(change)}, moved {moved}"
    yield from _evidence(change)
    for name, value in (
        ("sync", change.sync_ms),
        ("reconciled after", change.reconcile_ms),
        ("without commits", change.commit_gap_ms),
    ):
        if value is not None:
            yield f"{name} {age(value)}"


def _evidence(change: Rebalance) -> list[str]:
    evidence = [cause.evidence for cause in change.causes] or [change.evidence]
    more = len(evidence) - _MOST_EVIDENCE
    return [*evidence[:_MOST_EVIDENCE], *([f"and {more:,} more"] if more > 0 else [])]


def _members_of(rebalance: Rebalance) -> str:
    before = rebalance.members_before
    return f"{'?' if before is None else len(before)} to {len(rebalance.members)}"


def _lags(page: GroupPage, scale: _Scale) -> _Drawing:
    """Draw the lags, with a line where they were recorded regularly."""
    if not page.lags:
        return _Drawing(0, ())
    top = max(lag.lag for lag in page.lags)
    shapes, y = _numbers(top)
    times = [lag.time_ms for lag in page.lags]
    usual = median([after - before for before, after in pairwise(times)] or [0])
    line = "".join(
        f"{'M' if index == 0 or lag.time_ms - times[index - 1] > 3 * usual else 'L'}"
        f"{scale.x(lag.time_ms):g} {y(lag.lag):.4g}"
        for index, lag in enumerate(page.lags)
    )
    shapes.append(f'<path class="lag" d="{line}"/><g class="lags">')
    radius = 3 if len(times) <= 100 else 1.5
    for lag in page.lags:
        of = f"{counted(lag.lag, 'record')} in {counted(lag.partitions, 'partition')}"
        of += f", unknown in {lag.unknown:,}" if lag.unknown else ""
        shapes.append(
            f'<circle cx="{scale.x(lag.time_ms):g}" cy="{y(lag.lag):.4g}" r="{radius}">'
            f"<title>{rfc3339(lag.time_ms)}: {of}</title></circle>"
        )
    return _Drawing(_CURVE, [*shapes, "</g>"])


def _rates(page: GroupPage, scale: _Scale) -> _Drawing:
    if not page.rates:
        return _Drawing(0, ())
    shapes, y = _numbers(max(rate.commits for rate in page.rates))
    shapes.append('<g class="rate">')
    for rate in page.rates:
        top = y(rate.commits)
        shapes.append(
            f"<rect {scale.span(rate.time_ms, rate.time_ms + page.rate_ms)} "
            f'y="{top:.4g}" height="{y(0) - top:.4g}">'
            f"<title>{rfc3339(rate.time_ms)}: {counted(rate.commits, 'commit')}</title></rect>"
        )
    return _Drawing(_CURVE, [*shapes, "</g>"])


def _numbers(highest: int) -> tuple[list[str], Callable[[int], float]]:
    """Return the axis of a drawing of numbers, and a function from a number to its height."""
    power: int = 10 ** (len(str(max(highest, 1))) - 1)
    top = next(power * digit for digit in (1, 2, 3, 4, 5, 6, 8, 10) if power * digit >= highest)

    def y(value: int) -> float:
        return _CURVE - 4 - (_CURVE - 16) * value / top

    marks = [0, top // 2, top] if top % 2 == 0 else [0, top]
    lines = "".join(f"M{_LEFT} {y(mark):g}H{_WIDTH - _RIGHT}" for mark in marks)
    labels = "".join(
        f'<text x="{_LEFT - 8}" y="{min(y(mark) + 4, _CURVE - 1):g}" text-anchor="end">{mark:,}'
        "</text>"
        for mark in marks
    )
    return [f'<path class="grid" d="{lines}"/><g class="axis">{labels}</g>'], y


def _members(page: GroupPage, scale: _Scale, clients: _Clients) -> _Drawing:
    """Draw when members were in the group; the higher the bar, the more partitions they had."""
    used = {clients.row_of[life.who.member_id] for life in page.lives}
    rows = sorted(used, key=lambda row: _natural(clients.names[row]))
    shapes = _row_labels([clients.names[row] for row in rows])
    place = {row: index * _ROW + 3 for index, row in enumerate(rows)}
    # Rebalances after the end of the page are not on it: a member may have left by then.
    times = (page.until_ms, page.known_ms)
    known_ms = min((time for time in times if time is not None), default=None)
    highest = max((load.count for load in page.loads), default=1)
    loads: dict[str, list[Load]] = {}
    for load in page.loads:
        loads.setdefault(load.member_id, []).append(load)
    for life in page.lives:
        top = place[clients.row_of[life.who.member_id]]
        colour = clients.colour(life.who.member_id)
        hover = [*_who(life.who), *_period(life.from_ms, life.to_ms, known_ms)]
        end_ms = _end(life.to_ms, life.from_ms, page)
        own = [
            load
            for load in loads.get(life.who.member_id, ())
            if load.from_ms < max(end_ms, life.from_ms + 1)
            and (load.to_ms is None or load.to_ms > life.from_ms)
        ]
        hover += (
            f"{counted(load.count, 'partition or task', 'partitions or tasks')} from "
            f"{rfc3339(load.from_ms)}"
            for load in own[-8:]
        )
        area = ""
        for load in own:
            left, right = scale.x(load.from_ms), scale.x(_end(load.to_ms, load.from_ms, page))
            height = max(round(_BAR * load.count / highest), 2)
            area += f"M{left:g} {top + _BAR}v{-height}H{max(right, left + 1):g}v{height}z"
        shapes.append(
            f'<g fill="{colour}"><title>{_hover(hover)}</title><rect class="life" '
            f'{scale.span(life.from_ms, end_ms)} y="{top}" height="{_BAR}"/>'
            f'<path d="{area}"/></g>'
        )
    return _Drawing(len(rows) * _ROW + 2, shapes)


def _natural(name: str) -> list[tuple[int, str]]:
    """Return a sort key for which 9 is before 10."""
    parts = re.split(r"([0-9]{1,18})", name)
    return [(int(part) if index % 2 else 0, part) for index, part in enumerate(parts)]


def _row_labels(names: Sequence[str]) -> list[str]:
    labels = _labels(names)
    return [_label(row, labels[name], name) for row, name in enumerate(names)]


def _end(to_ms: int | None, from_ms: int, page: GroupPage) -> int:
    """Return where a bar ends: at the end of the page if its end is unknown."""
    return max(from_ms, page.until_ms or from_ms) if to_ms is None else to_ms


def _who(who: Any) -> Iterator[str]:
    yield f"client {who.client_id or '-'}, {who.client_host or '-'}"
    if who.instance_id:
        yield f"instance {who.instance_id}"
    yield f"member {who.member_id}"


def _period(
    from_ms: int, to_ms: int | None, known_ms: int | None, ended_by: str | None = None
) -> Iterator[str]:
    """Yield when something began and ended, or that its end is unknown, and how long it was."""
    yield f"from {rfc3339(from_ms)}"
    if to_ms is not None:
        yield f"to {rfc3339(to_ms)}{f' ({ended_by})' if ended_by else ''}"
        yield age(to_ms - from_ms)
    elif known_ms is None:
        yield "not over at the last record that is known"
    else:
        yield f"not over at {rfc3339(known_ms)}"
        yield f"{age(known_ms - from_ms)} by then"


def _owners(page: GroupPage, scale: _Scale, clients: _Clients) -> _Drawing:
    """Draw a bar for each ownership interval, in the colour of the owner.

    Owners of a partition at the same time, as in a share group, have bars below each other.
    """
    names = [name_of_owned(owned.stretches[0]) for owned in page.rows]
    is_shared = any(len(owned.owned) > 1 for owned in page.rows)
    labels = _labels(names, _MOST_LABEL - 12 * is_shared)
    shapes, row = [], 0
    for name, owned in zip(names, page.rows, strict=True):
        if more := len(owned.owned) - 1:
            listed = ranges(owned.owned)
            listed = listed if len(listed) <= _MOST_NAMED else f"{listed[: _MOST_NAMED - 1]}…"
            label = f"{labels[name]} and {more:,} more"
            shapes.append(_label(row, label, f"{more + 1:,}: {listed}"))
        else:
            shapes.append(_label(row, labels[name], name))
        free_from: list[int] = []
        for stretch in owned.stretches:
            from_ms = stretch.from_ms or 0
            end_ms = _end(stretch.to_ms, from_ms, page)
            free = (lane for lane, free_ms in enumerate(free_from) if free_ms <= from_ms)
            lane = next(free, len(free_from))
            free_from[lane : lane + 1] = [end_ms]
            hover = [*_who(stretch), f"generation {stretch.generation_id}"]
            hover += _period(from_ms, stretch.to_ms, page.known_ms, stretch.ended_by)
            shapes.append(
                f'<rect class="own" {scale.span(from_ms, end_ms)} y="{(row + lane) * _ROW + 3}" '
                f'height="{_BAR}" fill="{clients.colour(stretch.member_id)}">'
                f"<title>{_hover(hover)}</title></rect>"
            )
        row += len(free_from)
    return _Drawing(row * _ROW + 2, shapes)


def _table(rebalances: Sequence[Rebalance]) -> Iterator[str]:
    """Yield the last rebalances as rows, for screen readers and to copy from."""
    if not rebalances:
        return
    listed = rebalances[-MOST_LISTED:]
    more = f", the last {len(listed)} of {len(rebalances)}" if len(listed) < len(rebalances) else ""
    yield f"<section><h2>Rebalances as a table{more}</h2>\n<table>\n<thead><tr>"
    for head in ("time", "generation", "members", "moved", "cause", "certainty", "evidence"):
        yield f'<th scope="col">{head}</th>'
    yield "</tr></thead>\n<tbody>\n"
    for rebalance in listed:
        cells = (
            rfc3339(rebalance.time_ms or 0),
            rebalance.generation_id,
            _members_of(rebalance),
            "-" if rebalance.moved_count is None else rebalance.moved_count,
            _words(rebalance.cause.value),
            rebalance.certainty.value,
            _text("; ".join(_evidence(rebalance))),
        )
        yield f"<tr>{''.join(f'<td>{cell}</td>' for cell in cells)}</tr>\n"
    yield "</tbody>\n</table></section>\n"
