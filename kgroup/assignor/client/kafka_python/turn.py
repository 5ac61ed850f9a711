"""In which turn a kafka-python leader takes members: the static ones first, since 2.3.

Source: `RangePartitionAssignor.assign` and `RoundRobinPartitionAssignor.assign` of kafka-python.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import groupby

from kgroup.assignor.base import Subscriber

Turn = Callable[[Sequence[Subscriber]], list[Subscriber]]
"""Orders members; some may be lost."""


def by_id(members: Sequence[Subscriber]) -> list[Subscriber]:
    """Sort members as versions before 2.3 do."""
    return sorted(members, key=lambda member: member.member_id)


def static_first(members: Sequence[Subscriber]) -> list[Subscriber]:
    """Sort static members by instance id, then the others by member id, but lose some.

    The library groups neighbours that are static, or are not, and keeps only the last group of
    each kind: where static members stand between others, who comes before gets nothing.
    """
    last = {static: list(group) for static, group in groupby(members, key=_is_static)}
    return sorted(
        last.get(True, []), key=lambda member: (member.instance_id or "", member.member_id)
    ) + by_id(last.get(False, []))


def _is_static(member: Subscriber) -> bool:
    return member.instance_id is not None
