"""Since which version brokers and clients follow which rule."""

from __future__ import annotations

import pytest

from kgroup.simulation import rules
from kgroup.simulation.client.config import ConsumerConfig


def test_rules_came_with_their_proposals() -> None:
    """As the pages of KIP-211, 394, 345, 429, 496, 792, 814 and 848 say when they were released.

    KAFKA-12890 has 2.8.1 as the first of its "fix versions".
    """
    assert rules.RETENTION_WHEN_EMPTY == (2, 1)
    assert rules.MEMBER_ID_REQUIRED == (2, 2)
    assert rules.STATIC_MEMBERS == (2, 3)
    assert rules.BATCHED_LEAVE == rules.COOPERATIVE == rules.SUBSCRIPTION_KNOWN == (2, 4)
    assert rules.PENDING_SYNC == (2, 8, 1)
    assert rules.SKIPPED_ASSIGNMENT == (3, 2)
    assert rules.GENERATION_SENT == (3, 4)
    assert rules.JAVA == (4, 0)


@pytest.mark.parametrize(
    ("version", "join_version", "subscription_version"),
    [
        ((2, 1), 2, 0),
        ((2, 2), 4, 0),
        ((2, 3), 5, 0),
        ((2, 4), 5, 1),
        ((3, 1), 5, 1),
        ((3, 2), 9, 1),
        ((3, 4), 9, 3),
    ],
)
def test_messages_of_clients_changed_with_proposals(
    version: rules.Version, join_version: int, subscription_version: int
) -> None:
    """JoinGroup with KIP-394, 345 and 814, what the leader is told with KIP-429, 792 and 881."""
    config = ConsumerConfig("g", "c", ("orders",), version=version)
    assert config.join_version == join_version
    assert config.subscription_version == subscription_version
    assert config.assigns_as("range").version == ("4.3.1" if version >= (2, 4) else "1.1.1")
