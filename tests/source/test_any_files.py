"""Log directories of any names and bytes: they are read, or one error says why not."""

from __future__ import annotations

from collections.abc import Mapping, Set
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kgroup.errors import InputError, KgroupError
from kgroup.model.segment import SegmentStatus
from kgroup.operation.decode import Selection, decode
from kgroup.source.log.segment_file import find_segments, log_end
from kgroup.source.log.source import LogDir
from tests.examples import examples
from tests.source.scenarios import scenario

RECORDED = scenario("kafka-4.3.1").log_dir
FIRST = f"{0:020}.log"
SOUND = (RECORDED / "__consumer_offsets-0" / FIRST).read_bytes()

content = st.binary(max_size=100) | st.builds(
    lambda start, size, tail: SOUND[start : start + size] + tail,
    st.integers(0, 300),
    st.integers(0, 3000),
    st.binary(max_size=30),
)
numbers = st.sampled_from(
    ["0", "1", "007", "2147483647", "2147483648", "9" * 30, "-1", "٣", "x", ""]
)
folders = st.one_of(
    st.builds("__consumer_offsets-{}".format, numbers),
    st.builds(
        "__consumer_offsets-{}.{}-{}".format, numbers, numbers, st.sampled_from(["delete", "stray"])
    ),
    st.builds("__share_group_state-{}".format, numbers),
    st.builds("orders-{}".format, numbers),
    st.sampled_from([".", "__consumer_offsets", "-", "a-0"]),
)
offsets = st.sampled_from(
    [f"{0:020}", f"{42:020}", f"{2**63 - 1:020}", "9" * 20, "٣" * 20, "0", "x"]
)
files = st.one_of(
    st.builds(
        "{}.log{}".format, offsets, st.sampled_from(["", ".deleted", ".cleaned", ".swap", ".x"])
    ),
    st.builds("{}.index".format, offsets),
    st.sampled_from(["partition.metadata", "meta.properties", "leader-epoch-checkpoint", "_"]),
)
trees = st.dictionaries(st.builds("{}/{}".format, folders, files), content, max_size=6)


@settings(max_examples=examples(15))
@given(tree=trees, include=st.sets(st.sampled_from([*SegmentStatus])))
def test_any_folders_and_files(tree: Mapping[str, bytes], include: Set[SegmentStatus]) -> None:
    with TemporaryDirectory() as name:
        root = Path(name)
        for file, data in tree.items():
            (root / file).parent.mkdir(exist_ok=True)
            (root / file).write_bytes(data)
        for path in {
            root,
            *(root / file for file in tree),
            *((root / file).parent for file in tree),
        }:
            try:
                segments = find_segments([path], include=include)
            except KgroupError:
                continue
            for segment in segments:
                assert segment.partition is None or 0 <= segment.partition < 2**31
            for rows in decode(segments, Selection()).map(lambda batch: batch.num_rows):
                assert rows >= 0
            reading = LogDir([path]).read()
            assert all(group.group_id == key for key, group in reading.image.groups.items())


@pytest.mark.parametrize("number", ["2147483648", "9" * 30, "٣"])
def test_a_folder_whose_number_is_no_partition(tmp_path: Path, number: str) -> None:
    """It is read like any other folder."""
    folder = tmp_path / f"__consumer_offsets-{number}"
    folder.mkdir()
    (folder / FIRST).write_bytes(SOUND)
    (segment,) = find_segments([folder])
    assert segment.partition is None
    assert sum(decode([segment], Selection()).map(lambda batch: batch.num_rows)) > 0


def test_a_file_with_the_name_of_a_folder(tmp_path: Path) -> None:
    (tmp_path / "__consumer_offsets-0").write_bytes(SOUND)
    with pytest.raises(InputError, match="found none"):
        find_segments([tmp_path])
    (tmp_path / "__consumer_offsets-1").mkdir()
    (tmp_path / "__consumer_offsets-1" / FIRST).write_bytes(SOUND)
    assert [segment.partition for segment in find_segments([tmp_path])] == [1]


@given(log=content, index=st.binary(max_size=64), base=st.integers(0, 2**63 - 1))
@settings(max_examples=examples(15))
def test_the_end_of_any_log_with_any_index(log: bytes, index: bytes, base: int) -> None:
    with TemporaryDirectory() as name:
        path = Path(name) / FIRST
        path.write_bytes(log)
        path.with_suffix(".index").write_bytes(index)
        assert log_end(path, base) >= base


@pytest.fixture
def copied(tmp_path: Path) -> Path:
    """A log directory with one partition."""
    folder = tmp_path / "__consumer_offsets-0"
    folder.mkdir()
    (folder / FIRST).write_bytes(SOUND)
    return tmp_path


properties = st.lists(
    st.text(st.sampled_from("abz.=: #-\t\\é")) | st.binary(max_size=12).map(repr), max_size=4
).map("\n".join)


@pytest.mark.slow
@given(
    meta=properties.map(str.encode)
    | st.binary(max_size=40)
    | st.builds("node.id={}\ncluster.id={}".format, numbers, st.text(max_size=5)).map(str.encode),
    topic=properties.map(str.encode)
    | st.binary(max_size=40)
    | st.text(max_size=30).map(lambda text: f"version: 0\ntopic_id: {text}".encode()),
)
@settings(max_examples=examples(15))
def test_any_properties(meta: bytes, topic: bytes) -> None:
    """What brokers keep beside the log never stands in the way of reading it."""
    with TemporaryDirectory() as name:
        root = Path(name)
        for folder in ("__consumer_offsets-0", "orders-0"):
            (root / folder).mkdir()
            (root / folder / "partition.metadata").write_bytes(topic)
        (root / "__consumer_offsets-0" / FIRST).write_bytes(SOUND)
        (root / "meta.properties").write_bytes(meta)
        assert LogDir([root]).read().image.groups


def test_properties_that_no_broker_writes(copied: Path) -> None:
    (copied / "meta.properties").write_text(f"broker.id={'7' * 5000}\ncluster.id=here\n" + "#" * 9)
    image = LogDir([copied]).read().image
    assert (image.broker_ids, image.cluster_id) == ((), "here")
    (copied / "meta.properties").write_text("#" * 100_000 + "\ncluster.id=here")
    assert LogDir([copied]).read().image.cluster_id is None
