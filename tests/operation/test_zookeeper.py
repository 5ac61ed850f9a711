"""Consumers, owners and nodes of the recorded tree, beside what Kafka and kazoo said."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

import pytest

from kgroup.assignor.zookeeper import fetcher_id
from kgroup.errors import UsageError
from kgroup.model.group import Broker, Group, GroupType
from kgroup.model.log_range import LogRange
from kgroup.model.offset import CommitStore, CommittedOffset
from kgroup.model.snapshot import Origin, SnapshotCommit, SnapshotNode
from kgroup.model.zookeeper import Node, Stat, SubscriptionPattern, ZookeeperTree, ZookeeperView
from kgroup.operation.assign.group import read_group
from kgroup.operation.describe import describe
from kgroup.operation.report import Report
from kgroup.operation.take_snapshot import take_snapshot
from kgroup.operation.zookeeper.commit import larger, with_kafka_commits
from kgroup.operation.zookeeper.fetcher import (
    Fetch,
    FetchState,
    OffsetReset,
    ResetCause,
    fetches_of,
    list_fetches,
)
from kgroup.operation.zookeeper.nodes import (
    RegisteredConsumer,
    TreeNode,
    list_consumers,
    list_nodes,
    list_owners,
)
from kgroup.protocol.zookeeper.tree import decode_tree, tree_of
from kgroup.sample import sample_log_dir
from kgroup.source.log.source import LogDir
from kgroup.source.snapshot.source import SnapshotSource, snapshot_source
from kgroup.source.zookeeper.view import cluster_view
from tests.operation.sources import FakeSource, KafkaSource, TreeSource
from tests.recorded_tree import (
    TREE,
    TREES,
    consumer_names,
    recorded,
    recorded_nodes,
    recorded_ranges,
    recorded_snapshot,
    recorded_source,
    recorded_tree,
)

STATS = {node["path"]: node["stat"] for node in recorded_nodes()}

of_every_version = pytest.mark.parametrize("name", TREES)


def stats(name: str) -> dict[str, dict[str, int]]:
    return {node["path"]: node["stat"] for node in recorded_nodes(name)}


def by_name(name: str = TREE) -> dict[str, RegisteredConsumer]:
    report = list_consumers(recorded_source(name))
    assert (report.errors, report.notes) == ((), ())
    return {consumer_names(name)[row.consumer_id]: row for row in report.data}


@of_every_version
def test_consumers_are_those_that_were_started(name: str) -> None:
    assert by_name(name).keys() == recorded(name)["consumers"].keys()
    assert [row.consumer_id for row in list_consumers(recorded_source(name)).data] == sorted(
        recorded(name)["consumers"].values(), key=lambda each: (each.split("_")[0], each)
    )


def test_what_consumers_read() -> None:
    found = {name: (row.pattern, row.streams, row.topics) for name, row in by_name().items()}
    assert found["billing-1"] == (
        SubscriptionPattern.STATIC,
        {"orders": 2, "payments": 1},
        ("orders", "payments"),
    )
    assert found["typo-1"][2] == ("orderz", "payments")
    assert found["warehouse-2"] == (
        SubscriptionPattern.WHITE_LIST,
        {"ship.*|returns": 1},
        ("returns", "shipments"),
    )
    assert found["audit-1"] == (
        SubscriptionPattern.BLACK_LIST,
        {"clicks|orders": 3},
        ("payments", "returns", "shipments"),
    )


@of_every_version
def test_what_consumers_own_and_since_when_they_are_there(name: str) -> None:
    counts = Counter(
        consumer_id for consumer_id, fetches in recorded(name)["fetches"].items() for _ in fetches
    )
    for row in by_name(name).values():
        path = f"/consumers/{row.group_id}/ids/{row.consumer_id}"
        assert row.owned_count == counts[row.consumer_id]
        assert row.registered_ms == stats(name)[path]["ctime"]
        assert row.session_id == hex(stats(name)[path]["ephemeralOwner"])
        assert (row.timestamp_ms is None) == ("beta" in name)
        assert row.host is not None
        assert row.host in row.consumer_id


@of_every_version
def test_owners_are_those_of_the_offset_checker(name: str) -> None:
    report = list_owners(recorded_source(name))
    assert report.errors == ()
    partitions = {(row.group_id, row.topic, row.partition): row for row in report.data}
    for group_id, rows in recorded(name)["checked"].items():
        for checked in rows:
            if "topic" in checked and checked["owner"] is not None:
                row = partitions.pop((group_id, checked["topic"], checked["partition"]))
                assert row.thread_id == checked["owner"] == f"{row.consumer_id}-{row.thread}"
                path = f"/consumers/{group_id}/owners/{row.topic}/{row.partition}"
                assert row.since_ms == stats(name)[path]["ctime"]
                assert row.registered
    assert {at[1:] for at in partitions} == {("returns", 0)}  # the tool passes it over: no leader


def test_rows_are_sorted_by_number_and_chosen_by_group() -> None:
    rows = list_owners(recorded_source(), ["pricing", "billing"]).data
    places = [(row.group_id, row.topic, row.partition) for row in rows]
    assert places == sorted(places)
    assert {place[0] for place in places} == {"billing", "pricing"}
    assert {row.group_id for row in list_consumers(recorded_source(), ["web"]).data} == {"web"}


@pytest.mark.parametrize("operation", [list_consumers, list_owners])
def test_a_group_that_does_not_exist(operation: object) -> None:
    assert callable(operation)
    report: Report[object] = operation(recorded_source(), ["web", "nobody"])
    assert report.data
    assert [(error.kind, error.group_id) for error in report.errors] == [("not-found", "nobody")]


def test_a_source_without_nodes() -> None:
    for operation in (list_consumers, list_owners, list_nodes):
        with pytest.raises(UsageError, match="no nodes of ZooKeeper"):
            operation(LogDir([sample_log_dir()]))


@of_every_version
def test_every_node_is_listed_as_it_is(name: str) -> None:
    report = list_nodes(recorded_source(name))
    assert report.errors == ()
    assert {
        row.path: (row.text, row.ctime_ms, row.mtime_ms, row.version, row.children)
        for row in report.data
    } == {
        node["path"]: (
            node["text"],
            *(node["stat"][name] for name in ("ctime", "mtime", "version", "numChildren")),
        )
        for node in recorded_nodes(name)
    }
    assert {row.error for row in report.data} == {None}
    sessions = {row.path for row in report.data if row.session_id}
    assert sessions == {path for path, stat in stats(name).items() if stat["ephemeralOwner"]}


@of_every_version
def test_every_node_with_data_is_decoded(name: str) -> None:
    rows = {row.path: row for row in list_nodes(recorded_source(name)).data}
    kinds = {row.kind for row in rows.values() if row.text}
    assert None not in {
        row.kind for row in rows.values() if row.text and "/zookeeper" not in row.path
    }
    assert kinds == {
        *("registration", "owner", "offset", "broker", "topic", "partition-state"),
        *("controller", "controller-epoch"),
        *(["config"] if "0.8.0" not in name else []),  # of topics since 0.8.1
    }


def test_what_nodes_say() -> None:
    rows = {row.path: row for row in list_nodes(recorded_source()).data}
    assert rows["/consumers/clickstream/offsets/payments/0"].value == {
        "group_id": "clickstream",
        "topic": "payments",
        "broker": None,
        "partition": 0,
        "offset": 1000,
    }
    topic = rows["/brokers/topics/returns"].value
    assert (topic["topic"], topic["partitions"]) == ("returns", {"0": (3,), "1": (1,)})
    state = rows["/brokers/topics/orders/partitions/1/state"]
    assert state.text is not None
    assert {name: state.value[name] for name in ("leader", "leader_epoch")} == {
        name: json.loads(state.text)[name] for name in ("leader", "leader_epoch")
    }


@pytest.mark.parametrize("path", ["/brokers/topics", "brokers/topics/", "//brokers/topics"])
def test_a_path_and_a_depth(path: str) -> None:
    def paths(depth: int | None) -> list[str]:
        return [row.path for row in list_nodes(recorded_source(), path, depth).data]

    assert paths(0) == ["/brokers/topics"]
    topics = [*sorted(recorded()["topics"]), "__consumer_offsets"]
    assert sorted(paths(1)[1:]) == sorted(f"/brokers/topics/{topic}" for topic in topics)
    assert len(paths(2)) == 1 + 2 * len(topics)
    everything = [node for node in STATS if f"{node}/".startswith("/brokers/topics/")]
    assert sorted(paths(None)) == sorted(everything)
    assert paths(9) == paths(None)


def source_of(*nodes: Node) -> SnapshotSource:
    saved = tuple(map(SnapshotNode.of, nodes))
    return snapshot_source(replace(recorded_snapshot(), zookeeper=saved))


def one(path: str, data: bytes | None, at: str = "/") -> Report[TreeNode]:
    return list_nodes(source_of(Node(path, data, Stat())), at)


def test_bad_data_are_shown_with_the_reason() -> None:
    report = one("/consumers/g/offsets/t/0", b"12x")
    (row,), (problem,) = report.data, report.errors
    assert (row.kind, row.value, row.text) == (None, None, "12x")
    assert row.error == problem.reason
    assert "12x" in problem.reason
    assert problem.path == row.path


def test_bytes_that_are_no_text() -> None:
    (row,) = one("/brokers/ids/1", b"\xff\xfe").data
    assert (row.text, row.raw) == (None, "//4=")
    assert row.error is not None
    (row,) = one("/mine", b"\xff").data
    assert (row.kind, row.raw, row.error) == (None, "/w==", None)
    (row,) = one("/mine", b"").data
    assert (row.text, row.raw) == ("", None)


def test_problems_elsewhere_are_not_told() -> None:
    assert one("/consumers/g/offsets/t/0", b"12x", "/consumers/g").errors
    report = one("/consumers/g/offsets/t/0", b"12x", "/consumers/h")
    assert [error.kind for error in report.errors] == ["not-found"]
    assert [error.path for error in report.errors] == ["/consumers/h"]


def test_a_name_that_begins_alike_lies_elsewhere() -> None:
    source = source_of(Node("/a"), Node("/a/b"), Node("/ab"))
    assert [row.path for row in list_nodes(source, "/a").data] == ["/a", "/a/b"]


def test_what_an_administrator_asked_for() -> None:
    reassign = b'{"version":1,"partitions":[{"topic":"t","partition":0,"replicas":[2,3]}]}'
    (row,) = one("/admin/reassign_partitions", reassign).data
    assert row.kind == "reassignment"
    assert row.value == [{"topic": "t", "partition": 0, "replicas": (2, 3)}]
    elect = b'{"version":1,"partitions":[{"topic":"t","partition":0}]}'
    (row,) = one("/admin/preferred_replica_election", elect).data
    assert (row.kind, row.value) == ("election", [{"topic": "t", "partition": 0}])
    (row,) = one("/cluster/id", b'{"version":"1","id":"abc"}').data
    assert (row.kind, row.value) == ("cluster-id", "abc")


FETCHERS = {"pricing": 2}
"""`num.consumer.fetchers` of the recorded groups; else 1."""
SMALLEST = OffsetReset.SMALLEST


def recorded_fetches(reset: OffsetReset = SMALLEST, name: str = TREE) -> list[Fetch]:
    view = decode_tree(recorded_tree(name))
    return [
        fetch
        for group_id, group in view.groups.items()
        for fetch in fetches_of(
            view, group, recorded_ranges(name), count=FETCHERS.get(group_id, 1), reset=reset
        )
    ]


@pytest.mark.parametrize("name", TREES)
def test_threads_brokers_and_partitions_are_those_of_the_real_consumers(name: str) -> None:
    found = {
        (fetch.consumer_id, fetch.topic, fetch.partition): (
            fetch.fetcher,
            fetch.broker.id if fetch.broker else None,
        )
        for fetch in recorded_fetches(name=name)
    }
    theirs = {
        (consumer_id, fetch["topic"], fetch["partition"]): (fetch["thread"], fetch["broker"])
        for consumer_id, fetches in recorded(name)["fetches"].items()
        for fetch in fetches
    }
    assert found == theirs
    assert len({thread for thread, _ in found.values()}) > (20 if name == TREE else 10)
    assert (None, None) in theirs.values()


def test_what_waits_for_a_leader_is_said_to_wait() -> None:
    waiting = [fetch for fetch in recorded_fetches() if fetch.fetcher is None]
    assert {(fetch.topic, fetch.partition) for fetch in waiting} == {("returns", 0)}
    # which of the two is written depends on whether that broker was the controller
    assert {fetch.state for fetch in waiting} <= {FetchState.NO_LEADER, FetchState.LEADER_GONE}
    assert {fetch.state for fetch in recorded_fetches() if fetch.fetcher} == {FetchState.FETCHING}


def test_resets_are_those_that_the_consumers_logged() -> None:
    assert recorded()["resets"]
    resets = [
        {
            "topic": fetch.topic,
            "partition": fetch.partition,
            "offset": fetch.committed_offset,
            "to": fetch.fetch_offset,
        }
        for fetch in recorded_fetches()
        if fetch.reset in (ResetCause.BEFORE_START, ResetCause.PAST_END)
    ]
    assert sorted(resets, key=str) == sorted(recorded()["resets"], key=str)


@pytest.mark.parametrize("name", TREES)
def test_a_fetcher_is_never_before_where_it_begins(name: str) -> None:
    """The consumers had read on, to the end; none had committed since."""
    fetches_of_all = recorded_fetches(name=name)
    begins = {(each.consumer_id, each.topic, each.partition): each for each in fetches_of_all}
    for consumer_id, fetches in recorded(name)["fetches"].items():
        for fetch in fetches:
            each = begins[consumer_id, fetch["topic"], fetch["partition"]]
            if each.fetcher:
                assert each.fetch_offset is not None
                assert each.fetch_offset <= fetch["offset"] == each.log_end_offset


def test_largest_resets_to_the_end() -> None:
    largest = [fetch for fetch in recorded_fetches(OffsetReset.LARGEST) if fetch.reset]
    assert {fetch.reset for fetch in largest} == set(ResetCause)
    assert all(fetch.fetch_offset == fetch.log_end_offset for fetch in largest)


@pytest.mark.parametrize(
    ("topic", "partition", "count", "expected"),
    [
        # "a".hashCode() is 97, "" 0, "Aa" and "BB" 2112
        ("a", 0, 5, 31 * 97 % 5),
        ("a", 3, 5, (31 * 97 + 3) % 5),
        ("Aa", 1, 7, (31 * 2112 + 1) % 7),
        ("BB", 1, 7, (31 * 2112 + 1) % 7),
        ("", 0, 3, 0),
        # 31 * 97 + (2^31 - 31 * 97) is 2^31, as an int the least number, whose abs is 0
        ("a", 2**31 - 31 * 97, 5, 0),
        # one more is the least number but one: abs is 2^31 - 1
        ("a", 2**31 - 31 * 97 + 1, 5, (2**31 - 1) % 5),
    ],
)
def test_fetcher_id(topic: str, partition: int, count: int, expected: int) -> None:
    assert fetcher_id(topic, partition, count) == expected


@pytest.mark.parametrize(
    ("version", "expected"),
    [
        # "sale".hashCode() is 3522631 and "payments".hashCode() 1382682413; 31 times that is
        # 42863154803, which as an int is -86518157, and 2060965491 without its sign bit
        ("0.8.2.2", ((31 * 3522631 + 1) % 7, 86518157 % 7)),
        ("0.8.1.1", ((31 * 3522631 + 1) % 7, 2060965491 % 7)),
        ("0.8.0", (0, 0)),
    ],
)
def test_older_consumers_number_fetchers_otherwise(version: str, expected: tuple[int, int]) -> None:
    found = fetcher_id("sale", 1, 7, version), fetcher_id("payments", 0, 7, version)
    assert found == expected


REGISTRATION = '{"version":1,"subscription":{"t":1},"pattern":"static","timestamp":"5"}'


def view(**more: str) -> ZookeeperView:
    """A consumer "g_c" that owns t-0, which broker 1 leads; more nodes instead of these."""
    nodes = {
        "/consumers/g/ids/g_c": REGISTRATION,
        "/consumers/g/owners/t/0": "g_c-0",
        "/consumers/g/offsets/t/0": "5",
        "/brokers/ids/1": '{"version":1,"host":"a","port":9092,"jmx_port":-1,"timestamp":"1"}',
        "/brokers/topics/t": '{"version":1,"partitions":{"0":[1]}}',
        "/brokers/topics/t/partitions/0/state": '{"leader":1,"isr":[1],"version":1}',
    } | more
    return decode_tree(
        tree_of(Node(path, text.encode(), Stat()) for path, text in nodes.items() if text)
    )


UNKNOWN = LogRange()


def fetch_of(found: ZookeeperView, log: LogRange = UNKNOWN) -> Fetch:
    ranges = {("t", 0): log}
    (fetch,) = fetches_of(found, found.groups["g"], ranges, count=1, reset=SMALLEST)
    return fetch


def test_an_owner_that_is_gone_fetches_nothing() -> None:
    fetch = fetch_of(view(**{"/consumers/g/ids/g_c": ""}))
    assert (fetch.state, fetch.fetcher, fetch.broker) == (FetchState.CONSUMER_GONE, None, None)


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        ("", FetchState.NO_LEADER),
        ('{"leader":-1,"isr":[1],"version":1}', FetchState.NO_LEADER),
        ('{"leader":2,"isr":[2],"version":1}', FetchState.LEADER_GONE),
    ],
)
def test_states_of_a_partition_that_waits(state: str, expected: FetchState) -> None:
    fetch = fetch_of(view(**{"/brokers/topics/t/partitions/0/state": state}))
    assert (fetch.state, fetch.fetcher, fetch.broker) == (expected, None, None)
    assert fetch.fetch_offset == 5


def test_a_leader_that_old_consumers_cannot_reach() -> None:
    node = (
        '{"version":4,"host":null,"port":-1,"endpoints":["SSL://a:9093"],'
        '"listener_security_protocol_map":{"SSL":"SSL"},"jmx_port":-1,"timestamp":"1"}'
    )
    fetch = fetch_of(view(**{"/brokers/ids/1": node}))
    assert (fetch.state, fetch.fetcher) == (FetchState.NO_LISTENER, None)


@pytest.mark.parametrize(
    ("endpoints", "expected", "label"),
    [
        ("", Broker(1, None, None), "(1)"),
        # Kafka's own reader (kafka.cluster.EndPoint) takes an empty host for that of no interface.
        ('"SSL://:9092"', Broker(1, None, None), "(1)"),
        ('"SSL://:9092","TLS://b:9093"', Broker(1, "b", 9093), "b:9093 (1)"),
    ],
)
def test_the_address_of_a_broker_is_the_first_that_is_one(
    endpoints: str, expected: Broker, label: str
) -> None:
    node = f'{{"version":4,"host":null,"port":-1,"endpoints":[{endpoints}],"timestamp":"1"}}'
    broker = cluster_view(view(**{"/brokers/ids/1": node}), ()).brokers[1]
    assert (broker, broker.label) == (expected, label)


@pytest.mark.parametrize(
    ("committed", "log", "offset", "reset"),
    [
        ("5", LogRange(), 5, None),
        ("5", LogRange(0, 10), 5, None),
        ("10", LogRange(0, 10), 10, None),  # the next record to come
        ("11", LogRange(0, 10), 0, ResetCause.PAST_END),
        ("2", LogRange(3, 10), 3, ResetCause.BEFORE_START),
        ("3", LogRange(3, 10), 3, None),
        ("", LogRange(3, 10), 3, ResetCause.NO_COMMIT),
        ("-1", LogRange(3, 10), 3, ResetCause.NO_COMMIT),
        ("", LogRange(), None, ResetCause.NO_COMMIT),
    ],
)
def test_where_a_fetcher_begins(
    committed: str, log: LogRange, offset: int | None, reset: ResetCause | None
) -> None:
    fetch = fetch_of(view(**{"/consumers/g/offsets/t/0": committed}), log)
    assert (fetch.fetch_offset, fetch.reset) == (offset, reset)


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
    "g: ZooKeeper and Kafka have different commits for 2 partitions; the larger one, at which "
    "consumers with dual.commit.enabled start, is shown."
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
