"""Completion of words from a source of groups.

The user is waiting after the tab key. Therefore, slow requests are abandoned and errors are
ignored: there are no suggestions then, and no message. Clusters receive only read requests, as from
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
"""Timeout of a source in seconds; $KGROUP_COMPLETION_TIMEOUT overrides it."""


def suggest_groups(ctx: click.Context, param: click.Parameter, incomplete: str) -> Items:
    """Suggest group ids from the source on the command line, or in the environment.

    The source may also be a warehouse. Excluded are ids that were typed already, unprintable ids
    and, for arguments, ids that look like options.
    """
    if ctx.params.get("kind") == "transaction":
        return []
    if ctx.params.get("root") is not None:
        group_ids = _within(_patience_s(), lambda: _groups_of_warehouse(ctx))
    else:
        group_ids = _asked(ctx, _group_ids)
    given = set(ctx.params.get(param.name or "") or ())
    is_argument = isinstance(param, click.Argument)
    return [
        CompletionItem(group_id)
        for group_id in group_ids
        if group_id.startswith(incomplete) and group_id.isprintable() and group_id not in given
        if group_id and not (is_argument and group_id.startswith("-"))
    ]


groups_argument = click.argument(
    "groups", metavar="[GROUP...]", nargs=-1, type=ID, shell_complete=suggest_groups
)
"""Group ids, as ``groups``."""

named_groups_argument = click.argument(
    "groups", metavar="GROUP...", nargs=-1, required=True, type=ID, shell_complete=suggest_groups
)
"""Group ids, as ``groups``; at least one."""


def suggest_members(ctx: click.Context, param: click.Parameter, incomplete: str) -> Items:
    """Suggest member ids of the group on the command line."""
    return [
        CompletionItem(member_id)
        for member_id in _of_group(
            ctx, lambda group: [member.member_id for member in group.members]
        )
        if member_id.startswith(incomplete) and member_id.isprintable()
    ]


def suggest_topics(ctx: click.Context, param: click.Parameter, incomplete: str) -> Items:
    """Suggest topics: all topics of a cluster, or the topics of the groups in another source.

    Topics that begin with two underscores, which are Kafka's own, are suggested only after an
    underscore.
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
    """Suggest topics of the group on the command line; with "=" if a value follows."""
    equals = "=" in (param.metavar or "")
    return [
        CompletionItem(f"{topic}=", PART) if equals else CompletionItem(topic)
        for topic in _of_group(ctx, lambda group: sorted(group.topics), offsets=True)
        if topic.startswith(incomplete)
    ]


def _of_group(
    ctx: click.Context, texts: Callable[[Group], Collection[str]], *, offsets: bool = False
) -> Sequence[str]:
    """Return texts about the group on the command line, read from the source."""
    # click drops the arguments if the line ends with an option whose value is being typed.
    depth = len(ctx.command_path.split()) - 1  # words of the command after "kgroup"
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
    """Return the group ids in the warehouse on the command line."""
    from kgroup.history.sql.engine import DuckEngine
    from kgroup.history.sql.question import group_ids
    from kgroup.history.warehouse.warehouse import read_warehouse

    with (
        read_warehouse(_expanded(ctx.params["root"])) as warehouse,
        DuckEngine(warehouse.files(ctx.params.get("cluster"))) as engine,
    ):
        return group_ids(engine)


def _asked(ctx: click.Context, ask: Callable[[GroupSource], Collection[str]]) -> Sequence[str]:
    """Query the source on the command line, or in the environment, within the timeout."""
    options = {name: _expanded(value) for name, value in ctx.params.items()}
    patience_s = _patience_s()
    is_of_zookeeper = ctx.parent is not None and ctx.parent.command.name == "zk"

    def open_and_ask() -> Collection[str]:
        chosen = source_of(options, patience_s)
        if is_of_zookeeper:
            chosen = chosen.of_zookeeper
        with chosen.open(of_silence=True) as source:  # `_within` limits the time
            return ask(source)

    return _within(patience_s, open_and_ask)


def _patience_s() -> float:
    with suppress(ValueError):
        return parse_seconds(os.environ.get("KGROUP_COMPLETION_TIMEOUT", str(PATIENCE_S)))
    return PATIENCE_S


def _within(seconds: float, ask: Callable[[], Collection[str]]) -> Sequence[str]:
    """Call `ask` with a timeout; return nothing if it is exceeded or an error occurs."""
    from threading import Thread

    answers: list[str] = []

    def work() -> None:
        with suppress(Exception, SystemExit):  # the typed line may be invalid
            answers.extend(ask())

    thread = Thread(target=work, daemon=True)
    thread.start()
    thread.join(seconds)
    return () if thread.is_alive() else answers


def _expanded(value: Any) -> Any:
    """Expand variables and ``~`` in paths, which the shell does not expand for completion."""
    if isinstance(value, Path):
        return Path(os.path.expandvars(value)).expanduser()
    if isinstance(value, tuple):
        return tuple(map(_expanded, value))
    return value
