"""The topics that regular expressions of a consumer group match, and when they are looked for.

Source: `maybeUpdateRegularExpressions` and `handleRegularExpressionsResult` of
`GroupMetadataManager`, `TopicRegexResolver`, of 4.3.1.
"""

from __future__ import annotations

from kgroup.model.pattern import parse_regex
from kgroup.simulation.consumer import record as record_of
from kgroup.simulation.consumer.group import ConsumerGroup, ResolvedRegex
from kgroup.simulation.consumer.record import Record
from kgroup.simulation.consumer.topic_image import TopicImage

_MIN_INTERVAL_MS = 10_000
"""How long expressions are not looked at again (`REGEX_BATCH_REFRESH_MIN_INTERVAL_MS`)."""


def is_recent(group: ConsumerGroup, now_ms: int) -> bool:
    """Tell whether the expressions of a group were looked at just now."""
    last = _last(group)
    return last is not None and now_ms <= last.timestamp_ms + _MIN_INTERVAL_MS


def is_stale(
    group: ConsumerGroup,
    regexes: frozenset[str],
    new_topics_version: int,
    now_ms: int,
    refresh_interval_ms: int,
) -> bool:
    """Tell whether the expressions of a group are to be looked at again.

    Args:
        group: as it was before a member's heartbeat.
        regexes: that its members subscribe to now.
        new_topics_version: of the topics of the cluster when one was made last.
        now_ms: the present.
        refresh_interval_ms: `group.consumer.regex.refresh.interval.ms`.
    """
    last = _last(group)
    return (
        last is None
        or len(regexes) != len(group.regexes)
        or last.version < new_topics_version
        or now_ms > last.timestamp_ms + refresh_interval_ms
    )


def resolved(
    group: ConsumerGroup, regexes: frozenset[str], topics: TopicImage, version: int, now_ms: int
) -> list[Record]:
    """Record the topics of expressions, and a new epoch if there are others than before.

    Args:
        group: whose members may have left their expressions meanwhile.
        regexes: to look for.
        topics: that exist.
        version: of these.
        now_ms: the present.
    """
    group_id = group.group_id
    records: list[Record] = []
    rises = False
    counts = group.subscriptions.copy()
    for regex in sorted(regexes & group.subscriptions.regexes.keys()):
        matches = parse_regex(regex).fullmatch
        found = frozenset(each.name for each in topics if matches(each.name))
        before = group.regexes.get(regex)
        known = frozenset[str]() if before is None else before.topics
        if found != known:
            rises = True
            counts.match(known, -1)
            counts.match(found, 1)
        resolved_now = ResolvedRegex(found, version, now_ms)
        records.append(record_of.regular_expression(group_id, regex, resolved_now))
    metadata_hash = topics.hash_of(counts.topics)
    if rises or metadata_hash != group.metadata_hash:
        records.append(record_of.group_epoch(group_id, group.epoch + 1, metadata_hash))
    return records


def _last(group: ConsumerGroup) -> ResolvedRegex | None:
    """Return any expression that was looked at: they are looked at together."""
    return next(iter(group.regexes.values()), None)
