"""Removal of whole groups, and of members from a group."""

from collections.abc import Collection

from kafka.protocol.admin.groups import DeleteGroupsRequest
from kafka.protocol.consumer.group import LeaveGroupRequest

from kgroup.errors import BrokerError, ProblemKind
from kgroup.model.problem import Problem
from kgroup.protocol.error_code import ErrorCode
from kgroup.source.broker.answer_check import only_asked
from kgroup.source.broker.client import BrokerClient
from kgroup.source.broker.connection.connection_error import BROKEN
from kgroup.source.broker.coordinator import OFFSETS_TOPIC, GroupCoordinator, Refusal, is_missing
from kgroup.source.broker.error_code import COORDINATOR_MOVES, error_name
from kgroup.source.broker.write.outcome import Change, Outcome, change_groups
from kgroup.source.broker.write.refused import refused

__all__ = ["delete_groups", "remove_members"]

_OLD = (
    "Kafka before 1.1 cannot delete groups; what they have committed expires after "
    "offsets.retention.minutes."
)
_OLD_MEMBERS = (
    "Kafka before 2.4 cannot remove members by their group.instance.id; name them by their id."
)
_NO_SUCH_GROUP = "There is no such group."
_BY_INSTANCE = 3
"""Version of LeaveGroup from which on it names many members, by id or instance id (KIP-345)."""
_REASON = 5
"""Version from which on it takes a reason (KIP-800)."""
_LONGEST_REASON = 255
"""Characters; `JoinGroupRequest.maybeTruncateReason`."""


async def delete_groups(client: BrokerClient, group_ids: Collection[str]) -> tuple[Problem, ...]:
    """Delete groups; see `Cluster.delete_groups`.

    Raises:
        BrokerError: no broker answers; nothing was deleted.
    """
    lost: set[str] = set()

    async def delete(
        node: int, coordinators: list[GroupCoordinator]
    ) -> dict[str, Outcome | Refusal]:
        names = [each.group_id for each in coordinators]
        if await client.version(node, DeleteGroupsRequest) is None:
            return {
                name: Outcome((Problem(ProblemKind.UNSUPPORTED, _OLD, group_id=name),))
                for name in names
            }
        try:
            answer = await client.ask_once(node, DeleteGroupsRequest, groups_names=names)
        except BrokerError as error:
            if error.kind in BROKEN:
                lost.update(names)
            raise
        codes = {each.group_id: each.error_code for each in answer.results}
        return {
            name: _deleted(name, code, was_lost=name in lost)
            for name, code in only_asked(codes, names, "DeleteGroups", node).items()
        }

    return await _change(client, group_ids, delete)


def _deleted(group_id: str, code: int, *, was_lost: bool) -> Outcome | Refusal:
    """Read the answer for one group; one that was asked for before may be gone already."""
    if code in COORDINATOR_MOVES:
        return Refusal(code)
    if code == ErrorCode.GROUP_ID_NOT_FOUND:
        if was_lost:
            return Outcome()
        return Outcome((Problem(ProblemKind.NOT_FOUND, _NO_SUCH_GROUP, group_id=group_id),))
    if code:
        return Outcome((Problem(*refused(code, "DELETE"), group_id=group_id),))
    return Outcome()


async def remove_members(
    client: BrokerClient,
    group_id: str,
    member_ids: Collection[str],
    instance_ids: Collection[str],
    reason: str | None,
) -> tuple[Problem, ...]:
    """Remove members; see `Cluster.remove_members`.

    Raises:
        BrokerError: no broker answers; nobody was removed.
    """
    lost: set[str] = set()

    async def remove(node: int, _: list[GroupCoordinator]) -> dict[str, Outcome | Refusal]:
        version = await client.version(node, LeaveGroupRequest) or 0
        try:
            if version >= _BY_INSTANCE:
                codes = await _leave(client, node, group_id, member_ids, instance_ids, reason)
            else:
                codes = await _leave_one_by_one(client, node, group_id, member_ids)
        except BrokerError as error:
            if error.kind in BROKEN:
                lost.add(group_id)
            raise
        move = next((code for code in codes.values() if code in COORDINATOR_MOVES), None)
        if move is not None:
            lost.add(group_id)
            return {group_id: Refusal(move)}
        unknown = [] if version >= _BY_INSTANCE else list(instance_ids)
        problems = [
            Problem(ProblemKind.UNSUPPORTED, f"{name}: {_OLD_MEMBERS}", group_id=group_id)
            for name in unknown
        ]
        for name, code in codes.items():
            is_gone = code == ErrorCode.UNKNOWN_MEMBER_ID
            if code and not (is_gone and group_id in lost):
                problems.append(_not_removed(group_id, name, code))
        return {group_id: Outcome(tuple(problems))}

    if not (member_ids or instance_ids):
        return ()
    return await _change(client, [group_id], remove)


async def _leave(
    client: BrokerClient,
    node: int,
    group_id: str,
    member_ids: Collection[str],
    instance_ids: Collection[str],
    reason: str | None,
) -> dict[str, int]:
    """Ask for members to be removed all at once; return the error code of each, 0 where it was."""
    version = await client.version(node, LeaveGroupRequest) or 0
    identity = LeaveGroupRequest.MemberIdentity
    # A reason that is too long is cut here, as Kafka's own client cuts it.
    why = {"reason": reason[:_LONGEST_REASON]} if reason and version >= _REASON else {}
    dynamic = [identity(version=version, member_id=each, **why) for each in member_ids]
    static = [
        identity(version=version, member_id="", group_instance_id=each, **why)
        for each in instance_ids
    ]
    answer = await client.ask_once(
        node, LeaveGroupRequest, group_id=group_id, members=[*dynamic, *static]
    )
    names = [*member_ids, *instance_ids]
    if answer.error_code:
        return dict.fromkeys(names, answer.error_code)
    codes = {each.group_instance_id or each.member_id: each.error_code for each in answer.members}
    return only_asked(codes, names, "LeaveGroup", node)


async def _leave_one_by_one(
    client: BrokerClient, node: int, group_id: str, member_ids: Collection[str]
) -> dict[str, int]:
    answers = await client.gather_all(
        client.ask_once(node, LeaveGroupRequest, group_id=group_id, member_id=each)
        for each in member_ids
    )
    return {name: answer.error_code for name, answer in zip(member_ids, answers, strict=True)}


def _not_removed(group_id: str, name: str, code: int) -> Problem:
    if code == ErrorCode.UNKNOWN_MEMBER_ID:
        text = f"{name}: The group has no such member."
        return Problem(ProblemKind.NOT_FOUND, text, group_id=group_id)
    if code == ErrorCode.FENCED_INSTANCE_ID:
        text = f"{name}: The cluster says {error_name(code)} (another member has taken its place)."
        return Problem(ProblemKind.CHANGED, text, group_id=group_id)
    kind, text = refused(code, "READ")
    return Problem(kind, f"{name}: {text}", group_id=group_id)


async def _change(
    client: BrokerClient, group_ids: Collection[str], change: Change
) -> tuple[Problem, ...]:
    """Change groups, if there may be any: to look for coordinators creates the topic of groups."""
    names = list(dict.fromkeys(group_ids))
    if not names:
        return ()
    view = await client.metadata([OFFSETS_TOPIC])
    if is_missing(view.topics.get(OFFSETS_TOPIC)):
        return tuple(
            Problem(ProblemKind.NOT_FOUND, _NO_SUCH_GROUP, group_id=name) for name in names
        )
    return await change_groups(client, names, change)
