"""Whether a topic that was asked about is one that records name."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import orjson

from kgroup.errors import NotFoundError, near_names
from kgroup.history.sql.engine import Engine
from kgroup.history.sql.question import place_of, rows_of, where

_MOST_NAMED = 10
_TABLES = ("assignments", "log_ends", "offset_commits", "tombstones")
_TABLES_WITH_IDS = ("assignments", "offset_commits")
_NAMING = (
    "(type IN ('ConsumerGroupRegularExpression', 'StreamsGroupTopology') "
    "OR type LIKE '%PartitionMetadata')"
)
"""Records that name topics which nobody need have owned, committed or subscribed to by name."""


def check_topic(
    engine: Engine,
    topic: str,
    cluster: str | None,
    *,
    given: Iterable[str] = (),
    by_id: bool = False,
) -> None:
    """See that there is a topic for which nothing was found.

    All names of topics are looked through: it is for questions whose answer is empty.

    Args:
        engine: to ask.
        topic: its name.
        cluster: to look in only; None: in all.
        given: topics that are known from elsewhere.
        by_id: it may be the topic's id, too.

    Raises:
        NotFoundError: no record names it; the text has names like it, or those that there are.
    """
    names = {*_names(engine, cluster), *given}
    if topic in names or (by_id and topic in _ids(engine, cluster)):
        return
    meant = near_names(topic, sorted(names))
    if not meant and names:
        first = ", ".join(sorted(names)[:_MOST_NAMED])
        more = f" and {len(names) - _MOST_NAMED:,} more" if len(names) > _MOST_NAMED else ""
        meant = f"; choose one of {first}{more}"
    raise NotFoundError(
        f"topic {topic!r} is not in {place_of(cluster)}{meant or ', nor is any other'}", topic=topic
    )


def _names(engine: Engine, cluster: str | None) -> Iterator[str]:
    """Yield the names of topics that records have, some of them several times."""
    condition, parameters = where(("cluster = ?", cluster))
    sql = " UNION ".join(
        f"SELECT topic FROM {table} WHERE {condition} AND topic IS NOT NULL" for table in _TABLES
    )
    yield from (row["topic"] for row in rows_of(engine, sql, parameters * len(_TABLES)))
    sql = f"SELECT DISTINCT subscribed_topics FROM members WHERE {condition}"
    for row in rows_of(engine, sql, parameters):
        yield from row["subscribed_topics"] or ()
    sql = f"SELECT value_json FROM consumer_group_epochs WHERE {condition} AND {_NAMING}"
    for row in rows_of(engine, sql, parameters):
        yield from _named_in(orjson.loads(row["value_json"])["data"])


def _named_in(value: dict[str, Any]) -> Iterator[str]:
    """Yield the topics that a record's value names, in whatever list of topics."""
    for key, found in value.items():
        is_of_topics = key.lower().endswith("topics")
        for each in found if isinstance(found, list) else ():
            if isinstance(each, dict):
                name = each.get("topicName") or each.get("name") if is_of_topics else None
                yield from _named_in(each) if name is None else (name,)
            elif is_of_topics and isinstance(each, str):  # copartition groups have numbers
                yield each


def _ids(engine: Engine, cluster: str | None) -> set[str]:
    condition, parameters = where(("cluster = ?", cluster))
    sql = " UNION ".join(
        f"SELECT topic_id FROM {table} WHERE {condition}" for table in _TABLES_WITH_IDS
    )
    return {row["topic_id"] for row in rows_of(engine, sql, parameters * len(_TABLES_WITH_IDS))}
