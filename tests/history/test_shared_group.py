"""Groups that look as if several applications used their id."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from tests.history.rebalance_case import Row, T, ask_report, classic, member


def reader(name: str, host: int, *topics: str, client_id: str = "consumer-g-1") -> Row:
    return member(
        name, client_id=client_id, client_host=f"/10.0.0.{host}", subscribed_topics=[*topics]
    )


CASES: Mapping[str, tuple[Sequence[Row], bool]] = {
    "other topics and client ids on one host": (
        [reader("a", 1, "x", client_id="shop-1"), reader("b", 1, "y", client_id="bills-1")],
        True,
    ),
    "other topics and hosts, where the clients have default ids": (
        [reader("a", 1, "x"), reader("b", 2, "y"), reader("c", 3, "y")],
        True,
    ),
    "one process reads the one topic here, and the other one there": (
        [reader("a", 1, "x"), reader("b", 1, "y", client_id="consumer-g-2")],
        False,
    ),
    "two hosts read both topics by a consumer each": (
        [reader("a", 1, "x"), reader("b", 1, "y"), reader("c", 2, "x"), reader("d", 2, "y")],
        False,
    ),
    "a member that reads both topics joins the others": (
        [reader("a", 1, "x"), reader("b", 2, "y"), reader("c", 3, "x", "y")],
        False,
    ),
    "the same topics": ([reader("a", 1, "x"), reader("b", 2, "x")], False),
    "a subscription that is not known": (
        [reader("a", 1, "x"), reader("b", 2, "y"), reader("c", 3) | {"subscribed_topics": None}],
        False,
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_sharing(case: str, tmp_path: Path) -> None:
    members, is_shared = CASES[case]
    _, notes = ask_report(tmp_path, classic(1, 1, *members))
    assert [note.startswith("Members of group 'g' subscribe to disjoint") for note in notes] == (
        [True] * is_shared
    )


def test_the_last_rebalance_counts(tmp_path: Path) -> None:
    both = [reader("a", 1, "x", client_id="shop-1"), reader("b", 2, "y", client_id="bills-1")]
    _, notes = ask_report(tmp_path / "both", classic(1, 1, both[0]), classic(2, 5, *both))
    assert notes == (
        "Members of group 'g' subscribe to disjoint topics and run apart: x (1: shop-1 at "
        "/10.0.0.1); y (1: bills-1 at /10.0.0.2). If these are two applications, give each its own "
        "group id.",
    )
    _, notes = ask_report(tmp_path / "one", classic(1, 1, *both), classic(2, 5, both[0]))
    assert notes == ()


def test_members_of_a_consumer_group(tmp_path: Path) -> None:
    """Their records have one member each."""
    shared = {"offsets_partition": 7, "log_leader_epoch": 0, "group_id": "g"}
    epoch = {"group_type": "consumer", "type": "ConsumerGroupMetadata", "value_json": None}
    members = [
        reader("a", 1, "x") | shared | {"log_offset": 1, "time_ms": T},
        reader("b", 2, "x") | shared | {"log_offset": 2, "time_ms": T},
        reader("b", 2, "y") | shared | {"log_offset": 4, "time_ms": T},
    ]
    kinds = ("MemberMetadata", "MemberMetadata", "Metadata", "MemberMetadata", "Metadata")
    records = [
        shared
        | epoch
        | {
            "type": f"ConsumerGroup{kind}",
            "log_offset": number,
            "time_ms": T,
            "member_id": {1: "a", 2: "b", 4: "b"}.get(number),
            "epoch": number // 2 if kind == "Metadata" else None,
            "value_json": '{"version":0,"data":{}}',
        }
        for number, kind in enumerate(kinds, 1)
    ]
    found, notes = ask_report(
        tmp_path,
        consumer_group_epochs=records,
        members=[row | {"group_type": "consumer"} for row in members],
    )
    assert len(found) == 2
    assert [note[:16] for note in notes] == ["Members of group"]
