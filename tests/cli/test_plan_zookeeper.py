"""`kgroup plan kafka-offsets` and `new-consumer`, as they are typed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kgroup import sample
from tests.cli.command_line import Cli

COMMITS = ("plan", "kafka-offsets", "--sample")


@pytest.mark.parametrize("target", ["kafka-offsets", "new-consumer"])
def test_a_group_that_is_in_kafka_alone(cli: Cli, target: str) -> None:
    found = cli("plan", target, "order-service", "--sample")
    assert (found.status, "found the group in Kafka alone" in found.err) == (1, True)
    missing = cli("plan", target, "nosuch", "--sample")
    assert (missing.status, "does not exist" in missing.err) == (3, True)


def test_where_members_commit_is_read_from_their_settings(cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "consumer.properties"
    path.write_text("offsets.storage = kafka \nrebalance.backoff.ms=100\n")
    found = cli(*COMMITS, "stock-sync", "--consumer-config", str(path), "-o", "json")
    assert found.status == 0
    (plan,) = json.loads(found.out)["data"]
    (step,) = plan["steps"]
    assert [(each["name"], each["after"]) for each in step["settings"]] == [
        ("dual.commit.enabled", "false")
    ]
    assert any("offsets.storage kafka and dual.commit.enabled" in each for each in plan["assumed"])


@pytest.mark.parametrize(
    ("text", "status", "message"),
    [
        ("group.id=other\n", 2, "expected group.id stock-sync, found other"),
        ("offsets.storage=disk\n", 2, "offsets.storage: expected zookeeper or kafka, found 'disk'"),
        ("#\ngroup.id=a\0\n", 2, ".properties:2: expected text, found a NUL byte"),
        ("a=\\u12\n", 2, "expected four hexadecimal digits after \\u"),
        (None, 1, "consumer.properties"),
    ],
)
def test_settings_that_are_none(
    cli: Cli, tmp_path: Path, text: str | None, status: int, message: str
) -> None:
    path = tmp_path / "consumer.properties"
    if text is not None:
        path.write_text(text)
    found = cli(*COMMITS, "stock-sync", "--consumer-config", str(path))
    assert (found.status, found.out) == (status, "")
    assert message in found.err


def test_a_setting_that_no_consumer_has_is_told(cli: Cli, tmp_path: Path) -> None:
    """Kafka 0.8.2's `VerifiableProperties.verify` warns of it: "Property … is not valid"."""
    path = tmp_path / "consumer.properties"
    path.write_text("group.id=stock-sync\nrebalance.backof.ms=100\nx=1\n")
    found = cli(*COMMITS, "stock-sync", "--consumer-config", str(path))
    assert found.status == 0
    assert (
        f"note: rebalance.backof.ms ({path}:2) is not a setting of consumers of Kafka 0.8, "
        "which ignore it; did you mean 'rebalance.backoff.ms'" in found.err
    )
    assert f"note: x ({path}:3) is not a setting" in found.err
    assert "note: group.id" not in found.err


def test_groups_elsewhere_than_in_zookeeper(cli: Cli) -> None:
    found = cli("plan", "new-consumer", "order-service", "-b", "127.0.0.1:1")
    assert found.status == 2
    assert "this command needs a source with ZooKeeper nodes: use --zookeeper" in found.err
    found = cli(*COMMITS, "order-service")
    assert (found.status, found.out) == (1, "")
    found = cli(*COMMITS, "stock-sync", "nobody")
    assert found.status == 4
    assert "stock-sync: kafka-offsets" in found.out


def test_one_commit_is_counted_as_one(cli: Cli) -> None:
    assert "1 commit in ZooKeeper, none in Kafka" in cli(*COMMITS, "click-stats").out
    assert "1 has one" in cli("plan", "new-consumer", "--sample", "click-stats").out


def test_a_step_on_zookeeper_is_looked_at(cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    path.write_text(cli(*COMMITS, "stock-sync", "-o", "json").out)
    found = cli("plan", "verify", str(path), "--step", "1", "--sample")
    assert found.status == 5
    assert "stock-sync: step 1 is not-begun" in found.out
    found = cli("plan", "verify", str(path), "--step", "1", "-b", "127.0.0.1:1")
    assert found.status == 2
    assert "step 1 is to be seen in ZooKeeper: expected --zookeeper" in found.err


def test_old_brokers_refuse_new_consumers(cli: Cli) -> None:
    found = cli("plan", "new-consumer", "stock-sync", "--sample", "-o", "json")
    assert found.status == 5
    (plan,) = json.loads(found.out)["data"]
    assert plan["steps"] == []


@pytest.mark.parametrize("form", [("-o", "markdown"), ("--diagram",), ("-o", "csv")])
def test_forms(cli: Cli, form: tuple[str, ...]) -> None:
    found = cli(*COMMITS, "stock-sync", *form)
    assert found.status == 0
    assert "Restart every member with commits to Kafka alone" in found.out


@pytest.mark.parametrize(
    "target",
    [
        ("assignor", "sticky"),
        ("consumer-protocol",),
        ("static-membership",),
        ("partitions", "orders=9"),
        ("external-offsets", "--sql", "offsets.db"),
    ],
)
def test_what_only_a_coordinator_can_do(cli: Cli, target: tuple[str, ...]) -> None:
    path = Path(sample.__file__).parent / "zookeeper" / "snapshot.json"
    found = cli("plan", *target, "stock-sync", "--snapshot", str(path))
    assert found.status == 1
    assert "found one of type zookeeper" in found.err
