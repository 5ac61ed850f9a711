"""Compare the size of a classic group's record with what brokers accept."""

from __future__ import annotations

from dataclasses import replace

from kgroup.errors import BrokerError
from kgroup.model.group import Broker
from kgroup.model.offsets_partition import OFFSETS_TOPIC
from kgroup.protocol.batch.batch import CODECS
from kgroup.simulation.rules import BrokerSettings
from kgroup.source.base import GroupSource

RECORD_LIMIT = "max.message.bytes"
"""Setting of `__consumer_offsets`: the largest batch that its brokers accept."""
RECORD_CODEC = "offsets.topic.compression.codec"
"""Setting of brokers: how they compress their own records; see `codec_name`."""
NO_LIMIT = 2**31 - 1
"""Stands for a limit that no record exceeds."""
SMALL_RECORD = 10_000
"""Size up to which a record is not compared with the limit, as no cluster has one so small."""


def codec_name(number: str | None) -> str | None:
    """Return the name of a value of `offsets.topic.compression.codec`; None if unknown."""
    return dict(zip("01234", CODECS, strict=True)).get(number or "")


def is_compressing(number: str | None) -> bool | None:
    """Return whether a value of `offsets.topic.compression.codec` compresses; None if unknown."""
    codec = codec_name(number)
    return None if codec is None else codec != "none"


def is_worth_a_warning(size: int, limit: int) -> bool:
    """Return whether a record has at least half the size of the limit, in bytes."""
    return 2 * size >= limit


def compared_size(size: int, limit: int, *, is_assumed: bool = False) -> str:
    """Return the size as a share of `max.message.bytes`, rounded down, for a sentence."""
    share = f"{100 * size // limit}% of" if size <= limit else "more than"
    by_default = " by default" if is_assumed else ""
    return f"{share} {RECORD_LIMIT} of {OFFSETS_TOPIC} ({limit:,}{by_default})"


def record_notes(size: int | None, settings: BrokerSettings) -> tuple[str, ...]:
    """Return a note on a future record that is near the limit of these settings, or above it.

    Args:
        size: size of the record in bytes, uncompressed; None if unknown.
        settings: what is known about the brokers' records.
    """
    limit = settings.message_max_size
    if size is None or not is_worth_a_warning(size, limit):
        return ()
    above = "" if size > limit else "above that, "
    unless = f", unless brokers compress it to less ({RECORD_CODEC} is unknown)"
    return (
        f"the record of the group, with all its members, has about {size:,} bytes, "
        f"{compared_size(size, limit, is_assumed=settings.is_limit_assumed)}: {above}SyncGroup "
        f"fails for every member (UNKNOWN_SERVER_ERROR){unless if settings.may_compress else ''}",
    )


def with_record_limit(
    settings: BrokerSettings, limit: int | None, compressed: bool | None
) -> BrokerSettings:
    """Return the settings with what a cluster tells about its records.

    Args:
        settings: settings of a simulation; the limit is not the cluster's.
        limit: `max.message.bytes` of `__consumer_offsets`; None if unknown: it is unchanged.
        compressed: whether brokers compress their records, so that no size is refused; None if
            unknown.
    """
    if compressed:
        limit = NO_LIMIT
    if limit is not None:
        settings = replace(settings, message_max_size=limit, is_limit_assumed=False)
    return replace(settings, may_compress=compressed is None)


def read_record_limit(source: GroupSource) -> int | None:
    """Return `max.message.bytes` of `__consumer_offsets`; None if the source does not know it."""
    if not source.can(GroupSource.topic_settings):
        return None
    try:
        text = source.topic_settings(OFFSETS_TOPIC, [RECORD_LIMIT]).get(RECORD_LIMIT, "")
    except BrokerError:
        return None
    return int(text) if text.isdigit() else None


def compresses_records(source: GroupSource, coordinator: Broker | None = None) -> bool | None:
    """Return whether a coordinator compresses its records, so that their size is unknown.

    Args:
        source: source of the brokers' settings.
        coordinator: the coordinator; None for any broker.

    Returns:
        None if that is unknown, or if only some of the brokers do.
    """
    if not source.can(GroupSource.broker_settings):
        return None
    try:
        reading = source.broker_settings([RECORD_CODEC])
    except BrokerError:
        return None
    found = [values.get(RECORD_CODEC) for values in reading.brokers.values()]
    found += [None for _ in reading.problems]
    if coordinator is not None:
        found = [reading.brokers.get(coordinator.id, {}).get(RECORD_CODEC)]
    answers = set(map(is_compressing, found))
    return answers.pop() if len(answers) == 1 else None
