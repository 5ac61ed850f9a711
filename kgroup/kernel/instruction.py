"""The instructions of the programs of `schema_program`, which `json_text` runs: what both agree on.

An instruction is six numbers, `(operation, a, b, c, text, size)`: write `size` bytes of the texts
from `text` on, then do the operation. A jump's target is an instruction's index.
"""

from __future__ import annotations

from kgroup.protocol.record.coordinator_record import KEY_TYPES

# Operations. "null" may only come where b is 1.
END = 0  # of the program: of a record's, or of one that MEMBER or USER_DATA called
TEXT = 1  # nothing but the text
INT = 2  # read an integer of a bytes (signed, or not where b is 1) and write it
STRING = 3  # a: compact, b: nullable, c: the note that keeps where it is, or -1
BYTES = 4  # a: compact, b: nullable; written as base64
UUID = 5
ARRAY = 6  # a: compact, b: nullable, c: where to go on if there are no elements
NEXT = 7  # end of an element of the innermost array: once more from a, or on
MAYBE = 8  # a struct behind an int8, null below 0; a: a tagged one behind 1, null: 0; then on at c
NO_TAGS = 9  # the tagged section, which must be empty
MEMBER = 10  # a: compact; bytes that are a subscription (b: 0) or an assignment (b: 1), or part b
USER_DATA = 11  # likewise of b: the user data within
IF_LEFT = 12  # go on at a if nothing is left
TAGS = 13  # begin of the tagged section
NEXT_TAG = 14  # the next tagged field, or the end of the section: then go on at a
IF_TAG = 15  # go on at c if the tagged field has number a
NOT = 16  # the tagged field must not be the b bytes of `texts` from a, its default
JUMP = 17  # go on at a
REFUSE = 18  # give up
TRAILING = 19  # what is left, if anything, as base64 behind the b bytes of `texts` from a
ASCII = 20  # a: the length takes four bytes, not two; give up at another character
NO_NAME = 21  # four bytes of 0, the length of a name that is null
TOPICS = 22  # the numbered topics of Kafka Streams, which nothing is written for
TOPIC = 23  # the number of one of them, written as its name

# Parts of members that have programs: rows of `Programs.parts`. The first two of consumers
CONNECT = 2  # metadata and assignment of a worker
STREAMS = 4  # user data of subscription and assignment
STICKY = 6  # user data of a subscription, whose version is not in the bytes: as version 0
COOPERATIVE = 7
PARTS = 8

WORDS = 6
"""Numbers in an instruction."""

# Notes: strings that decide about others
GROUP = 0
KIND = 1
PROTOCOL = 2

CONTROL = max(KEY_TYPES) + 1
"""Row of `Programs.keys` and `Programs.values` for control records; others have the key's type."""


UNKNOWN = max(set(range(CONTROL)) - KEY_TYPES.keys())
"""A number that no type has."""

VERSIONS = 12
"""Columns of `Programs.values` and `Programs.parts`; higher versions have no program."""
