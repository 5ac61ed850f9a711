"""`kgroup history build`: sources, what it tells, and its exit statuses."""

from __future__ import annotations

import gzip
import json
import os
import resource
import shutil
import subprocess
import sys
from contextlib import nullcontext
from errno import ENOSPC
from pathlib import Path

import pytest

from kgroup.history.input import live_source
from kgroup.history.input.live_source import LiveSource
from kgroup.source.config.client_config import ClientConfig
from kgroup.spark import session, stream
from tests.cli.command_line import Cli
from tests.history.table_oracle import read_tables

ROOT = Path(__file__).parents[2]
DATA = ROOT / "tests" / "data"
SAMPLE = ROOT / "kgroup" / "sample" / "log-dir"
SAMPLE_ID = "a2dyb3VwLXRlc3RzLTAwMQ"


def test_a_table_of_what_was_done(cli: Cli, tmp_path: Path) -> None:
    result = cli("history", "build", "--sample", "--to", tmp_path / "w")
    assert result.status == 0, result.err
    head, *rows = [line.split() for line in result.out.splitlines()]
    assert head == ["cluster", "table", "new_row_count", "row_count", "file_count", "file_bytes"]
    tables = read_tables(tmp_path / "w", SAMPLE_ID)
    assert {(row[0], row[1], int(row[3])) for row in rows} == {
        (SAMPLE_ID, name, len(rows)) for name, rows in tables.items()
    }
    assert "8 segments read, 0 without new data" in result.err
    shown = cli("history", "show", "--warehouse", tmp_path / "w", "-o", "jsonl")
    stock = json.loads(shown.out)
    files = [path for path in (tmp_path / "w").rglob("*.parquet") if "_kgroup" not in path.parts]
    assert sum(int(row[4]) for row in rows) == stock["file_count"] == len(files)
    sizes = sum(path.stat().st_size for path in files)
    assert sum(int(row[5]) for row in rows) == stock["file_bytes"] == sizes
    again = cli("history", "build", "--from", SAMPLE, "--to", tmp_path / "w", "-o", "csv")
    assert {line.split(",")[2] for line in again.out.splitlines()[1:]} == {"0"}
    assert "0 segments read, 8 without new data" in again.err
    one = cli("history", "build", "--from", SAMPLE / "__consumer_offsets-2", "--to", tmp_path / "o")
    assert "1 segment read, 0 without new data" in one.err


def test_a_log_directory_whose_name_is_not_utf_8(cli: Cli, tmp_path: Path) -> None:
    """What tells its name in a document, and in the table of damage, is UTF-8 all the same."""
    place = tmp_path / os.fsdecode(b"log\xff") / "__consumer_offsets-2"
    shutil.copytree(SAMPLE / place.name, place)
    (segment,) = place.glob("*.log")
    segment.write_bytes(segment.read_bytes()[:-1])
    line = ("--from", place, "--cluster", "c", "--to", tmp_path / "w", "-o", "json")
    result = cli("history", "build", *line)
    assert result.status == 4, result.err
    shown = f"{tmp_path}/log\\xff/{place.name}/{segment.name}"
    assert [error["path"] for error in json.loads(result.out)["errors"]] == [shown]
    asked = ("--warehouse", tmp_path / "w", "-o", "csv", "--no-headers", "SELECT path FROM damage")
    assert cli("history", "sql", *asked).out == f"{shown}\n"


@pytest.mark.slow
def test_several_clusters_in_one_warehouse(cli: Cli, tmp_path: Path) -> None:
    places = (SAMPLE, DATA / "compacted-3.9.2")
    args = ("history", "build", "--to", tmp_path / "w", "-o", "json")
    result = cli(*args, "--from", *places)
    # all recorded brokers have the same id
    (one,) = json.loads(result.out)["data"]
    assert one["cluster"] == SAMPLE_ID
    result = cli(*args, "--from", DATA / "kafka-0.8.2.2-none", "--cluster", "prod/eu 1")
    (other,) = json.loads(result.out)["data"]
    assert other["cluster"] == "prod/eu 1"
    assert (other["segments_read"], other["damage_count"]) == (4, 0)
    answer = cli(
        *("history", "sql", "--warehouse", tmp_path / "w", "-o", "csv", "--no-headers"),
        "SELECT cluster, COUNT(*) FROM offset_commits GROUP BY cluster ORDER BY cluster",
    )
    counts = {
        row["cluster"]: table["row_count"]
        for row in (one, other)
        for table in row["tables"]
        if table["table"] == "offset_commits"
    }
    assert answer.out == "".join(f"{name},{counts[name]}\n" for name in sorted(counts))


@pytest.mark.slow
def test_different_topics_under_one_name_are_told(cli: Cli, tmp_path: Path) -> None:
    """Clusters that have the same id, with offsets of their own."""
    ids = [
        (folder / "__consumer_offsets-0" / "partition.metadata").read_text().split()[-1]
        for folder in (SAMPLE, DATA / "kafka-4.3.1")
    ]
    args = ("history", "build", "--to", tmp_path / "w", "--from")
    told = f"expected one topic id of __consumer_offsets, found {' and '.join(sorted(ids))}"
    assert "expected one topic id" not in cli(*args, SAMPLE).err
    assert f"note: {SAMPLE_ID}: {told}." in cli(*args, DATA / "kafka-4.3.1").err
    assert told in cli(*args, SAMPLE).err  # what is mixed stays so
    other = cli(*args, DATA / "kafka-4.3.1", "--cluster", "other")
    assert "expected one topic id" not in other.err


@pytest.mark.slow
def test_damage_is_a_row_and_status_4(cli: Cli, tmp_path: Path) -> None:
    log = tmp_path / "log"
    shutil.copytree(SAMPLE, log)
    segment = next(path for path in sorted(log.glob("*/*.log")) if path.stat().st_size > 2000)
    data = bytearray(segment.read_bytes())
    data[1000] ^= 0xFF
    segment.write_bytes(data)
    result = cli("history", "build", "--from", log, "--to", tmp_path / "w", "-o", "json")
    assert result.status == 4
    document = json.loads(result.out)
    (error,) = document["errors"]
    assert (error["path"], error["kind"]) == (str(segment), "bad-crc")
    assert str(segment) in result.err
    rows = cli(
        *("history", "sql", "--warehouse", tmp_path / "w", "-o", "json"),
        "SELECT path, position, size, kind FROM damage",
    )
    (row,) = json.loads(rows.out)["data"]
    assert row["path"] == str(segment)
    assert row["position"] <= 1000 < row["position"] + row["size"]
    assert cli("history", "build", "--from", log, "--to", tmp_path / "w").status == 0


@pytest.mark.parametrize(
    ("args", "reason"),
    [
        (("--to", "w"), "no input given"),
        (("--sample", "--from", "x", "--to", "w"), "--from and --sample are two sources"),
        (("--from", "x", "-b", "h:1", "--to", "w"), "--from and --bootstrap-server are two"),
        (("x", "--to", "w"), "x: put paths after --from"),
        (("--sample", "--to", "w", "--spark-conf", "a"), "expected NAME=VALUE, found 'a'"),
        (("--sample",), "Missing option '--to' (DIR): Folder of the warehouse"),
        (("--sample", "--to", "w", "--cluster", ""), "--cluster: expected a name"),
        (
            ("--sample", "--to", "hdfs://user:swordfish@b/w"),
            "hdfs://b/w: expected the folder of a warehouse: a path, s3://BUCKET/PATH, gs://BUCKET/PATH",
        ),
    ],
)
def test_wrong_usage(
    cli: Cli, args: tuple[str, ...], reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    result = cli("history", "build", *args)
    assert (result.status, result.out) == (2, "")
    assert reason in result.err
    assert not list(tmp_path.iterdir())


def test_a_uri_with_one_slash_is_no_folder(cli: Cli) -> None:
    for option in (("build", "--sample", "--to"), ("show", "--warehouse")):
        result = cli("history", *option, "s3:/reports/w")
        assert result.status == 2
        assert "expected s3://..., found 's3:/reports/w'" in result.err
    assert not Path("s3:").exists()


def test_what_cannot_be_read_makes_no_warehouse(cli: Cli, tmp_path: Path) -> None:
    result = cli("history", "build", "--from", tmp_path / "none", "--to", tmp_path / "w")
    assert result.status == 1
    assert "No such file or directory" in result.err
    assert not (tmp_path / "w").exists()
    orders = DATA / "kafka-4.3.1" / "orders-0"
    result = cli("history", "build", "--from", orders, "--to", tmp_path / "w")
    assert (result.status, result.out) == (1, "")
    assert "Expected a segment in a folder named __consumer_offsets-N" in result.err
    assert not (tmp_path / "w").exists()


@pytest.mark.slow
def test_snapshots_tell_where_logs_ended(cli: Cli, tmp_path: Path) -> None:
    file, other = tmp_path / "one.json.gz", tmp_path / "other.json"
    assert cli("snapshot", "--log-dir", DATA / "kafka-4.3.1", "--all", "-f", file).status == 0
    ranges = json.loads(gzip.decompress(file.read_bytes()))
    unknown = ranges["log_ranges"][0] | {"partition": 77, "log_end_offset": None}
    later = {"taken_ms": ranges["taken_ms"] + 1000, "log_ranges": [*ranges["log_ranges"], unknown]}
    other.write_text(json.dumps(ranges | later))
    args = ("history", "build", "--to", tmp_path / "w", "--from", DATA / "kafka-4.3.1")
    for files in ((file,), (file, other), (other,)):
        assert cli(*args, *files).status == 0
    expected = {
        (each["topic"], each["partition"], each["log_end_offset"], ranges["taken_ms"] + later)
        for each in ranges["log_ranges"]
        for later in (0, 1000)
        if each["log_end_offset"] is not None
    }
    found = read_tables(tmp_path / "w", SAMPLE_ID)["log_ends"]
    assert len(found) == len(expected) > 4
    assert expected == {
        (row["topic"], row["partition"], row["log_end_offset"], row["time_ms"]) for row in found
    }
    alone = cli("history", "build", "--to", tmp_path / "ends", "--from", file)
    assert (alone.status, alone.err) == (0, "")  # there was no segment to be read


@pytest.mark.slow
def test_a_full_disk_leaves_the_old_state(cli: Cli, tmp_path: Path) -> None:
    root = tmp_path / "w"
    assert cli("history", "build", "--sample", "--to", root).status == 0
    before = read_tables(root, SAMPLE_ID)
    files = sorted(path for path in root.rglob("*") if path.is_file())

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 12, 1 << 12))

    args = ("history", "build", "--from", DATA / "kafka-4.3.1", "--to", root, "--cluster", "d")
    failed = subprocess.run(
        [sys.executable, "-m", "kgroup", *args], capture_output=True, text=True, preexec_fn=limit
    )
    assert failed.returncode == 1
    assert "File too large" in failed.stderr
    assert str(root) in failed.stderr
    assert "Traceback" not in failed.stderr
    assert read_tables(root, SAMPLE_ID) == before
    left = {path for path in root.rglob("*") if path.is_file()} - {root / "_kgroup" / "unfinished"}
    assert sorted(left) == files
    assert cli(*args).status == 0
    assert not (root / "_kgroup" / "unfinished").exists()


def test_a_full_disk_leaves_the_batches_before(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*args: object, **options: object) -> None:
        raise OSError(ENOSPC, "", str(tmp_path / "part"))

    def ask(config: ClientConfig, cluster: str | None, timeout_s: float) -> LiveSource:
        return LiveSource("c", {}, {}, (), config)

    monkeypatch.setattr(live_source, "ask_live", ask)
    monkeypatch.setattr(session, "spark_session", lambda *_, **__: nullcontext())
    monkeypatch.setattr(stream, "stream_history", fail)
    result = cli("history", "stream", "-b", "127.0.0.1:9", "--to", tmp_path)
    assert (result.status, result.out) == (1, "")
    assert f"{tmp_path}/part: No space left on device. The tables have the records" in result.err
    assert "unchanged" not in result.err


def test_without_pyspark_it_is_said_how_to_get_it(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pyspark", None)
    monkeypatch.setitem(sys.modules, "kgroup.spark.stream", None)  # which imports it
    result = cli("history", "stream", "-b", "127.0.0.1:9", "--to", tmp_path / "w")
    assert (result.status, result.out) == (1, "")
    assert "install the extra [spark] (docs/install.md)" in result.err
    assert not (tmp_path / "w").exists()


def test_a_cluster_is_asked_before_spark_starts(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def start(*args: object, **options: object) -> None:
        raise AssertionError("Spark has started")

    monkeypatch.setattr(session, "spark_session", start)
    result = cli("history", "stream", "-b", "127.0.0.1:9", "--to", tmp_path / "w")
    assert (result.status, result.out) == (1, "")
    assert "127.0.0.1:9" in result.err
    assert not (tmp_path / "w").exists()


def test_metrics_are_not_written_into_the_warehouse(cli: Cli, tmp_path: Path) -> None:
    root = tmp_path / "w"
    for path in (root / "build.prom", root / "damage" / ".." / "build.prom"):
        result = cli("history", "build", "--sample", "--to", root, "--metrics", path)
        assert (result.status, "outside of the warehouse" in result.err) == (2, True)
    assert not root.exists()
