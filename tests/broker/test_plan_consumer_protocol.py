"""Groups go to the consumer protocol and back for real, as plans say, and as brokers let them."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer

from kgroup.model.group import GroupState
from kgroup.operation.plan.assignor import CLASSES
from kgroup.source.broker.source import LiveCluster
from tests.broker.client.group import LibraryGroup
from tests.broker.maven import run_java
from tests.broker.migration import Fleet, close_to, fleet, kgroup
from tests.broker.servers import Broker, broker
from tests.record.raw import RawMember, await_coordinator, consumer_protocol, create_topics, join
from tests.record.session import ClientError
from tests.record.wire import Wire
from tests.waiting import until

NAMES = ["a", "b", "c"]
BEAT_MS = 1_000
"""`heartbeat.interval.ms`, and what brokers have in its place."""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    beats = ("group.consumer.heartbeat.interval.ms", "group.consumer.min.heartbeat.interval.ms")
    config = {
        **dict.fromkeys(beats, str(BEAT_MS)),
        "group.consumer.max.session.timeout.ms": "1800000",
    }
    with broker("4.3.1", tmp_path_factory.mktemp("kafka"), config=config) as running:
        yield running


def _changed(step: dict[str, Any]) -> dict[str, str | None]:
    """Read the settings of a step, as a consumer is given them."""
    return {each["name"].replace(".", "_"): each["after"] for each in step["settings"]}


def _carry_out(group: Fleet, path: Path, plan: dict[str, Any]) -> None:
    """Do each step, verify it before and after, and compare it with its forecast."""
    for step in plan["steps"]:
        number, names = step["number"], step["restarted"]
        assert group.verify(path, number) == "not-begun"
        with group.watched() as happened:
            for name in names:
                group.restart(name, **_changed(step))
                if name != names[-1]:
                    assert group.verify(path, number) == "half-done"
        assert group.verify(path, number, "--done") == "done"
        print(step["forecast"], happened)
        close_to(step["forecast"], happened[0], BEAT_MS)


def _verdicts(plan: dict[str, Any]) -> dict[str, str]:
    return {each["code"]: each["verdict"] for each in plan["preconditions"]}


def _of(strategy: str, **more: str) -> dict[str, str]:
    return {
        "partition_assignment_strategy": CLASSES[strategy],
        "session_timeout_ms": "50000",
        "heartbeat_interval_ms": str(BEAT_MS),
        **more,
    }


def test_static_members_there_and_back(server: Broker, tmp_path: Path) -> None:
    """Also, a migration that somebody else has begun is found where it stands."""
    path = tmp_path / "plan.json"
    with fleet(server, tmp_path, "static", 6, "static", restart_s=3) as group:
        for name in NAMES:
            group.start([name], **_of("range", group_instance_id=name))
        plan = group.plan(path, "consumer-protocol")
        for code in ("broker-support", "migration-policy", "group-size", "server-assignor"):
            assert _verdicts(plan)[code] == "verified"
        assert [len(step["restarted"]) for step in plan["steps"]] == [1, 2]
        _carry_out(group, path, {**plan, "steps": plan["steps"][:1]})
        begun = group.plan(path, "consumer-protocol")
        (step,) = begun["steps"]
        assert sorted(step["restarted"]) == sorted(plan["steps"][1]["restarted"])
        _carry_out(group, path, begun)
        assert group.plan(path, "consumer-protocol")["steps"] == []
        _carry_out(group, path, group.plan(path, "consumer-protocol", "--back"))
        assert group.plan(path, "consumer-protocol", "--back")["steps"] == []


def test_dynamic_members_there_and_back(server: Broker, tmp_path: Path) -> None:
    """A restart takes longer than from a heartbeat to the next, so that all that is free is taken.

    The assignor is uniform: by range the ids matter that members make up, and how much moves is
    chance.
    """
    path = tmp_path / "plan.json"
    with fleet(server, tmp_path, "dynamic", 6, "dynamic", restart_s=4) as group:
        for name in NAMES:
            group.start([name], **_of("range"))
        words = ("consumer-protocol", "--assignor", "uniform")
        _carry_out(group, path, group.plan(path, *words))
        _carry_out(group, path, group.plan(path, "consumer-protocol", "--back"))


def test_a_group_keeps_its_session_timeout(server: Broker, tmp_path: Path) -> None:
    """The command of the plan is carried out by Kafka's tool."""
    member = RawMember(server.version, server.bootstrap, "m")
    with Wire(server.version, server.bootstrap) as wire:
        create_topics(wire, {"kept": 1})
        await_coordinator(wire)
    subscribed, given = consumer_protocol(["kept"]), consumer_protocol(["kept"], 0)
    join(member, "keeps session", {"range": subscribed}, given)
    where = ("-b", server.bootstrap)
    (plan,) = kgroup("plan", "consumer-protocol", "keeps session", *where)
    (command,) = plan["steps"][0]["commands"]
    tool, *words = shlex.split(command)
    assert tool == "kafka-configs.sh"
    run_java(server.version, "kafka.admin.ConfigCommand", words)
    with LiveCluster(server.bootstrap) as cluster:
        name = "consumer.session.timeout.ms"
        assert cluster.group_settings("keeps session", [name]) == {name: "1800000"}
    (plan,) = kgroup("plan", "consumer-protocol", "keeps session", *where)
    assert plan["steps"][0]["commands"] == []
    member.close()


def _refused(group: Fleet, code: str) -> dict[str, Any]:
    """Plan what must be refused by one precondition."""
    plan: dict[str, Any] = kgroup("plan", "consumer-protocol", group.group, *group.where, status=5)[
        0
    ]
    verdicts = _verdicts(plan)
    assert [verdict for verdict in verdicts if verdicts[verdict] == "refuted"] == [code]
    assert plan["steps"] == []
    (found,) = (each for each in plan["preconditions"] if each["code"] == code)
    assert "GROUP_ID_NOT_FOUND" in found["check"]
    return plan


def test_the_policy_refuses(tmp_path: Path) -> None:
    """The broker refuses a member that speaks the consumer protocol; an empty group changes."""
    path = tmp_path / "plan.json"
    config = {"group.consumer.migration.policy": "disabled"}
    with (
        broker("4.3.1", tmp_path, config=config) as server,
        fleet(server, tmp_path, "g", 2, "g", restart_s=1) as group,
    ):
        group.start(["a"], **_of("range"))
        group.start(["b"], **_of("range"))
        _refused(group, "migration-policy")
        plan = group.plan(path, "consumer-protocol", "--stop")
        changed = _changed(plan["steps"][0])
        with pytest.raises(ClientError, match="b died"):
            group.restart("b", **changed)
        assert "GroupIdNotFoundException" in (tmp_path / "g.log").read_text()
        assert group.verify(path, 1) == "half-done"
        group.stop_all()
        group.start_all(group_protocol="consumer", group_remote_assignor="range")
        assert group.verify(path, 1, "--done") == "done"


def test_data_of_a_custom_assignor_refuses(server: Broker, tmp_path: Path) -> None:
    member = RawMember(server.version, server.bootstrap, "m")
    with fleet(server, tmp_path, "custom", 1, "custom", restart_s=1) as group:
        subscribed = consumer_protocol(["custom"])
        given = consumer_protocol(["custom"], 0)[:-4] + b"\0\0\0\2hi"
        join(member, "custom", {"range": subscribed}, given)
        _refused(group, "user-data")
        with pytest.raises(ClientError, match="a died"):
            group.start(["a"], group_protocol="consumer")
        assert "GroupIdNotFoundException" in (tmp_path / "custom.log").read_text()
    member.close()


def test_librdkafka_with_cooperative_sticky_is_refused(server: Broker, tmp_path: Path) -> None:
    """Its leaders give members back what they have sent, from the second rebalance on."""
    with Wire(server.version, server.bootstrap) as wire:
        create_topics(wire, {"rd": 6})
        await_coordinator(wire)
    where = ("-b", server.bootstrap)
    group = LibraryGroup("librdkafka", server.bootstrap, "rd", "rd", 6, tmp_path / "rd.log")
    group.start(["a"], "cooperative-sticky")
    (plan,) = kgroup("plan", "consumer-protocol", "rd", *where, status=5)
    assert (
        "none yet" in {each["code"]: each["found"] for each in plan["preconditions"]}["user-data"]
    )
    group.start(["b"], "cooperative-sticky")

    def has_data() -> bool:
        with LiveCluster(server.bootstrap) as cluster:
            found = cluster.read(["rd"]).image.groups["rd"]
        is_stable = found.state is GroupState.STABLE
        return is_stable and any(member.assignment_user_data for member in found.members)

    until(has_data)
    (plan,) = kgroup("plan", "consumer-protocol", "rd", *where, status=5)
    assert _verdicts(plan)["user-data"] == "refuted"
    config = {"bootstrap.servers": server.bootstrap, "group.id": "rd", "group.protocol": "consumer"}
    newcomer = Consumer({**config, "log_level": 0})
    newcomer.subscribe(["rd"])
    errors: list[str] = []

    def refused() -> bool:
        message = newcomer.poll(0.1)
        if message is not None and message.error() is not None:
            errors.append(str(message.error()))
        return bool(errors)

    until(refused)
    assert "The group id does not exist" in errors[0]
    newcomer.close()
    group.stop_all()
