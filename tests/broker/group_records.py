"""The records of consumer groups that a broker has written, in a form to compare them in."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby, zip_longest
from pathlib import Path
from typing import Any

from kgroup.model.problem import ProblemLog
from kgroup.protocol.message.primitives import base64_bytes
from kgroup.protocol.record.consumer_protocol import decode_subscription
from kgroup.protocol.record.coordinator_record import decode_members
from kgroup.simulation.consumer.member import Data
from kgroup.simulation.consumer.record import GroupRecord
from kgroup.source.log.segment_file import find_segments
from kgroup.source.log.source import read_segment
from tests.broker.consumer_play import ConsumerPlay

_TIMES = frozenset(
    {
        "assignmentTimestamp",
        "timestamp",
        "version",
        "currentStateTimestamp",
        "commitTimestamp",
        "topicId",
    }
)
_WITH_OFFSETS = ("GroupMetadata", "OffsetCommit")
_TOMBSTONE = "tombstone"
_UNORDERED = frozenset(
    {
        _TOMBSTONE,
        "ConsumerGroupTargetAssignmentMember",
        "ConsumerGroupRegularExpression",
        "OffsetCommit",
    }
)
_OF_MEMBERS = frozenset(
    {
        "ConsumerGroupCurrentMemberAssignment",
        "ConsumerGroupTargetAssignmentMember",
        "ConsumerGroupMemberMetadata",
    }
)
_PARTITIONS = frozenset({"topicPartitions", "assignedPartitions", "partitionsPendingRevocation"})


def written(log_dir: Path) -> Mapping[str, Sequence[GroupRecord]]:
    """Read what is in the one partition of `__consumer_offsets`, by group."""
    records: dict[str, list[GroupRecord]] = defaultdict(list)
    for segment in find_segments([log_dir], on_problem=lambda problem: None):
        problems = ProblemLog()
        for each in read_segment(segment, problems):
            data = None if each.value is None else each.value["data"]
            if each.type in _WITH_OFFSETS or each.type.startswith("ConsumerGroup"):
                assert each.key is not None
                record = GroupRecord(each.type, each.key["data"], data)
                records[next(iter(record.key.values()))].append(record)
        assert not problems.problems()
    return records


def compare_records(log_dir: Path, plays: Iterable[ConsumerPlay]) -> None:
    """Compare the records of each group; a broker has gone on when the play was over."""
    records = written(log_dir)
    for play in plays:
        expected = play.sim.records
        got = records[play.group_id][: len(expected)]
        pairs = zip_longest(comparable(got), comparable(expected))
        assert not [pair for pair in pairs if pair[0] != pair[1]][:1], play.story


def comparable(records: Sequence[GroupRecord]) -> list[Any]:
    """Leave out what no two coordinators share: times, orders in hash tables, and the very hash.

    Of hashes it stays which are the same, and which is 0.
    """
    hashes = {0: 0}
    plain = []
    for type_, key, value in records:
        data = dict(value or {})
        if type_ == "OffsetCommit" and value is not None:
            data = {"leaderEpoch": -1, "expireTimestamp": -1, **value}  # as its version has them
        if type_ == "GroupMetadata" and value is not None:
            data["members"] = _classic_members(value)
        if value is not None and type_ == "ConsumerGroupMetadata":
            data["metadataHash"] = hashes.setdefault(data.get("metadataHash", 0), len(hashes))
        said = {name: _plain(name, data[name]) for name in sorted(data.keys() - _TIMES)}
        plain.append((type_, sorted(map(str, key.values())), said, value is None))
    runs = [(kind, list(same)) for kind, same in groupby(plain, key=_kind)]
    return [sorted(same, key=str) if kind in _UNORDERED else same for kind, same in runs]


def _kind(record: tuple[str, Any, Any, bool]) -> str:
    """Say which records next to each other come from one hash table: of several members at once."""
    type_, _, _, is_tombstone = record
    return _TOMBSTONE if is_tombstone and type_ in _OF_MEMBERS else type_


def _classic_members(group: Data) -> list[Data]:
    """Decode what members say and have; topics of what they have are put in order."""
    decoded: dict[str, Any] = {**group, "members": [dict(each) for each in group["members"]]}
    if any(isinstance(each["subscription"], bytes) for each in group["members"]):
        decode_members(decoded)
    for member in decoded["members"]:
        for topic in member["assignment"].get("assignedPartitions", ()):
            topic["partitions"] = sorted(topic["partitions"])
        member["assignment"].get("assignedPartitions", []).sort(key=lambda each: each["topic"])
    members: list[Data] = decoded["members"]
    return members


def _subscription(metadata: Any) -> Any:
    return decode_subscription(base64_bytes(metadata)) if isinstance(metadata, str) else metadata


def _plain(name: str, value: Any) -> Any:
    if name == "subscribedTopicRegex":
        return value or ""
    if name == "expireTimestamp":
        return value == -1
    if name == "classicMemberMetadata" and value is not None:
        protocols = value["supportedProtocols"]
        return value["sessionTimeoutMs"], [
            (protocol["name"], _subscription(protocol["metadata"])) for protocol in protocols
        ]
    return sorted(map(_numbers, value)) if name in _PARTITIONS else value


def _numbers(topic: Data) -> tuple[str, list[tuple[int, int]]]:
    numbers = topic["partitions"]
    epochs = topic.get("assignmentEpochs") or [0] * len(numbers)
    return topic["topicId"], sorted(zip(numbers, epochs, strict=True))
