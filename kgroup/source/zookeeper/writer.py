"""Writing of what groups have committed to ZooKeeper: compared and set.

    /consumers/<group>/offsets/<topic>/<partition>     the offset in decimal ASCII

as `ZkUtils.updatePersistentPath` writes it for 0.8's consumers. A group is one transaction: each
node is set in the version in which it was read, made where there was none, or removed, all or
nothing. What others have changed meanwhile is noticed by ZooKeeper itself. That nobody joins in the
moment between looking for members and writing, no transaction can say.

A group too large for one transaction (jute.maxbuffer; some 6,000 partitions) is divided: then an
error may leave a part of it written, and is told partition by partition.

Nodes that are made on the way get the ACL of the node above: open to the world below Kafka's
`/consumers`, for consumers of any user write there (`ZkData.defaultAcls`), and what the cluster's
people chose where they have chosen something else. When its last offset goes, so does the node of a
topic; those of groups stay.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from kazoo.protocol.serialization import Create, Delete, SetData

from kgroup.errors import BrokerError, InputError, ProblemKind
from kgroup.model.offset import CommittedOffset, OffsetChange
from kgroup.model.problem import Problem
from kgroup.model.zookeeper import ZookeeperTree
from kgroup.source.base import Question
from kgroup.source.offset_change import At, conflict, place_of, remaining, unwritten
from kgroup.source.zookeeper.client import ZookeeperClient
from kgroup.source.zookeeper.nodes import is_name, read_tree
from kgroup.source.zookeeper.remover import ATTEMPTS, CONSUMERS, active
from kgroup.source.zookeeper.transaction import (
    BUSY,
    CONTENDED,
    NO_ERROR,
    LostError,
    Operation,
    acl_of,
    parts_of,
    reason_of,
    run_transactions,
    version_of,
)
from kgroup.source.zookeeper.view import reading_of

_GROUPS_AT_ONCE = 200
_ANY_VERSION = -1
_STATE = Question(members=False)
_NO_NAME = "No node of ZooKeeper can have this name, of the group or a topic."

_FORBIDDEN = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\uf8ff\ufff0-\U0010ffff]")
"""What the name of a node cannot have (`org.apache.zookeeper.common.PathUtils.validatePath`)."""

Transaction = list[Operation]


def write_offsets(
    client: ZookeeperClient,
    changes: Mapping[str, Sequence[OffsetChange]],
    on_done: Callable[[str], object],
) -> tuple[Problem, ...]:
    """Write offsets; see `WritableOffsetStore.write_offsets`.

    Raises:
        BrokerError: no server answers, before anything was changed.
        InputError: there is nothing of Kafka.
    """
    wanted = {group_id: each for group_id, each in changes.items() if each}
    writer = _Writer(client, wanted, on_done)
    names = list(wanted)
    for start in range(0, len(names), _GROUPS_AT_ONCE):
        writer.write(names[start : start + _GROUPS_AT_ONCE])
    return tuple(each for group_id in wanted for each in writer.problems.get(group_id, ()))


class _Writer:
    """Writes groups.

    Attributes:
        problems: what was not done, by group.
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
        """What is to be done of groups that are sent."""
        self._was_sent: set[str] = set()

    def write(self, group_ids: Sequence[str]) -> None:
        """Write some groups; those that others write to at the same time again."""
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

    # --- what each group needs ---

    def _plan(self, group_ids: Sequence[str]) -> dict[str, list[Transaction]]:
        """Read groups, and give what each needs; refuse those that may not be changed."""
        names = [group_id for group_id in group_ids if _can_be_made(group_id)]
        for group_id in group_ids:
            if not _can_be_made(group_id):
                self._refuse(group_id, ProblemKind.UNSUPPORTED, _NO_NAME)
        tree = read_tree(self._client, names, _STATE)
        reading = reading_of(tree, names, _STATE)
        denied = {
            each.group_id: each for each in reading.problems if each.kind is ProblemKind.DENIED_NODE
        }
        planned = {}
        for group_id in names:
            group = reading.image.groups.get(group_id)
            now = {place_of(each): each for each in group.offsets} if group else {}
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
        now: Mapping[At, CommittedOffset],
        denied: Problem | None,
    ) -> tuple[ProblemKind, str] | None:
        """Say what keeps a group from being changed."""
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
                    text = f"{above}: its ACL is not told, which new nodes below it would get."
                    return ProblemKind.DENIED_NODE, text
        changed = conflict(rest, now)
        return None if changed is None else (ProblemKind.CHANGED, changed)

    def _operations(
        self, group_id: str, changes: Sequence[OffsetChange], tree: ZookeeperTree
    ) -> Iterator[Operation]:
        """Give what makes nodes what they shall be, parents before their children."""
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

    # --- the doing of it ---

    def _run(
        self, planned: Mapping[str, Sequence[Transaction]]
    ) -> dict[str, tuple[ProblemKind, str]]:
        """Run transactions; return the groups that are to be looked at again, and why."""
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
        for group_id, found in by_group.items():
            error = next((each for each in found if each != NO_ERROR), NO_ERROR)
            if error is None and lost is not None:
                was_sent = group_id in self._was_sent
                again[group_id] = lost.unknown_end if was_sent else (lost.trouble.kind, f"{lost}.")
            elif error is not None and (error in CONTENDED or (error and NO_ERROR in found)):
                again[group_id] = reason_of(error)
            elif error:
                self._refuse(group_id, *reason_of(error))
            else:
                self._on_done(group_id)
        return again


def _leaf(group_id: str, change: OffsetChange) -> str:
    return f"{CONSUMERS}/{group_id}/offsets/{change.topic}/{change.partition}"


def _parents(path: str) -> list[str]:
    """Name the nodes above, those nearest to the root first."""
    parts = path.split("/")[1:-1]
    return [f"/{'/'.join(parts[:count])}" for count in range(1, len(parts) + 1)]


def _above(path: str, tree: ZookeeperTree) -> str:
    """Name the nearest node above that exists: the chroot, if none of Kafka's does."""
    return next((each for each in reversed(_parents(path)) if each in tree.nodes), "")


def _can_be_made(name: str) -> bool:
    return is_name(name) and not _FORBIDDEN.search(name)
