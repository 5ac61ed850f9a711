"""Versioned JSON documents and JSON lines.

A document is one object, a row of `data` a line, so that it can be written while it is read::

    {"command":"list","schema_version":1,"data":[
    {"group_id":"a"},
    {"group_id":"b"}
    ],"errors":[]}

A file of offsets says from which store it is, as one more field.

What each command's rows hold is written down in ``docs/command``. A change that takes a field
away, or gives one another meaning, raises `SCHEMA_VERSION`; a new field does not.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict

from kgroup.render.cell import HARMFUL

SCHEMA_VERSION = 1

_ROWS_PER_BLOCK = 1000


def json_rows(rows: Iterable[object]) -> Iterator[bytes]:
    """Write dataclasses, or what else msgspec takes, as JSON lines.

    Returns:
        Blocks of whole lines: one of many where all rows are there, one of each row as it comes
        else.
    """
    import msgspec

    encoder = msgspec.json.Encoder(decimal_format="number")
    for block in _blocks(rows):
        try:
            yield encoder.encode_lines(block)
        except UnicodeEncodeError:
            # A file's name need not be UTF-8; Python has lone surrogates then, to be escaped.
            import json

            for row in block:
                yield json.dumps(row, default=asdict, separators=(",", ":")).encode() + b"\n"


def _blocks(rows: Iterable[object]) -> Iterator[Sequence[object]]:
    if isinstance(rows, list | tuple):
        for start in range(0, len(rows), _ROWS_PER_BLOCK):
            yield rows[start : start + _ROWS_PER_BLOCK]
    else:
        yield from ([row] for row in rows)


def json_on_terminal(text: bytes | memoryview) -> str:
    """Write as escapes what could drive a terminal, and what JSON may hold as it is."""
    return HARMFUL.sub(
        lambda match: match[0] if match[0] == "\n" else f"\\u{ord(match[0]):04x}",
        str(text, "utf-8", "replace"),
    )


def json_document(
    command: str,
    lines: Iterable[bytes | memoryview],
    errors: Iterable[object],
    store: object = None,
) -> Iterator[bytes]:
    """Write a document.

    Args:
        command: that made it.
        lines: blocks of whole JSON lines, `data`.
        errors: read after all `lines`; rows as for `json_rows`.
        store: that the rows were saved from; None: it is not said.
    """
    yield f'{{"command":"{command}","schema_version":{SCHEMA_VERSION},'.encode()
    if store is not None:
        (line,) = json_rows([store])
        yield b'"store":' + line.rstrip() + b","
    yield b'"data":['
    yield from _elements(lines)
    yield b'],"errors":['
    yield from _elements(json_rows(errors))
    yield b"]}\n"


def _elements(lines: Iterable[bytes | memoryview]) -> Iterator[bytes]:
    """Put commas between lines; a JSON line holds no line break of its own."""
    before = b"\n"
    for block in lines:
        if len(block):
            yield before + bytes(block[:-1]).replace(b"\n", b",\n")
            before = b",\n"
    if before != b"\n":
        yield b"\n"
