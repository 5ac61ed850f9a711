"""Removal of whole groups from ZooKeeper, each in one transaction as far as that may be."""

from __future__ import annotations

from collections.abc import Callable, Collection

from kazoo.protocol.serialization import Delete

from kgroup.errors import BrokerError, ProblemKind
from kgroup.model.problem import Problem
from kgroup.model.zookeeper import ZookeeperTree
from kgroup.source.zookeeper.client import ZookeeperClient
from kgroup.source.zookeeper.nodes import is_name, read_subtree
from kgroup.source.zookeeper.transaction import (
    CONTENDED,
    NO_ERROR,
    LostError,
    parts_of,
    reason_of,
    run_transactions,
    version_of,
)

CONSUMERS = "/consumers"
ATTEMPTS = 5
"""How often a group is read and compared again that others write to at the same time."""
_TOPIC_DEPTH = 4
"""Of ``/consumers/<group>/owners/<topic>``."""
_ACTIVE = "The group has {} (nodes below {}): stop its consumers first."


def delete_groups(
    client: ZookeeperClient, group_ids: Collection[str], on_done: Callable[[str], object]
) -> tuple[Problem, ...]:
    """Remove all nodes of groups; see `GroupRemover.delete_groups`.

    Raises:
        BrokerError: no server answers, before anything was deleted.
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
    """Remove a group; return why it was not."""
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
        error = next((each for each in errors if each), NO_ERROR)
        if not error:
            return None
        trouble = reason_of(error)
        if error not in CONTENDED:
            break
    return Problem(*trouble, group_id=group_id)


def active(group_id: str, tree: ZookeeperTree, *, owners: bool) -> str | None:
    """Say that consumers are registered or, where that counts, own partitions."""
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
