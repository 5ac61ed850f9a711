"""What members of classic groups notice of new, grown and deleted topics, and what they keep."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from kgroup.assignor.base import TopicMetadata
from kgroup.assignor.client.lesser_known import LESSER_KNOWN, is_passed_over
from kgroup.assignor.client_facts import FACTS
from kgroup.assignor.group_spec import GroupSpec
from kgroup.assignor.member_spec import MemberSpec
from kgroup.model.client_library import (
    AIOKAFKA,
    FRANZ_GO,
    KAFKA_GO,
    KAFKA_PYTHON,
    KAFKAJS,
    LIBRDKAFKA,
    PLATFORMATIC,
    SARAMA,
)
from kgroup.model.cluster import TopicPartition
from kgroup.operation.report import first_names


def topic_warnings(spec: GroupSpec) -> Iterator[str]:
    """Yield warnings about topics that changed, and about members whose topics do not exist."""
    if spec.protocol != "classic":
        return
    gone, keeper = _deleted_topics(spec), _keeper(spec)
    yield from _refused_deletions(spec, gone, keeper)
    if spec.dropped_topics or _has_changed(spec):
        yield from _members_without_a_topic(spec, keeper)
    yield from _members_without_topics(spec)
    if gone:
        yield from _kept_deletions(spec, gone, keeper)
    yield from _unnoticed_changes(spec)
    if not _has_changed(spec):  # else the leader asks for the partitions of topics anyway
        yield from _unnoticed_growth(spec)


def _refused_deletions(spec: GroupSpec, gone: Sequence[str], keeper: str | None) -> Iterator[str]:
    """Yield warnings about members that may not be able to join without a deleted topic."""
    lost = [
        member
        for member in spec.members
        if set(member.topics) - spec.topics.keys() and spec.client_of(member).name == PLATFORMATIC
    ]
    if gone and keeper == PLATFORMATIC and lost and not _has_changed(spec):
        yield (
            f"No rebalance follows until the sessions of {first_names(_names(lost))} expire: when "
            f"a topic of theirs is deleted, members of {keeper} fail, and send no heartbeats."
        )
    elif gone and keeper == KAFKA_PYTHON:
        yield (
            "The actual assignment may be different: members of kafka-python may not join again, "
            "and the rebalance wait for them"
            if _has_changed(spec)
            else "No rebalance may follow: members of kafka-python may not join again"
        ) + (
            f". They commit offsets first, which fails for deleted topics ({first_names(gone)}) "
            "until poll() ends by its timeout; iterating over the consumer has none."
        )
    elif gone and keeper in _UNABLE:
        what = "The actual assignment may be different"
        yield (
            f"{what if _has_changed(spec) else 'No rebalance follows'}: members of {keeper} keep "
            f"the partitions of deleted topics ({first_names(gone)}), and may not be able to join "
            "again."
        )


def _members_without_a_topic(spec: GroupSpec, keeper: str | None) -> Iterator[str]:
    """Yield warnings about members that cannot join, or stay, without one of their topics."""
    rejoin, join, watch = set(), set(), False
    for member in spec.members:
        subscribed = set(member.topics) - spec.topics.keys()
        owned = dict(member.owned or ()).keys() - spec.topics.keys()
        library = KAFKA_PYTHON if _may_be_python(member) else spec.client_of(member).name
        if subscribed and library == KAFKA_GO:
            watch = True
        elif subscribed and library in _UNABLE_TO_JOIN and member.owned is None:
            join.add(library)
        elif (owned and library in _UNABLE) or (subscribed and library == SARAMA):
            rejoin.add(library)
    if rejoin and keeper not in _UNABLE:
        yield (
            f"The actual assignment may be different: members of {first_names(sorted(rejoin))} may "
            "not be able to join again while a topic of theirs does not exist, and the rebalance "
            "then waits for them."
        )
    if join:
        yield (
            "The actual assignment may be different: new members of "
            f"{first_names(sorted(join))} do not join while a topic of theirs does not exist."
        )
    if watch:
        yield (
            f"The group may never become stable: members of {KAFKA_GO} with WatchPartitionChanges "
            "join again and again while a topic of theirs does not exist, and send no heartbeats."
        )


def _members_without_topics(spec: GroupSpec) -> Iterator[str]:
    """Yield warnings about members of librdkafka none of whose topics exists."""
    expiring = [member for member in spec.departed if member.member_id in spec.expiring]
    lost = _names([*unable_to_rejoin(spec), *expiring])
    if lost and (spec.dropped_topics or _has_changed(spec)):
        waits = "The rebalance waits" if spec.departed else "No rebalance follows"
        yield (
            f"{waits} until the sessions of {first_names(lost)} expire: members of {LIBRDKAFKA} "
            "do not join again, and send no heartbeats, while none of their topics exists."
        )
    waiting = unable_to_join(spec)
    if waiting:
        names, is_all = first_names(_names(waiting)), not _has_changed(spec, but=waiting)
        yield (
            f"{'No rebalance may follow' if is_all else 'Some may not join'}: members of "
            f"{LIBRDKAFKA} join when a topic exists to which they subscribe; for these, none does: "
            f"{names}."
        )


def _kept_deletions(spec: GroupSpec, gone: Sequence[str], keeper: str | None) -> Iterator[str]:
    """Yield warnings about leaders that assign deleted topics, or may not."""
    dropped = sorted(spec.dropped_topics.intersection(gone))
    may_lead_anew = spec.leader is None and any(member.unknown_id for member in spec.members)
    if keeper == FRANZ_GO and (spec.restarting or may_lead_anew):
        yield (
            f"The actual assignment may be different: members of {keeper} that restart no longer "
            f"know deleted topics ({first_names(gone)}), and give them up if they lead."
        )
    subscribed = {frozenset(member.topics) for member in spec.members}
    if dropped and keeper == FRANZ_GO and not _has_changed(spec) and len(subscribed) == 1:
        yield (
            f"The actual assignment may be different if members subscribe by a pattern: {keeper} "
            f"then gives up deleted topics ({first_names(dropped)}) after a while, otherwise not."
        )
    leader = spec.leader
    others = (leader.may_be or frozenset()) - {FRANZ_GO} if leader is not None else frozenset()
    if keeper == FRANZ_GO and others and _has_changed(spec):
        yield (
            "The actual assignment may be different: the leader may use "
            f"{' or '.join(sorted(others))}, which gives up deleted topics ({first_names(gone)})."
        )
    if keeper in (AIOKAFKA, KAFKA_PYTHON) and SARAMA in others:
        yield (
            f"The actual assignment may be different: the leader may use {SARAMA}, which cannot "
            f"assign deleted topics ({first_names(gone)}) in the next rebalance."
        )


def _unnoticed_changes(spec: GroupSpec) -> Iterator[str]:
    """Yield warnings if nobody may notice changed topics for some time."""
    if spec.new_topics and spec.computed_as.name == KAFKAJS:
        may = "follows" if keeps_assignment(spec) else "may follow"
        yield (
            f"No rebalance {may}: members of kafkajs look for topics that match a pattern only "
            "when they start."
        )
    changed = spec.new_topics.union(spec.grown_topics, spec.dropped_topics)
    if not changed or _has_changed(spec):
        return
    leader = spec.leader
    if spec.leader_id in spec.restarting:
        libraries = {spec.client_of(member).name for member in spec.members}
        if LIBRDKAFKA not in libraries:
            yield (
                "No rebalance may follow: the leader restarts, and returns without a rebalance. It "
                f"only notices what changes later; now, {first_names(sorted(changed))} changed."
            )
    elif (
        leader is not None
        and (spec.computed_as.name in _FORGET_TO_LEAD or _may_be_python(leader))
        and leader.instance_id is not None
        and spec.may_be_static(spec.computed_as)
        # Its id would be new.
        and not any(leader.member_id in past.members for past in spec.past_generations)
    ):
        yield (
            "No rebalance may follow: if the leader, a static member, has restarted since the last "
            "rebalance, it does not know that it leads, and nobody looks for changed topics "
            f"({first_names(sorted(_FORGET_TO_LEAD))})."
        )
    may_lead = (leader.may_be or ()) if leader is not None and spec.client is None else ()
    slow = sorted(LESSER_KNOWN.keys() & may_lead)
    if slow and not is_passed_over(slow, spec.possible_leaders):  # else a note
        yield (
            f"No rebalance may follow soon: the leader may use {' or '.join(slow)}, and when these "
            "look for changed topics is not imitated."
        )


def _unnoticed_growth(spec: GroupSpec) -> Iterator[str]:
    """Yield a warning if nobody looks for new partitions of a topic."""
    unnoticed = sorted(topic for topic in spec.grown_topics if not _is_noticed(spec, topic))
    if unnoticed and keeps_assignment(spec):
        is_go = spec.computed_as.name == KAFKA_GO
        unread = " of topics that the leader does not read" if is_go else ""
        yield (
            f"No rebalance follows: members of {spec.computed_as.name} start none for new "
            f"partitions ({first_names(unnoticed)}){unread}. They get them in the next rebalance, "
            "whatever causes it."
        )
    elif unnoticed:
        facts = FACTS[spec.computed_as.name]
        unless = f", unless {facts.refresh_setting} is set" if facts.refresh_setting else ""
        unless = unless if facts.refresh_ms is None else ""
        yield (
            f"No rebalance may follow: {spec.computed_as.name} does not look for new partitions of "
            f"{first_names(unnoticed)}{unless}. Members get them in the next rebalance, whatever "
            "causes it."
        )


_UNABLE = (AIOKAFKA, KAFKA_PYTHON, PLATFORMATIC)
"""Libraries whose members cannot join, or get an assignment, while a topic of theirs is deleted."""

_UNABLE_TO_JOIN = frozenset({KAFKAJS, PLATFORMATIC, SARAMA})
"""Libraries that ask for the metadata of their topics before they join, and fail without one."""

_FORGET_TO_LEAD = frozenset({KAFKA_PYTHON, SARAMA})
"""Libraries whose JoinGroup is too old for KIP-814: a static leader that returns gets no role."""


def _may_be_python(member: MemberSpec) -> bool:
    return member.client is None and KAFKA_PYTHON in (member.may_be or ())


def _is_of_aiokafka(member: MemberSpec) -> bool:
    """Return whether a member is taken to be of aiokafka, and not of kafka-python."""
    may_be = member.may_be or ()
    return AIOKAFKA in may_be and (KAFKA_PYTHON not in may_be or member.has_one_timeout is True)


def _deleted_topics(spec: GroupSpec) -> list[str]:
    return sorted({topic for topic, _ in _owned(spec)} - spec.topics.keys())


def _owned(spec: GroupSpec) -> Iterator[TopicPartition]:
    """Yield the partitions of members, and of those that have left: their owner may have led."""
    for member in (*spec.members, *spec.departed):
        yield from member.owned or ()


def _keeper(spec: GroupSpec) -> str | None:
    """Return the leader's library if its leaders do not notice that a topic is deleted, else None.

    A member of librdkafka calls for a rebalance whoever leads. If franz-go has assigned the topic
    to others even then, members do not subscribe by a pattern, and it will again. A new member does
    not know the topic. An unknown leader whose bytes may be those of kafka-python is taken as such:
    others stopped to write them in 2020.
    """
    leader = spec.leader
    may_lead = spec.members if leader is None else (leader,)
    if spec.protocol != "classic" or all(member.unknown_id for member in may_lead):
        return None
    if LIBRDKAFKA in {spec.client_of(member).name for member in spec.members}:
        is_kept = spec.computed_as.name == FRANZ_GO and not spec.dropped_topics
        return FRANZ_GO if is_kept else None
    is_unknown = spec.client is None and leader is not None and leader.client is None
    is_python = is_unknown and leader is not None and KAFKA_PYTHON in (leader.may_be or ())
    name = KAFKA_PYTHON if is_python else spec.computed_as.name
    if name == KAFKA_PYTHON and leader is not None:
        # It commits before it joins again, which only fails for deleted topics that it owns.
        keeps = set(_deleted_topics(spec)).intersection(dict(leader.owned or ()))
        name = AIOKAFKA if _is_of_aiokafka(leader) else name
        return name if keeps or _has_changed(spec) else None
    return name if name in (FRANZ_GO, *_UNABLE) else None


def _has_changed(spec: GroupSpec, but: Sequence[MemberSpec] = ()) -> bool:
    """Return whether members left, joined or changed subscriptions, which causes a rebalance.

    Args:
        spec: the group.
        but: new members that do not count.
    """
    is_other = bool(spec.departed) or spec.have_subscribed
    return is_other or any(member.owned is None and member not in but for member in spec.members)


def _names(members: Iterable[MemberSpec]) -> list[str]:
    return sorted(member.client_id or member.member_id for member in members)


def keeps_assignment(spec: GroupSpec) -> bool:
    """Return whether there is no rebalance, because nobody notices what has become of topics."""
    if spec.client is not None or spec.has_votes is None or _has_changed(spec):
        return False
    if _keeper(spec) in (AIOKAFKA, PLATFORMATIC) and _deleted_topics(spec):
        return True
    if len(unable_to_rejoin(spec)) == len(spec.members):
        return True
    if spec.grown_topics and not spec.new_topics and not spec.dropped_topics:
        leader = spec.leader
        never = leader is not None and (leader.may_be or frozenset({""})) <= _LOOK_FOR_OWN
        if never and leader is not None and spec.grown_topics.keys().isdisjoint(leader.topics):
            return True
    name = spec.computed_as.name
    is_unnoticed = (
        bool(spec.new_topics) and not spec.grown_topics
        if name == KAFKAJS
        else name == PLATFORMATIC and bool(spec.grown_topics) and not spec.new_topics
    )
    # The leader looks for changed topics: if it may be of another library, it may notice them.
    is_known = all(member.client == spec.computed_as for member in spec.possible_leaders)
    is_known = is_known or (spec.leader is None and spec.leader_client == spec.computed_as)
    return (
        is_unnoticed
        and is_known
        and not spec.dropped_topics
        and all(spec.client_of(member) == spec.computed_as for member in spec.members)
    )


def with_kept_topics(spec: GroupSpec) -> GroupSpec:
    """Return the group with deleted topics, as far as owned, if they still exist for its leader.

    Members of librdkafka do not subscribe to topics that do not exist, nor do those of franz-go
    that are new.
    """
    if spec.protocol != "classic":
        return spec
    gone = _deleted_topics(spec)
    is_kept = bool(gone) and _keeper(spec) == FRANZ_GO
    topics = spec.topics
    if is_kept:
        counts: dict[str, int] = {}
        for topic, number in _owned(spec):
            counts[topic] = max(counts.get(topic, 0), number + 1)
        topics = {**topics, **{topic: TopicMetadata(counts[topic]) for topic in gone}}
    members = tuple(
        replace(member, topics=tuple(topic for topic in member.topics if topic in spec.topics))
        if not spec.topics.keys() >= set(member.topics)
        and (
            spec.client_of(member).name == LIBRDKAFKA
            or (member.owned is None and spec.client_of(member).name == FRANZ_GO)
        )
        else member
        for member in spec.members
    )
    is_same = not is_kept and members == spec.members
    return spec if is_same else replace(spec, members=members, topics=topics)


_LOOK_FOR_OWN = frozenset({KAFKA_GO, PLATFORMATIC})
"""Libraries whose leaders notice new partitions of their own topics, at most.

When another member of kafka-go joins again, the coordinator starts no rebalance.
"""

_NOTICE_FOR_THEMSELVES = frozenset({LIBRDKAFKA, FRANZ_GO})
"""Libraries of which each member rejoins when it notices that a new topic matches its pattern."""


def noticing(spec: GroupSpec) -> list[tuple[MemberSpec, ...]]:
    """Return who notices changed topics one after another; nothing if all do at once.

    The coordinator notices what matches regular expressions, at once for all members that have
    one; members of the classic protocol in the same group see it for themselves.
    """
    if spec.protocol == "consumer" and spec.new_topics:
        by_regex = tuple(member for member in spec.members if member.regex is not None)
        others = [(member,) for member in spec.members if member.regex is None]
        return [by_regex, *others] if by_regex and others else []
    libraries = _NOTICE_FOR_THEMSELVES if spec.new_topics else {LIBRDKAFKA}
    is_changed = spec.new_topics or spec.dropped_topics
    if spec.protocol != "classic" or not is_changed or len(spec.members) < 2:
        return []
    return [(member,) for member in spec.members if spec.client_of(member).name in libraries]


def unable_to_rejoin(spec: GroupSpec) -> list[MemberSpec]:
    """Return the members of librdkafka that own partitions, and none of whose topics exists.

    Source: `rd_kafka_cgrp_join` returns if no topic matches the subscription.
    """
    return [each for each in _without_topics(spec) if each.owned and each.client is not None]


def unable_to_join(spec: GroupSpec) -> list[MemberSpec]:
    """Return the new members of librdkafka none of whose topics exists."""
    return [each for each in _without_topics(spec) if each.owned is None]


def _without_topics(spec: GroupSpec) -> Iterator[MemberSpec]:
    """Yield the members of librdkafka in classic groups that subscribe to no existing topic."""
    for member in spec.members if spec.protocol == "classic" else ():
        of_librdkafka = spec.client_of(member).name == LIBRDKAFKA
        if of_librdkafka and spec.topics.keys().isdisjoint(member.topics):
            yield member


def _is_noticed(spec: GroupSpec, topic: str) -> bool:
    """Return whether a member looks for new partitions of a topic, as far as known.

    librdkafka looks at the topics of its own subscription; other leaders at those of all members.
    """
    leads = spec.computed_as.name
    if FACTS[leads].refresh_ms is None:
        return False
    return leads != LIBRDKAFKA or any(
        topic in member.topics
        and spec.client_of(member).name == LIBRDKAFKA
        and (member.client is not None or member.may_be is None)
        for member in spec.members
    )
