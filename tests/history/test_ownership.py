"""Who owned what: derived from tables, compared with a coordinator asked after each record."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import pairwise
from pathlib import Path

import pyarrow as pa
import pytest

from kgroup.columnar.schema import records
from kgroup.history.build.derivation import GroupShare
from tests.examples import examples, some_of
from tests.history.derived import decoded, derived, in_order, tables, topic_names
from tests.history.owner_oracle import assignments
from tests.history.random_history import RandomHistory

ROOT = Path(__file__).parents[2]
LOGS = sorted(
    {
        path.parent
        for pattern in (
            "kgroup/sample/log-dir/__consumer_offsets-*/*.log",
            "tests/data/*/__consumer_offsets-*/*.log",
        )
        for path in ROOT.glob(pattern)
    }
)


def by_time(batch: pa.RecordBatch, one_in: int) -> list[pa.RecordBatch]:
    """Rows that may have been written at once, those of `one_in` instants together."""
    times = batch["timestamp_ms"].to_pylist()
    cuts = [
        here
        for here in range(1, len(times))
        if times[here] is None or times[here] != times[here - 1]
    ]
    return [
        batch.slice(start, end - start) for start, end in pairwise([0, *cuts[::one_in], len(times)])
    ]


@pytest.mark.slow
@pytest.mark.parametrize(
    "folder", some_of(LOGS, 8), ids=lambda folder: f"{folder.parent.name}/{folder.name}"
)
def test_recorded_groups(folder: Path) -> None:
    check(folder)


def check(folder: Path, names: Mapping[str, str] | None = None) -> None:
    """All at once and in parts it is what a coordinator says."""
    partition = int(folder.name.split("-")[-1])
    batches = decoded(folder)
    log = [record for batch in batches for record in records(batch)]
    names = topic_names(log) if names is None else names
    expected = in_order(assignments(log, names))
    assert in_order(derived(partition, [tables(batches)], names)) == expected
    instants, parts = (
        [tables([part]) for batch in batches for part in by_time(batch, one_in)]
        for one_in in (examples(3, 1), examples(3, 8))
    )
    assert in_order(derived(partition, instants, names)) == expected
    for count in (2, 5):
        shares = [GroupShare(number, count) for number in range(count)]
        rows = [
            row
            for share in shares
            for row in derived(partition, map(share_of(share), parts), names)
        ]
        assert in_order(rows) == expected


def share_of(share: GroupShare) -> Callable[[dict[str, pa.Table]], dict[str, pa.Table]]:
    return lambda part: {name: share.of(rows) for name, rows in part.items()}


@pytest.mark.parametrize("is_coded", [False, True])
def test_a_group_is_in_one_share(is_coded: bool) -> None:
    """Which one, does not depend on the process, nor on the file that has its rows."""
    group_ids = [*(f"g{number % 50}" for number in range(1000)), None, "ü"]
    rows = pa.table({"group_id": pa.array(group_ids, pa.string()), "n": range(len(group_ids))})
    rows = pa.concat_tables([rows.slice(0, 333), rows.slice(333)])
    coded = rows.set_column(0, "group_id", rows["group_id"].dictionary_encode())
    places: dict[str | None, set[int]] = {}
    found = []
    for number in range(4):
        own = GroupShare(number, 4).of(coded if is_coded else rows).to_pylist()
        assert [row["n"] for row in own] == sorted(row["n"] for row in own)
        found += own
        for row in own:
            places.setdefault(row["group_id"], set()).add(number)
    assert in_order(found) == in_order(rows.to_pylist())
    assert all(len(numbers) == 1 for numbers in places.values())
    assert places["g0"] == {0x4DBCDF33 % 4}  # CRC-32 of "g0", computed by gzip
    assert len({*map(tuple, places.values())}) == 4


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(examples(1, 8)))
def test_random_groups(seed: int, tmp_path: Path) -> None:
    history = RandomHistory(seed)
    history.write(tmp_path)
    for folder in sorted(tmp_path.glob("__consumer_offsets-*")):
        check(folder, history.topic_names)
