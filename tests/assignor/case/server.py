"""Cases of the coordinator's assignors for consumer and share groups."""

from __future__ import annotations

from collections.abc import Mapping

from tests.assignor.case.notation import Case, case, member

_TREE = {f"t{number}": number << 64 | number for number in range(14)}
"""Ids of one hash: in a map they are a tree."""

TARGET: Mapping[str, Case] = {
    "a set of twelve has a table of 32": case(
        "orders 24",
        member("ash", "orders", "orders 16-21 0-5"),
        member("birch", "orders", "orders 6-15 22-23"),
    ),
    "a set of twelve, from which some are taken": case(
        "orders 24",
        member("ash", "orders", "orders 16-21 0-5"),
        member("birch", "orders", "orders 6-15 22-23"),
        member("cedar", "orders"),
    ),
    "a set of twelve, to which some are added": case(
        "orders 50", member("ash", "orders", "orders 16-21 0-5"), member("birch", "orders")
    ),
    "a set of twelve, and subscriptions differ": case(
        "orders 40, payments 2",
        member("ash", "orders", "orders 16-21 0-5"),
        member("birch", "orders payments", "orders 32-39 6-13"),
    ),
    "topic ids of one bucket": case(
        "a 4, b 4, c 4",
        member("ash", "a b c", "a 0-1, b 0-1, c 0-1"),
        member("birch", "a b c", "c 2-3, b 2-3"),
        member("cedar", "a b c"),
        ids={"a": 33, "b": 1, "c": 17},
    ),
    "topic ids of one bucket, of which one goes and one comes": case(
        "a 2, b 2, c 2, d 3",
        member("ash", "b c d", "a 0-1, b 0-1, c 0"),
        member("birch", "b c d", "d 0"),
        ids={"a": 33, "b": 1, "c": 17, "d": 49},
    ),
    "topic ids of one bucket, and subscriptions differ": case(
        "a 4, b 4, c 4, d 2",
        member("ash", "a b c", "a 0-3, b 0-3, d 0-1"),
        member("birch", "b c d", "c 0-3"),
        member("cedar", "a c"),
        ids={"a": 33, "b": 1, "c": 17, "d": 49},
    ),
    "topic ids of one hash, a tree that loses some and gets some": case(
        ", ".join(f"{topic} 2" for topic in _TREE),
        member("ash", " ".join([*_TREE][:10]), "t5 0, t13 0, t12 0-1, t10 0, t9 0, t11 1, t3 0"),
        member("birch", " ".join(_TREE), ", ".join(f"{topic} 1" for topic in reversed(_TREE))),
        ids=_TREE,
    ),
    "topic ids of one hash, a tree of which most go": case(
        ", ".join(f"{topic} 2" for topic in _TREE),
        member("ash", "t1 t3 t5 t9", ", ".join(f"{topic} 0" for topic in _TREE)),
        member("birch", "t1 t3 t5 t9", "t9 1"),
        ids=_TREE,
    ),
    "topic ids are signed": case(
        "a 2, b 2, c 1",
        member("ash", "a b"),
        member("birch", "a b c"),
        ids={"a": 1 << 127, "b": 1 << 63, "c": 5},
    ),
    "a map for thirteen topics, of which some go": case(
        ", ".join(f"t{number} 1" for number in range(20)),
        member(
            "ash",
            " ".join(f"t{number}" for number in range(6, 20)),
            ", ".join(f"t{number} 0" for number in range(13)),
        ),
        member("birch", " ".join(f"t{number}" for number in range(6, 20))),
        ids={f"t{number}": 16 * number + number // 8 for number in range(20)},
    ),
}

UNIFORM: Mapping[str, Case] = {
    "topic ids of one hash, a tree": case(
        ", ".join(f"{topic} 2" for topic in _TREE),
        member("ash", " ".join(_TREE), ", ".join(f"{topic} 0-1" for topic in _TREE)),
        member("birch", " ".join(_TREE)),
        ids=_TREE,
    ),
    "the first ones get one more": case(
        "orders 11", *(member(name, "orders") for name in ("ash", "birch", "cedar", "elm"))
    ),
    "who has one more keeps it, as long as there are some left": case(
        "orders 10",
        member("ash", "orders", "orders 0-2"),
        member("birch", "orders", "orders 3-4"),
        member("cedar", "orders", "orders 5-6"),
        member("elm", "orders", "orders 7-9"),
    ),
    "the last ones must take one more": case(
        "orders 11",
        member("ash", "orders", "orders 0"),
        member("birch", "orders", "orders 3-4"),
        member("cedar", "orders", "orders 5-6"),
        member("elm", "orders", "orders 7"),
    ),
    "what is taken away comes from the end of its set": case(
        "orders 40, payments 4",
        member("ash", "orders payments", "orders 36 32 16 0 1 17 33 3, payments 1-3"),
        member("birch", "orders payments", "orders 4-15 18-31 2 37-39"),
        member("cedar", "orders payments"),
        member("elm", "orders payments"),
        member("fir", "orders payments"),
        member("hazel", "orders payments"),
    ),
    "two have the same": case(
        "orders 4", member("ash", "orders", "orders 0-1"), member("birch", "orders", "orders 1-2")
    ),
    "a copy of a target has another order": case(
        "a 3, b 3, c 3, d 3",
        member("ash", "a b c d", "a 0-2, b 0-2, c 0-2, d 0-2"),
        member("birch", "a b c d"),
        ids={"a": 13, "b": 9, "c": 5, "d": 1},
    ),
    "topics are sorted by partitions a subscriber, then by subscribers, then by id": case(
        "a 4, b 6, c 6, d 3",
        member("ash", "a b c d"),
        member("birch", "a b c"),
        member("cedar", "b c d"),
        member("elm", "a b c"),
        ids={"a": 4, "b": 3, "c": 2, "d": 1},
    ),
    "the one with the fewest gets what is free": case(
        "a 3, b 9, c 2",
        member("ash", "a b", "a 0-2"),
        member("birch", "b", "b 0-1"),
        member("cedar", "b c", "c 0-1, b 2"),
    ),
    "a chain of moves from topic to topic": case(
        "a 4, b 4, c 4",
        member("ash", "a", "a 0-3"),
        member("birch", "a b", "b 0-3"),
        member("cedar", "b c", "c 0-3"),
        member("elm", "c"),
    ),
    "the fullest has nothing of the topic": case(
        "a 8, b 4, c 3",
        member("ash", "a b", "a 0-7"),
        member("birch", "b c", "b 0-3"),
        member("cedar", "b c", "c 0-2"),
        member("elm", "c b"),
    ),
    "all of the fullest have nothing of the topic": case(
        "a 6, b 6, c 4",
        member("ash", "a c", "a 0-5"),
        member("birch", "b c", "b 0-5"),
        member("cedar", "c", "c 0-3"),
        member("elm", "c"),
    ),
}

SHARE: Mapping[str, Case] = {
    "nobody is left for a partition, and a member keeps what it does not subscribe to": case(
        "orders 2, payments 1",
        member("cedar", "orders", "orders 0, payments 0"),
        member("birch", "orders", "orders 1"),
        member("ash", "orders", "orders 1"),
    ),
    "all of a set is taken, and more is given": case(
        "orders 40",
        member("ash", "orders", "orders 0-11"),
        member("birch", "orders", "orders 0-11"),
    ),
    "what has no partition any more takes a place, so that too few are left": case(
        "orders 1",
        member("cedar", "orders", "orders 5"),
        member("birch", "orders"),
        member("ash", "orders"),
    ),
    "each partition for two of four": case(
        "orders 2", *(member(name, "orders") for name in ("ash", "birch", "cedar", "elm"))
    ),
    "eight members for three partitions": case(
        "orders 2, payments 1",
        *(
            member(name, "orders payments")
            for name in ("ash", "birch", "cedar", "elm", "fir", "hazel", "larch", "maple")
        ),
    ),
    "shares of a half are rounded up": case(
        "orders 5", *(member(name, "orders") for name in ("ash", "birch", "cedar"))
    ),
    "a partition is shared by too many": case(
        "orders 3",
        member("ash", "orders", "orders 0"),
        member("birch", "orders", "orders 0"),
        member("cedar", "orders", "orders 0"),
    ),
    "members have too much, in the order of their sets": case(
        "orders 20, payments 3",
        member("ash", "orders payments", "orders 16 0 1 17 2, payments 0-2"),
        member("birch", "orders payments", "orders 3-15"),
        member("cedar", "orders payments"),
        member("elm", "orders payments"),
    ),
    "a partition of too many, and members with too few": case(
        "orders 4",
        member("ash", "orders", "orders 0-1"),
        member("birch", "orders", "orders 0-1"),
        member("cedar", "orders", "orders 0"),
        member("elm", "orders"),
        member("fir", "orders"),
    ),
    "nothing is left for a member that has it all": case(
        "orders 1",
        member("ash", "orders", "orders 0"),
        member("birch", "orders"),
        member("cedar", "orders"),
    ),
    "subscriptions differ, topic by topic": case(
        "a 4, b 2, c 1",
        member("ash", "a b c", "a 0-3, b 0-1, c 0"),
        member("birch", "a b"),
        member("cedar", "b c"),
        member("elm", "b", "b 0-1"),
        member("fir", "b", "b 1"),
    ),
    "subscriptions differ, and a topic shrinks": case(
        "a 1, b 2",
        member("ash", "a b", "a 0-1, b 0"),
        member("birch", "a", "a 2"),
        member("cedar", "a b", "a 0"),
    ),
    "twelve partitions fill a map": case(
        "orders 13", member("ash", "orders", "orders 0-6"), member("birch", "orders")
    ),
}
