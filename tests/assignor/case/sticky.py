"""Cases of the sticky assignors of the classic protocol: claims, generations, user data, racks."""

from __future__ import annotations

import base64
import struct
from collections.abc import Mapping

from tests.assignor.case.notation import Case, case, member


def _data(*topics: tuple[str, list[int]], generation: int | None = None) -> str:
    """Write user data of the sticky assignor: topics, then in version 1 the generation."""
    raw = struct.pack(">i", len(topics))
    for name, partitions in topics:
        raw += struct.pack(">h", len(name)) + name.encode()
        raw += struct.pack(f">i{len(partitions)}i", len(partitions), *partitions)
    if generation is not None:
        raw += struct.pack(">i", generation)
    return base64.b64encode(raw).decode()


CLAIM: Mapping[str, Case] = {
    "two claim a partition in one generation": case(
        "orders 4",
        member("ash", "orders", "orders 0-2", 4),
        member("birch", "orders", "orders 2-3", 4),
    ),
    "two claim everything in one generation": case(
        "orders 4",
        member("ash", "orders", "orders 0-3", 4),
        member("birch", "orders", "orders 0-3", 4),
    ),
    "three claim a partition in one generation": case(
        "orders 5",
        member("ash", "orders", "orders 0-1", 4),
        member("birch", "orders", "orders 0 2", 4),
        member("cedar", "orders", "orders 0 3", 4),
    ),
    "the claim of the later generation counts": case(
        "orders 6",
        member("ash", "orders", "orders 0-2", 5),
        member("birch", "orders", "orders 2-4", 4),
    ),
    "the claim of the later generation counts, if it comes first": case(
        "orders 6",
        member("ash", "orders", "orders 0-2", 4),
        member("birch", "orders", "orders 2-4", 5),
    ),
    "three claim a partition in three generations": case(
        "orders 9",
        member("cedar", "orders", "orders 0-2", 3),
        member("birch", "orders", "orders 0 3-4", 5),
        member("ash", "orders", "orders 0 5-6", 4),
    ),
    "two claim a partition in one generation, a third in a later one": case(
        "orders 9",
        member("cedar", "orders", "orders 0-2", 3),
        member("birch", "orders", "orders 0 3-4", 3),
        member("ash", "orders", "orders 0 5-6", 5),
    ),
    "a claim of generation 0, and one without a generation": case(
        "orders 6",
        member("ash", "orders", "orders 0-2", 0),
        member("birch", "orders", "orders 2-4"),
    ),
    "a claim of an earlier generation that nobody disputes": case(
        "orders 4",
        member("ash", "orders", "orders 0-1", 2),
        member("birch", "orders", "orders 2-3", 5),
    ),
    "a claim without a generation": case(
        "orders 4",
        member("ash", "orders", "orders 0-2"),
        member("birch", "orders", "orders 2-3", 5),
    ),
    "claims without generations": case(
        "orders 4", member("ash", "orders", "orders 0-2"), member("birch", "orders", "orders 2-3")
    ),
    "two claim a partition, and a third takes no part": case(
        "orders 6, payments 2",
        member("ash", "orders payments", "orders 0-2, payments 0, gone 3", 4),
        member("birch", "orders payments", "orders 2-4, payments 0", 4),
        member("cedar", "orders payments"),
    ),
    "a claim of what does not exist": case(
        "orders 4",
        member("ash", "orders", "gone 0, orders 0-1 9", 4),
        member("birch", "orders", "orders 2-3", 4),
    ),
    "a claim of what is not subscribed": case(
        "orders 4, payments 2",
        member("ash", "orders", "orders 0-1, payments 0", 4),
        member("birch", "orders payments", "orders 2-3", 4),
    ),
    "claims of one generation, and subscriptions differ": case(
        "a 3, b 3",
        member("ash", "a b", "a 0-1, b 0", 4),
        member("birch", "a b", "a 1-2, b 1", 4),
        member("cedar", "b", "b 1-2", 4),
    ),
    "the owner before the last may have it back": case(
        "a 4, b 2",
        member("ash", "a b", "a 0-1", 3),
        member("birch", "a b", "a 0-3, b 0", 5),
        member("cedar", "b", "b 1", 5),
    ),
    "two owners before the last": case(
        "a 6, b 2",
        member("ash", "a b", "a 0-1", 2),
        member("birch", "a b", "a 0-1", 3),
        member("cedar", "a", "a 0-5", 5),
        member("elm", "b", "b 0-1", 5),
    ),
    "two owners before the last, the other way": case(
        "a 6, b 2",
        member("ash", "a b", "a 0-1", 3),
        member("birch", "a b", "a 0-1", 2),
        member("cedar", "a", "a 0-5", 5),
        member("elm", "b", "b 0-1", 5),
    ),
    "two owners before the last, of one generation": case(
        "a 6, b 2",
        member("ash", "a b", "a 0-1", 3),
        member("birch", "a b", "a 0-1", 3),
        member("cedar", "a", "a 0-5", 5),
        member("elm", "b", "b 0-1", 5),
    ),
    "the owner before the last does not subscribe any more": case(
        "a 4, b 2",
        member("ash", "b", "a 0-1", 3),
        member("birch", "a b", "a 0-3, b 0", 5),
        member("cedar", "a", "", 5),
    ),
    "subscription and user data name other generations": case(
        "orders 4",
        member("ash", "orders", "orders 0-2", 4, subscription_generation=6),
        member("birch", "orders", "orders 2-3", 5, subscription_generation=5),
    ),
    "subscription and user data name other generations, the other way": case(
        "orders 4",
        member("ash", "orders", "orders 0-2", 6, subscription_generation=4),
        member("birch", "orders", "orders 2-3", 5, subscription_generation=5),
    ),
    "subscriptions of every version": case(
        "orders 8",
        member("ash", "orders", "orders 0-2", 4, protocol_version=0),
        member("birch", "orders", "orders 2-3", 4, protocol_version=1),
        member("cedar", "orders", "orders 3-5", 4, protocol_version=2),
        member("elm", "orders", "orders 5-7", 4, protocol_version=3),
    ),
}

RACK: Mapping[str, Case] = {
    "racks: a member gives up what has no replica in its own": case(
        "orders 6 ab bc ca",
        member("ash", "orders", "orders 0-1", 4, rack="c"),
        member("birch", "orders", "orders 2-3", 4, rack="b"),
        member("cedar", "orders", "orders 4-5", 4, rack="a"),
    ),
    "racks: a replica in every one, so that what is owned stays": case(
        "orders 6 abc",
        member("ash", "orders", "orders 0-1", 4, rack="c"),
        member("birch", "orders", "orders 2-3", 4, rack="b"),
        member("cedar", "orders", rack="a"),
    ),
    "racks: a replica in every one, and a member in none": case(
        "orders 6 abc",
        member("ash", "orders", rack="x"),
        member("birch", "orders", rack="a"),
        member("cedar", "orders"),
    ),
    "racks: none of the members', and yet partitions are sorted by them": case(
        "orders 6 ab b a",
        member("ash", "orders", "orders 3", 4, rack="x"),
        member("birch", "orders", "orders 1", 4, rack="y"),
    ),
    "racks: the fewest members first": case(
        "orders 6 a b",
        member("ash", "orders", rack="a"),
        member("birch", "orders", rack="a"),
        member("cedar", "orders", rack="b"),
    ),
    "racks: one member has none": case(
        "orders 6 a b c",
        member("ash", "orders", "orders 0-1", 4),
        member("birch", "orders", "orders 2-3", 4, rack="b"),
        member("cedar", "orders", rack="a"),
    ),
    "racks: partitions of which nobody is near go round": case(
        "orders 8 a x b",
        member("ash", "orders", rack="b"),
        member("birch", "orders", rack="a"),
        member("cedar", "orders", rack="b"),
    ),
    "racks: those of some partitions are not known": case(
        "orders 4 a -, payments 3",
        member("ash", "orders payments", rack="b"),
        member("birch", "orders payments", rack="a"),
    ),
    "racks: all partitions are in one": case(
        "orders 7 a, payments 1 b",
        member("ash", "orders payments", rack="b"),
        member("birch", "orders payments", rack="a"),
        member("cedar", "orders payments", rack="a"),
    ),
    "racks: a topic has come back with fewer partitions": case(
        "orders 2 a b, payments 4 a b",
        member("ash", "orders payments", "orders 2, payments 0", 4, rack="a"),
        member("birch", "orders payments", "orders 1, payments 1 3", 4, rack="b"),
        member("cedar", "orders payments"),
    ),
    "racks: subscriptions differ": case(
        "a 6 a b c, b 4 a b",
        member("ash", "a b", rack="a"),
        member("birch", "a", rack="b"),
        member("cedar", "a b", rack="c"),
        member("elm", "b", rack="b"),
    ),
    "racks: subscriptions differ, and none of the members' has a replica": case(
        "a 6 a b c, b 4 a b",
        member("ash", "a b", "a 0-2, b 0", 4, rack="x"),
        member("birch", "a", "a 3-5", 4, rack="y"),
        member("cedar", "b", "b 1-3", 4),
    ),
    "racks: subscriptions differ, and members give up what is far": case(
        "a 6 a b c, b 4 a b",
        member("ash", "a b", "a 0-2, b 0", 4, rack="a"),
        member("birch", "a", "a 3-5", 4, rack="b"),
        member("cedar", "b", "b 1-3", 4),
    ),
    "racks: subscriptions differ, and a topic has come back with fewer partitions": case(
        "a 2 a b, b 4 a b",
        member("ash", "a b", "a 2, b 0", 4, rack="a"),
        member("birch", "a b", "a 1, b 1 3", 4, rack="b"),
        member("cedar", "b"),
    ),
}

STICKY: Mapping[str, Case] = {
    "a partition moves whose owner needs not lose it": case(
        "a 3, b 3",
        member("ash", "a b", "a 1", 4),
        member("birch", "b", "b 0", 4),
        member("cedar", "a"),
    ),
    "user data of version 0 names no generation": case(
        "orders 4",
        member("ash", "orders", user_data=_data(("orders", [0, 1, 2]))),
        member("birch", "orders", user_data=_data(("orders", [2, 3]), generation=4)),
    ),
    "user data that cannot be read": case(
        "orders 4",
        member("ash", "orders", user_data="AAAA"),
        member("birch", "orders", user_data=_data(("orders", [2, 3]), generation=4)),
    ),
    "no user data": case(
        "orders 4",
        member("ash", "orders", user_data=""),
        member("birch", "orders", user_data=_data(("orders", [2, 3]), generation=4)),
    ),
}

COOPERATIVE: Mapping[str, Case] = {
    "only user data names a generation": case(
        "orders 4",
        member("ash", "orders", "orders 0-2", user_data="AAAABQ=="),
        member("birch", "orders", "orders 2-3", 4),
    ),
    "user data that cannot be read names none": case(
        "orders 4",
        member("ash", "orders", "orders 0-2", 4, protocol_version=1, user_data="AAA="),
        member("birch", "orders", "orders 2-3", 4),
    ),
    "no user data": case(
        "orders 4",
        member("ash", "orders", "orders 0-2", user_data=""),
        member("birch", "orders", "orders 2-3", 4),
    ),
    "user data that cannot be read, and none": case(
        "orders 6",
        member("ash", "orders", "orders 0-2", user_data="AAA="),
        member("birch", "orders", "orders 2-4", user_data=""),
    ),
    "a version without owned partitions": case(
        "orders 4",
        member("ash", "orders", "orders 0-2", 4, protocol_version=0),
        member("birch", "orders", "orders 2-3", 4),
    ),
}

OLD: Mapping[str, Case] = {
    "all subscribe alike, and the fullest is taken from first": case(
        "orders 8",
        member("ash", "orders", "orders 0-4"),
        member("birch", "orders", "orders 5-7"),
        member("cedar", "orders"),
    ),
    "all subscribe alike, and one keeps what it never had alone": case(
        "orders 4",
        member("ash", "orders", "orders 0-1"),
        member("birch", "orders", "orders 0-1"),
        member("cedar", "orders", "orders 0"),
    ),
    "partitions come in the order of their hashes": case(
        "orders 20, payments 5",
        member("ash", "orders payments", "orders 19"),
        member("birch", "orders payments"),
        member("cedar", "payments orders"),
    ),
    **{
        f"user data that cannot be read: {what}": case(
            "orders 4",
            member("ash", "orders", user_data="AAAA"),  # read after that of birch
            member("birch", "orders", user_data=base64.b64encode(raw).decode()),
        )
        for what, raw in {
            "a topic, but it ends": b"\0\0\0\1",
            "a name of two letters, but one": b"\0\0\0\1\0\2t",
            "half a number": b"\0\0\0\1\0\1t\0\0\0\1\0",
            "fewer topics than none": b"\xff\xff\xff\xff",
        }.items()
    },
}
