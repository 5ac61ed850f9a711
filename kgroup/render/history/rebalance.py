"""Rebalances and storms of them as sheets."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING

from kgroup.errors import shown_id
from kgroup.render.cell import Column, Kind, harmless
from kgroup.render.column import CLUSTER, GROUP, GROUP_TYPE
from kgroup.render.sheet import Sheet, sheet_text, title_text

if TYPE_CHECKING:
    from kgroup.history.rebalance.rebalance import Rebalance
    from kgroup.history.rebalance.storm import Storm

REBALANCE_COLUMNS = (
    CLUSTER,
    GROUP,
    GROUP_TYPE,
    Column("time_ms", Kind.TIME, "time of the record that tells of it"),
    Column("generation_before", Kind.NUMBER, "generation, or group epoch, before"),
    Column("generation_id", Kind.NUMBER, "the new one"),
    Column(
        "member_count_before",
        Kind.NUMBER,
        "how many members there were",
        lambda item: None if item.members_before is None else len(item.members_before),
    ),
    Column(
        "member_count", Kind.NUMBER, "how many members there are", lambda item: len(item.members)
    ),
    Column("moved_count", Kind.NUMBER, "partitions, or tasks, with other owners than before"),
    Column("sync_ms", Kind.DURATION, "from the end of the join phase to the record"),
    Column("reconcile_ms", Kind.DURATION, "from the epoch to its last member's arrival at it"),
    Column("commit_gap_ms", Kind.AGE, "time without a commit around it"),
    Column("cause", Kind.TEXT, "what happened"),
    Column("certainty", Kind.TEXT, "certain or inferred"),
    Column("evidence", Kind.TEXT, "what the log shows of it, and of all else that happened"),
    Column("protocol", Kind.TEXT, "strategy of a classic group"),
    Column("offsets_partition", Kind.NUMBER, "partition of __consumer_offsets with the record"),
    Column("log_offset", Kind.NUMBER, "offset of the record"),
)
rebalance_sheet = partial(Sheet.of, REBALANCE_COLUMNS)  # one row a rebalance

_SHOWN = (
    *("time_ms", "generation_id", "member_count_before", "member_count", "moved_count"),
    *("cause", "certainty", "evidence"),
)
"""What a person reads first; the rest comes with --columns, and in the other forms."""

STORM_COLUMNS = (
    CLUSTER,
    GROUP,
    GROUP_TYPE,
    Column("from_ms", Kind.TIME, "time of the first rebalance"),
    Column("to_ms", Kind.TIME, "time of the last one"),
    Column("rebalance_count", Kind.NUMBER, "how many"),
    Column(
        "started_by",
        Kind.TEXT,
        "clients that caused them, with how often",
        lambda item: _starters(item),
    ),
    Column(
        "without_member_count", Kind.NUMBER, "rebalances that no member is known to have caused"
    ),
)
storm_sheet = partial(Sheet.of, STORM_COLUMNS)  # one row a storm


def _starters(storm: Storm) -> str:
    names = (
        f"{who.instance_id or who.client_id or '?'} ({who.cause_count})" for who in storm.started_by
    )
    return ", ".join(names)


def rebalance_text(
    rows: Sequence[Rebalance], form: str, *, headers: bool, terminal: bool
) -> Iterator[str]:
    """Write a table for each group, with the columns that tell what happened."""
    for at, ((cluster, group_id), found) in enumerate(
        groupby(rows, lambda row: (row.cluster, row.group_id))
    ):
        if at:
            yield "\n"
        of_group = list(found)
        types = ", then ".join(dict.fromkeys(row.group_type for row in of_group))
        title = harmless(f"{shown_id(group_id)} ({types}, cluster {cluster})")
        yield from title_text(title, form, level=3, terminal=terminal)
        sheet = rebalance_sheet(of_group).select(_SHOWN).without_blank()
        yield from sheet_text(sheet, form, headers=headers, terminal=terminal)
