"""What Python and compiled code must agree on: the layout of the memory that they share.

Each class here is a layout: its annotations name the fields in order, and `layout` makes them a
structured dtype. Compiled code reads and writes the fields by name, as Python does. A field that is
an address says of what; the memory there belongs to Python, which keeps it.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, get_type_hints

if TYPE_CHECKING:
    import numpy as np

PADDING = 64
"""Bytes behind the end of a buffer that may be read, and overwritten in one that is written."""


FOREVER = (1 << 63) - 1
"""No limit for THROUGH_OFFSET and THROUGH_MS."""

LOCATOR_SHIFT = 25
"""A record's locator is its batch's position and, in so many low bits, its number in the batch.

Compressed records of one batch are at most `MAX_UNCOMPRESSED` bytes: fewer than 2^25 records.
"""


class Walk:
    """The state of a walk over a chunk of a log, of which a piece is in memory."""

    # where it stands
    position: int  # address of the next batch, or of the open one
    end: int  # of the piece's whole batches, or of those that are unpacked
    record: int  # address of the next record of the open batch; 0: none is open
    left: int  # how many records it still has
    limit: int  # where they end
    last_delta: int  # offset delta of the record before
    unpacked: int  # address of the records of the next compressed batch
    unpacked_end: int
    largest_batch: int  # bytes
    # which records are wanted: the address of the next of their locators, and where these end
    keep: int  # 0: all are wanted
    keep_end: int
    file_base: int  # what is added to an address to make it a position in the file
    # the piece
    file: int  # descriptor
    chunk_end: int  # position in the file
    piece: int  # its address
    read_size: int  # bytes that are read at once
    needed_size: int  # bytes that the next batch claims to need, if they are more
    whole_end: int  # of the batches in it that claim to be whole
    read_end: int  # of what was read
    packed: int  # how many of the batches are compressed ones of message format v2
    is_unpacked: int  # whether compressed batches are to be unpacked
    # how much of the columns and texts is used
    rows: int
    batches: int
    others: int
    key_json_used: int  # bytes
    value_json_used: int
    # the same, and `keep`, as they were before the open batch
    saved_rows: int
    saved_batches: int
    saved_others: int
    saved_key_json_used: int
    saved_value_json_used: int
    saved_keep: int
    # how much there is
    row_capacity: int  # of batches, too
    other_capacity: int
    key_json_capacity: int
    value_json_capacity: int
    # why it stopped
    growing: int  # number of the table that is full
    odd_key: int  # address of the odd record's key; 0: null
    odd_key_size: int
    odd_value: int
    odd_value_size: int
    # addresses of what `decode` fills
    row_columns: Rows
    batch_columns: Batches  # `list_keys` fills them, too
    other_columns: Others
    key_json: int
    value_json: int
    tables: Annotated[list[int], 4]  # of groups, topics, metadata and topic ids: `Table`
    machine: int  # `Machine`
    # by table, what the record before had, which this one often has too
    last_text: Annotated[list[int], 4]
    last_size: Annotated[list[int], 4]  # -1: unknown
    last_number: Annotated[list[int], 4]
    # what `scan` fills: pairs of batches and bytes for each kind
    counts: int
    # what `list_keys` fills and counts, and what it needs for that
    hashes: int
    locators: int
    keyless: int  # records without a key
    seed: int
    through_offset: int
    through_ms: int


class Table:
    """A table of `byte_table`: distinct strings, numbered in the order in which they came."""

    slots: int  # address: 31 bits of the hash, then the number of the string + 1; 0 is free
    mask: int  # the number of slots, a power of two, less 1
    ends: int  # address (int32): where each string ends in the text; the first is 0
    ends_capacity: int
    text: int  # address
    text_capacity: int
    count: int
    used: int  # bytes of the text
    is_odd: int  # whether a string is no UTF-8


class Machine:
    """What `json_text` runs programs with: each thread has its own."""

    # addresses: of the arrays of `schema_program.Programs`, and of the alphabets of base64
    code: int
    texts: int
    keys: int
    values: int
    parts: int
    standard: int
    url: int
    # strings that decide about others: where they begin, and their size (-1: null)
    note_start: Annotated[list[int], 3]
    note_size: Annotated[list[int], 3]
    stack: Annotated[list[int], 64]
    # topics of Kafka Streams: how many, and by number where the length of each stands
    topic_count: int
    topics: Annotated[list[int], 1024]


STACK_SIZE = 64
MOST_TOPICS = 1024


class Lines:
    """The state of writing rows as text."""

    row: int  # the next one
    rows: int
    kinds: int  # address: a byte for each row
    templates: int  # address: for each kind the address of the first `Piece` of its template
    out: int  # address of where to write
    room: int  # where that ends


class Piece:
    """A piece of a template: a text that is always the same, or a column."""

    kind: int
    data: int  # address of the literal, or of the column's numbers or codes
    size: int  # bytes of the literal, or of one number or code; 0: texts without codes
    bitmap: int  # address; 0: no row is null
    first: int  # bit of the first row
    ends: int  # address, of texts (int32): where each begins, and the end of the last
    text: int  # address
    null: int  # what stands for null, up to 8 bytes as a word
    null_size: int


@cache
def layout(kind: type) -> np.dtype[np.void]:
    """Make the structured dtype of a class of this module; all fields are int64.

    Of columns (`Rows`, say) the layout is that of their addresses.
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
FULL = 1  # the rows or the texts are full; this batch is not begun
GROW = 2  # a dictionary is full; this record is not begun
BAD = 3  # the batch is not in order, or of a kind that only the reference reader knows
ODD = 4  # the record is not in order; its row has offset and timestamp and nothing else
UNPACK = 5  # the batches behind END are to be unpacked, as far as there are such
LARGE = 6  # the next batch needs more memory than there is for a piece
READ = 7  # another piece is in memory; no walk stops for this

# Kinds of batches that `scan` counts: 8 * magic + codec
KINDS = 8 * 3

# Flags of a row
COMMIT = 1  # an offset commit: topic and topic_partition are there
VALUE = 2  # an offset commit with a value: committed_offset, metadata, commit_timestamp_ms are
LEADER_EPOCH = 4
EXPIRE = 8
TOPIC_ID = 16
VERSION = 32  # value_version is there
GROUP = 64
KEY_TYPE = 128


# Attributes of a batch
COMPRESSED = 7
LOG_APPEND_TIME = 8
TRANSACTIONAL = 16
CONTROL = 32


class Rows(NamedTuple):
    """Columns with an element for each row; what stands here is their types."""

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
    """Columns with an element for each batch: what all of its rows have in common; likewise."""

    row: Any = "int64"  # the first
    attributes: Any = "int32"  # with the message format in the second byte
    leader_epoch: Any = "int32"
    producer_id: Any = "int64"
    producer_epoch: Any = "int16"
    base_offset: Any = "int64"


class Others(NamedTuple):
    """Columns with an element for each row that is no whole offset commit; likewise.

    The flags' bits say which of its two texts are null; the ends are where the texts end.
    """

    row: Any = "int32"
    flags: Any = "uint8"
    key_json_end: Any = "int32"
    value_json_end: Any = "int32"
