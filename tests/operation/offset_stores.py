"""A store of offsets in memory, beside a cluster that knows topics, records and groups."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

from kgroup.errors import ProblemKind
from kgroup.model.cluster import ClusterView, Partition, Placement, Topic
from kgroup.model.group import Group, GroupState, GroupType, Member
from kgroup.model.log_range import LogRange, LogReading, NextReading, NextRecord, Position
from kgroup.model.offset import CommittedOffset, OffsetChange, StoreName
from kgroup.model.pattern import Pattern
from kgroup.model.problem import Problem
from kgroup.source.base import GroupSource, OffsetReading
from tests.operation.sources import FakeSource

At = tuple[str, int]


def commits(offsets: Mapping[At, int]) -> tuple[CommittedOffset, ...]:
    """Give commits, sorted."""
    return tuple(CommittedOffset(*at, offset) for at, offset in sorted(offsets.items()))


class Store(GroupSource):
    """A store of offsets, in memory.

    Attributes:
        offsets: by group.
        written: groups that were written, in order.
        deleted: likewise.
        refuses: problems that are given in the place of writing.
    """

    store_name = StoreName("the cluster b", "c")
    keeps_metadata = True
    keeps_leader_epochs = True

    def __init__(self, offsets: Mapping[str, Mapping[At, int]]) -> None:
        self.offsets = {group_id: commits(each) for group_id, each in offsets.items()}
        self.written: list[str] = []
        self.deleted: list[str] = []
        self.refuses: tuple[Problem, ...] = ()

    def read_offsets(
        self, group_ids: Collection[str] | None = None, regex: Pattern | None = None
    ) -> OffsetReading:
        def wanted(group_id: str) -> bool:
            if group_ids is None and regex is None:
                return True
            return group_id in (group_ids or ()) or bool(regex and regex.fullmatch(group_id))

        return OffsetReading(
            {offset: self.offsets[offset] for offset in sorted(self.offsets) if wanted(offset)}
        )

    def write_offsets(
        self,
        changes: Mapping[str, Sequence[OffsetChange]],
        on_done: Callable[[str], object] = lambda group_id: None,
    ) -> tuple[Problem, ...]:
        refused = {refuse.group_id for refuse in self.refuses if refuse.topic is None}
        for group_id, of_group in changes.items():
            if group_id in refused:
                continue
            self.written.append(group_id)
            now = {
                (offset.topic, offset.partition): offset
                for offset in self.offsets.get(group_id, ())
            }
            for change in of_group:
                assert now.get((change.topic, change.partition)) == change.before
                now.pop((change.topic, change.partition), None)
                if change.after is not None:
                    now[change.topic, change.partition] = change.after
            self.offsets[group_id] = tuple(now[at] for at in sorted(now))
        return self.refuses

    def delete_groups(
        self, group_ids: Collection[str], on_done: Callable[[str], object] = lambda group_id: None
    ) -> tuple[Problem, ...]:
        self.deleted += group_ids
        return self.refuses


class Cluster(FakeSource, Store):
    """Implements all that a live cluster does, as far as offsets are concerned.

    Args:
        offsets: by group.
        ranges: of all partitions that there are.
        members: how many each group has; 0 by default.
        times: the offset of the first record of a time or later, by partition and time; None where
            there is none.
    """

    def __init__(
        self,
        offsets: Mapping[str, Mapping[At, int]],
        ranges: Mapping[At, LogRange],
        members: Mapping[str, int] = {},
        times: Mapping[tuple[str, int, int], int | None] = {},
    ) -> None:
        Store.__init__(self, offsets)
        groups = (_group(each, members.get(each, 0)) for each in {**offsets, **members})
        FakeSource.__init__(self, *groups, ranges=ranges)
        self._times = times

    def placements(
        self, keys: Collection[str], *, transactional: bool = False
    ) -> Mapping[str, Placement]:
        return {}

    def view(self, topics: Collection[str]) -> ClusterView:
        partitions: dict[str, dict[int, Partition]] = {}
        for topic, partition in self.ranges:
            if topic in topics:
                partitions.setdefault(topic, {})[partition] = Partition(1, (1,), (1,))
        return ClusterView("c", 1, {}, {n: Topic(n, None, each) for n, each in partitions.items()})

    def offsets_at(self, partitions: Collection[At], time_ms: int) -> LogReading:
        ranges, problems = {}, []
        for at in partitions:
            if (*at, time_ms) in self._times:
                ranges[at] = LogRange(self._times[*at, time_ms])
            else:
                text = f"{at[0]}-{at[1]}: its log tells no times."
                problems.append(Problem(ProblemKind.UNSUPPORTED, text))
        return LogReading(ranges, tuple(problems))

    def log_sizes(self, partitions: Collection[At]) -> Mapping[At, int]:
        return {at: 1_000 * (1 + at[1]) for at in partitions}

    def next_records(
        self, positions: Collection[Position], *, committed: bool = False
    ) -> NextReading:
        return NextReading({at: NextRecord(at[2], 1000 * at[2]) for at in positions})


def _group(group_id: str, members: int) -> Group:
    state = GroupState.STABLE if members else GroupState.EMPTY
    return Group(
        group_id,
        GroupType.CLASSIC,
        state,
        members=tuple(Member(f"m-{n}", None, "c", "/h") for n in range(members)),
    )
