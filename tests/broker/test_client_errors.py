"""Members of each client library join again after errors as `client_facts` says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from kafka.protocol.consumer.group import HeartbeatRequest, JoinGroupRequest, SyncGroupRequest

from kgroup.assignor.client_facts import ON_ERROR
from kgroup.protocol.error_code import ErrorCode
from tests.broker.client.member import LibraryMember
from tests.broker.proxy import RecordingProxy
from tests.broker.servers import Broker
from tests.record.wire import Wire
from tests.waiting import until

_OLD = ErrorCode.ILLEGAL_GENERATION
BY_HAND = [
    *(("sarama", None, "range"), ("franz-go", None, "range"), ("kafka-go", None, "range")),
    ("kafkajs", None, "RoundRobinAssigner"),
    *(("aiokafka", "0.14.0", "range"), ("@platformatic/kafka", "1.35.0", "roundrobin")),
]
CASES = [
    ("librdkafka", None, "range"),
    ("kafka-python", None, "range"),
    *(pytest.param(*case, marks=pytest.mark.oracle_clients) for case in BY_HAND),
]


@pytest.mark.parametrize(("library", "version", "strategy"), CASES)
def test_members_join_again(
    library: str, version: str | None, strategy: str, orders_broker: Broker, tmp_path: Path
) -> None:
    errors, group = ON_ERROR[library], f"errors-{library}"
    with (
        RecordingProxy([orders_broker.port]) as proxy,
        Wire(orders_broker.version, orders_broker.bootstrap) as wire,
    ):

        def member_id() -> str | None:
            """Return the member id once the group is stable."""
            found = wire.call("DescribeGroups", groups=[group])["groups"][0]
            ids: list[str] = [each["member_id"] for each in found["members"]]
            return ids[0] if found["group_state"] == "Stable" else None

        def joined_after(api_key: int) -> str | None:
            """Return the member id in the first JoinGroup after a request of another kind."""
            keys = [request.api_key for request in proxy.requests]
            since = keys.index(api_key, seen) if api_key in keys[seen:] else len(keys)
            if JoinGroupRequest.API_KEY not in keys[since:]:
                return None
            sent = proxy.requests[keys.index(JoinGroupRequest.API_KEY, since)]
            join: Any = JoinGroupRequest.decode(sent.message, version=sent.version, header=True)
            return f"id {join.member_id}"

        at = (library, proxy.bootstrap, group, ["orders"], strategy, tmp_path / "log")
        member = LibraryMember(*at, client_id="kim", version=version)
        try:
            first = until(member_id)
            seen = len(proxy.requests)
            proxy.errors[HeartbeatRequest.API_KEY] = [_OLD]
            kept = "" if "Heartbeat" in errors.renewed_by else first
            assert until(lambda: joined_after(HeartbeatRequest.API_KEY)) == f"id {kept}"
            second = until(member_id)
            removed = {"member_id": second, "group_instance_id": None, "reason": None}
            wire.call("LeaveGroup", group_id=group, members=[removed])
            third = until(lambda: (now := member_id()) != second and now)
            seen = len(proxy.requests)
            proxy.errors[SyncGroupRequest.API_KEY] = [_OLD]
            proxy.errors[HeartbeatRequest.API_KEY] = [_OLD]
            is_new = until(lambda: joined_after(SyncGroupRequest.API_KEY)) != f"id {third}"
            assert is_new == ("SyncGroup" in errors.renewed_by)
        finally:
            member.stop()
