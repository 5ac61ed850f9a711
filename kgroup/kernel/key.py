"""Compiled search for the last record of each key of a log.

The keys are hashed chunk by chunk, and the hashes are added to one table in log order: a table of
pairs of words, a hash and the locator (`columnar.locator`) of the last record with this key. A hash
of 0 is a free pair. Keys are distinguished by 64 bits of a hash with a random seed.

Importing this module imports numba. Positions are addresses.
"""

from __future__ import annotations

from kgroup.kernel import memory
from kgroup.kernel.byte_table import hash_bytes
from kgroup.kernel.column import UNCLEAR, commit_time
from kgroup.kernel.intrinsics import compiled, get, load_int16, load_int64, load_uint8, put
from kgroup.kernel.log import (
    close_batch,
    next_piece,
    open_batch,
    read_record,
    record_time,
    records_in,
    walk_at,
)
from kgroup.kernel.memory import BAD, CONTROL, DONE, FOREVER, READ


@compiled
def hash_key(at: int, size: int, seed: int) -> int:
    """Return the hash of a key; never 0."""
    value = hash_bytes(at, size, seed)
    return value if value != 0 else 1


@compiled
def list_keys(address: int) -> int:
    """List hash and locator of each record with a key in a chunk; return the reason for stopping.

    The locator of a tombstone is inverted (``~locator``). Markers, and records after
    `through_offset` and `through_ms`, are ignored. `address` is that of a `Walk`.
    """
    state = walk_at(address)
    hashes = state.hashes
    locators = state.locators
    seed = state.seed
    through_offset = state.through_offset
    through_ms = state.through_ms
    while True:
        batch = state.position
        if batch >= state.end:
            reason = next_piece(state)
            if reason != READ:
                return reason
            continue
        reason = open_batch(state)
        if reason != DONE:
            return reason
        limit = state.limit
        record = state.record
        row = state.rows
        magic = load_uint8(batch + 16)
        base = load_int64(batch)
        time, is_append_time = record_time(batch)
        is_control = magic == 2 and load_int16(batch + 21) & CONTROL != 0
        locator = (batch + state.file_base) << memory.LOCATOR_SHIFT
        keyless = state.keyless
        delta = -1
        for _ in range(records_in(batch)):
            end, key, key_end, value, value_end, delta, timestamp = read_record(
                record, limit, magic, delta, time, is_append_time
            )
            if end == 0:
                reason = BAD
                break
            if key != 0 and not is_control and base + delta <= through_offset:
                if timestamp == -1 and through_ms != FOREVER:
                    timestamp = commit_time(key, key_end, value, value_end)
                    if timestamp == UNCLEAR:
                        reason = BAD
                        break
                if timestamp <= through_ms:
                    put(hashes, row, hash_key(key, key_end - key, seed))
                    put(locators, row, locator if value != 0 else ~locator)
                    row += 1
            elif key == 0 and not is_control:
                keyless += 1
            locator += 1
            record = end
        state.rows = row
        reason = close_batch(state, record, reason)
        if reason != DONE:
            return reason
        state.keyless = keyless


@compiled
def _note(table: int, mask: int, key: int, locator: int) -> int:
    """Add one record; return 1 if its key is new."""
    pair = key & mask
    stored = get(table, 2 * pair)
    while stored != key and stored != 0:
        pair = (pair + 1) & mask
        stored = get(table, 2 * pair)
    put(table, 2 * pair, key)
    put(table, 2 * pair + 1, locator)
    return 1 if stored == 0 else 0


@compiled
def note_last(table: int, mask: int, hashes: int, locators: int, count: int) -> int:
    """Add records in log order, which keeps the last one of a key; return the count of new keys.

    The table must have room for all.
    """
    new = 0
    for index in range(count):
        new += _note(table, mask, get(hashes, index), get(locators, index))
    return new


@compiled
def note_table(table: int, mask: int, other: int, pairs: int) -> int:
    """Add the pairs of another table; return the number of new keys."""
    new = 0
    for pair in range(pairs):
        key = get(other, 2 * pair)
        if key != 0:
            new += _note(table, mask, key, get(other, 2 * pair + 1))
    return new
