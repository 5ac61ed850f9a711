"""Consumer (KIP-848), share (KIP-932) and streams (KIP-1071) groups."""

from __future__ import annotations

from typing import Any

import pytest

from kgroup.model.group import (
    AssignedPartition,
    GroupState,
    GroupType,
    Member,
    MemberState,
    Subscription,
    Task,
    TaskAssignment,
)
from kgroup.model.offset import ShareOffset
from kgroup.model.record import DecodedRecord
from tests.model.records import TOPIC_ID, commit, consumer_member, epochs, groups, record, replay


@pytest.mark.parametrize(
    ("group_epoch", "assignment_epoch", "members", "state"),
    [
        (3, 3, [], GroupState.EMPTY),
        (3, None, [], GroupState.EMPTY),
        (4, 3, [(3, 0)], GroupState.ASSIGNING),
        (4, None, [(3, 0)], GroupState.ASSIGNING),
        (3, 3, [(3, 0), (2, 0)], GroupState.RECONCILING),
        (3, 3, [(3, 0), (3, 1)], GroupState.RECONCILING),
        (3, 3, [(3, 2)], GroupState.RECONCILING),
        (3, 3, [(3, 0), (-2, 0)], GroupState.RECONCILING),
        (3, 3, [(3, 0), (3, 0)], GroupState.STABLE),
    ],
)
def test_state_of_a_consumer_group(
    group_epoch: int,
    assignment_epoch: int | None,
    members: list[tuple[int, int]],
    state: GroupState,
) -> None:
    """Kafka's `ConsumerGroup.maybeUpdateGroupState`; members are pairs of epoch and state."""
    group = groups(
        epochs("g", group_epoch=group_epoch, assignment_epoch=assignment_epoch),
        *(
            consumer_member("g", f"m{i}", epoch=epoch, state=number)
            for i, (epoch, number) in enumerate(members)
        ),
    )["g"]
    assert group.type is GroupType.CONSUMER
    assert group.state is state
    assert (group.group_epoch, group.assignment_epoch) == (group_epoch, assignment_epoch)
    assert len(group.members) == len(members)


def test_state_is_unknown_where_the_groups_own_record_is_lost() -> None:
    assert groups(consumer_member("g", "a", epoch=1))["g"].state is None


def test_member_of_a_consumer_group() -> None:
    member = groups(
        epochs("g", group_epoch=3, assignment_epoch=3),
        consumer_member(
            "g",
            "a",
            epoch=3,
            partitions=[1, 0],
            revoked=[5],
            state=1,
            instanceId="static-1",
            rackId="r1",
            subscribedTopicNames=["b", "a"],
            subscribedTopicRegex="ord.*",
            serverAssignor="range",
        ),
        commit("other", 0, 1, topicId=TOPIC_ID),
    )["g"].members[0]
    assert member.subscription == Subscription(("a", "b"), "ord.*")
    held = (1, 0, 5)
    assert member.assignment == tuple(AssignedPartition(TOPIC_ID, "orders", p) for p in held)
    assert member.target_assignment == tuple(
        AssignedPartition(TOPIC_ID, "orders", p) for p in (1, 0)
    )
    assert member.pending_revocation == (AssignedPartition(TOPIC_ID, "orders", 5),)
    assert (member.instance_id, member.rack_id, member.assignor) == ("static-1", "r1", "range")
    assert (member.member_epoch, member.previous_member_epoch) == (3, 2)
    assert member.state is MemberState.UNREVOKED_PARTITIONS
    assert member.rebalance_timeout_ms == 300_000
    assert member.session_timeout_ms is None
    assert member.uses_classic_protocol is False


@pytest.mark.parametrize(
    ("epochs", "known"), [([5, 3], [5, 3]), (None, [None, None]), ([5], [None, None])]
)
def test_epochs_since_which_a_member_has_partitions(
    epochs: list[int] | None, known: list[int | None]
) -> None:
    """Kafka's `Utils.assignmentFromTopicPartitions`: as many as there are partitions, or none."""
    topic = {"topicId": TOPIC_ID, "partitions": [1, 0], "assignmentEpochs": epochs}
    value: dict[str, Any] = {
        "memberEpoch": 5,
        "previousMemberEpoch": 4,
        "state": 0,
        "assignedPartitions": [topic],
        "partitionsPendingRevocation": [],
    }
    key = {"groupId": "g", "memberId": "a"}
    member = groups(record("ConsumerGroupCurrentMemberAssignment", key, value))["g"].members[0]
    assert [partition.partition for partition in member.assignment or ()] == [1, 0]
    assert [partition.since_epoch for partition in member.assignment or ()] == known


def test_partition_is_the_same_whenever_it_was_got() -> None:
    assert AssignedPartition(TOPIC_ID, "orders", 0, 3) == AssignedPartition(TOPIC_ID, "orders", 0)
    assert {Task("0", 1, 3)} == {Task("0", 1)}


def classic_speaker(*metadata: Any) -> Member:
    """Make a member of a consumer group that offers range first, then cooperative-sticky."""
    names = ("range", "cooperative-sticky")
    classic = {
        "sessionTimeoutMs": 45_000,
        "supportedProtocols": [
            {"name": name, "metadata": said} for name, said in zip(names, metadata, strict=True)
        ],
    }
    records = consumer_member("g", "a", epoch=1, classicMemberMetadata=classic)
    return groups(records)["g"].members[0]


def test_consumer_that_uses_the_classic_protocol_in_a_consumer_group() -> None:
    """What it says is what it says first, as it is for the coordinator; but topics are noted."""
    said = {
        "version": 3,
        "topics": ["not noted"],
        "userData": {"generation": 6},
        "ownedPartitions": [{"topic": "orders", "partitions": [2, 1]}],
        "generationId": 7,
        "rackId": None,
    }
    member = classic_speaker(said, {**said, "generationId": 8})
    assert member.uses_classic_protocol is True
    assert member.session_timeout_ms == 45_000
    assert member.classic_protocols == ("range", "cooperative-sticky")
    assert member.subscription == Subscription(
        topics=("orders",),
        owned=(AssignedPartition(None, "orders", 2), AssignedPartition(None, "orders", 1)),
        generation_id=7,
        user_data={"generation": 6},
        version=3,
    )


@pytest.mark.parametrize("said", [{"raw": "AAA=", "error": "cut"}, {"raw": ""}, "AAA="])
def test_classic_protocol_that_cannot_be_understood(said: Any) -> None:
    assert classic_speaker(said, said).subscription == Subscription(("orders",))


def test_topic_without_a_known_name_keeps_its_id() -> None:
    delta = replay(consumer_member("g", "a", epoch=1, partitions=[0]))
    nameless, named = delta.groups(), delta.groups({TOPIC_ID: "invoices"})
    assert nameless["g"].members[0].assignment == (AssignedPartition(TOPIC_ID, None, 0),)
    assert named["g"].members[0].assignment == (AssignedPartition(TOPIC_ID, "invoices", 0),)


def test_topic_names_are_learnt_from_metadata_before_4_1() -> None:
    topics = {"topics": [{"topicId": TOPIC_ID, "topicName": "orders", "numPartitions": 6}]}
    for kind in ("ConsumerGroupPartitionMetadata", "ShareGroupPartitionMetadata"):
        delta = replay(record(kind, {"groupId": "g"}, {"epoch": 0, **topics}))
        assert delta.topic_names == {TOPIC_ID: "orders"}


def test_topics_of_another_record_are_no_topic_names() -> None:
    """A field `topics` of a record type of later brokers may have another layout."""
    value = {"epoch": 0, "subtopologies": [], "topics": ["orders"]}
    assert replay(record("StreamsGroupTopology", {"groupId": "g"}, value)).topic_names == {}


@pytest.mark.parametrize(
    ("wanted", "assignor"),
    [
        ([None, None], None),
        (["range", None], "range"),
        (["range", "uniform", "uniform"], "uniform"),
        (["range", "uniform"], None),
    ],
)
def test_assignor_is_what_most_members_ask_for(
    wanted: list[str | None], assignor: str | None
) -> None:
    """On a tie a coordinator takes the first of a hash table: unknown."""
    group = groups(
        epochs("g", group_epoch=1, assignment_epoch=1),
        *(
            consumer_member("g", f"m{i}", epoch=1, serverAssignor=name)
            for i, name in enumerate(wanted)
        ),
    )["g"]
    assert group.assignor == assignor


def test_member_that_leaves() -> None:
    """The coordinator removes assignment, target and member by one tombstone each."""
    key = {"groupId": "g", "memberId": "a"}
    start = [
        *epochs("g", group_epoch=3, assignment_epoch=3),
        *consumer_member("g", "a", epoch=3, partitions=[0]),
        *consumer_member("g", "b", epoch=3, partitions=[1]),
    ]
    gone = [
        record("ConsumerGroupCurrentMemberAssignment", key, None),
        record("ConsumerGroupTargetAssignmentMember", key, None),
        record("ConsumerGroupMemberMetadata", key, None),
    ]
    leaving = groups(start, gone[:1])["g"].members[0]
    assert (leaving.member_id, leaving.member_epoch, leaving.assignment) == ("a", -1, ())
    assert leaving.previous_member_epoch is None  # Kafka: LEAVE_GROUP_MEMBER_EPOCH, -1, too
    assert [member.member_id for member in groups(start, gone)["g"].members] == ["b"]


def test_what_is_left_of_a_member_goes_with_its_own_tombstone_only() -> None:
    """Kafka: `GroupMetadataManager.replay` of each of the keys, with null."""
    key = {"groupId": "g", "memberId": "a"}
    start = [
        *epochs("g", group_epoch=3, assignment_epoch=3),
        *consumer_member("g", "a", epoch=3, partitions=[0]),
    ]
    target = record("ConsumerGroupTargetAssignmentMember", key, None)
    (member,) = groups(start, target)["g"].members
    assert (member.member_epoch, member.target_assignment) == (3, ())
    assert [partition.partition for partition in member.assignment or ()] == [0]
    member_itself = record("ConsumerGroupMemberMetadata", key, None)
    assert groups(start, target, member_itself)["g"].members == ()


def test_tombstone_of_the_assignment_epoch_leaves_the_group() -> None:
    start = epochs("g", group_epoch=3, assignment_epoch=3)
    left = record("ConsumerGroupTargetAssignmentMetadata", {"groupId": "g"}, None)
    group = groups(start, left)["g"]
    assert (group.type, group.group_epoch) == (GroupType.CONSUMER, 3)
    assert group.assignment_epoch is None
    gone = record("ConsumerGroupMetadata", {"groupId": "g"}, None)
    assert groups(start, gone) == {}


def test_tombstones_of_what_is_not_there() -> None:
    key = {"groupId": "g", "memberId": "a"}
    for kind in (
        "ConsumerGroupMemberMetadata",
        "ConsumerGroupCurrentMemberAssignment",
        "ShareGroupMemberMetadata",
        "StreamsGroupCurrentMemberAssignment",
        "ConsumerGroupMetadata",
        "StreamsGroupTopology",
    ):
        assert groups(record(kind, key, None)) == {}


def test_resolved_regular_expressions() -> None:
    key = {"groupId": "g", "regularExpression": "o.*"}
    found = record(
        "ConsumerGroupRegularExpression",
        key,
        {"topics": ["orders", "offers"], "version": 1, "timestamp": 2},
    )
    start = epochs("g", group_epoch=1, assignment_epoch=1)
    group = groups(start, found)["g"]
    assert group.resolved_regexes == {"o.*": ("offers", "orders")}
    assert group.topics == {"orders", "offers"}
    gone = record("ConsumerGroupRegularExpression", key, None)
    assert groups(start, found, gone)["g"].resolved_regexes == {}


def share_group() -> list[DecodedRecord]:
    group, member = {"groupId": "s"}, {"groupId": "s", "memberId": "a"}
    topics = [{"topicId": TOPIC_ID, "partitions": [1, 0]}]
    return [
        record("ShareGroupMetadata", group, {"epoch": 5, "metadataHash": 0}),
        record("ShareGroupTargetAssignmentMetadata", group, {"assignmentEpoch": 4}),
        record(
            "ShareGroupMemberMetadata",
            member,
            {
                "rackId": "r1",
                "clientId": "client",
                "clientHost": "/127.0.0.1",
                "subscribedTopicNames": ["payments"],
            },
        ),
        record("ShareGroupTargetAssignmentMember", member, {"topicPartitions": topics}),
        record(
            "ShareGroupCurrentMemberAssignment",
            member,
            {"memberEpoch": 4, "previousMemberEpoch": 3, "state": 0, "assignedPartitions": topics},
        ),
        record(
            "ShareGroupStatePartitionMetadata",
            group,
            {
                "initializingTopics": [
                    {"topicId": "B" * 22, "topicName": "new", "partitions": [0]}
                ],
                "initializedTopics": [
                    {"topicId": TOPIC_ID, "topicName": "payments", "partitions": [1, 0]}
                ],
                "deletingTopics": [
                    {"topicId": "C" * 22, "topicName": "old"},
                    {"topicId": "D" * 22, "topicName": "<UNKNOWN>"},
                ],
            },
        ),
    ]


def test_share_group() -> None:
    """Its state has only two values: `ShareGroup.maybeUpdateGroupState`."""
    group = groups(share_group())["s"]
    assert (group.type, group.protocol_type) == (GroupType.SHARE, "share")
    assert group.state is GroupState.STABLE
    assert (group.group_epoch, group.assignment_epoch, group.assignor) == (5, 4, None)
    member = group.members[0]
    assert member.subscription == Subscription(("payments",))
    assert member.assignment == tuple(AssignedPartition(TOPIC_ID, "payments", p) for p in (1, 0))
    assert member.target_assignment == member.assignment
    assert (member.state, member.rack_id, member.member_epoch) == (MemberState.STABLE, "r1", 4)
    assert group.share_offsets == (
        ShareOffset("B" * 22, "new", 0, "initializing"),
        ShareOffset("C" * 22, "old", None, "deleting"),
        ShareOffset(TOPIC_ID, "payments", 0, "initialized"),
        ShareOffset(TOPIC_ID, "payments", 1, "initialized"),
        ShareOffset("D" * 22, None, None, "deleting"),
    )
    assert group.topics == {"new", "old", "payments"}


def test_share_partition_that_is_initialized_anew() -> None:
    """As while its start offset is altered: it is in both lists."""
    topics = [{"topicId": TOPIC_ID, "topicName": "payments", "partitions": [0]}]
    value: dict[str, Any] = {
        "initializingTopics": topics,
        "initializedTopics": topics,
        "deletingTopics": [],
    }
    group = groups(record("ShareGroupStatePartitionMetadata", {"groupId": "s"}, value))["s"]
    assert group.share_offsets == (ShareOffset(TOPIC_ID, "payments", 0, "initializing"),)


def test_share_group_without_members_is_empty() -> None:
    key = {"groupId": "s", "memberId": "a"}
    kinds = (
        "ShareGroupCurrentMemberAssignment",
        "ShareGroupTargetAssignmentMember",
        "ShareGroupMemberMetadata",
    )
    group = groups(share_group(), *(record(kind, key, None) for kind in kinds))["s"]
    assert (group.state, group.members) == (GroupState.EMPTY, ())


def test_share_state_of_4_0_has_no_initializing_topics() -> None:
    value: dict[str, Any] = {
        "initializedTopics": [{"topicId": TOPIC_ID, "topicName": "payments", "partitions": [0]}],
        "deletingTopics": [],
    }
    group = groups(record("ShareGroupStatePartitionMetadata", {"groupId": "s"}, value))["s"]
    assert group.share_offsets == (ShareOffset(TOPIC_ID, "payments", 0, "initialized"),)


def test_fields_of_later_versions_are_in_nobodys_way() -> None:
    value = {"initializedTopics": [], "deletingTopics": [], "_tagged": [{"tag": 8, "data": "AA=="}]}
    group = groups(record("ShareGroupStatePartitionMetadata", {"groupId": "s"}, value))["s"]
    assert group.share_offsets == ()


def streams_group(
    *,
    validated: dict[str, Any],
    topology_epoch: int = 0,
    state: int = 1,
    epoch: int = 7,
    host: str = "h",
) -> list[DecodedRecord]:
    group, member = {"groupId": "t"}, {"groupId": "t", "memberId": "a"}
    return [
        record("StreamsGroupMetadata", group, {"epoch": 7, "metadataHash": 0, **validated}),
        record("StreamsGroupTargetAssignmentMetadata", group, {"assignmentEpoch": 7}),
        record(
            "StreamsGroupTopology",
            group,
            {
                "epoch": topology_epoch,
                "subtopologies": [
                    {
                        "subtopologyId": name,
                        "sourceTopics": ["orders"],
                        "sourceTopicRegex": [],
                        "stateChangelogTopics": [{"name": "store-changelog", "partitions": 0}],
                        "repartitionSinkTopics": ["by-value"],
                        "repartitionSourceTopics": [{"name": "by-key", "partitions": 3}],
                        "copartitionGroups": [],
                    }
                    for name in ("1", "0")
                ],
            },
        ),
        record(
            "StreamsGroupMemberMetadata",
            member,
            {
                "instanceId": None,
                "rackId": None,
                "clientId": "client",
                "clientHost": "/127.0.0.1",
                "rebalanceTimeoutMs": 300_000,
                "topologyEpoch": topology_epoch,
                "processId": "p",
                "userEndpoint": {"host": host, "port": 80},
                "clientTags": [{"key": "zone", "value": "z1"}],
            },
        ),
        record(
            "StreamsGroupTargetAssignmentMember",
            member,
            {
                "activeTasks": [{"subtopologyId": "0", "partitions": [1, 0]}],
                "standbyTasks": [],
                "warmupTasks": [],
            },
        ),
        record(
            "StreamsGroupCurrentMemberAssignment",
            member,
            {
                "memberEpoch": epoch,
                "previousMemberEpoch": 6,
                "state": state,
                "activeTasks": [{"subtopologyId": "0", "partitions": [0], "assignmentEpochs": [5]}],
                "standbyTasks": [{"subtopologyId": "1", "partitions": [2]}],
                "warmupTasks": [{"subtopologyId": "1", "partitions": [3]}],
                "activeTasksPendingRevocation": [{"subtopologyId": "0", "partitions": [4]}],
                "standbyTasksPendingRevocation": [],
                "warmupTasksPendingRevocation": [],
            },
        ),
    ]


READY = {"validatedTopologyEpoch": 0, "lastAssignmentConfigs": []}


def test_streams_group() -> None:
    group = groups(streams_group(validated=READY))["t"]
    assert (group.type, group.protocol_type) == (GroupType.STREAMS, "streams")
    assert group.topology is not None
    assert group.topology.epoch == 0
    assert [subtopology.subtopology_id for subtopology in group.topology.subtopologies] == [
        "0",
        "1",
    ]
    first = group.topology.subtopologies[0]
    assert first.source_topics == ("orders",)
    assert first.repartition_source_topics == ("by-key",)
    assert first.repartition_sink_topics == ("by-value",)
    assert first.state_changelog_topics == ("store-changelog",)
    member = group.members[0]
    assert member.tasks is not None
    assert [task.since_epoch for task in member.tasks.active] == [5]
    assert member.tasks == TaskAssignment((Task("0", 0),), (Task("1", 2),), (Task("1", 3),))
    assert member.target_tasks == TaskAssignment((Task("0", 0), Task("0", 1)))
    assert member.pending_revocation_tasks == TaskAssignment((Task("0", 4),))
    assert (member.process_id, member.user_endpoint) == ("p", "h:80")
    assert member.client_tags == {"zone": "z1"}
    assert (member.topology_epoch, member.member_epoch) == (0, 7)
    assert (member.assignment, member.subscription) == (None, None)
    assert group.topics == {"orders", "by-key"}


def test_an_ipv6_address_of_an_endpoint_stands_in_brackets() -> None:
    """As RFC 3986 has it: a port cannot be told from it without."""
    (member,) = groups(streams_group(validated=READY, host="2001:db8::7"))["t"].members
    assert member.user_endpoint == "[2001:db8::7]:80"


@pytest.mark.parametrize(
    ("validated", "member_state", "epoch", "state"),
    [
        (READY, 1, 7, GroupState.STABLE),
        (READY, 2, 7, GroupState.RECONCILING),
        (READY, 3, 7, GroupState.RECONCILING),
        (READY, 1, 6, GroupState.RECONCILING),
        ({"validatedTopologyEpoch": 1}, 1, 7, GroupState.NOT_READY),
        ({"lastAssignmentConfigs": []}, 1, 7, GroupState.NOT_READY),
        ({}, 1, 7, None),
    ],
)
def test_state_of_a_streams_group(
    validated: dict[str, Any], member_state: int, epoch: int, state: GroupState | None
) -> None:
    """Kafka's `StreamsGroup.maybeUpdateGroupState`; before 4.2 records do not tell readiness."""
    records = streams_group(validated=validated, state=member_state, epoch=epoch)
    assert groups(records)["t"].state is state
