"""What a member of a classic group sends when it joins, as franz-go does.

Source: `groupConsumer.joinGroupProtocols` and `revoke` (consumer_group.go), `simpleMemberMetadata`
and `stickyBalancer.JoinGroupMetadata` (group_balancer.go) of franz-go 1.14.0, 1.18.0 and
1.22.3.
"""

from __future__ import annotations

from collections.abc import Sequence

from kgroup.assignor.base import Subscriber
from kgroup.assignor.spec import MemberSpec, UserData

_WITHOUT_RACKS = ("1.18.0", "1.14.0")
_WITHOUT_GENERATION = ("1.14.0",)


def as_sent(members: Sequence[MemberSpec], strategy: str, version: str) -> list[Subscriber]:
    """Give what the leader reads in the subscriptions that members send.

    They are of version 3, up to 1.14.0 of version 1 with cooperative-sticky, of version 0 else. Go
    compares texts as Python does: by code points.

    Args:
        members: that join.
        strategy: name of the assignor; only cooperative-sticky claims what a member owned. Before
            it joins again a member of any other one gives up all it has, and forgets it, so that
            sticky's user data names no partitions.
        version: of franz-go.
    """
    return [_as_sent(member, strategy, version) for member in members]


def _as_sent(member: MemberSpec, strategy: str, version: str) -> Subscriber:
    generation = member.generation
    if member.subscription_generation is not None:
        generation = member.subscription_generation
    if generation is not None and (generation < 0 or version in _WITHOUT_GENERATION):
        generation = None
    owned = tuple(sorted(member.owned or ())) if strategy == "cooperative-sticky" else ()
    user_data = member.user_data
    if user_data is None:
        is_sticky = strategy in ("sticky", "cooperative-sticky")
        user_data = UserData(owned, member.generation) if is_sticky else UserData()
    return Subscriber(
        member_id=member.member_id,
        topics=tuple(sorted(member.topics)),
        instance_id=member.instance_id,
        rack=None if version in _WITHOUT_RACKS else member.rack or None,
        owned=owned,
        generation=generation,
        remembered=user_data.owned,
        remembered_generation=user_data.generation,
        goes_on=version != "1.14.0" or strategy == "cooperative-sticky",
    )
