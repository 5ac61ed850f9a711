"""What kgroup is made of: the packages that it uses, what for, and which are installed."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import NamedTuple


class Part(NamedTuple):
    """A package that kgroup uses.

    Attributes:
        name: of the distribution.
        needed_for: what cannot be done without it.
        extra: of kgroup that brings it; None: it comes with kgroup itself.
    """

    name: str
    needed_for: str
    extra: str | None = None


PARTS = (
    Part("click", "every command line"),
    Part("cramjam", "compressed batches"),
    Part("cryptography", "key stores (JKS, PKCS12)"),
    Part("google-crc32c", "checksums of batches"),
    Part("google-re2", "patterns (--regex, subscriptions)"),
    Part("kafka-python", "clusters (-b, -C)"),
    Part("kazoo", "ZooKeeper (--zookeeper)"),
    Part("msgspec", "snapshots, and files of offsets and plans"),
    Part("numpy", "large logs and groups, history"),
    Part("orjson", "JSON"),
    Part("pyarrow", "decode-offsets, large logs, history"),
    Part("rich", "tables on a terminal"),
    Part("tabulate", "tables in documents"),
    Part("llvmlite", "decoding large logs fast", "fast"),
    Part("numba", "decoding large logs fast", "fast"),
    Part("duckdb", "questions of kgroup history (or pyspark)", "history"),
    Part("plotly", "kgroup history report", "history"),
    Part("pyspark", "kgroup history stream, and build of much data", "spark"),
    Part("pandas", "pyspark", "spark"),
    Part("sqlalchemy", "offsets in SQL tables", "sql"),
    Part("psycopg", "offsets in PostgreSQL", "sql"),
    Part("pymysql", "offsets in MySQL and MariaDB", "sql"),
)
"""As `pyproject.toml` has them."""


def installed_version(name: str) -> str | None:
    """Tell the version of a distribution; None where it is not installed. It is not imported."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version(name)
    except PackageNotFoundError:
        return None


def versions() -> Iterator[tuple[str, str]]:
    """Yield Python and the packages that are installed, with their versions."""
    yield "Python", sys.version.partition(" ")[0]
    for part in PARTS:
        found = installed_version(part.name)
        if found is not None:
            yield part.name, found
