"""Whether a client can join a group: brokers answer clients as foretold."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any

from kgroup.assignor.group_spec import GroupSpec
from kgroup.errors import UsageError
from kgroup.operation.assign.group import read_group
from kgroup.operation.assign.what_if import AddedMembers, Changes, changed
from kgroup.operation.client_join import ClientJoin, client_join
from kgroup.source.broker.source import LiveCluster
from tests.broker.client.member import LibraryMember
from tests.broker.servers import Broker
from tests.examples import examples
from tests.record.raw import RawMember, consumer_protocol
from tests.record.wire import Wire
from tests.waiting import until


@contextmanager
def member(
    library: str, server: Broker, group: str, strategy: str, log: Path, **more: Any
) -> Iterator[LibraryMember]:
    made = LibraryMember(library, server.bootstrap, group, ["orders"], strategy, log, **more)
    try:
        yield made
    finally:
        made.stop()  # else the broker, which others use too, would write records about it later


def asked(server: Broker, group: str, client: str) -> ClientJoin:
    with LiveCluster(server.bootstrap, of_silence=True) as source:
        (join,) = client_join(source, group, client).data
    return join


def test_a_client_joins_or_is_refused_as_foretold(orders_broker: Broker, tmp_path: Path) -> None:
    """Librdkafka is in the group; kafka-python comes."""
    group = "may-join"
    with member(
        "librdkafka", orders_broker, group, "cooperative-sticky", tmp_path / "first.log"
    ) as first:
        until(lambda: first.owned is not None and len(first.owned) == 3)
        refused = asked(orders_broker, group, "kafka-python:range")
        assert (refused.can_join, refused.answer) == (False, "INCONSISTENT_GROUP_PROTOCOL")
        log = tmp_path / "refused.log"
        with member("kafka-python", orders_broker, group, "range", log) as second:
            until(lambda: "InconsistentGroupProtocol" in log.read_text())
            assert not second.owned
        allowed = asked(orders_broker, group, "kafka-python:cooperative-sticky")
        assert (allowed.can_join, allowed.answer) == (True, None)
        assert allowed.then is not None
        assignment = allowed.then.plans[-1].assignment
        assert assignment is not None
        with member(
            "kafka-python", orders_broker, group, "cooperative-sticky", tmp_path / "second.log"
        ) as second:
            until(lambda: bool(first.owned and second.owned and len(first.owned) < 3))
            foretold = {name: {*owned} for name, owned in assignment.items()}
            assert len(foretold.pop("new-1")) == len(second.owned or ())
            (kept,) = foretold.values()
            assert kept == set(first.owned or ())


def test_a_group_of_consumers_and_one_of_the_consumer_protocol(
    orders_broker: Broker, tmp_path: Path
) -> None:
    """The policy is bidirectional, by default since 4.0."""
    group, logs = "may-upgrade", [tmp_path / f"{number}.log" for number in range(3)]
    with (
        member("kafka-python", orders_broker, group, "range", logs[0]) as first,
        member("librdkafka", orders_broker, group, "range", logs[1]) as second,
    ):
        until(lambda: sorted(len(each.owned or ()) for each in (first, second)) == [1, 2])
        join = asked(orders_broker, group, "java:consumer")
        assert (join.can_join, join.answer) == (True, None)
        assert any("becomes a consumer group" in text for text in join.consequences)
        assert join.then is not None
        assert join.then.last.protocol == "consumer"
        assert [*map(len, (join.then.last.assignment or {}).values())] == [1, 1, 1]
        with member("librdkafka", orders_broker, group, "consumer", logs[2]) as third:
            members = (first, second, third)
            until(lambda: [len(each.owned or ()) for each in members] == [1, 1, 1])


_ASSIGNORS = ("range", "roundrobin", "sticky", "cooperative-sticky")
_REFUSED = 23
"""INCONSISTENT_GROUP_PROTOCOL."""


class _Voters:
    """Members of a group that list any strategies, on a connection each."""

    def __init__(self, server: Broker, group: str) -> None:
        self._server, self._group = server, group
        self._members: dict[RawMember, tuple[str, ...]] = {}

    def join(self, names: tuple[str, ...]) -> str | None:
        """Return the strategy after a member with this list has come; None if it is refused."""
        new = RawMember(self._server.version, self._server.bootstrap, f"v{len(self._members)}")
        given = new.wire.call("JoinGroup", **self._fields(new, names))
        if given["error_code"] == _REFUSED:
            new.close()
            return None
        new.member_id = given["member_id"]
        new.wire.send("JoinGroup", **self._fields(new, names))
        if self._members:  # who joins again while the group is stable, has nothing to wait for
            until(self._is_rebalancing, every_s=0.02)
        for member, own in self._members.items():
            member.wire.send("JoinGroup", **self._fields(member, own))
        self._members[new] = names
        answers = {member: member.wire.receive() for member in self._members}
        (leader,) = (m for m, each in answers.items() if each["leader"] == m.member_id)
        for member in (leader, *(m for m in self._members if m is not leader)):
            nothing = consumer_protocol([])
            synced = member.wire.call(
                "SyncGroup",
                group_id=self._group,
                generation_id=answers[member]["generation_id"],
                member_id=member.member_id,
                protocol_type="consumer",
                protocol_name=answers[member]["protocol_name"],
                assignments=[
                    {"member_id": each.member_id, "assignment": nothing} for each in self._members
                ]
                if member is leader
                else [],
            )
            assert not synced["error_code"]
        return str(answers[leader]["protocol_name"])

    def close(self) -> None:
        for member in self._members:
            member.wire.call(
                "LeaveGroup",
                group_id=self._group,
                members=[{"member_id": member.member_id, "group_instance_id": None}],
            )
            member.close()

    def _is_rebalancing(self) -> bool:
        with Wire(self._server.version, self._server.bootstrap) as wire:
            (described,) = wire.call("DescribeGroups", groups=[self._group])["groups"]
        return bool(described["group_state"] == "PreparingRebalance")

    def _fields(self, member: RawMember, names: tuple[str, ...]) -> dict[str, Any]:
        return {
            "group_id": self._group,
            "session_timeout_ms": 60_000,
            "rebalance_timeout_ms": 60_000,
            "protocol_type": "consumer",
            "protocols": [{"name": n, "metadata": consumer_protocol(["orders"])} for n in names],
            "group_instance_id": None,
            "member_id": member.member_id,
        }


def test_the_vote_counts_what_new_members_list(orders_broker: Broker) -> None:
    """The coordinator refuses the member, or chooses one of the strategies that are named."""
    ends: Counter[str] = Counter()
    for seed in range(examples(12)):
        random = Random(seed)
        voters = _Voters(orders_broker, f"voters-{seed}")
        known = random.sample(_ASSIGNORS, random.randint(2, 3))
        try:
            voters.join(tuple(random.sample(known, random.randint(1, len(known)))))
            for _ in range(4):
                names = tuple(random.sample(known, random.randint(1, len(known))))
                foretold = _with(orders_broker, f"voters-{seed}", names)
                chosen = voters.join(names)
                if isinstance(foretold, str):
                    assert "INCONSISTENT_GROUP_PROTOCOL" in foretold
                    assert chosen is None
                    ends["refused"] += 1
                elif chosen is None:
                    assert foretold.may_be_refused
                else:
                    assert foretold.may_win is not None
                    assert chosen in foretold.may_win
                    ends["right"] += chosen == foretold.strategy
                    ends["sure"] += foretold.may_win == (chosen,) and not foretold.may_be_refused
        finally:
            voters.close()
    assert ends["right"] > 2 * ends["sure"] / 3 > 4, ends


def _with(server: Broker, group: str, names: tuple[str, ...]) -> GroupSpec | str:
    """Return the group with a member that lists strategies, or why it cannot be."""
    with LiveCluster(server.bootstrap, of_silence=True) as source:
        (before,) = read_group(source, group, generations=True).data
    try:
        return changed(before, Changes(add=[AddedMembers(strategies=names, library="java")]))
    except UsageError as error:
        return str(error)
