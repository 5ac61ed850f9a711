"""librdkafka against the one that is installed: odd groups, live ones, and what members send."""

from __future__ import annotations

import json
import subprocess
import sys
from base64 import b64decode
from pathlib import Path
from typing import Any

import pytest

from kgroup.assignor.client.librdkafka import LIBRDKAFKA
from kgroup.assignor.member_spec import MemberSpec
from tests.assignor.case.notation import Case, answer_of, assigned, case, member
from tests.assignor.client.answers import Model, comparable
from tests.assignor.client.oracle.librdkafka.ask import ask
from tests.assignor.client.oracle.librdkafka.message import assigned_in, subscription
from tests.examples import examples

VERSION = "2.16.0"
STRATEGIES = LIBRDKAFKA.strategies[VERSION]
ROWS = [
    json.loads(line)
    for line in (Path(__file__).parents[2] / "data" / "clients" / "members-librdkafka.jsonl")
    .read_text("utf-8")
    .splitlines()
]
JAVA: dict[str, Any] = {"client": "java@4.3.1"}
CASES = {
    "nobody-subscribes": case("t 2", member("a"), member("b")),
    "one-subscribes-to-nothing": case("t 3", member("a"), member("b", "t"), member("c", "t")),
    "topic-is-missing": case("t 3", member("a", "t gone"), member("b", "t", "gone 0, t 1", 4)),
    "only-missing-topics": case("t 3", member("a", "gone"), member("b", "gone", "gone 0", 4)),
    "no-partitions": case("t 0, u 2", member("a", "t u"), member("b", "t u")),
    "order-of-topics": case(
        "b 3, a 2, é 1, \uffff 2, \U0001f600 2, c 1",
        member("x", "b a é \uffff \U0001f600 c"),
        member("y", "a b é \uffff \U0001f600 c"),
        member("z", "é b"),
    ),
    "order-of-members": case("t 5", member("\U0001f600", "t"), member("\uffff", "t")),
    "claimed-twice": case(
        "t 4", member("a", "t", "t 0-2", 4), member("b", "t", "t 1-3", 4), member("c", "t")
    ),
    "claimed-in-generation-0": case(
        "t 3", member("a", "t", "t 0-2", 0), member("b", "t", "t 0-2", 0), member("c", "t")
    ),
    "claimed-in-two-generations": case(
        "t 6", member("a", "t", "t 0-3", 4), member("b", "t", "t 0-5", 5), member("c", "t")
    ),
    "claimed-twice-by-java": case(
        "t 4",
        member("a", "t", "t 0-2", 4, **JAVA),
        member("b", "t", "t 1-3", 5, **JAVA, protocol_version=1),
        member("c", "t"),
    ),
    "no-longer-subscribed": case(
        "t 3, u 3", member("a", "t", "t 0-2, u 0-2", 4), member("b", "t u", "", 4)
    ),
    "no-longer-subscribed-in-java": case(
        "t 3, u 3", member("a", "t", "t 0-2, u 0-2", 4, **JAVA), member("b", "t u", "", 4)
    ),
    "java-without-claims": case(
        "t 3", member("a", "t", **JAVA, protocol_version=0), member("b", "t")
    ),
    "racks": case(
        "t 6 ab bc, u 6 ab bc",
        member("x", "t u", rack="c"),
        member("y", "t u", "t 0-5", 4),
        member("z", "t u", rack="a"),
    ),
    "racks-with-java-without-rack": case(
        "t 6 ab bc, u 4 b",
        member("x", "t u", "t 0-5", 4, rack="c"),
        member("y", "t u", "u 0-3", 4, **JAVA),
        member("z", "t u", rack="a"),
    ),
    "racks-with-java-before-racks": case(
        "t 6 ab bc", member("x", "t", rack="c"), member("y", "t", **JAVA, protocol_version=2)
    ),
    "static-between-others": case(
        "t 5", member("z", "t"), member("a", "t", instance_id="i"), member("b", "t")
    ),
    "static-in-a-cycle": case(
        "t 7, u 5",
        member("c", "t u", instance_id="i"),
        member("b", "t u"),
        member("a", "t u", instance_id="j"),
        member("d", "t"),
        member("e", "t u", instance_id="h"),
    ),
    "partition-is-gone": case("t 2", member("a", "t", "t 0-5", 4), member("b", "t")),
}


@pytest.mark.parametrize("row", ROWS, ids="{version}-{strategy}-{round}".format_map)
def test_members_send(row: dict[str, Any]) -> None:
    """As many bytes as are foretold from what a member was assigned in the round before."""
    same = ("version", "strategy", "member_id")
    before = [
        other
        for other in ROWS
        if other["round"] == row["round"] - 1 and all(other[name] == row[name] for name in same)
    ]
    owned = [tuple(map(tuple, assigned_in(b64decode(each["assignment"])))) for each in before]
    spec = MemberSpec(
        row["member_id"],
        ("zoo", "ant", "Mole"),
        owned=owned[0] if owned else None,
        generation=row["round"] - 1 if owned else None,
    )
    (subscriber,) = LIBRDKAFKA.as_sent([spec], row["strategy"], row["version"])
    assert subscription(subscriber) == b64decode(row["subscription"])


@pytest.mark.slow
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_odd_groups(strategy: str) -> None:
    specs = [spec_of(strategy, name, each) for name, each in CASES.items()]
    answers = ask(Model("librdkafka", VERSION, strategy), specs)
    ours = {spec["id"]: answer_of(comparable(assigned(spec))) for spec in specs}
    assert ours == {spec["id"]: answer_of(each) for spec, each in zip(specs, answers, strict=True)}


def spec_of(strategy: str, name: str, asked: Case) -> dict[str, Any]:
    return {
        "id": name,
        "strategy": strategy,
        "client": f"librdkafka@{VERSION}",
        "topics": asked.topics,
        "members": list(asked.members),
    }


@pytest.mark.slow
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_live_histories(strategy: str) -> None:
    """Real consumers come and go: what they send and get is foretold."""
    module = "tests.assignor.client.oracle.librdkafka.histories"
    done = subprocess.run(
        [sys.executable, "-m", module, VERSION, strategy, str(examples(5, 10))],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
