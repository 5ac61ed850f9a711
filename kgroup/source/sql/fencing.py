"""Who may store: the generation in which a consumer got its partitions, and the error of others."""

from __future__ import annotations

from typing import Any

from kgroup.errors import KgroupError, ProblemKind, UsageError

Partition = tuple[str, int]
"""Topic and number; kafka-python's `TopicPartition` is one."""


class FencedError(KgroupError):
    """A consumer that does not own a partition any more has tried to store its offset.

    Nothing was stored: take back the transaction, forget what was processed of these partitions.
    """

    kind = ProblemKind.CHANGED


def generation_of(consumer: Any) -> int:
    """Return the generation of the group in which a kafka-python consumer is a member now.

    Raises:
        UsageError: it is no consumer that tells (kafka-python before 3), or no member of a group.
    """
    metadata = getattr(consumer, "group_metadata", None)
    if metadata is None:
        raise UsageError(
            f"expected a KafkaConsumer of kafka-python 3 or later, which tells its generation; "
            f"found {type(consumer).__module__}.{type(consumer).__name__}"
        )
    generation = metadata().generation_id
    if not isinstance(generation, int) or generation < 0:
        raise UsageError(
            f"expected a consumer that has joined a group, found generation {generation!r}; ask "
            "for it in the listener's on_partitions_assigned"
        )
    return generation
