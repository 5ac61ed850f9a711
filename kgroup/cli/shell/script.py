"""The scripts that let a shell ask kgroup how a command line may go on.

They hold no word of kgroup's own: each time they run ``kgroup completion SHELL -- …`` with what was
typed so far. It prints a line that says of what kind the suggestions are, then one a line:

    file, dir   paths, which the shell knows best; no more lines follow
    plain       whole words
    part        words that may go on, so that no space belongs behind them

bash gets what is to be typed, quoted; zsh and fish quote by themselves and get the words as they
are, with a tab and an explanation behind them where there is one.
"""

from __future__ import annotations

from pathlib import Path

_FILES = {"bash": "kgroup.bash", "zsh": "_kgroup", "fish": "kgroup.fish"}
SHELLS = tuple(_FILES)


def script(shell: str) -> str:
    """Give the script for one of `SHELLS`."""
    return Path(__file__).with_name(_FILES[shell]).read_text("utf-8")
