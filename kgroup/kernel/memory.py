"""Layout of the memory shared by Python and compiled code.

Each class here is a layout: its annotations name the fields in order, and `layout` converts them to
a structured dtype. Compiled code and Python read and write the fields by name. A field with an
address says what is there; Python owns that memory and keeps it alive.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, get_type_hints

if TYPE_CHECKING:
    import numpy as np

PADDING = 64
"""Bytes after the end of a buffer that may be read, and overwritten if the buffer is written."""


FOREVER = (1 << 63) - 1
"""No limit for THROUGH_OFFSET and THROUGH_MS."""

LOCATOR_SHIFT = 25
"""A locator is the position of a record's batch and, in this many low bits, its index in the batch.

Compressed records of one batch are at most `MAX_UNCOMPRESSED` bytes: fewer than 2^25 records.
"""


class Walk:
    """State of a walk over a chunk of a log, of which one piece is in memory."""

    # current position
    position: int  # address of the next batch, or of the open one
    end: int  # end of the piece's whole batches, or of those that are unpacked
    record: int  # address of the next record of the open batch; 0 if none is open
    left: int  # number of records left in it
    limit: int  # end of its records
    last_delta: int  # offset delta of the previous record
    unpacked: int  # address of the records of the next compressed batch
    unpacked_end: int
    largest_batch: int  # bytes
    # wanted records: addresses of the next locator and of the end of the locators
    keep: int  # 0 if all are wanted
    keep_end: int
    file_base: int  # added to an address to get a position in the file
    # the piece
    file: int  # file descriptor
    chunk_end: int  # position in the file
    piece: int  # its address
    read_size: int  # bytes to read at once
    needed_size: int  # bytes that the next batch claims to need, if more than that
    whole_end: int  # end of the batches that claim to be whole
    read_end: int  # end of the bytes read
    packed: int  # number of compressed batches of message format v2
    is_unpacked: int  # whether to unpack compressed batches
    # used space of columns and texts
    rows: int
    batches: int
    others: int
    key_json_used: int  # bytes
    value_json_used: int
    # the same, and `keep`, before the open batch
    saved_rows: int
    saved_batches: int
    saved_others: int
    saved_key_json_used: int
    saved_value_json_used: int
    saved_keep: int
    # capacities
    row_capacity: int  # also of batches
    other_capacity: int
    key_json_capacity: int
    value_json_capacity: int
    # details of a stop
    growing: int  # number of the table that is full
    odd_key: int  # address of the odd record's key; 0 for null
    odd_key_size: int
    odd_value: int
    odd_value_size: int
    # addresses of the memory that `decode` fills
    row_columns: Rows
    batch_columns: Batches  # `list_keys` fills them too
    other_columns: Others
    key_json: int
    value_json: int
    tables: Annotated[list[int], 4]  # of groups, topics, metadata and topic ids: `Table`
    machine: int  # `Machine`
    # by table, the string of the previous record, which is often repeated
    last_text: Annotated[list[int], 4]
    last_size: Annotated[list[int], 4]  # -1 if unknown
    last_number: Annotated[list[int], 4]
    # filled by `scan`: pairs of batches and bytes for each kind
    counts: int
    # results and parameters of `list_keys`
    hashes: int
    locators: int
    keyless: int  # records without a key
    seed: int
    through_offset: int
    through_ms: int


class Table:
    """A table of `byte_table`: distinct strings, numbered in order of insertion."""

    slots: int  # address: 31 bits of the hash, then the number of the string + 1; 0 is free
    mask: int  # number of slots, a power of two, minus 1
    ends: int  # address (int32): end of each string in the text; the first element is 0
    ends_capacity: int
    text: int  # address
    text_capacity: int
    count: int
    used: int  # bytes of the text in use
    is_odd: int  # whether any string is not UTF-8


class Machine:
    """State of `json_text` for running programs; each thread has its own."""

    # addresses: arrays of `schema_program.Programs`, and base64 alphabets
    code: int
    texts: int
    keys: int
    values: int
    parts: int
    standard: int
    url: int
    # strings on which other fields depend: their start, and their size (-1 for null)
    note_start: Annotated[list[int], 3]
    note_size: Annotated[list[int], 3]
    stack: Annotated[list[int], 64]
    # topics of Kafka Streams: their number, and the address of the length of each
    topic_count: int
    topics: Annotated[list[int], 1024]


STACK_SIZE = 64
MOST_TOPICS = 1024


class RowLines:
    """State of writing rows as text."""

    row: int  # the next row
    rows: int
    kinds: int  # address: one byte per row
    templates: int  # address: for each kind, the address of the first `Piece` of its template
    out: int  # address to write to
    room: int  # end of that memory


class Piece:
    """A piece of a template: a fixed text, or a column."""

    kind: int
    data: int  # address of the literal, or of the column's numbers or codes
    size: int  # bytes of the literal, or of one number or code; 0 for texts without codes
    bitmap: int  # address; 0 if no row is null
    first: int  # bit of the first row
    ends: int  # address (int32) for texts: start of each, and end of the last
    text: int  # address
    null: int  # text for null, up to 8 bytes, as a word
    null_size: int


@cache
def layout(kind: type) -> np.dtype[np.void]:
    """Return the structured dtype of a class of this module; all fields are int64.

    For columns, such as `Rows`, it is the layout of their addresses.
    """
    import numpy as np

    hints = get_type_hints(kind, include_extras=True)
    return np.dtype([(name, _element(kind, hint)) for name, hint in hints.items()])


def _element(kind: type, hint: Any) -> Any:
    if issubclass(kind, tuple) or hint is int:
        return "int64"
    return ("int64", hint.__metadata__) if hasattr(hint, "__metadata__") else layout(hint)


# Kinds of pieces
END_OF_ROW = 0
LITERAL = 1
NUMBER = 2
TEXT = 3

# Why a walk stopped
DONE = 0  # the chunk is at its end, or the next batch does not claim to be whole in it
FULL = 1  # the rows or the texts are full; this batch was not begun
GROW = 2  # a dictionary is full; this record was not begun
BAD = 3  # the batch is invalid, or of a kind that only the reference reader supports
ODD = 4  # the record is unusual; its row has only offset, timestamp and size
UNPACK = 5  # compressed batches after END must be unpacked, as far as there are any
LARGE = 6  # the next batch needs more memory than a piece has
READ = 7  # another piece was read; no walk stops for this

# Kinds of batches that `scan` counts: 8 * magic + codec
KINDS = 8 * 3

# Flags of a row
COMMIT = 1  # an offset commit: topic and topic_partition are set
VALUE = 2  # an offset commit with a value: committed_offset, metadata, commit_timestamp_ms are set
LEADER_EPOCH = 4
EXPIRE = 8
TOPIC_ID = 16
VERSION = 32  # value_version is set
GROUP = 64
KEY_TYPE = 128


# Attributes of a batch
COMPRESSED = 7
LOG_APPEND_TIME = 8
TRANSACTIONAL = 16
CONTROL = 32


class Rows(NamedTuple):
    """Columns with one element per row; the defaults are their types."""

    flags: Any = "uint8"
    offset: Any = "int64"
    timestamp: Any = "int64"
    type: Any = "int8"
    key_type: Any = "int16"
    group: Any = "int32"
    topic: Any = "int32"
    topic_partition: Any = "int32"
    value_version: Any = "int16"
    committed_offset: Any = "int64"
    committed_leader_epoch: Any = "int32"
    metadata: Any = "int32"
    commit_timestamp: Any = "int64"
    expire_timestamp: Any = "int64"
    topic_id: Any = "int32"
    size: Any = "int32"


class Batches(NamedTuple):
    """Columns with one element per batch, for what all of its rows share; defaults as in `Rows`."""

    row: Any = "int64"  # its first row
    attributes: Any = "int32"  # with the message format in the second byte
    leader_epoch: Any = "int32"
    producer_id: Any = "int64"
    producer_epoch: Any = "int16"
    base_offset: Any = "int64"


class Others(NamedTuple):
    """Columns with one element per row not completely in typed columns; defaults as in `Rows`.

    The flags' bits are which of the two texts are null; the ends are the ends of the texts.
    """

    row: Any = "int32"
    flags: Any = "uint8"
    key_json_end: Any = "int32"
    value_json_end: Any = "int32"
