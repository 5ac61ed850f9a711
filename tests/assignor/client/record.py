"""Ask client libraries anew: `python -m tests.assignor.client.record LIBRARY...`.

Each needs what it is written in: Go, Node, or wheels. For each strategy of each version it writes
down what members send, franz-go's answers to odd groups, and the answers to random histories, if
kgroup has the same; of these it prints the number of histories, of answers and of differences.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Iterable, Iterator
from importlib import import_module
from typing import Any

from kgroup.assignor.group_spec import CLIENTS
from tests.assignor.case.notation import answer_of
from tests.assignor.client import franz_go_case
from tests.assignor.client.answers import MODELS, Answers, Model, digest, file_name, history
from tests.assignor.client.members import TOPICS, path_of
from tests.assignor.client.oracle.librdkafka.rounds import rounds as live_rounds

_HISTORIES = 2000
_IN_FULL = 10
_PROGRAM, _HOST = "till", "shop"
"""Unknown parts of the default client id of kafka-go."""
_UUIDS = ("1b89d8d5-2f53-4a3c-9a0e-0f6f0a6a3c11", "7e2f4b0a-61a7-4c55-8d2b-93f0c2d8b7a4")
"""The coordinator makes a member id of the client id and one."""
_RACKS = ({"rack": "rack-a"}, {"rack": None})
_WITH_RACKS = ("franz-go", "sarama", "kafka-go")
_TOPICS = {name: {"partitions": count} for name, count in TOPICS.items()}


def ask(model: Model, specs: list[dict[str, Any]], *options: str) -> list[dict[str, Any]]:
    """Ask the library of a model; see the modules of `oracle`."""
    name = f"tests.assignor.client.oracle.{file_name(model.library).replace('-', '_')}"
    answers: list[dict[str, Any]] = import_module(name).ask(model, specs, *options)
    return answers


def _record_histories(model: Model) -> int:
    """Compare a model with its library, and write down what that answered.

    Returns:
        the number of answers that differ.
    """
    rounds = [list(history(model, seed)) for seed in range(_HISTORIES)]
    answers = ask(model, [spec for each in rounds for spec, _ in each])
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
    print(f"{model}: {_HISTORIES} histories, {len(answers)} answers, {differences} differences")
    if not differences:
        in_full = [[answer_of(each) for each in told] for told in by_history[:_IN_FULL]]
        Answers(in_full, [digest(told) for told in by_history]).write(model)
    return differences


def _record_odd_groups(models: list[Model]) -> None:
    told = {}
    for model in models:
        specs = {name: franz_go_case.spec_of(model, name) for name in franz_go_case.CASES}
        answers = ask(model, list(specs.values()))
        told[str(model)] = dict(zip(specs, map(answer_of, answers), strict=True))
    franz_go_case.write(told)


def _record_members(models: list[Model]) -> None:
    rows = [row for model in models for row in _rows(model)]
    text = "".join(json.dumps(row) + "\n" for row in rows)
    path_of(models[0].library).write_text(text, "utf-8")


def _rows(model: Model) -> Iterator[dict[str, Any]]:
    """Yield what members send and get, each encoded by the library, with its default client id."""
    client_id = CLIENTS[model.library].client_id
    for word in (_PROGRAM, _HOST):
        client_id = client_id.replace("{word}", word, 1)
    client_id = client_id.format(version=model.version)
    racks: tuple[dict[str, Any], ...] = _RACKS if model.library in _WITH_RACKS else ({}, {})
    first, second = (
        {"member_id": f"{client_id}-{uuid}", "topics": list(TOPICS), **rack}
        for uuid, rack in zip(_UUIDS, racks, strict=True)
    )
    rounds: Iterable[dict[str, Any]]
    if model.library == "librdkafka":
        rounds = asyncio.run(live_rounds(model, _TOPICS, first, second))
    else:
        rounds = _rounds(model, first, second)
    for number, told in enumerate(rounds, 1):
        for member, rack in zip((first, second)[:number], racks, strict=False):
            yield {
                "library": model.library,
                "version": model.version,
                "strategy": model.strategy,
                "client_id": client_id,
                "round": number,
                "member_id": member["member_id"],
                **rack,
                "subscription": told["subscriptions"][member["member_id"]],
                "assignment": told["assignments"].get(member["member_id"]),
            }


def _rounds(
    model: Model, first: dict[str, Any], second: dict[str, Any]
) -> Iterator[dict[str, Any]]:
    """Let a member join (round 1), and again with what it got, and a second one (round 2).

    The first one leads. There is no round 2 where the library fails: sticky of kafka-python 2.0.2.
    """
    spec = {"id": "", "strategy": model.strategy, "topics": _TOPICS, "members": [first]}
    (told,) = ask(model, [spec], "-bytes")
    yield told
    owned = told["assignment"][first["member_id"]]
    again = first | {"owned": owned, "generation": 1}
    (told,) = ask(model, [spec | {"members": [again, second]}], "-bytes")
    if "error" not in told:
        yield told


def _main(libraries: list[str]) -> int:
    differences = 0
    for library in libraries or dict.fromkeys(model.library for model in MODELS):
        models = [model for model in MODELS if model.library == library]
        _record_members(models)
        if library == "franz-go":
            _record_odd_groups(models)
        differences += sum(map(_record_histories, models))
    return min(1, differences)


if __name__ == "__main__":
    sys.exit(_main(sys.argv[1:]))
