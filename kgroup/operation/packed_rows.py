"""Rows of large answers, kept as compressed JSON lines."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, TypeVar, overload

_Row = TypeVar("_Row")
_CODEC = "lz4"


class PackedBlock(NamedTuple):
    """Some rows as compressed JSON lines.

    Attributes:
        row_count: number of rows.
        size: bytes of the lines.
        data: the compressed lines.
    """

    row_count: int
    size: int
    data: bytes


def pack(rows: Sequence[object]) -> PackedBlock:
    """Compress some rows."""
    import msgspec
    import pyarrow as pa

    lines = msgspec.json.Encoder().encode_lines(rows)
    return PackedBlock(len(rows), len(lines), pa.compress(lines, codec=_CODEC, asbytes=True))


class PackedRows(Sequence[_Row]):
    """Rows that become objects only while they are read, some at a time.

    A rebalance takes a twentieth of the memory of its objects, and `json_lines` need not encode it
    again.

    Args:
        kind: class of the rows.
        blocks: the rows, in order.
    """

    def __init__(self, kind: type[_Row], blocks: Sequence[PackedBlock]) -> None:
        self._kind = kind
        self._blocks = blocks
        self._count = sum(block.row_count for block in blocks)

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[_Row]:
        import msgspec

        decoder = msgspec.json.Decoder(self._kind)
        for lines in self.json_lines():
            yield from decoder.decode_lines(lines)

    @overload
    def __getitem__(self, index: int) -> _Row: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[_Row]: ...
    def __getitem__(self, index: Any) -> Any:
        return tuple(self)[index]

    def json_lines(self) -> Iterator[bytes]:
        """Yield blocks of whole JSON lines."""
        import pyarrow as pa

        for block in self._blocks:
            yield pa.decompress(block.data, block.size, codec=_CODEC, asbytes=True)
