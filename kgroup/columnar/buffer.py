"""Buffers that the compiled decoder fills, and their conversion to Arrow columns."""

from __future__ import annotations

from base64 import urlsafe_b64encode
from collections.abc import Callable, Sequence
from functools import cache
from itertools import accumulate, pairwise
from typing import Any

import numpy as np
import pyarrow as pa

from kgroup.columnar.chunk_size import SIZES
from kgroup.columnar.locator import Locators, wanted_records
from kgroup.columnar.schema import DECODED, decoded_cells, record_size
from kgroup.kernel import entry, memory
from kgroup.kernel.instruction import CONTROL
from kgroup.kernel.memory import LOG_APPEND_TIME, PADDING, TRANSACTIONAL, Batches, Others, Rows
from kgroup.kernel.string_table import StringTable
from kgroup.kernel.walk_state import WalkState
from kgroup.model.record import TransactionStatus
from kgroup.protocol.batch.batch import Damage, RecordBatch
from kgroup.protocol.batch.transaction import TransactionIndex
from kgroup.protocol.message.primitives import JAVA_UTF8, uuid_bytes
from kgroup.protocol.record.coordinator_record import CONTROL_TYPES, KEY_TYPES

_Array = np.ndarray[Any, Any]

_TYPES = [KEY_TYPES.get(number, "Unknown") for number in range(CONTROL)]
_TYPES += CONTROL_TYPES.values()
_TYPE_NUMBERS = {name: number for number, name in enumerate(_TYPES)}
_TYPE_TEXTS = pa.array(_TYPES)
_TIMESTAMP_TYPES = pa.array(["create", "log_append"])
_TRANSACTIONS = [*TransactionStatus]
_TRANSACTION_TEXTS = pa.array(_TRANSACTIONS)


_TEXTS_USED = ("key_json_used", "value_json_used")
_ALIGNMENT = 64
"""Alignment of columns in memory, as Arrow recommends."""


class _Dictionary(StringTable):
    """Distinct byte strings that become an Arrow dictionary."""

    def __init__(self, slots: int = 1 << 12, capacity: int = 1 << 17) -> None:
        super().__init__(slots, capacity)

    def grown(self, needed: int) -> _Dictionary:
        """Return a larger dictionary with the same strings and room for one of `needed` bytes."""
        new = _Dictionary(2 * self.slots, 2 * self.capacity + needed)
        entry.intern_all(self, new)
        return new

    def strings(self) -> pa.StringArray:
        """Return the strings; invalid UTF-8 is replaced as Java does."""
        if self.words["is_odd"]:
            texts = [raw.decode("utf-8", JAVA_UTF8) for raw in self._raw()]
            return pa.array(texts, pa.string())
        ends = self.ends[: self.count + 1]
        return pa.StringArray.from_buffers(self.count, pa.py_buffer(ends), pa.py_buffer(self.text))

    def uuids(self) -> pa.StringArray:
        """Return the strings, of 16 bytes each, as UUIDs in Kafka's text form."""
        count = self.count
        padded = np.zeros((count, 18), np.uint8)  # 18 bytes are 24 letters in base64
        padded[:, :16] = self.text[: 16 * count].reshape(count, 16)
        letters = np.frombuffer(urlsafe_b64encode(padded.data), np.uint8).reshape(count, 24)
        text = np.ascontiguousarray(letters[:, :22])
        ends = 22 * np.arange(count + 1, dtype=np.int32)
        return pa.StringArray.from_buffers(count, pa.py_buffer(ends), pa.py_buffer(text))

    def _raw(self) -> list[bytes]:
        ends = self.ends[: self.count + 1].tolist()
        return [self.text[start:end].tobytes() for start, end in pairwise(ends)]


class ColumnBuffer:
    """Rows of one batch of `DECODED` while they are decoded."""

    def __init__(self, partition: int | None, state: WalkState, machine: _Array, rows: int) -> None:
        self._partition = partition
        self._state = state
        self._machine = machine
        self._words = state.words
        for name in ("rows", "batches", "others", *_TEXTS_USED):
            self._words[name] = 0
        self._allocate(rows)
        self._texts = [_room(size + PADDING) for size in SIZES.texts]
        self._dictionaries = [_Dictionary() for _ in range(4)]
        self._numbers: dict[tuple[int, str], int] = {}
        self._added: tuple[bytes | None, bytes | None, bool] | None = None
        self._added_cells: list[tuple[str, int]] = []
        self._added_texts: list[bytes | None] | None = None
        self._publish()

    def _allocate(self, rows: int) -> None:
        sizes = [rows * np.dtype(kind).itemsize for kind in Rows()]
        starts = [0, *accumulate(-(-size // _ALIGNMENT) * _ALIGNMENT for size in sizes)]
        memory = _room(starts[-1])
        self._rows = Rows(
            *(
                memory[start : start + size].view(kind)
                for start, size, kind in zip(starts, sizes, Rows(), strict=False)
            )
        )
        self._batches = Batches(*(np.empty(rows, kind) for kind in Batches()))
        self._others = Others(*(np.empty(rows, kind) for kind in Others()))

    def _publish(self) -> None:
        """Set the addresses of the buffers for compiled code."""
        self._state.decode_in(
            self._rows, self._batches, self._others, self._texts, self._dictionaries, self._machine
        )

    @property
    def is_empty(self) -> bool:
        """Whether there are no rows yet."""
        return bool(self._words["rows"] == 0)

    def enlarge(self, rows: int) -> None:
        """Make room for a batch of this many rows, which does not fit into an empty buffer."""
        assert self.is_empty
        if rows > len(self._rows.flags):
            self._allocate(rows)
        else:
            self._texts = [np.empty(2 * len(text), np.uint8) for text in self._texts]
        self._publish()

    def grow(self, dictionary: int, needed: int = 32768) -> None:
        """Make room in a dictionary for a string of `needed` bytes."""
        self._dictionaries[dictionary] = self._dictionaries[dictionary].grown(needed)
        self._publish()

    def add_batch(self, batch: RecordBatch, locators: Locators | None) -> list[Damage]:
        """Add the wanted rows of a batch with the reference decoder; return the damage."""
        damages: list[Damage] = []
        at = int(self._words["batches"])
        first = int(self._words["rows"])
        for record in wanted_records(batch, locators):
            if isinstance(record, Damage):
                damages.append(record)
                continue
            row = int(self._words["rows"])
            self._reserve_row(row)
            self._rows.offset[row] = record.offset
            timestamp_ms = record.timestamp_ms
            self._rows.timestamp[row] = -1 if timestamp_ms is None else timestamp_ms
            self._rows.size[row] = record_size(record.key, record.value)
            self.add(record.key, record.value, is_control=batch.is_control)
        if self._words["rows"] > first:
            append_time = LOG_APPEND_TIME if batch.timestamp_type == "log_append" else 0
            transactional = TRANSACTIONAL if batch.is_transactional else 0
            self._batches.row[at] = first
            self._batches.attributes[at] = append_time | transactional | batch.magic << 8
            self._batches.leader_epoch[at] = _or_minus_1(batch.leader_epoch)
            self._batches.producer_id[at] = _or_minus_1(batch.producer_id)
            self._batches.producer_epoch[at] = _or_minus_1(batch.producer_epoch)
            self._batches.base_offset[at] = _or_minus_1(batch.base_offset)
            self._words["batches"] = at + 1
        return damages

    def add(self, key: bytes | None, value: bytes | None, *, is_control: bool) -> None:
        """Complete and count the row whose offset, timestamp and size are already set."""
        row = int(self._words["rows"])
        record = (key, value, is_control)
        if record != self._added:  # a log may consist of one record repeated a million times
            self._added = record
            self._added_cells, self._added_texts = self._encode(*record)
        for name, cell in self._added_cells:
            getattr(self._rows, name)[row] = cell
        if self._added_texts is not None:
            self._add_texts(row, self._added_texts)
        self._words["rows"] = row + 1

    def _encode(
        self, key: bytes | None, value: bytes | None, is_control: bool
    ) -> tuple[list[tuple[str, int]], list[bytes | None] | None]:
        """Decode a record; return its cells by column, and its JSON texts if it has any."""
        cells = decoded_cells(key, value, is_control=is_control)
        name, key_type, group, topic, topic_partition, version = cells[:6]
        offset, leader_epoch, metadata, commit_timestamp, expire_timestamp, topic_id = cells[6:12]
        flags = 0
        row = [("type", _TYPE_NUMBERS[name])]
        for column, flag, cell in (
            ("key_type", memory.KEY_TYPE, key_type),
            ("value_version", memory.VERSION, version),
            ("group", memory.GROUP, self._intern(0, group)),
            ("topic", memory.COMMIT, self._intern(1, topic)),
            ("topic_partition", memory.COMMIT, topic_partition),
            ("committed_offset", memory.VALUE, offset),
            ("metadata", memory.VALUE, self._intern(2, metadata)),
            ("commit_timestamp", memory.VALUE, commit_timestamp),
            ("committed_leader_epoch", memory.LEADER_EPOCH, leader_epoch),
            ("expire_timestamp", memory.EXPIRE, expire_timestamp),
            ("topic_id", memory.TOPIC_ID, self._intern_uuid(topic_id)),
        ):
            row.append((column, 0 if cell is None else cell))
            flags |= 0 if cell is None else flag
        row.append(("flags", flags))
        texts = [None if cell is None else cell.encode() for cell in cells[12:]]
        return row, None if texts == [None, None] else texts

    def _add_texts(self, row: int, texts: Sequence[bytes | None]) -> None:
        other = int(self._words["others"])
        flags = 0
        for index, text in enumerate(texts):
            used = int(self._words[_TEXTS_USED[index]])
            if text is None:
                flags |= 1 << index
            else:
                self._reserve_text(index, used + len(text))
                self._texts[index].data[used : used + len(text)] = text
                used += len(text)
                self._words[_TEXTS_USED[index]] = used
            self._others[2 + index][other] = used
        self._others.row[other] = row
        self._others.flags[other] = flags
        self._words["others"] = other + 1

    def _reserve_row(self, row: int) -> None:
        """Make room for a row, including its text and batch entries."""
        size = len(self._rows.flags)
        if row >= size:
            self._rows = Rows(*(_resized(column, 2 * size) for column in self._rows))
            self._others = Others(*(_resized(column, 2 * size) for column in self._others))
            self._batches = Batches(*(_resized(column, 2 * size) for column in self._batches))
            self._publish()

    def _reserve_text(self, index: int, size: int) -> None:
        if size + PADDING > len(self._texts[index]):
            self._texts[index] = _resized(self._texts[index], 2 * size + PADDING)
            self._publish()

    def _intern(self, dictionary: int, text: str | None) -> int | None:
        if text is None:
            return None
        number = self._numbers.get((dictionary, text))
        if number is None:  # most names are already known
            number = self._intern_raw(dictionary, text.encode())
            self._numbers[dictionary, text] = number
        return number

    def _intern_uuid(self, text: str | None) -> int | None:
        return None if text is None else self._intern_raw(3, uuid_bytes(text))

    def _intern_raw(self, dictionary: int, raw: bytes) -> int:
        while (number := entry.intern(self._dictionaries[dictionary], raw)) is None:
            self.grow(dictionary, len(raw))
        return number

    def finish(self, transactions: Callable[[], TransactionIndex]) -> pa.RecordBatch:
        """Return the rows as a batch of `DECODED`. The buffer must not be used afterwards."""
        count = int(self._words["rows"])
        rows = Rows(*(column[:count] for column in self._rows))
        groups, topics, metadata, topic_ids = self._dictionaries
        columns = self._batch_columns(count, transactions) | self._text_columns(count)
        columns["offset"] = _column("offset", rows.offset)
        columns["timestamp_ms"] = _known_column("timestamp_ms", rows.timestamp)
        columns["size"] = _column("size", rows.size)
        columns["type"] = _column("type", rows.type, values=_TYPE_TEXTS)
        for name, column, flag, values in (
            ("key_type", rows.key_type, memory.KEY_TYPE, None),
            ("group", rows.group, memory.GROUP, groups.strings()),
            ("topic", rows.topic, memory.COMMIT, topics.strings()),
            ("topic_partition", rows.topic_partition, memory.COMMIT, None),
            ("value_version", rows.value_version, memory.VERSION, None),
            ("committed_offset", rows.committed_offset, memory.VALUE, None),
            ("committed_leader_epoch", rows.committed_leader_epoch, memory.LEADER_EPOCH, None),
            ("metadata", rows.metadata, memory.VALUE, metadata.strings()),
            ("commit_timestamp_ms", rows.commit_timestamp, memory.VALUE, None),
            ("expire_timestamp_ms", rows.expire_timestamp, memory.EXPIRE, None),
            ("topic_id", rows.topic_id, memory.TOPIC_ID, topic_ids.uuids()),
        ):
            columns[name] = _column(name, column, rows.flags, flag, values)
        return pa.RecordBatch.from_arrays([columns[name] for name in DECODED.names], schema=DECODED)

    def _batch_columns(
        self, count: int, transactions: Callable[[], TransactionIndex]
    ) -> dict[str, pa.Array]:
        """Return the columns that are the same for all rows of a log batch."""
        batches = Batches(*(column[: int(self._words["batches"])] for column in self._batches))

        def column(name: str, numbers: _Array, values: pa.Array | None = None) -> pa.Array:
            numbers = _one_if_alike(numbers)
            if len(numbers) > 1:
                sizes = np.diff(batches.row, append=count)
                return _known_column(name, np.repeat(numbers, sizes), values)
            if numbers[0] == -1:
                return _nulls(name, count)
            same = _room(count * numbers.itemsize).view(numbers.dtype)
            same[:] = numbers
            return _column(name, same, values=values)

        attributes = _one_if_alike(batches.attributes)
        magic = attributes >> 8
        append_time = (attributes & LOG_APPEND_TIME) // LOG_APPEND_TIME
        timestamp_type = np.where(magic == 0, -1, append_time).astype(np.int8)
        transaction = np.full(1, -1, np.int8)
        if (attributes & TRANSACTIONAL).any():
            transaction = self._transactions(batches, transactions)
        partition = np.full(1, -1 if self._partition is None else self._partition, np.int32)
        return {
            "partition": column("partition", partition),
            "timestamp_type": column("timestamp_type", timestamp_type, _TIMESTAMP_TYPES),
            "leader_epoch": column("leader_epoch", batches.leader_epoch),
            "producer_id": column("producer_id", batches.producer_id),
            "producer_epoch": column("producer_epoch", batches.producer_epoch),
            "transaction": column("transaction", transaction, _TRANSACTION_TEXTS),
        }

    def _transactions(
        self, batches: Batches, transactions: Callable[[], TransactionIndex]
    ) -> _Array:
        """Return the outcome of each batch's transaction; -1 if it has none."""
        outcome = np.full(len(batches.row), -1, np.int8)
        transactional = np.flatnonzero(
            (batches.attributes & TRANSACTIONAL != 0) & (batches.producer_id != -1)
        )
        if len(transactional):
            status = transactions().status
            columns = (
                transactional,
                batches.producer_id[transactional],
                batches.base_offset[transactional],
            )
            for at, producer_id, offset in np.stack(columns, axis=1).tolist():
                outcome[at] = _TRANSACTIONS.index(status(producer_id, offset))
        return outcome

    def _text_columns(self, count: int) -> dict[str, pa.Array]:
        """Return the columns that few rows have, as strings."""
        names = ("key_json", "value_json")
        text_count = int(self._words["others"])
        if text_count == 0:
            return {name: _nulls(name, count) for name in names}
        row = self._others.row[:text_count]
        flags = self._others.flags[:text_count]
        columns = {}
        for index, name in enumerate(names):
            ends = self._others[2 + index][:text_count]
            offsets = _room(4 * (count + 1)).view(np.int32)
            size = entry.spread_ends(row, ends, offsets)
            known = np.zeros(count, np.uint8)
            known[row] = flags >> index & 1 ^ 1
            bitmap, known_count = _bitmap(known, 1)
            buffers = [bitmap, pa.py_buffer(offsets), pa.py_buffer(self._texts[index][:size])]
            kind = DECODED.field(name).type
            columns[name] = pa.Array.from_buffers(kind, count, buffers, count - known_count)
        return columns


def _room(size: int) -> _Array:
    """Allocate memory from Arrow's pool, which reuses freed memory."""
    return np.frombuffer(pa.allocate_buffer(size), np.uint8)


def _resized(array: _Array, size: int) -> _Array:
    larger = np.empty(size, array.dtype)
    larger[: len(array)] = array
    return larger


def _one_if_alike(numbers: _Array) -> _Array:
    """Return the first number if all are equal, else all of them."""
    return numbers[:1] if (numbers == numbers[0]).all() else numbers


def _bitmap(flags: _Array, flag: int) -> tuple[pa.Buffer, int]:
    """Return a bitmap of the bytes that have a flag, and their number."""
    bits, count = entry.flag_bits(flags, flag)
    return pa.py_buffer(bits), count


def _nulls(name: str, count: int) -> pa.Array:
    return _many_nulls(DECODED.field(name).type, 1 << count.bit_length())[:count]


@cache
def _many_nulls(kind: pa.DataType, count: int) -> pa.Array:
    return pa.nulls(count, kind)


def _known_column(name: str, numbers: _Array, values: pa.Array | None = None) -> pa.Array:
    """Return a column of numbers in which -1 is null."""
    return _column(name, numbers, (numbers != -1).view(np.uint8), values=values)


def _column(
    name: str,
    numbers: _Array,
    flags: _Array | None = None,
    flag: int = 1,
    values: pa.Array | None = None,
) -> pa.Array:
    """Return a column of numbers, or of `values` at these indices.

    With `flags`, rows without the flag are null.
    """
    kind = DECODED.field(name).type
    count = len(numbers)
    bitmap, known = (None, count) if flags is None else _bitmap(flags, flag)
    if known == 0 < count:
        return _nulls(name, count)
    buffers = [None if known == count else bitmap, pa.py_buffer(numbers)]
    if values is None:
        return pa.Array.from_buffers(kind, count, buffers, count - known)
    indices = pa.Array.from_buffers(kind.index_type, count, buffers, count - known)
    return pa.DictionaryArray.from_arrays(indices, values, safe=False)


def _or_minus_1(number: int | None) -> int:
    return -1 if number is None else number
