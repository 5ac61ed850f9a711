"""What Kafka and a table have of a group, and what must hold before the one takes over."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from kgroup.errors import InputError
from kgroup.operation.plan.plan import Precondition, Verdict
from kgroup.operation.plan.running import RunningGroup
from kgroup.operation.report import first_names
from kgroup.source.base import OffsetTable
from kgroup.source.offset_change import At


@dataclass(frozen=True, slots=True)
class Stores:
    """What both stores have.

    Attributes:
        committed: in Kafka.
        stored: in the table.
        is_there: whether there is a table.
        fault: why it cannot be used; None where it can.
    """

    committed: Mapping[At, int]
    stored: Mapping[At, int]
    is_there: bool
    fault: str | None

    @property
    def behind(self) -> Mapping[At, int]:
        """By how much the table is behind Kafka, where both have something."""
        both = self.committed.keys() & self.stored.keys()
        return {at: self.committed[at] - self.stored[at] for at in sorted(both)}


def read_stores(running: RunningGroup, table: OffsetTable) -> Stores:
    """Read what a group has in both.

    Raises:
        BrokerError: the database does not answer.
    """
    group_id = running.group.group_id
    committed = {
        (each.topic, each.partition): each.committed_offset for each in running.group.offsets
    }
    try:
        is_there = table.has_table()
        reading = table.read_offsets([group_id])
    except InputError as error:
        return Stores(committed, {}, True, str(error))
    stored = {
        (each.topic, each.partition): each.committed_offset
        for each in reading.offsets.get(group_id, ())
    }
    fault = reading.problems[0].reason if reading.problems else None
    return Stores(committed, stored, is_there, fault)


def preconditions(
    running: RunningGroup, table: OffsetTable, stores: Stores, *, to_kafka: bool, rolling: bool
) -> tuple[Precondition, ...]:
    """Tell what must hold before a group's offsets go to the table, or back to Kafka."""
    known = stores.stored if to_kafka else stores.committed
    found = [
        running.rests,
        _usable(table, stores, to_kafka=to_kafka),
        _one_ahead(stores),
        _known(running, known, "the table" if to_kafka else "Kafka"),
    ]
    if not to_kafka or rolling:
        found.append(
            Precondition(
                "one-transaction",
                "The application stores results and offsets in one transaction of this database.",
                Verdict.UNKNOWN,
                None,
                "Look at its code: what it writes elsewhere counts twice when it crashes in "
                "between. docs/offsets.md shows it with kgroup's OffsetStore.",
            )
        )
        found.append(_fenced(table))
    return tuple(found)


def _usable(table: OffsetTable, stores: Stores, *, to_kafka: bool) -> Precondition:
    code, text = "table", "The table is there, with its columns and a unique key, and can be read."
    if stores.fault is not None:
        return Precondition(code, text, Verdict.REFUTED, stores.fault, "Mend it, and plan anew.")
    if stores.is_there:
        return Precondition(code, text, Verdict.VERIFIED, table.where)
    found = f"{table.where}: there is none"
    if to_kafka:
        check = "Say which one the application uses: --sql, --sql-table, --sql-column."
        return Precondition(code, text, Verdict.REFUTED, found, check)
    check = "Step 1 makes it: its user needs the right to create tables. Or make it beforehand."
    return Precondition(code, text, Verdict.UNKNOWN, found, check)


def _one_ahead(stores: Stores) -> Precondition:
    """See that one store decides: the one that is ahead wherever they differ."""
    code, text = "one-ahead", "One of the two stores is nowhere behind the other."
    behind = {at: count for at, count in stores.behind.items() if count > 0}
    ahead = {at: -count for at, count in stores.behind.items() if count < 0}
    if not (behind and ahead):
        which = "the table" if ahead else "Kafka" if behind else "neither"
        return Precondition(code, text, Verdict.VERIFIED, f"{which} is ahead")
    return Precondition(
        code,
        text,
        Verdict.REFUTED,
        f"Kafka is ahead in {_named(behind)}, the table in {_named(ahead)}",
        "Find out by which the members go. Delete rows that are left over from the table "
        "('kgroup offsets delete').",
    )


def _known(running: RunningGroup, known: Mapping[At, int], where: str) -> Precondition:
    code, text = "known-offsets", f"{where[0].upper()}{where[1:]} has an offset of each partition."
    assert running.scenario.start is not None
    owned = {at for each in running.scenario.start.members.values() for at in each.owned}
    if running.is_stopped:
        if known:
            return Precondition(code, text, Verdict.VERIFIED, f"{len(known)} partitions")
        check = "Members begin where auto.offset.reset says."
        return Precondition(code, text, Verdict.UNKNOWN, "it has none at all", check)
    missing = sorted(owned - known.keys())
    if not missing:
        return Precondition(code, text, Verdict.VERIFIED, f"{len(owned)} partitions")
    return Precondition(
        code,
        text,
        Verdict.UNKNOWN,
        f"none of {_named(missing)}",
        "See that nothing was read of them yet: they begin where auto.offset.reset says.",
    )


def _fenced(table: OffsetTable) -> Precondition:
    code, text = "fencing", "The table keeps out a member that has lost a partition."
    if table.fences:
        return Precondition(code, text, Verdict.VERIFIED, "it has a column for the generation")
    return Precondition(
        code,
        text,
        Verdict.UNKNOWN,
        "no column for the generation is named",
        "Name one (--sql-column generation=generation), or see that the application compares the "
        "offset that it overwrites: a member that was paused may count again what others have.",
    )


def reached(stores: Stores, *, to_kafka: bool) -> str | None:
    """Say that the group goes by the other store already: that one is ahead."""
    ahead = {at for at, count in stores.behind.items() if (count > 0 if to_kafka else count < 0)}
    if not ahead:
        return None
    one, other = ("Kafka", "the table") if to_kafka else ("the table", "Kafka")
    return (
        f"Nothing is to be done: {one} is ahead of {other} in {_named(sorted(ahead))}, so members "
        f"keep offsets there already. If it is left over, delete what {one} has first."
    )


def _named(partitions: Iterable[At]) -> str:
    return first_names([f"{topic}-{partition}" for topic, partition in partitions])
