"""`kgroup offsets`, and the table of its commands."""

from __future__ import annotations

from kgroup.cli.lazy_group import CommandTable, LazyGroup

COMMANDS: CommandTable = {
    "show": ("offsets.show", "Show what groups have committed."),
    "export": ("offsets.export", "Write what groups have committed to a file."),
    "import": ("offsets.import_file", "Commit what a file has, or undo a change by its backup."),
    "diff": ("offsets.diff", "Compare two stores."),
    "copy": ("offsets.copy", "Commit in one store what another one has."),
    "reset": ("offsets.reset", "Reset committed offsets."),
    "delete": ("offsets.delete", "Delete groups, or what they have committed for topics."),
}


command = LazyGroup(
    "kgroup offsets",
    """Show, compare and change what groups have committed.

    Offsets are kept in Kafka, in ZooKeeper (by consumers of 0.8), in a SQL table (by applications
    that commit them with their results), or in files. What changes any of them shows its plan, and
    does it with --execute only. What was there before is saved first.
    """,
    COMMANDS,
)
