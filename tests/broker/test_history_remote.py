"""Segments in S3 and in GCS, of servers on loopback that speak their protocols."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from pyarrow.fs import FileSystem, LocalFileSystem, copy_files

from kgroup.columnar.schema import records
from kgroup.errors import InputError
from kgroup.history.input.segment_source import SegmentSource, find_sources
from kgroup.history.input.split import FileRange, Split, read_split
from kgroup.history.remote import RemoteFiles
from kgroup.model.segment import Segment
from kgroup.protocol.batch.batch import Damage
from kgroup.sample import sample_log_dir
from tests.broker.object_store import gcs_server, s3_server
from tests.history.cut_log import BASE, BATCHES, STARTS, index_of

DATA = Path(__file__).parents[1] / "data"
SPLIT_SIZE = 1 << 19


@pytest.fixture(scope="module")
def parameters() -> Iterator[str]:
    """What follows the path in a URI, for a server of S3 that is there."""
    with s3_server() as found:
        yield found


@pytest.fixture(scope="module")
def gcs() -> Iterator[str]:
    """URI of the sample's log directory in GCS, where there are no folders."""
    with gcs_server("sample") as parameters:
        files, _ = FileSystem.from_uri(f"gs://anonymous@sample{parameters}")
        root = sample_log_dir()
        for path in root.rglob("*"):
            if path.is_file():
                with files.open_output_stream(f"sample/logs/{path.relative_to(root)}") as target:
                    target.write(path.read_bytes())
        yield f"gs://anonymous@sample/logs{parameters}"


def upload(folder: Path, bucket: str, parameters: str) -> None:
    files, _ = FileSystem.from_uri(f"s3://{bucket}{parameters}&allow_bucket_creation=true")
    files.create_dir(bucket)
    copy_files(
        str(folder),
        f"{bucket}/logs",
        source_filesystem=LocalFileSystem(),
        destination_filesystem=files,
    )


@pytest.fixture(scope="module")
def sample(parameters: str) -> str:
    """URI of the sample's log directory."""
    upload(sample_log_dir(), "sample", parameters)
    return f"s3://sample/logs{parameters}"


@pytest.fixture(scope="module")
def large(parameters: str, tmp_path_factory: pytest.TempPathFactory) -> tuple[SegmentSource, Path]:
    """A segment of more than a megabyte, and the local file that it was made of."""
    folder = tmp_path_factory.mktemp("large")
    path = folder / "__consumer_offsets-3" / f"{BASE:020}.log"
    path.parent.mkdir()
    times = 12
    path.write_bytes(b"".join(BATCHES * times))
    path.with_suffix(".index").write_bytes(index_of(BATCHES * times, 4096))
    upload(folder, "large", parameters)
    (source,) = find_sources([f"s3://large/logs{parameters}"], "c").segments
    return source, path


def content(splits: list[Split]) -> list[Any]:
    return [
        item
        for split in splits
        for part in read_split(split)
        for item in ([part] if isinstance(part, Damage) else records(part))
    ]


def comparable(source: SegmentSource) -> tuple[Any, ...]:
    _, _, name = source.path.rpartition("/__consumer_offsets-")
    return source.cluster, source.offsets_partition, source.base_offset, source.size, name


@pytest.mark.parametrize("store", ["s3", "gs"])
def test_a_log_directory(store: str, sample: str, gcs: str) -> None:
    expected = find_sources([str(sample_log_dir())])
    sources = find_sources([{"s3": sample, "gs": gcs}[store]])
    assert [*map(comparable, sources.segments)] == [*map(comparable, expected.segments)]
    assert sources.topic_names == expected.topic_names
    assert (sources.problems, sources.notes) == ((), ())
    folder = f"{store}://sample/logs/__consumer_offsets-1"
    assert sources.segments[1].name == f"{folder}/00000000000000000000.log"
    assert sources.segments[1].replica == folder
    for segment, other in zip(sources.segments, expected.segments, strict=True):
        assert segment.read(0, 1 << 30) == Path(other.path).read_bytes()
        assert segment.read(segment.size + 5, 10) == b""
        assert content(segment.splits()) == content(other.splits())


@pytest.mark.parametrize("store", ["s3", "gs"])
def test_a_folder_and_a_file(store: str, sample: str, gcs: str) -> None:
    whole = {"s3": sample, "gs": gcs}[store]
    place, _, parameters = whole.partition("?")
    folder = f"{place}/__consumer_offsets-1"
    for uri in (f"{folder}?{parameters}", f"{folder}/{0:020}.log?{parameters}"):
        sources = find_sources([uri, uri, whole])
        assert len(sources.segments) == 8
        (segment,) = find_sources([uri]).segments
        assert (segment.cluster, segment.offsets_partition) == ("a2dyb3VwLXRlc3RzLTAwMQ", 1)
        assert segment.name == f"{store}://sample/logs/__consumer_offsets-1/{0:020}.log"


def test_beside_local_files(sample: str) -> None:
    uri = f"file://{DATA / 'kafka-4.3.1'}"
    sources = find_sources([sample, str(sample_log_dir()), uri])
    folders = {segment.replica.rpartition("/")[0] for segment in sources.segments}
    assert folders == {"s3://sample/logs", str(sample_log_dir()), str(DATA / "kafka-4.3.1")}


def test_what_a_broker_would_not_read(parameters: str, tmp_path: Path) -> None:
    folders = DATA / "compacted-4.3.1"
    shutil.copytree(folders, tmp_path / "logs", ignore=shutil.ignore_patterns("leftovers"))
    segment = next((tmp_path / "logs" / "__consumer_offsets-0").glob("*.log"))
    shutil.copy(segment, f"{segment.with_name(f'{1:020}.log')}.deleted")
    shutil.copy(segment, segment.with_name(f"{0:020}.log.swap"))
    upload(tmp_path / "logs", "swap", parameters)
    sources = find_sources([f"s3://swap/logs{parameters}"], "c")
    expected = find_sources([str(tmp_path / "logs")], "c")
    assert [*map(comparable, sources.segments)] == [*map(comparable, expected.segments)]
    reasons = [[note.partition(" left out")[2] for note in s.notes] for s in (sources, expected)]
    assert sorted(reasons[0]) == sorted(reasons[1])
    assert len(reasons[0]) > 1


def test_cut_by_index(large: tuple[SegmentSource, Path]) -> None:
    source, path = large
    (local,) = find_sources([str(path)], "c").segments
    splits = source.splits(split_size=SPLIT_SIZE)
    assert [split.size for split in splits] == [s.size for s in local.splits(split_size=SPLIT_SIZE)]
    assert len(splits) == 3
    assert content(splits) == content(local.splits())
    (first, *_) = source.splits(local.size - STARTS[-1] - 50)
    assert isinstance(first.location, FileRange)
    assert first.location.start % (STARTS[-1] + len(BATCHES[-1])) in STARTS


def test_without_an_index_it_is_whole(
    large: tuple[SegmentSource, Path], parameters: str, tmp_path: Path
) -> None:
    _, path = large
    folder = tmp_path / path.parent.name
    folder.mkdir()
    shutil.copy(path, folder)
    upload(tmp_path, "unindexed", parameters)
    (source,) = find_sources([f"s3://unindexed/logs{parameters}"], "c").segments
    assert len(source.splits(split_size=SPLIT_SIZE)) == 1
    round_length = STARTS[-1] + len(BATCHES[-1])
    starts = [split.location.start for split in source.splits(3 * round_length)]
    assert starts == [3 * round_length]
    starts = [split.location.start for split in source.splits(3 * round_length + 9)]
    assert starts == [0]


def test_only_a_part_is_copied(large: tuple[SegmentSource, Path]) -> None:
    source, path = large
    last = source.splits(split_size=SPLIT_SIZE)[-1]
    assert isinstance(last.location, FileRange)
    with last.location.local(3) as (copy, _):
        data = copy.read_bytes()
        assert len(data) == source.size
        assert data[last.location.start :] == path.read_bytes()[last.location.start :]
        assert not any(data[: last.location.start])
        assert 512 * copy.stat().st_blocks < 2 * SPLIT_SIZE
        held = copy
    assert not held.exists()


def test_damage_at_the_end_of_a_part(parameters: str, tmp_path: Path) -> None:
    """It is judged with what follows, and said once, at its place in the file."""
    data = bytearray(b"".join(BATCHES))
    data[STARTS[200] + 8 : STARTS[200] + 12] = (1 << 12).to_bytes(4, "big")
    folder = tmp_path / "__consumer_offsets-3"
    folder.mkdir()
    (folder / f"{BASE:020}.log").write_bytes(data)
    upload(tmp_path, "damage", parameters)
    (source,) = find_sources([f"s3://damage/logs{parameters}"], "c").segments
    whole = content(source.splits())
    (damage,) = (item for item in whole if isinstance(item, Damage))
    assert damage.position == STARTS[200]
    bounds = [0, STARTS[201], source.size]
    parts = [
        Split("c", 3, FileRange(source.path, first, last, source.uri), "n", BASE)
        for first, last in pairwise(bounds)
    ]
    assert content(parts) == whole


@pytest.mark.parametrize(
    ("uri", "reason"),
    [
        ("s3://sample/none", "s3://sample/none: No such file or directory"),
        ("s3://sample/logs/meta.properties", "expected segments"),
        ("s3://no-such-bucket/logs", "No such file or directory"),
        ("xyz://sample/logs", "xyz://sample/logs: expected a path, or a URI"),
    ],
)
def test_nothing_there(uri: str, reason: str, sample: str) -> None:
    with pytest.raises(InputError, match=reason):
        find_sources([f"{uri}?{sample.partition('?')[2]}"])


def test_a_place_that_cannot_be_read(sample: str, monkeypatch: pytest.MonkeyPatch) -> None:
    find = RemoteFiles.find

    def find_or_fail(files: RemoteFiles) -> list[Segment]:
        if "other" in files.shown:
            raise OSError("AWS Error NETWORK_CONNECTION\nand what else was tried")
        return find(files)

    monkeypatch.setattr(RemoteFiles, "find", find_or_fail)
    other = sample.replace("//sample", "//other")
    with pytest.raises(InputError) as error:
        find_sources([other])
    assert str(error.value) == "s3://other/logs: cannot be read: AWS Error NETWORK_CONNECTION"
    sources = find_sources([other, sample])
    assert len(sources.segments) == 8
    (problem,) = sources.problems
    assert (problem.kind, problem.path) == ("unreadable", "s3://other/logs")


def test_secrets_are_not_shown(sample: str) -> None:
    uri = sample.replace("s3://", "s3://kgroup:swordfish@")
    segments = find_sources([uri]).segments
    assert all("swordfish" not in each for s in segments for each in (s.name, s.replica))
    with pytest.raises(InputError) as error:
        find_sources([uri.replace("/logs", "/none")])
    assert "swordfish" not in str(error.value)


def test_gone_since_it_was_found(large: tuple[SegmentSource, Path]) -> None:
    source, _ = large
    place = FileRange(source.path + ".gone", 0, source.size, source.uri)
    lost = Split("c", 3, place, "n", BASE)
    with pytest.raises(OSError, match="gone"):
        list(read_split(lost))
