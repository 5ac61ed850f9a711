"""The sticky assignor where members subscribe to different topics, by what has to hold of it."""

from __future__ import annotations

from kgroup.assignor.strategy import assign
from kgroup.operation.assign.spec import read_spec
from tests.assignor.case.notation import Assignor, case, member
from tests.assignor.invariant import broken


def test_a_partition_that_moves_twice_has_come_from_its_first_owner() -> None:
    """`PartitionMovements`: were it noted as its second owner's, moves would go on for ever."""
    asked = case(
        "t0 5, t1 9, t2 9, t3 9",
        member("m0", "t0", "", 4),
        member("m1", "t3 t2 t1 t0", "t1 1-2, t1 4-5", 4),
        member("m2", "t2 t0 t1", "t2 0-8", 3),
        member("m3", "t3 t0", "t0 0-4, t3 0-8", 4),
        member("m4", "t0 t1", "t1 0-3, t1 6-8", 4),
        member("m5", "t3 t2", "", 3),
    )
    spec = read_spec(asked.spec(Assignor("classic", "sticky", "4.3.1")))
    assert broken(spec, assign(spec)) == []
