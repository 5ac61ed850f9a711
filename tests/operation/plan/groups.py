"""Groups to plan for."""

from __future__ import annotations

from kgroup.model.client_library import Certainty
from kgroup.model.group import AssignedPartition, Group, GroupState, GroupType, Member, Subscription
from kgroup.operation.plan.running_group import RunningGroup, read_running
from tests.operation.sources import FakeSource


def group_of(
    names: str = "abc",
    strategy: str | None = "range",
    *,
    each: int = 2,
    generation_id: int = 7,
    state: GroupState = GroupState.STABLE,
    type_: GroupType = GroupType.CLASSIC,
    owned: bool = True,
    static: bool = False,
    incarnation: int = 1,
    library: str | None = None,
) -> Group:
    """Make a group whose members, called so, have some partitions each of the topic "t".

    Args:
        names: of members, a letter each.
        strategy: that the group uses.
        each: how many partitions a member has.
        generation_id: of the group.
        state: likewise.
        type_: likewise.
        owned: whether subscriptions tell what members own, as those of Kafka 2.4 and later do.
        static: whether members have instance ids.
        incarnation: part of the ids of members: a restarted one has another.
        library: that is certain of all members.
    """
    members = []
    for number, name in enumerate(names):
        partitions = tuple(AssignedPartition(None, "t", number * each + one) for one in range(each))
        members.append(
            Member(
                f"{name}-{incarnation}",
                instance_id=f"i-{name}" if static else None,
                client_id=name,
                session_timeout_ms=45_000,
                rebalance_timeout_ms=300_000,
                subscription=Subscription(("t",), owned=() if owned else None),
                assignment=partitions,
                client_library=library,
                client_library_certainty=Certainty.CERTAIN if library else None,
            )
        )
    return Group(
        "g",
        type_,
        state,
        "consumer",
        strategy,
        generation_id,
        leader_id=members[0].member_id if members else None,
        members=tuple(members),
    )


def running(group: Group) -> RunningGroup:
    """Give such a group as plans need it."""
    return read_running(FakeSource(group), group.group_id)
