"""The partition of `__consumer_offsets` in which a group is coordinated: a hash of the group id."""

from __future__ import annotations

OFFSETS_TOPIC = "__consumer_offsets"
TRANSACTION_TOPIC = "__transaction_state"
SHARE_STATE_TOPIC = "__share_group_state"
INTERNAL_TOPICS = (OFFSETS_TOPIC, TRANSACTION_TOPIC, SHARE_STATE_TOPIC)


def java_int(value: int) -> int:
    """Return the low 32 bits of a number as a Java int."""
    return (value + (1 << 31)) % (1 << 32) - (1 << 31)


def string_hash(text: str) -> int:
    """Return ``String.hashCode``: ``h = 31 * h + unit`` over UTF-16 units, as a Java int."""
    value = 0
    for unit in memoryview(text.encode("utf-16-le", "surrogatepass")).cast("H"):
        value = (31 * value + unit) & 0xFFFFFFFF
    return java_int(value)


def offsets_partition(group_id: str, partition_count: int) -> int:
    """Return the partition of `__consumer_offsets` in which a group is coordinated.

    The partition of `__transaction_state` is computed from a transactional id in the same way.

    Kafka: ``Utils.abs(groupId.hashCode()) % numPartitions``, where abs of Integer.MIN_VALUE is
    0; the same in every version since 0.8.2.
    """
    hashed = string_hash(group_id)
    return (0 if hashed == -(1 << 31) else abs(hashed)) % partition_count
