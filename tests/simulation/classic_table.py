"""A coordinator of one classic group, and how to ask it; ids follow from the clients'."""

from __future__ import annotations

from typing import Any

from kgroup.model.group import GroupState
from kgroup.protocol.error_code import ErrorCode
from kgroup.simulation.message import (
    CommitAnswer,
    CommittedPartition,
    DescribeAnswer,
    DescribeGroup,
    FetchAnswer,
    Heartbeat,
    HeartbeatAnswer,
    JoinAnswer,
    JoinGroup,
    OffsetCommit,
    OffsetFetch,
    Protocol,
    Request,
    SyncAnswer,
    SyncGroup,
)
from kgroup.simulation.rules import BrokerSettings, Version
from tests.simulation.world import GROUP, Sim

OLD: Version = (1, 1, 1)
NEW: Version = (4, 0)
VERSIONS: tuple[Version, ...] = (OLD, (2, 8, 2), (3, 9, 2), NEW)


class Table(Sim):
    """A coordinator and the ids that it gives: a-1, b-2 and so on, after the client's."""

    def __init__(self, version: Version, **given: Any) -> None:
        super().__init__(BrokerSettings(version, **{"initial_rebalance_delay_ms": 0} | given))
        self._count = 0

    def new_member_id(self, prefix: str) -> str:
        self._count += 1
        return f"{prefix}-{self._count}"

    def send(self, request: Request) -> None:
        self.coordinator.handle(request)

    def join(self, client: str, member_id: str = "", **given: Any) -> JoinGroup:
        """Send a JoinGroup, and again with the id that was given."""
        request = make_join(client, member_id, **given)
        self.send(request)
        answer = self.answers[-1][1] if self.answers else None
        if isinstance(answer, JoinAnswer) and answer.error is ErrorCode.MEMBER_ID_REQUIRED:
            self.answers.pop()
            return self.join(client, answer.member_id, **given)
        return request

    def joined(self, client: str, member_id: str = "", **given: Any) -> JoinAnswer:
        """Join, and return the answer, which time may have to bring."""
        request = self.join(client, member_id, **given)
        self.clock.run(self.clock.now_ms)
        return self.join_answer(request)

    def join_answer(self, request: JoinGroup) -> JoinAnswer:
        return self.join_answers()[request]

    def join_answers(self) -> dict[Request, JoinAnswer]:
        return {asked: answer for asked, answer in self.take() if isinstance(answer, JoinAnswer)}

    def sync(self, answer: JoinAnswer, **assignments: bytes) -> SyncAnswer:
        request = SyncGroup(
            GROUP,
            answer.generation_id,
            answer.member_id,
            {each.replace("_", "-"): data for each, data in assignments.items()},
            protocol_type="consumer",
            protocol=answer.protocol,
        )
        found = self.ask(request)
        assert isinstance(found, SyncAnswer)
        return found

    def beat(self, answer: JoinAnswer, instance_id: str | None = None) -> ErrorCode:
        request = Heartbeat(GROUP, answer.generation_id, answer.member_id, instance_id)
        found = self.ask(request)
        assert isinstance(found, HeartbeatAnswer)
        return found.error

    def commit(self, generation_id: int, member_id: str = "", offset: int = 7) -> ErrorCode:
        offsets = {("t", 0): CommittedPartition(offset)}
        answer = self.ask(OffsetCommit(GROUP, offsets, generation_id, member_id))
        assert isinstance(answer, CommitAnswer)
        return answer.errors["t", 0]

    def committed(self) -> int | None:
        answer = self.ask(OffsetFetch(GROUP))
        assert isinstance(answer, FetchAnswer)
        return answer.offsets["t", 0].committed_offset if answer.offsets else None

    def state(self) -> GroupState | None:
        answer = self.ask(DescribeGroup(GROUP))
        assert isinstance(answer, DescribeAnswer)
        return answer.state


def make_join(
    client: str,
    member_id: str = "",
    *,
    protocols: str = "range",
    instance_id: str | None = None,
    session_timeout_ms: int = 10_000,
    rebalance_timeout_ms: int = 60_000,
    protocol_type: str = "consumer",
    version: int = 9,
) -> JoinGroup:
    return JoinGroup(
        GROUP,
        member_id,
        session_timeout_ms,
        rebalance_timeout_ms,
        protocol_type,
        tuple(Protocol(name, name.encode()) for name in protocols.split(",") if name),
        instance_id,
        client,
        "/127.0.0.1",
        version,
    )


def stable(table: Table) -> JoinAnswer:
    """One member, a, that leads a stable group."""
    a = table.joined("a")
    assert table.sync(a, **{a.member_id: b"all"}).assignment == b"all"
    return a
