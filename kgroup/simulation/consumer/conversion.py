"""A classic group of consumers as a consumer group (KIP-848), and the other way round.

Source: `ConsumerGroup.fromClassicGroup` and `ClassicGroup.fromConsumerGroup` of 4.3.1.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection

from kgroup.model.group import GroupState
from kgroup.protocol.error_code import ErrorCode
from kgroup.protocol.record.consumer_protocol import decode_assignment, decode_subscription
from kgroup.simulation.classic.group import ClassicGroup, ClassicMember, Watch
from kgroup.simulation.consumer import record as record_of
from kgroup.simulation.consumer.classic_member import (
    classic_metadata,
    encoded_assignment,
    protocols_of,
)
from kgroup.simulation.consumer.group import ConsumerGroup
from kgroup.simulation.consumer.member import ConsumerMember
from kgroup.simulation.consumer.message import IdPartition
from kgroup.simulation.consumer.record import Record
from kgroup.simulation.consumer.topic_image import TopicImage
from kgroup.simulation.consumer.validation import Refusal
from kgroup.simulation.message import CONSUMER
from kgroup.simulation.rules import Version


def as_consumer_group(
    group: ClassicGroup, topics: TopicImage, records: list[Record]
) -> ConsumerGroup:
    """Make a consumer group: every member has what it has, at an epoch that is the generation.

    Args:
        group: whose protocol type is "consumer".
        topics: that exist.
        records: to which those are added that remove the one and make the other.

    Raises:
        Refusal: a member says or has what is not understood, or would be lost.
    """
    group_id, epoch = group.group_id, group.generation_id
    records.append(Record("GroupMetadata", {"group": group_id}, None))
    members = [_consumer_member(group, each, topics) for each in group.members]
    made = ConsumerGroup(group_id)
    for member in members:
        made.update_member(member)
    members = [made.members[name] for name in made.member_order]
    metadata_hash = topics.hash_of(made.subscriptions.topics)
    begun = record_of.group_epoch(group_id, epoch, metadata_hash)
    targets = [
        record_of.target_assignment(group_id, each.member_id, each.assigned) for each in members
    ]
    assigned = record_of.assignment_epoch(group_id, epoch, 0)
    for record in (begun, *targets, assigned):
        made.replay(record)
    records += [record_of.member_metadata(group_id, each) for each in members]
    records += [begun, *targets, assigned]
    records += [record_of.current_assignment(group_id, each) for each in members]
    return made


def _consumer_member(
    group: ClassicGroup, member: ClassicMember, topics: TopicImage
) -> ConsumerMember:
    said = [each.metadata for each in member.protocols if each.name == group.protocol]
    if not said:
        raise Refusal(ErrorCode.UNKNOWN_SERVER_ERROR)  # which Kafka throws
    subscription = decode_subscription(said[0])
    if "topics" not in subscription:
        raise Refusal(ErrorCode.GROUP_ID_NOT_FOUND)
    return ConsumerMember(
        member.member_id,
        group.generation_id,
        group.generation_id,
        instance_id=member.instance_id,
        rack_id=subscription.get("rackId") or None,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        client_id=member.client_id,
        client_host=member.client_host,
        topics=frozenset(subscription["topics"]),
        topic_order=tuple(subscription["topics"]),
        assigned=dict.fromkeys(_assigned(member.assignment, topics), group.generation_id),
        classic=classic_metadata(member.session_timeout_ms, member.protocols),
    )


def _assigned(assignment: bytes, topics: TopicImage) -> list[IdPartition]:
    """Read what a leader gave; user data would be lost, so there must be none."""
    if not assignment:
        return []
    decoded = decode_assignment(assignment)
    if "assignedPartitions" not in decoded or decoded["userData"]:
        raise Refusal(ErrorCode.GROUP_ID_NOT_FOUND)
    return [
        (topic.topic_id, number)
        for each in decoded["assignedPartitions"]
        if (topic := topics.get(each["topic"])) is not None
        for number in each["partitions"]
    ]


def as_classic_group(
    group: ConsumerGroup,
    leaving: Collection[str],
    joining: ConsumerMember | None,
    topics: TopicImage,
    version: Version,
    now_ms: int,
    watch: Watch,
) -> ClassicGroup:
    """Make a stable classic group: every member has what it shall have, the first one leads.

    Args:
        group: that is to be a classic one.
        leaving: ids of members that go.
        joining: a static member that takes the place of itself, which spoke the other protocol.
        topics: that exist.
        version: of the broker.
        now_ms: the present.
        watch: who is told what becomes of the group.

    Raises:
        Refusal: members have no protocol in common, or are no longer who they were: Kafka throws.
    """
    made = ClassicGroup(group.group_id, version, now_ms, watch)
    made.state = GroupState.STABLE
    made.generation_id = group.epoch
    staying = [group.members[name] for name in group.member_order if name not in leaving]
    replaced = None
    if joining is not None:
        replaced = group.statics[joining.instance_id or ""]
        staying = [each for each in staying if each.instance_id != joining.instance_id]
        staying.append(joining)
    counts: Counter[str] = Counter()
    for member in staying:
        if member.classic is None:  # one that has taken another instance
            raise Refusal(ErrorCode.UNKNOWN_SERVER_ERROR)
        protocols = tuple(protocols_of(member.classic))
        counts.update(each.name for each in protocols)
        made.add(
            ClassicMember(
                member.member_id,
                member.instance_id,
                member.client_id,
                member.client_host,
                member.classic["sessionTimeoutMs"],
                member.rebalance_timeout_ms,
                CONSUMER,
                protocols,
            )
        )
    common = frozenset(name for name, count in counts.items() if count == len(made))
    if any(common.isdisjoint(each.name for each in member.protocols) for member in made.members):
        raise Refusal(ErrorCode.UNKNOWN_SERVER_ERROR)
    made.protocol = made.select_protocol()
    made.subscribed_topics = frozenset(topic for each in staying for topic in each.topics)
    for each in made.members:
        is_joining = joining is not None and each.member_id == joining.member_id
        member_id = replaced if is_joining and replaced is not None else each.member_id
        target = group.targets.get(member_id, ())
        each.assignment = encoded_assignment(target, topics, each.metadata(made.protocol))
    return made
