"""What a program is given by `ConsumerIterator` of 0.8.2.2."""

from __future__ import annotations

from itertools import pairwise

from kgroup.simulation.clock import Clock, Process
from kgroup.simulation.zookeeper.fetcher import FetchedChunk, PartitionTopicInfo, Stream


def read(begin: int) -> tuple[Clock, Stream, PartitionTopicInfo]:
    """Begin a stream whose program takes a second for a chunk."""
    clock = Clock()
    stream = Stream(Process(clock), 4, 1_000, {}, lambda at, ms: None, lambda: None)
    return clock, stream, PartitionTopicInfo(("t", 0), stream, begin, begin)


def put(stream: Stream, info: PartitionTopicInfo, *bounds: int) -> None:
    """Enqueue chunks that follow each other."""
    for begin, end in pairwise(bounds):
        stream.put(FetchedChunk(info, begin, end))(lambda _: None)


def test_records_are_given_one_after_another() -> None:
    """`next` sets the consumed offset behind each."""
    clock, stream, info = read(0)
    put(stream, info, 0, 10, 20)
    found = []
    for now_ms in (0, 499, 500, 999, 1_000, 1_950, 2_000):
        clock.run(now_ms)
        found.append(info.offset)
    assert found == [1, 5, 6, 10, 11, 20, 20]


def test_of_a_chunk_before_the_consumed_offset_the_last_record_is_given() -> None:
    """`makeNext` rejects what was consumed while there is more in the chunk; `next` goes back."""
    clock, stream, info = read(0)
    stream.be_busy(500)
    put(stream, info, 0, 10, 20)
    info.begin(100)  # `handleOffsetOutOfRange`
    put(stream, info, 100, 110)
    assert info.offset == 100
    clock.run(500)
    assert info.offset == 10
    clock.run(1_500)
    assert info.offset == 11  # nothing of this one was consumed, as far as is known then
    assert info.position(info.at) == 100
    clock.run(2_500)
    assert info.offset == 101


def test_an_offset_that_is_reset_passes_over_what_is_being_read() -> None:
    clock, stream, info = read(0)
    put(stream, info, 0, 10)
    clock.run(500)
    assert info.offset == 6
    info.begin(8)
    assert info.offset == 9
    info.begin(100)
    assert info.offset == 10
    put(stream, info, 100, 110)
    clock.run(1_000)
    assert info.offset == 101


def test_what_waits_to_be_read_is_dropped_with_the_queue() -> None:
    """`clearFetcherQueues` drops what was fetched; the program gets what is fetched anew."""
    clock, stream, info = read(0)
    put(stream, info, 0, 10, 20, 30)
    clock.run(1_500)
    assert info.offset == 16
    stream.clear()
    put(stream, info, 16, 20, 30)
    clock.run(2_500)
    assert info.offset == 21
