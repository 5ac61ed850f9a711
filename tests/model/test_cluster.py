"""Partitions by topic, and back."""

from __future__ import annotations

from random import Random

from kgroup.model.cluster import TopicPartition, numbers_by_topic, partitions_of

NUMBERS = (*range(40), 100_000, (1 << 31) - 1, -1)


def test_partitions_by_topic_are_those_of_each_topic_in_order() -> None:
    random = Random(1)
    for size in range(60):
        partitions: list[TopicPartition] = [
            (random.choice("abc"), random.choice(NUMBERS)) for _ in range(size)
        ]
        numbers = numbers_by_topic(partitions)
        assert list(numbers) == list(dict.fromkeys(topic for topic, _ in partitions))
        expected = sorted(partitions, key=lambda at: list(numbers).index(at[0]))
        assert [*partitions_of(numbers.items())] == expected
    assert not numbers_by_topic([])
    assert [*partitions_of([("a", range(2)), ("b", ())])] == [("a", 0), ("a", 1)]
