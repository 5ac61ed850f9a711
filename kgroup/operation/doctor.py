"""Check installed packages and programs, and whether a cluster or ZooKeeper is reachable."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from kgroup import __version__
from kgroup.described_enum import DescribedEnum
from kgroup.errors import BrokerError, ExitStatus, ProblemKind, install_advice
from kgroup.operation.printed_command import profile_in_use
from kgroup.operation.report import Report
from kgroup.source.base import GroupSource


class Package(NamedTuple):
    """A package that kgroup depends on.

    Attributes:
        name: name of the distribution.
        needed_for: functions that require it.
        extra: extra of kgroup that installs it; None if kgroup always installs it.
    """

    name: str
    needed_for: str
    extra: str | None = None


PACKAGES = (
    Package("click", "every command line"),
    Package("cramjam", "compressed batches"),
    Package("cryptography", "key stores (JKS, PKCS12)"),
    Package("google-crc32c", "checksums of batches"),
    Package("google-re2", "patterns (--regex, subscriptions)"),
    Package("kafka-python", "clusters (-b, -C)"),
    Package("kazoo", "ZooKeeper (--zookeeper)"),
    Package("msgspec", "snapshots, and files of offsets and plans"),
    Package("numpy", "large logs and groups, history"),
    Package("orjson", "JSON"),
    Package("pyarrow", "decode-offsets, large logs, history"),
    Package("pyyaml", "YAML documents"),
    Package("rich", "tables on a terminal"),
    Package("tabulate", "tables in documents"),
    Package("llvmlite", "decoding large logs fast", "fast"),
    Package("numba", "decoding large logs fast", "fast"),
    Package("deltalake", "kgroup history with a warehouse", "history"),
    Package("duckdb", "questions of kgroup history (or pyspark)", "history"),
    Package("pyspark", "kgroup history stream, and build of much data", "spark"),
    Package("pandas", "pyspark", "spark"),
    Package("textual", "the screen of kgroup top", "top"),
    Package("sqlalchemy", "offsets in SQL tables", "sql"),
    Package("psycopg", "offsets in PostgreSQL", "sql"),
    Package("pymysql", "offsets in MySQL and MariaDB", "sql"),
)
"""The dependencies in `pyproject.toml`."""


def installed_version(name: str) -> str | None:
    """Return a distribution's version without importing it; None if not installed."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version(name)
    except PackageNotFoundError:
        return None


def versions() -> Iterator[tuple[str, str]]:
    """Yield the names and versions of Python and of the installed packages."""
    yield "Python", sys.version.partition(" ")[0]
    for package in PACKAGES:
        version = installed_version(package.name)
        if version is not None:
            yield package.name, version


class Availability(DescribedEnum):
    """Condition of a component; part of the JSON output."""

    OK = ("ok", "The component is installed, or answers.")
    MISSING = ("missing", "The component is not installed; everything that does not need it works.")
    UNREACHABLE = (
        "unreachable",
        "The component does not answer or rejects the user; `reason` says why.",
    )


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """Condition of a component of kgroup, or of a source and its brokers.

    Attributes:
        kind: kind of component: `part`, `program`, `profile`, `source` or `broker`; a part is
            kgroup, Python or a package, a profile the one in use, a source the cluster or
            ZooKeeper.
        name: name of the component; `host:port (id)` for a broker.
        condition: condition of the component: `ok`, `missing` or `unreachable`.
        version: installed version; None if not installed, or unknown.
        needed_for: functions that require the component; None for sources and brokers.
        reason: why the component does not answer, as a sentence; None if it does, or is only not
            installed.
        advice: what to do, if anything.
    """

    kind: str
    name: str
    condition: Availability
    version: str | None = None
    needed_for: str | None = None
    reason: str | None = None
    advice: str | None = None

    @property
    def is_wrong(self) -> bool:
        """Whether the component does not answer, or is missing though kgroup always needs it."""
        is_missing = self.condition is Availability.MISSING and self.name in _ALWAYS_NEEDED
        return is_missing or self.condition is Availability.UNREACHABLE


_ALWAYS_NEEDED = frozenset(package.name for package in PACKAGES if package.extra is None)
_ADVICE = {
    ProblemKind.UNREACHABLE: "check host and port, that the server runs, and firewalls",
    ProblemKind.DISCONNECTED: "compare security.protocol with the listener; read the server's log",
    ProblemKind.SILENT: "check the server's load and the network, or raise --timeout",
    ProblemKind.THROTTLED: "raise the user's quota, or --timeout",
    ProblemKind.REFUSED: "correct security.protocol, sasl.* and ssl.* settings",
    ProblemKind.UNUSABLE: "check that the address is a Kafka listener",
}
_ADVERTISED = "check that the broker runs, and its advertised.listeners from this host"


def examine(source: GroupSource | None, java_trouble: str | None) -> Report[Diagnosis]:
    """Check the installed components, and connect to a source and all its brokers.

    Args:
        source: source to connect to; None to connect to none.
        java_trouble: why Spark finds no Java; None if it does.

    Raises:
        InputError: ZooKeeper has no nodes of Kafka.
    """
    rows = [*_installed(java_trouble), *(() if source is None else _reached(source))]
    is_bad = any(row.condition is Availability.UNREACHABLE for row in rows)
    return Report(tuple(rows), verdict=ExitStatus.PROBLEM if is_bad else None)


def _installed(java_trouble: str | None) -> Iterator[Diagnosis]:
    python, version = next(versions())
    for name, installed in (("kgroup", __version__), (python, version)):
        yield Diagnosis("part", name, Availability.OK, installed, "everything")
    yield from map(_package, PACKAGES)
    needed_for = "pyspark"
    if java_trouble is None:
        yield Diagnosis("program", "java", Availability.OK, needed_for=needed_for)
    else:
        yield Diagnosis(
            "program", "java", Availability.MISSING, needed_for=needed_for, advice=java_trouble
        )


def _package(package: Package) -> Diagnosis:
    version = installed_version(package.name)
    if version is not None:
        return Diagnosis("part", package.name, Availability.OK, version, package.needed_for)
    advice = install_advice(package.extra) if package.extra else "install kgroup again"
    return Diagnosis(
        "part", package.name, Availability.MISSING, needed_for=package.needed_for, advice=advice
    )


def _reached(source: GroupSource) -> Iterator[Diagnosis]:
    assert source.store_name is not None  # every source that can be reached has one
    name = source.store_name.where
    if (profile := profile_in_use()) is not None:
        yield Diagnosis("profile", profile, Availability.OK)
    try:
        brokers = source.view(()).brokers
        failed = source.unreachable()
    except BrokerError as error:
        yield _unreachable("source", name, str(error), _ADVICE.get(error.kind))
        return
    if not brokers:
        yield _unreachable("source", name, "no broker is registered there", "check the chroot")
        return
    yield Diagnosis("source", name, Availability.OK)
    for number, broker in sorted(brokers.items()):
        problem = failed.get(number)
        if problem is None:
            yield Diagnosis("broker", broker.label, Availability.OK)
        else:
            is_unreachable = problem.kind is ProblemKind.UNREACHABLE
            advice = _ADVERTISED if is_unreachable else _ADVICE.get(problem.kind)
            yield _unreachable("broker", broker.label, problem.reason, advice)


def _unreachable(kind: str, name: str, reason: str, advice: str | None) -> Diagnosis:
    return Diagnosis(kind, name, Availability.UNREACHABLE, reason=reason, advice=advice)
