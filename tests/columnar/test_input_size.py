"""Compiled code is for inputs where it is faster, what it takes to have it included."""

from __future__ import annotations

from pathlib import Path

import pytest

from kgroup.columnar import input_size
from kgroup.columnar.input_size import is_large
from kgroup.protocol.batch.byte_window import ByteRange
from tests.columnar.log_writer import batch, compress, record
from tests.operation.log_files import commit


def zeros(path: Path, size: int) -> Path:
    path.write_bytes(bytes(size))
    return path


@pytest.mark.parametrize(
    ("loaded", "kept", "least"),
    [(True, True, 1 << 15), (False, True, 1 << 20), (False, False, 8 << 20)],
)
def test_sizes(
    loaded: bool, kept: bool, least: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(input_size, "is_loaded", lambda: loaded)
    monkeypatch.setattr(input_size, "are_kept", lambda: kept)
    assert is_large([zeros(tmp_path / "large", least)])
    assert not is_large([zeros(tmp_path / "small", least - 1)])
    half = zeros(tmp_path / "half", least // 2)
    assert is_large([half, half])
    whole = zeros(tmp_path / "whole", 4 * least)
    assert is_large([whole], ByteRange(least, 2 * least))
    assert not is_large([whole], ByteRange(least, 2 * least - 1))
    assert is_large([whole], ByteRange(3 * least))
    assert not is_large([whole], ByteRange(3 * least + 1))
    assert not is_large([half], ByteRange(0, least))


def test_a_cache_that_may_not_be_looked_into(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As of who has another user's HOME: the system does not say whether a file is there."""
    monkeypatch.setattr(input_size, "is_loaded", lambda: False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / ("x" * 256)))  # ENAMETOOLONG, for root too
    assert not is_large([zeros(tmp_path / "log", 1 << 20)])


def test_many_compressed_records(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(input_size, "is_loaded", lambda: False)
    count = 1 << 16
    body = compress("zstd", record(commit(0, "g")) * count)
    packed = batch([], codec="zstd", body=body, count=count, last_offset_delta=count - 1)
    few = batch([commit(0, "g")])
    path = tmp_path / "log"
    path.write_bytes(few + packed + few)
    assert len(few + packed) < 1 << 19
    assert is_large([path])
    assert is_large([path], ByteRange(len(few), len(few + packed)))
    assert not is_large([path], ByteRange(0, len(few)))
    assert not is_large([path], ByteRange(len(few + packed)))
