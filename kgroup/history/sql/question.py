"""What all questions share: rows of a query, the cluster that is meant, how far the log reaches."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from kgroup.errors import NotFoundError, UnknownGroupError, UsageError, near_names
from kgroup.history.sql.engine import Engine, Parameter
from kgroup.model.instant import rfc3339

Row = dict[str, Any]

MEMBER_TABLES = ("group_generations", "consumer_group_epochs")
"""Record tables whose rows are about the members of groups."""
GROUP_TABLES = (*MEMBER_TABLES, "offset_commits", "tombstones")
"""Record tables whose rows are about groups, as far as they can be read."""
RECORD_TABLES = (*GROUP_TABLES, "transactions")
"""Those of all records that can be read."""
COMMITTED = "(transaction IS NULL OR transaction = 'committed')"
"""Condition on commits: that they count."""


@dataclass(frozen=True, slots=True)
class Span:
    """From when to when records are known.

    Attributes:
        first_ms: time of the earliest; None where none has a time.
        last_ms: time of the latest.
    """

    first_ms: int | None
    last_ms: int | None


def rows_of(engine: Engine, sql: str, parameters: Sequence[Parameter] = ()) -> list[Row]:
    """Answer a query by a mapping for each row."""
    rows: list[Row] = engine.query(sql, parameters, is_trusted=True).to_pylist()
    return rows


def where(*conditions: tuple[str, Parameter]) -> tuple[str, list[Parameter]]:
    """Make one condition of several, and of the parameters that it takes.

    Args:
        conditions: each with one ``?`` and what stands for it; None: the condition is left out.
    """
    chosen = [(text, value) for text, value in conditions if value is not None]
    return " AND ".join(text for text, _ in chosen) or "TRUE", [value for _, value in chosen]


def marks(values: Collection[Parameter]) -> str:
    """Write a question mark for each of some parameters, as they stand in ``IN (...)``."""
    return ", ".join("?" for _ in values)


def cluster_names(engine: Engine) -> list[str]:
    """Give the clusters of which groups have committed something, in order."""
    found = rows_of(engine, "SELECT DISTINCT cluster FROM offset_commits ORDER BY cluster")
    return [row["cluster"] for row in found]


def cluster_of_group(engine: Engine, group_id: str, cluster: str | None) -> str:
    """Find the cluster that has a group.

    Args:
        engine: to ask.
        group_id: the group.
        cluster: that was chosen, or None.

    Raises:
        NotFoundError: it is in none, or not in that one.
        UsageError: it is in several, and none was chosen.
    """
    sql = " UNION ".join(
        f"SELECT cluster FROM {table} WHERE group_id = ?" for table in GROUP_TABLES
    )
    answer = rows_of(engine, sql, [group_id] * len(GROUP_TABLES))
    found: list[str] = sorted(row["cluster"] for row in answer)
    if not found:
        raise no_group(engine, group_id, cluster)
    if cluster is not None:
        if cluster not in found:
            raise NotFoundError(
                f"group {group_id!r} is not in cluster {cluster}, but in {', '.join(found)}",
                group_id=group_id,
            )
        return cluster
    if len(found) > 1:
        raise UsageError(
            f"group {group_id!r} is in several clusters: {', '.join(found)}; choose one by "
            "--cluster"
        )
    return found[0]


def no_group(engine: Engine, group_id: str, cluster: str | None) -> UnknownGroupError:
    """Make the error that says that a group is not there, and which like it are."""
    meant = near_names(group_id, group_ids(engine)) or "."
    return UnknownGroupError(
        f"group {group_id!r} is not in {place_of(cluster)}{meant}", group_id=group_id
    )


def place_of(cluster: str | None) -> str:
    """Say where something was looked for: in a cluster of the warehouse, or in all of it."""
    return "the warehouse" if cluster is None else f"cluster {cluster} of the warehouse"


def group_ids(engine: Engine) -> list[str]:
    """Give the ids of all groups, in order."""
    sql = " UNION ".join(f"SELECT group_id FROM {table}" for table in GROUP_TABLES)
    found = rows_of(engine, f"{sql} ORDER BY group_id")
    return [row["group_id"] for row in found if row["group_id"] is not None]


def span_of(engine: Engine, cluster: str, offsets_partition: int | None = None) -> Span:
    """Tell from when to when records are known, of a cluster or of one offsets partition."""
    condition, parameters = where(
        ("cluster = ?", cluster), ("offsets_partition = ?", offsets_partition)
    )
    sql = " UNION ALL ".join(
        f"SELECT MIN(time_ms) AS first_ms, MAX(time_ms) AS last_ms FROM {table} WHERE {condition}"
        for table in RECORD_TABLES
    )
    found = rows_of(engine, sql, parameters * len(RECORD_TABLES))
    firsts = [row["first_ms"] for row in found if row["first_ms"] is not None]
    lasts = [row["last_ms"] for row in found if row["last_ms"] is not None]
    return Span(min(firsts, default=None), max(lasts, default=None))


def first_times(
    engine: Engine, cluster: str, groups: Collection[str], tables: Sequence[str] = GROUP_TABLES
) -> dict[str, int]:
    """Tell when the first record of each group in these tables was written.

    Groups of which no record has a time are left out.
    """
    each = " UNION ALL ".join(
        f"SELECT group_id, time_ms FROM {table} WHERE cluster = ? AND group_id IN ({marks(groups)})"
        for table in tables
    )
    sql = (
        f"SELECT group_id, MIN(time_ms) AS first_ms FROM ({each}) AS records "
        "WHERE time_ms IS NOT NULL GROUP BY group_id ORDER BY group_id"
    )
    found = rows_of(engine, sql, [cluster, *groups] * len(tables))
    return {row["group_id"]: row["first_ms"] for row in found}


def topic_names(engine: Engine, cluster: str) -> dict[str, str]:
    """Give the names of the topics that members owned, by topic id, where both are known."""
    sql = (
        "SELECT DISTINCT topic_id, topic FROM assignments WHERE cluster = ? "
        "AND topic_id IS NOT NULL AND topic IS NOT NULL ORDER BY topic_id, topic"
    )
    return {row["topic_id"]: row["topic"] for row in rows_of(engine, sql, [cluster])}


def known_up_to(cluster: str, last_ms: int, offsets_partition: int | None = None) -> str:
    """Say that records do not reach the time that was asked about.

    Args:
        cluster: whose records.
        last_ms: time of the last one.
        offsets_partition: of this partition of `__consumer_offsets` only.
    """
    of_partition = ""
    if offsets_partition is not None:
        of_partition = f"partition {offsets_partition} of __consumer_offsets in "
    return (
        f"Records of {of_partition}cluster {cluster} are known up to {rfc3339(last_ms)}; "
        "what came later is not."
    )
