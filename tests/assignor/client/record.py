"""Ask client libraries for their answers: `python -m tests.assignor.client.record LIBRARY...`.

Each needs what it is written in: Go, Node, or wheels. Prints for each strategy of each version the
number of histories, of answers and of differences, and writes the answers where there are none.
"""

from __future__ import annotations

import json
import sys
from importlib import import_module

from tests.assignor.case.notation import answer_of
from tests.assignor.client.answers import MODELS, Answers, Model, digest, history

__all__ = ["record"]

HISTORIES = 2000
_IN_FULL = 10


def record(model: Model, histories: int = HISTORIES) -> int:
    """Compare a model with its library, and write down what that answered.

    Returns:
        the number of answers that differ.
    """
    oracle = import_module(f"tests.assignor.client.oracle.{model.library.replace('-', '_')}")
    rounds = [list(history(model, seed)) for seed in range(histories)]
    answers = oracle.ask(model, [spec for each in rounds for spec, _ in each])
    differences = 0
    by_history = []
    for at, each in enumerate(rounds):
        told = answers[at * len(each) : (at + 1) * len(each)]
        for (spec, said), answer in zip(each, told, strict=True):
            if answer_of(said) != answer_of(answer):
                if not differences:
                    print(f"{model}, history {at}:", json.dumps(spec), answer, said, sep="\n")
                differences += 1
        by_history.append(told)
    print(f"{model}: {histories} histories, {len(answers)} answers, {differences} differences")
    if not differences:
        in_full = [[answer_of(each) for each in told] for told in by_history[:_IN_FULL]]
        Answers(in_full, [digest(told) for told in by_history]).write(model.path)
    return differences


if __name__ == "__main__":
    chosen = [model for model in MODELS if not sys.argv[1:] or model.library in sys.argv[1:]]
    sys.exit(min(1, sum(record(model) for model in chosen)))
