"""Files of offsets: what is written is read as it was."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kgroup.model.offset import CommittedOffset, StoredOffset
from kgroup.render.offsets import file_form, file_lines
from kgroup.source.base import OffsetReading
from kgroup.source.offset_file import OffsetFile
from tests.examples import examples

INT = st.integers(0, (1 << 31) - 1)
LONG = st.integers(0, (1 << 63) - 1)
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=30) | st.sampled_from(
    ["{", "{}", '{"', "\ufeff", "\ufeff{", " ", "\r", "a\r", '"', ",", "\u2028", "\0", "x" * 25]
)
LINE = TEXT.filter(lambda text: not {"\n", "\0"} & set(text))


def rows(
    name: st.SearchStrategy[str], **others: st.SearchStrategy[object]
) -> st.SearchStrategy[list[StoredOffset]]:
    """Draw offsets of different partitions."""
    one = st.builds(StoredOffset, group_id=name, topic=name, partition=INT, **others)
    return st.lists(
        one, min_size=1, max_size=4, unique_by=lambda row: (row.group_id, row.topic, row.partition)
    )


def read(data: bytes, group_ids: list[str] | None = None) -> OffsetReading:
    with TemporaryDirectory() as folder:
        file = Path(folder) / "offsets"
        file.write_bytes(data)
        return OffsetFile(file).read_offsets(group_ids)


def expected(written: list[StoredOffset]) -> dict[str, tuple[CommittedOffset, ...]]:
    found: dict[str, list[CommittedOffset]] = {}
    for row in sorted(written, key=lambda row: (row.group_id, row.topic, row.partition)):
        if row.committed_offset is not None:
            offset = CommittedOffset(
                row.topic,
                row.partition,
                row.committed_offset,
                row.leader_epoch,
                row.metadata,
                row.commit_timestamp_ms,
            )
            found.setdefault(row.group_id, []).append(offset)
    return {group_id: tuple(offsets) for group_id, offsets in found.items()}


@settings(max_examples=examples(100))
@given(
    rows(
        TEXT,
        committed_offset=st.none() | LONG,
        leader_epoch=st.none() | INT,
        metadata=st.none() | TEXT,
        commit_timestamp_ms=st.none() | LONG,
    ),
    st.sampled_from(["json", "jsonl"]),
)
def test_json_has_all(written: list[StoredOffset], form: str) -> None:
    reading = read(b"".join(file_lines(written, form)))
    assert reading.offsets == expected(written)
    absent = {(row.group_id, row.topic, row.partition) for row in written} - {
        (group_id, offset.topic, offset.partition)
        for group_id, offsets in reading.offsets.items()
        for offset in offsets
    }
    assert {(group_id, *at) for group_id, ats in reading.absent.items() for at in ats} == absent


@settings(max_examples=examples(100))
@given(rows(LINE, committed_offset=LONG))
def test_csv_has_offsets(written: list[StoredOffset]) -> None:
    assert read(b"".join(file_lines(written, "kafka-csv"))).offsets == expected(written)
    groups = sorted({row.group_id for row in written})
    if len(groups) == 1:
        data = b"".join(file_lines(written, "kafka-csv", with_group=False))
        assert read(data, groups).offsets == expected(written)


@pytest.mark.parametrize(
    ("name", "form"), [("a.csv", "kafka-csv"), ("b.x.JSON", "json"), ("C.JsonL", "jsonl")]
)
def test_what_a_name_says_of_the_form(name: str, form: str) -> None:
    assert file_form(Path(name)) == form
