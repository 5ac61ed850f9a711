"""The order of Java's HashMap, against a JVM."""

from __future__ import annotations

import random

from tests.assignor.case.hash_map import ORDERS, MapCase, Step, own_order
from tests.assignor.record import as_text, ask_java
from tests.broker.assignor_oracle import ask_hash_order

CASES = 3000
SEED = 20261121


def test_hash_order() -> None:
    generator = random.Random(SEED)
    cases = [_case(generator) for _ in range(CASES)]
    differences = [
        (case, answer)
        for case, answer in zip(cases, ask_hash_order(cases), strict=True)
        if own_order(case) != answer
    ]
    print(f"{CASES} cases, {len(differences)} differences")
    assert not differences, differences[0]


def test_what_is_recorded_is_what_java_answers() -> None:
    assert ORDERS.read_text("utf-8") == as_text(ask_java())


def _case(generator: random.Random) -> MapCase:
    """Keys of a few kinds: many of them with equal hashes, or in one bucket of a small table."""
    capacity = generator.choice([None, None, 0, 1, 3, 16, 64, 100])
    collide = generator.random() < 0.6
    kinds = ["put"] if generator.random() < 0.5 else ["put", "compute"]
    removes = generator.choice([0, 0, 0.1, 0.3, 0.5])
    steps: list[Step] = []
    present: list[str] = []
    for _ in range(generator.choice([5, 20, 70, 300])):
        key = _key(generator, collide)
        steps.append((generator.choice(kinds), key))
        if key not in present:
            present.append(key)
        while present and generator.random() < removes:
            steps.append(("remove", present.pop(generator.randrange(len(present)))))
    return MapCase(steps, capacity)


def _key(generator: random.Random, collide: bool) -> str:
    if not collide:
        return "".join(
            generator.choices("abcxyz-0123456789é\U0001f600", k=generator.randint(0, 12))
        )
    if generator.random() < 0.5:  # "Aa" and "BB" have one hash
        return "".join(generator.choices(["Aa", "BB"], k=5))
    # 64 apart in the last unit: one bucket of a table of 64, unless the high bits differ
    return generator.choice(["t", "u"]) + chr(0x100 + 64 * generator.randrange(40))
