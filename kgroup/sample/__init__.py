"""Real recorded data, so that every read command can be tried without a server."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

LOG_DIR_TIME_MS = 1_795_981_943_801
"""Time of the last record of the log directory, in epoch milliseconds: ages are as of then."""


def sample_log_dir() -> Path:
    """Return the log directory of a small shop's broker (Kafka 4.3.1)."""
    return Path(str(files(__package__) / "log-dir"))


def sample_zookeeper() -> Path:
    """Return a snapshot of the ZooKeeper of the same shop some years ago (Kafka 0.8.2.2)."""
    return Path(str(files(__package__) / "zookeeper" / "snapshot.json"))
