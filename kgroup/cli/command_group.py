"""Commands with option blocks, and command groups: lazy ones, and one with a default."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from enum import StrEnum
from importlib import import_module
from typing import Any

import click
from click.shell_completion import CompletionItem

from kgroup.errors import ExitStatus

_DEFAULT = "GROUP"
"""Placeholder name of the default command; in capitals, so that no command has this name."""
_TYPED = "kgroup.typed"


class Block(StrEnum):
    """Titles of the option blocks in the help, in order."""

    OWN = "Options"
    SOURCE = "Source options"
    CONNECTION = "Connection options"
    STORE = "Store options"
    WAREHOUSE = "Warehouse options"
    SPARK = "Spark options"
    OUTPUT = "Output options"


class BlockOption(click.Option):
    """An option shared by many commands; the help shows it in a block after their own options."""

    def __init__(self, param_decls: Sequence[str], *, block: Block, **more: Any) -> None:
        super().__init__(param_decls, **more)
        self.block = block


_INT_MAX = r"(?:2147483647|9223372036854775807)"
_ANY_NUMBER = re.compile(rf"\s*\[-{_INT_MAX}<=x<={_INT_MAX}\]")
_NO_MAXIMUM = re.compile(rf"(\d+)<=x<={_INT_MAX}(?=\])")
"""Ranges up to the largest 32-bit or 64-bit number, of which the help shows the minimum."""


def option_blocks(
    command: click.Command, ctx: click.Context
) -> Mapping[Block, Sequence[tuple[str, str]]]:
    """Return the help records of a command's options, by block."""
    blocks: dict[Block, list[tuple[str, str]]] = {block: [] for block in Block}
    for parameter in command.get_params(ctx):
        block = parameter.block if isinstance(parameter, BlockOption) else Block.OWN
        record = parameter.get_help_record(ctx)
        if isinstance(parameter, click.Option) and record is not None:
            names, text = record
            blocks[block].append((names, _NO_MAXIMUM.sub(r"x>=\1", _ANY_NUMBER.sub("", text))))
    return {block: records for block, records in blocks.items() if records}


class Command(click.Command):
    """A command whose help shows its own options first, then shared options."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the option blocks."""
        for block, records in option_blocks(self, ctx).items():
            with formatter.section(block):
                formatter.write_dl(records)


class CommandGroup(click.Group):
    """A group of commands, in the order in which they were added.

    Without a command, it writes its help to standard error, with the exit status of a usage error.

    Args:
        path: full command path, as typed.
        text: help text.
        metavar: arguments in the usage line, after the path.
    """

    command_class = Command

    def __init__(
        self, path: str, text: str, metavar: str = "COMMAND [ARGS]...", **options: Any
    ) -> None:
        super().__init__(
            path.rpartition(" ")[2],
            help=text,
            callback=_show_help,
            invoke_without_command=True,
            subcommand_metavar=metavar,
            epilog=f"Run '{path} COMMAND --help' for the options and examples of a command.",
            **options,
        )

    def help_lines(self) -> Mapping[str, str]:
        """Return the first line of each command's help, by command name."""
        return {
            name: (command.help or "").partition("\n")[0] for name, command in self.commands.items()
        }

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the command names in order; click would sort them."""
        return list(self.help_lines())

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command; set the command in the context of a usage error.

        click does not set it if the value of the last option is missing.
        """
        try:
            return super().invoke(ctx)
        except click.UsageError as error:
            if error.ctx is None:
                name = ctx.invoked_subcommand
                is_known = name is not None and name in self.help_lines()
                command = self.get_command(ctx, name) if name is not None and is_known else None
                error.ctx = ctx if command is None else click.Context(command, ctx, name)
            raise

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands, each with the first line of its help."""
        with formatter.section("Commands"):
            formatter.write_dl([*self.help_lines().items()])

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem[str]]:
        """Suggest commands or options."""
        commands = [
            CompletionItem(name, help=text)
            for name, text in self.help_lines().items()
            if name.startswith(incomplete)
        ]
        return commands + click.Command.shell_complete(self, ctx, incomplete)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command, or raise an error with similar names."""
        names = self.help_lines()
        is_known = args[0] in names or args[0] == _DEFAULT
        if not is_known and not args[0].startswith("-") and not ctx.resilient_parsing:
            text = meant(args[0], names)
            if args[0] == "help":
                words = [ctx.command_path, *filter(names.__contains__, args[1:2]), "--help"]
                text = f"No such command 'help'. Did you mean {' '.join(words)}?"
            root = ctx.find_root().command
            if ctx.parent and isinstance(root, CommandGroup) and args[0] in root.help_lines():
                text = f"No such command {args[0]!r}. Did you mean kgroup {args[0]}?"
            raise click.UsageError(text or f"No such command {args[0]!r}.", ctx)
        return super().resolve_command(ctx, args)


CommandTable = Mapping[str, tuple[str, str]]
"""Module in `kgroup.cli` that defines ``command``, and line of help, by command name."""


class LazyGroup(CommandGroup):
    """A command group that imports a command's module only to run the command.

    Args:
        path: see `CommandGroup`.
        text: see `CommandGroup`.
        table: commands by name.
        aliases: names of commands by alias.
    """

    def __init__(
        self, path: str, text: str, table: CommandTable, aliases: Mapping[str, str], **options: Any
    ) -> None:
        super().__init__(path, text, **options)
        self._table = table
        self._aliases = aliases

    def help_lines(self) -> Mapping[str, str]:
        """Return the help lines of the table."""
        return {name: text for name, (_, text) in self._table.items()}

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands and aliases."""
        super().format_commands(ctx, formatter)
        with formatter.section("Aliases"):
            formatter.write_dl([*self._alias_lines().items()])

    def _alias_lines(self) -> Mapping[str, str]:
        return {alias: f"Same as '{name}'." for alias, name in self._aliases.items()}

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem[str]]:
        """Suggest commands and aliases, or options."""
        aliases = [
            CompletionItem(alias, help=text)
            for alias, text in self._alias_lines().items()
            if incomplete and alias.startswith(incomplete)
        ]
        return super().shell_complete(ctx, incomplete) + aliases

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command, also of an alias; it then has its own name in messages."""
        return super().resolve_command(ctx, [self._aliases.get(args[0], args[0]), *args[1:]])

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import and return a command."""
        if cmd_name not in self._table:
            return None
        command = import_module(f"kgroup.cli.{self._table[cmd_name][0]}").command
        assert isinstance(command, click.Command)
        return command


class DefaultGroup(CommandGroup):
    """A command group with a default command, used if the first word is not a command."""

    default: DefaultCommand

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Insert the placeholder of the default command if no command is given."""
        if args and args[0] not in (*self.commands, *ctx.help_option_names):
            args = [_DEFAULT, *args]
        return super().parse_args(ctx, args)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return a command, or the default command."""
        return self.default if cmd_name == _DEFAULT else super().get_command(ctx, cmd_name)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options of the default command, and the commands."""
        self.default.format_options(ctx, formatter)
        self.format_commands(ctx, formatter)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write examples of the default command, and how to show a command's help."""
        self.default.format_epilog(ctx, formatter)
        super().format_epilog(ctx, formatter)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem[str]]:
        """Suggest commands, groups, or options of the default command."""
        commands = [
            CompletionItem(name, help=text)
            for name, text in self.help_lines().items()
            if name.startswith(incomplete)
        ]
        with self.default.make_context(ctx.info_name, [], ctx, resilient_parsing=True) as line:
            (groups,) = (
                param for param in self.default.params if isinstance(param, click.Argument)
            )
            rest = groups.shell_complete(line, incomplete) if incomplete[:1] != "-" else []
            return commands + rest + self.default.shell_complete(line, incomplete)


class DefaultCommand(Command):
    """The default command of a group; it has the group's name and command path."""

    def make_context(
        self,
        info_name: str | None,
        args: list[str],
        parent: click.Context | None = None,
        **extra: Any,
    ) -> click.Context:
        """Create the context as a child of the group's parent."""
        if parent is None or not isinstance(group := parent.command, CommandGroup):
            return super().make_context(info_name, args, parent, **extra)
        if group.name != self.name:
            return super().make_context(info_name, args, parent, **extra)
        text = meant(args[0], group.help_lines()) if args else None
        try:
            return super().make_context(parent.info_name, args, parent.parent, **extra)
        except click.UsageError as error:  # for example, an option of another command
            if text is None:
                raise
            raise click.UsageError(text, parent) from error

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the command line, and keep the typed words."""
        ctx.meta[_TYPED] = tuple(args)
        return super().parse_args(ctx, args)

    def typed(self, ctx: click.Context) -> Mapping[str, Any]:
        """Return the typed values of options and arguments, by parameter name."""
        texts, _, _ = self.make_parser(ctx).parse_args([*ctx.meta[_TYPED]])
        return texts


def meant(word: str, names: Collection[str]) -> str | None:
    """Return a message with commands similar to an unknown word; None if there are none."""
    from difflib import get_close_matches

    close = () if word in names else get_close_matches(word, names)
    return f"No such command {word!r}. Did you mean {' or '.join(close)}?" if close else None


@click.pass_context
def _show_help(ctx: click.Context) -> None:
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help(), err=True)
        ctx.exit(ExitStatus.USAGE)
