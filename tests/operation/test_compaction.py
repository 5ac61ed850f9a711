"""`--latest` keeps what Kafka's own log cleaner kept.

The recorded directories hold, beside the segment that the cleaner wrote, the segments that it read,
renamed to ``.log.deleted``.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from kgroup.operation.decode import Selection, decode
from kgroup.protocol.batch.batch import Record, RecordBatch
from kgroup.protocol.batch.record_batch import read_batches, read_records
from kgroup.source.log.segment_file import find_segments

DATA = Path(__file__).parents[1] / "data"
FOLDERS = sorted(
    folder
    for folder in DATA.glob("compacted-*/__consumer_offsets-*")
    if any(folder.glob("*.log.deleted"))
)


def kept_by_the_cleaner(segment: Path) -> list[int]:
    """Offsets of the records in a compacted segment, without markers."""
    return [
        record.offset
        for batch in read_batches(segment.read_bytes())
        if isinstance(batch, RecordBatch) and not batch.is_control
        for record in read_records(batch)
        if isinstance(record, Record)
    ]


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda path: f"{path.parent.name}-{path.name[-1]}")
def test_latest_is_what_the_cleaner_keeps(folder: Path, tmp_path: Path) -> None:
    before = tmp_path / folder.name
    before.mkdir()
    for segment in folder.glob("*.log.deleted"):
        shutil.copy(segment, before / segment.name.removesuffix(".deleted"))
    decoding = decode(find_segments([tmp_path]), Selection(), last_only=True)
    latest = [
        offset
        for found in decoding.map(lambda rows: rows["offset"].to_pylist())
        for offset in found
    ]
    everything = decode(find_segments([tmp_path]), Selection())
    compacted = kept_by_the_cleaner(min(folder.glob("*.log")))
    assert latest == compacted
    assert 5 < len(latest) < sum(everything.map(len))


def test_there_is_something_to_compare_with() -> None:
    assert len(FOLDERS) >= 4
