"""Options with the same meaning in every command, and their types."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial, wraps
from inspect import signature
from pathlib import Path
from pkgutil import resolve_name
from types import MappingProxyType
from typing import Any, TypeAlias

import click
from click.core import ParameterSource
from click.shell_completion import CompletionItem

from kgroup.atomic_file import INPUTS
from kgroup.cli.command_group import Block, BlockOption
from kgroup.cli.option.parameter import local_time_note, parse_time
from kgroup.cli.output.context import COLORS, Output, choose_color, columns_named, warn_notes
from kgroup.cli.shell.suggestion import Items, suggest_parts
from kgroup.errors import KgroupError, near_names
from kgroup.model.instant import show_local_time
from kgroup.model.pattern import Pattern, parse_regex
from kgroup.operation.report import Sort
from kgroup.render.form import FORMS, OBJECTS, SEPARATED


class AnyPath(click.Path):
    """A path; an empty text, such as an unset shell variable, is rejected.

    Reading or writing shows whether the path exists. Every path option has a subtype of this type,
    for reading or writing.
    """

    def __init__(self) -> None:
        super().__init__(path_type=Path, readable=False)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Convert the typed text to a path."""
        if value == "":
            self.fail("expected a path, found an empty string", param, ctx)
        if "\0" in str(value):
            self.fail(f"expected a path, found a NUL character in {str(value)!r}", param, ctx)
        return Path(os.fsdecode(value))


class InputPath(AnyPath):
    """A file or folder to read; no output file may replace it."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Convert the typed text to a path, and register it as an input."""
        path: Path = super().convert(value, param, ctx)
        INPUTS.append(path)
        return path


class OutputPath(AnyPath):
    """A file to write; for the options, see `kgroup.cli.option.file`."""


class _Folder(AnyPath):
    """Folder of a warehouse, or the URI of a place in an object store."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if re.match(r"[A-Za-z][A-Za-z0-9+.-]*://", str(value)):
            from kgroup.history.warehouse.store import location_of

            try:
                location = location_of(str(value))
            except KgroupError as error:
                self.fail(str(error), param, ctx)
            if not isinstance(location, Path):
                return location
            value = str(location)
        elif found := re.match(r"(s3|gs|gcs|file):/", str(value)):
            self.fail(f"expected {found[1]}://..., found {str(value)!r}", param, ctx)
        return super().convert(value, param, ctx)


class InputFolder(_Folder, InputPath):
    """A warehouse to read."""


class OutputFolder(_Folder):
    """A warehouse to write."""


class CaseInsensitiveChoice(click.Choice):  # type: ignore[type-arg]  # as `_Id`
    """A choice that ignores case, but shows the choices as they are written."""

    def __init__(self, choices: Iterable[str]) -> None:
        super().__init__(list(choices), case_sensitive=False)

    def get_invalid_choice_message(self, value: Any, ctx: click.Context | None) -> str:
        """Return an error message with all choices; click would show them in lower case."""
        return f"{value!r} is not one of {', '.join(map(repr, self.choices))}."


class _Id(click.ParamType):  # type: ignore[type-arg]  # older versions of click are not generic
    """A name in Kafka, in UTF-8 regardless of the locale.

    A log may contain names that are not valid UTF-8, but they cannot be sent to a broker.
    """

    name = "text"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Convert the text; decode bytes that the locale could not decode."""
        text = str(value)
        try:
            text.encode()
        except UnicodeEncodeError:
            with suppress(UnicodeError):
                return os.fsencode(text).decode()
        return text


class _Topic(_Id):
    """The name of a topic; TOPIC:PARTITIONS, which Kafka's own tools take, is rejected."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Convert the text."""
        text = super().convert(value, param, ctx)
        if match := re.fullmatch(r"([^:]+):(\d+(?:,\d+)*)", text):
            words = [f"--topic {match[1]}"]
            if ctx and any("--partition" in other.opts for other in ctx.command.params):
                words += [f"--partition {number}" for number in match[2].split(",")]
            self.fail(
                f"expected the name of a topic, found {text!r}; use {' '.join(words)}", param, ctx
            )
        return text


ID = _Id()
"""Id of a group, member or producer."""
TOPIC = _Topic()
"""Name of a topic."""
PATH = InputPath()
FOLDER = InputFolder()


def parsed(parse: Callable[[Any], Any]) -> Callable[[click.Context, click.Parameter, Any], Any]:
    """Return an option callback for a parser that raises ValueError for invalid input."""

    def callback(ctx: click.Context, param: click.Parameter, value: Any) -> Any:
        try:
            return None if value is None else parse(value)
        except ValueError as error:
            raise click.BadParameter(str(error), ctx, param) from None

    return callback


def parsed_time(
    parse: Callable[[str], Any] = parse_time,
) -> Callable[[click.Context, click.Parameter, Any], Any]:
    """Return an option callback for times; a note says what a local time means.

    Args:
        parse: parser of one text; options with several texts get a tuple.
    """

    def callback(ctx: click.Context, param: click.Parameter, value: Any) -> Any:
        if value is None or value == ():
            return None
        texts = (value,) if isinstance(value, str) else value
        times = tuple(parsed(parse)(ctx, param, text) for text in texts)
        if not ctx.resilient_parsing:
            warn_notes([note for note in map(local_time_note, texts) if note])
        return times[0] if isinstance(value, str) else times

    return callback


Decorator: TypeAlias = Callable[[Callable[..., Any]], Callable[..., Any]]


def options_into(
    parameter: str,
    make: Callable[..., Any] | str,
    *options: Decorator,
    names: Sequence[str] | None = None,
) -> Decorator:
    """Add options that are combined into one parameter of the command.

    Args:
        parameter: name of the parameter.
        make: creates its value, such as a dataclass; ``module:name`` is imported when the command
            runs.
        options: options, in the order of the help.
        names: arguments of `make`; None: its own parameters for which there are options.
    """

    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(command)
        def with_value(**given: Any) -> Any:
            maker = resolve_name(make) if isinstance(make, str) else make
            own = names or signature(maker).parameters
            value = maker(**{name: given.pop(name) for name in own if name in given})
            return command(**given, **{parameter: value})

        decorated: Callable[..., Any] = with_value
        for option in reversed(options):
            decorated = option(decorated)
        return decorated

    return decorate


def output_options(
    columns: str | None, by_option: Mapping[str, str] = MappingProxyType({})
) -> Decorator:
    """Add the output options; the command takes ``output: Output``.

    Args:
        columns: columns of the command, by their name in `kgroup.render`; None: the columns of the
            answer.
        by_option: columns by the option that selects other rows: ``--members``, ``--type topic``.
    """
    chosen = click.option("--columns", cls=ColumnsOption, columns=columns, by_option=by_option)
    options = (_FORM_OPTION, chosen, _NO_HEADERS_OPTION, _COLOR_OPTION, _PAGER_OPTION, UTC_OPTION)
    return options_into("output", _output, *options)


def _output(
    form: str,
    columns: tuple[str, ...] | None,
    no_headers: bool,
    color: str,
    no_pager: bool,
    utc: bool,
) -> Output:
    if form in OBJECTS:
        for name, is_given in (("--columns", columns), ("--no-headers", no_headers)):
            if is_given:
                raise click.UsageError(
                    f"{name} applies to tables, csv and tsv; -o {form} has no columns"
                )
    ctx = click.get_current_context()
    choose_color(ctx, color)
    show_local_time(is_local=not (utc or form in OBJECTS or form in SEPARATED))
    _, _, command = ctx.command_path.partition(" ")
    option = next(param for param in ctx.command.params if isinstance(param, ColumnsOption))
    declared = option.declared_by(ctx)
    return Output(form, columns or (), not no_headers, command, declared, is_paged=not no_pager)


class ColumnsOption(BlockOption):
    """The option `--columns`, which selects columns of a command, or lists them.

    Attributes:
        declared: names of columns in `kgroup.render`, by the option that selects them; "" by
            default.
    """

    def __init__(
        self,
        param_decls: Sequence[str],
        *,
        columns: str | None,
        by_option: Mapping[str, str],
        **more: Any,
    ) -> None:
        others = {words: name for words, name in by_option.items() if name != columns}
        self.declared = {"": columns, **others} if columns else {}
        super().__init__(
            param_decls,
            block=Block.OUTPUT,
            metavar="A,B,...",
            callback=self._chosen,
            shell_complete=self._suggested,
            help="Show these columns in tables, csv and tsv, in this order; 'help' lists them.",
            **more,
        )

    def declared_by(self, ctx: click.Context) -> str | None:
        """Return the name of the columns for the given options; None: those of the answer."""
        options = (words for words in self.declared if words and _is_given(words, ctx))
        return self.declared.get(next(options, ""))

    def _chosen(self, ctx: click.Context, param: click.Parameter, text: str | None) -> Any:
        if text != "help" or ctx.resilient_parsing:
            return parsed(_parse_columns)(ctx, param, text)
        lists = {
            f"Columns with {words}" if words else "Columns": [
                (column.name, column.description) for column in columns_named(name)
            ]
            for words, name in self.declared.items()
        }
        raise _show_lists(ctx, lists, "The columns are those of the query.\n")

    def _suggested(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> Items:
        """Suggest columns of the selected rows, except those already typed."""
        if not self.declared:
            return []
        columns = columns_named(self.declared_by(ctx) or "")
        return suggest_parts({column.name: column.description for column in columns}, incomplete)


def _is_given(words: str, ctx: click.Context) -> bool:
    """Return whether an option is given, with the value if the words contain one."""
    option, _, value = words.partition(" ")
    name = next(param.name or "" for param in ctx.command.params if option in param.opts)
    return str(ctx.params.get(name)) == value if value else bool(ctx.params.get(name))


def _show_lists(
    ctx: click.Context, lists: Mapping[str, Sequence[tuple[str, str]]], otherwise: str = ""
) -> click.exceptions.Exit:
    """Print words with their meanings, below titles; return the exception to raise."""
    formatter = ctx.make_formatter()
    for title, words in lists.items():
        with formatter.section(title):
            formatter.write_dl(words)
    click.echo(formatter.getvalue() or otherwise, nl=False)
    return click.exceptions.Exit()


class _FormType(click.Choice[str]):
    """An output format, or "help"."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the format; list all of them if the text is "help"."""
        if value != "help" or ctx is None or ctx.resilient_parsing:
            return super().convert(value, param, ctx)
        raise _show_lists(ctx, {"Output formats": [*FORMS.items()]})


_output_option = partial(click.option, cls=BlockOption, block=Block.OUTPUT)
_FORM_OPTION = _output_option(
    "-o",
    "--output",
    "form",
    metavar="FORMAT",
    type=_FormType(FORMS),
    default="table",
    show_default=True,
    help="Output format: table, json, jsonl, yaml, csv, tsv, ...; 'help' lists all formats.",
)
_COLOR_OPTION = _output_option(
    "--color",
    type=click.Choice(COLORS),
    default="auto",
    show_default=True,
    help="Color tables: auto on a terminal unless NO_COLOR is set, always also in a pipe.",
)
_NO_HEADERS_OPTION = _output_option("--no-headers", is_flag=True, help="Leave out the header row.")
_PAGER_OPTION = _output_option(
    "--no-pager",
    is_flag=True,
    help="Do not show long tables on a terminal with $PAGER (default: less -FRX).",
)
UTC_OPTION = _output_option("--utc", is_flag=True, help="Show times in UTC, not in the local zone.")


def _parse_columns(text: str) -> tuple[str, ...]:
    names = tuple(name.strip() for name in text.split(","))
    if not all(names):
        raise ValueError(f"expected column names separated by commas, found {text!r}")
    return names


class _SortType(click.ParamType):  # type: ignore[type-arg]  # as `_Id`
    """The name of a value to sort by, after a dash for the largest first."""

    name = "text"

    def __init__(self, keys: Sequence[str]) -> None:
        self._keys = keys

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Sort:
        """Convert the typed text to an order."""
        key = str(value).removeprefix("-")
        if key not in self._keys:
            keys = ", ".join(self._keys)
            self.fail(
                f"expected one of {keys}, found {key!r}{near_names(key, self._keys)}", param, ctx
            )
        return Sort(key, is_descending=str(value).startswith("-"))

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        """Suggest the keys, in either order."""
        words = [sign + key for sign in ("", "-") for key in self._keys]
        return [CompletionItem(word) for word in words if word.startswith(incomplete)]


def sort_option(keys: Sequence[str], text: str) -> Decorator:
    """Add `--sort`; the command takes ``sort``, a `Sort` or None.

    Args:
        keys: names of values to sort by.
        text: first sentence of the help: what is sorted, and how by default.
    """
    return click.option(
        "--sort",
        metavar="KEY",
        type=_SortType(keys),
        help=f"{text} KEY is one of {', '.join(keys)}; -KEY: largest first. Unknown values come "
        "last.",
    )


source_option = partial(click.option, cls=BlockOption, block=Block.SOURCE)
"""`click.option` for options that select a source."""

LOG_DIR_OPTION: Decorator = source_option(
    "--log-dir",
    metavar="PATH",
    multiple=True,
    type=PATH,
    help="Read a broker's log directory, or a folder with segments of __consumer_offsets. "
    "Repeatable, for a broker with several log directories.",
)
SAMPLE_OPTION: Decorator = source_option(
    "--sample", is_flag=True, help="Read the sample data that comes with kgroup."
)


def log_dirs(log_dir: Sequence[Path], *, sample: bool) -> tuple[Path, ...]:
    """Return the log directories that the two options select.

    Raises:
        click.UsageError: both options are given.
    """
    if not sample:
        return tuple(log_dir)
    if log_dir:
        raise click.UsageError("--log-dir and --sample are two sources; choose one of them")
    from kgroup.sample import sample_log_dir

    return (sample_log_dir(),)


regex_option: Decorator = click.option(
    "--regex",
    metavar="RE",
    callback=parsed(parse_regex),
    help="Select groups whose whole id matches this regular expression (RE2 syntax).",
)
"""Adds `--regex`; the command takes ``regex``, a compiled pattern or None."""


def _sections(state: bool, members: bool, offsets: bool) -> tuple[str, ...]:
    chosen = {"state": state, "members": members, "offsets": offsets}
    return tuple(name for name, is_chosen in chosen.items() if is_chosen)


section_options = options_into(
    "sections",
    _sections,
    click.option("--state", is_flag=True, help="Show state, generation or epochs, leader and lag."),
    click.option("--members", is_flag=True, help="Show members and what they own."),
    click.option("--offsets", is_flag=True, help="Show committed offsets and lag."),
)
"""Adds `--state`, `--members` and `--offsets`; the command takes ``sections`` (selected ones)."""


def _log_budget(log_budget_mib: int | None) -> int:
    from kgroup.source.base import DEFAULT_LOG_BUDGET

    if log_budget_mib is not None:
        return log_budget_mib << 20
    line = click.get_current_context().params
    is_named = bool(line["groups"]) or line["regex"] is not None
    return DEFAULT_LOG_BUDGET if is_named and not line["every"] else 0


log_budget_option = options_into(
    "log_budget",
    _log_budget,
    click.option(
        "--log-budget",
        "log_budget_mib",
        metavar="MIB",
        type=click.IntRange(min=0, max=2**31 - 1),
        help="Read at most this many MiB back from the end of each __consumer_offsets partition "
        "of a cluster, for what no request returns: generation, leader and timeouts of classic "
        "groups, and commit times.  [default: 32; for all groups 0]",
    ),
)
"""Adds `--log-budget`; the command, which has `--all`, takes ``log_budget`` in bytes.

By default, the log is not read for all groups.
"""


def check_all(groups: Sequence[str], regex: Pattern | None, *, every: bool) -> None:
    """Check that `--all` is not combined with names or a pattern."""
    if every and (groups or regex is not None):
        raise click.UsageError(
            "--all selects every group; leave out --all, or the group names and --regex"
        )


def check_choice(groups: Sequence[str], regex: Pattern | None, *, every: bool) -> None:
    """Check that groups are selected either by names and a pattern, or by `--all`."""
    check_all(groups, regex, every=every)
    if not (every or groups or regex is not None):
        options = click.get_current_context().command.params
        is_named = any("--group" in option.opts for option in options)
        names = "use --group NAME," if is_named else "name groups, or use"
        raise click.UsageError(f"no groups selected: {names} --regex RE or --all")


def given_options() -> dict[str, str]:
    """Return the options on the command line: option text by parameter name."""
    ctx = click.get_current_context()
    return {
        option.name: max(option.opts, key=len)
        for option in ctx.command.params
        if isinstance(option, click.Option)
        and option.name is not None
        and ctx.get_parameter_source(option.name) is ParameterSource.COMMANDLINE
    }


def examples(*lines: str) -> str:
    """Return the examples for the end of a command's help; tests run each of them."""
    return "\b\nExamples:\n" + "\n".join(f"  {line}" for line in lines)
