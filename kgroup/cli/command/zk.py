"""`kgroup zk`, and the table of its commands."""

from __future__ import annotations

from kgroup.cli.lazy_group import CommandTable, LazyGroup

COMMANDS: CommandTable = {
    "ids": ("zk.ids", "List the consumers that are registered in ZooKeeper."),
    "owners": ("zk.owners", "List which consumer thread owns which partition, and since when."),
    "tree": ("zk.tree", "Show nodes of ZooKeeper, decoded."),
    "fetchers": ("zk.fetchers", "Show what the fetcher threads of a group read, and from where."),
}


command = LazyGroup(
    "kgroup zk",
    """Show what only the ZooKeeper consumer has: its nodes and fetchers.

    Kafka 0.7 and 0.8 keep in ZooKeeper who is in a group, who owns what and, mostly, what is
    committed. 'kgroup list', 'describe', 'snapshot' and 'assign' read such groups as they read
    others; here is what others do not have.
    """,
    COMMANDS,
)
