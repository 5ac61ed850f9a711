"""`python -m tests.assignor.record`: record Kafka's answers to the named cases.

It needs JDK 17 and Maven; recording again gives the same files.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from tests.assignor.case.hash_map import MAPS, ORDERS
from tests.assignor.case.notation import Answer, Assignor, answer_of
from tests.assignor.case.table import CASES
from tests.broker.assignor_oracle import ask, ask_hash_order


def ask_kafka(assignor: Assignor) -> dict[str, Answer]:
    """Ask Kafka's own assignor for its answers to the named cases."""
    cases = CASES[assignor]
    specs = [case.spec(assignor) for case in cases.values()]
    answers = map(answer_of, ask(specs, assignor.protocol, assignor.kafka_version))
    return dict(zip(cases, answers, strict=True))


def ask_java() -> dict[str, Answer]:
    """Ask a JVM for the orders of the named maps."""
    return dict(zip(MAPS, map(" ".join, ask_hash_order(MAPS.values())), strict=True))


def as_text(answers: Mapping[str, Answer]) -> str:
    """Write answers as JSON, one on a line."""
    lines = (
        f" {json.dumps(name, ensure_ascii=False)}: {json.dumps(answer, ensure_ascii=False)}"
        for name, answer in answers.items()
    )
    return "{\n" + ",\n".join(lines) + "\n}\n"


def main() -> None:
    ORDERS.write_text(as_text(ask_java()), "utf-8")
    for assignor in CASES:
        print(assignor, flush=True)
        assignor.answers.write_text(as_text(ask_kafka(assignor)), "utf-8")


if __name__ == "__main__":
    main()
