"""Errors, problem kinds, and the exit statuses that follow from them.

Every error that a user can see is a `KgroupError`. `kgroup.cli.main` alone turns it into a line
on standard error and an exit status.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import IntEnum
from typing import Self

from kgroup.described_enum import DescribedEnum
from kgroup.redaction import redact


class ExitStatus(IntEnum):
    """Exit status of a command; promised to shell scripts."""

    DONE = 0
    FAILED = 1
    USAGE = 2
    NOT_FOUND = 3
    PARTLY = 4
    PROBLEM = 5


class ProblemKind(DescribedEnum):
    """Kind of a problem, as a word that scripts may rely on.

    A `kgroup.model.problem.Problem`, damage in a log and every error have one.
    """

    TORN_TAIL = ("torn-tail", "The last batch is truncated.")
    BAD_CRC = ("bad-crc", "A batch with a wrong checksum.")
    BAD_LENGTH = ("bad-length", "A length that no batch can have, or that contradicts the data.")
    BAD_MAGIC = ("bad-magic", "A message format that Kafka never had.")
    BAD_OFFSET = (
        "bad-offset",
        "A negative offset, or one above the maximum (message format v2's checksum does not "
        "cover offsets).",
    )
    BAD_RECORD = (
        "bad-record",
        "A batch with a correct checksum whose records contradict its header, or a record that "
        "contradicts the state of its group.",
    )
    BAD_COMPRESSION = (
        "bad-compression",
        "An unknown compression codec, or data that the codec cannot decompress.",
    )
    TOO_LARGE = (
        "too-large",
        "A batch above the limits: 64 MiB, compressed or decompressed, or 1,048,576 records; "
        "also, once 128 MiB of a log were decompressed from batches that expand more than a "
        "hundredfold, each further batch of that kind.",
    )
    ZEROS = ("zeros", "Space that was allocated but never written, or whose data was lost.")
    GARBAGE = ("garbage", "Bytes that do not look like a batch.")
    UNKNOWN_RECORD = (
        "unknown-record",
        "A record type or version that this version of kgroup does not know.",
    )
    INCONSISTENT = ("inconsistent", "Records that contradict each other.")
    UNREADABLE = (
        "unreadable",
        "A file or folder that does not exist, cannot be read, or has no such contents.",
    )
    NOT_A_SEGMENT = ("not-a-segment", "A non-empty file without any record batch.")
    OTHER_TOPIC = ("other-topic", "A segment of another topic.")
    UNKNOWN_PARTITION = (
        "unknown-partition",
        "A segment in a folder whose name does not contain the partition of `__consumer_offsets`.",
    )
    SHORTER = (
        "shorter",
        "A live partition whose log end offset is before the records already read.",
    )
    DIVERGING = (
        "diverging",
        "A copy of a partition whose records contradict those of another copy.",
    )
    UNREACHABLE = ("unreachable", "A broker to which no connection can be made.")
    DISCONNECTED = ("disconnected", "A broker that closes the connection.")
    SILENT = ("silent", "A broker that accepts the connection but does not answer.")
    THROTTLED = ("throttled", "A broker that delays requests (quota).")
    REFUSED = ("refused", "A broker that rejects the user, or that kgroup does not trust.")
    UNSUPPORTED = ("unsupported", "A broker that is too old for the request.")
    UNUSABLE = ("unusable", "A broker that sends an invalid answer.")
    DENIED = (
        "denied",
        "A request that failed with an error; the reason has Kafka's name of the error and the "
        "missing permission.",
    )
    NO_COORDINATOR = (
        "no-coordinator",
        "A group, or all groups of a partition of `__consumer_offsets`, without an available "
        "coordinator.",
    )
    NO_LEADER = (
        "no-leader",
        "A partition without a leader; for a partition of `__consumer_offsets`, all its groups "
        "are missing.",
    )
    NO_ANSWER = ("no-answer", "A partition whose leader did not answer.")
    MOVING = ("moving", "A partition whose leadership is moving to another broker.")
    TOPIC_GONE = ("topic-gone", "A topic that no longer exists.")
    PARTITION_GONE = ("partition-gone", "A partition that its topic does not have.")
    NOT_AUTHORIZED = ("not-authorized", "A topic that the user may not describe.")
    NOT_FOUND = ("not-found", "A named group, topic or member that does not exist.")
    BAD_NODE = ("bad-node", "A ZooKeeper node with unexpected contents; `path` is its path.")
    DENIED_NODE = (
        "denied-node",
        "A ZooKeeper node that the user may not read; `path` is its path.",
    )
    FOREIGN_NODE = (
        "foreign-node",
        "A node below `/consumers` that Kafka's consumers do not write; `path` is its path.",
    )
    NOT_IN_SNAPSHOT = (
        "not-in-snapshot",
        "A group that was not selected when the snapshot was taken; it may exist.",
    )
    BAD_SPEC = (
        "bad-spec",
        "A group of `assign --spec` that is invalid, or lacks what was requested; `reason` has "
        "the line and field.",
    )
    ACTIVE = (
        "active",
        "A group with members, for which only they may commit; stop or remove them first.",
    )
    CHANGED = (
        "changed",
        "A group that has changed since a change was planned: other clients have committed or "
        "joined.",
    )
    OVERWRITTEN = (
        "overwritten",
        "A change that was executed and then overwritten by another process.",
    )
    UNKNOWN_END = (
        "unknown-end",
        "A change that was sent but not answered; check whether it was executed.",
    )
    OUT_OF_RANGE = (
        "out-of-range",
        "An offset that is outside the partition's log, or cannot be compared with it; it is "
        "not committed.",
    )
    NOT_READ = (
        "not-read",
        "Records of `__consumer_offsets` beyond `--log-budget`, which a complete answer needs.",
    )
    UNFIT = ("unfit", "A group without members, or of an unsupported type or strategy.")
    BUSY = ("busy", "A warehouse that another process is changing.")
    FAILED = ("failed", "Any other error that ended the command; see the reason.")
    MORE = (
        "more",
        "Further problems that are only counted: 1000 are kept, and 20 are shown on standard "
        "error.",
    )

    @property
    def exit_status(self) -> ExitStatus:
        """Exit status of a report that has this problem and no rows."""
        return _STATUSES.get(self, ExitStatus.PARTLY)


_STATUSES: Mapping[ProblemKind, ExitStatus] = {
    ProblemKind.NOT_FOUND: ExitStatus.NOT_FOUND,
    ProblemKind.UNREADABLE: ExitStatus.FAILED,
    ProblemKind.NOT_A_SEGMENT: ExitStatus.FAILED,
    ProblemKind.OTHER_TOPIC: ExitStatus.FAILED,
    ProblemKind.BAD_SPEC: ExitStatus.FAILED,
    ProblemKind.UNFIT: ExitStatus.FAILED,
}
"""Exit statuses of kinds that leave nothing usable; other kinds may affect only a part."""


class KgroupError(Exception):
    """Base of the errors that end a command; the text says what failed, why, and what to do.

    Secrets in the text are redacted.

    Attributes:
        exit_status: exit status of the process.
        kind: kind of the problem.
        group_id: group id; None if the error is not about one group.
        path: path of the file; None if the error is not about one file.
        topic: topic name of a user topic; None if the error is not about one topic.
    """

    exit_status = ExitStatus.FAILED
    kind = ProblemKind.FAILED

    def __init__(
        self,
        reason: str,
        *,
        group_id: str | None = None,
        path: str | None = None,
        topic: str | None = None,
    ) -> None:
        super().__init__(redact(reason))
        self.group_id = group_id
        self.path = path and redact(path)
        self.topic = topic

    @classmethod
    def of_group(cls, group_id: str, reason: str) -> Self:
        """Return an error about a group, whose text begins with it."""
        return cls(f"{named_group(group_id)}: {reason}", group_id=group_id)


class InputError(KgroupError):
    """A file, stream or answer that cannot be used at all."""

    kind = ProblemKind.UNREADABLE


def install_advice(*extras: str) -> str:
    """Return how to get the packages of one of these extras, however kgroup was installed."""
    names = " or ".join(f"[{extra}]" for extra in extras)
    return f"install the extra {names} (docs/install.md)"


class AbsentTableError(InputError):
    """A table, or its database file, does not exist.

    Attributes:
        what: the message without the advice.
    """

    def __init__(self, what: str, advice: str, *, path: str | None = None) -> None:
        super().__init__(f"{what}; {advice}", path=path)
        self.what = redact(what)


class UnfitError(InputError):
    """A readable group that is not of an expected kind."""

    kind = ProblemKind.UNFIT


class UnknownStrategyError(UnfitError):
    """A strategy that the software assigning the group does not have."""

    def __init__(
        self,
        strategy: str,
        software: object,
        known: Iterable[str],
        *,
        group_id: str | None = None,
        remark: str = "",
    ) -> None:
        group = "" if group_id is None else f"{named_group(group_id)}: "
        super().__init__(
            f"{group}expected a strategy of {software} ({', '.join(known)}), found {strategy!r}"
            f"{remark}",
            group_id=group_id,
        )


class BusyError(KgroupError):
    """Another process is changing the same thing."""

    kind = ProblemKind.BUSY


class UsageError(KgroupError):
    """Options or arguments that contradict each other."""

    exit_status = ExitStatus.USAGE


class NotFoundError(KgroupError):
    """None of the named groups, topics or members exists."""

    kind = ProblemKind.NOT_FOUND
    exit_status = kind.exit_status


class UnknownGroupError(NotFoundError):
    """A warehouse has no record of the group."""


class BrokerError(KgroupError):
    """A broker cannot be reached, or its answer is an error.

    Attributes:
        kind: one of the kinds for brokers, their partitions and groups.
        broker_id: broker id; None if unknown.
        was_sent: whether the request was sent; the broker may then have executed it.
    """

    def __init__(
        self,
        kind: ProblemKind,
        reason: str,
        broker_id: int | None = None,
        *,
        was_sent: bool = False,
    ) -> None:
        super().__init__(reason)
        self.kind = kind
        self.broker_id = broker_id
        self.was_sent = was_sent


def near_names(name: str, names: Iterable[str]) -> str:
    """Return "; did you mean ...?" with the names that are similar to an unknown name.

    Case is ignored.

    Returns:
        An empty string if no name is similar.
    """
    from difflib import get_close_matches

    by_letters: dict[str, list[str]] = {}
    for candidate in names:
        by_letters.setdefault(candidate.lower(), []).append(repr(candidate))
    alike = get_close_matches(name.lower(), by_letters)
    close = [letter for letters in alike for letter in by_letters[letters]]
    return f"; did you mean {' or '.join(close)}?" if close else ""


def shown_id(group_id: str) -> str:
    """Return a group id for use in a sentence: '' for the empty id, which Kafka allows."""
    return group_id or "''"


def named_group(group_id: str) -> str:
    """Return "group ID" for use in a sentence."""
    return f"group {shown_id(group_id)}"
