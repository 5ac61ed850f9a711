"""The compiled decoder makes of every log what the reference decoder makes of it."""

from __future__ import annotations

import struct
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from random import Random

import numpy as np
import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kgroup.columnar import buffer
from kgroup.columnar.batch_key import Limits
from kgroup.columnar.batch_scan import scan_transactions
from kgroup.columnar.chunk_size import SIZES
from kgroup.columnar.last_record import last_records
from kgroup.columnar.schema import decoded_cells
from kgroup.columnar.segment import decode_chunks
from kgroup.kernel import compiled, entry
from kgroup.kernel.memory import PADDING
from kgroup.protocol.batch import batch as protocol_batch
from kgroup.protocol.batch.batch import Damage
from kgroup.protocol.batch.transaction import TransactionIndex
from kgroup.protocol.record.coordinator_record import encode_key, encode_value
from tests.columnar.equality import Way, check_both_ways, check_equal, decoded, rows_of
from tests.columnar.log_writer import CODECS, Plain, batch, compress, marker, message_set, record
from tests.columnar.random_log import logs
from tests.columnar.random_member import (
    PROTOCOLS,
    assignment,
    assignment_info,
    subscription,
    subscription_info,
)
from tests.examples import examples, some_of
from tests.fresh_file import write_fresh
from tests.operation.log_files import commit, commit_key, tombstone

ROOT = Path(__file__).parents[2]
RECORDED = [
    *sorted(path for path in (ROOT / "tests/data").iterdir() if any(path.rglob("*.log"))),
    ROOT / "kgroup/sample",
]


@pytest.fixture
def odd_records(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The types of the records that the kernel passes to the reference decoder."""
    types: list[str] = []
    decode = decoded_cells

    def noted(key: bytes | None, value: bytes | None, *, is_control: bool) -> tuple[object, ...]:
        cells = decode(key, value, is_control=is_control)
        types.append(cells[0])
        return cells

    monkeypatch.setattr(buffer, "decoded_cells", noted)
    return types


@pytest.mark.parametrize("folder", RECORDED, ids=lambda folder: str(folder.relative_to(ROOT)))
def test_recorded_files(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SIZES, "chunk", 3000)
    for path in some_of(sorted(folder.rglob("*.log")), 6):
        check_equal(path)


def test_ordinary_records_take_no_python(odd_records: list[str]) -> None:
    """What brokers write day by day is decoded by the kernel alone."""
    rows = 0
    for version in ("2.8.2", "4.3.1", "4.3.1-zstd", "4.3.1-lz4", "4.3.1-gzip", "4.3.1-snappy"):
        for path in sorted(ROOT.glob(f"tests/data/kafka-{version}/__consumer_offsets-*/*.log")):
            rows += decoded(path, by_kernel=True).table().num_rows
    common = {
        "OffsetCommit",
        "ControlCommit",
        "ControlAbort",
        "ConsumerGroupMemberMetadata",
        "StreamsGroupMetadata",
    }
    assert rows > 400
    assert not common & set(odd_records)


@pytest.mark.parametrize("folder", ["connect-4.3.1", "streams-2.8.2", "streams-3.9.2"])
def test_members_of_connect_and_streams_take_no_python(folder: str, odd_records: list[str]) -> None:
    found = 0
    for path in sorted(ROOT.glob(f"tests/data/{folder}/__consumer_offsets-*/*.log")):
        found += decoded(path, by_kernel=True).table()["type"].to_pylist().count("GroupMetadata")
    assert found >= 4
    assert "GroupMetadata" not in odd_records


def group_log(
    path: Path, protocol: str | None, members: list[tuple[bytes, bytes]], kind: str = "consumer"
) -> None:
    """A log of groups, each of one member: its subscription and its assignment."""
    group = {"protocolType": kind, "generation": 5, "protocol": protocol, "leader": "m"}
    member = {"memberId": "m", "groupInstanceId": None, "clientId": "c", "clientHost": "/h"}
    times = {"rebalanceTimeout": 1, "sessionTimeout": 1}
    values = []
    for says, gets in members:
        shown = {**member, **times, "subscription": says, "assignment": gets}
        data = {**group, "currentStateTimestamp": 7, "members": [shown]}
        values.append(encode_value("GroupMetadata", 3, data))
    batches = [batch([Plain(i, 5, b"\0\2\0\1g", value)]) for i, value in enumerate(values)]
    write_fresh(path, b"".join(batches))


@settings(max_examples=examples(12, 60))
@given(
    seed=st.integers(0, 2**64 - 1),
    kind=st.sampled_from(["consumer", "consumer", "connect", "odd"]),
    protocol=st.sampled_from(PROTOCOLS),
)
def test_any_members(
    seed: int, kind: str, protocol: str | None, tmp_path_factory: pytest.TempPathFactory
) -> None:
    random = Random(seed)
    members = [
        (subscription(random, kind, protocol), assignment(random, kind, protocol))
        for _ in range(100)
    ]
    path = tmp_path_factory.getbasetemp() / "members.log"
    group_log(path, protocol, members, kind)
    check_equal(path)


def with_user_data(data: bytes) -> bytes:
    """A subscription or an assignment of version 0 of no topics."""
    return struct.pack(">hii", 0, 0, len(data)) + data


@pytest.mark.slow
@pytest.mark.parametrize("version", range(1, 12))
def test_every_version_of_streams_takes_no_python(
    version: int, tmp_path: Path, odd_records: list[str]
) -> None:
    random = Random(version)
    members = [
        (
            with_user_data(subscription_info(random, version, plain=True)),
            with_user_data(assignment_info(random, version, plain=True)),
        )
        for _ in range(40)
    ]
    group_log(tmp_path / "log", "stream", members)
    for text in check_equal(tmp_path / "log")["value_json"].to_pylist():
        (member,) = orjson.loads(text)["data"]["members"]
        assert member["subscription"]["userData"]["version"] == version
        assert member["assignment"]["userData"]["version"] == version
    assert odd_records == []


@pytest.mark.parametrize(
    ("protocol", "data", "expected"),
    [
        ("cooperative-sticky", "00000007", {"generation": 7}),
        # librdkafka gives topics with partitions, then the generation: not what Kafka's assignor
        # reads
        (
            "cooperative-sticky",
            "00000001 0001 61 00000001 00000003 00000007",
            {"generation": 1, "trailing": "AAFhAAAAAQAAAAMAAAAH"},
        ),
        (
            "sticky",
            "00000001 0001 61 00000001 00000003",
            {"previousAssignment": [{"topic": "a", "partitions": [3]}]},
        ),
        (
            "sticky",
            "00000000 00000007 aa",
            {"previousAssignment": [], "generation": 7, "trailing": "qg=="},
        ),
    ],
)
def test_user_data_of_sticky_assignors_takes_no_python(
    protocol: str, data: str, expected: object, tmp_path: Path, odd_records: list[str]
) -> None:
    group_log(tmp_path / "log", protocol, [(with_user_data(bytes.fromhex(data)), b"")])
    (text,) = check_equal(tmp_path / "log")["value_json"].to_pylist()
    assert orjson.loads(text)["data"]["members"][0]["subscription"]["userData"] == expected
    assert odd_records == []


def test_topics_of_streams_that_are_not_noted(tmp_path: Path, odd_records: list[str]) -> None:
    """More than are, and such that are none of these but of those of the record before."""
    members = []
    for numbers, asked in (
        (range(2000), 1500),
        (range(1000), 900),
        ((0, 1, 2), 900),
        ((0, 0, 2), 1),
    ):
        head = struct.pack(">iiiii", 5, 5, 0, 0, len(numbers))
        topics = b"".join(struct.pack(">i", number) + b"\0\1t" for number in numbers)
        hosts = struct.pack(">i", 1) + b"\0\1h" + struct.pack(">iiiii", 80, 1, asked, 0, 0)
        members.append((b"", with_user_data(head + topics + hosts)))
    group_log(tmp_path / "log", "stream", members)
    shown = [
        orjson.loads(text)["data"]["members"][0]["assignment"]["userData"]["partitionsByHost"]
        for text in check_equal(tmp_path / "log")["value_json"].to_pylist()
    ]
    assert [host["topicPartitions"][0]["topic"] for (host,) in shown] == ["t", "t", None, None]
    assert odd_records == ["GroupMetadata"] * 3


def test_named_topology(tmp_path: Path) -> None:
    """Two characters, U+0000 each: as many bytes as no name and no standby tasks take."""
    task = struct.pack(">iii", 0, 3, 2) + bytes(4)
    data = struct.pack(">iii", 10, 10, 1) + task + struct.pack(">iiiiiq", 0, 0, 0, 0, 0, 5)
    group_log(tmp_path / "log", "stream", [(b"", with_user_data(data))])
    (text,) = check_equal(tmp_path / "log")["value_json"].to_pylist()
    shown = orjson.loads(text)["data"]["members"][0]["assignment"]["userData"]
    assert shown["activeTasks"] == [{"topicGroupId": 0, "partition": 3, "namedTopology": "\0\0"}]
    assert shown["nextRebalanceMs"] == 5


@pytest.mark.slow
@pytest.mark.parametrize("codec", some_of(CODECS, 2))
def test_little_room(codec: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows, texts and dictionaries that do not fit are flushed, enlarged and grown."""
    monkeypatch.setattr(SIZES, "rows", 5)
    monkeypatch.setattr(SIZES, "texts", (40, 60))
    monkeypatch.setattr(SIZES, "piece", 2000)
    groups = ROOT / "tests/data/kafka-2.8.2/__consumer_offsets-0/00000000000000000000.log"
    batches = [
        batch(
            [commit(i * 10 + j, f"group-{i}-{j}", metadata="m" * i) for j in range(10)], codec=codec
        )
        for i in range(40)
    ]
    path = tmp_path / "log"
    path.write_bytes(b"".join(batches) + groups.read_bytes())
    table = check_equal(path)
    assert len(set(table["group"].to_pylist())) > 400


@pytest.mark.slow
def test_many_names_and_long_metadata(tmp_path: Path, odd_records: list[str]) -> None:
    records = [
        commit(i, f"group-{i}", f"topic-{i}", i, committed=i, metadata="ü" * (i % 900))
        for i in range(5000)
    ]
    path = tmp_path / "log"
    path.write_bytes(b"".join(batch(records[i : i + 50]) for i in range(0, 5000, 50)))
    table = check_equal(path)
    assert table["group"].to_pylist() == [f"group-{i}" for i in range(5000)]
    assert table["committed_offset"].to_pylist() == list(range(5000))
    assert odd_records == []


def test_text_that_is_no_utf8(tmp_path: Path) -> None:
    """Java puts U+FFFD in its place; two groups of different bytes then look the same."""
    values = [b"\xff", b"\xfe", b"\xed\xa0\x80", b"ok\x00"]
    keys = [b"\0\1\0" + bytes([len(v)]) + v + b"\0\1t\0\0\0\0" for v in values]
    path = tmp_path / "log"
    path.write_bytes(batch([Plain(i, 5, key, None) for i, key in enumerate(keys)]))
    assert check_equal(path)["group"].to_pylist() == ["\ufffd", "\ufffd", "\ufffd", "ok\x00"]


@pytest.mark.parametrize("codec", CODECS[1:])
@pytest.mark.parametrize("counts", [(1, 1), (3, 1), (1, 3), (2, 2)])
def test_compressed_batches_are_told_apart(
    codec: str, counts: tuple[int, int], tmp_path: Path
) -> None:
    """Batches are decompressed as one stream; one that lies about its records must not shift it."""
    first = [commit(0, "a"), commit(1, "b")]
    second = [commit(2, "c"), commit(3, "d")]
    path = tmp_path / "log"
    path.write_bytes(
        batch(first, codec=codec, count=counts[0])
        + batch(second, codec=codec, count=counts[1])
        + batch([commit(4, "e")], codec=codec)
    )
    table = check_equal(path)
    assert "e" in table["group"].to_pylist()


@pytest.mark.parametrize("codec", ["snappy", "lz4"])
def test_what_inflates_without_end_is_damage(
    codec: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(protocol_batch, "MAX_UNCOMPRESSED", 1 << 20)
    bomb = record(Plain(1, 5, b"\0\1", bytes(1 << 20)))
    path = tmp_path / "log"
    path.write_bytes(
        batch([commit(0, "a")], codec=codec)
        + batch([Plain(1, 5)], codec=codec, body=compress(codec, bomb))
        + batch([commit(2, "b")], codec=codec)
    )
    found = decoded(path, by_kernel=True)
    assert found.table()["group"].to_pylist() == ["a", "b"]
    assert [damage.kind for _, damage in found.damages] == ["too-large"]


def test_batch_larger_than_a_chunk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SIZES, "chunk", 1000)
    path = tmp_path / "log"
    large = batch([commit(i, f"group-{i}") for i in range(1, 500)])
    path.write_bytes(batch([commit(0, "a")]) + large + batch([commit(500, "b")]))
    assert check_equal(path).num_rows == 501


def test_transactions_of_other_segments_count(tmp_path: Path) -> None:
    first, second = tmp_path / "1", tmp_path / "2"
    flags = 0x10
    first.write_bytes(
        batch([commit(0, "a")], producer_id=1, flags=flags)
        + batch([commit(1, "b")], producer_id=2, flags=flags)
        + batch([commit(2, "c")], producer_id=3, flags=flags)
    )
    second.write_bytes(marker(3, 1, 1) + marker(4, 2, 0))
    for by_kernel in (False, True):
        indexes: list[TransactionIndex] = []

        def markers(asked: list[TransactionIndex] = indexes) -> TransactionIndex:
            asked.append(scan_transactions([first, second]))
            return asked[0]

        rows = rows_of(decode_chunks(first, transactions=markers, compiled=by_kernel))
        statuses = [row["transaction"] for row in rows]
        assert statuses == ["committed", "aborted", "open"]
        assert len(indexes) == 1


@settings(max_examples=examples(12, 48))
@given(
    log=logs(),
    size=st.integers(200, 3000),
    offset=st.none() | st.integers(0, 60),
    time_ms=st.sampled_from([None, 1000, 1300]),
    with_open=st.booleans(),
    with_removals=st.booleans(),
)
def test_any_log(
    log: bytes,
    size: int,
    offset: int | None,
    time_ms: int | None,
    with_open: bool,
    with_removals: bool,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    path = tmp_path_factory.getbasetemp() / f"{0:020}.log"
    write_fresh(path, log)
    limits = Limits(TransactionIndex, offset, time_ms, with_open, with_removals)
    sizes = {"chunk": size, "piece": size // 3, "smallest_chunk": 100, "keys": 3}
    check_both_ways(path, Way(limits, is_replayed=True, sizes=sizes))


@pytest.mark.parametrize("by_kernel", [False, True])
def test_last_records(tmp_path: Path, by_kernel: bool) -> None:
    """Of each key the last, in the log's order, across segments; what is open stands beside it."""
    first, second = tmp_path / "1", tmp_path / "2"
    first.write_bytes(
        batch([commit(0, "a"), commit(1, "b"), commit(2, "a")])
        + batch([commit(3, "c")], producer_id=1, flags=0x10)
        + batch([commit(4, "d")], codec="zstd")
        + batch([commit(5, "b")], producer_id=2, flags=0x10)
        + batch([commit(6, "a")], producer_id=3, flags=0x10)
    )
    second.write_bytes(
        marker(7, 1, 1) + marker(8, 2, 0) + batch([tombstone(9, "d"), commit(10, "e")])
    )
    paths = [first, second]

    def offsets(**limits: int | bool) -> list[object]:
        limit = Limits(lambda: scan_transactions(paths), **limits)  # type: ignore[arg-type]
        found = last_records(paths, limit, compiled=by_kernel)
        assert [last.path for last in found] == paths
        return [
            row["offset"]
            for last in found
            for row in rows_of(decode_chunks(last.path, locators=last.locators, compiled=by_kernel))
        ]

    assert offsets() == [1, 2, 3, 6, 9, 10]
    assert offsets(with_open=False) == [1, 2, 3, 9, 10]
    assert offsets(offset=4, with_open=False) == [1, 2, 3, 4]


@pytest.mark.parametrize("by_kernel", [False, True])
def test_only_tombstones_behind_it_end_what_an_open_transaction_does(
    tmp_path: Path, by_kernel: bool
) -> None:
    path = tmp_path / "1"
    path.write_bytes(
        batch([tombstone(0, "a"), tombstone(1, "b")])
        + batch([commit(2, "a")], producer_id=3, flags=0x10)
        + batch([tombstone(3, "a"), tombstone(4, "b"), commit(5, "a"), commit(6, "b")])
    )
    limits = Limits(lambda: scan_transactions([path]), with_removals=True)
    (last,) = last_records([path], limits, compiled=by_kernel)
    rows = rows_of(decode_chunks(path, locators=last.locators, compiled=by_kernel))
    assert [row["offset"] for row in rows] == [2, 3, 5, 6]


def test_damage_does_not_hide_later_last_records(tmp_path: Path) -> None:
    good = batch([commit(0, "a"), commit(1, "b")])
    broken = bytearray(batch([commit(2, "a")]))
    broken[-1] ^= 1
    path = tmp_path / "log"
    path.write_bytes(good + bytes(broken) + batch([commit(3, "b")]))
    for by_kernel in (False, True):
        (found,) = last_records(
            [path], Limits(lambda: scan_transactions([path])), compiled=by_kernel
        )
        assert [damage.position for damage in found.damages] == [len(good)]
        rows = rows_of(decode_chunks(path, locators=found.locators, compiled=by_kernel))
        assert [(row["offset"], row["group"]) for row in rows] == [(0, "a"), (3, "b")]


@pytest.mark.parametrize("codec", ["none", "zstd"])
@pytest.mark.parametrize("piece", [64, 1 << 19])
def test_lengths_that_lie_do_not_hide_last_records(
    codec: str, piece: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A batch with an odd header is read where one before leads to it, and not found otherwise."""
    monkeypatch.setattr(SIZES, "piece", piece)
    lying = bytearray(batch([commit(0, "a")], codec=codec))
    lying[11] += 5
    path = tmp_path / "log"
    path.write_bytes(
        bytes(lying)
        + batch([commit(1, "b")], codec=codec)
        + batch([commit(2, "c")], codec=codec, producer_id=-9)
        + batch([commit(3, "b")], codec=codec)
    )
    for by_kernel in (False, True):
        limits = Limits(lambda: scan_transactions([path]))
        (found,) = last_records([path], limits, compiled=by_kernel)
        assert [damage.size for damage in found.damages] == [len(lying)]
        rows = rows_of(decode_chunks(path, locators=found.locators, compiled=by_kernel))
        assert [(row["offset"], row["group"]) for row in rows] == [(2, "c"), (3, "b")]


@pytest.mark.slow
@pytest.mark.parametrize("size", range(1, 34))
def test_keys_that_go_on_where_others_end(size: int, tmp_path: Path) -> None:
    """By one byte, of any value: each is a key of its own."""
    key = bytes(range(100, 100 + size))
    keys = [key, *(key + bytes([value]) for value in range(256))]
    path = tmp_path / "log"
    path.write_bytes(batch([Plain(offset, 5, each, b"v") for offset, each in enumerate(keys)]))
    (found,) = last_records([path], Limits(lambda: scan_transactions([path])), compiled=True)
    assert len(found.locators) == len(keys)


def test_what_is_wanted_behind_a_batch_for_the_reference(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(
        message_set([commit(0, "a"), commit(1, "b")], magic=1, codec="gzip")
        + batch([commit(2, "a"), commit(3, "c")])
    )
    (found,) = last_records([path], Limits(lambda: scan_transactions([path])), compiled=True)
    rows = rows_of(decode_chunks(path, locators=found.locators, compiled=True))
    assert [row["offset"] for row in rows] == [1, 2, 3]


@pytest.mark.slow
def test_many_keys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The table of keys grows, and what lies between wanted records is passed over."""
    monkeypatch.setattr(SIZES, "key_table", 16)
    monkeypatch.setattr(SIZES, "gap", 500)
    monkeypatch.setattr(SIZES, "chunk", 2000)
    groups = [f"g{i}" for i in range(700)] + ["g5"] * 3000 + ["last"]
    path = tmp_path / "log"
    path.write_bytes(b"".join(batch([commit(i, group)]) for i, group in enumerate(groups)))
    (found,) = last_records([path], Limits(lambda: scan_transactions([path])), compiled=True)
    rows = rows_of(decode_chunks(path, locators=found.locators, compiled=True))
    expected = {group: at for at, group in enumerate(groups)}
    assert {row["group"]: row["offset"] for row in rows} == expected


@pytest.mark.slow
def test_wanted_records_are_kept_where_dictionaries_grow(tmp_path: Path) -> None:
    """Of groups, topics, metadata and topic ids; each makes room for itself now and then."""
    records = []
    for i in range(9000):
        metadata = bytes([1 + 4]) + f"{i:04}".encode()
        topic_id = b"\1\0\x10" + struct.pack(">qq", 7, i)  # one tagged field
        value = struct.pack(">hqi", 4, i, 0) + metadata + struct.pack(">q", 5) + topic_id
        records.append(Plain(3 * i, 5, commit_key("g", "t", i), value))
        records.append(commit(3 * i + 1, f"group-{i}", f"topic-{i}"))
        other = encode_key("GroupMetadata", {"group": f"other-{i}"})
        records.append(Plain(3 * i + 2, 5, other, None))
    path = tmp_path / "log"
    path.write_bytes(b"".join(batch(records[i : i + 50]) for i in range(0, len(records), 50)))
    (found,) = last_records([path], Limits(lambda: scan_transactions([path])), compiled=True)
    rows = rows_of(decode_chunks(path, locators=found.locators, compiled=True))
    assert [row["offset"] for row in rows] == list(range(len(records)))


@pytest.fixture
def machine_code() -> bytes:
    """What is compiled, from the user's cache."""
    compiled.load()
    return compiled.user_cache_path().read_bytes()


def check_works(functions: compiled.Functions) -> None:
    key = np.frombuffer(b"key".ljust(PADDING), np.uint8)
    assert functions["hash_key"](key.ctypes.data, 3, 5) == entry.hash_key(b"key", 5)


def test_compiles_once(machine_code: bytes, tmp_path: Path) -> None:
    """Code is compiled where the cache has none, after that was said, and then kept."""
    said: list[str] = []

    def compiling() -> bytes:
        said.append("compiling")
        return machine_code

    path = tmp_path / "cache" / "kernels.o"
    for _ in range(2):
        code, why = compiled.kept_code(path, compiling, lambda: said.append("announced"))
        assert why is None
        check_works(compiled.link(code))
    assert said == ["announced", "compiling"]
    assert [each.name for each in path.parent.iterdir()] == ["kernels.o"]


def test_cache_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    path = tmp_path / "file" / "kgroup" / "kernels.o"
    code, why = compiled.kept_code(path, lambda: b"code")
    assert (code, why) == (b"code", f"{path.parent} (Not a directory)")


@pytest.mark.slow
def test_no_input_loads_a_compiler(machine_code: bytes, tmp_path: Path) -> None:
    """A small one needs none. Numba compiles once, for large ones: what it made is loaded."""
    path = tmp_path / "log"
    path.write_bytes(batch([commit(0, "a")]))
    code = f"""if True:
        import sys
        from pathlib import Path
        from kgroup.pandas_import import leave_out_pandas
        leave_out_pandas()
        from kgroup.columnar.segment import decode_chunks
        assert len(list(decode_chunks(Path({str(path)!r})))) == 1
        assert not {{"numba", "llvmlite"}} & sys.modules.keys()
        assert len(list(decode_chunks(Path({str(path)!r}), compiled=True))) == 1
        assert "numba" not in sys.modules
    """
    subprocess.run([sys.executable, "-c", code], check=True)


def test_the_same_odd_record_again_and_again(tmp_path: Path) -> None:
    """Rows that compiled code leaves to the reference are remembered, and not mixed up."""
    odd = [Plain(0, 5, b"\0\x63ab", b"x"), Plain(0, 5, b"\0\x02\0\1g", b"\0\3"), commit(0, "g")]
    odd += [Plain(0, 5, None, None), Plain(0, 5, None, b"v"), Plain(0, 5, b"\0\2\0\1h", b"\0\x63")]
    order = [0, 0, 1, 1, 2, 1, 3, 3, 4, 4, 0, 5, 5, 2, 2, 1, 3]
    records = [replace(odd[index], offset=at) for at, index in enumerate(order)]
    path = tmp_path / "log"
    path.write_bytes(batch(records[:9]) + batch(records[9:], codec="zstd"))
    found = rows_of(decode_chunks(path, compiled=True))
    assert found == rows_of(decode_chunks(path, compiled=False))
    assert len(found) == len(order)


@pytest.mark.parametrize("compiled", [False, True])
def test_more_records_than_a_batch_can_have(compiled: bool, tmp_path: Path) -> None:
    """A kilobyte of zstd may hold millions of records without key and value: it is damage."""
    tiny = record(Plain(5), 5, 0)
    count = protocol_batch.MOST_RECORDS + 1
    many = batch(
        [],
        codec="zstd",
        body=compress("zstd", tiny * count),
        base_offset=5,
        count=count,
        last_offset_delta=count,
    )
    path = tmp_path / "log"
    path.write_bytes(batch([commit(0, "a")]) + many + batch([commit(9, "b")]))
    first, damage, last = decode_chunks(path, compiled=compiled)
    assert isinstance(damage, Damage)
    assert (damage.kind, damage.position) == ("too-large", len(batch([commit(0, "a")])))
    assert [row["offset"] for row in rows_of(iter([first, last]))] == [0, 9]


def test_bitmaps() -> None:
    flags = np.random.default_rng(3).integers(0, 256, 100, np.uint8)
    for count in (0, 1, 31, 32, 33, 64, 100):
        for flag in (1, 16, 128):
            bits, found = entry.flag_bits(flags[:count], flag)
            known = flags[:count] & flag != 0
            assert found == known.sum()
            expected = np.packbits(known, bitorder="little")
            assert bits[: len(expected)].tolist() == expected.tolist()


def test_of_negative_numbers_none_but_minus_1_is_unknown(tmp_path: Path) -> None:
    times = [-1, -2, 0, -1000, 5]
    stamped = [replace(commit(i, "g"), timestamp=time) for i, time in enumerate(times)]
    odd = batch([commit(5, "g")], leader_epoch=-7, producer_id=-9, producer_epoch=-3)
    path = tmp_path / "log"
    path.write_bytes(batch(stamped) + odd + batch([commit(6, "g")], leader_epoch=-1))
    rows = check_equal(path)
    assert rows["timestamp_ms"].to_pylist()[:5] == [None, -2, 0, -1000, 5]
    assert rows["leader_epoch"].to_pylist() == [0] * 5 + [-7, None]
    assert rows["producer_id"].to_pylist() == [None] * 5 + [-9, None]
    assert rows["producer_epoch"].to_pylist() == [None] * 5 + [-3, None]
