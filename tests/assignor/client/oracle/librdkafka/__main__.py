"""Asks librdkafka what its leaders assign.

    python -m tests.assignor.client.oracle.librdkafka LIBRARY < specs > answers

LIBRARY is the file of a wheel of confluent-kafka, `confluent_kafka.libs/librdkafka-*.so.1`. Reads
specs of one strategy and writes an answer for each, in their order. Where the process of a leader
ends the error is the signal; where it never ends it is EndlessLoop.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

from tests.assignor.client.oracle.librdkafka.leader import ENDLESS

__all__ = ["ask"]

Answer = dict[str, Any]


def ask(library: str, specs: Sequence[dict[str, Any]]) -> list[Answer]:
    """Ask for each spec; those in whose midst a leader ends again, each by itself.

    Raises:
        RuntimeError: a leader ends for no reason of its own.
    """
    answers: dict[str, Answer] = {}
    waiting = list(specs)
    while waiting:
        begun, status = _lead(library, waiting, answers)
        for spec in waiting:
            if spec["id"] in begun and spec["id"] not in answers:
                _, own = _lead(library, [spec], answers)
                if own:
                    answers[spec["id"]] = _failure(spec["id"], own)
        left = [spec for spec in waiting if spec["id"] not in answers]
        if len(left) == len(waiting):
            raise RuntimeError(f"leaders of librdkafka end with status {status} and say nothing")
        waiting = left
    return [answers[spec["id"]] for spec in specs]


def _lead(
    library: str, specs: Sequence[dict[str, Any]], answers: dict[str, Answer]
) -> tuple[set[str], int]:
    """Let leaders assign; give what was begun, and the status they end with."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.assignor.client.oracle.librdkafka.leader", library],
        input="".join(json.dumps(spec) + "\n" for spec in specs).encode(),
        stdout=subprocess.PIPE,
        check=False,
    )
    begun = set()
    for line in done.stdout.splitlines():
        said = json.loads(line)
        if "begun" in said:
            begun.add(said["begun"])
        else:
            answers[said["id"]] = said
    return begun, done.returncode


def _failure(spec_id: str, status: int) -> Answer:
    if status not in (ENDLESS, -signal.SIGSEGV, -signal.SIGABRT, -signal.SIGFPE):
        raise RuntimeError(f"the leader for {spec_id} ends with status {status}")
    kind = "EndlessLoop" if status == ENDLESS else signal.Signals(-status).name
    return {"id": spec_id, "error": {"type": kind, "message": None}}


def main() -> None:
    """Ask for the specs of standard input."""
    for answer in ask(sys.argv[1], [json.loads(line) for line in sys.stdin]):
        print(json.dumps(answer))


if __name__ == "__main__":
    main()
