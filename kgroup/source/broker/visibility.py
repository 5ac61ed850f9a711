"""Detection of topics and groups that brokers omit from responses, for lack of permissions.

OffsetFetch for all topics of a group, and Metadata for all topics, return only the topics that the
user may describe. ListGroups returns only the groups that the user may describe, or all if the user
may describe the cluster. Source: `KafkaApis.fetchAllOffsetsForGroup`, `handleListGroupsRequest`.
Each of these proves that no topic is missing:

- there is no authorizer: DescribeAcls returns SECURITY_DISABLED;
- the user may describe the cluster, and Metadata names every topic of the brokers' log directories;
- the group's whole partition of `__consumer_offsets` was read, and names no other topic.

A name that nobody uses proves a little less: a user who may describe that topic may describe every
topic that no ACL denies.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from uuid import uuid4
from weakref import WeakKeyDictionary

from kafka.protocol.admin.cluster import DescribeLogDirsRequest

from kgroup.errors import BrokerError, ProblemKind
from kgroup.model.group import Group
from kgroup.model.problem import Problem
from kgroup.protocol.error_code import ErrorCode
from kgroup.source.broker.client import BrokerClient
from kgroup.source.broker.coordinator import find_coordinators
from kgroup.source.broker.error_code import error_name

HIDDEN_GROUPS = (
    "Brokers omit groups that you may not describe (this needs DESCRIBE on the group); whether "
    "there are any is unknown."
)
_TOPIC_DENIED = error_name(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
_CLUSTER, _LITERAL, _ANY = 4, 3, 1


@dataclass(frozen=True, slots=True)
class _Topics:
    """The topics that the user may describe.

    Attributes:
        every: whether it is certain that no topic is hidden.
        any: whether topics without ACLs may be described.
        hidden: topics that may not be described, where known.
    """

    every: bool
    any: bool
    hidden: tuple[str, ...] = ()


class _Rights:
    """The user's permissions to describe, each requested once, because a watch needs them often."""

    def __init__(self, client: BrokerClient) -> None:
        self._client = client
        self._cluster_code: int | None = None
        self._every_group: bool | None = None
        self._topics: _Topics | None = None

    async def every_group(self) -> bool:
        """Return whether lists of groups contain all groups, or all that no ACL denies."""
        if self._every_group is None:
            self._every_group = await self._cluster() in _ALLOWED or await self._any_group()
        return self._every_group

    async def topics(self) -> _Topics:
        """Return the topics that may be described."""
        if self._topics is None:
            self._topics = await self._ask_topics()
        return self._topics

    async def _cluster(self) -> int:
        if self._cluster_code is None:
            self._cluster_code = await _ask_cluster(self._client)
        return self._cluster_code

    async def _any_group(self) -> bool:
        """Return whether a group without ACLs may be described.

        Brokers check permissions before they look up the coordinator.
        """
        name = f"kgroup-{uuid4().hex}"
        answer = (await find_coordinators(self._client, [name], waits=False))[name]
        return isinstance(answer, int) or answer.code != ErrorCode.GROUP_AUTHORIZATION_FAILED

    async def _ask_topics(self) -> _Topics:
        code = await self._cluster()
        if code == ErrorCode.SECURITY_DISABLED:
            return _Topics(every=True, any=True)
        any_topic = not await _denied(self._client, {f"kgroup-{uuid4().hex}"})
        if not code and (hidden := await _hidden(self._client)) is not None:
            return _Topics(not hidden, any_topic and not hidden, tuple(sorted(hidden)))
        return _Topics(False, any_topic)


_ALLOWED = (0, ErrorCode.SECURITY_DISABLED)
_rights: WeakKeyDictionary[BrokerClient, _Rights] = WeakKeyDictionary()


def _rights_of(client: BrokerClient) -> _Rights:
    return _rights.setdefault(client, _Rights(client))


@dataclass(frozen=True, slots=True)
class LeftOut:
    """Commits missing from responses for lack of permissions.

    Attributes:
        problems: topics of groups that may not be described.
        notes: what else may be missing.
        doubtful: groups whose commits may be incomplete without a problem that says so.
    """

    problems: tuple[Problem, ...] = ()
    notes: tuple[str, ...] = ()
    doubtful: frozenset[str] = frozenset()


async def find_left_out(
    client: BrokerClient,
    seen: Mapping[str, Collection[str]],
    read: Mapping[str, Collection[str]],
    *,
    named: bool,
    log_budget: int,
) -> LeftOut:
    """Return which commits of groups brokers have left out.

    Args:
        client: client that has requested metadata of `__consumer_offsets`.
        seen: topics of the returned commits, by group, for each group that exists.
        read: topics that members of a group read, where known.
        named: whether the groups were named, so that the log of each may be read, and a group
            without commits is a problem.
        log_budget: maximum bytes to read of each partition of `__consumer_offsets`.

    Raises:
        BrokerError: no broker answers.
    """
    visible = await _rights_of(client).topics() if seen else None
    if visible is None or visible.every:
        return LeftOut()
    logged: Mapping[str, frozenset[str]] = {}
    if named and log_budget:
        from kgroup.source.broker.offsets_log import read_committed_topics

        logged = await read_committed_topics(client, seen, log_budget)
    unseen = {
        group_id: {*read.get(group_id, ()), *logged.get(group_id, ())}.difference(topics)
        for group_id, topics in seen.items()
    }
    denied = await _denied(client, {topic for topics in unseen.values() for topic in topics})
    problems = []
    for group_id, topics in unseen.items():
        for topic in sorted(topics & denied):
            is_committed = topic in logged.get(group_id, ())
            text = (
                f"{topic}: The topic may not be described (it needs DESCRIBE on the topic); "
                + ("what" if is_committed else "whether")
                + " the group has committed for it is not "
                + ("shown." if is_committed else "known.")
            )
            problems.append(Problem(ProblemKind.NOT_AUTHORIZED, text, group_id, topic=topic))
    doubtful = frozenset(seen.keys() - logged.keys())
    reported = {problem.group_id for problem in problems}
    if named and not visible.any:
        problems += [
            Problem(ProblemKind.NOT_AUTHORIZED, _NOTHING, group_id=group_id)
            for group_id in sorted(doubtful - reported)
            if not seen[group_id]
        ]
        reported = {problem.group_id for problem in problems}
    untold = doubtful - reported
    is_noted = bool(untold) and not visible.any
    notes = (_note(untold, visible.hidden),) if is_noted else ()
    return LeftOut(tuple(problems), notes, doubtful)


_NOTHING = (
    "Nothing is committed for topics that you may describe; commits for other topics are not shown "
    "(this needs DESCRIBE on the topics)."
)


def _note(group_ids: Collection[str], hidden: Collection[str]) -> str:
    which = f" ({_first(hidden)})" if hidden else ""
    return (
        f"{_first(group_ids)}: Brokers omit commits for topics that you may not "
        f"describe{which}; whether there are any is unknown."
    )


def _first(names: Collection[str]) -> str:
    first = sorted(names)[:10]
    more = f" and {len(names) - len(first)} more" if len(names) > len(first) else ""
    return ", ".join(name or "''" for name in first) + more


async def lists_every_group(client: BrokerClient) -> bool:
    """Return whether lists of groups contain all groups, or all that no ACL denies.

    Raises:
        BrokerError: no broker answers.
    """
    return await _rights_of(client).every_group()


def topics_read(group: Group) -> frozenset[str]:
    """Return the topics that members subscribe to or are assigned."""
    return frozenset(
        topic
        for member in group.members
        for topic in (
            *member.subscribed_topics,
            *(
                partition.topic
                for partition in member.assignment or ()
                if partition.topic is not None
            ),
        )
    )


async def shows_every_topic(client: BrokerClient) -> bool:
    """Return whether it is certain that no topic is hidden from the user.

    Raises:
        BrokerError: no broker answers.
    """
    return (await _rights_of(client).topics()).every


async def _ask_cluster(client: BrokerClient) -> int:
    """Check for an authorizer, and whether the user may describe the cluster.

    Before Kafka 0.11 no API reports this; everything is taken to be visible.

    Returns:
        SECURITY_DISABLED, 0 or CLUSTER_AUTHORIZATION_FAILED.
    """
    from kafka.protocol.admin.acl import DescribeAclsRequest

    version = await client.any_version(DescribeAclsRequest)
    if version is None:
        return ErrorCode.SECURITY_DISABLED
    pattern = {"pattern_type_filter": _LITERAL} if version else {}
    try:
        answer = await client.ask_any(  # of a nonexistent user, so that the response is small
            DescribeAclsRequest,
            resource_type_filter=_CLUSTER,
            resource_name_filter="kafka-cluster",
            principal_filter="User:kgroup",
            host_filter=None,
            operation=_ANY,
            permission_type=_ANY,
            **pattern,
        )
    except BrokerError as error:
        is_old = error.kind is ProblemKind.UNSUPPORTED
        return ErrorCode.SECURITY_DISABLED if is_old else ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    code: int = answer.error_code
    return code


async def _hidden(client: BrokerClient) -> frozenset[str] | None:
    """Return the topics that brokers store and Metadata omits; None if unknown."""
    answers = await client.gather(
        client.ask(node, DescribeLogDirsRequest, topics=None) for node in client.brokers
    )
    stored: set[str] = set()
    for answer in answers:
        if isinstance(answer, BrokerError) or not answer.results:  # an empty response means denied
            return None
        if any(folder.error_code for folder in answer.results):
            return None
        stored.update(topic.name for folder in answer.results for topic in folder.topics)
    named = (await client.metadata(None)).topics
    return frozenset(await _denied(client, stored.difference(named)))


async def _denied(client: BrokerClient, topics: Collection[str]) -> frozenset[str]:
    """Return those of these topics that may not be described."""
    if not topics:
        return frozenset()
    described = (await client.metadata(topics)).topics
    return frozenset(
        topic for topic in topics if topic in described and described[topic].error == _TOPIC_DENIED
    )
