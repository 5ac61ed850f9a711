"""Read committed offsets from any source."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace
from operator import attrgetter

from kgroup.errors import ProblemKind, shown_id
from kgroup.model.offset import CommittedOffset, StoredOffset
from kgroup.model.pattern import Pattern
from kgroup.model.problem import Problem
from kgroup.operation.report import Report, first_names
from kgroup.operation.select_groups import select_groups
from kgroup.source.base import GroupSource, OffsetReading, Question

"""A source of committed offsets: an offset store, or a source of groups."""


def show_offsets(
    store: GroupSource, group_ids: Collection[str] = (), regex: Pattern | None = None
) -> Report[StoredOffset]:
    """Return commits of the groups with these ids, those whose whole id matches, or all.

    Returns:
        Rows sorted by group, topic and partition, including rows of a backup without a commit.
        Named groups without offsets are errors in the report.

    Raises:
        InputError: the source has nothing to read.
        BrokerError: no broker answers.
    """
    reading = read_stored(store, group_ids, regex)
    rows = [
        stored(group_id, offset)
        for group_id, offsets in sorted(reading.offsets.items())
        for offset in offsets
    ]
    if reading.absent:
        rows += [
            StoredOffset(group_id, topic, partition, None)
            for group_id, ats in reading.absent.items()
            for topic, partition in ats
        ]
        rows.sort(key=attrgetter("group_id", "topic", "partition"))
    return Report(tuple(rows), reading.problems, reading.notes)


def read_stored(
    store: GroupSource, group_ids: Collection[str] = (), regex: Pattern | None = None
) -> OffsetReading:
    """Read offsets; named groups that were not found are problems.

    Raises:
        InputError: the source has nothing to read.
        BrokerError: no broker answers.
    """
    if not store.can(GroupSource.read_offsets):
        selected, missing = select_groups(store, group_ids, Question(regex=regex, log_budget=0))
        groups = selected.image.groups.values()
        return _with_note(
            OffsetReading(
                {group.group_id: group.offsets for group in groups if group.offsets},
                (*missing, *selected.problems),
                selected.notes,
                empty_commits={
                    group.group_id: group.empty_commits for group in groups if group.empty_commits
                },
            )
        )
    chosen = group_ids or (None if regex is None else ())
    reading = store.read_offsets(chosen, regex)
    known = {*reading.offsets, *reading.absent, *(problem.group_id for problem in reading.problems)}
    known |= reading.empty_commits.keys()
    missing = ()
    if None not in known:
        nothing = f"{_nothing(store)} this group."
        missing = tuple(
            Problem(ProblemKind.NOT_FOUND, nothing, group_id=group_id)
            for group_id in dict.fromkeys(group_ids)
            if group_id not in known
        )
    if regex is not None and not known:
        text = f"{_nothing(store)} a group that matches {regex.pattern!r}."
        missing += (Problem(ProblemKind.NOT_FOUND, text),)
    return _with_note(replace(reading, problems=(*missing, *reading.problems)))


def _with_note(reading: OffsetReading) -> OffsetReading:
    """Add notes on partitions that are left out because a negative offset is committed."""
    notes = [
        f"{shown_id(group_id)}: {len(ats)} partition{'' if len(ats) == 1 else 's'} left out "
        f"({first_names([f'{topic}-{partition}' for topic, partition in ats])}): a negative "
        "number is no offset"
        for group_id, ats in reading.empty_commits.items()
    ]
    return replace(reading, notes=(*reading.notes, *notes)) if notes else reading


def _nothing(store: GroupSource) -> str:
    """Return the start of a message that a file or store has no offsets."""
    if store.store_name is not None:
        return f"Nothing is committed in {store.store_name} by"
    return "The file has no offsets of"


def unread(reading: OffsetReading, group_ids: Iterable[str]) -> frozenset[str]:
    """Return the groups whose committed offsets are not completely known.

    Nothing may be planned for them, because offsets that could not be read may exist. Topics that
    may not be described do not count: no plan includes their partitions.
    """
    others = (ProblemKind.NOT_FOUND, ProblemKind.NOT_AUTHORIZED)
    failed = {problem.group_id for problem in reading.problems if problem.kind not in others}
    return frozenset(
        group_id
        for group_id in group_ids
        if group_id in failed or (None in failed and group_id not in reading.offsets)
    )


def stored(group_id: str, offset: CommittedOffset) -> StoredOffset:
    """Return a commit with its group, as in output and files."""
    return StoredOffset(
        group_id,
        offset.topic,
        offset.partition,
        offset.committed_offset,
        offset.leader_epoch,
        offset.metadata,
        offset.commit_timestamp_ms,
    )
