"""Instructions of the programs that `schema_program` writes and `json_text` runs.

An instruction is six numbers, `(operation, a, b, c, text, size)`: write `size` bytes of the texts
from `text` on, then execute the operation. The target of a jump is an instruction's index.
"""

from __future__ import annotations

from kgroup.protocol.record.coordinator_record import KEY_TYPES

# Operations. Null is allowed only if b is 1.
END = 0  # end of the program of a record, or of one called by MEMBER or USER_DATA
TEXT = 1  # only the text
INT = 2  # read an integer of a bytes (unsigned if b is 1) and write it
STRING = 3  # a: compact, b: nullable, c: number of the note to store its position in, or -1
BYTES = 4  # a: compact, b: nullable; written as base64
UUID = 5
ARRAY = 6  # a: compact, b: nullable, c: where to continue if there are no elements
NEXT = 7  # end of an element of the innermost array: repeat from a, or continue
MAYBE = 8  # int8, then a struct; null if below 0, or if tagged (a): 0 null, 1 struct; null: go to c
NO_TAGS = 9  # the tagged section, which must be empty
MEMBER = 10  # a: compact; bytes of a subscription (b: 0), an assignment (b: 1) or part b
USER_DATA = 11  # the same for b: the user data within
IF_LEFT = 12  # go to a if no bytes are left
TAGS = 13  # start of the tagged section
NEXT_TAG = 14  # the next tagged field; at the end of the section, go to a
IF_TAG = 15  # go to c if the tagged field has number a
NOT = 16  # give up if the tagged field is the b bytes of `texts` from a, its default
JUMP = 17  # go to a
REFUSE = 18  # give up
TRAILING = 19  # remaining bytes, if any, as base64 after the b bytes of `texts` from a
ASCII = 20  # a: the length has four bytes instead of two; give up at other characters
NO_NAME = 21  # four zero bytes, the length of a null name
TOPICS = 22  # the numbered topics of Kafka Streams, not written
TOPIC = 23  # the number of one of them, written as its name

# Parts of members with programs: rows of `Programs.parts`. The first two are for consumers
CONNECT = 2  # metadata and assignment of a worker
STREAMS = 4  # user data of subscription and assignment
STICKY = 6  # user data of a subscription, without a version in the bytes: as version 0
COOPERATIVE = 7
PARTS = 8

WORDS = 6
"""Numbers in an instruction."""

# Notes: strings on which the decoding of other fields depends
GROUP = 0
KIND = 1
PROTOCOL = 2

CONTROL = max(KEY_TYPES) + 1
"""Row of `Programs.keys` and `Programs.values` for control records; others have the key's type."""


UNKNOWN = max(set(range(CONTROL)) - KEY_TYPES.keys())
"""A number that is not a record type."""

VERSIONS = 12
"""Columns of `Programs.values` and `Programs.parts`; higher versions have no program."""
