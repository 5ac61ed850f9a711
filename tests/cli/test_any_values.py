"""Values of options, any text: a value of the right kind comes out, or `ValueError`."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kgroup.cli.option.parameter import parse_bytes, parse_end, parse_instant
from kgroup.model.pattern import parse_regex
from kgroup.model.snapshot import Origin
from kgroup.operation.take_snapshot import take_snapshot
from kgroup.protocol.record.coordinator_record import decode_record
from kgroup.sample import sample_log_dir
from kgroup.source.log.source import LogDir
from kgroup.source.snapshot.file import snapshot_lines, write_gzip
from tests.cli.command_line import Cli
from tests.examples import examples
from tests.recorded_tree import recorded_source

INT64 = 1 << 63

any_text = st.text(max_size=40) | st.text("0123456789abcdefxXmshdw:+-.TZ \\_ ٣", max_size=40)
instants = any_text | st.from_regex(
    r"-?\d{1,25}|(\d{1,25}(ms|s|m|h|d|w)){1,3}|\d{4}-\d\d-\d\d([T ]\d\d:\d\d(:\d\d(\.\d{1,9})?)?)?"
    r"(Z|[+-]\d\d:\d\d(:\d\d)?)?",
    fullmatch=True,
)


@given(instants)
def test_any_instant(text: str) -> None:
    with suppress(ValueError):
        assert -INT64 <= parse_instant(text) < INT64


@given(instants | st.from_regex(r"offset: ?\d{1,25}", fullmatch=True))
def test_any_end_of_a_log(text: str) -> None:
    with suppress(ValueError):
        offset, time_ms = parse_end(text)
        assert (offset is None) != (time_ms is None)
        assert offset is None or 0 <= offset < INT64
        assert time_ms is None or -INT64 <= time_ms < INT64


@given(
    any_text
    | st.text("0123456789ABCDEFabcdef+/=", max_size=40)
    | st.text("\\\\\\xuU0137dDfFbn'\"g\ufffd", max_size=30)
)
def test_any_bytes(text: str) -> None:
    with suppress(ValueError):
        assert isinstance(parse_bytes(text), bytes)


@given(st.text(max_size=20) | st.text("()[]{}*+?|\\^$.ab0", max_size=20))
def test_any_regular_expression(text: str) -> None:
    with suppress(ValueError):
        assert parse_regex(text).pattern == text


@pytest.mark.parametrize("parse", [parse_instant, parse_end, parse_bytes])
@pytest.mark.parametrize(
    "text", ["9" * 5000, "9" * 5000 + "w", "9999-12-31T23:59:59-23:59", "\0", "\ud800"]
)
def test_what_is_out_of_range(parse: Callable[[str], object], text: str) -> None:
    with suppress(ValueError):
        parse(text)


@pytest.mark.parametrize("text", ["(" * 5000, "(a{1000}){1000}", "(?=a)", r"(a)\1"])
def test_regular_expression_that_the_library_cannot_take(text: str) -> None:
    with pytest.raises(ValueError, match="is no regular expression"):
        parse_regex(text)


@settings(max_examples=examples(12), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    key=st.builds(
        lambda number, rest: number.to_bytes(2, "big") + rest,
        st.integers(0, 24),
        st.binary(max_size=20),
    ),
    value=st.none() | st.binary(max_size=20),
)
def test_any_pasted_record(cli: Cli, key: bytes, value: bytes | None) -> None:
    pasted = [] if value is None else ["--value", f"hex:{value.hex()}"]
    result = cli("decode-offsets", "--key", f"hex:{key.hex()}", *pasted, "-o", "jsonl")
    line = json.loads(result.out)
    assert (line["type"], line["key"], line["value"]) == decode_record(key, value)
    is_bad = any("error" in (line[part] or {}) for part in ("key", "value"))
    assert result.status == (4 if is_bad else 0), result.err


DIGITS = "9" * 5000
DEEP = "[" * 1000 + "]" * 1000
DRY_RUN = ("assign", "--dry-run", "--sample", "ledger")
STORMS = ("history", "storms", "--warehouse", "/nowhere")
OAUTH = (
    *("list", "-b", "127.0.0.1:1", "-X", "security.protocol=SASL_PLAINTEXT"),
    *("-X", "sasl.mechanism=OAUTHBEARER"),
    *("-X", 'sasl.jaas.config=a.OAuthBearerLoginModule required clientId="a" clientSecret="b";'),
    *("-X", "sasl.login.callback.handler.class=OAuthBearerLoginCallbackHandler"),
    *("-X", "sasl.oauthbearer.token.endpoint.url={}"),
)


@pytest.mark.parametrize(
    ("command", "value", "message"),
    [
        ((*DRY_RUN, "--add-member", "{}"), DIGITS, "expected a number from 1 to 10000, found"),
        ((*DRY_RUN, "--add-member", "streams={}"), DIGITS, "streams=: expected 1 to 10000, found"),
        ((*STORMS, "--rate", "{}/10m"), DIGITS, "expected a number of 2 or more and a duration"),
        ((*STORMS, "--rate", "2/{}m"), DIGITS, "is not a duration; expected 90s"),
        (OAUTH, "https://[a/", "expected https://HOST/PATH"),
        (OAUTH, "https://a:70000/", "expected https://HOST/PATH"),
        (OAUTH, f"https://a:{DIGITS}/", "expected https://HOST/PATH"),
        (OAUTH, "file:///a%00b", "expected a path, found a NUL"),
    ],
)
def test_wrong_usage(cli: Cli, command: tuple[str, ...], value: str, message: str) -> None:
    result = cli(*(word.replace("{}", value) for word in command))
    assert result.status == 2
    assert message in result.err
    assert "bug" not in result.err


@pytest.mark.parametrize("host", ["a..b", f"{'a' * 70}.example"])
@pytest.mark.parametrize("option", ["--zookeeper", "--bootstrap-server"])
def test_names_that_no_host_has(cli: Cli, host: str, option: str) -> None:
    result = cli("list", option, f"{host}:9092", "--timeout", "5")
    assert result.status == 1
    assert host in result.err
    assert "bug" not in result.err


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        (
            '{"topics": {}, "members": [{"member_id": %s, "topics": []}]}',
            "found lists or objects of many levels",
        ),
        ('{"id": %s}', "expected an object, found nothing"),
        ("%s", "expected an object, found lists or objects of many levels"),
        ('{"a": [[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[%s', "expected JSON, found"),
    ],
)
def test_a_spec_of_many_levels(cli: Cli, tmp_path: Path, spec: str, message: str) -> None:
    file = tmp_path / "spec.json"
    file.write_text(spec % DEEP)
    result = cli("assign", "--dry-run", "--spec", file)
    assert result.status == 1
    assert message in result.err
    assert "bug" not in result.err


def test_a_spec_that_is_too_large(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kgroup.cli.option.file.LARGEST", 1 << 20)
    file = tmp_path / "spec.json"
    file.write_bytes(b" " * ((1 << 20) + 1))
    result = cli("assign", "--dry-run", "--spec", file)
    assert result.status == 1
    assert f"{file}: expected at most 1,048,576 bytes, found 1,048,577; split it" in result.err


@pytest.mark.parametrize(
    "command", ["assign --dry-run", "plan assignor roundrobin", "simulate --from"]
)
@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda group: group.update(generation_id=1 << 31), "generation_id: expected a number up"),
        (
            lambda group: group["members"][0]["subscription"].update(topics=["t" * 40_000]),
            "subscription.topics[0]: expected a text of at most 32767 characters, found",
        ),
        (
            lambda group: group["members"][0]["assignment"][0].update(partition=-1),
            "expected partitions from 0 to 9999999, found -1 of payments with member payment-",
        ),
        (
            lambda group: group["members"][0]["assignment"][0].update(partition=(1 << 31) - 1),
            "expected partitions from 0 to 9999999, found 2147483647 of payments with member pay",
        ),
    ],
)
def test_a_snapshot_of_a_group_that_no_cluster_has(
    cli: Cli, tmp_path: Path, command: str, change: Any, message: str
) -> None:
    file = tmp_path / "snapshot.json"
    assert cli("snapshot", "--sample", "payment-service", "-f", file).status == 0
    tree = json.loads(file.read_text())
    change(tree["groups"][0])
    file.write_text(json.dumps(tree))
    result = cli(*command.split(), "payment-service", "--snapshot", file)
    assert result.status == 1
    assert message in result.err
    assert "bug" not in result.err


@pytest.mark.parametrize("timeout", ["inf", "nan", "-1", "1e400", DIGITS, ""])
def test_any_patience_of_completion(monkeypatch: pytest.MonkeyPatch, timeout: str) -> None:
    from kgroup.cli.option import suggestion

    monkeypatch.setenv("KGROUP_COMPLETION_TIMEOUT", timeout)
    given: Any = suggestion._patience_s()
    assert given == suggestion.PATIENCE_S


COMMANDS = (
    ["list"],
    ["list", "-o", "json"],
    ["describe", "--all"],
    ["describe", "--all", "-o", "json"],
    ["describe", "--all", "--members", "-o", "csv"],
    ["describe", "ledger", "-o", "markdown"],
    ["coordinator", "ledger", "nobody"],
)

ZK_COMMANDS = (
    ["zk", "ids", "-o", "json"],
    ["zk", "owners", "-o", "tsv"],
    ["zk", "tree", "-o", "json"],
    ["zk", "tree", "/consumers", "--depth", "3"],
    ["zk", "fetchers", "pricing", "-o", "json"],
    ["zk", "fetchers", "clickstream", "--reset", "smallest"],
)

KINDS = st.sampled_from(["sample", "zookeeper"])

scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.integers(-(1 << 63), (1 << 63) - 1)
    | st.floats()
    | st.text(max_size=5)
    | st.sampled_from(["consumer", "Stable", "", "\ud800", "\x1b[2J", "a\nb", "orders"])
)
values = scalars | st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=5,
)


@cache
def real(kind: str) -> bytes:
    if kind == "zookeeper":
        report = take_snapshot(recorded_source(), Origin("zookeeper"), taken_ms=1)
    else:
        report = take_snapshot(LogDir([sample_log_dir()]), Origin("sample"), taken_ms=1)
    return b"".join(snapshot_lines(report.data[0]))


def mutate(data: st.DataObject, tree: Any) -> None:
    """Change one thing somewhere in a tree: replace it, leave it out, double it, or swap two."""
    node: Any = tree
    while True:
        key = data.draw(st.sampled_from(list(node) if isinstance(node, dict) else range(len(node))))
        deeper = isinstance(node[key], dict | list) and len(node[key])
        if not deeper or data.draw(st.integers(0, 5)) == 0:
            break
        node = node[key]
    kind = data.draw(st.sampled_from(["replace", "remove", "double", "swap"]))
    if kind == "remove":
        del node[key]
    elif kind == "double" and isinstance(node, list):
        node.insert(key, copy.deepcopy(node[key]))
    elif kind == "swap":
        other = data.draw(st.sampled_from(list(node) if isinstance(node, dict) else [0]))
        node[key], node[other] = node[other], node[key]
    else:
        node[key] = data.draw(values)


def check(
    cli: Cli, file: Path, command: list[str], statuses: tuple[int, ...] = (0, 1, 3, 4)
) -> None:
    result = cli(*command, "--snapshot", file)
    assert result.status in statuses, result.err
    assert "bug" not in result.err
    if result.status == 1:
        (line,) = result.err.splitlines()
        assert line.startswith(f"kgroup: error: {file}: ")
    if command[-1] == "json" and result.status != 2:
        name = " ".join(command[:2]) if command[0] == "zk" else command[0]
        assert json.loads(result.out)["command"] == name


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "a.json"


@pytest.mark.slow
@settings(max_examples=examples(40), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data(), kind=KINDS, count=st.integers(1, 3), command=st.sampled_from(COMMANDS))
def test_another_tree(
    cli: Cli, file: Path, data: st.DataObject, kind: str, count: int, command: list[str]
) -> None:
    tree = json.loads(real(kind))
    for _ in range(count):
        mutate(data, tree)
    file.write_text(json.dumps(tree))
    check(cli, file, command)


@pytest.mark.slow
@settings(max_examples=examples(40), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data(), count=st.integers(1, 3), command=st.sampled_from(ZK_COMMANDS))
def test_other_nodes(
    cli: Cli, file: Path, data: st.DataObject, count: int, command: list[str]
) -> None:
    """What is wrong lies in a node, or there are no nodes at all."""
    tree = json.loads(real("zookeeper"))
    for _ in range(count):
        mutate(data, tree["zookeeper"])
    if data.draw(st.integers(0, 20)) == 0:
        tree["zookeeper"] = None
    file.write_text(json.dumps(tree))
    check(cli, file, command, (0, 1, 3, 4) if tree["zookeeper"] is not None else (2,))


@pytest.mark.slow
@settings(max_examples=examples(20), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    data=st.data(),
    kind=KINDS,
    compressed=st.booleans(),
    junk=st.binary(max_size=4),
    command=st.sampled_from(COMMANDS),
)
def test_other_bytes(
    cli: Cli,
    file: Path,
    data: st.DataObject,
    kind: str,
    compressed: bool,
    junk: bytes,
    command: list[str],
) -> None:
    with file.open("wb") as out:
        if compressed:
            write_gzip(out, iter([real(kind)]))
        else:
            out.write(real(kind))
    content = file.read_bytes()
    start = data.draw(st.integers(0, len(content)))
    end = data.draw(st.integers(start, min(len(content), start + 4)) | st.just(len(content)))
    file.write_bytes(content[:start] + junk + content[end:])
    check(cli, file, command)
