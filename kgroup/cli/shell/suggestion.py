"""What a word on a command line may become: functions for click's `shell_complete`.

They are called while somebody waits for the tab key. What takes long is given up, what goes wrong
is passed over: then there is nothing to suggest, and nothing is said about it. Clusters are sent
questions only, as by `kgroup list`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import click
from click.shell_completion import CompletionItem

if TYPE_CHECKING:
    from kgroup.model.group import Group
    from kgroup.render.cell import Column
    from kgroup.source.base import GroupSource

__all__ = [
    "PART",
    "suggest_choices",
    "suggest_columns",
    "suggest_groups",
    "suggest_members",
    "suggest_profiles",
    "suggest_record_types",
    "suggest_strategies",
    "suggest_topics",
    "suggest_topics_of_group",
]

Items: TypeAlias = "list[CompletionItem[str]]"  # older versions of click have no type arguments

PATIENCE_S = 1.0
"""How long to wait for a source of groups, unless $KGROUP_COMPLETION_TIMEOUT says otherwise."""
_PARTS_OF_HISTORY = ("partitions", "of_groups", "pauses", "jumps")
"""Options of questions of history that choose other rows."""
PART = "part"
"""Type of a suggestion after which the word may go on: one of several with commas between."""


def suggest_groups(ctx: click.Context, param: click.Parameter, incomplete: str) -> Items:
    """Suggest ids of groups that the source on the command line, or in the environment, has.

    That may be a warehouse, too.

    Left out are ids that were given already, ids with characters that no line can show, and, for
    arguments, ids that would be taken for options.
    """
    if ctx.params.get("kind") == "transaction":
        return []
    if any("--warehouse" in param.opts for param in ctx.command.params):
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


def suggest_members(ctx: click.Context, param: click.Parameter, incomplete: str) -> Items:
    """Suggest ids of the members of the group that stands on the command line."""
    return [
        CompletionItem(member_id)
        for member_id in _of_group(ctx, lambda group: [each.member_id for each in group.members])
        if member_id.startswith(incomplete) and member_id.isprintable()
    ]


def suggest_topics(ctx: click.Context, param: click.Parameter, incomplete: str) -> Items:
    """Suggest topics: all of a cluster, or those that the groups of another source name.

    Topics of Kafka's own, whose names begin with two underscores, are for those who begin so too.
    """

    def ask(source: GroupSource) -> Collection[str]:
        from kgroup.source.base import Question, TopicSource

        if isinstance(source, TopicSource):
            return source.topic_names()
        groups = source.read(question=Question(log_budget=0)).image.groups
        return sorted({topic for group in groups.values() for topic in group.topics})

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


def suggest_strategies(ctx: click.Context, param: click.Parameter, incomplete: str) -> Items:
    """Suggest names of assignors, of whatever protocol."""
    from kgroup.assignor.strategy import strategies

    protocols = ("classic", "consumer", "share", "zookeeper")
    names = dict.fromkeys(name for protocol in protocols for name in strategies(protocol))
    return [CompletionItem(name) for name in names if name.startswith(incomplete)]


def suggest_choices(ctx: click.Context, param: click.Parameter, incomplete: str) -> Items:
    """Suggest the choices of a parameter as they are written; click's own are in lower case."""
    assert isinstance(param.type, click.Choice)
    return [
        CompletionItem(str(choice))
        for choice in param.type.choices
        if str(choice).lower().startswith(incomplete.lower())
    ]


def suggest_columns(ctx: click.Context, param: click.Parameter, incomplete: str) -> Items:
    """Suggest columns of the tables that the command writes, after those that stand there."""
    from kgroup.render.group import group as of_groups

    name, params = ctx.command.name, ctx.params
    columns: Sequence[Column]
    if name == "decode-offsets":
        from kgroup.render.record.record import RECORD_COLUMNS

        columns = RECORD_COLUMNS
    elif name == "list":
        columns = of_groups.LIST_COLUMNS
    elif name == "coordinator":
        is_group = params.get("kind") != "transaction"
        columns = of_groups.LOCATION_COLUMNS if is_group else of_groups.TRANSACTION_COLUMNS
    elif name == "assign":
        from kgroup.render.group.assignment import columns_of

        columns = columns_of(next((m for m in ("compare", "bounce") if params.get(m)), "run"))
    elif ctx.parent is not None and ctx.parent.command.name == "history" and name != "as-of":
        columns = _history_columns(name or "", params)
    elif name in ("ids", "owners", "tree", "fetchers", "check"):
        from kgroup.render.group import zookeeper as of_zookeeper

        columns = {
            "check": of_zookeeper.FINDING_COLUMNS,
            "ids": of_zookeeper.CONSUMER_COLUMNS,
            "owners": of_zookeeper.OWNER_COLUMNS,
            "tree": of_zookeeper.NODE_COLUMNS,
            "fetchers": of_zookeeper.FETCH_COLUMNS,
        }[name]
    elif params.get("members"):
        columns = of_groups.MEMBER_COLUMNS
    elif params.get("state"):
        columns = of_groups.STATE_COLUMNS
    else:
        columns = of_groups.OFFSET_COLUMNS
    return _parts({column.name: column.meaning for column in columns}, incomplete)


def _history_columns(name: str, params: Mapping[str, Any]) -> Sequence[Column]:
    from kgroup.render.history import answer, build, rebalance

    part = next((option for option in _PARTS_OF_HISTORY if params.get(option)), name)
    columns: Mapping[str, Sequence[Column]] = {
        "build": build.BUILD_COLUMNS,
        "show": answer.CLUSTER_STOCK_COLUMNS,
        "partitions": answer.PARTITION_STOCK_COLUMNS,
        "of_groups": answer.GROUP_STOCK_COLUMNS,
        "owner": answer.OWNER_COLUMNS,
        "timeline": answer.INTERVAL_COLUMNS,
        "commits": answer.COMMIT_COLUMNS,
        "pauses": answer.PAUSE_COLUMNS,
        "jumps": answer.JUMP_COLUMNS,
        "stale": answer.STALE_COLUMNS,
        "lag": answer.LAG_COLUMNS,
        "rebalances": rebalance.REBALANCE_COLUMNS,
        "storms": rebalance.STORM_COLUMNS,
    }
    return columns.get(part, ())  # those of sql are what the query says


def suggest_record_types(ctx: click.Context, param: click.Parameter, incomplete: str) -> Items:
    """Suggest types of records, after those that stand there."""
    from kgroup.protocol.record.coordinator_record import RECORD_TYPES

    return _parts(dict.fromkeys(RECORD_TYPES), incomplete)


def suggest_profiles(ctx: click.Context, param: click.Parameter, incomplete: str) -> Items:
    """Suggest profiles of kgroup's configuration file."""
    from kgroup.source.config.profile import CONFIG_FILE, profile_names

    names: Iterable[str] = ()
    with suppress(Exception):
        file = Path(os.environ.get("KGROUP_CONFIG") or CONFIG_FILE).expanduser()
        names = profile_names(file)
    return [CompletionItem(name) for name in names if name.startswith(incomplete)]


def _parts(meanings: Mapping[str, str | None], incomplete: str) -> Items:
    """Suggest names for the last part of a text with commas, those that are not there yet."""
    before, comma, last = incomplete.rpartition(",")
    given = before.split(",")
    return [
        CompletionItem(f"{before}{comma}{name}", PART, meaning)
        for name, meaning in meanings.items()
        if name.lower().startswith(last.lower()) and name not in given
    ]


def _of_group(
    ctx: click.Context, tell: Callable[[Group], Collection[str]], *, offsets: bool = False
) -> Sequence[str]:
    """Ask the source for the group that stands on the command line, and that for something."""
    # click gives up the arguments of a line that ends with an option whose value is being typed
    words = list((ctx.obj or ())[1:-1])
    line = ctx.command.make_context(ctx.info_name, words, ctx.parent, resilient_parsing=True)
    group_id = line.params.get("group")
    if not group_id:
        return ()

    def ask(source: GroupSource) -> Collection[str]:
        from kgroup.source.base import Question

        groups = source.read([group_id], Question(offsets=offsets, log_budget=0)).image.groups
        return [text for group in groups.values() for text in tell(group)]

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
    from kgroup.cli.option.source import source_of, with_sample_zookeeper

    options = {name: _expanded(value) for name, value in ctx.params.items()}
    patience_s = _patience_s()
    is_of_zookeeper = ctx.parent is not None and ctx.parent.command.name == "zk"

    def open_and_ask() -> Collection[str]:
        chosen = source_of(options, patience_s)
        if is_of_zookeeper:
            chosen = with_sample_zookeeper(chosen)
        with chosen.open(of_silence=True) as source:  # `_within` ends it
            return ask(source)

    return _within(patience_s, open_and_ask)


def _patience_s() -> float:
    with suppress(ValueError):
        return float(os.environ.get("KGROUP_COMPLETION_TIMEOUT", PATIENCE_S))
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
