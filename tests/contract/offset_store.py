"""What every store that offsets can be written to promises, as tests to inherit.

See `kgroup.source.base.GroupSource.write_offsets`. A module that has the fixture `store` makes a
class of this one. The store has the topics "orders", with partitions 0 to 2, and "payments", with
0; of groups it may have some, none of which is called as those here.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from itertools import count

import pytest

from kgroup.errors import ProblemKind
from kgroup.model.offset import CommittedOffset, OffsetChange
from kgroup.source.base import GroupSource

LARGEST = 2**63 - 1
At = tuple[str, int]
_NUMBERS = count(1)


def changes_to(
    after: Mapping[At, int | None], before: Mapping[At, int] | None = None
) -> list[OffsetChange]:
    """Make changes of offsets alone; None is none."""
    return [
        OffsetChange(
            *at,
            CommittedOffset(*at, before[at]) if before and at in before else None,
            None if offset is None else CommittedOffset(*at, offset),
        )
        for at, offset in after.items()
    ]


def essence(offsets: Sequence[CommittedOffset]) -> dict[At, int]:
    """What was committed, without all that a store may add to it."""
    return {(offset.topic, offset.partition): offset.committed_offset for offset in offsets}


class OffsetStoreContract:
    """Tests of a store.

    Attributes:
        keeps_metadata: whether it keeps metadata, else it gives none;
        keeps_leader_epochs: whether it keeps leader epochs, likewise.
        removes_offsets: whether it can forget one partition of a group.
        deletes_groups: whether it can forget a whole one.
        refused_names: names of groups, among those that are tried, that it cannot have.
    """

    keeps_metadata = True
    keeps_leader_epochs = True
    removes_offsets = True
    deletes_groups = True
    refused_names: Collection[str] = ()

    @pytest.fixture
    def group_id(self) -> str:
        """Name a group that nobody has used."""
        return f"contract-{next(_NUMBERS)}"

    def test_can_be_written(self, store: GroupSource) -> None:
        assert store.can(GroupSource.write_offsets)
        assert store.keeps_metadata == self.keeps_metadata
        assert store.keeps_leader_epochs >= self.keeps_leader_epochs

    def test_reads_back_what_was_written(self, store: GroupSource, group_id: str) -> None:
        wanted = {("payments", 0): 0, ("orders", 2): 7, ("orders", 0): 1}
        assert store.write_offsets({group_id: changes_to(wanted)}) == ()
        reading = store.read_offsets([group_id])
        assert reading.problems == ()
        assert list(reading.offsets) == [group_id]
        offsets = reading.offsets[group_id]
        assert essence(offsets) == wanted
        assert list(essence(offsets)) == sorted(wanted), "sorted by topic and partition"

    def test_keeps_what_it_says_that_it_keeps(self, store: GroupSource, group_id: str) -> None:
        offset = CommittedOffset("orders", 0, 3, leader_epoch=2, metadata='späť, "x"\n\\\'')
        plain = CommittedOffset("orders", 1, 4)
        changes = [OffsetChange(o.topic, o.partition, None, o) for o in (offset, plain)]
        assert store.write_offsets({group_id: changes}) == ()
        first, second = store.read_offsets([group_id]).offsets[group_id]
        kept = offset.metadata if self.keeps_metadata else None
        assert first.metadata == kept
        epoch = 2 if self.keeps_leader_epochs else None
        assert first.leader_epoch == epoch
        assert not second.metadata
        assert second.leader_epoch is None

    def test_takes_the_smallest_and_the_largest_offset(
        self, store: GroupSource, group_id: str
    ) -> None:
        wanted = {("orders", 0): 0, ("orders", 1): LARGEST, ("orders", 2): LARGEST - 1}
        assert store.write_offsets({group_id: changes_to(wanted)}) == ()
        assert essence(store.read_offsets([group_id]).offsets[group_id]) == wanted

    @pytest.mark.parametrize(
        "name",
        ["Grüppe 群組", "𝄞", "a.b-c_d", "semi;colon,comma", "quote'\"", "%_*", "UPPER", "upper"],
    )
    def test_takes_any_name_of_a_group(self, store: GroupSource, group_id: str, name: str) -> None:
        is_refused = name in self.refused_names
        name = f"{group_id} {name}"
        if is_refused:
            (problem,) = store.write_offsets({name: changes_to({("orders", 0): 5})})
            assert (problem.kind, problem.group_id) == (ProblemKind.UNSUPPORTED, name)
            return
        assert store.write_offsets({name: changes_to({("orders", 0): 5})}) == ()
        reading = store.read_offsets([name])
        assert {key: essence(offsets) for key, offsets in reading.offsets.items()} == {
            name: {("orders", 0): 5}
        }
        assert name in store.read_offsets().offsets

    def test_unknown_groups_are_left_out(self, store: GroupSource, group_id: str) -> None:
        assert store.read_offsets([group_id]).offsets == {}
        assert store.read_offsets([]).offsets == {}

    def test_reads_the_groups_that_are_named_or_match(
        self, store: GroupSource, group_id: str
    ) -> None:
        names = [f"{group_id}-{letter}" for letter in "abc"]
        wanted = changes_to({("orders", 0): 1})
        assert store.write_offsets(dict.fromkeys(names, wanted)) == ()
        regex = re.compile(re.escape(names[0]))
        nothing = re.compile("nothing")
        assert list(store.read_offsets(regex=regex).offsets) == names[:1]
        assert list(store.read_offsets([names[2]], regex).offsets) == [names[0], names[2]]
        assert list(store.read_offsets([names[2]], nothing).offsets) == names[2:]
        assert store.read_offsets(regex=nothing).offsets == {}
        assert store.read_offsets(regex=re.compile(re.escape(group_id))).offsets == {}, "whole ids"
        assert set(names) <= store.read_offsets().offsets.keys()

    def test_no_changes(self, store: GroupSource, group_id: str) -> None:
        assert store.write_offsets({}) == ()
        assert store.write_offsets({group_id: []}) == ()
        assert store.read_offsets([group_id]).offsets == {}

    def test_changes_what_is_as_it_was(self, store: GroupSource, group_id: str) -> None:
        before = {("orders", 0): 1, ("orders", 1): 2, ("payments", 0): 3}
        store.write_offsets({group_id: changes_to(before)})
        after = {("orders", 0): 10, ("orders", 1): 0, ("orders", 2): 5}
        assert store.write_offsets({group_id: changes_to(after, before)}) == ()
        assert essence(store.read_offsets([group_id]).offsets[group_id]) == before | after

    def test_changes_what_was_read(self, store: GroupSource, group_id: str) -> None:
        """With all that a store tells of an offset."""
        store.write_offsets({group_id: changes_to({("orders", 0): 1})})
        (read,) = store.read_offsets([group_id]).offsets[group_id]
        change = OffsetChange("orders", 0, read, replace(read, committed_offset=2))
        assert store.write_offsets({group_id: [change]}) == ()
        assert essence(store.read_offsets([group_id]).offsets[group_id]) == {("orders", 0): 2}

    @pytest.mark.parametrize(
        "before",
        [
            {("orders", 0): 1, ("orders", 1): 3},
            {("orders", 0): 1},
            {("orders", 0): 1, ("orders", 1): 2, ("orders", 2): 3},
        ],
        ids=["another offset", "none was there", "one was there"],
    )
    def test_changes_nothing_of_a_group_that_others_have_changed(
        self, store: GroupSource, group_id: str, before: Mapping[At, int]
    ) -> None:
        there = {("orders", 0): 1, ("orders", 1): 2}
        other = f"{group_id}-other"
        store.write_offsets({group_id: changes_to(there)})
        wanted = {("orders", 0): 11, ("orders", 1): 12, ("orders", 2): 13}
        done: list[str] = []
        problems = store.write_offsets(
            {group_id: changes_to(wanted, before), other: changes_to(wanted)}, done.append
        )
        assert done == [other]
        assert [(problem.kind, problem.group_id) for problem in problems] == [
            (ProblemKind.CHANGED, group_id)
        ]
        assert problems[0].topic is None, "it is of the whole group"
        reading = store.read_offsets([group_id, other])
        assert essence(reading.offsets[group_id]) == there
        assert essence(reading.offsets[other]) == wanted, "and others are not kept waiting"

    def test_what_was_removed_meanwhile_is_a_change(
        self, store: GroupSource, group_id: str
    ) -> None:
        wanted = {("orders", 0): 2}
        (problem,) = store.write_offsets({group_id: changes_to(wanted, {("orders", 0): 1})})
        assert (problem.kind, problem.group_id) == (ProblemKind.CHANGED, group_id)
        assert store.read_offsets([group_id]).offsets == {}

    def test_metadata_that_others_have_changed(self, store: GroupSource, group_id: str) -> None:
        if not self.keeps_metadata:
            return
        there = CommittedOffset("orders", 0, 1, metadata="theirs")
        store.write_offsets({group_id: [OffsetChange("orders", 0, None, there)]})
        after = CommittedOffset("orders", 0, 2)
        mine = OffsetChange("orders", 0, replace(there, metadata="mine"), after)
        (problem,) = store.write_offsets({group_id: [mine]})
        assert problem.kind is ProblemKind.CHANGED
        (problem,) = store.write_offsets(
            {group_id: [replace(mine, before=replace(there, metadata=""))]}
        )
        assert problem.kind is ProblemKind.CHANGED
        assert store.write_offsets({group_id: [replace(mine, before=there)]}) == ()

    def test_removes_what_shall_not_be(self, store: GroupSource, group_id: str) -> None:
        before = {("orders", 0): 1, ("orders", 1): 2, ("payments", 0): 3}
        store.write_offsets({group_id: changes_to(before)})
        some = changes_to({("orders", 0): None, ("orders", 1): 5, ("payments", 0): None}, before)
        problems = store.write_offsets({group_id: some})
        found = essence(store.read_offsets([group_id]).offsets[group_id])
        if self.removes_offsets:
            assert problems == ()
            assert found == {("orders", 1): 5}
            rest = changes_to({("orders", 1): None}, found)
            assert store.write_offsets({group_id: rest}) == ()
            assert store.read_offsets([group_id]).offsets == {}
        else:
            assert {problem.kind for problem in problems} == {ProblemKind.UNSUPPORTED}
            assert found == before

    def test_removes_nothing_that_others_have_changed(
        self, store: GroupSource, group_id: str
    ) -> None:
        if not self.removes_offsets:
            return
        there = {("orders", 0): 1, ("orders", 1): 2}
        store.write_offsets({group_id: changes_to(there)})
        wanted = changes_to({("orders", 0): None}, {("orders", 0): 9})
        (problem,) = store.write_offsets({group_id: wanted})
        assert problem.kind is ProblemKind.CHANGED
        assert essence(store.read_offsets([group_id]).offsets[group_id]) == there

    def test_nothing_where_nothing_is_is_nothing(self, store: GroupSource, group_id: str) -> None:
        assert store.write_offsets({group_id: changes_to({("orders", 0): None})}) == ()
        assert store.read_offsets([group_id]).offsets == {}

    def test_writes_many_groups(self, store: GroupSource, group_id: str) -> None:
        wanted = {
            f"{group_id}-{number:03}": {("orders", 0): number, ("payments", 0): 2 * number}
            for number in range(250)
        }
        assert store.write_offsets({key: changes_to(each) for key, each in wanted.items()}) == ()
        offsets = store.read_offsets(regex=re.compile(rf"{group_id}-\d+")).offsets
        assert {key: essence(offsets) for key, offsets in offsets.items()} == wanted
        assert list(offsets) == sorted(wanted)

    def test_deletes_groups(self, store: GroupSource, group_id: str) -> None:
        assert store.can(GroupSource.delete_groups) >= self.deletes_groups
        if not self.deletes_groups:
            return
        names = [f"{group_id}-{letter}" for letter in "abc"]
        store.write_offsets(
            dict.fromkeys(names, changes_to({("orders", 0): 1, ("payments", 0): 2}))
        )
        assert store.delete_groups([]) == ()
        done: list[str] = []
        (problem,) = store.delete_groups([names[0], "nobody", names[2]], done.append)
        assert sorted(done) == [names[0], names[2]]
        assert (problem.kind, problem.group_id) == (ProblemKind.NOT_FOUND, "nobody")
        assert list(store.read_offsets(names).offsets) == [names[1]]
        again = changes_to({("orders", 0): 7})
        assert store.write_offsets({names[0]: again}) == (), "a group can come again"
        assert essence(store.read_offsets(names[:1]).offsets[names[0]]) == {("orders", 0): 7}
