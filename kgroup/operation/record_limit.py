"""Compare the size of a classic group's record with what brokers accept."""

from __future__ import annotations

from kgroup.model.offsets_partition import OFFSETS_TOPIC


def is_worth_a_warning(size: int, limit: int) -> bool:
    """Return whether a record has at least half the size of the limit, in bytes."""
    return 2 * size >= limit


def compared_size(size: int, limit: int) -> str:
    """Return the size as a share of `max.message.bytes`, for a sentence."""
    share = f"{size / limit:.0%} of" if size <= limit else "more than"
    return f"{share} max.message.bytes of {OFFSETS_TOPIC} ({limit:,})"


def record_notes(size: int | None, limit: int) -> tuple[str, ...]:
    """Return a note on a future record that is near the limit or above it.

    Args:
        size: size of the record in bytes; None if unknown.
        limit: `max.message.bytes` of `__consumer_offsets`.
    """
    if size is None or not is_worth_a_warning(size, limit):
        return ()
    above = "" if size > limit else "above that, "
    return (
        f"the record of the group, with all its members, has about {size:,} bytes, "
        f"{compared_size(size, limit)}: {above}SyncGroup fails for every member "
        "(UNKNOWN_SERVER_ERROR)",
    )
