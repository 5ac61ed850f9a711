"""Records whose bytes were changed, as if their checksums were right: nothing may raise."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
from dataclasses import replace

import pytest

from kgroup.model.delta import Delta
from kgroup.model.group import Group, GroupType
from kgroup.model.offsets_partition import SHARE_STATE_TOPIC
from kgroup.model.record import DecodedRecord
from kgroup.model.segment import Segment
from kgroup.model.share_state import ShareStateLog, with_share_states
from kgroup.operation.describe import describe
from kgroup.protocol.batch.batch import Record, RecordBatch
from kgroup.protocol.batch.record_batch import read_batches, read_records
from kgroup.protocol.record import share_state_record
from kgroup.protocol.record.coordinator_record import decode_control
from kgroup.source.log.segment_file import find_segments, find_topic_segments
from kgroup.source.log.source import Decode, decode_group_record
from tests.examples import examples, some_of
from tests.operation.sources import FakeSource
from tests.source.scenarios import SCENARIOS, scenario

RUNS = examples(2, 32)


def log(segments: Iterable[Segment]) -> list[tuple[RecordBatch, Record]]:
    """All records of some segments, as if they were in one partition."""
    return [
        (batch, record)
        for segment in segments
        for batch in read_batches(segment.path.read_bytes())
        if isinstance(batch, RecordBatch)
        for record in read_records(batch)
        if isinstance(record, Record)
    ]


@pytest.mark.parametrize("name", some_of(SCENARIOS, 3))
def test_malformed_records_never_raise(name: str) -> None:
    chance = random.Random(name)
    recorded = log(find_segments([scenario(name).log_dir]))
    known = set(_groups(recorded, 0.0, chance))
    for _ in range(RUNS):
        groups = _groups(recorded, 0.1, chance)
        assert len(known & groups.keys()) > len(known) / 2
        assert len(describe(FakeSource(*groups.values())).data) == len(groups)


@pytest.mark.parametrize("name", ["kafka-4.0.0", "kafka-4.3.1"])
def test_malformed_share_state_never_raises(name: str) -> None:
    chance = random.Random(name)
    recorded = log(find_topic_segments([scenario(name).log_dir], SHARE_STATE_TOPIC))
    share = Group("notifications-share", GroupType.SHARE, None, share_offsets=())
    for _ in range(RUNS * 20):
        states = ShareStateLog()
        for record in _malformed(recorded, share_state_record.decode_record, 0.1, chance):
            states.replay(record)
        states.problems()
        for group_id, found in states.states.items():
            with_share_states(replace(share, group_id=group_id), found, {})


def _groups(
    recorded: list[tuple[RecordBatch, Record]], rate: float, chance: random.Random
) -> dict[str, Group]:
    delta = Delta(0)
    for record in _malformed(recorded, decode_group_record, rate, chance):
        delta.replay(record)
    delta.problems()
    return delta.groups()


def _malformed(
    recorded: list[tuple[RecordBatch, Record]], decode: Decode, rate: float, chance: random.Random
) -> Iterator[DecodedRecord]:
    for batch, record in recorded:
        key, value = record.key, record.value
        if chance.random() < rate:
            if chance.random() < 0.3:
                key = _changed(key, chance)
            else:
                value = _changed(value, chance)
        is_transactional = batch.is_transactional and not batch.is_control
        yield DecodedRecord(
            0,
            record.offset,
            record.timestamp_ms,
            batch.timestamp_type,
            batch.leader_epoch,
            batch.producer_id,
            batch.producer_epoch,
            "open" if is_transactional else None,
            *(decode_control if batch.is_control else decode)(key, value),
        )


def _changed(data: bytes | None, chance: random.Random) -> bytes | None:
    """Set, put in or take out a few bytes."""
    if not data:
        return data
    at = chance.randrange(len(data))
    return chance.choice(
        [
            data[:at] + chance.randbytes(1) + data[at + 1 :],
            data[:at] + chance.randbytes(chance.randint(1, 8)) + data[at:],
            data[:at] + data[at + chance.randint(1, 8) :],
        ]
    )
