"""`kgroup assign` and its what-if options."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any

import click

from kgroup.cli.command_group import Command
from kgroup.cli.option.common import (
    ID,
    PATH,
    examples,
    given_options,
    options_into,
    output_options,
    parsed,
)
from kgroup.cli.option.execution import dry_run_option
from kgroup.cli.option.file import read_whole
from kgroup.cli.option.parameter import parse_duration
from kgroup.cli.option.source import Source, missing_source, source_options
from kgroup.cli.option.suggestion import suggest_groups, suggest_members, suggest_topics_of_group
from kgroup.cli.output.context import Output, Page, drawing_width, json_errors, show, uncollected
from kgroup.cli.shell.suggestion import suggest_clients, suggest_strategies
from kgroup.errors import ExitStatus
from kgroup.source.config.client_setting import whole_number

if TYPE_CHECKING:
    from kgroup.operation.assign.what_if import AddedMembers, Changes
    from kgroup.render.sheet import Sheet


_MOST_ADDED = 10_000
_LISTS = ("topics=", "strategies=")
"""Attributes of new members that may have several values."""


def _added(text: str) -> AddedMembers:
    from kgroup.operation.assign.what_if import AddedMembers

    count, _, rest = text.partition(":")
    if "=" in count and not rest:
        count, rest = "", count
    number = whole_number(count, _MOST_ADDED) if count else 1
    if not number:
        raise ValueError(f"expected a number from 1 to {_MOST_ADDED}, found {count!r}")
    names = ("rack", "topics", "host", "streams", "strategies", "library", "protocol")
    known = {name: name for name in names} | {"client": "client_id", "instance": "instance_id"}
    rest, equals, regex = f",{rest}".partition(",regex=")  # last: it may contain commas
    fields: dict[str, Any] = {"regex": regex} if regex else {}
    last = ""
    for part in filter(None, (rest if regex else rest + equals).split(",")):
        name, equals, value = part.partition("=")
        if not equals and last.startswith(_LISTS):
            raise ValueError(f"expected + between several, as in {last}+{part}; found a comma")
        last = part
        if name not in known or not equals or not value:
            raise ValueError(
                "expected client=, instance=, rack=, topics=, strategies=, library=, protocol=, "
                f"host=, streams= or at the end regex=, separated by commas; found {part!r}"
            )
        if known[name] in fields:
            raise ValueError(f"expected {name}= once, found it twice")
        fields[known[name]] = _added_value(name, value)
    return AddedMembers(number, **fields)


def _added_value(name: str, value: str) -> object:
    if f"{name}=" in _LISTS:
        return tuple(value.split("+"))
    if name == "streams":
        number = whole_number(value, _MOST_ADDED)
        if not number:
            raise ValueError(f"streams=: expected 1 to {_MOST_ADDED}, found {value!r}")
        return number
    return value


def _topic_count(text: str) -> tuple[str, int]:
    from kgroup.operation.assign.spec import MOST_PARTITIONS

    name, _, digits = text.rpartition("=")
    number = whole_number(digits, MOST_PARTITIONS)
    if not name or number is None:
        limit = f" up to {MOST_PARTITIONS}" if name and digits.isdecimal() else ""
        raise ValueError(f"expected NAME=NUMBER{limit}, found {text!r}")
    return name, number


def _new_topic(text: str) -> tuple[str, int]:
    from kgroup.model.cluster import TOPIC_NAME, is_topic_name

    name, number = _topic_count(text)
    if not is_topic_name(name):
        raise ValueError(f"expected a topic name ({TOPIC_NAME}), found {name!r}")
    return name, number


def _subscription(text: str) -> tuple[str, tuple[str, ...]]:
    member, equals, topics = text.rpartition("=")
    if not equals or not member:
        raise ValueError(f"expected MEMBER=TOPIC,..., found {text!r}")
    return member, tuple(filter(None, topics.split(",")))


def _streams_setting(text: str) -> tuple[str, int]:
    from kgroup.operation.assign.classic_streams import SETTINGS, STANDBYS

    name, _, value = text.partition("=")
    names = [known for known in SETTINGS if known != STANDBYS]
    if name not in names or not re.fullmatch(r"\d{1,18}", value):
        raise ValueError(f"expected NAME=N, where NAME is {', '.join(names)}; found {text!r}")
    return name, int(value)


def _leader(ctx: click.Context, param: click.Parameter, names: Sequence[str]) -> str | None:
    if len(names) > 1:
        message = f"expected one member, since only one assigns; found {', '.join(names)}"
        raise click.BadParameter(message, ctx, param)
    return names[0] if names else None


def _what_if(
    option: str,
    name: str,
    metavar: str,
    question: str,
    *,
    parse: Callable[[str], Any] = str,
    suggest: Callable[..., Any] | None = None,
    **more: Any,
) -> Callable[[Any], Any]:
    """Return a repeatable option that changes the group before the dry run."""
    return click.option(
        option,
        name,
        metavar=metavar,
        multiple=True,
        callback=parsed(lambda texts: [*map(parse, texts)]),
        shell_complete=suggest,
        help=f"What if {question}",
        **more,
    )


what_if_options = options_into(
    "changes",
    "kgroup.operation.assign.what_if:Changes",
    _what_if(
        "--add-member",
        "add",
        "[N][:K=V,...]",
        "N members join? With client= (a client id), instance=, rack=, topics=A+B; for classic "
        "groups strategies=A+B and library= (as for --client), or protocol=consumer, which makes "
        "them consumer groups; for consumer groups strategies= (group.remote.assignor) and regex= "
        "(at the end); for ZooKeeper consumers host=, streams=, topics=A+B.",
        parse=_added,
        is_flag=False,
        flag_value="1",
    ),
    _what_if(
        "--remove-member",
        "remove",
        "MEMBER",
        "a member leaves? Here and below, MEMBER is a member id or the start of it (longer than "
        "the client id), an instance id, a client id or a host.",
        suggest=suggest_members,
    ),
    _what_if(
        "--restart-member",
        "restart",
        "MEMBER",
        "a member restarts with a new id and without its previous assignment?",
        suggest=suggest_members,
    ),
    _what_if(
        "--partitions",
        "partitions",
        "TOPIC=N",
        "a topic has N partitions?",
        parse=_topic_count,
        suggest=suggest_topics_of_group,
    ),
    _what_if(
        "--add-topic",
        "add_topics",
        "TOPIC=N",
        "a topic with N partitions is added, and all members subscribe to it?",
        parse=_new_topic,
    ),
    _what_if(
        "--drop-topic",
        "drop_topics",
        "TOPIC",
        "a topic is deleted?",
        suggest=suggest_topics_of_group,
    ),
    _what_if(
        "--connector",
        "connectors",
        "NAME=TASKS",
        "a Connect cluster has this connector, with this number of tasks?",
        parse=_topic_count,
    ),
    _what_if("--drop-connector", "drop_connectors", "NAME", "a connector is deleted?"),
    click.option(
        "--max-delay",
        "max_delay_ms",
        metavar="DURATION",
        callback=parsed(parse_duration),
        help="scheduled.rebalance.max.delay.ms of Connect's workers.  [default: 5m, Kafka's; or "
        "that of the delay in progress]",
    ),
    click.option(
        "--standbys",
        type=click.IntRange(0, 100),
        metavar="N",
        help="What if streams.num.standby.replicas of a streams group is N, or "
        "num.standby.replicas of Streams with the classic protocol?",
    ),
    _what_if(
        "--streams-config",
        "streams_config",
        "NAME=N",
        "a Streams application with the classic protocol has this setting: "
        "acceptable.recovery.lag, max.warmup.replicas or probing.rebalance.interval.ms "
        "(milliseconds)?",
        parse=_streams_setting,
    ),
    _what_if(
        "--subscribe",
        "subscribe",
        "MEMBER=TOPIC,...",
        "a member subscribes to these topics instead?",
        parse=_subscription,
    ),
    click.option(
        "--leader",
        metavar="MEMBER",
        multiple=True,
        callback=_leader,
        shell_complete=suggest_members,
        help="What if this member is the leader, and assigns? Makes no difference if all members "
        "use Kafka's own client.",
    ),
    click.option("--fresh", is_flag=True, help="What if no member has a previous assignment?"),
)
"""Adds the options that change a group; the command takes ``changes: Changes``."""


_VERSIONS = (
    *("4.3.1", "3.7.0", "3.4.1", "3.3.2", "3.2.3", "3.1.2"),
    *("2.8.2", "2.8.0", "2.5.0", "2.3.1", "2.2.2", "1.1.1", "0.8.2.2"),
)


def _checked(text: str, parse: str) -> str:
    """Return a text that a function, given as ``module:name``, can parse."""
    try:
        resolve_name(parse)(text)
    except ValueError as error:
        raise ValueError(f"expected {error}") from None
    return text


_OF_DRY_RUNS = frozenset(
    (
        *("spec", "strategy", "kafka_version", "client", "settle", "grid", "compare", "bounce"),
        *("add", "remove", "restart", "partitions", "add_topics", "drop_topics", "connectors"),
        *(
            "drop_connectors",
            "max_delay_ms",
            "standbys",
            "streams_config",
            "subscribe",
            "leader",
            "fresh",
        ),
    )
)
"""Parameters of dry runs, which --may-join does not combine with."""


@click.command(
    "assign",
    cls=Command,
    epilog=examples(
        "kgroup assign order-service --sample",
        "kgroup assign order-service --sample --strategy cooperative-sticky --settle",
        "kgroup assign order-service --sample --add-member 2 --partitions orders=12",
        "kgroup assign order-service --sample --compare",
        "kgroup assign order-service --sample --may-join franz-go:range,cooperative-sticky",
        "kgroup assign stock-sync --sample --add-member 1:host=depot-3,streams=2",
        "kgroup assign warehouse-sync --sample --add-member --settle",
        "kgroup assign -b kafka-1:9092 billing --remove-member billing-3-0a4f",
        "kgroup assign --spec groups.jsonl -o jsonl",
    ),
)
@click.argument("group", required=False, type=ID, shell_complete=suggest_groups)
@dry_run_option(expose_value=False)
@source_options(required=False)
@click.option(
    "--spec",
    metavar="FILE",
    type=PATH,
    help="Read groups from JSON or JSON lines instead of a source; - for standard input.",
)
@click.option(
    "--strategy",
    metavar="NAME",
    shell_complete=suggest_strategies,
    help="Assignor: range, roundrobin, sticky or cooperative-sticky for classic groups, uniform "
    "or range for consumer groups, simple for share groups, sticky for streams groups, stream or "
    "sticky for Streams with the classic protocol, sessioned, compatible or default (eager) for "
    "Connect, range or roundrobin for ZooKeeper consumers.  "
    "[default: the group's own; for ZooKeeper consumers, the one that matches the current owners]",
)
@click.option(
    "--kafka-version",
    type=click.Choice(_VERSIONS),
    help="Version of Kafka whose assignor to use.  [default: 4.3.1; for ZooKeeper consumers "
    "0.8.2.2]",
)
@click.option(
    "--client",
    metavar="LIBRARY[@VERSION]",
    callback=parsed(partial(_checked, parse="kgroup.operation.assign.client:software")),
    shell_complete=suggest_clients,
    help="Client library of the leader, which assigns in a classic group.  [default: recognized "
    "by the members' subscriptions, else kafka-clients, Kafka's own]",
)
@click.option("--settle", is_flag=True, help="Also run the follow-up rebalances.")
@click.option("--grid", is_flag=True, help="Draw members and partitions instead of tables.")
@click.option(
    "--compare", is_flag=True, help="Compare all strategies, ranked by moves and balance."
)
@click.option("--bounce", is_flag=True, help="Restart every member in turn, and count all moves.")
@click.option(
    "--may-join",
    metavar="CLIENT",
    callback=parsed(
        partial(_checked, parse="kgroup.operation.assign.joining_client:joining_client")
    ),
    shell_complete=suggest_clients,
    help="Show whether this client can join the group, and the rebalances that follow. CLIENT is "
    "LIBRARY[@VERSION][:STRATEGY,...], as for --client; LIBRARY:consumer uses the consumer "
    "protocol.  [default strategies: the library's own]",
)
@what_if_options
@output_options(
    "assignment.MOVE_COLUMNS",
    {
        "--compare": "assignment.COMPARE_COLUMNS",
        "--bounce": "assignment.BOUNCE_COLUMNS",
        "--may-join": "client_join.JOIN_COLUMNS",
    },
)
def command(
    group: str | None,
    source: Source,
    spec: Path | None,
    strategy: str | None,
    kafka_version: str | None,
    client: str | None,
    settle: bool,
    grid: bool,
    compare: bool,
    bounce: bool,
    may_join: str | None,
    changes: Changes,
    output: Output,
) -> ExitStatus:
    """Show what would move if members join, leave or change.

    A dry run: kgroup runs the assignor of the leader's client library, including its order and its
    bugs. Only members or the coordinator can really assign; nothing is sent to the group.
    """
    if (group is None) == (spec is None):
        given = "neither" if group is None else "both"
        raise click.UsageError(f"name one group, or give --spec FILE; found {given}")
    if spec is not None and source.is_named:
        raise click.UsageError("--spec replaces a source of groups; leave out one of them")
    if group is not None and source == Source():
        raise missing_source()
    if may_join is not None:
        other = next((text for name, text in given_options().items() if name in _OF_DRY_RUNS), None)
        if other is not None:
            raise click.UsageError(f"--may-join asks about a group as it is; leave out {other}")
        return _answer(may_join, str(group), source, output)
    if compare and (bounce or settle or strategy):
        raise click.UsageError(
            "--compare runs all strategies with their follow-up rebalances; leave out --strategy, "
            "--settle and --bounce"
        )
    if bounce and settle:
        raise click.UsageError("--bounce includes follow-up rebalances; leave out --settle")
    if grid and (compare or bounce):
        raise click.UsageError("--grid draws one assignment; leave out --compare and --bounce")
    if grid and (output.form != "table" or output.columns):
        raise click.UsageError("--grid writes a drawing; leave out --grid, or -o and --columns")
    if client is not None and kafka_version is not None:
        raise click.UsageError(
            "--client selects a library and its version; leave out --kafka-version"
        )
    from kgroup.operation.assign.dry_run import AssignRequest, Mode, assign_group, assign_specs
    from kgroup.render import assignment as render
    from kgroup.render.assignment_object import assign_object

    modes = {Mode.COMPARE: compare, Mode.BOUNCE: bounce, Mode.SETTLE: settle}
    mode = next((mode for mode, is_chosen in modes.items() if is_chosen), Mode.ONCE)
    request = AssignRequest(mode, strategy, kafka_version, client, changes)
    click.get_current_context().with_resource(uncollected())
    with json_errors(output):
        if spec is not None:
            report = assign_specs(read_whole(spec), str(spec), request)
        else:
            assert group is not None
            with source.that_has([group]).open() as opened:
                report = assign_group(opened, group, request)
    if grid and any(plan.connect is not None for row in report.data for plan in row.plans):
        raise click.UsageError("--grid draws partitions, not connectors and tasks; leave it out")
    sheet: Callable[[Any], Sheet]
    page: Page
    if mode is Mode.COMPARE:
        sheet, page = render.compared_sheet, render.compared_page
    elif mode is Mode.BOUNCE:
        sheet, page = render.bounces_sheet, render.bounces_page
    else:
        sheet = render.moves_sheet
        page = partial(render.runs_page, grid_width=drawing_width() if grid else None)
    return show(report, output, page, sheet=sheet, row=assign_object)


def _answer(may_join: str, group: str, source: Source, output: Output) -> ExitStatus:
    """Show whether a client can join a group."""
    from kgroup.operation.client_join import client_join
    from kgroup.render import client_join as render

    with json_errors(output), source.that_has([group]).open() as opened:
        report = client_join(opened, group, may_join)
    return show(report, output, render.joins_page, sheet=render.joins_sheet, row=render.join_object)
