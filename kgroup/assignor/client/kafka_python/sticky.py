"""Sticky and cooperative-sticky of kafka-python: who claims what, and what its assignors answer.

Source: `kafka/coordinator/assignors/sticky/sticky_assignor.py` and `cooperative_sticky.py` of
kafka-python 3.0.12 and 2.3.3.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

from kgroup.assignor.base import Assignment, AssignorError, Subscriber, Topic, TopicPartition
from kgroup.assignor.client.kafka_python.balance import Balance
from kgroup.assignor.sticky.claim import NO_GENERATION, Claim, or_no_generation

_MOST_WAYS = 64
_LATER = 1  # a generation: of claims that are all of one, it does not matter which


@dataclass(frozen=True, slots=True)
class StickyAssignor:
    """Assigns as the leader of a sticky group does, see `ClassicAssignor`.

    Attributes:
        is_cooperative: what was owned is in the subscription, not in its user data; and what
            changes hands is given up first.
        reads_version: whether user data begins with a version (since 3.0); the other form is not
            understood.
        undoes_moves: see `Balance`.
    """

    is_cooperative: bool
    reads_version: bool
    undoes_moves: bool

    def __call__(self, members: Sequence[Subscriber], topics: Mapping[str, Topic]) -> Assignment:
        """Assign; of partitions of which the library takes any one, the lowest is taken."""
        return self._assign(members, topics, _Choices(()))

    def is_determined(self, members: Sequence[Subscriber], topics: Mapping[str, Topic]) -> bool:
        """Tell whether the library would answer the same in every process.

        It takes any element of a set at two places, and the order of sets depends on hashes of
        texts that Python draws anew for each process.
        """
        ways = self._ways(members, topics)
        first = next(ways)
        try:
            return all(assignment == first for assignment in ways)
        except AssignorError:
            return False

    def is_same_without(
        self, members: Sequence[Subscriber], topics: Mapping[str, Topic], known: Collection[str]
    ) -> bool:
        """Tell whether members come to have the same if only known topics are assigned first.

        What is not assigned then, nobody claims any more in the rebalance that follows.
        """
        if all(name in known for member in members for name in member.topics if name in topics):
            return True
        claims = {member.member_id: self._claim(member) for member in members}
        lowest = _Choices(())
        try:
            first = self._assign(members, {name: topics[name] for name in known}, lowest)
            kept = {member_id: Claim(own, _LATER) for member_id, own in first.items()}
            shares = [self._balanced(members, topics, each, lowest) for each in (claims, kept)]
        except AssignorError:
            return False
        return shares[0] == shares[1]

    def _balanced(
        self,
        members: Sequence[Subscriber],
        topics: Mapping[str, Topic],
        claims: Mapping[str, Claim],
        choices: _Choices,
    ) -> Assignment:
        """Give what each member shall have, before others have given it up."""
        given = Balance(members, topics, claims, choices, undoes_moves=self.undoes_moves).assign()
        return {member.member_id: sorted(given[member.member_id]) for member in members}

    def outcomes(
        self, members: Sequence[Subscriber], topics: Mapping[str, Topic]
    ) -> list[Assignment] | None:
        """Give all that the library may answer; None where more than 64 ways lead there.

        Raises:
            AssignorError: the library fails on one of the ways.
        """
        found: list[Assignment] = []
        for assignment in self._ways(members, topics):
            if assignment is None:
                return None
            if assignment not in found:
                found.append(assignment)
        return found

    def _ways(
        self, members: Sequence[Subscriber], topics: Mapping[str, Topic]
    ) -> Iterator[Assignment | None]:
        """Assign in one way after the other; None in the end where there are more than 64."""
        scripts: list[tuple[int, ...]] = [()]
        for _ in range(_MOST_WAYS):
            choices = _Choices(scripts.pop())
            yield self._assign(members, topics, choices)
            scripts += choices.others()
            if not scripts:
                return
        yield None

    def _assign(
        self, members: Sequence[Subscriber], topics: Mapping[str, Topic], choices: _Choices
    ) -> Assignment:
        claims = {member.member_id: self._claim(member) for member in members}
        assignment = self._balanced(members, topics, claims, choices)
        if not self.is_cooperative:
            return assignment
        # of those that claim a partition the last one counts here, and above the first one
        owners = {each: member_id for member_id in claims for each in claims[member_id].partitions}
        return {
            member_id: [each for each in own if owners.get(each, member_id) == member_id]
            for member_id, own in assignment.items()
        }

    def _claim(self, member: Subscriber) -> Claim:
        if self.is_cooperative:
            return Claim(member.owned, or_no_generation(member.generation))
        if self.reads_version:
            return Claim(*(member.remembered_in_python or ((), NO_GENERATION)))
        if member.remembered_generation is None:
            return Claim((), NO_GENERATION)
        return Claim(member.remembered or (), member.remembered_generation)


class _Choices:
    """Takes partitions by a script of ranks, and where that ends always the lowest one."""

    def __init__(self, script: tuple[int, ...]) -> None:
        self._script = script
        self._taken: list[int] = []
        self._sizes: list[int] = []

    def __call__(self, partitions: Collection[TopicPartition]) -> TopicPartition:
        if len(partitions) == 1:
            return next(iter(partitions))
        at = len(self._taken)
        self._taken.append(self._script[at] if at < len(self._script) else 0)
        self._sizes.append(len(partitions))
        return sorted(partitions)[self._taken[-1]]

    def others(self) -> list[tuple[int, ...]]:
        """Give the scripts that differ first where this one had no say."""
        return [
            (*self._taken[:at], rank)
            for at, size in islice(enumerate(self._sizes), len(self._script), None)
            for rank in range(1, size)
        ]
