"""Since which version brokers and clients follow which rule."""

from __future__ import annotations

from kgroup.simulation import rules


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
