"""Kafka's own command-line tools for groups, of any version: run, and their tables read."""

from __future__ import annotations

import re

from tests.broker.maven import run_java, version_tuple
from tests.broker.servers import Broker

Table = list[dict[str, str]]
"""Rows by the heads of their columns, in lower case: ``current-offset``."""

PATIENT = ("--timeout", "60000")
"""Milliseconds for which a tool waits for brokers (5000 by default): machines may be busy."""


def consumer_groups(version: str, bootstrap: str, *arguments: str) -> Table:
    """Run `kafka-consumer-groups`; `--list` gives rows of one column, "group"."""
    if version_tuple(version) < (3, 8):
        main = "kafka.admin.ConsumerGroupCommand"
    else:
        main = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
    old = ["--new-consumer"] if version_tuple(version) < (0, 11) else []
    patient = PATIENT if version_tuple(version) >= (1, 1) else ()
    return _run(version, main, [*old, "--bootstrap-server", bootstrap, *arguments, *patient])


def share_groups(version: str, bootstrap: str, *arguments: str) -> Table:
    """Run `kafka-share-groups`."""
    main = "org.apache.kafka.tools.consumer.group.ShareGroupCommand"
    return _run(version, main, ["--bootstrap-server", bootstrap, *arguments, *PATIENT])


def streams_groups(version: str, bootstrap: str, *arguments: str) -> Table:
    """Run `kafka-streams-groups`."""
    main = "org.apache.kafka.tools.streams.StreamsGroupCommand"
    return _run(version, main, ["--bootstrap-server", bootstrap, *arguments, *PATIENT])


def offsets_by_kafka(server: Broker, group_id: str) -> dict[tuple[str, int], int]:
    """Have Kafka's own tool say what a group has committed."""
    rows = consumer_groups(server.version, server.bootstrap, "--describe", "--group", group_id)
    return {
        (row["topic"], int(row["partition"])): offset
        for row in rows
        if (offset := number(row["current-offset"])) is not None
    }


def number(text: str) -> int | None:
    """Read a number; "-" and, in old versions, "unknown" are none."""
    return None if text in ("-", "unknown") else int(text)


def _run(version: str, main: str, arguments: list[str]) -> Table:
    printed = run_java(version, main, arguments).stdout.decode()
    if "--list" in arguments:
        return [{"group": line} for line in printed.splitlines() if line]
    table: Table = []
    heads: list[tuple[str, int]] = []
    for line in printed.splitlines():
        if re.match(r"(GROUP|TOPIC)[, ] *", line):
            heads = _heads(line)
        elif line and heads and "has no active members" not in line:
            table.append(_row(line, heads))
    return table


def _heads(line: str) -> list[tuple[str, int]]:
    """Find the columns of a table, names and first positions; 0.9 has commas between them."""
    if "," in line:
        return [(name.strip().lower().replace(" ", "-"), -1) for name in line.split(",")]
    return [(head[0].lower(), head.start()) for head in re.finditer(r"\S+(?: \(ID\))?", line)]


def _row(line: str, heads: list[tuple[str, int]]) -> dict[str, str]:
    """Give each word to the column in which it begins: a long one reaches into the next."""
    names = [name for name, _ in heads]
    if heads[0][1] < 0:
        cells = [cell.strip() for cell in line.split(",")]
        return dict(zip(names, cells, strict=True))
    words: dict[str, list[str]] = {name: [] for name in names}
    for word in re.finditer(r"\S+", line):
        words[max((start, name) for name, start in heads if start <= word.start())[1]].append(
            word[0]
        )
    return {name: " ".join(found) for name, found in words.items()}
