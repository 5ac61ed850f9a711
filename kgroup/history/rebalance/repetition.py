"""Causes that repeat: a member that starts rebalances again and again, unlike a deployment.

In a rolling deployment every member restarts once or twice. A member is conspicuous if it does so
more often within a period, and clearly more often than the others.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from kgroup.history.rebalance.rebalance import Cause, CauseKind, Participant, Rebalance

_MINUTE_MS = 60_000
_RESTARTS = 2
"""How often a deployment restarts each member at most."""
_COMING_BACK = (
    CauseKind.INSTANCE_ID_USED_TWICE,
    CauseKind.POLLED_LATE,
    CauseKind.EXPIRED,
    CauseKind.RESTARTED,
)
"""Causes of a member that leaves and returns, the more precise ones first."""
_Name = tuple[str, ...]
_OFTEN = 5
"""Restarts of one member that are too many even if all members restart as often."""


@dataclass(frozen=True, slots=True)
class Occurrence:
    """A cause of one kind, in one rebalance.

    Attributes:
        rebalance: the rebalance, which has a time.
        cause: the cause.
    """

    rebalance: Rebalance
    cause: Cause

    @property
    def time_ms(self) -> int:
        """Time of the rebalance."""
        assert self.rebalance.time_ms is not None
        return self.rebalance.time_ms

    @property
    def event(self) -> str | int:
        """What happened once: of a classic group, the late poll of a member and its return.

        Members of other groups keep their ids.
        """
        is_classic = self.rebalance.group_type == "classic"
        if is_classic and self.cause.kind is CauseKind.POLLED_LATE:
            return self.cause.before_member_id or self.cause.member_id or ""
        return self.rebalance.log_offset


@dataclass(frozen=True, slots=True)
class Repetition:
    """A kind of cause that repeats in a group.

    Attributes:
        kind: the kind.
        starters: members that cause it again and again, as of their last rebalance; those with the
            most events first.
        count: number of events of the first of them.
        event_count: number of events of all of them.
        occurrences: their causes, in log order.
        explained: log offsets of the rebalances that these members started, in any way, and of
            those that followed from them.
    """

    kind: CauseKind
    starters: tuple[Participant, ...]
    count: int
    event_count: int
    occurrences: tuple[Occurrence, ...]
    explained: frozenset[int]


@dataclass(frozen=True, slots=True)
class _Client:
    """The events of one client: of one member under all its ids, or of several that are alike.

    Attributes:
        alike: largest number of such members at a time.
        occurrences: their causes of one kind, in log order.
    """

    alike: int
    occurrences: tuple[Occurrence, ...]

    def times_ms(self) -> list[int]:
        """Return the time of each event."""
        first = {each.event: each.time_ms for each in reversed(self.occurrences)}
        return sorted(first.values())

    def most_within(self, within_ms: int) -> tuple[int, int]:
        """Return the largest number of events in a period, and its start."""
        times, start, most = self.times_ms(), 0, (0, 0)
        for end, time_ms in enumerate(times):
            while time_ms - times[start] > within_ms:
                start += 1
            most = max(most, (end - start + 1, -times[start]))
        return most[0], -most[1]

    def rate(self, since_ms: int, within_ms: int) -> float:
        """Return the number of events of each of these members in a period."""
        until_ms = since_ms + within_ms
        return sum(since_ms <= each <= until_ms for each in self.times_ms()) / self.alike


_Clients = Sequence[_Client]
_IsRepeated = Callable[[_Client, _Clients], bool]


def _three_times(client: _Client, others: _Clients) -> bool:
    return len(client.times_ms()) >= 3


def _unlike_deployments(within_ms: int) -> _IsRepeated:
    def is_repeated(client: _Client, others: _Clients) -> bool:
        count, since_ms = client.most_within(within_ms)
        rate = count / client.alike
        if count <= _RESTARTS or rate <= _RESTARTS:
            return False
        most = max((other.rate(since_ms, within_ms) for other in others), default=0)
        return rate >= _OFTEN or rate >= most + _RESTARTS

    return is_repeated


def _often(count: int, within_ms: int, at_least_ms: int = 0) -> _IsRepeated:
    def is_repeated(client: _Client, others: _Clients) -> bool:
        times = client.times_ms()
        is_long = times[-1] - times[0] >= at_least_ms
        return is_long and client.most_within(within_ms)[0] >= count

    return is_repeated


def repetitions_of(
    rebalances: Iterable[Rebalance], *, count: int, within_ms: int
) -> list[Repetition]:
    """Return the causes that repeat in one group.

    Args:
        rebalances: rebalances of the group, in log order; those without a time are ignored.
        count: number of changes of one member's subscription that are too many; of its metadata,
            twice as many in twice the time.
        within_ms: within this time.

    Returns:
        A repetition for each kind; the one that explains the most rebalances first.
    """
    rules: dict[CauseKind, _IsRepeated] = {
        CauseKind.INSTANCE_ID_USED_TWICE: _three_times,
        CauseKind.POLLED_LATE: _three_times,
        CauseKind.RESTARTED: _unlike_deployments(20 * _MINUTE_MS),
        CauseKind.EXPIRED: _unlike_deployments(60 * _MINUTE_MS),
        # Connect's workers change it twice for each connector that is created.
        CauseKind.METADATA_CHANGED: _often(2 * count, 2 * within_ms, at_least_ms=_MINUTE_MS),
        CauseKind.SUBSCRIPTION_CHANGED: _often(count, within_ms),
    }
    timed = [rebalance for rebalance in rebalances if rebalance.time_ms is not None]
    names = _Names(timed)
    repeated: dict[CauseKind, dict[_Name, _Client]] = {}
    for kind, is_repeated in rules.items():
        clients = names.clients(timed, kind)
        repeated[kind] = {
            name: client
            for name, client in clients.items()
            if is_repeated(client, [other for other in clients.values() if other is not client])
        }
    _keep_one_of_each(repeated)
    found = [
        _repetition(kind, clients.values(), names.started_by(timed, clients))
        for kind, clients in repeated.items()
        if clients
    ]
    return sorted(found, key=lambda each: -len(each.explained))


def _keep_one_of_each(repeated: Mapping[CauseKind, dict[_Name, _Client]]) -> None:
    """Keep one way in which a member goes and comes back: whose session expires returns, too."""
    for name in {name for kind in _COMING_BACK for name in repeated[kind]}:
        counts = {
            kind: len(repeated[kind][name].times_ms())
            for kind in _COMING_BACK
            if name in repeated[kind]
        }
        kept = next(kind for kind in counts if counts[kind] * 2 >= max(counts.values()))
        for kind in counts.keys() - {kept}:
            del repeated[kind][name]


class _Names:
    """Recognizes a member under all its ids: by instance id, client id, or client id and host.

    With a client id of its own, a member may have another host after each restart.
    """

    def __init__(self, timed: Sequence[Rebalance]) -> None:
        running = list(_running(timed))
        running = running[:-1] or running  # the last one may have a member that has crashed
        self._most_of_id = _most_at_once(running, lambda who: who.client_id)
        self._most = _most_at_once(running, self.name)

    def name(self, who: Participant | Cause) -> _Name:
        if who.instance_id is not None:
            return ("instance", who.instance_id)
        if self._most_of_id.get(who.client_id, 0) == 1:
            return ("client", who.client_id or "")
        return ("host", who.client_id or "", who.client_host or "")

    def clients(self, timed: Sequence[Rebalance], kind: CauseKind) -> dict[_Name, _Client]:
        occurrences = [
            Occurrence(rebalance, cause)
            for rebalance in timed
            for cause in rebalance.causes
            if cause.kind is kind and cause.member_id is not None
        ]
        ordered = sorted(occurrences, key=lambda each: self.name(each.cause))
        return {
            name: _Client(self._most.get(name, 1), tuple(of_client))
            for name, of_client in groupby(ordered, lambda each: self.name(each.cause))
        }

    def started_by(self, timed: Sequence[Rebalance], names: Collection[_Name]) -> frozenset[int]:
        """Return the rebalances that these members started, and follow-ups, by log offset."""
        started: set[int] = set()
        is_last = False
        for rebalance in timed:
            is_follow_up = rebalance.cause is CauseKind.FOLLOW_UP and is_last
            is_last = is_follow_up or any(self.name(each) in names for each in rebalance.causes)
            if is_last:
                started.add(rebalance.log_offset)
        return frozenset(started)


def _running(timed: Sequence[Rebalance]) -> Iterator[list[Participant]]:
    """Yield the members after each rebalance, without crashed ones that restarted and may expire.

    Members of a group with epochs make up their ids: a process that restarts at once has two.
    """
    restarted = {
        cause.before_member_id: cause.member_id
        for rebalance in timed
        for cause in rebalance.causes
        if cause.kind is CauseKind.RESTARTED
    }
    for rebalance in timed:
        there = {who.member_id for who in rebalance.members}
        yield [who for who in rebalance.members if restarted.get(who.member_id) not in there]


def _most_at_once(
    running: Sequence[Sequence[Participant]], name: Callable[[Participant], Hashable]
) -> dict[Hashable, int]:
    most: dict[Hashable, int] = {}
    for members in running:
        for each, count in Counter(map(name, members)).items():
            most[each] = max(most.get(each, 0), count)
    return most


def _repetition(
    kind: CauseKind, repeated: Iterable[_Client], explained: frozenset[int]
) -> Repetition:
    ordered = sorted(repeated, key=lambda client: -len(client.times_ms()))
    lasts = [client.occurrences[-1].cause for client in ordered]
    occurrences = (each for client in ordered for each in client.occurrences)
    return Repetition(
        kind,
        tuple(
            Participant(last.member_id or "", last.instance_id, last.client_id, last.client_host)
            for last in lasts
        ),
        len(ordered[0].times_ms()),
        sum(len(client.times_ms()) for client in ordered),
        tuple(sorted(occurrences, key=lambda each: each.rebalance.log_offset)),
        explained,
    )
