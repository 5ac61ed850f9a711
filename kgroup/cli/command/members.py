"""`kgroup members`, and the table of its commands."""

from kgroup.cli.lazy_group import CommandTable, LazyGroup

__all__ = ["COMMANDS", "command"]

COMMANDS: CommandTable = {"remove": ("members.remove", "Remove members from a group.")}


command = LazyGroup(
    "kgroup members",
    """Remove members from groups.

    'kgroup describe' shows the members. What changes anything shows its plan, and does it with
    --execute only.
    """,
    COMMANDS,
)
