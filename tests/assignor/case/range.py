"""Cases of the range assignors of the classic protocol and of the coordinator."""

from __future__ import annotations

from collections.abc import Mapping

from tests.assignor.case.notation import Case, case, member

RANGE: Mapping[str, Case] = {
    "racks: a replica in every one is none that matters": case(
        "orders 4 abc", member("ash", "orders", rack="b"), member("birch", "orders", rack="a")
    ),
    "racks: members in none that has a replica": case(
        "orders 4 ab", member("ash", "orders", rack="x"), member("birch", "orders", rack="y")
    ),
    "racks: one member has none": case(
        "orders 7 a b c",
        member("ash", "orders"),
        member("birch", "orders", rack="c"),
        member("cedar", "orders", rack="a"),
    ),
    "racks: what nobody matches goes round": case(
        "orders 8 a b x",
        member("ash", "orders", rack="b"),
        member("birch", "orders", rack="a"),
        member("cedar", "orders", rack="b"),
    ),
    "racks: topics of one size go together": case(
        "orders 6 ab bc ca, payments 6 ab bc ca",
        member("ash", "orders payments", rack="c"),
        member("birch", "orders payments", rack="b"),
        member("cedar", "orders payments", rack="a"),
    ),
    "racks: topics of one size go together, also where one needs no racks": case(
        "orders 5 a b c, payments 5 abc, refunds 2 abc",
        member("ash", "orders payments refunds", rack="c"),
        member("birch", "orders payments refunds", rack="b"),
        member("cedar", "orders payments refunds", rack="a"),
    ),
    "racks: topics of one size go together, to the first of those in a rack": case(
        "orders 6 a b, payments 6 a b",
        member("ash", "orders payments", rack="b"),
        member("birch", "orders payments", rack="a"),
        member("cedar", "orders payments", rack="b"),
    ),
    "racks: topics of one size in other racks": case(
        "orders 5 a b c, payments 5 b c a",
        member("ash", "orders payments", rack="c"),
        member("birch", "orders payments", rack="b"),
        member("cedar", "orders payments"),
    ),
    "racks: topics of one size with other subscribers": case(
        "orders 4 a b, payments 4 a b",
        member("ash", "orders", rack="b"),
        member("birch", "orders payments", rack="b"),
        member("cedar", "orders payments", rack="a"),
    ),
    "racks: topics of other sizes": case(
        "orders 5 a b, payments 4 b a, refunds 3 a",
        member("ash", "orders payments refunds", rack="b"),
        member("birch", "orders payments refunds", rack="a"),
    ),
    "racks: static members": case(
        "orders 7 a b",
        member("ash", "orders", rack="a", instance_id="z"),
        member("birch", "orders", rack="b", instance_id="y"),
        member("cedar", "orders", rack="a"),
    ),
    "racks: an older client sends none": case(
        "orders 4 a b",
        member("ash", "orders", rack="b", protocol_version=2),
        member("birch", "orders", rack="a"),
    ),
    "racks: an empty one is none": case(
        "orders 4 a b", member("ash", "orders", rack=""), member("birch", "orders", rack="a")
    ),
    "racks: of one topic only": case(
        "orders 4 a b, payments 4",
        member("ash", "orders payments", rack="b"),
        member("birch", "orders payments", rack="a"),
    ),
    "topics of one size, another between them": case(
        "a 4, b 5, c 4, d 5",
        member("ash", "d c b a"),
        member("birch", "b d c a"),
        member("cedar", "a b"),
    ),
}

_IDS = {"a": 17, "b": 1, "c": 33}
"""Of one bucket in a map of 8, of two in one of 32."""

_MISSING = " ".join(f"missing-{number}" for number in range(14))

SERVER_RANGE: Mapping[str, Case] = {
    "what members had does not count": case(
        "orders 7",
        member("ash", "orders", "orders 3-6"),
        member("birch", "orders", "orders 0-2"),
        member("cedar", "orders"),
    ),
    "a map for three topics": case(
        "a 2, b 2, c 2", member("ash", "a b c"), member("birch", "a b c"), ids=_IDS
    ),
    "a map for three topics and fourteen that do not exist": case(
        "a 2, b 2, c 2", member("ash", f"a b c {_MISSING}"), member("birch", "a b c"), ids=_IDS
    ),
    "a map for three topics, whatever does not exist, where all subscribe alike": case(
        "a 2, b 2, c 2",
        member("ash", f"a b c {_MISSING}"),
        member("birch", f"a b c {_MISSING}"),
        ids=_IDS,
    ),
    "a topic of fewer partitions than members": case(
        "a 2, b 7",
        member("ash", "a b"),
        member("birch", "a b", instance_id="i2"),
        member("cedar", "a b", instance_id="i1"),
        member("elm", "b"),
    ),
}
