"""Faults in JSON, in the wording of kgroup's other messages."""

from __future__ import annotations

import re

import msgspec

TRUNCATED = "expected more, found the end of the file; copy the file, or write it, again"
_SENTENCES = (
    (r"^Expected (.*), got ", r"expected \1, found "),
    (r"^Expected int <= (.*)", r"expected a number up to \1"),
    (r"^Expected int >= (.*)", r"expected a number from \1 on"),
    (r"^Expected str of length <= (.*)", r"expected a text of at most \1 characters"),
    (r"^Invalid enum value ", "expected a word that is known, found "),
    (r"^Object missing required field (.*)", r"expected a field \1, found none"),
    (r"^JSON is malformed: expected (.*) \(", r"expected JSON, found no \1 ("),
    (r"^JSON is malformed: ", "expected JSON, found "),
    (r"^Input data was truncated", TRUNCATED),
)


def utf8_fault(error: UnicodeDecodeError) -> str:
    """Return the fault of text in another encoding, with its place."""
    byte = error.object[error.start]
    return f"expected UTF-8, found the byte 0x{byte:02x} at position {error.start}"


def json_fault(error: msgspec.DecodeError | UnicodeDecodeError) -> str:
    """Return the location and the fault of a msgspec error.

    An example of the original message is "Expected `int`, got `str` - at `$.a`".
    """
    what, _, where = str(error).partition(" - at ")
    text = what.replace("`", "")
    for pattern, ours in _SENTENCES:
        text = re.sub(pattern, ours, text, flags=re.DOTALL)
    if isinstance(error, msgspec.ValidationError):
        return f"{where.replace('`', '') or '$'}: {text}"
    return text
