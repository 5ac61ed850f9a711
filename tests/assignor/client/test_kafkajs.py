"""What leaders of KafkaJS dealt in live groups; some brokers list partitions in another order."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from kgroup.assignor.group_spec import GroupSpec
from kgroup.operation.assign.outcome import dry_run
from kgroup.operation.assign.spec import read_spec
from tests.assignor.case.notation import answer_of, assigned

IN_ZOOKEEPER_MODE = {"zoo": [1, 2, 0], "ant": [1, 3, 2, 0], "Mole": [1, 0]}
IN_KRAFT_MODE = {"zoo": [0, 1, 2], "ant": [0, 1, 2, 3], "Mole": [0, 1]}


def spec(listed: dict[str, list[int]], version: str = "2.2.4") -> dict[str, Any]:
    """Give a group as it was with brokers of 3.9.2 and 4.3.1; the first member led."""
    return {
        "strategy": "RoundRobinAssigner",
        "client": f"kafkajs@{version}",
        "topics": {
            name: {"partitions": len(numbers), "listed": numbers}
            for name, numbers in listed.items()
        },
        "members": [
            {"member_id": "kafkajs-13b1", "topics": ["zoo", "ant", "Mole"]},
            {"member_id": "till-4-e7c2", "topics": ["ant"]},
            {"member_id": "shop-dd35", "topics": ["zoo", "ant", "Mole"]},
        ],
    }


@pytest.mark.parametrize(
    ("version", "listed", "told"),
    [
        (
            "2.2.4",
            IN_ZOOKEEPER_MODE,
            {
                "kafkajs-13b1": "zoo 1, ant 1 0",
                "shop-dd35": "zoo 2, ant 3, Mole 1",
                "till-4-e7c2": "zoo 0, ant 2, Mole 0",
            },
        ),
        (
            "2.2.4",
            IN_KRAFT_MODE,
            {
                "kafkajs-13b1": "zoo 0, ant 0 3",
                "shop-dd35": "zoo 1, ant 1, Mole 0",
                "till-4-e7c2": "zoo 2, ant 2, Mole 1",
            },
        ),
        (
            "1.12.0",
            IN_ZOOKEEPER_MODE,
            {
                "kafkajs-13b1": "zoo 0, ant 3 0, Mole 0",
                "shop-dd35": "zoo 1, ant 1, Mole 1",
                "till-4-e7c2": "zoo 2, ant 2",
            },
        ),
    ],
    ids=["zookeeper", "kraft", "old"],
)
def test_partitions_are_dealt_as_brokers_list_them(
    version: str, listed: dict[str, list[int]], told: dict[str, str]
) -> None:
    assert answer_of(assigned(spec(listed, version))) == told


def test_who_leads_matters_where_members_do_not_subscribe_alike() -> None:
    group = read_spec(spec(IN_KRAFT_MODE))
    alike = replace(group, members=group.members[::2])

    def is_doubted(group: GroupSpec) -> bool:
        return any("not determine" in warning for warning in dry_run(group).warnings)

    assert is_doubted(group)
    assert not is_doubted(replace(group, leader_id="shop-dd35"))
    assert not is_doubted(alike)


def test_the_topics_are_those_of_the_leader_and_in_its_order() -> None:
    group = spec(IN_KRAFT_MODE)
    group["members"][0]["topics"] = ["Mole", "7", "zoo"]
    group["topics"]["7"] = {"partitions": 1}
    dealt = answer_of(assigned(group))
    # JavaScript puts keys that are numbers first
    assert dealt == {
        "kafkajs-13b1": "7 0, zoo 0",
        "shop-dd35": "Mole 0, zoo 1",
        "till-4-e7c2": "Mole 1, zoo 2",
    }
