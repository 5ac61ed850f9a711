"""Sources of recorded data, and their snapshots. A source joins by a line in `RECORDED`."""

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from kgroup.sample import sample_log_dir
from kgroup.source.base import GroupSource
from kgroup.source.log.source import LogDir
from tests.contract.group_source import GroupSourceContract
from tests.contract.saved import saved
from tests.source.scenarios import scenario

RECORDED: Mapping[str, Callable[[], GroupSource]] = {
    "log directory": lambda: LogDir([scenario("kafka-4.3.1").log_dir]),
    "sample": lambda: LogDir([sample_log_dir()]),
}


@pytest.fixture(scope="module", params=RECORDED)
def recorded(request: pytest.FixtureRequest) -> GroupSource:
    return RECORDED[request.param]()


@pytest.fixture(scope="module", params=["itself", "snapshot"])
def source(
    request: pytest.FixtureRequest, recorded: GroupSource, tmp_path_factory: pytest.TempPathFactory
) -> GroupSource:
    if request.param == "itself":
        return recorded
    return saved(recorded, tmp_path_factory.mktemp("snapshot"))


class TestGroupSource(GroupSourceContract):
    """Of each of them."""


def test_a_snapshot_says_the_same(recorded: GroupSource, tmp_path: Path) -> None:
    through = saved(recorded, tmp_path)
    assert through.capabilities == recorded.capabilities
    reading = recorded.read()
    assert through.read() == reading
    partitions = {at for group in reading.image.groups.values() for at in group.partitions}
    assert through.log_ranges(partitions) == recorded.log_ranges(partitions)
