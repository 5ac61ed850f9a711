"""Whose assignor is imitated: of which library the leader of a classic group is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cache
from itertools import islice

from kgroup.assignor.base import AssignorError, TopicPartition
from kgroup.assignor.group_spec import CLIENTS, GroupSpec, newest, versions
from kgroup.assignor.member_spec import MemberSpec, Software
from kgroup.assignor.strategy import assign, is_determined
from kgroup.errors import near_names
from kgroup.model.client_library import KAFKA_CLIENTS, always_told
from kgroup.operation.report import first_names

_OTHER_NAMES = {"java": KAFKA_CLIENTS, "confluent-kafka": "librdkafka", "kgo": "franz-go"}
"""confluent-kafka of Python, Go and .NET is librdkafka, whose version numbers it follows."""
_LEADERS = 6
"""How many are tried where it is not known who leads."""


def software(text: str) -> Software:
    """Read the name of a library, and its version behind an @; without one, the newest known.

    Upper and lower case are the same in names.

    Raises:
        ValueError: no such library or version is imitated; the message goes on after "expected".
    """
    asked, at, version = text.partition("@")
    name = _OTHER_NAMES.get(asked.lower(), asked.lower())
    library = CLIENTS.get(name)
    if library is None:
        meant = near_names(name, (*CLIENTS, *_OTHER_NAMES))
        raise ValueError(f"one of {', '.join(CLIENTS)}, found {asked!r}{meant}")
    if not at:
        return Software(name, library.versions[0])
    try:
        known = library.version_of(version)
    except ValueError:
        raise ValueError(
            f"a version behind the @ like {library.versions[0]}, found {version!r}"
        ) from None
    if known is None:
        raise ValueError(f"{name} {library.earliest} or later, which is imitated, found {version}")
    return Software(name, known)


def later_note(text: str) -> str | None:
    """Say that a library's version is later than all known; None where what is read is not."""
    client, version = software(text), text.partition("@")[2]
    if not version or not CLIENTS[client.name].is_later(version):
        return None
    return f"{client.name} {version} is later than what was compared; it is taken for {client}"


def asked_software(
    protocol: str, kafka_version: str | None, client: Software | None
) -> Software | None:
    """Return what is to be imitated of a group of a protocol; None: nothing is asked for.

    Args:
        protocol: of the group.
        kafka_version: of Kafka's own software.
        client: another library, of the members of classic groups; not with a version of Kafka.

    Raises:
        ValueError: such a group has nothing of that; the message says what it has.
    """
    if client is not None and protocol != "classic":
        raise ValueError(
            f"{protocol} groups are not assigned by a client library, but by "
            f"{newest(protocol).name}; leave out --client"
        )
    if kafka_version is None:
        return client
    if kafka_version not in versions(protocol):
        raise ValueError(
            f"{protocol} groups are not imitated as in Kafka {kafka_version}, but as in "
            f"{' or '.join(versions(protocol))}; leave out --kafka-version"
        )
    return newest(protocol)._replace(version=kafka_version)


@cache
def ruled_out(strategy: str | None, goes_on: bool) -> frozenset[str]:
    """Give the libraries of which a member is not, if bytes and client id do not tell which it is.

    Args:
        strategy: of the group.
        goes_on: whether the subscription has anything behind the user data.
    """
    found = set(always_told(strategy))
    for name, library in CLIENTS.items():
        written = {
            library.as_sent([MemberSpec("", ())], strategy, version)[0].goes_on
            for version, known in library.strategies.items()
            if strategy is not None and strategy in known
        }
        if written and goes_on not in written:
            found.add(name)
    return frozenset(found)


def chance_warnings(spec: GroupSpec) -> Iterator[str]:
    """Say where chance, or what is not known, decides what the leader's library answers."""
    leads = spec.computed_as
    if not is_determined(spec):
        yield (
            "The group may get another assignment than this one: what is known of it does not "
            f"determine what {leads.name} answers here, as {_cause(spec, leads)} (docs/assign.md, "
            f"{leads.name})."
        )
    if _depends_on_racks(spec, leads):
        name, by_rack = leads.name, CLIENTS[leads.name].version_by_rack
        yield (
            "The group may get another assignment than this one: racks count where the leader is "
            f"of {name} {by_rack}, or of a later version with an option that nothing tells "
            f"(docs/assign.md, {name}). --client {name}@{by_rack} computes with them."
        )
    rackless = _without_leader_rack(spec, leads)
    if rackless:
        yield (
            f"{spec.strategy} of {leads.name} goes by racks, and no rack is known of the leaders "
            f"of {first_names(rackless)}: these count as in none. leader_racks in a spec gives "
            "them."
        )


def _cause(spec: GroupSpec, leads: Software) -> str:
    """Say why an assignment is not determined: what would have to be known, or that chance decides.

    That is found out by taking it for known.
    """
    topics = {
        name: replace(metadata, is_listing_known=True) for name, metadata in spec.topics.items()
    }
    listed = replace(spec, topics=topics)
    is_new = topics != spec.topics
    if is_new and is_determined(listed):
        return "it is not known how brokers will list new partitions"
    if CLIENTS[leads.name].is_same_without is not None:
        members = tuple(replace(member, unknown_id=False) for member in spec.members)
        informed = replace(spec, members=members, departed=())
        if informed != spec and is_determined(informed):
            return "a leader that has not led so far may not know all topics at first"
    for known, also in (spec, ""), (listed, ", nor how brokers will list new partitions"):
        led = list(_with_each_leader(known))
        if len(led) > 1 and (known is spec or is_new) and all(map(_is_determined_or_fails, led)):
            return f"it is not known who leads (--leader ID tells){also}"
    return "chance may decide"


def _is_determined_or_fails(spec: GroupSpec) -> bool:
    """Return whether it is certain what comes out: an assignment, or that there is none."""
    try:
        return is_determined(spec)
    except AssignorError:
        return True


def _without_leader_rack(spec: GroupSpec, leads: Software) -> list[str]:
    """Name the partitions of whose leaders no rack is known, where the group goes by that."""
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
    """Return whether racks would make a difference if the leader's library went by them."""
    library = CLIENTS.get(leads.name)
    if library is None or library.version_by_rack is None or leads.version != library.versions[0]:
        return False
    if not any(member.rack for member in spec.members):
        return False
    by_rack = Software(library.name, library.version_by_rack)
    without = replace(spec, members=tuple(replace(member, rack=None) for member in spec.members))
    return _shares(spec, by_rack) != _shares(without, by_rack)


def leader_warnings(spec: GroupSpec) -> Iterator[str]:
    """Say how sure it is that the library of a group's leader is imitated, and who else is there.

    Where a library was asked for, it is only said if the leader is of another one.
    """
    if spec.protocol != "classic":
        return
    leads = spec.computed_as
    leader = spec.leader
    if spec.client is not None:
        own = None if leader is None or leader.is_client_inferred else leader.client
        # nothing that members send tells a version: then it is the newest that stands there
        if own and own not in (leads, Software(leads.name, CLIENTS[leads.name].versions[0])):
            of = own if own.name == leads.name else own.name
            yield f"The leader is of {of}; computed as {leads} all the same, as was asked for."
        return
    is_known = True
    if leader is not None and leader.client is not None:
        if leader.is_client_inferred:
            yield (
                f"The leader is probably a client of {leads.name}, as its client id is the default "
                f"one there; {_consequence(spec, leads)}"
            )
    elif spec.leader_client is None:
        clients = {member.client for member in spec.members}
        if None in clients or len(clients) > 1 or any(m.is_client_inferred for m in spec.members):
            is_known = False
            yield (
                f"It is not known of which client library the leader is. Computed as {leads}; "
                f"{_consequence(spec, leads)}"
            )
    if spec.not_imitated:
        yield (
            f"There are members of {', '.join(spec.not_imitated)}, which is not imitated: where "
            "one of them leads, the group may get another assignment."
        )
    libraries = {member.client.name for member in spec.members if member.client is not None}
    others = sorted(libraries - {leads.name})
    if others:
        who = f" too; the leader, of {leads.name}," if is_known else "; only the leader"
        yield f"There are members of {', '.join(others)}{who} assigns."


def _with_each_leader(spec: GroupSpec) -> Iterator[GroupSpec]:
    """Yield a group with each leader that it may have, where none is known.

    Of members that name the same topics only the first is taken, and `_LEADERS` at most.
    """
    if spec.protocol == "classic" and spec.leader is None:
        who = {each.topics: each.member_id for each in reversed(spec.members_as_sent)}
        for leader_id in islice(who.values(), _LEADERS):
            yield replace(spec, client=spec.computed_as, leader_id=leader_id)


def is_failure_open(spec: GroupSpec) -> bool:
    """Tell of a group whose leader is taken to fail whether it depends on who leads."""
    return any(_shares(led, led.computed_as) is not None for led in _with_each_leader(spec))


def _consequence(spec: GroupSpec, leads: Software) -> str:
    """Say which libraries would assign otherwise."""
    as_computed = _shares(spec, leads)
    others = [
        name
        for name, library in CLIENTS.items()
        if name != leads.name
        and (spec.leader is None or name not in spec.leader.not_of)
        and spec.strategy in library.strategies[library.versions[0]]
        and _shares(spec, Software(name, library.versions[0])) != as_computed
    ]
    if not others:
        return "no other library that is known would assign otherwise."
    return f"{' and '.join(others)} would assign otherwise. --client LIBRARY chooses one."


def _shares(spec: GroupSpec, client: Software) -> Mapping[str, frozenset[TopicPartition]] | None:
    """Give who would get what; None where nobody gets anything, because it fails."""
    try:
        assignment = assign(replace(spec, client=client))
    except AssignorError:
        return None
    return {member_id: frozenset(owned) for member_id, owned in assignment.items()}
