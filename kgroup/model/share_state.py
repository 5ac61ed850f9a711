"""Replay records of `__share_group_state` into the progress of share groups (KIP-932).

After Kafka's `ShareCoordinatorShard.replay` (4.3.1): a snapshot is the whole state of a
partition, an update changes it (-1 leaves start offset and leader epoch unchanged), and the
tombstone of the snapshot removes both.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from kgroup.model.group import Group
from kgroup.model.offset import ShareOffset
from kgroup.model.problem import Problem, ReplayProblems
from kgroup.model.record import DecodedRecord, known

Data = Mapping[str, Any]

ShareStates = dict[tuple[str, int], Data]
"""States of a group by topic id and partition: ShareSnapshot values with updates applied."""

_TYPES = ("ShareSnapshot", "ShareUpdate")


class ShareStateLog:
    """States of share groups, replayed from one partition of `__share_group_state`.

    Attributes:
        states: states by group id.
    """

    def __init__(self, path: str | None = None) -> None:
        """Start without records; `path` is the partition's folder, for problems."""
        self.states: dict[str, ShareStates] = {}
        self._problems = ReplayProblems(path=path)

    def replay(self, record: DecodedRecord) -> None:
        """Apply a record; a record that cannot be applied becomes a problem, not an exception."""
        if not self._problems.can_replay(record, _TYPES):
            return
        assert record.key is not None
        key = record.key["data"]
        states = self.states.setdefault(key["groupId"], {})
        at = (key["topicId"], key["partition"])
        is_snapshot = record.type == "ShareSnapshot"
        if record.value is None:
            if is_snapshot:
                states.pop(at, None)
            return
        value = record.value["data"]
        before = None if is_snapshot else states.get(at)
        if before is not None:
            unchanged = [name for name in ("startOffset", "leaderEpoch") if value[name] == -1]
            value = {
                "stateEpoch": before.get("stateEpoch"),
                **value,
                **{name: before[name] for name in unchanged},
            }
        states[at] = value

    def problems(self) -> tuple[Problem, ...]:
        """Return what could not be replayed."""
        return self._problems.problems()


def with_share_states(group: Group, states: ShareStates, topic_names: Mapping[str, str]) -> Group:
    """Complete a share group's `share_offsets` with the states of its partitions.

    This adds partitions that the group coordinator has not recorded (Kafka 4.0), or of which it
    only recorded that their topic is being deleted from the group.
    """
    if group.share_offsets is None:
        return group
    offsets = {(offset.topic_id, offset.partition): offset for offset in group.share_offsets}
    for (topic_id, partition), data in states.items():
        topic = offsets.get((topic_id, None)) or ShareOffset(
            topic_id, topic_names.get(topic_id), None
        )
        offset = offsets.get((topic_id, partition)) or replace(topic, partition=partition)
        offsets[topic_id, partition] = replace(
            offset,
            start_offset=known(data["startOffset"]),
            leader_epoch=known(data["leaderEpoch"]),
            state_epoch=data.get("stateEpoch"),
            delivery_complete_count=known(data.get("deliveryCompleteCount")),
        )
    in_parts = {topic_id for topic_id, _ in states}
    share_offsets = (
        offset
        for offset in offsets.values()
        if offset.partition is not None or offset.topic_id not in in_parts
    )
    return replace(
        group, share_offsets=tuple(sorted(share_offsets, key=lambda offset: offset.sort_key))
    )
