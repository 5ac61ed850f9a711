"""What changes hands when a group is assigned anew."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import zip_longest
from typing import NamedTuple

from kgroup.assignor.base import TopicPartition, java_order
from kgroup.assignor.java.java_hash import utf16
from kgroup.assignor.spec import MemberSpec
from kgroup.assignor.zookeeper import ThreadAssignment


class Move(NamedTuple):
    """A partition that somebody had and has no more; there may be a million of them.

    Attributes:
        from_member: who had it; perhaps a member that has left.
        to_member: who gets it; None where it is only taken away for now, or for good.
        depends_on_id: whether that may be otherwise with another id of a new member; None where
            it was not found out.
        from_thread: of a ZooKeeper consumer, the number of the thread that had it, where known.
        to_thread: of a ZooKeeper consumer, the number of the thread that gets it.
        lag: records that whoever gets it has to catch up with; None where that is not known.
    """

    topic: str
    partition: int
    from_member: str
    to_member: str | None
    depends_on_id: bool | None = False
    from_thread: int | None = None
    to_thread: int | None = None
    lag: int | None = None


def find_moves(
    before: Mapping[str, set[TopicPartition]],
    after: Mapping[str, Collection[TopicPartition]],
    lost: Mapping[str, set[TopicPartition]],
) -> tuple[Move, ...]:
    """Find what changes hands between members, by topic and partition.

    Args:
        before: by member, and such as have left.
        after: by member.
        lost: what each had and has no more.
    """
    if not any(lost.values()):
        return ()
    gained = {member_id: set(got).difference(before[member_id]) for member_id, got in after.items()}
    givers, takers = _owners(lost), _owners(gained)
    if givers is None or takers is None:
        return _moves_of_shared(lost, gained)
    return tuple(
        Move(topic, number, members[number], gets.get(number))
        for topic, members in sorted(givers.items(), key=lambda item: utf16(item[0]))
        for gets in [takers.get(topic, {})]
        for number in sorted(members)
    )


def _owners(
    partitions: Mapping[str, set[TopicPartition]],
) -> Mapping[str, Mapping[int, str]] | None:
    """Give the member of each partition, by topic and number; None where some have several."""
    owners: dict[str, dict[int, str]] = defaultdict(dict)
    for member_id, own in partitions.items():
        for topic, number in own:
            owners[topic][number] = member_id
    is_shared = sum(map(len, owners.values())) < sum(map(len, partitions.values()))
    return None if is_shared else owners


def _moves_of_shared(
    lost: Mapping[str, set[TopicPartition]], gained: Mapping[str, set[TopicPartition]]
) -> tuple[Move, ...]:
    givers: dict[TopicPartition, list[str]] = defaultdict(list)
    for member_id, partitions in lost.items():
        for partition in partitions:
            givers[partition].append(member_id)
    takers: dict[TopicPartition, list[str]] = defaultdict(list)
    for member_id, partitions in gained.items():
        for partition in givers.keys() & partitions:
            takers[partition].append(member_id)
    return tuple(
        Move(*partition, giver, taker)
        for partition in sorted(givers, key=java_order)
        for giver, taker in zip_longest(sorted(givers[partition]), sorted(takers[partition]))
        if giver is not None
    )


def with_threads(
    moves: Sequence[Move], members: Iterable[MemberSpec], threads: ThreadAssignment
) -> tuple[Move, ...]:
    """Name the threads of ZooKeeper consumers, and add what moves between those of one.

    Args:
        moves: between consumers.
        members: all of them, and such as have left.
        threads: who gets what.
    """
    had = {
        (member.member_id, partition): number
        for member in members
        for partition, number in member.threads.items()
    }
    gets = {
        (member_id, partition): number
        for (member_id, number), partitions in threads.items()
        for partition in partitions
    }
    inside = [
        Move(*partition, member_id, member_id)
        for (member_id, partition), number in gets.items()
        if had.get((member_id, partition), number) != number
    ]
    return tuple(
        move._replace(
            from_thread=had.get((move.from_member, (move.topic, move.partition))),
            to_thread=gets.get((move.to_member or "", (move.topic, move.partition))),
        )
        for move in sorted(
            [*moves, *inside], key=lambda each: java_order((each.topic, each.partition))
        )
    )


def with_lags(moves: tuple[Move, ...], lags: Mapping[TopicPartition, int]) -> tuple[Move, ...]:
    """Say how far the group is behind in what moves, as far as that is known."""
    if not lags:
        return moves
    return tuple(move._replace(lag=lags.get((move.topic, move.partition))) for move in moves)
