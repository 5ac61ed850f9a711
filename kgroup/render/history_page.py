"""The page of a group: a self-contained HTML file, to view and to print."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kgroup import __version__
from kgroup.errors import KgroupError, shown_id
from kgroup.history.query.group_page import counted, name_of_owned
from kgroup.model.instant import rfc3339
from kgroup.render.cell import age, visible

if TYPE_CHECKING:
    from kgroup.history.query.group_page import GroupPage, MembershipPeriod
    from kgroup.history.rebalance.rebalance import Rebalance


COLOURS = (
    *("#4c78a8", "#f58518", "#54a24b", "#e45756", "#72b7b2", "#b279a2", "#d6a81d", "#9d755d"),
    *("#2f9ed0", "#d67195", "#8a8f2a", "#7f7fc4", "#17806d", "#c2571a", "#a05ec2", "#6b8e9f"),
)
"""Colours of members, in turn; they can be distinguished on white and on black."""

MOST_LISTED = 200
"""Maximum number of rebalances in the table below the picture."""

_CERTAIN, _INFERRED = "circle", "circle-open"


def group_html(page: GroupPage) -> Iterator[str]:
    """Yield the page.

    Raises:
        KgroupError: plotly is not installed.
    """
    try:
        from plotly.offline import get_plotlyjs
    except ImportError as error:
        raise KgroupError(
            "the page is drawn by plotly, which is not installed; pip install 'kgroup[history]'"
        ) from error
    title = f"Consumer group {_text(shown_id(page.group_id))}"
    summary = _summary(page)
    yield _text_of("page.html").replace("VERSION", __version__).replace("TITLE", title)
    yield f"<h1>{title}</h1>\n<p>{summary}</p>\n"
    if page.left_out:
        left_out = "; ".join(_text(what) for what in page.left_out)
        yield f'<p class="note">Left out: {left_out}.</p>\n'
    yield (
        f'<div id="picture" role="img" aria-label="{title}: who owned what over time, rebalances, '
        f'members, commits. {summary}"></div>\n'
    )
    yield from _table(page.rebalances)
    yield "</main>\n<script>"
    yield get_plotlyjs()
    yield "</script>\n<script>\nconst figure = "
    yield _figure(page).replace("<", "\\u003c").replace("\u2028", "\\u2028")
    yield f";\n\n{_text_of('page.js')}</script>\n</body>\n</html>\n"


def _text_of(name: str) -> str:
    """Return a part of the page: its head, or the script that draws it."""
    return Path(__file__).with_name(name).read_text("utf-8")


def _text(text: str) -> str:
    """Return a text escaped for HTML, and for plotly's texts, which interpret tags."""
    return escape(visible(text))


def _summary(page: GroupPage) -> str:
    if page.since_ms is None or page.until_ms is None:
        return f"Cluster {_text(page.cluster)}. No record of the group has a time."
    kinds = Counter(rebalance.cause.value for rebalance in page.rebalances)
    causes = ", ".join(f"{count} {_words(kind)}" for kind, count in kinds.most_common())
    owned = len({name_of_owned(stretch) for stretch in page.stretches})
    parts = (
        f"{counted(len(page.rebalances), 'rebalance')}{f' ({causes})' if causes else ''}",
        counted(len(page.lives), "member"),
        counted(owned, "partition or task", "partitions or tasks"),
        counted(sum(rate.commits for rate in page.rates), "commit"),
    )
    return (
        f"Cluster {_text(page.cluster)}, {rfc3339(page.since_ms)} to {rfc3339(page.until_ms)} "
        f"({age(page.until_ms - page.since_ms)}): {', '.join(parts)}."
    )


def _words(kind: str) -> str:
    return kind.replace("_", " ")


def _table(rebalances: Sequence[Rebalance]) -> Iterator[str]:
    """Yield the last rebalances as rows: the contents of the picture, for screen readers."""
    if not rebalances:
        return
    listed = rebalances[-MOST_LISTED:]
    more = f", the last {len(listed)} of {len(rebalances)}" if len(listed) < len(rebalances) else ""
    yield f"<details><summary>Rebalances as a table{more}</summary>\n<table>\n<thead><tr>"
    for head in ("time", "generation", "members", "moved", "cause", "certainty", "evidence"):
        yield f'<th scope="col">{head}</th>'
    yield "</tr></thead>\n<tbody>\n"
    for rebalance in listed:
        cells = (
            rfc3339(rebalance.time_ms or 0),
            rebalance.generation_id,
            _members(rebalance),
            "-" if rebalance.moved_count is None else rebalance.moved_count,
            _words(rebalance.cause),
            rebalance.certainty.value,
            _text(rebalance.evidence),
        )
        yield f"<tr>{''.join(f'<td>{cell}</td>' for cell in cells)}</tr>\n"
    yield "</tbody>\n</table></details>\n"


def _members(rebalance: Rebalance) -> str:
    before = rebalance.members_before
    return f"{'?' if before is None else len(before)} to {len(rebalance.members)}"


_NAMES_AXIS: Mapping[str, Any] = {"type": "category", "autorange": "reversed"}
_NUMBERS_AXIS: Mapping[str, Any] = {"rangemode": "tozero", "nticks": 4, "tickformat": ",d"}


def _figure(page: GroupPage) -> str:
    """Return the parts of the picture, stacked over one time axis, as JSON for plotly.js."""
    from plotly.subplots import make_subplots

    owned = list(dict.fromkeys(map(name_of_owned, page.stretches)))
    lives = list(dict.fromkeys(life.who.member_id for life in page.lives))
    kinds = list(dict.fromkeys(rebalance.cause.value for rebalance in page.rebalances))
    parts = [
        ("Who owned what", _height(len(owned), 18), bool(page.stretches), _owned),
        ("Rebalances and their causes", _height(len(kinds), 26), bool(kinds), _causes),
        ("Members", _height(len(lives), 18), bool(lives), _lives),
        (f"Commits in {_length(page.rate_ms)}", 130, bool(page.rates), _rates),
        ("Lag, where log end offsets were recorded", 130, bool(page.lags), _lags),
    ]
    shown = [part for part in parts if part[2]]
    heights = [part[1] for part in shown] or [100]
    total = sum(heights) + 60 * len(heights) + 60
    figure = make_subplots(
        rows=len(heights),
        shared_xaxes=True,
        row_heights=heights,
        vertical_spacing=min(60 / total, 0.9 / max(1, len(heights) - 1)),
        subplot_titles=[part[0] for part in shown],
    )
    colours = _colours(page)
    for row, (_, _, _, draw) in enumerate(shown, start=1):
        for trace in draw(page, colours):
            figure.add_trace(trace, row=row, col=1)
        is_named = draw in (_owned, _causes, _lives)
        axis = _NAMES_AXIS if is_named else _NUMBERS_AXIS
        figure.update_yaxes(automargin=True, row=row, col=1, **axis)
    _mark_rebalances(figure, page)
    figure.update_annotations(x=0, xanchor="left", font_size=14)
    figure.update_xaxes(type="date", showticklabels=True)
    figure.update_xaxes(title_text="UTC", row=len(heights), col=1)
    if page.since_ms is not None and page.until_ms is not None:
        margin = max(1000, (page.until_ms - page.since_ms) // 50)
        around = [_time(page.since_ms - margin), _time(page.until_ms + margin)]
        figure.update_xaxes(range=around)
    figure.update_layout(
        height=total,
        barmode="overlay",
        bargap=0.15,
        showlegend=False,
        hovermode="closest",
        margin={"l": 10, "r": 10, "t": 40, "b": 50},
        font={"family": "system-ui, sans-serif", "size": 12},
        template="none",
    )
    json: str = figure.to_json()
    return json


def _mark_rebalances(figure: Any, page: GroupPage) -> None:
    """Draw a line through the owners at each rebalance, unless there are too many."""
    if not page.stretches or len(page.rebalances) > MOST_LISTED:
        return
    for rebalance in page.rebalances:
        figure.add_shape(
            type="line",
            x0=_time(rebalance.time_ms),
            x1=_time(rebalance.time_ms),
            y0=0,
            y1=1,
            xref="x",
            yref="y domain",
            line={"width": 1, "dash": "dot", "color": "rgba(128,128,128,0.7)"},
        )


def _length(ms: int) -> str:
    """Return the length of a bar: "15 s", "1 h"."""
    for unit, size in (("d", 86_400_000), ("h", 3_600_000), ("min", 60_000)):
        if ms >= size:
            return f"{ms // size} {unit}"
    return f"{ms // 1000} s"


def _height(count: int, row_height: int) -> int:
    return 30 + row_height * max(count, 1)


def _colours(page: GroupPage) -> dict[str, str]:
    names = [life.who.member_id for life in page.lives]
    names += [stretch.member_id for stretch in page.stretches]
    return {name: COLOURS[index % len(COLOURS)] for index, name in enumerate(dict.fromkeys(names))}


def _time(time_ms: int | None) -> str:
    moment = datetime.fromtimestamp((time_ms or 0) / 1000, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "")


def _label(text: str, most: int = 34) -> str:
    """Return a name as a label; long names are shortened in the middle."""
    short = text if len(text) <= most else f"{text[: most - 9]}…{text[-8:]}"
    return _text(short)


def _labels(names: Sequence[str]) -> dict[str, str]:
    """Return a distinct label for each name."""
    labels: dict[str, str] = {}
    for name in dict.fromkeys(names):
        label = _label(name)
        labels[name] = label if label not in labels.values() else _text(name)
    return labels


def _owned(page: GroupPage, colours: dict[str, str]) -> Iterator[Any]:
    """Yield a bar for each ownership interval, by member."""
    import plotly.graph_objects as go

    labels = _labels([name_of_owned(stretch) for stretch in page.stretches])
    by_member: dict[str, list[Any]] = {}
    for stretch in page.stretches:
        by_member.setdefault(stretch.member_id, []).append(stretch)
    for member_id, stretches in by_member.items():
        ends = [stretch.to_ms or page.until_ms or stretch.from_ms for stretch in stretches]
        yield go.Bar(
            orientation="h",
            name=_text(member_id),
            base=[_time(stretch.from_ms) for stretch in stretches],
            x=[max(1, end - stretch.from_ms) for stretch, end in zip(stretches, ends, strict=True)],
            y=[labels[name_of_owned(stretch)] for stretch in stretches],
            marker={"color": colours[member_id], "line": {"width": 0}},
            hovertext=[
                f"<b>{_text(name_of_owned(stretch))}</b><br>{_who(stretch)}<br>"
                f"from {rfc3339(stretch.from_ms)}, generation {stretch.generation_id}<br>"
                f"{_until(stretch, page.known_ms)}"
                for stretch in stretches
            ],
            hoverinfo="text",
        )


def _until(stretch: Any, known_ms: int | None) -> str:
    """Return when an interval ended and how long it was, or that its end is unknown."""
    if stretch.to_ms is None:
        return _not_over(stretch.from_ms, known_ms, ", the last record that is known")
    by = f" ({stretch.ended_by})" if stretch.ended_by else ""
    return f"to {rfc3339(stretch.to_ms)}{by}<br>{age(stretch.to_ms - stretch.from_ms)}"


def _not_over(from_ms: int, known_ms: int | None, what: str = "") -> str:
    """Return until when something is known to have lasted, and how long that was."""
    if known_ms is None:
        return "not over at the last record that is known"
    return f"not over at {rfc3339(known_ms)}{what}<br>{age(known_ms - from_ms)} by then"


def _who(who: Any) -> str:
    instance = f"<br>instance {_text(who.instance_id)}" if who.instance_id else ""
    return (
        f"{_text(who.member_id)}{instance}<br>client {_text(who.client_id or '-')}, "
        f"{_text(who.client_host or '-')}"
    )


def _causes(page: GroupPage, colours: dict[str, str]) -> Iterator[Any]:
    """Yield a mark for each rebalance; an empty one if its cause is inferred."""
    import plotly.graph_objects as go

    def hover(rebalance: Rebalance) -> str:
        evidence = "<br>".join(_text(cause.evidence) for cause in rebalance.causes[:8])
        took = [
            f"{name} {age(value)}"
            for name, value in (
                ("sync", rebalance.sync_ms),
                ("reconciled after", rebalance.reconcile_ms),
                ("without commits", rebalance.commit_gap_ms),
            )
            if value is not None
        ]
        return (
            f"<b>{_words(rebalance.cause)}</b> ({rebalance.certainty.value})"
            f"<br>{rfc3339(rebalance.time_ms or 0)}"
            f"<br>generation {rebalance.generation_id}, members {_members(rebalance)}, "
            f"moved {'-' if rebalance.moved_count is None else rebalance.moved_count}"
            f"<br>{evidence or _text(rebalance.evidence)}"
            f"{'<br>' + ', '.join(took) if took else ''}"
        )

    yield go.Scatter(
        mode="markers",
        x=[_time(rebalance.time_ms) for rebalance in page.rebalances],
        y=[_words(rebalance.cause) for rebalance in page.rebalances],
        marker={
            "size": 11,
            "line": {"width": 2},
            "symbol": [
                _CERTAIN if rebalance.certainty.value == "certain" else _INFERRED
                for rebalance in page.rebalances
            ],
            "color": [
                next(
                    (colours[c.member_id] for c in rebalance.causes if c.member_id in colours),
                    "#888",
                )
                for rebalance in page.rebalances
            ],
        },
        hovertext=[hover(rebalance) for rebalance in page.rebalances],
        hoverinfo="text",
    )


def _lives(page: GroupPage, colours: dict[str, str]) -> Iterator[Any]:
    """Yield a bar for each membership period."""
    import plotly.graph_objects as go

    labels = _labels([life.who.member_id for life in page.lives])
    ends = [life.to_ms or page.until_ms or life.from_ms for life in page.lives]
    # Rebalances after the end of the page are not on it: a member may have left by then.
    times = (page.until_ms, page.known_ms)
    known_ms = min((time for time in times if time is not None), default=None)

    def told(life: MembershipPeriod) -> str:
        if life.to_ms is None:
            return f"from {rfc3339(life.from_ms)}<br>{_not_over(life.from_ms, known_ms)}"
        length = age(life.to_ms - life.from_ms)
        return f"{rfc3339(life.from_ms)} to {rfc3339(life.to_ms)}<br>{length}"

    yield go.Bar(
        orientation="h",
        base=[_time(life.from_ms) for life in page.lives],
        x=[max(1, end - life.from_ms) for life, end in zip(page.lives, ends, strict=True)],
        y=[labels[life.who.member_id] for life in page.lives],
        marker={"color": [colours[life.who.member_id] for life in page.lives]},
        width=0.55,
        hovertext=[f"{_who(life.who)}<br>{told(life)}" for life in page.lives],
        hoverinfo="text",
    )


def _rates(page: GroupPage, colours: dict[str, str]) -> Iterator[Any]:
    import plotly.graph_objects as go

    yield go.Bar(
        x=[_time(rate.time_ms + page.rate_ms // 2) for rate in page.rates],
        y=[rate.commits for rate in page.rates],
        width=page.rate_ms,
        marker={"color": COLOURS[0]},
        hovertext=[
            f"{rfc3339(rate.time_ms)}: {counted(rate.commits, 'commit')}" for rate in page.rates
        ],
        hoverinfo="text",
    )


def _lags(page: GroupPage, colours: dict[str, str]) -> Iterator[Any]:
    import plotly.graph_objects as go

    yield go.Scatter(
        mode="lines+markers",
        x=[_time(lag.time_ms) for lag in page.lags],
        y=[lag.lag for lag in page.lags],
        line={"color": COLOURS[1]},
        hovertext=[
            f"{rfc3339(lag.time_ms)}: {counted(lag.lag, 'record')} in "
            f"{counted(lag.partitions, 'partition')}"
            for lag in page.lags
        ],
        hoverinfo="text",
    )
