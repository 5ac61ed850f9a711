"""Who owned what over time as a picture of letters, for a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from string import ascii_letters, digits
from textwrap import fill
from typing import TYPE_CHECKING

from kgroup.model.instant import rfc3339
from kgroup.render.cell import visible

if TYPE_CHECKING:
    from kgroup.history.sql.interval import Interval

MOST_ROWS = 200
MOST_MEMBERS = 62
_LETTERS = ascii_letters[26:] + ascii_letters[:26] + digits
_NOBODY, _OTHER, _SEVERAL = ".", "*", "+"
_WIDEST_NAME = 32


def picture_text(
    intervals: Sequence[Interval],
    width: int,
    *,
    since_ms: int | None = None,
    until_ms: int | None = None,
    last_ms: int | None = None,
) -> Iterator[str]:
    """Draw a row for each partition, a column for each while, and a letter for each member.

    A letter stands for who had the partition longest in that while.

    Args:
        intervals: those without times are left out.
        width: columns of the terminal.
        since_ms: nothing before is drawn, since what ended by then is not among the intervals,
        until_ms: and nothing from then on.
        last_ms: up to when records are known: what goes on is drawn up to there.
    """
    from kgroup.history.query.group_page import counted, name_of_owned

    timed = [each for each in intervals if each.is_timed and each.from_ms is not None]
    if not timed:
        yield "Nothing that has times.\n"
        return
    times = [time for each in timed for time in (each.from_ms, each.to_ms) if time is not None]
    since, until = min(times), max(*times, last_ms or 0) + 1
    until += max(1, (until - since) // 20)  # what goes on is seen, too
    since = max(since, since_ms or 0)
    until = max(since + 1, until if until_ms is None else min(until, until_ms))
    names = list(dict.fromkeys(each.member_id for each in timed))
    letters = dict(zip(names, _LETTERS, strict=False))
    rows: dict[str, list[Interval]] = {}
    for each in timed:
        rows.setdefault(visible(name_of_owned(each)), []).append(each)
    room = min(max(map(len, rows)), _WIDEST_NAME)
    cells = max(10, width - room - 3)
    for name, of_row in list(rows.items())[:MOST_ROWS]:
        short = name if len(name) <= room else f"…{name[-room + 1 :]}"
        line = _line(of_row, letters, since, until, cells)
        yield f"{short:{room}} |{line}\n"
    begin, end = rfc3339(since), rfc3339(until)
    if len(begin) + len(end) < cells:
        yield f"{'':{room}}  {begin}{end:>{cells - len(begin)}}\n\n"
    else:
        yield f"{'':{room}}  {begin}\n{'':{room}}  {end:>{cells}}\n\n"
    if len(rows) > MOST_ROWS:
        more = ("more partition or task is", "more partitions or tasks are")
        yield f"{counted(len(rows) - MOST_ROWS, *more)} not shown.\n"
    known = {each.member_id: each for each in timed}
    for name, letter in letters.items():
        host = visible(known[name].client_host or "-")
        yield _folded(f"{visible(name)}  {host}", width, f"{letter}  ")
    if len(names) > MOST_MEMBERS:
        yield f"{_OTHER}  {counted(len(names) - MOST_MEMBERS, 'more member')}\n"
    yield _folded(f"nobody; {_SEVERAL}  several at once", width, f"{_NOBODY}  ")


def _folded(text: str, width: int, head: str) -> str:
    """Write a text behind a head, on as many lines as it takes."""
    return (
        fill(
            text,
            max(20, width),
            initial_indent=head,
            subsequent_indent=" " * len(head),
            break_on_hyphens=False,
        )
        + "\n"
    )


def _line(
    intervals: Sequence[Interval], letters: dict[str, str], since: int, until: int, cells: int
) -> str:
    found = []
    for cell in range(cells):
        begin = since + (until - since) * cell // cells
        end = max(begin + 1, since + (until - since) * (cell + 1) // cells)
        shares: list[tuple[int, str]] = []
        for each in intervals:
            share = min(each.to_ms or until, end) - max(each.from_ms or 0, begin)
            if share > 0:
                shares.append((share, letters.get(each.member_id, _OTHER)))
        shares.sort(reverse=True)
        if len(shares) > 1 and shares[0][0] + shares[1][0] > end - begin:
            found.append(_SEVERAL)
        else:
            found.append(shares[0][1] if shares else _NOBODY)
    return "".join(found)
