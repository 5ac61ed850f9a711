"""The error tree and the exit statuses.

Every error that a user can meet is a `KgroupError`; one boundary, in `kgroup.cli.main`, turns it
into a line on standard error and an exit status.
"""

from enum import IntEnum

__all__ = [
    "BrokerError",
    "BusyError",
    "ExitStatus",
    "InputError",
    "KgroupError",
    "NotFoundError",
    "UnknownGroupError",
    "UsageError",
]


class ExitStatus(IntEnum):
    """What a process says when it ends; promised to shell scripts."""

    DONE = 0
    FAILED = 1
    USAGE = 2
    NOT_FOUND = 3
    PARTLY = 4
    PROBLEM = 5


class KgroupError(Exception):
    """Something that ends a command; its text says what was expected, found, where, what to do.

    Attributes:
        exit_status: of the process.
        kind: stable short word for programs, as of `kgroup.model.problem.Problem`.
        group_id: the group concerned, where it is one.
        path: the file concerned, where it is one.
        topic: the user's topic concerned, where it is one.
    """

    exit_status = ExitStatus.FAILED
    kind = "failed"

    def __init__(
        self,
        reason: str,
        *,
        group_id: str | None = None,
        path: str | None = None,
        topic: str | None = None,
    ) -> None:
        super().__init__(reason)
        self.group_id = group_id
        self.path = path
        self.topic = topic


class InputError(KgroupError):
    """A file, a stream or an answer that cannot be used at all."""

    kind = "unreadable"


class BusyError(KgroupError):
    """Something that another process is changing."""

    kind = "busy"


class UsageError(KgroupError):
    """Options or arguments that make no sense together."""

    exit_status = ExitStatus.USAGE


class NotFoundError(KgroupError):
    """None of the groups, topics or members that were named exists."""

    exit_status = ExitStatus.NOT_FOUND
    kind = "not-found"


class UnknownGroupError(NotFoundError):
    """A group that a warehouse has no record of."""


class BrokerError(KgroupError):
    """A broker that cannot be asked, or whose answer is an error.

    Attributes:
        kind: stable short word for programs: "unreachable", "disconnected", "silent", "refused",
            "unsupported", "throttled", "unusable", "denied".
        broker_id: the broker, where it is known.
    """

    def __init__(self, kind: str, reason: str, broker_id: int | None = None) -> None:
        super().__init__(reason)
        self.kind = kind
        self.broker_id = broker_id
