"""Groups of commands that are imported when they are run, and not for help or completion."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from importlib import import_module
from typing import Any

import click
from click.shell_completion import CompletionItem

from kgroup.errors import ExitStatus

_DEFAULT = "GROUP"
"""Stands for the command of a line that names none; in capitals, so that none is called so."""
_TYPED = "kgroup.typed"

CommandTable = Mapping[str, tuple[str, str]]
"""Name of each command -> module in `kgroup.cli` that has it as `command`, and its line of help."""


class LazyGroup(click.Group):
    """A group whose commands are imported when they are needed, and not for its help.

    Without a command it writes its help to standard error: that is wrong usage.

    Args:
        path: all words of the command, as they are typed.
        text: what its help says.
        table: its commands, in the order of its help.
        default: module of a `DefaultCommand` for lines whose first word is none of these; None:
            such lines are wrong usage.
    """

    def __init__(
        self, path: str, text: str, table: CommandTable, default: str | None = None, **options: Any
    ) -> None:
        super().__init__(
            path.rpartition(" ")[2],
            help=text,
            callback=_show_help,
            invoke_without_command=True,
            subcommand_metavar="COMMAND [ARGS]..." + (" | [GROUP...]" if default else ""),
            epilog=f"Run '{path} COMMAND --help' for the options and examples of a command.",
            **options,
        )
        self.table = table
        self._default = default

    def default_command(self) -> DefaultCommand | None:
        """Import the command for lines that name none."""
        if self._default is None:
            return None
        command = import_module(f"kgroup.cli.{self._default}").command
        assert isinstance(command, DefaultCommand)
        return command

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Put a name before a line that names no command, where there is one for it."""
        if self._default and args and args[0] not in (*self.table, *ctx.help_option_names):
            args = [_DEFAULT, *args]
        return super().parse_args(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command, and let an error of its line say which one it was.

        click leaves that out where the last option has no value.
        """
        try:
            return super().invoke(ctx)
        except click.UsageError as error:
            if error.ctx is None:
                name = ctx.invoked_subcommand
                command = self.get_command(ctx, name) if name and name in self.table else None
                error.ctx = ctx if command is None else click.Context(command, ctx, name)
            raise

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Give the names in the order of the table."""
        return list(self.table)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import the module of one command."""
        if cmd_name == _DEFAULT:
            return self.default_command()
        if cmd_name not in self.table:
            return None
        command = import_module(f"kgroup.cli.{self.table[cmd_name][0]}").command
        assert isinstance(command, click.Command)
        return command

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options of a line that names no command, and the commands."""
        default = self.default_command()
        if default is None:
            super().format_options(ctx, formatter)
        else:
            default.format_options(ctx, formatter)
            self.format_commands(ctx, formatter)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write examples of such a line, and where help of commands is."""
        if (default := self.default_command()) is not None:
            default.format_epilog(ctx, formatter)
        super().format_epilog(ctx, formatter)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands from the table."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in self.table.items()])

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem[str]]:
        """Suggest the commands from the table, or options."""
        commands = [
            CompletionItem(name, help=text)
            for name, (_, text) in self.table.items()
            if name.startswith(incomplete)
        ]
        default = self.default_command()
        if default is None:
            return commands + click.Command.shell_complete(self, ctx, incomplete)
        with default.make_context(ctx.info_name, [], ctx, resilient_parsing=True) as line:
            (groups,) = (each for each in default.params if isinstance(each, click.Argument))
            rest = groups.shell_complete(line, incomplete) if incomplete[:1] != "-" else []
            return commands + rest + default.shell_complete(line, incomplete)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command, or say which one might have been meant."""
        is_known = args[0] in self.table or args[0] == _DEFAULT
        if not is_known and not args[0].startswith("-") and not ctx.resilient_parsing:
            text = meant(args[0], self.table)
            if args[0] == "help":
                words = [ctx.command_path, *filter(self.table.__contains__, args[1:2]), "--help"]
                text = f"No such command 'help'. Did you mean {' '.join(words)}?"
            root = ctx.find_root().command
            if ctx.parent and isinstance(root, LazyGroup) and args[0] in root.table:
                text = f"No such command {args[0]!r}. Did you mean kgroup {args[0]}?"
            raise click.UsageError(text or f"No such command {args[0]!r}.", ctx)
        return super().resolve_command(ctx, args)


class DefaultCommand(click.Command):
    """The command of a group for lines that name none: it has the group's name and place."""

    def make_context(
        self,
        info_name: str | None,
        args: list[str],
        parent: click.Context | None = None,
        **extra: Any,
    ) -> click.Context:
        """Put it below what is above the group, and keep what was typed."""
        if parent is None or not isinstance(group := parent.command, LazyGroup):
            return super().make_context(info_name, args, parent, **extra)
        if group.name != self.name:
            return super().make_context(info_name, args, parent, **extra)
        text = meant(args[0], group.table) if args else None
        try:
            return super().make_context(parent.info_name, args, parent.parent, **extra)
        except click.UsageError as error:  # of options that another command has
            if text is None:
                raise
            raise click.UsageError(text, parent) from error

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Keep what was typed."""
        ctx.meta[_TYPED] = tuple(args)
        return super().parse_args(ctx, args)

    def typed(self, ctx: click.Context) -> Mapping[str, Any]:
        """Give the texts of options and arguments that were typed, by names of parameters."""
        texts, _, _ = self.make_parser(ctx).parse_args([*ctx.meta[_TYPED]])
        return texts


def meant(word: str, names: Collection[str]) -> str | None:
    """Say which command may have been meant by a word that is none; None: nothing is like it."""
    from difflib import get_close_matches

    close = () if word in names else get_close_matches(word, names)
    return f"No such command {word!r}. Did you mean {' or '.join(close)}?" if close else None


@click.pass_context
def _show_help(ctx: click.Context) -> None:
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help(), err=True)
        ctx.exit(ExitStatus.USAGE)
