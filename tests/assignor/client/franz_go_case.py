"""Odd groups of franz-go, and what it answered to them, recorded (see `record`)."""

from __future__ import annotations

import gzip
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.assignor.case.notation import Case, case, member
from tests.assignor.case.situation import EVERY, OWNING
from tests.assignor.case.sticky import CLAIM
from tests.assignor.client.answers import MODELS, Model

_ANSWERS = Path(__file__).parents[2] / "data" / "clients" / "cases-franz-go.json.gz"

_IN_RACKS = {name: {"partitions": 4, "leader_racks": ["b", "b", "a", "a"]} for name in ("t", "u")}
_OF_ONE_TOPIC = member("o", "t", rack="b")
_OF_BOTH = [member("m", "t u", rack="a"), member("n", "t u", rack="b")]

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
    "who leads knows the racks of both topics": Case(_IN_RACKS, [*_OF_BOTH, _OF_ONE_TOPIC]),
    "who leads knows the racks of one topic": Case(_IN_RACKS, [_OF_ONE_TOPIC, *_OF_BOTH]),
    "nobody is in one rack, and in another there is more than a share": Case(
        {"t": {"partitions": 7, "leader_racks": ["", "c", "a", "a", None, "a", "a"]}},
        [member("m", "t", rack="a"), member("n", "t", rack="b"), member("o", "t", rack="")],
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
    """Return what franz-go answered, by case."""
    recorded: dict[str, dict[str, Any]] = json.loads(gzip.decompress(_ANSWERS.read_bytes()))
    return recorded[str(model)]


def write(told: Mapping[str, Any]) -> None:
    """Record answers, by model and case."""
    text = json.dumps(told, indent=0, ensure_ascii=False) + "\n"
    _ANSWERS.write_bytes(gzip.compress(text.encode(), mtime=0))
