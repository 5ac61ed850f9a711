import pytest

from kgroup.model.group import Group, GroupState, GroupType, Member, Membership
from kgroup.operation.describe import GroupDescription, describe
from kgroup.render.group.description import SECTIONS, description_text
from tests.operation.sources import FakeSource

RECORDED_MS = 1_700_000_000_004


def page(group: GroupDescription, now_ms: int) -> list[str]:
    text = description_text(group, SECTIONS, "table", now_ms=now_ms, headers=True, terminal=False)
    return "".join(text).splitlines()


@pytest.mark.parametrize(
    ("protocol_type", "assignor", "shown"),
    [
        ("consumer", "range", ["consumer, assignor range"]),
        ("share", None, ["share"]),
        (None, "range", ["assignor range"]),
        (None, None, []),
    ],
)
def test_an_assignor_that_is_not_known_is_not_told(
    protocol_type: str | None, assignor: str | None, shown: list[str]
) -> None:
    group = Group(
        "g", GroupType.CLASSIC, GroupState.EMPTY, protocol_type=protocol_type, assignor=assignor
    )
    (row,) = describe(FakeSource(group)).data
    facts = [line.split(maxsplit=1) for line in page(row, 0) if line]
    assert [text for name, text in facts if name == "protocol"] == shown


def rebalancing(before: Membership | None) -> GroupDescription:
    group = Group(
        "g",
        GroupType.CLASSIC,
        GroupState.PREPARING_REBALANCE,
        members=(Member("new"),),
        last_stable=before,
    )
    (row,) = describe(FakeSource(group)).data
    return row


def test_the_last_stable_membership_has_its_age_and_its_members() -> None:
    before = Membership(7, "old-1", "range", RECORDED_MS, (Member("old-1"), Member("old-2")))
    lines = page(rebalancing(before), RECORDED_MS + 200_500)
    (fact,) = [line for line in lines if line.startswith("last stable")]
    assert fact.split(maxsplit=2)[2] == (
        "generation 7, recorded 3 min 20 s ago, at 2023-11-14T22:13:20.004Z: 2 members, "
        "assignor range, leader old-1"
    )
    at = lines.index("Members of generation 7, the last one")
    assert lines[at + 1 : at + 4] == ["member_id", "old-1", "old-2"]
    assert lines.index("new") < at


def test_what_is_not_known_of_it_is_not_told() -> None:
    lines = page(rebalancing(Membership(None, None, None, None, ())), RECORDED_MS)
    (fact,) = [line for line in lines if line.startswith("last stable")]
    assert fact.endswith("generation unknown, recorded at an unknown time: no members")
    assert not [line for line in lines if line.startswith("Members of")]
    assert not [line for line in page(rebalancing(None), 0) if line.startswith("last stable")]
