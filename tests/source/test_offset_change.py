"""What is still to be done of planned changes, and how it is told."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from kgroup.errors import ProblemKind
from kgroup.model.offset import CommittedOffset, OffsetChange
from kgroup.source.offset_change import conflict, remaining, unwritten
from tests.contract.offset_store import changes_to

FIRST, SECOND = ("orders", 0), ("orders", 1)


def offset(number: int, epoch: int | None = None, metadata: str | None = None) -> CommittedOffset:
    return CommittedOffset(*FIRST, number, epoch, metadata, commit_timestamp_ms=number)


@pytest.mark.parametrize(
    ("before", "now", "text"),
    [
        (None, None, None),
        (offset(1), offset(1), None),
        (offset(1, None, ""), offset(1), None),  # a store may tell no metadata by either
        (offset(1, 2, "a"), offset(1), "expected metadata 'a', found ''"),
        (offset(1), offset(1, 2), "expected leader epoch none, found 2"),
        (offset(1, 2), offset(1), "expected leader epoch 2, found none"),
        (
            offset(1),
            replace(offset(1), commit_timestamp_ms=2),
            "expected a commit of 1970-01-01T00:00:00.001Z, found 1970-01-01T00:00:00.002Z",
        ),
        (offset(1), replace(offset(1), commit_timestamp_ms=None), None),  # not told then
        (offset(1), offset(2), "expected offset 1, found offset 2"),
        (None, offset(2), "expected no offset, found offset 2"),
        (offset(1), None, "expected offset 1, found no offset"),
        (offset(1, 2), offset(1, 3), "expected leader epoch 2, found 3"),
        (offset(1, 2, "a"), offset(1, 2, ""), "expected metadata 'a', found ''"),
    ],
)
def test_conflict(
    before: CommittedOffset | None, now: CommittedOffset | None, text: str | None
) -> None:
    change = OffsetChange(*FIRST, before, offset(9))
    expected = None if text is None else f"orders-0: {text}"
    assert change.conflict(now) == expected
    reason = conflict([change], {} if now is None else {FIRST: now})
    assert (reason is None) == (text is None)
    assert reason is None or reason.endswith(f": {expected}.")


def test_of_many_conflicts_one_is_told_and_the_rest_counted() -> None:
    changes = changes_to({FIRST: 5, SECOND: 5}, {FIRST: 1, SECOND: 2})
    reason = conflict(changes, {})
    assert reason is not None
    assert reason.endswith("orders-0: expected offset 1, found no offset (and 1 more).")


@pytest.mark.parametrize(
    ("after", "now", "is_done"),
    [
        (None, None, True),
        (None, offset(1), False),
        (offset(1), None, False),
        (offset(1), offset(2), False),
        (offset(1, 5, None), offset(1, None, ""), True),  # old versions keep no epoch
        (offset(1, None, "a"), offset(1, None, ""), False),
        (offset(1, 5), offset(1, 4), False),
        (offset(1), offset(1, 4, "a"), True),  # what is not said may be anything
    ],
)
def test_what_is_done_is_not_to_be_done(
    after: CommittedOffset | None, now: CommittedOffset | None, is_done: bool
) -> None:
    change = OffsetChange(*FIRST, None, after)
    rest = remaining([change], {} if now is None else {FIRST: now})
    assert rest == ([] if is_done else [change])


def test_a_part_is_told_by_partition() -> None:
    changes = changes_to({FIRST: 5, SECOND: 5})
    (problem,) = unwritten(ProblemKind.CHANGED, "So.", "g", changes, changes)
    assert (problem.group_id, problem.topic) == ("g", None)
    (problem,) = unwritten(ProblemKind.CHANGED, "So.", "g", changes[1:], changes)
    assert (problem.topic, problem.partition, problem.reason) == (*SECOND, "So.")
