"""What franz-go brings to a classic group."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kgroup.assignor.base import ClassicAssignor, Subscriber, Topic
from kgroup.assignor.client.franz_go.simple import assign_range, assign_round_robin
from kgroup.assignor.client.franz_go.sticky import (
    COOPERATIVE,
    COOPERATIVE_1_14,
    COOPERATIVE_1_18,
    STICKY,
    STICKY_1_14,
    STICKY_1_18,
    Sticky,
)
from kgroup.assignor.client.franz_go.subscription import as_sent
from kgroup.assignor.client_library import ClientLibrary

__all__ = ["FRANZ_GO"]


def _is_determined(
    assignor: ClassicAssignor, members: Sequence[Subscriber], topics: Mapping[str, Topic]
) -> bool:
    return not isinstance(assignor, Sticky) or assignor.is_determined(members, topics)


FRANZ_GO = ClientLibrary(
    name="franz-go",
    strategies={
        "1.22.0": {
            "cooperative-sticky": COOPERATIVE,
            "sticky": STICKY,
            "range": assign_range,
            "roundrobin": assign_round_robin,
        },
        "1.18.0": {
            "cooperative-sticky": COOPERATIVE_1_18,
            "sticky": STICKY_1_18,
            "range": assign_range,
            "roundrobin": assign_round_robin,
        },
        "1.14.0": {
            "cooperative-sticky": COOPERATIVE_1_14,
            "sticky": STICKY_1_14,
            "range": assign_range,
            "roundrobin": assign_round_robin,
        },
    },
    as_sent=as_sent,
    is_determined=_is_determined,
    since={"1.18.0": "1.15.2", "1.14.0": "1.0.0"},
    static_since="0.1.0",
)
