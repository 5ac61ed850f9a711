"""What a member that is a client of librdkafka sends when it joins.

Source: `rd_kafka_consumer_protocol_member_metadata_new` (rdkafka_assignor.c),
`rd_kafka_sticky_assignor_get_metadata` (rdkafka_sticky_assignor.c) and
`rd_kafka_cgrp_group_assignment_set`, `rd_kafka_cgrp_modify_subscription` (rdkafka_cgrp.c) of
librdkafka 2.16 and 2.1.1.
"""

from __future__ import annotations

from collections.abc import Sequence

from kgroup.assignor.base import Subscriber
from kgroup.assignor.spec import MemberSpec, UserData
from kgroup.assignor.sticky.claim import or_no_generation

_GENERATION_FROM = 2
_RACK_FROM = 3


def as_sent(members: Sequence[MemberSpec], strategy: str) -> list[Subscriber]:
    """Give what the leader reads in subscriptions since 2.2.0, version 3 of the message.

    What a member owns of a topic that it subscribes to no longer it gives up before it joins; the
    user data of cooperative-sticky, which no leader of librdkafka reads, names it still. A member
    without a rack sends an empty one, which is not the same to a leader of librdkafka.
    """
    return [_as_sent(member, strategy, version=3) for member in members]


def as_sent_before_2_2(members: Sequence[MemberSpec], strategy: str) -> list[Subscriber]:
    """Give what the leader reads in subscriptions before 2.2.0, version 1 of the message."""
    return [_as_sent(member, strategy, version=1) for member in members]


def _as_sent(member: MemberSpec, strategy: str, version: int) -> Subscriber:
    is_sticky = strategy == "cooperative-sticky"
    generation: int | None = None
    if version >= _GENERATION_FROM:
        generation = member.subscription_generation
        if generation is None:
            generation = or_no_generation(member.generation if is_sticky else None)
    user_data = member.user_data
    if user_data is None:
        has_data = is_sticky and member.owned is not None
        user_data = UserData(member.owned, member.generation) if has_data else UserData()
    wanted = frozenset(member.topics)
    kept = [each for each in member.owned or () if is_sticky and each[0] in wanted]
    return Subscriber(
        member_id=member.member_id,
        topics=tuple(sorted(member.topics)),
        instance_id=member.instance_id,
        rack=(member.rack or "") if version >= _RACK_FROM else None,
        owned=tuple(sorted(kept)),
        generation=generation,
        remembered=user_data.owned,
        remembered_generation=user_data.generation,
        version=version,
        goes_on=version > 0,
    )
