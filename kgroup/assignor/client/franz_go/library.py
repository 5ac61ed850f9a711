"""What franz-go brings to a classic group."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kgroup.assignor.base import ClassicAssignor, Subscriber, Topic
from kgroup.assignor.client.franz_go.rack import is_same_for_any_leader
from kgroup.assignor.client.franz_go.simple import (
    assign_range,
    assign_range_by_rack,
    assign_round_robin,
)
from kgroup.assignor.client.franz_go.sticky import (
    COOPERATIVE,
    COOPERATIVE_1_14,
    COOPERATIVE_1_18,
    COOPERATIVE_1_21,
    STICKY,
    STICKY_1_14,
    STICKY_1_18,
    STICKY_1_21,
    Sticky,
)
from kgroup.assignor.client.franz_go.subscription import as_sent
from kgroup.assignor.client_library import ClientLibrary

_MOST_PARTITIONS = 5000
"""Of more it is not tried whether another order gives another answer, which takes up to 32 runs."""


def _is_determined(
    assignor: ClassicAssignor, members: Sequence[Subscriber], topics: Mapping[str, Topic]
) -> bool:
    by_rack = assignor.by_rack if isinstance(assignor, Sticky) else assignor is assign_range_by_rack
    if by_rack and not is_same_for_any_leader(members, topics):
        return False
    if not isinstance(assignor, Sticky):
        return True
    if sum(topic.partitions for topic in topics.values()) > _MOST_PARTITIONS:
        return False
    return assignor.is_determined(members, topics)


FRANZ_GO = ClientLibrary(
    name="franz-go",
    strategies={
        "1.22.0": {
            "cooperative-sticky": COOPERATIVE,
            "sticky": STICKY,
            "range": assign_range,
            "roundrobin": assign_round_robin,
        },
        "1.21.0": {
            "cooperative-sticky": COOPERATIVE_1_21,
            "sticky": STICKY_1_21,
            "range": assign_range_by_rack,
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
    client_id="kgo",
    is_determined=_is_determined,
    since={"1.18.0": "1.15.2", "1.14.0": "1.0.0"},
    static_since="0.1.0",
    version_by_rack="1.21.0",
    assignors_by_rack=(COOPERATIVE_1_21, STICKY_1_21, assign_range_by_rack),
)
