"""Find the rebalances of one group by following its records in log order."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import orjson
from msgspec.structs import replace

from kgroup.history.rebalance.cause import (
    Commits,
    Departed,
    Gone,
    Recreation,
    causes_of,
    elapsed_ms,
)
from kgroup.history.rebalance.group_version import GroupVersion, MemberVersion
from kgroup.history.rebalance.member_metadata import MemberMetadata, read_metadata
from kgroup.history.rebalance.metadata_cause import metadata_causes
from kgroup.history.rebalance.rebalance import (
    Cause,
    CauseCertainty,
    CauseKind,
    MemberChange,
    Participant,
    PartitionOrTask,
    Rebalance,
    Takeover,
)
from kgroup.history.sql.question import Row
from kgroup.model.group import EAGER_STRATEGIES
from kgroup.model.group_log import EFFECTS, Effect, GroupLog

_AWAY = -2
"""Epoch of a static member that left temporarily. Kafka: `LEAVE_GROUP_STATIC_MEMBER_EPOCH`."""
_TOPICS_AGAIN = {
    "share_state": "states of share partitions were initialized",
    "regexes": "a regular expression was resolved again",
}
_FIRST_EPOCH = 2
"""A group with epochs whose first known epoch is at most this had no members before: the first
member raises the epoch once or, as of Kafka 4.1, twice.
"""


def rebalances_of(
    place: tuple[str, str, int],
    rows: Sequence[Row],
    members: Mapping[int, Sequence[Row]],
    commits: Commits,
    topic_names: Mapping[str, str],
) -> list[Rebalance]:
    """Return the rebalances of a group.

    Args:
        place: cluster, group id and partition of `__consumer_offsets`.
        rows: its rows of `group_generations`, `consumer_group_epochs` and `tombstones` (without
            those of offsets) from that partition, by log offset.
        members: its rows of `members`, by log offset.
        commits: its commits.
        topic_names: topic names by topic id.

    Returns:
        The rebalances, in log order.
    """
    timeline = _Timeline(place, commits, topic_names)
    for row in rows:
        here = members.get(row["log_offset"], ())
        effect = EFFECTS[row.get("type", "GroupMetadata")]
        if "generation_id" in row:
            timeline.generation(row, here, effect)
        elif "epoch" in row:
            timeline.epoch(row, here, effect)
        else:
            timeline.tombstone(row, effect)
    return timeline.end()


class _Timeline:
    """Follows the records of a group.

    The values in `_log` are rows, except for members (`MemberVersion`), targets (the partitions of
    the member's target assignment) and partition metadata (partition counts by topic).
    """

    def __init__(
        self, place: tuple[str, str, int], commits: Commits, topic_names: Mapping[str, str]
    ) -> None:
        self._cluster, self._group_id, self._offsets_partition = place
        self._commits = commits
        self._topic_names = topic_names
        self._found: list[Rebalance] = []
        self._draft: Rebalance | None = None
        self._is_reconciled = False
        self._last: GroupVersion | None = None
        self._deleted: tuple[GroupVersion | None, int] | None = None
        self._departed = Departed()
        self._is_converted = False
        self._given_up: set[PartitionOrTask] = set()
        self._counts: dict[str, int] = {}
        self._log = GroupLog("")
        self._full_target: dict[str, frozenset[PartitionOrTask]] | None = None
        self._topic_change: Cause | None = None

    def end(self) -> list[Rebalance]:
        self._close()
        for index, rebalance in enumerate(self._found):
            if late := self._departed.explained.get(rebalance.log_offset):
                by_member = {cause.member_id: cause for cause in late}
                causes = [by_member.get(cause.member_id, cause) for cause in rebalance.causes]
                self._found[index] = _with_causes(rebalance, causes)
        return self._found

    def _close(self) -> None:
        if self._draft is not None:
            self._found.append(self._draft)
            self._draft = None

    # --- classic groups -------------------------------------------------------------------------

    def generation(self, row: Row, rows: Sequence[Row], effect: Effect) -> None:
        self._log.apply(effect, None, row)
        metadata = read_metadata(row["value_json"])
        members = {
            member["member_id"]: self._classic_member(member, metadata.get(member["member_id"]))
            for member in rows
        }
        after = GroupVersion(
            "classic",
            row["generation_id"],
            row["state_timestamp_ms"],
            row["time_ms"],
            row["log_offset"],
            row["log_leader_epoch"],
            row["protocol"] or None,
            members,
        )
        before = self._before(after)
        if before is not None and before.generation == after.generation:
            self._go_on(before, after)
            return
        is_new = before is None or before.generation is None
        if is_new and not members and not after.generation:
            self._last = after  # the coordinator created the group
            return
        if before is None and after.generation == 1:
            before = _nothing_before(after)
        owned = _owned(members.values())
        owned_before = None if before is None else _owned(before.members.values())
        self._rebalance(before, after)
        assert self._draft is not None
        sync_ms = elapsed_ms(after.joined_ms, after.time_ms) if members else None
        self._draft = replace(_with_moved(self._draft, owned_before, owned), sync_ms=sync_ms)
        self._count(members.values())

    def _go_on(self, before: GroupVersion, after: GroupVersion) -> None:
        """Handle a record of a known generation: a static member is back, or the type changed.

        Members that are missing in the record count as leaving in the next generation.
        """
        back = [
            version.who for name, version in after.members.items() if name not in before.members
        ]
        instances = {who.instance_id for who in back} - {None}
        clients = {who.client_id for who in back if who.instance_id is None}  # not stored before v3
        missing = {
            name: member
            for name, member in before.members.items()
            if name not in after.members
            and member.who.instance_id not in instances
            and member.who.client_id not in clients
        }
        self._takeovers(before, after)
        self._last = replace(
            after, joined_ms=before.joined_ms, members={**missing, **after.members}
        )

    def _takeovers(self, before: GroupVersion, after: GroupVersion) -> None:
        """Add the static members that were replaced to the rebalance of their generation."""
        new = {
            member.who.instance_id: member.who
            for name, member in after.members.items()
            if name not in before.members and member.who.instance_id is not None
        }
        pairs = [
            (member.who, new[member.who.instance_id])
            for name, member in before.members.items()
            if name not in after.members and member.who.instance_id in new
        ]
        takeovers = [
            Takeover(
                after.time_ms,
                who.instance_id or "",
                who.member_id,
                old.member_id,
                who.client_id,
                who.client_host,
                after.log_offset,
            )
            for old, who in pairs
        ]
        for takeover in takeovers:
            self._departed.hand_over(takeover.instance_id, after.time_ms)
        if self._draft is not None:
            kept = (*self._draft.takeovers, *takeovers)
            self._draft = replace(self._draft, takeovers=kept)

    def _classic_member(self, row: Row, metadata: MemberMetadata | None) -> MemberVersion:
        topics, owned = row["subscribed_topics"], row["assignment"]
        return MemberVersion(
            _participant(row),
            None if topics is None else frozenset(topics),
            None,
            row["session_timeout_ms"],
            row["rebalance_timeout_ms"],
            None if owned is None else self._partitions(owned),
            metadata=metadata,
        )

    # --- groups with epochs ---------------------------------------------------------------------

    def epoch(self, row: Row, rows: Sequence[Row], effect: Effect) -> None:
        log, name, what = self._log, row["member_id"], effect.attribute
        if what == "members":
            for member in rows:
                log.apply(effect, name, self._epoch_member(member, row))
                self._take_over(log.members[name])
        elif what == "targets":
            log.apply(effect, name, self._partitions(row["assignment"] or ()))
        elif what == "partition_metadata":
            self._partition_metadata(row, effect)
        elif what in _TOPICS_AGAIN:
            again = _TOPICS_AGAIN[what]
            self._topic_change = Cause(CauseKind.TOPICS_CHANGED, CauseCertainty.INFERRED, again)
        else:
            log.apply(effect, name, row)
            if what == "current":
                self._current(row)
            elif what == "target_metadata":
                self._complete_target(row["epoch"])
            elif what == "metadata":
                self._group_epoch(row)

    def _epoch_member(self, member: Row, row: Row) -> MemberVersion:
        old: MemberVersion | None = self._log.members.get(member["member_id"])
        topics = member["subscribed_topics"]
        return MemberVersion(
            _participant(member),
            None if topics is None else frozenset(topics),
            member["subscribed_regex"] or None,
            member["session_timeout_ms"],
            member["rebalance_timeout_ms"],
            owned=old.owned if old else frozenset(),
            seen_ms=row["time_ms"],
        )

    def _take_over(self, new: MemberVersion) -> None:
        """Replace a static member that rejoined under another id.

        If its subscription is the same, the group epoch does not change. Kafka: `replaceMember`.
        """
        if self._last is None or new.who.instance_id is None:
            return
        for name, old in self._last.members.items():
            if (
                name != new.who.member_id
                and name not in self._log.members
                and old.who.instance_id == new.who.instance_id
                and (old.topics, old.regex) == (new.topics, new.regex)
            ):
                members = {
                    new.who.member_id if key == name else key: new if key == name else version
                    for key, version in self._last.members.items()
                }
                self._last = replace(self._last, members=members)
                return

    def _current(self, row: Row) -> None:
        log, name = self._log, row["member_id"]
        seen = {
            "owned": self._partitions(row["assignment"] or ()),
            "seen_ms": row["time_ms"],
            "is_away": row["epoch"] == _AWAY,
        }
        if name in log.members:
            log.put("members", name, replace(log.members[name], **seen))
            if self._last is not None and name in self._last.members:
                # Signs of life and changes of ownership count whenever they come.
                member = replace(self._last.members[name], **seen)
                self._last = replace(self._last, members={**self._last.members, name: member})
        draft = self._draft
        if draft is None or self._is_reconciled or draft.group_type == "classic":
            return
        epoch = draft.generation_id
        self._is_reconciled = (log.target_metadata or {}).get("epoch") == epoch and all(
            log.current.get(name, {}).get("epoch") == epoch
            and member.owned == log.targets.get(name, frozenset())
            for name, member in log.members.items()
        )
        if self._is_reconciled:
            self._draft = replace(draft, reconcile_ms=elapsed_ms(draft.time_ms, row["time_ms"]))

    def _complete_target(self, epoch: int) -> None:
        """Record what a new target assignment has moved."""
        before, self._full_target = self._full_target, dict(self._log.targets)
        draft = self._draft
        if draft is not None and draft.generation_id == epoch:
            draft = _with_moved(draft, before, self._full_target)
            if draft.cause is CauseKind.TOPICS_CHANGED:
                added = self._added(frozenset().union(*self._full_target.values()))
                if added:
                    draft = _with_causes(draft, [_added_cause(added)])
            self._draft = draft
        self._count(self._log.members.values(), self._full_target.values())

    def _partition_metadata(self, row: Row, effect: Effect) -> None:
        data = orjson.loads(row["value_json"])["data"] or {}
        counts = {topic["topicName"]: topic["numPartitions"] for topic in data.get("topics") or ()}
        old = self._log.partition_metadata
        self._log.apply(effect, None, counts)
        if old is None or old == counts:
            return
        grown = [name for name in counts if name in old and counts[name] > old[name]]
        self._topic_change = Cause(
            CauseKind.PARTITIONS_ADDED if grown else CauseKind.TOPICS_CHANGED,
            CauseCertainty.CERTAIN,
            "; ".join(
                f"topic {name} grew from {old[name]} to {counts[name]} partitions" for name in grown
            )
            or "topics of the group were created or deleted, or racks changed",
        )

    def _group_epoch(self, row: Row) -> None:
        data, topology = orjson.loads(row["value_json"])["data"] or {}, self._log.topology
        after = GroupVersion(
            row["group_type"],
            row["epoch"],
            None,
            row["time_ms"],
            row["log_offset"],
            row["log_leader_epoch"],
            None,
            dict(self._log.members),
            data.get("metadataHash") or None,
            None if topology is None else topology["epoch"],
        )
        before = self._before(after)
        if before is not None and before.generation == after.generation:
            self._go_on(before, after)
            return
        if before is None and row["epoch"] <= _FIRST_EPOCH:
            before = _nothing_before(after)
        if before is not None and before.generation is None:
            self._full_target = {}
        self._rebalance(before, after)

    # --- all groups -----------------------------------------------------------------------------

    def tombstone(self, row: Row, effect: Effect) -> None:
        # The tables do not have the key of RegularExpression records.
        is_told = self._log.apply(effect, row["member_id"] or effect.key_field, None)
        if is_told and effect.attribute == "metadata":
            self._deleted = (self._last, row["log_offset"])
            self._last = GroupVersion(
                self._last.group_type if self._last else "classic",
                *(None, None, row["time_ms"], row["log_offset"], None, None),
            )

    def _before(self, after: GroupVersion) -> GroupVersion | None:
        """Return the previous version; a change of type in one write is not a deletion."""
        if self._deleted is None:
            last = self._last
            if last is not None and (last.generation or 0) > (after.generation or 0):
                return None  # records in between are missing
            return last
        before, log_offset = self._deleted
        self._deleted = None
        is_next = after.log_offset - log_offset <= 1 + len(self._log.members)
        if before is None or before.is_classic == after.is_classic or not is_next:
            self._full_target = None
            for member in before.members.values() if before else ():
                self._departed.add(Gone(member.who, self._last.time_ms if self._last else None))
            return self._last
        self._is_converted = True
        self._full_target = None
        return before

    def _rebalance(self, before: GroupVersion | None, after: GroupVersion) -> None:
        self._close()
        causes: list[Cause] = []
        if before is not None:
            causes += causes_of(before, after, self._departed, self._commits)
            causes[len(causes) :] = self._other_causes(before, after, causes)
        members_before = None
        if before is not None:
            members_before = tuple(member.who for member in before.members.values())
        assert after.generation is not None
        draft = Rebalance(
            cluster=self._cluster,
            group_id=self._group_id,
            group_type=after.group_type,
            time_ms=after.time_ms,
            generation_before=before.generation if before else None,
            generation_id=after.generation,
            protocol_before=before.protocol if before else None,
            protocol=after.protocol,
            members_before=members_before,
            members=tuple(member.who for member in after.members.values()),
            moved_count=None,
            moved=None,
            sync_ms=None,
            reconcile_ms=None,
            commit_gap_ms=self._commits.gap_ms(after.log_offset),
            cause=CauseKind.UNKNOWN,
            certainty=CauseCertainty.INFERRED,
            evidence=_why_unknown(before),
            causes=(),
            takeovers=(),
            offsets_partition=self._offsets_partition,
            log_offset=after.log_offset,
        )
        self._draft, self._is_reconciled = _with_causes(draft, causes), False
        self._last, self._is_converted, self._topic_change = after, False, None

    def _other_causes(
        self, before: GroupVersion, after: GroupVersion, known: Sequence[Cause]
    ) -> list[Cause]:
        """Return causes that need more than two versions of the group."""
        causes: list[Cause] = []
        is_alone = all(cause.kind is CauseKind.COORDINATOR_MOVED for cause in known)
        if after.is_classic:
            owned = after.owned or frozenset()
            added = self._added(owned) if is_alone and before.owned is not None else ()
            if added:
                causes.append(_added_cause(added))
            handed = self._given_up & owned
            if handed and all(cause.kind is not CauseKind.SUBSCRIPTION_CHANGED for cause in known):
                causes.append(
                    Cause(
                        CauseKind.FOLLOW_UP,
                        CauseCertainty.INFERRED,
                        f"partitions that generation {before.generation} revoked are assigned to "
                        f"their new owners: {len(handed)}",
                    )
                )
            causes += metadata_causes(before, after, [*known, *causes])
            if is_alone and not causes:
                causes += _deleted(before, after) or self._recreated(before, after)
            had = before.owned
            self._given_up = set() if had is None else set(had - owned) if after.members else set()
        elif is_alone and self._topic_change is not None:
            causes.append(self._topic_change)
        elif (
            is_alone
            and None not in (before.topics_hash, after.topics_hash)
            and before.topics_hash != after.topics_hash
        ):
            changed = "the metadata hash of the topics changed: partitions were added, a topic was "
            changed += "created or deleted, or racks changed"
            for topic in self._commits.recreations(before.log_offset, after.log_offset):
                changed += f"; commits of {topic.topic} {_topic_ids(topic)}"
            causes.append(Cause(CauseKind.TOPICS_CHANGED, CauseCertainty.CERTAIN, changed))
        if self._is_converted:
            causes.append(
                Cause(
                    CauseKind.CONVERTED,
                    CauseCertainty.CERTAIN,
                    f"the group type changed to {after.group_type}",
                )
            )
        return causes

    def _recreated(self, before: GroupVersion, after: GroupVersion) -> Iterator[Cause]:
        for topic in self._commits.recreations(before.log_offset, after.log_offset):
            yield Cause(
                CauseKind.TOPICS_CHANGED,
                CauseCertainty.INFERRED,
                f"topic {topic.topic} was deleted and created again: commits {_topic_ids(topic)}",
            )

    def _partitions(self, assigned: Iterable[Mapping[str, Any]]) -> frozenset[PartitionOrTask]:
        return frozenset(
            PartitionOrTask(
                topic["topic"]
                or self._topic_names.get(topic["topic_id"] or "")
                or topic["topic_id"],
                topic["subtopology"],
                topic["role"],
                number,
            )
            for topic in assigned
            for number in topic["partitions"] or ()
        )

    def _count(
        self, members: Iterable[MemberVersion], targets: Iterable[frozenset[PartitionOrTask]] = ()
    ) -> None:
        """Record how many partitions of each topic were seen."""
        for partitions in (
            *(member.owned for member in members if member.owned is not None),
            *targets,
        ):
            for partition in partitions:
                if partition.topic:
                    seen = self._counts.get(partition.topic, 0)
                    self._counts[partition.topic] = max(seen, partition.partition + 1)

    def _added(self, owned: Iterable[PartitionOrTask]) -> list[PartitionOrTask]:
        """Return the partitions with higher numbers than those seen of their topic."""
        if not self._counts:
            return []
        return _sorted(
            task
            for task in owned
            if task.topic and task.partition >= self._counts.get(task.topic, 0)
        )


def _nothing_before(first: GroupVersion) -> GroupVersion:
    """Return the group before its first generation or epoch."""
    return replace(first, generation=None, members={}, log_offset=-1, protocol=None, joined_ms=None)


def _with_causes(draft: Rebalance, causes: Sequence[Cause]) -> Rebalance:
    if not causes:
        return draft
    order = sorted(causes, key=lambda cause: cause.kind is CauseKind.COORDINATOR_MOVED)
    return replace(
        draft,
        cause=order[0].kind,
        certainty=order[0].certainty,
        evidence="; ".join(cause.evidence for cause in order),
        causes=tuple(order),
    )


def _topic_ids(topic: Recreation) -> str:
    return f"had the topic id {topic.before_id} before, and {topic.topic_id} after"


def _deleted(before: GroupVersion, after: GroupVersion) -> list[Cause]:
    """Return topics that members subscribe to as before, but that nobody is assigned any more.

    Cooperative strategies leave out for one generation what is to move.
    """
    had, has, topics = before.owned, after.owned, before.topics & after.topics
    if had is None or has is None or not before.protocol == after.protocol in EAGER_STRATEGIES:
        return []
    gone = topics & ({task.topic for task in had} - {task.topic for task in has})
    return [
        Cause(
            CauseKind.TOPICS_CHANGED,
            CauseCertainty.INFERRED,
            f"no partition of topic {topic} is assigned any more, although members subscribe to "
            "it: it was deleted, or the leader is no longer allowed to see it",
        )
        for topic in sorted(gone)
    ]


def _added_cause(added: Sequence[PartitionOrTask]) -> Cause:
    names = ", ".join(f"{task.topic}-{task.partition}" for task in added[:5])
    more = f" and {len(added) - 5} more" if len(added) > 5 else ""
    return Cause(
        CauseKind.PARTITIONS_ADDED,
        CauseCertainty.INFERRED,
        f"partitions are assigned for the first time: {names}{more}",
    )


def _why_unknown(before: GroupVersion | None) -> str:
    if before is None:
        return "nothing is known about the group before"
    return (
        "the log shows no change: a member rejoined by itself, or a member joined and left in "
        "between"
    )


def _participant(row: Row) -> Participant:
    return Participant(row["member_id"], row["instance_id"], row["client_id"], row["client_host"])


def _owned(members: Iterable[MemberVersion]) -> dict[str, frozenset[PartitionOrTask]] | None:
    """Return what each member owns; None if unknown for any of them."""
    tasks: dict[str, frozenset[PartitionOrTask]] = {}
    for member in members:
        if member.owned is None:
            return None
        tasks[member.who.member_id] = member.owned
    return tasks


_Owned = Mapping[str, frozenset[PartitionOrTask]]


def _with_moved(draft: Rebalance, old: _Owned | None, new: _Owned | None) -> Rebalance:
    """Add what changed owners; None if the old or the new owners are unknown."""
    if old is None or new is None:
        return replace(draft, moved=None, moved_count=None)
    who = (*(draft.members_before or ()), *draft.members)
    clients = {participant.member_id: participant.client_id for participant in who}
    changed = [name for name in dict.fromkeys([*old, *new]) if old.get(name) != new.get(name)]
    none = frozenset[PartitionOrTask]()
    changes = (
        MemberChange(
            name,
            clients.get(name),
            tuple(_sorted(new.get(name, none) - old.get(name, none))),
            tuple(_sorted(old.get(name, none) - new.get(name, none))),
        )
        for name in changed
    )
    moved = tuple(change for change in changes if change.got or change.lost)
    count = len({owned for change in moved for owned in (*change.got, *change.lost)})
    return replace(draft, moved=moved, moved_count=count)


def _sorted(partitions: Iterable[PartitionOrTask]) -> list[PartitionOrTask]:
    return sorted(partitions, key=lambda task: task.sort_key)
