"""Groups rebuilt from a log directory against what the broker that wrote it says of them."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Mapping
from typing import Any

import pytest

from kgroup.model.group import Group, GroupType, Member, TaskAssignment
from kgroup.model.offsets_partition import offsets_partition
from kgroup.operation.describe import describe
from kgroup.protocol.record.consumer_protocol import decode_assignment, decode_subscription
from kgroup.source.log.source import LogDir
from tests.examples import some_of
from tests.source.scenarios import SCENARIOS, Scenario, scenario

Answer = Mapping[str, Any]
Version = tuple[int, ...]

_REBALANCING = ("PreparingRebalance", "CompletingRebalance")


@pytest.fixture(scope="module", params=some_of(SCENARIOS, 3))
def recorded(request: pytest.FixtureRequest) -> Scenario:
    return scenario(request.param)


@pytest.fixture(scope="module")
def groups(recorded: Scenario) -> Mapping[str, Group]:
    reading = LogDir([recorded.log_dir]).read()
    assert reading.problems == ()
    return reading.image.groups


def test_there_is_something_to_compare() -> None:
    assert "kafka-4.3.1" in SCENARIOS


def test_same_groups(recorded: Scenario, groups: Mapping[str, Group]) -> None:
    listed = {group["group_id"]: group for group in recorded.answers["groups"]}
    with_offsets = {name for name, found in recorded.answers["offsets"].items() if found}
    for group_id in (set(listed) | with_offsets) - set(groups):
        # Of a group that has lost its offsets a broker knows until it looks for such.
        assert group_id not in with_offsets
        answer = listed.pop(group_id)
        assert (answer["group_state"], answer["protocol_type"]) == ("Empty", ""), group_id
    for group_id in set(groups) - set(listed) - with_offsets:
        # Brokers before 0.10 neither list groups that only have offsets nor tell which there are.
        assert recorded.broker.startswith(("0.8.", "0.9.")), group_id
        assert (groups[group_id].state, groups[group_id].protocol_type) == ("Empty", None), group_id
    for group_id, answer in listed.items():
        group = groups[group_id]
        assert (group.protocol_type or "") == answer["protocol_type"], group_id
        assert group.type == answer.get("group_type", "classic").lower(), group_id
        if "group_state" in answer:
            assert group.state in _states(answer["group_state"], group, recorded), group_id


def test_same_partition_of_each_group(recorded: Scenario, groups: Mapping[str, Group]) -> None:
    count = int(recorded.config["offsets.topic.num.partitions"])
    for group_id, group in groups.items():
        assert group.offsets_partition == offsets_partition(group_id, count)


def test_same_offsets(recorded: Scenario, groups: Mapping[str, Group]) -> None:
    # Brokers before 0.10.2 are asked partition by partition, and know those of real topics only.
    asked = set(recorded.answers["topics"])
    is_whole = not recorded.broker.startswith(("0.8.", "0.9."))
    for group_id, answer in recorded.answers["offsets"].items():
        assert [
            (
                offset.topic,
                offset.partition,
                offset.committed_offset,
                -1 if offset.leader_epoch is None else offset.leader_epoch,
                offset.metadata,
            )
            for offset in (groups[group_id].offsets if group_id in groups else ())
            if is_whole or offset.topic in asked
        ] == [
            (
                row["topic"],
                row["partition"],
                row["offset"],
                row.get("leader_epoch", -1),
                # 0.9 answers from memory: null, where it wrote an empty text.
                row["metadata"] or "",
            )
            for row in answer
        ], group_id


def test_same_description(recorded: Scenario, groups: Mapping[str, Group]) -> None:
    for group_id, answer in recorded.answers["described"].items():
        if group_id not in groups:  # see test_same_groups
            assert answer["group_state"] == "Empty"
            continue
        group = groups[group_id]
        assert group.state in _states(answer["group_state"], group, recorded), group_id
        if answer["group_state"] in _REBALANCING:
            continue
        if answer["api"] == "DescribeGroups":
            assert group.type is GroupType.CLASSIC, group_id
            assert (group.protocol_type or "") == answer["protocol_type"], group_id
            assert (group.assignor or "") == answer["protocol_data"], group_id
        else:
            assert group.group_epoch == answer["group_epoch"], group_id
            # A coordinator without such a record starts from an epoch of its own.
            if group.assignment_epoch is not None:
                assert group.assignment_epoch == answer["assignment_epoch"], group_id
        if group.type is GroupType.CONSUMER and group.assignor is not None:
            assert group.assignor == answer["assignor_name"], group_id
        if group.type is GroupType.STREAMS:
            assert group.topology is not None
            assert _topology(group) == _described_topology(answer["topology"])
        compare = _MEMBERS[answer["api"]]
        members = {member.member_id: member for member in group.members}
        assert set(members) == {each["member_id"] for each in answer["members"]}, group_id
        for each in answer["members"]:
            compare(members[each["member_id"]], each, group, recorded.version)


def test_same_log_ends(recorded: Scenario) -> None:
    """Users' topics did not change between the answer and the copy."""
    ends = {
        (topic, partition): end
        for topic, found in recorded.answers["log_end_offsets"].items()
        if not topic.startswith("__")
        for partition, end in enumerate(found)
        if any((recorded.log_dir / f"{topic}-{partition}").glob("*.log"))
    }
    ranges = LogDir([recorded.log_dir]).log_ranges(set(ends)).ranges
    assert {at: found.end for at, found in ranges.items()} == ends


def test_same_share_offsets(recorded: Scenario, groups: Mapping[str, Group]) -> None:
    """What DescribeShareGroupOffsets says, which only is asked from 4.1 on; lag from 4.2 on."""
    described = {row.group.group_id: row for row in describe(LogDir([recorded.log_dir])).data}
    for group_id, answer in recorded.answers.get("share_offsets", {}).items():
        offsets = described[group_id].share_offsets or ()
        if recorded.version < (4, 1):
            assert {(o.topic, o.state, o.start_offset, o.leader_epoch) for o in offsets} == {
                ("payments", None, 0, 0)  # all of it was read in one turn, see the manifest
            }
            continue
        assert [
            (
                offset.topic,
                offset.topic_id,
                offset.partition,
                -1 if offset.start_offset is None else offset.start_offset,
                offset.leader_epoch,
                -1 if offset.lag is None else offset.lag,
            )
            for offset in offsets
            if offset.state == "initialized"
        ] == sorted(
            (
                topic["topic_name"],
                topic["topic_id"],
                each["partition_index"],
                each["start_offset"],
                each["leader_epoch"],
                each.get("lag", -1),
            )
            for topic in answer
            for each in topic["partitions"]
        ), group_id


def test_names_of_topics(recorded: Scenario) -> None:
    names = LogDir([recorded.log_dir]).read().image.topic_names
    for topic, answer in recorded.answers["topics"].items():
        if answer["topic_id"] in names:
            assert names[answer["topic_id"]] == topic
    for folder in recorded.log_dir.glob("*/partition.metadata"):
        assert folder.parent.name.rpartition("-")[0] in names.values()


def _states(answer: str, group: Group, recorded: Scenario) -> tuple[str | None, ...]:
    """States that a log may give.

    Of a rebalance that is not over it has what was before; and before 4.2 it does not tell whether
    a streams group is ready.
    """
    if answer in _REBALANCING:
        return ("Stable", "Empty")
    if group.type is GroupType.STREAMS and recorded.version < (4, 2) and group.members:
        return (None,)
    return (answer,)


def _compare_classic(member: Member, answer: Answer, group: Group, version: Version) -> None:
    assert member.instance_id == answer.get("group_instance_id")
    assert (member.client_id, member.client_host) == (answer["client_id"], answer["client_host"])
    if group.protocol_type != "consumer":
        return
    subscription = decode_subscription(b64decode(answer["member_metadata"]), group.assignor)
    if "topics" in subscription:
        assert member.subscription is not None
        assert member.subscription.topics == tuple(subscription["topics"])
        assert _partitions(member.subscription.owned) == _topics(
            subscription.get("ownedPartitions", ())
        )
    else:
        assert member.subscription is None
    assignment = decode_assignment(b64decode(answer["member_assignment"]))
    if "assignedPartitions" in assignment:
        assert _partitions(member.assignment) == _topics(assignment["assignedPartitions"])
    else:
        assert not member.assignment


def _compare_consumer(member: Member, answer: Answer, group: Group, version: Version) -> None:
    for name in ("instance_id", "rack_id", "client_id", "client_host", "member_epoch"):
        assert getattr(member, name) == answer[name]
    assert member.subscription is not None
    assert set(member.subscription.topics or ()) == set(answer["subscribed_topic_names"] or ())
    assert (member.subscription.regex or "") == (answer["subscribed_topic_regex"] or "")
    assigned = _id_partitions(member.assignment)
    if version < (4, 3):  # which did not count what the member is to give up
        assigned -= _id_partitions(member.pending_revocation)
    assert assigned == _id_topics(answer["assignment"])
    assert _id_partitions(member.target_assignment) == _id_topics(answer["target_assignment"])
    if "member_type" in answer:
        assert member.uses_classic_protocol == (answer["member_type"] == 0)
    if member.uses_classic_protocol:  # the broker does not tell what such a member said
        owned = _partitions(member.subscription.owned)
        assert owned
        assert owned <= _partitions(member.assignment)
        assert 0 < (member.subscription.generation_id or 0) <= (member.member_epoch or 0)


def _compare_share(member: Member, answer: Answer, group: Group, version: Version) -> None:
    for name in ("rack_id", "client_id", "client_host", "member_epoch"):
        assert getattr(member, name) == answer[name]
    assert member.subscription is not None
    assert set(member.subscription.topics or ()) == set(answer["subscribed_topic_names"])
    assert _id_partitions(member.assignment) == _id_topics(answer["assignment"])


def _compare_streams(member: Member, answer: Answer, group: Group, version: Version) -> None:
    for name in (
        "instance_id",
        "rack_id",
        "client_id",
        "client_host",
        "member_epoch",
        "topology_epoch",
        "process_id",
    ):
        assert getattr(member, name) == answer[name]
    endpoint = answer["user_endpoint"]
    assert member.user_endpoint == (f"{endpoint['host']}:{endpoint['port']}" if endpoint else None)
    assert member.client_tags == {tag["key"]: tag["value"] for tag in answer["client_tags"]}
    assert _tasks(member.tasks) == _described_tasks(answer["assignment"])
    assert _tasks(member.target_tasks) == _described_tasks(answer["target_assignment"])


_MEMBERS = {
    "DescribeGroups": _compare_classic,
    "ConsumerGroupDescribe": _compare_consumer,
    "ShareGroupDescribe": _compare_share,
    "StreamsGroupDescribe": _compare_streams,
}


def _partitions(assigned: Any) -> set[tuple[str, int]]:
    return {(each.topic, each.partition) for each in assigned or ()}


def _topics(topics: Any) -> set[tuple[str, int]]:
    return {(topic["topic"], partition) for topic in topics for partition in topic["partitions"]}


def _id_partitions(assigned: Any) -> set[tuple[str, str, int]]:
    return {(each.topic_id, each.topic, each.partition) for each in assigned or ()}


def _id_topics(assignment: Answer) -> set[tuple[str, str, int]]:
    return {
        (each["topic_id"], each["topic_name"], partition)
        for each in assignment["topic_partitions"]
        for partition in each["partitions"]
    }


def _tasks(tasks: TaskAssignment | None) -> dict[str, set[tuple[str, int]]]:
    assert tasks is not None
    return {
        kind: {(task.subtopology_id, task.partition) for task in getattr(tasks, kind)}
        for kind in ("active", "standby", "warmup")
    }


def _described_tasks(answer: Answer) -> dict[str, set[tuple[str, int]]]:
    return {
        kind: {
            (each["subtopology_id"], partition)
            for each in answer[f"{kind}_tasks"]
            for partition in each["partitions"]
        }
        for kind in ("active", "standby", "warmup")
    }


def _topology(group: Group) -> Any:
    assert group.topology is not None
    return group.topology.epoch, [
        (
            subtopology.subtopology_id,
            set(subtopology.source_topics),
            set(subtopology.repartition_sink_topics),
            set(subtopology.repartition_source_topics),
            set(subtopology.state_changelog_topics),
        )
        for subtopology in group.topology.subtopologies
    ]


def _described_topology(answer: Answer) -> Any:
    return answer["epoch"], [
        (
            each["subtopology_id"],
            set(each["source_topics"]),
            set(each["repartition_sink_topics"]),
            {topic["name"] for topic in each["repartition_source_topics"]},
            {topic["name"] for topic in each["state_changelog_topics"]},
        )
        for each in answer["subtopologies"]
    ]
