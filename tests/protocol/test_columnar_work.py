"""How often compiled decoding begins anew where a log is damaged all over."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kgroup.protocol import columnar
from kgroup.protocol.batch import Damage
from kgroup.protocol.columnar import decode_chunks
from kgroup.protocol.record_batch import read_file_batches
from tests.operation.log_files import commit
from tests.protocol.log_writer import batch


def test_damage_beside_damage_is_read_in_one_go(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To begin anew costs as much as some 100 KB of reading: not once for every damage."""
    sound = [batch([commit(offset, "g")]) for offset in range(1200)]
    log = [
        data[:-1] + bytes([data[-1] ^ 1]) if offset < 300 and offset % 2 else data
        for offset, data in enumerate(sound)
    ]
    path = tmp_path / "log"
    path.write_bytes(b"".join(log))
    begun: list[int] = []
    read = read_file_batches

    def counted(*args: Any, **options: Any) -> Any:
        begun.append(options["base_position"])
        return read(*args, **options)

    monkeypatch.setattr(columnar, "read_file_batches", counted)
    parts = list(decode_chunks(path, compiled=True))
    assert sum(isinstance(part, Damage) for part in parts) == 150
    assert sum(part.num_rows for part in parts if not isinstance(part, Damage)) == 1050
    assert begun == [len(log[0]), path.stat().st_size]  # and whether the end is one
