"""Dry runs of groups that were recorded before and after what the dry run is about."""

from __future__ import annotations

import json
from base64 import b64decode
from pathlib import Path
from typing import Any

from kgroup.operation.assign.dry_run import AssignRequest, Mode, assign_group
from kgroup.operation.assign.what_if import Changes
from kgroup.protocol.record.consumer_protocol import decode_assignment
from kgroup.source.base import GroupSource
from kgroup.source.snapshot.source import read_source

FOLDER = Path(__file__).parents[1] / "data" / "field"

Owners = dict[tuple[str, int], str]


def before(name: str) -> GroupSource:
    return read_source(FOLDER / f"{name}.before.json")


def planned(name: str, group_id: str, *leaving: str) -> tuple[Owners, list[str]]:
    """Return the owners and the warnings of a settled dry run in which members leave."""
    request = AssignRequest(Mode.SETTLE, changes=Changes(remove=leaving))
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
    owners, (warning,) = planned("platformatic", "grp-401", leaves)
    assert owners != recorded_owners("platformatic")
    assert warning.endswith("it may use @platformatic/kafka, which is not imitated.")


def test_kafka_nodes_members_are_not_taken_for_saramas() -> None:
    source = read_source(FOLDER / "kafka-node-range.json")
    assert libraries(source, "kn-r") == {(None, None, ("kafka-node", "sarama"))}


def test_cooperative_members_of_sarama_are_not_taken_for_javas() -> None:
    found = libraries(before("sarama-cooperative"), "grp-2129")
    assert found == {(None, None, ("kafka-clients", "sarama"))}
    leaves = "node_7-9tiyx-2f2e5eb7-422b-43ed-aef8-b2fb254e28a3"
    owners, warnings = planned("sarama-cooperative", "grp-2129", leaves)
    assert owners != recorded_owners("sarama-cooperative")
    assert "sarama would assign differently" in warnings[0]
