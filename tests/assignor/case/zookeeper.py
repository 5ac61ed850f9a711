"""Cases of the high-level consumer on ZooKeeper, which assigns to threads."""

from __future__ import annotations

from collections.abc import Mapping

from tests.assignor.case.notation import Case, case, member

ZOOKEEPER: Mapping[str, Case] = {
    "two consumers of two threads": case(
        "P 5", member("C1", streams="P 2"), member("C2", streams="P 2")
    ),
    "thread 10 comes before thread 2": case("t 11", member("c", streams="t 11")),
    "the threads of one consumer stand among those of another": case(
        "t 7, u 1",
        member("c-1", streams="t 1, u 2, missing 1"),
        member("c", streams="t 2"),
        member("d", streams="u 1"),
    ),
    "more threads than partitions": case(
        "t 3", member("a", streams="t 2"), member("b", streams="t 2")
    ),
    "as many threads of every topic": case(
        "orders 3, payments 2, gone 0",
        member("c1", streams="orders 1, payments 1"),
        member("c2", streams="payments 2, orders 2"),
    ),
    "a consumer without topics, and a topic that does not exist": case(
        "orders 3, payments 2",
        member("c1", streams="orders 3, payments 3, missing 3"),
        member("c2", streams="missing 2, payments 2, orders 2"),
        member("c3", streams=""),
    ),
    "names of one hash, registered in one order": case(
        "Aa 2, BB 2", member("c1", streams="Aa 1, BB 1"), member("c2", streams="Aa 1, BB 1")
    ),
    "names of one hash, registered in two orders": case(
        "Aa 2, BB 2", member("c1", streams="Aa 1, BB 1"), member("c2", streams="BB 1, Aa 1")
    ),
    "other numbers of threads": case(
        "orders 3, payments 2",
        member("c1", streams="orders 3, payments 3"),
        member("c2", streams="orders 2, payments 2, clicks 2"),
    ),
    "no streams at all": case("t 1", member("a", streams="t 1"), member("b", streams="t 0")),
}
