"""Groups of commands that are imported when they are run, and not for help or completion."""

from collections.abc import Mapping
from importlib import import_module
from typing import Any

import click
from click.shell_completion import CompletionItem

from kgroup.errors import ExitStatus

__all__ = ["CommandTable", "LazyGroup"]

CommandTable = Mapping[str, tuple[str, str]]
"""Name of each command -> module in `kgroup.cli` that has it as `command`, and its line of help."""


class LazyGroup(click.Group):
    """A group whose commands are imported when they are needed, and not for its help.

    Without a command it writes its help to standard error: that is wrong usage.

    Args:
        path: all words of the command, as they are typed.
        text: what its help says.
        table: its commands, in the order of its help.
    """

    def __init__(self, path: str, text: str, table: CommandTable, **options: Any) -> None:
        super().__init__(
            path.rpartition(" ")[2],
            help=text,
            callback=_show_help,
            invoke_without_command=True,
            subcommand_metavar="COMMAND [ARGS]...",
            epilog=f"Run '{path} COMMAND --help' for the options and examples of a command.",
            **options,
        )
        self.table = table

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Give the names in the order of the table."""
        return list(self.table)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import the module of one command."""
        if cmd_name not in self.table:
            return None
        command = import_module(f"kgroup.cli.{self.table[cmd_name][0]}").command
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands from the table."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in self.table.items()])

    def shell_complete(self, ctx: click.Context, incomplete: str) -> "list[CompletionItem[str]]":
        """Suggest the commands from the table, or options."""
        commands = [
            CompletionItem(name, help=text)
            for name, (_, text) in self.table.items()
            if name.startswith(incomplete)
        ]
        return commands + click.Command.shell_complete(self, ctx, incomplete)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command, or say which one might have been meant."""
        if args[0] not in self.table and not args[0].startswith("-") and not ctx.resilient_parsing:
            from difflib import get_close_matches

            close = get_close_matches(args[0], self.table)
            root = ctx.find_root().command
            if ctx.parent and isinstance(root, LazyGroup) and args[0] in root.table:
                close = [f"kgroup {args[0]}"]
            meant = f" Did you mean {' or '.join(close)}?" if close else ""
            raise click.UsageError(f"No such command {args[0]!r}.{meant}", ctx)
        return super().resolve_command(ctx, args)


@click.pass_context
def _show_help(ctx: click.Context) -> None:
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help(), err=True)
        ctx.exit(ExitStatus.USAGE)
