"""A member of a consumer group (KIP-848) as its coordinator holds it, and counts of subscriptions.

Source: `ConsumerGroupMember`, `SubscriptionCount`, and the maps of counts of `ModernGroup` and
`ConsumerGroup` of 4.3.1.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

from kgroup.model.group import MemberState
from kgroup.simulation.consumer.message import ConsumerGroupHeartbeat, IdPartition

Data: TypeAlias = Mapping[str, Any]
"""Part of a record, with Kafka's own field names."""

Held: TypeAlias = Mapping[IdPartition, int]
"""Partitions that a member has, each with the epoch since which it has it."""


@dataclass(frozen=True, slots=True)
class ConsumerMember:
    """A member; it is never changed, another one takes its place.

    Attributes:
        epoch: that it has reached: the group's when it has all that is to be had of its target.
        previous_epoch: before; a member that has missed the last answer still names it.
        rebalance_timeout_ms: how long it may take to give up partitions; -1: it has not said.
        topics: names that it subscribes to.
        regex: that names of topics are to match; "": none.
        assignor: that it wants the coordinator to use.
        assigned: what it may read.
        revoking: what it was told to give up, and has not.
        classic: of a member that speaks the classic protocol: session timeout and protocols.
        topic_order: the names as they were put into a hash table, whose order hangs on it.
    """

    member_id: str
    epoch: int = 0
    previous_epoch: int = -1
    state: MemberState = MemberState.STABLE
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int = -1
    client_id: str = ""
    client_host: str = ""
    topics: frozenset[str] = frozenset()
    regex: str = ""
    assignor: str | None = None
    assigned: Held = field(default_factory=dict)
    revoking: Held = field(default_factory=dict)
    classic: Data | None = None
    topic_order: tuple[str, ...] = field(default=(), compare=False)

    def is_reconciled_to(self, epoch: int) -> bool:
        """Return whether it has all that it shall have in an epoch of the group."""
        return self.state is MemberState.STABLE and self.epoch == epoch

    def owns_all(self, owned: Iterable[IdPartition] | None) -> bool:
        """Return whether it may have what it says it has; it must say it (`isSubset`)."""
        return owned is not None and all(partition in self.assigned for partition in owned)

    def said(self, request: ConsumerGroupHeartbeat) -> ConsumerMember:
        """Return it with what a heartbeat says, which leaves out what is as it was.

        It is the very same where nothing changes, and equal where only an order does.
        """
        told = {
            "instance_id": request.instance_id,
            "rack_id": request.rack_id,
            "rebalance_timeout_ms": request.rebalance_timeout_ms,
            "topics": None if request.topics is None else frozenset(request.topics),
            "regex": request.regex,
            "assignor": request.assignor,
            "client_id": request.client_id,
            "client_host": request.client_host,
        }
        changed: dict[str, Any] = {
            name: value
            for name, value in told.items()
            if value is not None and value != getattr(self, name)
        }
        if self.classic is not None:
            changed["classic"] = None
        if request.topics is not None and request.topics != self.topic_order:
            changed["topic_order"] = request.topics
        return replace(self, **changed) if changed else self

    def moved(
        self, state: MemberState, epoch: int, assigned: Held, revoking: Held
    ) -> ConsumerMember:
        """Return it at an epoch, the same or a later one, with what it has there."""
        return replace(
            self,
            state=state,
            epoch=epoch,
            previous_epoch=self.epoch,
            assigned=assigned,
            revoking=revoking,
        )


class SubscriptionCount:
    """Counts; what nobody subscribes to is not there.

    Attributes:
        regexes: members by regular expression.
    """

    def __init__(self) -> None:
        self.regexes: Counter[str] = Counter()
        self._named: Counter[str] = Counter()  # members that name a topic
        self._matched: Counter[str] = Counter()  # expressions that match a topic

    @property
    def topics(self) -> set[str]:
        """Names of topics that somebody subscribes to, also of such that do not exist."""
        return {*self._named, *self._matched}

    def copy(self) -> SubscriptionCount:
        """Copy the counts."""
        copied = SubscriptionCount()
        copied.regexes = self.regexes.copy()
        copied._named = self._named.copy()
        copied._matched = self._matched.copy()
        return copied

    def replace(self, old: ConsumerMember | None, new: ConsumerMember | None) -> None:
        """Count a member as it is now, and no more as it was."""
        if old and new and (old.topics, old.regex) == (new.topics, new.regex):
            return
        if old is not None:
            _add(self._named, old.topics, -1)
            _add(self.regexes, filter(None, [old.regex]), -1)
        if new is not None:
            _add(self._named, new.topics, 1)
            _add(self.regexes, filter(None, [new.regex]), 1)

    def match(self, topics: Iterable[str], step: int) -> None:
        """Count one expression more, or less (-1), that matches some topics."""
        _add(self._matched, topics, step)

    def is_homogeneous(self, members: int) -> bool:
        """Return whether all members subscribe to the same (`ConsumerGroup.subscriptionType`).

        Those with expressions do if all have the same one, and name no topics beside.
        """
        if not self.regexes:
            return all(self._named[topic] == members for topic in self.topics)
        if members not in self.regexes.values():
            return False
        return not self._named and all(each == 1 for each in self._matched.values())


def _add(counts: Counter[str], names: Iterable[str], step: int) -> None:
    for name in names:
        if counts[name] + step > 0:
            counts[name] += step
        else:
            del counts[name]
