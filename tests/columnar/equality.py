"""Both decoders on one log: in property tests, and in the lanes of the fuzzer."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

import orjson
import pyarrow as pa

from kgroup.columnar.batch_key import Limits
from kgroup.columnar.batch_scan import scan_batches
from kgroup.columnar.chunk_size import SIZES
from kgroup.columnar.last_record import last_records
from kgroup.columnar.scan import Scan
from kgroup.columnar.schema import DECODED, records
from kgroup.columnar.segment import decode_chunks
from kgroup.model.delta import Delta
from kgroup.model.problem import ProblemLog
from kgroup.protocol.batch.batch import Damage
from kgroup.protocol.batch.transaction import TransactionIndex
from kgroup.render.jsonl import json_lines
from kgroup.source.log.segment_file import find_segments
from kgroup.source.log.source import replay_groups

PLAIN = pa.schema(
    pa.field(
        field.name, field.type.value_type if pa.types.is_dictionary(field.type) else field.type
    )
    for field in DECODED
)
"""`DECODED` without dictionaries, whose order differs."""


class DifferentError(Exception):
    """Two ways to read the same bytes disagree, or bytes were counted twice or not at all."""


def same(found: Sequence[Any], expected: Sequence[Any], what: str) -> None:
    if list(found) == list(expected):
        return
    for index, (left, right) in enumerate(zip(found, expected, strict=False)):
        if left != right:
            if isinstance(left, dict) and isinstance(right, dict):
                names = [name for name in right if left[name] != right[name]]
                left, right = ({name: row[name] for name in names} for row in (left, right))
            raise DifferentError(f"{what} differ at {index}: {left!r} instead of {right!r}")
    raise DifferentError(f"{what} differ: {len(found)} instead of {len(expected)}")


@dataclass(frozen=True)
class Decoded:
    """Rows of `DECODED`, and the damage between them, with the number of rows before it."""

    rows: list[pa.RecordBatch]
    damages: list[tuple[int, Damage]]

    def table(self) -> pa.Table:
        return self._table().cast(PLAIN).combine_chunks()

    def joined(self) -> list[pa.RecordBatch]:
        """All rows in one batch: what is done with one takes as long as with many."""
        batches: list[pa.RecordBatch]
        batches = self._table().unify_dictionaries().combine_chunks().to_batches()
        return batches

    def _table(self) -> pa.Table:
        return pa.Table.from_batches(self.rows, DECODED)


def decoded(
    path: Path, *, by_kernel: bool, transactions: Callable[[], TransactionIndex] | None = None
) -> Decoded:
    rows: list[pa.RecordBatch] = []
    damages: list[tuple[int, Damage]] = []
    parts = decode_chunks(path, partition=3, transactions=transactions, compiled=by_kernel)
    for part in parts:
        if isinstance(part, Damage):
            damages.append((sum(batch.num_rows for batch in rows), part))
            continue
        part.validate(full=True)
        if part.schema != DECODED:
            raise DifferentError(f"another schema: {part.schema}")
        rows.append(part)
    return Decoded(rows, damages)


def check_equal(path: Path) -> pa.Table:
    """Compare what both decoders make of a log; give its rows."""
    found = decoded(path, by_kernel=True)
    same_rows(found, decoded(path, by_kernel=False))
    return found.table()


def same_rows(found: Decoded, expected: Decoded) -> None:
    left, right = found.table(), expected.table()
    if not left.equals(right):
        same(left.to_pylist(), right.to_pylist(), "compiled and reference decoder")
    same(found.damages, expected.damages, "damage to the compiled and to the reference decoder")


def same_lines(found: Decoded, expected: Decoded) -> bytes:
    """Compare JSON of compiled columns with that of records as objects; give it."""
    lines = b"".join(bytes(text) for rows in found.joined() for text in json_lines(rows))
    right = b"".join(
        orjson.dumps(record, option=orjson.OPT_APPEND_NEWLINE)
        for rows in expected.rows
        for record in records(rows)
    )
    if lines != right:
        same(lines.splitlines(), right.splitlines(), "lines of compiled columns and of records")
    return lines


def scanned(path: Path, *, compiled: bool) -> Scan:
    """Kinds of batches, their bytes, and markers."""
    total = Scan()
    for scan in scan_batches(path, compiled=compiled):
        total.batches += scan.batches
        total.bytes += scan.bytes
        total.markers += scan.markers
    return total


def groups(path: Path, *, compiled: bool) -> list[object]:
    """The groups, names of topics, and what could not be replayed."""
    delta, damage = Delta(3), ProblemLog()
    replay_groups(find_segments([path]), delta, damage, compiled=compiled)
    known = [*delta.groups().items(), *delta.topic_names.items()]
    return [*known, *delta.problems(), *sorted(damage.problems(), key=repr)]


@dataclass(frozen=True)
class Way:
    """What of a log is compared beside its rows; a part of a log is read in the same way.

    Attributes:
        limits: which records count for the last one of a key; without transactions.
        is_replayed: whether groups are made of them.
        sizes: those of `SIZES` in which compiled code reads.
    """

    limits: Limits
    is_replayed: bool
    sizes: Mapping[str, Any]

    @contextmanager
    def in_sizes(self) -> Iterator[None]:
        with ExitStack() as stack:
            for name, size in self.sizes.items():
                stack.enter_context(patch.object(SIZES, name, size))
            yield


def check_both_ways(path: Path, way: Way) -> None:
    """Scan a log, decode it, find its last records and replay them, with and without the kernel.

    Raises:
        DifferentError: they differ.
        Exception: whatever a reader lets out.
    """
    scan = scanned(path, compiled=False)
    index = TransactionIndex()
    for marker in scan.markers:
        index.add_marker(marker.producer_id, marker.offset, marker.is_commit)
    limits = way.limits._replace(transactions=lambda: index)
    with way.in_sizes():
        same([scanned(path, compiled=True)], [scan], "compiled and reference scan")
        compiled = decoded(path, by_kernel=True, transactions=lambda: index)
        last = _last(path, limits, compiled=True)
        replayed = groups(path, compiled=True) if way.is_replayed else []
    expected = decoded(path, by_kernel=False, transactions=lambda: index)
    same_rows(compiled, expected)
    same(last, _last(path, limits, compiled=False), "compiled and reference last records")
    if way.is_replayed:
        plain = groups(path, compiled=False)
        same(replayed, plain, "groups by compiled and by plain replay")
    same_lines(compiled, expected)


def _last(path: Path, limits: Limits, *, compiled: bool) -> list[object]:
    """Where the last records stand, what they say, what could not be read, how many have no key."""
    (last,) = last_records([path], limits, compiled=compiled)
    rows = rows_of(decode_chunks(path, locators=last.locators, compiled=compiled))
    if len(rows) != len(last.locators):
        raise DifferentError(f"{len(last.locators)} last records, {len(rows)} of them decoded")
    return [*last.locators.tolist(), *rows, *last.damages, last.keyless]


def rows_of(parts: Iterable[pa.RecordBatch | Damage]) -> list[dict[str, object]]:
    return [row for part in parts if not isinstance(part, Damage) for row in part.to_pylist()]
