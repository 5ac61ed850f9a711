"""What every source of groups promises (`kgroup.source.base.GroupSource`), as tests to inherit.

A module that has the fixture `source` makes a class of this one. What a source cannot know it
leaves out of its capabilities, and must then leave unknown.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict

import pytest

from kgroup.model.group import Group, GroupState, GroupType
from kgroup.operation.describe import describe
from kgroup.operation.list_groups import list_groups
from kgroup.operation.offsets.read import read_stored
from kgroup.source.base import Capability, GroupSource
from tests.contract.knowledge import known_of

_IN_FLIGHT = (GroupState.PREPARING_REBALANCE, GroupState.COMPLETING_REBALANCE)


class GroupSourceContract:
    """Tests of a source that has groups of every type, and the topic "orders".

    Attributes:
        types: those that a source of this kind can have.
    """

    types = frozenset(GroupType) - {GroupType.ZOOKEEPER}

    @pytest.fixture
    def groups(self, source: GroupSource) -> Mapping[str, Group]:
        return source.read().image.groups

    def test_has_groups_of_every_type(self, groups: Mapping[str, Group]) -> None:
        """Else the rest would prove little."""
        assert {group.type for group in groups.values()} == self.types

    def test_reads_the_same_twice(self, source: GroupSource) -> None:
        assert source.read() == source.read()

    def test_groups_are_under_their_ids_and_sorted(self, groups: Mapping[str, Group]) -> None:
        assert list(groups) == sorted(groups)
        assert all(group_id == group.group_id for group_id, group in groups.items())

    def test_reads_the_groups_asked_for(
        self, source: GroupSource, groups: Mapping[str, Group]
    ) -> None:
        for group_id, group in groups.items():
            assert dict(source.read([group_id]).image.groups) == {group_id: group}
        assert source.read(["no such group", "neither"]).image.groups == {}
        assert source.read([]).image.groups == {}

    def test_everything_in_a_group_is_sorted_and_once(self, groups: Mapping[str, Group]) -> None:
        for group in groups.values():
            ids = [member.member_id for member in group.members]
            assert ids == sorted(set(ids))
            committed = [(offset.topic, offset.partition) for offset in group.offsets]
            assert committed == sorted(set(committed))
            pending = [(offset.topic, offset.partition) for offset in group.pending_offsets]
            assert pending == sorted(pending)
            shared = [offset.sort_key for offset in group.share_offsets or ()]
            assert shared == sorted(set(shared))
            for member in group.members:
                for partitions in (
                    member.assignment,
                    member.target_assignment,
                    member.pending_revocation,
                ):
                    keys = [partition.sort_key for partition in partitions or ()]
                    assert sorted(keys) == sorted(set(keys))
                for tasks in (member.tasks, member.target_tasks):
                    for each in (tasks.active, tasks.standby, tasks.warmup) if tasks else ():
                        assert list(each) == sorted(set(each))

    def test_unknown_is_none(self, groups: Mapping[str, Group]) -> None:
        for group in groups.values():
            for number in (
                group.generation_id,
                group.group_epoch,
                group.assignment_epoch,
                group.state_timestamp_ms,
                group.offsets_partition,
            ):
                assert number is None or number >= 0
            for text in (group.protocol_type, group.assignor, group.leader_id):
                assert text is None or text
            for offset in group.offsets:
                for number in (
                    offset.leader_epoch,
                    offset.commit_timestamp_ms,
                    offset.expire_timestamp_ms,
                ):
                    assert number is None or number >= 0
            for shared in group.share_offsets or ():
                for number in (
                    shared.start_offset,
                    shared.leader_epoch,
                    shared.state_epoch,
                    shared.delivery_complete_count,
                ):
                    assert number is None or number >= 0
            for member in group.members:
                for number in (member.session_timeout_ms, member.rebalance_timeout_ms):
                    assert number is None or number > 0

    def test_each_type_has_its_own_fields_and_no_others(self, groups: Mapping[str, Group]) -> None:
        for group in groups.values():
            is_classic = group.type is GroupType.CLASSIC
            is_zookeeper = group.type is GroupType.ZOOKEEPER
            assert (group.group_epoch is None) == (is_classic or is_zookeeper)
            assert is_classic or group.generation_id is None
            assert is_zookeeper or not (group.unowned or group.stray_owners)
            assert is_classic or group.leader_id is None
            assert (group.topology is not None) == (group.type is GroupType.STREAMS)
            assert (group.share_offsets is not None) == (group.type is GroupType.SHARE)
            for member in group.members:
                assert (member.member_epoch is None) == (is_classic or is_zookeeper)
                assert (member.registered_ms is not None) == is_zookeeper
                assert (member.tasks is not None) == (group.type is GroupType.STREAMS)

    def test_a_negative_number_is_no_offset(
        self, source: GroupSource, groups: Mapping[str, Group]
    ) -> None:
        """Brokers store what is committed; for clients anything below 0 stands for no offset."""
        empty = {
            (group.group_id, *at): group for group in groups.values() for at in group.empty_commits
        }
        assert list(empty) == sorted(set(empty))
        assert all(o.committed_offset >= 0 for group in groups.values() for o in group.offsets)
        rows = {
            (group.group.group_id, row.topic, row.partition): row
            for group in describe(source).data
            for row in group.offsets
        }
        stored = read_stored(source)
        for group_id, topic, partition in empty:
            row = rows[group_id, topic, partition]
            assert (row.committed_offset, row.lag, row.waiting) == (None, None, None)
            assert row.mark == "no-offset"
            assert f"{group_id}: 1 partition left out ({topic}-{partition}): " in "".join(
                stored.notes
            )
        exported = {
            (group_id, o.topic, o.partition) for group_id, of in stored.offsets.items() for o in of
        }
        assert exported.isdisjoint(empty)

    def test_states_follow_from_members(self, groups: Mapping[str, Group]) -> None:
        for group in groups.values():
            if group.state is GroupState.EMPTY:
                assert not group.members
            if group.state is GroupState.STABLE:
                assert group.members

    def test_capabilities(self, source: GroupSource, groups: Mapping[str, Group]) -> None:
        """What a source says it knows is known of some group, what it does not say of none."""
        ranges = source.log_ranges({("orders", 0), ("no such topic", 0)}).ranges
        classic = [g for g in groups.values() if g.type is GroupType.CLASSIC and g.members]
        known = {
            Capability.GENERATION: any(
                g.generation_id is not None
                and g.leader_id
                and g.state_timestamp_ms is not None
                and g.members[0].session_timeout_ms is not None
                for g in classic
            ),
            Capability.PENDING_OFFSETS: any(g.pending_offsets for g in groups.values()),
            Capability.COMMIT_TIMESTAMPS: any(
                o.commit_timestamp_ms is not None for g in groups.values() for o in g.offsets
            ),
            Capability.COORDINATOR: any(g.coordinator is not None for g in groups.values()),
            Capability.LOG_END_OFFSETS: {at for at in ranges if ranges[at].end is not None}
            == {("orders", 0)},
            Capability.LOG_START_OFFSETS: {at for at in ranges if ranges[at].start is not None}
            == {("orders", 0)},
            Capability.REBALANCE_IN_FLIGHT: any(g.state in _IN_FLIGHT for g in groups.values()),
            Capability.RECORDS: any(
                o.log_offset is not None for g in groups.values() for o in g.offsets
            )
            and any(member.state is not None for g in groups.values() for member in g.members),
            Capability.SHARE_START_OFFSETS: any(
                o.start_offset is not None for g in groups.values() for o in g.share_offsets or ()
            ),
        }
        for capability, is_known in known.items():
            assert is_known == (capability in source.capabilities), capability

    def test_list_and_describe_agree(
        self, source: GroupSource, groups: Mapping[str, Group]
    ) -> None:
        listed, described = list_groups(source), describe(source)
        assert [row.group_id for row in listed.data] == list(groups)
        for row, description in zip(listed.data, described.data, strict=True):
            assert row.member_count == len(description.group.members)
            for name in (
                "group_id",
                "type",
                "state",
                "protocol_type",
                "assignor",
                "offsets_partition",
            ):
                assert getattr(row, name) == getattr(description.group, name)
            assert {offset.topic for offset in description.offsets if offset.topic} <= set(
                row.topics or ()
            )

    def test_what_it_does_not_know_is_left_out(
        self, source: GroupSource, groups: Mapping[str, Group]
    ) -> None:
        for group in groups.values():
            assert asdict(known_of(group, source.capabilities)) == asdict(group)
