"""Move commits of ZooKeeper consumers to Kafka, while the group continues to read.

Source: `ZookeeperConsumerConnector.commitOffsets` and `fetchOffsets` of Kafka 0.8.2.2: with
`dual.commit.enabled`, a consumer commits to both stores, and starts at the larger offset. It does
not write an offset that it has fetched to ZooKeeper again until it has read more records.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from shlex import quote

from kgroup.model.group import GroupType
from kgroup.model.offset import CommitStore
from kgroup.operation.plan.forecast import (
    NOT_PLANNED,
    PlayedStep,
    ProgramBehavior,
    forecast,
    how_to_restart,
    rolling_restart,
)
from kgroup.operation.plan.new_consumer import copy_step
from kgroup.operation.plan.plan import (
    Expected,
    MigrationTarget,
    NaiveWay,
    Plan,
    PlanStep,
    Precondition,
    SettingChange,
    Verdict,
)
from kgroup.operation.plan.running_group import RunningGroup, plan_of
from kgroup.operation.plan.stop import started_with
from kgroup.operation.plan.zookeeper_group import OldGroup
from kgroup.operation.report import first_names
from kgroup.simulation.scenario.scenario import Scenario, ZookeeperMemberPlan

STORAGE = "offsets.storage"
DUAL = "dual.commit.enabled"


def plan_kafka_offsets(old: OldGroup, behavior: ProgramBehavior) -> Plan:
    """Return a plan to move a group's commits to Kafka; those of a stopped group are copied."""
    running = old.running
    if running is None:
        return _of_stopped(old)
    store, storage = old.storage
    conditions = _preconditions(old, running, store, storage)
    plan = plan_of(old.group, MigrationTarget.KAFKA_OFFSETS, None, conditions)
    if plan.is_refuted:
        return plan.refused()
    if store is CommitStore.KAFKA:
        return replace(plan, summary="Nothing to do: members commit to Kafka only.")
    scenario = running.scenario
    moves = []
    if store is CommitStore.ZOOKEEPER:
        moves.append(_to_both(old, scenario, behavior))
    moves.append(_to_kafka(old, scenario, behavior))
    steps, total = forecast(scenario, moves, behavior)
    summary = "From ZooKeeper to Kafka in two rolling restarts: first to both, then to Kafka only."
    if store is CommitStore.BOTH:
        summary = (
            "From both to Kafka only in one rolling restart: the previous one, to both, "
            "has already been done."
        )
    naive = _naive(scenario, behavior) if store is CommitStore.ZOOKEEPER else None
    return plan.carried_out(summary, steps, total, naive)


def _of_stopped(old: OldGroup) -> Plan:
    group_id = old.group.group_id
    text = "The group has no members: configure its applications before they start."
    store, storage = old.storage
    conditions = (
        Precondition("stopped", text, Verdict.VERIFIED, f"state {old.group.state}"),
        storage,
        _brokers(old),
        _client_version(old),
        *([] if store is CommitStore.KAFKA else [old.leftovers]),
    )
    plan = plan_of(old.group, MigrationTarget.KAFKA_OFFSETS, None, conditions)
    if plan.is_refuted:
        return plan.refused()
    start = started_with(
        "commits to Kafka only",
        (SettingChange(None, STORAGE, None, "kafka"), SettingChange(None, DUAL, None, "false")),
        (f"kgroup describe {quote(group_id)} {old.places.in_zookeeper} shows members.",),
        Expected(GroupType.ZOOKEEPER, members=1, commits=CommitStore.KAFKA),
    )
    steps = [start]
    if store is not CommitStore.KAFKA and not old.is_same:
        steps.insert(0, copy_step(old))
    numbered = tuple(replace(step, number=number) for number, step in enumerate(steps, 1))
    return plan.carried_out("The group is stopped, so no restart is needed.", numbered)


def _brokers(old: OldGroup) -> Precondition:
    return old.brokers_since(
        8,
        "Brokers store commits: they have Kafka 0.8.2 or later.",
        "Check the version of the brokers.",
    )


def _preconditions(
    old: OldGroup, running: RunningGroup, store: CommitStore, storage: Precondition
) -> list[Precondition]:
    preconditions = [running.rests, storage, _brokers(old), _client_version(old)]
    if store is CommitStore.ZOOKEEPER:
        preconditions.append(old.leftovers)
    if old.set_ids:
        preconditions.append(
            Precondition(
                "made-ids",
                "A restarted member has a new id.",
                Verdict.UNKNOWN,
                f"consumer.id seems to be set by {first_names(old.set_ids)}",
                "kgroup plan verify does not see that they were restarted, and checks only "
                f"commits; `kgroup zk ids {quote(old.group.group_id)} "
                f"{old.places.in_zookeeper}` shows when they registered.",
            )
        )
    return preconditions


def _client_version(old: OldGroup) -> Precondition:
    text = f"Members support {STORAGE}: their consumers have Kafka 0.8.2 or later."
    if old.kafka:
        found = "the group has commits in Kafka"
        return Precondition("client-version", text, Verdict.VERIFIED, found)
    return Precondition(
        "client-version",
        text,
        Verdict.UNKNOWN,
        "ZooKeeper does not contain it",
        "Check the version of the jar kafka_… in each application.",
    )


def _plans(scenario: Scenario, *, is_dual: bool) -> Mapping[str, ZookeeperMemberPlan]:
    """Return members configured to commit to Kafka, and optionally to ZooKeeper."""
    return {
        name: replace(plan, config=replace(plan.config, storage="kafka", dual_commit=is_dual))
        for name, plan in scenario.connectors.items()
    }


def _to_both(old: OldGroup, scenario: Scenario, behavior: ProgramBehavior) -> PlayedStep:
    settings = (
        SettingChange(None, STORAGE, "zookeeper", "kafka"),
        SettingChange(None, DUAL, None, "true"),
    )
    step = _restart(
        old,
        behavior,
        "Restart every member with commits to Kafka and ZooKeeper",
        settings,
        CommitStore.BOTH,
        "Kafka and ZooKeeper have the same, as soon as each member has committed "
        "(auto.commit.interval.ms, a minute by default).",
        f"Restart the members one after another with {STORAGE}=zookeeper: it has every commit.",
    )
    return rolling_restart(step, scenario, _plans(scenario, is_dual=True), behavior)


def _to_kafka(old: OldGroup, scenario: Scenario, behavior: ProgramBehavior) -> PlayedStep:
    copy = old.places.offsets("copy", "kafka", "zookeeper", old.group.group_id)
    step = _restart(
        old,
        behavior,
        "Restart every member with commits to Kafka only",
        (SettingChange(None, DUAL, "true", "false"),),
        CommitStore.KAFKA,
        "Kafka is ahead of ZooKeeper, where commits stay as they are.",
        f"Restart the members one after another with {DUAL}=true, and wait until both stores have "
        f"the same; only then with {STORAGE}=zookeeper. Of partitions that get no records "
        "ZooKeeper keeps what it has, and a member would read them again from there: stop the "
        f"group, {copy}",
    )
    return rolling_restart(step, scenario, _plans(scenario, is_dual=False), behavior)


def _restart(
    old: OldGroup,
    behavior: ProgramBehavior,
    title: str,
    settings: tuple[SettingChange, ...],
    commits: CommitStore,
    seen: str,
    back: str,
) -> PlanStep:
    group_id = quote(old.group.group_id)
    names = tuple(member.name for member in old.planned_members)
    return PlanStep(
        0,
        title,
        names,
        settings,
        (
            how_to_restart(behavior, len(names)),
            "Shut it down cleanly (ConsumerConnector.shutdown), so that what it has read is "
            "committed.",
        ),
        (old.places.offsets("diff", "zookeeper", "kafka", old.group.group_id),),
        (
            seen,
            f"kgroup describe {group_id} {old.places.in_zookeeper} shows where each "
            "commit was found (committed_in).",
        ),
        back,
        expected=Expected(
            GroupType.ZOOKEEPER, is_restarted=not old.set_ids, members=len(names), commits=commits
        ),
    )


def _naive(scenario: Scenario, behavior: ProgramBehavior) -> NaiveWay:
    """Simulate a single rolling restart with commits to Kafka only.

    Members find no commit there, and start where `auto.offset.reset` says.
    """
    plans = _plans(scenario, is_dual=False)
    move = rolling_restart(NOT_PLANNED, scenario, plans, behavior)
    _, cost = forecast(scenario, [move], behavior)
    resets = {plan.config.reset for plan in scenario.connectors.values()}
    return NaiveWay(
        f"One rolling restart with {STORAGE}=kafka and {DUAL}=false "
        f"(auto.offset.reset {' or '.join(sorted(resets))})",
        cost,
    )
