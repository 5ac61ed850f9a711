"""Splits of files: what they read is what the files have."""

from __future__ import annotations

import pickle
import re
import shutil
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow.fs import FileSelector, LocalFileSystem

from kgroup.columnar.schema import records
from kgroup.columnar.segment import decode_chunks
from kgroup.errors import InputError, UsageError
from kgroup.history.build.task import BuildTask, SplitWork, run_task
from kgroup.history.input.live_source import LiveSource
from kgroup.history.input.segment_source import find_sources
from kgroup.history.input.split import FileRange, OffsetRange, Split, read_split
from kgroup.history.remote import first_line
from kgroup.history.warehouse.coverage import Coverage
from kgroup.sample import sample_log_dir
from kgroup.source.config.client_config import client_config
from tests.columnar.log_writer import batch
from tests.operation.log_files import commit

DATA = Path(__file__).parents[1] / "data"
OLD = DATA / "kafka-0.9.0.1"
"""A log directory whose meta.properties has no cluster.id: there was none in 0.9."""


def test_a_log_directory() -> None:
    sources = find_sources([str(sample_log_dir())])
    assert {segment.cluster for segment in sources.segments} == {"a2dyb3VwLXRlc3RzLTAwMQ"}
    assert [segment.offsets_partition for segment in sources.segments] == list(range(8))
    assert (sources.problems, sources.notes) == ((), ())
    assert sum(segment.size > 0 for segment in sources.segments) > 3
    for segment in sources.segments:
        path = sample_log_dir() / f"__consumer_offsets-{segment.offsets_partition}"
        if segment.size == 0:
            continue
        (split,) = segment.splits()
        assert isinstance(split.location, FileRange)
        assert (segment.replica, split.base_offset) == (str(path), 0)
        assert split.size == Path(split.location.path).stat().st_size
        assert segment.read(0, 20) == Path(split.location.path).read_bytes()[:20]
        parts = list(read_split(pickle.loads(pickle.dumps(split))))
        expected = list(decode_chunks(Path(split.location.path), partition=split.offsets_partition))
        assert [list(records(p)) for p in parts] == [list(records(p)) for p in expected]
        assert all(isinstance(part, pa.RecordBatch) for part in parts)


def test_names_of_topics() -> None:
    (names,) = find_sources([str(sample_log_dir())]).topic_names.values()
    for topic_id, topic in names.items():
        folder = sample_log_dir() / f"{topic}-0"
        assert f"\ntopic_id: {topic_id}" in (folder / "partition.metadata").read_text()
    assert "order-totals" in names.values()


def test_a_cluster_without_an_id_needs_a_name() -> None:
    with pytest.raises(InputError, match=r"kafka-0\.9\.0\.1: .*cluster\.id.*--cluster NAME"):
        find_sources([str(OLD)])
    sources = find_sources([str(OLD)], cluster="old")
    assert {segment.cluster for segment in sources.segments} == {"old"}


def test_an_id_that_is_empty_is_none(tmp_path: Path) -> None:
    shutil.copytree(sample_log_dir() / "__consumer_offsets-1", tmp_path / "__consumer_offsets-1")
    (tmp_path / "meta.properties").write_text("version=1\ncluster.id=\nnode.id=1\n")
    with pytest.raises(InputError, match=r"cluster\.id.*--cluster NAME"):
        find_sources([str(tmp_path)])


@pytest.mark.parametrize(
    ("uri", "shown"),
    [
        ("s3://[a/logs", "s3://[a/logs"),
        ("s3://[a/logs?secret#SECRET", "s3://[a/logs"),
        # secret keys of AWS are base64: one in two has a slash, which a URI must have as %2F
        ("s3://KEY:SEC/RET@bucket/logs?region=x", "s3://bucket/logs"),
        ("other://KEY:SECRET@bucket/logs", "other://bucket/logs"),
    ],
)
def test_uris_that_cannot_be_opened_are_told_without_secrets(uri: str, shown: str) -> None:
    with pytest.raises(InputError) as error:
        find_sources([uri])
    text = str(error.value)
    assert text.startswith(f"{shown}: expected a path, or a URI that pyarrow can open")
    assert error.value.path == shown
    assert not re.search("KEY|SEC|RET", text)


def test_another_name_of_a_folder_is_no_replica(tmp_path: Path) -> None:
    (tmp_path / "data").symlink_to(sample_log_dir())
    first, *_ = find_sources([str(sample_log_dir())], "shop").segments
    second, *_ = find_sources([str(tmp_path / "data")], "shop").segments
    assert second.replica == first.replica
    assert second.name.startswith(str(tmp_path))  # it is called as it was given


def test_several_clusters(tmp_path: Path) -> None:
    other = tmp_path / "other"
    shutil.copytree(sample_log_dir() / "__consumer_offsets-1", other / "__consumer_offsets-1")
    (other / "meta.properties").write_text("version=1\ncluster.id=another\nnode.id=1\n")
    places = [str(sample_log_dir()), str(other)]
    clusters = [segment.cluster for segment in find_sources(places).segments]
    assert clusters == ["a2dyb3VwLXRlc3RzLTAwMQ"] * 8 + ["another"]
    with pytest.raises(UsageError, match="a2dyb3VwLXRlc3RzLTAwMQ, another"):
        find_sources(places, cluster="one")


def test_replicas_are_told_apart(tmp_path: Path) -> None:
    for broker in ("broker-1", "broker-2"):
        shutil.copytree(
            sample_log_dir() / "__consumer_offsets-1", tmp_path / broker / "__consumer_offsets-1"
        )
    sources = find_sources([str(tmp_path / name) for name in ("broker-1", "broker-2")], "shop")
    assert [segment.replica for segment in sources.segments] == [
        str(tmp_path / broker / "__consumer_offsets-1") for broker in ("broker-1", "broker-2")
    ]


def test_what_is_left_out_is_told(tmp_path: Path) -> None:
    segment = next((sample_log_dir() / "__consumer_offsets-1").glob("*.log"))
    folder = tmp_path / "__consumer_offsets-1"
    folder.mkdir()
    shutil.copy(segment, folder)
    shutil.copy(segment, folder / "00000000000000000007.log.deleted")
    shutil.copy(segment, tmp_path / "lonely.log")
    sources = find_sources([str(folder), str(tmp_path / "lonely.log")], "shop")
    assert [Path(source.path).name for source in sources.segments] == [segment.name]
    (note,) = sources.notes
    assert "00000000000000000007.log.deleted left out. Marked for deletion" in note
    (problem,) = sources.problems
    assert problem.kind == "unknown-partition"
    assert problem.path == str(tmp_path / "lonely.log")


@pytest.mark.slow
def test_what_is_left_out_for_one_reason_is_told_once(tmp_path: Path) -> None:
    """As a broker that was killed leaves its folders behind."""
    folders = [tmp_path / f"__consumer_offsets-{number}" for number in (1, 2)]
    for folder in folders:
        folder.mkdir()
        (folder / f"{0:020}.log").touch()
        for offset in range(1, 601):
            (folder / f"{offset:020}.log.deleted").touch()
    (folders[1] / f"{900:020}.log.cleaned").touch()
    sources = find_sources([str(tmp_path)], "shop")
    assert (len(sources.segments), sources.problems) == (2, ())
    deleted, cleaned = sources.notes
    first = folders[0] / f"{1:020}.log.deleted"
    assert deleted.startswith(f"{first} left out, and 1,199 more likewise. Marked for deletion;")
    name = folders[1] / f"{900:020}.log.cleaned"
    assert cleaned.startswith(f"{name} left out. Output of an unfinished compaction;")


def test_an_empty_segment_has_no_split(tmp_path: Path) -> None:
    folder = tmp_path / "__consumer_offsets-1"
    folder.mkdir()
    (folder / "00000000000000000000.log").touch()
    (segment,) = find_sources([str(tmp_path)], "shop").segments
    assert segment.splits() == []


def test_a_live_partition_is_cut_by_offsets() -> None:
    """What was wanted from before it begins is gone; nobody is asked for it."""
    config = client_config(environment={}, bootstrap_server="127.0.0.1:9")
    live = LiveSource("c", {7: (5, 26), 8: (3, 3), 9: (0, 4)}, {}, (), config)

    def cut(**options: object) -> list[tuple[int, int, int, int | None]]:
        splits = live.splits(most_offsets=10, **options)  # type: ignore[arg-type]
        return [
            (split.offsets_partition, split.location.start, split.location.end, split.base_offset)
            for split in splits
        ]

    parts = [(7, 5, 15, 5), (7, 15, 25, 15), (7, 25, 26, 25), (9, 0, 4, 0)]
    assert cut() == parts
    assert cut(starts={7: 2, 8: 0}) == parts
    assert cut(starts={7: 20, 9: 4}) == [(7, 20, 26, 20)]
    assert cut(starts={7: 20}, ends={7: 22, 9: 0}) == [(7, 20, 22, 20)]


# ---- A live split can be sent to another process, with all that it needs to connect


LOGIN = "org.apache.kafka.common.security.{} required {};"
PASSWORD = 'username="kgroup" password="swordfish"'
SETTINGS = {
    "PLAIN": LOGIN.format("plain.PlainLoginModule", PASSWORD),
    "SCRAM-SHA-512": LOGIN.format("scram.ScramLoginModule", PASSWORD),
    "OAUTHBEARER": LOGIN.format(
        "oauthbearer.OAuthBearerLoginModule", 'unsecuredLoginStringClaim_sub="kgroup"'
    ),
}


def test_what_pyarrow_says_has_no_number(tmp_path: Path) -> None:
    """Python puts "[Errno 2]" before what pyarrow says of a folder that is not there."""
    with pytest.raises(FileNotFoundError) as caught:
        LocalFileSystem().get_file_info(FileSelector(str(tmp_path / "none")))
    assert first_line(caught.value).startswith("Cannot list directory")


def test_a_place_that_only_others_can_reach(tmp_path: Path) -> None:
    """A process that lacks a file system's library, say: that split is not read, others are."""
    folder = tmp_path / "__consumer_offsets-3"
    folder.mkdir()
    (folder / f"{0:020}.log").write_bytes(batch([commit(0, "g"), commit(1, "g")]))
    (segment,) = find_sources([str(tmp_path)], "c").segments
    (split,) = segment.splits()
    elsewhere = replace(split, location=FileRange("/x.log", 0, 9, "xyz://somewhere/x.log"))
    works = tuple(SplitWork(each, Coverage()) for each in (elsewhere, split))
    failed, read = run_task(BuildTask(str(tmp_path / "tables"), "c", 1, works)).reads
    assert "xyz://somewhere/x.log: expected" in (failed.error or "")
    assert (failed.coverage.count, read.coverage.count, read.error) == (0, 2, None)


@pytest.mark.parametrize("mechanism", SETTINGS)
def test_settings_travel_and_do_not_show(mechanism: str) -> None:
    settings = {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": mechanism,
        "sasl.jaas.config": SETTINGS[mechanism],
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": "/etc/ca.pem",
    }
    config = client_config(
        environment={},
        bootstrap_server="kafka-1:9093",
        overrides=[f"{key}={value}" for key, value in settings.items()],
    )
    split = Split("c", 3, OffsetRange(5, 9, config), "__consumer_offsets-3", 5)
    assert "swordfish" not in repr(split)
    found = pickle.loads(pickle.dumps(split))
    assert isinstance(found.location, OffsetRange)
    assert found == split
    sasl = found.location.config.sasl
    assert sasl is not None
    assert config.sasl is not None
    if mechanism != "OAUTHBEARER":
        assert sasl.kafka_options()["sasl_plain_password"] == "swordfish"
        assert str(sasl.kafka_options()["sasl_plain_password"]) == "[hidden]"
