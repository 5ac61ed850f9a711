"""What Python and compiled code must agree on: the layout of the memory that they share.

Compiled code knows memory by address only. Three blocks of words (int64) tell it the addresses of
all else: the state of a walk over a log, a table of `byte_table`, and the machine of
`json_text`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

PADDING = 64
"""Bytes behind the end of a buffer that may be read, and overwritten in one that is written."""

# The state of a walk over a chunk of a log, of which a piece is in memory: where it stands
POSITION = 0  # of the next batch, or of the open one
END = 1  # of the piece's whole batches, or of those that are unpacked
RECORD = 2  # the next record of the open batch; 0: none is open
LEFT = 3  # how many records it still has
LIMIT = 4  # their end
LAST_DELTA = 5  # offset delta of the record before
UNPACKED = 6  # where the records of the next compressed batch stand
UNPACKED_END = 7
LARGEST_BATCH = 8
# which records are wanted: the address of the first of their locators that is still to come, and
# the end of these; 0: all are
KEEP = 9
KEEP_END = 10
FILE_BASE = 11  # what is added to an address to make it a position in the file
# the piece
FILE = 12  # its descriptor
CHUNK_END = 13  # position in the file
PIECE = 14  # the memory for it
READ_SIZE = 15  # bytes that are read at once
NEEDED_SIZE = 16  # bytes that the next batch claims to need, if they are more
WHOLE_END = 17  # of the batches in it that claim to be whole
READ_END = 18  # of what was read
PACKED = 19  # how many of the batches are compressed ones of message format v2
RECORDS = 20  # how many records the batches claim to have
IS_UNPACKED = 21  # whether compressed batches are to be unpacked
# how much is used of what it fills
ROWS = 22
BATCHES = 23
OTHERS = 24
TEXTS = 25  # bytes of key_json and value_json
USED_END = 27
SAVED = 27  # ROWS to USED_END, and KEEP, as they were before the open batch
SAVED_KEEP = 32
# how much there is
ROW_CAPACITY = 33
OTHER_CAPACITY = 34
TEXT_CAPACITIES = 35
# why it stopped
GROWING = 37  # the dictionary that is full
ODD_KEY = 38  # the odd record
ODD_KEY_SIZE = 39
ODD_VALUE = 40
ODD_VALUE_SIZE = 41
# addresses: of columns, texts, the tables of groups, topics, metadata and topic ids, the machine
ROW_COLUMNS = 42
BATCH_COLUMNS = 58
OTHER_COLUMNS = 64
TEXT_COLUMNS = 68
TABLES = 70
MACHINE = 74
# what `list_keys` needs besides
SEED = 75
THROUGH_OFFSET = 76
THROUGH_MS = 77
# what it counts: records without a key
KEYLESS = 78
# by table, what the record before had, which this one often has too: a string's address, its size
# (-1: unknown) and its number
LAST = 79
STATE_SIZE = LAST + 3 * 4

FOREVER = (1 << 63) - 1
"""No limit for THROUGH_OFFSET and THROUGH_MS."""

LOCATOR_SHIFT = 25
"""A record's locator is its batch's position and, in so many low bits, its number in the batch.

Compressed records of one batch are at most `MAX_UNCOMPRESSED` bytes: fewer than 2^25 records.
"""

# A table: slots are 31 bits of the hash, then the number of the string + 1; 0 is free
TABLE_SLOTS = 0
TABLE_MASK = 1
TABLE_ENDS = 2  # int32: where each string ends in the text; the first is 0
TABLE_ENDS_CAPACITY = 3
TABLE_TEXT = 4
TABLE_TEXT_CAPACITY = 5
TABLE_COUNT = 6
TABLE_USED = 7  # bytes of the text
TABLE_IS_ODD = 8  # a string is no UTF-8
TABLE_SIZE = 9

# The words of a machine's block
BLOCK_CODE = 0
BLOCK_TEXTS = 1
BLOCK_KEYS = 2
BLOCK_VALUES = 3
BLOCK_PARTS = 4
BLOCK_STANDARD = 5  # the alphabets of base64
BLOCK_URL = 6
BLOCK_NOTES = 7  # start and size (-1: null) of the strings that decide about others
BLOCK_STACK = 13
BLOCK_STACK_SIZE = 64
# topics of Kafka Streams: how many, and by number where the length of each stands
BLOCK_TOPIC_COUNT = BLOCK_STACK + BLOCK_STACK_SIZE
BLOCK_TOPICS = BLOCK_TOPIC_COUNT + 1
BLOCK_MOST_TOPICS = 1024
BLOCK_SIZE = BLOCK_TOPICS + BLOCK_MOST_TOPICS

# The state of writing rows as text: the next row, how many there are, the kind of each (a byte), a
# word for each kind: where its template is; and where to write, up to where
LINE_ROW = 0
LINE_ROWS = 1
LINE_KINDS = 2
LINE_TEMPLATES = 3
LINE_OUT = 4
LINE_ROOM = 5
LINE_STATE_SIZE = 6

# A piece of a template
PIECE_KIND = 0
PIECE_DATA = 1  # address of the literal, or of the column's numbers or codes
PIECE_SIZE = 2  # bytes of the literal, or of one number or code; 0: texts without codes
PIECE_BITMAP = 3  # 0: no row is null
PIECE_FIRST = 4  # bit of the first row
PIECE_ENDS = 5  # of texts: int32, where each begins, and the end of the last
PIECE_TEXT = 6
PIECE_NULL = 7  # what stands for null, up to 8 bytes as a word
PIECE_NULL_SIZE = 8
PIECE_WORDS = 9

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
