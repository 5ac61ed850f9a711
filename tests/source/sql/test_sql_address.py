"""URLs: which are understood, what is said of others, and that no secret is shown."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from kgroup.errors import InputError, KgroupError, UsageError
from kgroup.source.config.client_setting import Secret
from kgroup.source.config.profile import read_profile, read_sql_profile
from kgroup.source.sql.address import (
    SqlSettings,
    parse_address,
    parse_sql_profile,
    sql_settings,
    sql_url,
)
from kgroup.source.sql.layout import TableLayout, parse_table_name
from kgroup.source.sql.store import SqlOffsetStore

SECRET = "tr0ub4dor"
NOBODY = "127.0.0.1:1"
"""Where nobody listens."""


@pytest.mark.parametrize(
    ("text", "driver", "shown"),
    [
        ("/a/b.db", "sqlite+pysqlite", "sqlite:////a/b.db"),
        ("b.db", "sqlite+pysqlite", "sqlite:///b.db"),
        ("sqlite:///b.db", "sqlite+pysqlite", "sqlite:///b.db"),
        ("sqlite+pysqlite:////a/b.db?mode=ro", "sqlite+pysqlite", "sqlite:////a/b.db"),
        ("postgresql://h/d", "postgresql+psycopg", "postgresql://h/d"),
        ("postgres://u:p@h:5/d", "postgresql+psycopg", "postgres://u:***@h:5/d"),
        ("postgresql+psycopg://u@h/d?sslmode=require", "postgresql+psycopg", None),
        ("mysql://u:p%40x@h/d", "mysql+pymysql", "mysql://u:***@h/d"),
        ("mariadb+pymysql://u@h/d", "mysql+pymysql", "mariadb+pymysql://u@h/d"),
        ("mysql://u@h/d?password=p&charset=x", "mysql+pymysql", None),
    ],
)
def test_urls(text: str, driver: str, shown: str | None) -> None:
    address = parse_address(text)
    assert address.url.drivername == driver
    if shown is not None:
        assert address.shown == shown
    else:
        assert "=p" not in address.shown.replace("password=***", "")


def test_parameters_that_may_be_secrets_are_hidden() -> None:
    address = parse_address(f"mysql://u@h/d?password={SECRET}&charset=utf8mb4")
    assert address.shown == "mysql://u@h/d?password=***&charset=utf8mb4"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (f"postgresql://u:{SECRET}@x@h/d", "write one in the password as %40"),
        (f"postgresql://u:a:{SECRET}/d", "expected postgresql://USER:PASSWORD"),
        (f"postgresql://u:{SECRET}@h:{SECRET}/d", "expected postgresql://USER:PASSWORD"),
        (f"postgresql://u:{SECRET}@h", "found no name of a database"),
        (f"oracle://u:{SECRET}@h/d", "expected it to begin with one of sqlite, postgresql"),
        (f"postgresql+psycopg2://u:{SECRET}@h/d", r"found postgresql\+psycopg2://"),
        (f"postgresql:u:{SECRET}@h/d", "expected postgresql://USER:PASSWORD"),
        (f"host=h dbname=d password={SECRET}", "expected postgresql://USER:PASSWORD"),
        ("sqlite://h/x.db", "sqlite:////FILE for a path from the root on; found a host"),
        ("sqlite://", "expected a file of SQLite, sqlite:///FILE or its path; found none"),
        ("sqlite:///:memory:", "found ':memory:'"),
        ("sqlite:///file:x?uri=true", "found 'file:x'"),
        ("sqlite:///x?timeout=5", r"expected nothing behind .* \?mode=ro or \?mode=rw"),
        ("", "found none"),
        (f"postgresql://u:{SECRET}\udc9f@h/d", "expected UTF-8, found other bytes"),
    ],
)
def test_texts_that_are_no_urls(text: str, message: str) -> None:
    with pytest.raises(UsageError, match=message) as caught:
        SqlOffsetStore(text)
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize(
    "url",
    [
        f"postgresql://u:{SECRET}@{NOBODY}/d",
        f"postgresql://u@{NOBODY}/d?password={SECRET}",
        f"mysql://u:{SECRET}@{NOBODY}/d",
        f"mysql://u@{NOBODY}/d?password={SECRET}",
        f"mysql://u:{SECRET}@{NOBODY}/d?no_such_thing=1",
        f"postgresql://u:{SECRET}@{NOBODY}/d?no_such_thing=1",
        f"mysql://u:{SECRET}@{NOBODY}/d?ssl_ca=/no/such/file",
        f"mysql://u:p@{NOBODY}/d?no_such_thing={SECRET}",
        f"postgresql://u:p@{NOBODY}/d?channel_binding={SECRET}",  # which libpq then shows
    ],
)
def test_no_secret_is_shown_wherever_it_stands(url: str) -> None:
    store = SqlOffsetStore(Secret(url), timeout_s=2)
    assert SECRET not in repr(store) + repr(store.address) + str(store.address) + store.where
    with pytest.raises(KgroupError) as caught:
        store.read_offsets()
    assert SECRET not in str(caught.value)
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__
    assert NOBODY in str(caught.value)


def test_a_missing_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pymysql", None)
    with pytest.raises(UsageError, match=r"needs pymysql, which .* install the extra \[sql\]"):
        SqlOffsetStore("mysql://u@h/d")


def test_missing_sqlalchemy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sqlalchemy", None)
    with pytest.raises(UsageError, match=r"need SQLAlchemy, .* install the extra \[sql\]"):
        SqlOffsetStore("x.db")


def test_the_url_of_a_flag_the_environment_and_a_file(tmp_path: Path) -> None:
    file = tmp_path / "url"
    file.write_text(f"mysql://u:{SECRET}@h/d\n")
    environment = {"KGROUP_SQL_URL": "env.db"}
    profile = SqlSettings(Secret("profile.db"), TableLayout("t"))

    def chosen(flag: str | None, environment: dict[str, str]) -> str:
        settings = sql_settings(flag, environment, profile)
        assert settings.layout.table == "t"
        assert SECRET not in repr(settings)
        return "".join(settings.url or "")

    assert chosen("flag.db", environment) == "flag.db"
    assert chosen(None, environment) == "env.db"
    assert chosen(None, {"KGROUP_SQL_URL": ""}) == "profile.db"
    assert chosen(f"@{file}", {}) == f"mysql://u:{SECRET}@h/d"
    assert chosen(None, {"KGROUP_SQL_URL": f"@{file}"}) == f"mysql://u:{SECRET}@h/d"
    assert sql_url(None, {}) is None
    assert sql_settings(None, {}).url is None


def test_files_that_hold_no_url(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"--sql: .*none: cannot read it: No such file"):
        sql_url(f"@{tmp_path / 'none'}", {})
    for data, message in (
        (b"", "found 0 words"),
        (f"{SECRET} x".encode(), "found 2 words"),
        (b"\xff", "UTF-8"),
    ):
        (tmp_path / "url").write_bytes(data)
        with pytest.raises(UsageError, match=message) as caught:
            sql_url(None, {"KGROUP_SQL_URL": f"@{tmp_path / 'url'}"})
        assert str(caught.value).startswith("$KGROUP_SQL_URL: ")
        assert SECRET not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "schema", "table"),
    [
        ("t", None, "t"),
        ("s.t", "s", "t"),
        ('"a.b".c', "a.b", "c"),
        ('"a.b"', None, "a.b"),
        ('s."t""u"', "s", 't"u'),
        ("order by", None, "order by"),
    ],
)
def test_names_of_tables(text: str, schema: str | None, table: str) -> None:
    assert parse_table_name(text, "x") == (schema, table)


@pytest.mark.parametrize("text", ["", ".", "a.", ".b", "a.b.c", '"a', 'a"b', '""'])
def test_names_that_no_table_has(text: str) -> None:
    with pytest.raises(UsageError, match=r"^x: expected TABLE or SCHEMA.TABLE"):
        parse_table_name(text, "x")


def test_a_profile(tmp_path: Path) -> None:
    (tmp_path / "url").write_text("file.db")
    layout = TableLayout("t", "s", offset="next", leader_epoch="epoch", generation="generation")
    table = {
        "url-file": "url",
        "table": "s.t",
        "columns": {"offset": "next", "leader-epoch": "epoch", "generation": "generation"},
    }
    settings = parse_sql_profile(table, "profile 'p'", tmp_path, {})
    assert ("".join(settings.url or ""), settings.layout) == ("file.db", layout)
    settings = parse_sql_profile({"url-env": "DB"}, "p", tmp_path, {"DB": "env.db"})
    assert ("".join(settings.url or ""), settings.layout) == ("env.db", TableLayout())
    assert parse_sql_profile({}, "p", tmp_path, {}) == SqlSettings()


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({"uri": SECRET}, "p: sql: expected url, url-file, url-env, table, columns; found 'uri'"),
        ({"url": SECRET, "url-env": "X"}, "p: sql: expected one of url, .*; found url and url-env"),
        ({"url": 5}, "p: sql.url: expected a text, found no text"),
        ({"url": ""}, "p: sql.url: expected a text, found none"),
        ({"url-env": "DB"}, "p: sql.url-env: expected a URL in the variable DB, found it unset"),
        ({"table": "a.b.c"}, "p: sql.table: expected TABLE or SCHEMA.TABLE"),
        ({"columns": "x"}, "p: sql.columns: expected a table"),
        ({"columns": {"ofset": "x"}}, "p: sql.columns: expected group-id, topic.*found 'ofset'"),
        ({"columns": {"offset": 1}}, "p: sql.columns.offset: expected a text"),
        ({"columns": {"offset": "topic"}}, "p: sql: expected columns of different names"),
    ],
)
def test_bad_profiles(table: dict[str, object], message: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=message) as caught:
        parse_sql_profile(table, "p", tmp_path, {})
    assert SECRET not in str(caught.value)


# ---- the table `sql` of a profile in kgroup's configuration file


def test_a_profile_with_a_database_and_a_cluster(tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    file.write_text(
        '[profiles.p]\nbootstrap-server = "a:1"\n[profiles.p.sql]\nurl = "x.db"\n'
        '[profiles.p.sql.columns]\noffset = "next"\n[profiles.q]\n'
    )
    assert [setting.key for setting in read_profile("p", file)] == ["bootstrap.servers"]
    assert read_sql_profile("p", file) == (
        {"url": "x.db", "columns": {"offset": "next"}},
        f"profile 'p' of {file}",
    )
    assert read_sql_profile("q", file) is None


def test_what_is_no_table(tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    file.write_text('[profiles.p]\nsql = "x.db"\n')
    with pytest.raises(UsageError, match=r"sql: expected a table$"):
        read_sql_profile("p", file)
    with pytest.raises(UsageError, match="expected a profile 'q', found none; it has p"):
        read_sql_profile("q", file)
