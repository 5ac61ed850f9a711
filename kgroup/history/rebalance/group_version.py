"""A group after a rebalance, and its members."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from kgroup.history.rebalance.member_metadata import MemberMetadata
from kgroup.history.rebalance.rebalance import Participant, PartitionOrTask
from kgroup.value_class import value_class


@value_class
class MemberVersion(Struct, frozen=True, gc=False):
    """A member in a version of its group.

    Attributes:
        topics: topics of its subscription; None if unknown.
        regex: regular expression of its subscription, instead of or in addition to topics.
        session_timeout_ms: session timeout of a member with the classic protocol; None if not
            stored.
        rebalance_timeout_ms: rebalance timeout; None if not stored.
        owned: what the member owns; None if that cannot be read.
        seen_ms: time of the last record that the member itself caused.
        is_away: whether it is a static member that left temporarily (epoch -2).
        metadata: metadata of a member with the classic protocol; None if not read.
    """

    who: Participant
    topics: frozenset[str] | None = None
    regex: str | None = None
    session_timeout_ms: int | None = None
    rebalance_timeout_ms: int | None = None
    owned: frozenset[PartitionOrTask] | None = None
    seen_ms: int | None = None
    is_away: bool = False
    metadata: MemberMetadata | None = None

    @property
    def timeout_ms(self) -> int | None:
        """Minimum time without a sign of life before the group removes the member.

        None if not stored, or 0 as in records of unusual clients.
        """
        known = [each for each in (self.session_timeout_ms, self.rebalance_timeout_ms) if each]
        return None if self.session_timeout_ms is None else min(known, default=None)


@value_class
class GroupVersion(Struct, frozen=True, gc=False):
    """A group after a rebalance.

    Attributes:
        group_type: classic, consumer, share or streams.
        generation: generation or group epoch; None if the group is new, or was deleted.
        joined_ms: when all members of a classic group had joined, if stored.
        time_ms: time of the record.
        log_offset: offset of the record; -1 before the first one.
        leader_epoch: leader epoch of the partition of `__consumer_offsets`.
        protocol: strategy of a classic group.
        members: members by id.
        topics_hash: metadata hash of the topics, for a group with epochs.
        topology: epoch of a streams group's topology.
    """

    group_type: str
    generation: int | None
    joined_ms: int | None
    time_ms: int | None
    log_offset: int
    leader_epoch: int | None
    protocol: str | None
    members: Mapping[str, MemberVersion] = {}
    topics_hash: int | None = None
    topology: int | None = None

    @property
    def is_classic(self) -> bool:
        """Whether it is a classic group."""
        return self.group_type == "classic"

    @property
    def topics(self) -> frozenset[str]:
        """Every topic that members are known to subscribe to."""
        return frozenset().union(*(member.topics or () for member in self.members.values()))

    @property
    def owned(self) -> frozenset[PartitionOrTask] | None:
        """Everything that members own; None if unknown for any of them."""
        every = [member.owned for member in self.members.values()]
        known = [tasks for tasks in every if tasks is not None]
        return frozenset().union(*known) if len(known) == len(every) else None
