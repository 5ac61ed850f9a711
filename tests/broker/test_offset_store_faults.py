"""Writing of offsets where brokers die, and where they refuse."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

import pytest
from kafka import KafkaAdminClient
from kafka.admin import ACL, ACLOperation, ACLPermissionType, ResourcePattern, ResourceType

from kgroup.errors import ExitStatus, ProblemKind
from kgroup.operation.offsets.deletion import plan_deletion
from kgroup.operation.offsets.plan import Result, carry_out
from kgroup.source.broker.source import LiveCluster
from tests.broker.process import HOST, running
from tests.broker.proxy import RecordingProxy, Request
from tests.broker.secure_broker import PASSWORD, VERSION, SecureBroker, create_acls
from tests.broker.servers import broker, cluster
from tests.contract.offset_store import changes_to, essence
from tests.record.raw import (
    RawMember,
    await_coordinator,
    commit,
    consumer_protocol,
    create_topics,
    join,
)
from tests.record.wire import Wire

OFFSET_COMMIT = 8
GROUPS, PARTITIONS = 400, 20
KILLED_AT = 150

RIGHTS: Mapping[str, Sequence[tuple[ResourceType, str, ACLOperation]]] = {
    "reader": (
        (ResourceType.GROUP, "*", ACLOperation.DESCRIBE),
        (ResourceType.TOPIC, "*", ACLOperation.DESCRIBE),
    ),
    "no-topic": (
        (ResourceType.GROUP, "*", ACLOperation.READ),
        (ResourceType.TOPIC, "orders", ACLOperation.READ),
        (ResourceType.TOPIC, "payments", ACLOperation.DESCRIBE),
    ),
    "group-only": (
        (ResourceType.GROUP, "*", ACLOperation.ALL),
        (ResourceType.TOPIC, "orders", ACLOperation.READ),
    ),
    "no-group": (
        (ResourceType.GROUP, "mine", ACLOperation.ALL),
        (ResourceType.TOPIC, "*", ACLOperation.READ),
    ),
}
"""What each guest may do."""


def test_a_broker_that_is_killed_in_the_middle(tmp_path: Path) -> None:
    """No group is half written, and none passes for written; another run completes them."""
    names = [f"import-{number:03}" for number in range(GROUPS)]
    wanted = {("orders", number): number for number in range(PARTITIONS)}
    with broker("4.3.1", tmp_path) as server, RecordingProxy([server.port]) as proxy:
        with Wire(server.version, server.bootstrap) as wire:
            create_topics(wire, {"orders": PARTITIONS})
            await_coordinator(wire)
        commits: list[Request] = []

        def kills(request: Request) -> None:
            commits.append(request)
            if len(commits) == KILLED_AT:
                server.kill()

        proxy.before[OFFSET_COMMIT] = kills
        with LiveCluster(proxy.bootstrap, timeout_s=6, of_silence=True) as store:
            problems = store.write_offsets(dict.fromkeys(names, changes_to(wanted)))
        assert sorted(str(problem.group_id) for problem in problems) == names
        unknown = {
            problem.group_id for problem in problems if problem.kind is ProblemKind.UNKNOWN_END
        }
        assert KILLED_AT - 10 <= len(unknown) <= KILLED_AT + 100, "what was sent, and not read back"

        server.restart()
        with Wire(server.version, server.bootstrap) as wire:
            await_coordinator(wire)
        with LiveCluster(server.bootstrap, of_silence=True) as store:
            there = store.read_offsets(regex=re.compile("import-.*")).offsets
            assert all(essence(offsets) == wanted for offsets in there.values()), "half written"
            assert len(there) >= KILLED_AT - 10
            assert set(there) <= unknown
            left = {name: changes_to(wanted) for name in names if name not in there}
            assert left
            assert store.write_offsets(left) == ()
            there = store.read_offsets(names).offsets
            assert {name: essence(offsets) for name, offsets in there.items()} == dict.fromkeys(
                names, wanted
            )


def test_a_coordinator_that_dies_hands_its_groups_over(tmp_path: Path) -> None:
    """Those that were on their way to it are looked for at the next one, and compared again."""
    names = [f"import-{number:03}" for number in range(GROUPS)]
    wanted = {("orders", number): number for number in range(PARTITIONS)}
    config = {"offsets.topic.replication.factor": "3", "offsets.topic.num.partitions": "12"}
    with ExitStack() as stack:
        servers = stack.enter_context(cluster("2.8.2", 3, tmp_path, config=config))
        proxy = stack.enter_context(RecordingProxy([each.port for each in servers]))
        servers[0].create_topic("orders", PARTITIONS, 3)
        with Wire("2.8.2", servers[0].bootstrap) as wire:
            await_coordinator(wire)
        commits: list[Request] = []
        alive = list(servers)

        def kills(request: Request) -> None:
            commits.append(request)
            if len(commits) == KILLED_AT:
                (victim,) = (each for each in servers if each.port == request.port)
                alive.remove(victim)
                victim.kill()

        proxy.before[OFFSET_COMMIT] = kills
        with LiveCluster(proxy.bootstrap, timeout_s=60, of_silence=True) as store:
            assert store.write_offsets(dict.fromkeys(names, changes_to(wanted))) == ()
        assert len(commits) > GROUPS, "some were sent again"
        with LiveCluster(alive[0].bootstrap, timeout_s=60, of_silence=True) as store:
            offsets = store.read_offsets(names).offsets
        assert {name: essence(each) for name, each in offsets.items()} == dict.fromkeys(
            names, wanted
        )


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureBroker]:
    server = SecureBroker(tmp_path_factory.mktemp("secure"))
    with running(server):
        admin = KafkaAdminClient(**server.client_options)
        acls = [
            ACL(f"User:{user}", "*", what, ACLPermissionType.ALLOW, ResourcePattern(kind, name))
            for user, rights in RIGHTS.items()
            for kind, name, what in rights
        ]
        create_acls(admin, acls)
        admin.close()
        with Wire(VERSION, server.bootstrap) as wire:
            create_topics(wire, {"orders": 1, "payments": 1})
            await_coordinator(wire)
            for group in ("mine", "theirs"):
                commit(wire, group, dict.fromkeys(BOTH, 1))
        yield server


BOTH = (("orders", 0), ("payments", 0))
WANTED = changes_to(dict.fromkeys(BOTH, 2), dict.fromkeys(BOTH, 1))


def _logged_in(server: SecureBroker, user: str) -> LiveCluster:
    return LiveCluster(
        f"{HOST}:{server.ports['SASL']}",
        security_protocol="SASL_PLAINTEXT",
        sasl_mechanism="PLAIN",
        sasl_plain_username=user,
        sasl_plain_password=PASSWORD,
    )


def test_who_may_only_describe_writes_nothing(server: SecureBroker) -> None:
    with _logged_in(server, "reader") as store:
        problems = store.write_offsets({"theirs": WANTED, "mine": WANTED})
        assert [(each.group_id, each.topic, each.kind, each.reason) for each in problems] == [
            (
                group,
                None,
                ProblemKind.DENIED,
                "The cluster returned GROUP_AUTHORIZATION_FAILED (it needs READ on the group).",
            )
            for group in ("theirs", "mine")
        ]
        (problem,) = store.delete_groups(["theirs"])
        assert problem.reason == (
            "The cluster returned GROUP_AUTHORIZATION_FAILED (it needs DELETE on the group)."
        )
        gone = changes_to({("orders", 0): None}, {("orders", 0): 1})
        (problem,) = store.write_offsets({"theirs": gone})
        assert "it needs DELETE on the group" in problem.reason
        (problem,) = store.remove_members("theirs", {"somebody": None}).values()
        assert "it needs READ on the group" in problem.reason
        offsets = store.read_offsets(["theirs", "mine"]).offsets
    assert [essence(offset) for offset in offsets.values()] == [dict.fromkeys(BOTH, 1)] * 2


def test_a_topic_that_may_not_be_read_is_told_of(server: SecureBroker) -> None:
    with _logged_in(server, "no-topic") as store:
        with Wire(VERSION, server.bootstrap) as wire:
            commit(wire, "rows", dict.fromkeys(BOTH, 1))
        (problem,) = store.write_offsets({"rows": WANTED})
        assert (problem.group_id, problem.topic, problem.partition) == ("rows", "payments", 0)
        assert (problem.kind, problem.reason) == (
            ProblemKind.DENIED,
            "The cluster returned TOPIC_AUTHORIZATION_FAILED (it needs READ on the topic).",
        )
        offsets = store.read_offsets(["rows"]).offsets["rows"]
        assert essence(offsets) == {("orders", 0): 2, ("payments", 0): 1}


def test_what_may_not_be_described_is_deleted_only_on_demand(server: SecureBroker) -> None:
    """Brokers leave such topics out without a word: no plan and no backup can have them."""
    with Wire(VERSION, server.bootstrap) as wire:
        commit(wire, "hidden", dict.fromkeys(BOTH, 1))
    with _logged_in(server, "group-only") as store:
        refused = plan_deletion(store, ["hidden"])
        assert [(row.topic, row.result) for row in refused.rows] == [("orders", Result.REFUSED)]
        plan = plan_deletion(store, ["hidden"], hidden=True)
        assert [(row.topic, row.result) for row in plan.rows] == [("orders", Result.PLANNED)]
        assert carry_out(store, plan).exit_status is ExitStatus.DONE
    with LiveCluster(server.bootstrap) as store:
        assert store.read_offsets(["hidden"]).offsets == {}


def test_groups_that_are_denied_keep_no_other_waiting(server: SecureBroker) -> None:
    with _logged_in(server, "no-group") as store:
        (problem,) = store.write_offsets({"theirs": WANTED, "mine": WANTED})
        assert (problem.group_id, problem.kind) == ("theirs", ProblemKind.DENIED)
        assert essence(store.read_offsets(["mine"]).offsets["mine"]) == dict.fromkeys(BOTH, 2)
        (problem,) = store.delete_groups(["theirs", "mine"])
        assert (problem.group_id, problem.kind) == ("theirs", ProblemKind.DENIED)
        assert store.read_offsets(["mine"]).offsets == {}


def test_members_are_not_removed_without_the_right(server: SecureBroker) -> None:
    member = RawMember(VERSION, server.bootstrap, "member")
    subscription = {"range": consumer_protocol(["orders"])}
    join(member, "guarded", subscription, consumer_protocol(["orders"], 0))
    with _logged_in(server, "reader") as store:
        (problem,) = store.remove_members("guarded", {member.member_id: None}).values()
        assert problem.kind is ProblemKind.DENIED
    with LiveCluster(server.bootstrap) as store:
        assert store.read(["guarded"]).image.groups["guarded"].members
    member.close()
