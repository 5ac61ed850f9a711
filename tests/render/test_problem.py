from kgroup.errors import ProblemKind
from kgroup.model.problem import Problem
from kgroup.render.problem import problem_line


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


def test_nowhere() -> None:
    assert (
        problem_line(Problem(ProblemKind.MORE, "5 further problems."))
        == "more: 5 further problems."
    )
