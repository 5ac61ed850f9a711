"""The store on SQLite: what is read, what is written, and what is left as it is."""

from __future__ import annotations

import datetime
import os
import signal
import sqlite3
import subprocess
import sys
import threading
import uuid
from collections.abc import Iterator
from contextlib import closing, contextmanager
from decimal import Decimal
from pathlib import Path
from typing import Any, cast

import pytest
from sqlalchemy import Connection, Select, event, make_url
from sqlalchemy.exc import OperationalError

from kgroup.errors import BrokerError, InputError, ProblemKind, UsageError
from kgroup.model.offset import CommittedOffset, OffsetChange
from kgroup.model.pattern import parse_regex
from kgroup.model.problem import ProblemLog
from kgroup.source.base import GroupSource
from kgroup.source.sql import engine
from kgroup.source.sql.layout import TableLayout
from kgroup.source.sql.store import MOST_CHARACTERS, SqlOffsetStore, read_rows, select_rows
from kgroup.source.sql.table import sql_table
from tests.source.sql.stored import change, execute, new, query
from tests.waiting import until

EVERY_COLUMN = TableLayout(
    metadata="metadata", leader_epoch="leader_epoch", updated_at="updated_at"
)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "offsets.db"


@pytest.fixture
def store(file: Path) -> SqlOffsetStore:
    store = SqlOffsetStore(str(file))
    store.create_table()
    return store


def test_it_is_a_store_that_can_be_written(store: SqlOffsetStore) -> None:
    assert store.can(GroupSource.read_offsets)
    assert store.can(GroupSource.write_offsets)
    assert not store.can(GroupSource.read)


def test_what_is_written_is_in_the_table_and_is_read(store: SqlOffsetStore, file: Path) -> None:
    assert store.write_offsets({"b": new({("t", 10): 5, ("t", 9): 2**63 - 1}), "a": []}) == ()
    assert query(file) == [("b", "t", 9, 2**63 - 1), ("b", "t", 10, 5)]
    reading = store.read_offsets()
    assert reading.problems == ()
    assert reading.offsets == {
        "b": (CommittedOffset("t", 9, 2**63 - 1), CommittedOffset("t", 10, 5))
    }


def test_groups_are_asked_for_by_id_and_by_regex(store: SqlOffsetStore) -> None:
    groups = ("g-1", "g-2", "G-1", "other", "g-1 ")
    store.write_offsets({group: new({("t", 0): 1}) for group in groups})
    asked = [
        (None, None, sorted(groups)),
        (["g-1", "none"], None, ["g-1"]),
        (None, parse_regex("g-."), ["g-1", "g-2"]),
        (["other"], parse_regex("g-2"), ["g-2", "other"]),
        ([], None, []),
    ]
    for ids, regex, expected in asked:
        assert list(store.read_offsets(ids, regex).offsets) == expected


def test_more_groups_than_a_statement_names(store: SqlOffsetStore) -> None:
    groups = [f"group-{number}" for number in range(1201)]
    assert store.write_offsets({group: new({("t", 0): 1}) for group in groups}) == ()
    assert set(store.read_offsets(groups).offsets) == set(groups)


def test_a_group_that_differs_is_left_out_as_a_whole(store: SqlOffsetStore, file: Path) -> None:
    store.write_offsets({"a": new({("t", 0): 1, ("t", 1): 1}), "b": new({("t", 0): 1})})
    problems = store.write_offsets(
        {
            "a": [change("t", 0, 1, 7), change("t", 1, 2, 7), change("t", 2, 4, None)],
            "b": [change("t", 0, 1, 7), change("t", 1, None, 8)],
            "c": [change("t", 3, 5, 7)],
        }
    )
    assert query(file) == [("a", "t", 0, 1), ("a", "t", 1, 1), ("b", "t", 0, 7), ("b", "t", 1, 8)]
    assert [(p.kind, p.group_id, p.topic) for p in problems] == [
        (ProblemKind.CHANGED, "a", None),
        (ProblemKind.CHANGED, "c", None),
    ]
    assert "t-1: expected offset 2, found offset 1 (and 1 more)" in problems[0].reason
    assert "t-3: expected offset 5, found no offset" in problems[1].reason


def test_a_row_that_was_expected_absent_and_is_there_is_kept(
    store: SqlOffsetStore, file: Path
) -> None:
    store.write_offsets({"a": new({("t", 0): 1})})
    (problem,) = store.write_offsets({"a": new({("t", 0): 9})})
    assert "expected no offset, found offset 1" in problem.reason
    assert query(file) == [("a", "t", 0, 1)]


def test_nothing_after_deletes_the_row(store: SqlOffsetStore, file: Path) -> None:
    store.write_offsets({"a": new({("t", 0): 1, ("t", 1): 1})})
    changes = [change("t", 0, 1, None), change("t", 5, None, None), change("t", 1, 1, 1)]
    assert store.write_offsets({"a": changes}) == ()
    assert query(file) == [("a", "t", 1, 1)]


def test_all_columns(file: Path) -> None:
    store = SqlOffsetStore(f"sqlite:///{file}", EVERY_COLUMN)
    store.create_table()
    full = CommittedOffset("t", 0, 5, 3, "näh 🜚", 1_700_000_000_123)
    bare = CommittedOffset("t", 1, 6)
    changes = [OffsetChange("t", 0, None, full), OffsetChange("t", 1, None, bare)]
    assert store.write_offsets({"g": changes}) == ()
    rows = query(file)
    assert rows[0] == ("g", "t", 0, 5, "näh 🜚", 3, 1_700_000_000_123)
    assert rows[1][:6] == ("g", "t", 1, 6, None, None)
    assert rows[1][6] > 1_700_000_000_123  # the time of writing
    assert store.read_offsets().offsets["g"][0] == full
    other = CommittedOffset("t", 0, 5, 4, "näh 🜚", 1)
    (problem,) = store.write_offsets({"g": [OffsetChange("t", 0, other, None)]})
    assert "t-0: expected leader epoch 4, found 3" in problem.reason


@pytest.mark.parametrize("name", ["partition", "group", 'a"b', "order by", "%s", ":x", "ä b"])
def test_any_name_of_table_and_columns(name: str, file: Path) -> None:
    layout = TableLayout(
        name, "main", name, f"{name}2", f"{name}3", f"{name}4", f"{name}5", f"{name}6", f"{name}7"
    )
    store = SqlOffsetStore(str(file), layout)
    store.create_table()
    store.create_table()
    assert store.write_offsets({"g": new({("t", 0): 1})}) == ()
    assert store.write_offsets({"g": [change("t", 0, 1, 2), change("t", 1, None, 3)]}) == ()
    assert [o.committed_offset for o in store.read_offsets().offsets["g"]] == [2, 3]
    assert store.write_offsets({"g": [change("t", 0, 2, None), change("t", 1, 3, None)]}) == ()
    assert store.read_offsets().offsets == {}


def test_any_id(store: SqlOffsetStore) -> None:
    groups = ["", " ", "g", "g ", "G", "ß", "SS", "é", "é", "\0", "a\nb", "😀" * 3, "x" * 32767]
    changes = {group: new({(group, 0): index}) for index, group in enumerate(groups)}
    assert store.write_offsets(changes) == ()
    stored = store.read_offsets(groups).offsets
    assert {group: stored[group][0].committed_offset for group in groups} == {
        group: index for index, group in enumerate(groups)
    }


def test_ids_that_are_no_unicode_are_an_error_before_anything(
    store: SqlOffsetStore, file: Path
) -> None:
    with pytest.raises(InputError, match="half of a surrogate pair in 'a\\\\ud800'") as caught:
        store.write_offsets({"fine": new({("t", 0): 1}), "a\ud800": new({("t", 0): 1})})
    assert caught.value.group_id == "a\ud800"
    assert query(file) == []


def test_one_partition_is_changed_once(store: SqlOffsetStore) -> None:
    with pytest.raises(InputError, match="expected one change of each partition, found two of t-0"):
        store.write_offsets({"g": [change("t", 0, None, 1), change("t", 0, None, 2)]})


def test_rows_that_are_no_offsets_are_problems(store: SqlOffsetStore, file: Path) -> None:
    execute(
        file,
        "INSERT INTO t_offset VALUES ('g','t',0,'x'),('g','t',1,-1),('g','t',2,1.5),('g','t',-1,1),"
        "('g','t',3,7),(x'00','t',0,1)",
    )
    reading = store.read_offsets()
    assert reading.offsets == {"g": (CommittedOffset("t", 3, 7),)}
    assert len(reading.problems) == 5
    assert {problem.kind for problem in reading.problems} == {ProblemKind.UNUSABLE}
    assert any("as offset, found 'x'" in problem.reason for problem in reading.problems)
    (problem,) = store.write_offsets({"g": [change("t", 0, None, 5)]})
    assert problem.kind is ProblemKind.CHANGED
    assert problem.reason == "t-0: expected an offset, found a row that is none."
    assert ("g", "t", 0, "x") in query(file)


def test_a_table_that_is_missing(file: Path) -> None:
    store = SqlOffsetStore(str(file))
    for call in (store.read_offsets, lambda: store.write_offsets({})):
        with pytest.raises(InputError, match="found no such file; correct the path"):
            call()
    assert not file.exists()
    execute(file, "CREATE TABLE other (x)")
    with pytest.raises(
        InputError, match="expected the table t_offset, found none; have a change make it"
    ):
        store.read_offsets()


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ("group_id TEXT, topic TEXT, part INT", "a column partition and offset; it has group_id"),
        (
            'group_id TEXT, topic TEXT, partition INT, "offset" INT',
            r'found none: two .* CREATE UNIQUE INDEX "t_offset_key" ON "t_offset" '
            r'\("group_id", "topic", "partition"\)',
        ),
        (
            'group_id TEXT, topic TEXT, partition INT, "offset" INT, UNIQUE (group_id, topic)',
            "expected a unique key",
        ),
        (
            'group_id INT, topic TEXT, partition INT, "offset" INT, '
            "UNIQUE (group_id, topic, partition)",
            "expected column group_id to hold texts as they are .* found INTEGER",
        ),
        (
            'group_id TEXT, topic TEXT, partition INT, "offset" TEXT, '
            "UNIQUE (group_id, topic, partition)",
            "expected column offset to hold whole numbers .* found TEXT",
        ),
        (
            'group_id, topic STRING, partition INT, "offset" INT, '
            "UNIQUE (group_id, topic, partition)",
            "expected column group_id to hold texts as they are",
        ),
        (
            'group_id TEXT, topic TEXT, partition INT, "offset" INT, x TEXT NOT NULL, '
            "UNIQUE (group_id, topic, partition)",
            "found x: kgroup does not know what to write",
        ),
    ],
)
def test_tables_that_cannot_be_written(columns: str, message: str, file: Path) -> None:
    execute(file, f"CREATE TABLE t_offset ({columns})")
    store = SqlOffsetStore(str(file))
    for call in (lambda: store.write_offsets({"g": new({("t", 0): 1})}), store.create_table):
        with pytest.raises(InputError, match=message):
            call()
    assert query(file) == []


def test_the_statement_that_is_said_makes_the_key(file: Path) -> None:
    execute(file, 'CREATE TABLE t_offset (group_id TEXT, topic TEXT, partition INT, "offset" INT)')
    store = SqlOffsetStore(str(file))
    with pytest.raises(InputError) as caught:
        store.write_offsets({})
    execute(file, str(caught.value).split("Add it: ")[1])
    assert store.write_offsets({"g": new({("t", 0): 1})}) == ()


def test_a_key_of_some_rows_is_none(file: Path) -> None:
    execute(
        file,
        'CREATE TABLE t_offset (group_id TEXT, topic TEXT, partition INT, "offset" INT)',
        "CREATE UNIQUE INDEX k ON t_offset (group_id, topic, partition) WHERE partition > 5",
    )
    with pytest.raises(InputError, match="expected a unique key"):
        SqlOffsetStore(str(file)).write_offsets({})


def test_a_table_of_somebody_else(file: Path) -> None:
    execute(
        file,
        "CREATE TABLE t_offset (id INTEGER PRIMARY KEY, GROUP_ID VARCHAR(3), topic TEXT NOT NULL, "
        "partition SMALLINT, \"offset\" INT, note TEXT DEFAULT 'x')",
        "CREATE UNIQUE INDEX k ON t_offset (topic, partition, group_id)",
    )
    store = SqlOffsetStore(str(file))
    assert store.write_offsets({"longer": new({("t", 70_000): 2**62})}) == ()
    assert query(file) == [(1, "longer", "t", 70_000, 2**62, "x")]
    assert store.write_offsets({"longer": [change("t", 70_000, 2**62, 1)]}) == ()
    assert query(file) == [(1, "longer", "t", 70_000, 1, "x")]


def test_ids_that_a_collation_takes_for_one(file: Path) -> None:
    execute(
        file,
        "CREATE TABLE t_offset (group_id TEXT COLLATE NOCASE, topic TEXT COLLATE RTRIM, "
        'partition INT, "offset" INT, PRIMARY KEY (group_id, topic, partition))',
    )
    store = SqlOffsetStore(str(file))
    assert store.write_offsets({"Group": new({("t", 0): 1}), "other": new({("t", 0): 1})}) == ()
    for changes, a, b in (
        ({"group": new({("u", 0): 1})}, "'Group'", "'group'"),
        ({"x": new({("t", 0): 1, ("t ", 1): 1})}, "'t'", "'t '"),
        ({"Y": new({("t", 0): 1}), "y": new({("t", 0): 1})}, "'Y'", "'y'"),
    ):
        with pytest.raises(InputError, match=f"to tell {a} from {b}; its collation"):
            store.write_offsets(changes)
    assert len(query(file)) == 2
    assert list(store.read_offsets(["group", "OTHER", "other"]).offsets) == ["other"]
    with pytest.raises(InputError, match="to tell 'Group' from 'group'; its collation"):
        store.write_offsets({"group": [change("t", 0, 1, None)]})
    assert len(query(file)) == 2


def test_a_column_that_compares_otherwise_than_the_key(file: Path) -> None:
    execute(
        file,
        "CREATE TABLE t_offset (group_id TEXT COLLATE NOCASE, topic TEXT, partition INT, "
        '"offset" INT)',
        "CREATE UNIQUE INDEX k ON t_offset (group_id COLLATE BINARY, topic, partition)",
    )
    store = SqlOffsetStore(str(file))
    assert store.write_offsets({"a": new({("t", 0): 1}), "A": new({("t", 0): 2})}) == ()
    assert store.write_offsets({"a": [change("t", 0, 1, 7)]}) == ()
    assert sorted(query(file)) == [("A", "t", 0, 2), ("a", "t", 0, 7)]
    assert store.write_offsets({"A": [change("t", 0, 2, None)]}) == ()
    assert query(file) == [("a", "t", 0, 7)]


def test_two_writers_at_once_count_every_step(store: SqlOffsetStore, file: Path) -> None:
    """Each adds one to what it has read; none of these is lost."""
    store.write_offsets({"g": new({("t", 0): 0})})
    steps = 25

    def count() -> None:
        own = SqlOffsetStore(str(file))
        done = 0
        while done < steps:
            now = own.read_offsets(["g"]).offsets["g"][0].committed_offset
            done += not own.write_offsets({"g": [change("t", 0, now, now + 1)]})

    threads = [threading.Thread(target=count) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert query(file) == [("g", "t", 0, 2 * steps)]


def test_a_killed_writer_leaves_nothing_half_written(store: SqlOffsetStore, file: Path) -> None:
    store.write_offsets({"old": new({("t", 0): 1})})
    writer = (
        "import sys, sqlite3\n"
        "from tests.source.sql.big_import import write_slowly\n"
        "write_slowly(sys.argv[1])\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", writer, str(file)], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "half\n"
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    process.stdout.close()
    assert query(file) == [("old", "t", 0, 1)]
    changes = {f"g{number}": new({("t", 0): number}) for number in range(1000)}
    assert store.write_offsets(changes) == ()
    assert len(query(file)) == 1001


def test_an_error_in_the_middle_takes_everything_back(file: Path) -> None:
    execute(
        file,
        'CREATE TABLE t_offset (group_id TEXT, topic TEXT, partition INT, "offset" INT '
        'CHECK ("offset" < 100), PRIMARY KEY (group_id, topic, partition))',
        "INSERT INTO t_offset VALUES ('a', 't', 0, 1), ('b', 't', 0, 1)",
    )
    with pytest.raises(InputError, match=r"values that fit .* CHECK constraint failed"):
        SqlOffsetStore(str(file)).write_offsets(
            {
                "a": [change("t", 0, 1, 7)],
                "b": [change("t", 0, 1, None)],
                "c": new({("t", 0): 5, ("t", 1): 100}),
            }
        )
    assert query(file) == [("a", "t", 0, 1), ("b", "t", 0, 1)]


def test_the_file_is_locked_no_longer_than_the_timeout(store: SqlOffsetStore, file: Path) -> None:
    hasty = SqlOffsetStore(str(file), timeout_s=0.05)
    with closing(sqlite3.connect(file, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(Exception, match="another process has it locked") as caught:
            hasty.write_offsets({"g": new({("t", 0): 1})})
        assert getattr(caught.value, "kind", None) is ProblemKind.BUSY
        assert hasty.read_offsets().offsets == {}
        other.execute("ROLLBACK")
    assert hasty.write_offsets({"g": new({("t", 0): 1})}) == ()


def test_a_writer_waits_for_another(store: SqlOffsetStore, file: Path) -> None:
    with closing(sqlite3.connect(file, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        other.execute("INSERT INTO t_offset VALUES ('g', 't', 0, 3)")
        problems: list[object] = []
        thread = threading.Thread(
            target=lambda: problems.extend(store.write_offsets({"g": new({("t", 0): 1})}))
        )
        thread.start()
        other.execute("COMMIT")
    thread.join()
    assert len(problems) == 1
    assert query(file) == [("g", "t", 0, 3)]
    assert until(lambda: not thread.is_alive())


@pytest.mark.parametrize("is_at_the_end", [False, True])
def test_a_server_that_is_lost_when_all_is_to_be_kept_may_have_kept_it(
    store: SqlOffsetStore, monkeypatch: pytest.MonkeyPatch, is_at_the_end: bool
) -> None:
    """2013 is MySQL's number of it: "Lost connection to MySQL server during query"."""
    lost = OperationalError("", None, Exception(2013, "Lost connection"))

    @contextmanager
    def transaction(opened: Any, *, write: bool = False) -> Iterator[Any]:
        with engine.transaction(opened, write=write) as connection:
            if write and not is_at_the_end:
                raise lost
            yield connection
        if write:
            raise lost

    monkeypatch.setattr("kgroup.source.sql.store.transaction", transaction)
    with pytest.raises(BrokerError, match="Lost connection") as caught:
        store.write_offsets({"g": new({("t", 0): 1})})
    assert caught.value.kind is ProblemKind.DISCONNECTED
    assert caught.value.was_sent is is_at_the_end
    assert (store.read_offsets().offsets != {}) is is_at_the_end


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (
            b"no database at all, but long enough to be taken for one" * 20,
            "database of SQLite, found",
        ),
        (None, "expected a file that may be opened"),
    ],
)
def test_files_that_are_no_database(content: bytes | None, message: str, file: Path) -> None:
    if content is None:
        file.mkdir()
    else:
        file.write_bytes(content)
    with pytest.raises(InputError, match=message) as caught:
        SqlOffsetStore(str(file)).read_offsets()
    assert caught.value.path == str(file)


def test_a_database_that_may_only_be_read(store: SqlOffsetStore, file: Path) -> None:
    store.write_offsets({"g": new({("t", 0): 1})})
    only_read = SqlOffsetStore(f"sqlite:///{file}?mode=ro")
    assert list(only_read.read_offsets().offsets) == ["g"]
    with pytest.raises(Exception, match="that may be written, found a read-only one") as caught:
        only_read.write_offsets({"g": [change("t", 0, 1, 2)]})
    assert getattr(caught.value, "kind", None) is ProblemKind.DENIED


def test_claimed_rows_without_an_offset_are_nothing(file: Path) -> None:
    store = SqlOffsetStore(str(file), TableLayout(generation="generation"))
    store.create_table()
    execute(file, "INSERT INTO t_offset VALUES ('g', 't', 0, NULL, 7), ('g', 't', 1, 5, 7)")
    assert store.read_offsets().offsets == {"g": (CommittedOffset("t", 1, 5),)}
    assert store.write_offsets({"g": [change("t", 0, None, 4), change("t", 1, 5, 6)]}) == ()
    assert query(file) == [("g", "t", 0, 4, 7), ("g", "t", 1, 6, 7)]


def test_a_claim_stays_where_nothing_shall_be(file: Path) -> None:
    store = SqlOffsetStore(str(file), TableLayout(generation="generation"))
    store.create_table()
    execute(file, "INSERT INTO t_offset VALUES ('g', 't', 0, NULL, 7)")
    assert store.write_offsets({"g": [change("t", 0, None, None)]}) == ()
    assert query(file) == [("g", "t", 0, None, 7)]


def test_metadata_that_a_table_does_not_keep_was_not_read_from_it(
    store: SqlOffsetStore, file: Path
) -> None:
    store.write_offsets({"g": new({("t", 0): 5})})
    elsewhere = CommittedOffset("t", 0, 5, 3, "metadata", 1_700_000_000_123)
    changes = [OffsetChange("t", 0, elsewhere, CommittedOffset("t", 0, 6))]
    (problem,) = store.write_offsets({"g": changes})
    assert problem.kind is ProblemKind.CHANGED
    assert query(file) == [("g", "t", 0, 5)]


@pytest.mark.parametrize(
    ("names", "message"),
    [
        ({"offset": "topic"}, "found 'topic' for both topic and offset"),
        ({"offset": "TOPIC"}, "for both topic and offset"),
        ({"metadata": ""}, "metadata: expected a name in the database, found ''"),
        ({"table": "a\0"}, "table: expected a name"),
    ],
)
def test_names_that_are_none(names: dict[str, str], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        TableLayout(**names)


# ---- values of rows that are no offsets, whatever a driver makes of a column, and its own errors


ROLES = ("group_id", "topic", "partition", "offset", "metadata", "leader_epoch", "updated_at")
SOUND = ("g", "t", 0, 7, "", 1, 1_700_000_000_000)
STRANGE = (
    datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC),
    datetime.timedelta(1),
    Decimal("NaN"),
    Decimal("Infinity"),
    Decimal("1E+1000000"),
    Decimal("0.5"),
    uuid.UUID(int=1),
    [1],
    {"a": 1},
    b"x",
    memoryview(b"x"),
    float("nan"),
)
"""What psycopg and PyMySQL make of timestamps, intervals, numeric, uuid, arrays, json, bytea."""


@pytest.mark.parametrize("value", STRANGE, ids=lambda value: type(value).__name__)
@pytest.mark.parametrize("role", ROLES)
def test_a_strange_value_is_a_problem_of_its_row(role: str, value: object) -> None:
    at = ROLES.index(role)
    row = (*SOUND[:at], value, *SOUND[at + 1 :])
    for wanted in (None, {"g"}):
        problems = ProblemLog()
        rows = read_rows([row, SOUND], ROLES, wanted, "table t", problems)
        assert [*rows.offsets] == ["g"]
        kinds = [problem.kind for problem in problems.problems()]
        is_other = wanted is not None and role == "group_id"
        assert kinds == ([] if is_other else [ProblemKind.UNUSABLE])


def test_whole_decimals_are_numbers() -> None:
    """As NUMERIC columns give them."""
    row = ("g", "t", Decimal(0), Decimal(7), "", Decimal(1), Decimal(1_700_000_000_000))
    problems = ProblemLog()
    rows = read_rows([row], ROLES, None, "table t", problems)
    assert (problems.problems(), rows.offsets["g"]["t", 0]) == (
        (),
        CommittedOffset(*SOUND[1:3], 7, 1, "", SOUND[6]),
    )
    assert type(rows.offsets["g"]["t", 0].leader_epoch) is int


@pytest.mark.parametrize("role", ["group_id", "topic", "metadata"])
def test_a_text_that_is_too_long_is_not_repeated(role: str) -> None:
    at = ROLES.index(role)
    row = (*SOUND[:at], "x" * (MOST_CHARACTERS + 1), *SOUND[at + 1 :])
    problems = ProblemLog()
    read_rows([row], ROLES, None, "table t", problems)
    (problem,) = problems.problems()
    assert f"expected at most 1,048,576 characters as {role}" in problem.reason
    assert len(problem.reason) < 1_000


def test_an_error_that_is_not_of_the_drivers_class_is_named(tmp_path: Path) -> None:
    file = tmp_path / "offsets.db"
    with sqlite3.connect(file) as connection:
        connection.execute(
            "CREATE TABLE t_offset (group_id TEXT, topic TEXT, partition INTEGER, offset INTEGER)"
        )
        connection.execute("INSERT INTO t_offset VALUES ('g', 'spoiled', 0, 1)")
    connection.close()
    store = SqlOffsetStore(str(file))

    def decode(data: bytes) -> str:
        if data == b"spoiled":
            raise OverflowError("date value out of range")
        return data.decode()

    @event.listens_for(store._engine, "connect")
    def spoil(connection: sqlite3.Connection, record: object) -> None:
        connection.text_factory = decode

    with pytest.raises(BrokerError, match="OverflowError: date value out of range") as raised:
        store.read_offsets(["g"])
    assert raised.value.kind is ProblemKind.FAILED


# ---- statements on many rows, as they are sent


class Sent:
    """A connection that keeps statements."""

    def __init__(self) -> None:
        self.statements: list[Select[Any]] = []

    def execute(self, statement: Select[Any]) -> Sent:
        self.statements.append(statement)
        return self

    def all(self) -> list[object]:
        return []


@pytest.mark.parametrize("database", ["postgresql", "mysql"])
@pytest.mark.parametrize("lock", [False, True])
def test_rows_that_will_be_written_are_locked_in_one_order(database: str, lock: bool) -> None:
    """So that nobody writes between comparing and writing, and two writers never wait in a ring."""
    dialect = make_url(f"{database}://").get_dialect()()
    sent = Sent()
    names = [f"group-{number:04}" for number in range(1000)]
    table = sql_table(TableLayout())
    assert list(select_rows(cast("Connection", sent), table, names, lock=lock)) == []
    assert len(sent.statements) == 2
    for statement in sent.statements:
        text = str(statement.compile(dialect=dialect))
        assert text.endswith("FOR UPDATE") is lock
        ordered = text.partition("ORDER BY ")[2].replace("`", '"')
        columns = [f't_offset"."{name}"' for name in ("group_id", "topic", "partition")]
        assert all(name in ordered for name in columns) is lock
