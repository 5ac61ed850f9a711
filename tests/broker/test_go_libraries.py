"""Sarama and kafka-go themselves: odd groups, and what they leave to chance. Needs Go."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from kgroup.operation.assign.outcome import dry_run
from kgroup.operation.assign.spec import read_spec
from tests.assignor.case.notation import Case, answer_of, assigned, case, member
from tests.assignor.client.answers import MODELS, Model, history
from tests.assignor.client.oracle import kafka_go, sarama
from tests.examples import examples

IN_GO = [model for model in MODELS if model.library in ("sarama", "kafka-go")]
BY_CHANCE = [model for model in IN_GO if "sticky" in model.strategy or "rack" in model.strategy]
CASES = {
    "nobody-subscribes": case("t 2", member("a"), member("b")),
    "one-subscribes-to-nothing": case("t 3", member("a"), member("b", "t"), member("c", "t")),
    "topic-is-missing": case("t 3", member("a", "t gone"), member("b", "t")),
    "no-partitions": case("t 0, u 2", member("a", "t u"), member("b", "t u")),
    "order-of-topics": case("b 3, a 2, é 1", member("x", "b a é"), member("y", "a b é")),
    "order-of-ids": case("t 5", member("\U0001f600", "t"), member("￿", "t"), member("Z", "t")),
    "order-of-partitions": case("t 12, t-1 3", member("a", "t t-1"), member("b", "t t-1")),
    "claimed-twice": case(
        "t 4", member("a", "t", "t 0-2", 4), member("b", "t", "t 1-3", 4), member("c", "t")
    ),
    "claimed-in-two-generations": case(
        "t 3", member("a", "t", "t 0-1", 4), member("b", "t", "t 0-2", 5), member("c", "t")
    ),
    "claimed-in-generation-0": case("t 3", member("a", "t", "t 0-2", 0), member("c", "t")),
    "no-longer-subscribed": case(
        "t 3, u 3", member("a", "t", "t 0-2, u 0-2", 4), member("b", "t u", "", 4)
    ),
    "partition-is-gone": case("t 2", member("a", "t", "t 0-5", 4), member("b", "t")),
    "topic-is-gone": case("t 2", member("a", "t", "t 0-1, gone 0", 4), member("b", "t")),
    "static": case("t 5", member("z", "t"), member("a", "t", instance_id="i"), member("b", "t")),
    "one-has-all-of-its-own": case(
        "t 4, u 9", member("a", "t", "t 0-3", 4), member("b", "u", "u 0-8", 4), member("c", "u")
    ),
}


def ask(model: Model, specs: Sequence[Mapping[str, Any]], *options: str) -> list[dict[str, Any]]:
    library = sarama.SARAMA if model.library == "sarama" else kafka_go.KAFKA_GO
    return library.ask(specs, model.version, *options, in_order=not options)


def spec_of(model: Model, asked: Case) -> dict[str, Any]:
    return {
        "id": "",
        "strategy": model.strategy,
        "client": f"{model.library}@{model.version}",
        "topics": asked.topics,
        "members": list(asked.members),
    }


pytestmark = pytest.mark.oracle_clients


@pytest.mark.parametrize("model", IN_GO, ids=str)
def test_odd_groups(model: Model) -> None:
    specs = [spec_of(model, asked) for asked in CASES.values()]
    for name, spec, answer in zip(CASES, specs, ask(model, specs), strict=True):
        assert answer_of(assigned(spec)) == answer_of(answer), name


def test_kafka_go_reads_only_the_oldest_subscriptions() -> None:
    model = next(model for model in IN_GO if model.library == "kafka-go")
    spec = spec_of(model, case("t 2", member("a", "t"), member("b", "t")))
    java = {**spec["members"][1], "client": "kafka-clients@4.3.1"}
    said = assigned({**spec, "members": [spec["members"][0], java]})
    longer = {**spec["members"][1], "more_bytes": 8}
    (answer,) = ask(model, [{**spec, "members": [spec["members"][0], longer]}])
    assert "error" in answer
    assert answer_of(said) == answer_of(answer)


@pytest.mark.parametrize("model", BY_CHANCE, ids=str)
def test_where_no_warning_is_given_chance_decides_nothing(model: Model) -> None:
    rounds = [each for seed in range(examples(20)) for each in history(model, 5000 + seed)]
    told = ask(model, [spec for spec, _ in rounds], "-runs", "30")
    certain = varied = 0
    for (spec, said), each in zip(rounds, told, strict=True):
        if "error" in said:
            continue
        answers = {owners(answer["assignment"]) for answer in each["answers"]}
        if any("determine" in warning for warning in dry_run(read_spec(spec)).warnings):
            varied += len(answers) > 1
        else:
            certain += 1
            assert answers == {owners(said["assignment"])}, spec
    assert certain
    assert varied


def owners(assignment: Mapping[str, Sequence[Any]]) -> str:
    return json.dumps({name: sorted(own) for name, own in assignment.items()}, sort_keys=True)
