"""Answers to what resets, copies and deletions of offsets ask: none, errors, parts, doubles, lies.

The broker keeps what it was told to commit, so that a change said to be done can be compared.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from random import Random
from typing import Any
from unittest.mock import patch

from kgroup.errors import KgroupError
from kgroup.operation.offsets.deletion import plan_deletion
from kgroup.operation.offsets.plan import OffsetPlan, Result, carry_out
from kgroup.operation.offsets.read import show_offsets
from kgroup.operation.offsets.reset import Goal, ResetTo, Selection, plan_reset
from kgroup.operation.offsets.transfer import Fit, plan_transfer
from kgroup.source.broker import client
from kgroup.source.broker.source import Cluster
from kgroup.source.offset_file import OffsetFile
from tests.source.broker_answers import (
    answering_broker,
    committed,
    coordinator,
    described,
    ends,
    metadata,
    offsets,
    topic,
)
from tests.source.fake_broker import FakeBroker, Handler

__all__ = ["check_changes"]

_GROUPS = ("g", "h")
_PARTITIONS = (0, 1, 2)
_APIS = (
    "Metadata",
    "FindCoordinator",
    "DescribeGroups",
    "ListGroups",
    "OffsetFetch",
    "ListOffsets",
    "OffsetCommit",
    "OffsetDelete",
    "DeleteGroups",
)
_ERRORS = (-1, *range(1, 134), 999, -(1 << 15))
_NUMBERS = (-1, -2, 0, 1, (1 << 31) - 1, -(1 << 31))
_TIMEOUT_S = 0.3
_BACKOFF_S = 0.01

At = tuple[str, str, int]


class _State:
    """What is committed, by group, topic and partition."""

    def __init__(self) -> None:
        self.offsets: dict[At, int] = {("g", "orders", 0): 7, ("g", "orders", 1): 5}

    def fetch(self, request: Any) -> dict[str, Any]:
        mine = [
            ("orders", each, self.offsets[request.group_id, "orders", each])
            for each in _PARTITIONS
            if (request.group_id, "orders", each) in self.offsets
        ]
        return committed(*mine)

    def commit(self, request: Any) -> dict[str, Any]:
        topics = []
        for each in request.topics:
            for row in each.partitions:
                self.offsets[request.group_id, each.name, row.partition_index] = (
                    row.committed_offset
                )
            rows = [
                {"partition_index": r.partition_index, "error_code": 0} for r in each.partitions
            ]
            topics.append({"name": each.name, "partitions": rows})
        return {"topics": topics}

    def delete(self, request: Any) -> dict[str, Any]:
        topics = []
        for each in request.topics:
            for row in each.partitions:
                self.offsets.pop((request.group_id, each.name, row.partition_index), None)
            rows = [
                {"partition_index": r.partition_index, "error_code": 0} for r in each.partitions
            ]
            topics.append({"name": each.name, "partitions": rows})
        return {"error_code": 0, "topics": topics}

    def delete_groups(self, request: Any) -> dict[str, Any]:
        for at in [at for at in self.offsets if at[0] in request.groups_names]:
            del self.offsets[at]
        return {"results": [{"group_id": id_, "error_code": 0} for id_ in request.groups_names]}


def _done(wanted: Any) -> dict[str, Any]:
    """Answer for a topic of a request that all of it was done."""
    rows = [{"partition_index": row.partition_index, "error_code": 0} for row in wanted.partitions]
    return {"name": wanted.name, "partitions": rows}


def check_changes(random: Random, folder: Path) -> None:
    """Have a change planned and carried out by a broker whose answers are wrong or missing.

    Raises:
        AssertionError: what is said to be done was not.
        Exception: anything that is not meant to end a command.
    """
    state = _State()
    damaged = random.choice((None, *_APIS))
    share = random.choice((0.1, 0.4, 1.0))
    kinds = random.choice((_DAMAGE, (random.choice(_DAMAGE),)))

    def damaging(name: str, handler: Handler, request: Any) -> Any:
        if damaged not in (None, name) or random.random() >= share:
            return handler(request)
        return random.choice(kinds)(random, partial(handler, request))

    with (
        answering_broker() as broker,
        patch.multiple(client, FIRST_BACKOFF_S=_BACKOFF_S, LAST_BACKOFF_S=_BACKOFF_S),
        Cluster(broker.bootstrap, timeout_s=_TIMEOUT_S) as cluster,
    ):
        _prepare(broker, state)
        broker.handlers = {
            name: partial(damaging, name, handler) for name, handler in broker.handlers.items()
        }
        try:
            plan = random.choice(_CHANGES)(cluster, random, folder)
            report = carry_out(cluster, plan, cluster=cluster) if plan else None
        except KgroupError:
            return
    for row in report.data if report else ():
        assert row.result is not Result.PLANNED, row
        if row.result is Result.DONE and row.topic is not None and row.partition is not None:
            at = row.group_id, row.topic, row.partition
            assert state.offsets.get(at) == row.target_offset, (row, state.offsets)


def _prepare(broker: FakeBroker, state: _State) -> None:
    broker.handlers |= {
        "Metadata": metadata(broker, offsets(), topic("orders", 1, 1, 1)),
        "FindCoordinator": lambda _: coordinator(broker),
        "ListGroups": lambda _: {
            "error_code": 0,
            "groups": [{"group_id": each, "protocol_type": "consumer"} for each in _GROUPS],
        },
        "DescribeGroups": lambda request: {
            "groups": [described(each, "Empty") for each in request.groups]
        },
        "OffsetFetch": state.fetch,
        "ListOffsets": lambda request: ends(request, 3, 9),
        "OffsetCommit": state.commit,
        "OffsetDelete": state.delete,
        "DeleteGroups": state.delete_groups,
    }
    broker.newest |= {"OffsetCommit": 6, "DeleteGroups": 1}


# ---- the changes


def _reset(cluster: Cluster, random: Random, _: Path) -> OffsetPlan:
    to = ResetTo(random.choice((Goal.EARLIEST, Goal.LATEST, Goal.OFFSET, Goal.TIME, Goal.SHIFT)), 4)
    chosen = random.choice((Selection(), Selection({"orders": None}), Selection({"nothing": None})))
    return plan_reset(cluster, cluster, random.choice((["g"], ["g", "h"], ["none"])), to, chosen)


def _copy(cluster: Cluster, random: Random, _: Path) -> OffsetPlan:
    fit = random.choice((Fit.KEEP, Fit.CLAMP, Fit.REFUSE))
    return plan_transfer(cluster, cluster, cluster, ["g"], new_id="copy", fit=fit)


def _import(cluster: Cluster, random: Random, folder: Path) -> OffsetPlan:
    file = folder / "offsets.csv"
    file.write_text("g,orders,0,8\ng,orders,2,1000\nh,gone,0,1\n")
    return plan_transfer(
        OffsetFile(file), cluster, cluster, fit=random.choice((Fit.KEEP, Fit.CLAMP))
    )


def _delete(cluster: Cluster, random: Random, _: Path) -> OffsetPlan:
    if random.random() < 0.5:
        return plan_deletion(cluster, ["g", "h"])
    return plan_deletion(cluster, ["g", "h"], topics={"orders": None})


def _export(cluster: Cluster, random: Random, _: Path) -> None:
    show_offsets(cluster, random.choice((["g"], ["g", "h"])))


_CHANGES: tuple[Callable[[Cluster, Random, Path], OffsetPlan | None], ...] = (
    *(_reset, _copy, _import, _delete, _export),
)


# ---- the damage: each calls what answers, and so has done what was asked, or does not


def _close(random: Random, answer: Callable[[], Any]) -> None:
    if random.random() < 0.5:
        answer()


def _keep_silent(random: Random, answer: Callable[[], Any]) -> None:
    _close(random, answer)
    time.sleep(2 * _TIMEOUT_S)


def _refuse(random: Random, answer: Callable[[], Any]) -> Any:
    code = random.choice(_ERRORS)
    return _changed(answer(), lambda name, value: code if name == "error_code" else value)


def _refuse_some(random: Random, answer: Callable[[], Any]) -> Any:
    return _changed(
        answer(),
        lambda name, value: random.choice((0, 0, *_ERRORS)) if name == "error_code" else value,
    )


def _leave_out(random: Random, answer: Callable[[], Any]) -> Any:
    return _changed(
        answer(),
        lambda _, value: (
            [e for e in value if random.random() < 0.5] if isinstance(value, list) else value
        ),
    )


def _double(random: Random, answer: Callable[[], Any]) -> Any:
    return _changed(
        answer(),
        lambda _, value: (
            value + random.choices(value, k=2) if isinstance(value, list) and value else value
        ),
    )


def _mislead(random: Random, answer: Callable[[], Any]) -> Any:
    return _changed(
        answer(),
        lambda name, value: (
            random.choice(_NUMBERS)
            if isinstance(value, int)
            and name not in ("error_code", "port")
            and random.random() < 0.3
            else value
        ),
    )


_DAMAGE: tuple[Callable[[Random, Callable[[], Any]], Any], ...] = (
    *(_close, _keep_silent, _refuse, _refuse_some, _leave_out, _double, _mislead),
)


def _changed(answer: Any, change: Callable[[str, Any], Any], name: str = "") -> Any:
    """Change an answer's fields, the inner ones first."""
    if isinstance(answer, dict):
        return {key: _changed(value, change, key) for key, value in answer.items()}
    if isinstance(answer, list):
        answer = [_changed(each, change, name) for each in answer]
    return change(name, answer)
