"""Choose the assignor to run: the client library of a classic group's leader."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice

from kgroup.assignor.base import Assignment, AssignorError
from kgroup.assignor.client.java import JAVA
from kgroup.assignor.client.lesser_known import LESSER_KNOWN, is_passed_over
from kgroup.assignor.group_spec import ASSIGNS_LIKE, CLIENTS, GroupSpec, newest, versions
from kgroup.assignor.member_spec import MemberSpec, Software
from kgroup.assignor.server.server import PREFERENCE
from kgroup.assignor.strategy import as_sent, assign, ignored, is_determined, strategies
from kgroup.errors import near_names
from kgroup.model.client_library import (
    KAFKA_CLIENTS,
    KAFKA_GO,
    KAFKA_NODE,
    KAFKA_PYTHON,
    KAFKA_TS,
    LIBRDKAFKA,
    RUBY_KAFKA,
    SARAMA,
    all_of,
)
from kgroup.model.cluster import TopicPartition
from kgroup.operation.assign.topic_change import keeps_assignment, with_kept_topics
from kgroup.operation.assign.vote import INCONSISTENT, KEEPERS, assignor_of, last_joined
from kgroup.operation.report import first_names
from kgroup.simulation.client.config import COOPERATIVE_STICKY

_OTHER_NAMES = {"java": KAFKA_CLIENTS, "confluent-kafka": "librdkafka", "kgo": "franz-go"}
"""confluent-kafka for Python, Go and .NET is librdkafka, and has the same version numbers."""
_LEADERS = 6
"""Maximum number of leaders to try if the leader is unknown."""


def software(text: str) -> Software:
    """Parse the name of a library, with ``@VERSION`` or else its newest known version.

    Names are case-insensitive.

    Raises:
        ValueError: the library or version is not implemented; the message continues "expected".
    """
    asked, version = _parts(text)
    name = _OTHER_NAMES.get(asked.lower(), asked.lower())
    library = CLIENTS.get(name)
    if library is None:
        suggestion = near_names(name, (*CLIENTS, *_OTHER_NAMES))
        raise ValueError(f"one of {', '.join(CLIENTS)}, found {asked!r}{suggestion}")
    if version is None:
        return library.newest
    try:
        known = library.version_of(version)
    except ValueError:
        raise ValueError(
            f"a version after the @, like {library.versions[0]}, found {version!r}"
        ) from None
    if known is None:
        raise ValueError(f"{name} {library.earliest} or later, which is imitated, found {version}")
    return Software(name, known)


def version_of(text: str) -> str | None:
    """Return the version in the name of a library; None if there is none."""
    return _parts(text)[1] or None


def _parts(text: str) -> tuple[str, str | None]:
    """Return the name of a library and its version; a name may begin with "@"."""
    name, at, version = text[1:].partition("@")
    return text[:1] + name, version if at else None


def later_note(text: str) -> str | None:
    """Return a note that a library's version is later than all known ones; None if it is not."""
    client, version = software(text), version_of(text)
    if not version or not CLIENTS[client.name].is_later(version):
        return None
    return (
        f"{client.name} {version} is newer than the versions that were tested; it is treated as "
        f"{client}"
    )


def asked_software(
    protocol: str, kafka_version: str | None, client: Software | None
) -> Software | None:
    """Return the requested software for a group of a protocol; None if there is no request.

    Args:
        protocol: the group's protocol.
        kafka_version: version of Kafka's own software.
        client: another library of a classic group's members; not together with `kafka_version`.

    Raises:
        ValueError: the protocol does not have this software; the message says what it has.
    """
    if client is not None and protocol != "classic":
        raise ValueError(
            f"{protocol} groups are not assigned by a client library, but by "
            f"{newest(protocol).name}; omit --client"
        )
    if kafka_version is None:
        return client
    if kafka_version not in versions(protocol):
        raise ValueError(
            f"{protocol} groups are not imitated for Kafka {kafka_version}, but for "
            f"{' or '.join(versions(protocol))}; omit --kafka-version"
        )
    return newest(protocol)._replace(version=kafka_version)


def version_warnings(spec: GroupSpec) -> Iterator[str]:
    """Yield a warning if the requested version of a library is not imitated exactly.

    If none was requested, warn if the subscription of Java's leader leaves several, and they assign
    otherwise.
    """
    asked, leads = spec.asked_version, spec.computed_as
    others = _other_versions(spec)
    computed = _shares(spec, leads) if others else None
    different = [v for v in others if _shares(spec, Software(leads.name, v)) != computed]
    if different:
        yield (
            f"The actual assignment may be different: the leader may also use {leads.name} "
            f"{' or '.join(different)}, by what it sends, and assign differently from {leads}. "
            f"--client {leads.name}@{different[0]} computes with that."
        )
    if spec.client is None and leads == CLIENTS[KAFKA_GO].newest and spec.protocol == "classic":
        old = CLIENTS[KAFKA_GO].versions[-1]
        if _shares(spec, Software(KAFKA_GO, old)) != _shares(spec, leads):
            yield (
                f"The actual assignment may be different: {KAFKA_GO} before 0.4.36 assigns the "
                "other topics if one does not exist, and members do not send their version. "
                f"--client {KAFKA_GO}@{old} computes with it."
            )
    if asked is None or leads != spec.client:
        return
    if CLIENTS[leads.name].may_differ(asked, spec.strategy):
        yield (
            f"The actual assignment may be different: {spec.strategy} of {leads.name} {asked} "
            f"assigns some groups differently from {leads}, which stands for it."
        )


def _other_versions(spec: GroupSpec) -> list[str]:
    """Return versions of Java's library that the leader may also have, by its subscription.

    Older ones only: the newest is assumed of a subscription that 3.4.0 and later write.
    """
    name, known = spec.computed_as
    if spec.protocol != "classic" or spec.client is not None or name != KAFKA_CLIENTS:
        return []
    versions = dict.fromkeys(
        version
        for member in spec.possible_leaders
        if member.client is not None and member.client.name == name and not member.unknown_id
        for version in member.versions or (member.client.version,)
    )
    return [
        version
        for version in versions
        if version != known and spec.strategy in JAVA.strategies[version]
    ]


def chance_warnings(spec: GroupSpec) -> Iterator[str]:
    """Yield warnings if the leader's result depends on randomness or on unknown values."""
    if keeps_assignment(spec):  # no assignor runs
        return
    leads = spec.computed_as
    kept = with_kept_topics(spec)
    if not is_determined(kept):
        yield (
            "The actual assignment may be different: what is known of the group does not determine "
            f"what {leads.name} assigns, because {_cause(kept, leads)} (docs/assign.md, "
            f"{leads.name})."
        )
    if _depends_on_racks(spec, leads):
        name, by_rack = leads.name, CLIENTS[leads.name].version_by_rack
        yield (
            "The actual assignment may be different: racks count if the leader uses "
            f"{name} {by_rack}, or a later version with an option that members do not send "
            f"(docs/assign.md, {name}). --client {name}@{by_rack} takes racks into account."
        )
    rackless = _without_leader_rack(spec, leads)
    if rackless:
        yield (
            f"{spec.strategy} of {leads.name} uses the racks of partition leaders, which are "
            f"unknown for {first_names(rackless)}: these count as in no rack. Give them with "
            "leader_racks in a spec."
        )


def _cause(spec: GroupSpec, leads: Software) -> str:
    """Return why an assignment is not determined: an unknown value, or randomness.

    Each unknown value is assumed to be known, to see whether this determines the assignment.
    """
    topics = {
        name: replace(metadata, is_listing_known=True) for name, metadata in spec.topics.items()
    }
    listed = replace(spec, topics=topics)
    is_new = topics != spec.topics
    if is_new and is_determined(listed):
        return "the order in which brokers will list new partitions is unknown"
    if CLIENTS[leads.name].is_same_without is not None:
        members = tuple(replace(member, unknown_id=False) for member in spec.members)
        informed = replace(spec, members=members, departed=(), is_leader_new=False)
        if informed != spec and is_determined(informed):
            return "a member that has not been the leader may not know all topics at first"
    for known, also in (
        (spec, ""),
        (listed, ", and so is the order in which brokers will list new partitions"),
    ):
        led = list(_with_each_leader(known))
        if len(led) > 1 and (known is spec or is_new) and all(map(_is_determined_or_fails, led)):
            return f"the leader is unknown (name it with --leader ID){also}"
    return "the result may be random"


def _is_determined_or_fails(spec: GroupSpec) -> bool:
    """Return whether the outcome is determined: an assignment or a failure."""
    try:
        return is_determined(spec)
    except AssignorError:
        return True


def _without_leader_rack(spec: GroupSpec, leads: Software) -> list[str]:
    """Return partitions whose leader's rack is unknown, if the assignor uses it."""
    library = CLIENTS.get(leads.name)
    if library is None or not any(member.rack for member in spec.members):
        return []
    if library.strategies[leads.version][spec.strategy] not in library.assignors_by_rack:
        return []
    wanted = {name for member in spec.members for name in member.topics if name in spec.topics}
    return [
        f"{name}-{number}"
        for name in sorted(wanted)
        for topic in [spec.topics[name]]
        for number in range(topic.partitions)
        if topic.leader_racks is None or topic.leader_racks[number] is None
    ]


def _depends_on_racks(spec: GroupSpec, leads: Software) -> bool:
    """Return whether the assignment changes if the leader's library is rack-aware."""
    library = CLIENTS.get(leads.name)
    if library is None or library.version_by_rack is None or leads.version != library.versions[0]:
        return False
    if not any(member.rack for member in spec.members):
        return False
    by_rack = Software(library.name, library.version_by_rack)
    without = replace(spec, members=tuple(replace(member, rack=None) for member in spec.members))
    return _shares(spec, by_rack) != _shares(without, by_rack)


def leader_warnings(spec: GroupSpec) -> Iterator[str]:
    """Yield warnings if the leader's library is uncertain, and about members of other libraries.

    If a library was requested, warn only if the leader has another one.
    """
    if spec.protocol != "classic":
        return
    leads = spec.computed_as
    leader = spec.leader
    if spec.client is not None:
        own = None if leader is None or leader.is_client_inferred else spec.client_of(leader)
        # Members do not send their version; the newest one is assumed.
        if own and own not in (leads, CLIENTS[leads.name].newest):
            of = own if own.name == leads.name else own.name
            yield f"The leader uses {of}; computed as {leads}, as requested."
        return
    different, not_imitated = _doubts(spec)
    is_unlike = _is_unlike(spec)
    is_open = not_imitated and not is_passed_over(not_imitated, spec.possible_leaders)
    if not (different or is_open or is_unlike):
        return
    if leader is not None and leader.may_be is not None and leader.may_be <= {*not_imitated}:
        yield (
            f"The leader probably uses {' or '.join(not_imitated)}, which is not imitated; "
            f"computed as {leads}."
        )
        return
    if is_unlike:
        yield (
            "The actual assignment may be different: no library that is imitated, and sends such "
            f"bytes, would have assigned what the members own. Computed as {leads}; --client "
            "LIBRARY chooses another one."
        )
        return
    if leader is not None and leader.client is not None:
        begin = f"The leader probably uses {leads.name}"
    elif spec.leader_client == leads:
        begin = f"The new leader probably uses {leads.name}, like the one before"
    else:
        begin = f"The client library of the leader is unknown. Computed as {leads}"
    consequences = []
    if different:
        consequences.append(
            f"{all_of(different)} would assign differently; --client LIBRARY chooses one"
        )
    if not_imitated:
        consequences.append(f"it may use {' or '.join(not_imitated)}, which is not imitated")
    yield f"{begin}; {'; '.join(consequences)}."


def _doubts(spec: GroupSpec) -> tuple[list[str], list[str]]:
    """Return `_others` if it is uncertain which library the leader uses."""
    leader = spec.leader
    is_certain = leader is not None and leader.certain_client is not None
    is_as_before = leader is None and spec.leader_client is not None and not spec.departed
    if spec.client is not None or is_certain or is_as_before or _is_uniform(spec):
        return [], []
    return _others(spec, spec.computed_as)


def _is_unlike(spec: GroupSpec) -> bool:
    """Return whether the leader, or one that has left, has assigned as no imitated library."""
    return any(member.is_unlike for member in (*spec.members, *spec.departed))


def assumptions(spec: GroupSpec) -> Iterator[str]:
    """Yield what a dry run takes for granted of a group whose members join or leave."""
    have_joined = any(member.unknown_id for member in spec.members)
    if spec.protocol == "consumer" and have_joined and spec.has_votes is not None:
        (other,) = (name for name in PREFERENCE if name != spec.strategy)
        voting = [
            replace(m, assignor=other) if m.unknown_id and m.assignor is None else m
            for m in spec.members
        ]
        if spec.strategy != assignor_of(voting, last_joined(voting)):
            yield (
                "new members are taken to have no group.remote.assignor; theirs may change the "
                f"assignor from {spec.strategy}; strategies= names it"
            )
    if spec.protocol != "classic":
        return
    is_new = have_joined and not spec.departed and spec.client is None
    if is_new and all(member.unknown_id and member.client is None for member in spec.members):
        yield (
            f"new members are taken to use {spec.computed_as}; library= or --client names another "
            "library"
        )
    is_voted = spec.has_votes is False and (have_joined or spec.have_left)
    if is_voted and spec.may_win is None and not any(vote_warnings(spec)):
        new = ", and new members to list what others list" if have_joined else ""
        yield (
            f"the strategy is taken to stay {spec.strategy}{new}: members vote on it again, and no "
            "coordinator reports their lists; --strategy computes with another one"
        )
    java = [member for member in spec.members if spec.client_of(member).name in KEEPERS]
    unseen = [member.member_id for member in java if member.owned]
    is_unseen = spec.has_votes is not None and all(member.keeps is None for member in java)
    if is_unseen and unseen and _depends_on_keeping(spec, unseen):
        yield (
            f"taken to list no eager strategy: {first_names(unseen)}. With one, members give up "
            "all partitions before they rejoin; none has rejoined yet, which would show that"
        )
    different, not_imitated = _doubts(spec)
    is_ruby_out = is_passed_over(not_imitated, spec.possible_leaders)
    if not different and is_ruby_out and not _is_unlike(spec):
        yield (
            f"the leader is taken not to use {RUBY_KAFKA}, which is no longer developed, nor "
            "imitated; what members sent does not rule it out"
        )
    if spec.client is None and _is_uniform(spec) and any(_others(spec, spec.computed_as)):
        yield (
            f"the other members are taken to use {spec.computed_as.name}, as the leader did that "
            "leaves; --client computes with another library"
        )


def _is_uniform(spec: GroupSpec) -> bool:
    """Return whether a member that has left is certain to have the leader's library.

    All other members have to send bytes of that library, too, in the same version of the message:
    then the group is taken to have one.
    """
    name = spec.computed_as.name
    members = (*spec.members, *spec.departed)
    versions = {
        member.version
        for member in spec.departed
        if member.certain_client == spec.leader_client == spec.computed_as
    }
    return bool(versions) and all(
        name in (member.may_be or ()) and member.version in versions
        for member in members
        if not member.unknown_id
    )


def member_warnings(spec: GroupSpec) -> Iterator[str]:
    """Yield a warning if it matters which library wrote the subscriptions of some members.

    A member sends what it owned as its library does, and leaders do not read all of it. Members
    whose library is not certain may be of the libraries of others, or of kafka-python if they send
    what Java's stopped to send in 2.4. If kafka-python's assignor leads, they are taken to be of
    the leader's library.
    """
    leads = spec.computed_as
    if unread := ignored(spec):
        yield (
            f"{leads.name} cannot read the subscriptions of {first_names(sorted(unread))}, which "
            "are too short for their version, and assigns them nothing."
        )
    unsure = [member.member_id for member in spec.members if member.is_keeping_open]
    if unsure and _depends_on_keeping(spec, unsure):
        yield (
            "The actual assignment may be different: a member that also lists an eager "
            "strategy gives up all partitions before it rejoins; it is unknown whether "
            f"{first_names(unsure)} does."
        )
    known = {member.client for member in spec.members if member.client is not None}
    if known and leads.name != KAFKA_PYTHON:
        known.add(CLIENTS[KAFKA_PYTHON].newest)
    if spec.strategy == "sticky":  # what they claim depends on their library
        known |= {
            CLIENTS[name].newest
            for member in spec.members
            if member.client is None and leads.name not in (member.may_be or (leads.name,))
            for name in CLIENTS.keys() & (member.may_be or ())
        }
    is_likely = any(member.is_client_inferred for member in spec.members)
    for client in sorted(known | {leads} if is_likely else known - {leads}):
        unknown = [
            member
            for member in spec.members
            if member.certain_client is None
            and client.name in (member.may_be or ())
            and (member.client is None or member.client.name != client.name)
        ]
        ids = {member.member_id for member in unknown}
        members = tuple(
            replace(member, client=client) if member.member_id in ids else member
            for member in spec.members
        )
        if unknown and _shares(replace(spec, members=members), leads) != _shares(spec, leads):
            yield (
                "The actual assignment may be different: the client library of "
                f"{first_names(sorted(ids))} is unknown, and may be "
                f"{client if client.name == leads.name else client.name}."
            )


def _depends_on_keeping(spec: GroupSpec, member_ids: Collection[str]) -> bool:
    """Return whether the assignment is another one if members do not keep, or keep, partitions."""
    if spec.strategy != COOPERATIVE_STICKY:
        return False
    members = tuple(
        replace(member, keeps=member.keeps is False) if member.member_id in member_ids else member
        for member in spec.members
    )
    return _shares(replace(spec, members=members), spec.computed_as) != _shares(
        spec, spec.computed_as
    )


def _others(spec: GroupSpec, leads: Software) -> tuple[list[str], list[str]]:
    """Return other libraries that the leader may have.

    Returns:
        Those that would assign differently, and those that would or may, and that no dry run is
        computed as.
    """
    names: set[str] = set()
    may_lead = spec.possible_leaders
    by_bytes = frozenset[str]().union(*(member.may_be or () for member in may_lead))
    for member in may_lead:
        if member.certain_client is not None:
            names.add(member.certain_client.name)
        elif member.may_be is not None:
            names |= member.may_be
        elif not member.unknown_id or spec.leader is not None:
            names |= CLIENTS.keys()
    as_computed = _shares(spec, leads)
    different, not_imitated = [], []
    for name in sorted(names - {leads.name}, key=[*CLIENTS, *ASSIGNS_LIKE, *sorted(names)].index):
        versions_of = _versions_of(name)
        if spec.leader is not None:
            versions_of = [each for each in versions_of if each not in spec.leader.unfit]
        if versions_of:
            # What kafka-python may have sent, Java's sent only before 2.4.
            is_old = name == KAFKA_CLIENTS and KAFKA_PYTHON in names
            client = versions_of[-1 if is_old else 0]
            is_there = spec.strategy in CLIENTS[client.name].strategies[client.version]
            if is_there and (
                _shares(spec, client) != as_computed
                or (name in by_bytes and not _is_determined_or_fails(replace(spec, client=client)))
            ):
                different.append(name)
        elif _is_known(spec, name):
            assigned = _lesser_known(spec, name)
            if (None if assigned is None else _sets(assigned)) != as_computed:
                not_imitated.append(name)
        elif (len(spec.members) > 1 or name == KAFKA_TS) and not (
            # kafka-node's range assigns as Java's does
            (name, spec.strategy) == (KAFKA_NODE, "range")
            and as_computed == _shares(spec, newest("classic"))
        ):
            not_imitated.append(name)
    return different, not_imitated


def _versions_of(name: str) -> list[Software]:
    """Return the software that stands for a library: each version, newest first; or nothing."""
    like = ASSIGNS_LIKE.get(name)
    if like is not None:
        later = CLIENTS[like.name].versions
        return [Software(like.name, version) for version in later[later.index(like.version) :]]
    library = CLIENTS.get(name)
    return [] if library is None else [Software(name, version) for version in library.versions]


_FEW_TOPICS = 4
"""Up to this number, brokers return topics in the order of the request."""


def _is_known(spec: GroupSpec, name: str) -> bool:
    """Return whether it is known what a lesser-known library would assign.

    The sort of ruby-kafka is unstable, but leaves topics as they are that members name in order.
    It deals in the order of the coordinator, which is unknown for new members. Members of kafka-ts
    restart until they subscribe to all that they own, and may not know partitions without an owner.
    """
    topics = list(dict.fromkeys(t for member in spec.members_as_sent for t in member.topics))
    if name == KAFKA_TS:
        is_alike = len({frozenset(member.topics) for member in spec.members}) == 1
        return is_alike and len(topics) <= _FEW_TOPICS and _have_owners(spec)
    if name == RUBY_KAFKA:
        return topics == sorted(topics) and not any(m.unknown_id for m in spec.members)
    return (name, spec.strategy) == (KAFKA_NODE, "roundrobin") and len(topics) <= _FEW_TOPICS


def _lesser_known(spec: GroupSpec, name: str) -> Assignment | None:
    """Return the assignment if a lesser-known library leads; None if it fails."""
    in_order = replace(spec, client=CLIENTS[SARAMA].newest)  # topics as they were sent
    try:
        return LESSER_KNOWN[name](as_sent(in_order), spec.topics)
    except AssignorError:
        return None


def fitting(spec: GroupSpec) -> GroupSpec:
    """Return the group with a leader that may only be of a library that assigns as it did.

    Assignors without memory assign to the same members what they assigned before. So libraries are
    left out that assign otherwise, if another one that the leader may be of assigned just that. If
    none did that is imitated, and each partition has an owner, so that no topic has grown since,
    the leader is of another one, unless racks count.
    """
    leader = spec.leader
    if (
        spec.protocol != "classic"
        or spec.strategy not in ("range", "roundrobin", "RoundRobinAssigner")
        or spec.client is not None
        or leader is None
        or any(member.instance_id is not None for member in spec.members)
    ):
        return spec
    fitted = _fitting_leader(spec, leader)
    members = (fitted if member is leader else member for member in spec.members)
    return replace(spec, members=tuple(members))


def _fitting_leader(spec: GroupSpec, leader: MemberSpec) -> MemberSpec:
    certain = leader.certain_client
    may_be = leader.may_be if certain is None else {certain.name}
    owned = {member.member_id: [*(member.owned or ())] for member in spec.members}
    fits = {name for name in may_be or CLIENTS if _is_assigned_by(spec, name, owned)}
    has_racks = any(m.rack for m in spec.members) and any(t.racks for t in spec.topics.values())
    is_imitated = any(map(_versions_of, fits))
    if not is_imitated and _have_owners(spec) and not has_racks:
        return replace(leader, is_unlike=True)
    if certain is not None or leader.may_be is None or not is_imitated:
        return leader
    unfit = frozenset(
        each for name in fits for each in _versions_of(name) if not _assigns(spec, each, owned)
    )
    if fits == leader.may_be and not unfit:
        return leader
    client = leader.client if leader.client is not None and leader.client.name in fits else None
    if client is None and len(fits) == 1:
        client = _versions_of(next(iter(fits)))[0]
    if client in unfit:
        client = next(each for each in _versions_of(client.name) if each not in unfit)
    return replace(
        leader,
        client=client,
        may_be=frozenset(fits),
        unfit=unfit,
        is_client_inferred=client is not None,
    )


def _have_owners(spec: GroupSpec) -> bool:
    """Return whether each partition to whose topic a member subscribes has, or had, one owner."""
    owned = Counter(at for m in (*spec.members, *spec.departed) for at in m.owned or ())
    names = {name for member in spec.members for name in member.topics}
    return names <= spec.topics.keys() and owned == Counter(
        (name, number) for name in names for number in range(spec.topics[name].partitions)
    )


def _is_assigned_by(spec: GroupSpec, name: str, owned: Assignment) -> bool:
    """Return whether a leader of a library, in any version, may have assigned what members own."""
    if _versions_of(name):
        return any(_assigns(spec, client, owned) for client in _versions_of(name))
    if name == KAFKA_TS and any(t not in m.topics for m in spec.members for t, _ in m.owned or ()):
        return False
    if _is_known(spec, name):
        return _lesser_known(spec, name) == owned
    if (name, spec.strategy) == (KAFKA_NODE, "range"):
        return _shares(spec, newest("classic")) == _sets(owned)
    if (name, spec.strategy) == (RUBY_KAFKA, "roundrobin"):
        assigned = _lesser_known(spec, name)
        return assigned is not None and _topics_of(assigned) == _topics_of(owned)
    return True


def _assigns(spec: GroupSpec, client: Software, owned: Assignment) -> bool:
    has_strategy = spec.strategy in CLIENTS[client.name].strategies[client.version]
    return has_strategy and _shares(spec, client) == _sets(owned)


def _topics_of(assignment: Assignment) -> Mapping[str, Sequence[str]]:
    """Return the topic of each partition of each member, in order."""
    return {member_id: [topic for topic, _ in own] for member_id, own in assignment.items()}


def vote_warnings(spec: GroupSpec) -> Iterator[str]:
    """Yield warnings if members may vote for another assignor or strategy."""
    if spec.protocol == "consumer":
        yield from _open_assignor(spec)
    elif spec.protocol == "classic" and spec.has_votes is False:
        if spec.may_win is not None:
            yield from _open_vote(spec, spec.computed_as)
        else:
            yield from _usual_other(spec, spec.computed_as)


def _open_assignor(spec: GroupSpec) -> Iterator[str]:
    """Yield warnings if another assignor may assign in a consumer group.

    Source: `validateOnlineDowngradeWithFencedMembers` of Kafka 4.3.1.
    """
    stay = [member for member in spec.members if not member.unknown_id or member.owned]
    have_left = not all(member.is_classic for member in spec.departed)
    if have_left and stay and all(member.is_classic for member in stay):
        yield (
            "The actual assignment may be different: when the last member with the consumer "
            "protocol leaves, the group becomes a classic group, unless "
            "group.consumer.migration.policy forbids it. Then a member assigns, with a strategy "
            "that no coordinator reports."
        )
    if spec.has_votes:
        last = [m for m in spec.members if m.unknown_id and m.owned is None] or spec.members
        deciding = {member.assignor: member for member in last}.values()
        is_voted = spec.departed or spec.new_topics or spec.grown_topics or last != spec.members
        assignors = {assignor_of(spec.members, member) for member in deciding}
        if is_voted and assignors != {spec.strategy}:
            yield (
                f"The assignor may change from {spec.strategy}: another one has as many votes "
                "(group.remote.assignor), and the member that sends the next heartbeat decides. "
                "--strategy computes with another one."
            )
        return
    is_chosen = spec.has_votes is None  # by the user
    voters = (member for member in spec.members if member.unknown_id or not is_chosen)
    preferred = {member.assignor for member in voters if member.assignor is not None}
    if preferred and {*preferred, spec.strategy} != {PREFERENCE[0]}:
        yield (
            f"The assignor may change: new members prefer {' or '.join(sorted(preferred))}, and "
            "this source does not know the group.remote.assignor of others. Computed with "
            f"{spec.strategy}; --strategy computes with another one."
        )
    if not is_chosen and spec.have_left and spec.strategy != PREFERENCE[0]:
        yield (
            f"The assignor may change from {spec.strategy}: members vote on it again, and this "
            "source does not know their group.remote.assignor. --strategy computes with another "
            "one."
        )


def _usual_other(spec: GroupSpec, leads: Software) -> Iterator[str]:
    """Yield a warning if those that stay may all list, and prefer, another strategy by default."""
    here = {member.member_id for member in spec.members}
    # If all of them preferred the other one, those of such a generation would have chosen it.
    if not spec.have_left or any(here.issuperset(past.members) for past in spec.past_generations):
        return
    # What kafka-python may have sent, Java's sent before 2.4, when it had no cooperative-sticky.
    is_java = leads.name == KAFKA_CLIENTS and all(
        (
            KAFKA_CLIENTS in (member.may_be or (KAFKA_CLIENTS,))
            if member.client is None
            else member.client.name == KAFKA_CLIENTS
        )
        and KAFKA_PYTHON not in (member.may_be or ())
        for member in spec.members
    )
    other = None
    if is_java and spec.strategy == "range":
        other, why = "cooperative-sticky", "Java's do with cooperative-sticky"
    elif (leads.name, spec.strategy) == (LIBRDKAFKA, "roundrobin"):
        other, why = "range", "librdkafka's do with range"
    elif (
        spec.strategy == COOPERATIVE_STICKY
        and any(member.keeps is False for member in spec.members)
        and any(member.keeps is not False for member in spec.departed)
    ):
        other, why = "range", "Java's do with range"
    if other is not None and _shares(_switched(spec, other), leads) != _shares(spec, leads):
        yield (
            f"The strategy may change: if all remaining members also list another one, as {why} by "
            "default, they vote on it again, and no coordinator reports what they list. --strategy "
            "computes with another one."
        )


def _open_vote(spec: GroupSpec, leads: Software) -> Iterator[str]:
    """Yield a warning if the members may vote for several strategies, and it matters."""
    assert spec.may_win is not None
    now, known = _shares(spec, leads), strategies("classic", leads)
    if spec.may_be_refused:
        yield (
            "The strategy may change: the coordinator accepts the new members only if all others "
            f"list {' or '.join(spec.may_win)}, too, which no coordinator reports; else it refuses "
            f"them ({INCONSISTENT}), and nothing moves."
        )
    others = [
        name if name in known else f"{name}, which is not imitated,"
        for name in spec.may_win
        if name != spec.strategy
        and (name not in known or _shares(_switched(spec, name), leads) != now)
    ]
    if others:
        yield (
            f"The strategy may change: members vote on it again, and no coordinator reports what "
            f"they list. After earlier votes, {' or '.join(others)} may win in place of "
            f"{spec.strategy}. --strategy computes with another one."
        )


def _switched(spec: GroupSpec, strategy: str) -> GroupSpec:
    """Return the group with another strategy; what members owned with the present one is lost."""
    members = tuple(replace(member, keeps=False) for member in spec.members)
    return replace(spec, strategy=strategy, members=members)


def _with_each_leader(spec: GroupSpec) -> Iterator[GroupSpec]:
    """Yield the group with each possible leader, if the leader is unknown.

    Of members with the same topics only the first one is used, and at most `_LEADERS` in total.
    """
    if spec.protocol == "classic" and spec.leader is None:
        who = {member.topics: member.member_id for member in reversed(spec.members_as_sent)}
        for leader_id in islice(who.values(), _LEADERS):
            yield replace(spec, client=spec.computed_as, leader_id=leader_id)


def is_failure_open(spec: GroupSpec) -> bool:
    """Return whether a failure of the assumed leader depends on which member leads."""
    return any(_shares(led, led.computed_as) is not None for led in _with_each_leader(spec))


def able_leader(spec: GroupSpec) -> str | None:
    """Return the id of a member that would not fail as the leader; None if all tried ones would.

    Of members with the same library and topics, only the first one is tried.
    """
    kinds = {(spec.client_of(each), each.topics): each for each in reversed(spec.members_as_sent)}
    for member in islice(kinds.values(), _LEADERS):
        led = replace(spec, leader_id=member.member_id)
        leads = led.computed_as
        if spec.strategy in strategies("classic", leads) and _shares(led, leads) is not None:
            return member.member_id
    return None


def _shares(spec: GroupSpec, client: Software) -> Mapping[str, frozenset[TopicPartition]] | None:
    """Return the partitions of each member; None if the assignor fails."""
    try:
        assignment = assign(replace(spec, client=client))
    except AssignorError:
        return None
    return _sets(assignment)


def _sets(assignment: Assignment) -> Mapping[str, frozenset[TopicPartition]]:
    return {member_id: frozenset(owned) for member_id, owned in assignment.items()}
