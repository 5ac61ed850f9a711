"""A table of SQLite keeps what every store of offsets promises."""

from __future__ import annotations

from pathlib import Path

import pytest

from kgroup.source.sql.layout import TableLayout
from kgroup.source.sql.store import SqlOffsetStore
from tests.contract.offset_store import OffsetStoreContract

PLAIN = TableLayout()
FULL = TableLayout(metadata="metadata", leader_epoch="leader_epoch", updated_at="updated_at")
FENCING = TableLayout(metadata="metadata", generation="generation")


@pytest.mark.parametrize("layout", [PLAIN, FULL, FENCING], ids=["plain", "full", "fencing"])
class TestContract(OffsetStoreContract):
    deletes_groups = False

    @pytest.fixture(autouse=True)
    def _as_the_table_can(self, layout: TableLayout) -> None:
        self.keeps_metadata = layout.metadata is not None
        self.keeps_leader_epochs = layout.leader_epoch is not None

    @pytest.fixture
    def store(self, layout: TableLayout, tmp_path: Path) -> SqlOffsetStore:
        store = SqlOffsetStore(str(tmp_path / "offsets.db"), layout)
        store.create_table()
        return store
