"""What a committed offset means for a partition with a start and ends."""

from __future__ import annotations

from hypothesis import example, given, settings
from hypothesis import strategies as st

from kgroup.model.log_range import LogRange, OffsetMark
from tests.examples import examples

OFFSETS = st.integers(0, 60) | st.integers(0, (1 << 63) - 1)


@st.composite
def logs(draw: st.DrawFn) -> LogRange:
    start, stable, end = sorted(draw(st.tuples(OFFSETS, OFFSETS, OFFSETS)))
    known_start = start if draw(st.booleans()) else None
    if draw(st.booleans()):
        return LogRange(known_start, stable, log_end=end)
    return LogRange(known_start, draw(st.sampled_from((end, None))))


@given(logs(), OFFSETS)
@example(LogRange(1000, 1000), 10)
@example(LogRange(0, 10, log_end=21), 21)
@settings(max_examples=examples(300), deadline=None)
def test_lag_is_negative_only_past_the_end_and_waiting_never(log: LogRange, committed: int) -> None:
    lag, waiting = log.lag(committed), log.waiting(committed)
    if log.end is None:
        assert (lag, waiting) == (None, None)
        return
    assert lag is not None
    assert waiting is not None
    assert 0 <= waiting <= max(lag, 0)
    if log.start is not None:
        assert waiting <= log.end - log.start
    real_end = log.end if log.log_end is None else log.log_end
    assert (log.mark_of(committed) is OffsetMark.PAST_END) == (committed > real_end)
    assert lag == real_end - committed if committed > real_end else lag >= 0


def test_lag_is_that_of_kafkas_tools() -> None:
    """`ConsumerGroupCommand.getLag`: log end offset minus committed offset."""
    assert LogRange(1000, 1000).lag(10) == 990
    assert LogRange(0, 21).lag(1) == 20
    assert LogRange(0, 21).lag(21) == 0
    assert LogRange(0, 21).lag(24) == -3


def test_what_retention_has_removed_does_not_wait() -> None:
    assert LogRange(1000, 1000).waiting(10) == 0
    assert LogRange(1000, 1007).waiting(10) == 7
    assert LogRange(None, 1000).waiting(10) == 990, "at most: the start is not known"


def test_readers_of_committed_records_may_be_past_the_last_stable_offset() -> None:
    """The field's case: committed 21, last stable offset 10, log end offset 21."""
    log = LogRange(0, 10, log_end=21)
    assert (log.mark_of(21), log.lag(21), log.waiting(21)) == (None, 0, 0)
    assert log.mark_of(22) is OffsetMark.PAST_END
