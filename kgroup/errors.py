"""Errors, problem kinds, and the exit statuses that follow from them.

Every error that a user can see is a `KgroupError`. `kgroup.cli.main` alone turns it into a line
on standard error and an exit status.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import IntEnum

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

    TORN_TAIL = ("torn-tail", "The last batch is cut off.")
    BAD_CRC = ("bad-crc", "A batch whose checksum is wrong.")
    BAD_LENGTH = ("bad-length", "A length that no batch has, or that the bytes contradict.")
    BAD_MAGIC = ("bad-magic", "A message format that Kafka never had.")
    BAD_OFFSET = (
        "bad-offset",
        "An offset below 0 or above the largest (message format v2's checksum does not cover it).",
    )
    BAD_RECORD = (
        "bad-record",
        "A batch with the right checksum whose records contradict its header; a record that the "
        "state of its group contradicts.",
    )
    BAD_COMPRESSION = ("bad-compression", "An unknown codec, or data that are not what it writes.")
    TOO_LARGE = (
        "too-large",
        "A batch that is larger than the limits allow: 64 MiB, packed or unpacked; 1,048,576 "
        "records; and once 128 MiB of a file were of batches that grow more than a hundredfold, "
        "further ones that do.",
    )
    ZEROS = ("zeros", "Space that was allocated and never written, or was lost.")
    GARBAGE = ("garbage", "Bytes that do not look like a batch at all.")
    UNKNOWN_RECORD = (
        "unknown-record",
        "A record type or version that this version of kgroup does not know.",
    )
    INCONSISTENT = ("inconsistent", "Records that contradict each other.")
    UNREADABLE = (
        "unreadable",
        "A file or folder that does not exist, cannot be read, or holds nothing of the kind.",
    )
    NOT_A_SEGMENT = ("not-a-segment", "A file that is not empty, without a single record batch.")
    OTHER_TOPIC = ("other-topic", "A segment of another topic.")
    UNKNOWN_PARTITION = (
        "unknown-partition",
        "A segment in a folder that does not tell its partition of `__consumer_offsets`.",
    )
    SHORTER = ("shorter", "A live partition that ends before what was read of it.")
    UNREACHABLE = ("unreachable", "A broker that no connection can be made to.")
    DISCONNECTED = ("disconnected", "A broker that closes the connection.")
    SILENT = ("silent", "A broker that takes the connection and does not answer.")
    THROTTLED = ("throttled", "A broker that holds requests back.")
    REFUSED = ("refused", "A broker that does not let us in, or that we do not trust.")
    UNSUPPORTED = ("unsupported", "A broker too old for the question.")
    UNUSABLE = ("unusable", "A broker whose answer cannot be used.")
    DENIED = (
        "denied",
        "An error in the place of an answer; the reason has Kafka's name of it and the "
        "permission that is missing.",
    )
    NO_COORDINATOR = (
        "no-coordinator",
        "A group, or all groups of a partition of `__consumer_offsets`, for which no broker "
        "answers now.",
    )
    NO_LEADER = (
        "no-leader",
        "A partition without a leader; one of `__consumer_offsets` lacks all its groups.",
    )
    NO_ANSWER = ("no-answer", "A partition whose leader gave no answer.")
    MOVING = ("moving", "A partition whose leader is another broker now.")
    TOPIC_GONE = ("topic-gone", "A topic that does not exist any more.")
    PARTITION_GONE = ("partition-gone", "A partition that its topic does not have.")
    NOT_AUTHORIZED = ("not-authorized", "A topic that may not be described.")
    NOT_FOUND = ("not-found", "A group, topic or member that was asked for and does not exist.")
    BAD_NODE = (
        "bad-node",
        "A node of ZooKeeper that holds something else than it should; `path` is its path.",
    )
    DENIED_NODE = ("denied-node", "A node of ZooKeeper that may not be read; likewise.")
    FOREIGN_NODE = (
        "foreign-node",
        "A node below `/consumers` that no consumer of Kafka writes; likewise.",
    )
    NOT_IN_SNAPSHOT = (
        "not-in-snapshot",
        "A group that nobody asked for when the snapshot was taken: it may exist.",
    )
    BAD_SPEC = (
        "bad-spec",
        "A group of `assign --spec` that is not written as it should be, or does not have what is "
        "asked for; `reason` has its line and field.",
    )
    ACTIVE = (
        "active",
        "A group with members that only they may commit for; stop them, or remove them, first.",
    )
    CHANGED = (
        "changed",
        "A group that is not as it was when a change was planned: others have committed or joined.",
    )
    OVERWRITTEN = (
        "overwritten",
        "A change that was carried out; another process changed the same after that.",
    )
    UNKNOWN_END = (
        "unknown-end",
        "A change that was sent, and no answer came to tell whether it was carried out: look.",
    )
    OUT_OF_RANGE = (
        "out-of-range",
        "An offset that the partition's log does not have, or that cannot be compared with it: it "
        "is not committed.",
    )
    UNFIT = (
        "unfit",
        "A group without members, or of a type or a strategy for which this is not made.",
    )
    BUSY = ("busy", "A warehouse that another process is changing.")
    FAILED = ("failed", "What ended the command and is none of the others; the reason tells.")
    MORE = (
        "more",
        "Further problems that were only counted: 1000 are kept, 20 are told on standard error.",
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
        group_id: the group concerned; None if it is not one group.
        path: the file concerned; None if it is not one file.
        topic: the user's topic concerned; None if it is not one topic.
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


class InputError(KgroupError):
    """A file, stream or answer that cannot be used at all."""

    kind = ProblemKind.UNREADABLE


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
        broker_id: the broker; None if unknown.
        was_sent: whether the request was sent; if it changes something, the broker may have
            carried it out.
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
