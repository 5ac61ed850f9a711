"""Compiled walking over a log: its pieces, and the lengths and checksums of batches.

Importing this module imports numba. Positions are addresses.
"""

from __future__ import annotations

from collections.abc import Callable

from kgroup.kernel.intrinsics import (
    LINE,
    compiled,
    copy,
    crc32,
    crc32c,
    get,
    inlined,
    load_int16,
    load_int32,
    load_int64,
    load_uint8,
    move,
    prefetch,
    put,
    read_at,
    record_at,
    store_native16,
    store_native32,
)
from kgroup.kernel.memory import (
    BAD,
    COMPRESSED,
    CONTROL,
    DONE,
    FULL,
    LARGE,
    LOG_APPEND_TIME,
    READ,
    UNPACK,
    Walk,
)
from kgroup.protocol.batch.batch import LOG_OVERHEAD, MOST_RECORDS, MOST_TIMES
from kgroup.protocol.batch.batch_v2 import HEADER_SIZE

walk_at: Callable[[int], Walk] = record_at(Walk)

_LARGEST_BASE = 1 << 62
_SMALLEST_RECORD = 7
_NEWEST_CODEC = 4

_MOST_SUMMED = 8
"""Limit of bytes to checksum in a search for a batch, as a multiple of the bytes searched."""

_PREFETCHED = 512
"""Distance, in bytes, of the first prefetch from the end of a batch, and size of the prefetch."""

OVERLONG = 1 << 40
"""Result of `varint` for a number with more bytes than it reads."""


@inlined
def varint(at: int) -> tuple[int, int]:
    """Return a zig-zag number of up to four bytes, and its end; `OVERLONG` for a longer one."""
    value = load_uint8(at)
    at += 1
    if value < 0x80:
        return (value >> 1) ^ -(value & 1), at
    value &= 0x7F
    for shift in range(7, 28, 7):
        byte = load_uint8(at)
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), at
    return OVERLONG, at


@inlined
def claimed_size(at: int, end: int, largest: int) -> int:
    """Return the size that a batch at `at` claims; 0 if it is cut off, -1 if it is not a batch."""
    if end - at < 17:
        return 0
    size = load_int32(at + 8) + 12
    magic = load_uint8(at + 16)
    smallest = 61 if magic == 2 else 34 if magic == 1 else 26
    if magic > 2 or size < smallest or size > largest:
        return -1
    return size if size <= end - at else 0


@inlined
def has_right_crc(at: int, size: int) -> bool:
    """Return whether the checksum of a batch of this size is correct."""
    if load_uint8(at + 16) == 2:
        return crc32c(at + 21, size - 21) == load_int32(at + 17) & 0xFFFFFFFF
    return crc32(at + 16, size - 16) == load_int32(at + 12) & 0xFFFFFFFF


@compiled
def _whole_batches(at: int, end: int, largest: int) -> tuple[int, int, int]:
    """Return the end of the last batch that claims to be whole, without checking checksums.

    Also return the number of batches with compressed records, and the number of records that all of
    them claim.
    """
    packed = 0
    records = 0
    while True:
        size = claimed_size(at, end, largest)
        if size <= 0:
            return at, packed, records
        packed += has_compressed_records(at)
        records += records_in(at)
        at += size


@compiled
def find_end(at: int, end: int, largest: int, records: int) -> int:
    """Return the end of the last whole batch; store the number of claimed records at `records`."""
    end, _, count = _whole_batches(at, end, largest)
    put(records, 0, count)
    return end


@compiled
def next_piece(state: Walk) -> int:
    """Read on after the batches at END; return READ, or what must be done instead.

    The piece ends with the last batch that claims to be whole; bytes read of the next one are kept.
    """
    unpacked = state.unpacked
    if unpacked != 0 and unpacked != state.unpacked_end:
        return BAD
    state.unpacked = 0
    if state.end < state.whole_end:
        return UNPACK
    piece = state.piece
    at = state.position
    position = at + state.file_base
    used = state.read_end - at
    move(piece, at, used)
    left = state.chunk_end - position
    size = min(max(state.read_size, state.needed_size), left)
    while used < size:
        got = read_at(state.file, piece + used, size - used, position + used)
        if got <= 0:
            break
        used += got
    largest = state.largest_batch
    end, state.packed, _ = _whole_batches(piece, piece + used, largest)
    state.position = piece
    state.file_base = position - piece
    state.read_end = piece + used
    state.whole_end = end
    state.end = end
    state.needed_size = 0
    if end == piece:
        needed = load_int32(piece + 8) + LOG_OVERHEAD
        if used < size or needed <= used or needed > min(largest, left):
            return DONE
        state.needed_size = needed
        return LARGE
    if state.packed > 0 and state.is_unpacked != 0:
        state.end = piece
        return UNPACK
    return READ


@compiled
def follow(address: int) -> int:
    """Follow the lengths of the batches of a `Walk`; return the reason for stopping."""
    state = walk_at(address)
    while True:
        state.position = state.end
        reason = next_piece(state)
        if reason != READ:
            return reason


@compiled
def scan(address: int) -> int:
    """Count the batches of a chunk, except control batches; return the reason for stopping.

    `address` is that of a `Walk`. Its `counts` are two words, batches and bytes, for each number
    ``8 * magic + codec``.
    """
    state = walk_at(address)
    counts = state.counts
    while True:
        at = state.position
        end = state.end
        if at >= end:
            reason = next_piece(state)
            if reason != READ:
                return reason
            continue
        size = claimed_size(at, end, state.largest_batch)
        if size <= 0 or not has_right_crc(at, size):
            return BAD
        base = load_int64(at)
        if base < 0 or base > _LARGEST_BASE:
            return BAD
        magic = load_uint8(at + 16)
        attributes = load_uint8(at + 17) if magic < 2 else load_int16(at + 21)
        if magic == 2 and attributes & CONTROL != 0:
            return BAD
        kind = 8 * magic + (attributes & COMPRESSED)
        put(counts, 2 * kind, get(counts, 2 * kind) + 1)
        put(counts, 2 * kind + 1, get(counts, 2 * kind + 1) + size)
        state.position = at + size


@inlined
def _is_plausible(at: int, size: int) -> bool:
    """Return whether the header's fields are consistent; rare in bytes that are no batch."""
    if load_int64(at) < 0:
        return False
    if load_uint8(at + 16) == 2:
        attributes = load_int16(at + 21)
        count = load_int32(at + 57)
        return (
            load_int32(at + 12) >= -1
            and 0 <= attributes < 0x80
            and attributes & COMPRESSED <= _NEWEST_CODEC
            and 0 <= count <= load_int32(at + 23) + 1
            and (HEADER_SIZE + _SMALLEST_RECORD * count <= size or attributes & COMPRESSED != 0)
            and load_int64(at + 27) >= -1
            and load_int64(at + 35) >= -1
            and load_int64(at + 43) >= -1
        )
    # the key and the value must fill the message
    key = at + 18 + 8 * load_uint8(at + 16)
    key_size = load_int32(key)
    if key_size < -1 or key + 8 + key_size > at + size:
        return False
    value = key + 4 + max(key_size, 0)
    value_size = load_int32(value)
    return value_size >= -1 and value + 4 + max(value_size, 0) == at + size


@compiled
def find_batch(at: int, end: int, largest: int) -> int:
    """Return the start of the first batch with a correct checksum that another follows; 0 if none.

    What follows may be the end, or cut off there. The search gives up after it has checksummed
    several times the number of bytes.
    """
    left = _MOST_SUMMED * (end - at)
    while at < end and left > 0:
        size = claimed_size(at, end, largest)
        if size <= 0 or not _is_plausible(at, size):
            at += 1
        elif not has_right_crc(at, size):
            left -= size
            at += 1
        else:
            following = claimed_size(at + size, end, largest)
            if following == 0 or (following > 0 and has_right_crc(at + size, following)):
                return at
            at += size
    return 0


@inlined
def has_compressed_records(at: int) -> bool:
    """Return whether a batch has message format v2 and compressed records."""
    return (
        load_uint8(at + 16) == 2
        and load_int16(at + 21) & COMPRESSED != 0
        and load_int32(at + 57) > 0
    )


@compiled
def list_compressed(at: int, end: int, largest: int, starts: int, ends: int) -> int:
    """List the batches with compressed records, up to the first of another codec; count them.

    The batches must be whole, as checked by `find_end`.
    """
    packed = 0
    codec = 0
    while at < end:
        size = claimed_size(at, end, largest)
        if has_compressed_records(at):
            if packed > 0 and load_int16(at + 21) & COMPRESSED != codec:
                return packed
            codec = load_int16(at + 21) & COMPRESSED
            put(starts, packed, at)
            put(ends, packed, at + size)
            packed += 1
        at += size
    return packed


@compiled
def gather(starts: int, ends: int, count: int, out: int) -> int:
    """Concatenate the compressed records of `count` batches; return the end."""
    for index in range(count):
        start = get(starts, index) + HEADER_SIZE
        size = get(ends, index) - start
        copy(out, start, size)
        out += size
    return out


@inlined
def records_in(at: int) -> int:
    """Return the number of records that a batch claims."""
    return load_int32(at + 57) if load_uint8(at + 16) == 2 else 1


@inlined
def record_time(at: int) -> tuple[int, bool]:
    """Return the base time of a batch's records and False, or the append time of all and True."""
    if load_uint8(at + 16) != 2:
        return -1, False
    if load_int16(at + 21) & LOG_APPEND_TIME:
        return load_int64(at + 35), True
    return load_int64(at + 27), False


@inlined
def _save(state: Walk) -> None:
    """Save the used sizes, for `close_batch`."""
    state.saved_rows = state.rows
    state.saved_batches = state.batches
    state.saved_others = state.others
    state.saved_key_json_used = state.key_json_used
    state.saved_value_json_used = state.value_json_used
    state.saved_keep = state.keep


@compiled
def open_batch(state: Walk) -> int:
    """Check the batch at POSITION, and store what its records have in common."""
    at = state.position
    size = claimed_size(at, state.end, state.largest_batch)
    if size > 0:
        # the following batches, from about the end of the next one
        for ahead in range(_PREFETCHED, 2 * _PREFETCHED, LINE):
            prefetch(at + size + ahead)
    if size <= 0 or not has_right_crc(at, size):
        return BAD
    magic = load_uint8(at + 16)
    base = load_int64(at)
    count = records_in(at)
    limit = at + size
    leader_epoch = -1
    producer_id = -1
    producer_epoch = -1
    if magic == 2:
        attributes = load_int16(at + 21)
        time = load_int64(at + 27)
        record = at + HEADER_SIZE
        if attributes & COMPRESSED > _NEWEST_CODEC:
            return BAD
        if attributes & COMPRESSED and count > 0:
            record = state.unpacked
            limit = state.unpacked_end
            if record == 0:
                return BAD
        if time < -_LARGEST_BASE or time > _LARGEST_BASE:
            return BAD
        if count < 0 or count > MOST_RECORDS or _SMALLEST_RECORD * count > limit - record:
            return BAD
        leader_epoch = load_int32(at + 12)
        producer_id = load_int64(at + 43)
        producer_epoch = load_int16(at + 51)
    else:
        attributes = load_uint8(at + 17)
        record = at + 18
        if attributes & COMPRESSED:
            return BAD
    if base < 0 or base > _LARGEST_BASE:
        return BAD
    row = state.rows
    batch = state.batches
    if row + count > state.row_capacity:
        return FULL
    _save(state)
    if count > 0:
        columns = state.batch_columns
        put(columns.row, batch, row)
        store_native32(columns.attributes + 4 * batch, (attributes & 0xFF) | magic << 8)
        store_native32(columns.leader_epoch + 4 * batch, leader_epoch)
        put(columns.producer_id, batch, producer_id)
        store_native16(columns.producer_epoch + 2 * batch, producer_epoch)
        put(columns.base_offset, batch, base)
        state.batches = batch + 1
    state.record = record
    state.limit = limit
    state.left = count
    state.last_delta = -1
    return DONE


@compiled
def close_batch(state: Walk, record: int, reason: int) -> int:
    """Close the open batch, or discard its records if they end wrongly; return the reason."""
    at = state.position
    size = load_int32(at + 8) + LOG_OVERHEAD
    is_unpacked = has_compressed_records(at)
    if reason == DONE and not is_unpacked and record != state.limit:
        reason = BAD
    if reason == DONE and is_unpacked and record - state.unpacked > MOST_TIMES * size:
        reason = BAD
    state.record = 0
    if reason == DONE:
        if is_unpacked:
            state.unpacked = record
        if state.rows == state.saved_rows:
            state.batches = state.saved_batches
        state.position = at + size
    else:
        state.rows = state.saved_rows
        state.batches = state.saved_batches
        state.others = state.saved_others
        state.key_json_used = state.saved_key_json_used
        state.value_json_used = state.saved_value_json_used
        state.keep = state.saved_keep
    return reason


@inlined
def read_record(
    record: int, limit: int, magic: int, last_delta: int, time: int, is_append_time: bool
) -> tuple[int, int, int, int, int, int, int]:
    """Return the end of a record, the bounds of key and value, its offset delta and its time.

    The end is 0 if the record is invalid; the start of a null key or value is 0.
    """
    key = 0
    key_end = 0
    value = 0
    value_end = 0
    delta = 0
    at = record
    end = limit
    if magic == 2:
        size, at = varint(at)
        end = at + size
        time_delta, at = varint(at + 1)
        delta, at = varint(at)
        size, at = varint(at)
        if end > limit or delta <= last_delta or delta == OVERLONG or size > end - at:
            return 0, 0, 0, 0, 0, 0, 0
        if size >= 0:
            key = at
            at += size
            key_end = at
        size, at = varint(at)
        if size > end - at or time_delta == OVERLONG:
            return 0, 0, 0, 0, 0, 0, 0
        if not is_append_time:
            time += time_delta
    else:
        if magic == 1:
            time = load_int64(at)
            at += 8
        size = load_int32(at)
        at += 4
        if size > end - at - 4:
            return 0, 0, 0, 0, 0, 0, 0
        if size >= 0:
            key = at
            at += size
            key_end = at
        size = load_int32(at)
        at += 4
    if size >= 0:
        value = at
        at += size
        value_end = at
    if magic == 2:
        # headers are not supported
        if load_uint8(at) != 0:
            end = 0
        at += 1
    if at != end:
        return 0, 0, 0, 0, 0, 0, 0
    return end, key, key_end, value, value_end, delta, time
