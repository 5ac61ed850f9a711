"""What might happen to a group before it is assigned: options of a dry run."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import fields
from functools import wraps
from typing import TYPE_CHECKING, Any

import click

from kgroup.cli.option.common import add_options
from kgroup.cli.option.suggestion import suggest_members, suggest_topics_of_group
from kgroup.source.config.client_setting import whole_number

if TYPE_CHECKING:
    from kgroup.operation.assign.what_if import AddedMembers

_MOST_ADDED = 10_000


def what_if_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add what changes a group first; the command takes ``changes: Changes``."""

    @wraps(command)
    def with_changes(**given: Any) -> Any:
        from kgroup.operation.assign.what_if import Changes

        changes = Changes(**{field.name: given.pop(field.name) for field in fields(Changes)})
        return command(changes=changes, **given)

    return add_options(with_changes, *_OPTIONS)


def _added(text: str) -> AddedMembers:
    from kgroup.operation.assign.what_if import AddedMembers

    count, _, rest = text.partition(":")
    if "=" in count and not rest:
        count, rest = "", count
    number = whole_number(count, _MOST_ADDED) if count else 1
    if not number:
        raise ValueError(f"expected a number from 1 to {_MOST_ADDED}, found {count!r}")
    known = {name: name for name in ("rack", "topics", "host", "streams")}
    known |= {"client": "client_id", "instance": "instance_id"}
    fields: dict[str, Any] = {}
    for part in filter(None, rest.split(",")):
        name, equals, value = part.partition("=")
        if name not in known or not equals or not value:
            raise ValueError(
                "expected client=, instance=, rack=, topics=, host= or streams= with commas "
                f"between, found {part!r}"
            )
        fields[known[name]] = _added_value(name, value)
    return AddedMembers(number, **fields)


def _added_value(name: str, value: str) -> object:
    if name == "topics":
        return tuple(value.split("+"))
    if name == "streams":
        number = whole_number(value, _MOST_ADDED)
        if not number:
            raise ValueError(f"streams=: expected 1 to {_MOST_ADDED}, found {value!r}")
        return number
    return value


def _topic_count(text: str) -> tuple[str, int]:
    topic, equals, count = text.rpartition("=")
    if not equals or not topic or not re.fullmatch(r"\d{1,7}", count):
        raise ValueError(f"expected TOPIC=NUMBER, found {text!r}")
    return topic, int(count)


def _subscription(text: str) -> tuple[str, tuple[str, ...]]:
    member, equals, topics = text.rpartition("=")
    if not equals or not member:
        raise ValueError(f"expected MEMBER=TOPIC,..., found {text!r}")
    return member, tuple(filter(None, topics.split(",")))


def _each(parse: Callable[[str], Any]) -> Callable[..., Any]:
    def callback(ctx: click.Context, param: click.Parameter, values: Sequence[str]) -> list[Any]:
        try:
            return [parse(value) for value in values]
        except ValueError as error:
            raise click.BadParameter(str(error), ctx, param) from None

    return callback


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
    """Make an option that changes the group first; it may be repeated."""
    return click.option(
        option,
        name,
        metavar=metavar,
        multiple=True,
        callback=_each(parse),
        shell_complete=suggest,
        help=f"What if {question}",
        **more,
    )


_OPTIONS = (
    _what_if(
        "--add-member",
        "add",
        "[N][:K=V,...]",
        "N members join? With client= (a client id), instance=, rack=, topics=A+B; ZooKeeper "
        "consumers: host=, streams=, topics=A+B.",
        parse=_added,
        is_flag=False,
        flag_value="1",
    ),
    _what_if("--remove-member", "remove", "ID", "a member leaves?", suggest=suggest_members),
    _what_if(
        "--restart-member",
        "restart",
        "ID",
        "a member comes back with a new id and no memory?",
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
        "there is a new topic, and all members subscribe to it?",
        parse=_topic_count,
    ),
    _what_if(
        "--drop-topic",
        "drop_topics",
        "TOPIC",
        "a topic is deleted?",
        suggest=suggest_topics_of_group,
    ),
    _what_if(
        "--subscribe",
        "subscribe",
        "ID=TOPIC,...",
        "a member subscribes to these topics instead?",
        parse=_subscription,
    ),
    click.option(
        "--leader",
        metavar="ID",
        multiple=True,
        callback=_leader,
        shell_complete=suggest_members,
        help="What if this member assigns? It changes nothing where all are Kafka's own clients.",
    ),
    click.option("--fresh", is_flag=True, help="What if nobody remembers what it owned?"),
)
"""In the order of the help, each under the name of what it becomes of `Changes`."""
