"""Limits by name, as the command line and profiles write them; findings that are accepted."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from typing import Any

import orjson

from kgroup.errors import InputError, near_names
from kgroup.model.instant import duration_ms
from kgroup.model.pattern import parse_regex
from kgroup.operation.check.look import GroupThresholds, Thresholds
from kgroup.operation.check.rule import Rule

LIMITS: Mapping[str, str] = {
    "old-commit": "old_commit_ms",
    "expiring": "expiring_ms",
    "rebalance": "rebalance_ms",
    "transaction": "transaction_ms",
    "stuck": "stuck_ms",
    "past": "past_ms",
    "rebalances": "rebalances",
    "generations": "generations",
    "uneven": "uneven",
    "coordinated": "coordinated",
    "lag": "lag",
    "time-lag": "time_lag_ms",
}
"""By name, the attribute of `Thresholds`."""
_OF_GROUPS = frozenset(LIMITS) - {"past", "rebalances", "generations", "coordinated"}
"""What a group can have of its own: the others are of a warehouse, or of the cluster."""


def parse_limit(name: str, text: str) -> tuple[str, float]:
    """Read a limit: a duration, or how many times.

    Returns:
        the attribute of `Thresholds`, and its value.

    Raises:
        ValueError: there is none of that name, or the value is no such thing.
    """
    if name not in LIMITS:
        raise ValueError(
            f"expected one of {', '.join(LIMITS)}, found {name!r}{near_names(name, LIMITS)}"
        )
    field = LIMITS[name]
    if field.endswith("_ms"):
        value = duration_ms(text)
        if value is None:
            raise ValueError(f"{name}: expected a duration (10m, 1d, 90s), found {text!r}")
        return field, value
    try:
        times = float(text)
    except ValueError:
        times = -1.0
    least, most = (0, 1e18) if name == "lag" else (1, 1e9)
    if not least <= times < most:
        raise ValueError(f"{name}: expected a number from {least}, found {text!r}")
    return field, times


def parse_group_limits(
    name: str, texts: Mapping[str, str], strongest: Collection[str] = ()
) -> GroupThresholds:
    """Read limits of some groups.

    Args:
        name: an id, or a regular expression that matches whole ids.
        texts: values by the names of limits.
        strongest: attributes of `Thresholds` that others have set, who count more.

    Raises:
        ValueError: there is no such limit, a group has none of its own, or a value is none.
    """
    changes: dict[str, float] = {}
    for key, text in texts.items():
        field, value = parse_limit(key, text)
        if key not in _OF_GROUPS:
            raise ValueError(f"{key}: a group has no limit of its own for this; set it for all")
        if field not in strongest:
            changes[field] = value
    try:
        pattern = parse_regex(name)
    except ValueError:
        pattern = None  # the name of a group may be none
    return GroupThresholds(name, pattern, changes)


def with_limits(limits: Thresholds, changes: Iterable[tuple[str, float]]) -> Thresholds:
    """Change limits; later ones count."""
    named: dict[str, Any] = dict(changes)
    return replace(limits, **named)


def read_baseline(text: bytes, path: str) -> frozenset[tuple[str | None, ...]]:
    """Read the keys of findings that an earlier check wrote as JSON or JSON lines.

    Args:
        text: of the file.
        path: its name, for errors.

    Raises:
        InputError: it is none.
    """
    keys = set()
    for at, row in enumerate(_rows(text, path), 1):
        try:
            keys.add(_key(row))
        except (TypeError, KeyError, ValueError):
            raise InputError(
                f"{path}: finding {at}: expected an object with code and group_id, as kgroup check "
                "-o json writes it",
                path=path,
            ) from None
    return frozenset(keys)


def _rows(text: bytes, path: str) -> Iterable[Any]:
    try:
        if text.lstrip().startswith(b"{") and b'"command"' in text[:200]:
            document = orjson.loads(text)
            if document.get("command") == "check" and isinstance(document["data"], list):
                return document["data"]
        else:
            return [orjson.loads(line) for line in text.splitlines() if line.strip()]
    except (orjson.JSONDecodeError, KeyError, TypeError, AttributeError):
        pass
    raise InputError(
        f"{path}: expected findings, as kgroup check -o json or -o jsonl writes them", path=path
    )


def _key(row: Mapping[str, Any]) -> tuple[str | None, ...]:
    """Give what `Finding.key` gives of the finding that this was."""
    code = Rule(row["code"])
    values = [row["group_id"]]
    values += (row.get(name) for name in ("topic", "partition", "member_id", "broker", "path"))
    if not all(value is None or isinstance(value, str | int) for value in values):
        raise TypeError
    return code, *(None if value is None else str(value) for value in values)
