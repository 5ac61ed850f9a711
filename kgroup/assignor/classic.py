"""The assignors of classic groups by their names."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from kgroup.assignor import range as range_assignor
from kgroup.assignor import round_robin, sticky, sticky_1_1
from kgroup.assignor.base import Assignment, Subscriber, Topic

__all__ = ["CLASSIC_ASSIGNORS", "CLASSIC_ASSIGNORS_1_1", "Assign"]

Assign = Callable[[Sequence[Subscriber], Mapping[str, Topic]], Assignment]

CLASSIC_ASSIGNORS: Mapping[str, Assign] = {
    "range": range_assignor.assign,
    "roundrobin": round_robin.assign,
    "sticky": sticky.assign,
    "cooperative-sticky": sticky.assign_cooperative,
}
"""As in kafka-clients 4.3.1, by the name that members send."""

CLASSIC_ASSIGNORS_1_1: Mapping[str, Assign] = {
    "range": range_assignor.assign_1_1,
    "roundrobin": round_robin.assign,
    "sticky": sticky_1_1.assign,
}
"""As in kafka-clients 1.1.1, whose members are never static."""
