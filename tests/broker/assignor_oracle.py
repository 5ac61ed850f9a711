"""Kafka's own assignors, and Java's maps, asked in a JVM."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.assignor.case.hash_map import MapCase
from tests.broker import maven
from tests.examples import in_depth

_CLASSIC = "org.apache.kafka.clients.consumer."


def main_class(protocol: str, kafka_version: str) -> str:
    """Name the Java program that asks the assignors of a protocol."""
    if protocol == "classic":
        return f"{_CLASSIC}{'OldAssignorOracle' if kafka_version < '2' else 'AssignorOracle'}"
    program = "ZookeeperAssignorOracle" if protocol == "zookeeper" else "ServerAssignorOracle"
    return f"kgroup.{program}"


def ask(
    specs: Sequence[Mapping[str, Any]], protocol: str, kafka_version: str
) -> list[dict[str, Any]]:
    """Give for each spec the `assignment`, or the `error` that the assignor throws."""
    main = main_class(protocol, kafka_version)
    done = maven.run_java(
        kafka_version,
        main,
        [],
        input="".join(json.dumps(spec) + "\n" for spec in specs).encode(),
        classes=maven.compile_oracle(main, kafka_version),
        heap="512m",
        jvm=[
            "-Dkgroup.log=OFF",
            f"-XX:TieredStopAtLevel={in_depth(4, 1)}",
            "-XX:-OmitStackTraceInFastThrow",  # which leaves messages out too, after many errors
            # where Kafka itself runs on Java 8, which has no such messages
            f"-XX:{'-' if protocol == 'zookeeper' else '+'}ShowCodeDetailsInExceptionMessages",
        ],
        timeout=3600,
        # Keys with one hash are in a tree in the order of their identity hash codes, which depend
        # on how classes are loaded.
        archive=None,
    )
    return [json.loads(line) for line in done.stdout.splitlines()]


def ask_hash_order(cases: Iterable[MapCase]) -> list[list[str]]:
    """Return the keys of each map as Java's HashMap iterates over them."""
    kafka = "4.3.1"  # for its JSON library
    classes = maven.compile_java([Path(__file__).parent / "java" / "HashOrder.java"], kafka)
    lines = (json.dumps({"capacity": case.capacity, "steps": case.steps}) for case in cases)
    text = "".join(f"{line}\n" for line in lines)
    done = maven.run_java(kafka, "kgroup.HashOrder", [], input=text.encode(), classes=classes)
    return [json.loads(line) for line in done.stdout.splitlines()]
