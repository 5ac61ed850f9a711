"""Plan to have in one store what another one has: copies, imports, and the undoing of a change."""

from collections.abc import Collection, Iterable
from dataclasses import replace

from msgspec import structs

from kgroup.errors import ProblemKind
from kgroup.model.log_range import LogReading
from kgroup.model.offset import StoreName
from kgroup.model.pattern import Pattern
from kgroup.model.problem import Problem
from kgroup.operation.offsets.choice import EVERY, Topics, is_chosen, not_committed
from kgroup.operation.offsets.plan import OffsetPlan, Target, active_groups, make_plan
from kgroup.operation.offsets.read import AnyStore, read_stored, unread
from kgroup.source.base import GroupSource, OffsetReading, WritableOffsetStore
from kgroup.source.offset_change import At

__all__ = ["plan_transfer"]


def plan_transfer(
    origin: AnyStore,
    store: AnyStore,
    cluster: GroupSource | None,
    group_ids: Collection[str] = (),
    regex: Pattern | None = None,
    *,
    new_id: str | None = None,
    topics: Topics = EVERY,
    leader_epochs: bool = True,
) -> OffsetPlan:
    """Plan to write what groups of these ids, or whose whole id matches, or all have elsewhere.

    What only the store has stays, but for partitions for which a backup says that nothing was
    committed. Offsets out of a partition's range are marked and nothing else: what was there before
    a change, wherever that was, comes back by its backup.

    Args:
        origin: where offsets come from.
        store: where they go to.
        cluster: knows where partitions begin and end there; None: nobody does.
        group_ids: names.
        regex: matches whole group ids.
        new_id: what the only group that is named shall be called in the store.
        topics: only these partitions.
        leader_epochs: whether epochs of leaders go with the offsets; in another cluster they would
            be wrong.

    Raises:
        InputError: there is nothing to read.
        BrokerError: nobody answers.
    """
    reading = read_stored(origin, group_ids, regex)
    found = reading.offsets or reading.absent or reading.problems
    nothing = () if found else (Problem(ProblemKind.NOT_FOUND, "There is no offset to take."),)
    # What a store has no place for, it would never be found to have.
    unkept: dict[str, None] = {} if leader_epochs else {"leader_epoch": None}
    if isinstance(store, WritableOffsetStore):
        unkept |= {} if store.keeps_metadata else {"metadata": None}
        unkept |= {} if store.keeps_leader_epochs else {"leader_epoch": None}
    targets: dict[str, dict[At, Target]] = {}
    for group_id, offsets in reading.offsets.items():
        of_group = targets.setdefault(new_id or group_id, {})
        for each in offsets:
            at = each.topic, each.partition
            if is_chosen(at, topics):
                of_group[at] = Target(structs.replace(each, **unkept) if unkept else each)
    for group_id, ats in reading.absent.items():
        of_group = targets.setdefault(new_id or group_id, {})
        of_group.update({at: Target(None) for at in ats if is_chosen(at, topics)})
    there = _there(store, targets)
    for group_id in unread(there, targets):
        del targets[group_id]
    every = {at for of_group in targets.values() for at in of_group}
    logs = cluster.log_ranges(every) if cluster is not None and every else LogReading({})
    return make_plan(
        there.offsets,
        targets,
        logs=logs.ranges,
        problems=(
            *active_groups(store, [each for each, of_group in targets.items() if of_group]),
            *reading.problems,
            *nothing,
            *not_committed(targets, topics, group_ids),
            *there.problems,
            *logs.problems,
        ),
        notes=(*reading.notes, *there.notes, *_other_store(reading.saved_from, store)),
    )


def _other_store(saved_from: StoreName | None, store: AnyStore) -> Iterable[str]:
    """Tell that a file was saved from another store than the one that it goes to."""
    if saved_from is None or not isinstance(store, WritableOffsetStore):
        return
    name = store.store_name
    if saved_from.is_other(name):
        yield (
            f"what is read was saved from {saved_from}, and this is {name}; in another cluster "
            "these offsets are other records, and epochs of leaders mean nothing (--without-epochs)"
        )


def _there(store: AnyStore, group_ids: Collection[str]) -> OffsetReading:
    """Read what the store has; that it has nothing of a group is no problem."""
    if not group_ids:
        return OffsetReading({})
    reading = read_stored(store, group_ids)
    problems = tuple(each for each in reading.problems if each.kind is not ProblemKind.NOT_FOUND)
    return replace(reading, problems=problems)
