"""List groups: query every broker, and verify that each has loaded the partitions that it leads.

A broker lists the groups of the partitions of `__consumer_offsets` that it has loaded. A new leader
of a partition that has not begun to load it answers ListGroups without an error and without that
partition's groups. Requests about one group do fail then: with NOT_COORDINATOR before the broker
loads the partition, and with COORDINATOR_LOAD_IN_PROGRESS while it does. So each leader is asked to
describe one made-up group of each partition that it leads, before and after it is asked for its
list. Describing a group that does not exist creates nothing.

Since 4.0 (3.7 with `group.coordinator.new.enable`), a coordinator that has loaded a partition still
omits groups whose records it does not know to be replicated. ListOffsets detects this.
"""

from __future__ import annotations

from collections.abc import Collection, Container, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain, count
from typing import Any

from kafka.protocol.admin.groups import DescribeGroupsRequest, ListGroupsRequest

from kgroup.errors import BrokerError, ProblemKind
from kgroup.model.cluster import Topic
from kgroup.model.offsets_partition import OFFSETS_TOPIC, offsets_partition
from kgroup.model.problem import Problem
from kgroup.protocol.error_code import ErrorCode
from kgroup.source.base import EVERYTHING, Question
from kgroup.source.broker.answer_check import only_asked
from kgroup.source.broker.client import Backoff, BrokerClient
from kgroup.source.broker.coordinator import (
    MOVES,
    CoordinatedGroup,
    CoordinatorRefusal,
    Coordinators,
)
from kgroup.source.broker.error_code import COORDINATOR_MOVES
from kgroup.source.broker.group_api import group_state, group_type
from kgroup.source.broker.topic_offset import ask_unreplicated


@dataclass(frozen=True, slots=True)
class _GroupList:
    """Response of one broker.

    Attributes:
        groups: listed groups.
        refusals: why groups of a partition may be missing, by partition.
    """

    groups: list[CoordinatedGroup]
    refusals: Mapping[int, CoordinatorRefusal]


async def list_groups(
    client: BrokerClient, coordinators: Coordinators, question: Question, topic: Topic | None
) -> list[CoordinatedGroup]:
    """Return the groups of every known broker; `coordinators` collects why some may be missing.

    Brokers filter by states and types if they can. The function waits for leaders that have not
    loaded their partitions.

    Args:
        client: the brokers.
        coordinators: collects problems and notes.
        question: the filters.
        topic: `__consumer_offsets`, from a recent Metadata response.

    Raises:
        BrokerError: no broker answers.
    """
    backoff = Backoff(client, in_step=True)
    while True:
        probes = _probes(topic)
        nodes = list(client.brokers)
        answers = await client.gather(
            _list_of(client, node, question, probes.get(node, {})) for node in nodes
        )
        by_node = dict(zip(nodes, answers, strict=True))
        has_groups = any(isinstance(answer, _GroupList) and answer.groups for answer in answers)
        what = "coordinators that have not loaded their groups"
        if not any(map(_is_moving, answers)) or not await backoff.wait(
            what, leaves_time=has_groups
        ):
            break
        topic = (await client.metadata([OFFSETS_TOPIC])).topics.get(OFFSETS_TOPIC)
    failures = [answer for answer in answers if isinstance(answer, BrokerError)]
    if failures and len(failures) == len(answers):
        raise BrokerError(failures[0].kind, "; ".join(map(str, failures)))
    for failure in failures:
        coordinators.blame(failure)
    lists = {node: answer for node, answer in by_node.items() if isinstance(answer, _GroupList)}
    coordinators.problems += [*_leaderless(topic, client.brokers), *_not_loaded(lists)]
    coordinators.notes += _unchecked(lists)
    if topic is not None and not topic.partitions:
        coordinators.notes.append(_UNSEEN.format(topic.error or "no partitions of it"))
    return list(chain.from_iterable(answer.groups for answer in lists.values()))


_UNSEEN = (
    f"{OFFSETS_TOPIC}: the cluster returned {{}}; whether every coordinator has loaded its groups "
    "could not be checked: groups may be missing."
)


async def list_hidden_groups(
    client: BrokerClient, coordinators: Coordinators
) -> list[CoordinatedGroup]:
    """Return the groups of a cluster whose metadata do not contain `__consumer_offsets`.

    Some services, and test brokers, store groups elsewhere. Kafka's own brokers have no groups
    then: ListGroups changes nothing, while FindCoordinator would create the topic. If there are
    groups, looking up their coordinators creates nothing.

    Raises:
        BrokerError: no broker answers.
    """
    try:
        return await list_groups(client, coordinators, EVERYTHING, None)
    except BrokerError as error:
        if error.kind is not ProblemKind.UNSUPPORTED:
            raise
        return []  # brokers of 0.8 list no groups, and without the topic there are no commits


def _is_moving(answer: _GroupList | BrokerError) -> bool:
    """Return whether another attempt may find more."""
    if isinstance(answer, BrokerError):
        return answer.kind is ProblemKind.NO_COORDINATOR
    return any(refusal.code in MOVES for refusal in answer.refusals.values())


def _probes(topic: Topic | None) -> dict[int, dict[str, int]]:
    """Return a made-up group id for each partition, and the partition, by leader."""
    partitions = topic.partitions if topic is not None else {}
    leaders = {
        number: partition.leader
        for number, partition in partitions.items()
        if partition.leader is not None and number in range(len(partitions))
    }
    probes: dict[int, dict[str, int]] = {}
    for attempt in count():
        if not leaders:
            break
        # The number comes first: Java's hash multiplies it by powers of 31. At the end,
        # its last digit alone would choose among 31 partitions, and miss most.
        group_id = f"{attempt}-kgroup-probe"
        number = offsets_partition(group_id, len(partitions))
        if number in leaders:
            probes.setdefault(leaders.pop(number), {})[group_id] = number
    return probes


def _leaderless(topic: Topic | None, brokers: Container[int]) -> Iterator[Problem]:
    """Yield a problem for each partition without a leader, as no broker lists its groups."""
    for number, partition in sorted((topic.partitions if topic is not None else {}).items()):
        if partition.leader not in brokers:
            text = (
                f"{OFFSETS_TOPIC}-{number} has no leader: its groups are missing. Its replicas are "
                f"on {_brokers(partition.replicas)}: list again when one of them is back."
            )
            yield Problem(ProblemKind.NO_LEADER, text, offsets_partition=number)


def _not_loaded(lists: Mapping[int, _GroupList]) -> Iterator[Problem]:
    for node, answer in lists.items():
        for number, refusal in sorted(answer.refusals.items()):
            if refusal.code in MOVES:
                text = (
                    f"{OFFSETS_TOPIC}-{number} is not loaded yet by its new leader, broker {node} "
                    f"({refusal}): its groups may be missing. List again."
                )
                kind = ProblemKind.NO_COORDINATOR
                yield Problem(kind, text, offsets_partition=number, broker=node)


def _unchecked(lists: Mapping[int, _GroupList]) -> Iterator[str]:
    by_reason: dict[str, set[int]] = {}
    for node, answer in lists.items():
        for refusal in answer.refusals.values():
            if refusal.code not in MOVES:
                by_reason.setdefault(str(refusal), set()).add(node)
    for reason, nodes in by_reason.items():
        yield f"Whether {_brokers(nodes)} had loaded all groups could not be checked: {reason}."


def _brokers(ids: Collection[int]) -> str:
    return f"broker{'s' if len(ids) > 1 else ''} {', '.join(map(str, sorted(ids)))}"


async def _list_of(
    client: BrokerClient, node: int, question: Question, probes: Mapping[str, int]
) -> _GroupList:
    version = await client.version(node, ListGroupsRequest)
    if version is None:
        text = f"broker {node} is of Kafka 0.8, which cannot list groups: name them"
        raise BrokerError(ProblemKind.UNSUPPORTED, text, node)
    if await client.version(node, DescribeGroupsRequest) is None:
        probes = {}
    # A broker processes one connection's requests in order: four take little longer than one.
    results: list[Any] = await client.gather_all(
        (
            _ask_unreplicated(client, node, probes),
            _ask_unloaded(client, node, probes),
            _ask_for_list(client, node, question, version),
            _ask_unloaded(client, node, probes),
        )
    )
    unreplicated, before, groups, after = results
    refusals: dict[int, CoordinatorRefusal] = {}
    for number, refusal in chain(unreplicated.items(), before.items(), after.items()):
        if refusal.code in MOVES or number not in refusals:  # denied probes override nothing
            refusals[number] = refusal
    return _GroupList(groups, refusals)


async def _ask_unreplicated(
    client: BrokerClient, node: int, probes: Mapping[str, int]
) -> dict[int, CoordinatorRefusal]:
    if not probes:
        return {}
    ats = [(OFFSETS_TOPIC, number) for number in probes.values()]
    codes = await ask_unreplicated(client, node, ats)
    return {number: CoordinatorRefusal(code) for (_, number), code in codes.items()}


async def _ask_unloaded(
    client: BrokerClient, node: int, probes: Mapping[str, int]
) -> dict[int, CoordinatorRefusal]:
    """Return the partitions that a broker has not loaded, or does not permit to check."""
    if not probes:
        return {}
    answer = await client.ask(node, DescribeGroupsRequest, groups=list(probes))
    codes = {group.group_id: group.error_code for group in answer.groups}
    return {
        probes[group_id]: CoordinatorRefusal(code)
        for group_id, code in only_asked(codes, probes, "DescribeGroups", node).items()
        if code and code != ErrorCode.GROUP_ID_NOT_FOUND
    }


async def _ask_for_list(
    client: BrokerClient, node: int, question: Question, version: int
) -> list[CoordinatedGroup]:
    fields: dict[str, Any] = {}
    if version >= 4:
        fields["states_filter"] = sorted(question.states)
    if version >= 5:
        fields["types_filter"] = sorted(question.types)
    answer = await client.ask(node, ListGroupsRequest, **fields)
    if answer.error_code:
        text = f"broker {node} does not list its groups: {CoordinatorRefusal(answer.error_code)}"
        is_moving = answer.error_code in COORDINATOR_MOVES
        kind = ProblemKind.NO_COORDINATOR if is_moving else ProblemKind.DENIED
        raise BrokerError(kind, text, node)
    return [
        CoordinatedGroup(
            listed.group_id,
            node,
            True,
            type_ := group_type(listed.group_type),
            group_state(listed.group_state, type_),
            listed.protocol_type or None,
        )
        for listed in answer.groups
    ]
