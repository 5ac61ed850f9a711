"""All named cases of each assignor, and where Kafka's own answer is unsound."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from kgroup.assignor.group_spec import newest, versions
from kgroup.assignor.strategy import assignor_of, strategies
from tests.assignor.case.notation import Assignor, Case
from tests.assignor.case.range import RANGE, SERVER_RANGE
from tests.assignor.case.server import SHARE, TARGET, UNIFORM
from tests.assignor.case.situation import EVERY, OWNING
from tests.assignor.case.sticky import CLAIM, COOPERATIVE, OLD, RACK, STICKY
from tests.assignor.case.zookeeper import ZOOKEEPER

_VERSIONS = [
    Assignor(protocol, strategy, version)
    for protocol in ("classic", "consumer", "share", "zookeeper")
    for version in versions(protocol)
    for strategy in strategies(protocol, newest(protocol)._replace(version=version))
]


def _function(assignor: Assignor) -> Callable[..., Any]:
    software = newest(assignor.protocol)._replace(version=assignor.kafka_version)
    return assignor_of(assignor.protocol, assignor.strategy, software)


ASSIGNORS = list({_function(each): each for each in reversed(_VERSIONS)}.values())[::-1]
"""Those of the newest version that has them."""

_MORE: Mapping[str, tuple[Mapping[str, Case], ...]] = {
    "classic-range-4.3.1": (RANGE,),
    "classic-roundrobin-4.3.1": (),
    "classic-sticky-4.3.1": (OWNING, CLAIM, RACK, STICKY),
    "classic-cooperative-sticky-4.3.1": (OWNING, CLAIM, RACK, COOPERATIVE),
    **{
        f"classic-{strategy}-{version}": (OWNING, CLAIM, RACK, cases)
        for version in ("3.7.0", "3.4.1", "3.3.2", "2.8.2", "2.8.0", "2.5.0", "2.3.1")
        for strategy, cases in {"sticky": STICKY, "cooperative-sticky": COOPERATIVE}.items()
    },
    "classic-range-3.4.1": (RANGE,),
    "classic-range-1.1.1": (RANGE,),
    "classic-sticky-2.2.2": (OWNING, CLAIM, STICKY, OLD),
    "consumer-uniform-4.3.1": (OWNING, TARGET, UNIFORM),
    "consumer-range-4.3.1": (SERVER_RANGE,),
    "share-simple-4.3.1": (OWNING, TARGET, SHARE),
    "zookeeper-range-0.8.2.2": (ZOOKEEPER,),
    "zookeeper-roundrobin-0.8.2.2": (ZOOKEEPER,),
}


def _joined(*tables: Mapping[str, Case]) -> dict[str, Case]:
    cases = {name: case for table in tables for name, case in table.items()}
    assert len(cases) == sum(map(len, tables)), "two cases have one name"
    return cases


CASES: Mapping[Assignor, Mapping[str, Case]] = {
    assignor: _joined(EVERY, *_MORE[str(assignor)]) for assignor in ASSIGNORS
}

_STICKY_UNSOUND = {
    "the first member subscribes to nothing": "subscribed",
    "a topic has come back with fewer partitions, and subscriptions differ": "exists once sticky",
    "a topic has come back with one partition less, and subscriptions differ": "exists once sticky",
    "the owner before the last does not subscribe any more": "subscribed sticky",
}

_WITHOUT_RACKS_UNSOUND = _STICKY_UNSOUND | {
    "racks: subscriptions differ, and a topic has come back with fewer partitions": (
        "exists once sticky"
    )
}
_FEWER = "racks: a topic has come back with fewer partitions"
_OWNER_BEFORE = "the owner before the last does not subscribe any more"
_BEFORE_3_UNSOUND = {
    "the first member subscribes to nothing": "subscribed",
    _OWNER_BEFORE: "subscribed sticky",
    _FEWER: "exists sticky",
}
_OTHER_WAY = "two owners before the last, the other way"

_CLAIMED_TWICE = (
    "two claim a partition in one generation",
    "two claim everything in one generation",
    "three claim a partition in one generation",
    "the claim of the later generation counts",
    "the claim of the later generation counts, if it comes first",
    "a claim without a generation",
    "claims without generations",
    "three claim a partition in three generations",
    "two claim a partition in one generation, a third in a later one",
    "a claim of generation 0, and one without a generation",
    "two owners before the last",
    "two owners before the last, the other way",
    "two owners before the last, of one generation",
    "two claim a partition, and a third takes no part",
    "claims of one generation, and subscriptions differ",
    "the owner before the last may have it back",
    "subscription and user data name other generations",
    "subscription and user data name other generations, the other way",
    "subscriptions of every version",
    "user data of version 0 names no generation",
    "all subscribe alike, and one keeps what it never had alone",
)

UNSOUND: Mapping[str, Mapping[str, str]] = {
    "classic-sticky-4.3.1": _STICKY_UNSOUND,
    "classic-cooperative-sticky-4.3.1": _STICKY_UNSOUND,
    "classic-sticky-3.7.0": _STICKY_UNSOUND,
    "classic-cooperative-sticky-3.7.0": _STICKY_UNSOUND,
    # of three claims, 3.4 compares the last with the second, though that counts for nothing
    "classic-sticky-3.4.1": _WITHOUT_RACKS_UNSOUND | {_OTHER_WAY: "once even sticky"},
    "classic-cooperative-sticky-3.4.1": _WITHOUT_RACKS_UNSOUND | {_OTHER_WAY: "once sticky"},
    "classic-sticky-3.3.2": _WITHOUT_RACKS_UNSOUND,
    "classic-cooperative-sticky-3.3.2": _WITHOUT_RACKS_UNSOUND,
    "classic-sticky-2.8.2": _BEFORE_3_UNSOUND,
    "classic-cooperative-sticky-2.8.2": _BEFORE_3_UNSOUND | {_FEWER: "exists"},
    "classic-sticky-2.8.0": _BEFORE_3_UNSOUND
    | {
        "two claim everything in one generation": "once",  # both keep it
        "two claim a partition, and a third takes no part": "once",
        "subscriptions of every version": "once",
    },
    "classic-cooperative-sticky-2.8.0": {
        "the first member subscribes to nothing": "subscribed",
        _FEWER: "exists sticky",
        # members name no generation
        "two claim everything in one generation": "once",
        "two claim a partition, and a third takes no part": "once",
        "subscriptions of every version": "once",
        "the claim of the later generation counts": "once sticky",
        "the claim of the later generation counts, if it comes first": "once sticky",
        "three claim a partition in three generations": "once sticky",
        "two claim a partition in one generation, a third in a later one": "once sticky",
        "a claim of generation 0, and one without a generation": "once sticky",
        "user data that cannot be read, and none": "once sticky",
    },
    "classic-sticky-2.5.0": {_OWNER_BEFORE: "subscribed sticky"},
    "classic-cooperative-sticky-2.5.0": {"subscriptions of every version": "sticky"},
    "classic-sticky-2.3.1": {_OWNER_BEFORE: "subscribed sticky"},
    "classic-sticky-2.2.2": {
        "nobody subscribes to anything": "sticky",  # the next rebalance fails
        **dict.fromkeys(_CLAIMED_TWICE, "once"),  # both keep it
    },
    "share-simple-4.3.1": {
        "a topic has come back with fewer partitions": "exists once",
        "a topic has come back with fewer partitions, and subscriptions differ": "exists once",
        "a topic has come back with one partition less, and subscriptions differ": "exists once",
        "subscriptions differ, and a topic shrinks": "exists",
    },
    "zookeeper-roundrobin-0.8.2.2": {"names of one hash, registered in two orders": "once"},
}
"""By assignor and case the invariants that Kafka's own answer breaks."""
