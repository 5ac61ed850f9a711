"""Messages about invalid command lines, with suggestions."""

from __future__ import annotations

import re

import click

from kgroup.errors import near_names

_NAMED = ("--group", "--groups", "--group-id", "--consumer-group", "-g")
"""Options for group names in other tools; here, groups are arguments."""
_FAMILIAR_OPTIONS = {
    "--all-groups": "--all",
    "--broker": "--bootstrap-server",
    "--brokers": "--bootstrap-server",
    "--json": "-o json",
    "--format": "--output",
    "--log-dir": "--from",
    "--from": "--log-dir",
    "--warehouse": "--to",
    "--to": "--warehouse",
    "--list": "'kgroup list'",
    "--describe": "'kgroup describe'",
}
"""Options of other tools, or of other commands, and their equivalents."""
_ARGUMENTS = ("group", "groups", "names")
"""Parameters of commands whose arguments are ids."""


def usage_message(error: click.UsageError) -> str:
    """Return a one-line message about an invalid command line."""
    if isinstance(error, click.NoSuchOption) and error.ctx is not None:
        hint = _hint(error.option_name, error.ctx)
        if hint:
            return f"No such option {error.option_name!r}. {hint}"
        word = error.option_name.lstrip("-")  # the dashes alone would make short options similar
        alike = [
            possibility
            for possibility in error.possibilities or ()
            if possibility.startswith(error.option_name)
            or near_names(word, [possibility.lstrip("-")])
        ]
        error = click.NoSuchOption(error.option_name, possibilities=alike)
    message = error.format_message().replace("a valid integer range", "a whole number")
    if isinstance(error, click.MissingParameter):  # click writes each choice on its own line
        return re.sub(r"\s+", " ", message)
    wrong = re.match("'(.*)' is not one of ", error.message)
    if wrong and isinstance(error, click.BadParameter) and error.param is not None:
        choices = getattr(error.param.type, "choices", ())
        suggestion = near_names(wrong[1], map(str, choices))
        return f"{message.removesuffix('.')}{suggestion}" if suggestion else message
    return message


def _hint(option: str, ctx: click.Context) -> str | None:
    if option in ("--list", "--describe"):
        return f"Did you mean {_FAMILIAR_OPTIONS[option]}?"
    if ctx.parent is None:
        if near_names(option, [opt for own in ctx.command.params for opt in own.opts]):
            return None  # click suggests it
        return f"Put options after the command: kgroup COMMAND {option}"
    parameters = {parameter.name: parameter for parameter in ctx.command.params}
    known = {name for parameter in parameters.values() for name in parameter.opts}
    takes_ids = any(isinstance(parameters.get(name), click.Argument) for name in _ARGUMENTS)
    if option in _NAMED and takes_ids:
        return f"Groups are arguments, not an option: {ctx.command_path} GROUP"
    suggestion = _FAMILIAR_OPTIONS.get(option)
    if suggestion is not None and suggestion.split()[0] in known:
        return f"Did you mean {suggestion}?"
    if takes_ids and not option.startswith("--"):
        return f"Put an id that begins with a dash after --: {ctx.command_path} -- -ID"
    return None
