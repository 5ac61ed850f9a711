from __future__ import annotations

import pytest

from kgroup.errors import ProblemKind
from kgroup.model.problem import Problem
from kgroup.render.cell import problem_line


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
