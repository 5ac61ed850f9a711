"""Dry runs of Kafka Streams on the classic protocol: recorded rebalances, and what-ifs."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from kgroup.assignor.group_spec import GroupSpec
from kgroup.assignor.kafka_streams import STREAMS_VERSIONS
from kgroup.assignor.member_spec import MemberSpec, Software
from kgroup.errors import UnfitError, UsageError
from kgroup.model.cluster import ClusterView, Partition, Topic, TopicPartition
from kgroup.model.delta import Delta
from kgroup.model.group import Group
from kgroup.model.log_range import LogRange, LogReading
from kgroup.model.problem import ProblemLog
from kgroup.model.snapshot import Snapshot
from kgroup.operation.assign.classic_streams_group import classic_streams_spec
from kgroup.operation.assign.dry_run import settled
from kgroup.operation.assign.group import find_group
from kgroup.operation.assign.outcome import AssignPlan
from kgroup.operation.assign.spec import SpecError, read_spec
from kgroup.operation.assign.what_if import AddedMembers, Changes, changed, leaves, notes
from kgroup.source.base import GroupSource, is_changelog, known_changelogs
from kgroup.source.log.segment_file import find_segments
from kgroup.source.log.source import read_segment
from kgroup.source.snapshot.source import snapshot_source
from tests.broker.client.rounds import read_rounds
from tests.broker.streams_rounds import FILE
from tests.field_log import groups_of

RECORDED = Path(__file__).parents[1] / "data" / "streams-3.9.2"
_Tasks = Mapping[str, tuple[set[tuple[str, int]], set[tuple[str, int]]]]


def spec_of(group: Group) -> GroupSpec:
    return classic_streams_spec(GroupSource(), group, None, None, [])


def then(group: Group, after: Group, changes: Changes | None = None) -> AssignPlan:
    """Return the rebalance after which the group has the members of `after`."""
    spec = changed(spec_of(group), changes or Changes())
    return settled(with_members_of(spec, after), alone=True).first


def with_members_of(spec: GroupSpec, after: Group) -> GroupSpec:
    """Let members leave and join as they did, with the ids that they then had."""
    left = {member.member_id for member in after.members}
    for member in spec.members:
        if member.member_id not in left:
            spec = leaves(spec, member)
    before = {member.member_id for member in spec.members}
    joined = tuple(
        MemberSpec(member.member_id, (), process_id=member.process_id)
        for member in spec_of(after).members
        if member.member_id not in before
    )
    return replace(spec, members=(*spec.members, *joined))


def tasks_of(plan: AssignPlan) -> _Tasks:
    assert plan.assignment is not None
    assert plan.standby is not None
    return {name: (set(own), set(plan.standby[name])) for name, own in plan.assignment.items()}


def recorded_tasks(group: Group) -> _Tasks:
    return {
        member.member_id: (set(member.owned or ()), set(member.standby))
        for member in spec_of(group).members
    }


@pytest.fixture
def generations() -> dict[int, Group]:
    """A recorded application, by generation: B joins A in 2, and has warmed up in 3."""
    return {group.generation_id or 0: group for group in groups_of("streams-probing")}


@pytest.fixture(scope="module")
def totals() -> dict[int, Group]:
    """An application of two subtopologies, of which 1 has state, by generation."""
    generations = {}
    for segment in find_segments([RECORDED]):
        delta = Delta(0)
        for record in read_segment(segment, ProblemLog()):
            delta.replay(record)
            group = delta.groups().get("order-totals-classic")
            if group is not None and group.members:
                generations[group.generation_id or 0] = group
    return generations


def test_recorded_rebalances(generations: dict[int, Group]) -> None:
    for number in (1, 2, 3):
        changes = Changes(standbys=1)
        plan = then(generations[number], generations[number + 1], changes)
        assert tasks_of(plan) == recorded_tasks(generations[number + 1]), number
        assert plan.streams is not None
        group = generations[number + 1]
        next_ms = {(each.assignment_user_data or {})["nextRebalanceMs"] for each in group.members}
        assert plan.streams.is_at_once == (0 in next_ms)
        assert (plan.streams.delay_ms > 0) == (group.probing_ms is not None)


def test_what_depends_on_unknown_lags(generations: dict[int, Group]) -> None:
    """That B has caught up when the probing rebalance comes is assumed, and a warning says so."""
    changes = Changes(standbys=1)
    (warning,) = then(generations[2], generations[3], changes).warnings
    assert warning.startswith("Whether clients have caught up")
    assert then(generations[3], generations[4], changes).warnings == ()
    joined = then(generations[1], generations[2]).warnings
    assert any(text.startswith("num.standby.replicas is unknown") for text in joined)
    assert any(text.startswith("How many records the changelogs have") for text in joined)


def test_a_warm_up(generations: dict[int, Group]) -> None:
    """Played on, B gets its tasks after the probing rebalance, and A gives them up before."""
    spec = changed(
        spec_of(generations[1]),
        Changes(
            standbys=1,
            streams_config=[("probing.rebalance.interval.ms", 60_000)],
            add=[AddedMembers(client_id="B")],
        ),
    )
    plans = settled(spec).plans
    streams = [plan.streams for plan in plans if plan.streams is not None]
    assert [(own.after_ms, own.delay_ms, own.is_at_once) for own in streams] == [
        (0, 60_000, False),
        (60_000, 0, True),
        (60_000, 0, False),
    ]
    owned = [plan.assignment and len(plan.assignment["new-1"]) for plan in plans]
    assert owned == [0, 0, 2]
    assert [len(own.waiting) for own in streams] == [0, 2, 0]


def test_what_if(generations: dict[int, Group]) -> None:
    spec = spec_of(generations[4])
    b = spec.members[1]
    gone = settled(changed(spec, Changes(remove=[b.member_id]))).first
    assert {name: len(own) for name, own in (gone.assignment or {}).items()} == {
        spec.members[0].member_id: 4
    }
    back = settled(changed(spec, Changes(restart=[b.member_id])), alone=True).first
    tasks = back.assignment and set(back.assignment["new-1"])
    assert tasks == set(b.owned or ()), "it has its state, and its id, on disk"
    assert back.warnings == ()
    (note,) = notes(spec, Changes(restart=[b.member_id]))
    assert note.startswith("--restart-member: a client restarts with its state directory")
    assert [*notes(spec, Changes(remove=[b.member_id]))] == []
    threads = changed(spec, Changes(add=[AddedMembers(2), AddedMembers(client_id="D")]))
    new = [member.process_id for member in threads.members[2:]]
    assert new[0] == new[1] != new[2], "threads of one client, and another client"
    plan = settled(threads).first
    assert plan.standby is not None
    fresh = changed(spec, Changes(fresh=True))
    assert fresh.application is not None
    assert not fresh.application.states
    led = changed(spec, Changes(leader=b.member_id))
    assert led.leader_id == b.member_id


def test_stateless_tasks_move_at_once(totals: dict[int, Group]) -> None:
    """2 begins after a start, 3 with a second client; its stateless tasks wait for 4."""
    settings = Changes(standbys=1, streams_config=[("acceptable.recovery.lag", 0)])
    for number, waiting in ((1, []), (2, [("0", at) for at in range(4)])):
        plan = then(totals[number], totals[number + 1], settings)
        assert tasks_of(plan) == recorded_tasks(totals[number + 1])
        assert plan.streams is not None
        assert (plan.streams.is_at_once, [*plan.streams.waiting]) == (bool(waiting), waiting)
    for number in (3, 4):  # what was in the changelogs, and who had read it, is not known
        plan = then(totals[number], totals[number + 1], settings)
        assert tasks_of(plan) != recorded_tasks(totals[number + 1])
        assert plan.warnings


def test_tasks_that_nobody_has_now(totals: dict[int, Group]) -> None:
    """In generation 3 all stateless tasks wait for their revocation; no assignment has them."""
    spec = spec_of(totals[3])
    assert {name: topic.partitions for name, topic in spec.topics.items()} == {"0": 4, "1": 4}
    assert spec.application is not None
    assert spec.application.stateful == {1}
    without = tuple(
        replace(member, subscription=replace(member.subscription, topics=("orders", "x", "y")))
        for member in totals[3].members
        if member.subscription is not None
    )
    with pytest.raises(UnfitError, match="found no task of orders, x, y"):
        spec_of(replace(totals[3], members=without, assignor="stream"))


def test_ends_of_changelogs(totals: dict[int, Group]) -> None:
    """With few records in them, every client has caught up: nobody needs a probing rebalance."""

    class Cluster(GroupSource):
        end = 100

        def changelogs(self, applications: Collection[str]) -> dict[str, list[str]]:
            store = "KSTREAM-AGGREGATE-STATE-STORE-0000000002-changelog"
            return {name: [f"{name}-{store}"] for name in applications}

        def log_ranges(
            self, partitions: Collection[TopicPartition], *, committed: bool = False
        ) -> LogReading:
            topics = {name.endswith("0002-changelog"): name for name, _ in partitions}
            assert len(topics) == 2
            return LogReading({partition: LogRange(0, self.end) for partition in partitions})

    source = Cluster()
    for end, delay_ms in ((100, 0), (10_001, 600_000)):
        source.end = end
        spec = classic_streams_spec(source, totals[2], None, None, [])
        assert spec.application is not None
        assert set(spec.application.end_offset_sums.values()) == {end}
        run = settled(changed(spec, Changes(standbys=0, add=[AddedMembers()])))
        assert max(own.streams.delay_ms for own in run.plans if own.streams) == delay_ms
        assert not any("changelogs have" in text for plan in run.plans for text in plan.warnings)


@pytest.mark.parametrize(("partitions", "is_known"), [(4, True), (3, False)])
def test_changelogs_have_as_many_partitions_as_tasks(
    totals: dict[int, Group], partitions: int, *, is_known: bool
) -> None:
    """Whose changelog is that of a named store follows from its number of partitions."""

    class Cluster(GroupSource):
        def changelogs(self, applications: Collection[str]) -> dict[str, list[str]]:
            return {name: [f"{name}-counts-changelog"] for name in applications}

        def view(self, topics: Collection[str]) -> ClusterView:
            sizes = {name: partitions if name.endswith("changelog") else 4 for name in topics}
            one = Partition(1, (1,), (1,))
            views = {
                name: Topic(name, None, dict.fromkeys(range(count), one))
                for name, count in sizes.items()
            }
            return ClusterView(None, None, {}, views)

        def log_ranges(
            self, partitions: Collection[TopicPartition], *, committed: bool = False
        ) -> LogReading:
            return LogReading({partition: LogRange(0, 7) for partition in partitions})

    spec = classic_streams_spec(Cluster(), totals[2], None, None, [])
    assert spec.application is not None
    assert set(spec.application.end_offset_sums) == {
        task for task in spec.application.tasks if is_known and task.subtopology == 1
    }


@pytest.mark.parametrize(
    ("topic", "belongs"),
    [
        ("app-KSTREAM-AGGREGATE-STATE-STORE-0000000002-changelog", True),
        ("app-counts-changelog", True),
        ("app-2-KTABLE-STATE-STORE-0000000002-changelog", False),
        ("app-KSTREAM-AGGREGATE-STATE-STORE-0000000002-repartition", False),
        ("apps-counts-changelog", False),
        ("other-app-counts-changelog", False),
    ],
)
def test_names_of_changelogs(topic: str, belongs: bool) -> None:
    assert is_changelog(topic, "app") == belongs


def test_changelogs_that_may_be_those_of_another_application_are_unknown() -> None:
    own = "orders-KSTREAM-AGGREGATE-STATE-STORE-0000000002-changelog"
    topics = [own, "orders-by-day-changelog", "orders", "other-x-changelog"]
    alone = known_changelogs(["orders"], topics, lambda: ["orders", "other", "orders-by-d"])
    assert alone == {"orders": [own, "orders-by-day-changelog"]}
    named = known_changelogs(["orders", "other"], topics, lambda: ["orders", "orders-by"])
    assert named == {"orders": [], "other": ["other-x-changelog"]}


@pytest.mark.parametrize(
    ("field", "number", "message"),
    [
        ("topicGroupId", 2**31 - 1, "expected a task, found 2147483647_"),
        ("partition", 2**31 - 1, "expected a task, found 0_2147483647"),
        ("owned", 2**31 - 1, "expected up to 100000 partitions of .*, found 2147483648"),
    ],
)
def test_impossible_numbers_are_refused(
    generations: dict[int, Group], field: str, number: int, message: str
) -> None:
    """As many tasks fill the memory."""
    first, *others = generations[4].members
    if field == "owned":
        assert first.subscription is not None
        own = first.assignment or ()
        owned = (replace(own[0], partition=number), *own[1:])
        first = replace(first, subscription=replace(first.subscription, owned=owned))
    else:
        data: Any = first.assignment_user_data
        tasks = [{**data["activeTasks"][0], field: number}, *data["activeTasks"][1:]]
        first = replace(first, assignment_user_data={**data, "activeTasks": tasks})
    with pytest.raises(UnfitError, match=message):
        spec_of(replace(generations[4], members=(first, *others)))


def test_another_assignor_is_noticed(generations: dict[int, Group]) -> None:
    notes: list[str] = []
    classic_streams_spec(GroupSource(), generations[4], None, None, notes)
    assert notes == []
    first, second = generations[4].members
    swapped = (
        replace(
            first, assignment=second.assignment, assignment_user_data=second.assignment_user_data
        ),
        replace(
            second, assignment=first.assignment, assignment_user_data=first.assignment_user_data
        ),
    )
    classic_streams_spec(GroupSource(), replace(generations[4], members=swapped), None, None, notes)
    (note,) = notes
    assert "is not what HighAvailabilityTaskAssignor would assign now" in note


def test_the_sticky_assignor(generations: dict[int, Group]) -> None:
    """It leaves tasks where they are, without asking who has caught up, and gives them at once."""
    spec = replace(spec_of(generations[4]), strategy="sticky")
    first = settled(spec).first
    assert (first.moves, first.rebalance) == ((), "cooperative")
    alone = replace(spec_of(generations[1]), strategy="sticky")
    run = settled(changed(alone, Changes(standbys=0, add=[AddedMembers()])))
    streams = [plan.streams for plan in run.plans if plan.streams is not None]
    assert [(own.is_at_once, own.delay_ms) for own in streams] == [(True, 0), (False, 0)]
    assert sorted(len(own) for own in (run.last.assignment or {}).values()) == [2, 2]


def test_what_others_do_not_have(generations: dict[int, Group]) -> None:
    spec = spec_of(generations[4])
    for changes, message in (
        (Changes(partitions=[("0", 8)]), "not imitated in streams groups"),
        (Changes(connectors=[("0", 8)]), "classic-streams groups have no connectors"),
        (Changes(add=[AddedMembers(topics=("a",))]), "have no topics="),
        (Changes(streams_config=[("max.warmup.replicas", 0)]), "expected at least 1, found 0"),
    ):
        with pytest.raises(UsageError, match=message):
            changed(spec, changes)
    classic = read_spec({"topics": {}, "members": [{"member_id": "m", "topics": []}]})
    with pytest.raises(UsageError, match="no settings of Kafka Streams"):
        changed(classic, Changes(streams_config=[("max.warmup.replicas", 1)]))


def test_earlier_versions(generations: dict[int, Group]) -> None:
    """Before 3.4 no generation is sent, before 3.2 user data of version 10, before 3.0 of 9."""
    asked = Software("kafka-streams", "3.2.3")
    assert spec_of(generations[4]).computed_as.version == STREAMS_VERSIONS[0]
    members = []
    for member in generations[4].members:
        assert member.subscription is not None
        sent = replace(member.subscription, generation_id=None)
        members.append(replace(member, subscription=sent))
    group = replace(generations[4], members=tuple(members))
    spec = spec_of(group)
    assert spec.computed_as.version == STREAMS_VERSIONS[1]
    assert spec.application is not None
    assert spec.application.versions == ("3.4.1", "3.2.3")
    for number, versions in ((4, STREAMS_VERSIONS[:2]), (1, STREAMS_VERSIONS[:3])):
        application = spec_of(generations[number]).application
        assert application is not None
        assert application.versions == versions
    assert classic_streams_spec(GroupSource(), group, None, asked, []).computed_as == asked
    for number, version in ((10, "3.1.2"), (9, "2.8.2"), (7, "2.8.2")):
        older = []
        for member in members:
            assert member.subscription is not None
            data = {**member.subscription.user_data, "version": number}
            sent = replace(member.subscription, user_data=data)
            older.append(replace(member, subscription=sent))
        spec = spec_of(replace(group, members=tuple(older)))
        assert spec.computed_as.version == version
        assert settled(changed(spec, Changes(standbys=1))).first.warnings == ()
    assert settled(changed(spec_of(group), Changes(standbys=1))).first.warnings == ()


def test_client_tags_are_warned_about(generations: dict[int, Group]) -> None:
    first, *others = generations[4].members
    assert first.subscription is not None
    data = {**first.subscription.user_data, "clientTags": [{"key": "zone", "value": "a"}]}
    first = replace(first, subscription=replace(first.subscription, user_data=data))
    spec = spec_of(replace(generations[4], members=(first, *others)))
    for standbys, count in ((1, 1), (0, 0)):
        warnings = settled(changed(spec, Changes(standbys=standbys))).first.warnings
        assert sum(text.startswith("The clients have tags") for text in warnings) == count


_TASK = {"topicGroupId": 0, "partition": 0, "namedTopology": "orders"}


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"assignment_user_data": None}, "the user data of its assignment"),
        ({"assignment_user_data": {"raw": "AA=="}}, "the user data of its assignment"),
        ({"activeTasks": []}, "a task for each of its 2 partitions, found 0"),
        ({"activeTasks": None}, "a list of activeTasks"),
        ({"activeTasks": [{"topicGroupId": 0}] * 2}, "a number as partition"),
        ({"activeTasks": [_TASK] * 2}, "no named topologies"),
        ({"activeTasks": [_TASK | {"namedTopology": None, "partition": -1}] * 2}, "a task, found"),
        ({"standbyTasks": [1]}, "a list of standbyTasks"),
        ({"processId": 1}, "a process id"),
        ({"version": 6}, "StickyTaskAssignor of earlier versions is not imitated"),
    ],
)
def test_user_data_that_is_none(
    generations: dict[int, Group], fields: dict[str, Any], message: str
) -> None:
    """Snapshots may be edited, and members may send anything."""
    first, *others = generations[4].members
    subscription = first.subscription
    assert subscription is not None
    for name, value in fields.items():
        if name == "assignment_user_data":
            first = replace(first, assignment_user_data=value)
        elif name in ("processId", "version"):
            data = {**subscription.user_data, name: value}
            first = replace(first, subscription=replace(subscription, user_data=data))
        else:
            first = replace(first, assignment_user_data={**first.assignment_user_data, name: value})
    with pytest.raises(UnfitError, match=message):
        spec_of(replace(generations[4], members=(first, *others)))


def test_a_group_without_members(generations: dict[int, Group]) -> None:
    with pytest.raises(UnfitError, match="found no members"):
        spec_of(replace(generations[4], members=()))


def group_in(snapshot: Any, group_id: str) -> tuple[GroupSource, Group]:
    source = snapshot_source(msgspec.convert(snapshot, Snapshot))
    return source, find_group(source, group_id)[1]


def test_the_number_of_standby_tasks_is_evident() -> None:
    """It is that of the tasks that have no warm-up, if only some have one."""
    while_probing = 0
    for line in read_rounds(FILE):
        for snapshot in (line["before"], line["after"]):
            source, group = group_in(snapshot, line["group"])
            application = classic_streams_spec(source, group, None, None, []).application
            assert application is not None
            if "num.standby.replicas" in application.known_settings:
                assert application.settings.standby_replicas == line["standbys"], line["kind"]
                while_probing += group.probing_ms is not None
    assert while_probing >= 25


def as_object(spec: GroupSpec, standbys: int) -> dict[str, Any]:
    """Return the object of a file of groups that describes an application."""
    application = spec.application
    assert application is not None
    stateful = {str(number) for number in application.stateful}
    ends = application.end_offset_sums
    records = max(ends.values())
    return {
        "protocol": "classic-streams",
        "kafka_version": spec.computed_as.version,
        "standby_replicas": standbys,
        "settings": {"probing.rebalance.interval.ms": 60_000, "max.warmup.replicas": 2},
        "subtopologies": {
            name: {"tasks": topic.partitions}
            | ({"stateful": True, "records": records} if name in stateful else {})
            for name, topic in spec.topics.items()
        },
        "members": [
            {
                "member_id": member.member_id,
                "client_id": member.client_id,
                "process_id": member.process_id,
                "active": member.owned,
                "standby": member.standby,
                "lags": [
                    [str(task.subtopology), task.partition, ends[task] - offset]
                    for task, offset in application.states[member.process_id or ""].items()
                    if offset is not None
                    and application.finders[member.process_id or "", task] == member.member_id
                ],
            }
            for member in spec.members
        ],
    }


def test_applications_in_a_file() -> None:
    """An idle application, described in a file, is assigned as it was."""
    compared = recorded = 0
    for line in read_rounds(FILE):
        source, group = group_in(line["before"], line["group"])
        _, after = group_in(line["after"], line["group"])
        spec = classic_streams_spec(source, group, None, None, [])
        application = spec.application
        assert application is not None
        if not application.is_idle:
            continue
        known = replace(spec, application=replace(application, versions=()))
        of_file = read_spec(json.loads(json.dumps(as_object(spec, line["standbys"]))))
        changes = Changes(
            standbys=line["standbys"],
            streams_config=[("probing.rebalance.interval.ms", 60_000), ("max.warmup.replicas", 2)],
        )
        first = settled(with_members_of(of_file, after), alone=True).first
        expected = settled(with_members_of(changed(known, changes), after), alone=True).first
        if expected.warnings:
            continue
        assert tasks_of(first) == tasks_of(expected), line["kind"]
        assert first.warnings == ()
        compared += 1
        if first.streams is not None and not first.streams.is_at_once:
            assert tasks_of(first) == recorded_tasks(after), line["kind"]
            recorded += 1
    assert compared >= 25
    assert recorded >= 9


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"subtopologies": {"a": {"tasks": 1}}}, "expected numbers as names, found 'a'"),
        ({"subtopologies": {"01": {"tasks": 1}}}, "expected numbers as names, found '01'"),
        ({"subtopologies": {s: {"tasks": 60_000} for s in "01"}}, "at most 100000 tasks, found 12"),
        ({"settings": {"num.standby.replicas": 1}}, "settings.num.standby.replicas: unknown"),
        ({"settings": {"max.warmup.replicas": 0}}, "settings.max.warmup.replicas: expected an int"),
        ({"members": [{"member_id": "a", "active": [["0", 4]]}]}, "no task"),
        (
            {"members": [{"member_id": "a", "process_id": "p"}]},
            r"members\[0\].process_id: expected a UUID, found 'p'",
        ),
        (
            {"members": [{"member_id": "a", "lags": [["0", 0, 1]]}]},
            r"lags\[0\]: expected a task of a subtopology with records, found \['0', 0\]; set",
        ),
        (
            {"members": [{"member_id": "a", "lags": [["1", 0]]}]},
            r"lags\[0\]: expected .subtopology, partition, records., found \['1', 0\]",
        ),
        (
            {"members": [{"member_id": "a", "lags": [["1", 0, 1], ["1", 0, 2]]}]},
            r"members\[0\].lags\[1\]: task \['1', 0\] has a lag in this process already",
        ),
        (
            {"members": [{"member_id": name, "active": [["0", 1]]} for name in "ab"]},
            r"members\[1\].active: \['0', 1\] is active in members\[0\] already; remove it",
        ),
        (
            {"members": [{"member_id": "a", "active": [["1", 1]], "standby": [["1", 1]]}]},
            r"members\[0\].standby: \['1', 1\] is active in this member; remove it",
        ),
        (
            {"members": [{"member_id": "a", "standby": [["1", 1], ["1", 0], ["1", 1]]}]},
            r"members\[0\].standby: expected each task once, found \['1', 1\] twice",
        ),
        (
            {"members": [{"member_id": "a", "active": [["0", 1], ["0", 1]]}]},
            r"members\[0\].active: expected each task once, found \['0', 1\] twice",
        ),
        (
            {"members": [{"member_id": "a", "lags": [["1", 0, 9]]}]},
            "expected an integer from 0 to 5",
        ),
        ({"members": []}, "expected at least one member"),
    ],
)
def test_applications_in_a_file_that_are_wrong(fields: dict[str, Any], message: str) -> None:
    group = {
        "protocol": "classic-streams",
        "subtopologies": {"0": {"tasks": 4}, "1": {"tasks": 4, "stateful": True, "records": 5}},
        "members": [{"member_id": "a"}],
    }
    read_spec(group)
    with pytest.raises(SpecError, match=message):
        read_spec(group | fields)


def test_a_process_in_a_file_has_one_id_however_it_is_written() -> None:
    process_id = "0f0e0d0c-0b0a-4908-8706-050403020100"
    spellings = (process_id.upper(), process_id.replace("-", ""), f"{{{process_id}}}")
    spec = read_spec(
        {
            "protocol": "classic-streams",
            "subtopologies": {"0": {"tasks": 3}},
            "members": [
                {"member_id": str(at), "process_id": text} for at, text in enumerate(spellings)
            ],
        }
    )
    assert {member.process_id for member in spec.members} == {process_id}
    assert spec.application is not None
    assert [*spec.application.states] == [process_id]


@pytest.mark.parametrize(("is_told", "least", "most"), [(True, 0.85, 0.15), (False, 0.8, 0.45)])
def test_recorded_rounds(is_told: bool, least: float, most: float) -> None:
    """Clients join, leave, restart; probing rebalances. No round differs without a warning.

    With the settings told, and with what is evident of them: other warnings are at most `most`.
    """
    rounds = read_rounds(FILE)
    matched = warned = 0
    for line in rounds:
        source, group = group_in(line["before"], line["group"])
        _, after = group_in(line["after"], line["group"])
        config = [("probing.rebalance.interval.ms", line["probing_ms"]), ("max.warmup.replicas", 2)]
        told = Changes(standbys=line["standbys"], streams_config=config)
        changes = told if is_told else Changes()
        spec = changed(classic_streams_spec(source, group, None, None, []), changes)
        plans = []
        for plan in settled(with_members_of(spec, after)).plans:
            plans.append(plan)
            if plan.streams is None or not plan.streams.is_at_once:
                break
        warnings = {text for plan in plans for text in plan.warnings}
        is_matched = tasks_of(plans[-1]) == recorded_tasks(after)
        assert is_matched or warnings, line["kind"]
        matched += is_matched
        warned += is_matched and bool(warnings)
    print(f"{len(rounds)} rounds, {matched} matched, {warned} of these with a warning")
    assert len(rounds) >= 55
    assert matched >= least * len(rounds)
    assert warned <= most * matched
