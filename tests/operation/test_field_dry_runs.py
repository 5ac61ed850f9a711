"""Dry runs of groups that were recorded before and after what the dry run is about."""

from __future__ import annotations

import json
from base64 import b64decode
from pathlib import Path
from typing import Any

import pytest

from kgroup.operation.assign.dry_run import AssignRequest, Mode, assign_group
from kgroup.operation.assign.what_if import Changes
from kgroup.protocol.record.consumer_protocol import decode_assignment
from kgroup.source.base import GroupSource
from kgroup.source.snapshot.source import read_source

FOLDER = Path(__file__).parents[1] / "data" / "field"

Owners = dict[tuple[str, int], str]


def before(name: str) -> GroupSource:
    return read_source(FOLDER / f"{name}.before.json")


def planned(
    name: str,
    group_id: str,
    *leaving: str,
    changes: Changes | None = None,
    client: str | None = None,
) -> tuple[Owners, list[str]]:
    """Return the owners and the warnings of a settled dry run; by default, members leave."""
    changes = changes or Changes(remove=leaving)
    request = AssignRequest(Mode.SETTLE, client=client, changes=changes)
    (run,) = assign_group(before(name), group_id, request).data
    assignment = run.plans[-1].assignment
    assert assignment is not None
    owners = {at: member for member, owned in assignment.items() for at in owned}
    return owners, [warning for plan in run.plans for warning in plan.warnings]


def recorded_owners(name: str) -> Owners:
    """Return who had which partition after the change."""
    recorded: dict[str, Any] = json.loads((FOLDER / f"{name}.recorded.json").read_text("utf-8"))
    return {
        (topic["topic"], partition): member["member_id"]
        for member in recorded["after"]["members"]
        for topic in decode_assignment(b64decode(member["assignment"]))["assignedPartitions"]
        for partition in topic["partitions"]
    }


def recorded_targets(name: str) -> Owners:
    """Return the target assignment of a consumer group after the change."""
    recorded: dict[str, Any] = json.loads((FOLDER / f"{name}.recorded.json").read_text("utf-8"))
    return {
        (topic, partition): member["member_id"]
        for member in recorded["after"]["members"]
        for topic, partition in member["target"]
    }


def libraries(source: GroupSource, group_id: str) -> set[tuple[Any, ...]]:
    group = source.read([group_id]).image.groups[group_id]
    members = group.last_stable.members if group.last_stable else group.members
    return {
        (m.client_library, m.client_library_certainty, m.client_library_candidates) for m in members
    }


def test_platformatics_members_are_not_taken_for_kafka_gos() -> None:
    found = libraries(before("platformatic"), "grp-401")
    assert found == {(None, None, ("@platformatic/kafka", "kafka-go"))}
    leaves = "ship-z3-f2fbd8db-2e31-48a5-a615-480783b4776b"
    for client in (None, "@Platformatic/kafka@1.35"):  # only it assigns what the members own
        owners, warnings = planned("platformatic", "grp-401", leaves, client=client)
        assert (owners, warnings) == (recorded_owners("platformatic"), [])


def test_kafka_nodes_members_are_not_taken_for_saramas() -> None:
    source = read_source(FOLDER / "kafka-node-range.json")
    assert libraries(source, "kn-r") == {(None, None, ("kafka-node", "sarama"))}


def test_cooperative_members_of_sarama_are_not_taken_for_javas() -> None:
    found = libraries(before("sarama-cooperative"), "grp-2129")
    assert found == {(None, None, ("@platformatic/kafka", "kafka-clients", "sarama"))}
    leaves = "node_7-9tiyx-2f2e5eb7-422b-43ed-aef8-b2fb254e28a3"
    owners, warnings = planned("sarama-cooperative", "grp-2129", leaves)
    assert owners != recorded_owners("sarama-cooperative")
    assert "sarama would assign differently" in warnings[0]


def test_two_texts_of_a_regular_expression_are_different_subscriptions() -> None:
    owners, warnings = planned("two-regexes", "grp-304", "9st1Dz3LQ+2gomuAUjMWYA")
    assert warnings == []
    assert owners == recorded_targets("two-regexes")


def test_the_assignor_of_a_consumer_group_is_voted_on_again_when_members_leave() -> None:
    """Three of five prefer range; without two of these, two of three prefer uniform."""
    source = before("assignor-vote")
    leaving = ("8/f2RmW7S8GxmWfefV/XrQ", "qJLBAdrfRtKwhI3iggCGzw")

    def strategy(*names: str, asked: str | None = None) -> str:
        request = AssignRequest(strategy=asked, changes=Changes(remove=names))
        (run,) = assign_group(source, "i4", request).data
        assert not any("assignor may change" in warning for warning in run.plans[0].warnings)
        return run.plans[0].strategy

    assert strategy() == "range"
    assert strategy(leaving[0]) == "uniform", "of two each, the first in the coordinator's table"
    assert strategy(*leaving) == "uniform"
    assert strategy("z9nticUuT8Op2AeGNB2aXg") == "range"
    assert strategy(*leaving, asked="range") == "range"


@pytest.mark.parametrize(
    ("changes", "strategy", "warned"),
    [
        (Changes(remove=("C",)), None, True),
        (Changes(remove=("B",)), None, True),  # the leader
        (Changes(restart=("C",)), None, False),
        (Changes(partitions=(("h1.a", 9),)), None, False),
        (Changes(remove=("C",)), "range", False),
        (Changes(remove=("A", "B")), None, False),  # the last member gets all in any case
    ],
)
def test_members_of_a_classic_group_may_vote_again_when_one_leaves(
    changes: Changes, strategy: str | None, warned: bool
) -> None:
    request = AssignRequest(strategy=strategy, changes=changes)
    (run,) = assign_group(before("strategy-vote"), "h1", request).data
    votes = [text for text in run.plans[0].warnings if text.startswith("The strategy may change")]
    assert len(votes) == warned


def test_librdkafka_leaves_a_deleted_topic_out_of_its_subscription() -> None:
    changes = Changes(drop_topics=("s901.p_10",))
    owners, (warning,) = planned("dropped-topic", "grp-901", changes=changes)
    assert warning.startswith(
        "Members of librdkafka notice new topics that match their pattern, and"
    )
    assert owners == recorded_owners("dropped-topic")


def test_partitions_that_no_member_of_librdkafka_reads_are_not_noticed() -> None:
    """The leader does not subscribe to q-x; recorded: no rebalance within 90 s."""
    changes = Changes(partitions=(("s2176.q-x", 14),))
    owners, (warning,) = planned("unnoticed-growth", "grp-2176", changes=changes)
    assert owners != recorded_owners("unnoticed-growth")
    assert warning.startswith("No rebalance may follow: librdkafka does not look for new part")
    read_by_leader = Changes(partitions=(("s2176.q2", 14),))
    assert planned("unnoticed-growth", "grp-2176", changes=read_by_leader)[1] == []


def test_members_notice_a_new_topic_that_matches_one_after_another() -> None:
    changes = Changes(add_topics=(("s126.p-new20", 7),))
    owners, (warning,) = planned("pattern-new-topic", "grp-126", changes=changes)
    assert owners != recorded_owners("pattern-new-topic")
    assert "Members of franz-go notice new topics that match their pattern" in warning
