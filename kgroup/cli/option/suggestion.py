"""What a word on a command line may become, by what the source of groups says that stands there.

Somebody waits for the tab key: what takes long is given up, what goes wrong is passed over: then
there is nothing to suggest, and nothing is said about it. Clusters are sent questions only, as by
`kgroup list`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import CompletionItem

from kgroup.cli.option.common import ID
from kgroup.cli.option.parameter import parse_seconds
from kgroup.cli.option.source import source_of
from kgroup.cli.shell.suggestion import PART, Items

if TYPE_CHECKING:
    from kgroup.model.group import Group
    from kgroup.source.base import GroupSource

PATIENCE_S = 1.0
"""How long to wait for a source of groups, unless $KGROUP_COMPLETION_TIMEOUT says otherwise."""


def suggest_groups(ctx: click.Context, param: click.Parameter, incomplete: str) -> Items:
    """Suggest ids of groups that the source on the command line, or in the environment, has.

    That may be a warehouse, too.

    Left out are ids that were given already, ids with characters that no line can show, and, for
    arguments, ids that would be taken for options.
    """
    if ctx.params.get("kind") == "transaction":
        return []
    if any("--warehouse" in param.opts and param.required for param in ctx.command.params):
        found = _within(_patience_s(), lambda: _groups_of_warehouse(ctx))
    else:
        found = _asked(ctx, _group_ids)
    given = set(ctx.params.get(param.name or "") or ())
    is_argument = isinstance(param, click.Argument)
    return [
        CompletionItem(group_id)
        for group_id in found
        if group_id.startswith(incomplete) and group_id.isprintable() and group_id not in given
        if group_id and not (is_argument and group_id.startswith("-"))
    ]


groups_argument = click.argument(
    "groups", metavar="[GROUP...]", nargs=-1, type=ID, shell_complete=suggest_groups
)
"""Ids of groups, as ``groups``."""

named_groups_argument = click.argument(
    "groups", metavar="GROUP...", nargs=-1, required=True, type=ID, shell_complete=suggest_groups
)
"""The same, at least one."""


def suggest_members(ctx: click.Context, param: click.Parameter, incomplete: str) -> Items:
    """Suggest ids of the members of the group that stands on the command line."""
    return [
        CompletionItem(member_id)
        for member_id in _of_group(
            ctx, lambda group: [member.member_id for member in group.members]
        )
        if member_id.startswith(incomplete) and member_id.isprintable()
    ]


def suggest_topics(ctx: click.Context, param: click.Parameter, incomplete: str) -> Items:
    """Suggest topics: all of a cluster, or those that the groups of another source name.

    Topics of Kafka's own, whose names begin with two underscores, are for those who begin so too.
    """

    def ask(source: GroupSource) -> Collection[str]:
        return source.topic_names()

    given = set(ctx.params.get(param.name or "") or ())
    return [
        CompletionItem(topic)
        for topic in _asked(ctx, ask)
        if topic.startswith(incomplete) and topic not in given
        if incomplete.startswith("_") or not topic.startswith("__")
    ]


def suggest_topics_of_group(ctx: click.Context, param: click.Parameter, incomplete: str) -> Items:
    """Suggest topics of the group that stands on the command line; before "=" where one follows."""
    equals = "=" in (param.metavar or "")
    return [
        CompletionItem(f"{topic}=", PART) if equals else CompletionItem(topic)
        for topic in _of_group(ctx, lambda group: sorted(group.topics), offsets=True)
        if topic.startswith(incomplete)
    ]


def _of_group(
    ctx: click.Context, texts: Callable[[Group], Collection[str]], *, offsets: bool = False
) -> Sequence[str]:
    """Ask the source for the group that stands on the command line, and that for something."""
    # click gives up the arguments of a line that ends with an option whose value is being typed
    depth = len(ctx.command_path.split()) - 1  # words of the command itself
    words = list((ctx.obj or ())[depth:-1])
    line = ctx.command.make_context(ctx.info_name, words, ctx.parent, resilient_parsing=True)
    group_id = line.params.get("group")
    if not group_id:
        return ()

    def ask(source: GroupSource) -> Collection[str]:
        from kgroup.source.base import Question

        groups = source.read([group_id], Question(offsets=offsets, log_budget=0)).image.groups
        return [text for group in groups.values() for text in texts(group)]

    return _asked(line, ask)


def _group_ids(source: GroupSource) -> Collection[str]:
    from kgroup.source.base import Question

    question = Question(state=False, members=False, offsets=False, log_budget=0)
    return source.read(question=question).image.groups.keys()


def _groups_of_warehouse(ctx: click.Context) -> Collection[str]:
    """Read the ids of the groups that the warehouse on the command line has records of."""
    from kgroup.history.sql.engine import DuckEngine
    from kgroup.history.sql.question import group_ids
    from kgroup.history.warehouse.warehouse import read_warehouse

    with (
        read_warehouse(_expanded(ctx.params["root"])) as warehouse,
        DuckEngine(warehouse.files(ctx.params.get("cluster"))) as engine,
    ):
        return group_ids(engine)


def _asked(ctx: click.Context, ask: Callable[[GroupSource], Collection[str]]) -> Sequence[str]:
    """Ask the source on the command line, or in the environment, as long as patience lasts."""
    options = {name: _expanded(value) for name, value in ctx.params.items()}
    patience_s = _patience_s()
    is_of_zookeeper = ctx.parent is not None and ctx.parent.command.name == "zk"

    def open_and_ask() -> Collection[str]:
        chosen = source_of(options, patience_s)
        if is_of_zookeeper:
            chosen = chosen.of_zookeeper
        with chosen.open(of_silence=True) as source:  # `_within` ends it
            return ask(source)

    return _within(patience_s, open_and_ask)


def _patience_s() -> float:
    with suppress(ValueError):
        return parse_seconds(os.environ.get("KGROUP_COMPLETION_TIMEOUT", str(PATIENCE_S)))
    return PATIENCE_S


def _within(seconds: float, ask: Callable[[], Collection[str]]) -> Sequence[str]:
    """Answer a question if that takes no longer and meets no trouble."""
    from threading import Thread

    answers: list[str] = []

    def work() -> None:
        with suppress(Exception, SystemExit):  # the line that is being typed may be anything
            answers.extend(ask())

    thread = Thread(target=work, daemon=True)
    thread.start()
    thread.join(seconds)
    return () if thread.is_alive() else answers


def _expanded(value: Any) -> Any:
    """Write out what the shell would have: it hands over words as they stand there."""
    if isinstance(value, Path):
        return Path(os.path.expandvars(value)).expanduser()
    if isinstance(value, tuple):
        return tuple(map(_expanded, value))
    return value
