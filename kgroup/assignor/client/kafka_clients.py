"""Kafka's own client library, in Java."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kgroup.assignor import range as range_assignor
from kgroup.assignor import round_robin
from kgroup.assignor.base import Assignment, Subscriber, Topic
from kgroup.assignor.client_library import ClientLibrary
from kgroup.assignor.spec import NEWEST, MemberSpec
from kgroup.assignor.sticky import sticky
from kgroup.assignor.subscription import as_sent, as_sent_1_1
from kgroup.model.client.library import KAFKA_CLIENTS


def _assign_sticky_1_1(members: Sequence[Subscriber], topics: Mapping[str, Topic]) -> Assignment:
    from kgroup.assignor.sticky import sticky_1_1  # which needs numpy

    return sticky_1_1.assign(members, topics)


def _as_sent(members: Sequence[MemberSpec], strategy: str, version: str) -> list[Subscriber]:
    return (as_sent if version == NEWEST else as_sent_1_1)(members, strategy)


JAVA = ClientLibrary(
    name=KAFKA_CLIENTS,
    strategies={
        NEWEST: {
            "range": range_assignor.assign,
            "roundrobin": round_robin.assign,
            "sticky": sticky.assign,
            "cooperative-sticky": sticky.assign_cooperative,
        },
        "1.1.1": {
            "range": range_assignor.assign_1_1,
            "roundrobin": round_robin.assign,
            "sticky": _assign_sticky_1_1,
        },
    },
    as_sent=_as_sent,
    client_id="consumer-{group}-1",
    since={NEWEST: "2.4.0", "1.1.1": "0.11.0"},
    static_since="2.3.0",
)
