"""What a source does not serve ends in one error, and can be asked about before."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from kgroup.errors import UsageError
from kgroup.source.base import GroupSource, KafkaOffsets
from kgroup.source.broker.source import LiveCluster
from kgroup.source.log.source import LogDir
from kgroup.source.offset_file import OffsetFile
from kgroup.source.sql.store import SqlOffsetStore

UNSERVED: dict[str, Callable[[GroupSource], object]] = {
    "read": lambda source: source.read(),
    "log_ranges": lambda source: source.log_ranges([]),
    "view": lambda source: source.view([]),
    "placements": lambda source: source.placements([]),
    "next_records": lambda source: source.next_records([]),
    "offsets_at": lambda source: source.offsets_at([], 0),
    "broker_settings": lambda source: source.broker_settings([]),
    "topic_settings": lambda source: source.topic_settings("t", []),
    "group_settings": lambda source: source.group_settings("g", []),
    "features": lambda source: source.features(0),
    "unreachable": lambda source: source.unreachable(),
    "subtree": lambda source: source.subtree("/"),
    "read_offsets": lambda source: source.read_offsets(),
    "write_offsets": lambda source: source.write_offsets({}),
    "delete_groups": lambda source: source.delete_groups([]),
    "remove_members": lambda source: source.remove_members("g", {}),
}
OFFSETS = {"read_offsets", "write_offsets"}


@pytest.mark.parametrize(
    ("source", "served"),
    [
        (GroupSource(), set()),
        (LogDir([]), {"read", "log_ranges"}),
        (OffsetFile(Path("x")), {"read_offsets"}),
        (SqlOffsetStore("x.db"), OFFSETS),
        (LiveCluster("localhost:1"), UNSERVED.keys() - {"subtree"}),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, GroupSource) else "",
)
def test_each_source_can_do_what_it_overrides(source: GroupSource, served: set[str]) -> None:
    assert {name for name in UNSERVED if source.can(getattr(GroupSource, name))} == served
    for name in UNSERVED.keys() - served:
        with pytest.raises(UsageError, match=r"this source does not support [^;]+; that takes \S"):
            UNSERVED[name](source)


def test_what_any_source_answers() -> None:
    source = GroupSource()
    source.renew()
    assert source.log_sizes([("t", 0)]) == {}
    assert source.epoch_ends([("t", 0, 1)]) == {}
    assert source.kafka_offsets(["g"]) == KafkaOffsets(None)
    assert source.divided({}) == {}
    assert source.store_name is None
