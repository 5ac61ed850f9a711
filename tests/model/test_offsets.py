"""Offsets: plain commits, transactions, tombstones."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from kgroup.model.group import GroupState, GroupType
from kgroup.model.record import DecodedRecord
from tests.model.records import (
    NOW_MS,
    TOPIC_ID,
    classic,
    commit,
    commit_tombstone,
    groups,
    marker,
    record,
    replay,
)


def committed(*records: DecodedRecord) -> dict[int, int]:
    """Committed offsets of group g by partition."""
    found = groups(*records)
    return {o.partition: o.committed_offset for o in found["g"].offsets} if "g" in found else {}


def pending(*records: DecodedRecord) -> list[tuple[int, int | None, int | None]]:
    return [
        (o.partition, o.committed_offset, o.producer_id)
        for o in groups(*records)["g"].pending_offsets
    ]


def test_newest_commit_counts() -> None:
    assert committed(commit("g", 0, 5), commit("g", 1, 7), commit("g", 0, 3)) == {0: 3, 1: 7}


def test_tombstone_removes_its_partition_only() -> None:
    assert committed(commit("g", 0, 5), commit("g", 1, 7), commit_tombstone("g", 0)) == {1: 7}


def test_group_without_any_offset_left_is_gone() -> None:
    assert groups(commit("g", 0, 5), commit_tombstone("g", 0)) == {}
    assert groups(commit_tombstone("never", 0)) == {}


def test_commit_after_tombstone_counts() -> None:
    assert committed(commit("g", 0, 5), commit_tombstone("g", 0), commit("g", 0, 1)) == {0: 1}


def test_legacy_key_is_the_same_commit() -> None:
    old = commit("g", 0, 5)
    legacy = record(
        "LegacyOffsetCommit", old.key and old.key["data"], old.value and old.value["data"]
    )
    assert committed(legacy) == {0: 5}


def test_group_with_offsets_only_is_simple() -> None:
    group = groups(commit("g", 0, 5))["g"]
    assert (group.type, group.state, group.protocol_type) == (
        GroupType.CLASSIC,
        GroupState.EMPTY,
        None,
    )
    assert (group.generation_id, group.members, group.offsets_partition) == (None, (), 0)


def test_fields_of_a_commit() -> None:
    (offset,) = groups(
        commit(
            "g",
            0,
            5,
            leaderEpoch=2,
            metadata="text",
            expireTimestamp=NOW_MS + 1,
            topicId=TOPIC_ID,
            offset=77,
        )
    )["g"].offsets
    assert offset.leader_epoch == 2
    assert offset.metadata == "text"
    assert offset.commit_timestamp_ms == NOW_MS
    assert offset.expire_timestamp_ms == NOW_MS + 1
    assert offset.topic_id == TOPIC_ID
    assert offset.log_offset == 77


def test_what_a_commit_does_not_tell_is_unknown() -> None:
    (offset,) = groups(commit("g", 0, 5, expireTimestamp=-1, topicId="AAAAAAAAAAAAAAAAAAAAAA"))[
        "g"
    ].offsets
    assert (offset.leader_epoch, offset.expire_timestamp_ms, offset.topic_id) == (None, None, None)


def test_nothing_expires_while_loading() -> None:
    assert committed(commit("g", 0, 5, commitTimestamp=0, expireTimestamp=1)) == {0: 5}


def test_transaction_waits_for_its_marker() -> None:
    inside = (commit("g", 0, 5), commit("g", 0, 9, producer_id=1), commit("g", 1, 4, producer_id=1))
    assert committed(*inside) == {0: 5}
    assert pending(*inside) == [(0, 9, 1), (1, 4, 1)]
    assert committed(*inside, marker(1, committed=True)) == {0: 9, 1: 4}
    assert pending(*inside, marker(1, committed=True)) == []
    assert committed(*inside, marker(1, committed=False)) == {0: 5}
    assert pending(*inside, marker(1, committed=False)) == []


def test_committed_transaction_has_every_field_of_its_commit() -> None:
    fields: dict[str, Any] = {
        "leaderEpoch": 2,
        "metadata": "text",
        "topicId": TOPIC_ID,
        "offset": 77,
    }
    plain = groups(commit("g", 0, 5, **fields))["g"].offsets
    inside = commit("g", 0, 5, producer_id=1, **fields)
    assert groups(inside, marker(1, committed=True))["g"].offsets == plain
    assert replay(inside).topic_names == {TOPIC_ID: "orders"}


def test_marker_ends_only_its_producers_transaction() -> None:
    records = (commit("g", 0, 5, producer_id=1), commit("g", 0, 6, producer_id=2))
    assert committed(*records, marker(2, committed=True)) == {0: 6}
    assert pending(*records, marker(2, committed=True)) == [(0, 5, 1)]


def test_older_transactional_commit_does_not_overwrite_a_newer_plain_one() -> None:
    assert committed(
        commit("g", 0, 5, producer_id=1), commit("g", 0, 8), marker(1, committed=True)
    ) == {0: 8}


def test_a_plain_commit_at_the_log_s_first_offset_is_older_than_a_transaction_s() -> None:
    assert committed(
        commit("g", 0, 5, offset=0),
        commit("g", 0, 8, producer_id=1, offset=1),
        marker(1, committed=True, offset=2),
    ) == {0: 8}


def test_tombstone_removes_what_open_transactions_committed() -> None:
    records = (
        commit("g", 0, 5, producer_id=1),
        commit("g", 1, 6, producer_id=1),
        commit_tombstone("g", 0),
    )
    assert committed(*records, marker(1, committed=True)) == {1: 6}


def test_second_transaction_of_a_producer_starts_empty() -> None:
    assert committed(
        commit("g", 0, 5, producer_id=1),
        marker(1, committed=False),
        commit("g", 1, 6, producer_id=1),
        marker(1, committed=True),
    ) == {1: 6}


def test_marker_without_a_transaction_changes_nothing() -> None:
    assert committed(commit("g", 0, 5), marker(9, committed=True)) == {0: 5}


def test_marker_counts_whatever_its_value_says() -> None:
    end = marker(1, committed=True)
    damaged = replace(end, value={"version": 9, "data": None, "raw": ""})
    assert committed(commit("g", 0, 5, producer_id=1), damaged) == {0: 5}


def test_group_that_only_an_open_transaction_knows() -> None:
    group = groups(commit("g", 0, 5, producer_id=1))["g"]
    assert (group.state, group.offsets) == (GroupState.EMPTY, ())
    assert len(group.pending_offsets) == 1


def test_group_tombstone_leaves_offsets() -> None:
    group = groups(commit("g", 0, 5), classic("g"), record("GroupMetadata", {"group": "g"}, None))[
        "g"
    ]
    assert [o.committed_offset for o in group.offsets] == [5]
    assert group.protocol_type is None


def test_topic_names_are_learnt_from_commits() -> None:
    assert replay(commit("g", 0, 5, topicId=TOPIC_ID)).topic_names == {TOPIC_ID: "orders"}


producers = st.sampled_from([1, 2])
partitions = st.sampled_from([0, 1])
step = st.one_of(
    st.tuples(st.just("commit"), partitions, st.none()),
    st.tuples(st.just("commit"), partitions, producers),
    st.tuples(st.just("tombstone"), partitions, st.none()),
    st.tuples(st.sampled_from(["ControlCommit", "ControlAbort"]), st.none(), producers),
)


@given(st.lists(step, max_size=30))
def test_transactions_against_their_definition(
    steps: list[tuple[str, int | None, int | None]],
) -> None:
    """A partition has the newest commit after its last tombstone that is plain or was committed.

    A commit is its own record's offset here. One in a transaction was committed if the next marker
    of its producer says so, and was not removed by a tombstone before that marker, which the last
    tombstone covers.
    """
    records = []
    for offset, (what, partition, producer_id) in enumerate(steps):
        if what == "commit":
            assert partition is not None
            records.append(commit("g", partition, offset, offset=offset, producer_id=producer_id))
        elif what == "tombstone":
            assert partition is not None
            records.append(commit_tombstone("g", partition, offset=offset))
        else:
            assert producer_id is not None
            records.append(marker(producer_id, committed=what == "ControlCommit", offset=offset))

    def is_committed(offset: int, producer_id: int | None) -> bool:
        ends = (w for w, _, p in steps[offset:] if w.startswith("Control") and p == producer_id)
        return producer_id is None or next(ends, None) == "ControlCommit"

    expected = {}
    for wanted in (0, 1):
        of_partition = [(i, *s) for i, s in enumerate(steps) if s[1] == wanted]
        last = max((i for i, what, _, _ in of_partition if what == "tombstone"), default=-1)
        commits = [
            i
            for i, what, _, producer_id in of_partition
            if what == "commit" and i > last and is_committed(i, producer_id)
        ]
        if commits:
            expected[wanted] = max(commits)
    assert committed(*records) == expected


def test_a_negative_number_is_no_offset() -> None:
    """A broker stores it; OffsetFetch gives it to clients as if nothing was committed."""
    (group,) = groups(commit("g", 0, 5), commit("g", 1, 7), commit("g", 1, -1)).values()
    assert [(o.partition, o.committed_offset) for o in group.offsets] == [(0, 5)]
    assert group.empty_commits == (("orders", 1),)
    assert group.partitions == {("orders", 0), ("orders", 1)}
    later = groups(commit("g", 1, -1), commit("g", 1, 7))["g"]
    assert ([o.committed_offset for o in later.offsets], later.empty_commits) == ([7], ())
    of_transaction = commit("g", 1, -1, producer_id=1)
    assert pending(commit("g", 1, 7), of_transaction) == [(1, None, 1)]
    plain, of_transaction = commit("g", 1, 7), commit("g", 1, -1, producer_id=1)
    ended = groups(plain, of_transaction, marker(1, committed=True))["g"]
    assert (ended.offsets, ended.empty_commits) == ((), (("orders", 1),))
