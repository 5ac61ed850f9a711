"""kafka-clients, Kafka's own library for Java: subscriptions and assignors.

Source: `ConsumerCoordinator.metadata`, `ConsumerProtocol.serializeSubscription`,
`StickyAssignor.subscriptionUserData`, `CooperativeStickyAssignor.subscriptionUserData` of
kafka-clients 4.3.1; `StickyAssignor.subscription` of 1.1.1.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from operator import itemgetter

from kgroup.assignor import range as range_assignor
from kgroup.assignor import round_robin
from kgroup.assignor.base import Assignment, ClassicAssignor, Subscriber, TopicMetadata
from kgroup.assignor.client_library import ClientLibrary
from kgroup.assignor.java.java_hash import (
    CROWD,
    TABLE,
    TREE_TABLE,
    hash_order,
    spread,
    topic_partition_hash,
    utf16,
)
from kgroup.assignor.member_spec import NEWEST, MemberSpec, UserData
from kgroup.assignor.sticky import sticky
from kgroup.assignor.sticky.claim import Release, or_no_generation
from kgroup.model.client_library import KAFKA_CLIENTS
from kgroup.model.cluster import TopicPartition
from kgroup.model.offsets_partition import string_hash

_OWNED_FROM = 1
_GENERATION_FROM = 2
_RACK_FROM = 3


def as_sent(members: Sequence[MemberSpec], strategy: str) -> list[Subscriber]:
    """Return the members' subscriptions as the leader reads them.

    Args:
        members: members that join.
        strategy: name of the assignor; only cooperative-sticky keeps partitions during the
            rebalance.
    """
    subscriptions = dict.fromkeys(member.topics for member in members)
    names = {topic for topics in subscriptions for topic in topics}
    if strategy == "cooperative-sticky":
        for member in members:
            names.update(map(itemgetter(0), member.owned or ()))
    # members subscribe to the same topics mostly: each text is compared with others once
    rank = {name: at for at, name in enumerate(sorted(names, key=utf16))}
    in_order = {topics: tuple(sorted(topics, key=rank.__getitem__)) for topics in subscriptions}
    return [_as_sent(member, strategy, in_order[member.topics], rank) for member in members]


def _as_sent(
    member: MemberSpec, strategy: str, topics: tuple[str, ...], rank: Mapping[str, int]
) -> Subscriber:
    generation = member.generation
    if member.subscription_generation is not None:
        generation = member.subscription_generation
    if member.version < _GENERATION_FROM or generation is None or generation < 0:
        generation = None
    owned: tuple[TopicPartition, ...] = ()
    if strategy == "cooperative-sticky" and member.version >= _OWNED_FROM and member.owned:
        owned = tuple(
            sorted(member.owned, key=lambda partition: rank[partition[0]] << 31 | partition[1])
        )
    user_data = member.user_data
    if user_data is None:
        user_data = _user_data(member, strategy)
    return Subscriber(
        member_id=member.member_id,
        topics=topics,
        instance_id=member.instance_id,
        rack=member.rack or None if member.version >= _RACK_FROM else None,
        owned=owned,
        generation=generation,
        remembered=user_data.owned,
        remembered_generation=user_data.generation,
        generation_again=user_data.generation_again,
        goes_on=member.version >= _OWNED_FROM,
        version=member.version,
    )


def as_sent_1_1(
    members: Sequence[MemberSpec], strategy: str, *, prepend: bool = False
) -> list[Subscriber]:
    """Return the subscriptions of members of version 1.1.1 as the leader reads them.

    Their topics are in the order of a Java HashSet, which `members` must have already.

    Args:
        members: members that join.
        strategy: name of the assignor.
        prepend: order user data as 2.1 and later do; see `hash_order`.
    """
    sent = []
    for member in members:
        user_data = member.user_data or UserData()
        if member.user_data is None and strategy == "sticky" and member.owned is not None:
            user_data = UserData(_by_topic(member.owned, prepend=prepend))
        sent.append(
            Subscriber(
                member.member_id,
                member.topics,
                remembered=user_data.owned,
                failure=user_data.failure_in_1_1,
            )
        )
    return sent


def _user_data(member: MemberSpec, strategy: str) -> UserData:
    generation = or_no_generation(member.generation)
    if strategy == "cooperative-sticky":
        return UserData(generation=generation)
    if strategy == "sticky" and (member.owned is not None or member.generation is not None):
        return UserData(_by_topic(member.owned or ()), generation)
    return UserData()


def _by_topic(
    partitions: Sequence[TopicPartition], *, prepend: bool = True
) -> tuple[TopicPartition, ...]:
    """Order partitions as Kafka's `CollectionUtils` does: by a HashMap of topics."""
    topics = list(map(itemgetter(0), partitions))
    calls = tuple(dict.fromkeys(topics))
    if calls and topics.index(topics[-1]) < len(topics) - 1:
        calls = (*calls, topics[-1])  # one for a topic that is there makes a full table grow
    rank = _rank(calls, prepend=prepend)
    return tuple(sorted(partitions, key=lambda partition: rank[partition[0]]))


@lru_cache(maxsize=1 << 10)
def _rank(calls: tuple[str, ...], *, prepend: bool) -> Mapping[str, int]:
    """Return the position of each text in a Java HashMap; many members own the same topics."""
    return {text: at for at, text in enumerate(hash_order(calls, prepend=prepend))}


def versions_before_3_4(
    version: int | None, strategy: str | None, topics: Sequence[str], user_data: object
) -> tuple[str, ...]:
    """Return the versions that write such a subscription, newest first; none from 3.4.0 on.

    Args:
        version: version of the message; None if unknown.
        strategy: strategy of the group.
        topics: topics in the order of the message. Before 2.8.1, that is the order of a HashSet.
        user_data: decoded user data; None if there are none.
    """
    if version == 0:
        if not isinstance(user_data, Mapping) or "previousAssignment" not in user_data:
            return ("2.3.1", *_WITHOUT_GENERATION)
        return ("2.3.1",) if "generation" in user_data else _WITHOUT_GENERATION
    if version != 1:
        return ()
    since_2_8_1, before = ("3.3.2", "2.8.2"), ("2.8.0", "2.5.0")
    if strategy == "cooperative-sticky":
        return before if user_data is None else since_2_8_1
    if list(topics) != sorted(topics, key=utf16):
        return before
    sizes = None, max(TABLE, int(len(topics) / 0.75) + 1)  # of sets that grow, and copies
    is_hashed = any(hash_order(topics, size) == list(topics) for size in sizes)
    return since_2_8_1 + before if is_hashed else since_2_8_1


def _assign_sticky_1_1(
    members: Sequence[Subscriber], topics: Mapping[str, TopicMetadata]
) -> Assignment:
    from kgroup.assignor.sticky import before_3  # which needs numpy

    return before_3.assign_1_1(members, topics)


def _version_as_sent(
    members: Sequence[MemberSpec], strategy: str, version: str
) -> list[Subscriber]:
    if version in _WITHOUT_GENERATION:
        return as_sent_1_1(members, strategy, prepend=version != _WITHOUT_GENERATION[-1])
    newest = _MESSAGE_OF.get(version)
    if newest is not None:
        members = [replace(member, version=min(member.version, newest)) for member in members]
    if newest == 0:
        members = [replace(member, instance_id=None) for member in members]
    sent = as_sent(members, strategy)
    return list(map(_unsorted, sent, members)) if version in _UNSORTED else sent


def _unsorted(sent: Subscriber, member: MemberSpec) -> Subscriber:
    """Return a subscription as members before 2.8.1 send it.

    Topics are in the order of a Java HashSet, which the member must have already.
    """
    generation = sent.remembered_generation
    is_eager = sent.remembered is not None
    return replace(
        sent,
        topics=member.topics,
        owned=_by_topic(member.owned or ()) if sent.owned else (),
        remembered_generation=generation if is_eager or member.user_data is not None else None,
    )


_WITHOUT_GENERATION = ("2.2.2", "1.1.1")
_MESSAGE_OF = {"3.4.1": 2, "3.3.2": 1, "2.8.2": 1, "2.8.0": 1, "2.5.0": 1, "2.3.1": 0}
"""Version of the subscription that members write, where it is not the newest."""
_UNSORTED = ("2.8.0", "2.5.0", "2.3.1")
_EARLIER = tuple(release for release in Release if release is not Release.SORTED)
_STICKY: Mapping[Release, ClassicAssignor] = {
    release: partial(sticky.assign, release=release) for release in _EARLIER
}
_COOPERATIVE: Mapping[Release, ClassicAssignor] = {
    release: partial(sticky.assign_cooperative, release=release) for release in _EARLIER
}


def _before_racks(release: Release) -> Mapping[str, ClassicAssignor]:
    return {
        "range": range_assignor.assign_before_racks,
        "roundrobin": round_robin.assign,
        "sticky": _STICKY[release],
        "cooperative-sticky": _COOPERATIVE[release],
    }


_BY_HASH = (
    sticky.assign,
    sticky.assign_cooperative,
    *_STICKY.values(),
    *_COOPERATIVE.values(),
    _assign_sticky_1_1,
)
_BY_SIZE = (
    _STICKY[Release.COOPERATIVE],
    _COOPERATIVE[Release.COOPERATIVE],
    _STICKY[Release.DATED],
    _assign_sticky_1_1,
)
"""Assignors for which the order of partitions matters in all groups."""


def _is_determined(
    assignor: ClassicAssignor, members: Sequence[Subscriber], topics: Mapping[str, TopicMetadata]
) -> bool:
    """Return whether no order of partitions in a hash table depends on chance.

    A crowded bucket becomes a tree, and a TopicPartition cannot be compared: of two with the same
    hash code, the JVM's identity hash codes decide (`HashMap.tieBreakOrder`). Since 2.5.1, such
    orders matter only where members subscribe to different topics.

    Cooperative members of 2.5.1 to 2.8.0 name the partitions first from which they got no records
    for longest. Those that have too many keep the first.
    """
    if assignor not in _BY_HASH:
        return True
    if len({frozenset(member.topics) for member in members}) == 1 and assignor not in _BY_SIZE:
        return assignor is not _COOPERATIVE[Release.EQUAL] or _keep_all(assignor, members, topics)
    names = {name for member in members for name in member.topics if name in topics}
    if len(names) < CROWD // 2:
        return True
    hashes = Counter(
        topic_partition_hash(string_hash(name), number)
        for name in names
        for number in range(topics[name].partitions)
    )
    if max(hashes.values(), default=1) == 1:
        return True
    size = TREE_TABLE
    while hashes.total() > size * 3 // 4:
        size *= 2
    buckets: dict[int, list[int]] = defaultdict(list)
    for code, count in hashes.items():
        buckets[spread(code) & (size - 1)].append(count)
    return not any(sum(counts) >= CROWD and max(counts) > 1 for counts in buckets.values())


def _keep_all(
    assignor: ClassicAssignor, members: Sequence[Subscriber], topics: Mapping[str, TopicMetadata]
) -> bool:
    """Return whether all members keep what they own of the topics that they subscribe to."""
    assignment = assignor(members, topics)
    return not any(
        topic in topics and topic in member.topics
        for member in members
        for topic, _ in set(member.owned).difference(assignment[member.member_id])
    )


_TOO_SHORT = ("SchemaException", "Buffer underflow while parsing consumer protocol's subscription")
_READ_OWNED = (NEWEST, "3.7.0", "3.4.1", "3.3.2", "2.8.2", "2.8.0", "2.5.0")
"""Versions whose leaders read owned partitions, in versions of the message that have them."""

JAVA = ClientLibrary(
    name=KAFKA_CLIENTS,
    strategies={
        NEWEST: {
            "range": range_assignor.assign,
            "roundrobin": round_robin.assign,
            "sticky": sticky.assign,
            "cooperative-sticky": sticky.assign_cooperative,
        },
        "3.7.0": {
            "range": range_assignor.assign,
            "roundrobin": round_robin.assign,
            "sticky": _STICKY[Release.BY_RACK],
            "cooperative-sticky": _COOPERATIVE[Release.BY_RACK],
        },
        "3.4.1": _before_racks(Release.EVERY_GENERATION),
        "3.3.2": _before_racks(Release.GENERAL),
        "2.8.2": _before_racks(Release.DISPUTED),
        "2.8.0": _before_racks(Release.EQUAL),
        "2.5.0": _before_racks(Release.COOPERATIVE),
        "2.3.1": {
            "range": range_assignor.assign_before_racks,
            "roundrobin": round_robin.assign,
            "sticky": _STICKY[Release.DATED],
        },
        "2.2.2": {
            "range": range_assignor.assign_before_racks,
            "roundrobin": round_robin.assign,
            "sticky": _assign_sticky_1_1,
        },
        "1.1.1": {
            "range": range_assignor.assign_1_1,
            "roundrobin": round_robin.assign,
            "sticky": _assign_sticky_1_1,
        },
    },
    as_sent=_version_as_sent,
    client_id="consumer-{group}-1",
    is_determined=_is_determined,
    on_short=dict.fromkeys(_READ_OWNED, _TOO_SHORT),
    since={
        NEWEST: "3.7.1",
        "3.7.0": "3.5.0",
        "3.3.2": "3.0.0",
        "2.8.2": "2.8.1",
        "2.8.0": "2.5.1",
        "2.5.0": "2.4.0",
        "2.3.1": "2.3.0",
        "2.2.2": "2.1.0",
        "1.1.1": "0.11.0",
    },
)
