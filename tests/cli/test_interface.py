"""What scripts rely on stays as it was, or the version of the documents is raised."""

from __future__ import annotations

from tests.cli.interface import FILE, promises, recorded


def test_no_promise_to_scripts_is_broken() -> None:
    broken = sorted({*recorded()} - {*promises()})
    assert not broken, (
        f"scripts may rely on these lines of {FILE.name}; keep them, or raise SCHEMA_VERSION and "
        f"say in CHANGELOG.md under Changed what scripts have to follow: {broken}"
    )


def test_new_promises_are_recorded() -> None:
    new = sorted({*promises()} - {*recorded()})
    assert not new, f"run make generated; new: {new}"


def test_every_kind_of_promise_is_recorded() -> None:
    kinds = {line.split()[0] for line in recorded()}
    assert kinds == {
        *("alias", "argument", "choice", "column", "document", "exit", "field", "format"),
        *("option", "value"),
    }
    for line in (
        "exit status 3 NOT_FOUND",
        "option offsets reset --execute",
        "column list: 1 group_id",
        "value Rule late-poll",
        "field ListedGroup.total_lag: integer or null",
        "choice describe --isolation read-committed",
    ):
        assert line in recorded(), line
