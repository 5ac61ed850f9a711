"""Long tables on a terminal, shown by a pager."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Callable, Iterable
from contextlib import suppress
from itertools import chain
from signal import SIGINT, signal
from subprocess import PIPE, Popen
from typing import IO, TypeAlias

Block: TypeAlias = str | bytes | memoryview
Write: TypeAlias = Callable[[Iterable[Block], IO[bytes] | None], None]


def write_paged(blocks: Iterable[Block], write: Write) -> bool:
    """Write blocks to standard output, through `$PAGER` if they do not fit on the terminal.

    Args:
        blocks: the blocks.
        write: writes blocks to a stream, or to standard output.

    Returns:
        Whether all blocks were written; not if the user quits the pager before.
    """
    rest = iter(blocks)
    first: list[Block] = []
    room = _lines() if _command() else 0
    if room:
        for block in rest:
            first.append(block)
            room -= str(block).count("\n")
            if room <= 0:
                return _page(chain(first, rest), write)
    write(chain(first, rest), None)
    return True


def _lines() -> int:
    """Return the lines of the terminal; 0 if they are unknown, or if there is no terminal."""
    with suppress(OSError):
        return os.get_terminal_size(sys.stdout.fileno()).lines
    return 0


def _command() -> list[str]:
    """Return the words of the pager's command; empty if there is no pager."""
    if os.environ.get("TERM") in ("dumb", "unknown"):
        return []
    try:
        words = shlex.split(os.environ.get("PAGER", "less -FRX"))
    except ValueError:  # no closing quotation
        return []
    return [] if words == ["cat"] else words


def _page(blocks: Iterable[Block], write: Write) -> bool:
    sys.stdout.flush()
    # Ctrl-C is the pager's; a handler, because the pager would inherit that it is ignored.
    before = signal(SIGINT, lambda *_: None)
    try:
        environment = {"LESS": "FRX", **os.environ}
        pager = Popen(_command(), stdin=PIPE, stdout=sys.stdout, env=environment)
    except OSError:  # there is no such program
        signal(SIGINT, before)
        write(blocks, None)
        return True
    try:
        write(blocks, pager.stdin)
        return True
    except BrokenPipeError:
        return False
    finally:
        pager.communicate()  # closes its input, and waits until it ends
        signal(SIGINT, before)
