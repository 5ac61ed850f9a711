"""The table of offsets on real PostgreSQL and MariaDB servers."""

from __future__ import annotations

import itertools
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import Any

import pytest
from sqlalchemy import create_engine
from sqlalchemy.event import listen
from sqlalchemy.exc import OperationalError

from kgroup.errors import InputError, KgroupError, ProblemKind
from kgroup.model.offset import CommittedOffset, OffsetChange
from kgroup.source.sql import FencedError, OffsetStore, TableLayout
from kgroup.source.sql.store import SqlOffsetStore
from tests.broker.process import HOST
from tests.broker.sql_servers import PASSWORD, MariaDb, PostgreSql, SqlServer, mariadb, postgresql
from tests.contract.offset_store import OffsetStoreContract
from tests.source.sql.big_import import import_of
from tests.source.sql.stored import change, new

_names = itertools.count()


@pytest.fixture(scope="module")
def postgresql_server() -> Iterator[PostgreSql]:
    with postgresql() as server:
        yield server


@pytest.fixture(scope="module")
def mariadb_server() -> Iterator[MariaDb]:
    with mariadb() as server:
        yield server


@pytest.fixture(params=["postgresql", "mariadb"])
def server(request: pytest.FixtureRequest) -> SqlServer:
    found: SqlServer = request.getfixturevalue(f"{request.param}_server")
    return found


@pytest.fixture(scope="module", params=["postgresql", "mariadb"])
def shared_store(request: pytest.FixtureRequest) -> SqlOffsetStore:
    """One table for all tests of the contract, whose groups have names of their own."""
    server: SqlServer = request.getfixturevalue(f"{request.param}_server")
    table = f"t_offset_{next(_names)}"
    store = SqlOffsetStore(
        server.url(), TableLayout(table, metadata="metadata", leader_epoch="leader_epoch")
    )
    store.create_table()
    return store


@pytest.fixture
def table() -> str:
    """A name that no other test has."""
    return f"t_offset_{next(_names)}"


@contextmanager
def failing(kind: ProblemKind, message: str) -> Iterator[None]:
    """Expect an error without secrets and without what it came from."""
    with pytest.raises(KgroupError, match=message) as caught:
        yield
    assert caught.value.kind is kind, caught.value
    assert PASSWORD not in str(caught.value)
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None or caught.value.__suppress_context__


def made(server: SqlServer, table: str) -> SqlOffsetStore:
    store = SqlOffsetStore(server.url(), TableLayout(table))
    store.create_table()
    return store


def quoted(server: SqlServer, name: str) -> str:
    return f'"{name}"' if isinstance(server, PostgreSql) else f"`{name}`"


def rows(server: SqlServer, table: str) -> list[tuple[object, ...]]:
    """Ask the server itself."""
    name = quoted(server, table)
    return sorted(server.run(f"SELECT * FROM {name}"), key=str)


class TestContract(OffsetStoreContract):
    deletes_groups = False

    @pytest.fixture
    def store(self, shared_store: SqlOffsetStore) -> SqlOffsetStore:
        return shared_store


def test_offsets_come_and_go(server: SqlServer, table: str) -> None:
    layout = TableLayout(
        table, metadata="metadata", leader_epoch="leader_epoch", updated_at="updated_at"
    )
    store = SqlOffsetStore(server.url(), layout)
    store.create_table()
    store.create_table()
    full = CommittedOffset("t", 0, 2**63 - 1, 3, "näh 🜚 %s \\ '", 1_700_000_000_123)
    bare = CommittedOffset("t", 2**31 - 1, 6, None, None, 5)
    changes = [OffsetChange(o.topic, o.partition, None, o) for o in (full, bare)]
    assert store.write_offsets({"g": changes, "h": new({("t", 0): 1})}) == ()
    assert store.read_offsets(["g"]).offsets == {"g": (full, bare)}
    assert rows(server, table)[0][:6] == ("g", "t", 0, 2**63 - 1, full.metadata, 3)
    moved = CommittedOffset("t", 0, 5, 4, "", 7)
    (problem,) = store.write_offsets(
        {
            "g": [OffsetChange("t", 0, full, moved), OffsetChange("t", bare.partition, bare, None)],
            "h": [change("t", 0, 2, 9)],
        }
    )
    assert (problem.kind, problem.group_id) == (ProblemKind.CHANGED, "h")
    assert "expected offset 2, found offset 1" in problem.reason
    assert store.read_offsets(["g"]).offsets == {"g": (moved,)}
    assert store.write_offsets({"g": [OffsetChange("t", 0, moved, None)]}) == ()
    assert [row[0] for row in rows(server, table)] == ["h"]


@pytest.mark.parametrize("name", ["partition", "group", "Order By", 'a"b', "%s %(x)s", "é"])
def test_any_name(server: SqlServer, name: str) -> None:
    columns = [f"{name}{number}" for number in range(1, 9)]
    schema = "app" if isinstance(server, MariaDb) else "public"
    for prefix in (None, schema):
        layout = TableLayout(name, prefix, *columns)
        store = SqlOffsetStore(server.url(), layout)
        store.create_table()
        assert store.write_offsets({"g": new({("t", 0): 1})}) == ()
        assert store.write_offsets({"g": [change("t", 0, 1, 2), change("t", 1, None, 3)]}) == ()
        assert [o.committed_offset for o in store.read_offsets().offsets["g"]] == [2, 3]
        engine = create_engine(store.address.url)
        library = OffsetStore(engine, layout)
        assert library.claim("g", [("t", 0)], 4) == {("t", 0): 2}
        library.save("g", {("t", 0): 7}, generation=4)
        assert library.load("g", [("t", 0)]) == {("t", 0): 7}
        engine.dispose()
        store = SqlOffsetStore(server.url(), replace(layout, generation=None))
        gone = [change("t", 0, 7, None), change("t", 1, 3, None)]
        assert store.write_offsets({"g": gone}) == ()


def test_a_schema_that_is_not_the_default(server: SqlServer, table: str) -> None:
    word = "SCHEMA" if isinstance(server, PostgreSql) else "DATABASE"
    name = quoted(server, "my.schema")
    grant = "kgroup" if isinstance(server, PostgreSql) else "kgroup@'127.0.0.1'"
    on = f"SCHEMA {name}" if isinstance(server, PostgreSql) else f"{name}.*"
    server.run(
        f"DROP {word} IF EXISTS {name}", f"CREATE {word} {name}", f"GRANT ALL ON {on} TO {grant}",
        url=server.admin_url(),
    )  # fmt: skip
    store = SqlOffsetStore(server.url(), TableLayout(table, "my.schema"))
    store.create_table()
    assert store.write_offsets({"g": new({("t", 0): 1})}) == ()
    assert server.run(f"SELECT count(*) FROM {name}.{table}") == [(1,)]
    with failing(ProblemKind.UNREADABLE, f"expected the table {table}, found none"):
        SqlOffsetStore(server.url(), TableLayout(table)).read_offsets()


def test_any_id(server: SqlServer, table: str) -> None:
    store = made(server, table)
    groups = ["", " ", "g", "g ", "G", "ß", "SS", "é", "e\u0301", "\\", "'\"%", "a\nb", "😀" * 128]
    changes = {group: new({("t", 0): index}) for index, group in enumerate(groups)}
    assert store.write_offsets(changes) == ()
    stored = store.read_offsets(groups).offsets
    assert {group: stored[group][0].committed_offset for group in stored} == {
        group: index for index, group in enumerate(groups)
    }
    assert store.read_offsets(["E\u0301", "ss", "  "]).offsets == {}


@pytest.mark.parametrize("place", ["group", "topic", "metadata"])
def test_what_does_not_fit_is_an_error_before_anything(
    server: SqlServer, table: str, place: str
) -> None:
    """MariaDB runs without strict mode: left to itself, it would cut all these."""
    server.run(
        f"CREATE TABLE {table} (group_id VARCHAR(5), topic VARCHAR(5), part SMALLINT, "
        "pos INTEGER, note VARCHAR(5), UNIQUE (group_id, topic, part))"
    )
    layout = TableLayout(table, partition="part", offset="pos", metadata="note")
    store = SqlOffsetStore(server.url(), layout)
    long = "😀23456"
    group, topic = (long if place == "group" else "g"), (long if place == "topic" else "t")
    after = CommittedOffset(topic, 0, 1, metadata=long if place == "metadata" else None)
    changes = {"fine": new({("t", 0): 1}), group: [OffsetChange(topic, 0, None, after)]}
    with failing(ProblemKind.UNREADABLE, "of at most 5 characters, .* found 6: '😀23456'"):
        store.write_offsets(changes)
    for key, offset, limit in ((("t", 0), 2**31, 2**31 - 1), (("t", 40_000), 1, 2**15 - 1)):
        with failing(ProblemKind.UNREADABLE, f"of at most {limit}, .* Make the column a BIGINT"):
            store.write_offsets({"fine": new({("t", 0): 1}), "g": new({key: offset})})
    assert rows(server, table) == []
    assert store.write_offsets({"😀2345": new({("t", 2**15 - 1): 2**31 - 1})}) == ()
    assert rows(server, table) == [("😀2345", "t", 2**15 - 1, 2**31 - 1, None)]


def test_longest_ids_of_the_tables_that_are_made(server: SqlServer, table: str) -> None:
    store = made(server, table)
    longest, limit = (
        (512, "of at most 512 characters")
        if isinstance(server, MariaDb)
        else (2599, "at most 2600")
    )
    assert store.write_offsets({"g" * longest: new({("t", 0): 1})}) == ()
    with failing(ProblemKind.UNREADABLE, limit):
        store.write_offsets({"g" * (longest + 1): new({("t", 0): 1}), "h": new({("t", 0): 1})})
    assert list(store.read_offsets().offsets) == ["g" * longest]


def test_nul(server: SqlServer, table: str) -> None:
    store = made(server, table)
    if isinstance(server, PostgreSql):
        with failing(ProblemKind.UNREADABLE, "without the character NUL, .* found 'a.x00'"):
            store.write_offsets({"g": new({("t", 0): 1}), "a\0": new({("t", 0): 1})})
        assert rows(server, table) == []
        return
    assert store.write_offsets({"a\0": new({("t", 0): 1})}) == ()
    assert list(store.read_offsets(["a\0"]).offsets) == ["a\0"]


def test_a_key_is_needed_and_the_statement_said(server: SqlServer, table: str) -> None:
    position = quoted(server, "partition"), quoted(server, "offset")
    server.run(
        f"CREATE TABLE {table} (group_id VARCHAR(99), topic VARCHAR(99), {position[0]} INT, "
        f"{position[1]} BIGINT)"
    )
    store = SqlOffsetStore(server.url(), TableLayout(table))
    with pytest.raises(InputError, match=r"expected a unique key .*found none") as caught:
        store.write_offsets({"g": new({("t", 0): 1})})
    assert rows(server, table) == []
    server.run(str(caught.value).split("Add it: ")[1])
    assert store.write_offsets({"g": new({("t", 0): 1})}) == ()


def test_changes_leave_other_columns_alone(server: SqlServer, table: str) -> None:
    """And whatever a table has beside the key is none of the ways in which rows are changed."""
    names = {name: quoted(server, name) for name in ("partition", "offset")}
    number = "SERIAL" if isinstance(server, PostgreSql) else "INT AUTO_INCREMENT"
    server.run(
        f"CREATE TABLE {table} (id {number} PRIMARY KEY, group_id VARCHAR(99), topic VARCHAR(99), "
        f"{names['partition']} INT, {names['offset']} BIGINT, "
        f"UNIQUE (group_id, topic, {names['partition']}))"
    )
    store = SqlOffsetStore(server.url(), TableLayout(table))
    assert store.write_offsets({"g": new({("t", 0): 1, ("t", 1): 1})}) == ()
    for now in range(1, 5):
        again = [change("t", partition, now, now + 1) for partition in (0, 1)]
        assert store.write_offsets({"g": again}) == ()
    assert store.write_offsets({"g": new({("t", 2): 5})}) == ()
    assert [row[0] for row in rows(server, table)] == [1, 2, 3], "no number was used up"


@pytest.mark.parametrize("default", ["", " DEFAULT 0"])
def test_changes_leave_generations_alone(server: SqlServer, table: str, default: str) -> None:
    names = {name: quoted(server, name) for name in ("partition", "offset")}
    server.run(
        f"CREATE TABLE {table} (group_id VARCHAR(99), topic VARCHAR(99), "
        f"{names['partition']} INT, {names['offset']} BIGINT, "
        f"generation BIGINT NOT NULL{default}, "
        f"PRIMARY KEY (group_id, topic, {names['partition']}))",
        f"INSERT INTO {table} VALUES ('g', 't', 0, 5, 7), ('g', 't', 1, 5, 7)",
    )
    store = SqlOffsetStore(server.url(), TableLayout(table, generation="generation"))
    changes = [change("t", 0, 5, 6), change("t", 1, 5, None)]
    assert store.write_offsets({"g": changes}) == ()
    assert rows(server, table) == [("g", "t", 0, 6, 7), ("g", "t", 1, None, 7)]


@pytest.mark.parametrize("kind", ["CITEXT", "CHAR"])
def test_texts_that_are_not_held_as_they_are(
    postgresql_server: PostgreSql, table: str, kind: str
) -> None:
    """The one compares without regard to case, the other fills up with blanks."""
    postgresql_server.run("CREATE EXTENSION IF NOT EXISTS citext")
    postgresql_server.run(
        f"CREATE TABLE {table} (group_id {kind}, topic VARCHAR(99), partition INT, "
        '"offset" BIGINT, UNIQUE (group_id, topic, partition))'
    )
    store = SqlOffsetStore(postgresql_server.url(), TableLayout(table))
    with failing(ProblemKind.UNREADABLE, f"column group_id to hold texts as they are .*{kind}"):
        store.write_offsets({"g": new({("t", 0): 1})})
    assert rows(postgresql_server, table) == []


def test_a_collation_that_takes_ids_for_one(mariadb_server: MariaDb, table: str) -> None:
    mariadb_server.run(
        f"CREATE TABLE {table} (group_id VARCHAR(99), topic VARCHAR(99), `partition` INT, "
        "`offset` BIGINT, UNIQUE (group_id, topic, `partition`))"
    )
    store = SqlOffsetStore(mariadb_server.url(), TableLayout(table))
    assert store.write_offsets({"Group": new({("t", 0): 1}), "ß": new({("t", 0): 1})}) == ()
    before = rows(mariadb_server, table)
    for group in ("group", "GROUP", "Group ", "Gröup"):
        with failing(ProblemKind.UNREADABLE, "takes them for one. Give the column a collation"):
            store.write_offsets({group: new({("u", 0): 1}), "x": new({("t", 0): 1})})
        with failing(ProblemKind.UNREADABLE, "takes them for one"):
            store.write_offsets({"new": new({(group, 0): 1, ("group  ", 0): 2})})
        assert store.read_offsets([group]).offsets == {}
        with failing(ProblemKind.UNREADABLE, "takes them for one"):
            store.write_offsets({group: [change("t", 0, 1, None)]})
    assert rows(mariadb_server, table) == before
    assert store.write_offsets({"Group": [change("t", 0, 1, 2), change("u", 0, None, 1)]}) == ()
    with pytest.raises(InputError, match="collation utf8mb4_general_ci, which takes some groups"):
        OffsetStore(mariadb_server.url(), table).load("Group", [("t", 0)])


def test_utf8mb4_bin_takes_blanks_at_the_end_for_nothing(
    mariadb_server: MariaDb, table: str
) -> None:
    mariadb_server.run(
        f"CREATE TABLE {table} (group_id VARCHAR(99), topic VARCHAR(99), `partition` INT, "
        "`offset` BIGINT, UNIQUE (group_id, topic, `partition`)) COLLATE utf8mb4_bin"
    )
    store = SqlOffsetStore(mariadb_server.url(), TableLayout(table))
    assert store.write_offsets({"g": new({("t", 0): 1}), "G": new({("t", 0): 1})}) == ()
    with failing(ProblemKind.UNREADABLE, "to tell 'g' from 'g '; its collation utf8mb4_bin"):
        store.write_offsets({"g ": new({("t", 0): 1})})


def test_a_character_set_that_lacks_characters(mariadb_server: MariaDb, table: str) -> None:
    mariadb_server.run(
        f"CREATE TABLE {table} (group_id VARCHAR(99), topic VARCHAR(99), `partition` INT, "
        "`offset` BIGINT, UNIQUE (group_id, topic, `partition`)) "
        "CHARACTER SET utf8mb3 COLLATE utf8mb3_bin"
    )
    store = SqlOffsetStore(mariadb_server.url(), TableLayout(table))
    with failing(ProblemKind.UNREADABLE, "the character set utf8mb3 can hold; found '😀'"):
        store.write_offsets({"é": new({("t", 0): 1}), "😀": new({("t", 0): 1})})
    assert rows(mariadb_server, table) == []
    assert store.write_offsets({"é": new({("t", 0): 1})}) == ()


def test_a_table_without_transactions(mariadb_server: MariaDb, table: str) -> None:
    mariadb_server.run(
        f"CREATE TABLE {table} (group_id VARCHAR(99), topic VARCHAR(99), `partition` INT, "
        "`offset` BIGINT, UNIQUE (group_id, topic, `partition`)) ENGINE=MyISAM"
    )
    store = SqlOffsetStore(mariadb_server.url(), TableLayout(table))
    with failing(ProblemKind.UNREADABLE, "found one of MyISAM, .* ALTER TABLE … ENGINE=InnoDB"):
        store.write_offsets({"g": new({("t", 0): 1})})


def test_two_writers_at_once_count_every_step(server: SqlServer, table: str) -> None:
    """Each adds one to what it has read; none of these is lost."""
    made(server, table).write_offsets({"g": new({("t", 0): 0})})
    steps = 10

    def count(_: int) -> None:
        own = SqlOffsetStore(server.url(), TableLayout(table))
        done = 0
        while done < steps:
            now = own.read_offsets(["g"]).offsets["g"][0].committed_offset
            done += not own.write_offsets({"g": [change("t", 0, now, now + 1)]})

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(count, range(2)))
    assert rows(server, table) == [("g", "t", 0, 2 * steps)]


def test_two_imports_at_once_write_each_group_once(server: SqlServer, table: str) -> None:
    """They insert the same new groups, again and again, in one order or the other."""
    store = made(server, table)
    for attempt in range(4):
        start = threading.Barrier(2)

        def run(
            offset: int, attempt: int = attempt, start: threading.Barrier = start
        ) -> frozenset[str | None]:
            offsets = {("t", p): offset for p in range(3)}
            groups = {f"{attempt}-{number}": new(offsets) for number in range(50)}
            own = SqlOffsetStore(server.url(), TableLayout(table))
            start.wait()
            return frozenset(problem.group_id for problem in own.write_offsets(groups))

        with ThreadPoolExecutor(2) as pool:
            left_out = list(pool.map(run, (1, 2)))
        stored = store.read_offsets().offsets
        for number in range(50):
            group = f"{attempt}-{number}"
            assert sum(group in each for each in left_out) == 1
            winner = 2 if group in left_out[0] else 1
            assert [offset.committed_offset for offset in stored[group]] == [winner] * 3


def test_two_claims_at_once(server: SqlServer, table: str) -> None:
    layout = TableLayout(table, generation="generation")
    SqlOffsetStore(server.url(), layout).create_table()
    partitions = [("t", number) for number in range(10)]
    start = threading.Barrier(2)

    def claim(generation: int) -> bool:
        own = OffsetStore(server.url(), layout)
        start.wait()
        try:
            own.claim("g", partitions, generation)
        except FencedError:
            return False
        return True

    with ThreadPoolExecutor(2) as pool:
        assert list(pool.map(claim, (1, 2)))[1]
    assert {row[4] for row in rows(server, table)} == {2}
    store = OffsetStore(server.url(), layout)
    store.save("g", {("t", 0): 500}, generation=2)
    with pytest.raises(FencedError, match="up to 1, found generation 2"):
        store.save("g", {("t", 1): 7, ("t", 0): 7}, generation=1)
    assert store.load("g", partitions) == {("t", 0): 500}


def test_an_older_claim_comes_while_a_younger_one_looks(
    postgresql_server: PostgreSql, table: str
) -> None:  # MariaDB locks what is not there yet
    url = postgresql_server.url()
    layout = TableLayout(table, generation="generation")
    SqlOffsetStore(url, layout).create_table()
    older = OffsetStore(url, layout)
    engine = create_engine(url.replace("postgresql:", "postgresql+psycopg:"))

    came: list[dict[tuple[str, int], int]] = []

    def come(*event: Any) -> None:
        if event[2].startswith("SELECT coalesce") and not came:
            came.append(older.claim("g", [("t", 0)], 1))

    listen(engine, "before_cursor_execute", come)
    OffsetStore(engine, layout).claim("g", [("t", 0)], 2)
    engine.dispose()
    assert came == [{}]
    assert {row[4] for row in rows(postgresql_server, table)} == {2}
    with pytest.raises(FencedError, match="up to 1, found generation 2"):
        older.claim("g", [("t", 0)], 1)


def test_a_younger_claim_comes_while_an_older_one_stores(
    postgresql_server: PostgreSql, table: str
) -> None:
    """The row is not there when rows are locked, and is claimed before they are looked at."""
    url = postgresql_server.url()
    layout = TableLayout(table, generation="generation")
    SqlOffsetStore(url, layout).create_table()
    driver_url = url.replace("postgresql:", "postgresql+psycopg:")
    engine = create_engine(driver_url)
    impatient = create_engine(driver_url, connect_args={"options": "-c lock_timeout=100"})
    younger = OffsetStore(impatient, layout)

    came: list[int] = []

    def come(*event: Any) -> None:
        if event[2].startswith("SELECT coalesce") and not came:
            came.append(1)
            OffsetStore(url, layout).claim("g", [("t", 0)], 1)
        elif event[2].startswith("UPDATE") and came == [1]:
            came.append(2)
            with pytest.raises(OperationalError, match="lock timeout"):
                younger.claim("g", [("t", 0)], 2)

    listen(engine, "before_cursor_execute", come)
    OffsetStore(engine, layout).save("g", {("t", 0): 7}, generation=1)
    engine.dispose()
    assert came == [1, 2]
    assert younger.claim("g", [("t", 0)], 2) == {("t", 0): 7}
    impatient.dispose()


@pytest.mark.parametrize("kind", ["postgresql", "mariadb"])
@pytest.mark.parametrize("killed", ["server", "writer"])
def test_killed_in_the_middle_of_an_import(kind: str, killed: str) -> None:
    """Nothing half-written; the rerun completes."""
    writer = (
        "import sys\n"
        "from tests.source.sql.big_import import write_slowly\n"
        "write_slowly(sys.argv[1], 2000)\n"
    )
    with ExitStack() as stack:
        made_by = postgresql if kind == "postgresql" else mariadb
        server: SqlServer = stack.enter_context(made_by())
        store = made(server, "t_offset")
        store.write_offsets({"old": new({("t", 0): 1})})
        process = subprocess.Popen(
            [sys.executable, "-c", writer, server.url()], stdout=subprocess.PIPE, text=True
        )
        stack.callback(process.wait)
        stack.callback(process.kill)
        assert process.stdout is not None
        stack.callback(process.stdout.close)
        assert process.stdout.readline() == "half\n"
        if killed == "writer":
            process.kill()
            process.wait()
        else:
            server.kill()
            with failing(ProblemKind.UNREACHABLE, "expected a database server that takes"):
                store.read_offsets()
            server.start()
        assert list(store.read_offsets().offsets) == ["old"]
        assert store.write_offsets(import_of(2000)) == ()
        assert len(store.read_offsets().offsets) == 2001


def test_who_may_not(server: SqlServer, table: str) -> None:
    store = made(server, table)

    def read(url: str) -> None:
        SqlOffsetStore(url, TableLayout(table), timeout_s=5).read_offsets()

    with failing(ProblemKind.REFUSED, "expected a user and a password that the server accepts"):
        read(server.url("kgroup:wrong-password"))
    with failing(ProblemKind.REFUSED, "expected a user and a password that the server accepts"):
        read(server.url("nobody-we-know:x"))
    with pytest.raises(KgroupError, match=r"expected (a database of this name|permission for it)"):
        read(server.url(database="nothing"))
    with failing(ProblemKind.UNREADABLE, "expected a database of this name"):
        read(server.admin_url("nothing"))
    if isinstance(server, PostgreSql):
        server.run("CREATE USER reader PASSWORD 'x'", url=server.admin_url())
        server.run(f"GRANT SELECT ON {table} TO reader")
    else:
        server.run(
            "CREATE USER reader@'127.0.0.1' IDENTIFIED BY 'x'",
            f"GRANT SELECT ON app.{table} TO reader@'127.0.0.1'",
            url=server.admin_url(),
        )
    store.write_offsets({"g": new({("t", 0): 1})})
    reader = SqlOffsetStore(server.url("reader:x"), TableLayout(table))
    assert list(reader.read_offsets().offsets) == ["g"]
    with failing(ProblemKind.DENIED, "expected permission for it"):
        reader.write_offsets({"g": [change("t", 0, 1, 2)]})
    with failing(ProblemKind.DENIED, "expected permission for it"):
        SqlOffsetStore(server.url("reader:x"), TableLayout("t_new")).create_table()


def test_locked_rows_are_waited_for_no_longer_than_the_timeout(
    server: SqlServer, table: str
) -> None:
    store = made(server, table)
    store.write_offsets({"g": new({("t", 0): 1})})
    hasty = SqlOffsetStore(server.url(), TableLayout(table), timeout_s=1)
    engine = create_engine(store.address.url)
    with engine.begin() as other:
        other.exec_driver_sql(f"SELECT * FROM {table} FOR UPDATE")
        with failing(ProblemKind.BUSY, "another process has it locked for longer than --timeout"):
            hasty.write_offsets({"g": [change("t", 0, 1, 2)]})
    engine.dispose()
    assert hasty.write_offsets({"g": [change("t", 0, 1, 2)]}) == ()


@pytest.mark.parametrize("scheme", ["postgresql", "mysql"])
def test_a_server_that_is_silent(scheme: str) -> None:
    with socket.create_server((HOST, 0)) as listening:
        port = listening.getsockname()[1]
        store = SqlOffsetStore(
            f"{scheme}://u:{PASSWORD.encode().hex()}@{HOST}:{port}/d", timeout_s=1
        )
        with failing(ProblemKind.SILENT, "expected an answer within --timeout"):
            store.read_offsets()
