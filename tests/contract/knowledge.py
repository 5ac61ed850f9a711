"""What a source without some capability cannot know of a group, field by field."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from kgroup.model.group import AssignedPartition, Group, GroupType, Member, Task, TaskAssignment
from kgroup.source.base import Capability


def known_of(group: Group, capabilities: Collection[Capability]) -> Group:
    """Return what a source with these capabilities can know of a group.

    The assignor is left: without the coordinator it is known where a member asked for one.
    """
    offsets, shared = group.offsets, group.share_offsets
    is_classic = group.type is GroupType.CLASSIC
    if Capability.COORDINATOR not in capabilities:
        members = tuple(
            replace(member, metadata_bytes=None, assignment_bytes=None) for member in group.members
        )
        group = replace(group, coordinator=None, members=members)
        shared = shared and tuple(replace(offset, lag=None) for offset in shared)
    if Capability.GENERATION not in capabilities and is_classic:
        libraries = {member.member_id: member.client_library for member in group.members}
        group = replace(
            group,
            generation_id=None,
            leader_id=None,
            leader_library=libraries.get(group.leader_id or "", group.leader_library),
            state_timestamp_ms=None,
            members=tuple(
                replace(member, session_timeout_ms=None, rebalance_timeout_ms=None)
                for member in group.members
            ),
        )
    if Capability.REBALANCE_IN_FLIGHT not in capabilities:
        group = replace(group, last_stable=None)
    if Capability.PENDING_OFFSETS not in capabilities:
        group = replace(group, pending_offsets=())
    if Capability.COMMIT_TIMESTAMPS not in capabilities:
        offsets = tuple(
            replace(offset, commit_timestamp_ms=None, expire_timestamp_ms=None, topic_id=None)
            for offset in offsets
        )
    if Capability.SHARE_START_OFFSETS not in capabilities:
        shared = shared and tuple(
            replace(offset, start_offset=None, leader_epoch=None) for offset in shared
        )
    if Capability.RECORDS not in capabilities:
        members = group.members if is_classic else tuple(map(_asked, group.members))
        group = replace(group, resolved_regexes=None, members=members)
        offsets = tuple(replace(offset, log_offset=None) for offset in offsets)
        shared = shared and tuple(
            replace(offset, state=None, state_epoch=None, delivery_complete_count=None)
            for offset in shared
        )
        if group.type is GroupType.SHARE:
            members = tuple(replace(member, target_assignment=None) for member in members)
            group = replace(group, members=members)
    return replace(group, offsets=offsets, share_offsets=shared)


def _asked(member: Member) -> Member:
    """Return what a describe API tells of a member that is not classic."""
    subscription = member.subscription
    if subscription is not None:
        subscription = replace(
            subscription, owned=None, generation_id=None, user_data=None, version=None
        )
    return replace(
        member,
        session_timeout_ms=None,
        rebalance_timeout_ms=None,
        state=None,
        previous_member_epoch=None,
        pending_revocation=None,
        pending_revocation_tasks=None,
        classic_protocols=None,
        assignor=None,
        subscription=subscription,
        assignment=_parts(member.assignment),
        target_assignment=_parts(member.target_assignment),
        tasks=_tasks(member.tasks),
    )


def _parts(parts: tuple[AssignedPartition, ...] | None) -> tuple[AssignedPartition, ...] | None:
    return parts and tuple(replace(part, since_epoch=None) for part in parts)


def _tasks(tasks: TaskAssignment | None) -> TaskAssignment | None:
    def timeless(some: tuple[Task, ...]) -> tuple[Task, ...]:
        return tuple(replace(task, since_epoch=None) for task in some)

    return tasks and TaskAssignment(
        timeless(tasks.active), timeless(tasks.standby), timeless(tasks.warmup)
    )
