"""Lines that compiled code writes are what `orjson` makes of the records, byte for byte."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import numpy as np
import orjson
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kgroup.columnar.schema import DECODED, ColumnBuilder, records
from kgroup.columnar.segment import decode_chunks
from kgroup.kernel import compiled
from kgroup.kernel.compiled import load
from kgroup.protocol.batch.batch import Damage
from kgroup.render import jsonl
from kgroup.render.jsonl import json_lines
from tests.columnar.random_log import logs
from tests.examples import examples, some_of
from tests.fresh_file import write_fresh
from tests.operation.log_files import commit

ROOT = Path(__file__).parents[2]
RECORDED = sorted(
    path
    for data in ("tests/data", "kgroup/sample")
    for path in ROOT.glob(f"{data}/**/*.log")
    if "damaged" not in path.parts
)


@pytest.fixture(autouse=True, scope="module")
def compiled_code() -> None:
    """Load it, for else nothing here would be written by it."""
    load()


def expected(batch: pa.RecordBatch) -> list[bytes]:
    return [*(orjson.dumps(record) for record in records(batch)), b""]


def lines(batch: pa.RecordBatch) -> list[bytes]:
    return b"".join(bytes(block) for block in json_lines(batch)).split(b"\n")


def batches(path: Path) -> Iterable[pa.RecordBatch]:
    parts = decode_chunks(path, partition=7, compiled=False)
    return [part for part in parts if not isinstance(part, Damage)]


def commits(*texts: str) -> pa.RecordBatch:
    builder = ColumnBuilder()
    for offset, text in enumerate(texts):
        record = commit(offset, f"g{text[:100]}", f"t{text[:100]}", metadata=text)
        builder.add(record.key, record.value, offset=offset)
    return builder.finish()


@pytest.mark.slow
def test_recorded_files() -> None:
    kinds = set()
    for path in some_of(RECORDED, 8):
        for batch in batches(path):
            assert lines(batch) == expected(batch), path
            types, versions = batch["type"].to_pylist(), batch["value_version"].to_pylist()
            kinds |= set(zip(types, versions, strict=True))
    assert len(kinds) > 30


@pytest.mark.slow
def test_some_rows_of_recorded_files() -> None:
    """Arrow gives them as a part of other columns, or with dictionaries of more than they need."""
    for path in RECORDED:
        if path.is_relative_to(ROOT / "kgroup"):
            for batch in batches(path):
                some = pa.array([row % 3 != 1 for row in range(len(batch))])
                for rows in (batch.filter(some), batch.slice(3, len(batch) // 2)):
                    assert lines(rows) == expected(rows), path


@pytest.mark.slow
@settings(max_examples=examples(10))
@given(log=logs(), size=st.integers(1, 2000))
def test_any_log(log: bytes, size: int, tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.getbasetemp() / "any.log"
    write_fresh(path, log)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(jsonl, "BLOCK_SIZE", size)
        for batch in batches(path):
            assert lines(batch) == expected(batch)


@given(st.lists(st.text(max_size=50), min_size=1, max_size=40))
def test_any_text(texts: list[str]) -> None:
    batch = commits(*texts)
    assert lines(batch) == expected(batch)


def around(numbers: Iterable[int], bits: int) -> list[int]:
    found = {sign * number + d for number in numbers for sign in (-1, 1) for d in (-1, 0, 1)}
    return sorted(n for n in found if -(1 << bits - 1) <= n < 1 << bits - 1)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "bits"), [("committed_offset", 64), ("topic_partition", 32), ("producer_epoch", 16)]
)
def test_numbers_of_every_length(name: str, bits: int) -> None:
    powers = [*(10**digits for digits in range(20)), 1 << bits - 1]
    random = np.random.default_rng(5)
    some = [int(random.integers(0, 10**digits)) for digits in range(1, 19) for _ in range(50)]
    numbers = [*around([*powers, *some], bits), None]
    columns = dict(zip(DECODED.names, commits(*[""] * len(numbers)).columns, strict=True))
    columns[name] = pa.array(numbers, DECODED.field(name).type)
    batch = pa.RecordBatch.from_arrays(list(columns.values()), schema=DECODED)
    assert lines(batch) == expected(batch)


def test_a_block_is_used_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jsonl, "BLOCK_SIZE", 1000)
    batch = commits(*(f"text {number}" for number in range(100)))
    free: jsonl.Memory = []
    blocks = [bytes(block) for block in json_lines(batch, free)]
    assert len(blocks) > 10
    assert b"".join(blocks).split(b"\n") == expected(batch)
    assert len(free) == 1


def test_a_row_larger_than_a_block(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a file repeats without end is written row by row, never all at once."""
    monkeypatch.setattr(jsonl, "BLOCK_SIZE", 600)
    batch = commits(*("\n" * size for size in (3, 20_000, 5, 20_000, 20_000)))
    blocks = [bytes(block) for block in json_lines(batch)]
    assert len(blocks) == 5
    assert b"".join(blocks).split(b"\n") == expected(batch)


def test_without_compiled_code(monkeypatch: pytest.MonkeyPatch) -> None:
    """A small input does not wait for a compiler, and gives the same."""
    monkeypatch.setattr(jsonl, "is_loaded", lambda: False)
    monkeypatch.setattr(compiled, "load", None)
    batch = commits("a", '"\x00é')
    assert lines(batch) == expected(batch)
