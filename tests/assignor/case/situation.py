"""Cases that concern every assignor, or every one that knows what members own.

A map of Java's lists ash, birch, cedar and elm as cedar, birch, ash, elm; ash and elm are in one
bucket. AaAa, AaBB, BBAa and BBBB have one hash.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product

from tests.assignor.case.notation import Case, case, member

ONE_HASH = ["".join(pairs) for pairs in product(("Aa", "BB"), repeat=4)]
"""Sixteen texts of one hash: in one bucket of a map they are a tree."""

_ORDERS = ("ash", "birch", "cedar")

EVERY: Mapping[str, Case] = {
    "one member takes all": case("orders 4, payments 2", member("ash", "orders payments")),
    "more members than partitions": case(
        "orders 3", *(member(name, "orders") for name in ("ash", "birch", "cedar", "elm", "fir"))
    ),
    "seven partitions for three": case("orders 7", *(member(name, "orders") for name in _ORDERS)),
    "two topics of three partitions for two": case(
        "orders 3, payments 3", member("ash", "orders payments"), member("birch", "orders payments")
    ),
    "five topics of one partition for three": case(
        "a 1, b 1, c 1, d 1, e 1", *(member(name, "a b c d e") for name in _ORDERS)
    ),
    "each subscribes to one topic more than the one before": case(
        "a 1, b 2, c 3", member("ash", "a"), member("birch", "a b"), member("cedar", "a b c")
    ),
    "two camps without a common topic": case(
        "orders 5, payments 3",
        member("ash", "orders"),
        member("birch", "payments"),
        member("cedar", "orders"),
        member("elm", "payments"),
    ),
    "one of three topics is shared by all": case(
        "a 4, b 6, c 2",
        member("ash", "a b"),
        member("birch", "b"),
        member("cedar", "b c"),
        member("elm", "b c"),
    ),
    "a topic that nobody subscribes to": case("audit 4, orders 2", member("ash", "orders")),
    "a topic that does not exist": case(
        "orders 4", member("ash", "missing orders"), member("birch", "missing orders")
    ),
    "none of the topics exists": case("", member("ash", "missing"), member("birch", "missing")),
    "a topic without partitions": case(
        "none 0, orders 3", member("ash", "none orders"), member("birch", "none orders")
    ),
    "a topic without partitions, of one member only": case(
        "none 0, orders 4, payments 3",
        member("ash", "orders payments"),
        member("birch", "none orders payments"),
        member("cedar", "orders payments"),
    ),
    "the last member subscribes to nothing": case(
        "orders 4", member("ash", "orders"), member("birch", "orders"), member("fir")
    ),
    "the first member subscribes to nothing": case(
        "orders 4", member("ash", "orders"), member("birch", "orders"), member("cedar")
    ),
    "nobody subscribes to anything": case("orders 4", member("ash"), member("birch")),
    "twelve members fill a map, seventeen topics too": case(
        ", ".join(f"t{number} {number % 4 + 1}" for number in range(17)),
        *(
            member(f"m{at}", " ".join(f"t{number}" for number in range(17) if (number + at) % 5))
            for at in range(12)
        ),
    ),
    "thirteen members, listed backwards": case(
        "orders 30", *(member(f"c{number}", "orders") for number in range(13, 0, -1))
    ),
    "members of one bucket, listed backwards": case(
        "orders 5, payments 4",
        *(member(name, "orders payments") for name in ("BBBB", "BBAa", "AaAa")),
    ),
    "members of one bucket, a tree": case(
        "orders 40", *(member(name, "orders") for name in ONE_HASH[::-1])
    ),
    "topics of one bucket": case(
        "BBBB 2, AaAa 3, BBAa 1", member("ash", "AaAa BBAa BBBB"), member("birch", "AaAa BBAa BBBB")
    ),
    "topics of one bucket, not all of everybody": case(
        "BBBB 2, AaAa 3, BBAa 1, AaBB 2",
        member("ash", "AaAa AaBB BBBB"),
        member("birch", "AaBB BBAa BBBB"),
        member("elm", "AaAa BBAa"),
    ),
    "texts are sorted by UTF-16": case(
        "\uff5et 3, \U0001f600t 3",
        member("\uff5em", "\uff5et \U0001f600t"),
        member("\U0001f600m", "\uff5et \U0001f600t"),
    ),
    "static members come first": case(
        "orders 7, payments 2",
        member("ash", "orders payments"),
        member("birch", "orders payments", instance_id="z"),
        member("cedar", "orders payments", instance_id="y"),
        member("elm", "orders payments", instance_id="x"),
    ),
    "racks": case(
        "orders 6 ab bc ca",
        member("ash", "orders", rack="c"),
        member("birch", "orders", rack="b"),
        member("cedar", "orders", rack="a"),
    ),
}

OWNING: Mapping[str, Case] = {
    "nothing has changed": case(
        "orders 7",
        member("ash", "orders", "orders 2-3 6", 4),
        member("birch", "orders", "orders 1 5", 4),
        member("cedar", "orders", "orders 0 4", 4),
    ),
    "a member has left": case(
        "orders 7",
        member("ash", "orders", "orders 2-3 6", 4),
        member("birch", "orders", "orders 1 5", 4),
    ),
    "a member has joined": case(
        "orders 7",
        member("ash", "orders", "orders 2-3 6", 4),
        member("birch", "orders", "orders 1 5", 4),
        member("cedar", "orders", "orders 0 4", 4),
        member("elm", "orders"),
    ),
    "a member has started again under another id": case(
        "orders 6",
        member("ash", "orders", "orders 2-3", 4),
        member("birch", "orders", "orders 1 5", 4),
        member("fir", "orders"),
    ),
    "all but one have left": case("orders 7", member("ash", "orders", "orders 4-5", 4)),
    "one has had everything": case(
        "orders 4, payments 4",
        member("ash", "orders payments"),
        member("birch", "orders payments", "orders 0-3, payments 0-3", 1),
        member("cedar", "orders payments"),
    ),
    "two have one more than is due to anybody": case(
        "orders 6",
        member("ash", "orders", "orders 0-2", 4),
        member("birch", "orders", "orders 3-5", 4),
        member("cedar", "orders"),
    ),
    "partitions have been added": case(
        "orders 9",
        member("ash", "orders", "orders 0-1", 4),
        member("birch", "orders", "orders 2-3", 4),
    ),
    "a topic has been added": case(
        "orders 4, payments 3",
        member("ash", "orders payments", "orders 0-1", 4),
        member("birch", "orders payments", "orders 2-3", 4),
    ),
    "a topic has been deleted": case(
        "orders 4",
        member("ash", "orders payments", "orders 0, payments 0-2", 4),
        member("birch", "orders payments", "orders 1-3", 4),
    ),
    "nobody subscribes to a topic any more": case(
        "orders 4, payments 3",
        member("ash", "orders", "orders 0, payments 0-2", 4),
        member("birch", "orders", "orders 1-3", 4),
    ),
    "one does not subscribe to a topic any more": case(
        "orders 4, payments 3",
        member("ash", "orders", "orders 0-1, payments 0-1", 4),
        member("birch", "orders payments", "orders 2-3, payments 2", 4),
    ),
    "one has come to subscribe to another topic": case(
        "orders 4, payments 3",
        member("ash", "orders payments", "orders 0-1", 4),
        member("birch", "orders", "orders 2-3", 4),
    ),
    "a topic has come back with fewer partitions": case(
        "orders 2, payments 3",
        member("ash", "orders payments", "orders 2-3, payments 0", 4),
        member("birch", "orders payments", "orders 0-1, payments 1-2", 4),
    ),
    "a topic has come back with fewer partitions, and subscriptions differ": case(
        "orders 2, payments 3",
        member("ash", "orders payments", "orders 2-3, payments 0", 4),
        member("birch", "orders payments", "orders 0-1, payments 1", 4),
        member("cedar", "payments", "payments 2", 4),
    ),
    "a topic has come back with one partition less, and subscriptions differ": case(
        "orders 3, payments 3",
        member("ash", "orders payments", "orders 2-3, payments 0", 4),
        member("birch", "orders payments", "orders 0-1, payments 1", 4),
        member("cedar", "payments", "payments 2", 4),
    ),
    "owned in another order than that of their numbers": case(
        "orders 5, payments 5",
        member("ash", "orders payments", "payments 4 0, orders 3, payments 2, orders 1", 4),
        member("birch", "orders payments", "payments 3 1, orders 4 0 2", 4),
        member("cedar", "orders payments"),
    ),
    "texts are sorted by UTF-16, also those of owners": case(
        "\uff5et 3, \U0001f600t 3",
        member("\uff5em", "\uff5et \U0001f600t", "\uff5et 0-1, \U0001f600t 0-1", 4),
        member("\U0001f600m", "\uff5et \U0001f600t", "\uff5et 2", 4),
        member("m", "\uff5et \U0001f600t", "\U0001f600t 2", 4),
        member("\uff5en", "\uff5et \U0001f600t"),
    ),
    "members of one bucket, each with more than its share": case(
        "orders 10",
        member("BBBB", "orders", "orders 0-3", 4),
        member("AaAa", "orders", "orders 4-6", 4),
        member("BBAa", "orders", "orders 7-9", 4),
        member("AaBB", "orders"),
    ),
    "members of one bucket, a tree, each with more than its share": case(
        "orders 40",
        *(
            member(name, "orders", f"orders {at * 3}-{at * 3 + 2}", 4)
            for at, name in enumerate(ONE_HASH[12::-1])
        ),
        *(member(name, "orders") for name in ONE_HASH[13:]),
    ),
    "subscriptions differ, and the fullest gives": case(
        "a 4, b 4, c 4",
        member("ash", "a b c", "a 0-3, b 0-3, c 0-3", 4),
        member("birch", "b"),
        member("cedar", "b c"),
        member("elm", "c"),
    ),
    "subscriptions differ, and a member has left": case(
        "a 3, b 5, c 4",
        member("ash", "a b", "a 0 2, b 1", 4),
        member("birch", "b c", "b 0 3, c 2", 4),
        member("elm", "a c", "a 1, c 0", 4),
    ),
    "subscriptions differ, and members with much have little in common": case(
        "a 6, b 2, c 6",
        member("ash", "a b", "a 0-5", 4),
        member("birch", "b c", "b 0-1, c 0-1", 4),
        member("cedar", "c", "c 2-5", 4),
        member("elm", "a c"),
        member("fir", "b"),
    ),
}
