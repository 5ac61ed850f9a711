"""A member of a consumer group (KIP-848) as its coordinator holds it.

Source: `ConsumerGroupMember` of 4.3.1.
"""

from __future__ import annotations

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
        """Tell whether it has all that it shall have in an epoch of the group."""
        return self.state is MemberState.STABLE and self.epoch == epoch

    def owns_all(self, owned: Iterable[IdPartition] | None) -> bool:
        """Tell whether it may have what it says it has; it must say it (`isSubset`)."""
        return owned is not None and all(each in self.assigned for each in owned)

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
