"""Odd groups of franz-go, and what its members send.

`python -m tests.assignor.client.record_franz_go` writes down what franz-go answers to these groups,
and the bytes that it encodes. Needs Go.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.assignor.case.notation import Case, answer_of, case, member
from tests.assignor.case.situation import EVERY, OWNING
from tests.assignor.case.sticky import CLAIM
from tests.assignor.client.answers import MODELS, Model

__all__ = ["CASES", "FRANZ_GO_MODELS", "TOPICS", "answers", "members", "spec_of"]

_FOLDER = Path(__file__).parents[2] / "data" / "clients"
_ANSWERS = _FOLDER / "cases-franz-go.json.gz"
_MEMBERS = _FOLDER / "members-franz-go.jsonl"
_UUIDS = ("1b89d8d5-2f53-4a3c-9a0e-0f6f0a6a3c11", "7e2f4b0a-61a7-4c55-8d2b-93f0c2d8b7a4")
"""The coordinator makes a member id of the client id and one."""

TOPICS = {"zoo": 3, "ant": 4, "Mole": 2}
"""Partitions of the topics to which all of `members` subscribe, in the order of the program."""

FRANZ_GO_MODELS = [model for model in MODELS if model.library == "franz-go"]

CASES: Mapping[str, Case] = {
    **EVERY,
    **OWNING,
    **CLAIM,
    "the later claim is of one that does not subscribe any more": case(
        "t 4, u 2", member("a", "t", "t 0-3", 4), member("b", "u", "t 0-3, u 0-1", 5)
    ),
    "neither claim is of one that still subscribes": case(
        "t 4, u 2",
        member("a", "u", "t 0-3", 4),
        member("b", "u", "t 0-3, u 0-1", 5),
        member("c", "t"),
    ),
    "the first of the older claims is of one that does not subscribe": case(
        "t 6, u 2",
        member("a", "t", "t 0-5", 4),
        member("b", "u", "t 0-1, u 0-1", 3),
        member("c", "t u", "t 2-5", 3),
    ),
    "the older claim is of one that has two less": case(
        "t 6", member("a", "t", "t 0-5", 5), member("b", "t", "t 0-1", 4)
    ),
    "the older claim is of one that has two less, and subscriptions differ": case(
        "t 6, u 2",
        member("a", "t u", "t 0-5, u 0-1", 5),
        member("b", "t", "t 0-1", 4),
        member("c", "u"),
    ),
    "one takes back what it had": case(
        "s 5, t 3",
        member("a", "s", "s 0-4", 4),
        member("b", "s t", "t 0-2", 4),
        member("c", "s t"),
        member("d", "s"),
    ),
    "an older claim, and more claims of one that does not subscribe any more": case(
        "s 5, t 2, u 4, v 1",
        member("a", "t u v", "", 3),
        member("b", "t u v", "s 0, u 1 3", 1),
        member("c", "s u", "s 0-4, t 1, u 0-3, v 0", 2),
    ),
    "the generation of the subscription counts": case(
        "t 4",
        member("a", "t", "t 0-3", 5, subscription_generation=3),
        member("b", "t", "t 0-3", 5, subscription_generation=4),
    ),
    "static members come first, by instance id": case(
        "t 5",
        member("a", "t"),
        member("b", "t", instance_id="z"),
        member("c", "t", instance_id="y"),
    ),
    "texts beyond the first plane": case(
        "é 1, z 1, \U0001f600 1, \uffff 1",
        member("\uffff", "é z \U0001f600 \uffff"),
        member("\U0001f600", "é z \U0001f600 \uffff"),
    ),
    "one takes from all": case(
        "t 4, u 4, v 4",
        member("a", "t u", "t 0-3", 4),
        member("b", "u v", "u 0-3", 4),
        member("c", "t v", "v 0-3", 4),
        member("d", "t u v"),
    ),
}


def spec_of(model: Model, name: str) -> dict[str, Any]:
    """Give a case as `kgroup assign --spec` and the oracle take it."""
    asked = CASES[name]
    return {
        "id": name,
        "strategy": model.strategy,
        "client": f"{model.library}@{model.version}",
        "topics": asked.topics,
        "members": list(asked.members),
    }


def answers(model: Model) -> dict[str, Any]:
    """Give what franz-go answered, by case."""
    recorded: dict[str, dict[str, Any]] = json.loads(gzip.decompress(_ANSWERS.read_bytes()))
    return recorded[str(model)]


def members() -> list[dict[str, Any]]:
    """Give what members sent, and got.

    Of each strategy and version one member joins first (round 1); it joins again with what it got,
    and a second one (round 2). The first one leads.
    """
    return [json.loads(line) for line in _MEMBERS.read_text("utf-8").splitlines()]


def _record() -> None:
    from tests.assignor.client.oracle.franz_go import ask

    told = {
        str(model): {
            name: answer_of(answer)
            for name, answer in zip(
                CASES, ask(model, [spec_of(model, name) for name in CASES]), strict=True
            )
        }
        for model in FRANZ_GO_MODELS
    }
    text = json.dumps(told, indent=0, ensure_ascii=False) + "\n"
    _ANSWERS.write_bytes(gzip.compress(text.encode(), mtime=0))
    rows = [row for model in FRANZ_GO_MODELS for row in _rows(model)]
    _MEMBERS.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")


def _rows(model: Model) -> list[dict[str, Any]]:
    from tests.assignor.client.oracle.franz_go import run

    first: dict[str, Any]
    first, second = ({"member_id": f"kgo-{uuid}", "topics": list(TOPICS)} for uuid in _UUIDS)
    rows = []
    for number in (1, 2):
        joined = [first, second][:number]
        spec = {
            "id": "",
            "strategy": model.strategy,
            "topics": {name: {"partitions": count} for name, count in TOPICS.items()},
            "members": joined,
        }
        (told,) = run(model.version, [spec], "-raw", in_order=True)
        rows += [
            {
                "library": model.library,
                "version": model.version,
                "strategy": model.strategy,
                "client_id": "kgo",
                "round": number,
                "member_id": each["member_id"],
                "subscription": told["subscriptions"][each["member_id"]],
                "assignment": told["sent"][each["member_id"]],
            }
            for each in joined
        ]
        first = {**first, "owned": told["assignment"][first["member_id"]], "generation": 1}
    return rows


if __name__ == "__main__":
    _record()
