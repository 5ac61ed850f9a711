"""Compiled selection of the batches of a log that may have records of one group.

Importing this module imports numba. Positions are addresses.
"""

from __future__ import annotations

from kgroup.kernel.intrinsics import (
    compiled,
    copy,
    equal,
    inlined,
    load_int16,
    load_int32,
    load_int64,
    load_uint8,
    put,
)
from kgroup.kernel.log import claimed_size, has_right_crc, read_record, record_time, records_in
from kgroup.kernel.memory import COMPRESSED, CONTROL, FOREVER
from kgroup.protocol.batch.batch import LOG_OVERHEAD
from kgroup.protocol.batch.batch_v2 import HEADER_SIZE


@inlined
def _may_have(at: int, end: int, name: int, name_size: int) -> bool:
    """Return whether a batch may have a key with the name; what cannot be read here may."""
    if load_int16(at + 21) & (COMPRESSED | CONTROL) != 0:
        return True
    record = at + HEADER_SIZE
    time, is_append_time = record_time(at)
    delta = -1
    for _ in range(records_in(at)):
        record, key, key_end, _, _, delta, _ = read_record(
            record, end, 2, delta, time, is_append_time
        )
        if record == 0:
            return True
        if key_end - key >= 2 + name_size and equal(key + 2, name, name_size):
            return True
    return record != end


@compiled
def select_group(
    at: int,
    end: int,
    largest: int,
    offset: int,
    until: int,
    high: int,
    name: int,
    name_size: int,
    out: int,
    results: int,
) -> int:
    """Copy the batches to `out` that may have records of a group; return the end of the copy.

    The copy also has the batches with control records, and those with the earliest and the latest
    time. The walk ends at the first batch that is not whole and valid, not of message format v2,
    without an offset from `offset` on and before `high`, or behind `until`.

    `name` is the group id with its length, as in a key, after which it stands in every key. Two
    words are stored at `results`: the end of the walk, and the offset after its batches.
    """
    start = at
    earliest = at
    latest = at
    earliest_ms = FOREVER
    latest_ms = -FOREVER
    while offset < until:
        size = claimed_size(at, end, largest)
        if size <= 0 or load_uint8(at + 16) != 2 or not has_right_crc(at, size):
            break
        last = load_int64(at) + load_int32(at + 23)
        if last < offset or last >= high:
            break
        if load_int64(at + 27) < earliest_ms:
            earliest_ms = load_int64(at + 27)
            earliest = at
        if load_int64(at + 35) > latest_ms:
            latest_ms = load_int64(at + 35)
            latest = at
        offset = last + 1
        at += size
    put(results, 0, at)
    put(results, 1, offset)
    end = at
    at = start
    while at < end:
        size = load_int32(at + 8) + LOG_OVERHEAD
        if at in (earliest, latest) or _may_have(at, at + size, name, name_size):
            copy(out, at, size)
            out += size
        at += size
    return out
