"""The records of consumer groups that a broker has written, in a form to compare them in."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from kgroup.model.problem import ProblemLog
from kgroup.simulation.consumer.member import Data
from kgroup.simulation.consumer.record import Record
from kgroup.source.log.replay import read_segment
from kgroup.source.log.segment_file import find_segments

__all__ = ["comparable", "written"]

_TIMES = frozenset({"assignmentTimestamp", "timestamp", "version"})
_PARTITIONS = frozenset({"topicPartitions", "assignedPartitions", "partitionsPendingRevocation"})


def written(log_dir: Path) -> Mapping[str, Sequence[Record]]:
    """Read what is in the one partition of `__consumer_offsets`, by group."""
    records: dict[str, list[Record]] = defaultdict(list)
    for segment in find_segments([log_dir], on_problem=lambda problem: None):
        problems = ProblemLog()
        for each in read_segment(segment, problems):
            data = None if each.value is None else each.value["data"]
            if each.key is not None and "groupId" in each.key["data"]:
                record = Record(each.type, each.key["data"], data)
                records[record.key["groupId"]].append(record)
        assert not problems.problems()
    return records


def comparable(records: Sequence[Record]) -> list[Any]:
    """Leave out what no two coordinators share: times, orders in hash tables, and the very hash.

    Of hashes it stays which are the same, and which is 0.
    """
    hashes = {0: 0}
    plain = []
    for type_, key, value in records:
        data = dict(value or {})
        if value is not None and type_ == "ConsumerGroupMetadata":
            data["metadataHash"] = hashes.setdefault(data.get("metadataHash", 0), len(hashes))
        said = {name: _plain(name, data[name]) for name in sorted(data.keys() - _TIMES)}
        plain.append((type_, sorted(map(str, key.values())), said, value is None))
    return [
        sorted(same, key=str) if _is_unordered(type_) else list(same)
        for type_, same in groupby(plain, key=lambda each: each[0])
    ]


def _is_unordered(type_: str) -> bool:
    return type_ in ("ConsumerGroupTargetAssignmentMember", "ConsumerGroupRegularExpression")


def _plain(name: str, value: Any) -> Any:
    if name == "subscribedTopicRegex":
        return value or ""
    return sorted(map(_numbers, value)) if name in _PARTITIONS else value


def _numbers(topic: Data) -> tuple[str, list[tuple[int, int]]]:
    numbers = topic["partitions"]
    epochs = topic.get("assignmentEpochs") or [0] * len(numbers)
    return topic["topicId"], sorted(zip(numbers, epochs, strict=True))
