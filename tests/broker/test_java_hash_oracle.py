"""The order of Java's HashMap, against a JVM."""

import json
import random
from pathlib import Path

from kgroup.assignor.java.java_hash import JavaHashMap, string_hash, utf16
from tests.broker import maven

KAFKA = "4.3.1"  # for its JSON library
CASES = 3000
SEED = 20261121


def test_hash_order() -> None:
    source = Path(__file__).parent / "java" / "HashOrder.java"
    classes = maven.compile_java([source], KAFKA)
    generator = random.Random(SEED)
    cases = [_case(generator) for _ in range(CASES)]
    lines = "".join(json.dumps(case) + "\n" for case in cases)
    done = maven.run_java(KAFKA, "kgroup.HashOrder", [], input=lines.encode(), classes=classes)
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    differences = [
        (case, answer)
        for case, answer in zip(cases, answers, strict=True)
        if _order(case) != answer
    ]
    print(f"{CASES} cases, {len(differences)} differences")
    assert not differences, differences[0]


def _order(case: dict[str, object]) -> list[str]:
    table = JavaHashMap[str](case["capacity"])  # type: ignore[arg-type]
    for kind, key in case["steps"]:  # type: ignore[attr-defined]
        if kind == "remove":
            table.remove(key)
        else:
            table.put(key, string_hash(key), utf16(key), prepend=kind == "compute")
    return list(table)


def _case(generator: random.Random) -> dict[str, object]:
    """Keys of a few kinds: many of them with equal hashes, or in one bucket of a small table."""
    capacity = generator.choice([None, None, 0, 1, 3, 16, 64, 100])
    collide = generator.random() < 0.6
    kinds = ["put"] if generator.random() < 0.5 else ["put", "compute"]
    removes = generator.choice([0, 0, 0.1, 0.3, 0.5])
    steps: list[tuple[str, str]] = []
    present: list[str] = []
    for _ in range(generator.choice([5, 20, 70, 300])):
        key = _key(generator, collide)
        steps.append((generator.choice(kinds), key))
        if key not in present:
            present.append(key)
        while present and generator.random() < removes:
            steps.append(("remove", present.pop(generator.randrange(len(present)))))
    return {"capacity": capacity, "steps": steps}


def _key(generator: random.Random, collide: bool) -> str:
    if not collide:
        return "".join(
            generator.choices("abcxyz-0123456789é\U0001f600", k=generator.randint(0, 12))
        )
    if generator.random() < 0.5:  # "Aa" and "BB" have one hash
        return "".join(generator.choices(["Aa", "BB"], k=5))
    # 64 apart in the last unit: one bucket of a table of 64, unless the high bits differ
    return generator.choice(["t", "u"]) + chr(0x100 + 64 * generator.randrange(40))
