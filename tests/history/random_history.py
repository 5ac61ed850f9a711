"""Random logs of `__consumer_offsets`, as brokers write them: real segments of real batches.

What happens in them: members of groups of every type join, leave, expire and come back; groups
rebalance, are converted and deleted; offsets are committed, in transactions too, whose markers come
late, reset, and removed; coordinators move (the leader epoch rises). Some logs have been compacted
in part, some have lost records. The same seed gives the same history.
"""

from __future__ import annotations

import base64
import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kgroup.model.offsets_partition import offsets_partition
from kgroup.protocol.record.coordinator_record import encode_key, encode_value
from tests.columnar.log_writer import TRANSACTIONAL, Plain, batch, marker
from tests.examples import examples
from tests.history.random_groups import ConvertedGroup, Entry, Group, World, new_group


@dataclass
class _Batch:
    records: list[Plain]
    leader_epoch: int
    producer_id: int | None = None
    outcome: int | None = None

    def encoded(self) -> bytes:
        if self.outcome is not None:
            assert self.producer_id is not None
            return marker(self.records[0].offset, self.producer_id, self.outcome)
        if self.producer_id is None:
            return batch(self.records, leader_epoch=self.leader_epoch)
        return batch(
            self.records,
            leader_epoch=self.leader_epoch,
            producer_id=self.producer_id,
            producer_epoch=0,
            base_sequence=0,
            flags=TRANSACTIONAL,
        )


@dataclass
class _Log:
    batches: list[_Batch] = field(default_factory=list)
    end: int = 0
    leader_epoch: int = 0


@dataclass(frozen=True)
class Happening:
    """What a group did, and who was in it before and after.

    `generations` are the new generations or epochs that its records tell of; None stands for the
    deletion of the group.
    """

    group_id: str
    did: str
    generations: tuple[int | None, ...]
    before: Mapping[str, frozenset[str]]
    after: Mapping[str, frozenset[str]]


class RandomHistory:
    """One history.

    Attributes:
        story: what happened, in order; the topics of members by id.
        is_whole: whether nothing was compacted away or lost.
        topic_names: of the users' topics, by id.
        logs: encoded batches by partition of `__consumer_offsets`, each with its first offset.
    """

    def __init__(self, seed: int, *, partitions: int = 2) -> None:
        draw = self._random = random.Random(f"history-{seed}")
        topics = {name: draw.randint(1, 6) for name in ("orders", "payments", "shipments")}
        ids = {name: _uuid(draw) for name in topics}
        self._world = World(draw, topics, ids)
        self.topic_names = {topic_id: name for name, topic_id in ids.items()}
        self._partitions = partitions
        self._logs = {number: _Log() for number in range(partitions)}
        self._has_time = draw.random() > 0.05
        self._open: list[tuple[int, int]] = []
        self._producers = 0
        self.story: list[Happening] = []
        self.is_whole = True
        groups = [new_group(self._world, f"group-{number}") for number in range(draw.randint(1, 5))]
        for _ in range(examples(50, 120)):
            self._world.now_ms += draw.choice([0, 1, 50, 3_000, 60_000, 3_600_000])
            group = draw.choice(groups)
            before = _topics(group)
            entries = group.step()
            self.story.append(
                Happening(group.group_id, group.did, _generations(entries), before, _topics(group))
            )
            self._write(group.group_id, entries)
            for happens, often in (
                (self._commit, 0.6),
                (self._commit_in_transaction, 0.1),
                (self._end_transaction, 0.1),
                (self._move, 0.02),
            ):
                if draw.random() < often:
                    happens(group.group_id)
        if draw.random() < 0.3:
            self._compact()
            self.is_whole = False
        if draw.random() < 0.15:
            self._lose()
            self.is_whole = False

    @property
    def logs(self) -> dict[int, list[tuple[int, bytes]]]:
        return {
            number: [(each.records[0].offset, each.encoded()) for each in log.batches]
            for number, log in self._logs.items()
        }

    def write(self, folder: Path, *, most_batches: int = 40) -> None:
        """Write a broker's log directory: segments, and the ids of the users' topics."""
        for number, batches in self.logs.items():
            log = folder / f"__consumer_offsets-{number}"
            log.mkdir(parents=True)
            for start in range(0, max(len(batches), 1), most_batches):
                some = batches[start : start + most_batches]
                name = f"{some[0][0] if start else 0:020}.log"
                (log / name).write_bytes(b"".join(data for _, data in some))
        for topic_id, name in self.topic_names.items():
            topic = folder / f"{name}-0"
            topic.mkdir()
            (topic / "partition.metadata").write_text(f"version: 0\ntopic_id: {topic_id}\n")

    def _write(self, group_id: str, entries: list[Entry]) -> None:
        """Add a write, to the batch of the one before where it came right behind it."""
        if not entries:
            return
        log = self._logs[offsets_partition(group_id, self._partitions)]
        last = log.batches[-1] if log.batches else None
        is_plain = last is not None and last.producer_id is None
        if last and is_plain and self._random.random() < 0.2:
            last.records += [self._plain(log, entry) for entry in entries]
        else:
            self._world.now_ms += 1  # so that a log may be cut between any two batches
            records = [self._plain(log, entry) for entry in entries]
            log.batches.append(_Batch(records, log.leader_epoch))

    def _plain(self, log: _Log, entry: Entry) -> Plain:
        value = entry.value
        plain = Plain(
            log.end,
            self._world.now_ms if self._has_time else -1,
            encode_key(entry.type, entry.key),
            None if value is None else encode_value(entry.type, entry.version, value),
        )
        log.end += 1
        return plain

    def _commit(self, group_id: str) -> None:
        self._write(group_id, [self._offset(group_id) for _ in range(self._random.randint(1, 3))])

    def _offset(self, group_id: str) -> Entry:
        draw = self._random
        topic = draw.choice(sorted(self._world.topics))
        key = {
            "group": group_id,
            "topic": topic,
            "partition": draw.randrange(self._world.topics[topic]),
        }
        if draw.random() < 0.1:
            return Entry("OffsetCommit", key, None)
        value: dict[str, Any] = {
            "offset": self._world.now_ms // 1000 % 100_000 if draw.random() < 0.9 else 0,
            "leaderEpoch": draw.choice([-1, 0, 3]),
            "metadata": "",
            "commitTimestamp": self._world.now_ms,
            "expireTimestamp": -1,
            "topicId": self._world.topic_ids[topic],
        }
        return Entry("OffsetCommit", key, value, draw.choice([1, 3, 4]))

    def _commit_in_transaction(self, group_id: str) -> None:
        number = offsets_partition(group_id, self._partitions)
        log = self._logs[number]
        self._producers += 1
        offset = self._offset(group_id)
        if offset.value is not None:
            log.batches.append(
                _Batch([self._plain(log, offset)], log.leader_epoch, self._producers)
            )
            self._open.append((number, self._producers))

    def _end_transaction(self, group_id: str) -> None:
        if not self._open:
            return
        number, producer_id = self._open.pop(self._random.randrange(len(self._open)))
        log = self._logs[number]
        outcome = self._random.choice([0, 1, 1])
        log.batches.append(_Batch([Plain(log.end)], log.leader_epoch, producer_id, outcome))
        log.end += 1

    def _move(self, group_id: str) -> None:
        self._logs[offsets_partition(group_id, self._partitions)].leader_epoch += 1

    def _compact(self) -> None:
        """Keep the newest record of each key of the first part of a log, as the cleaner does."""
        for log in self._logs.values():
            upto = self._random.randrange(len(log.batches) + 1)
            plain = [each for each in log.batches[:upto] if each.producer_id is None]
            newest = {record.key: record.offset for each in plain for record in each.records}
            for each in plain:
                each.records = [
                    record for record in each.records if newest[record.key] == record.offset
                ]
            log.batches = [each for each in log.batches if each.records]

    def _lose(self) -> None:
        """Leave some records out."""
        for log in self._logs.values():
            for each in log.batches:
                if each.producer_id is None:
                    each.records = [
                        record for record in each.records if self._random.random() > 0.05
                    ]
            log.batches = [each for each in log.batches if each.records]


def _topics(group: Group) -> dict[str, frozenset[str]]:
    """Who is in a group, and subscribes to what."""
    now = group.now if isinstance(group, ConvertedGroup) else group
    return {name: frozenset(member.topics) for name, member in now.members.items()}


def _generations(entries: list[Entry]) -> tuple[int | None, ...]:
    """Take generations and epochs of a group from its records."""
    values = [
        entry.value
        for entry in entries
        if entry.type
        in ("GroupMetadata", "ConsumerGroupMetadata", "ShareGroupMetadata", "StreamsGroupMetadata")
    ]
    told = [value.get("generation", value.get("epoch")) for value in values if value is not None]
    return tuple(told) if told or not values else (None,)


def _uuid(draw: random.Random) -> str:
    """Write 16 bytes as Kafka does."""
    return base64.urlsafe_b64encode(draw.randbytes(16)).decode().rstrip("=")
