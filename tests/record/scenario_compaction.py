"""Segments after the log cleaner, and what it leaves in a folder while it works."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from pathlib import Path

from tests.broker.servers import Broker, broker
from tests.record.classic import CLASSIC_CONFIG
from tests.record.clients import finish, java, make_topics
from tests.record.raw import RawMember, commit, configure_topic, delete_groups, delete_offsets, join
from tests.record.recording import Recording
from tests.record.session import Session
from tests.record.wire import Wire

TOPICS = {"orders": 6, "payments": 3}

ROLL_S = 2.2
"""Longer than `segment.ms` below: the next record begins a new segment."""


def record_compacted(recording: Recording, version: str) -> None:
    """Fill segments, compact them, go on: gaps, delete horizons, markers alone, empty batches.

    An empty batch is what keeps the last sequence of a producer whose records were overwritten.
    In 4.3.1 transactions raise the producer's epoch, and its last marker does that instead.
    The log directory is kept as it is after the cleaner. Below `leftovers/` stand states that a
    crash leaves, put together from the files before and after: see `_leftovers`.
    """
    config = CLASSIC_CONFIG | {
        "offsets.topic.num.partitions": "2",
        "log.cleaner.backoff.ms": "500",
        "log.roll.ms": "2000",
        "log.segment.delete.delay.ms": "3600000",
        "log.cleaner.min.compaction.lag.ms": "86400000",
    }
    recording.note(broker=version, mode="KRaft", config=config)
    before = recording.work / "before"
    with (
        broker(version, recording.work, config=config) as server,
        java(recording, server, "Consumers", "Producers", "Transactions") as clients,
    ):
        make_topics(recording, server, clients, TOPICS)
        for turn in range(5):
            _turn(recording, server, clients, turn)
            time.sleep(ROLL_S)
        _tombstones(recording, server)
        time.sleep(ROLL_S)
        _turn(recording, server, clients, 5)
        time.sleep(ROLL_S)
        _turn(recording, server, clients, 6)
        _copy_logs(server.log_dir, before)
        with Wire(server.version, server.bootstrap) as wire:
            configure_topic(
                wire, "__consumer_offsets", min_compaction_lag_ms="0", min_cleanable_dirty_ratio="0"
            )
        _await(lambda: _is_compacted(server.log_dir), "the cleaner is not done after a minute")
        recording.did("all segments but the active ones compacted, into one for each partition")
        _turn(recording, server, clients, 7)
        finish(recording, server, wanted=_logs_and_deleted)
    if version == "4.3.1":
        _leftovers(recording, before)


def _turn(recording: Recording, server: Broker, clients: Session, turn: int) -> None:
    """What comes again every turn, so that the next turn makes it obsolete."""
    with Wire(server.version, server.bootstrap) as wire:
        many = {("orders", partition): 10 * turn + partition for partition in range(6)}
        commit(wire, "orders-compacted", many, metadata=f"turn {turn}")
        commit(wire, f"once-{turn}", {("orders", turn % 6): turn}, metadata="never again")
        commit(wire, "ledger-overwritten", {("payments", 2): turn}, metadata="no transaction")
    member = RawMember(server.version, server.bootstrap, f"worker-{turn}")
    join(
        member,
        f"workers-{turn % 2}",
        {"worker": f"turn {turn}".encode()},
        b"task",
        protocol_type="workers",
        instance_id="worker",
    )
    member.close()
    offsets = f"payments:0:{turn},payments:1:{turn}"
    for name, end in [("twice", "commit"), ("aborted", "abort")]:
        clients.call(
            "transaction",
            id=f"ledger-tx-{name}",
            group=f"ledger-{name}",
            offsets=offsets,
            metadata=f"turn {turn}",
            end=end,
        )
    if turn == 1:
        clients.call(
            "transaction",
            id="ledger-tx-once",
            group="ledger-overwritten",
            offsets="payments:2:100",
            metadata="in a transaction",
            end="commit",
        )
    recording.did(
        f"turn {turn}: six offsets of orders-compacted, one of once-{turn} and ledger-overwritten; "
        f"static member of workers-{turn % 2}; transactions of ledger-twice (committed) and "
        "ledger-aborted" + ("; ledger-overwritten in a transaction" if turn == 1 else "")
    )


def _tombstones(recording: Recording, server: Broker) -> None:
    with Wire(server.version, server.bootstrap) as wire:
        delete_groups(wire, "once-0", "once-1")
        commit(wire, "cleanup-partly", {("orders", 0): 1, ("orders", 1): 2})
        delete_offsets(wire, "cleanup-partly", [("orders", 1)])
    recording.did("once-0 and once-1 deleted; cleanup-partly: two offsets, one deleted")


def _is_compacted(log_dir: Path) -> bool:
    """Whether every partition has been cleaned up to its active segment."""
    checkpoint = log_dir / "cleaner-offset-checkpoint"
    if not checkpoint.exists():
        return False
    cleaned = {}
    for line in checkpoint.read_text().splitlines()[2:]:
        topic, partition, offset = line.rsplit(" ", 2)
        cleaned[f"{topic}-{partition}"] = int(offset)
    for folder in log_dir.glob("__consumer_offsets-*"):
        active = max(int(path.stem) for path in folder.glob("*.log"))
        if cleaned.get(folder.name, 0) < active:
            return False
    return True


def _copy_logs(log_dir: Path, target: Path) -> None:
    for path in log_dir.glob("__consumer_offsets-*/*.log"):
        copy = target / path.relative_to(log_dir)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, copy)


def _logs_and_deleted(name: str) -> bool:
    folder, _, file = name.rpartition("/")
    if folder.startswith("__consumer_offsets-"):
        return file.endswith((".log", ".log.deleted")) or file == "partition.metadata"
    return file in ("meta.properties", "cleaner-offset-checkpoint", "partition.metadata") and (
        not folder.startswith("__")
    )


def _leftovers(recording: Recording, before: Path) -> None:
    """Folders as a crash leaves them while the cleaner replaces segments 0, a, b … by a new 0.

    The cleaner writes `0.log.cleaned`, renames it to `0.log.swap` when it is whole, renames the
    old segments to `.deleted`, and `.swap` to `.log`. The files are the recorded ones; only their
    names and their company are made.
    """
    for old in sorted(before.glob("__consumer_offsets-*")):
        after = recording.kept / old.name
        cleaned = (after / f"{0:020}.log").read_bytes()
        olds = sorted(old.glob("*.log"))
        for state in ("cleaned", "swap", "swap-half"):
            folder = recording.kept / "leftovers" / state / old.name
            folder.mkdir(parents=True)
            for position, path in enumerate(olds):
                gone = state == "swap-half" and position < len(olds) - 1
                name = path.name + ".deleted" if gone else path.name
                shutil.copyfile(path, folder / name)
            if state == "cleaned":
                (folder / f"{0:020}.log.cleaned").write_bytes(cleaned[: len(cleaned) // 2])
            else:
                (folder / f"{0:020}.log.swap").write_bytes(cleaned)
    recording.note(
        leftovers={
            "cleaned": "crash while the cleaner wrote its new segment: .cleaned is half a segment, "
            "all old ones are there; a broker deletes .cleaned",
            "swap": "crash after the new segment was whole: .swap stands for all old segments but "
            "the last; a broker finishes the swap",
            "swap-half": "the same, after the old segments were renamed to .deleted",
        }
    )


def record_compacted_wrappers(recording: Recording) -> None:
    """Compact gzip wrappers of message format v1 on 0.10.2.2: gaps inside a wrapper."""
    config = CLASSIC_CONFIG | {
        "offsets.topic.num.partitions": "2",
        "offsets.topic.compression.codec": "1",
        "offsets.topic.segment.bytes": "1000",
        "log.cleaner.backoff.ms": "500",
        "log.cleaner.min.cleanable.ratio": "0.01",
    }
    version = "0.10.2.2"
    recording.note(broker=version, mode="ZooKeeper", codec="gzip", config=config)
    with (
        broker(version, recording.work, config=config) as server,
        java(recording, server, "Producers") as clients,
    ):
        make_topics(recording, server, clients, TOPICS)
        with Wire(version, server.bootstrap) as wire:
            for turn in range(12):
                # Each turn overwrites some of what earlier turns committed in one request.
                some = {("orders", partition): turn for partition in (0, turn % 6, (turn + 3) % 5)}
                for group in ("orders-compacted", "orders-compacted-too"):
                    commit(wire, group, some, metadata=f"turn {turn} " * 8)
                commit(wire, f"once-{turn}", some, metadata="never again " * 8)
                time.sleep(0.3)
        recording.did("twelve turns of commits, each overwriting some offsets of earlier ones")
        _await(lambda: _is_compacted(server.log_dir), "the cleaner is not done after a minute")
        finish(recording, server)


def _await(condition: Callable[[], bool], complaint: str) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(complaint)
        time.sleep(0.5)
