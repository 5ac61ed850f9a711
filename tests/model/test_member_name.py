from __future__ import annotations

import pytest

from kgroup.errors import NotFoundError, UsageError
from kgroup.model.group import Member
from kgroup.model.member_name import MemberName, called, find_member, first_members

GROUP = (
    MemberName("web-1-8f3c", None, "web-1", "/10.0.0.1"),
    MemberName("web-10-4a1d", None, "web-10", "/10.0.0.2"),
    MemberName("pod-3-77aa", "pod-3", "batch", "/10.0.0.3", ("batch@10.0.0.3",)),
    MemberName("pod-4-90bb", "pod-4", "batch", "/10.0.0.4", ("batch@10.0.0.4",)),
    MemberName("NGZCqz7FTvK", None, "modern", "/10.0.0.4"),
    MemberName("web-1", None, "named like a client", None),
    MemberName("g_vm-1-1700-aa", None, None, "vm-1", ("vm-1-1700-aa",)),
    MemberName("g_vm-10-1700-bb", None, None, "vm-10", ("vm-10-1700-bb",)),
)
"""Members of all kinds: classic ones, static ones, one of the consumer protocol, of ZooKeeper."""


@pytest.mark.parametrize(
    ("text", "places"),
    [
        ("web-1-8f3c", [0]),
        ("web-1", [5]),  # a member id comes first
        ("web-10", [1]),
        ("web-1-", [0]),
        ("web-1-9", []),
        ("web", [5]),  # of the others the client ids begin so
        ("vm", []),
        ("web-10-4", [1]),
        ("pod-3", [2]),
        ("pod-3-7", [2]),
        ("pod", []),
        ("batch", [2, 3]),
        ("batch@10.0.0.4", [3]),
        ("10.0.0.1", [0]),
        ("/10.0.0.1", [0]),
        ("10.0.0.4", [3, 4]),
        ("NGZ", [4]),
        ("vm-1", [6]),
        ("g_vm-1", []),
        ("g_vm-1-17", [6]),
        ("vm-10-1700-bb", [7]),
        ("", []),
        ("nobody", []),
    ],
)
def test_who_is_called(text: str, places: list[int]) -> None:
    assert called(text, GROUP) == [GROUP[place] for place in places]


def test_an_ambiguous_name_lists_the_candidates() -> None:
    with pytest.raises(UsageError) as raised:
        find_member("10.0.0.4", GROUP, "group g")
    assert str(raised.value) == (
        "group g: '10.0.0.4' means 2 members; name one by its member id: "
        "batch at 10.0.0.4 (pod-4-90bb), modern at 10.0.0.4 (NGZCqz7FTvK)"
    )
    assert raised.value.exit_status == 2


def test_an_unknown_name_suggests() -> None:
    with pytest.raises(NotFoundError, match="group g has no member 'modrn'; did you mean 'modern'"):
        find_member("modrn", GROUP, "group g")
    with pytest.raises(NotFoundError, match="has no member 'x'; it has: web-1 at 10"):
        find_member("x", GROUP, "group g")
    with pytest.raises(NotFoundError, match="2 begin with it: batch at"):
        find_member("pod", GROUP, "group g")
    with pytest.raises(NotFoundError, match="1 begins with it: web-1"):
        find_member("web-", GROUP[:1], "group g")
    with pytest.raises(NotFoundError, match="has no member 'x'; it has: none"):
        find_member("x", (), "group g")


def test_ten_members_are_listed() -> None:
    members = [Member(f"m-{at}", None, f"c-{at}", "/h") for at in range(12)]
    assert first_members(members[:2]) == "c-0 at h, c-1 at h"
    assert first_members(members).endswith(", c-9 at h and 2 more")
    assert first_members([Member("m")]) == "m"
