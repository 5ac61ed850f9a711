"""How children start that are sent signals."""

from __future__ import annotations

from signal import SIG_DFL, SIGHUP, SIGINT, SIGTERM, signal


def default_signals() -> None:
    """Let a child, as its `preexec_fn`, start from signals that nobody ignores.

    A shell has what runs in the background ignore SIGINT, and some CI systems do likewise. That is
    inherited, and Python, kgroup and JVMs leave it so.
    """
    for number in (SIGINT, SIGTERM, SIGHUP):
        signal(number, SIG_DFL)
