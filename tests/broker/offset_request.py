"""Random requests about offsets, as members and others send them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from random import Random
from typing import NamedTuple

from kgroup.simulation.message import (
    CommittedPartition,
    DeleteGroup,
    OffsetCommit,
    OffsetDelete,
    OffsetFetch,
    Request,
)

OFFSET_VERSIONS: Mapping[str, Mapping[type, tuple[int, int]]] = {
    "1.1.1": {OffsetCommit: (2, 3), OffsetFetch: (1, 3), DeleteGroup: (0, 0)},
    "2.8.2": {OffsetCommit: (2, 8), OffsetFetch: (1, 7), DeleteGroup: (0, 2), OffsetDelete: (0, 0)},
    "3.9.2": {OffsetCommit: (2, 9), OffsetFetch: (1, 7), DeleteGroup: (0, 2), OffsetDelete: (0, 0)},
    "4.3.1": {OffsetCommit: (2, 9), OffsetFetch: (1, 9), DeleteGroup: (0, 2), OffsetDelete: (0, 0)},
}
"""Lowest and highest version of each request that brokers take, and whose shape is known here."""

_KINDS = {OffsetCommit: 8, OffsetFetch: 4, OffsetDelete: 2, DeleteGroup: 1}
_TOO_LARGE = 4_097
_EPOCH_IN_FETCH = 9


class Sender(NamedTuple):
    """Who sends a request: a member, or what it takes itself for."""

    group_id: str
    member_id: str
    generation_id: int
    instance_id: str | None


def offsets_request(
    draw: Random, version: str, sender: Sender, topics: Mapping[str, int]
) -> Request:
    """Make a request to a broker of a version, about some partitions of topics."""
    group_id = sender.group_id
    known = {each: _KINDS[each] for each in _KINDS if each in OFFSET_VERSIONS[version]}
    kind = draw.choices(list(known), list(known.values()))[0]
    every = [(topic, number) for topic, count in topics.items() for number in range(count)]
    some = draw.sample(every, draw.randint(1, min(len(every), 5)))
    if kind is OffsetFetch:
        fetch = OffsetFetch(group_id, None if draw.random() < 0.3 else tuple(some))
        if draw.random() < 0.4:
            return fetch
        return replace(fetch, member_id=sender.member_id, member_epoch=sender.generation_id)
    if kind is OffsetDelete:
        return OffsetDelete(group_id, tuple(some))
    if kind is DeleteGroup:
        return DeleteGroup(group_id)
    if draw.random() < 0.25:
        sender = Sender(group_id, "", -1, None)
    # who is no member and commits nothing that may be kept makes a group that nobody sees
    is_too_large = sender.generation_id >= 0 and draw.random() < 0.05
    metadata = "m" * (_TOO_LARGE if is_too_large else draw.randint(0, 3))
    offsets = {
        partition: CommittedPartition(
            draw.randint(0, 100), metadata, draw.choice([None, draw.randint(0, 5)])
        )
        for partition in some
    }
    return OffsetCommit(
        group_id, offsets, sender.generation_id, sender.member_id, sender.instance_id
    )


def as_version(draw: Random, request: Request, version: int) -> tuple[Request, int]:
    """Leave out what a version does not have; return the version that it then has."""
    if isinstance(request, OffsetCommit):
        if request.instance_id is not None:
            version = max(version, 7)
        retention_ms = 3_600_000 if draw.random() < 0.5 and version <= 4 else None
        offsets = {
            partition: replace(
                each,
                leader_epoch=each.leader_epoch if version >= 6 else None,
                retention_ms=retention_ms,
            )
            for partition, each in request.offsets.items()
        }
        return replace(request, offsets=offsets, version=version), version
    if isinstance(request, OffsetFetch):
        if version < _EPOCH_IN_FETCH:
            request = replace(request, member_id=None, member_epoch=-1)
        if version < 2 and request.partitions is None:
            version = 2
    return request, version
