"""Whether a client can join a group: a page for people, rows for programs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TypedDict

from kgroup.model.group import GroupState, GroupType
from kgroup.operation.client_join import ClientJoin
from kgroup.operation.plan.plan import Precondition
from kgroup.render.assignment import runs_page
from kgroup.render.assignment_object import RunObject, run_object
from kgroup.render.cell import Column, Kind, cell, columns_of
from kgroup.render.sheet import Part, Sheet, Title, apart, facts, section


class JoinObject(TypedDict):
    """Whether a client can join a group, and what would follow; with `--may-join`.

    Attributes:
        id, type, state, strategy, client, version, protocol, strategies: as in `ClientJoin`.
        can_join, answer, conditions, consequences: as in `ClientJoin`.
        then: the rebalance with the client, and its follow-up rebalances; None if the client cannot
            join, or if nothing can be computed.
    """

    id: str
    type: GroupType
    state: GroupState | None
    strategy: str | None
    client: str
    version: str | None
    protocol: str
    strategies: tuple[str, ...]
    can_join: bool | None
    answer: str | None
    conditions: tuple[Precondition, ...]
    consequences: tuple[str, ...]
    then: RunObject | None


JOIN_COLUMNS = columns_of(
    "kgroup.operation.client_join.ClientJoin",
    Column("id", Kind.NAME),
    Column("client", Kind.NAME),
    Column("can_join", Kind.FLAG),
    Column("answer", Kind.NAME),
    *columns_of(
        "kgroup.operation.plan.plan.Precondition",
        Column("code", Kind.NAME),
        Column("text", Kind.TEXT),
        Column("verdict", Kind.TEXT),
        Column("found", Kind.TEXT),
        Column("check", Kind.TEXT),
    ),
)
_CONDITIONS = (
    Column("what must hold", Kind.TEXT),
    Column("verdict", Kind.TEXT),
    Column("found", Kind.TEXT),
    Column("check", Kind.TEXT),
)
_WORDS = {True: "yes", False: "no", None: "unknown"}


def join_object(join: ClientJoin) -> JoinObject:
    """Return the JSON object of an answer."""
    return {
        "id": join.id,
        "type": join.type,
        "state": join.state,
        "strategy": join.strategy,
        "client": join.client,
        "version": join.version,
        "protocol": join.protocol,
        "strategies": join.strategies,
        "can_join": join.can_join,
        "answer": join.answer,
        "conditions": join.conditions,
        "consequences": join.consequences,
        "then": None if join.then is None else run_object(join.then),
    }


def joins_sheet(joins: Sequence[ClientJoin]) -> Sheet:
    """Return a sheet with a row for each condition."""
    rows = (
        (join.id, join.client, join.can_join, join.answer, *_condition(condition))
        for join in joins
        for condition in join.conditions
    )
    return Sheet(JOIN_COLUMNS, rows)


def _condition(condition: Precondition) -> tuple[object, ...]:
    return condition.code, condition.text, condition.verdict, condition.found, condition.check


def joins_page(joins: Sequence[ClientJoin]) -> Iterator[Part]:
    """Yield whether clients can join, why, and what would move."""
    pages: list[Iterable[Part]] = []
    for join in joins:
        pages.append(_parts(join))
        if join.then is not None:
            pages.append(runs_page([join.then]))
    return apart(pages)


def _parts(join: ClientJoin) -> Iterator[Part]:
    version = f" {join.version}" if join.version else ""
    name = cell(join.id, Kind.NAME)
    yield Title(f"May {cell(join.client + version, Kind.NAME)} join group {name}?")
    yield facts(_facts(join))
    conditions = Sheet(_CONDITIONS, [_condition(each)[1:] for each in join.conditions])
    yield from section("Conditions", conditions.without_blank())


def _facts(join: ClientJoin) -> Iterator[tuple[str, str]]:
    yield "answer", _WORDS[join.can_join]
    if join.answer is not None:
        yield "refused with", join.answer
    lists = ", ".join(join.strategies)
    yield "client", f"lists {lists}" if lists else "uses the consumer protocol"
    yield "group", ", ".join(filter(None, (str(join.type), join.strategy, join.state)))
    for text in join.consequences:
        yield "then", text
