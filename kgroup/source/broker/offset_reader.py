"""What groups have committed, and what of it brokers leave out."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from kgroup.model.group import Group, GroupType
from kgroup.model.offset import CommittedOffset, split_commits
from kgroup.model.offsets_partition import OFFSETS_TOPIC
from kgroup.model.pattern import Pattern
from kgroup.source.base import DEFAULT_LOG_BUDGET, OffsetReading, Question
from kgroup.source.broker.admin.visibility import (
    HIDDEN_GROUPS,
    LeftOut,
    find_left_out,
    lists_every_group,
    shows_every_topic,
    topics_read,
)
from kgroup.source.broker.client import BrokerClient
from kgroup.source.broker.coordinator import (
    Coordinators,
    GroupCoordinator,
    is_missing,
    partition_of,
)
from kgroup.source.broker.group_list import list_groups, list_hidden_groups
from kgroup.source.broker.group_reader import GroupReader
from kgroup.source.broker.offset_fetch import OffsetFetcher

NOBODY = (
    f"The cluster has no topic {OFFSETS_TOPIC}, and no broker lists a group: nobody ever used one."
)


async def read_offsets(
    client: BrokerClient,
    group_ids: Collection[str] | None,
    regex: Pattern | None,
    *,
    log_budget: int = 0,
) -> OffsetReading:
    """Read what groups have committed; see `OffsetStore.read_offsets`, `Cluster.read_offsets`.

    Raises:
        BrokerError: no broker answers.
    """
    view = await client.metadata([OFFSETS_TOPIC])
    topic = view.topics.get(OFFSETS_TOPIC)
    question = Question(regex=regex)
    if is_missing(topic):
        coordinators = Coordinators(client, named=False)
        listed = await list_hidden_groups(client, coordinators)
        if not listed and not coordinators.problems:
            return OffsetReading({}, notes=(NOBODY,))
        asked = [each for each in listed if question.names(each.group_id, group_ids)]
    elif group_ids is not None and regex is None:
        coordinators = Coordinators(client, named=True)
        asked = await coordinators.find(dict.fromkeys(group_ids))
    else:
        coordinators = Coordinators(client, named=False)
        listed = await list_groups(client, coordinators, question, topic)
        asked = [each for each in listed if question.names(each.group_id, group_ids)]
    asked = [each for each in asked if each.type is not GroupType.SHARE]
    found = await coordinators.ask(asked, OffsetFetcher(client).fetch)
    split = {group_id: split_commits(stored) for group_id, stored in sorted(found.items())}
    offsets = {group_id: commits for group_id, (commits, _) in split.items() if commits}
    empty = {group_id: ats for group_id, (_, ats) in split.items() if ats}
    notes = list(coordinators.notes)
    left_out = LeftOut()
    if not is_missing(topic):  # what is asked then would create it
        named = group_ids is not None and regex is None
        if not named and not await lists_every_group(client):
            notes.append(HIDDEN_GROUPS)
        if not await shows_every_topic(client):
            left_out = await _left_out(client, coordinators, asked, found, named=named)
            notes += left_out.notes
    if log_budget and topic is not None and topic.partitions:
        offsets, more = await _with_times(client, offsets, len(topic.partitions), log_budget)
        notes += more
    problems = (*coordinators.problems, *left_out.problems)
    return OffsetReading(
        offsets, problems, tuple(notes), empty_commits=empty, doubtful=left_out.doubtful
    )


async def _left_out(
    client: BrokerClient,
    coordinators: Coordinators,
    asked: Collection[GroupCoordinator],
    found: Mapping[str, Collection[CommittedOffset]],
    *,
    named: bool,
) -> LeftOut:
    """Find out which commits of these groups brokers have left out."""
    reader = GroupReader(client, coordinators, None)
    groups = await coordinators.ask(asked, reader.describe) if named else {}
    exists = found.keys() - {each for each, group in groups.items() if group is None}
    exists |= {each for each, commits in found.items() if commits}
    return await find_left_out(
        client,
        {each: {one.topic for one in found[each]} for each in sorted(exists)},
        {each: topics_read(group) for each, group in groups.items() if group is not None},
        named=named,
        log_budget=DEFAULT_LOG_BUDGET,
    )


async def _with_times(
    client: BrokerClient,
    offsets: Mapping[str, tuple[CommittedOffset, ...]],
    partition_count: int,
    log_budget: int,
) -> tuple[dict[str, tuple[CommittedOffset, ...]], list[str]]:
    """Add what the records of commits tell."""
    from kgroup.source.broker.offsets_log import read_details

    groups = {
        group_id: Group(  # without a protocol, so that no record of members is looked for
            group_id=group_id,
            type=GroupType.CLASSIC,
            state=None,
            offsets=commits,
            offsets_partition=partition_of(group_id, partition_count),
        )
        for group_id, commits in offsets.items()
    }
    completed, notes = await read_details(client, groups, log_budget, None, commit_times=True)
    return {group_id: group.offsets for group_id, group in completed.items()}, notes
