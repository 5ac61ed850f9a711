"""Compiled decoding of whole chunks of a log: batches, records, keys and values to columns.

The layouts are those of `batch_v2`, `message_set` and `coordinator_record`. Offset commits are
decoded directly into typed columns; all other records are converted to JSON text by the programs
of `schema_program`. The kernel supports only common cases. It stops at any other batch or record
and returns the reason; the reference reader decodes it, and the kernel continues after it.

Importing this module imports numba. Positions are addresses; a piece must be followed by
`memory.PADDING` readable bytes.
"""

from __future__ import annotations

from kgroup.kernel import instruction as op
from kgroup.kernel import json_text as json
from kgroup.kernel import memory
from kgroup.kernel.byte_table import intern
from kgroup.kernel.intrinsics import (
    BLOCK,
    compiled,
    count_ones,
    equal,
    flagged_bytes,
    get,
    inlined,
    load_int16,
    load_int32,
    load_int64,
    load_native32,
    load_uint8,
    load_word,
    put,
    put_native32,
    store_native16,
    store_native32,
    store_uint8,
)
from kgroup.kernel.log import (
    claimed_size,
    close_batch,
    has_compressed_records,
    next_piece,
    open_batch,
    read_record,
    record_time,
    records_in,
    walk_at,
)
from kgroup.kernel.memory import (
    BAD,
    COMMIT,
    CONTROL,
    DONE,
    EXPIRE,
    FULL,
    GROUP,
    GROW,
    KEY_TYPE,
    LEADER_EPOCH,
    ODD,
    READ,
    TOPIC_ID,
    VALUE,
    VERSION,
    Rows,
    Walk,
)

_NO_VALUE = 0b10  # flag of a row in `others` without value_json

_LARGEST_VALUE = 1 << 20
"""Maximum bytes of a value; for larger ones the reference decoder limits members and text."""

UNCLEAR = -(1 << 63)
# newest version of an OffsetCommit value; key version 0 (LegacyOffsetCommit) has only 0
_NEWEST = 4


@inlined
def _commit_key(key: int, end: int) -> tuple[int, int]:
    """Return the sizes of group and topic in an offset commit's key; -1 if they do not fit."""
    if end - key < 10:
        return -1, -1
    group_size = load_int16(key + 2)
    topic = key + 6 + group_size
    if group_size < 0 or topic > end:
        return -1, -1
    topic_size = load_int16(topic - 2)
    if topic_size < 0 or topic + topic_size + 4 != end:
        return -1, -1
    return group_size, topic_size


@inlined
def _commit_value(value: int, end: int, newest: int) -> tuple[int, int, int]:
    """Return the start and size of an offset commit's metadata, and the address of its topic id.

    The size is -1 if the parts do not fit, or the version is above `newest`. The address is 0 if
    there is no topic id.
    """
    if end - value < 2:
        return 0, -1, 0
    version = load_int16(value)
    at = value + 10
    if version >= 3:
        at += 4
    if version < 0 or version > newest or at + 2 > end:
        return 0, -1, 0
    if version < 4:
        size = load_int16(at)
        at += 2
        rest = 16 if version == 1 else 8
        if size < 0 or at + size + rest != end:
            return 0, -1, 0
        return at, size, 0
    size = load_uint8(at)
    at += 1
    if size >= 0x80:
        byte = load_uint8(at)
        at += 1
        if byte >= 0x80:
            return 0, -1, 0
        size = (size & 0x7F) | byte << 7
    size -= 1
    tags = at + size + 8
    if size < 0 or tags + 1 > end:
        return 0, -1, 0
    if load_uint8(tags) == 0:
        if tags + 1 != end:
            return 0, -1, 0
        return at, size, 0
    # one tagged field, number 0, 16 bytes
    topic_id = tags + 3
    if topic_id + 16 != end or load_int32(tags) >> 8 != 0x010010:
        return 0, -1, 0
    if load_word(topic_id) == 0 and load_word(topic_id + 8) == 0:
        topic_id = 0
    return at, size, topic_id


@compiled
def commit_time(key: int, key_end: int, value: int, value_end: int) -> int:
    """Return the time of an offset commit: -1 if it has none, `UNCLEAR` if the record is invalid.

    A record that is not an offset commit has no time either.
    """
    if key_end - key < 2 or value == 0 or load_int16(key) < 0 or load_int16(key) > 1:
        return -1
    group_size, _ = _commit_key(key, key_end)
    at, size, _ = _commit_value(value, value_end, _NEWEST * load_int16(key))
    return load_int64(at + size) if group_size >= 0 and size >= 0 else UNCLEAR


@inlined
def _value_json(state: Walk, kind: int, value: int, value_end: int) -> tuple[int, int]:
    """Write the JSON text of a value; return DONE and the end of the text, or ODD or FULL."""
    used = state.value_json_used
    if value == 0:
        return DONE, used
    block = json.machine_at(state.machine)
    version = load_int16(value)
    if value_end - value < 2 or version < 0 or version >= op.VERSIONS:
        return ODD, 0
    program = get(block.values, kind * op.VERSIONS + version)
    if program < 0:
        return ODD, 0
    block.note_size[op.KIND] = -1
    block.note_size[op.PROTOCOL] = -1
    text = state.value_json
    room = text + state.value_json_capacity
    out = json.run(program, value + 2, value_end, text + used, room, block)
    if out < 0:
        return FULL if out == json.NO_ROOM else ODD, 0
    return DONE, out - text


@compiled
def _other(
    state: Walk, row: int, key: int, key_end: int, value: int, value_end: int, is_control: bool
) -> int:
    """Write a row of another type and its JSON texts; return DONE, ODD, FULL or GROW."""
    other = state.others
    key_size = key_end - key
    value_size = value_end - value
    if (
        other >= state.other_capacity
        or state.key_json_used + key_size > state.key_json_capacity
        or state.value_json_used + value_size > state.value_json_capacity
    ):
        return FULL
    if key_size < 2 or value_size > _LARGEST_VALUE:
        return ODD
    name = kind = load_int16(key)
    start = key + 2
    if is_control:
        name = op.CONTROL + load_int16(key + 2)
        if key_size != 4 or kind < 0 or name < op.CONTROL or name > op.CONTROL + 1:
            return ODD
        kind = op.CONTROL
        start = key
    elif kind < 0 or kind >= op.CONTROL:
        return ODD
    block = json.machine_at(state.machine)
    program = get(block.keys, kind)
    if program < 0:
        return ODD
    text = state.key_json
    room = text + state.key_json_capacity
    out = json.run(program, start, key_end, text + state.key_json_used, room, block)
    if out < 0:
        return FULL if out == json.NO_ROOM else ODD
    key_json = out - text
    reason, value_json = _value_json(state, kind, value, value_end)
    if reason != DONE:
        return reason
    flags = 0 if value == 0 else VERSION
    other_flags = _NO_VALUE if value == 0 else 0
    version = 0 if value == 0 else load_int16(value)
    group = 0
    if not is_control:
        name_at, name_size = block.note_start[op.GROUP], block.note_size[op.GROUP]
        group = intern(state.tables[0], name_at, name_size)
        if group < 0:
            state.growing = 0
            return GROW
        flags |= GROUP | KEY_TYPE
    state.key_json_used = key_json
    state.value_json_used = value_json
    columns = state.other_columns
    store_native32(columns.row + 4 * other, row)
    store_uint8(columns.flags + other, other_flags)
    store_native32(columns.key_json_end + 4 * other, key_json)
    store_native32(columns.value_json_end + 4 * other, value_json)
    state.others = other + 1
    _put_row(state, row, flags, name, kind, group, version)
    return DONE


@compiled
def _put_row(
    state: Walk, row: int, flags: int, name: int, kind: int, group: int, version: int
) -> None:
    """Write the columns of a row that is not completely in typed columns."""
    columns = state.row_columns
    store_uint8(columns.flags + row, flags)
    store_uint8(columns.type + row, name)
    store_native16(columns.key_type + 2 * row, kind)
    store_native32(columns.group + 4 * row, group)
    store_native32(columns.topic + 4 * row, 0)
    store_native32(columns.metadata + 4 * row, 0)
    store_native32(columns.topic_id + 4 * row, 0)
    store_native16(columns.value_version + 2 * row, version)


@inlined
def _number(state: Walk, table: int, text: int, size: int) -> int:
    """Return the number of a string in a table; -1 if the table is full."""
    if size != state.last_size[table] or not equal(text, state.last_text[table], size):
        number = intern(state.tables[table], text, size)
        if number < 0:
            state.growing = table
            return -1
        state.last_text[table] = text
        state.last_size[table] = size
        state.last_number[table] = number
    return state.last_number[table]


@inlined
def _forget(state: Walk) -> None:
    """Forget the strings of the previous record: their memory has another piece now."""
    for table in range(4):
        state.last_size[table] = -1


@inlined
def _wanted_batch(state: Walk) -> int:
    """Return the address of the next batch with a wanted record, at most END."""
    keep = state.keep
    end = state.end
    if keep == 0:
        return state.position
    if keep == state.keep_end:
        return end
    return min(end, (get(keep, 0) >> memory.LOCATOR_SHIFT) - state.file_base)


@compiled
def _open_wanted(state: Walk) -> int:
    """Open the next batch with a wanted record; return READ, or the reason for stopping."""
    while True:
        batch = state.position
        if batch >= state.end:
            reason = next_piece(state)
            if reason != READ:
                return reason
            _forget(state)
            continue
        wanted = _wanted_batch(state)
        is_unpacked = state.unpacked != 0
        if batch >= wanted or (is_unpacked and has_compressed_records(batch)):
            reason = open_batch(state)
            return READ if reason == DONE else reason
        if not is_unpacked:
            state.position = wanted
        else:
            size = claimed_size(batch, wanted, state.largest_batch)
            if size <= 0:
                return BAD
            state.position = batch + size


@inlined
def _commit(
    state: Walk, row: int, kind: int, key: int, key_end: int, value: int, value_end: int
) -> int:
    """Write the row of an offset commit; return DONE, GROW, or ODD if it is unusual."""
    group_size, topic_size = _commit_key(key, key_end)
    meta = 0
    meta_size = 0
    topic_id = 0
    if value != 0:
        meta, meta_size, topic_id = _commit_value(value, value_end, _NEWEST * kind)
    if group_size < 0 or meta_size < 0:
        return ODD
    topic = key + 4 + group_size + 2
    group_number = _number(state, 0, key + 4, group_size)
    if group_number < 0:
        return GROW
    topic_number = _number(state, 1, topic, topic_size)
    if topic_number < 0:
        return GROW
    columns = state.row_columns
    flags = COMMIT | GROUP | KEY_TYPE
    version = 0
    meta_number = 0
    topic_id_number = 0
    if value != 0:
        version = load_int16(value)
        meta_number = _number(state, 2, meta, meta_size)
        if meta_number < 0:
            return GROW
        if topic_id != 0:
            topic_id_number = _number(state, 3, topic_id, 16)
            if topic_id_number < 0:
                return GROW
            flags |= TOPIC_ID
        flags |= _put_value(columns, row, value, meta + meta_size, version)
    _put_row(state, row, flags, kind, kind, group_number, version)
    store_native32(columns.topic + 4 * row, topic_number)
    store_native32(columns.topic_partition + 4 * row, load_int32(topic + topic_size))
    store_native32(columns.metadata + 4 * row, meta_number)
    store_native32(columns.topic_id + 4 * row, topic_id_number)
    return DONE


@inlined
def _put_value(columns: Rows, row: int, value: int, times: int, version: int) -> int:
    """Write the columns of a commit's value, with its times at `times`; return the flags."""
    flags = VALUE | VERSION
    put(columns.committed_offset, row, load_int64(value + 2))
    put(columns.commit_timestamp, row, load_int64(times))
    if version >= 3:
        epoch = load_int32(value + 10)
        store_native32(columns.committed_leader_epoch + 4 * row, epoch)
        if epoch != -1:
            flags |= LEADER_EPOCH
    elif version == 1:
        expire = load_int64(times + 8)
        put(columns.expire_timestamp, row, expire)
        if expire != -1:
            flags |= EXPIRE
    return flags


@compiled
def decode(address: int) -> int:
    """Decode a chunk; return the reason for stopping.

    `address` is that of a `Walk`. At ODD, the state has the record's address, and the row's offset,
    timestamp and size are written. The caller must write the rest of the row, count it in ROWS (and
    in OTHERS), and call again.
    """
    state = walk_at(address)
    _forget(state)
    while True:
        if state.record == 0:
            reason = _open_wanted(state)
            if reason != READ:
                return reason
        reason = _decode_batch(state)
        if reason in (GROW, ODD):
            return reason
        reason = close_batch(state, state.record, reason)
        if reason != DONE:
            return reason


@compiled
def _decode_batch(state: Walk) -> int:
    """Decode the rest of the open batch; return DONE at its end, or the reason for stopping."""
    columns = state.row_columns
    batch = state.position
    limit = state.limit
    record = state.record
    left = state.left
    last_delta = state.last_delta
    row = state.rows
    magic = load_uint8(batch + 16)
    base = load_int64(batch)
    time, is_append_time = record_time(batch)
    is_control = magic == 2 and load_int16(batch + 21) & CONTROL != 0
    keep = state.keep
    keep_end = state.keep_end
    locator = (batch + state.file_base) << memory.LOCATOR_SHIFT | records_in(batch)
    reason = DONE
    while left > 0 and reason == DONE:
        end, key, key_end, value, value_end, delta, timestamp = read_record(
            record, limit, magic, last_delta, time, is_append_time
        )
        if end == 0:
            reason = BAD
            break
        is_wanted = keep == 0 or (keep != keep_end and get(keep, 0) == locator - left)
        if is_wanted:
            put(columns.offset, row, base + delta)
            put(columns.timestamp, row, timestamp)
            size = key_end - key + value_end - value
            store_native32(columns.size + 4 * row, size)
            reason = ODD
            if key_end - key >= 2 and not is_control and load_int16(key) in (0, 1):
                reason = _commit(state, row, load_int16(key), key, key_end, value, value_end)
            if reason == ODD:
                reason = _uncommon(state, row, key, key_end, value, value_end, is_control)
            if reason == DONE:
                row += 1
            elif reason != ODD:
                break  # the record was not decoded, and is still wanted
            if keep != 0:
                keep += 8
        record = end
        left -= 1
        last_delta = delta
    state.rows = row
    state.keep = keep
    state.record = record
    state.left = left
    state.last_delta = last_delta
    return reason


@compiled
def _uncommon(
    state: Walk, row: int, key: int, key_end: int, value: int, value_end: int, is_control: bool
) -> int:
    """Write the row of a record not completely in typed columns; return DONE, ODD, FULL or GROW."""
    reason = ODD
    if key != 0:
        reason = _other(state, row, key, key_end, value, value_end, is_control)
    elif value == 0:  # a log may contain millions of these
        _put_row(state, row, 0, op.UNKNOWN, 0, 0, 0)
        reason = DONE
    if reason == ODD:
        state.odd_key = key
        state.odd_key_size = key_end - key
        state.odd_value = value
        state.odd_value_size = value_end - value
    return reason


@compiled
def spread_ends(rows: int, ends: int, count: int, out: int, total: int) -> int:
    """Write Arrow's offsets (int32) of `total` strings, all empty except `count` of them.

    `rows` has the sorted numbers of the others, and `ends` the ends of their bytes.
    """
    row = 0
    end = 0
    for index in range(count):
        next_row = load_native32(rows + 4 * index) + 1
        for empty in range(row, next_row):
            put_native32(out, empty, end)
        row = next_row
        end = load_native32(ends + 4 * index)
    for empty in range(row, total + 1):
        put_native32(out, empty, end)
    return end


@compiled
def flag_bits(flags: int, flag: int, count: int, out: int) -> int:
    """Write Arrow's bitmap of the bytes that have a flag; return their number.

    `out` must have room for the bitmap and `PADDING`.
    """
    ones = 0
    for first in range(0, count, BLOCK):
        bits = 0
        if count - first >= BLOCK:
            bits = flagged_bytes(flags + first, flag)
        else:
            for index in range(count - first):
                bits |= (load_uint8(flags + first + index) & flag != 0) << index
        store_native32(out + (first >> 3), bits)
        ones += count_ones(bits)
    return ones
