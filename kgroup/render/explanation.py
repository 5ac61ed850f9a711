"""What the words and numbers on the page of a group mean, for `kgroup describe --explain`."""

from __future__ import annotations

from collections.abc import Iterator

from kgroup.assignor.client_facts import FACTS, ON_ERROR
from kgroup.meaning import meanings
from kgroup.model.group import Group, GroupState, GroupType, MemberState
from kgroup.operation.describe import GroupDescription, OffsetDescription

_ONLY_LOGGED = (
    "known only from __consumer_offsets: from a log directory, or from a cluster as far back as "
    "--log-budget says."
)


def terms(description: GroupDescription) -> Iterator[tuple[str, str]]:
    """Yield the terms on the page of a group, each with its meaning."""
    group = description.group
    yield group.type.value, group.type.sentence
    if group.state is None:
        yield "state unknown", "The source does not know the state of the group, nor its members."
    else:
        yield group.state.value, group.state.sentence_of(group.type)
    yield from _progress(group)
    yield from _lag(description)
    yield from _members(group)
    for mark in dict.fromkeys(offset.mark for offset in description.offsets):
        if mark is not None:
            yield mark.value, mark.sentence


def _progress(group: Group) -> Iterator[tuple[str, str]]:
    """Yield what generations and epochs mean."""
    if group.generation_id is not None:
        yield (
            "generation",
            "Number of the last completed rebalance; each one adds 1. Its age is the time since "
            "all members had joined, or since the last member left.",
        )
    elif group.type is GroupType.CLASSIC and group.members:
        yield "generation unknown", f"Generation and leader are {_ONLY_LOGGED}"
    if group.last_stable is not None:
        yield (
            "last complete generation",
            "The generation before the rebalance in progress: what each member had in it is under "
            "'had', and members that have not rejoined are 'gone'.",
        )
    if group.group_epoch is not None:
        yield (
            "epoch",
            "The coordinator adds 1 when members or topics change, and computes a target "
            "assignment for the new epoch; each member reaches it (member_epoch) when it has "
            "revoked what it must.",
        )


def _lag(description: GroupDescription) -> Iterator[tuple[str, str]]:
    """Yield what the lag is and is not, and why it or its age is unknown."""
    shared, offsets = description.share_offsets or (), description.offsets
    if shared:
        yield "lag", "Number of records that the group has not finished (KIP-1226, Kafka 4.2)."
        yield "finished", "Number of records from the offset on that are already finished."
    elif any(offset.lag is not None for offset in offsets):
        yield (
            "lag",
            "Log end offset minus committed offset, as Kafka's tools compute it. What a consumer "
            "has read but not committed is part of it. Fewer records wait where the log start has "
            "passed the commit, and where offsets belong to transaction markers or to records that "
            "compaction removed.",
        )
    if description.max_time_lag_ms is not None:
        yield "behind", "Age of the next record to read; the largest is in the first line."
    committed = [offset for offset in offsets if offset.committed_offset is not None]
    if any(_has_no_end(offset) for offset in committed):
        yield "lag unknown", "The source does not have the log end offset of these partitions."
    if len(committed) < len(offsets):
        yield (
            "nothing committed",
            "A consumer that starts there follows auto.offset.reset; a consumer that has started "
            "commits once it has read something.",
        )
    is_timed = description.group.type is not GroupType.ZOOKEEPER
    if is_timed and any(offset.commit_timestamp_ms is None for offset in committed):
        yield "committed", f"Times of commits are {_ONLY_LOGGED}"
    for store in dict.fromkeys(offset.committed_in for offset in offsets):
        if store is not None:
            yield f"store {store}", store.sentence
    if description.group.pending_offsets:
        yield "pending", "Offset in an open transaction; it takes effect when that commits."


def _has_no_end(offset: OffsetDescription) -> bool:
    return offset.lag is None and offset.mark is None


def _members(group: Group) -> Iterator[tuple[str, str]]:
    """Yield what the states, owners and tasks of members mean."""
    if group.leader_id is not None and group.members:
        yield "leader", "The member that computes the assignment for all."
    states = dict.fromkeys(member.state for member in group.members)
    if states.keys() - {None, MemberState.STABLE}:
        yield from ((f"{state} (member)", state.sentence) for state in states if state is not None)
    if group.state in (GroupState.PREPARING_REBALANCE, GroupState.COMPLETING_REBALANCE):
        yield "owner", "Unknown until the rebalance is complete."
    if any(member.tasks is not None for member in group.members):
        kinds = meanings("kgroup.model.group.TaskAssignment")
        yield from ((kind, f"{text[0].upper()}{text[1:]}.") for kind, text in kinds.items())
    for library in dict.fromkeys(member.client_library for member in group.members):
        if library is not None and library in ON_ERROR:
            is_static = any(
                member.client_library == library and member.instance_id is not None
                for member in group.members
            )
            yield library, " ".join(_reactions(library, is_static=is_static))


def _reactions(library: str, *, is_static: bool) -> Iterator[str]:
    """Yield what a member of a client library does when it is removed, fenced or late."""
    errors = ON_ERROR[library]
    yield f"After the coordinator has removed a member, {errors.removed}."
    if is_static and errors.fenced is not None:
        yield f"After another process has joined with its instance id, {errors.fenced}."
    if (facts := FACTS.get(library)) is None:
        return
    if facts.leaves_if_late:
        yield f"It leaves when {facts.poll_setting} has passed since the last poll."
    else:
        yield f"It stays however late it polls; {facts.poll_setting} limits rebalances only."
