"""What is said of an assignor; whose answers are right is tested by `test_case`."""

import pytest

from kgroup.assignor.spec import GroupSpec
from kgroup.assignor.strategy import computed_as, is_cooperative, strategies


@pytest.mark.parametrize(
    ("protocol", "version", "expected"),
    [
        ("classic", "4.3.1", "kafka-clients 4.3.1"),
        ("classic", "1.1.1", "kafka-clients 1.1.1"),
        ("consumer", "4.3.1", "group-coordinator 4.3.1"),
        ("share", "4.3.1", "group-coordinator 4.3.1"),
        ("zookeeper", "0.8.2.2", "kafka 0.8.2.2"),
    ],
)
def test_the_library_that_is_imitated(protocol: str, version: str, expected: str) -> None:
    assert computed_as(GroupSpec("range", (), {}, protocol, version)) == expected


@pytest.mark.parametrize(
    ("protocol", "strategy", "expected"),
    [
        ("classic", "sticky", False),
        ("classic", "cooperative-sticky", True),
        ("consumer", "range", True),
        ("share", "simple", True),
        ("zookeeper", "range", False),
    ],
)
def test_who_keeps_what_it_owns_meanwhile(protocol: str, strategy: str, expected: bool) -> None:
    assert is_cooperative(GroupSpec(strategy, (), {}, protocol)) == expected


def test_the_default_comes_first() -> None:
    """As `partition.assignment.strategy` and `group.consumer.assignors` list them."""
    assert strategies("classic")[0] == "range"
    assert strategies("consumer")[0] == "uniform"
    assert strategies("zookeeper")[0] == "range"
