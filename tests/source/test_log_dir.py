"""What a log directory tells beside the groups, and what becomes of damage and doubles."""

from __future__ import annotations

import shutil
import struct
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kgroup.errors import ProblemKind
from kgroup.model.delta import Delta
from kgroup.model.group import Group
from kgroup.model.log_range import LogRange
from kgroup.model.offsets_partition import offsets_partition
from kgroup.model.problem import Problem, ProblemLog
from kgroup.model.record import DecodedRecord
from kgroup.model.segment import Segment
from kgroup.operation.check.check import Request, check
from kgroup.operation.check.rule import Rule
from kgroup.operation.decode import Selection, decode
from kgroup.operation.describe import describe
from kgroup.protocol.batch.batch import RecordBatch
from kgroup.protocol.batch.record_batch import read_batches
from kgroup.source.base import Capability
from kgroup.source.log import folder as small_files
from kgroup.source.log.segment_file import find_segments, log_end
from kgroup.source.log.source import LogDir, read_segment, replay_groups
from tests.columnar.log_writer import Plain, batch
from tests.examples import examples, some_of
from tests.operation.log_files import (
    Log,
    commit,
    commit_key,
    end,
    group_metadata,
    tombstone,
    transaction,
)
from tests.source.scenarios import SCENARIOS, scenario

RECORDED = scenario("kafka-4.3.1")
FOLDER = "__consumer_offsets-0"
SEGMENT = f"{0:020}.log"
SHARE_PARTITION = offsets_partition("notifications-share", 4)
STATE_FOLDER = "__share_group_state-0"


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A log directory with one partition of the recorded one."""
    shutil.copytree(RECORDED.log_dir / FOLDER, tmp_path / "a" / FOLDER)
    return tmp_path / "a"


def batches(path: Path) -> list[RecordBatch]:
    return [each for each in read_batches(path.read_bytes()) if isinstance(each, RecordBatch)]


def records(name: str) -> Iterator[list[DecodedRecord]]:
    """The records of each recorded segment of a scenario."""
    for segment in find_segments([scenario(name).log_dir]):
        yield list(read_segment(segment, ProblemLog()))


def test_cluster_broker_and_partition_count() -> None:
    image = LogDir([RECORDED.log_dir]).read().image
    properties = (RECORDED.log_dir / "meta.properties").read_text("utf-8").splitlines()
    assert f"cluster.id={image.cluster_id}" in properties
    assert [f"node.id={broker_id}" for broker_id in image.broker_ids] == [
        line for line in properties if line.startswith("node.id")
    ]
    assert str(image.offsets_partition_count) == RECORDED.config["offsets.topic.num.partitions"]


def test_folders_and_files_of_a_log_directory_have_its_names(copy: Path) -> None:
    for path in (RECORDED.log_dir / FOLDER, RECORDED.log_dir / FOLDER / SEGMENT):
        image = LogDir([path]).read().image
        assert "orders" in image.topic_names.values()
        assert image.cluster_id is not None
    assert LogDir([copy]).read().image.cluster_id is None


def test_partition_count_is_not_guessed_from_a_part(tmp_path: Path) -> None:
    """Of partitions 0 to 2 of four it would be three, but for the groups that do not fit."""
    for partition in (0, 1, 2):
        name = f"__consumer_offsets-{partition}"
        shutil.copytree(RECORDED.log_dir / name, tmp_path / name)
    assert LogDir([tmp_path]).read().image.offsets_partition_count is None
    assert LogDir([tmp_path / FOLDER]).read().image.offsets_partition_count is None


def share_offsets(path: Path) -> list[tuple[int | None, int | None]]:
    """Partitions and start offsets of the recorded share group with members."""
    group = LogDir([path]).read().image.groups["notifications-share"]
    return [(offset.partition, offset.start_offset) for offset in group.share_offsets or ()]


@pytest.fixture
def share_copy(tmp_path: Path) -> Path:
    """A log directory with the partition of that group and the share groups' states."""
    for folder in (f"__consumer_offsets-{SHARE_PARTITION}", STATE_FOLDER):
        shutil.copytree(RECORDED.log_dir / folder, tmp_path / "a" / folder)
    return tmp_path / "a"


def test_share_state_lies_beside_the_folder_that_is_named(share_copy: Path) -> None:
    whole = share_offsets(RECORDED.log_dir)
    assert [partition for partition, _ in whole] == [0, 1, 2]
    assert None not in [start for _, start in whole]
    assert share_offsets(share_copy) == whole
    assert share_offsets(share_copy / f"__consumer_offsets-{SHARE_PARTITION}") == whole


def test_without_share_state_start_offsets_are_unknown(share_copy: Path) -> None:
    assert Capability.SHARE_START_OFFSETS in LogDir([share_copy]).capabilities
    shutil.rmtree(share_copy / STATE_FOLDER)
    assert Capability.SHARE_START_OFFSETS not in LogDir([share_copy]).capabilities
    assert share_offsets(share_copy) == [(0, None), (1, None), (2, None)]


def test_damaged_share_state_is_reported_and_the_rest_read(share_copy: Path) -> None:
    path = share_copy / STATE_FOLDER / SEGMENT
    data = bytearray(path.read_bytes())
    bad = batches(path)[0]
    data[bad.position + bad.size - 1] ^= 1
    path.write_bytes(data)
    reading = LogDir([share_copy]).read()
    (problem,) = reading.problems
    assert (problem.kind, problem.path, problem.position) == ("bad-crc", str(path), bad.position)
    assert problem.offsets_partition is None
    assert LogDir([share_copy]).read(["no share group"]).problems == ()
    assert None not in [start for _, start in share_offsets(share_copy)][1:]


def test_share_state_of_the_replica_that_ends_last(share_copy: Path, tmp_path: Path) -> None:
    behind = tmp_path / "0"
    shutil.copytree(share_copy / STATE_FOLDER, behind / STATE_FOLDER)
    path = behind / STATE_FOLDER / SEGMENT
    path.write_bytes(path.read_bytes()[: batches(path)[3].position])
    shutil.copytree(RECORDED.log_dir / FOLDER, behind / FOLDER)
    both = LogDir([behind, share_copy]).read()
    assert both.image.groups["notifications-share"].share_offsets == (
        LogDir([share_copy]).read().image.groups["notifications-share"].share_offsets
    )
    (note,) = both.notes
    assert note.startswith(str(path.parent))


def test_only_the_groups_asked_for() -> None:
    source = LogDir([RECORDED.log_dir])
    everything = source.read().image.groups
    chosen = sorted(everything)[3:5]
    assert source.read([*chosen, "no such group"]).image.groups == {
        group_id: everything[group_id] for group_id in chosen
    }


def test_groups_are_sorted() -> None:
    groups = LogDir([RECORDED.log_dir]).read().image.groups
    assert list(groups) == sorted(groups)


def test_torn_tail_is_reported_and_the_rest_read(copy: Path) -> None:
    path = copy / FOLDER / SEGMENT
    last = batches(path)[-1]
    path.write_bytes(path.read_bytes()[:-1])
    reading = LogDir([copy]).read()
    (problem,) = reading.problems
    assert (problem.kind, problem.path, problem.position, problem.offsets_partition) == (
        "torn-tail",
        str(path),
        last.position,
        0,
    )
    assert len(reading.image.groups) > 3


def test_flipped_bit_costs_one_batch(copy: Path) -> None:
    """And the groups are those of the log without that batch."""
    path = copy / FOLDER / SEGMENT
    data = bytearray(path.read_bytes())
    bad = batches(path)[4]
    data[bad.position + bad.size - 1] ^= 1
    path.write_bytes(data)
    reading = LogDir([copy]).read()
    (problem,) = reading.problems
    assert (problem.kind, problem.position) == ("bad-crc", bad.position)
    del data[bad.position : bad.position + bad.size]
    path.write_bytes(data)
    assert LogDir([copy]).read().image.groups == reading.image.groups


def test_files_of_another_kind_are_told_from_damage(tmp_path: Path) -> None:
    text = tmp_path / "notes.log"
    text.write_text("not a segment\n")
    other = RECORDED.log_dir / "orders-0" / SEGMENT
    reading = LogDir([text, other]).read()
    assert not reading.image.groups
    assert {(problem.kind, problem.path) for problem in reading.problems} == {
        ("not-a-segment", str(text)),
        ("other-topic", str(other)),
    }


def test_unreadable_file_is_reported(copy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It vanished, say, since the folder was listed."""
    segments = find_segments([copy])
    (copy / FOLDER / SEGMENT).unlink()
    monkeypatch.setattr(
        "kgroup.source.log.source.find_segments", lambda paths, on_problem: segments
    )
    reading = LogDir([copy]).read()
    (problem,) = reading.problems
    assert (problem.kind, problem.path) == ("unreadable", str(copy / FOLDER / SEGMENT))
    assert reading.image.groups == {}


@pytest.mark.parametrize("name", ["0", "z"])
def test_replica_that_ends_last_is_read(copy: Path, tmp_path: Path, name: str) -> None:
    behind = tmp_path / name
    shutil.copytree(copy, behind)
    path = behind / FOLDER / SEGMENT
    path.write_bytes(path.read_bytes()[: batches(path)[5].position])
    alone = LogDir([copy]).read()
    for paths in ([copy, behind], [behind, copy]):
        reading = LogDir(paths).read()
        assert reading.image.groups == alone.image.groups
        (note,) = reading.notes
        assert note.startswith(str(path.parent))
        assert str(log_end(path, 0)) in note


def test_replica_whose_end_cannot_be_read_is_left_out(
    copy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = tmp_path / "1"
    shutil.copytree(copy, other)

    def end(segment: Path, base_offset: int) -> int:
        if segment.is_relative_to(other):
            raise OSError(5, "Input/output error")
        return 7

    monkeypatch.setattr("kgroup.source.log.segment_file.log_end", end)
    assert LogDir([other, copy]).read().notes == (
        f"{other / FOLDER} left out: it ends at an unknown offset, and {copy / FOLDER}, "
        "which holds the same partition, at offset 7.",
    )


@pytest.mark.parametrize("older", [0, 7])
def test_group_in_two_partitions_is_the_newer(tmp_path: Path, older: int) -> None:
    """As after the partition count was changed: one of them holds the first half only."""
    source = RECORDED.log_dir / FOLDER / SEGMENT
    found = batches(source)
    sizes = {older: found[len(found) // 2].position, 7 - older: source.stat().st_size}
    alone = {}
    for partition, size in sizes.items():
        folder = tmp_path / f"__consumer_offsets-{partition}"
        folder.mkdir()
        (folder / SEGMENT).write_bytes(source.read_bytes()[:size])
        alone[partition] = LogDir([folder]).read().image.groups
    reading = LogDir([tmp_path]).read()
    assert len(reading.notes) == len(alone[0].keys() & alone[7].keys())
    changed = {g for g in alone[older] if _undated(alone[0][g]) != _undated(alone[7][g])}
    assert changed
    for group_id in changed:
        assert reading.image.groups[group_id] == alone[7 - older][group_id]


def _undated(group: Group) -> Group:
    return replace(group, offsets_partition=None)


def test_what_a_broker_would_not_read_is_said(copy: Path) -> None:
    shutil.copy(copy / FOLDER / SEGMENT, copy / FOLDER / f"{SEGMENT}.deleted")
    expected = LogDir([RECORDED.log_dir / FOLDER]).read().image.groups
    reading = LogDir([copy]).read()
    assert {g: len(x.offsets) for g, x in reading.image.groups.items()} == {
        g: len(x.offsets) for g, x in expected.items()
    }
    (note,) = reading.notes
    assert f"{SEGMENT}.deleted left out" in note


def test_what_a_crash_of_the_cleaner_leaves_gives_the_same_groups() -> None:
    """Before it is done the old segments are read, then the one that stands for them.

    Recorded: see `tests/record/scenario_compaction.py`.
    """
    leftovers = scenario("compacted-4.3.1").log_dir / "leftovers"
    whole, *others = [LogDir([leftovers / s]).read() for s in ("cleaned", "swap", "swap-half")]
    assert len(whole.image.groups) > 5
    for reading in (whole, *others):
        assert reading.image.groups == whole.image.groups
        assert reading.problems == ()
        assert any("left out" in note for note in reading.notes)


def test_log_ends_of_absent_partitions_are_not_told() -> None:
    source = LogDir([RECORDED.log_dir])
    assert source.log_ranges({("orders", 999), ("absent", 0)}).ranges == {}


@pytest.mark.parametrize("topic", ["../a/orders", "x" * 5000, "nul\0", "", "\ud800"])
def test_log_ends_of_what_is_no_topics_name(copy: Path, topic: str) -> None:
    """Clients can commit for any text, and damage makes others; none of them leads elsewhere."""
    shutil.copytree(RECORDED.log_dir / "orders-0", copy / "orders-0")
    partitions = {(topic, 0), ("orders", 0)}
    assert set(LogDir([copy]).log_ranges(partitions).ranges) == {("orders", 0)}


CHECKPOINT = "log-start-offset-checkpoint"
ORDERS = ("orders", 0)


@pytest.fixture
def orders(copy: Path) -> Path:
    """A log directory with a partition of a user: two segments, the offsets 5 to 14."""
    (copy / "orders-0").mkdir()
    for base in (5, 10):
        data = batch([Plain(offset) for offset in range(base, base + 5)])
        (copy / "orders-0" / f"{base:020}.log").write_bytes(data)
    return copy


def orders_of(*directories: Path) -> LogRange:
    reading = LogDir(directories).log_ranges([ORDERS])
    assert reading.problems == ()
    return reading.ranges[ORDERS]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("", LogRange(5, 15), id="as a broker creates it"),
        pytest.param("0\n0\n", LogRange(5, 15), id="without entries"),
        pytest.param("0\n2\norders 1 9\nother 0 9\n", LogRange(5, 15), id="of others"),
        pytest.param("0\n1\norders 0 5\n", LogRange(5, 15), id="at the first segment"),
        pytest.param("0\n2\na 7 1\norders 0 7\n", LogRange(7, 15), id="in a segment"),
        pytest.param("0\n1\norders 0 15\n", LogRange(15, 15), id="at the end"),
        pytest.param("0\n1\norders 0 20\n", LogRange(20, 20), id="a broker empties the log"),
        pytest.param("0\n1\norders 0 4\n", LogRange(None, 15), id="remote, or old"),
    ],
)
def test_log_starts_are_checkpointed(orders: Path, text: str, expected: LogRange) -> None:
    (orders / CHECKPOINT).write_text(text)
    assert orders_of(orders) == expected
    assert orders_of(orders / FOLDER) == expected, "beside the folder that is named"
    assert Capability.LOG_START_OFFSETS in LogDir([orders]).capabilities


def test_log_starts_without_a_checkpoint(orders: Path) -> None:
    """A copied folder does not tell; before 0.11 a broker had no start but that of the segment."""
    assert orders_of(orders) == LogRange(None, 15)
    assert Capability.LOG_START_OFFSETS not in LogDir([orders]).capabilities
    (orders / "recovery-point-offset-checkpoint").touch()
    assert orders_of(orders) == LogRange(5, 15)
    assert Capability.LOG_START_OFFSETS in LogDir([orders]).capabilities


def test_log_start_where_a_compaction_has_replaced_the_first_segment(orders: Path) -> None:
    (orders / CHECKPOINT).touch()
    first = orders / "orders-0" / f"{5:020}.log"
    first.rename(first.with_suffix(".log.swap"))
    assert orders_of(orders) == LogRange(5, 15)
    first.with_suffix(".log.swap").rename(first.with_suffix(".log.deleted"))
    assert orders_of(orders) == LogRange(10, 15)


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"1\n0\n", "expected version 0 in line 1, found b'1'"),
        (b"0\n", "expected as many entries as line 2 says, b'', found 0"),
        (b"0\n2\na 0 1\n", "expected as many entries as line 2 says, b'2', found 1"),
        (b"0\n1\na 0\n", "expected a topic, a partition and an offset in line 3, found b'a 0'"),
        (
            b"0\n1\na 0 -1\n",
            "expected a topic, a partition and an offset in line 3, found b'a 0 -1'",
        ),
        (b"\xff\0" * 99, "expected version 0 in line 1, found b'" + r"\xff\x00" * 40 + "'"),
    ],
)
def test_damaged_checkpoint_is_reported(orders: Path, data: bytes, why: str) -> None:
    """Where a range is asked that lies beside it."""
    (orders / CHECKPOINT).write_bytes(data)
    reading = LogDir([orders]).log_ranges([ORDERS, ("orders", 1)])
    assert reading.ranges == {ORDERS: LogRange(None, 15)}
    (problem,) = reading.problems
    assert (problem.kind, problem.path) == (ProblemKind.UNREADABLE, str(orders / CHECKPOINT))
    assert problem.reason == f"Log start offsets are unknown: {why}."
    assert LogDir([orders]).log_ranges([("orders", 1)]).problems == ()


def test_unreadable_checkpoint_is_reported(orders: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (orders / CHECKPOINT).write_text("0\n1\norders 0 7\n")
    monkeypatch.setattr(small_files, "LARGEST_CHECKPOINT", 10)
    (problem,) = LogDir([orders]).log_ranges([ORDERS]).problems
    assert problem.reason == (
        "Log start offsets are unknown: expected at most 10 bytes, found more."
    )
    (orders / CHECKPOINT).unlink()
    (orders / CHECKPOINT).mkdir()
    (problem,) = LogDir([orders]).log_ranges([ORDERS]).problems
    assert problem.reason == "Log start offsets are unknown: Is a directory."


def test_log_range_of_the_replica_that_ends_last(orders: Path, tmp_path: Path) -> None:
    """Of two that end alike, the one whose start is later, or known."""
    other = tmp_path / "other"
    shutil.copytree(orders, other)
    (other / CHECKPOINT).write_text("0\n1\norders 0 8\n")
    for directories in ((orders, other), (other, orders)):
        assert orders_of(*directories) == LogRange(8, 15)
    (orders / CHECKPOINT).write_text("0\n1\norders 0 6\n")
    assert orders_of(orders, other) == LogRange(8, 15)
    (other / "orders-0" / f"{10:020}.log").unlink()
    assert orders_of(orders, other) == LogRange(6, 15)


def test_a_log_start_past_the_commit(orders: Path) -> None:
    """Log start 1000, end 1000, commit 10: no record waits."""
    (orders / FOLDER / f"{10**6:020}.log").write_bytes(
        batch([commit(10**6, "g", "orders", committed=10)])
    )
    (orders / CHECKPOINT).write_text("0\n1\norders 0 1000\n")
    for path in (orders / "orders-0").iterdir():
        path.unlink()
    (orders / "orders-0" / f"{1000:020}.log").touch()
    ((offset,),) = (group.offsets for group in describe(LogDir([orders]), ["g"]).data)
    assert (offset.log_start_offset, offset.lag, offset.waiting) == (1000, 990, 0)
    findings = check(LogDir([orders]), Request(["g"]), lambda: None).report.data
    assert [finding.code for finding in findings] == [Rule.BEFORE_START]


def test_different_clusters_are_noted(copy: Path, tmp_path: Path) -> None:
    other = tmp_path / "b"
    shutil.copytree(copy, other)
    (copy / "meta.properties").write_text("cluster.id=one\nbroker.id=1\n")
    (other / "meta.properties").write_text("# 0.8\nbroker.id=2\ncluster.id=two\n")
    reading = LogDir([copy, other]).read()
    assert any("different clusters" in note for note in reading.notes)
    assert (reading.image.cluster_id, reading.image.broker_ids) == (None, (1, 2))


@pytest.mark.slow
@pytest.mark.parametrize("name", some_of(SCENARIOS, 3))
def test_every_prefix_of_a_log_can_be_replayed(name: str) -> None:
    for log in records(name):
        delta = Delta(0)
        for record in log:
            delta.replay(record)
            delta.groups()
        assert delta.problems() == ()


@pytest.mark.parametrize("name", some_of(SCENARIOS, 3))
def test_what_compaction_keeps_gives_the_same_groups(name: str) -> None:
    for log in records(name):
        whole, compacted = Delta(0), Delta(0)
        for record in log:
            whole.replay(record)
        for record in _compacted(log):
            compacted.replay(record)
        assert compacted.groups(whole.topic_names) == whole.groups()


def _compacted(log: list[DecodedRecord]) -> list[DecodedRecord]:
    """The newest record of each key that is in no aborted transaction, and the open ones."""
    kept: dict[str, DecodedRecord] = {}
    ended: dict[int | None, str] = {}
    for record in reversed(log):
        if record.type.startswith("Control"):
            ended[record.producer_id] = record.type
            kept[f"marker {record.offset}"] = record
        elif record.transaction is not None and record.producer_id not in ended:
            kept[f"open {record.offset}"] = record
        elif record.transaction is None or ended[record.producer_id] == "ControlCommit":
            kept.setdefault(f"{record.type} {record.key}", record)
    return sorted(kept.values(), key=lambda record: record.offset)


@pytest.mark.parametrize("is_sparse", [True, False])
def test_space_that_is_allocated_ahead_is_no_damage(copy: Path, *, is_sparse: bool) -> None:
    """With `log.preallocate` the newest segment has its full size, and zeros at its end."""
    before = LogDir([copy]).read()
    for path in copy.glob("__consumer_offsets-*/*.log"):
        with path.open("r+b") as file:
            size = file.seek(0, 2)
            if is_sparse:
                file.truncate(size + (100 << 20))
            else:
                file.write(bytes(300_000))
    reading = LogDir([copy]).read()
    assert reading.image == before.image
    assert reading.problems == before.problems
    size = 100 << 20 if is_sparse else 300_000
    assert any(f" ends in {size:,} zero bytes" in note for note in reading.notes)
    decoding = decode(find_segments([copy]), Selection())
    assert sum(decoding.map(lambda rows: rows.num_rows)) > 0
    assert decoding.log.problems == ()
    (note,) = decoding.log.notes
    assert f" ends in {size:,} zero bytes" in note, "a copy may have lost records"


def test_zeros_at_the_end_of_an_older_segment_are_damage(copy: Path) -> None:
    """A broker cuts off what it allocated when it begins the next segment."""
    path = next(path for path in copy.glob("__consumer_offsets-*/*.log") if path.stat().st_size)
    end = log_end(path, int(path.stem))
    with path.open("ab") as file:
        file.write(bytes(5000))
    assert LogDir([copy]).read().problems == ()
    path.with_name(f"{end:020}.log").touch()
    (problem,) = LogDir([copy]).read().problems
    assert (problem.kind, problem.path) == (ProblemKind.ZEROS, str(path))


def test_a_hole_before_a_batch_is_damage(copy: Path) -> None:
    path = next(path for path in copy.glob("__consumer_offsets-*/*.log") if path.stat().st_size)
    first = path.read_bytes()[: batches(path)[0].size]
    with path.open("r+b") as file:
        size = file.seek(0, 2)
        file.truncate(size + (64 << 20))
        file.seek(0, 2)
        file.write(first)
    (problem,) = LogDir([copy]).read().problems
    assert (problem.kind, problem.position) == (ProblemKind.ZEROS, size)
    assert problem.reason == f"Expected a batch, found {64 << 20} zero bytes."


# ---- groups come out the same, whichever way a log is replayed


DATA = Path(__file__).parents[1] / "data"
DAMAGED = sorted(path for path in (DATA / "damaged").rglob("*.log"))


def every_record(segments: list[Segment]) -> Delta:
    delta = Delta(0)
    for segment in segments:
        for record in read_segment(segment, ProblemLog()):
            delta.replay(record)
    return delta


def last_records(
    segments: list[Segment], *, compiled: bool
) -> tuple[Delta, tuple[Problem, ...], tuple[Problem, ...]]:
    delta, damage = Delta(0), ProblemLog()
    replay_groups(segments, delta, damage, compiled=compiled)
    return delta, delta.problems(), tuple(sorted(damage.problems(), key=repr))


def assert_same(segments: list[Segment]) -> Delta:
    """Compare the two ways of replaying last records; give what they give."""
    small, *troubles = last_records(segments, compiled=False)
    large, *other_troubles = last_records(segments, compiled=True)
    assert large.groups() == small.groups()
    assert large.topic_names == small.topic_names
    assert other_troubles == troubles
    return small


@pytest.mark.slow
@pytest.mark.parametrize("name", some_of(SCENARIOS, 3))
def test_recorded_logs(name: str) -> None:
    by_partition: dict[tuple[int | None, Path], list[Segment]] = {}
    for segment in find_segments([scenario(name).log_dir]):
        if segment.is_loaded:
            place = (segment.partition, segment.path.parent)
            by_partition.setdefault(place, []).append(segment)
    for segments in by_partition.values():
        whole = every_record(segments)
        assert assert_same(segments).groups(whole.topic_names) == whole.groups()


@pytest.mark.slow
@pytest.mark.parametrize("path", some_of(DAMAGED, 6), ids=lambda path: path.parent.parent.name)
def test_damaged_logs(path: Path) -> None:
    assert_same(find_segments([path]))


changes = st.tuples(
    st.sampled_from(["commit", "commit", "remove", "group", "no group", "begin", "end"]),
    st.sampled_from(["a", "b"]),  # the group
    st.integers(0, 1),  # its partition, or the producer
    st.booleans(),  # whether the transaction commits
)


@pytest.mark.slow
@settings(max_examples=examples(50))
@given(events=st.lists(changes, max_size=40))
def test_any_course_of_events(
    events: list[tuple[str, str, int, bool]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Commits, their tombstones, transactions and classic groups as brokers may write them."""
    batches = []
    for offset, (what, group, number, commits) in enumerate(events):
        if what == "end":
            batches.append(end(offset, number, commits=commits))
        elif what == "begin":
            batches.append(transaction([commit(offset, group, committed=offset)], number))
        elif what == "commit":
            batches.append(batch([commit(offset, group, partition=number, committed=offset)]))
        elif what == "remove":
            batches.append(batch([tombstone(offset, group, partition=number)]))
        else:
            written = group_metadata(offset, group, generation=offset)
            value = written.value if what == "group" else None
            batches.append(batch([Plain(offset, -1, written.key, value)]))
    root = tmp_path_factory.getbasetemp() / "course"
    root.mkdir(exist_ok=True)
    log = Log(root)
    log.add(0, *batches)
    segments = log.segments()
    assert assert_same(segments).groups() == every_record(segments).groups()


def test_what_an_open_transaction_committed_ends_with_its_key(tmp_path: Path) -> None:
    """The tombstone comes between, and a later commit takes its place as the last of the key."""
    log = Log(tmp_path)
    log.add(
        0,
        transaction([commit(0, "g", committed=1), commit(1, "g", partition=1, committed=2)], 7),
        batch([tombstone(2, "g")]),
        batch([commit(3, "g", committed=3)]),
    )
    group = assert_same(log.segments()).groups()["g"]
    assert [(o.partition, o.committed_offset) for o in group.offsets] == [(0, 3)]
    assert [(o.partition, o.committed_offset) for o in group.pending_offsets] == [(1, 2)]


def test_a_topic_id_of_zeros_is_none(tmp_path: Path) -> None:
    """Value version 4: offset, leader epoch, metadata (compact), time, tag 0 of 16 bytes."""
    value = struct.pack(">hqi", 4, 7, -1) + b"\1" + bytes(8) + b"\1\0\x10" + bytes(16)
    log = Log(tmp_path)
    log.add(0, batch([Plain(0, -1, commit_key("g"), value)]))
    delta = assert_same(log.segments())
    assert [offset.topic_id for offset in delta.groups()["g"].offsets] == [None]
    assert delta.topic_names == {}


def test_records_without_a_key_are_counted(tmp_path: Path) -> None:
    log = Log(tmp_path)
    log.add(0, batch([commit(0, "g"), Plain(1, 0, None, b"x"), Plain(2, 0, None, None)]))
    for compiled in (False, True):
        _, _, (problem,) = last_records(log.segments(), compiled=compiled)
        assert (problem.kind, problem.offsets_partition) == ("unknown-record", 0)
        assert problem.reason == "2 records without a key left out."


def test_how_far_it_has_come(tmp_path: Path) -> None:
    log = Log(tmp_path)
    path = log.add(0, batch([commit(0, "g")]), batch([commit(1, "h")]))
    told: list[int] = []
    segments = log.segments()
    replay_groups(segments, Delta(0), ProblemLog(), compiled=True, on_progress=told.append)
    assert told == sorted(told)
    assert told[-1] == path.stat().st_size
