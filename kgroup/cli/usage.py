"""Messages about invalid command lines, with suggestions.

People type commands that other tools have (`kgroup lag`), and options of Kafka's own tools
(`--group`, `--to-datetime`). Two tables say what they mean here; the message ends with the whole
command line, translated.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TypeAlias

import click

from kgroup.cli.command_group import CommandGroup, DefaultGroup
from kgroup.errors import near_names

Options: TypeAlias = "dict[str, click.Option]"

_DESCRIBE, _DELETE, _EXPORT = "describe GROUP", "offsets delete GROUP", "offsets export GROUP"
_RESET = "offsets reset GROUP --to-time TIME"
_BY_LAG, _OWNERS = "list --sort -lag", "describe GROUP --offsets"
_KICK = "members remove GROUP --member ID"
_MEMBERS = "describe GROUP --members"
_COMMANDS: Mapping[str, str] = {
    **dict.fromkeys(("groups", "ls", "consumers"), "list"),
    **dict.fromkeys(("lags", "behind"), _BY_LAG),
    **dict.fromkeys(("lag", "status", "state", "show", "get", "info", "inspect"), _DESCRIBE),
    **dict.fromkeys(("offsets lag", "offsets describe", "partitions", "owners"), _OWNERS),
    **dict.fromkeys(("members list", "members show", "members describe"), _MEMBERS),
    **dict.fromkeys(("monitor", "watch", "live"), "top"),
    **dict.fromkeys(("health", "diagnose", "problems"), "check"),
    **dict.fromkeys(("prometheus", "metrics", "exporter"), "check --all --prometheus"),
    **dict.fromkeys(("dry-run", "rebalance", "whatif", "what-if"), "assign GROUP"),
    **dict.fromkeys(("migrate", "migration", "upgrade"), "plan GROUP"),
    **dict.fromkeys(("committed", "offsets list", "offsets get"), "offsets show GROUP"),
    **dict.fromkeys(("delete", "remove", "rm", "offsets remove", "delete-offsets"), _DELETE),
    **dict.fromkeys(("reset", "reset-offsets", "seek", "rewind", "offsets set"), _RESET),
    **dict.fromkeys(("export", "backup", "offsets backup", "offsets save"), f"{_EXPORT} -f FILE"),
    **dict.fromkeys(("import", "restore", "undo", "offsets restore"), "offsets import FILE"),
    **dict.fromkeys(("copy", "cp", "mirror"), "offsets copy FROM TO --group GROUP"),
    **dict.fromkeys(("diff", "compare"), "offsets diff STORE STORE --group GROUP"),
    **dict.fromkeys(("kick", "kill", "evict", "members delete"), _KICK),
    **dict.fromkeys(("log", "logs", "events", "timeline", "history log"), "history timeline GROUP"),
    **dict.fromkeys(("rebalances", "storms", "commits"), "history {} GROUP"),
    **dict.fromkeys(("owner", "history who"), "history owner TOPIC PARTITION --at TIME"),
    **dict.fromkeys(("segment", "segments", "decode", "dump", "records"), "decode-offsets FILE"),
    "tail": "decode-offsets --follow",
    "zookeeper": "zk",
    "save": "snapshot GROUP -f FILE",
    "version": "--version",
}
"""Commands that people try, and what they mean; words in capitals stand for what was typed."""
_ACTIONS: Mapping[str, str] = {
    "--reset-offsets": _RESET,
    **dict.fromkeys(("--to-datetime", "--by-duration", "--to-earliest", "--to-latest"), _RESET),
    **dict.fromkeys(("--to-offset", "--shift-by", "--to-current", "--from-file"), _RESET),
    "--delete-offsets": f"{_DELETE} --topic NAME",
    "--delete": _DELETE,
    "--describe": _DESCRIBE,
    "--list": "list",
}
"""Options of kafka-consumer-groups that stand for a command, in the order in which they count."""
_GROUPS = ("--group", "--groups", "--group-id", "--consumer-group", "-g")
"""Options for group names in other tools; here, groups are arguments."""
_OPTIONS: Mapping[str, str] = {
    "--to-datetime": "--to-time",
    "--by-duration": "--to-time",
    "--from-file": "--to-file",
    "--all-groups": "--all",
    "--broker": "--bootstrap-server",
    "--brokers": "--bootstrap-server",
    "--broker-list": "--bootstrap-server",
    "--bootstrap-servers": "--bootstrap-server",
    "--consumer.config": "--command-config",
    "--json": "-o json",
    "--format": "--output",
    "--log-dir": "--from",
    "--from": "--log-dir",
    "--warehouse": "--to",
    "--to": "--warehouse",
    **dict.fromkeys(("--all-topics", "--verbose", "--export", "--dry-run", "--execute"), ""),
}
"""Options of other tools, or of other commands, and their equivalents; "" stands for none."""
_SOURCES = ("--sample", "--log-dir", "--snapshot", "--zookeeper", "-b", "--bootstrap-server")
"""Options that select a source of groups."""
_GROUP_ARGUMENTS = ("group", "groups", "group_id", "names")
"""Parameters of commands whose arguments are ids of groups."""


def usage_message(error: click.UsageError) -> str:
    """Return a one-line message about an invalid command line."""
    if isinstance(error, click.NoSuchOption) and error.ctx is not None:
        return _no_such_option(error, error.ctx)
    unknown = re.match("No such command '([^']+)'", error.message)
    if unknown and error.ctx is not None and (line := _translated(unknown[1], error.ctx)):
        return f"No such command {unknown[1]!r}. Did you mean: {line}"
    message = error.format_message().replace("a valid integer range", "a whole number")
    if isinstance(error, click.MissingParameter):  # click writes each choice on its own line
        return re.sub(r"\s+", " ", message.removesuffix(".")) + _missing_remark(error)
    if unexpected := re.match(r"Got unexpected extra arguments? \(([^\s)]+)", error.message):
        known = _options(error.ctx.command) if error.ctx is not None else {}
        if "--member" in known:
            return f"{message}. Name members with --member {unexpected[1]}"
        is_group = "--group" in known and not unexpected[1].startswith("-")
        return f"{message}. Name groups with --group {unexpected[1]}" if is_group else message
    wrong = re.match("'(.*)' is not one of ", error.message)
    if wrong and isinstance(error, click.BadParameter) and error.param is not None:
        choices = getattr(error.param.type, "choices", ())
        if (
            wrong[1] == "parquet"
            and error.ctx is not None
            and "--parquet" in _options(error.ctx.command)
        ):
            return f"{message.removesuffix('.')}; for Parquet, use --parquet FILE"
        suggestion = near_names(wrong[1], map(str, choices))
        return f"{message.removesuffix('.')}{suggestion}" if suggestion else message
    return message


def _missing_remark(error: click.MissingParameter) -> str:
    """Return what a missing option is for, or how to write a partition of a topic."""
    param, ctx = error.param, error.ctx
    if isinstance(param, click.Option):
        return f" ({param.metavar or param.type.name}): {param.help}"
    topic = (ctx.params.get("topic") if ctx is not None else None) or ""
    typed = re.fullmatch(r"(.+)-(\d+)", topic)
    is_partition = typed is not None and param is not None and param.name == "partition"
    return f". Did you mean {typed[1]} {typed[2]}?" if typed and is_partition else "."


def _no_such_option(error: click.NoSuchOption, ctx: click.Context) -> str:
    option = error.option_name
    first = f"No such option {option!r}"
    if line := _translated(option, ctx):
        return f"{first}{_remark(option)}. Did you mean: {line}"
    if remark := _source_remark(option, ctx):
        return f"{first}: {remark}"
    known = _options(ctx.command)
    if ctx.parent is None and not near_names(option, known):
        return f"{first}. Put options after the command: kgroup COMMAND {option}"
    if _takes_groups(ctx.command) and not option.startswith("--"):
        return f"{first}. Put an id that begins with a dash after --: {ctx.command_path} -- -ID"
    word = option.lstrip("-")  # the dashes alone would make short options similar
    alike = [
        possibility
        for possibility in error.possibilities or ()
        if possibility.startswith(option) or near_names(word, [possibility.lstrip("-")])
    ]
    return click.NoSuchOption(option, possibilities=alike).format_message()


def _remark(option: str) -> str:
    """Return why a command lacks `--dry-run` or `--execute`."""
    is_change = option in ("--dry-run", "--execute")
    return ": this command changes no groups and no offsets" if is_change else ""


def _source_remark(option: str, ctx: click.Context) -> str:
    """Return what a command reads instead of a source that others read; "" for other options."""
    known, path = _options(ctx.command), ctx.command_path.split()[1:]
    if option not in _SOURCES:
        return ""
    if path == ["doctor"]:
        return "doctor checks a cluster (-b, -C) or ZooKeeper, and without one the installation"
    if path in (["offsets", "copy"], ["offsets", "diff"]):
        return "name stores by arguments: kafka:HOST:PORT, log-dir:PATH, snapshot:FILE, sample, ..."
    if path == ["history", "stream"]:
        return "stream reads a cluster (-b, -C); 'kgroup history build' reads files and the sample"
    if path[:1] != ["history"] or "--warehouse" not in known:
        return ""
    if "--log-dir" in known:
        return "records of the past are in a log directory, a cluster (-b) or a warehouse"
    source = {"--sample": "--sample", "-b": "-b HOST:PORT"}.get(option, "--from PATH")
    build = f"kgroup history build {source} --to warehouse"
    return f"this command reads a warehouse (--warehouse). To build one, run: {build}"


def _translated(word: str, ctx: click.Context) -> str | None:
    """Return the whole command line that was probably meant; None if nothing is known about it.

    Args:
        word: the unknown command or option.
        ctx: context in which it is unknown.
    """
    root, path = ctx.find_root(), ctx.command_path.split()[1:]
    typed: Sequence[str] = root.obj or ()
    rest = [*typed[len(path) :]]
    template = _template(word, ctx, path, rest)
    if template is None:
        return None
    command, path, blanks = _command_of(template.format(word).split(), root)
    if command is None:
        return _shown([*template.split(), *rest])
    names, options = _parsed(rest, command)
    given = {option.partition("=")[0] for option in options if option.startswith("-")}
    wanted, more = _blanks(blanks, given)
    if "GROUP" in more and len(names) < len(wanted):  # the names are groups, not stores
        more[more.index("GROUP") :] = names or ["GROUP"]
        names = []
    if not {"--all", "--regex", "--spec"} & given or "GROUP" not in wanted:
        names += wanted[len(names) :]
    line = [*path, *names, *options, *more]
    if any(name.startswith("-") for name in names):
        line = [*path, *options, *more, "--", *names]
    return None if line == [*typed] else _shown(line)


def _template(word: str, ctx: click.Context, path: Sequence[str], rest: list[str]) -> str | None:
    """Return the command that was meant, with blanks; remove its words from the rest."""
    command, root = ctx.command, ctx.find_root().command
    assert isinstance(root, CommandGroup)
    if not word.startswith("-"):
        rest.remove(word)
        is_of_root = bool(path) and word in root.help_lines()
        return _COMMANDS.get(" ".join([*path, word]), word if is_of_root else None)
    known = _options(command)
    if path and isinstance(command, CommandGroup) and (line := _put_first(ctx, path, rest)):
        return line
    for action, template in _ACTIONS.items():
        if action not in known and action in (word, *rest):
            return template
    if isinstance(command, CommandGroup):
        return _put_first(ctx, path, rest)
    if word in _GROUPS and path in (["list"], ["top"]):
        return _DESCRIBE
    is_known = _equivalent(word, known) is not None or (word in _GROUPS and _takes_groups(command))
    return " ".join(path) if is_known else None


def _put_first(ctx: click.Context, path: Sequence[str], rest: list[str]) -> str | None:
    """Return the command among words that begin with options; remove its words from the rest."""
    command: click.Command | None = ctx.command
    words = [*path]
    while isinstance(command, CommandGroup) and not isinstance(command, DefaultGroup):
        name = next((word for word in rest if word in command.help_lines()), None)
        if name is None:
            return _DESCRIBE if not words and {*_GROUPS} & {*rest} else None
        rest.remove(name)
        words.append(name)
        command = command.get_command(ctx, name)
    return " ".join(words)


def _command_of(
    template: list[str], root: click.Context
) -> tuple[click.Command | None, list[str], list[str]]:
    """Return the command of a template, its path, and the blanks and options behind it."""
    command: click.Command | None = root.command
    path: list[str] = []
    while isinstance(command, CommandGroup) and len(path) < len(template):
        child = command.get_command(root, template[len(path)])
        if child is None:
            break
        command = child
        path.append(template[len(path)])
    if isinstance(command, DefaultGroup):
        command = command.default
    return None if isinstance(command, CommandGroup) else command, path, template[len(path) :]


def _parsed(words: Sequence[str], command: click.Command) -> tuple[list[str], list[str]]:
    """Return the arguments and the options of a command line, translated for the command."""
    known = _options(command)
    names: list[str] = []
    options: list[str] = []
    left = [*words]
    while left:
        word = left.pop(0)
        if word == "--":
            return [*names, *left], options
        if not word.startswith("-") or word == "-":
            names.append(word)
            continue
        name, equals, value = word.partition("=") if word.startswith("--") else (word, "", "")
        if name not in known and name in _GROUPS and _takes_groups(command):
            names += [value] if equals else left[:1]
            left = left if equals else left[1:]
            continue
        name = name if (same := _equivalent(name, known)) is None else same
        if not name or (name in _ACTIONS and name not in known):
            continue
        options += [f"{name}={value}"] if equals else name.split(" ")
        option = known.get(name)
        if option is not None and not equals and not option.is_flag and not option.count:
            options += left[: option.nargs]
            left = left[option.nargs :]
    return names, options


def _equivalent(option: str, known: Options) -> str | None:
    """Return what an option of other tools is here, "" if it is to be left out; else None."""
    same = None if option in known else _OPTIONS.get(option)
    if option == "--to" and "--html" in known:  # report, which writes a file
        return "--html"
    if same == "--all" and same not in known:
        return ""  # such as list, which lists all groups
    return same if not same or same.split()[0] in known else None


def _blanks(template: Sequence[str], given: set[str]) -> tuple[list[str], list[str]]:
    """Return the arguments of a template, and those of its options that were not given."""
    if any(name.startswith(("--to-", "--shift-by")) for name in given):
        given = {*given, "--to-time"}
    if "--all" in given:
        given = {*given, "--group"}
    at = next((at for at, word in enumerate(template) if word.startswith("-")), len(template))
    names, options = [*template[:at]], " ".join(template[at:])
    words = [option.split() for option in re.split(r" (?=-)", options) if option]
    return names, [word for option in words if option[0] not in given for word in option]


def _options(command: click.Command) -> Options:
    """Return the options of a command by all their names."""
    return {
        name: option
        for option in command.params
        if isinstance(option, click.Option)
        for name in (*option.opts, *option.secondary_opts)
    }


def _takes_groups(command: click.Command) -> bool:
    parameters = {parameter.name: parameter for parameter in command.params}
    return any(isinstance(parameters.get(name), click.Argument) for name in _GROUP_ARGUMENTS)


def _shown(words: Sequence[str]) -> str:
    """Return a command line for the shell, without secrets."""
    from shlex import join

    from kgroup.redaction import is_secret, redact

    shown = ["kgroup"]
    for word in words:
        key, equals, _ = word.partition("=")
        is_hidden = equals and (is_secret(key) or redact(word) != word)
        shown.append(f"{key}=..." if is_hidden else word)
    return join(shown)
