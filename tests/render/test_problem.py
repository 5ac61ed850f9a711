from __future__ import annotations

import pytest

from kgroup.errors import ProblemKind
from kgroup.model.problem import Problem
from kgroup.render.cell import problem_line, problem_texts


def test_a_place_in_a_file() -> None:
    problem = Problem(
        ProblemKind.BAD_CRC,
        "Expected x, found y.",
        path="a.log",
        position=42,
        offsets_partition=3,
        offset=7,
    )
    assert problem_line(problem) == (
        "a.log, byte 42, partition 3 of __consumer_offsets, offset 7: bad-crc: Expected x, found y."
    )


def test_a_group() -> None:
    problem = Problem(ProblemKind.NOT_FOUND, "The group does not exist.", group_id="{a}\n'b'")
    assert problem_line(problem) == ("group \"{a}\\n'b'\": not-found: The group does not exist.")


def test_a_partition_of_a_topic() -> None:
    problem = Problem(ProblemKind.DENIED, "No.", group_id="g", topic="orders", partition=3)
    assert problem_line(problem) == "group 'g', orders-3: denied: No."


@pytest.mark.parametrize("reason", ["orders-3: No.", "The leader of orders-3 says no: orders-31."])
def test_a_partition_that_the_reason_names_is_not_named_twice(reason: str) -> None:
    problem = Problem(ProblemKind.DENIED, reason, topic="orders", partition=3)
    assert problem_line(problem) == f"denied: {reason}"


def test_a_partition_is_told_from_one_whose_number_begins_alike() -> None:
    problem = Problem(ProblemKind.DENIED, "Not orders-31.", topic="orders", partition=3)
    assert problem_line(problem) == "orders-3: denied: Not orders-31."


def test_a_topic() -> None:
    problem = Problem(ProblemKind.NOT_FOUND, "The topic does not exist.", topic="orders")
    assert problem_line(problem) == "topic 'orders': not-found: The topic does not exist."


def test_nowhere() -> None:
    assert (
        problem_line(Problem(ProblemKind.MORE, "5 further problems."))
        == "more: 5 further problems."
    )


def test_equal_problems_of_partitions_share_a_line() -> None:
    def unled(topic: str, partition: int) -> Problem:
        text = f"{topic}-{partition}: No leader."
        return Problem(ProblemKind.NO_LEADER, text, topic=topic, partition=partition)

    def unloaded(number: int, broker: int) -> Problem:
        text = f"__consumer_offsets-{number} is not loaded by broker {broker}."
        kind = ProblemKind.NO_COORDINATOR
        return Problem(kind, text, offsets_partition=number, broker=broker)

    torn = Problem(ProblemKind.TORN_TAIL, "Cut.", path="a.log", offsets_partition=3, offset=7)
    shut = Problem(ProblemKind.NOT_AUTHORIZED, "shut: No.", topic="shut")
    problems = [
        *(unled("a", 1), unloaded(1, 1), unled("a", 10), unled("b", 1), torn, torn, shut, shut),
        *(unloaded(11, 1), unloaded(12, 2)),
    ]
    torn_line = "a.log, partition 3 of __consumer_offsets, offset 7: torn-tail: Cut."
    assert problem_texts(problems) == [
        "no-leader: a-1: No leader. Likewise: a-10, b-1.",
        "partition 1 of __consumer_offsets: no-coordinator: __consumer_offsets-1 is not loaded by "
        "broker 1. Likewise: __consumer_offsets-11.",
        *(torn_line, torn_line),
        *(problem_line(shut), problem_line(shut)),
        problem_line(unloaded(12, 2)),
    ]
