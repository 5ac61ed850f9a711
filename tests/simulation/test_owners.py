"""Who owns and reads partitions, from when until when."""

from __future__ import annotations

from kgroup.simulation.clock import Clock
from kgroup.simulation.timeline import Owners, Ownership, Standstill

PARTITION = ("t", 0)


def test_who_is_told_again_of_what_it_owns_has_owned_it_since_the_first_time() -> None:
    owners = Owners(clock := Clock())
    owners.exists(PARTITION)
    clock.run(10)
    owners.begin("a", [PARTITION])
    clock.run(20)
    owners.begin("a", [PARTITION])
    clock.run(30)
    owners.end("a", [PARTITION])
    assert list(owners.ownerships) == [Ownership(*PARTITION, "a", 10, 30)]


def test_a_partition_is_without_owner_when_the_last_one_has_gone() -> None:
    owners = Owners(clock := Clock())
    owners.exists(PARTITION)
    clock.run(10)
    owners.begin("a", [PARTITION])
    owners.begin("b", [PARTITION])
    owners.stand("b", [PARTITION], is_still=True)
    clock.run(20)
    owners.end("a", [PARTITION])
    clock.run(30)
    owners.end("b", [PARTITION])
    clock.run(35)
    assert owners.unowned.total_ms(PARTITION) == 10 + 5
    assert owners.unread.total_ms(PARTITION) == 10 + 15
    assert list(owners.standstills) == [Standstill(*PARTITION, "b", 10, 30)]
