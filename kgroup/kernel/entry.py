"""Python interface of the compiled functions, with checks of the memory that they use.

Machine code uses memory by address and checks only the bounds that it is given. All of these come
from this module: arrays are checked for the type and size that a function needs, or are created
here. Their contents are checked if that takes constant time. A ValueError names the array that is
wrong; it is a bug in the caller, and no input leads to it. `WalkState` holds the memory of a walk,
`RowState` that of rows written as text, and `StringTable` that of strings.

The functions release the GIL. The first call loads the code, or compiles it.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kgroup.kernel.address import address
from kgroup.kernel.compiled import load
from kgroup.kernel.memory import FOREVER, PADDING
from kgroup.kernel.row_state import RowState
from kgroup.kernel.string_table import StringTable
from kgroup.kernel.walk_state import WalkState
from kgroup.protocol.batch.batch import MAX_BATCH_SIZE
from kgroup.protocol.batch.batch_v2 import HEADER_SIZE


def _call(name: str, *words: int) -> int:
    return load()[name](*words)


# Walks: each continues from the state, and returns why it stopped (`memory.DONE` and so on)


def follow(state: WalkState) -> int:
    """Follow the lengths of a chunk's batches."""
    return _call("follow", state.check("follow"))


def scan(state: WalkState) -> int:
    """Count a chunk's batches, except control batches, in the array passed to `count_in`."""
    return _call("scan", state.check("scan"))


def list_keys(state: WalkState) -> int:
    """List hash and locator of each record with a key in the arrays passed to `list_in`.

    The locator of a tombstone is inverted (``~locator``). Markers, and records after THROUGH_OFFSET
    and THROUGH_MS, are ignored; KEYLESS counts those without a key.
    """
    return _call("list_keys", state.check("list_keys"))


def decode(state: WalkState) -> int:
    """Decode a chunk into the memory passed to `decode_in`.

    At ODD, the state has the record's address, and offset, timestamp and size of its row are
    written. The caller must write the rest, count it in ROWS (and in OTHERS), and call again. At
    GROW, the table with the number in GROWING is full.
    """
    return _call("decode", state.check("decode"))


# Batches in memory, at indices, with `PADDING` readable bytes after the end


def find_batch(data: NDArray[np.uint8], end: int) -> int | None:
    """Return the index of the first batch with a correct checksum that another batch follows.

    Only the first `end` bytes are searched. What follows may be the end, or cut off there. The
    search gives up after it has checksummed several times the number of bytes.
    """
    start = address("data", data, np.uint8, end + PADDING)
    position = _call("find_batch", start, start + end, MAX_BATCH_SIZE)
    return position - start if position else None


def find_end(data: NDArray[np.uint8], end: int) -> tuple[int, int]:
    """Return the end of the last batch that claims to be whole, and the number of records."""
    start = address("data", data, np.uint8, end + PADDING)
    records = np.zeros(1, np.int64)
    position = _call("find_end", start, start + end, MAX_BATCH_SIZE, records.ctypes.data)
    return position - start, int(records[0])


def select_group(
    data: bytes, offset: int, until: int, high: int | None, name: bytes
) -> tuple[memoryview, int, int]:
    """Select the batches that may have records of a group, and those with other information.

    These are control batches, and the batches with the earliest and the latest time. Only batches
    up to `PADDING` bytes before the end are considered, and up to the first that is not valid, not
    of message format v2, not wanted, or without an offset from `offset` on and before `high`.

    Args:
        data: batches.
        offset: minimum of the last offset of the first batch.
        until: offset from which on no batch is wanted.
        high: offset after the last batch; None if unknown.
        name: the group id with its length, as in a key.

    Returns:
        The selected batches, the number of bytes considered, and the offset after these.
    """
    array = np.frombuffer(data, np.uint8)
    start = address("data", array, np.uint8)
    end = max(len(array) - PADDING, 0)
    padded, results = _padded(name), np.zeros(2, np.int64)
    selected = np.empty(end, np.uint8)
    out = selected.ctypes.data
    stop = _call(
        "select_group",
        *(start, start + end, MAX_BATCH_SIZE),
        *(offset, until, FOREVER if high is None else high),
        *(padded.ctypes.data, len(name), out, results.ctypes.data),
    )
    return selected[: stop - out].data, int(results[0]) - start, int(results[1])


def list_compressed(state: WalkState) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the compressed batches of a piece after END, up to the first of another codec.

    Returns:
        The start and the end of each, as indices in the piece.
    """
    state.check("follow")
    words = state.words
    bounds = np.empty((2, words["packed"]), np.int64)
    starts, ends = bounds
    part = words["end"], words["whole_end"], words["largest_batch"]
    count = _call("list_compressed", *part, starts.ctypes.data, ends.ctypes.data)
    bounds -= words["piece"]
    return starts[:count], ends[:count]


def gather(
    data: NDArray[np.uint8], starts: NDArray[np.int64], ends: NDArray[np.int64]
) -> NDArray[np.uint8]:
    """Return the concatenated records of batches, given their start and end indices."""
    count = len(starts)
    start = address("data", data, np.uint8, int(ends.max(initial=0)))
    address("starts", starts, np.int64)
    address("ends", ends, np.int64)
    sizes = ends[:count] - starts - HEADER_SIZE
    if len(ends) != count or starts.min(initial=0) < 0 or sizes.min(initial=0) < 0:
        raise ValueError("starts, ends: expected the indices of batches, found others.")
    packed = np.empty(int(sizes.sum()), np.uint8)
    begin, end = starts + start, ends + start
    _call("gather", begin.ctypes.data, end.ctypes.data, count, packed.ctypes.data)
    return packed


# Strings and keys


def intern(table: StringTable, text: bytes) -> int | None:
    """Return the number of a string in a table; None if there is no room for a new one."""
    padded = _padded(text)
    number = _call("intern", table.at, padded.ctypes.data, len(text))
    return number if number >= 0 else None


def intern_all(old: StringTable, new: StringTable) -> None:
    """Copy all strings of a table into an empty one, no smaller; they keep their numbers."""
    if new.count or new.slots < old.slots or new.capacity < old.capacity:
        raise ValueError("new: expected an empty table that is no smaller, found another.")
    _call("intern_all", old.at, new.at)


def hash_key(key: bytes, seed: int) -> int:
    """Return the hash of a key; never 0."""
    padded = _padded(key)
    return _call("hash_key", padded.ctypes.data, len(key), seed)


def note_last(
    pairs: NDArray[np.int64], used: int, hashes: NDArray[np.int64], locators: NDArray[np.int64]
) -> int:
    """Add records in log order to a hash table, which keeps the last one of each key.

    Args:
        pairs: hashes and locators, shape (2^n, 2); the hash of a free pair is 0.
        used: number of pairs in use; together with the records, fewer than there are pairs.
        hashes: hashes of the records' keys; none is 0.
        locators: locators of the records.

    Returns:
        The new number of pairs in use.
    """
    table = _table("pairs", pairs, used + len(hashes))
    columns = (
        address("hashes", hashes, np.int64),
        address("locators", locators, np.int64, len(hashes)),
    )
    return used + _call("note_last", table, len(pairs) - 1, *columns, len(hashes))


def note_table(pairs: NDArray[np.int64], old: NDArray[np.int64]) -> None:
    """Copy an older, smaller hash table into an empty one."""
    table = _table("pairs", pairs, len(old))
    _call("note_table", table, len(pairs) - 1, _table("old", old), len(old))


def _table(name: str, pairs: NDArray[np.int64], used: int = 0) -> int:
    """Return the address of pairs, of which `used` will be in use and at least one free."""
    count = len(pairs)
    if pairs.shape != (count, 2) or count & (count - 1) or used >= count:
        raise ValueError(f"{name}: expected 2^n pairs, more than {used}, found {pairs.shape}.")
    return address(name, pairs, np.int64)


def _padded(text: bytes) -> NDArray[np.uint8]:
    return np.frombuffer(text + bytes(PADDING), np.uint8)


# Columns


def spread_ends(rows: NDArray[np.int32], ends: NDArray[np.int32], out: NDArray[np.int32]) -> int:
    """Write Arrow's offsets of strings that are empty except in some rows.

    Args:
        rows: sorted numbers of these rows.
        ends: end of the bytes of each.
        out: filled with the offsets: one more than there are strings.

    Returns:
        The end of the last string.
    """
    count = len(rows)
    if count and not -1 < rows[-1] < len(out) - 1:
        raise ValueError(f"rows: expected fewer than {len(out) - 1}, found {rows[-1]}.")
    columns = address("rows", rows, np.int32), address("ends", ends, np.int32, count)
    total = len(out) - 1
    return _call("spread_ends", *columns, count, address("out", out, np.int32, 1), total)


def flag_bits(flags: NDArray[np.uint8], flag: int) -> tuple[NDArray[np.uint8], int]:
    """Return Arrow's bitmap, padded, of the bytes that have a flag, and their number."""
    bits = np.empty((len(flags) + 7) // 8 + PADDING, np.uint8)
    at = address("flags", flags, np.uint8)
    return bits, _call("flag_bits", at, flag, len(flags), bits.ctypes.data)


# Text


def quote(
    ends: NDArray[np.int32], text: NDArray[np.uint8]
) -> tuple[NDArray[np.int32], NDArray[np.uint8]]:
    """Convert UTF-8 texts to JSON strings.

    Args:
        ends: start of the first text, and end of each, in order.
        text: the texts, followed by `PADDING`.

    Returns:
        The ends and the text of the JSON strings.
    """
    ends_at = address("ends", ends, np.int32, 1)
    text_at = address("text", text, np.uint8, int(ends[-1]) + PADDING)
    if not 0 <= ends[0] <= ends[-1]:
        raise ValueError(f"ends: expected indices in order, found {ends[0]} and {ends[-1]}.")
    count = len(ends) - 1
    room = 6 * int(ends[-1] - ends[0]) + 3 * count + PADDING
    out_ends, out = np.empty(count + 1, np.int32), np.empty(room + PADDING, np.uint8)
    out_at = out.ctypes.data
    words = ends_at, text_at, count, out_ends.ctypes.data, out_at, out_at + room
    if _call("quote", *words) < 0:
        raise ValueError("text: expected UTF-8, found something else.")
    return out_ends, out


def write_rows(state: RowState, out: NDArray[np.uint8]) -> tuple[int, int]:
    """Write as many rows as fit, from the current row of the state on.

    Args:
        state: advanced to the first row that was not written.
        out: for the text, with `PADDING` at the end.

    Returns:
        The number of bytes written, and the number that the first row that did not fit needs, or 0.
    """
    start = address("out", out, np.uint8, PADDING)
    state.words["out"] = start
    state.words["room"] = start + len(out) - PADDING
    needed = _call("write_rows", state.at)
    return int(state.words["out"]) - start, needed
