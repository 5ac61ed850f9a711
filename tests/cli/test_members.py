"""`kgroup members remove` on a cluster that keeps what it was told."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from kgroup.model.group import Group, GroupType, Member
from kgroup.model.problem import Problem
from tests.cli.command_line import Cli
from tests.operation.offset_stores import Cluster


class Live(Cluster):
    """A cluster with a group "g" of two members.

    Attributes:
        told: ids of members that were to be removed.
        renewed: how often the timeout was started again.
    """

    def __init__(self) -> None:
        super().__init__({}, {}, members={"g": 2})
        self.told: list[str] = []
        self.renewed = 0

    def renew(self, *, after_failure: bool = False) -> None:
        self.renewed += 1

    def __call__(self, bootstrap: list[str], **options: object) -> Live:
        return self

    def __enter__(self) -> Live:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def remove_members(
        self, group_id: str, members: Mapping[str, str | None], reason: str | None = None
    ) -> Mapping[str, Problem]:
        self.told += members
        return {}


@pytest.fixture
def live(monkeypatch: pytest.MonkeyPatch) -> Live:
    cluster = Live()
    monkeypatch.setattr("kgroup.source.broker.source.LiveCluster", cluster)
    return cluster


LINE = ["members", "remove", "-b", "h:1", "g", "--all"]


def test_a_member_without_its_option(cli: Cli) -> None:
    result = cli("members", "remove", "order-service", "order-service-1", "--sample")
    assert result.status == 2
    assert "argument (order-service-1). Name members with --member order-service-1\n" in result.err


def test_a_plan_removes_nobody_and_names_the_cluster(cli: Cli, live: Live) -> None:
    planned = cli(*LINE)
    assert planned.status == 0
    assert planned.err == (
        "kgroup: note: nothing was changed in the cluster b (id c); --execute carries out "
        "the plan\n"
    )
    assert live.told == []


def test_a_wrong_column_is_told_before_anybody_is_removed(cli: Cli, live: Live) -> None:
    wrong = cli(*LINE, "--execute", "--columns", "member_id,nosuch")
    assert (wrong.status, "no column nosuch" in wrong.err) == (2, True)
    assert live.told == []
    cli(*LINE, "--execute", "--columns", "member_id")
    assert len(live.told) == 2
    assert live.renewed == 1, "the question may have waited for longer than brokers are waited for"


def test_a_name_that_is_not_an_id_is_told_before_anybody_is_removed(cli: Cli, live: Live) -> None:
    line = ["members", "remove", "-b", "h:1", "g", "--execute", "--yes", "--member"]
    both = cli(*line, "m-0", "--member", "c")
    assert "'c' means 2 members; name one by its member id: c at h (m-0)" in both.err
    assert (both.status, live.told) == (2, [])
    live.replace(Group("g", GroupType.CLASSIC, None, members=(Member("m-0", None, "c", "/h"),)))
    one = cli(*line, "c")
    assert one.err.startswith("kgroup: note: c is c at h (m-0)\n")
    assert live.told == ["m-0"]
