"""Members of several client libraries, or versions of one, as real ones wrote themselves down."""

from __future__ import annotations

import gzip
import json
from base64 import b64decode
from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from kgroup.operation.check.check import Request, check
from kgroup.operation.check.rule import Finding, Rule
from kgroup.protocol.record.consumer_protocol import decode_assignment, decode_subscription
from tests.model.records import NOW_MS, classic, classic_member, groups
from tests.operation.sources import FakeSource

RECORDED = Path(__file__).parents[1] / "data" / "clients" / "live-members.jsonl.gz"


@cache
def recorded() -> Sequence[dict[str, Any]]:
    """A row for each member of a group of one library on a real broker, in each of its rounds."""
    lines = gzip.decompress(RECORDED.read_bytes()).splitlines()
    return [json.loads(line) for line in lines]


def rounds() -> Iterator[list[dict[str, Any]]]:
    found: dict[tuple[str, ...], list[dict[str, Any]]] = defaultdict(list)
    for row in recorded():
        found[row["broker"], row["group_id"], str(row["round"])].append(row)
    yield from found.values()


def findings(*rows: dict[str, Any]) -> Sequence[Finding]:
    """Put these members into one group, of which the first one leads, and check it."""
    strategy = rows[0]["strategy"]
    members = [
        classic_member(
            f"member-{number}",
            clientId=row["client_id"].replace(row["group_id"], "mixed"),  # its default has it
            groupInstanceId=row["instance_id"],
            subscription=decode_subscription(b64decode(row["subscription"]), strategy),
            assignment=decode_assignment(b64decode(rows[0]["assignment"]), strategy),
        )
        for number, row in enumerate(rows)
    ]
    made = groups(classic("mixed", members, protocol=strategy))
    request = Request(rules=frozenset({Rule.MIXED_CLIENTS}))
    return check(FakeSource(*made.values()), request, lambda: NOW_MS).report.data


def row_of(library: str, version: str, strategy: str = "range") -> dict[str, Any]:
    wanted = (library, version, strategy)
    return next(
        row for row in recorded() if (row["library"], row["version"], row["strategy"]) == wanted
    )


def test_groups_of_one_library_have_nothing_of_it() -> None:
    every = list(rounds())
    assert len({row["library"] for rows in every for row in rows}) >= 7
    for rows in every:
        assert findings(*rows) == ()


@pytest.mark.parametrize(
    ("members", "severity", "reason"),
    [
        (
            [("librdkafka", "2.16.1"), ("kafka-clients", "4.3.1"), ("librdkafka", "2.0.2")],
            "warning",
            "Members are 1 of kafka-clients, 2 of librdkafka, as far as client ids tell.",
        ),
        (
            [("kafka-clients", "1.1.1"), ("kafka-clients", "3.9.2")],
            "info",
            "1 of 2 members of kafka-clients are of an older version, which does not say what it "
            "owns: member-0.",
        ),
        ([("kafka-clients", "3.9.2"), ("kafka-clients", "4.3.1")], None, None),
    ],
)
def test_mixed(members: Sequence[tuple[str, str]], severity: str | None, reason: str) -> None:
    found = findings(*(row_of(*member) for member in members))
    told = [(finding.severity, finding.reason) for finding in found]
    assert told == ([] if severity is None else [(severity, reason)])
