"""Both decoders on one log."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from kgroup.columnar.schema import DECODED
from kgroup.columnar.segment import decode_chunks
from kgroup.protocol.batch.batch import Damage

PLAIN = pa.schema(
    [
        pa.field(f.name, f.type.value_type if pa.types.is_dictionary(f.type) else f.type)
        for f in DECODED
    ]
)


def decoded(path: Path, *, by_kernel: bool) -> tuple[pa.Table, list[Damage]]:
    """All rows, with texts instead of dictionaries, and the damage."""
    parts = list(decode_chunks(path, partition=7, compiled=by_kernel))
    table = pa.Table.from_batches((p for p in parts if not isinstance(p, Damage)), schema=DECODED)
    table.validate(full=True)
    return table.cast(PLAIN).combine_chunks(), [p for p in parts if isinstance(p, Damage)]


def check_equal(path: Path) -> pa.Table:
    expected, expected_damages = decoded(path, by_kernel=False)
    found, damages = decoded(path, by_kernel=True)
    assert damages == expected_damages, path
    if not found.equals(expected):
        for name in DECODED.names:
            assert found[name].to_pylist() == expected[name].to_pylist(), (path, name)
    assert found.equals(expected), path
    return found
