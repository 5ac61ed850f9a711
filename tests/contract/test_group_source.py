"""Sources of recorded data, and their snapshots. A source joins by a line in `RECORDED`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from shutil import copytree

import pytest

from kgroup.model.group import GroupType
from kgroup.sample import sample_log_dir
from kgroup.source.base import GroupSource
from kgroup.source.log.segment_file import log_end
from kgroup.source.log.source import LogDir
from tests.columnar.log_writer import batch
from tests.contract.group_source import GroupSourceContract
from tests.contract.saved import saved
from tests.operation.log_files import commit
from tests.source.scenarios import scenario


def with_a_negative_commit(folder: Path) -> LogDir:
    """Add to a recorded log what a broker stores when a client commits -1."""
    copytree(scenario("kafka-4.3.1").log_dir, folder, dirs_exist_ok=True)
    (group_id, number) = next(
        (group.group_id, group.offsets_partition)
        for group in LogDir([folder]).read().image.groups.values()
        if group.offsets and group.type is GroupType.CLASSIC
    )
    segment = max((folder / f"__consumer_offsets-{number}").glob("*.log"))
    offset = log_end(segment, int(segment.stem))
    with segment.open("ab") as file:
        file.write(batch([commit(offset, group_id, "never", committed=-1, time_ms=1)]))
    return LogDir([folder])


def with_checkpoints(folder: Path) -> LogDir:
    """Add to a recorded log what a broker checkpoints when it has deleted records."""
    copytree(scenario("kafka-4.3.1").log_dir, folder, dirs_exist_ok=True)
    (folder / "log-start-offset-checkpoint").write_text("0\n1\norders 0 3\n")
    return LogDir([folder])


RECORDED: Mapping[str, Callable[[Path], GroupSource]] = {
    "log directory with a negative commit": with_a_negative_commit,
    "log directory with checkpoints": with_checkpoints,
    "log directory": lambda _: LogDir([scenario("kafka-4.3.1").log_dir]),
    "sample": lambda _: LogDir([sample_log_dir()]),
}


@pytest.fixture(scope="module", params=RECORDED)
def recorded(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> GroupSource:
    return RECORDED[request.param](tmp_path_factory.mktemp("log"))


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
