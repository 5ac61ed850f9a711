"""Compiled decoding of whole chunks of a log: batches, records, keys and values to columns.

The layouts are those of `batch_v2`, `message_set` and `coordinator_record`. Offset commits go
into typed columns straight from the bytes; every other record is turned into JSON text by the
programs of `schema_program`. The kernel knows only the ordinary. At a batch or a record that is
not, it stops and says so; the reference reader takes it, and the kernel goes on behind it.

Importing this module imports numba. Positions are addresses; a piece must have
`memory.PADDING` readable bytes behind it.
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
)

_NO_VALUE = 0b10  # of another row: no value_json

_LARGEST_VALUE = 1 << 20
"""The reference decoder has limits for larger ones: for their members, and for what they become."""

UNCLEAR = -(1 << 63)
_NEWEST = 4  # of an OffsetCommit's values; key version 0, LegacyOffsetCommit, has only 0


@inlined
def _commit_key(key: int, end: int) -> tuple[int, int]:
    """Sizes of group and topic in an offset commit's key; -1 if its parts do not fit."""
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
    """Where the metadata of an offset commit's value begins, its size, and where a topic id is.

    The size is -1 if the parts do not fit, or the version is above `newest`; no topic id is 0.
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
    """When an offset commit was made: -1 where that is not said, `UNCLEAR` if it is out of order.

    A record that is no offset commit has no such time either.
    """
    if key_end - key < 2 or value == 0 or load_int16(key) < 0 or load_int16(key) > 1:
        return -1
    group_size, _ = _commit_key(key, key_end)
    at, size, _ = _commit_value(value, value_end, _NEWEST * load_int16(key))
    return load_int64(at + size) if group_size >= 0 and size >= 0 else UNCLEAR


@inlined
def _value_json(state: int, block: int, kind: int, value: int, value_end: int) -> tuple[int, int]:
    """Write the JSON text of a value: DONE and where it ends, or ODD or FULL."""
    used = get(state, memory.TEXTS + 1)
    if value == 0:
        return DONE, used
    version = load_int16(value)
    if value_end - value < 2 or version < 0 or version >= op.VERSIONS:
        return ODD, 0
    program = get(get(block, memory.BLOCK_VALUES), kind * op.VERSIONS + version)
    if program < 0:
        return ODD, 0
    put(block, memory.BLOCK_NOTES + 2 * op.KIND + 1, -1)
    put(block, memory.BLOCK_NOTES + 2 * op.PROTOCOL + 1, -1)
    text = get(state, memory.TEXT_COLUMNS + 1)
    room = text + get(state, memory.TEXT_CAPACITIES + 1)
    out = json.run(program, value + 2, value_end, text + used, room, block)
    if out < 0:
        return FULL if out == json.NO_ROOM else ODD, 0
    return DONE, out - text


@compiled
def _other(
    state: int, row: int, key: int, key_end: int, value: int, value_end: int, is_control: bool
) -> int:
    """Write a row of another type and its JSON texts; DONE, ODD, FULL or GROW."""
    other = get(state, memory.OTHERS)
    used = state + 8 * memory.TEXTS
    capacity = state + 8 * memory.TEXT_CAPACITIES
    texts = state + 8 * memory.TEXT_COLUMNS
    key_size = key_end - key
    value_size = value_end - value
    if (
        other >= get(state, memory.OTHER_CAPACITY)
        or get(used, 0) + key_size > get(capacity, 0)
        or get(used, 1) + value_size > get(capacity, 1)
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
    block = get(state, memory.MACHINE)
    program = get(get(block, memory.BLOCK_KEYS), kind)
    if program < 0:
        return ODD
    text = get(texts, 0)
    out = json.run(program, start, key_end, text + get(used, 0), text + get(capacity, 0), block)
    if out < 0:
        return FULL if out == json.NO_ROOM else ODD
    key_json = out - text
    reason, value_json = _value_json(state, block, kind, value, value_end)
    if reason != DONE:
        return reason
    flags = 0 if value == 0 else VERSION
    other_flags = _NO_VALUE if value == 0 else 0
    version = 0 if value == 0 else load_int16(value)
    group = 0
    if not is_control:
        note = block + 8 * (memory.BLOCK_NOTES + 2 * op.GROUP)
        group = intern(get(state, memory.TABLES), get(note, 0), get(note, 1))
        if group < 0:
            put(state, memory.GROWING, 0)
            return GROW
        flags |= GROUP | KEY_TYPE
    put(used, 0, key_json)
    put(used, 1, value_json)
    columns = state + 8 * memory.OTHER_COLUMNS
    store_native32(get(columns, 0) + 4 * other, row)
    store_uint8(get(columns, 1) + other, other_flags)
    for index in range(2):
        store_native32(get(columns, 2 + index) + 4 * other, get(used, index))
    put(state, memory.OTHERS, other + 1)
    _put_row(state, row, flags, name, kind, group, version)
    return DONE


@compiled
def _put_row(
    state: int, row: int, flags: int, name: int, kind: int, group: int, version: int
) -> None:
    """Write the columns of a row that is no whole offset commit."""
    columns = state + 8 * memory.ROW_COLUMNS
    store_uint8(get(columns, _AT.flags) + row, flags)
    store_uint8(get(columns, _AT.type) + row, name)
    store_native16(get(columns, _AT.key_type) + 2 * row, kind)
    store_native32(get(columns, _AT.group) + 4 * row, group)
    store_native32(get(columns, _AT.topic) + 4 * row, 0)
    store_native32(get(columns, _AT.metadata) + 4 * row, 0)
    store_native32(get(columns, _AT.topic_id) + 4 * row, 0)
    store_native16(get(columns, _AT.value_version) + 2 * row, version)


_AT = Rows(*range(len(Rows._fields)))
"""Which of the columns of rows each is."""


@inlined
def _number(state: int, table: int, text: int, size: int) -> int:
    """Give the number of a string in a table; -1 if the table is full."""
    last = state + 8 * (memory.LAST + 3 * table)
    if size != get(last, 1) or not equal(text, get(last, 0), size):
        number = intern(get(state, memory.TABLES + table), text, size)
        if number < 0:
            put(state, memory.GROWING, table)
            return -1
        put(last, 0, text)
        put(last, 1, size)
        put(last, 2, number)
    return get(last, 2)


@inlined
def _forget(state: int) -> None:
    """Forget the strings of the record before: another piece is where they were."""
    for table in range(4):
        put(state, memory.LAST + 3 * table + 1, -1)


@inlined
def _wanted_batch(state: int) -> int:
    """Where the next batch stands of which a record is wanted, at most END."""
    keep = get(state, memory.KEEP)
    end = get(state, memory.END)
    if keep == 0:
        return get(state, memory.POSITION)
    if keep == get(state, memory.KEEP_END):
        return end
    return min(end, (get(keep, 0) >> memory.LOCATOR_SHIFT) - get(state, memory.FILE_BASE))


@compiled
def _open_wanted(state: int) -> int:
    """Open the next batch of which a record is wanted; READ, or the reason for stopping."""
    while True:
        batch = get(state, memory.POSITION)
        if batch >= get(state, memory.END):
            reason = next_piece(state)
            if reason != READ:
                return reason
            _forget(state)
            continue
        wanted = _wanted_batch(state)
        is_unpacked = get(state, memory.UNPACKED) != 0
        if batch >= wanted or (is_unpacked and has_compressed_records(batch)):
            reason = open_batch(state)
            return READ if reason == DONE else reason
        if not is_unpacked:
            put(state, memory.POSITION, wanted)
        else:
            size = claimed_size(batch, wanted, get(state, memory.LARGEST_BATCH))
            if size <= 0:
                return BAD
            put(state, memory.POSITION, batch + size)


@inlined
def _commit(
    state: int, row: int, kind: int, key: int, key_end: int, value: int, value_end: int
) -> int:
    """Write the row of an offset commit; DONE, GROW, or ODD where it is not as it should be."""
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
    columns = state + 8 * memory.ROW_COLUMNS
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
    store_native32(get(columns, _AT.topic) + 4 * row, topic_number)
    store_native32(get(columns, _AT.topic_partition) + 4 * row, load_int32(topic + topic_size))
    store_native32(get(columns, _AT.metadata) + 4 * row, meta_number)
    store_native32(get(columns, _AT.topic_id) + 4 * row, topic_id_number)
    return DONE


@inlined
def _put_value(columns: int, row: int, value: int, times: int, version: int) -> int:
    """Write the columns of a commit's value, whose times stand there; give its flags."""
    flags = VALUE | VERSION
    put(get(columns, _AT.committed_offset), row, load_int64(value + 2))
    put(get(columns, _AT.commit_timestamp), row, load_int64(times))
    if version >= 3:
        epoch = load_int32(value + 10)
        store_native32(get(columns, _AT.committed_leader_epoch) + 4 * row, epoch)
        if epoch != -1:
            flags |= LEADER_EPOCH
    elif version == 1:
        expire = load_int64(times + 8)
        put(get(columns, _AT.expire_timestamp), row, expire)
        if expire != -1:
            flags |= EXPIRE
    return flags


@compiled
def decode(state: int) -> int:
    """Decode a chunk; give the reason for stopping.

    `state` is the address of the words that `memory` names. At ODD the record's locator is
    there, and the row's offset, timestamp and size are written: who called writes the rest of the
    row, counts it in ROWS (and in OTHERS), and goes on.
    """
    _forget(state)
    while True:
        if get(state, memory.RECORD) == 0:
            reason = _open_wanted(state)
            if reason != READ:
                return reason
        reason = _decode_batch(state)
        if reason in (GROW, ODD):
            return reason
        reason = close_batch(state, get(state, memory.RECORD), reason)
        if reason != DONE:
            return reason


@compiled
def _decode_batch(state: int) -> int:
    """Decode the rest of the open batch; DONE at its end, or the reason for stopping."""
    columns = state + 8 * memory.ROW_COLUMNS
    batch = get(state, memory.POSITION)
    limit = get(state, memory.LIMIT)
    record = get(state, memory.RECORD)
    left = get(state, memory.LEFT)
    last_delta = get(state, memory.LAST_DELTA)
    row = get(state, memory.ROWS)
    magic = load_uint8(batch + 16)
    base = load_int64(batch)
    time, is_append_time = record_time(batch)
    is_control = magic == 2 and load_int16(batch + 21) & CONTROL != 0
    keep = get(state, memory.KEEP)
    keep_end = get(state, memory.KEEP_END)
    locator = (batch + get(state, memory.FILE_BASE)) << memory.LOCATOR_SHIFT | records_in(batch)
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
            put(get(columns, _AT.offset), row, base + delta)
            put(get(columns, _AT.timestamp), row, timestamp)
            size = key_end - key + value_end - value
            store_native32(get(columns, _AT.size) + 4 * row, size)
            reason = ODD
            if key_end - key >= 2 and not is_control and load_int16(key) in (0, 1):
                reason = _commit(state, row, load_int16(key), key, key_end, value, value_end)
            if reason == ODD:
                reason = _uncommon(state, row, key, key_end, value, value_end, is_control)
            if reason == DONE:
                row += 1
            elif reason != ODD:
                break  # the record is not begun, and still wanted
            if keep != 0:
                keep += 8
        record = end
        left -= 1
        last_delta = delta
    put(state, memory.ROWS, row)
    put(state, memory.KEEP, keep)
    put(state, memory.RECORD, record)
    put(state, memory.LEFT, left)
    put(state, memory.LAST_DELTA, last_delta)
    return reason


@compiled
def _uncommon(
    state: int, row: int, key: int, key_end: int, value: int, value_end: int, is_control: bool
) -> int:
    """Write the row of a record that is no whole offset commit; DONE, ODD, FULL or GROW."""
    reason = ODD
    if key != 0:
        reason = _other(state, row, key, key_end, value, value_end, is_control)
    elif value == 0:  # a log may be made of millions of them
        _put_row(state, row, 0, op.UNKNOWN, 0, 0, 0)
        reason = DONE
    if reason == ODD:
        put(state, memory.ODD_KEY, key)
        put(state, memory.ODD_KEY_SIZE, key_end - key)
        put(state, memory.ODD_VALUE, value)
        put(state, memory.ODD_VALUE_SIZE, value_end - value)
    return reason


@compiled
def spread_ends(rows: int, ends: int, count: int, out: int, total: int) -> int:
    """Make Arrow's offsets (int32) of `total` strings of which all but `count` are empty.

    `rows` has the numbers of the others in order, and `ends` where their bytes end.
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
    """Make Arrow's bitmap of the bytes that have a flag; count them.

    There is room for them, and `PADDING`.
    """
    found = 0
    for first in range(0, count, BLOCK):
        bits = 0
        if count - first >= BLOCK:
            bits = flagged_bytes(flags + first, flag)
        else:
            for index in range(count - first):
                bits |= (load_uint8(flags + first + index) & flag != 0) << index
        store_native32(out + (first >> 3), bits)
        found += count_ones(bits)
    return found
