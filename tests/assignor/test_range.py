"""Range with racks, by the rules of KIP-881."""

from __future__ import annotations

from tests.assignor.case.notation import Assignor, answer_of, assigned, case, member


def test_who_has_the_one_extra_partition_waits_for_no_more() -> None:
    """By hand after `RangeAssignor.assignCoPartitionedWithRackMatching` of kafka-clients 4.3.1.

    Ash takes 0 and 1, which are in its rack; 2 is too, but Ash may take no more.
    """
    asked = case(
        "orders 3 ab ab a, payments 3 ab ab a",
        member("ash", "orders payments", rack="a"),
        member("birch", "orders payments", rack="b"),
    )
    assert answer_of(assigned(asked.spec(Assignor("classic", "range", "4.3.1")))) == {
        "ash": "orders 0-1, payments 0-1",
        "birch": "orders 2, payments 2",
    }
