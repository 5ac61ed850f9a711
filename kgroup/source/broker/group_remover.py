"""Removal of groups, and of members from a group.

Deleted groups are read again at the end: a member that joins, or a process that commits, recreates
a group immediately, and no Kafka API prevents that.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

from kafka.protocol.admin.groups import DeleteGroupsRequest
from kafka.protocol.consumer.group import LeaveGroupRequest

from kgroup.errors import BrokerError, ProblemKind
from kgroup.model.group import Group
from kgroup.model.offsets_partition import OFFSETS_TOPIC
from kgroup.model.problem import Problem
from kgroup.protocol.error_code import ErrorCode
from kgroup.source.broker.answer_check import only_asked
from kgroup.source.broker.client import BrokerClient
from kgroup.source.broker.coordinator import (
    CoordinatedGroup,
    CoordinatorRefusal,
    Coordinators,
    is_missing,
)
from kgroup.source.broker.error_code import COORDINATOR_MOVES, error_name
from kgroup.source.broker.group_change import NOT_BEGUN, Change, Outcome, change_groups, refused
from kgroup.source.broker.group_list import list_hidden_groups
from kgroup.source.broker.group_reader import GroupReader

_OLD = (
    "Kafka before 1.1 cannot delete groups; what they have committed expires after "
    "offsets.retention.minutes."
)
_NO_SUCH_GROUP = "There is no such group."
_MANY = 3
"""First version of LeaveGroup that takes several members, and their instance ids (KIP-345)."""
_REASON = 5
"""First version of LeaveGroup that takes a reason (KIP-800)."""
_LONGEST_REASON = 255
"""In characters; see `JoinGroupRequest.maybeTruncateReason`."""


async def delete_groups(
    client: BrokerClient, group_ids: Collection[str], on_done: Callable[[str], object]
) -> tuple[Problem, ...]:
    """Delete groups; see `GroupSource.delete_groups`.

    Raises:
        BrokerError: no broker answers; nothing was deleted.
    """
    unsettled: set[str] = set()

    async def delete(
        node: int, coordinators: list[CoordinatedGroup]
    ) -> dict[str, Outcome | CoordinatorRefusal]:
        names = [coordinator.group_id for coordinator in coordinators]
        if await client.version(node, DeleteGroupsRequest) is None:
            return {
                name: Outcome((Problem(ProblemKind.UNSUPPORTED, _OLD, group_id=name),))
                for name in names
            }
        try:
            answer = await client.ask_once(node, DeleteGroupsRequest, groups_names=names)
            codes = only_asked(
                {result.group_id: result.error_code for result in answer.results},
                *(names, "DeleteGroups", node),
            )
        except BrokerError as error:
            if error.was_sent:
                unsettled.update(names)
            raise
        results = {name: _deleted(name, code, unsettled) for name, code in codes.items()}
        for name, result in results.items():
            if result == Outcome():
                on_done(name)
        return results

    problems = await _change(client, group_ids, delete, unsettled)
    failed = {problem.group_id for problem in problems}
    deleted = [fromkey for fromkey in dict.fromkeys(group_ids) if fromkey not in failed]
    return (*problems, *await _read_back(client, deleted)) if deleted else problems


async def _read_back(client: BrokerClient, group_ids: Collection[str]) -> tuple[Problem, ...]:
    """Read deleted groups again; return a problem for each that exists, or cannot be read."""
    coordinators = Coordinators(client, named=True)
    reader = GroupReader(client, coordinators, None)
    reason = "no broker answers"
    groups: Mapping[str, Group | None] = {}
    try:
        groups = await coordinators.ask(await coordinators.find(group_ids), reader.describe)
    except BrokerError as error:
        reason = str(error)
    reasons = {problem.group_id: problem.reason for problem in coordinators.problems}
    different = []
    for group_id in group_ids:
        if group_id not in groups:
            text = f"It was deleted, and could not be read back: {reasons.get(group_id, reason)}"
            text, kind = f"{text.removesuffix('.')}.", ProblemKind.UNKNOWN_END
        elif (group := groups[group_id]) is not None:
            count = len(group.members)
            members = f", with {count} member{'' if count == 1 else 's'}" if count else ""
            text = f"It was deleted, and exists again (state {group.state}{members}): "
            text += "a member joined, or another process committed, after that."
            kind = ProblemKind.OVERWRITTEN
        else:
            continue
        different.append(Problem(kind, text, group_id=group_id))
    return tuple(different)


def _deleted(group_id: str, code: int, unsettled: set[str]) -> Outcome | CoordinatorRefusal:
    """Evaluate the response for one group; after an earlier request it may be gone already."""
    if code in COORDINATOR_MOVES:
        if code != NOT_BEGUN:
            unsettled.add(group_id)
        return CoordinatorRefusal(code)
    if code == ErrorCode.GROUP_ID_NOT_FOUND:
        if group_id in unsettled:
            return Outcome()
        return Outcome((Problem(ProblemKind.NOT_FOUND, _NO_SUCH_GROUP, group_id=group_id),))
    if code:
        return Outcome((Problem(*refused(code, "DELETE"), group_id=group_id),))
    return Outcome()


async def remove_members(
    client: BrokerClient, group_id: str, members: Mapping[str, str | None], reason: str | None
) -> dict[str, Problem]:
    """Remove members; see `GroupSource.remove_members`.

    Raises:
        BrokerError: no broker answers; no member was removed.
    """
    unsettled: set[str] = set()
    left: dict[str, Problem] = {}

    async def remove(
        node: int, _: list[CoordinatedGroup]
    ) -> dict[str, Outcome | CoordinatorRefusal]:
        try:
            codes = await _leave(client, node, group_id, members, reason)
        except BrokerError as error:
            if error.was_sent:
                unsettled.add(group_id)
            raise
        move = next((code for code in codes.values() if code in COORDINATOR_MOVES), None)
        if move is not None:
            if set(codes.values()) != {NOT_BEGUN}:
                unsettled.add(group_id)
            return {group_id: CoordinatorRefusal(move)}
        for member_id, code in codes.items():
            is_gone = code == ErrorCode.UNKNOWN_MEMBER_ID
            if code and not (is_gone and group_id in unsettled):
                left[member_id] = _not_removed(group_id, members[member_id] or member_id, code)
        return {group_id: Outcome()}

    of_all = await _change(client, [group_id] if members else [], remove, unsettled)
    return dict.fromkeys(members, of_all[0]) if of_all else left


async def _leave(
    client: BrokerClient,
    node: int,
    group_id: str,
    members: Mapping[str, str | None],
    reason: str | None,
) -> dict[str, int]:
    """Send LeaveGroup for members; return the error code of each by member id, 0 if removed.

    A static member is identified by both ids. With the instance id alone (as in Kafka's own tool),
    a member that has replaced it meanwhile would be removed instead.
    """
    version = await client.version(node, LeaveGroupRequest)
    if version is None or version < _MANY:
        return await _leave_one_by_one(client, node, group_id, members)
    identity = LeaveGroupRequest.MemberIdentity
    # Truncate a long reason, as Kafka's own client does.
    why = {"reason": reason[:_LONGEST_REASON]} if reason and version >= _REASON else {}
    leaving = [
        identity(version=version, member_id=member_id, group_instance_id=instance_id, **why)
        for member_id, instance_id in members.items()
    ]
    answer = await client.ask_once(node, LeaveGroupRequest, group_id=group_id, members=leaving)
    if answer.error_code:
        return dict.fromkeys(members, answer.error_code)
    codes = {member.member_id: member.error_code for member in answer.members}
    return only_asked(codes, members, "LeaveGroup", node)


async def _leave_one_by_one(
    client: BrokerClient, node: int, group_id: str, member_ids: Collection[str]
) -> dict[str, int]:
    answers: list[Any] = await client.gather(
        client.ask_once(node, LeaveGroupRequest, group_id=group_id, member_id=member_id)
        for member_id in member_ids
    )
    errors = [answer for answer in answers if isinstance(answer, BrokerError)]
    if errors:
        was_sent = len(errors) < len(answers) or any(error.was_sent for error in errors)
        first = errors[0]
        raise BrokerError(first.kind, str(first), first.broker_id, was_sent=was_sent)
    return {name: answer.error_code for name, answer in zip(member_ids, answers, strict=True)}


def _not_removed(group_id: str, name: str, code: int) -> Problem:
    if code == ErrorCode.UNKNOWN_MEMBER_ID:
        text = f"{name}: The group has no such member."
        return Problem(ProblemKind.NOT_FOUND, text, group_id=group_id)
    if code == ErrorCode.FENCED_INSTANCE_ID:
        refusal = error_name(code)
        text = f"{name}: The cluster returned {refusal} (another member has taken its place)."
        return Problem(ProblemKind.CHANGED, text, group_id=group_id)
    kind, text = refused(code, "READ")
    return Problem(kind, f"{name}: {text}", group_id=group_id)


async def _change(
    client: BrokerClient, group_ids: Collection[str], change: Change, unsettled: Collection[str]
) -> tuple[Problem, ...]:
    """Change groups if any may exist; looking up coordinators would create the groups' topic."""
    names = list(dict.fromkeys(group_ids))
    if not names:
        return ()
    view = await client.metadata([OFFSETS_TOPIC])
    topic = view.topics.get(OFFSETS_TOPIC)
    if is_missing(topic) and not await list_hidden_groups(
        client, Coordinators(client, named=False)
    ):
        return tuple(
            Problem(ProblemKind.NOT_FOUND, _NO_SUCH_GROUP, group_id=name) for name in names
        )
    return await change_groups(client, names, change, unsettled)
