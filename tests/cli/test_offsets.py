"""`kgroup offsets` and `kgroup members` on recorded data and files."""

from __future__ import annotations

import json
import os
import shlex
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from kgroup.cli.option.execution import Execution
from kgroup.cli.option.store import StoreChoice as ChosenStore
from kgroup.cli.output.context import Output
from kgroup.errors import InputError, ProblemKind
from kgroup.model.log_range import LogRange, NextReading, Position
from kgroup.model.offset import OffsetChange
from kgroup.model.problem import Problem
from kgroup.operation.offsets.plan import OffsetPlan
from kgroup.operation.offsets.transfer import plan_transfer
from kgroup.source.sql.store import SqlOffsetStore
from tests.cli.command_line import Cli, Result
from tests.cli.commands import EVERY_COMMAND
from tests.operation.offset_stores import Cluster, Store
from tests.source.broker_answers import answering_broker, metadata, orders, topic

ORDERS = {0: 10, 1: 11, 2: 12, 3: 9, 4: 4, 5: 15}
"""What order-service has committed, as the sample's manifest says."""


def rows(result: Result) -> list[Any]:
    found: list[Any] = json.loads(result.out)["data"]
    return found


def test_show(cli: Cli) -> None:
    result = cli("offsets", "show", "--sample", "order-service", "-o", "json")
    assert (result.status, result.err) == (0, "")
    document = json.loads(result.out)
    assert (document["command"], document["schema_version"]) == ("offsets show", 1)
    assert {row["partition"]: row["committed_offset"] for row in rows(result)} == ORDERS
    assert {row["topic"] for row in rows(result)} == {"orders"}


def test_what_was_committed_at_a_time_is_a_file_of_offsets(cli: Cli, tmp_path: Path) -> None:
    file = tmp_path / "then.json"
    shown = cli("offsets", "show", "--sample", "ledger", "-o", "jsonl")
    then = cli("history", "as-of", "now", "ledger", "--sample", "-o", "json")
    file.write_text(then.out)
    assert cli("offsets", "show", "ledger", "--file", file, "-o", "jsonl").out == shown.out != ""
    back = cli("offsets", "reset", "ledger", "--sample", "--to-file", file, "-o", "json")
    lines = map(json.loads, shown.out.splitlines())
    expected = {row["partition"]: row["committed_offset"] for row in lines}
    assert {row["partition"]: row["target_offset"] for row in rows(back)} == expected
    undone = cli("offsets", "import", file, "--sample", "-o", "json")
    assert {row["partition"]: row["target_offset"] for row in rows(undone)} == expected


def test_what_is_exported_is_shown_the_same(cli: Cli, tmp_path: Path) -> None:
    everything = cli("offsets", "show", "--sample", "--all", "-o", "jsonl").out
    for name in ("all.json", "all.jsonl"):
        path = tmp_path / name
        assert cli("offsets", "export", "--sample", "--all", "-f", path).status == 0
        assert cli("offsets", "show", "--file", path, "--all", "-o", "jsonl").out == everything
        assert cli("offsets", "diff", "sample", path, "--all").status == 0
    path = tmp_path / "all.csv"
    assert cli("offsets", "export", "--sample", "--all", "-f", path).status == 0
    billing = json.loads(everything.splitlines()[0])["committed_offset"]
    assert path.read_text().splitlines()[0] == f"billing,invoices,0,{billing}"
    assert cli("offsets", "diff", "sample", path, "--all").status == 0


def test_kafka_s_csv_of_one_group_names_none(cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "plan"
    options = ["--format", "kafka-csv", "-f", path]
    assert cli("offsets", "export", "--sample", "order-service", *options).status == 0
    lines = [f"orders,{partition},{offset}" for partition, offset in ORDERS.items()]
    assert path.read_text() == "\n".join([*lines, ""])
    assert cli("offsets", "show", "--file", path, "order-service").status == 0
    shown = cli("offsets", "show", "--file", path, "--all")
    assert (shown.status, "name the group whose offsets these are" in shown.err) == (1, True)
    assert (
        cli("offsets", "export", "--sample", "--regex", "order-s.*", *options, "--force").status
        == 0
    )
    assert path.read_text() == "".join(f"order-service,{line}\n" for line in lines)


def test_what_a_file_is_called_tells_its_form(cli: Cli, tmp_path: Path) -> None:
    result = cli("offsets", "export", "--sample", "--all", "-f", tmp_path / "offsets.txt")
    assert result.status == 2
    assert "expected a name that ends in .csv, .json, .jsonl, or --format" in result.err
    assert list(tmp_path.iterdir()) == []


def test_nothing_is_written_where_there_is_nothing(cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "none.json"
    result = cli("offsets", "export", "--sample", "nosuch", "-f", path)
    assert (result.status, path.exists()) == (3, False)


def test_times_are_asked_of_each_cluster(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, Position]] = []

    class Named(Cluster):
        def __init__(self, bootstrap: list[str], **options: object) -> None:
            self.name = bootstrap[0]
            super().__init__({"g": {("t", 0): int(self.name[-1])}}, {})

        def __enter__(self) -> Named:
            return self

        def __exit__(self, *_: object) -> None:
            pass

        def next_records(
            self, positions: Collection[Position], *, committed: bool = False
        ) -> NextReading:
            asked.extend((self.name, position) for position in positions)
            return super().next_records(positions)

    monkeypatch.setattr("kgroup.source.broker.source.LiveCluster", Named)
    line = ["offsets", "diff", "kafka:h:1", "kafka:h:2", "--all", "--times"]
    assert cli(*line).status == 5
    assert asked == [("h:1", ("t", 0, 1)), ("h:2", ("t", 0, 2))]


def test_differences_end_with_5(cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "plan.csv"
    path.write_text("order-service,orders,0,10\norder-service,orders,1,7\n")
    result = cli("offsets", "diff", "sample", path, "--group", "order-service", "-o", "json")
    assert result.status == 5
    found = {row["partition"]: (row["second_offset"], row["difference"]) for row in rows(result)}
    assert found == {1: (7, -4), 2: (None, None), 3: (None, None), 4: (None, None), 5: (None, None)}


def test_a_plan_of_a_reset(cli: Cli) -> None:
    line = ["offsets", "reset", "--sample", "invoice-batch", "--to-offset", "9", "-o", "json"]
    result = cli(*line)
    assert result.status == 0
    assert result.err == (
        "kgroup: note: 3 partitions: 3 planned; 3 records skipped, 0 read again\n"
        "kgroup: note: nothing was changed, and --execute cannot change anything here: log "
        "directories, snapshots and files are read-only ('kgroup offsets export' writes files)\n"
    )
    assert [
        (row["committed_offset"], row["target_offset"], row["skipped"], row["result"])
        for row in rows(result)
    ] == [(8, 9, 1, "planned")] * 3


@pytest.mark.parametrize(
    ("goal", "target"), [("--to-offset 0", 0), ("--shift-by 0", 8), ("--shift-by -3", 5)]
)
def test_no_number_is_taken_for_none(cli: Cli, goal: str, target: int) -> None:
    result = cli("offsets", "reset", "--sample", "invoice-batch", *goal.split(), "-o", "json")
    assert [row["target_offset"] for row in rows(result)] == [target] * 3


def test_active_groups_are_refused(cli: Cli) -> None:
    result = cli("offsets", "reset", "--sample", "order-service", "--to-latest", "-o", "json")
    assert result.status == 4
    (error,) = json.loads(result.out)["errors"]
    assert (error["kind"], error["group_id"]) == ("active", "order-service")
    assert {row["result"] for row in rows(result)} == {"refused", "unchanged"}


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ("reset --sample g", "expected one of --to-earliest, --to-latest, --to-offset, --to"),
        ("reset --sample g --to-latest --to-offset 3", "found --to-latest and --to-offset"),
        ("reset --sample g --to-offset -3", "-3 is not in the range"),
        ("reset -b h:1 g --to-time -1", "expected epoch milliseconds (1700000000000), found '-1'"),
        ("reset -b h:1 g --to-time 0", "expected epoch milliseconds (1700000000000), found '0'"),
        ("reset --sample g --to-latest --topic :3", "expected TOPIC or TOPIC:0,2, found ':3'"),
        ("reset --sample g --to-latest --topic t:", "expected TOPIC or TOPIC:0,2, found 't:'"),
        ("reset --sample g --to-latest --topic t:a", "expected TOPIC or TOPIC:0,2, found 't:a'"),
        (
            "reset --sample g --to-latest --topic t:9999999999",
            "expected partitions below 2147483648",
        ),
        ("reset g --to-latest", "no source of groups given"),
        (
            "reset --sample --to-latest",
            "no groups selected: name groups, or use --regex RE or --all",
        ),
        ("reset --sample g --all --to-latest", "--all selects every group"),
        ("reset --sample invoice-batch --to-time 2h", "a reset to a time needs a live cluster"),
        (
            "reset --sample invoice-batch --to-offset 1 --execute",
            "--execute changes offsets of a cl",
        ),
        (
            "reset --sql o.db g --to-offset 1 --execute --backup -",
            "Invalid value for '--backup': expected a new file, found -",
        ),
        ("show --sample", "no groups selected: name groups, or use --regex RE or --all"),
        ("show --sql a.db --file f --all", "--sql and --file are two stores; choose one of them"),
        ("show --sql a.db --sample --all", "--sql and a source of groups are two stores"),
        ("show --sql a.db --zookeeper h --all", "--sql and a source of groups are two stores"),
        ("show --sample --file f --all", "--file and a source of groups are two stores"),
        ("copy sample sample", "no groups selected: use --group NAME, --regex RE or --all"),
        ("diff sample sample ledger", "argument (ledger). Name groups with --group ledger"),
        ("diff --sample x.json", "No such option '--sample': name stores by arguments: kafka:"),
        ("export ledger --sample", "Missing option '-f' / '--to' (FILE): Write to this file; -"),
        ("copy sample sample --all --as g", "--as renames a single group"),
        ("diff sample sample --group a --group b --as c", "--as renames a single group"),
        ("diff sample '' --all", "expected a store, found an empty string"),
        ("diff - file:- --all", "both stores are standard input"),
        ("diff sample file: --all", "file: expected a path, found an empty string"),
        ("diff sample snapshot:~nobody-of-this-name/x --all", "found none for ~nobody-of-this-"),
        ("diff kafka-1:9092 sample --all", "kafka-1:9092: expected kafka:…, zookeeper:…, sql:…"),
        ("copy kafak sql:o.db --all", "found no such file; did you mean kafka?"),
        ("copy kafak:h:1 sql:o.db --all", "found no such file; did you mean kafka:h:1?"),
        ("copy zookeeper sample --all", "zookeeper: expected kafka:…, zookeeper:…, sql:…"),
        (
            "copy sample /nosuch/new.json --all --execute",
            "/nosuch/new.json: expected a store, found no such file; 'kgroup offsets export' writ",
        ),
        ("diff sample sample --all --times", "--times reads records from a cluster, and neither"),
        ("import --sample", "Missing argument 'FILE'"),
        ("delete --sample", "no groups selected: name groups, or use --regex RE"),
        ("delete --sample --all", "No such option '--all'"),
        ("delete ledger --sample --idle-for 1d", "leave out group names, --topic and --delete-"),
        ("delete --sample --idle-for 1d --delete-hidden", "leave out group names, --topic and"),
        ("delete --sample --idle-for 0s", "expected a duration greater than 0, found '0s'"),
        ("delete --sample ledger --log-budget 1", "--log-budget is for --idle-for"),
        ("delete --sql o.db --idle-for 1d", "--idle-for needs a source that knows the members"),
        ("shwo", "Did you mean show?"),
    ],
)
def test_wrong_usage(cli: Cli, arguments: str, text: str) -> None:
    words = [word if word != "''" else "" for word in arguments.split()]
    result = cli("offsets", *words)
    assert (result.status, text in result.err) == (2, True), result.err


def test_a_reason_of_the_system_has_no_number(cli: Cli) -> None:
    """PyMySQL says "Can't connect to … ([Errno 111] Connection refused)", with its own 2003."""
    result = cli("offsets", "show", "--sql", "mysql://127.0.0.1:1/x", "g")
    assert result.status == 1
    assert "on '127.0.0.1' (Connection refused) (2003)" in result.err


def test_a_group_that_neither_store_has_is_told_once(cli: Cli) -> None:
    result = cli("offsets", "diff", "sample", "sample", "--group", "nope")
    assert result.status == 3
    assert result.err.count("group 'nope': not-found: The group does not exist; ") == 1


def test_a_misspelt_topic_is_asked_about(cli: Cli) -> None:
    line = ["offsets", "reset", "--sample", "invoice-batch", "--to-earliest", "--topic"]
    result = cli(*line, "payment")
    assert (result.status, result.out) == (3, "")
    assert "payment: Nothing is committed for this topic, and it is unknown here" in result.err
    assert result.err.endswith("; did you mean 'payments'?\n")
    assert cli(*line, "x").err.endswith("is unknown here.\n")


def test_a_copied_log_shows_where_it_ends_but_not_where_it_starts(cli: Cli) -> None:
    line = ["offsets", "reset", "--sample", "billing"]
    earliest = cli(*line, "--to-earliest")
    assert earliest.status == 1
    reason = "This source does not know the log start offset; a live cluster does. Likewise: "
    assert f"unreadable: invoices-0: {reason}" in earliest.err
    assert "does not know" not in cli(*line, "--to-latest").err


def test_files_that_are_none(cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "bad.csv"
    path.write_text("g,t,0,1\ng,t,x,1\n")
    result = cli("offsets", "import", "--sample", path)
    assert result.status == 1
    assert f"{path}: line 2: partition: expected a whole number" in result.err
    result = cli("offsets", "import", "--sample", path, "-o", "json")
    assert json.loads(result.out)["errors"][0]["path"] == str(path)


def test_a_plan_of_an_import(cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "plan.csv"
    path.write_text("payments,0,8\npayments,1,3\nother,0,1\n")
    line = ["offsets", "import", "--sample", path, "invoice-batch", "-o", "json"]
    assert [(row["topic"], row["partition"], row["result"]) for row in rows(cli(*line))] == [
        ("other", 0, "planned"),
        ("payments", 0, "unchanged"),
        ("payments", 1, "planned"),
    ]
    some = cli(*line, "--topic", "payments:1,2", "--topic", "other")
    assert [(row["topic"], row["partition"]) for row in rows(some)] == [
        ("other", 0),
        ("payments", 1),
    ]
    line += ["--topic", "payments", "--as", "new"]
    assert [(row["group_id"], row["result"]) for row in rows(cli(*line))] == [
        ("new", "planned"),
        ("new", "planned"),
    ]


@pytest.mark.parametrize("form", ["json", "jsonl", "csv", "tsv", "table"])
def test_no_plan_is_taken_for_offsets(cli: Cli, tmp_path: Path, form: str) -> None:
    path = tmp_path / "plan"
    line = ["offsets", "reset", "--sample", "invoice-batch", "--to-offset", "1", "-o", form]
    path.write_text(cli(*line).out)
    result = cli("offsets", "import", "--sample", path, "invoice-batch")
    assert (result.status, result.out) == (1, ""), result.err


def test_several_groups_are_meant_only_if_that_is_said(cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "plan.csv"
    path.write_text("a,t,0,1\nb,t,0,1\n")
    line = ["offsets", "import", "--sample", path]
    result = cli(*line)
    assert (result.status, "the file has 2 groups: name the groups" in result.err) == (2, True)
    assert len(rows(cli(*line, "a", "-o", "json"))) == 1
    assert len(rows(cli(*line, "--all", "-o", "json"))) == 2
    assert len(rows(cli(*line, "--regex", "b|c", "-o", "json"))) == 1
    result = cli(*line, "a", "--all")
    assert (result.status, "--all selects every group" in result.err) == (2, True)


def test_a_plan_of_a_removal(cli: Cli) -> None:
    result = cli("members", "remove", "--sample", "order-service", "--all", "-o", "json")
    assert result.status == 0
    assert [(row["client_id"], row["partition_count"]) for row in rows(result)] == [
        ("order-service-1", 2),
        ("order-service-2", 2),
        ("order-service-3", 2),
    ]
    member_id = rows(result)[1]["member_id"]
    some = cli(
        "members", "remove", "--sample", "order-service", "--member", member_id, "-o", "json"
    )
    assert [row["member_id"] for row in rows(some)] == [member_id]
    missing = cli("members", "remove", "--sample", "order-service", "--instance", "x", "-o", "json")
    assert missing.status == 3
    assert cli("members", "remove", "--sample", "nosuch", "--all").status == 3
    assert cli("members", "remove", "--sample", "invoice-batch", "--all").status == 3


def test_no_heads_stand_over_nothing_of_which_something_is_told(cli: Cli) -> None:
    missing = cli("members", "remove", "--sample", "order-service", "--instance", "x")
    assert (missing.status, missing.out) == (3, "")
    same = cli("offsets", "diff", "sample", "sample", "--group", "order-service")
    assert (same.status, same.out) == (0, "")
    assert same.err == "kgroup: note: no offset differs, of 6 partitions\n"
    asked = cli("offsets", "diff", "sample", "sample", "--all", "--columns", "topic")
    assert asked.out == "topic\n", "who chose columns counts on them"


def test_whom_to_remove_has_to_be_said(cli: Cli) -> None:
    for options in ((), ("--all", "--member", "m")):
        result = cli("members", "remove", "--sample", "order-service", *options)
        assert (result.status, "no members selected: use --member NAME" in result.err) == (2, True)
    result = cli("members", "remove", "--sample", "order-service", "--all", "--execute")
    assert (result.status, "--execute needs a live cluster" in result.err) == (2, True)


@pytest.fixture
def database(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A table with what the sample has, in the current folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("KGROUP_SQL_URL", raising=False)
    line = ["offsets", "copy", "sample", "sql:o.db", "--all", "--create-table"]
    done = cli(*line, "--execute", "--backup", "first.json")
    assert done.status == 0, done.err
    return "o.db"


def test_settings_that_name_no_cluster_leave_a_database_alone(cli: Cli, database: str) -> None:
    line = ["offsets", "reset", "--sql", database, "shipping", "--shift-by", "1", "-o", "json"]
    planned = cli(*line, "-X", "client.id=a")
    assert {row["log_end_offset"] for row in rows(planned)} == {None}


def test_a_backup_that_cannot_be_written_whole_is_not_there(
    cli: Cli, database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(number: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    line = ["offsets", "delete", "--sql", database, "order-service", "--execute"]
    refused = cli(*line, "--backup", "new.json")
    text = "new.json: No space left on device; nothing was changed\n"
    assert (refused.status, text in refused.err) == (1, True), refused.err
    assert not list(tmp_path.glob("*new.json*"))
    assert cli("offsets", "diff", "sample", f"sql:{database}", "--all").status == 0


def test_where_nothing_was_committed_nothing_is_saved(
    capfd: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    store = Store({})
    plan = OffsetPlan((), {}, deleted=("idle",))
    output = Output("json", (), True, "offsets delete")
    Execution(True, True, None).run(plan, store, ChosenStore(), output)
    assert store.deleted == ["idle"]
    assert list(tmp_path.iterdir()) == []
    assert capfd.readouterr().err == ""


def test_a_backup_of_a_change_that_failed_does_not_stay(tmp_path: Path) -> None:
    store = Store({"g": {("t", 0): 1}})
    backup = tmp_path / "before.json"
    plan = plan_transfer(Store({"g": {("t", 0): 2}}), store, None)
    for kind, stays in ((ProblemKind.CHANGED, False), (ProblemKind.UNKNOWN_END, True)):
        store.refuses = (Problem(kind, "A reason.", group_id="g"),)
        Execution(True, True, backup).run(
            plan, store, ChosenStore(), Output("json", (), True, "offsets copy")
        )
        assert backup.exists() == stays


class Unfit(Store):
    """Cannot be written, which it finds out when so many groups are written."""

    count = 0

    def write_offsets(
        self,
        changes: Mapping[str, Sequence[OffsetChange]],
        on_done: Callable[[str], object] = lambda group_id: None,
    ) -> tuple[Problem, ...]:
        for group_id in [*changes][: self.count]:
            on_done(group_id)
        raise InputError("no table")


@pytest.mark.parametrize("count", [0, 1])
def test_a_backup_of_a_change_that_was_given_up_stays_where_it_is_needed(
    tmp_path: Path, count: int
) -> None:
    store = Unfit({"g": {("t", 0): 1}})
    store.count = count
    plan = plan_transfer(Store({"g": {("t", 0): 2}}), store, None)
    backup, output = tmp_path / "before.json", Output("json", (), True, "offsets copy")
    with pytest.raises(InputError):
        Execution(True, True, backup).run(plan, store, ChosenStore(), output)
    assert backup.exists() == (count > 0)


class Interrupted(Store):
    """So many groups are written when Ctrl-C is pressed."""

    count = 1

    def write_offsets(
        self,
        changes: Mapping[str, Sequence[OffsetChange]],
        on_done: Callable[[str], object] = lambda group_id: None,
    ) -> tuple[Problem, ...]:
        for group_id in [*changes][: self.count]:
            on_done(group_id)
        raise KeyboardInterrupt


@pytest.mark.parametrize(
    ("command", "again"),
    [
        ("offsets import", "run the same command again to change the rest"),
        (
            "offsets reset",
            "check the offsets before you reset again: a second reset starts from the current ones",
        ),
    ],
)
def test_how_far_a_change_had_come_when_it_was_interrupted(
    capfd: pytest.CaptureFixture[str], tmp_path: Path, command: str, again: str
) -> None:
    store = Interrupted({name: {("t", 0): 1} for name in ("a", "b", "c")})
    plan = plan_transfer(Store({name: {("t", 0): 2} for name in ("a", "b", "c")}), store, None)
    backup = tmp_path / "before.json"
    with pytest.raises(KeyboardInterrupt):
        Execution(True, True, backup).run(
            plan, store, ChosenStore(), Output("json", (), True, command)
        )
    out, err = capfd.readouterr()
    assert out == ""
    assert err.splitlines()[-1] == (
        "kgroup: interrupted: 1 of 3 groups was changed (a), others may be; "
        f"{again}; the previous offsets are in {backup}; to undo this: kgroup offsets import "
        f"{backup} --all --execute"
    )


@pytest.mark.parametrize(
    ("names", "written", "words"),
    [
        ("a", 0, "no group is known to be changed, one may be;"),
        ("ab", 0, "no group is known to be changed, some may be;"),
        ("a", 1, "1 of 1 group was changed (a);"),
        ("abc", 2, "2 of 3 groups were changed (a, b), others may be;"),
    ],
)
def test_words_of_a_change_that_was_interrupted(
    capfd: pytest.CaptureFixture[str], tmp_path: Path, names: str, written: int, words: str
) -> None:
    store = Interrupted({name: {("t", 0): 1} for name in names})
    store.count = written
    plan = plan_transfer(Store({name: {("t", 0): 2} for name in names}), store, None)
    with pytest.raises(KeyboardInterrupt):
        Execution(True, True, tmp_path / "before.json").run(
            plan, store, ChosenStore(), Output("json", (), True, "offsets import")
        )
    assert f"kgroup: interrupted: {words}" in capfd.readouterr().err


@pytest.mark.slow
def test_that_a_change_was_made_is_told_where_its_report_cannot_be(database: str) -> None:
    line = ["offsets", "reset", "--sql", database, "invoice-batch", "--shift-by", "-1", "--execute"]
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            [sys.executable, "-m", "kgroup", *line],
            stdin=subprocess.DEVNULL,
            stdout=full,
            stderr=subprocess.PIPE,
        )
    *_, note, error = done.stderr.decode().splitlines()
    count = len(SqlOffsetStore(database).read_offsets(["invoice-batch"]).offsets["invoice-batch"])
    assert note == (
        f"kgroup: note: the report could not be written; results of the change: {count} done"
    )
    assert error == "kgroup: error: standard output: No space left on device"
    assert done.returncode == 1


def test_a_plan_makes_no_table(cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "new.db"
    line = ["offsets", "copy", "sample", f"sql:{path}", "--all", "-o", "json", "--create-table"]
    assert {row["result"] for row in rows(cli(*line))} == {"planned"}
    assert not path.exists()
    shown = cli("offsets", "show", "--sql", path, "--create-table", "--all")
    assert (shown.status, path.exists()) == (0, False)
    missing = cli("offsets", "show", "--sql", path, "--all")
    assert (missing.status, "with its table (--create-table)" in missing.err) == (1, True)
    done = cli(*line, "--execute", "--backup", tmp_path / "b.json")
    assert {row["result"] for row in rows(done)} == {"done"}
    assert cli("offsets", "diff", "sample", f"sql:{path}", "--all").status == 0


def test_a_missing_table_beside_another_is_empty(cli: Cli, database: str) -> None:
    line = ["offsets", "show", "--sql", database, "--sql-table", "other", "--all"]
    missing = cli(*line)
    assert (missing.status, "(--create-table), or name another (--sql-tab" in missing.err) == (
        1,
        True,
    )
    assert cli(*line, "--create-table").status == 0
    assert cli(*line).status == 1, "nothing was made"


def test_what_a_reset_goes_by_is_missing(cli: Cli, tmp_path: Path) -> None:
    result = cli("offsets", "reset", "--sample", "invoice-batch", "--to-group", "nosuch")
    assert (result.status, "group 'nosuch': " in result.err) == (3, True)


def test_a_topic_of_which_a_file_has_nothing(cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "some.csv"
    path.write_text("invoice-batch,payments,0,1\n")
    result = cli("offsets", "import", "--sample", path, "--topic", "paymnets")
    assert (result.status, "paymnets: No offsets are committed for this topic" in result.err) == (
        3,
        True,
    )


def test_a_group_that_a_store_has_not(cli: Cli, database: str, tmp_path: Path) -> None:
    path = tmp_path / "some.csv"
    path.write_text("invoice-batch,payments,0,1\n")
    for store, text in (
        (["--file", path], "The file has no offsets of "),
        (["--sql", database], f"in sqlite:///{tmp_path}/o.db, table t_offset by "),
    ):
        named = cli("offsets", "show", *store, "nosuch")
        assert (named.status, f"{text}this group." in named.err) == (3, True), named.err
        matching = cli("offsets", "show", *store, "--regex", "no.*")
        assert (matching.status, f"{text}a group that matches" in matching.err) == (3, True)


def test_what_matches_nothing_ends_with_3(cli: Cli, database: str, tmp_path: Path) -> None:
    path = tmp_path / "empty.csv"
    path.write_text("group,topic,partition,offset\n")
    for line in (
        f"import --sample {path} invoice-batch",
        f"import --sample {path} --regex nosuch.*",
        "reset --sample invoice-batch --to-offset 1 --topic-regex nosuch",
        "reset --sample invoice-batch --to-offset 1 --topic nosuch",
        f"reset --sql {database} nosuch --to-offset 1 --topic payments",
        f"delete --sql {database} invoice-batch --topic nosuch",
    ):
        result = cli("offsets", *line.split())
        assert result.status == 3, line
        assert "not-found" in result.err or "the file has no offsets" in result.err, line


@pytest.mark.parametrize(
    "text",
    [
        "",
        " \r\n",
        "[]",
        "group,topic,partition,offset\n",
        '{"command": "offsets show", "schema_version": 1, "data": [], "errors": []}',
    ],
)
def test_a_file_without_offsets_is_not_found(
    cli: Cli, database: str, tmp_path: Path, text: str
) -> None:
    path = tmp_path / "offsets"
    path.write_text(text)
    error = f"{path}: the file has no offsets\n"
    for line in (
        f"show --file {path} --all",
        f"import --sql {database} {path} --all",
        f"copy {path} {database} --all",
        f"diff {path} sample --all",
    ):
        result = cli("offsets", *line.split())
        assert (result.status, result.err) == (3, f"kgroup: error: {error}"), line


def test_many_groups_at_once(cli: Cli, database: str) -> None:
    line = ["offsets", "reset", "--sql", database, "-o", "json"]
    some = cli(*line, "--regex", "invoice.*|shipping", "--shift-by", "1")
    assert {row["group_id"] for row in rows(some)} == {"invoice-batch", "shipping"}
    every = cli("offsets", "show", "--sql", database, "--all", "-o", "json")
    names = {row["group_id"] for row in rows(every)}
    like_another = cli(*line, "--all", "--to-group", "shipping")
    assert {row["group_id"] for row in rows(like_another)} == names
    gone = cli("offsets", "delete", "--sql", database, "--regex", "s.*", "-o", "json")
    assert {row["group_id"] for row in rows(gone)} == {name for name in names if name[0] == "s"}


def test_a_copy_has_no_differences(cli: Cli, database: str) -> None:
    assert cli("offsets", "diff", "sample", f"sql:{database}", "--all").status == 0
    shown = cli("offsets", "show", "--sql", database, "order-service", "-o", "json")
    assert {row["partition"]: row["committed_offset"] for row in rows(shown)} == ORDERS


def test_a_change_is_carried_out_and_undone(cli: Cli, database: str, tmp_path: Path) -> None:
    line = ["offsets", "reset", "--sql", database, "order-service", "--shift-by", "-2"]
    planned = cli(*line, "-o", "json")
    assert {row["result"] for row in rows(planned)} == {"planned"}
    assert cli("offsets", "diff", "sample", f"sql:{database}", "--all").status == 0

    done = cli(*line, "-o", "json", "--execute")
    assert {row["result"] for row in rows(done)} == {"done"}
    shown = cli("offsets", "show", "--sql", database, "order-service", "-o", "json")
    assert {row["partition"]: row["committed_offset"] for row in rows(shown)} == {
        partition: offset - 2 for partition, offset in ORDERS.items()
    }
    (backup,) = tmp_path.glob("kgroup-offsets-*.json")
    assert f"are in {backup.name}; to undo this: kgroup offsets import {backup.name}" in done.err

    undone = cli(*undo(done), "--backup", "u.json")
    assert undone.status == 0
    assert cli("offsets", "diff", "sample", f"sql:{database}", "--all").status == 0
    again = cli("offsets", "import", "--sql", database, backup, "-o", "json")
    assert {row["result"] for row in rows(again)} == {"unchanged"}


def undo(result: Result) -> list[str]:
    """Take what undoes a change from what is said of it, as a shell would."""
    (line,) = (splitline for splitline in result.err.splitlines() if "to undo this" in splitline)
    _, *words = shlex.split(line[line.index(": kgroup ") + 2 :])
    return words


@pytest.mark.parametrize("name", ["-b.json", "two words.json", "it's.json", "$(x)", "*.json"])
def test_what_undoes_a_change_can_be_pasted(cli: Cli, database: str, name: str) -> None:
    line = ["offsets", "delete", "--sql", database, "order-service", "invoice-batch", "--execute"]
    done = cli(*line, f"--backup={name}")
    assert done.status == 0, done.err
    assert cli("offsets", "diff", "sample", f"sql:{database}", "--all").status == 5
    undone = cli(*undo(done))
    assert undone.status == 0, undone.err
    assert cli("offsets", "diff", "sample", f"sql:{database}", "--all").status == 0


def test_only_some_partitions_are_copied(cli: Cli) -> None:
    line = ["offsets", "copy", "sample", "sample", "--group", "invoice-batch", "--as", "new"]
    some = cli(*line, "--topic", "payments:0,2", "-o", "json")
    assert [row["partition"] for row in rows(some)] == [0, 2]


def test_what_undoes_a_change_names_table_and_columns(cli: Cli, database: str) -> None:
    names = ["--sql-table", "other table", "--sql-column", "offset=next offset"]
    line = ["offsets", "copy", "sample", f"sql:{database}", "--group", "shipping", *names]
    done = cli(*line, "--create-table", "--execute")
    assert (done.status, cli(*undo(done)).status) == (0, 0)
    assert cli("offsets", "show", "--sql", database, *names, "--all", "-o", "jsonl").out == ""


@pytest.mark.parametrize(
    "goal", ["--shift-by 1", "--to-offset 16", "--to-file all.csv", "--to-group ahead"]
)
def test_a_script_that_skips_says_so(cli: Cli, database: str, tmp_path: Path, goal: str) -> None:
    rows_of = "".join(f"order-service,orders,{p},{o + 1}\n" for p, o in ORDERS.items())
    (tmp_path / "all.csv").write_text(rows_of)
    (tmp_path / "ahead.csv").write_text(rows_of.replace("order-service", "ahead"))
    ahead = ["offsets", "import", "--sql", database, "ahead.csv", "--execute", "--backup", "a.json"]
    assert cli(*ahead).status == 0
    line = ["offsets", "reset", "--sql", database, "order-service", *goal.split()]
    before = cli("offsets", "show", "--sql", database, "order-service", "-o", "jsonl").out
    for more in ([], ["--yes"]):
        refused = cli(*line, "--execute", *more, "--backup", "b.json")
        assert (refused.status, refused.out) == (2, "")
        assert "--execute would skip " in refused.err
        assert "add --allow-skip" in refused.err
        assert not (tmp_path / "b.json").exists()
    assert cli("offsets", "show", "--sql", database, "order-service", "-o", "jsonl").out == before
    planned = cli(*line)
    assert planned.status == 0
    assert planned.out.startswith("Skips ")
    assert cli(*line, "--execute", "--allow-skip", "--backup", "b.json").status == 0
    assert cli("offsets", "show", "--sql", database, "order-service", "-o", "jsonl").out != before


def test_what_is_refused_or_read_again_is_not_skipped(cli: Cli, database: str) -> None:
    back = cli("offsets", "reset", "--sql", database, "order-service", "--shift-by", "-1")
    assert back.out.startswith("Group order-service")
    active = cli("offsets", "reset", "--sample", "order-service", "--to-latest")
    assert "Skips" not in active.out


def test_every_change_has_a_dry_run() -> None:
    options = [
        {word for param in command.params for word in param.opts}
        for command in EVERY_COMMAND.values()
    ]
    assert all("--dry-run" in own for own in options if "--execute" in own)


@pytest.mark.parametrize(
    "line",
    [
        "offsets reset --sql {} order-service --shift-by -1",
        "offsets delete --sql {} order-service",
        "members remove --sample order-service --all",
        "history vacuum --warehouse nowhere",
    ],
)
def test_a_dry_run_is_the_default(cli: Cli, database: str, line: str) -> None:
    before = cli("offsets", "show", "--sql", database, "--all", "-o", "jsonl").out
    words = line.format(database).split()
    assert cli(*words, "--dry-run") == cli(*words)
    for flags in (["--dry-run", "--execute"], ["--execute", "--dry-run"]):
        result = cli(*words, *flags)
        assert (result.status, result.out) == (2, "")
        assert "--dry-run shows the plan, and --execute carries it out: choose one" in result.err
    assert cli("offsets", "show", "--sql", database, "--all", "-o", "jsonl").out == before != ""


def test_a_plan_names_the_store(cli: Cli, database: str, tmp_path: Path) -> None:
    planned = cli("offsets", "reset", "--sql", database, "shipping", "--shift-by", "1")
    assert planned.err == (
        "kgroup: note: 2 partitions: 2 planned; 2 records skipped, 0 read again\n"
        f"kgroup: note: nothing was changed in sqlite:///{tmp_path}/o.db, table t_offset; "
        "--execute carries out the plan\n"
    )


def test_a_backup_of_another_store_is_told(cli: Cli, database: str, tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path}/o.db, table t_offset"
    assert json.loads((tmp_path / "first.json").read_bytes())["store"]["where"] == store
    own = cli("offsets", "import", "--sql", str(tmp_path / database), "first.json", "--all")
    assert "was saved from" not in own.err
    line = ["offsets", "import", "--sql", "other.db", "--create-table", "first.json", "--all"]
    planned = cli(*line)
    assert f"note: the offsets were saved from {store}, but this is sqlite:" in planned.err
    exported = cli("offsets", "export", "--sql", database, "--all", "-f", "-")
    assert json.loads(exported.out)["store"]["where"] == store
    assert "store" not in json.loads(cli("offsets", "export", "--sample", "--all", "-f", "-").out)


def test_a_second_copy_changes_nothing(cli: Cli, tmp_path: Path, database: str) -> None:
    """Though the plain table keeps neither metadata nor epochs."""
    file = tmp_path / "full.jsonl"
    file.write_text(
        '{"group_id": "g", "topic": "t", "partition": 0, "committed_offset": 5, '
        '"leader_epoch": 3, "metadata": "m"}\n'
    )
    line = ["offsets", "import", "--sql", database, file, "-o", "json"]
    assert cli(*line, "--execute", "--backup", "b.json").status == 0
    assert {row["result"] for row in rows(cli(*line))} == {"unchanged"}


@pytest.mark.parametrize(
    ("line", "epoch"),
    [
        ("copy all.jsonl sql:o.db --group g", None),
        ("import --sql o.db all.jsonl", 3),
        ("import --sql o.db all.jsonl --without-epochs", None),
    ],
)
def test_epochs_go_with_a_file_unless_it_is_copied(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line: str, epoch: int | None
) -> None:
    monkeypatch.chdir(tmp_path)
    row = {"group_id": "g", "topic": "t", "partition": 0, "committed_offset": 5, "leader_epoch": 3}
    (tmp_path / "all.jsonl").write_text(json.dumps(row))
    more = ["--sql-column", "leader-epoch=epoch", "--create-table"]
    assert cli("offsets", *line.split(), *more, "--execute", "--backup", "b.json").status == 0
    shown = cli("offsets", "show", "--sql", "o.db", "g", "-o", "json", *more)
    assert [each["leader_epoch"] for each in rows(shown)] == [epoch]


def test_a_cluster_beside_a_database_knows_its_log(
    cli: Cli, database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Beside(Cluster):
        def __init__(self, bootstrap: list[str], **options: object) -> None:
            super().__init__({}, {("payments", number): LogRange(2, 7) for number in range(3)})

        def __enter__(self) -> Beside:
            return self

        def __exit__(self, *_: object) -> None:
            pass

    monkeypatch.setattr("kgroup.source.broker.source.LiveCluster", Beside)
    (tmp_path / "plan.csv").write_text("invoice-batch,payments,0,3\n")
    where = f"--sql {database} -b h:1"
    for line, marks in (
        (f"reset {where} invoice-batch --shift-by -7", ["before-start"] * 3),
        (f"import {where} plan.csv", ["past-end"]),
        (f"copy plan.csv sql:{database} -b h:1 --all", ["past-end"]),
    ):
        found = rows(cli("offsets", *line.split(), "-o", "json"))
        assert [row["mark"] for row in found] == marks, line
        assert {row["log_end_offset"] for row in found} == {7}


def test_undoing_a_copy_deletes_what_was_not_there(cli: Cli, database: str) -> None:
    line = ["offsets", "import", "--sql", database, "first.json", "--all"]
    done = cli(*line, "--execute", "--backup", "x")
    assert done.status == 0
    assert cli("offsets", "show", "--sql", database, "--all", "-o", "jsonl").out == ""


def test_a_backup_is_never_overwritten(cli: Cli, database: str, tmp_path: Path) -> None:
    before = (tmp_path / "first.json").read_bytes()
    line = ["offsets", "delete", "--sql", database, "order-service", "--execute"]
    refused = cli(*line, "--backup", "first.json")
    assert (refused.status, "expected a new file" in refused.err) == (1, True)
    assert cli("offsets", "diff", "sample", f"sql:{database}", "--all").status == 0
    assert (tmp_path / "first.json").read_bytes() == before
    refused = cli(*line, "--backup", "nosuch/first.json")
    assert refused.status == 1
    assert cli("offsets", "diff", "sample", f"sql:{database}", "--all").status == 0


def test_deleting(cli: Cli, database: str) -> None:
    line = ["offsets", "delete", "--sql", database, "--execute", "--backup"]
    assert cli(*line, "1.json", "shipping").status == 0
    assert cli("offsets", "show", "--sql", database, "shipping").status == 3
    assert cli(*line, "2.json", "invoice-batch", "--topic", "nosuch").status == 3
    one = cli(*line, "0.json", "invoice-batch", "--topic", "payments:1", "-o", "json")
    assert [row["partition"] for row in rows(one)] == [1]
    assert cli(*line, "3.json", "invoice-batch", "--topic", "payments").status == 0
    assert cli("offsets", "show", "--sql", database, "invoice-batch").status == 3
    assert cli("offsets", "import", "--sql", database, "1.json", "--execute").status == 0
    assert cli("offsets", "show", "--sql", database, "shipping").status == 0


def test_a_plan_says_which_groups_go_as_a_whole(cli: Cli, database: str) -> None:
    line = ["offsets", "delete", "--sql", database, "invoice-batch", "shipping"]
    assert "note: 2 groups would be deleted as a whole\n" in cli(*line).err
    assert "as a whole" not in cli(*line, "--topic", "payments").err


def test_names_of_the_table_and_its_columns(cli: Cli, database: str) -> None:
    more = [
        "--sql-table",
        "Offsets",
        "--sql-column",
        "offset=next",
        "--sql-column",
        "metadata=meta",
    ]
    line = ["offsets", "copy", "sample", f"sql:{database}", "--all", *more, "--create-table"]
    assert cli(*line, "--execute", "--backup", "names.json").status == 0
    shown = cli("offsets", "show", "--sql", database, "--all", "-o", "jsonl", *more).out
    assert len(shown.splitlines()) == len(
        cli("offsets", "show", "--sample", "--all", "-o", "jsonl").out.splitlines()
    )
    wrong = cli("offsets", "show", "--sql", database, "--all", "--sql-column", "offst=next")
    assert (wrong.status, "expected WHAT=NAME with WHAT one of group-id" in wrong.err) == (2, True)


def test_the_database_of_the_environment_or_a_profile(
    cli: Cli, database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    line = ["offsets", "show", "--all", "-o", "jsonl"]
    missing = cli(*line, "--sql", "profile")
    assert (missing.status, "no database given: use --sql URL" in missing.err) == (2, True)
    expected = cli(*line, "--sql", database).out
    monkeypatch.setenv("KGROUP_SQL_URL", database)
    assert cli(*line, "--sql", "profile").out == expected
    assert cli("offsets", "diff", "sql", "sample", "--all").status == 0
    monkeypatch.delenv("KGROUP_SQL_URL")
    (tmp_path / "config.toml").write_text(f'[profiles.p.sql]\nurl = "{database}"\n')
    monkeypatch.setenv("KGROUP_CONFIG", str(tmp_path / "config.toml"))
    assert cli(*line, "--sql", "profile", "-C", "p").out == expected
    assert cli("offsets", "diff", "sql", "sample", "--all", "-C", "p").status == 0


@pytest.mark.parametrize(
    "line",
    [("offsets", "show", "--all"), ("plan", "external-offsets", "order-service", "--sample")],
)
def test_a_database_is_waited_for_as_long_as_is_said(
    cli: Cli, database: str, line: tuple[str, ...]
) -> None:
    """Also where no cluster is named; 10 s are what the documentation says for the default."""
    with closing(sqlite3.connect(database, isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        started = time.monotonic()
        result = cli(*line, "--sql", database, "--timeout", 0.1)
        waited_s = time.monotonic() - started
    assert (result.status, "locked for longer than --timeout" in result.err) == (1, True)
    assert waited_s < 9


def test_a_goal_that_needs_the_log_needs_a_cluster(cli: Cli, database: str) -> None:
    result = cli("offsets", "reset", "--sql", database, "order-service", "--to-latest")
    assert (result.status, "name the cluster (--bootstrap-server)" in result.err) == (2, True)


def test_passwords_are_never_shown(cli: Cli) -> None:
    url = "postgresql://me:hunter2@127.0.0.1:1/db"
    for line in (
        ["show", "--sql", url, "--all"],
        ["diff", f"sql:{url}", "sample", "--all"],
        ["copy", "sample", url, "--all"],
    ):
        result = cli("offsets", *line, "--timeout", "2")
        assert result.status == 1
        assert "hunter2" not in result.out + result.err


def test_a_wrong_column_is_told_before_anything_is_changed(cli: Cli, database: str) -> None:
    line = ["offsets", "reset", "--sql", database, "order-service", "--shift-by", "-2"]
    result = cli(*line, "--execute", "--columns", "partition,nosuch")
    assert (result.status, "no column nosuch" in result.err) == (2, True)
    assert cli("offsets", "diff", "sample", f"sql:{database}", "--all").status == 0


@pytest.mark.parametrize("line", ["copy sample sample", "diff sample sample"])
def test_another_name_is_for_one_group(cli: Cli, line: str) -> None:
    """With a pattern, others would go under that name too."""
    more = ["--group", "order-service", "--regex", ".*", "--as", "merged"]
    result = cli("offsets", *line.split(), *more)
    assert (result.status, "--as renames a single group" in result.err) == (2, True)


def test_a_store_that_has_nothing_is_seen_in_the_table(cli: Cli, tmp_path: Path) -> None:
    """A column that is blank in every row stays where that is the answer."""
    path = tmp_path / "offsets.csv"
    path.write_text("order-service,orders,0,7\n")
    result = cli("offsets", "diff", path, "sample", "--group", "ledger")
    head, row, *_ = result.out.splitlines()
    assert head.split() == ["group_id", "topic", "partition", "first_offset", "second_offset"]
    assert (row.split()[0], row.split()[3]) == ("ledger", "-")


def test_a_file_that_is_written_is_named(cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "offsets.json"
    result = cli("offsets", "export", "--sample", "ledger", "order-service", "-f", path)
    assert (result.status, result.out) == (0, "")
    count = len(json.loads(path.read_text())["data"])
    assert result.err == f"kgroup: note: {count} offsets of 2 groups written to {path}\n"


def test_a_negative_number_in_a_file_is_not_what_the_group_committed(
    cli: Cli, tmp_path: Path
) -> None:
    path = tmp_path / "offsets.csv"
    path.write_text("orders,0,-1\n")
    result = cli("offsets", "import", path, "g", "--sample")
    assert "1 partition left out (orders-0): a negative number is no offset\n" in result.err


def test_another_name_wants_the_group_of_the_file(cli: Cli, tmp_path: Path) -> None:
    result = cli("offsets", "import", tmp_path / "offsets.csv", "--as", "new", "--sample")
    assert result.status == 2
    assert "name the group of the file (import FILE GROUP --as NEW)" in result.err


def test_a_file_says_what_it_lacks_and_so_does_who_reads_it(cli: Cli, tmp_path: Path) -> None:
    """A partition of `__consumer_offsets` has no leader; nobody knows its groups."""
    path, whole = tmp_path / "offsets.json", tmp_path / "plan.csv"
    with answering_broker() as broker:
        broker.handlers["Metadata"] = metadata(broker, topic("__consumer_offsets", 1, -1), orders())
        saved = cli("offsets", "export", "-b", broker.bootstrap, "--all", "-f", path)
    (error,) = json.loads(path.read_text())["errors"]
    assert (saved.status, error["kind"], error["offsets_partition"]) == (4, "no-leader", 1)
    whole.write_text("g,orders,0,7\n")
    table = f"sqlite:///{tmp_path / 'offsets.db'}"
    for command, status in (
        (("import", path, "--all", "--sql", table, "--create-table"), 4),
        (("import", path, "lost", "--sql", table, "--create-table"), 4),
        (("import", path, "g", "--sql", table, "--create-table"), 0),
        (("diff", f"file:{path}", f"file:{whole}", "--all"), 4),
    ):
        result = cli("offsets", *command)
        is_told = "no-leader: The file is incomplete; when it was saved: " in result.err
        assert (result.status, is_told) == (status, status != 0), command
