"""Change groups in ZooKeeper: write committed offsets (compare and set), and delete groups.

    /consumers/<group>/offsets/<topic>/<partition>     the offset in decimal ASCII

as `ZkUtils.updatePersistentPath` writes it for 0.8's consumers. The changes of a group are one
transaction: each node is set in the version that was read, created if missing, or deleted, all or
nothing. ZooKeeper itself detects concurrent changes. No transaction can prevent a member from
joining between the check for members and the write.

A group too large for one transaction (jute.maxbuffer; about 6,000 partitions) is divided: an error
may then leave part of it written, and is reported by partition.

New parent nodes get the ACL of the node above them: below Kafka's `/consumers`, open to the world,
because consumers of any user write there (`ZkData.defaultAcls`), or the ACL that the cluster's
administrators have set. When the last offset of a topic is deleted, so is the topic's node; nodes
of groups stay.

All changes are transactions (multi), many of them in flight. kazoo's messages are sent over the
connection that `ZookeeperClient` reads from: with its servers, TLS and digest, and without a thread
and a round trip per group. kazoo's own client would add a second session, with its own settings and
threads.

    multi     for each operation: int32 opcode, byte 0, int32 -1, the operation's fields;
              then int32 -1, byte 1, int32 -1
    response  the same with results; for a failed one, the error of each operation: 0 for those
              before the failed one, -2 for those after it

Besides multi, getACL is sent: a new node gets the ACL of its parent.
"""

from __future__ import annotations

import re
import struct
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from kazoo.protocol.serialization import Create, Delete, GetACL, SetData, Transaction

from kgroup.errors import BrokerError, InputError, ProblemKind
from kgroup.model.cluster import TopicPartition
from kgroup.model.offset import CommittedOffset, OffsetChange
from kgroup.model.problem import Problem
from kgroup.model.zookeeper import Node, ZookeeperTree
from kgroup.source.base import Question
from kgroup.source.offset_change import conflict, place_of, remaining, unwritten
from kgroup.source.zookeeper.client import ServerError, ZookeeperClient
from kgroup.source.zookeeper.nodes import is_name, read_subtree, read_tree
from kgroup.source.zookeeper.view import reading_of

_GROUPS_AT_ONCE = 200
_ANY_VERSION = -1
_STATE = Question(members=False)
_NO_NAME = "A ZooKeeper node cannot have this group or topic name."

_FORBIDDEN = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\uf8ff\ufff0-\U0010ffff]")
"""Characters that a node's name cannot have.

Source: `org.apache.zookeeper.common.PathUtils.validatePath`.
"""

Operation = Any
"""kazoo's Create, SetData, Delete or CheckVersion, with its full path."""


def write_offsets(
    client: ZookeeperClient,
    changes: Mapping[str, Sequence[OffsetChange]],
    on_done: Callable[[str], object],
) -> tuple[Problem, ...]:
    """Write offsets; see `GroupSource.write_offsets`.

    Raises:
        BrokerError: no server answers, and nothing was changed.
        InputError: there are no nodes of Kafka.
    """
    wanted = {group_id: of_group for group_id, of_group in changes.items() if of_group}
    writer = _Writer(client, wanted, on_done)
    names = list(wanted)
    for start in range(0, len(names), _GROUPS_AT_ONCE):
        writer.write(names[start : start + _GROUPS_AT_ONCE])
    return tuple(problem for group_id in wanted for problem in writer.problems.get(group_id, ()))


class _Writer:
    """Writes groups.

    Attributes:
        problems: problems of changes that were not made, by group.
    """

    def __init__(
        self,
        client: ZookeeperClient,
        changes: Mapping[str, Sequence[OffsetChange]],
        on_done: Callable[[str], object],
    ) -> None:
        self.problems: dict[str, tuple[Problem, ...]] = {}
        self._client = client
        self._changes = changes
        self._on_done = on_done
        self._acls: dict[str, list[Any] | None] = {}
        self._rest: dict[str, list[OffsetChange]] = {}
        """Remaining changes of the groups that are being sent."""
        self._was_sent: set[str] = set()

    def write(self, group_ids: Sequence[str]) -> None:
        """Write some groups; retry those that are changed concurrently."""
        waiting = dict.fromkeys(group_ids, (ProblemKind.CHANGED, BUSY))
        for _ in range(ATTEMPTS):
            try:
                planned = self._plan(list(waiting))
                waiting = self._run(planned)
            except (BrokerError, InputError) as error:
                if not self._was_sent:
                    raise
                for group_id, (kind, _) in waiting.items():
                    if kind is not ProblemKind.UNKNOWN_END:
                        waiting[group_id] = error.kind, f"{error}."
                break
            if not waiting:
                return
        for group_id, trouble in waiting.items():
            self._refuse(group_id, *trouble)

    def _refuse(self, group_id: str, kind: ProblemKind, reason: str) -> None:
        changes = self._changes[group_id]
        rest = self._rest.get(group_id, changes)
        self.problems[group_id] = unwritten(kind, reason, group_id, rest, changes)

    # --- planning ---

    def _plan(self, group_ids: Sequence[str]) -> dict[str, list[list[Operation]]]:
        """Read groups, and return their operations; refuse groups that may not be changed."""
        names = [group_id for group_id in group_ids if _can_be_made(group_id)]
        for group_id in group_ids:
            if not _can_be_made(group_id):
                self._refuse(group_id, ProblemKind.UNSUPPORTED, _NO_NAME)
        tree = read_tree(self._client, names, _STATE)
        reading = reading_of(tree, names, _STATE)
        denied = {
            problem.group_id: problem
            for problem in reading.problems
            if problem.kind is ProblemKind.DENIED_NODE
        }
        planned = {}
        for group_id in names:
            group = reading.image.groups.get(group_id)
            now = {place_of(offset): offset for offset in group.offsets} if group else {}
            rest = list(self._changes[group_id])
            if group_id in self._was_sent:
                rest = self._rest[group_id] = remaining(rest, now)
            trouble = self._obstacle(group_id, rest, tree, now, denied.get(group_id))
            if not rest:
                self._on_done(group_id)
                continue
            if trouble is not None:
                self._refuse(group_id, *trouble)
            elif operations := list(self._operations(group_id, rest, tree)):
                self._rest[group_id] = rest
                planned[group_id] = list(parts_of(operations))
        return planned

    def _obstacle(
        self,
        group_id: str,
        rest: Sequence[OffsetChange],
        tree: ZookeeperTree,
        now: Mapping[TopicPartition, CommittedOffset],
        denied: Problem | None,
    ) -> tuple[ProblemKind, str] | None:
        """Return why a group cannot be changed; None if it can."""
        if denied is not None:
            return ProblemKind.DENIED_NODE, f"{denied.path}: {denied.reason}"
        if (reason := active(group_id, tree, owners=False)) is not None:
            return ProblemKind.ACTIVE, reason
        for change in rest:
            path = _leaf(group_id, change)
            if path in tree.nodes and place_of(change) not in now:
                text = f"{path}: expected an offset, found {tree.nodes[path].data!r}."
                return ProblemKind.BAD_NODE, text
            if not _can_be_made(change.topic):
                return ProblemKind.UNSUPPORTED, _NO_NAME
            if change.after is not None and path not in tree.nodes:
                above = _above(path, tree)
                if self._acl(above) is None:
                    text = f"{above}: its ACL, which new nodes below it would get, cannot be read."
                    return ProblemKind.DENIED_NODE, text
        changed = conflict(rest, now)
        return None if changed is None else (ProblemKind.CHANGED, changed)

    def _operations(
        self, group_id: str, changes: Sequence[OffsetChange], tree: ZookeeperTree
    ) -> Iterator[Operation]:
        """Yield the operations for the changes, parents before their children."""
        full_path = self._client.full_path
        left = Counter[str]()
        made: set[str] = set()
        for change in changes:
            path = _leaf(group_id, change)
            node = tree.nodes.get(path)
            if change.after is None:
                if node is not None:
                    left[change.topic] -= 1
                    yield Delete(full_path(path), version_of(node))
                continue
            data = str(change.after.committed_offset).encode("ascii")
            if node is not None:
                yield SetData(full_path(path), data, version_of(node))
                continue
            acl = self._acl(_above(path, tree))
            for parent in _parents(path):
                if parent not in tree.nodes and parent not in made:
                    made.add(parent)
                    yield Create(full_path(parent), None, acl, 0)
            left[change.topic] += 1
            yield Create(full_path(path), data, acl, 0)
        for topic, change_of_count in left.items():
            path = f"{CONSUMERS}/{group_id}/offsets/{topic}"
            if path in tree.nodes and not (tree.nodes[path].stat.children or 0) + change_of_count:
                yield Delete(full_path(path), _ANY_VERSION)

    def _acl(self, path: str) -> list[Any] | None:
        if path not in self._acls:
            self._acls[path] = acl_of(self._client, path)
        return self._acls[path]

    # --- execution ---

    def _run(
        self, planned: Mapping[str, Sequence[list[Operation]]]
    ) -> dict[str, tuple[ProblemKind, str]]:
        """Run transactions; return the groups that must be read again, and why."""
        flat = [(group_id, part) for group_id, parts in planned.items() for part in parts]
        lost: LostError | None = None
        try:
            errors = run_transactions(self._client, [part for _, part in flat])
        except LostError as loss:
            errors = list(loss.errors)
            lost = loss
        sent = len(flat) if lost is None else lost.sent
        self._was_sent.update(group_id for group_id, _ in flat[:sent])
        by_group: dict[str, list[int | None]] = {}
        for number, (group_id, _) in enumerate(flat):
            error = errors[number] if number < len(errors) else None
            by_group.setdefault(group_id, []).append(error)
        again: dict[str, tuple[ProblemKind, str]] = {}
        for group_id, codes in by_group.items():
            error = next((code for code in codes if code != NO_ERROR), NO_ERROR)
            if error is None and lost is not None:
                was_sent = group_id in self._was_sent
                again[group_id] = lost.unknown_end if was_sent else (lost.trouble.kind, f"{lost}.")
            elif error is not None and (error in CONTENDED or (error and NO_ERROR in codes)):
                again[group_id] = reason_of(error)
            elif error:
                self._refuse(group_id, *reason_of(error))
            else:
                self._on_done(group_id)
        return again


def _leaf(group_id: str, change: OffsetChange) -> str:
    return f"{CONSUMERS}/{group_id}/offsets/{change.topic}/{change.partition}"


def _parents(path: str) -> list[str]:
    """Return the paths of the ancestors, starting nearest to the root."""
    parts = path.split("/")[1:-1]
    return [f"/{'/'.join(parts[:count])}" for count in range(1, len(parts) + 1)]


def _above(path: str, tree: ZookeeperTree) -> str:
    """Return the nearest existing ancestor: the chroot, if no node of Kafka exists."""
    return next((parent for parent in reversed(_parents(path)) if parent in tree.nodes), "")


def _can_be_made(name: str) -> bool:
    return is_name(name) and not _FORBIDDEN.search(name)


CONSUMERS = "/consumers"
ATTEMPTS = 5
"""Number of times that a group is read and compared when it is changed concurrently."""
_TOPIC_DEPTH = 4
"""Depth of ``/consumers/<group>/owners/<topic>``."""
_ACTIVE = "The group has {} (nodes below {}): stop its consumers first."


def delete_groups(
    client: ZookeeperClient, group_ids: Collection[str], on_done: Callable[[str], object]
) -> tuple[Problem, ...]:
    """Delete all nodes of groups; see `GroupSource.delete_groups`.

    Raises:
        BrokerError: no server answers, and nothing was deleted.
    """
    problems: list[Problem] = []
    has_changed = False
    for group_id in dict.fromkeys(group_ids):
        try:
            problem = _delete(client, group_id)
        except BrokerError as error:
            if not has_changed:
                raise
            problem = Problem(error.kind, f"{error}.", group_id=group_id)
        has_changed = has_changed or problem is None or problem.kind is ProblemKind.UNKNOWN_END
        if problem is None:
            on_done(group_id)
        else:
            problems.append(problem)
    return tuple(problems)


def _delete(client: ZookeeperClient, group_id: str) -> Problem | None:
    """Delete a group; return the problem if it was not deleted."""
    root = f"{CONSUMERS}/{group_id}"
    trouble: tuple[ProblemKind, str] = (ProblemKind.NOT_FOUND, "There is no such group.")
    was_sent = False
    for _ in range(ATTEMPTS if is_name(group_id) else 0):
        try:
            tree = read_subtree(client, root, None)
        except BrokerError:
            if not was_sent:
                raise
            break
        if tree.problems:
            problem = tree.problems[0]
            return Problem(problem.kind, f"{problem.path}: {problem.reason}", group_id=group_id)
        if root not in tree.nodes:
            return None if was_sent else Problem(*trouble, group_id=group_id)
        if (reason := active(group_id, tree, owners=True)) is not None:
            return Problem(ProblemKind.ACTIVE, reason, group_id=group_id)
        below = [node for path, node in tree.nodes.items() if f"{path}/".startswith(f"{root}/")]
        operations = [
            Delete(client.full_path(node.path), version_of(node))
            for node in sorted(below, key=lambda node: -node.path.count("/"))
        ]
        try:
            errors = run_transactions(client, list(parts_of(operations)))
        except BrokerError:
            if not was_sent:
                raise
            break
        except LostError as lost:
            was_sent = True
            trouble = lost.unknown_end
            continue
        was_sent = True
        error = next((error for error in errors if error), NO_ERROR)
        if not error:
            return None
        trouble = reason_of(error)
        if error not in CONTENDED:
            break
    return Problem(*trouble, group_id=group_id)


def active(group_id: str, tree: ZookeeperTree, *, owners: bool) -> str | None:
    """Return that consumers are registered or, with `owners`, own partitions; None if not."""
    root = f"{CONSUMERS}/{group_id}"
    node = tree.nodes.get(f"{root}/ids")
    if node is not None and node.stat.children:
        ids = node.stat.children
        return _ACTIVE.format(f"{ids} consumer{'s' if ids > 1 else ''}", f"{root}/ids")
    owned = owners and sum(
        path.startswith(f"{root}/owners/") and path.count("/") > _TOPIC_DEPTH for path in tree.nodes
    )
    if owned:
        what = f"owners of {owned} partition{'s' if owned > 1 else ''}"
        return _ACTIVE.format(what, f"{root}/owners")
    return None


_LARGEST = 900_000
"""Maximum bytes of a request: a server accepts at most jute.maxbuffer, 1 MiB by default."""
NO_ERROR = 0
_NO_NODE, _NO_AUTH, _BAD_VERSION, _NODE_EXISTS, _NOT_EMPTY = -101, -102, -103, -110, -111
_UNIMPLEMENTED, _READ_ONLY = -6, -119
CONTENDED = frozenset({_NO_NODE, _BAD_VERSION, _NODE_EXISTS, _NOT_EMPTY})
"""ZooKeeper's errors for a node that has changed since it was read."""
BUSY = "Others write to the group again and again: stop them first."
_HEADER = struct.Struct(">iqi")
_IN_FLIGHT = 32
_BYTES_IN_FLIGHT = 8 << 20


class LostError(Exception):
    """A connection that broke.

    Attributes:
        errors: error codes of the transactions that were answered.
        sent: number of transactions sent; the outcome of those without a response is unknown.
        trouble: why the connection broke.
        unknown_end: kind and reason of the problem for an unknown outcome.
    """

    def __init__(self, errors: Sequence[int], sent: int, trouble: ServerError) -> None:
        super().__init__(str(trouble))
        self.errors = errors
        self.sent = sent
        self.trouble = trouble
        self.unknown_end = (
            ProblemKind.UNKNOWN_END,
            f"{trouble}; it is unknown whether the group was changed: read it again.",
        )


def parts_of(operations: Iterable[Operation]) -> Iterator[list[Operation]]:
    """Divide operations into transactions that a server accepts; usually there is one."""
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
    """Return why a transaction failed."""
    if error in CONTENDED:
        return ProblemKind.CHANGED, BUSY
    if error == _NO_AUTH:
        text = "The ACL of a node of the group denies write access (zookeeper.digest)."
        return ProblemKind.DENIED_NODE, text
    if error == _UNIMPLEMENTED:
        return ProblemKind.UNSUPPORTED, "ZooKeeper before 3.4 has no transactions."
    if error == _READ_ONLY:
        return (
            ProblemKind.UNUSABLE,
            "The server is disconnected from the ensemble and only allows reads.",
        )
    return ProblemKind.UNUSABLE, f"ZooKeeper returned error {error}."


def version_of(node: Node) -> int:
    """Return the version in which a node was read, for comparison."""
    return _ANY_VERSION if node.stat.version is None else node.stat.version


def run_transactions(
    client: ZookeeperClient, transactions: Sequence[Sequence[Operation]]
) -> list[int]:
    """Run transactions in order, each regardless of whether those before it succeeded.

    Returns:
        ZooKeeper's error code of each, 0 on success.

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
                sent += 1  # count it before any part of it is sent
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
    """Return the ACL of a node, in kazoo's form; None if the node is gone or the ACL is hidden.

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
    # A server hides other users' digests from users who may not change the ACL.
    if any(entry.id.scheme == "digest" and entry.id.id.endswith(":x") for entry in acl):
        return None
    return list(acl)


def _error(error: int, body: bytes, who: str) -> int:
    """Return the error of the operation that made a transaction fail."""
    if error:
        return error
    try:
        results = Transaction.deserialize(body, _HEADER.size)
    except (struct.error, UnicodeDecodeError, IndexError, KeyError):
        raise ServerError(
            ProblemKind.UNUSABLE, f"{who} gives an answer that cannot be read"
        ) from None
    codes = [
        int(getattr(exception, "code", 0))
        for exception in results
        if isinstance(exception, Exception)
    ]
    return next((code for code in codes if code), NO_ERROR)  # all after that one have -2


def _size(operation: Operation) -> int:
    """Return the bytes of an operation in a transaction."""
    return len(operation.serialize()) + 9
