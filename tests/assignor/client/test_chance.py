"""Warnings where a library in Go leaves its answer to the random order of maps.

`tests/broker/test_go_libraries.py` asks the libraries themselves.
"""

from __future__ import annotations

from typing import Any

import pytest

from kgroup.operation.assign.outcome import dry_run
from kgroup.operation.assign.spec import read_spec
from kgroup.operation.assign.what_if import add_topic, set_partitions
from tests.assignor.case.notation import Case, case, member

OF_TWO = case("t 2", member("a", "t"), member("b", "t"))
AS_BEFORE = case("t 2", member("a", "t", "t 1", 4), member("b", "t", "t 0", 4))


def by_rack(*members: dict[str, Any]) -> Case:
    """Give members a topic whose leaders are in racks a, a, b and b."""
    return Case({"t": {"partitions": 4, "leader_racks": ["a", "a", "b", "b"]}}, members)


@pytest.mark.parametrize(
    ("client", "strategy", "group", "is_certain"),
    [
        ("sarama", "sticky", OF_TWO, False),
        ("sarama", "sticky", AS_BEFORE, True),
        ("sarama", "sticky", case("t 9", member("a", "t")), True),
        ("sarama", "cooperative-sticky", OF_TWO, False),
        ("sarama", "cooperative-sticky", AS_BEFORE, True),
        ("sarama", "range", OF_TWO, True),
        ("sarama", "roundrobin", OF_TWO, True),
        ("kafka-go", "range", OF_TWO, True),
        # whose rack comes first gets two
        (
            "kafka-go",
            "rack-affinity",
            by_rack(
                member("x", "t", rack="a"), member("y", "t", rack="b"), member("z", "t", rack="c")
            ),
            False,
        ),
        (
            "kafka-go",
            "rack-affinity",
            by_rack(member("x", "t", rack="a"), member("y", "t", rack="b")),
            True,
        ),
    ],
)
def test_warned_of_chance(client: str, strategy: str, group: Case, *, is_certain: bool) -> None:
    spec = {"strategy": strategy, "client": client, "topics": group.topics}
    found = dry_run(read_spec(spec | {"members": list(group.members)})).warnings
    assert any("determine what" in warning for warning in found) == (not is_certain)


@pytest.mark.parametrize("listed", [[1, 0, 2], [0, 1, 2]])
@pytest.mark.parametrize("takers", [1, 2])
@pytest.mark.parametrize(
    ("client", "strategy"),
    [("kafka-go", "range"), ("kafka-go", "roundrobin"), ("kafkajs", "RoundRobinAssigner")],
)
def test_warned_of_new_partitions_where_brokers_do_not_list_by_number(
    client: str, strategy: str, takers: int, listed: list[int]
) -> None:
    spec = {
        "strategy": strategy,
        "client": client,
        "topics": {"t": {"partitions": 3, "listed": listed}, "u": {"partitions": 3}},
        "members": [member(each, "t u") for each in "ab"[:takers]],
    }
    group = read_spec(spec)
    is_certain = takers == 1 or listed == [0, 1, 2]
    for changed in (set_partitions(group, "u", 4), add_topic(group, "v", 2)):
        found = dry_run(changed).warnings
        assert any("determine what" in warning for warning in found) == (not is_certain)
    assert not any("determine what" in warning for warning in dry_run(group).warnings)
