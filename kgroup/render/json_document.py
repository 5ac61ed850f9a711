"""Versioned JSON documents and JSON lines.

A document is one object with one row of `data` per line, so that it can be written while
the rows are read::

    {"command":"list","schema_version":1,"data":[
    {"group_id":"a"},
    {"group_id":"b"}
    ],"errors":[]}

A file of offsets has one more field, the store that they come from.

The rows of each command are described in ``docs/command``. A release that removes a field,
or changes the meaning of one, raises `SCHEMA_VERSION`; a new field does not.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict

from kgroup.operation.packed_rows import PackedRows
from kgroup.render.cell import HARMFUL

SCHEMA_VERSION = 1

_ROWS_PER_BLOCK = 1000


def json_rows(rows: Iterable[object]) -> Iterator[bytes]:
    """Return dataclasses, or other values that msgspec supports, as JSON lines.

    Returns:
        Blocks of whole lines: some rows each if all rows are there, else one block per row.
    """
    import msgspec

    if isinstance(rows, PackedRows):
        yield from rows.json_lines()
        return
    encoder = msgspec.json.Encoder(decimal_format="number")
    for block in _blocks(rows):
        try:
            yield encoder.encode_lines(block)
        except UnicodeEncodeError:
            # A file name need not be UTF-8; Python then has lone surrogates, which must be escaped.
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
    """Escape characters that JSON allows, but that could control a terminal."""
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
    """Yield a document.

    Args:
        command: command that made the document.
        lines: blocks of whole JSON lines for `data`.
        errors: errors, read after all `lines`; rows as for `json_rows`.
        store: store that the rows were saved from; None to omit it.
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
    """Yield lines with commas between them; a JSON line contains no line break itself."""
    before = b"\n"
    for block in lines:
        if len(block):
            yield before + bytes(block[:-1]).replace(b"\n", b",\n")
            before = b",\n"
    if before != b"\n":
        yield b"\n"
