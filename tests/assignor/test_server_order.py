"""The coordinator's sets and maps on the named maps of Java, whose orders were recorded."""

from __future__ import annotations

import pytest

from kgroup.assignor.base import TopicMetadata
from kgroup.assignor.group_spec import GroupSpec
from kgroup.assignor.java.java_hash import utf16
from kgroup.assignor.member_spec import MemberSpec
from kgroup.assignor.server.server import IntSet, ServerGroup, Target
from kgroup.model.offsets_partition import string_hash
from tests.assignor.case.hash_map import MAPS, MapCase, recorded_orders

RECORDED = recorded_orders()


def _keys(case: MapCase) -> list[str]:
    return sorted({key for _, key in case.steps}, key=utf16)


def _are_numbers(case: MapCase) -> bool:
    """Return whether the hashes of the keys could be numbers of partitions, and are only put."""
    keys = _keys(case)
    numbers = {each for each in map(string_hash, keys) if each >= 0}
    return len(numbers) == len(keys) and all(kind != "compute" for kind, _ in case.steps)


@pytest.mark.parametrize("name", [name for name, case in MAPS.items() if _are_numbers(case)])
def test_a_set_of_numbers_iterates_as_in_java(name: str) -> None:
    """A number is its own hash, so those of the texts are taken."""
    numbers = IntSet((), MAPS[name].capacity)
    for kind, key in MAPS[name].steps:
        if kind == "remove":
            numbers.remove(string_hash(key))
        else:
            numbers.add([string_hash(key)])
    assert list(numbers) == list(map(string_hash, RECORDED[name]))


@pytest.mark.parametrize("name", MAPS)
def test_the_topics_of_a_target_iterate_as_in_java(name: str) -> None:
    """Topics have ids that hash and compare as their names do."""
    keys = _keys(MAPS[name])
    ids = {
        key: (rank << 64 | rank ^ (string_hash(key) & 0xFFFFFFFF)).to_bytes(16, "big")
        for rank, key in enumerate(keys)
    }
    topics = {key: TopicMetadata(1) for key in keys}
    spec = GroupSpec("uniform", (MemberSpec("m", ()),), topics, "consumer", topic_ids=ids)
    target = Target(ServerGroup(spec), MAPS[name].capacity)
    for kind, key in MAPS[name].steps:
        topic = keys.index(key)
        if kind == "put" and target.get(topic) is None:
            target.put({topic: range(1)})
        elif kind == "compute":
            target.add([(topic, 0)])
        elif kind == "remove":
            target.remove(topic)
    assert [keys[topic] for topic, _ in target] == RECORDED[name]
