"""A member of a consumer group (KIP-848) in the coordinator's memory, and subscription counts.

Source: `ConsumerGroupMember`, `SubscriptionCount`, and the maps of counts of `ModernGroup` and
`ConsumerGroup` of 4.3.1.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

from kgroup.assignor.server.server import is_homogeneous
from kgroup.model.group import MemberState
from kgroup.simulation.consumer.message import ConsumerGroupHeartbeat, NumbersByTopic

Data: TypeAlias = Mapping[str, Any]
"""Part of a record, with Kafka's field names."""

Held: TypeAlias = Mapping[str, Mapping[int, int]]
"""Numbers of a member's partitions by topic id, each with the epoch in which the member got it."""


@dataclass(frozen=True, slots=True)
class ConsumerMember:
    """An immutable member; a change creates a new one.

    Attributes:
        epoch: current epoch: the epoch of the target assignment once no revocation is pending.
        previous_epoch: epoch before; a member that missed the last answer still sends it.
        rebalance_timeout_ms: time to revoke partitions; -1 if the member has not sent it.
        topics: names of subscribed topics.
        regex: regular expression of subscribed topics; "" if none.
        assignor: assignor that the member prefers.
        assigned: partitions that it may read.
        revoking: partitions that it must revoke and has not yet.
        classic: session timeout and protocols of a classic member.
        topic_order: topic names in the order of insertion, on which a hash table's order depends.
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
        """Return whether the member owns its whole target assignment of an epoch."""
        return self.state is MemberState.STABLE and self.epoch == epoch

    def owns_all(self, owned: NumbersByTopic | None) -> bool:
        """Return whether all reported partitions are assigned; False if None (`isSubset`)."""
        return owned is not None and all(
            self.assigned.get(topic_id, {}).keys() >= numbers for topic_id, numbers in owned.items()
        )

    def held_since(self, topic_id: str, number: int) -> int | None:
        """Return the epoch in which the member got a partition; None if it does not hold it."""
        assigned = self.assigned.get(topic_id, {})
        return assigned.get(number, self.revoking.get(topic_id, {}).get(number))

    def said(self, request: ConsumerGroupHeartbeat) -> ConsumerMember:
        """Return the member with a heartbeat's fields; missing fields are unchanged.

        The result is the same object if nothing changes, and equal if only an order changes.
        """
        fields = {
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
            for name, value in fields.items()
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
        """Return the member in an epoch (the same or a later one) with its partitions there."""
        return replace(
            self,
            state=state,
            epoch=epoch,
            previous_epoch=self.epoch,
            assigned=assigned,
            revoking=revoking,
        )


class SubscriptionCount:
    """Number of members by topic and regular expression; zero counts are absent.

    Attributes:
        regexes: number of members by regular expression.
    """

    def __init__(self) -> None:
        self.regexes: Counter[str] = Counter()
        self._named: Counter[str] = Counter()  # members by topic name
        self._matched: Counter[str] = Counter()  # expressions by matching topic

    @property
    def topics(self) -> set[str]:
        """Names of subscribed topics, including topics that do not exist."""
        return {*self._named, *self._matched}

    def copy(self) -> SubscriptionCount:
        """Return a copy."""
        copied = SubscriptionCount()
        copied.regexes = self.regexes.copy()
        copied._named = self._named.copy()
        copied._matched = self._matched.copy()
        return copied

    def replace(self, old: ConsumerMember | None, new: ConsumerMember | None) -> None:
        """Count a member's new subscription instead of its old one."""
        if old and new and (old.topics, old.regex) == (new.topics, new.regex):
            return
        if old is not None:
            _add(self._named, old.topics, -1)
            _add(self.regexes, filter(None, [old.regex]), -1)
        if new is not None:
            _add(self._named, new.topics, 1)
            _add(self.regexes, filter(None, [new.regex]), 1)

    def match(self, topics: Iterable[str], step: int) -> None:
        """Add (or with -1 remove) one expression that matches these topics."""
        _add(self._matched, topics, step)

    def is_homogeneous(self, members: int) -> bool:
        """Return whether all members have the same subscription; see `is_homogeneous`."""
        return is_homogeneous(members, self.regexes, self._named, self._matched)


def _add(counts: Counter[str], names: Iterable[str], step: int) -> None:
    for name in names:
        if counts[name] + step > 0:
            counts[name] += step
        else:
            del counts[name]
