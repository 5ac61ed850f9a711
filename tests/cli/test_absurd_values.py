"""Numbers of thousands of digits, JSON of a thousand levels, hosts that no one can be called."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.command_line import Cli

DIGITS = "9" * 5000
DEEP = "[" * 1000 + "]" * 1000
DRY_RUN = ("assign", "--dry-run", "--sample", "ledger")
STORMS = ("history", "storms", "--warehouse", "/nowhere")
OAUTH = (
    *("list", "-b", "127.0.0.1:1", "-X", "security.protocol=SASL_PLAINTEXT"),
    *("-X", "sasl.mechanism=OAUTHBEARER"),
    *("-X", 'sasl.jaas.config=a.OAuthBearerLoginModule required clientId="a" clientSecret="b";'),
    *("-X", "sasl.login.callback.handler.class=OAuthBearerLoginCallbackHandler"),
    *("-X", "sasl.oauthbearer.token.endpoint.url={}"),
)


@pytest.mark.parametrize(
    ("command", "value", "message"),
    [
        ((*DRY_RUN, "--add-member", "{}"), DIGITS, "expected a number from 1 to 10000, found"),
        ((*DRY_RUN, "--add-member", "streams={}"), DIGITS, "streams=: expected 1 to 10000, found"),
        ((*STORMS, "--rate", "{}/10m"), DIGITS, "expected a number of 2 or more and a duration"),
        ((*STORMS, "--rate", "2/{}m"), DIGITS, "is not a duration; expected 90s"),
        (OAUTH, "https://[a/", "expected https://HOST/PATH"),
        (OAUTH, "https://a:70000/", "expected https://HOST/PATH"),
        (OAUTH, f"https://a:{DIGITS}/", "expected https://HOST/PATH"),
        (OAUTH, "file:///a%00b", "expected a path, found a NUL"),
    ],
)
def test_wrong_usage(cli: Cli, command: tuple[str, ...], value: str, message: str) -> None:
    result = cli(*(word.replace("{}", value) for word in command))
    assert result.status == 2
    assert message in result.err
    assert "bug" not in result.err


@pytest.mark.parametrize("host", ["a..b", f"{'a' * 70}.example"])
@pytest.mark.parametrize("option", ["--zookeeper", "--bootstrap-server"])
def test_names_that_no_host_has(cli: Cli, host: str, option: str) -> None:
    result = cli("list", option, f"{host}:9092", "--timeout", "5")
    assert result.status == 1
    assert host in result.err
    assert "bug" not in result.err


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        (
            '{"topics": {}, "members": [{"member_id": %s, "topics": []}]}',
            "found lists or objects of many levels",
        ),
        ('{"id": %s}', "expected an object, found nothing"),
        ("%s", "expected an object, found lists or objects of many levels"),
        ('{"a": [[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[%s', "expected JSON, found"),
    ],
)
def test_a_spec_of_many_levels(cli: Cli, tmp_path: Path, spec: str, message: str) -> None:
    file = tmp_path / "spec.json"
    file.write_text(spec % DEEP)
    result = cli("assign", "--dry-run", "--spec", file)
    assert result.status == 1
    assert message in result.err
    assert "bug" not in result.err


def test_a_spec_that_is_too_large(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kgroup.cli.option.file.LARGEST", 1 << 20)
    file = tmp_path / "spec.json"
    file.write_bytes(b" " * ((1 << 20) + 1))
    result = cli("assign", "--dry-run", "--spec", file)
    assert result.status == 1
    assert f"{file}: expected at most 1,048,576 bytes, found 1,048,577; split it" in result.err


@pytest.mark.parametrize(
    "command", ["assign --dry-run", "plan assignor roundrobin", "simulate --from"]
)
@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda group: group.update(generation_id=1 << 31), "generation_id: expected a number up"),
        (
            lambda group: group["members"][0]["subscription"].update(topics=["t" * 40_000]),
            "subscription.topics[0]: expected a text of at most 32767 characters, found",
        ),
        (
            lambda group: group["members"][0]["assignment"][0].update(partition=-1),
            "expected partitions from 0 to 9999999, found -1 of payments with member payment-",
        ),
        (
            lambda group: group["members"][0]["assignment"][0].update(partition=(1 << 31) - 1),
            "expected partitions from 0 to 9999999, found 2147483647 of payments with member pay",
        ),
    ],
)
def test_a_snapshot_of_a_group_that_no_cluster_has(
    cli: Cli, tmp_path: Path, command: str, change: Any, message: str
) -> None:
    file = tmp_path / "snapshot.json"
    assert cli("snapshot", "--sample", "payment-service", "-f", file).status == 0
    tree = json.loads(file.read_text())
    change(tree["groups"][0])
    file.write_text(json.dumps(tree))
    result = cli(*command.split(), "payment-service", "--snapshot", file)
    assert result.status == 1
    assert message in result.err
    assert "bug" not in result.err


@pytest.mark.parametrize("timeout", ["inf", "nan", "-1", "1e400", DIGITS, ""])
def test_any_patience_of_completion(monkeypatch: pytest.MonkeyPatch, timeout: str) -> None:
    from kgroup.cli.option import suggestion

    monkeypatch.setenv("KGROUP_COMPLETION_TIMEOUT", timeout)
    given: Any = suggestion._patience_s()
    assert given == suggestion.PATIENCE_S
