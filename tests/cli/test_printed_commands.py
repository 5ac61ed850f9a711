"""Commands that plans print carry the connection options in use, and run as they stand."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import pytest

from kgroup.sample import sample_log_dir
from kgroup.source.log.source import LogDir
from tests.cli.conftest import Cli

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

    monkeypatch.setattr("kgroup.source.broker.source.Cluster", cluster)
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
    if given == "options":
        for tool in (each for text in document for each in KAFKA_TOOL.findall(text)):
            words = shlex.split(tool)
            assert words[1:5] == ["--bootstrap-server", "k1:9092,k2:9093", *options[2:4]], tool


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
    options = [word for each in settings for word in ("-X", each)]
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
