"""The connection options, in a command of the test's own."""

from __future__ import annotations

from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from kgroup.cli.option.connection import Connection, connection_options


@click.command
@connection_options
@click.option("--other", is_flag=True)
def command(connection: Connection, other: bool) -> None:
    click.echo(repr(connection))
    click.echo(connection.client_config().kafka_options())
    click.echo(f"{other} {connection.timeout_s} {connection.chosen_by} {connection.is_default}")


def test_options(tmp_path: Path) -> None:
    file = tmp_path / "c.properties"
    file.write_text("client.id=file\nreconnect.backoff.ms=5\n")
    given = ["-b", "a:1,b:2", "--command-config", str(file), "-X", "client.id=x", "--other"]
    result = CliRunner(env={"KGROUP_PROFILE": "", "KGROUP_BOOTSTRAP_SERVER": ""}).invoke(
        command, [*given, "--timeout", "2.5"]
    )
    assert result.exit_code == 0, result.output
    _, options, rest = result.output.splitlines()
    assert "'bootstrap_servers': ['a:1', 'b:2']" in options
    assert "'client_id': 'x'" in options
    assert "'reconnect_backoff_ms': 5" in options
    assert rest == "True 2.5 --bootstrap-server False"


def test_environment_and_secrets() -> None:
    runner = CliRunner(env={"KGROUP_BOOTSTRAP_SERVER": "e:3", "KGROUP_PROFILE": ""})
    result = runner.invoke(command, ["-X", "ssl.key.password=s3kret"])
    assert "['e:3']" in result.output
    assert "s3kret" not in result.output
    assert runner.invoke(command, []).output.endswith("False 10.0 None True\n")


@pytest.mark.parametrize("seconds", ["0", "-1", "x"])
def test_timeout(seconds: str) -> None:
    assert CliRunner().invoke(command, ["--timeout", seconds]).exit_code == 2
