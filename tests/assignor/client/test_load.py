"""Loads of members against a comparison of all of them."""

from __future__ import annotations

import random

from kgroup.assignor.client.load import Loads
from tests.examples import examples


def test_least_loaded_members_as_loads_change() -> None:
    for seed in range(examples(20)):
        draw = random.Random(seed)
        members = [f"m{number}" for number in range(draw.choice([1, 5, 50]))]
        loads = {member: draw.randint(0, 5) for member in members}
        takers = {f"t{size}": draw.sample(members, min(size, len(members))) for size in range(8)}
        takers |= {"all": members, "others": ["gone"], "few": [*members[-2:], "gone"]}
        kept = Loads({member: range(load) for member, load in loads.items()}, takers)
        for _ in range(50):
            in_order = sorted(members, key=lambda member: (loads[member], member))
            assert list(kept.in_order()) == in_order
            assert kept.are_even == (max(loads.values()) - min(loads.values()) < 2)
            for topic, able in takers.items():
                least = next((member for member in in_order if member in able), None)
                assert kept.least(topic) == least
            changed = draw.choice(members)
            loads[changed] = draw.randint(0, 7)
            kept.set(changed, loads[changed])
