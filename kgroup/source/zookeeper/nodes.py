"""Reading of the nodes needed for a question, level by level, with one round trip per level."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from itertools import count

from kgroup.errors import InputError, ProblemKind
from kgroup.model.offsets_partition import OFFSETS_TOPIC
from kgroup.model.problem import Problem
from kgroup.model.zookeeper import Node, ZookeeperTree
from kgroup.protocol.zookeeper.topic_filter import subscribed_topics
from kgroup.protocol.zookeeper.tree import decode_tree, path_parts, tree_of
from kgroup.source.base import Question
from kgroup.source.zookeeper.client import Children, Content, ZookeeperClient

_CONSUMERS, _BROKERS, _TOPICS = "/consumers", "/brokers/ids", "/brokers/topics"
_CLUSTER = (
    "/controller",
    "/controller_epoch",
    "/cluster/id",
    "/admin/reassign_partitions",
    "/admin/preferred_replica_election",
)
_BY_TOPIC = ("owners", "offsets")
_TOPIC_DEPTH = 4
"""Depth of ``/consumers/<group>/owners/<topic>``."""
_SECRET = ("/config/users/", "/delegation_token/tokens/")
"""Nodes with credentials: SCRAM's salted passwords, and delegation tokens."""
_MOST_GUESSES = 100


def read_group_ids(client: ZookeeperClient) -> tuple[str, ...]:
    """Read the names of all groups.

    Raises:
        BrokerError: no server answers.
        InputError: there are no nodes of Kafka.
    """
    reader = _Reader(client)
    return reader.base()[_CONSUMERS]


def read_tree(
    client: ZookeeperClient, group_ids: Collection[str] | None, question: Question
) -> ZookeeperTree:
    """Read the nodes of the groups with these ids, or of all, that the question needs.

    Nodes that are deleted meanwhile are left out; nodes without read access are problems.

    Raises:
        BrokerError: no server answers.
        InputError: there are no nodes of Kafka.
    """
    reader = _Reader(client)
    base = reader.base()
    if group_ids is None or question.regex is not None:
        names = [name for name in base[_CONSUMERS] if question.names(name, group_ids)]
    else:
        names = [name for name in dict.fromkeys(group_ids) if is_name(name)]
    reader.groups(names, question)
    reader.contents(f"{_BROKERS}/{name}" for name in base[_BROKERS])
    reader.topics(base[_TOPICS], question)
    return reader.tree()


def read_topics(client: ZookeeperClient, names: Collection[str]) -> ZookeeperTree:
    """Read the brokers, the controller, and all nodes of these topics.

    Raises:
        BrokerError: no server answers.
        InputError: there are no nodes of Kafka.
    """
    reader = _Reader(client)
    reader.contents(f"{_BROKERS}/{name}" for name in reader.base()[_BROKERS])
    reader.about_topics(filter(is_name, names))
    return reader.tree()


def read_subtree(client: ZookeeperClient, path: str, depth: int | None) -> ZookeeperTree:
    """Read a node and its descendants, down to a depth or all; empty if it does not exist.

    Raises:
        BrokerError: no server answers.
        InputError: the chroot does not exist.
    """
    reader = _Reader(client)
    level = [path]
    for _ in count() if depth is None else range(depth + 1):
        if not level:
            break
        children = reader.children(level)
        reader.contents(path for path in level if not path.startswith(_SECRET))
        level = [_join(above, name) for above, names in children.items() for name in names]
    tree = reader.tree()
    if not tree.nodes and not tree.problems:
        reader.expect_chroot()
    return tree


class _Reader:
    """Collects nodes."""

    def __init__(self, client: ZookeeperClient) -> None:
        self._client = client
        self._nodes: dict[str, Node] = {}
        self._problems: dict[str, Problem] = {}

    def tree(self) -> ZookeeperTree:
        """Return the collected nodes."""
        return tree_of(self._nodes.values(), self._problems.values())

    def base(self) -> Mapping[str, tuple[str, ...]]:
        """Read the names of groups, brokers and topics."""
        paths = (_CONSUMERS, _BROKERS, _TOPICS)
        children = self.children(paths)
        if not children and not self._problems:
            raise InputError(self._nothing())
        return {path: children.get(path, ()) for path in paths}

    def children(self, paths: Iterable[str]) -> Mapping[str, tuple[str, ...]]:
        """Read the names of children, of nodes that exist and are readable."""
        asked = list(paths)
        children: dict[str, tuple[str, ...]] = {}
        for path, answer in zip(asked, self._client.children(asked), strict=True):
            if isinstance(answer, Children):
                self._nodes.setdefault(path, Node(path, None, answer.stat))
                children[path] = answer.names
            elif answer is not None:
                self._deny(path)
        return children

    def contents(self, paths: Iterable[str]) -> None:
        """Read nodes."""
        asked = list(paths)
        for path, answer in zip(asked, self._client.contents(asked), strict=True):
            if isinstance(answer, Content):
                self._nodes[path] = Node(path, answer.data, answer.stat)
            elif answer is not None:
                self._deny(path)

    def groups(self, names: Collection[str], question: Question) -> None:
        """Read the nodes of groups."""
        below_groups = self.children(f"{_CONSUMERS}/{name}" for name in names)
        wanted = [part for part in ("ids", "owners") if question.members or question.state]
        wanted += ["offsets"] if question.offsets else []
        parts = []
        for path, children in below_groups.items():
            for child in children:
                if child in wanted:
                    parts.append(f"{path}/{child}")
                elif child not in ("ids", "owners", "offsets"):
                    self._nodes[f"{path}/{child}"] = Node(f"{path}/{child}")  # reported as foreign
        ids: list[str] = []
        topics: list[str] = []
        for path, children in self.children(parts).items():
            below = [f"{path}/{child}" for child in children]
            (ids if path.endswith("/ids") else topics).extend(below)
        leaves = [
            f"{path}/{child}" for path, names in self.children(topics).items() for child in names
        ]
        self.contents(ids + leaves)

    def topics(self, names: Collection[str], question: Question) -> None:
        """Read the topics that the groups use; with `question.nodes`, all nodes of these topics."""
        wanted = self._topics_of_groups(names) | {OFFSETS_TOPIC}
        if question.nodes:
            deleting = self.children(["/admin/delete_topics"])
            self.contents(_join(*pair) for pair in _pairs(deleting))
            self.about_topics(wanted)
        else:
            self.contents(f"{_TOPICS}/{name}" for name in sorted(wanted))
        old = [f"{_TOPICS}/{name}" for name in wanted if self._is_old(f"{_TOPICS}/{name}")]
        self.contents(_join(*pair) for pair in _pairs(self.children(old)))

    def about_topics(self, names: Iterable[str]) -> None:
        """Read all nodes of topics, and those of the cluster."""
        wanted = sorted(names)
        self.contents(_CLUSTER)
        self.contents(f"{_TOPICS}/{name}" for name in wanted)
        self.contents(f"/config/topics/{name}" for name in wanted)
        view = decode_tree(self._those_of("brokers", "topics"))
        self.contents(
            f"{_TOPICS}/{name}/partitions/{partition}/state"
            for name in sorted(view.topics)
            for partition in view.topics[name].partitions
        )

    def _topics_of_groups(self, names: Collection[str]) -> set[str]:
        """Return the topics that the groups own, have committed, or subscribe to."""
        folders = (path for path in self._nodes if path.count("/") == _TOPIC_DEPTH)
        wanted = {parts[3] for parts in map(path_parts, folders) if parts[2] in _BY_TOPIC}
        registrations = self._those_of("consumers", None, "ids")
        for group in decode_tree(registrations).groups.values():
            for registration in group.registrations:
                try:
                    wanted.update(subscribed_topics(registration, names))
                except ValueError:
                    continue  # reported when the group is decoded
        return wanted.intersection(names)

    def _those_of(self, *names: str | None) -> ZookeeperTree:
        """Return the nodes whose paths start with these names; None matches any name."""

        def is_wanted(path: str) -> bool:
            parts = path_parts(path)
            return len(parts) > len(names) and all(
                name in (None, part) for name, part in zip(names, parts, strict=False)
            )

        return tree_of(node for path, node in self._nodes.items() if is_wanted(path))

    def _is_old(self, path: str) -> bool:
        """Return whether a topic's node is of Kafka 0.7: without data, with brokers as children."""
        node = self._nodes.get(path)
        return node is not None and not node.data and bool(node.stat.children)

    def _deny(self, path: str) -> None:
        parts = path_parts(path)
        group_id = parts[1] if parts[0] == "consumers" and len(parts) > 1 else None
        self._problems[path] = Problem(
            ProblemKind.DENIED_NODE,
            "Expected a node that may be read, found one whose ACL denies access "
            "(zookeeper.digest); it is left out.",
            group_id=group_id,
            path=path,
        )

    def expect_chroot(self) -> tuple[str, ...]:
        """Return the names directly below the chroot; empty if they are not readable.

        Raises:
            InputError: the chroot does not exist.
        """
        (root,) = self._client.children([""])
        if root is None:
            chroot = self._client.address.chroot
            raise InputError(
                f"--zookeeper: expected a node {chroot} (the chroot), found none{_repeated(chroot)}"
            )
        return root.names if isinstance(root, Children) else ()

    def _nothing(self) -> str:
        """Return a message that there is no Kafka, and where there may be one.

        Raises:
            InputError: the chroot does not exist.
        """
        chroot = self._client.address.chroot
        names = self.expect_chroot()
        guesses = names[:_MOST_GUESSES]
        answers = self._client.children(f"/{name}/brokers" for name in guesses)
        likely = [name for name, answer in zip(guesses, answers, strict=True) if answer is not None]
        has = ", ".join(names[:5]) + (", …" if names[5:] else "") if names else "nothing"
        text = (
            f"--zookeeper: expected Kafka's nodes /consumers and /brokers below {chroot or '/'}, "
            f"found {has}"
        )
        if likely:
            text += f"; there is a Kafka below {chroot}/{likely[0]}: add that to the address"
        return text


def _repeated(chroot: str) -> str:
    """Return a hint on a chroot that contains servers, as if each had its own chroot."""
    if "," not in chroot:
        return ""
    return "; the servers come first, and the chroot once behind the last: a:2181,b:2181/kafka"


def is_name(name: str) -> bool:
    """Return whether a node can have this name."""
    return name not in ("", ".", "..") and "/" not in name and "\0" not in name


def _pairs(children: Mapping[str, tuple[str, ...]]) -> Iterable[tuple[str, str]]:
    return ((path, name) for path, names in children.items() for name in names)


def _join(path: str, name: str) -> str:
    return f"{path.rstrip('/')}/{name}"
