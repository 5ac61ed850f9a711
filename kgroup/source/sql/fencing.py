"""Fencing: the generation in which a consumer was assigned its partitions, and its error."""

from __future__ import annotations

from typing import Any

from kgroup.errors import KgroupError, ProblemKind, UsageError


class FencedError(KgroupError):
    """A consumer that no longer owns a partition has tried to store its offset.

    Nothing was stored: roll back the transaction, and discard what was processed of these
    partitions.
    """

    kind = ProblemKind.CHANGED


def generation_of(consumer: Any) -> int:
    """Return the generation of the group in which a kafka-python consumer is currently a member.

    Raises:
        UsageError: the consumer has no generation (kafka-python before 3), or is not in a group.
    """
    metadata = getattr(consumer, "group_metadata", None)
    if metadata is None:
        raise UsageError(
            f"expected a KafkaConsumer of kafka-python 3 or later, which has a generation; "
            f"found {type(consumer).__module__}.{type(consumer).__name__}"
        )
    generation = metadata().generation_id
    if not isinstance(generation, int) or generation < 0:
        raise UsageError(
            f"expected a consumer that has joined a group, found generation {generation!r}; ask "
            "for it in the listener's on_partitions_assigned"
        )
    return generation
