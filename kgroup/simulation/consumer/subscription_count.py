"""How many members of a consumer group subscribe to what.

Source: `SubscriptionCount`, and the maps of counts of `ModernGroup` and `ConsumerGroup` of 4.3.1.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from kgroup.simulation.consumer.member import ConsumerMember


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
        """Tell whether all members subscribe to the same (`ConsumerGroup.subscriptionType`).

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
