"""How a store is named again on a command line: what chooses it, and no secrets."""

from __future__ import annotations

from pathlib import Path

import pytest

from kgroup.cli.option.connection import DEFAULT_TIMEOUT_S, Connection
from kgroup.cli.option.source import Source
from kgroup.cli.option.store import SqlNames, StoreChoice, parse_store

NOTHING = Connection(None, None, (), None, DEFAULT_TIMEOUT_S)
ALL = Connection(
    "h:1",
    Path("a b.properties"),
    ("client.id=x y", "ssl.key.password=s3cret", " sasl.jaas.config = s3cret"),
    "prod",
    2.5,
)


@pytest.fixture(autouse=True)
def without_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("BOOTSTRAP_SERVER", "PROFILE", "SQL_URL"):
        monkeypatch.delenv(f"KGROUP_{name}", raising=False)


@pytest.mark.parametrize(
    ("store", "words", "secrets"),
    [
        (StoreChoice(Source(connection=NOTHING)), [], []),
        (
            StoreChoice(Source(connection=ALL)),
            "-b|h:1|--command-config|a b.properties|-C|prod|-X|client.id=x y|--timeout|2.5",
            ["ssl.key.password", "sasl.jaas.config"],
        ),
        (parse_store("kafka:h:2", NOTHING, SqlNames()), "-b|h:2", []),
        (parse_store("zookeeper:z/k", NOTHING, SqlNames()), "--zookeeper|z:2181/k", []),
        (
            parse_store("zookeeper:z:1", ALL, SqlNames()),
            "--zookeeper|z:1|--command-config|a b.properties|-C|prod|-X|client.id=x y|"
            "--timeout|2.5",
            ["ssl.key.password", "sasl.jaas.config"],
        ),
        (StoreChoice(Source(connection=ALL), "o.db"), "--sql|o.db|-C|prod", []),
        (parse_store("sql", ALL, SqlNames()), "--sql|profile|-C|prod", []),
        (StoreChoice(sql="@file"), "--sql|@file", []),
        (
            StoreChoice(sql="postgresql://me:s3cret@h/d", names=SqlNames("t", ("offset=n",))),
            "--sql|profile|--sql-table|t|--sql-column|offset=n",
            ["$KGROUP_SQL_URL"],
        ),
        (StoreChoice(sql="postgresql://me@h/d"), "--sql|postgresql://me@h/d", []),
    ],
)
def test_words(store: StoreChoice, words: str, secrets: list[str]) -> None:
    found, left_out = store.words()
    assert found == (words.split("|") if words else [])
    assert len(left_out) == len(secrets)
    assert all(name in text for name, text in zip(secrets, left_out, strict=True))
    assert "s3cret" not in "".join([*found, *left_out])


def test_what_the_environment_says_is_written_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KGROUP_BOOTSTRAP_SERVER", "e:1")
    monkeypatch.setenv("KGROUP_PROFILE", "p")
    monkeypatch.setenv("KGROUP_SQL_URL", "postgresql://me:s3cret@h/d")
    plain = Connection(None, None, (), None, DEFAULT_TIMEOUT_S)
    with_file = Connection(None, Path("f"), (), None, DEFAULT_TIMEOUT_S)
    assert StoreChoice(Source(connection=plain)).words()[0] == ["-b", "e:1", "-C", "p"]
    assert StoreChoice(Source(connection=with_file)).words()[0] == [
        "--command-config",
        "f",
        "-C",
        "p",
    ]
    zookeeper = parse_store("zookeeper:z:1", plain, SqlNames())
    assert zookeeper.words()[0] == ["--zookeeper", "z:1"]
    found, secrets = parse_store("sql", plain, SqlNames()).words()
    assert (found, len(secrets)) == (["--sql", "profile", "-C", "p"], 1)
