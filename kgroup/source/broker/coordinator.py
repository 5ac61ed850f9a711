"""Coordinators: which broker coordinates which group, and requests to all of them.

A group's coordinator is the broker that leads its partition of `__consumer_offsets`; for a
transactional id, its partition of `__transaction_state`. FindCoordinator creates these topics if
they are missing, so they must have been seen before it is sent.

Coordinators move. If a broker is no longer a group's coordinator, is still loading it, or
disconnects, the coordinator is looked up and the request sent again, with growing pauses.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Coroutine, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from kafka.protocol.metadata import FindCoordinatorRequest

from kgroup.errors import BrokerError, ProblemKind
from kgroup.model.cluster import Topic
from kgroup.model.group import GroupState, GroupType
from kgroup.model.offsets_partition import OFFSETS_TOPIC, offsets_partition
from kgroup.model.problem import Problem
from kgroup.protocol.error_code import ErrorCode
from kgroup.protocol.message.primitives import no_string
from kgroup.source.broker.answer_check import only_asked
from kgroup.source.broker.client import Backoff, BrokerClient
from kgroup.source.broker.connection import BROKEN
from kgroup.source.broker.error_code import (
    COORDINATOR_MOVES,
    LEADER_MOVES,
    error_name,
    what_it_needs,
)
from kgroup.source.broker.topic_offset import ask_unreplicated

T = TypeVar("T")
GROUPS_PER_REQUEST = 100
"""Few enough that the broker processes the next request while one response is decoded."""
MOVES = COORDINATOR_MOVES | LEADER_MOVES
"""Codes after which a group, or its partition of `__consumer_offsets`, may have moved."""
DOUBTS = 3
"""Number of repeated requests to a new coordinator that returns nothing for a group."""


@dataclass(frozen=True, slots=True)
class CoordinatedGroup:
    """A group to request: its coordinator, and what a list of groups says about it.

    Attributes:
        group_id: group id.
        node: broker id of the coordinator; None if unknown.
        is_listed: whether the group is from a list, so that it exists, or did a moment ago.
        type: group type; None if unknown.
        state: group state; None if unknown.
        protocol_type: protocol type; None if unknown or none.
    """

    group_id: str
    node: int | None
    is_listed: bool = False
    type: GroupType | None = None
    state: GroupState | None = None
    protocol_type: str | None = None


@dataclass(frozen=True, slots=True)
class CoordinatorRefusal:
    """An error code in place of a result."""

    code: int
    message: str | None = None

    def __str__(self) -> str:
        name = error_name(self.code)
        reason = self.message or what_it_needs(self.code)
        return f"{name} ({reason})" if reason else name


class Coordinators:
    """Sends requests about groups to coordinators, and collects problems.

    Attributes:
        problems: problems so far: one per broker, or, if groups were named, one per group and
            broker.
        notes: what could not be checked.
    """

    def __init__(self, client: BrokerClient, *, named: bool) -> None:
        self.problems: list[Problem] = []
        self.notes: list[str] = []
        self._client = client
        self._named = named
        self._reasons: dict[str, CoordinatorRefusal] = {}
        self._blamed: set[tuple[str | None, int | None]] = set()

    async def find(self, group_ids: Collection[str]) -> list[CoordinatedGroup]:
        """Look up the coordinators of named groups once.

        Groups that have none now are returned with `node` None: `ask` looks them up again after it
        has sent the other requests.
        """
        names = []
        for group_id in group_ids:
            reason = no_string(group_id)
            if reason is None:
                names.append(group_id)
            else:
                text = f"No group can have this id: {reason}."
                self.problems.append(Problem(ProblemKind.UNSUPPORTED, text, group_id=group_id))
        coordinators = []
        for group_id, answer in (await _look_for(self._client, names)).items():
            if not isinstance(answer, CoordinatorRefusal):
                coordinators.append(CoordinatedGroup(group_id, answer))
            elif answer.code in COORDINATOR_MOVES:
                self._reasons[group_id] = answer
                coordinators.append(CoordinatedGroup(group_id, None))
            else:
                self._refused(group_id, answer)
        return coordinators

    async def ask(
        self,
        coordinators: Iterable[CoordinatedGroup],
        ask: Callable[
            [int, list[CoordinatedGroup]], Coroutine[Any, Any, Mapping[str, T | CoordinatorRefusal]]
        ],
        *,
        reads: bool = True,
    ) -> dict[str, T]:
        """Send requests to each group's coordinator, and retry when coordinators move.

        `ask` queries one broker about some of its groups. Groups without a result are left out.
        Data of a group that was not listed count only if the coordinator knows all records of its
        partition to be replicated.
        """
        answers: dict[str, T] = {}
        waiting = {coordinator.group_id: coordinator for coordinator in coordinators}
        doubts: dict[str, int] = {}
        backoff = Backoff(self._client, in_step=True)
        while waiting:
            batches = list(_batches(waiting.values()))
            results = await self._client.gather(
                self._checked(ask, *batch) if reads else ask(*batch) for batch in batches
            )
            moved: dict[str, BrokerError | CoordinatorRefusal] = {
                group.group_id: self._reasons[group.group_id]
                for group in waiting.values()
                if group.node is None
            }
            for (_, part), result in zip(batches, results, strict=True):
                if isinstance(result, BrokerError):
                    if result.kind in BROKEN:
                        moved.update((group.group_id, result) for group in part)
                    else:
                        self.blame(result, (group.group_id for group in part))
                    continue
                for group_id, answer in result.items():
                    if not isinstance(answer, CoordinatorRefusal):
                        answers[group_id] = answer
                        # A new coordinator returns only replicated records, perhaps not all yet.
                        if not answer and doubts.get(group_id, DOUBTS) < DOUBTS:
                            doubts[group_id] += 1
                            moved[group_id] = CoordinatorRefusal(ErrorCode.NOT_COORDINATOR)
                    elif answer.code in MOVES:
                        moved[group_id] = answer
                    else:
                        self._refused(group_id, answer)
            if not moved:
                break
            for group_id in moved:
                doubts.setdefault(group_id, 0)
            groups = await self._found_again(moved, backoff, leaves_time=bool(answers))
            if groups is None:
                for group_id, reason in moved.items():
                    if group_id in answers:
                        continue
                    if isinstance(reason, BrokerError):
                        self.blame(reason, [group_id])
                    else:
                        self._refused(group_id, reason)
                break
            waiting = {
                group.group_id: replace(waiting[group.group_id], node=group.node, is_listed=False)
                for group in groups
            }
        return answers

    async def _found_again(
        self, group_ids: Collection[str], backoff: Backoff, *, leaves_time: bool
    ) -> list[CoordinatedGroup] | None:
        """Look up coordinators again after a pause; return None if there is no time left."""
        first, *others = sorted(group_ids)
        more = f" and of {len(others)} more" if others else ""
        what = f"the coordinator of group {first!r}{more}"
        if not await backoff.wait(what, leaves_time=leaves_time):
            return None
        try:
            return await self.find(group_ids)
        except BrokerError:  # the reason for the lookup is more informative
            return None

    async def _checked(
        self,
        ask: Callable[
            [int, list[CoordinatedGroup]], Coroutine[Any, Any, Mapping[str, T | CoordinatorRefusal]]
        ],
        node: int,
        coordinators: list[CoordinatedGroup],
    ) -> dict[str, T | CoordinatorRefusal]:
        """Query one coordinator; refuse results that may be incomplete after a change of leader."""
        topics = await self._client.topics([OFFSETS_TOPIC])
        count = len(topics[OFFSETS_TOPIC].partitions) if OFFSETS_TOPIC in topics else 0
        ats = {
            coordinator.group_id: (OFFSETS_TOPIC, offsets_partition(coordinator.group_id, count))
            for coordinator in coordinators
            if count and not coordinator.is_listed
        }
        requests: list[Any] = [ask(node, coordinators)]
        if ats:  # sent first: if it finds nothing, the other results are complete
            requests.insert(0, ask_unreplicated(self._client, node, {*ats.values()}))
        *checks, answers = await self._client.gather_all(requests)
        codes = {at: code for check in checks for at, code in check.items() if code in LEADER_MOVES}
        refused = {
            group_id: CoordinatorRefusal(codes[at]) for group_id, at in ats.items() if at in codes
        }
        return {**answers, **refused}

    def blame(self, error: BrokerError, group_ids: Iterable[str] = ()) -> None:
        """Add a problem with a broker."""
        text = str(error)[:1].upper() + str(error)[1:]
        if not self._named:
            text += "; what it knows of its groups is missing"
        for group_id in group_ids if self._named else (None,):
            if (group_id, error.broker_id) not in self._blamed:
                self._blamed.add((group_id, error.broker_id))
                self.problems.append(
                    Problem(error.kind, f"{text}.", group_id=group_id, broker=error.broker_id)
                )

    def _refused(self, group_id: str, refusal: CoordinatorRefusal) -> None:
        kind = ProblemKind.NO_COORDINATOR if refusal.code in MOVES else ProblemKind.DENIED
        problem = Problem(kind, f"The cluster returned {refusal}.", group_id=group_id)
        if problem not in self.problems:
            self.problems.append(problem)


async def find_coordinators(
    client: BrokerClient, keys: Collection[str], *, transactional: bool = False, waits: bool = True
) -> dict[str, int | CoordinatorRefusal]:
    """Return the brokers that coordinate groups or transactional ids, or why there is none.

    The coordinators' topic must exist, because the request would create it. Unless `waits` is
    false, wait for coordinators that are moving.

    Raises:
        BrokerError: no broker answers.
    """
    answers_by_key: dict[str, int | CoordinatorRefusal] = {}
    missing = list(keys)
    backoff = Backoff(client, in_step=True)
    while missing:
        answers_by_key |= await _look_for(client, missing, transactional=transactional)
        answers = ((key, answers_by_key[key]) for key in missing)
        missing = [
            key
            for key, answer in answers
            if isinstance(answer, CoordinatorRefusal) and answer.code in COORDINATOR_MOVES
        ]
        if not waits or (missing and not await backoff.wait(f"the coordinator of {missing[0]!r}")):
            break
    return answers_by_key


async def _look_for(
    client: BrokerClient, keys: list[str], *, transactional: bool = False
) -> dict[str, int | CoordinatorRefusal]:
    """Look up coordinators once.

    Raises:
        BrokerError: no broker answers.
    """
    if not keys:
        return {}
    answers = await _ask_for(client, keys, transactional)
    coordinators = {
        key: CoordinatorRefusal(code) if code else node for key, (code, node) in answers.items()
    }
    # A new coordinator may be a broker that is not in the metadata yet.
    if any(node not in client.brokers for node in coordinators.values() if isinstance(node, int)):
        await client.metadata([])
    return coordinators


async def _ask_for(
    client: BrokerClient, keys: list[str], transactional: bool
) -> dict[str, tuple[int, int]]:
    """Return error code and broker id for each key."""
    version = await client.any_version(FindCoordinatorRequest)
    kind = {"key_type": int(transactional)} if version else {}
    if version is not None and version >= 4:
        answer = await client.ask_any(FindCoordinatorRequest, coordinator_keys=keys, **kind)
        named = {
            coordinator.key: (coordinator.error_code, coordinator.node_id)
            for coordinator in answer.coordinators
        }
        return only_asked(named, keys, "FindCoordinator")
    answers = await client.gather_all(
        client.ask_any(FindCoordinatorRequest, key=key, **kind) for key in keys
    )
    codes = ((answer.error_code, answer.node_id) for answer in answers)
    return dict(zip(keys, codes, strict=True))


def partition_of(group_id: str, count: int | None) -> int | None:
    """Return the group's partition of `__consumer_offsets`; None if `count` is unknown."""
    return None if count is None else offsets_partition(group_id, count)


def is_missing(topic: Topic | None) -> bool:
    """Return whether a topic certainly does not exist."""
    return topic is None or topic.error == error_name(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)


def _batches(
    coordinators: Iterable[CoordinatedGroup],
) -> Iterator[tuple[int, list[CoordinatedGroup]]]:
    """Yield groups by coordinator, in batches of one request."""
    by_node: dict[int, list[CoordinatedGroup]] = {}
    for coordinator in coordinators:
        if coordinator.node is not None:
            by_node.setdefault(coordinator.node, []).append(coordinator)
    for node, part in by_node.items():
        for start in range(0, len(part), GROUPS_PER_REQUEST):
            yield node, part[start : start + GROUPS_PER_REQUEST]
