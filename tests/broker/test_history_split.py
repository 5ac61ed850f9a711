"""Splits of the live topic, and of the segments that the same broker wrote."""

from __future__ import annotations

import pickle
import struct
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path

import pytest
from kafka import KafkaProducer, TopicPartition
from kafka.structs import OffsetAndMetadata

from kgroup.columnar.schema import records
from kgroup.errors import BrokerError
from kgroup.history.input import segment_source
from kgroup.history.input.live_source import ask_live
from kgroup.history.input.segment_source import find_sources
from kgroup.history.input.split import FileRange, OffsetRange, Split, read_split
from kgroup.model.record import DecodedRecord
from kgroup.protocol.batch.batch import Damage
from kgroup.source.config.client_config import ClientConfig, client_config
from tests.broker.servers import CLUSTER_ID, Broker
from tests.record.raw import commit
from tests.record.wire import Wire

COMMITS = 150


@pytest.fixture(scope="module")
def server(orders_broker: Broker) -> Broker:
    with Wire(orders_broker.version, orders_broker.bootstrap) as wire:
        for number in range(COMMITS):
            offsets = {("orders", partition): number for partition in range(3)}
            commit(wire, f"split-{number % 9}", offsets, metadata="é" * (number % 40))
    options = {"bootstrap_servers": orders_broker.bootstrap, "transactional_id": "splitter"}
    with closing(KafkaProducer(**options)) as producer:
        producer.init_transactions()
        for is_end in (True, False):
            producer.begin_transaction()
            at = {TopicPartition("orders", 0): OffsetAndMetadata(7, "", -1)}
            producer.send_offsets_to_transaction(at, "split")
            producer.commit_transaction() if is_end else producer.abort_transaction()
    return orders_broker


@pytest.fixture
def config(server: Broker) -> ClientConfig:
    return client_config(environment={}, bootstrap_server=server.bootstrap)


def read(splits: Iterable[Split]) -> dict[int, list[DecodedRecord]]:
    """The records of each partition, in the order of the splits; there is no damage."""
    found: dict[int, list[DecodedRecord]] = {}
    for split in splits:
        of_partition = found.setdefault(split.offsets_partition, [])
        for part in read_split(pickle.loads(pickle.dumps(split))):
            assert not isinstance(part, Damage)
            of_partition += records(part)
    return found


def segments(server: Broker) -> dict[int, list[DecodedRecord]]:
    return read(
        split
        for segment in find_sources([str(server.log_dir)]).segments
        for split in segment.splits()
    )


def test_the_topic_is_what_the_segments_hold(server: Broker, config: ClientConfig) -> None:
    live = ask_live(config)
    assert (live.cluster, live.problems) == (CLUSTER_ID, ())
    assert live.ranges.keys() == set(range(len(live.ranges)))
    assert "orders" in live.topic_names.values()
    found = read(live.splits())
    assert sum(map(len, found.values())) > 3 * COMMITS
    assert found == segments(server)
    statuses = [record.transaction for each in found.values() for record in each]
    assert {status for status in statuses if status} == {"committed", "aborted"}


def test_ranges(server: Broker, config: ClientConfig) -> None:
    """Commits of three partitions are one batch: ranges that end within one have a part of it."""
    live = ask_live(config)
    expected = segments(server)
    splits = live.splits(most_offsets=40)
    places = [split.location for split in splits]
    assert max(place.end - place.start for place in places) == 40
    assert len(splits) > 10
    cut = read(splits)
    assert {number: [r.offset for r in found] for number, found in cut.items()} == {
        number: [r.offset for r in found] for number, found in expected.items()
    }
    number, (_, end) = max(live.ranges.items(), key=lambda item: item[1][1])
    starts = dict.fromkeys(live.ranges, 1 << 60) | {number: 5}
    (split,) = live.splits(starts, {number: end - 3})
    assert isinstance(split.location, OffsetRange)
    assert (split.location.start, split.location.end, split.base_offset) == (5, end - 3, 5)
    assert [r.offset for r in read([split])[number]] == [
        r.offset for r in expected[number] if 5 <= (r.offset or 0) < end - 3
    ]


def test_an_index_that_a_broker_wrote(server: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segment_source, "cut_by_lengths", lambda *_: [0])
    cuts = 0
    expected = segments(server)
    for segment in find_sources([str(server.log_dir)]).segments:
        splits = segment.splits(split_size=6000)
        index = Path(segment.path).with_suffix(".index").read_bytes()
        positions = {position for _, position in struct.iter_unpack(">ii", index)}
        for split in splits[1:]:
            assert isinstance(split.location, FileRange)
            assert split.location.start in positions
            cuts += 1
        found = [r.offset for r in read(splits).get(segment.offsets_partition, [])]
        assert found == [r.offset for r in expected.get(segment.offsets_partition, [])]
    assert cuts > 0


def test_nobody_answers(server: Broker, config: ClientConfig) -> None:
    split = ask_live(config).splits()[0]
    wrong = client_config(environment={}, bootstrap_server="127.0.0.1:1")
    assert isinstance(split.location, OffsetRange)
    place = OffsetRange(split.location.start, split.location.end, wrong, timeout_s=0.5)
    lost = Split("c", split.offsets_partition, place, split.name, None)
    with pytest.raises(BrokerError, match=r"127\.0\.0\.1:1"):
        list(read_split(lost))
    with pytest.raises(BrokerError, match=r"127\.0\.0\.1:1"):
        ask_live(wrong)
