"""Named cases of the ZooKeeper consumer's assignors; the answers are those of Kafka 0.8.2.2."""

from collections.abc import Mapping

import pytest

from kgroup.assignor.base import AssignorError, Topic
from kgroup.assignor.zookeeper import (
    Consumer,
    ThreadAssignment,
    assign_range,
    assign_round_robin,
    thread_name,
)

Streams = Mapping[str, Mapping[str, int]]


def consumers(streams: Streams) -> list[Consumer]:
    return [Consumer(consumer_id, topics) for consumer_id, topics in streams.items()]


def topics(**partitions: int) -> dict[str, Topic]:
    return {name: Topic(count) for name, count in partitions.items()}


def written(assigned: ThreadAssignment) -> str:
    """Write ``thread: topic+partition``, idle threads too."""
    return "; ".join(
        f"{thread_name(thread)}: {' '.join(f'{topic}{number}' for topic, number in got)}".rstrip()
        for thread, got in sorted(assigned.items())
    )


_Cases = Mapping[str, tuple[Streams, Mapping[str, int], str]]

RANGE: _Cases = {
    "five partitions, two consumers with two threads each": (
        {"C1": {"P": 2}, "C2": {"P": 2}},
        {"P": 5},
        "C1-0: P0 P1; C1-1: P2; C2-0: P3; C2-1: P4",
    ),
    "thread 10 comes before thread 2": (
        {"c": {"t": 11}},
        {"t": 11},
        "c-0: t0; c-1: t1; c-2: t3; c-3: t4; c-4: t5; c-5: t6; c-6: t7; c-7: t8; c-8: t9; "
        "c-9: t10; c-10: t2",
    ),
    "the threads of one consumer may stand among those of another": (
        {"c-1": {"t": 1, "u": 2, "missing": 1}, "c": {"t": 2}, "d": {"u": 1}},
        {"t": 7, "u": 1},
        "c-0: t0 t1 t2; c-1: t3 t4; c-1-0: t5 t6 u0; c-1-1:; d-0:",
    ),
    "more threads than partitions": (
        {"a": {"t": 2}, "b": {"t": 2}},
        {"t": 3},
        "a-0: t0; a-1: t1; b-0: t2; b-1:",
    ),
    "topics are shared one by one, so the first consumer gets most": (
        {"a": {"t": 1, "u": 1}, "b": {"t": 1, "u": 1}},
        {"t": 3, "u": 1},
        "a-0: t0 t1 u0; b-0: t2",
    ),
    "a topic that does not exist": ({"a": {"missing": 2}}, {"t": 3}, "a-0:; a-1:"),
    "nobody subscribes to anything": ({"a": {}, "b": {}}, {"t": 3}, ""),
}

ROUND_ROBIN: _Cases = {
    "one topic": (
        {"C1": {"P": 2}, "C2": {"P": 2}},
        {"P": 5},
        "C1-0: P0 P4; C1-1: P1; C2-0: P2; C2-1: P3",
    ),
    "two topics, in the order of their hashes": (
        {"c1": {"orders": 1, "payments": 1}, "c2": {"orders": 2, "payments": 2}},
        {"orders": 3, "payments": 2, "gone": 0},
        "c1-0: orders0 payments0; c2-0: orders1 payments1; c2-1: orders2",
    ),
    "a topic that does not exist, and a consumer without topics": (
        {
            "c1": {"orders": 3, "payments": 3, "missing": 3},
            "c2": {"orders": 2, "payments": 2, "missing": 2},
            "c3": {},
        },
        {"orders": 3, "payments": 2},
        "c1-0: orders0; c1-1: orders1; c1-2: orders2; c2-0: payments0; c2-1: payments1",
    ),
    "names with one hash, registered in different orders: both take BB, nobody Aa": (
        {"c1": {"Aa": 1, "BB": 1}, "c2": {"BB": 1, "Aa": 1}},
        {"Aa": 2, "BB": 2},
        "c1-0: BB0 BB1; c2-0: BB0 BB1",
    ),
}


@pytest.mark.parametrize("name", RANGE)
def test_range(name: str) -> None:
    streams, partitions, expected = RANGE[name]
    assert written(assign_range(consumers(streams), topics(**partitions))) == expected


@pytest.mark.parametrize("name", ROUND_ROBIN)
def test_round_robin(name: str) -> None:
    streams, partitions, expected = ROUND_ROBIN[name]
    assert written(assign_round_robin(consumers(streams), topics(**partitions))) == expected


def test_round_robin_needs_the_same_topics_and_streams() -> None:
    group = consumers(
        {"c1": {"orders": 3, "payments": 3}, "c2": {"orders": 2, "payments": 2, "clicks": 2}}
    )
    with pytest.raises(AssignorError) as caught:
        assign_round_robin(group, topics(orders=3, payments=2))
    assert caught.value.type == "IllegalArgumentException"
    assert caught.value.message == (
        "requirement failed: Round-robin assignment is allowed only if all consumers in the group "
        "subscribe to the same topics, AND if the stream counts across topics are identical for a "
        "given consumer instance.\n"
        "Topic orders has the following available consumer streams: "
        "Set(c1-2, c1-0, c2-0, c2-1, c1-1)\n"
        "Topic clicks has the following available consumer streams: Set(c2-0, c2-1)\n"
    )


def test_round_robin_of_nothing_fails() -> None:
    with pytest.raises(AssignorError, match=r"^NullPointerException$"):
        assign_round_robin(consumers({"a": {}}), topics(t=1))


@pytest.mark.parametrize("assign", [assign_range, assign_round_robin])
def test_no_streams_at_all_fail(assign: object) -> None:
    assert callable(assign)
    with pytest.raises(AssignorError, match="AssertionError: assertion failed"):
        assign(consumers({"a": {"t": 1}, "b": {"t": 0}}), topics(t=1))
