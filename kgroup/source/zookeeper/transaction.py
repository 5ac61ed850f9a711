"""Transactions (multi), many in flight on the client's connection: all that changes a node.

kazoo's messages go over the client's own connection, as its reads do, so that servers, TLS and the
digest are what they are there, and hundreds of groups need no thread and no round trip each.
kazoo's own client would bring a second session, with settings and threads of its own.

    multi     for each operation: int32 opcode, byte 0, int32 -1, the operation's fields;
              then int32 -1, byte 1, int32 -1
    answer    likewise with results; of one that failed the error of each operation: 0 for those
              before the one that failed, -2 for those behind it

Besides multi there is getACL: a new node gets the ACL of the node that it is put below.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from kazoo.protocol.serialization import GetACL, Transaction

from kgroup.errors import ProblemKind
from kgroup.model.zookeeper import Node
from kgroup.source.zookeeper.client import ServerError, ZookeeperClient

Operation = Any
"""kazoo's Create, SetData, Delete or CheckVersion, with its whole path."""
_LARGEST = 900_000
"""Bytes: a server takes no request above jute.maxbuffer, 1 MiB where nobody set it."""
NO_ERROR = 0
_NO_NODE, _NO_AUTH, _BAD_VERSION, _NODE_EXISTS, _NOT_EMPTY = -101, -102, -103, -110, -111
_UNIMPLEMENTED, _READ_ONLY = -6, -119
CONTENDED = frozenset({_NO_NODE, _BAD_VERSION, _NODE_EXISTS, _NOT_EMPTY})
"""Errors by which ZooKeeper says that a node is not as it was read."""
BUSY = "Others write to the group again and again: stop them first."
_ANY_VERSION = -1
_HEADER = struct.Struct(">iqi")
_IN_FLIGHT = 32
_BYTES_IN_FLIGHT = 8 << 20


class LostError(Exception):
    """A connection that broke.

    Attributes:
        errors: of the transactions whose answers had come.
        sent: how many were sent; of those without an answer nobody knows whether they were done.
        trouble: why.
        unknown_end: what is told of those.
    """

    def __init__(self, errors: Sequence[int], sent: int, trouble: ServerError) -> None:
        super().__init__(str(trouble))
        self.errors = errors
        self.sent = sent
        self.trouble = trouble
        self.unknown_end = (
            ProblemKind.UNKNOWN_END,
            f"{trouble}; whether the group was changed is not known: read it again.",
        )


def parts_of(operations: Iterable[Operation]) -> Iterator[list[Operation]]:
    """Divide operations into transactions that a server takes; mostly there is one."""
    part: list[Operation] = []
    size = 0
    for operation in operations:
        more = _size(operation)
        if part and size + more > _LARGEST:
            yield part
            part, size = [], 0
        part.append(operation)
        size += more
    if part:
        yield part


def reason_of(error: int) -> tuple[ProblemKind, str]:
    """Say why a transaction failed."""
    if error in CONTENDED:
        return ProblemKind.CHANGED, BUSY
    if error == _NO_AUTH:
        text = "The ACL of a node of the group does not let us write (zookeeper.digest)."
        return ProblemKind.DENIED_NODE, text
    if error == _UNIMPLEMENTED:
        return ProblemKind.UNSUPPORTED, "ZooKeeper before 3.4 has no transactions."
    if error == _READ_ONLY:
        return ProblemKind.UNUSABLE, "The server is cut off from the others, and only lets read."
    return ProblemKind.UNUSABLE, f"ZooKeeper answers with error {error}."


def version_of(node: Node) -> int:
    """Return the version in which a node was read, to be compared."""
    return _ANY_VERSION if node.stat.version is None else node.stat.version


def run_transactions(
    client: ZookeeperClient, transactions: Sequence[Sequence[Operation]]
) -> list[int]:
    """Run transactions in order, each whether or not those before it succeeded.

    Returns:
        ZooKeeper's error code of each, 0 where it was done.

    Raises:
        LostError: the connection broke.
        BrokerError: no server can be connected to; nothing was sent.
    """
    link = client.connected()
    errors: list[int] = []
    sent = size = 0
    sizes = [sum(map(_size, operations)) for operations in transactions]
    try:
        while len(errors) < len(transactions):
            while sent < len(transactions) and (
                sent == len(errors)
                or (sent - len(errors) < _IN_FLIGHT and size + sizes[sent] <= _BYTES_IN_FLIGHT)
            ):
                sent += 1  # as soon as a part of it may be on its way
                link.send([Transaction(transactions[sent - 1])])
                size += sizes[sent - 1]
            error, body = link.answer()
            size -= sizes[len(errors)]
            errors.append(_error(error, body, link.who))
            client.deadline.heard()
    except ServerError as trouble:
        client.drop()
        raise LostError(errors, sent, trouble) from None
    return errors


def acl_of(client: ZookeeperClient, path: str) -> list[Any] | None:
    """Return the ACL of a node, as kazoo has it; None where it is gone or not told.

    Raises:
        BrokerError: no server answers.
    """
    try:
        link = client.connected()
        link.send([GetACL(client.full_path(path))])
        error, body = link.answer()
    except ServerError as trouble:
        client.drop()
        raise client.error([trouble]) from None
    if error:
        return None
    acl, _ = GetACL.deserialize(body, _HEADER.size)
    # A server hides the digests of others from those who may not change the ACL.
    if any(each.id.scheme == "digest" and each.id.id.endswith(":x") for each in acl):
        return None
    return list(acl)


def _error(error: int, body: bytes, who: str) -> int:
    """Find the error of the operation that made a transaction fail."""
    if error:
        return error
    try:
        results = Transaction.deserialize(body, _HEADER.size)
    except (struct.error, UnicodeDecodeError, IndexError, KeyError):
        raise ServerError(
            ProblemKind.UNUSABLE, f"{who} gives an answer that cannot be read"
        ) from None
    codes = [int(getattr(each, "code", 0)) for each in results if isinstance(each, Exception)]
    return next((code for code in codes if code), NO_ERROR)  # all behind that one have -2


def _size(operation: Operation) -> int:
    """Return the bytes of an operation in a transaction."""
    return len(operation.serialize()) + 9
