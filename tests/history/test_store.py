"""Locations of warehouses."""

from __future__ import annotations

import pytest

from kgroup.errors import UsageError
from kgroup.history.warehouse.store import RemotePath


@pytest.mark.parametrize(
    ("uri", "user", "path"),
    [
        ("s3://bucket/w", "", "bucket/w"),
        ("s3://bucket/team@corp/w", "", "bucket/team@corp/w"),
        ("s3://KEY:secret@bucket/team@corp/w", "KEY:secret", "bucket/team@corp/w"),
        ("gs://anonymous@bucket/w/?scheme=http", "anonymous", "bucket/w"),
        ("s3://KEY:sec/ret@bucket/w", "KEY:sec/ret", "bucket/w"),
    ],
)
def test_parts_of_a_uri(uri: str, user: str, path: str) -> None:
    found = RemotePath.of(uri)
    assert (found.user, found.path) == (user, path)


@pytest.mark.parametrize("uri", ["s3://bucket/a#b", "s3://bucket//w", "s3://KEY:secret@bucket/a#b"])
def test_paths_that_libraries_would_change_are_refused(uri: str) -> None:
    with pytest.raises(UsageError, match="expected a path without") as caught:
        RemotePath.of(uri)
    assert "secret" not in str(caught.value)
