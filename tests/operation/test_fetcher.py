"""What fetchers should do, beside what those of real consumers did."""

from __future__ import annotations

import pytest

from kgroup.assignor.zookeeper import fetcher_id
from kgroup.model.group import Broker
from kgroup.model.log_range import LogRange
from kgroup.model.zookeeper import Node, Stat, ZookeeperView
from kgroup.operation.zookeeper.fetcher import (
    Fetch,
    FetchState,
    OffsetReset,
    ResetCause,
    fetches_of,
)
from kgroup.protocol.zookeeper.tree import decode_tree, tree_of
from kgroup.source.zookeeper.view import cluster_view
from tests.recorded_tree import TREE, TREES, recorded, recorded_ranges, recorded_tree

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


def one(found: ZookeeperView, log: LogRange = UNKNOWN) -> Fetch:
    ranges = {("t", 0): log}
    (fetch,) = fetches_of(found, found.groups["g"], ranges, count=1, reset=SMALLEST)
    return fetch


def test_an_owner_that_is_gone_fetches_nothing() -> None:
    fetch = one(view(**{"/consumers/g/ids/g_c": ""}))
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
    fetch = one(view(**{"/brokers/topics/t/partitions/0/state": state}))
    assert (fetch.state, fetch.fetcher, fetch.broker) == (expected, None, None)
    assert fetch.fetch_offset == 5


def test_a_leader_that_old_consumers_cannot_reach() -> None:
    node = (
        '{"version":4,"host":null,"port":-1,"endpoints":["SSL://a:9093"],'
        '"listener_security_protocol_map":{"SSL":"SSL"},"jmx_port":-1,"timestamp":"1"}'
    )
    fetch = one(view(**{"/brokers/ids/1": node}))
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
    fetch = one(view(**{"/consumers/g/offsets/t/0": committed}), log)
    assert (fetch.fetch_offset, fetch.reset) == (offset, reset)
