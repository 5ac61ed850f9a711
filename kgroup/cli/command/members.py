"""`kgroup members`, and the table of its commands."""

from __future__ import annotations

from kgroup.cli.lazy_group import CommandTable, LazyGroup

COMMANDS: CommandTable = {"remove": ("members.remove", "Remove members from a group.")}


command = LazyGroup(
    "kgroup members",
    """Remove members from groups.

    'kgroup describe' shows the members. What changes anything shows its plan, and does it with
    --execute only.
    """,
    COMMANDS,
)
