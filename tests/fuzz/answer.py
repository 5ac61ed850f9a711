"""Damaged answers of a broker, over a real socket, to all that is asked about groups and offsets.

An input is the seed of the damage: of some answers some bytes are changed, but for their size.
"""

from __future__ import annotations

import logging
from base64 import b64decode, urlsafe_b64decode
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import cache, partial
from pathlib import Path
from random import Random
from typing import Any
from unittest.mock import patch
from uuid import UUID

from kgroup.errors import KgroupError
from kgroup.model.problem import Problem
from kgroup.operation.describe import describe
from kgroup.operation.list_groups import list_groups
from kgroup.operation.locate import locate
from kgroup.source.broker import client
from kgroup.source.broker.live_log import LiveLogs, StartPosition
from kgroup.source.broker.source import LiveCluster
from tests.columnar.log_writer import batch
from tests.fuzz.mutation import Input
from tests.fuzz.offset_answer import check_changes, check_sound_changes
from tests.fuzz.run import Lane
from tests.operation.log_files import commit, group_metadata
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
from tests.source.fake_broker import Handler
from tests.source.fake_log import FakeLog
from tests.source.scenarios import scenario

_MARK = b"answers of "
_TIMEOUT_S = 0.2
_BACKOFF_S = 0.01
_WORDS = (b"\xff" * 4, b"\x7f" + b"\xff" * 3, b"\x80\0\0\0", b"\0" * 8, b"\0\0\0\1", b"\xff\xff")
_GROUPS = ("orders-cooperative", "fulfilment", "notifications-share", "order-totals-streams")
"""One of each type, as a broker of Kafka 4.3 described them."""
_NEWEST: Mapping[str, int] = {
    "Fetch": 4,
    "FindCoordinator": 4,
    "ListGroups": 5,
    "OffsetFetch": 9,
    "ShareGroupDescribe": 1,
}
_LOG = FakeLog(
    [
        (0, batch([commit(0, _GROUPS[0], "orders", committed=7)])),
        (2, batch([group_metadata(1, _GROUPS[0], generation=3), commit(2, _GROUPS[1], "orders")])),
    ]
)
"""Of every partition."""


def _make_answers(seed: int, number: int) -> Input:
    """Make an input; equal numbers of equal seeds give equal ones."""
    random = Random(f"answers/{seed}/{number}")
    return Input("answers", _MARK + f"{random.getrandbits(64)}\n".encode(), random)


def _check_answers(data: bytes, folder: Path, random: Random) -> None:
    """Ask a broker whose answers are damaged for all about its groups, or for a change of offsets.

    Raises:
        Exception: anything that is not meant to end a command.
    """
    random = Random(data)
    if random.random() < 0.5:
        check_changes(random, folder)
        return
    damaged = random.choice((None, "Metadata", *_handlers()))  # all, or those of one kind
    share = random.choice((0.1, 0.3, 1.0))

    def damage(name: str, body: bytes) -> bytes:
        is_meant = damaged in (None, name) and random.random() < share
        return _damaged(body, random) if is_meant else body

    with suppress(KgroupError):
        _ask(random.choice(_QUESTIONS), damage, folder)


def _damaged(body: bytes, random: Random) -> bytes:
    for _ in range(random.choice((1, 1, 2, 5))):
        start = random.randint(0, len(body))
        new = random.choice((*_WORDS, bytes([random.randrange(256)]), b""))
        size = random.choice((0, len(new), len(new), 1, 8))
        body = body[:start] + new + body[start + size :]
    return body


def _ask_a_sound_broker(folder: Path) -> None:
    logging.getLogger("kafka").setLevel(logging.CRITICAL)  # as the command does
    for question in _QUESTIONS:
        problems = _ask(question, lambda _, body: body, folder, timeout_s=30)
        assert not problems, problems
    check_sound_changes(folder)


# ---- the questions, each of which gives the problems that it met


def _describe(cluster: LiveCluster, folder: Path) -> Sequence[Problem]:
    return describe(cluster, committed=True, times=cluster).errors


def _read_log(cluster: LiveCluster, folder: Path) -> Sequence[Problem]:
    log = cluster.offsets_log(folder)
    logs = LiveLogs(log, [*log.leaders], StartPosition())
    return [problem for problem in logs if isinstance(problem, Problem)]


_QUESTIONS: Sequence[Callable[[LiveCluster, Path], Sequence[Problem]]] = (
    lambda cluster, _: list_groups(cluster).errors,
    lambda cluster, _: locate(_GROUPS, cluster).errors,
    *(_describe, _read_log),
)


def _ask(
    question: Callable[[LiveCluster, Path], Sequence[Problem]],
    damage: Callable[[str, bytes], bytes],
    folder: Path,
    timeout_s: float = _TIMEOUT_S,
) -> Sequence[Problem]:
    with (
        answering_broker() as broker,
        patch.multiple(client, FIRST_BACKOFF_S=_BACKOFF_S, LAST_BACKOFF_S=_BACKOFF_S),
        LiveCluster(broker.bootstrap, timeout_s=timeout_s) as cluster,
    ):
        broker.handlers |= {
            "Metadata": metadata(broker, offsets(), topic("orders", 1)),
            "FindCoordinator": lambda request: {
                "coordinators": [
                    {"key": key, **coordinator(broker)} for key in request.coordinator_keys
                ]
            },
            **_handlers(),
        }
        broker.newest |= _NEWEST
        broker.damage = damage
        return question(cluster, folder)


# ---- what the broker says


@cache
def _handlers() -> Mapping[str, Handler]:
    """Answer, beside what `answering_broker` does, as the recorded broker did."""
    answers = _with_bytes(scenario("kafka-4.3.1").answers)
    listed = [group for group in answers["groups"] if group["group_id"] in _GROUPS]
    by_api: dict[str, dict[str, Any]] = {}
    for name in _GROUPS:
        group = dict(answers["described"][name])
        by_api.setdefault(group.pop("api"), {})[name] = group
    shared = {"error_code": 0, "error_message": None}
    return {
        "ListGroups": lambda _: {"error_code": 0, "groups": listed},
        "OffsetFetch": lambda request: {
            "groups": [
                {"group_id": each.group_id, **committed(("orders", 0, 1))}
                for each in request.groups
            ]
        },
        "ListOffsets": lambda request: ends(request, 0, 3),
        "DescribeShareGroupOffsets": lambda request: {
            "groups": [
                {"group_id": id_, "topics": answers["share_offsets"].get(id_, []), **shared}
                for id_ in (each.group_id for each in request.groups)
            ]
        },
        "Fetch": lambda request: {
            "responses": [
                {"topic": each.topic, "partitions": [*map(_fetched, each.partitions)]}
                for each in request.topics
            ]
        },
        **{api: partial(_described, api, groups) for api, groups in by_api.items()},
    }


def _described(api: str, groups: Mapping[str, Any], request: Any) -> dict[str, Any]:
    ids = request.groups if "groups" in request.fields else request.group_ids
    found = [groups[each] for each in ids if each in groups]
    if api == "DescribeGroups":  # which calls groups that do not exist dead
        found += [described(each, "Dead") for each in ids if each not in groups]
    return {"groups": found}


def _fetched(wanted: Any) -> dict[str, Any]:
    return _LOG.answer(wanted, committed=True, is_first=True)


def _with_bytes(answer: Any) -> Any:
    """Put bytes where the recorded answers have them in base64, and ids of topics."""
    if isinstance(answer, list):
        return [*map(_with_bytes, answer)]
    if not isinstance(answer, dict):
        return answer
    return {
        name: b64decode(value)
        if name in ("member_metadata", "member_assignment")
        else UUID(bytes=urlsafe_b64decode(value + "=="))
        if name == "topic_id" and value
        else _with_bytes(value)
        for name, value in answer.items()
    }


ANSWERS = Lane(_make_answers, _check_answers, _ask_a_sound_broker, _MARK)
"""Brokers that answer with damage."""
