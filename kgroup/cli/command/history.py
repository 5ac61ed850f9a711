"""`kgroup history`, and the table of its commands."""

from __future__ import annotations

from kgroup.cli.lazy_group import CommandTable, LazyGroup

COMMANDS: CommandTable = {
    "build": ("history.build", "Make or extend a warehouse from segments or a cluster."),
    "stream": ("history.stream", "Keep a warehouse current from a cluster."),
    "show": ("history.show", "Show what a warehouse has: clusters, records, times, damage."),
    "owner": ("history.owner", "Tell who owned a partition at a time, or over time."),
    "timeline": ("history.timeline", "Show who owned what in a group, over time."),
    "commits": (
        "history.commits",
        "Show how a group committed: how often, where it paused, where it went back.",
    ),
    "stale": (
        "history.stale",
        "Find offsets that nobody commits any more, or that are about to expire.",
    ),
    "lag": ("history.lag", "Show how far a group was behind, where log end offsets were recorded."),
    "rebalances": (
        "history.rebalances",
        "Tell when groups rebalanced, why, and who was there before and after.",
    ),
    "storms": (
        "history.storms",
        "Find times when groups rebalanced too often, and who started it.",
    ),
    "report": ("history.report", "Draw a group's history as one page of HTML."),
    "as-of": ("history.as_of", "Describe a group as it was at a time."),
    "sql": ("history.sql", "Answer any other question, by a SELECT on the tables."),
}


command = LazyGroup(
    "kgroup history",
    """Ask what groups did in the past, from tables made of their records.

    What groups did is in __consumer_offsets until compaction removes it. A warehouse keeps it: a
    folder with tables of what the records say. Questions are answered from there alone.
    """,
    COMMANDS,
)
