"""The same live groups seen through a broker, its log directory and snapshots of both."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, replace
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest

from kgroup.model.group import Group, GroupState, GroupType
from kgroup.operation.describe import describe
from kgroup.source.base import GroupSource
from kgroup.source.broker.source import LiveCluster
from kgroup.source.log.source import LogDir
from tests.broker.live_groups import LiveGroups, live_groups
from tests.cli.command_line import Cli
from tests.contract.group_source import GroupSourceContract
from tests.contract.knowledge import known_of
from tests.contract.saved import saved

CLASSIC = {"done", "moving", "pair", "simple"}
OTHERS = {"racks", "regex", "shared", "totals", "upgrading"}


Sources = Mapping[str, GroupSource]


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveGroups]:
    with live_groups("4.3.1", tmp_path_factory.mktemp("live-4.3.1")) as live:
        yield live


@pytest.fixture(scope="module")
def sources(live: LiveGroups, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sources]:
    with LiveCluster(live.server.bootstrap, of_silence=True) as cluster:
        yield sources_of(live, cluster, tmp_path_factory.mktemp)


def sources_of(live: LiveGroups, cluster: LiveCluster, folder: Callable[[str], Path]) -> Sources:
    log_dir = LogDir([live.log_dir])
    return {
        "broker": cluster,
        "log directory": log_dir,
        "snapshot of the broker": saved(cluster, folder("broker")),
        "snapshot of the log directory": saved(log_dir, folder("log")),
    }


@pytest.fixture(
    scope="module",
    params=["broker", "log directory", "snapshot of the broker", "snapshot of the log directory"],
)
def source(request: pytest.FixtureRequest, sources: Sources) -> GroupSource:
    return sources[request.param]


class TestLiveGroupSource(GroupSourceContract):
    """Of each of them."""


def test_the_same_groups(sources: Sources) -> None:
    groups = assert_same_groups(sources)
    assert set(groups) == CLASSIC | OTHERS
    assert {group.type for group in groups.values()} == set(GroupType) - {GroupType.ZOOKEEPER}


def test_the_same_groups_of_an_older_broker(tmp_path_factory: pytest.TempPathFactory) -> None:
    with (
        live_groups("2.8.2", tmp_path_factory.mktemp("live-2.8.2")) as live,
        LiveCluster(live.server.bootstrap, of_silence=True) as cluster,
    ):
        sources = sources_of(live, cluster, tmp_path_factory.mktemp)
        assert set(assert_same_groups(sources)) == CLASSIC
        assert_moving_as_before(sources)
        assert_same_rows(sources)


def test_a_group_that_moves_is_in_the_log_as_it_was(sources: Sources) -> None:
    assert_moving_as_before(sources)


def test_the_same_offsets_lags_and_owners(sources: Sources) -> None:
    assert_same_rows(sources)


def test_a_snapshot_has_all_that_its_source_says(sources: Sources) -> None:
    for name in ("broker", "log directory"):
        direct, through = sources[name], sources[f"snapshot of the {name}"]
        assert through.capabilities == direct.capabilities
        reading = direct.read()
        assert reading.problems == ()
        assert through.read() == reading
        partitions = {at for group in reading.image.groups.values() for at in group.partitions}
        for committed in (False, True):
            assert through.log_ranges(partitions, committed=committed) == direct.log_ranges(
                partitions, committed=committed
            )


def test_without_a_look_into_the_log(sources: Sources, tmp_path: Path) -> None:
    """A snapshot that read nothing of `__consumer_offsets` says so, and says nothing else."""
    direct = sources["broker"]
    less = saved(direct, tmp_path, log_budget=0)
    assert less.capabilities < direct.capabilities
    groups = direct.read().image.groups
    for group_id, group in less.read().image.groups.items():
        if group_id != "moving":  # of which the log tells who was in it before
            assert group == known_of(groups[group_id], less.capabilities)


COMMANDS = (
    ["list"],
    ["describe", "--all"],
    ["describe", "pair", "regex", "shared", "totals", "no-such-group"],
    ["describe", "--regex", ".*s", "--isolation", "read-committed"],
    ["describe", "no-such-group"],
    ["coordinator", "pair", "racks", "moving"],
)


@pytest.mark.parametrize("budget", [0, 32])
def test_commands(live: LiveGroups, cli: Cli, tmp_path: Path, budget: int) -> None:
    """What a command prints of a snapshot is what it prints of the cluster, to the byte."""
    origin, look = ["-b", live.server.bootstrap], ["--log-budget", str(budget)]
    file = tmp_path / "all.json.gz"
    assert cli("snapshot", *origin, "--all", "-f", file, *look).status == 0
    for command in COMMANDS:
        words = [*command, *(look if command[0] != "coordinator" else [])]
        for form in ("json", "csv"):
            if command[0] == "coordinator" and form == "csv":  # the time of an answer left out
                words += ["--columns", "group_id,agrees,coordinator,leader,replicas,isr"]
            direct = cli(*words, *origin, "-o", form)
            through = cli(*words, "--snapshot", file, "-o", form)
            # Only a live coordinator answers, and takes time to.
            own = re.sub(r'"answer_ms":[0-9.]+', '"answer_ms":null', direct.out)
            assert (through.status, through.out) == (direct.status, own)


def test_a_dry_run_of_a_group_that_stays_as_it_is(live: LiveGroups, cli: Cli) -> None:
    """Also where the topics are those of a regular expression, which the log alone spells out."""
    for group_id in ("regex", "racks", "pair"):
        row = json.loads(
            cli("assign", group_id, "-b", live.server.bootstrap, "--dry-run", "-o", "jsonl").out
        )
        described = cli("describe", group_id, "--log-dir", live.log_dir, "-o", "jsonl")
        members = json.loads(described.out)["members"]
        owned = {
            member["member_id"]: {(p["topic"], p["partition"]) for p in member["assignment"]}
            for member in members
        }
        assert {
            who: {(t, n) for t, n in parts} for who, parts in row["assignment"].items()
        } == owned
        assert (row["moves"], row["warnings"]) == ([], [])


def assert_same_groups(sources: Sources) -> Mapping[str, Group]:
    """Every pair of sources says the same of each group, as far as both can know."""
    readings = {name: source.read() for name, source in sources.items()}
    assert all(reading.problems == () for reading in readings.values())
    groups = {name: reading.image.groups for name, reading in readings.items()}
    for one, other in combinations(sources, 2):
        common = sources[one].capabilities & sources[other].capabilities
        assert list(groups[one]) == list(groups[other])
        for group_id in groups[one].keys() - {"moving"}:
            first, second = groups[one][group_id], groups[other][group_id]
            if first.assignor is None or second.assignor is None:  # the configuration's choice
                first, second = replace(first, assignor=None), replace(second, assignor=None)
            assert what(first, common) == what(second, common), (one, other)
    images = [reading.image for reading in readings.values()]
    assert len({image.cluster_id for image in images if image.cluster_id}) == 1
    assert len({image.offsets_partition_count for image in images}) == 1
    return groups["broker"]


def what(group: Group, capabilities: Any) -> dict[str, Any]:
    """Return what can be known of a group, without the order in which members own partitions.

    That is the order of a coordinator's hash map, or of its record, which goes into that map. In
    which order it has the members of groups that it assigns itself no record tells. Earlier
    generations are read only where they are asked for.
    """
    known = asdict(known_of(group, capabilities))
    del known["past_generations"]
    if group.type is not GroupType.CLASSIC:
        del known["member_order"]
    for member in known["members"]:
        for name in ("assignment", "target_assignment", "pending_revocation"):
            if member[name] is not None:
                member[name] = sorted(member[name], key=_place)
    return known


def _place(partition: Mapping[str, Any]) -> tuple[str, int]:
    return partition["topic"] or partition["topic_id"], partition["partition"]


def assert_moving_as_before(sources: Sources) -> None:
    for name in ("", "snapshot of the "):
        now = sources[f"{name}broker"].read(["moving"]).image.groups["moving"]
        before = sources[f"{name}log directory"].read(["moving"]).image.groups["moving"]
        assert (now.state, before.state) == (GroupState.PREPARING_REBALANCE, GroupState.STABLE)
        assert now.last_stable is not None
        assert now.last_stable.members == before.members
        assert (now.last_stable.generation_id, now.last_stable.leader_id) == (
            before.generation_id,
            before.leader_id,
        )


def assert_same_rows(sources: Sources) -> None:
    tables = {name: list(rows(source)) for name, source in sources.items()}
    first, *others = tables.values()
    assert len(first) > 8
    for other in others:
        assert other == first


def rows(source: GroupSource) -> Iterator[tuple[object, ...]]:
    for group in describe(source).data:
        for offset in group.offsets:
            at = (group.group.group_id, offset.topic, offset.partition)
            yield (
                *at,
                offset.committed_offset,
                offset.log_end_offset,
                offset.lag,
                offset.member_id,
            )
        for part in group.share_offsets or ():
            yield (group.group.group_id, part.topic, part.partition, part.start_offset, part.lag)
        yield (group.group.group_id, group.total_lag)
