"""The connection options in use, for the commands that reports print.

The command line opens a source and names its options here; what is printed meanwhile carries them,
so that it can be pasted into a shell as it stands.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

__all__ = ["ConnectionWords", "connected_by", "connection_words", "kafka_words"]


@dataclass(frozen=True, slots=True)
class ConnectionWords:
    """Words of a command line, without secrets.

    Attributes:
        words: options of kgroup.
        servers: brokers, as `-b` has them; None where something else names them.
        config: file of settings, as `--command-config` has it; None without.
    """

    words: tuple[str, ...] = ()
    servers: str | None = None
    config: str | None = None


_NONE = ConnectionWords()
_IN_USE: ContextVar[ConnectionWords] = ContextVar("connection words", default=_NONE)


@contextmanager
def connected_by(words: ConnectionWords) -> Iterator[None]:
    """Let commands that are printed meanwhile carry these options."""
    before = _IN_USE.set(words)
    try:
        yield
    finally:
        _IN_USE.reset(before)


def connection_words(servers: str | None) -> Sequence[str]:
    """Give the options in use; those of a source that is no cluster name these brokers, if any."""
    words = _IN_USE.get().words
    return words or (() if servers is None else ("-b", servers))


def kafka_words(servers: str) -> Sequence[str]:
    """Give the options by which Kafka's own tools reach the same cluster, or these brokers."""
    used = _IN_USE.get()
    config = () if used.config is None else ("--command-config", used.config)
    return ("--bootstrap-server", used.servers or servers, *config)
