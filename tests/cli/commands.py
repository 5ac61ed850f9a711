"""All commands of kgroup by the words that call them, and folders of what is made of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import click

from kgroup.cli.command_group import CommandGroup, DefaultGroup
from kgroup.cli.main import ALIASES, kgroup


def _below(group: CommandGroup, words: tuple[str, ...] = ()) -> dict[str, click.Command]:
    commands: dict[str, click.Command] = {}
    for name in group.help_lines():
        command = group.get_command(click.Context(group), name)
        assert command is not None
        if isinstance(command, CommandGroup):
            if isinstance(command, DefaultGroup):
                commands[" ".join((*words, name))] = command.default
            commands |= _below(command, (*words, name))
        else:
            commands[" ".join((*words, name))] = command
    return commands


assert isinstance(kgroup, CommandGroup)
EVERY_COMMAND: Mapping[str, click.Command] = _below(kgroup)
"""Without the groups of commands themselves."""


def split_line(words: Sequence[str]) -> tuple[str, list[str]]:
    """Split what stands behind "kgroup": the words of the command, and its arguments."""
    words = [ALIASES.get(words[0], words[0]), *words[1:]] if words else []
    size = 2 if " ".join(words[:2]) in EVERY_COMMAND else 1
    return " ".join(words[:size]), list(words[size:])


def context_of(name: str) -> click.Context:
    """A context above a command: it keeps the names of its help option from the first one."""
    parent = click.Context(kgroup, **kgroup.context_settings)
    *groups, _ = name.split()
    for word in groups:
        command = kgroup.get_command(parent, word)
        assert command is not None
        parent = click.Context(command, parent)
    return parent


def write_folder(folder: Path, texts: Mapping[str, str]) -> None:
    """Let a folder have these files, by name, and no others."""
    folder.mkdir(exist_ok=True)
    for file in folder.iterdir():
        file.unlink()
    for name, text in texts.items():
        (folder / name).write_text(text, "utf-8")
