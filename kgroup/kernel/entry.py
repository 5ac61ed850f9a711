"""The compiled functions as Python calls them: what each takes, and what its memory must hold.

Machine code knows memory by address, and looks at no bounds but those that it was told. All it is
told comes through here: arrays are seen to be of the type and size that a function goes by, or are
made here. What they hold is looked at where that does not depend on how much it is. A ValueError
says what is wrong with one; it is a caller's mistake, to which no input leads. The memory of a walk
is given to a `WalkState`, of rows as text to a `RowState`, and of strings to a `StringTable`.

The functions release the interpreter's lock. The first call loads the code, or compiles it.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kgroup.kernel.address import address
from kgroup.kernel.compiled import load
from kgroup.kernel.memory import PADDING
from kgroup.kernel.row_state import RowState
from kgroup.kernel.string_table import StringTable
from kgroup.kernel.walk_state import WalkState
from kgroup.protocol.batch.batch import MAX_BATCH_SIZE
from kgroup.protocol.batch.batch_v2 import HEADER_SIZE


def _call(name: str, *words: int) -> int:
    return load()[name](*words)


# Walks: each goes on where the state stands, and gives why it stopped (`memory.DONE` and so on)


def follow(state: WalkState) -> int:
    """Follow the lengths of a chunk's batches."""
    return _call("follow", state.check("follow"))


def scan(state: WalkState) -> int:
    """Count a chunk's batches, but for control batches, into what `count_in` was given."""
    return _call("scan", state.check("scan"))


def list_keys(state: WalkState) -> int:
    """List hash and place of each record with a key in what `list_in` was given.

    The place of a tombstone is inverted (``~place``). Markers, and records behind THROUGH_OFFSET
    and THROUGH_MS, do not count; KEYLESS counts those without a key.
    """
    return _call("list_keys", state.check("list_keys"))


def decode(state: WalkState) -> int:
    """Decode a chunk into what `decode_in` was given.

    At ODD the record's place is in the state, and offset, timestamp and size of its row are
    written: who called writes the rest, counts it in ROWS (and in OTHERS), and goes on. At GROW the
    table whose number is at GROWING is full.
    """
    return _call("decode", state.check("decode"))


# Batches in memory, at indices; behind their end `PADDING` bytes can be read


def find_batch(data: NDArray[np.uint8], end: int) -> int | None:
    """Find the first batch with the right checksum that another follows, in the first bytes.

    What follows may be the end, or cut off there. What looks like batches is summed up to some
    times the bytes that there are: then nothing is found.
    """
    start = address("data", data, np.uint8, end + PADDING)
    found = _call("find_batch", start, start + end, MAX_BATCH_SIZE)
    return found - start if found else None


def find_end(data: NDArray[np.uint8], end: int) -> tuple[int, int]:
    """Find where the last batch ends that claims to be whole; give how many records all claim."""
    start = address("data", data, np.uint8, end + PADDING)
    records = np.zeros(1, np.int64)
    found = _call("find_end", start, start + end, MAX_BATCH_SIZE, records.ctypes.data)
    return found - start, int(records[0])


def list_compressed(state: WalkState) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """List the compressed batches of a piece behind END, up to the first of another codec.

    Gives where in the piece each begins and ends.
    """
    state.check("follow")
    words = state.words
    found = np.empty((2, words["packed"]), np.int64)
    starts, ends = found
    part = words["end"], words["whole_end"], words["largest_batch"]
    count = _call("list_compressed", *part, starts.ctypes.data, ends.ctypes.data)
    found -= words["piece"]
    return starts[:count], ends[:count]


def gather(
    data: NDArray[np.uint8], starts: NDArray[np.int64], ends: NDArray[np.int64]
) -> NDArray[np.uint8]:
    """Copy the records of batches, which begin and end at indices, one after another."""
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
    """Put all strings of a table into an empty one, no smaller; they keep their numbers."""
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
    """Note records in order, so that the last one of a key counts.

    Args:
        pairs: of a hash and a place, (2^n, 2); the hash of a free one is 0.
        used: how many are not free; with all records, fewer than there are.
        hashes: of the records' keys; none is 0.
        locators: as many.

    Returns:
        How many pairs are used now.
    """
    table = _table("pairs", pairs, used + len(hashes))
    columns = (
        address("hashes", hashes, np.int64),
        address("locators", locators, np.int64, len(hashes)),
    )
    return used + _call("note_last", table, len(pairs) - 1, *columns, len(hashes))


def note_table(pairs: NDArray[np.int64], old: NDArray[np.int64]) -> None:
    """Note what is in an older, smaller table in an empty one."""
    table = _table("pairs", pairs, len(old))
    _call("note_table", table, len(pairs) - 1, _table("old", old), len(old))


def _table(name: str, pairs: NDArray[np.int64], used: int = 0) -> int:
    """The address of pairs of which so many are to be used, and one is to be free."""
    count = len(pairs)
    if pairs.shape != (count, 2) or count & (count - 1) or used >= count:
        raise ValueError(f"{name}: expected 2^n pairs, more than {used}, found {pairs.shape}.")
    return address(name, pairs, np.int64)


def _padded(text: bytes) -> NDArray[np.uint8]:
    return np.frombuffer(text + bytes(PADDING), np.uint8)


# Columns


def spread_ends(rows: NDArray[np.int32], ends: NDArray[np.int32], out: NDArray[np.int32]) -> int:
    """Make Arrow's offsets of strings of which all are empty but those of some rows.

    Args:
        rows: their numbers in order.
        ends: where the bytes of each end.
        out: becomes the offsets: one more than there are strings.

    Returns:
        The end of all.
    """
    count = len(rows)
    if count and not -1 < rows[-1] < len(out) - 1:
        raise ValueError(f"rows: expected fewer than {len(out) - 1}, found {rows[-1]}.")
    columns = address("rows", rows, np.int32), address("ends", ends, np.int32, count)
    total = len(out) - 1
    return _call("spread_ends", *columns, count, address("out", out, np.int32, 1), total)


def flag_bits(flags: NDArray[np.uint8], flag: int) -> tuple[NDArray[np.uint8], int]:
    """Make Arrow's bitmap, padded, of the bytes that have a flag; and count them."""
    bits = np.empty((len(flags) + 7) // 8 + PADDING, np.uint8)
    at = address("flags", flags, np.uint8)
    return bits, _call("flag_bits", at, flag, len(flags), bits.ctypes.data)


# Text


def quote(
    ends: NDArray[np.int32], text: NDArray[np.uint8]
) -> tuple[NDArray[np.int32], NDArray[np.uint8]]:
    """Write UTF-8 texts as JSON strings.

    Args:
        ends: where the first begins, and where each ends, in order.
        text: the texts, and `PADDING` behind them.

    Returns:
        The same of the strings.
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
    """Write rows from where the state stands, as many as fit.

    Args:
        state: moves behind what was written.
        out: for the text, and `PADDING` behind it.

    Returns:
        How many bytes were written, and how many the first row needs that did not fit, or 0.
    """
    start = address("out", out, np.uint8, PADDING)
    state.words["out"] = start
    state.words["room"] = start + len(out) - PADDING
    needed = _call("write_rows", state.at)
    return int(state.words["out"]) - start, needed
