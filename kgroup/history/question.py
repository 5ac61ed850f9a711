"""What all questions share: rows of a query, the cluster that is meant, how far the log reaches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from kgroup.errors import NotFoundError, UsageError
from kgroup.history.engine import Engine, Parameter

__all__ = [
    "GROUP_TABLES",
    "RECORD_TABLES",
    "Row",
    "Span",
    "cluster_of_group",
    "in_cluster",
    "rows_of",
    "span_of",
]

Row = dict[str, Any]

GROUP_TABLES = ("group_generations", "consumer_group_epochs", "offset_commits", "tombstones")
"""Record tables whose rows are about groups, as far as they can be read."""
RECORD_TABLES = (*GROUP_TABLES, "transactions")
"""Those of all records that can be read."""


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
    rows: list[Row] = engine.query(sql, parameters).to_pylist()
    return rows


def in_cluster(
    cluster: str | None, condition: str, parameters: Sequence[Parameter]
) -> tuple[str, list[Parameter]]:
    """Make a condition one on the rows of a cluster, where one was chosen."""
    if cluster is None:
        return condition, list(parameters)
    return f"cluster = ? AND {condition}", [cluster, *parameters]


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
        raise NotFoundError(f"group {group_id!r} is not in the warehouse", group_id=group_id)
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


def span_of(engine: Engine, cluster: str, offsets_partition: int | None = None) -> Span:
    """Tell from when to when records are known, of a cluster or of one offsets partition."""
    condition = "cluster = ?"
    parameters: list[Parameter] = [cluster]
    if offsets_partition is not None:
        condition += " AND offsets_partition = ?"
        parameters.append(offsets_partition)
    sql = " UNION ALL ".join(
        f"SELECT MIN(time_ms) AS first_ms, MAX(time_ms) AS last_ms FROM {table} WHERE {condition}"
        for table in RECORD_TABLES
    )
    found = rows_of(engine, sql, parameters * len(RECORD_TABLES))
    firsts = [row["first_ms"] for row in found if row["first_ms"] is not None]
    lasts = [row["last_ms"] for row in found if row["last_ms"] is not None]
    return Span(min(firsts, default=None), max(lasts, default=None))
