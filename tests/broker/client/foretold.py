"""A group of one client library: a dry run says what will happen, then it happens."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

from kgroup.protocol.record.consumer_protocol import decode_assignment
from tests.broker.client.member import LibraryMember
from tests.broker.migration import kgroup
from tests.broker.servers import Broker
from tests.record.wire import Wire
from tests.waiting import until_steady

_NOT_DETERMINED = ("does not determine what", "uses the racks of partition leaders")
_RACING = "rejoins before another one has completed"

_WITHOUT_ORDER = [("sarama", "sticky")]
"""Where a member lists its partitions in the order of a map, which Go walks at random."""

Assignment = dict[str, dict[str, list[int]]]
"""Partitions by client id and topic, each as the leader lists them; topics have no order in Go."""


class ForetoldGroup:
    """Members of one group, each with a client id of its own.

    Args:
        server: the broker, with the topics.
        library: of all members.
        strategy: that they have.
        group: their group.
        topics: how many partitions each has; members name them in this order.
        log: file for what the library says.
        version: of the library; None for the one that the program has, see `command`.
    """

    def __init__(
        self,
        server: Broker,
        library: str,
        strategy: str,
        group: str,
        topics: dict[str, int],
        log: Path,
        version: str | None = None,
    ) -> None:
        self._server = server
        self._library = library
        self._strategy = strategy
        self._group = group
        self._topics = topics
        self._log = log
        self._version = version
        self._members: dict[str, LibraryMember] = {}
        self.foretold = 0
        """Members whose partitions a dry run named for certain, and that got them."""
        self.rounds: Counter[str] = Counter()
        """Changes that were foretold, by what was compared: partitions, sizes or nothing."""

    def start(self, name: str, *, rack: str | None = None) -> None:
        """Start the first member."""
        self._start(name, list(self._topics), rack=rack)
        self._settled()

    def join(
        self,
        name: str,
        topics: Sequence[str] | None = None,
        *,
        is_static: bool = False,
        rack: str | None = None,
    ) -> None:
        """Foretell that a member joins, and let it."""
        what = [f"client={name}"]
        if is_static:
            what.append(f"instance={name}")
        if rack is not None:
            what.append(f"rack={rack}")
        if topics is not None:
            what.append(f"topics={'+'.join(topics)}")
        plan = self._plan("--add-member", f"1:{','.join(what)}")
        self._start(name, list(topics or self._topics), name if is_static else None, rack)
        self._compare(plan)

    def leave(self, name: str) -> None:
        """Foretell that a member leaves, and let it."""
        plan = self._plan("--remove-member", name)
        self._members.pop(name).stop()
        self._compare(plan)

    def grow(self, topic: str, partitions: int) -> None:
        """Foretell that a topic gets more partitions, and let it."""
        plan = self._plan("--partitions", f"{topic}={partitions}")
        self._topics[topic] = partitions
        with Wire(self._server.version, self._server.bootstrap) as wire:
            topics = [{"name": topic, "count": partitions, "assignments": None}]
            wire.call("CreatePartitions", topics=topics, timeout_ms=30_000, validate_only=False)
        self._compare(plan, may_repeat=True)

    def kill(self) -> None:
        """End all members."""
        for member in self._members.values():
            member.kill()

    def _start(
        self, name: str, topics: list[str], instance_id: str | None = None, rack: str | None = None
    ) -> None:
        self._members[name] = LibraryMember(
            self._library,
            self._server.bootstrap,
            self._group,
            topics,
            self._strategy,
            self._log,
            client_id=name,
            instance_id=instance_id,
            rack=rack,
            version=self._version,
        )

    def _plan(self, *what_if: str) -> list[dict[str, Any]]:
        """The rebalances that a dry run says there are."""
        client = self._library + (f"@{self._version}" if self._version else "")
        where = ("-b", self._server.bootstrap, "--client", client, "--settle")
        (plan,) = kgroup("assign", self._group, "--dry-run", *where, *what_if)
        assert plan["error"] is None
        return [plan, *plan.get("following", [])]

    def _compare(self, plans: list[dict[str, Any]], *, may_repeat: bool = False) -> None:
        """Wait until the group rests, and compare partitions and their order.

        Args:
            plans: foretold rebalances.
            may_repeat: whether the last rebalance may happen once more, which moves nothing, but
                may list partitions in another order: each member looks for growth by itself, and
                one that sees it later joins again.
        """
        found = self._settled()
        foretold = _foretold(plans)
        assert foretold.keys() == found.keys()
        warnings = [warning for plan in plans for warning in plan["warnings"]]
        if any(_RACING in warning for warning in warnings):
            self.rounds["nothing"] += 1
            return
        if any(each in warning for warning in warnings for each in _NOT_DETERMINED):
            sizes = [sorted(map(_size, each.values())) for each in (foretold, found)]
            assert sizes[0] == sizes[1], f"foretold {foretold}, found {found}"
            self.rounds["sizes"] += 1
            return
        unsure = {
            each["client_id"] for plan in plans for each in plan["members"] if each["depends_on_id"]
        }
        sure = found.keys() - unsure
        if may_repeat and _of(sure, foretold) != _of(sure, found):
            again = _foretold(self._plan())
            assert _sorted(again) == _sorted(foretold), f"{again}, {foretold}, found {found}"
            foretold = again
        if (self._library, self._strategy) in _WITHOUT_ORDER:
            foretold, found = _sorted(foretold), _sorted(found)
        same = _of(sure, foretold) == _of(sure, found)
        assert same, f"foretold {foretold}, found {found}, not determined {unsure}"
        self.rounds["partitions"] += 1
        self.foretold += len(sure)

    def _settled(self) -> Assignment:
        """Wait until all is assigned, and each member has what is; give it."""
        total = sum(self._topics.values())
        seen: list[Assignment] = [{}]
        members = self._members.items()
        with Wire(self._server.version, self._server.bootstrap) as wire:

            def is_settled() -> bool:
                ended = [name for name, member in members if not member.is_running]
                assert not ended, f"programs that ended of themselves: {ended}"
                answer = wire.call("DescribeGroups", groups=[self._group])["groups"][0]
                if answer["group_state"] != "Stable":
                    return False
                now = {
                    each["client_id"]: _partitions(each["member_assignment"])
                    for each in answer["members"]
                }
                before, seen[:] = seen[0], [now]
                return (
                    now == before
                    and sum(map(_size, now.values())) == total
                    and now.keys() == self._members.keys()
                    and all(member.owned == _taken(now[name], member) for name, member in members)
                )

            until_steady(is_settled, times=8)
        return seen[0]


def _partitions(assignment: bytes) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for topic in decode_assignment(assignment)["assignedPartitions"]:
        if topic["partitions"]:  # librdkafka names a topic again where another one came between
            found.setdefault(topic["topic"], []).extend(topic["partitions"])
    return found


def _foretold(plans: list[dict[str, Any]]) -> Assignment:
    """Return what is assigned when all foretold rebalances are over."""
    last = plans[-1]
    names = {each["member_id"]: each["client_id"] for each in last["members"]}
    foretold: Assignment = {name: {} for name in names.values()}
    for member_id, partitions in last["assignment"].items():
        for topic, partition in partitions:
            foretold[names[member_id]].setdefault(topic, []).append(partition)
    return foretold


def _of(names: Collection[str], assignment: Assignment) -> Assignment:
    return {name: assignment[name] for name in names}


def _sorted(assignment: Assignment) -> Assignment:
    return {
        name: {topic: sorted(partitions) for topic, partitions in topics.items()}
        for name, topics in assignment.items()
    }


def _size(partitions: dict[str, list[int]]) -> int:
    return sum(map(len, partitions.values()))


def _taken(given: dict[str, list[int]], member: LibraryMember) -> frozenset[tuple[str, int]]:
    """What a member takes of what it is given: KafkaJS gives also what nobody subscribed to."""
    return frozenset(
        (topic, at) for topic in given if topic in member.topics for at in given[topic]
    )
