"""The table `sql` of a profile in kgroup's configuration file."""

from __future__ import annotations

from pathlib import Path

import pytest

from kgroup.errors import UsageError
from kgroup.source.config.profile import read_profile, read_sql_profile


def test_a_profile_with_a_database_and_a_cluster(tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    file.write_text(
        '[profiles.p]\nbootstrap-server = "a:1"\n[profiles.p.sql]\nurl = "x.db"\n'
        '[profiles.p.sql.columns]\noffset = "next"\n[profiles.q]\n'
    )
    assert [setting.key for setting in read_profile("p", file)] == ["bootstrap.servers"]
    assert read_sql_profile("p", file) == (
        {"url": "x.db", "columns": {"offset": "next"}},
        f"profile 'p' of {file}",
    )
    assert read_sql_profile("q", file) is None


def test_what_is_no_table(tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    file.write_text('[profiles.p]\nsql = "x.db"\n')
    with pytest.raises(UsageError, match=r"sql: expected a table$"):
        read_sql_profile("p", file)
    with pytest.raises(UsageError, match="expected a profile 'q', found none; it has p"):
        read_sql_profile("q", file)
