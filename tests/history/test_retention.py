"""Old days and groups that are removed from a warehouse; what later builds make of the rest."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kgroup.errors import InputError, UnknownGroupError
from kgroup.history.build.derivation import without
from kgroup.history.build.retention import delete_groups, expire, expired_rows, rows_of_groups
from kgroup.history.sql.engine import DuckEngine
from kgroup.history.warehouse.state import PartitionBase, PartitionState
from kgroup.history.warehouse.table import TABLES
from kgroup.history.warehouse.table_file import FactWriter, read_rows
from kgroup.history.warehouse.warehouse import read_warehouse, write_warehouse
from tests.cli.command_line import Cli
from tests.history.build_file import change_state, files_on_disk, files_that_count
from tests.history.builds import SAMPLE, build
from tests.history.log_copy import Log, read_log, write_log
from tests.history.table_oracle import Tables, read_tables

LOG = read_log(SAMPLE)


def part(choose: Callable[[int, int], bool]) -> Log:
    """The batches of each partition, chosen by number and how many there are."""
    return {
        number: [batch for at, batch in enumerate(batches) if choose(at, len(batches))]
        for number, batches in LOG.items()
    }


EARLY = part(lambda at, count: at < count // 2)
THIN = part(lambda at, count: at < count // 2 and (at % 3 != 1 or at > count // 2 - 2))
SPARSE = part(lambda at, count: at < count // 2 or at % 3 == 2)
"""Without records that a compacted replica lacks, behind the early ones."""


def last_ms(root: Path) -> int:
    with read_warehouse(root) as warehouse, DuckEngine(warehouse.files()) as engine:
        times = [
            engine.query(f"SELECT MAX(time_ms) AS last FROM {name}", is_trusted=True)["last"][0]
            for name in ("offset_commits", "group_generations", "consumer_group_epochs")
        ]
    return max(int(time.as_py() or 0) for time in times)


def expired(folder: Path, *logs: Log, early: Log = EARLY) -> tuple[Path, int]:
    """Build an early log and then others; give the end of the early one, too."""
    root = folder / "w"
    write_log(folder / "early", early)
    build(root, folder / "early")
    end_ms = last_ms(root)
    for number, log in enumerate(logs):
        write_log(folder / f"log-{number}", log)
        build(root, folder / f"log-{number}")
    return root, end_ms


def carry_out(root: Path, before_ms: int) -> list[tuple[str, int, int]]:
    with write_warehouse(root) as writer:
        removals = expire(writer, before_ms)
    return [(each.table, each.removed_row_count, each.row_count) for each in removals]


def counts(tables: Tables) -> dict[str, int]:
    return {name: len(rows) for name, rows in tables.items()}


def test_rows_go_whose_file_is_too_old(tmp_path: Path) -> None:
    root, end_ms = expired(tmp_path, LOG)
    before = read_tables(root, "c")
    with read_warehouse(root) as warehouse:
        assert not expired_rows(warehouse, 0)
        planned = expired_rows(warehouse, end_ms + 1)
    assert read_tables(root, "c") == before
    removed = carry_out(root, end_ms + 1)
    assert removed == [(each.table, each.removed_row_count, each.row_count) for each in planned]
    tables = read_tables(root, "c")
    for name, removed_count, count in removed:
        assert (len(before[name]), len(tables.get(name, ()))) == (removed_count + count, count)
        assert removed_count
    for name, rows in before.items():
        gone = [row for row in rows if row not in tables.get(name, ())]
        column = "to_ms" if name == "assignments" else "time_ms"
        assert all(row[column] <= end_ms for row in gone)
    assert {row["to_ms"] for row in before["assignments"]} >= {None}
    assert not carry_out(root, end_ms + 1)
    build(root, tmp_path / "log-0")
    assert read_tables(root, "c") == tables  # offsets stay known
    with read_warehouse(root) as warehouse:
        assert warehouse.state("c").retained_ms == end_ms + 1


@pytest.mark.parametrize("early", [EARLY, THIN])
@pytest.mark.parametrize("number", [1, 2, 6])
def test_records_that_come_late_find_the_owners_of_before(
    tmp_path: Path, number: int, early: Log
) -> None:
    """Their partition is derived anew, from the end of what has expired.

    Files that have not expired may have records of before, too.
    """
    root, end_ms = expired(tmp_path, {number: SPARSE[number]}, early={number: early[number]})
    assert carry_out(root, end_ms + 1)
    write_log(tmp_path / "whole", {number: LOG[number]})
    build(root, tmp_path / "whole")
    build(tmp_path / "other", tmp_path / "whole")
    with read_warehouse(root) as warehouse:
        bases = {
            number: state.base.end
            for number, state in warehouse.state("c").partitions.items()
            if state.base is not None
        }
    assert bases.keys() == {number}

    def lasts(tables: Tables) -> list[str]:
        rows = [
            row
            for row in tables["assignments"]
            if row["to_log_offset"] is None
            or row["to_log_offset"] > bases.get(row["offsets_partition"], -1)
        ]
        ends = [bases.get(row["offsets_partition"], -1) for row in rows]
        assert any(row["from_log_offset"] <= end for row, end in zip(rows, ends, strict=True))
        return sorted(map(repr, rows))

    assert lasts(read_tables(root, "c")) == lasts(read_tables(tmp_path / "other", "c"))


RECORDS = ("offset_commits", "group_generations", "consumer_group_epochs", "tombstones")


def last_of_keys(tables: Tables, before_ms: int) -> dict[str, list[object]]:
    """What a topic compacted at a time would have, without transactions that were not committed."""
    lasts: dict[tuple[object, ...], tuple[int, str]] = {}
    kept: dict[str, list[object]] = {}
    keyed = {"offset_commits": "OffsetCommit", "group_generations": "GroupMetadata"}
    for name in (*keyed, "consumer_group_epochs", "tombstones"):
        for row in tables.get(name, ()):
            if row["time_ms"] >= before_ms or row.get("transaction") == "open":
                kept.setdefault(name, []).append((row["offsets_partition"], row["log_offset"]))
            elif row.get("transaction") in (None, "committed"):
                kind = row.get("type", keyed.get(name))
                names = ("offsets_partition", "group_id", "member_id", "topic", "partition")
                key = (kind, *(row.get(each) for each in names))
                if kind == "ConsumerGroupRegularExpression":  # of unknown expressions
                    key = (kind, row["offsets_partition"], row["log_offset"])
                mine = (row["log_offset"], name)
                lasts[key] = max(mine, lasts.get(key, mine))
    for (_, number, *_), (offset, name) in lasts.items():
        kept.setdefault(name, []).append((number, offset))
    return {name: sorted(offsets, key=repr) for name, offsets in kept.items()}


def test_what_held_at_that_time_stays(tmp_path: Path) -> None:
    root, end_ms = expired(tmp_path, LOG)
    before = read_tables(root, "c")
    later_ms = last_ms(root)
    for before_ms in (end_ms + 1, later_ms + 1):
        assert carry_out(root, before_ms)
        assert not carry_out(root, before_ms)
        tables = read_tables(root, "c")
        # until a later time expires
        assert ("tombstones" in tables) == (before_ms == end_ms + 1)
        found = {"tombstones": list[Any]()} | {
            name: sorted(((row["offsets_partition"], row["log_offset"]) for row in rows), key=repr)
            for name, rows in tables.items()
            if name
            in ("offset_commits", "group_generations", "consumer_group_epochs", "tombstones")
        }
        if before_ms > later_ms:  # files before may have later records, too
            assert found == last_of_keys(before, before_ms) | {"tombstones": []}
        places = {place for name in found if name != "offset_commits" for place in found[name]}
        members = [(row["offsets_partition"], row["log_offset"]) for row in tables["members"]]
        assert set(members) <= places
    assert all(row["to_ms"] is None for row in tables["assignments"])
    assert not tables.keys() & {"other_records", "log_ends"}
    markers = {row["log_offset"] for row in tables["transactions"]}
    assert markers == {row["log_offset"] for row in before["transactions"]} - {4}  # an abort
    build(root, tmp_path / "log-0")
    assert read_tables(root, "c") == tables


def test_the_present_is_as_before(tmp_path: Path, cli: Cli) -> None:
    """Groups, members, lags and stale offsets of now: what a compacted topic would tell."""
    questions = (
        *(("as-of", "now", group_id) for group_id in ("order-service", "shipping", "pricing")),
        ("stale", "--for", "1s", "--at", "2026-11-29T19:54:00Z"),
        ("owner", "orders", "0"),
    )
    root, _ = expired(tmp_path, LOG)
    asked = [cli("history", *words, "--warehouse", root, "-o", "csv").out for words in questions]
    carry_out(root, last_ms(root) + 1)
    again = [cli("history", *words, "--warehouse", root, "-o", "csv").out for words in questions]
    assert again == asked
    assert all(len(out.splitlines()) > 1 for out in asked)


def test_a_group_goes_from_all_tables(tmp_path: Path) -> None:
    for cluster in ("c", "d"):
        build(tmp_path / "w", SAMPLE, cluster=cluster)
    root = tmp_path / "w"
    before = {name: read_tables(root, name) for name in ("c", "d")}
    for group_id in ("order-service", "shipping"):
        with read_warehouse(root) as warehouse:
            planned = rows_of_groups(warehouse, [group_id], "c")
        with write_warehouse(root) as writer:
            assert delete_groups(writer, [group_id], "c") == planned
        assert {each.table for each in planned} >= {"members", "offset_commits", "assignments"}
        expected = {
            name: [row for row in rows if row.get("group_id") != group_id]
            for name, rows in before["c"].items()
        }
        assert counts(before["c"]) != counts(expected)
        before["c"] = expected
        after = read_tables(root, "c")
        assert after == {name: rows for name, rows in expected.items() if rows}
    assert read_tables(root, "d") == before["d"]
    with write_warehouse(root) as writer:
        with pytest.raises(UnknownGroupError, match="no rows of group 'order-service'"):
            delete_groups(writer, ["pricing", "order-service"], "c")
        assert writer.build == 4
        writer.vacuum(0)
    assert files_on_disk(root) == files_that_count(root)
    with read_warehouse(root) as warehouse:
        members = [state.members for state in warehouse.state("c").partitions.values()]
        for path in filter(None, members):
            rows = pq.read_table(root / path)
            assert not {"shipping", "order-service"} & set(rows["group_id"].to_pylist())


def test_a_vacuum_removes_what_is_not_needed(tmp_path: Path) -> None:
    root, _ = expired(tmp_path, LOG)
    lost = root / "tombstones" / "c" / "2026-01-01" / "9-lost.parquet"
    lost.parent.mkdir(parents=True, exist_ok=True)
    lost.touch()
    tables = read_tables(root, "c")
    with write_warehouse(root) as writer:
        replaced = [*writer.unneeded(0)]
        assert lost in replaced
        assert len(replaced) > len(writer.unneeded(3_600_000)) == 1
        writer.vacuum(0)
        # the state that the vacuum replaced itself is due with the next one
        assert not [path for path in writer.unneeded(0) if path.exists()]
    assert not [path for path in replaced if path.exists()]
    assert read_tables(root, "c") == tables


@pytest.mark.parametrize("field", ["end", "opened", "members"])
def test_a_damaged_base_is_told(tmp_path: Path, field: str) -> None:
    root, end_ms = expired(tmp_path, LOG)
    carry_out(root, end_ms + 1)

    def remove(state: object) -> object:
        text = json.dumps(state)
        changed = json.loads(text)
        for partition in changed["partitions"].values():
            if partition["base"]:
                del partition["base"][field]
        return changed

    change_state(root, "c", remove)
    with (
        pytest.raises(InputError, match="not as the build wrote it"),
        read_warehouse(root) as warehouse,
    ):
        warehouse.state("c")


def test_a_past_before_what_is_derived_anew_stays(tmp_path: Path) -> None:
    """A file of assignments may have rows that ended before the retained records."""
    schema = TABLES["assignments"].schema
    ends = ((7, 9), (7, 10), (7, 11), (7, None), (8, 30))
    rows = [
        dict.fromkeys(schema.names)
        | {"offsets_partition": number, "from_log_offset": 1, "to_log_offset": end}
        for number, end in ends
    ]
    with FactWriter(tmp_path, "c", 1) as writer:
        writer.add({"assignments": pa.Table.from_pylist(rows, schema)})
        files = writer.finish()
    based = replace(PartitionState.none(), base=PartitionBase(10, None, None))
    states = {7: based, 8: PartitionState.none()}
    with FactWriter(tmp_path, "c", 2) as writer:
        gone = without(tmp_path, files, {7}, {7}, states, writer)
        [rest] = writer.finish()
    assert gone == [file.path for file in files]
    found = read_rows(tmp_path, rest, ["offsets_partition", "to_log_offset"]).to_pylist()
    assert [tuple(row.values()) for row in found] == [(7, 9), (7, 10), (8, 30)]
