"""The vote on the strategy of a classic group, as far as its result can be derived.

Each member votes for the first strategy in its list that all members list. The most votes win; a
tie depends on the broker's hash table (`ClassicGroup.selectProtocol`). Neither responses nor
records have the lists. This is known of them:

- a member lists each strategy that has won in one of its generations;
- the same members choose the same strategy again;
- a member that keeps its partitions when it joins lists only cooperative strategies;
- a library may have only one strategy;
- a dry run may name the list of a new member.

If earlier generations had other strategies, all lists that explain them are tried.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import chain, combinations_with_replacement, permutations
from math import comb, factorial, prod

from kgroup.assignor.client_facts import FACTS
from kgroup.assignor.group_spec import GroupSpec
from kgroup.assignor.member_spec import MemberSpec
from kgroup.assignor.server.server import PREFERENCE, preferred_assignor
from kgroup.assignor.strategy import strategies
from kgroup.model.client_library import KAFKA_CLIENTS, generation_before
from kgroup.model.group import Group, GroupType, PastGeneration
from kgroup.simulation.classic.group import winner
from kgroup.simulation.client.config import COOPERATIVE_STICKY

INCONSISTENT = "INCONSISTENT_GROUP_PROTOCOL"
"""Error with which the coordinator refuses a member with no strategy that all members list."""
KEEPERS = (KAFKA_CLIENTS,)
"""Libraries whose members keep partitions in a rebalance only if they list no eager strategy.

Source: the constructor of `ConsumerCoordinator`. In franz-go, the strategy in use decides.
"""
_SURE = 2
"""Number of rebalances in which a member gives up all partitions that prove an eager strategy."""
_TIES = ((4, 0), (2, 6), (2, 3))
"""Versions of brokers, one for each order in which ties are broken."""
_MOST_VOTES = 30
"""Maximum number of past votes to explain."""
_MOST_STEPS = 2_000
"""Maximum number of partial sets of lists to try."""

_MOST_STRATEGIES = 6
"""Maximum number of strategies of which lists are tried."""

_List = tuple[str, ...]
_Generation = tuple[frozenset[str], str]
"""Members and strategy."""


def with_keeping(group: Group, members: tuple[MemberSpec, ...]) -> tuple[MemberSpec, ...]:
    """Return the members of a cooperative group with `keeps`, from what they claimed.

    A member that owned partitions and claims none in the next generation lists an eager strategy,
    too. If others claim some, this must happen twice: it may have rejoined before it received its
    partitions. Where nothing is known of a member, it does as the others if these are alike. If
    some may list an eager strategy, it is open whether such a member does.
    """
    if group.type is not GroupType.CLASSIC or group.assignor != COOPERATIVE_STICKY:
        return members
    now = _present(group)
    generations = (now, *group.past_generations)
    java = {
        member.member_id
        for member in members
        if not {*KEEPERS}.isdisjoint(
            (member.may_be or ()) if member.client is None else (member.client.name,)
        )
    }
    foreign = {*now.members} - java
    gave_up: Counter[str] = Counter()
    for at, each in enumerate(generations):
        if each.assignor != COOPERATIVE_STICKY:
            gave_up.update(dict.fromkeys(each.members, _SURE))
            continue
        is_alike = foreign.issuperset(each.claimed)
        for name in each.unclaimed:
            before = next((old for old in generations[at + 1 :] if name in old.members), None)
            if before is not None and name not in before.idle:
                gave_up[name] += _SURE if is_alike else 1
    kept = {name: False for name, times in gave_up.items() if times >= _SURE}
    kept |= dict.fromkeys((name for each in generations for name in each.claimed), True)
    known = frozenset(kept)
    kinds = {keeps for name, keeps in kept.items() if name not in foreign}
    usual = kinds.pop() if len(kinds) == 1 else None
    # Who joined when the strategy changed may have changed it with another list.
    has_changed = any(each.assignor != COOPERATIVE_STICKY for each in generations)
    is_open = bool(gave_up) and (usual is not False or has_changed)
    if usual is not True:  # some surely do
        kept = dict.fromkeys(gave_up, False) | kept
    return tuple(
        replace(
            member,
            keeps=kept.get(member.member_id, usual),
            is_keeping_open=is_open and member.member_id not in known,
        )
        if member.member_id in java
        else member
        for member in members
    )


def _present(group: Group) -> PastGeneration:
    """Return the present generation in the form of a past one."""
    sent = {member.member_id: member.subscription for member in group.members}
    return PastGeneration(
        group.generation_id or 0,
        group.assignor or "",
        tuple(sent),
        claimed=tuple(name for name, each in sent.items() if each and each.owned),
        unclaimed=tuple(
            name
            for name, each in sent.items()
            if each
            and each.owned == ()
            and generation_before(each.generation_id, each.user_data) is not None
        ),
    )


def listable(library: str | None, strategy: str, *, keeps: bool = False) -> frozenset[str] | None:
    """Return the strategies that a member may list; None if unknown.

    Assignors of the application's own are left out.

    Args:
        library: client library of the member, if it is certain.
        strategy: strategy of the group.
        keeps: whether it keeps its partitions in a cooperative rebalance.
    """
    facts = FACTS.get(library or "")
    if facts is None:
        return None
    is_cooperative = strategy == COOPERATIVE_STICKY
    if is_cooperative and (not facts.mixes or (keeps and library in KEEPERS)):
        return frozenset({strategy})
    names = facts.strategies.keys()
    return frozenset(names if facts.mixes else names - {COOPERATIVE_STICKY}) | {strategy}


def may_list(member: MemberSpec, strategy: str) -> frozenset[str] | None:
    """Return the strategies that a member lists, or else may list; None if unknown."""
    if member.lists is not None:
        return frozenset(member.lists)
    client = member.certain_client
    keeps = bool(member.keeps) and not member.is_keeping_open
    return listable(client and client.name, strategy, keeps=keeps)


def assignor_of(members: Sequence[MemberSpec], last: MemberSpec | None = None) -> str:
    """Return the assignor of a consumer group whose members prefer what they are known to prefer.

    Args:
        members: all members.
        last: the one whose heartbeat lets the coordinator assign; None if it prefers nothing.
    """
    votes = Counter(member.assignor for member in members if member is not last)
    return preferred_assignor(votes, None if last is None else last.assignor) or PREFERENCE[0]


def last_joined(members: Sequence[MemberSpec]) -> MemberSpec | None:
    """Return the new member that joins last, without an assignment yet; None if there is none."""
    last = members[-1] if members else None
    return last if last is not None and last.unknown_id and last.owned is None else None


def after_vote(spec: GroupSpec, before: GroupSpec, restarted: Mapping[str, str]) -> GroupSpec:
    """Return a classic group with the strategy that most likely wins the vote.

    If that is not imitated, the strategy stays, and differs from the first of `may_win`.

    Args:
        spec: the group after members have left or joined.
        before: the group before, with its `past_generations`.
        restarted: new ids of restarted members, by former id; their lists stay.
    """
    may_win = _may_win(spec, before, restarted)
    spec = replace(spec, may_be_refused=_may_be_refused(spec, before, restarted))
    if may_win is None or may_win[0] == spec.strategy:
        return replace(spec, may_win=may_win)
    # Members with an eager strategy in their lists give up all partitions before they join.
    members = tuple(
        replace(member, keeps=False) if member.lists is None else member for member in spec.members
    )
    voted = replace(spec, may_win=may_win, strategy=may_win[0], members=members)
    libraries = {voted.computed_as}
    if not all(member.unknown_id for member in spec.members):
        libraries.add(spec.computed_as)
    is_known = all(voted.strategy in strategies("classic", library) for library in libraries)
    return voted if is_known else replace(spec, may_win=may_win)


def _may_win(
    spec: GroupSpec, before: GroupSpec, restarted: Mapping[str, str]
) -> tuple[str, ...] | None:
    """Return the strategies that may win, the likeliest first; None if nothing is known."""
    voters, past = _voters(spec, restarted), _generations(before)
    known = {each.member_id: each for each in (*before.members, *spec.members)}
    lists = tuple(sorted(each.lists for each in spec.members if each.lists is not None))
    same = {strategy for members, strategy in past if members == voters and not lists}
    if len(same) == 1:
        return (*same,)
    may = {name: may_list(known[name], before.strategy) for name in voters}
    if frozenset({before.strategy}) in may.values():
        return (before.strategy,)
    others = {strategy for members, strategy in past if members & voters}
    # With known lists, only these can win: all new members list them, and all others may.
    possible = None
    if lists:
        common = set(lists[0]).intersection(*lists)
        possible = {n for n in common if all(each is None or n in each for each in may.values())}
        others |= possible
    others -= {before.strategy}
    if possible is not None and len(possible) == 1:
        return (*possible,)
    if possible is None and (not others or len(others) >= _MOST_STRATEGIES):
        return None
    names = (before.strategy, *others)
    if (
        lists
        and voters == {member.member_id for member in before.members}
        and all(each[0] == before.strategy and set(each).issuperset(names) for each in lists)
    ):  # the candidates stay the same, and the winner gets all new votes
        return (before.strategy,)
    won: Mapping[str, int] = {}
    if not voters:
        won = Counter(filter(None, (_elected(lists, version) for version in _TIES)))
    elif len(names) <= _MOST_STRATEGIES:
        won = _winners(names, voters, lists, may, past)
    won = won or dict.fromkeys(names if possible is None else possible, 1)
    return tuple(sorted(won, key=lambda name: (-won[name], name != before.strategy, name)))


def _voters(spec: GroupSpec, restarted: Mapping[str, str]) -> frozenset[str]:
    """Return the former ids of members whose lists are unknown."""
    old_ids = {new: old for old, new in restarted.items()}
    return frozenset(old_ids.get(m.member_id, m.member_id) for m in spec.members if not m.lists)


def _generations(before: GroupSpec) -> frozenset[_Generation]:
    now = PastGeneration(0, before.strategy, tuple(sorted(m.member_id for m in before.members)))
    every = (now, *before.past_generations)
    return frozenset((frozenset(each.members), each.assignor) for each in every)


def _may_be_refused(spec: GroupSpec, before: GroupSpec, restarted: Mapping[str, str]) -> bool:
    """Return whether new members may have no strategy that all others list."""
    common = {name for member in spec.members for name in member.lists or ()}
    for member in spec.members:
        common &= common if member.lists is None else set(member.lists)
    past = _generations(before)
    for voter in _voters(spec, restarted):
        won = {strategy for members, strategy in past if voter in members}
        common &= won or common  # new members with unknown lists count as accepted
    return not common and any(member.lists is not None for member in spec.members)


def _winners(
    names: Iterable[str],
    voters: frozenset[str],
    new: tuple[_List, ...],
    may_list: Mapping[str, frozenset[str] | None],
    past: Collection[_Generation],
) -> Mapping[str, int]:
    """Return in how many sets of lists each strategy wins; empty if there are too many.

    Only sets count that explain all past votes with the same tie-breaking order.
    """
    joining = voters - frozenset[str]().union(*(members for members, _ in past))
    votes = _Votes(tuple(sorted(names)), voters, joining, new, may_list, past)
    won: Counter[str] = Counter()
    for version in _TIES:
        won += votes.winners(version)
    return won


@dataclass(frozen=True)
class _Votes:
    """What is known of the lists of members.

    Attributes:
        names: strategies that members may list.
        voters: members that vote now, and whose lists are unknown.
        joining: those of them that were in no generation.
        new: lists of other members that join.
        may_list: strategies that a voter may list; None if unknown.
        past: generations.
    """

    names: tuple[str, ...]
    voters: frozenset[str]
    joining: frozenset[str]
    new: tuple[_List, ...]
    may_list: Mapping[str, frozenset[str] | None]
    past: Collection[_Generation]

    def winners(self, version: tuple[int, int]) -> Counter[str]:
        """Return in how many sets of lists that explain past votes each strategy wins now.

        If there are too many, generations with the most former members are left out.
        """
        near = sorted(self.past, key=lambda vote: (len(vote[0] - self.voters), sorted(vote[0])))
        del near[_MOST_VOTES:]
        while near:
            try:
                return self._winners(near, version)
            except _TooManyError:
                del near[-max(1, len(near) // 3) :]
        return Counter()

    def _winners(self, past: Sequence[_Generation], version: tuple[int, int]) -> Counter[str]:
        """Return in how many sets each strategy wins if they explain these generations.

        Raises:
            _TooManyError: there are too many possible sets of lists.
        """
        votes = sorted(past, key=lambda vote: (len(vote[0]), sorted(vote[0])))
        known = self.voters - self.joining
        groups = [*(who for who, _ in votes), known]
        # Members that were in the same generations are alike; first those of the smallest ones.
        members = Counter(
            (tuple(member not in who for who in groups), self.may_list.get(member))
            for member in frozenset[str]().union(*groups)
        )
        alike: Counter[tuple[tuple[bool, ...], tuple[_List, ...]]] = Counter()
        for (absences, allowed), count in members.items():
            needed = {won for absent, (_, won) in zip(absences, votes, strict=False) if not absent}
            alike[absences, _lists(self.names, frozenset(needed), allowed)] += count
        kinds = sorted(alike)
        if any(comb(alike[k] + len(k[1]) - 1, alike[k]) > _MOST_STEPS for k in kinds):
            raise _TooManyError
        ends: dict[int, list[int]] = defaultdict(list)
        for at in range(len(votes)):
            ends[max(n for n, (absent, _) in enumerate(kinds) if not absent[at])].append(at)

        def elected(chosen: tuple[tuple[_List, ...], ...], at: int) -> str | None:
            own = (each for each, (absent, _) in zip(chosen, kinds, strict=False) if not absent[at])
            return _elected(tuple(sorted(chain.from_iterable(own))), version)

        won: Counter[str] = Counter()
        steps = 0
        open_sets: list[tuple[tuple[tuple[_List, ...], ...], int]] = [((), 1)]
        while open_sets:
            chosen, weight = open_sets.pop()
            if len(chosen) == len(kinds):
                for name, ways in self._elected_now(chosen, kinds, version).items():
                    won[name] += weight * ways
                continue
            kind = kinds[len(chosen)]
            for each in combinations_with_replacement(kind[1], alike[kind]):
                steps += 1 + len(each) // 20  # many members take longer
                if steps > _MOST_STEPS:
                    raise _TooManyError
                now = (*chosen, each)
                if all(elected(now, at) == votes[at][1] for at in ends[len(chosen)]):
                    same = prod(map(factorial, Counter(each).values()))
                    open_sets.append((now, weight * (factorial(len(each)) // same)))
        return won

    def _elected_now(
        self,
        chosen: Sequence[tuple[_List, ...]],
        kinds: Sequence[tuple[tuple[bool, ...], object]],
        version: tuple[int, int],
    ) -> Counter[str]:
        """Return the winners if joining members list what another member lists or has listed."""
        by_kind = list(zip(chosen, kinds, strict=True))
        own = [each for lists, (absent, _) in by_kind if not absent[-1] for each in lists]
        own += self.new
        known = Counter(chain.from_iterable(chosen))
        won: Counter[str] = Counter()
        for new, ways in known.items() if self.joining else [((), 1)]:
            name = _elected(tuple(sorted([*own, *[new] * len(self.joining)])), version)
            if name is not None:
                won[name] += ways
        return won


class _TooManyError(Exception):
    """There are too many possible lists to try all."""


@lru_cache(_MOST_STEPS)
def _lists(
    names: tuple[str, ...], needed: frozenset[str], allowed: frozenset[str] | None
) -> tuple[_List, ...]:
    """Return the possible lists of a member that contain all needed strategies.

    Others must be allowed; None allows all.
    """
    may = [name for name in names if allowed is None or name in allowed or name in needed]
    return tuple(
        each
        for length in range(1, len(may) + 1)
        for each in permutations(may, length)
        if needed.issubset(each)
    )


@lru_cache(_MOST_STEPS)
def _elected(lists: tuple[_List, ...], version: tuple[int, int]) -> str | None:
    """Return the strategy that members with these lists choose; None if they share none."""
    common = set(lists[0]).intersection(*lists)
    if not common:
        return None
    return winner((next(name for name in each if name in common) for each in lists), version)
