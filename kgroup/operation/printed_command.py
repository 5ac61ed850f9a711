"""Commands that reports print, whole: they can be pasted into a shell as they stand.

The command line opens a source and names its options here; what is printed meanwhile carries them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from enum import Enum
from shlex import join
from typing import Any

UNKNOWN_ADDRESS = "HOST:PORT"
"""Stands in commands where no source tells where brokers, or ZooKeeper, are."""


class Reach(Enum):
    """What a command reads."""

    SOURCE = "the same source: a cluster, ZooKeeper, a log directory or a snapshot"
    LIVE = "the cluster, or ZooKeeper: it looks again, or changes something"
    WAREHOUSE = "the warehouse that 'kgroup history build' makes"


@dataclass(frozen=True, slots=True)
class ConnectionWords:
    """Words of a command line, without secrets.

    Attributes:
        words: options of a connection.
        servers: brokers, as `-b` has them; None where something else names them.
        config: file of settings, as `--command-config` has it; None without.
        source: options that choose a source which is no cluster.
        is_live: whether that source changes by itself, as ZooKeeper does.
        warehouse: options that choose a warehouse.
    """

    words: tuple[str, ...] = ()
    servers: str | None = None
    config: str | None = None
    source: tuple[str, ...] = ()
    is_live: bool = False
    warehouse: tuple[str, ...] = ()


_NONE = ConnectionWords()
_IN_USE: ContextVar[ConnectionWords] = ContextVar("connection words", default=_NONE)


@contextmanager
def connected_by(**options: Any) -> Iterator[None]:
    """Let commands that are printed meanwhile carry these options: attributes of the words."""
    before = _IN_USE.set(replace(_IN_USE.get(), **options))
    try:
        yield
    finally:
        _IN_USE.reset(before)


def kgroup_command(command: str, names: Sequence[str] = (), options: Sequence[str] = ()) -> str:
    """Write a command of kgroup.

    Args:
        command: its words, such as ``offsets reset``.
        names: arguments; behind two dashes where one begins with a dash.
        options: those in use included.
    """
    is_option = any(name.startswith("-") for name in names)
    words = (*options, "--", *names) if is_option else (*names, *options)
    return join(("kgroup", *command.split(), *words))


def connection_words(servers: str | None) -> Sequence[str]:
    """Give the options in use; those of a source that is no cluster name these brokers, if any."""
    words = _IN_USE.get().words
    return words or (() if servers is None else ("-b", servers))


def reaching(reach: Reach, servers: str | None = None) -> Sequence[str]:
    """Return the options of a command that reads what the one that prints it reads.

    Args:
        reach: what it reads.
        servers: brokers of the cluster, where a file knows them.
    """
    used = _IN_USE.get()
    if reach is Reach.WAREHOUSE:
        return used.warehouse or ("--warehouse", _WAREHOUSE)
    if used.source and (used.is_live or reach is Reach.SOURCE):
        return (*used.source, *used.words)
    if reach is Reach.SOURCE:
        return used.words
    return used.words or ("-b", servers or UNKNOWN_ADDRESS)


_WAREHOUSE = "warehouse"
"""The folder of a warehouse that is not there yet."""


def build_command() -> str | None:
    """Write the command that makes a warehouse of the source; None: there is one, or it cannot."""
    used = _IN_USE.get()
    if used.warehouse or used.is_live or "--snapshot" in used.source:
        return None
    source = ["--from" if each == "--log-dir" else each for each in used.source] or used.words
    options = (*(source or ("-b", UNKNOWN_ADDRESS)), "--to", _WAREHOUSE)
    return kgroup_command("history build", (), options)


def kafka_words(servers: str) -> Sequence[str]:
    """Return the options by which Kafka's own tools reach the same cluster, or these brokers."""
    used = _IN_USE.get()
    config = () if used.config is None else ("--command-config", used.config)
    return ("--bootstrap-server", used.servers or servers, *config)
