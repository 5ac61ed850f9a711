"""Damaged answers of a broker, over a real socket, to all that is asked about groups and offsets.

An input is the seed of the damage: of some answers some bytes are changed, but for their size.
"""

from __future__ import annotations

import logging
import time
from base64 import b64decode, urlsafe_b64decode
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cache, partial
from pathlib import Path
from random import Random
from typing import Any
from unittest.mock import patch
from uuid import UUID

from kgroup.errors import KgroupError
from kgroup.model.pattern import parse_regex
from kgroup.model.problem import Problem
from kgroup.operation.describe import describe
from kgroup.operation.list_groups import list_groups
from kgroup.operation.locate import locate
from kgroup.operation.offsets.deletion import plan_deletion
from kgroup.operation.offsets.plan import OffsetPlan, Result, carry_out
from kgroup.operation.offsets.read import show_offsets
from kgroup.operation.offsets.reset import PartitionSelection, ResetTarget, ResetTo, plan_reset
from kgroup.operation.offsets.transfer import OutOfRange, plan_transfer
from kgroup.protocol.error_code import ErrorCode
from kgroup.source.broker import client
from kgroup.source.broker.live_log import LiveLogs, StartPosition
from kgroup.source.broker.source import LiveCluster
from kgroup.source.offset_file import OffsetFile
from tests.columnar.log_writer import batch
from tests.fuzz.mutation import Input
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
from tests.source.fake_broker import FakeBroker, Handler
from tests.source.fake_log import FakeLog, fetched
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
        _check_changes(random, folder)
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
    _check_sound_changes(folder)


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
    with answering_broker() as broker, _cluster(broker, timeout_s) as cluster:
        broker.handlers |= {
            "Metadata": metadata(broker, offsets(), topic("orders", 1)),
            "FindCoordinator": partial(_coordinators, broker),
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
        "Fetch": lambda request: fetched(request, lambda _: _LOG),
        **{api: partial(_described, api, groups) for api, groups in by_api.items()},
    }


def _described(api: str, groups: Mapping[str, Any], request: Any) -> dict[str, Any]:
    ids = request.groups if "groups" in request.fields else request.group_ids
    found = [groups[each] for each in ids if each in groups]
    if api == "DescribeGroups":  # which calls groups that do not exist dead
        found += [described(each, "Dead") for each in ids if each not in groups]
    return {"groups": found}


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


# ---- changes of offsets, whose answers are none, errors, parts, doubles or lies; commits are kept


_GROUP_TYPES = {"g": "classic", "h": "classic", "c": "consumer", "t": "streams", "s": "share"}
"""Types by group; "t" and "s" are known to new brokers only."""
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
    "ConsumerGroupDescribe",
    "ShareGroupDescribe",
    "StreamsGroupDescribe",
    "DescribeAcls",
    "DescribeLogDirs",
    "Fetch",
)
"""What `offsets reset`, `copy`, `import` and `delete` send to brokers of 2.3 or 4.3."""
_NEWEST_OF_4_3 = {
    "Fetch": 4,
    "FindCoordinator": 4,
    "ListGroups": 5,
    "ListOffsets": 9,
    "OffsetFetch": 9,
    "ShareGroupDescribe": 1,
    "DescribeGroups": 5,
    "DescribeAcls": 1,
    "DescribeLogDirs": 4,
    "Metadata": 12,
}
"""Of a broker of 4.3, where it is not version 0."""
_ERRORS = (-1, *range(1, 134), 999, -(1 << 15))
_NUMBERS = (-1, -2, 0, 1, (1 << 31) - 1, -(1 << 31))
_CHANGE_TIMEOUT_S = 0.3

_CHANGE_LOG = FakeLog([(8, batch([commit(each, "any", "orders") for each in range(3, 9)]))])
"""Of every partition: records 3 to 8, each with a time."""
_ALL = parse_regex(".*")

At = tuple[str, str, int]


class _State:
    """What is committed, by group, topic and partition; groups that were deleted."""

    def __init__(self) -> None:
        self.deleted: set[str] = set()
        self.offsets: dict[At, int] = {
            (group_id, "orders", partition): offset
            for group_id in ("g", "c")
            for partition, offset in ((0, 7), (1, 5))
        }

    def has(self, group_id: str, type_: str) -> bool:
        """Return whether there is a group of this type, of those of a modern broker."""
        return _GROUP_TYPES.get(group_id) == type_ and group_id not in self.deleted

    def fetch(self, request: Any) -> dict[str, Any]:
        return self._committed(request.group_id)

    def fetch_groups(self, request: Any) -> dict[str, Any]:
        ids = [group.group_id for group in request.groups]
        return {"groups": [{"group_id": id_, **self._committed(id_)} for id_ in ids]}

    def _committed(self, group_id: str) -> dict[str, Any]:
        mine = [
            ("orders", each, self.offsets[group_id, "orders", each])
            for each in _PARTITIONS
            if (group_id, "orders", each) in self.offsets
        ]
        return committed(*mine)

    def commit(self, request: Any) -> dict[str, Any]:
        for each in request.topics:
            for row in each.partitions:
                at = request.group_id, each.name, row.partition_index
                self.offsets[at] = row.committed_offset
        return {"topics": [*map(_done, request.topics)]}

    def delete(self, request: Any) -> dict[str, Any]:
        for each in request.topics:
            for row in each.partitions:
                self.offsets.pop((request.group_id, each.name, row.partition_index), None)
        return {"error_code": 0, "topics": [*map(_done, request.topics)]}

    def delete_groups(self, request: Any) -> dict[str, Any]:
        for at in [at for at in self.offsets if at[0] in request.groups_names]:
            del self.offsets[at]
        self.deleted.update(request.groups_names)
        return {"results": [{"group_id": id_, "error_code": 0} for id_ in request.groups_names]}


def _done(wanted: Any) -> dict[str, Any]:
    """Answer for a topic of a request that all of it was done."""
    rows = [{"partition_index": row.partition_index, "error_code": 0} for row in wanted.partitions]
    return {"name": wanted.name, "partitions": rows}


def _check_changes(random: Random, folder: Path) -> None:
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

    with _broker(state, is_modern=random.random() < 0.5) as broker, _cluster(broker) as cluster:
        broker.is_silent_on_versions = random.random() < 0.02
        broker.is_closed_on_versions = random.random() < 0.02
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


def _check_sound_changes(folder: Path) -> None:
    """Have each change planned and carried out by brokers that answer as they should."""
    asked: set[str] = set()
    for is_modern in (False, True):
        for change in _CHANGES:
            random = Random(change.__name__)
            with (
                _broker(_State(), is_modern=is_modern) as broker,
                _cluster(broker, timeout_s=30) as cluster,
            ):
                for _ in range(8):
                    plan = change(cluster, random, folder)
                    report = carry_out(cluster, plan, cluster=cluster) if plan else None
                    silent = [e for e in report.errors if "answer" in e.reason] if report else []
                    assert not silent, silent
                asked.update(broker.names)
    assert asked == set(_APIS), asked.symmetric_difference(_APIS)


@contextmanager
def _broker(state: _State, *, is_modern: bool) -> Iterator[FakeBroker]:
    with answering_broker() as broker:
        _prepare(broker, state)
        if is_modern:
            _modernize(broker, state)
        yield broker


@contextmanager
def _cluster(broker: FakeBroker, timeout_s: float = _CHANGE_TIMEOUT_S) -> Iterator[LiveCluster]:
    with (
        patch.multiple(client, FIRST_BACKOFF_S=_BACKOFF_S, LAST_BACKOFF_S=_BACKOFF_S),
        LiveCluster(broker.bootstrap, timeout_s=timeout_s) as cluster,
    ):
        yield cluster


def _prepare(broker: FakeBroker, state: _State) -> None:
    """Let the broker be one of 2.3 or so, with classic groups."""
    broker.handlers |= {
        "Metadata": metadata(broker, offsets(), topic("orders", 1, 1, 1)),
        "FindCoordinator": lambda _: coordinator(broker),
        "ListGroups": lambda _: {
            "error_code": 0,
            "groups": [{"group_id": each, "protocol_type": "consumer"} for each in ("g", "h")],
        },
        "DescribeGroups": lambda request: {
            "groups": [
                described(group, "Dead" if group in state.deleted else "Empty")
                for group in request.groups
            ]
        },
        "OffsetFetch": state.fetch,
        "ListOffsets": lambda request: ends(request, 3, 9),
        "OffsetCommit": state.commit,
        "OffsetDelete": state.delete,
        "DeleteGroups": state.delete_groups,
    }
    broker.newest |= {"OffsetCommit": 6, "DeleteGroups": 1}


def _modernize(broker: FakeBroker, state: _State) -> None:
    """Let the broker be one of 4.3, with an authorizer and groups of all types."""
    broker.handlers |= {
        "FindCoordinator": partial(_coordinators, broker),
        "ListGroups": lambda _: {
            "error_code": 0,
            "groups": [
                {
                    "group_id": group_id,
                    "protocol_type": type_ if type_ in ("share", "streams") else "consumer",
                    "group_state": "Empty",
                    "group_type": type_,
                }
                for group_id, type_ in _GROUP_TYPES.items()
            ],
        },
        "DescribeGroups": lambda request: {
            "groups": [
                described(group, "Empty" if state.has(group, "classic") else "Dead")
                for group in request.groups
            ]
        },
        "ConsumerGroupDescribe": partial(_described_empty, state, "consumer"),
        "ShareGroupDescribe": partial(_described_empty, state, "share"),
        "StreamsGroupDescribe": partial(_described_empty, state, "streams"),
        "OffsetFetch": state.fetch_groups,
        "DescribeAcls": lambda _: {"error_code": 0, "error_message": None, "resources": []},
        "DescribeLogDirs": _log_dirs,
        "Fetch": lambda request: fetched(request, lambda _: _CHANGE_LOG),
    }
    broker.newest |= _NEWEST_OF_4_3


def _coordinators(broker: FakeBroker, request: Any) -> dict[str, Any]:
    rows = [{"key": key, **coordinator(broker)} for key in request.coordinator_keys]
    return {"coordinators": rows}


def _described_empty(state: _State, type_: str, request: Any) -> dict[str, Any]:
    """Answer a describe API of the types that came after the classic one."""
    more = {"topology": None} if type_ == "streams" else {"assignor_name": "uniform"}
    group: dict[str, Any] = {
        "error_code": 0,
        "error_message": None,
        "group_state": "Empty",
        "group_epoch": 3,
        "assignment_epoch": 3,
        "members": [],
        **more,
    }
    return {
        "groups": [
            {**group, "group_id": each}
            if state.has(each, type_)
            else {**group, "group_id": each, "error_code": ErrorCode.GROUP_ID_NOT_FOUND}
            for each in request.group_ids
        ]
    }


def _log_dirs(request: Any) -> dict[str, Any]:
    named = request.topics
    topics = (
        {"orders": _PARTITIONS, "__consumer_offsets": _PARTITIONS}
        if named is None
        else {each.topic: each.partitions for each in named}
    )
    stored = [
        {
            "name": name,
            "partitions": [
                {
                    "partition_index": partition,
                    "partition_size": 90,
                    "offset_lag": 0,
                    "is_future_key": False,
                }
                for partition in partitions
            ],
        }
        for name, partitions in topics.items()
    ]
    folder = {"error_code": 0, "log_dir": "/data", "topics": stored}
    return {"error_code": 0, "results": [folder]}


# ---- the changes


def _reset(cluster: LiveCluster, random: Random, _: Path) -> OffsetPlan:
    to = ResetTo(
        random.choice(
            (
                ResetTarget.EARLIEST,
                ResetTarget.LATEST,
                ResetTarget.OFFSET,
                ResetTarget.TIME,
                ResetTarget.SHIFT,
            )
        ),
        4,
    )
    chosen = random.choice(
        (
            PartitionSelection(),
            PartitionSelection({"orders": None}),
            PartitionSelection({"nothing": None}),
        )
    )
    groups = random.choice((["g"], ["g", "h", "c"], ["none"], ["c"], ["s", "t"], None))
    times = random.random() < 0.5
    if groups is None:
        return plan_reset(cluster, cluster, (), to, chosen, regex=_ALL, with_times=times)
    return plan_reset(cluster, cluster, groups, to, chosen, with_times=times)


def _copy(cluster: LiveCluster, random: Random, _: Path) -> OffsetPlan:
    fit = random.choice((OutOfRange.CLAMP, OutOfRange.REFUSE, OutOfRange.BY_TIME))
    group_id = random.choice("gc")
    return plan_transfer(cluster, cluster, cluster, [group_id], new_id="copy", fit=fit)


def _import(cluster: LiveCluster, random: Random, folder: Path) -> OffsetPlan:
    file = folder / "offsets.csv"
    file.write_text("g,orders,0,8\ng,orders,2,1000\nh,gone,0,1\n")
    return plan_transfer(
        OffsetFile(file), cluster, cluster, fit=random.choice((OutOfRange.REFUSE, OutOfRange.CLAMP))
    )


def _delete(cluster: LiveCluster, random: Random, _: Path) -> OffsetPlan:
    groups = random.choice((["g", "h"], ["c"], ["s", "t", "g"]))
    if random.random() < 0.5:
        return plan_deletion(cluster, groups)
    return plan_deletion(cluster, groups, topics={"orders": None})


def _export(cluster: LiveCluster, random: Random, _: Path) -> None:
    show_offsets(cluster, random.choice((["g"], ["g", "h"], ["c"])))


_CHANGES: tuple[Callable[[LiveCluster, Random, Path], OffsetPlan | None], ...] = (
    *(_reset, _copy, _import, _delete, _export),
)


# ---- the damage: each calls what answers, and so has done what was asked, or does not


def _close(random: Random, answer: Callable[[], Any]) -> None:
    if random.random() < 0.5:
        answer()


def _keep_silent(random: Random, answer: Callable[[], Any]) -> None:
    _close(random, answer)
    time.sleep(2 * _CHANGE_TIMEOUT_S)


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


ANSWERS = Lane(_make_answers, _check_answers, _ask_a_sound_broker, _MARK)
"""Brokers that answer with damage."""
