"""Remove members from a group: dead members that still own partitions, or all members."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from kgroup.errors import BrokerError, ExitStatus, NotFoundError, ProblemKind, named_group
from kgroup.model.group import Group, GroupType, Member
from kgroup.model.member_name import MemberName, find_member, name_of
from kgroup.model.problem import Problem
from kgroup.operation.offsets.plan import Result, failed
from kgroup.operation.report import Report
from kgroup.operation.select_groups import select_groups
from kgroup.source.base import GroupSource, Question

_REMOVABLE = (GroupType.CLASSIC, GroupType.CONSUMER)
"""Types of groups for which coordinators accept LeaveGroup (`classicGroupLeave`)."""


@dataclass(frozen=True, slots=True)
class RemovedMember:
    """A member to remove; attributes as in `Member`.

    Attributes:
        group_id: group id.
        member_id, client_id, client_host: as in `Member`.
        instance_id: `group.instance.id` of a static member; else None.
        partition_count: number of partitions of the member; None if its assignment is unknown.
        result: result of the removal: `planned`, `done`, `refused` or `unknown`; `refused` if the
            member is still in the group, or is back.
    """

    group_id: str
    member_id: str
    instance_id: str | None
    client_id: str | None
    client_host: str | None
    partition_count: int | None
    result: Result


def plan_removal(
    source: GroupSource,
    group_id: str,
    names: Collection[str] = (),
    instance_ids: Collection[str] = (),
    *,
    every: bool = False,
) -> Report[RemovedMember]:
    """Return the members of a group to remove: the named ones, or all.

    Args:
        source: a source of groups.
        group_id: group id.
        names: names of members, see `kgroup.model.member_name.called`.
        instance_ids: instance ids of members.
        every: whether to remove all members.

    Returns:
        Members sorted by id; named members that do not exist are errors. Notes say which members
        are meant by names that are not member ids.

    Raises:
        UsageError: a name means several members.
        InputError: the source has nothing to read.
        BrokerError: no broker answers.
    """
    reading, missing = select_groups(source, [group_id], Question(offsets=False, log_budget=0))
    group = reading.image.groups.get(group_id)
    members = () if group is None else group.members
    meant, unknown = _meant(group_id, names, members)
    ids = {member.member_id for member in meant.values()}
    rows = tuple(
        _row(group_id, member)
        for member in members
        if every or member.member_id in ids or member.instance_id in instance_ids
    )
    problems = [*missing, *reading.problems]
    if group is not None and rows and group.type not in _REMOVABLE:
        rows = tuple(replace(row, result=Result.REFUSED) for row in rows)
        text = (
            f"Only the member itself can leave a {group.type} group: stop it, or wait until "
            "its session expires."
        )
        problems.append(Problem(ProblemKind.UNSUPPORTED, text, group_id=group_id))
    if group is not None:
        problems += [*unknown, *_not_there(group, instance_ids)]
        if every and not members:
            text = "The group has no members."
            problems.append(Problem(ProblemKind.NOT_FOUND, text, group_id=group_id))
    notes = (f"{name} is {member}" for name, member in meant.items() if name != member.member_id)
    return Report(rows, tuple(problems), (*reading.notes, *notes))


def _meant(
    group_id: str, names: Collection[str], members: Collection[Member]
) -> tuple[Mapping[str, MemberName], Sequence[Problem]]:
    """Return the members that names mean, and a problem for each name that means none."""
    known = [name_of(member) for member in members]
    meant, problems = {}, []
    for name in names:
        try:
            meant[name] = find_member(name, known, named_group(group_id))
        except NotFoundError as error:
            reason = str(error).removeprefix(f"{named_group(group_id)} has")
            reason = f"The group has{reason}{'' if reason.endswith('?') else '.'}"
            problems.append(Problem(ProblemKind.NOT_FOUND, reason, group_id=group_id))
    return meant, problems


def carry_out_removal(
    cluster: GroupSource, plan: Report[RemovedMember], reason: str | None
) -> Report[RemovedMember]:
    """Remove the members of a plan, then read the members of the group again.

    Returns:
        The rows with their results: the coordinator's response and, for a removed member, whether
        it is in the group again. A running member rejoins; with the consumer protocol it keeps its
        member id. If no broker answers, the report has the error and the status FAILED.
    """
    if not any(row.result is Result.PLANNED for row in plan.data):
        return plan
    (group_id,) = {row.group_id for row in plan.data}
    try:
        problems = cluster.remove_members(
            group_id, {row.member_id: row.instance_id for row in plan.data}, reason
        )
    except BrokerError as error:
        problem = failed(error)
        rows = tuple(replace(row, result=Result.of(problem)) for row in plan.data)
        return Report(rows, (*plan.errors, problem), plan.notes, ExitStatus.FAILED)
    present, why_not = _look(cluster, group_id)

    def end(row: RemovedMember) -> Problem | None:
        """Return the problem with the removal of a member, if any."""
        problem = problems.get(row.member_id)
        if problem is None and present is not None and row.member_id in present:
            text = f"{row.member_id}: Still a member, or a member again: running clients rejoin."
            return Problem(ProblemKind.ACTIVE, text, group_id=group_id)
        if problem is None or problem.kind is not ProblemKind.UNKNOWN_END or present is None:
            return problem
        return problem if row.member_id in present else None

    ends = [(row, end(row)) for row in plan.data]
    rows = tuple(
        replace(row, result=Result.DONE if problem is None else Result.of(problem))
        for row, problem in ends
    )
    errors = dict.fromkeys(problem for _, problem in ends if problem is not None)
    return Report(rows, (*plan.errors, *errors), (*plan.notes, *why_not))


def _look(cluster: GroupSource, group_id: str) -> tuple[frozenset[str] | None, tuple[str, ...]]:
    """Return the member ids of a group; or None and the reason, if they cannot be read."""
    try:
        reading = cluster.read([group_id], Question(offsets=False, log_budget=0))
    except BrokerError as error:
        reasons = [f"{error}."]
    else:
        reasons = [problem.reason for problem in reading.problems]
        group = reading.image.groups.get(group_id)
        if not reasons:
            return frozenset(member.member_id for member in (group.members if group else ())), ()
    return None, (f"the members of the group could not be read again: {reasons[0]}",)


def _row(group_id: str, member: Member) -> RemovedMember:
    return RemovedMember(
        group_id,
        member.member_id,
        member.instance_id,
        member.client_id,
        member.client_host,
        None if member.assignment is None else len(member.assignment),
        Result.PLANNED,
    )


def _not_there(group: Group, instance_ids: Collection[str]) -> Iterable[Problem]:
    instances = {member.instance_id for member in group.members}
    is_hidden = group.type is GroupType.CLASSIC and instances == {None}
    hidden = ", as far as known: brokers before 2.4 do not report instance ids" if is_hidden else ""
    for name in instance_ids:
        if name not in instances:
            reason = f"The group has no instance {name!r}{hidden}."
            yield Problem(ProblemKind.NOT_FOUND, reason, group_id=group.group_id)
