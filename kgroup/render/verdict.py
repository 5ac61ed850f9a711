"""The verdict on a group: one sentence with its state, members and lag.

``billing  Stable  3 members  lag 532, all in orders-4 (billing-pod-3 at 10.0.3.7), 52 s behind``
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

from kgroup.model.clients import Clients
from kgroup.model.group import Group
from kgroup.model.log_range import OffsetMark
from kgroup.operation.describe import GroupDescription, OffsetDescription, PartitionRow
from kgroup.operation.watch import Change, ChangeKind
from kgroup.render.cell import Kind, cell, rough_age
from kgroup.render.group import connect_work
from kgroup.render.sheet import Word
from kgroup.render.table import ALARM, WORD_STYLES


def verdict_words(
    description: GroupDescription, clients: Clients, now_ms: int, changes: Collection[Change]
) -> Iterator[Word]:
    """Yield the words of a group's verdict.

    Args:
        description: the group.
        clients: what its members are called.
        now_ms: current time in epoch milliseconds.
        changes: changes of the group to mark.
    """
    group = description.group
    changed = {change.change for change in changes}
    moved = sum((c.after or 0) - (c.before or 0) for c in changes if c.change is ChangeKind.LAG)
    yield Word(cell(group.group_id, Kind.NAME), "bold")
    state = group.state.value if group.state else "state unknown"
    yield from _changed(state, WORD_STYLES.get(state, ""), ChangeKind.STATE in changed)
    noun = "worker" if group.protocol_type == "connect" else "member"
    count = _counted(len(group.members), noun)
    if group.state is None and not group.members:
        count = "members unknown"
    is_changed = bool({ChangeKind.MEMBER_JOINED, ChangeKind.MEMBER_LEFT} & changed)
    yield from _changed(count, "", is_changed)
    text, *rest = _lag_words(description, clients)
    yield from _changed(text.text, text.style, bool(moved))
    yield from rest
    commits = [row.commit_timestamp_ms for row in description.offsets]
    if not group.members and (newest := max((ms for ms in commits if ms), default=None)):
        yield Word(f", last commit {rough_age(now_ms - newest)} ago")


def _changed(text: str, style: str, is_changed: bool) -> Iterator[Word]:
    yield Word("  ")
    yield Word(f"*{text}", "bold reverse") if is_changed else Word(text, style)


def _lag_words(description: GroupDescription, clients: Clients) -> Iterator[Word]:
    """Yield the lag: how much, where, whose, since when, and what of it is not known."""
    rows = description.rows
    if not rows:
        yield Word(_without_commits(description.group))
        return
    uncommitted = [row for row in rows if _is_uncommitted(row)]
    unknown = [row for row in rows if row.lag is None and not _is_uncommitted(row)]
    lags = [row.lag for row in rows if row.lag is not None]
    total = sum(max(lag, 0) for lag in lags) if lags else None
    words: list[list[Word]] = []
    if total or (total == 0 and not unknown):
        text = f"lag {'at least ' if unknown else ''}{total}"
        words.append([Word(text, ALARM if total else ""), *_where(rows, clients)])
        words += [[word] for word in _behind(description, rows)]
    if unknown:
        lag = "lag unknown" if not words else "unknown"
        how_many = f" in {_of(unknown, rows)}" if len(rows) > 1 else ""
        example = ", e.g. " if len(unknown) > 1 else ": "
        why = [Word(example, ALARM), *_why_unknown(unknown[0])]
        words.append(
            [
                Word(f"{lag}{how_many}", ALARM),
                *(word._replace(is_optional=bool(how_many)) for word in why),
            ]
        )
    if uncommitted:
        words.append([Word(f"nothing committed in {_of(uncommitted, rows)}")])
    for number, clause in enumerate(words):
        if number:
            yield Word(", ")
        yield from clause


def _without_commits(group: Group) -> str:
    """Return what is said of a group without partitions."""
    if group.protocol_type == "connect" and group.members:
        works = [connect_work(member) or ([], []) for member in group.members]
        connectors, tasks = (sum(map(len, kind)) for kind in zip(*works, strict=True))
        return f"{_counted(connectors, 'connector')}, {_counted(tasks, 'task')}"
    return "no commits found"


def _is_uncommitted(row: PartitionRow) -> bool:
    """Return whether a row has no lag because nothing is committed for its partition."""
    return isinstance(row, OffsetDescription) and row.lag is None and row.committed_offset is None


def _where(rows: Sequence[PartitionRow], clients: Clients) -> Iterator[Word]:
    """Yield in which partitions the lag is, and who owns the worst of them."""
    lagging = [row for row in rows if (row.lag or 0) > 0]
    if not lagging:
        return
    worst = max(lagging, key=lambda row: row.lag or 0)
    alone = len(lagging) == 1
    of_it = "all" if alone else f"in {_of(lagging, rows)}, {worst.lag} of it"
    yield Word(f", {of_it} in " if alone else f" {of_it} in ")
    yield from _name(worst)
    if isinstance(worst, OffsetDescription):
        if worst.member_id is not None:
            yield Word(" (")
            yield Word(cell(clients.name(worst.member_id), Kind.NAME), "", is_id=True)
            if (host := clients.host(worst.member_id)) is not None:
                yield Word(" at ")
                yield Word(cell(host, Kind.TEXT), "", is_id=True)
            yield Word(")")
        elif worst.mark is OffsetMark.NO_OWNER:
            yield Word(" (no owner)")


def _behind(description: GroupDescription, rows: Sequence[PartitionRow]) -> Iterator[Word]:
    """Yield how old the oldest record is that waits, as far as that is known."""
    most_ms = description.max_time_lag_ms
    if not most_ms:
        return
    lagging = [row for row in rows if row.lag != 0]
    about = "up to " if len(lagging) > 1 else ""
    if any(row.time_lag_ms is None for row in lagging):
        about = "at least "
    yield Word(f"{about}{rough_age(most_ms)} behind", ALARM)


def _why_unknown(row: PartitionRow) -> Iterator[Word]:
    """Yield why the lag of a partition is unknown."""
    before, after = "no log end offset of ", ""
    if isinstance(row, OffsetDescription):
        before, after = _WHY.get(row.mark, (before, after))
    elif row.log_end_offset is not None:
        has_begun = row.start_offset is not None
        before = "the number of finished records of " if has_begun else "the start offset of "
        after = " is not known"
    yield Word(before)
    yield from _name(row)
    yield Word(after)


_WHY: Mapping[OffsetMark | None, tuple[str, str]] = {
    OffsetMark.TOPIC_GONE: ("the topic of ", " does not exist any more"),
    OffsetMark.PARTITION_GONE: ("", " does not exist any more"),
    OffsetMark.NO_LEADER: ("", " has no leader"),
    OffsetMark.NOT_AUTHORIZED: ("", " may not be described"),
    OffsetMark.NO_ANSWER: ("the leader of ", " gave no answer"),
}
"""Why the log end offset of a partition is unknown, before and after its name."""


def _name(row: PartitionRow) -> Iterator[Word]:
    """Yield topic and partition; a shortened topic keeps its partition."""
    yield Word(cell(row.topic or row.topic_id, Kind.TEXT), "", is_id=True)
    yield Word(f"-{'?' if row.partition is None else row.partition}")


def _of(some: Sequence[PartitionRow], rows: Sequence[PartitionRow]) -> str:
    every = _counted(len(rows), "partition")
    return every if len(some) == len(rows) else f"{len(some)} of {every}"


def _counted(number: int, noun: str) -> str:
    return f"{number or 'no'} {noun}{'' if number == 1 else 's'}"
