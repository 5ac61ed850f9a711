"""Compare the size of a classic group's record with what brokers accept."""

from __future__ import annotations

from kgroup.errors import BrokerError
from kgroup.model.offsets_partition import OFFSETS_TOPIC
from kgroup.protocol.batch.batch import CODECS
from kgroup.protocol.record.group_record import DEFAULT_LIMIT
from kgroup.source.base import GroupSource

RECORD_LIMIT = "max.message.bytes"
"""Setting of `__consumer_offsets`: the largest batch that its brokers accept."""
RECORD_CODEC = "offsets.topic.compression.codec"
"""Setting of brokers: how they compress their own records; see `codec_name`."""
NO_LIMIT = 2**31 - 1
"""Stands for a limit that no record exceeds."""
SMALL_RECORD = DEFAULT_LIMIT // 10
"""Size up to which a record is not compared with the limit, to save the request for it."""


def codec_name(number: str | None) -> str | None:
    """Return the name of a value of `offsets.topic.compression.codec`; None if unknown."""
    return dict(zip("01234", CODECS, strict=True)).get(number or "")


def is_worth_a_warning(size: int, limit: int) -> bool:
    """Return whether a record has at least half the size of the limit, in bytes."""
    return 2 * size >= limit


def compared_size(size: int, limit: int | None) -> str:
    """Return the size as a share of `max.message.bytes`, for a sentence; None: of the default."""
    most = DEFAULT_LIMIT if limit is None else limit
    share = f"{size / most:.0%} of" if size <= most else "more than"
    by_default = " by default" if limit is None else ""
    return f"{share} {RECORD_LIMIT} of {OFFSETS_TOPIC} ({most:,}{by_default})"


def record_notes(size: int | None, limit: int | None) -> tuple[str, ...]:
    """Return a note on a future record that is near the limit or above it.

    Args:
        size: size of the record in bytes; None if unknown.
        limit: `max.message.bytes` of `__consumer_offsets`; None if unknown: the default is used.
    """
    most = DEFAULT_LIMIT if limit is None else limit
    if size is None or not is_worth_a_warning(size, most):
        return ()
    above = "" if size > most else "above that, "
    return (
        f"the record of the group, with all its members, has about {size:,} bytes, "
        f"{compared_size(size, limit)}: {above}SyncGroup fails for every member "
        "(UNKNOWN_SERVER_ERROR)",
    )


def read_record_limit(source: GroupSource) -> int | None:
    """Return `max.message.bytes` of `__consumer_offsets`; None if the source does not know it."""
    if not source.can(GroupSource.topic_settings):
        return None
    try:
        text = source.topic_settings(OFFSETS_TOPIC, [RECORD_LIMIT]).get(RECORD_LIMIT, "")
    except BrokerError:
        return None
    return int(text) if text.isdigit() else None


def compresses_records(source: GroupSource) -> bool:
    """Return whether brokers compress their records, so that the size of a record is unknown."""
    if not source.can(GroupSource.broker_settings):
        return False
    try:
        settings = source.broker_settings([RECORD_CODEC]).brokers.values()
    except BrokerError:
        return False
    return not {codec_name(values.get(RECORD_CODEC)) for values in settings} <= {None, "none"}
