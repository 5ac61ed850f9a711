"""Streams of the live topic, with clusters that do not always answer in full."""

from __future__ import annotations

import pickle
import threading
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest
from pyspark.sql.datasource import InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable

from kgroup.errors import BrokerError, BusyError, InputError, ProblemKind
from kgroup.history.build.build import Build
from kgroup.history.build.task import SplitRead, SplitWork, TaskResult
from kgroup.history.input.live_source import LiveSource
from kgroup.history.sql.question import LogEnd
from kgroup.history.warehouse.coverage import Coverage
from kgroup.history.warehouse.store import RemotePath
from kgroup.history.warehouse.warehouse import write_warehouse
from kgroup.model.problem import Problem
from kgroup.source.config.client_config import client_config
from kgroup.spark import data_source, stream
from kgroup.spark.data_source import KgroupStreamReader

CONFIG = client_config(environment={}, bootstrap_server="127.0.0.1:9")
SILENCE = BrokerError(ProblemKind.UNREACHABLE, "127.0.0.1:9 does not answer")
EVERYTHING = ReadAllAvailable()

Answer = Callable[..., None]


def live(ranges: dict[int, tuple[int, int]], *missing: int) -> LiveSource:
    problems = [
        Problem(ProblemKind.NO_LEADER, f"partition {number} is missing") for number in missing
    ]
    return LiveSource("c", ranges, {}, tuple(problems), CONFIG)


@pytest.fixture
def answer(monkeypatch: pytest.MonkeyPatch) -> Answer:
    """Let a cluster give some answers, one after the other; a wait takes no time."""

    def say(*answers: LiveSource | BrokerError) -> None:
        left = list(answers)

        def ask(config: object, cluster: object, **asked: object) -> LiveSource:
            source = left.pop(0)
            if isinstance(source, BrokerError):
                raise source
            return source

        for module in (data_source, stream):
            monkeypatch.setattr(module, "ask_live", ask)

    monkeypatch.setattr(threading.Event, "wait", lambda event, timeout=None: event.is_set())
    return say


def reader(*, at_end: bool = False) -> KgroupStreamReader:
    return KgroupStreamReader(CONFIG, None, at_end=at_end)


def test_the_end_of_a_partition_without_a_leader_is_waited_for(answer: Answer) -> None:
    some, both = live({0: (2, 5)}, 1), live({0: (2, 6), 1: (3, 900)})
    answer(some, some, SILENCE, both)
    assert reader(at_end=True).initialOffset() == {"0": 6, "1": 900}
    answer(some)
    begin = reader().initialOffset()
    assert begin == {"0": 2}  # which misses nothing: what is not named begins at the first
    answer(both)
    (*_, last) = reader().partitions(begin, {"0": 2, "1": 900})
    assert (last.value.location.start, last.value.location.end) == (3, 900)


def test_who_never_has_a_leader_is_named(answer: Answer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(data_source, "MOST_SILENCE_S", -1.0)
    answer(live({0: (0, 5)}, 1), live({0: (0, 5)}, 1))
    with pytest.raises(BrokerError, match="partition 1 is missing"):
        reader(at_end=True).initialOffset()


def test_a_partition_that_loses_its_leader_stays_where_it_was(answer: Answer) -> None:
    """Also in a stream that has been begun again since, and in one that ends by itself."""
    before = {"0": 5, "1": 700}
    answer(live({0: (0, 6)}, 1), SILENCE, live({0: (0, 6), 1: (0, 701)}))
    begun_again = reader()
    assert begun_again.latestOffset(before, EVERYTHING) == {"0": 6, "1": 700}
    assert begun_again.latestOffset({"0": 6, "1": 700}, EVERYTHING) == {"0": 6, "1": 700}
    assert begun_again.latestOffset({"0": 6, "1": 700}, EVERYTHING) == {"0": 6, "1": 701}
    ending = reader()
    answer(live({0: (0, 6)}, 1))
    ending.prepareForTriggerAvailableNow()
    assert ending.latestOffset(before, EVERYTHING) == {"0": 6, "1": 700}
    assert ending.latestOffset({"0": 6, "1": 700}, EVERYTHING) == {"0": 6, "1": 700}


def test_a_silence_that_lasts_ends_the_stream(
    answer: Answer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(data_source, "MOST_SILENCE_S", -1.0)
    answer(SILENCE)
    with pytest.raises(BrokerError, match="does not answer"):
        reader().latestOffset({"0": 5}, EVERYTHING)


def rows(*results: object) -> Mock:
    """Give the results of a batch's tasks, as executors would."""
    frame = Mock()
    frame.where.return_value.select.return_value.collect.return_value = [
        {"result": pickle.dumps(result)} for result in results
    ]
    return frame


def batch(root: Path, ended: threading.Event | None = None) -> stream._Batch:
    ended = ended or threading.Event()
    return stream._Batch(Mock(), CONFIG, "c", root, lambda report: None, ended)


def test_a_batch_is_of_all_that_is_new(
    answer: Answer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A partition that had no leader at its own batch; and a cluster that answers late."""
    accepted: list[object] = []
    monkeypatch.setattr(Build, "accept_live", lambda build, *arguments: accepted.append(arguments))
    found = live({3: (0, 5), 4: (2, 5)})
    answer(SILENCE, found)
    batch(tmp_path / "w").write(rows("a result"), 1)
    assert accepted == [(found, ["a result"], None)]

    answer(SILENCE, found)
    planned = written_records(tmp_path / "w").partitions({}, {"3": 4, "log-ends": 9, "5": 1})
    assert [work_of(part) for part in planned] == [(3, 0, 4)]  # 4 had no leader when it was asked
    answer(found)
    planned = written_records(tmp_path / "w").partitions({"3": 5, "4": 5}, {"3": 5, "4": 5})
    assert [work_of(part) for part in planned] == [(3, 0, 5), (4, 2, 5)]


def written_records(root: Path) -> stream._WrittenRecordsReader:
    return stream._WrittenRecordsReader(CONFIG, "c", str(root))


def work_of(part: InputPartition) -> tuple[int, int, int]:
    (work,) = part.value.works
    place = work.split.location
    return work.split.offsets_partition, place.start, place.end


@pytest.mark.parametrize("counts", [(3, 2), (0,)])
def test_a_row_for_each_record(counts: tuple[int, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    offsets = [Coverage.of(np.arange(count) * 2) for count in counts]
    (split, *_) = live({3: (0, 9)}).splits()
    work = SplitWork(split, Coverage())
    result = TaskResult("c", (), tuple(SplitRead(work, known, ()) for known in offsets), {}, {})
    monkeypatch.setattr(stream, "run_task", lambda task: result)
    (found,) = written_records(Path()).read(InputPartition(None))
    *others, last = found["result"].to_pylist()
    assert others == [None] * (max(sum(counts), 1) - 1)
    assert pickle.loads(last) == result


def test_an_executor_that_cannot_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its error is raised as it is, and nothing is tried again."""
    full = OSError(28, "No space left on device")
    monkeypatch.setattr(stream, "run_task", Mock(side_effect=full))
    (found,) = written_records(Path()).read(InputPartition(None))
    (row,) = found.to_pylist()
    with pytest.raises(OSError, match="No space left"):
        stream._results(rows(pickle.loads(row["result"])))


def test_a_batch_waits_for_a_build(
    answer: Answer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = write_warehouse(tmp_path / "w")
    held.__enter__()
    waits: list[float | None] = []

    def release(event: threading.Event, timeout: float | None = None) -> bool:
        waits.append(timeout)
        if len(waits) == 3:
            held.__exit__(None, None, None)
        return False

    monkeypatch.setattr(threading.Event, "wait", release)
    answer(live({}))
    batch(tmp_path / "w").write(rows(), 1)
    assert len(waits) == 3


def test_a_batch_that_waits_ends_with_the_stream(answer: Answer, tmp_path: Path) -> None:
    ended = threading.Event()
    ended.set()
    answer(SILENCE)
    waiting = batch(tmp_path / "w", ended)
    with pytest.raises(BrokerError, match="does not answer"):
        waiting.write(rows(), 1)
    with write_warehouse(tmp_path / "w"), pytest.raises(BusyError, match="is changing this"):
        waiting.write(rows(), 1)
    assert isinstance(waiting.error, BusyError)


def test_another_build_of_an_object_store_wins(
    answer: Answer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody holds a lock there; in a folder the stream ends, which has one."""
    monkeypatch.setattr(stream._Batch, "warehouse", lambda self: nullcontext(Mock()))
    monkeypatch.setattr(Build, "accept_live", Mock())
    monkeypatch.setattr(Build, "commit", Mock(side_effect=BusyError("another one was first")))
    answer(live({}), live({}))
    lost = batch(tmp_path)
    with pytest.raises(BusyError, match="another one was first"):
        lost.write(rows(), 1)
    reports = Mock()
    lost = replace(batch(tmp_path), root=RemotePath.of("s3://bucket/w"), on_report=reports)
    lost.write(rows(), 1)
    assert lost.error is None
    [problem] = reports.call_args.args[0].errors
    assert (problem.kind, problem.reason) == ("busy", "another one was first; the next batch does")


def test_what_is_no_warehouse_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match="expected a warehouse"):
        stream.stream_history(
            Mock(), CONFIG, "c", tmp_path, every_s=1, on_report=lambda report: None
        )


def test_log_ends_are_due_each_minute(
    answer: Answer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also without a new commit: a batch begins when the offsets of the stream have changed."""
    found = live({3: (0, 5)})
    trigger = written_records(tmp_path)
    now = [1_700_000_000.0]
    clock = Mock(time=lambda: now[0], monotonic=lambda: now[0])
    monkeypatch.setattr(stream, "time", clock)
    answer(found, found, SILENCE, found)
    first = trigger.latestOffset({"3": 5}, EVERYTHING)
    assert first.items() > {"3": 5}.items()
    now[0] += 1
    assert trigger.latestOffset(first, EVERYTHING) == first
    now[0] += 60
    assert trigger.latestOffset(first, EVERYTHING) == first  # no broker answers
    assert trigger.latestOffset(first, EVERYTHING) != first

    asked: list[object] = []
    with_ends = replace(found, log_ends=[LogEnd("orders", 0, 0, 7, 1000)])

    def ask(*_: object, with_log_ends: bool) -> LiveSource:
        asked.append(with_log_ends)
        return with_ends if with_log_ends else found

    written: list[object] = []
    monkeypatch.setattr(stream, "ask_live", ask)
    monkeypatch.setattr(
        Build, "accept_live", lambda build, source, results, earlier: written.append(earlier)
    )
    batches = batch(tmp_path / "w")
    for later_s in (0, 40, 19, 30):
        now[0] += later_s
        batches.write(rows(), 1)
    assert asked == [True, False, True, False]
    assert written == [None, with_ends, None, with_ends]  # once all commits before them are read
