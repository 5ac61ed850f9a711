"""`__consumer_offsets` of brokers that are made up: what is damaged, denied, gone, or silent."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from time import monotonic
from typing import Any

import pytest

from kgroup.errors import BrokerError
from kgroup.kernel.compiled import load
from kgroup.model.problem import Problem
from kgroup.model.segment import Log
from kgroup.source.broker.fetch import Fetched, sound_part
from kgroup.source.broker.live_log import FollowedLogs, LiveLogs, StartPosition
from kgroup.source.broker.source import LiveCluster
from tests.columnar.log_writer import batch, message_set
from tests.operation.log_files import commit, transaction
from tests.source.broker_answers import ends, metadata, topic
from tests.source.fake_broker import FakeBroker, fake_broker
from tests.source.fake_log import FakeLog, fetched

TOPIC = "__consumer_offsets"
EVERYTHING = StartPosition()
ONE, TWO, THREE = (batch([commit(offset, "g")]) for offset in (0, 1, 2))


def damaged(data: bytes, position: int) -> bytes:
    changed = bytearray(data)
    changed[position] ^= 0x55
    return bytes(changed)


@pytest.mark.parametrize(
    ("data", "at", "kept", "following"),
    [
        (b"", 0, 0, 0),
        (ONE + TWO, 0, len(ONE + TWO), 2),
        (ONE + TWO[:-1], 0, len(ONE), 1),
        (ONE[:-1], 0, 0, 0),
        # A wrong checksum is for the reader to find; a length that leads nowhere ends what is kept.
        (damaged(ONE, -1) + TWO, 0, len(ONE + TWO), 2),
        (ONE + damaged(TWO, 9) + THREE, 0, len(ONE), 1),
        (damaged(TWO, 9), 1, 0, 1),
        # An offset that the log does not have cannot be gone on from.
        (ONE + damaged(TWO, 0) + THREE, 0, len(ONE), 1),
        (message_set([commit(0, "g"), commit(1, "g")], magic=1), 0, None, 2),
    ],
)
def test_what_is_kept_of_an_answer(data: bytes, at: int, kept: int | None, following: int) -> None:
    expected = (len(data) if kept is None else kept, following)
    assert sound_part(Fetched(0, data, end=3), at) == expected


def test_what_is_kept_up_to_an_offset() -> None:
    """The batch with the last wanted offset is whole."""
    two = batch([commit(0, "g"), commit(1, "g")])
    for until, expected in ((1, (len(two), 2)), (2, (len(two), 2)), (3, (len(two + THREE), 3))):
        assert sound_part(Fetched(0, two + THREE, end=3), 0, until) == expected


def test_a_length_that_lies() -> None:
    """More bytes might make such a batch whole; where there are none, what is behind it counts."""
    fetched = Fetched(0, damaged(TWO, 9) + THREE, end=3)
    assert sound_part(fetched, 1) == (0, 1)
    assert sound_part(fetched, 1, is_all=True) == (len(fetched.data), 3)


@pytest.fixture
def broker() -> Iterator[FakeBroker]:
    with fake_broker() as fake:
        fake.newest = {"Metadata": 4, "Fetch": 4, "ListOffsets": 2}
        yield fake


def serve(broker: FakeBroker, logs: Mapping[int, FakeLog | None]) -> None:
    """Lead these partitions; one without a log has no leader."""

    def log_of(partition: int) -> FakeLog:
        log = logs[partition]
        assert log is not None
        return log

    def list_offsets(request: Any) -> dict[str, Any]:
        answer = ends(request, 0, 0)
        for row, wanted in zip(
            answer["topics"][0]["partitions"], request.topics[0].partitions, strict=True
        ):
            log = log_of(wanted.partition_index)
            end = log.batches[-1][0] + 1 if log.end is None else log.end
            row["offset"] = {-2: 0, -1: end}[wanted.timestamp]
        return answer

    def known(request: Any) -> Any:
        leaders = [-1 if log is None else 1 for log in logs.values()]
        return metadata(broker, *([topic(TOPIC, *leaders)] if logs else []))(request)

    broker.handlers = {
        "Metadata": known,
        "ListOffsets": list_offsets,
        "Fetch": lambda request: fetched(request, log_of),
    }


def read(
    broker: FakeBroker, folder: Path, start: StartPosition = EVERYTHING
) -> tuple[bytes, list[Problem]]:
    """Read everything; give the bytes of all partitions, and what is missing."""
    data, problems = b"", []
    with LiveCluster(broker.bootstrap, timeout_s=1, of_silence=True) as cluster:
        offsets = cluster.offsets_log(folder)
        for log in LiveLogs(offsets, list(offsets.leaders), start):
            if isinstance(log, Problem):
                problems.append(log)
                continue
            (segment,) = log.segments
            assert segment.broker == 1
            data += segment.path.read_bytes()
    assert list(folder.iterdir()) == []
    return data, problems


@pytest.mark.slow
def test_everything_that_is_there_at_the_start(broker: FakeBroker, tmp_path: Path) -> None:
    serve(broker, {0: FakeLog([(0, ONE), (1, TWO)]), 1: FakeLog([(2, THREE)]), 2: None})
    data, (problem,) = read(broker, tmp_path)
    assert data == ONE + TWO + THREE
    assert (problem.kind, problem.offsets_partition) == ("no-leader", 2)
    assert read(broker, tmp_path, StartPosition(offset=2))[0] == THREE


def test_damage_that_leads_nowhere(broker: FakeBroker, tmp_path: Path) -> None:
    """All of it is given to the reader; what may be behind it is said to be missing."""
    serve(broker, {0: FakeLog([(0, ONE), (1, damaged(TWO, 9))], end=3)})
    data, (problem,) = read(broker, tmp_path)
    assert data == ONE + damaged(TWO, 9)
    assert (problem.kind, problem.offsets_partition, problem.broker) == ("unusable", 0, 1)


def test_a_right_that_is_missing_is_told_once(broker: FakeBroker, tmp_path: Path) -> None:
    serve(broker, {number: FakeLog([(0, ONE)], error=29) for number in range(3)})
    data, (problem,) = read(broker, tmp_path)
    assert (data, problem.kind) == (b"", "denied")
    assert problem.reason == (
        "__consumer_offsets may not be read: TOPIC_AUTHORIZATION_FAILED; it needs READ on it; "
        "partitions 0, 1, 2 of __consumer_offsets are missing, or not read to the end."
    )


def test_no_topic(broker: FakeBroker, tmp_path: Path) -> None:
    serve(broker, {})
    with LiveCluster(broker.bootstrap) as cluster:
        assert cluster.offsets_log(tmp_path).leaders == {}


@contextmanager
def following(
    broker: FakeBroker,
    folder: Path,
    start: StartPosition,
    *,
    committed: bool = False,
    timeout_s: float = 10.0,
) -> Iterator[tuple[Iterator[Log], list[str]]]:
    """Follow; give the logs that come, and the notes."""
    notes: list[str] = []
    too_late = monotonic() + 60

    def pulse() -> None:
        assert monotonic() < too_late, "nothing comes"

    with LiveCluster(broker.bootstrap, timeout_s=timeout_s, of_silence=True) as cluster:
        offsets = cluster.offsets_log(folder)
        numbers = list(offsets.leaders)
        logs = FollowedLogs(
            offsets, numbers, start, committed=committed, on_note=notes.append, pulse=pulse
        )

        def only_logs() -> Iterator[Log]:
            for log in logs:
                assert not isinstance(log, Problem)
                yield log

        yield only_logs(), notes


def content(log: Log) -> bytes:
    return log.segments[0].path.read_bytes()


def test_follow(broker: FakeBroker, tmp_path: Path) -> None:
    served = FakeLog([(0, ONE), (1, TWO)])
    serve(broker, {0: served})
    with following(broker, tmp_path, StartPosition(offset=1)) as (logs, notes):
        assert content(next(logs)) == TWO
        served.batches.append((2, THREE))
        assert content(next(logs)) == THREE
        assert notes == []


def test_follow_decided_records_only(broker: FakeBroker, tmp_path: Path) -> None:
    """Two transactions that are decided, one to nothing; their markers are not among these."""
    parts = [transaction([commit(n, "g")], 7 + n) for n in range(2)]
    served = FakeLog([(0, parts[0]), (1, parts[1]), (2, THREE)], aborted=[(8, 1, 9)], stable=2)
    serve(broker, {0: served})
    with following(broker, tmp_path, StartPosition(offset=0), committed=True) as (logs, _):
        log = next(logs)
        assert content(log) == parts[0] + parts[1]
        assert log.aborted == frozenset({(8, 1)})
        served.stable = 3
        assert content(next(logs)) == THREE


def test_follow_a_log_that_was_cut(broker: FakeBroker, tmp_path: Path) -> None:
    """The new leader has less; what it writes from there on is read."""
    served = FakeLog([(0, ONE), (1, TWO), (2, THREE)])
    serve(broker, {0: served})
    with following(broker, tmp_path, StartPosition(offset=0)) as (logs, notes):
        assert content(next(logs)) == ONE + TWO + THREE
        del served.batches[1:]
        served.error = 1
        answer, served_answers = served.answer, []

        def once(wanted: Any, **more: Any) -> dict[str, Any]:
            row = answer(wanted, **more)
            served_answers.append(row)
            served.error = 0
            if len(served_answers) == 2:
                served.batches.append((1, TWO))
            return row

        served.answer = once  # type: ignore[method-assign]
        assert content(next(logs)) == TWO
    assert notes == [
        "partition 0 of __consumer_offsets: offset 3 no longer exists; trying again",
        "partition 0 of __consumer_offsets can be read again",
    ]


def test_follow_without_the_right(broker: FakeBroker, tmp_path: Path) -> None:
    serve(broker, {0: FakeLog([(0, ONE)], error=29)})
    with (
        following(broker, tmp_path, StartPosition(at_end=True)) as (logs, _),
        pytest.raises(BrokerError, match="needs READ") as raised,
    ):
        next(logs)
    assert raised.value.kind == "denied"


def test_follow_a_partition_without_a_leader(broker: FakeBroker, tmp_path: Path) -> None:
    """It is waited for; the others are read meanwhile, and it from its end when it comes."""
    late = FakeLog([(0, ONE)])
    logs_of: dict[int, FakeLog | None] = {0: FakeLog([(0, ONE)]), 1: None}
    serve(broker, logs_of)
    with following(broker, tmp_path, StartPosition(offset=0)) as (logs, notes):
        assert next(logs).segments[0].partition == 0
        logs_of[1] = late
        assert next(logs).segments[0].partition == 1
    assert notes == [
        "partition 1 of __consumer_offsets: The partition has no leader: its replicas are "
        "offline; trying again",
        "partition 1 of __consumer_offsets can be read again",
    ]


@pytest.mark.slow
def test_follow_ends_when_no_broker_answers(broker: FakeBroker, tmp_path: Path) -> None:
    serve(broker, {0: FakeLog([(0, ONE)])})
    with following(broker, tmp_path, StartPosition(offset=0), timeout_s=1) as (logs, notes):
        next(logs)
        broker.handlers = {}
        with pytest.raises(BrokerError, match=r"no broker has answered for 1 s") as raised:
            next(logs)
    assert raised.value.kind == "silent"
    assert len(notes) == 1


@pytest.mark.slow
def test_follow_ends_when_a_broker_greets_and_hangs_up(broker: FakeBroker, tmp_path: Path) -> None:
    """It takes connections and tells its versions, again and again; that is no answer."""
    serve(broker, {0: FakeLog([(0, ONE)])})
    with following(broker, tmp_path, StartPosition(offset=0), timeout_s=1) as (logs, notes):
        next(logs)
        broker.handlers = dict.fromkeys(broker.handlers, lambda _: None)
        with pytest.raises(BrokerError) as raised:
            next(logs)
    assert str(raised.value) == (
        "no broker has answered for 1 s; the last reason: broker 1 "
        f"({broker.bootstrap}) closed the connection"
    )
    assert raised.value.kind == "silent"
    assert len(notes) == 1


def test_a_copy_of_the_records_of_a_group(broker: FakeBroker, tmp_path: Path) -> None:
    """Batches of other groups are left out; what cannot be trusted is copied, and said."""
    other = [batch([commit(n, "other", time_ms=n)]) for n in range(6)]
    own = batch([commit(3, "g", time_ms=3)])
    batches = [*other[:3], own, *other[4:]]
    serve(broker, {0: FakeLog(list(enumerate(batches)))})
    load()
    with LiveCluster(broker.bootstrap, timeout_s=1, of_silence=True) as cluster:
        log = cluster.offsets_log(tmp_path)
        copied = log.client.run(log.copy, 0, 0, 6, group_id="g")
        assert (copied.next, copied.problem) == (6, None)
        assert log.bytes_copied == sum(map(len, batches))
        (segment,) = copied.log.segments
        # those with the first and the last time of what a response had, before its last bytes
        assert segment.path.read_bytes() == other[0] + own + b"".join(other[4:])
        copied.remove()
        serve(broker, {0: FakeLog([(0, other[0]), (1, other[1]), (2, damaged(own, 9))], end=9)})
        copied = log.client.run(log.copy, 0, 0, 9, group_id="g")
        assert copied.problem is not None
        (segment,) = copied.log.segments
        assert segment.path.read_bytes().endswith(damaged(own, 9))
        assert segment.path.read_bytes().startswith(other[0])
