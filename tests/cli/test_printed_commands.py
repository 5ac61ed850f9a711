"""Commands that plans print carry the connection options in use, and run as they stand."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import click
import pytest

from kgroup.cli.main import kgroup
from kgroup.model.group import Group, GroupType, Member
from kgroup.operation.check.check import with_commands
from kgroup.operation.check.rule import Basis, Finding, Rule
from kgroup.operation.describe import describe
from kgroup.operation.printed_command import Reach, connected_by
from kgroup.sample import sample_log_dir
from kgroup.source.log.source import LogDir
from tests.cli.command_line import Cli
from tests.operation.sources import FakeSource

COMMAND = re.compile(r"kgroup [a-z].*?(?= shows| says| has |, |: | finds|\.$|`|$)")
KAFKA_TOOL = re.compile(r"kafka-[a-z]+\.sh .*")
PLANS = (
    ("plan", "static-membership", "order-service"),
    ("plan", "assignor", "cooperative-sticky", "payment-service"),
    ("plan", "consumer-protocol", "order-service", "--stop"),
    ("plan", "partitions", "payments=12"),
    ("plan", "--all"),
)


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """What clusters were made with; each has the groups of the sample."""
    clusters: list[dict[str, Any]] = []

    def cluster(bootstrap: list[str], **options: Any) -> AbstractContextManager[LogDir]:
        clusters.append({"bootstrap": bootstrap, **options, "of_silence": None})
        return nullcontext(LogDir((sample_log_dir(),)))

    monkeypatch.setattr("kgroup.source.broker.source.LiveCluster", cluster)
    monkeypatch.setattr("kgroup.operation.plan.forecast._COURSES", 1)  # no forecast is compared
    return clusters


def texts(value: Any) -> Iterator[str]:
    """Give every text in a document."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for each in value.values() if isinstance(value, dict) else value:
            yield from texts(each)


@pytest.mark.parametrize("plan", PLANS, ids=" ".join)
@pytest.mark.parametrize("given", ["options", "profile", "environment"])
def test_commands_of_plans_ask_the_same_cluster(
    cli: Cli,
    made: list[dict[str, Any]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    given: str,
    plan: tuple[str, ...],
) -> None:
    settings = tmp_path / "my client.properties"
    settings.write_text("client.id = me\n")
    options: tuple[str, ...] = ()
    if given == "options":
        options = ("-b", "k1:9092,k2:9093", "--command-config", str(settings))
        options += ("-X", "metadata.max.age.ms=7000", "--timeout", "30")
    elif given == "profile":
        file = tmp_path / "config.toml"
        file.write_text('[profiles.prod]\nbootstrap-server = "p1:9092,p2:9092"\n')
        monkeypatch.setenv("KGROUP_CONFIG", str(file))
        options = ("-C", "prod")
    else:
        monkeypatch.setenv("KGROUP_BOOTSTRAP_SERVER", "e1:9092,e2:9092")
    result = cli(*plan, *options, "-o", "json")
    assert result.status in (0, 4, 5), result.err
    (asked,) = {json.dumps(each) for each in made}
    monkeypatch.delenv("KGROUP_BOOTSTRAP_SERVER", raising=False)
    document = list(texts(json.loads(result.out)["data"]))
    commands = {each for text in document for each in COMMAND.findall(text)}
    commands = {each for each in commands if not each.startswith("kgroup plan verify")}
    assert commands
    for command in commands:
        made.clear()
        words = [word for word in shlex.split(command)[1:] if word not in ("--execute", "…")]
        again = cli(*words)
        assert again.status != 2, (command, again.err)
        assert {json.dumps(each) for each in made} == {asked}, command
    servers = {"options": "k1:9092,k2:9093", "profile": "p1:9092,p2:9092"}
    expected = ["--bootstrap-server", servers.get(given, "e1:9092,e2:9092")]
    expected += options[2:4] if given == "options" else []
    for tool in (each for text in document for each in KAFKA_TOOL.findall(text)):
        words = shlex.split(tool)
        assert words[1 : len(expected) + 1] == expected, tool
        assert ("--command-config" in words) == (given == "options")


@pytest.mark.parametrize("plan", PLANS, ids=" ".join)
def test_secrets_are_left_out_of_commands(
    cli: Cli, made: list[dict[str, Any]], plan: tuple[str, ...]
) -> None:
    login = "org.apache.kafka.common.security.plain.PlainLoginModule required"
    settings = (
        "security.protocol=SASL_PLAINTEXT",
        "sasl.mechanism=PLAIN",
        f'sasl.jaas.config={login} username="me" password="hunter2";',
    )
    options = [word for setting in settings for word in ("-X", setting)]
    result = cli(*plan, "-b", "k1:9092", *options, "-o", "json")
    assert made, result.err
    assert "hunter2" not in result.out + result.err
    commands = [
        each
        for text in texts(json.loads(result.out)["data"])
        for each in COMMAND.findall(text)
        if not each.startswith("kgroup plan verify")
    ]
    assert commands
    for command in commands:
        assert "-X sasl.mechanism=PLAIN -X sasl.jaas.config=.." in command


def parameters(words: Sequence[str]) -> dict[str, Any]:
    """Have a command line understood, and give what its command would be called with."""
    command: click.Command = kgroup
    context = command.make_context("kgroup", list(words))
    while isinstance(command, click.Group):
        rest = [*context._protected_args, *context.args]
        name, found, rest = command.resolve_command(context, rest)
        assert found is not None
        context = found.make_context(name, rest, parent=context)
        command = found
    return context.params


ODD = "-it's; odd"
"""A group id that a shell, and a command line, could take for something else."""
CONNECTION = ("-b", "k1:9092,k2:9093", "--command-config", "my client.properties")
GIVEN: dict[str, dict[str, Any]] = {
    "cluster": {
        "words": (*CONNECTION, "-X", "sasl.jaas.config=..."),
        "servers": CONNECTION[1],
        "config": CONNECTION[3],
    },
    "log directory": {"source": ("--log-dir", "a folder")},
    "snapshot": {"source": ("--snapshot", "a file.json")},
    "sample": {"source": ("--sample",)},
    "zookeeper": {"source": ("--zookeeper", "z1:2181,z2:2181/kafka"), "is_live": True},
    "warehouse": {"words": CONNECTION, "warehouse": ("--warehouse", "the warehouse")},
    "warehouse and log directory": {
        "source": ("--log-dir", "a folder"),
        "warehouse": ("--warehouse", "the warehouse"),
        "is_continued": True,
    },
    "warehouse and cluster": {
        "words": CONNECTION,
        "warehouse": ("--warehouse", "the warehouse"),
        "is_continued": True,
    },
}


@pytest.mark.parametrize("given", GIVEN)
@pytest.mark.parametrize("group_id", [ODD, "", "billing"])
def test_every_command_of_a_finding_is_understood(given: str, group_id: str) -> None:
    member = Member("m", instance_id="i-1")
    there = Group(group_id, GroupType.CLASSIC, None, members=(member,), offsets_partition=3)
    (group,) = describe(FakeSource(there), [group_id]).data
    options = GIVEN[given]
    commands = []
    for rule in Rule:
        place = {"topic": "orders", "partition": 3, "member_id": "m"}
        finding = Finding(rule, rule.severity, Basis.LOOK, group_id, "", "", **place)  # type: ignore[arg-type]
        with connected_by(**options):
            found = with_commands(finding, group.group).commands
        assert bool(found) == bool(rule.commands), rule
        commands += [(rule, shlex.split(each)) for each in found]
    for rule, words in commands:
        if words[0] != "kgroup":
            servers = options.get("servers", "HOST:PORT")
            assert words[1:3] == ["--bootstrap-server", servers]
            assert ("--command-config" in words) == ("config" in options)
            continue
        params = parameters(words[1:])
        (names,) = (params[key] for key in ("groups", "group", "group_id") if key in params)
        assert names in (group_id, (group_id,)), (rule, words)
        assert not any("GROUP" in word or "TOPIC" in word for word in words), words
        line = " ".join(words)
        if words[1] == "history":
            has_records = given in ("log directory", "sample")
            there = options["source"] if has_records else options.get("words", ("-b", "HOST:PORT"))
            if "is_continued" in options:
                both = (*options["warehouse"], *options.get("source", CONNECTION))
                assert " ".join(both) in line
            assert " ".join(options.get("warehouse", there)) in line
        elif options.get("is_live"):
            assert " ".join(options["source"]) in line
        elif "words" in options:
            assert " ".join(options["words"]) in line
        else:
            assert any(each in line for each in (" ".join(options["source"]), "-b HOST:PORT"))


@pytest.mark.parametrize("rule", [rule for rule in Rule if rule.commands], ids=str)
def test_a_command_that_changes_something_asks_the_cluster(rule: Rule) -> None:
    """A copy of the log, or a snapshot, has nothing to change and does not change by itself."""
    for command in rule.commands:
        words = str(command).split()
        is_change = words[1:3] in (["offsets", "reset"], ["offsets", "delete"]) or (
            words[1] == "members"
        )
        looks = {"--watch", "--interval"} & set(words)
        assert (command.reach is Reach.LIVE) == bool(is_change or looks or command.is_of_kafka)


@pytest.mark.parametrize("source", [("--sample",), CONNECTION[:2]], ids=" ".join)
def test_commands_of_a_check_carry_its_options(
    cli: Cli, made: list[dict[str, Any]], source: tuple[str, ...]
) -> None:
    result = cli("check", *source, "-o", "json")
    assert result.status == 5
    commands = [each for row in json.loads(result.out)["data"] for each in row["commands"]]
    assert len(commands) >= 7
    for command in commands:
        if command.startswith("kgroup "):
            assert command.endswith((shlex.join(source), "-b HOST:PORT")), command
            parameters(shlex.split(command)[1:])
        else:
            assert f".sh --bootstrap-server {source[-1]} " in command
    lines = cli("check", *source).out.splitlines()
    assert {*commands} == {line.strip() for line in lines if line.startswith(" ")}
