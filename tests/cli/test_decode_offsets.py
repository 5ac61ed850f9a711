from __future__ import annotations

import csv
import io
import json
import re
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from kgroup.render.record import RECORD_COLUMNS
from tests.cli.command_line import Cli, Result
from tests.columnar.log_writer import batch
from tests.operation.log_files import (
    Log,
    commit,
    commit_key,
    group_metadata,
    tombstone,
    transaction,
)

SAMPLE = Path(__file__).parents[2] / "kgroup/sample/log-dir"
NASTY = 'a,b\t"c"\n\x1b[31m|\\'


@pytest.fixture
def log(tmp_path: Path) -> Log:
    log = Log(tmp_path)
    log.add(
        0,
        batch([commit(0, "g", committed=7, metadata=NASTY, time_ms=1_700_000_000_004)]),
        batch([tombstone(1, NASTY)]),
        batch([group_metadata(2, "g", generation=3)]),
        transaction([commit(3, "h")], 9),
        partition=12,
    )
    return log


def json_rows(result: Result) -> list[dict[str, Any]]:
    return [json.loads(line) for line in result.out.splitlines()]


def test_parquet_is_no_form_of_standard_output(cli: Cli) -> None:
    result = cli("decode-offsets", "--sample", "-o", "parquet")
    assert result.status == 2
    assert "'grid'; for Parquet, use --parquet FILE\n" in result.err


def test_jsonl_is_as_designed(cli: Cli, log: Log) -> None:
    result = cli("decode-offsets", log.root, "-o", "jsonl")
    assert (result.status, result.err) == (0, "")
    first, second, third, fourth = json_rows(result)
    assert first == {
        "partition": 12,
        "offset": 0,
        "timestamp_ms": 1_700_000_000_004,
        "timestamp_type": "create",
        "leader_epoch": 0,
        "producer_id": None,
        "producer_epoch": None,
        "transaction": None,
        "type": "OffsetCommit",
        "key": {"type": 1, "data": {"group": "g", "topic": "t", "partition": 0}},
        "value": {
            "version": 3,
            "data": {
                "offset": 7,
                "leaderEpoch": -1,
                "metadata": NASTY,
                "commitTimestamp": 1_700_000_000_004,
            },
        },
    }
    assert list(first) == [
        "partition", "offset", "timestamp_ms", "timestamp_type", "leader_epoch", "producer_id",
        "producer_epoch", "transaction", "type", "key", "value",
    ]  # fmt: skip
    assert (second["key"]["data"]["group"], second["value"]) == (NASTY, None)
    assert second["timestamp_ms"] is None
    assert third["type"] == "GroupMetadata"
    assert third["value"]["data"]["generation"] == 3
    assert (fourth["transaction"], fourth["producer_id"]) == ("open", 9)


def test_json_is_one_document_with_the_rows_of_jsonl(cli: Cli, log: Log) -> None:
    rows = json_rows(cli("decode-offsets", log.root, "-o", "jsonl"))
    document = json.loads(cli("decode-offsets", log.root, "-o", "json").out)
    assert document == {
        "command": "decode-offsets",
        "schema_version": 1,
        "data": rows,
        "errors": [],
    }


def test_csv(cli: Cli, log: Log) -> None:
    text = cli("decode-offsets", log.root, "-o", "csv").out
    rows = list(csv.DictReader(io.StringIO(text, newline="")))
    assert list(rows[0]) == [column.name for column in RECORD_COLUMNS]
    assert rows[0]["metadata"] == NASTY
    assert (rows[0]["timestamp_ms"], rows[0]["committed_offset"]) == ("1700000000004", "7")
    assert (rows[0]["committed_leader_epoch"], rows[0]["value_json"]) == ("", "")
    assert (rows[1]["group"], rows[1]["value_version"]) == (NASTY, "")
    assert json.loads(rows[2]["value_json"])["data"]["generation"] == 3
    assert rows[3]["transaction"] == "open"


def test_tsv_and_chosen_columns(cli: Cli, log: Log) -> None:
    options = ["-o", "tsv", "--columns", "offset,group,metadata", "--no-headers"]
    assert cli("decode-offsets", log.root, *options).out.splitlines() == [
        '0\tg\ta,b\\t"c"\\n\\x1b[31m|\\\\',
        '1\ta,b\\t"c"\\n\\x1b[31m|\\\\\t-',
        "2\tg\t-",
        "3\th\t",
    ]


@pytest.mark.parametrize("form", ["table", "markdown"])
def test_no_text_breaks_a_table_or_drives_a_terminal(cli: Cli, log: Log, form: str) -> None:
    out = cli("decode-offsets", log.root, "-o", form).out
    assert "\x1b" not in out
    assert len(out.splitlines()) == 4 + (1 if form == "table" else 2)
    escaped = 'a,b\\t"c"\\n\\x1b[31m|\\\\'
    assert (escaped if form == "table" else re.sub(r"([\\|\[])", r"\\\1", escaped)) in out


def test_table(cli: Cli, log: Log) -> None:
    lines = cli("decode-offsets", log.root).out.splitlines()
    assert lines[0].split() == [
        "partition", "offset", "timestamp", "type", "group", "topic", "topic_partition",
        "committed_offset", "detail",
    ]  # fmt: skip
    assert lines[1].split()[:4] == ["12", "0", "2023-11-14T22:13:20.004Z", "OffsetCommit"]
    assert lines[2].endswith("tombstone")
    assert "generation=3" in lines[3]
    assert "members[0]" in lines[3]
    assert lines[4].endswith("open transaction")


def test_a_table_has_all_columns_when_asked(cli: Cli, log: Log) -> None:
    names = ",".join(column.name for column in RECORD_COLUMNS)
    out = cli("decode-offsets", log.root, "--columns", f"{names},detail").out
    assert out.split("\n")[0].split()[-2:] == ["value_json", "detail"]


def test_parquet(cli: Cli, log: Log, tmp_path: Path) -> None:
    file = tmp_path / "out.parquet"
    result = cli("decode-offsets", log.root, "--parquet", file)
    assert (result.status, result.out) == (0, "")
    assert result.err == f"kgroup: 4 records written to {file}\n"
    table = pq.read_table(file)
    assert table.schema.names == [column.name for column in RECORD_COLUMNS]
    assert table["group"].to_pylist() == ["g", NASTY, "g", "h"]
    assert table["key_json"].to_pylist()[0] is None
    assert table["key_json"].to_pylist()[2] == '{"type":2,"data":{"group":"g"}}'
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "__consumer_offsets-12",
        "out.parquet",
    ]


@pytest.mark.parametrize(
    ("content", "options", "status", "reason"),
    [
        (b"no segment", (), 1, "not-a-segment"),
        (batch([commit(0, "g")])[:-1] + b"\xff", (), 1, "not-a-segment"),
        (batch([commit(0, "g")]), ("--group", "nosuch"), 3, "not-found"),
    ],
)
def test_parquet_is_kept_where_nothing_is_read(
    cli: Cli, tmp_path: Path, content: bytes, options: tuple[str, ...], status: int, reason: str
) -> None:
    """As files of `kgroup offsets export` and `kgroup snapshot` are."""
    source, file = tmp_path / "00000000000000000000.log", tmp_path / "out.parquet"
    source.write_bytes(content)
    file.write_text("what was there")
    result = cli("decode-offsets", source, "--parquet", file, "--force", *options)
    assert (result.status, file.read_text()) == (status, "what was there")
    told, error = result.err.splitlines()
    assert reason in told
    assert error == f"kgroup: error: nothing to write; {file} was not written"
    assert set(tmp_path.iterdir()) == {source, file}


def test_parquet_with_chosen_columns(cli: Cli, log: Log, tmp_path: Path) -> None:
    file = tmp_path / "out.parquet"
    command = ("decode-offsets", log.root, "--parquet", file, "--columns")
    assert cli(*command, "group,key_json").status == 0
    assert pq.read_table(file).schema.names == ["group", "key_json"]
    result = cli(*command, "detail")
    assert result.status == 2
    assert "no column detail" in result.err


def test_parquet_that_cannot_be_written(cli: Cli, log: Log, tmp_path: Path) -> None:
    result = cli("decode-offsets", log.root, "--parquet", tmp_path / "none" / "out.parquet")
    assert (result.status, result.out) == (1, "")
    assert "none" in result.err
    assert len(result.err.splitlines()) == 1


def test_damage_is_told_line_by_line_and_in_json(cli: Cli, log: Log) -> None:
    good = batch([commit(0, "g")])
    path = log.add(4, good, b"\xff" * 70, good, good[:-3], partition=12)
    result = cli("decode-offsets", log.root, "-o", "json")
    assert result.status == 4
    document = json.loads(result.out)
    assert len(document["data"]) == 6
    assert [(e["path"], e["position"]) for e in document["errors"]] == [
        (str(path), len(good)),
        (str(path), 2 * len(good) + 70),
    ]
    lines = result.err.splitlines()
    assert len(lines) == 2
    assert all(
        line.startswith(f"kgroup: {path}, byte {error['position']}")
        and error["kind"] in line
        and error["reason"] in line
        for line, error in zip(lines, document["errors"], strict=True)
    )


def test_much_damage_is_counted(cli: Cli, log: Log) -> None:
    log.add(4, (batch([commit(0, "g")]) + b"\xff" * 60) * 30, partition=12)
    lines = cli("decode-offsets", log.root).err.splitlines()
    assert len(lines) == 21
    assert lines[-1] == "kgroup: and 10 more"


def test_nothing_but_damage(cli: Cli, tmp_path: Path) -> None:
    path = Log(tmp_path).add(0, b"\xff" * 100)
    result = cli("decode-offsets", path, "-o", "jsonl")
    assert (result.status, result.out) == (4, "")
    assert f"{path}, byte 0" in result.err


def test_strict(cli: Cli, log: Log) -> None:
    log.add(4, b"\xff" * 70, batch([commit(4, "g")]), b"\xff" * 70, partition=12)
    result = cli("decode-offsets", log.root, "--strict", "-o", "jsonl")
    assert result.status == 4
    assert [row["offset"] for row in json_rows(result)] == [0, 1, 2, 3]
    assert len(result.err.splitlines()) == 1


def test_a_pasted_record_that_cannot_be_read(cli: Cli) -> None:
    """A key of type 1 that ends before its group; a good key with half a value."""
    result = cli("decode-offsets", "--key", "0001")
    assert result.status == 4
    assert "bad-record: The key cannot be read: group:" in result.err
    result = cli("decode-offsets", "--key", "0002000167", "--value", "0003", "-o", "json")
    assert result.status == 4
    (error,) = json.loads(result.out)["errors"]
    assert error["kind"] == "bad-record"
    assert error["reason"].startswith("The value cannot be read: ")


@pytest.mark.parametrize("name", ["orders-0/00000000000000000000.log", "meta.properties.bak"])
def test_a_file_of_another_kind(cli: Cli, tmp_path: Path, name: str) -> None:
    path = SAMPLE / name
    if not path.exists():
        path = tmp_path / name
        path.write_text("cluster.id=MkU3OEVBNTcwNTJENDM2Qg\nnode.id=1\nversion=1\n")
    result = cli("decode-offsets", path, "-o", "jsonl")
    assert (result.status, result.out) == (1, "")
    assert str(path) in result.err
    assert "xpected" in result.err
    assert len(result.err.splitlines()) == 1


def test_a_file_of_another_kind_beside_a_good_one(cli: Cli, log: Log) -> None:
    other = SAMPLE / "orders-0/00000000000000000000.log"
    result = cli("decode-offsets", log.root, other, "-o", "jsonl")
    assert result.status == 4
    assert len(json_rows(result)) == 4
    assert "other-topic" in result.err


@pytest.mark.parametrize("name", ["none", "none/00000000000000000000.log"])
def test_a_path_that_does_not_exist(cli: Cli, tmp_path: Path, name: str) -> None:
    result = cli("decode-offsets", tmp_path / name)
    assert (result.status, result.out) == (1, "")
    assert result.err == f"kgroup: error: {tmp_path / name}: No such file or directory\n"


def test_a_device_is_told_from_what_does_not_exist(cli: Cli) -> None:
    result = cli("decode-offsets", "/dev/null")
    assert (result.status, result.out) == (1, "")
    assert "/dev/null: neither a file nor a folder" in result.err


def test_names_with_control_characters_do_not_drive_the_terminal(cli: Cli) -> None:
    result = cli("decode-offsets", "\x1b[31mnone")
    assert "\x1b" not in result.err
    assert "\\x1b[31mnone" in result.err


def test_filters_reach_the_decoder(cli: Cli, log: Log) -> None:
    def offsets(*options: str) -> list[int]:
        return [
            r["offset"] for r in json_rows(cli("decode-offsets", log.root, "-o", "jsonl", *options))
        ]

    assert offsets("--group", "g") == [0, 2]
    assert offsets("--group", "g", "--group", "h") == [0, 2, 3]
    assert offsets("--regex", "[gh]") == [0, 2, 3]
    assert offsets("--topic", "t") == [0, 1, 3]
    assert offsets("--partition", "1") == []
    assert offsets("--type", "groupmetadata,Unknown") == [2]
    assert offsets("--since", "2023-11-14") == [0]
    assert offsets("--until", "2023-11-14") == []
    assert offsets("--from-offset", "2") == [2, 3]
    assert offsets("--isolation", "read-committed") == [0, 1, 2]
    assert offsets("--offsets-partition", "12") == [0, 1, 2, 3]
    assert offsets("--latest", "--group", "h") == [3]
    assert offsets("--as-of", "0") == [0]
    assert offsets("--as-of", "offset:2") == [0, 2]
    assert offsets("--as-of", "2023-11-15") == [0, 2]


EARLY = "kgroup: note: The first record is from 2023-11-14T22:13:20.000Z; earlier records are "
LATE = "kgroup: note: The last record is from 2023-11-14T22:14:20.000Z; later records are "


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["--since", "2023-11-14T22:13:20Z", "--until", "2023-11-14T22:14:20Z"], []),
        (["--since", "2023-11-14T22:13:19Z"], [EARLY]),
        (["--until", "2023-11-14T22:13:19Z"], [EARLY]),
        (["--since", "2023-11-14T22:14:21Z", "--stats"], [LATE]),
        (["--until", "2023-11-14T22:14:21Z", "--from-offset", "1"], [LATE]),
        (["--since", "2023-11-14", "--latest", "--until", "2023-11-15"], [EARLY, LATE]),
        (["--as-of", "2023-11-14T22:13:20Z"], []),
        (["--as-of", "2023-11-14T22:13:19Z"], [EARLY]),
        (["--as-of", "2023-11-14T22:14:21Z"], [LATE]),
        (["--as-of", "offset:1"], []),
    ],
)
def test_a_time_without_records_is_reported(
    cli: Cli, tmp_path: Path, options: list[str], expected: list[str]
) -> None:
    """The last batch is larger than what is read first to find it."""
    first, last = 1_700_000_000_000, 1_700_000_060_000
    large = [commit(2 + at, "g", metadata="x" * 30_000, time_ms=last) for at in range(3)]
    early = [commit(0, "g", time_ms=first), commit(1, "h", time_ms=first + 1000)]
    log = Log(tmp_path)
    log.add(0, batch(early), batch(large))
    result = cli("decode-offsets", log.root, *options)
    assert result.status == 0
    assert [line.removesuffix("unknown.") for line in result.err.splitlines()] == expected


def test_names_that_may_have_been_meant(cli: Cli) -> None:
    result = cli("decode-offsets", "--sample", "--group", "ledgr")
    assert result.status == 3
    assert "There is no record about the group; did you mean 'ledger'?\n" in result.err
    result = cli("decode-offsets", "--sample", "--topic", "ordres")
    assert result.status == 3
    assert "for the topic 'ordres'; did you mean 'orders'?\n" in result.err


def test_names_that_do_not_exist(cli: Cli, log: Log) -> None:
    nobody = cli("decode-offsets", log.root, "--group", "nobody", "-o", "jsonl")
    assert (nobody.status, nobody.out) == (3, "")
    assert nobody.err == "kgroup: group 'nobody': not-found: There is no record about the group.\n"
    some = cli("decode-offsets", log.root, "--group", "nobody", "--group", "g", "-o", "json")
    assert some.status == 4
    document = json.loads(some.out)
    assert len(document["data"]) == 2
    assert [error["group_id"] for error in document["errors"]] == ["nobody"]
    assert cli("decode-offsets", log.root, "--topic", "none").status == 3
    unmatched = cli("decode-offsets", log.root, "--regex", "no.*")
    assert unmatched.status == 3
    assert "not-found: No record of a group matches 'no.*'." in unmatched.err
    assert cli("decode-offsets", log.root, "--group", "g", "--since", "2030-01-01").status == 0


def test_an_offsets_partition_that_is_not_there(cli: Cli, log: Log) -> None:
    result = cli("decode-offsets", log.root, "--offsets-partition", "3")
    assert (result.status, result.out) == (1, "")
    assert "partition 3" in result.err
    assert "12" in result.err


def test_leftovers_are_told_of_and_read_on_demand(cli: Cli, log: Log) -> None:
    path = log.add(4, batch([commit(4, "g")]), partition=12)
    path.rename(path.with_name(path.name + ".deleted"))
    result = cli("decode-offsets", log.root, "-o", "jsonl")
    assert result.status == 0
    assert len(json_rows(result)) == 4
    assert ".deleted left out" in result.err
    included = cli("decode-offsets", log.root, "-o", "jsonl", "--include", "deleted")
    assert (len(json_rows(included)), included.err) == (5, "")


def test_stats(cli: Cli, log: Log) -> None:
    log.add(4, b"\xff" * 70, partition=12)
    result = cli("decode-offsets", log.root, "--stats", "-o", "json")
    assert result.status == 4
    document = json.loads(result.out)
    counts = {(row["by"], row["name"], row["version"]): row["count"] for row in document["data"]}
    assert counts == {
        ("type", "OffsetCommit", 3): 2,
        ("type", "OffsetCommit", None): 1,
        ("type", "GroupMetadata", 0): 1,
        ("transaction", "open", None): 1,
        ("group", "g", None): 2,
        ("group", "h", None): 1,
        ("group", NASTY, None): 1,
        ("batch", "none", 2): 4,
        ("damage", "garbage", None): 1,
    }
    assert [error["kind"] for error in document["errors"]] == ["garbage"]
    text = cli("decode-offsets", log.root, "--stats").out
    assert [line for line in text.splitlines() if line.startswith(("Rec", "Bat", "Dam"))] == [
        "Records by type and version of the value",
        "Records in transactions",
        "Records by group",
        "Batches by compression and message format",
        "Damage",
    ]
    rows = cli("decode-offsets", log.root, "--stats", "-o", "tsv").out.splitlines()
    assert rows[0].split("\t") == ["by", "name", "version", "count", "bytes"]
    assert len(rows) == 10


def test_one_message(cli: Cli) -> None:
    key = commit_key("g", "t", 3).hex()
    value = commit(0, "g", committed=7).value
    assert value is not None
    (row,) = json_rows(cli("decode-offsets", "--key", key, "--value", value.hex(), "-o", "jsonl"))
    assert row["key"]["data"] == {"group": "g", "topic": "t", "partition": 3}
    assert row["value"]["data"]["offset"] == 7
    assert (row["partition"], row["offset"], row["timestamp_ms"]) == (None, None, None)
    (alone,) = json_rows(cli("decode-offsets", "--key", key, "-o", "jsonl"))
    assert alone["value"] is None
    (unknown,) = json_rows(cli("decode-offsets", "--key", "0063", "-o", "jsonl"))
    assert (unknown["type"], unknown["key"]) == ("Unknown", {"type": 99, "raw": "AGM="})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ([], "--key BYTES"),
        (["--key", "00", "x.log"], "--key decodes one record instead of files"),
        (["--value", "00"], "--value requires --key"),
        (
            ["--sample", "--since", "1700000000"],
            "expected epoch milliseconds (1700000000000), found",
        ),
        (["--key", "xyz!"], "neither hexadecimal nor base64"),
        (["--key", "0063", "--group", "g"], "leave out --group\n"),
        (["--key", "0063", "--latest", "--strict"], "leave out --latest, --strict\n"),
        (["--key", "0063", "--isolation", "read-committed"], "leave out --isolation\n"),
        (["--sample", "--since", "1h", "--until", "2h"], "--since must be earlier than --until"),
        (
            ["--sample", "--since", "2023-11-14", "--until", "2023-11-14"],
            "--since must be earlier than --until",
        ),
        (["--sample", "--parquet", "-"], "the name of a file, not -"),
        (["--sample", "--parquet", ""], "expected a path, found an empty string"),
        (["--sample", "--parquet", "x", "-o", "table"], "leave out --output\n"),
        (["--sample", "--parquet", "x", "--no-headers"], "leave out --no-headers\n"),
        (["--value", "00", "--sample"], "--value requires --key"),
        (["--sample", "--latest", "--as-of", "now"], "two views"),
        (["--sample", "--as-of", "10"], "within a partition of __consumer_offsets, found 8"),
        (["--sample", "--as-of", "never"], "is not a time"),
        (["--sample", "--since", "tomorrow"], "is not a time"),
        (["--sample", "--stats", "--parquet", "x"], "choose one"),
        (
            ["--sample", "--type", "Offset"],
            "unknown record type Offset; expected: LegacyOffsetCommit,",
        ),
        (["--sample", "--columns", "nothing"], "no column nothing"),
        (["--sample", "--columns", "nothing", "-o", "csv"], "no column nothing"),
        (["--sample", "--columns", "detail", "-o", "csv"], "no column detail"),
        (["--sample", "--columns", "offset", "-o", "jsonl"], "--columns"),
        (["--sample", "--partition", "-1"], "--partition"),
        (["--sample", "--partition", str(2**63)], "--partition"),
        (["--sample", "--include", "live"], "--include"),
    ],
)
def test_wrong_usage(cli: Cli, options: list[str], message: str) -> None:
    result = cli("decode-offsets", *options)
    assert (result.status, result.out) == (2, "")
    assert message in result.err


def test_a_failed_decoding_leaves_no_parquet_file_and_keeps_an_old_one(
    cli: Cli, log: Log, tmp_path: Path
) -> None:
    file = tmp_path / "out.parquet"
    file.write_bytes(b"old")
    result = cli("decode-offsets", tmp_path / "none", "--parquet", file, "--force")
    assert result.status == 1
    assert file.read_bytes() == b"old"


def test_a_group_id_that_is_no_utf_8(cli: Cli, log: Log) -> None:
    result = cli("decode-offsets", log.root, "--group", "g", "--group", "\udcff", "-o", "json")
    assert result.status == 4
    assert len(json.loads(result.out)["data"]) == 2
    assert result.err == "kgroup: group '\\udcff': not-found: There is no record about the group.\n"


def test_a_file_name_that_is_no_utf_8(cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / b"caf\xe9.log".decode(errors="surrogateescape")
    path.write_bytes(batch([commit(0, "g")]) + b"\xff" * 70)
    result = cli("decode-offsets", path, "-o", "json")
    assert result.status == 4
    assert json.loads(result.out)["errors"][0]["path"] == str(path)
    assert "caf\\udce9.log, byte" in result.err


CLUSTER = ("-b", "127.0.0.1:1")


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["--sample", "--follow"], "--follow reads new records from a cluster"),
        ([*CLUSTER, "--follow", "--latest"], "--latest needs an end"),
        ([*CLUSTER, "--follow", "--as-of", "1h"], "--as-of needs an end"),
        ([*CLUSTER, "--follow", "--stats", "-o", "json"], "--stats and -o json need an end"),
        ([*CLUSTER, "--follow", "--until", "1h"], "--until needs an end"),
        ([*CLUSTER, "--follow", "--parquet", "file"], "--parquet needs an end"),
        ([*CLUSTER, "--include", "swap"], "--include applies to files"),
        ([*CLUSTER, "--sample"], "--bootstrap-server (a cluster) and files are two sources"),
        ([*CLUSTER, "file"], "--bootstrap-server (a cluster) and files are two sources"),
        ([*CLUSTER, "--key", "0001"], "--key decodes one record; leave out --bootstrap-server"),
    ],
)
def test_wrong_use_of_a_cluster(cli: Cli, args: list[str], said: str) -> None:
    result = cli("decode-offsets", *args)
    assert (result.status, result.out) == (2, "")
    assert said in result.err


def test_what_is_explicit_beats_the_environment(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KGROUP_BOOTSTRAP_SERVER", "127.0.0.1:1")
    assert cli("decode-offsets", "--sample", "--stats").status == 0
    assert cli("decode-offsets", "--key", "00010001670001740000000c").status == 0
    result = cli("decode-offsets", "-o", "json")
    assert (result.status, "127.0.0.1:1 cannot be reached" in result.err) == (1, True)
    assert json.loads(result.out)["errors"][0]["kind"] == "unreachable"
