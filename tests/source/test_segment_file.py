"""Which segment files are found, and which of them a broker that starts there would read."""

from __future__ import annotations

import shutil
from pathlib import Path
from struct import pack

import pytest

from kgroup.errors import InputError
from kgroup.model.segment import Segment, SegmentStatus
from kgroup.protocol.batch.batch import RecordBatch
from kgroup.protocol.batch.record_batch import read_batches
from kgroup.source.log.segment_file import find_segments, log_end
from tests.fresh_file import write_fresh
from tests.source.scenarios import SCENARIOS, scenario

RECORDED = scenario("kafka-4.3.1").log_dir
FIRST = f"{0:020}.log"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A partition of three segments: the recorded one, cut between batches."""
    data = (RECORDED / "__consumer_offsets-0" / FIRST).read_bytes()
    batches = [batch for batch in read_batches(data) if isinstance(batch, RecordBatch)]
    folder = tmp_path / "__consumer_offsets-0"
    folder.mkdir()
    third = len(batches) // 3
    for part in (batches[:third], batches[third : 2 * third], batches[2 * third :]):
        name = f"{part[0].base_offset:020}.log"
        (folder / name).write_bytes(b"".join(batch.data for batch in part))
    return folder


def names(segments: list[Segment], *, loaded: bool = True) -> list[str]:
    return [segment.path.name for segment in segments if segment.is_loaded is loaded]


def live(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.glob("*.log"))


def test_log_directory() -> None:
    segments = find_segments([RECORDED])
    count = int(scenario("kafka-4.3.1").config["offsets.topic.num.partitions"])
    assert [segment.partition for segment in segments] == list(range(count))
    for segment in segments:
        assert segment.path.parent.name == f"__consumer_offsets-{segment.partition}"
        assert segment.size == segment.path.stat().st_size
        assert (segment.base_offset, segment.status) == (0, SegmentStatus.LIVE)


def test_folder_of_one_partition_in_offset_order(folder: Path) -> None:
    segments = find_segments([folder])
    assert names(segments) == live(folder)
    assert [segment.base_offset for segment in segments] == [int(n[:20]) for n in live(folder)]
    assert {segment.partition for segment in segments} == {0}


def test_files_beside_segments_are_passed_over(folder: Path) -> None:
    beside = (
        "00000000000000000000.index",
        "00000000000000000000.timeindex",
        "00000000000000000005.snapshot",
        "leader-epoch-checkpoint",
        "partition.metadata",
        "00000000000000000000.index.deleted",
    )
    for name in beside:
        (folder / name).write_bytes(b"x")
    assert names(find_segments([folder])) == live(folder)
    assert names(find_segments(sorted(folder.iterdir()))) == live(folder)


def test_file_with_any_name(tmp_path: Path) -> None:
    copy = tmp_path / "copy.bin"
    copy.write_bytes(b"x")
    (segment,) = find_segments([copy])
    assert (segment.partition, segment.base_offset) == (None, None)
    assert (segment.status, segment.is_loaded) == (SegmentStatus.LIVE, True)


def test_folder_with_another_name(folder: Path, tmp_path: Path) -> None:
    other = tmp_path / "backup"
    shutil.copytree(folder, other)
    assert {segment.partition for segment in find_segments([other])} == {None}


def test_partitions_are_sorted_by_number(tmp_path: Path) -> None:
    for partition in (10, 9, 2):
        shutil.copytree(
            RECORDED / "__consumer_offsets-0", tmp_path / f"__consumer_offsets-{partition}"
        )
    assert [segment.partition for segment in find_segments([tmp_path])] == [2, 9, 10]


def test_found_twice_is_returned_once(folder: Path) -> None:
    paths = [folder.parent, folder, *folder.glob("*.log")]
    assert names(find_segments(paths)) == live(folder)


def test_nothing_to_find(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="No such file"):
        find_segments([tmp_path / "missing"])
    with pytest.raises(InputError, match="found none"):
        find_segments([tmp_path])
    (tmp_path / "00000000000000000000.index").write_bytes(b"")
    with pytest.raises(InputError, match="found none"):
        find_segments([tmp_path / "00000000000000000000.index"])


@pytest.mark.parametrize("suffix", ["deleted", "cleaned"])
def test_deleted_and_cleaned_are_left_out_or_included_by_choice(folder: Path, suffix: str) -> None:
    expected = live(folder)
    extra = folder / f"{0:020}.log.{suffix}"
    shutil.copy(folder / FIRST, extra)
    segments = find_segments([folder])
    assert names(segments) == expected
    assert names(segments, loaded=False) == [extra.name]
    (left_out,) = (segment for segment in segments if not segment.is_loaded)
    assert left_out.status == suffix
    assert left_out.reason
    included = find_segments([folder], include={SegmentStatus(suffix)})
    assert names(included) == sorted([*expected, extra.name])


def test_swap_takes_the_place_of_what_it_covers(folder: Path) -> None:
    """A compaction that joined the first two segments, interrupted before it deleted them."""
    first, second, third = live(folder)
    joined = (folder / first).read_bytes() + (folder / second).read_bytes()
    (folder / f"{first}.swap").write_bytes(joined)
    segments = find_segments([folder])
    assert names(segments) == [f"{first}.swap", third]
    assert names(segments, loaded=False) == [first, second]


def test_two_swaps_cover_all_between_them(folder: Path) -> None:
    first, second, third = live(folder)
    for name in (first, third):
        shutil.copy(folder / name, folder / f"{name}.swap")
    assert names(find_segments([folder])) == [f"{first}.swap", f"{third}.swap"]
    assert names(find_segments([folder]), loaded=False) == [first, second, third]


def test_swap_behind_a_cleaned_segment_is_of_an_unfinished_split(folder: Path) -> None:
    first, second, third = live(folder)
    shutil.copy(folder / second, folder / f"{second}.swap")
    shutil.copy(folder / first, folder / f"{first}.cleaned")
    assert names(find_segments([folder])) == [first, second, third]


def test_swap_before_a_cleaned_segment_is_finished(folder: Path) -> None:
    first, second, third = live(folder)
    shutil.copy(folder / first, folder / f"{first}.swap")
    shutil.copy(folder / second, folder / f"{second}.cleaned")
    assert names(find_segments([folder])) == [f"{first}.swap", second, third]


@pytest.mark.parametrize("mark", ["delete", "future", "stray"])
def test_folders_beside_the_log_are_left_out_unless_named(folder: Path, mark: str) -> None:
    beside = folder.parent / f"{folder.name}.{'0123456789abcdef' * 2}-{mark}"
    shutil.copytree(folder, beside)
    segments = find_segments([folder.parent])
    assert {segment.path.parent for segment in segments if segment.is_loaded} == {folder}
    left_out = [segment for segment in segments if not segment.is_loaded]
    assert [segment.path.name for segment in left_out] == live(folder)
    assert all(segment.reason for segment in left_out)
    assert names(find_segments([beside])) == live(folder)


# ---- log end offsets of every recorded segment, compared with the reader of whole batches


SEGMENTS = sorted(
    path for name in SCENARIOS for path in scenario(name).log_dir.glob("*/[0-9]*.log")
)
OFFSETS = next(
    path for path in SEGMENTS if path.parent.name == "__consumer_offsets-0" and path.stat().st_size
)


def batches(data: bytes) -> list[RecordBatch]:
    return [batch for batch in read_batches(data) if isinstance(batch, RecordBatch)]


def test_every_recorded_segment() -> None:
    assert len(SEGMENTS) > 20
    for path in SEGMENTS:
        found = batches(path.read_bytes())
        expected = found[-1].last_offset + 1 if found else int(path.stem)
        assert log_end(path, int(path.stem)) == expected, path


def test_empty_segment_ends_where_it_begins(tmp_path: Path) -> None:
    path = tmp_path / "00000000000000000042.log"
    path.write_bytes(b"")
    assert log_end(path, 42) == 42


def test_cut_at_every_byte(tmp_path: Path) -> None:
    """What is cut off does not count, and nothing makes it fail."""
    data = OFFSETS.read_bytes()
    first, second = batches(data)[:2]
    path = tmp_path / OFFSETS.name
    for size in range(second.position + second.size):
        write_fresh(path, data[:size])
        assert log_end(path, 0) == (first.last_offset + 1 if size >= first.size else 0), size


def test_zeros_at_the_end(tmp_path: Path) -> None:
    path = tmp_path / OFFSETS.name
    path.write_bytes(OFFSETS.read_bytes() + bytes(10_000))
    assert log_end(path, 0) == log_end(OFFSETS, 0)


@pytest.mark.parametrize("entries", [1, 2, 5])
@pytest.mark.parametrize("spare", [0, 1, 1000])
def test_index_says_where_to_begin(tmp_path: Path, entries: int, spare: int) -> None:
    """An active segment's index has room for more entries, all zeros."""
    data = OFFSETS.read_bytes()
    found = batches(data)
    indexed = found[-entries:]
    path = tmp_path / OFFSETS.name
    # Bytes before the first indexed batch are made unreadable, to see that they are not read.
    path.write_bytes(b"\xff" * indexed[0].position + data[indexed[0].position :])
    index = b"".join(pack(">ii", batch.last_offset, batch.position) for batch in indexed)
    path.with_suffix(".index").write_bytes(index + bytes(8 * spare))
    assert log_end(path, 0) == found[-1].last_offset + 1


def test_index_of_another_segment_is_not_believed(tmp_path: Path) -> None:
    path = tmp_path / OFFSETS.name
    path.write_bytes(OFFSETS.read_bytes())
    for entry in (pack(">ii", 3, 7), pack(">ii", 3, 1 << 30), b"\x00\x00\x01"):
        path.with_suffix(".index").write_bytes(entry)
        assert log_end(path, 0) == log_end(OFFSETS, 0)
