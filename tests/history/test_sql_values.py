"""Values that Python, Arrow or JSON has no type for, as `history sql` writes them in every form."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.command_line import Cli
from tests.history.warehouse_files import make_warehouse

FORMS = ("json", "jsonl", "csv", "tsv", "table", "markdown", "html")

VALUES: tuple[tuple[str, object], ...] = (
    ("'infinity'::TIMESTAMP", "infinity"),
    ("'-infinity'::TIMESTAMPTZ", "-infinity"),
    ("'-infinity'::DATE", "-infinity"),
    ("union_value(a := 'infinity'::TIMESTAMP)", "infinity"),
    ("[{'a': 'infinity'::TIMESTAMP}, NULL]", [{"a": "infinity"}, None]),
    ("MAP {'a': 'infinity'::DATE}", [["a", "infinity"]]),
    ("to_timestamp(253402300799)", "9999-12-31T23:59:59+00:00"),
    ("to_timestamp(253402300800)", "10000-01-01T00:00:00+00:00"),
    ("TIMESTAMP '290000-01-01 00:00:00.5'", "290000-01-01T00:00:00.500000"),
    ("DATE '5881580-07-10'", "5881580-07-10"),
    ("DATE '0001-01-01'", "0001-01-01"),
    ("DATE '0001-01-01 (BC)'", "0000-01-01"),
    ("TIMESTAMP_NS '2026-01-01 00:00:00.123456789'", "2026-01-01T00:00:00.123456789"),
    ("TIME '24:00:00'", "24:00:00"),
    ("'12:00:00+02'::TIMETZ", "12:00:00+02"),
    ("INTERVAL 14 MONTH", "P14M"),
    ("INTERVAL '-1 day 90 seconds'", "P-1DT90S"),
    ("INTERVAL '0.5 seconds'", "PT0.5S"),
    ("INTERVAL 0 DAY", "PT0S"),
    ("'NaN'::DOUBLE", None),
    ("'-inf'::FLOAT", None),
    ("170141183460469231731687303715884105727", 2**127 - 1),
    ("340282366920938463463374607431768211455::UHUGEINT", str(2**128 - 1)),
    ("SUM(9223372036854775807) FROM range(3)", 3 * (2**63 - 1)),
    ("1.5::DECIMAL(38, 10)", 1.5),
    ("2.00::DECIMAL(38, 10)", 2),
    ("'\\xAA'::BLOB", "qg=="),
    ("'101'::BIT", "101"),
    ("union_value(a := 1)", 1),
    ("'a'::ENUM ('a')", "a"),
    ("[1, NULL]::INT[2]", [1, None]),
    ("'10000000-0000-0000-0000-000000000000'::UUID", "10000000-0000-0000-0000-000000000000"),
    ("MAP {[1]: 'x'}", [[[1], "x"]]),
    ("NULL", None),
    ("[]", []),
)


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    times = [{"time_ms": 1_784_000_000_000}, {"time_ms": 2}]
    return make_warehouse(tmp_path_factory.mktemp("values"), {"c": {"damage": times}})


@pytest.mark.parametrize(("expression", "value"), VALUES, ids=[text for text, _ in VALUES])
def test_a_value_is_written_in_every_form(
    warehouse: Path, cli: Cli, expression: str, value: object
) -> None:
    asked = ("history", "sql", "--warehouse", warehouse, "--engine", "duckdb")
    _, _, source = expression.partition(" FROM ")
    query = f"SELECT {expression.removesuffix(f' FROM {source}')} AS v"
    query += f" FROM {source}" if source else ""
    for form in FORMS:
        found = cli(*asked, query, "-o", form)
        assert found.status == 0, (form, found.err)
        if form == "json":
            assert json.loads(found.out)["data"] == [{"v": value}]
        elif form != "jsonl" and isinstance(value, str | int):
            assert str(value) in found.out, form


def test_decimals_keep_all_their_digits(warehouse: Path, cli: Cli) -> None:
    digits = "1234567890123456789012345678.0000000001"
    asked = ("history", "sql", "--warehouse", warehouse, f"SELECT {digits} AS v, [{digits}] AS l")
    for form in FORMS:
        found = cli(*asked, "-o", form, "--engine", "duckdb")
        assert found.status == 0, (form, found.err)
        assert found.out.count(digits) == 2, form


def test_times_of_another_unit_are_times_far_away(warehouse: Path, cli: Cli) -> None:
    query = "SELECT to_timestamp(time_ms) AS t FROM damage ORDER BY t"
    found = cli(
        "history", "sql", "--warehouse", warehouse, query, "-o", "json", "--engine", "duckdb"
    )
    assert [row["t"] for row in json.loads(found.out)["data"]] == [
        "1970-01-01T00:00:02+00:00",
        "58502-09-17T03:33:20+00:00",
    ]
