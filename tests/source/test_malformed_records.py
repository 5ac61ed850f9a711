"""Records whose bytes were changed, as if their checksums were right: nothing may raise."""

import random

import pytest

from kgroup.model.delta import Delta
from kgroup.model.group import Group
from kgroup.model.record import DecodedRecord
from kgroup.operation.describe import describe
from kgroup.protocol.batch import Record, RecordBatch
from kgroup.protocol.coordinator_record import decode_control, decode_record
from kgroup.protocol.record_batch import read_batches, read_records
from kgroup.source.segment_file import find_segments
from tests.operation.sources import FakeSource
from tests.source.scenarios import SCENARIOS, scenario

RUNS = 15


def log(name: str) -> list[tuple[RecordBatch, Record]]:
    """All records of a scenario, as if they were in one partition."""
    return [
        (batch, record)
        for segment in find_segments([scenario(name).log_dir])
        for batch in read_batches(segment.path.read_bytes())
        if isinstance(batch, RecordBatch)
        for record in read_records(batch)
        if isinstance(record, Record)
    ]


@pytest.mark.parametrize("name", SCENARIOS)
def test_malformed_records_never_raise(name: str) -> None:
    chance = random.Random(name)
    recorded = log(name)
    known = set(_groups(recorded, 0.0, chance))
    for _ in range(RUNS):
        groups = _groups(recorded, 0.1, chance)
        assert len(known & groups.keys()) > len(known) / 2
        assert len(describe(FakeSource(*groups.values())).data) == len(groups)


def _groups(
    recorded: list[tuple[RecordBatch, Record]], rate: float, chance: random.Random
) -> dict[str, Group]:
    delta = Delta(0)
    for batch, record in recorded:
        key, value = record.key, record.value
        if chance.random() < rate:
            if chance.random() < 0.3:
                key = _changed(key, chance)
            else:
                value = _changed(value, chance)
        decode = decode_control if batch.is_control else decode_record
        is_transactional = batch.is_transactional and not batch.is_control
        delta.replay(
            DecodedRecord(
                0,
                record.offset,
                record.timestamp_ms,
                batch.timestamp_type,
                batch.leader_epoch,
                batch.producer_id,
                batch.producer_epoch,
                "open" if is_transactional else None,
                *decode(key, value),
            )
        )
    delta.problems()
    return delta.groups()


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
