"""What groups of ZooKeeper consumers have committed, to ZooKeeper and to Kafka."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from kgroup.model.group import Group, GroupType
from kgroup.model.log_range import LogRange
from kgroup.model.offset import CommitStore, CommittedOffset
from kgroup.model.snapshot import Origin, SnapshotCommit
from kgroup.model.zookeeper import Node, Stat, ZookeeperTree
from kgroup.operation.assign.group import read_group
from kgroup.operation.describe import describe
from kgroup.operation.take_snapshot import take_snapshot
from kgroup.operation.zookeeper.commit import larger, with_kafka_commits
from kgroup.operation.zookeeper.fetcher import OffsetReset, list_fetches
from kgroup.protocol.zookeeper.tree import tree_of
from kgroup.source.snapshot.source import snapshot_source
from tests.operation.sources import FakeSource, KafkaSource, TreeSource

ZOOKEEPER, KAFKA, BOTH = CommitStore.ZOOKEEPER, CommitStore.KAFKA, CommitStore.BOTH
ENDS = {("t", number): LogRange(0, 20) for number in range(5)}
IN_ZOOKEEPER = {0: "10", 1: "10", 2: "10", 3: "10"}
IN_KAFKA = {("g", "t", 1): 7, ("g", "t", 2): 12, ("g", "t", 3): 10, ("g", "t", 4): 5}
SHOWN = {
    0: (10, ZOOKEEPER),  # Kafka has none
    1: (10, ZOOKEEPER),  # Kafka's is smaller
    2: (12, KAFKA),
    3: (10, BOTH),
    4: (5, KAFKA),  # ZooKeeper has none
}
NOTE = (
    "g: ZooKeeper and Kafka have different commits for 2 partitions; shown is the larger one, at "
    "which consumers with dual.commit.enabled begin."
)


def tree(commits: Mapping[int, str]) -> ZookeeperTree:
    """A consumer that owns the five partitions of "t"."""
    texts = {
        "/consumers/g/ids/g_c": '{"version":1,"subscription":{"t":1},"pattern":"static"}',
        "/brokers/ids/1": '{"version":1,"host":"a","port":9092,"jmx_port":-1}',
        "/brokers/topics/t": '{"version":1,"partitions":{"0":[1],"1":[1],"2":[1],"3":[1],"4":[1]}}',
        **{f"/consumers/g/owners/t/{number}": "g_c-0" for number in range(5)},
        **{f"/consumers/g/offsets/t/{number}": text for number, text in commits.items()},
        **{
            f"/brokers/topics/t/partitions/{number}/state": '{"leader":1,"isr":[1],"version":1}'
            for number in range(5)
        },
    }
    stat = Stat(ctime_ms=1, mtime_ms=2)
    return tree_of(Node(path, text.encode(), stat) for path, text in texts.items())


SOURCE = KafkaSource(tree(IN_ZOOKEEPER), ENDS, IN_KAFKA)


def test_the_larger_commit_counts() -> None:
    here, there = {"a": 1, "b": 2, "c": 3, "d": 0}, {"b": 5, "c": 3, "d": -1, "e": 0}
    assert larger(here, there) == {
        "a": (1, ZOOKEEPER),
        "b": (5, KAFKA),
        "c": (3, BOTH),
        "d": (0, ZOOKEEPER),
        "e": (0, KAFKA),
    }


def test_describe() -> None:
    report = describe(SOURCE, ["g"])
    (group,) = report.data
    assert {
        row.partition: (row.committed_offset, row.committed_in) for row in group.offsets
    } == SHOWN
    assert {row.partition: row.lag for row in group.offsets} == {
        number: 20 - offset for number, (offset, _) in SHOWN.items()
    }
    # OffsetFetch tells no time, and that of the node in ZooKeeper is another commit's
    assert [row.commit_timestamp_ms for row in group.offsets] == [2, 2, None, 2, None]
    assert {row.member_id for row in group.offsets} == {"g_c"}
    assert (report.notes, report.errors) == ((NOTE,), ())


def test_fetchers() -> None:
    report = list_fetches(SOURCE, "g", count=1, reset=OffsetReset.SMALLEST)
    assert {row.partition: (row.committed_offset, row.committed_in) for row in report.data} == SHOWN
    assert all(row.fetch_offset == row.committed_offset for row in report.data)
    assert report.notes == (NOTE,)


def test_dry_runs_tell_the_lag_of_the_same_commits() -> None:
    read = read_group(SOURCE, "g")
    assert read.data[0].lags == {
        ("t", number): 20 - offset for number, (offset, _) in SHOWN.items()
    }
    assert NOTE in read.notes


def test_a_snapshot_has_them_and_where_their_logs_end() -> None:
    """Even of a group that has commits in Kafka alone, and no consumer."""
    bare = tree_of(
        Node(path, data=node.data, stat=node.stat)
        for path, node in tree({}).nodes.items()
        if not path.startswith(("/consumers/g/ids/", "/consumers/g/owners/"))
    )
    bare = tree_of([*bare.nodes.values(), Node("/consumers/g"), Node("/consumers/g/ids")])
    report = take_snapshot(
        KafkaSource(bare, ENDS, IN_KAFKA), Origin("zookeeper"), ["g"], taken_ms=1
    )
    (snapshot,) = report.data
    assert snapshot.kafka_commits == tuple(
        SnapshotCommit(*at, offset) for at, offset in IN_KAFKA.items()
    )
    (group,) = describe(snapshot_source(snapshot), ["g"]).data
    assert {row.partition: (row.committed_offset, row.committed_in) for row in group.offsets} == {
        number: (offset, KAFKA) for (_, _, number), offset in IN_KAFKA.items()
    }
    assert [row.lag for row in group.offsets] == [13, 8, 10, 15]


def test_where_nobody_tells_what_is_in_kafka() -> None:
    report = describe(TreeSource(tree(IN_ZOOKEEPER), ENDS), ["g"])
    assert {row.committed_in for row in report.data[0].offsets} == {ZOOKEEPER, None}
    assert report.notes == ()
    report = describe(TreeSource(tree({}), ENDS), ["g"])
    assert {row.committed_in for row in report.data[0].offsets} == {None}
    (note,) = report.notes
    assert note.startswith("Nothing is committed to ZooKeeper by 'g'; ")
    assert describe(KafkaSource(tree({}), ENDS, {}), ["g"]).notes == ()


def test_a_number_below_zero_is_no_commit() -> None:
    source = KafkaSource(tree({0: "-1", 1: "-1"}), ENDS, {("g", "t", 1): 0})
    fetches = list_fetches(source, "g", count=1, reset=OffsetReset.SMALLEST).data
    assert {row.partition: row.committed_in for row in fetches if row.partition < 2} == {
        0: None,
        1: KAFKA,
    }
    assert {row.committed_offset for row in fetches} == {None, 0}


@pytest.mark.parametrize("kind", [GroupType.CLASSIC, GroupType.CONSUMER])
def test_other_groups_stay_as_they_are(kind: GroupType) -> None:
    group = Group("g", kind, None, offsets=(CommittedOffset("t", 0, 3),))
    groups = with_kafka_commits(SOURCE, [group])
    assert (groups.groups, groups.stores, groups.notes) == ((group,), {}, ())
    (row,) = describe(FakeSource(replace(group)), ["g"]).data[0].offsets
    assert row.committed_in is None
