"""A source of groups that are written down in a test."""

from collections.abc import Collection, Iterable, Mapping

from kgroup.model.group import Group
from kgroup.model.image import Image
from kgroup.model.problem import Problem
from kgroup.source.base import Capability, Reading


class FakeSource:
    """Implements `GroupSource`."""

    def __init__(
        self,
        *groups: Group,
        ends: Mapping[tuple[str, int], int] | None = None,
        problems: Iterable[Problem] = (),
        notes: Iterable[str] = (),
        partition_count: int | None = None,
        capabilities: Iterable[Capability] = Capability,
    ) -> None:
        self.capabilities = frozenset(capabilities)
        self._groups = {group.group_id: group for group in groups}
        self._ends = dict(ends or {})
        self._problems = tuple(problems)
        self._notes = tuple(notes)
        self._partition_count = partition_count

    def read(self, group_ids: Collection[str] | None = None) -> Reading:
        chosen = {
            group_id: self._groups[group_id]
            for group_id in sorted(self._groups)
            if group_ids is None or group_id in group_ids
        }
        image = Image(chosen, offsets_partition_count=self._partition_count)
        return Reading(image, self._problems, self._notes)

    def log_end_offsets(
        self, partitions: Collection[tuple[str, int]]
    ) -> Mapping[tuple[str, int], int]:
        return {at: self._ends[at] for at in partitions if at in self._ends}
