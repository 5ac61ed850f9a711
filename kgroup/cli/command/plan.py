"""`kgroup plan`: one command for each target, and recommendations."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import partial, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import click

from kgroup.cli.command.plan_step import apply_command, verify_command
from kgroup.cli.command_group import DefaultCommand, DefaultGroup, meant
from kgroup.cli.option.common import (
    ID,
    PATH,
    check_all,
    examples,
    given_options,
    options_into,
    output_options,
    parsed,
)
from kgroup.cli.option.execution import tell_profile
from kgroup.cli.option.parameter import parse_duration, parse_some_time
from kgroup.cli.option.source import (
    Source,
    missing_source,
    source_options,
    zookeeper_source_options,
)
from kgroup.cli.option.store import SqlNames, planned_copy, planned_table, table_options
from kgroup.cli.option.suggestion import groups_argument, named_groups_argument
from kgroup.cli.output.context import Output, draw, json_errors, show
from kgroup.cli.shell.suggestion import suggest_strategies
from kgroup.errors import ExitStatus, ProblemKind, UsageError, near_names

if TYPE_CHECKING:
    from kgroup.model.problem import Problem
    from kgroup.operation.plan.forecast import ProgramBehavior
    from kgroup.operation.plan.plan import Plan
    from kgroup.operation.plan.zookeeper_group import OldGroup
    from kgroup.operation.report import Report
    from kgroup.source.base import GroupSource


command = DefaultGroup(
    "kgroup plan",
    """Plan migrations off eager strategies and old protocols.

    A plan has preconditions, steps (what to set, what to do, what to expect), how to go back, and a
    forecast by the simulator of what each step costs. 'kgroup plan verify' compares a saved plan
    (-o json) with the group, and 'kgroup plan apply --execute' copies offsets where a step does.
    Everything else only sends read requests.

    Without a target, 'kgroup plan GROUP...' (or --all) shows which migrations make sense, such as
    for groups with an eager strategy, and what each would save; 'kgroup plan --list' lists all
    targets. Put a group that has the name of a target after the options and --: 'kgroup plan
    --sample -- assignor'.
    """,
    "COMMAND [ARGS]... | [GROUP...]",
)


CONSUMER_CONFIG_OPTION = click.option(
    "--consumer-config",
    metavar="FILE",
    type=PATH,
    help="Settings of the members (consumer.properties), which ZooKeeper does not have.",
)


_LONGEST_MS = 86_400_000


def _parse_played(text: str) -> int:
    """Parse a duration to simulate.

    Raises:
        ValueError: the text is invalid, or longer than a day.
    """
    if (length_ms := parse_duration(text)) > _LONGEST_MS:
        raise ValueError(f"expected at most a day (1d), as all of it is simulated, found {text!r}")
    return length_ms


behavior_options = options_into(
    "behavior",
    "kgroup.operation.plan.forecast:ProgramBehavior",
    click.option(
        "--poll-interval",
        "poll_ms",
        metavar="TIME",
        default="500ms",
        show_default=True,
        callback=parsed(parse_some_time),
        help="Time that a member needs to process the records of one poll().",
    ),
    click.option(
        "--restart-time",
        "restart_ms",
        metavar="TIME",
        default="5s",
        show_default=True,
        callback=parsed(_parse_played),
        help="Time that a restart takes, from the end of a process to its next start.",
    ),
    click.option(
        "--at-once",
        metavar="N",
        type=click.IntRange(1),
        help="Number of members to restart at a time.  [default: 1; for more than 20 members, a "
        "twentieth]",
    ),
    click.option(
        "--seed",
        metavar="N",
        type=click.IntRange(0, 2**63 - 1),
        default=0,
        show_default=True,
        help="Seed of everything random in the forecast.",
    ),
)
"""Adds the parameters of the simulation; the command takes ``behavior: ProgramBehavior``."""

_DIAGRAM_OPTION = click.option(
    "--diagram", is_flag=True, help="Write a Mermaid diagram of the steps."
)


def _consumer_config(path: Path) -> tuple[Mapping[str, str], list[str]]:
    """Read settings of a group's members, with notes on unknown settings.

    Raises:
        InputError: the file cannot be read.
        UsageError: the file is malformed.
    """
    from kgroup.operation.plan.zookeeper_group import BECOMES
    from kgroup.source.config.client_setting import JAVA_BLANK
    from kgroup.source.config.properties_file import read_properties

    settings = read_properties(path)
    notes = [
        f"{setting.where} is not a setting of consumers of Kafka 0.8, which ignore "
        f"it{near_names(setting.key, BECOMES)}"
        for setting in settings
        if setting.key not in BECOMES
    ]
    return {setting.key: setting.value.strip(JAVA_BLANK) for setting in settings}, notes


Plans: TypeAlias = "Callable[[GroupSource, Sequence[str]], Report[Plan]]"
"""Returns plans for groups of a source."""


def forecast_options(plans_of: Callable[..., Plans]) -> Callable[..., Any]:
    """Turn a function that returns `Plans` into the command of a target.

    The function takes the target's own options, ``source`` and ``behavior``. The command also has
    the options of forecast and output; it creates the plans, and writes or draws them.
    """

    @wraps(plans_of)
    def plan_groups(
        *, groups: Sequence[str], source: Source, diagram: bool, output: Output, **given: Any
    ) -> ExitStatus:
        plans = plans_of(source=source, **given)
        if diagram:
            output.check_drawing("--diagram")
        reports = []
        with json_errors(output):
            for chosen, names in source.divided(groups):
                with chosen.open() as opened:
                    tell_profile()
                    reports.append(plans(opened, names))
        from kgroup.operation.report import joined
        from kgroup.render import plan as render

        report = joined(reports)
        if not diagram:
            return show(report, output, render.plans_page, sheet=render.steps_sheet)
        return draw(report, (line for plan in report.data for line in render.diagram_text(plan)))

    return behavior_options(_DIAGRAM_OPTION(output_options("plan.STEP_COLUMNS")(plan_groups)))


def _plans_of_old(
    source: Source, consumer_config: Path | None, make: Callable[[OldGroup], Plan]
) -> Plans:
    """Return a planner for groups in ZooKeeper, with the settings of their members if given."""

    def plans(opened: GroupSource, groups: Sequence[str]) -> Report[Plan]:
        from kgroup.operation.plan.zookeeper_group import plan_old

        address = None if source.zookeeper is None else str(source.zookeeper)
        settings, notes = ({}, []) if consumer_config is None else _consumer_config(consumer_config)
        beside = Source.sample().open(in_rounds=True) if source.is_sample else nullcontext()
        with beside as cluster:
            report = plan_old(opened, groups, settings, address, make, cluster)
        return replace(report, notes=(*notes, *report.notes))

    return plans


def _parse_settings(
    ctx: click.Context, param: click.Parameter, values: Sequence[str]
) -> Mapping[str, tuple[str, ...]]:
    """Parse supported strategies: MEMBER=STRATEGY,…, or only strategies, for all members."""
    from kgroup.operation.plan.assignor import CLASSES, strategy_named

    lists: dict[str, tuple[str, ...]] = {}
    for text in values:
        member, equals, rest = text.rpartition("=")
        suggestion = ""
        try:
            names = tuple(strategy_named(name.strip()) for name in rest.split(","))
        except UsageError as error:
            names, suggestion = (), "".join(str(error).partition("; did you mean")[1:])
        if (equals and not member) or not names:
            raise click.BadParameter(
                f"expected MEMBER=STRATEGY,... with strategies of {', '.join(CLASSES)}, found "
                f"{text!r}{suggestion}",
                ctx,
                param,
            )
        lists[member] = names
    return lists


CLIENTS = (
    *("java", "librdkafka", "franz-go", "sarama", "kafka-go", "kafka-python", "kafkajs"),
    "@platformatic/kafka",
)
"""Client libraries whose settings are known."""


def _named_as_recognized(
    ctx: click.Context, param: click.Parameter, value: str | None
) -> str | None:
    return "kafka-clients" if value == "java" else value


@command.command(
    "assignor",
    epilog=examples(
        "kgroup plan assignor cooperative-sticky payment-service --sample",
        "kgroup plan assignor range order-service --sample --restart-time 30s -o markdown",
        "kgroup plan assignor cooperative-sticky billing -b kafka-1:9092 -o json",
        "kgroup plan assignor cooperative-sticky billing -b kafka-1:9092 --client librdkafka",
    ),
)
@click.argument("strategy", metavar="STRATEGY", shell_complete=suggest_strategies)
@named_groups_argument
@source_options(required=True)
@click.option(
    "--settings",
    metavar="[MEMBER=]STRATEGY,...",
    multiple=True,
    callback=_parse_settings,
    help="Strategies that a member supports, or every member without MEMBER=; no cluster reports "
    "them. Repeatable.  [default: the group's strategy]",
)
@click.option(
    "--client",
    type=click.Choice(CLIENTS),
    metavar="LIBRARY",
    callback=_named_as_recognized,
    help=f"Client library of the members: {', '.join(CLIENTS)} (librdkafka: also in Python, Go, "
    ".NET and Node).  [default: as recognized]",
)
@forecast_options
def assignor_command(
    strategy: str,
    source: Source,
    settings: Mapping[str, tuple[str, ...]],
    client: str | None,
    behavior: ProgramBehavior,
) -> Plans:
    """Move groups to another assignment strategy.

    STRATEGY is range, roundrobin, sticky or cooperative-sticky, or its class. Changing between an
    eager strategy and the cooperative one takes two rolling restarts; for other changes, the number
    depends on what the members already support.
    """
    from kgroup.operation.plan.assignor import CLASSES, plan_assignors, strategy_named

    groups: Sequence[str] = click.get_current_context().params["groups"]
    if strategy not in CLASSES and len(groups) == 1 and groups[0] in CLASSES:
        line = shlex.join(("kgroup", "plan", "assignor", groups[0], strategy))
        raise click.UsageError(f"STRATEGY comes before GROUP. Did you mean: {line}")
    return partial(
        plan_assignors,
        strategy=strategy_named(strategy),
        settings=settings,
        behavior=behavior,
        library=client,
    )


@command.command(
    "kafka-offsets",
    epilog=examples(
        "kgroup plan kafka-offsets stock-sync --sample",
        "kgroup plan kafka-offsets billing --zookeeper zk-1:2181/kafka -o json",
        "kgroup plan kafka-offsets billing --zookeeper zk-1:2181 --consumer-config old.properties",
    ),
)
@named_groups_argument
@zookeeper_source_options
@CONSUMER_CONFIG_OPTION
@forecast_options
def kafka_offsets_command(
    source: Source, consumer_config: Path | None, behavior: ProgramBehavior
) -> Plans:
    """Move commits of ZooKeeper consumers to Kafka.

    Consumers of 0.8.2 keep reading meanwhile: a rolling restart makes them commit to both stores,
    and a second one to Kafka only.
    """
    from kgroup.operation.plan.kafka_offsets import plan_kafka_offsets

    return _plans_of_old(source, consumer_config, partial(plan_kafka_offsets, behavior=behavior))


@command.command(
    "new-consumer",
    epilog=examples(
        "kgroup plan new-consumer stock-sync --sample",
        "kgroup plan new-consumer billing --zookeeper zk-1:2181/kafka -o json",
        "kgroup plan new-consumer billing --zookeeper zk-1:2181 --consumer-config old.properties",
    ),
)
@named_groups_argument
@zookeeper_source_options
@CONSUMER_CONFIG_OPTION
@forecast_options
def new_consumer_command(
    source: Source, consumer_config: Path | None, behavior: ProgramBehavior
) -> Plans:
    """Replace ZooKeeper consumers by the Java consumer of Kafka 0.9 and later.

    Neither consumer knows of the other, so a rolling migration is impossible: the old consumers are
    stopped, their committed offsets are copied to Kafka, and new ones start with settings of other
    names.
    """
    from kgroup.operation.plan.new_consumer import plan_new_consumer

    return _plans_of_old(source, consumer_config, partial(plan_new_consumer, behavior=behavior))


@command.command(
    "static-membership",
    epilog=examples(
        "kgroup plan static-membership order-service --sample",
        "kgroup plan static-membership order-service --sample --restart-time 40s",
        "kgroup plan static-membership shipping --sample --instance-id '{client}-{number}'",
        "kgroup plan static-membership billing -b kafka-1:9092 --back -o markdown",
    ),
)
@named_groups_argument
@source_options(required=True)
@click.option(
    "--instance-id",
    "template",
    metavar="TEMPLATE",
    help="Instance ids of the members: {client}, {host} and {number} stand for client id, host "
    "and a number from 1.  [default: the shortest that tells members apart]",
)
@click.option("--back", is_flag=True, help="Plan the way back to dynamic members.")
@forecast_options
def static_membership_command(
    source: Source, template: str | None, back: bool, behavior: ProgramBehavior
) -> Plans:
    """Move groups to static membership, or back.

    A static member (group.instance.id) that restarts within its session timeout gets its partitions
    back, and nothing moves. The plan compares the cost of a rolling restart before and after.
    """
    if back and template is not None:
        raise click.UsageError("--back removes the instance ids; leave out --back or --instance-id")
    from kgroup.operation.plan.running_group import plan_each
    from kgroup.operation.plan.static_membership import (
        plan_dynamic_membership,
        plan_static_membership,
    )

    make = partial(
        plan_static_membership, template=template, is_measured="restart_ms" in given_options()
    )
    return partial(
        plan_each,
        make=partial(plan_dynamic_membership if back else make, behavior=behavior),
        behavior=behavior,
    )


_MOST = 100_000
_RESETS = ("earliest", "latest", "none", "by_duration:")


def _parse_growth(text: str) -> tuple[str, int]:
    topic, equals, number = text.rpartition("=")
    if not equals or not topic or not re.fullmatch(r"[0-9]+", number):
        raise ValueError(f"expected TOPIC=NUMBER, found {text!r}")
    if len(number) > len(str(_MOST)) or not 1 <= int(number) <= _MOST:
        raise ValueError(f"expected 1 to {_MOST} partitions, found {number}")
    return topic, int(number)


def _parse_reset(text: str) -> str:
    from kgroup.operation.plan.partitions import reset_duration_ms

    reset_duration_ms(text)
    return text


@command.command(
    "partitions",
    epilog=examples(
        "kgroup plan partitions orders=8 order-service --sample",
        "kgroup plan partitions orders=12 pricing --sample --auto-offset-reset earliest",
        "kgroup plan partitions orders=24 -b kafka-1:9092 -o json",
        "kgroup plan partitions orders=24 billing -b kafka-1:9092 --metadata-max-age 1m",
    ),
)
@click.argument("growth", metavar="TOPIC=N", callback=parsed(_parse_growth))
@groups_argument
@source_options(required=True)
@click.option(
    "--auto-offset-reset",
    "reset",
    metavar="RESET",
    callback=parsed(_parse_reset),
    shell_complete=lambda *given: [word for word in _RESETS if word.startswith(given[-1])],
    help="auto.offset.reset of the members, which no cluster reports: earliest, latest, none, or "
    "by_duration:PnDTnHnMn.nS.  [default: unknown; the forecast assumes latest]",
)
@click.option(
    "--metadata-max-age",
    metavar="TIME",
    callback=parsed(parse_some_time),
    help="How often members look for new partitions (metadata.max.age.ms).  [default: that of "
    "their client library, if it is recognized; else 5m]",
)
@forecast_options
def partitions_command(
    growth: tuple[str, int],
    source: Source,
    reset: str | None,
    metadata_max_age: int | None,
    behavior: ProgramBehavior,
) -> Plans:
    """Add partitions to a topic without losing records.

    For each group that reads the topic, or each named group, the plan says which members rejoin and
    when, what moves, which keys change their partition, and what happens to records that are
    written to new partitions before a member owns them.
    """
    from kgroup.operation.plan.partitions import plan_partitions

    topic, count = growth
    zookeeper = source.of_zookeeper.file if source.is_sample else None

    return lambda opened, groups: plan_partitions(
        opened,
        topic,
        count,
        tuple(groups),
        behavior,
        reset=reset,
        max_age_ms=metadata_max_age,
        zookeeper=zookeeper and zookeeper.read(),
    )


def _parse_version(text: str) -> tuple[int, ...]:
    if re.fullmatch(r"\d{1,4}(\.\d{1,4}){1,3}", text) is None:
        raise ValueError(f"expected a version such as 4.1.0, found {text!r}")
    return tuple(map(int, text.split(".")))


@command.command(
    "consumer-protocol",
    epilog=examples(
        "kgroup plan consumer-protocol payment-service --sample",
        "kgroup plan consumer-protocol pricing --back --sample -o markdown",
        "kgroup plan consumer-protocol billing -b kafka-1:9092 -o json",
        "kgroup plan consumer-protocol billing -b kafka-1:9092 --stop",
        "kgroup plan consumer-protocol billing -b kafka-1:9092 --client java --client-version 4.1",
    ),
)
@named_groups_argument
@source_options(required=True)
@click.option(
    "--back", is_flag=True, help="Move back, from the consumer protocol to the classic one."
)
@click.option(
    "--assignor",
    metavar="NAME",
    type=ID,
    help="Assignor to use: one of the brokers', or with --back a strategy of the members.  "
    "[default: the nearest one]",
)
@click.option(
    "--stop",
    "stops",
    is_flag=True,
    help="Stop the group for the migration instead of a rolling restart.",
)
@click.option(
    "--client",
    type=click.Choice(CLIENTS),
    metavar="LIBRARY",
    callback=_named_as_recognized,
    help=f"Client library of the members: {', '.join(CLIENTS)} (librdkafka: also in Python, Go, "
    ".NET and Node).  [default: as recognized]",
)
@click.option(
    "--client-version",
    metavar="VERSION",
    callback=parsed(_parse_version),
    help="Version of the client library that the members will have.",
)
@forecast_options
def consumer_protocol_command(
    source: Source,
    back: bool,
    assignor: str | None,
    stops: bool,
    client: str | None,
    client_version: tuple[int, ...] | None,
    behavior: ProgramBehavior,
) -> Plans:
    """Move groups to the consumer protocol (KIP-848), or back.

    A rolling restart sets group.protocol=consumer while the group keeps reading. kgroup asks the
    broker that coordinates the group whether it allows the migration.
    """
    if client_version is not None and client is None:
        raise click.UsageError("--client-version requires --client")
    from kgroup.operation.plan.consumer_protocol import plan_consumer_protocol
    from kgroup.operation.plan.running_group import plan_each

    make = partial(
        plan_consumer_protocol,
        behavior=behavior,
        back=back,
        assignor=assignor,
        stops=stops,
        library=client,
        version=client_version,
    )
    return partial(plan_each, make=make, behavior=behavior)


@command.command(
    "external-offsets",
    epilog=examples(
        "kgroup plan external-offsets order-service --sample --sql offsets.db",
        "kgroup plan external-offsets billing -b kafka-1:9092 --sql @offsets.url -o json",
        "kgroup plan external-offsets billing -C prod --rolling -o markdown",
        "kgroup plan external-offsets billing -b kafka-1:9092 --sql @offsets.url --to-kafka",
    ),
)
@named_groups_argument
@click.option("--to-kafka", is_flag=True, help="Move back, from the table to Kafka.")
@click.option(
    "--rolling",
    is_flag=True,
    help="Do not stop the group: use a version of the application that stores offsets in both.",
)
@source_options(required=True)
@table_options
@forecast_options
def external_offsets_command(
    to_kafka: bool,
    rolling: bool,
    source: Source,
    sql: str | None,
    names: SqlNames,
    behavior: ProgramBehavior,
) -> Plans:
    """Move offsets from Kafka to a SQL table of the application, or back.

    The application switches by a ConsumerRebalanceListener that seeks to the offsets in the table.
    The group is stopped while offsets are copied, or switches in two rolling restarts. A plan
    contains no password: if the database URL has one, the plan calls the database sql, which stands
    for the URL of $KGROUP_SQL_URL or of the profile.
    """
    from kgroup.operation.plan.external_offsets import plan_external_offsets
    from kgroup.operation.plan.running_group import plan_each

    def plans(opened: GroupSource, groups: Sequence[str]) -> Report[Plan]:
        make = partial(
            plan_external_offsets,
            source=opened,
            table=planned_table(source, sql, names),
            copy=planned_copy(sql, names),
            behavior=behavior,
            to_kafka=to_kafka,
            rolling=rolling,
        )
        return plan_each(opened, groups, make, behavior)

    return plans


_OWN = ("every", "lists", "form", "columns", "no_headers")
"""Options that the targets' commands do not have, or that apply to this output only."""
_CONNECTION = ("bootstrap_server", "command_config", "overrides", "profile", "timeout_s")
"""Options that are printed in the same way as in all commands."""


@click.command(
    "plan",
    cls=DefaultCommand,
    epilog=examples(
        "kgroup plan --list",
        "kgroup plan order-service --sample",
        "kgroup plan --all --sample",
        "kgroup plan billing -b kafka-1:9092 --restart-time 40s",
    ),
)
@groups_argument
@click.option("--list", "lists", is_flag=True, help="List all targets.")
@click.option("--all", "every", is_flag=True, help="Select every group.")
@source_options(required=False)
@behavior_options
@output_options("plan.ADVICE_COLUMNS", {"--list": "plan.TARGET_COLUMNS"})
def advice_command(
    groups: Sequence[str],
    lists: bool,
    every: bool,
    source: Source,
    behavior: ProgramBehavior,
    output: Output,
) -> ExitStatus:
    """Show which migrations make sense for groups, and what each would save.

    The simulator runs a rolling restart of the group as it is, and as it would be. Each target that
    makes sense comes with the command that plans it.
    """
    from kgroup.operation.plan.advice import advise, every_target
    from kgroup.operation.report import joined
    from kgroup.render import plan as render

    if lists:
        given = [text for name, text in given_options().items() if name not in _OWN]
        if groups or every or given:
            raise click.UsageError(
                "--list lists all targets; leave out groups and all other options"
            )
        return show(every_target(), output)
    check_all(groups, None, every=every)
    text = _target_meant(groups)
    if source == Source():
        raise click.UsageError(text) if text else missing_source()
    if not (groups or every):
        raise click.UsageError(
            "no groups selected: name groups, or use --all; --list lists the targets"
        )
    sources = source.divided(groups, every=every)
    reports = []
    with json_errors(output):
        for choice, names in sources:
            address = None if choice.zookeeper is None else str(choice.zookeeper)
            with choice.open(of_silence=every) as opened:
                advice = advise(
                    opened, names, behavior, options=_typed_options(), zookeeper=address
                )
            reports.append(advice)
    report = joined(reports)
    if text and any(_is_missing(error, groups[0]) for error in report.errors):
        raise click.UsageError(text)
    return show(report, output, render.advice_page, sheet=render.advice_sheet)


def _target_meant(groups: Sequence[str]) -> str | None:
    """Return a message with the target's command if the first group looks like a target."""
    from kgroup.operation.plan.assignor import CLASSES

    if not groups:
        return None
    if groups[0] in (*CLASSES, *CLASSES.values()):
        line = shlex.join(
            ("kgroup", "plan", "assignor", *(groups if groups[1:] else [*groups, "GROUP"]))
        )
        return f"No such command {groups[0]!r}. Did you mean: {line}"
    return meant(groups[0], command.commands)


def _is_missing(problem: Problem, group_id: str) -> bool:
    return problem.group_id == group_id and problem.kind is ProblemKind.NOT_FOUND


def _typed_options() -> Sequence[str]:
    """Return the options to repeat in the command of a target, as typed, without secrets."""
    from kgroup.operation.printed_command import connection_words

    ctx = click.get_current_context()
    assert isinstance(ctx.command, DefaultCommand)
    typed: Mapping[str, Any] = ctx.command.typed(ctx)
    words: list[str] = []
    for option in ctx.command.params:
        name = option.name or ""
        if not isinstance(option, click.Option) or name not in typed:
            continue
        if name in _OWN or name in _CONNECTION:
            continue
        if option.is_flag:
            words.append(option.opts[0])
            continue
        for value in typed[name] if option.multiple else [typed[name]]:
            words += (option.opts[0], value)
    return [*connection_words(None), *words]


command.add_command(apply_command)
command.add_command(verify_command)
command.default = advice_command
