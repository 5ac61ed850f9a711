"""librdkafka as a client library: its versions and strategies."""

from __future__ import annotations

from collections.abc import Sequence

from kgroup.assignor.base import ClassicAssignor, Subscriber
from kgroup.assignor.client.librdkafka import members as joining
from kgroup.assignor.client.librdkafka import range as range_assignor
from kgroup.assignor.client.librdkafka import round_robin, sticky
from kgroup.assignor.client_library import ClientLibrary
from kgroup.assignor.spec import MemberSpec

_BEFORE_RACKS = "2.1.1"


def _as_sent(members: Sequence[MemberSpec], strategy: str, version: str) -> list[Subscriber]:
    sent = joining.as_sent_before_2_2 if version == _BEFORE_RACKS else joining.as_sent
    return sent(members, strategy)


def _strategies(range_: ClassicAssignor, sticky_: ClassicAssignor) -> dict[str, ClassicAssignor]:
    return {"range": range_, "roundrobin": round_robin.assign, "cooperative-sticky": sticky_}


LIBRDKAFKA = ClientLibrary(
    name="librdkafka",
    strategies={
        "2.16.0": _strategies(range_assignor.assign, sticky.assign),
        "2.6.0": _strategies(range_assignor.assign, sticky.assign_before_2_6_1),
        _BEFORE_RACKS: _strategies(range_assignor.assign_before_racks, sticky.assign_before_2_2),
    },
    as_sent=_as_sent,
    client_id="rdkafka",
    since={"2.16.0": "2.6.1", "2.6.0": "2.2.0", _BEFORE_RACKS: "1.7.0"},
    static_since="1.4.0",
)
