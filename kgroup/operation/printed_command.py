"""Complete commands in reports, ready to paste into a shell.

The command line registers the connection options that it uses; printed commands include them.
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
"""Placeholder in commands if the address of brokers or ZooKeeper is unknown."""


class Reach(Enum):
    """The source that a printed command reads."""

    SOURCE = "the same source: a cluster, ZooKeeper, a log directory or a snapshot"
    LIVE = "the cluster, or ZooKeeper: it looks again, or changes something"
    RECORDS = "records of __consumer_offsets: of the warehouse in use, a cluster or a log directory"


@dataclass(frozen=True, slots=True)
class ConnectionWords:
    """Command-line options of the connection, without secrets.

    Attributes:
        words: connection options.
        servers: value of `-b`; None if the brokers are given otherwise.
        config: value of `--command-config`; None without.
        source: options that select a source other than a cluster.
        is_live: whether that source is a live one, such as ZooKeeper.
        warehouse: options that select a warehouse.
        is_continued: whether the source continues the warehouse.
        profile: name and brokers of the profile in use, for people; None without one.
    """

    words: tuple[str, ...] = ()
    servers: str | None = None
    config: str | None = None
    source: tuple[str, ...] = ()
    is_live: bool = False
    warehouse: tuple[str, ...] = ()
    is_continued: bool = False
    profile: str | None = None


_NONE = ConnectionWords()
_IN_USE: ContextVar[ConnectionWords] = ContextVar("connection words", default=_NONE)


@contextmanager
def connected_by(**options: Any) -> Iterator[None]:
    """Include options (attributes of `ConnectionWords`) in commands printed in this context."""
    before = _IN_USE.set(replace(_IN_USE.get(), **options))
    try:
        yield
    finally:
        _IN_USE.reset(before)


def kgroup_command(command: str, names: Sequence[str] = (), options: Sequence[str] = ()) -> str:
    """Return a kgroup command line, quoted for the shell.

    Args:
        command: words of the command, such as ``offsets reset``.
        names: arguments; they follow ``--`` if one begins with a dash.
        options: all options, including those of the connection.
    """
    is_option = any(name.startswith("-") for name in names)
    words = (*options, "--", *names) if is_option else (*names, *options)
    return join(("kgroup", *command.split(), *words))


def connection_words(servers: str | None) -> Sequence[str]:
    """Return the connection options in use, or else ``-b`` with the given brokers."""
    words = _IN_USE.get().words
    return words or (() if servers is None else ("-b", servers))


def reaching(reach: Reach, servers: str | None = None) -> Sequence[str]:
    """Return the options with which a printed command reads the same source as this one.

    Args:
        reach: the source that the printed command reads.
        servers: brokers of the cluster, if a file names them.
    """
    used = _IN_USE.get()
    if reach is Reach.RECORDS and used.warehouse:
        continued = (*used.source, *used.words) if used.is_continued else ()
        return (*used.warehouse, *continued)
    has_records = not used.is_live and "--snapshot" not in used.source
    if used.source and (
        has_records if reach is Reach.RECORDS else used.is_live or reach is Reach.SOURCE
    ):
        return (*used.source, *used.words)
    if reach is Reach.SOURCE:
        return used.words
    if reach is Reach.RECORDS and used.is_live:
        return ("-b", UNKNOWN_ADDRESS)
    return used.words or ("-b", servers or UNKNOWN_ADDRESS)


def profile_in_use() -> str | None:
    """Return the profile in use: "prod (kafka-1:9092)"; None without one."""
    return _IN_USE.get().profile


def kafka_words(servers: str) -> Sequence[str]:
    """Return the options with which Kafka's own tools reach the same cluster, or these brokers."""
    used = _IN_USE.get()
    config = () if used.config is None else ("--command-config", used.config)
    return ("--bootstrap-server", used.servers or servers, *config)
