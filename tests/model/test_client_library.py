"""Libraries are told from what their members sent, and no library is taken for another one."""

from __future__ import annotations

import gzip
import json
from base64 import b64decode
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from kgroup.model import client_library
from kgroup.model.client_library import (
    Certainty,
    Recognition,
    leading_library,
    readable,
    recognize,
    recognize_again,
)
from kgroup.protocol.record.consumer_protocol import decode_assignment, decode_subscription
from tests.broker.client.program import WITH_LIBRDKAFKA
from tests.model.records import classic, classic_member, groups

FOLDER = Path(__file__).parents[1] / "data" / "clients"
OWN_IDS = ("till-4", "shop")
"""Client ids that no library makes up."""

TOLD_BY_BYTES = {
    ("kafka-clients", "cooperative-sticky"): {"3.9.2", "4.3.1"},
    ("librdkafka", "range"): {"1.10.1", "2.0.2", "2.16.1"},
    ("librdkafka", "roundrobin"): {"1.10.1", "2.0.2", "2.16.1"},
    ("franz-go", "cooperative-sticky"): {"1.18.1"},  # later ones are not, if they have a rack
    ("kafka-go", "rack-affinity"): {"0.4.42", "0.4.51"},
    ("kafkajs", "RoundRobinAssigner"): {"1.16.0"},  # kafka-ts sends what later ones do
}
"""Versions of which every member is certain by its bytes, whoever leads.

1.10.1 is @confluentinc/kafka-javascript, which contains librdkafka 2.15.1.
"""

LEADERS_TOLD = {
    "kafka-clients": {"2.8.2", "3.9.2", "4.3.1"},
    "librdkafka": {"1.10.1", "2.16.1"},
    "franz-go": {"1.18.1", "1.21.0", "1.22.3"},
    "kafka-go": {"0.4.42", "0.4.51"},
    "kafkajs": {"1.16.0"},
    "@platformatic/kafka": {"1.35.0"},
}
"""Versions whose leaders are certain by bytes with every strategy."""


@dataclass(frozen=True)
class Line:
    """What was recorded of a member: by `tests.broker.client.record`, or of an encoder alone."""

    library: str
    strategy: str
    client_id: str
    row: dict[str, Any]

    def member(self, *, assignment: bytes | None = None) -> dict[str, Any]:
        """The member, with its own or another one's assignment."""
        said = _bytes(self.row["subscription"])
        given = _bytes(self.row.get("assignment") or "") if assignment is None else assignment
        return {
            "memberId": self.row.get("member_id", self.client_id),
            "clientId": self.client_id,
            "groupInstanceId": self.row.get("instance_id"),
            "subscription": decode_subscription(said, self.strategy),
            "assignment": decode_assignment(given, self.strategy),
        }


def _bytes(text: str) -> bytes:
    try:
        return bytes.fromhex(text)
    except ValueError:
        return b64decode(text, validate=True)


@cache
def recorded() -> list[Line]:
    texts = [path.read_bytes() for path in sorted(FOLDER.glob("members-*.jsonl"))]
    texts.append(gzip.decompress((FOLDER / "live-members.jsonl.gz").read_bytes()))
    rows = [json.loads(line) for text in texts for line in text.splitlines()]
    return [
        Line(_library(row), row["strategy"], row.get("client_id") or "mine", row)
        for row in [*rows, *_of_cooperative_sarama()]
    ]


def _library(row: dict[str, Any]) -> str:
    """The library whose bytes these are."""
    name: str = row["library"].lower()
    return "librdkafka" if name in WITH_LIBRDKAFKA else name


def _of_cooperative_sarama() -> Iterator[dict[str, Any]]:
    """The members of a group of Sarama 1.61.1, before and after its leader left."""
    path = FOLDER.parent / "field" / "sarama-cooperative.recorded.json"
    recorded = json.loads(path.read_text("utf-8"))
    for number, (when, leader) in enumerate((("before", "leader"), ("after", "leader1"))):
        for member in recorded[when]["members"]:
            yield {
                **member,
                "library": "sarama",
                "version": "1.61.1",
                "protocol_version": "default",
                "broker": "4.3.1",
                "group_id": "grp-2129",
                "round": number,
                "strategy": "cooperative-sticky",
                "is_leader": member["member_id"] == recorded[leader],
            }


def rounds() -> Iterator[list[Line]]:
    """What was recorded of whole groups, round by round."""
    lines: dict[tuple[str, ...], list[Line]] = defaultdict(list)
    for line in recorded():
        if "group_id" in line.row:
            key = (line.row["broker"], line.row["group_id"], str(line.row["round"]))
            lines[key].append(line)
    yield from lines.values()


def told(
    group: list[Line], *, leader_known: bool, client_id: str | None = None
) -> list[Recognition]:
    leader = next(line.row["member_id"] for line in group if line.row["is_leader"])
    members = [line.member() for line in group]
    if client_id is not None:
        members = [member | {"clientId": client_id} for member in members]
    group_id = group[0].row["group_id"]
    return recognize(group_id, group[0].strategy, leader if leader_known else None, members)


@pytest.mark.parametrize("leader_known", [True, False])
def test_no_member_of_a_group_is_taken_for_another_librarys(leader_known: bool) -> None:
    seen = set()
    for group in rounds():
        for line, found in zip(group, told(group, leader_known=leader_known), strict=True):
            own = line.library
            assert found.name in (own, None)
            assert own in found.candidates
            assert found.evidence
            if found.name is None:
                sure = TOLD_BY_BYTES.get((line.library, line.strategy), ())
                assert line.row["version"] not in sure
            else:
                seen.add((line.library, line.row["version"]))
    every = {(line.library, line.row["version"]) for group in rounds() for line in group}
    assert seen == every
    assert len(every) >= 20


def test_members_and_leaders_whose_bytes_suffice() -> None:
    members: dict[tuple[str, str], set[str]] = defaultdict(set)
    leaders: dict[str, set[str]] = defaultdict(set)
    all_members: dict[tuple[str, str], set[str]] = defaultdict(set)
    all_leaders: dict[str, set[str]] = defaultdict(set)
    for group in rounds():
        for line, found in zip(
            group, told(group, leader_known=True, client_id="mine"), strict=True
        ):
            version, is_certain = line.row["version"], found.certainty is Certainty.CERTAIN
            (members if is_certain else all_members)[line.library, line.strategy].add(version)
            if line.row["is_leader"]:
                (leaders if is_certain else all_leaders)[line.library].add(version)
    assert {
        key: sure for key in members if (sure := members[key] - all_members[key])
    } == TOLD_BY_BYTES
    assert {key: sure for key in leaders if (sure := leaders[key] - all_leaders[key])} == (
        LEADERS_TOLD
    )


def without(library: str, patch: pytest.MonkeyPatch) -> None:
    """Let kgroup not know a library."""
    for name in ("_SUBSCRIPTIONS", "_ASSIGNMENTS", "_MARKS", "_LEADER_MARKS"):
        known = getattr(client_library, name)
        patch.setattr(client_library, name, [row for row in known if row.library != library])


@pytest.mark.parametrize("leader_known", [True, False])
def test_a_library_that_is_not_known_is_never_certain_to_be_another_one(
    leader_known: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    libraries = {line.library for line in recorded()}
    assert len(libraries) >= 10
    for library in libraries:
        with monkeypatch.context() as patch:
            without(library, patch)
            for group in rounds():
                if group[0].library == library:
                    found = told(group, leader_known=leader_known, client_id="mine")
                    assert all(each.certainty is not Certainty.CERTAIN for each in found), group
                    members = [line.member() for line in group]
                    assert leading_library(group[0].strategy, members) is None
            for line in recorded():
                if line.library == library:
                    (alone,) = recognize("g", line.strategy, None, [line.member()])
                    assert alone.certainty is not Certainty.CERTAIN, line


def test_a_leader_is_told_by_what_it_assigned() -> None:
    found = {
        told(group, leader_known=True, client_id="mine")[at]
        for group in rounds()
        for at, line in enumerate(group)
        if line.row["is_leader"] and line.strategy == "range" and line.row["version"] == "1.22.3"
    }
    text = (
        "No other library is known to write assignments in version 0 without user data, and "
        "subscriptions in version 3 without a rack."
    )
    assert found == {Recognition("franz-go", Certainty.CERTAIN, text, ("franz-go",))}


OWNED = [{"topic": "a", "partitions": [0]}]


def test_no_encoders_bytes_are_taken_for_another_librarys() -> None:
    for line in recorded():
        for client_id in (line.client_id, "mine"):
            member = line.member() | {"clientId": client_id}
            found = recognize("g", line.strategy, None, [member])[0]
            assert found.name in (line.library, None), (line, found)


def test_in_mixed_groups_nobody_is_taken_for_the_leaders_library() -> None:
    by_form: dict[tuple[str, str, str], Line] = {}
    for line in recorded():
        form = json.dumps([line.member()["subscription"], line.member()["assignment"]["userData"]])
        by_form[line.strategy, line.library, form] = line
    tried = 0
    lines = list(by_form.values())
    for leader in lines:
        for other in lines:
            if leader.strategy == other.strategy and leader.library != other.library:
                tried += 1
                lead = leader.member() | {"memberId": "a", "clientId": "mine"}
                joined = other.member(assignment=_bytes(leader.row["assignment"]))
                joined |= {"memberId": "b", "clientId": "mine"}
                for leader_id in ("a", None):
                    found = recognize("g", leader.strategy, leader_id, [lead, joined])
                    for line, each in zip((leader, other), found, strict=True):
                        assert each.name in (line.library, None)
                library = leading_library(leader.strategy, [lead, joined])
                assert library in (leader.library, None)
    assert tried > 100


def test_members_and_leaders_of_samsa_are_unknown() -> None:
    """It writes version 3 without the fields of versions 1 to 3 (`consumer_group.rs` of 0.1.8)."""
    topics = b"\0\3\0\0\0\1\0\1a"
    said = decode_subscription(topics + b"\xff" * 4, "roundrobin")
    given = decode_assignment(topics + b"\0\0\0\1\0\0\0\0" + b"\xff" * 4, "roundrobin")
    alone = classic_member("m", subscription=said, assignment=given)
    (found,) = recognize("g", "roundrobin", None, [alone])
    assert found == Recognition(evidence="No known library sends such bytes.")
    assert leading_library("roundrobin", [alone]) is None


@pytest.mark.parametrize(
    ("library", "strategies", "said"),
    [
        ("krafka 0.27", ("range", "roundrobin"), {"version": 0}),
        (
            "krafka 0.27 with a rack",
            ("range", "roundrobin"),
            {"version": 3, "ownedPartitions": [], "generationId": -1, "rackId": "r"},
        ),
        (
            "krafka 0.27",
            ("cooperative-sticky",),
            {"version": 2, "ownedPartitions": OWNED, "generationId": 4},
        ),
        (
            "krafka 0.27 with a rack",
            ("cooperative-sticky",),
            {"version": 3, "ownedPartitions": OWNED, "generationId": 4, "rackId": "r"},
        ),
        (
            "kacrab 0.2",
            ("range", "roundrobin", "sticky", "cooperative-sticky"),
            {"version": 1, "ownedPartitions": OWNED, "topics": ["b", "a"]},
        ),
        (
            "kafka_client 0.5",
            ("range", "roundrobin", "cooperative-sticky"),
            {"version": 2, "topics": ["b", "a"], "ownedPartitions": [], "generationId": -1},
        ),
    ],
)
def test_nothing_is_certain_of_members_and_leaders_of_clients_in_rust(
    library: str, strategies: Sequence[str], said: dict[str, Any]
) -> None:
    """As their sources encode them; all assign in version 0 without user data."""
    sent = {"topics": ["a", "b"], "userData": None, **said}
    given = {"version": 0, "assignedPartitions": OWNED, "userData": None}
    members = [classic_member(name, subscription=sent, assignment=given) for name in "mn"]
    for strategy in strategies:
        for some in (members, members[:1]):
            for found in recognize("g", strategy, "m", some):
                assert found.certainty is not Certainty.CERTAIN, (library, strategy)
            assert leading_library(strategy, some) is None, (library, strategy)


def test_user_data_that_the_leader_returns_is_no_mark_of_another_library() -> None:
    """Librdkafka returns Java's consumers none, so that their assignments are like franz-go's."""
    java, librdkafka = (
        {
            **classic_member(name, assignment=ASSIGNED | {"userData": user_data}),
            "subscription": {**NEWEST, "topics": ["a"], "userData": user_data, "rackId": user_data},
        }
        for name, user_data in (("java", None), ("librdkafka", ""))
    )
    for strategy in ("range", "roundrobin"):
        assert leading_library(strategy, [java, librdkafka]) is None
        assert leading_library(strategy, [java, java]) == "franz-go"


def member(client_id: str = "mine", **said: Any) -> dict[str, Any]:
    return {
        **classic_member("m", clientId=client_id, assignment={"raw": ""}),
        "sessionTimeout": 30_000,
        "rebalanceTimeout": 30_000,
        "subscription": {"version": 0, "topics": ["b", "a"], "userData": "", **said},
    }


ASSIGNED = {"version": 0, "assignedPartitions": [{"topic": "a", "partitions": [0]}]}
NEWEST = {"version": 3, "ownedPartitions": [], "generationId": -1, "rackId": None}


@pytest.mark.parametrize(
    ("strategy", "user_data", "all_of_them", "static_ones"),
    [
        ("RoundRobinAssigner", "", ("kafka-ts", "kafkajs"), ("kafka-ts",)),
        ("roundrobin", None, ("ruby-kafka", "sarama"), ("sarama",)),
    ],
)
def test_static_members_are_of_a_library_that_has_them(
    strategy: str, user_data: str | None, all_of_them: tuple[str, ...], static_ones: tuple[str, ...]
) -> None:
    said = {**member(userData=user_data), "rebalanceTimeout": 60_000}
    for instance_id, candidates in ((None, all_of_them), ("i", static_ones)):
        (found, _) = recognize(
            "g", strategy, None, [{**said, "groupInstanceId": instance_id}, {**said}]
        )
        assert found.candidates == candidates


def test_kafka_nodes_members_have_one_timeout() -> None:
    """They send JoinGroup of version 0, in which the session timeout is also the other one."""
    said = member(userData=None)
    other = {**said, "memberId": "other"}
    (found, _) = recognize("g", "range", None, [said, other])
    assert found.candidates == ("kafka-node", "sarama")
    (found, _) = recognize("g", "range", None, [said | {"rebalanceTimeout": 60_000}, other])
    assert (found.name, found.certainty) == ("sarama", Certainty.INFERRED)


@pytest.mark.parametrize(
    ("client_id", "said", "expected"),
    [
        # of kafka-python, of librdkafka until 1.5, and of kafka-clients until 2.3
        ("mine", {}, None),
        ("kafka-python-3.0.12", {}, ("kafka-python", Certainty.INFERRED)),
        ("kafka-python-ours", {}, None),
        ("rdkafka", {}, ("librdkafka", Certainty.INFERRED)),
        ("consumer-3", {}, ("kafka-clients", Certainty.INFERRED)),
        ("consumer-g-3", {}, ("kafka-clients", Certainty.INFERRED)),
        ("consumer-h-3", {}, None),
        # bytes are believed, ids are not
        ("kgo", {}, None),
        ("kgo", {**NEWEST, "rackId": ""}, ("librdkafka", Certainty.CERTAIN)),
        # no order, no user data: sarama and kafka-node, which write topics as they are given
        ("mine", {"userData": None}, None),
        ("kafka-node-client", {"userData": None}, ("kafka-node", Certainty.INFERRED)),
        ("mine", {"userData": None, "topics": ["a", "b"]}, None),
        ("mine", {**NEWEST, "userData": None}, None),
        ("kgo", {**NEWEST, "userData": None, "topics": ["a"]}, ("franz-go", Certainty.INFERRED)),
        (
            "kgo",
            {**NEWEST, "userData": None, "topics": ["a"], "rackId": "r"},  # since 1.21
            ("franz-go", Certainty.INFERRED),
        ),
        ("kgo", {**NEWEST, "userData": None, "rackId": ""}, None),
        ("mine", {"userData": "AAAA"}, None),
        ("mine", {"version": 4}, None),
        ("mine", {"userData": None, "trailing": "AA=="}, None),
    ],
)
def test_evidence(
    client_id: str, said: dict[str, Any], expected: tuple[str, Certainty] | None
) -> None:
    other = {**member(), "memberId": "other"}  # so that nobody is known to lead
    found = recognize("g", "range", None, [member(client_id, **said), other])[0]
    assert found[:2] == (expected or (None, None))


@pytest.mark.parametrize(
    "user_data", [{"error": "unreadable"}, {"error": "e", "raw": 1}, {"generation": {"at": 3}}]
)
@pytest.mark.parametrize("strategy", ["sticky", "cooperative-sticky"])
def test_user_data_of_an_edited_snapshot(strategy: str, user_data: dict[str, Any]) -> None:
    kept: dict[str, Any] = {
        "topics": ("t",),
        "userData": user_data,
        "ownedPartitions": [],
        "rackId": None,
    }
    said = {"clientId": "mine", "subscription": {**kept, "generationId": None}}
    before = Recognition("sarama", Certainty.CERTAIN)
    assert recognize_again("g", strategy, said, before).certainty is not Certainty.CERTAIN


def test_members_that_version_0_1_did_not_recognize() -> None:
    """It knew neither aiokafka, kafka-node nor @platformatic/kafka, and kept parsed fields only."""
    new = {"aiokafka", "kafka-node", "@platformatic/kafka"}
    tried: Counter[str] = Counter()
    for line in recorded():
        said = line.member() | {"clientId": "mine"}
        (found, _) = recognize("g", line.strategy, None, [said, {**said, "memberId": "other"}])
        known = {*found.candidates} - new
        if line.strategy not in ("range", "roundrobin") or len(known) < 2:
            continue
        data = said["subscription"]
        kept = {
            "topics": data["topics"],
            "userData": data["userData"] or None,
            "ownedPartitions": data.get("ownedPartitions"),
            "generationId": None if data.get("generationId", -1) < 0 else data["generationId"],
            "rackId": data.get("rackId") or None,
        }
        again = recognize_again("g", line.strategy, {**said, "subscription": kept}, Recognition())
        assert line.library in again.candidates
        assert "kafka-go" not in again.candidates  # it was certain of such bytes
        tried[line.library] += 1
    assert tried.keys() >= {"kafka-clients", "franz-go", "sarama", "kafka-python", "aiokafka"}


@pytest.mark.parametrize("strategy", [None, "", "our-own"])
def test_a_strategy_that_no_library_brings(strategy: str | None) -> None:
    text = "No known library sends such bytes."
    assert recognize("g", strategy, None, [member("rdkafka")]) == [Recognition(evidence=text)]


@pytest.mark.parametrize(
    ("client_id", "topics", "expected"),
    [
        # ruby-kafka has no strategy but this, and writes topics as they are given too
        ("mine", ["b", "a"], None),
        ("sarama", ["b", "a"], "sarama"),
        ("ruby-kafka", ["b", "a"], "ruby-kafka"),
        ("kgo", ["b", "a"], None),
        ("kgo", ["a", "b"], "franz-go"),
    ],
)
def test_evidence_of_round_robin(client_id: str, topics: list[str], expected: str | None) -> None:
    said = member(client_id, topics=topics, userData=None)
    found = recognize("g", "roundrobin", None, [said, {**member(), "memberId": "o"}])[0]
    assert found.name == expected
    assert found.certainty is (None if expected is None else Certainty.INFERRED)


def test_a_static_member_with_a_default_client_id() -> None:
    static = {**member("consumer-g-till-1"), "groupInstanceId": "till-1"}
    found = recognize("g", "range", None, [static, member()])
    assert [each.name for each in found] == ["kafka-clients", None]


def test_members_have_their_library() -> None:
    said = {**NEWEST, "topics": ["orders"], "userData": "", "rackId": ""}
    members = [classic_member("b"), classic_member("a", subscription=said)]
    first, second = groups(classic("g", members))["g"].members
    assert (first.client_library, first.client_library_certainty) == ("librdkafka", "certain")
    assert (second.client_library, second.client_library_certainty) == ("kafka-clients", "certain")


SHORT = "0001 00000002 0001 62 0001 61"


@pytest.mark.parametrize(
    ("layout", "user_data"),
    [(f"{SHORT} ffffffff", None), (f"{SHORT} 00000000", ""), (f"{SHORT} 00000002 beef", "vu8=")],
)
def test_a_subscription_that_ends_where_version_0_does(layout: str, user_data: str | None) -> None:
    raw = bytes.fromhex(layout)
    decoded = decode_subscription(raw)
    assert "error" in decoded
    expected = {"version": 1, "topics": ["b", "a"], "userData": user_data}
    assert readable(decoded) == expected
    group = groups(classic("g", [classic_member("a", subscription=decoded)]))["g"]
    assert group.members[0].subscription is not None
    assert group.members[0].subscription.topics == ("b", "a")
    assert group.members[0].subscription.owned is None
    assert group.members[0].protocol_metadata is None


@pytest.mark.parametrize(
    "layout",
    [
        "",
        "00",
        f"{SHORT} 00000002 be",
        f"{SHORT} 00000000 00",
        f"{SHORT} ffff",
        f"0000 {SHORT[5:]} 00000002 be",
        "0001 00000001 ffff 00000000",
        "0001 00000001 0001 ff 00000000",
        "0001 ffffffff 00000000",
        "0001 7fffffff 00000000",
        "ffff 00000000 00000000",
    ],
)
def test_other_bytes_are_none(layout: str) -> None:
    decoded = decode_subscription(bytes.fromhex(layout))
    assert "topics" not in decoded
    assert readable(decoded) is None
