"""Migration plans: preconditions and steps, with a forecast of each step."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from shlex import join

from kgroup.described_enum import DescribedEnum
from kgroup.errors import InputError, UsageError
from kgroup.model.group import GroupState, GroupType
from kgroup.model.offset import CommitStore
from kgroup.operation.printed_command import connection_words
from kgroup.operation.report import first_names


class MigrationTarget(DescribedEnum):
    """Targets of migrations."""

    ASSIGNOR = ("assignor", "Another client-side assignor.")
    KAFKA_OFFSETS = (
        "kafka-offsets",
        "Offsets of ZooKeeper consumers in Kafka instead of ZooKeeper.",
    )
    NEW_CONSUMER = ("new-consumer", "The Java consumer instead of the ZooKeeper consumer.")
    STATIC_MEMBERSHIP = (
        "static-membership",
        "Static members, which keep their identity across restarts.",
    )
    PARTITIONS = ("partitions", "More partitions for a topic that the group reads.")
    CONSUMER_PROTOCOL = (
        "consumer-protocol",
        "The consumer protocol (KIP-848), or from it back to the classic protocol.",
    )
    EXTERNAL_OFFSETS = (
        "external-offsets",
        "Offsets in a database table, together with the application's results, instead of "
        "Kafka; or back.",
    )


class Verdict(DescribedEnum):
    """What is known about a precondition."""

    VERIFIED = ("verified", "The condition holds.")
    REFUTED = ("refuted", "The condition does not hold: the plan cannot be executed.")
    UNKNOWN = ("unknown", "kgroup cannot check the condition; `check` says how you can.")


@dataclass(frozen=True, slots=True)
class Precondition:
    """A condition that must hold before a plan starts.

    Attributes:
        code: name of the precondition, for scripts.
        text: required condition, as a sentence.
        verdict: what is known about the condition.
        found: evidence for the verdict; None without evidence.
        check: how to check the condition, or what to do if it does not hold; None if it holds.
    """

    code: str
    text: str
    verdict: Verdict
    found: str | None = None
    check: str | None = None


@dataclass(frozen=True, slots=True)
class SettingChange:
    """Change of a client setting.

    Attributes:
        member: name of the member; None for every member that is restarted.
        name: name of the setting, as the members' client library calls it.
        before: current value; None if unknown.
        after: new value; None to remove the setting.
    """

    member: str | None
    name: str
    before: str | None
    after: str | None


@dataclass(frozen=True, slots=True)
class Forecast:
    """Simulated costs of a step, or of all steps.

    Attributes:
        rebalances: number of generations or epochs; for ZooKeeper consumers, number of rebalances,
            counting simultaneous ones once.
        moved: number of times that a partition changes its owner.
        stopped: number of partitions that are not read for some time.
        longest_stop_ms: longest time for which a partition is not read; None if all are always
            read.
        stopped_ms: time for which partitions are not read, summed over partitions.
        most_partitions: largest number of partitions that a member owns at a time.
        read_again: number of records that are read again; for small groups, the largest number of
            several random simulations, of which the first provides the other values.
        skipped: number of records that are never read.
        failed: members whose applications terminate, or that are refused to the end; by name, with
            Kafka's name of the error.
        is_at_rest: whether the group is stable at the end; if not, the costs are incomplete.
        record_bytes: size of the largest record of the group in `__consumer_offsets`, with all
            members, as a batch without compression; None if no rebalance of classic members ends.
    """

    rebalances: int
    moved: int
    stopped: int
    longest_stop_ms: int | None
    stopped_ms: int
    most_partitions: int
    read_again: int
    skipped: int
    failed: Mapping[str, str] = field(default_factory=dict)
    is_at_rest: bool = True
    record_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class Expected:
    """Expected state of a group after a step; unset attributes are not checked.

    Attributes:
        type: group type; ZooKeeper groups are looked up in ZooKeeper.
        assignor: assignor of the group.
        is_restarted: whether every member has another member id than before the step.
        members: minimum number of members.
        state: group state.
        topics: topics that the members subscribe to.
        commits: where ZooKeeper consumers have committed; `both` if Kafka has the same offsets as
            ZooKeeper, `kafka` if Kafka is ahead.
        instance_ids: static members that must exist, without any dynamic member; if empty, no
            member may be static.
        partitions: number of partitions by topic, all of which the group must own.
        protocol: protocol of every member, `consumer`.
    """

    type: GroupType | None = None
    assignor: str | None = None
    is_restarted: bool = False
    members: int | None = None
    state: GroupState = GroupState.STABLE
    topics: tuple[str, ...] = ()
    commits: CommitStore | None = None
    instance_ids: tuple[str, ...] | None = None
    partitions: Mapping[str, int] = field(default_factory=dict)
    protocol: str | None = None


@dataclass(frozen=True, slots=True)
class PlannedMember:
    """A member at the time of planning; attributes as in `Member`.

    Attributes:
        name: name of the member in the plan.
        member_id, client_id, client_host: as in `kgroup.model.group.Member`.
        instance_id: `group.instance.id` of a static member; else None.
    """

    name: str
    member_id: str
    instance_id: str | None
    client_id: str | None
    client_host: str | None


@dataclass(frozen=True, slots=True)
class OffsetCopy:
    """Offsets to copy in a step, by `kgroup plan apply` or `kgroup offsets copy`.

    Attributes:
        origin: store to read, as named on the command line; `kafka` is the cluster of -b, -C or the
            environment, `sql` the database of --sql, the profile or the environment, because a URL
            may contain a password, which plans never do.
        goal: store to write, as named on the command line.
        new_id: group id in the store to write; None if it stays the same.
        table: table of the database; None for that of the profile, or the default.
        columns: columns of the table; in the format of --sql-column.
        creates_table: whether a missing table is created.
        is_last: whether both stores must have the same offsets afterwards; otherwise members
            continue to commit, and the second store needs any offset for each partition.
    """

    origin: str
    goal: str
    new_id: str | None = None
    table: str | None = None
    columns: tuple[str, ...] = ()
    creates_table: bool = False
    is_last: bool = True

    def command(self, group_id: str, server: str) -> str:
        """Return the equivalent command; `server` is a broker of the cluster `kafka`."""
        creates = ("--create-table",) if self.creates_table else ()
        return join((*self._words("copy", group_id, server), *creates, "--execute"))

    def comparison(self, group_id: str, server: str) -> str:
        """Return the command that compares both stores; `server` as for `command`."""
        return join(self._words("diff", group_id, server))

    def _words(self, verb: str, group_id: str, server: str) -> tuple[str, ...]:
        return (
            *("kgroup", "offsets", verb, self.origin, self.goal, "--group", group_id),
            *connection_words(server if "kafka" in (self.origin, self.goal) else None),
            *(() if self.new_id is None else ("--as", self.new_id)),
            *self._table_words,
        )

    @property
    def table_words(self) -> tuple[str, ...]:
        """Options that select the table of an `external-offsets` plan, for another command."""
        stores = dict(store.partition(":")[::2] for store in (self.origin, self.goal))
        return ("--sql", stores["sql"] or "profile", *self._table_words)

    @property
    def _table_words(self) -> tuple[str, ...]:
        return (
            *(() if self.table is None else ("--sql-table", self.table)),
            *(word for column in self.columns for word in ("--sql-column", column)),
        )


@dataclass(frozen=True, slots=True)
class PlanStep:
    """A step of a plan; the plan can be interrupted after it.

    Attributes:
        number: number of the step; from 1.
        title: what the step does.
        restarted: members to restart; one by one, in this order.
        settings: settings to change before the restart.
        actions: what to do; in order.
        commands: commands to run; in order.
        see: what you can see afterwards.
        back: how to roll back after this step.
        expected: conditions that `kgroup plan verify` checks.
        forecast: simulated costs of the step; None if it does not affect the simulated group.
        seen: members when `kgroup plan verify` first found the step done; None before.
        met: members that joined after the start of the step and must be restarted, too; found by
            `kgroup plan verify` before the step was done; None if there are none.
        copies: offsets to copy; None if the step copies none.
    """

    number: int
    title: str
    restarted: tuple[str, ...] = ()
    settings: tuple[SettingChange, ...] = ()
    actions: tuple[str, ...] = ()
    commands: tuple[str, ...] = ()
    see: tuple[str, ...] = ()
    back: str | None = None
    expected: Expected = field(kw_only=True)
    forecast: Forecast | None = None
    seen: tuple[PlannedMember, ...] | None = None
    met: tuple[PlannedMember, ...] | None = None
    copies: OffsetCopy | None = None


@dataclass(frozen=True, slots=True)
class Compared:
    """An event and its forecast.

    Attributes:
        text: the event, as a sentence.
        forecast: simulated costs of the event.
    """

    text: str
    forecast: Forecast


@dataclass(frozen=True, slots=True)
class NaiveWay:
    """The obvious alternative to the plan, and its costs.

    Attributes:
        text: what happens, as a sentence.
        forecast: simulated costs of the alternative.
    """

    text: str
    forecast: Forecast


@dataclass(frozen=True, slots=True)
class Plan:
    """A plan for a group.

    Attributes:
        group_id: group id.
        target: migration target.
        goal: choice within the target: an assignor, or a topic with its number of partitions; None
            if there is no choice.
        summary: summary of the plan, as a sentence.
        type: group type.
        assignor: current assignor of the group; None if unknown.
        members: members of the group at the time of planning.
        preconditions: preconditions; in the order in which to check them.
        steps: steps; empty if there is nothing to do, or a precondition is refuted.
        forecast: simulated costs of all steps; None without steps.
        naive: alternative that the plan avoids; None if there is none.
        cluster_id: cluster id; base64url, as Kafka prints it; None if unknown.
        assumed: assumptions of the forecast that no source confirms.
    """

    group_id: str
    target: MigrationTarget
    goal: str | None
    summary: str
    type: GroupType | None
    assignor: str | None
    members: tuple[PlannedMember, ...]
    preconditions: tuple[Precondition, ...]
    steps: tuple[PlanStep, ...] = ()
    forecast: Forecast | None = None
    naive: NaiveWay | None = None
    cluster_id: str | None = None
    assumed: tuple[str, ...] = ()

    @property
    def is_refuted(self) -> bool:
        """Whether a precondition is refuted."""
        return any(precondition.verdict is Verdict.REFUTED for precondition in self.preconditions)

    @property
    def is_sound(self) -> bool:
        """Whether no precondition is refuted, and no member is forecast to fail."""
        return not self.is_refuted and not (self.forecast and self.forecast.failed)

    def refused(self) -> Plan:
        """Return the plan with a summary of its refuted preconditions."""
        reasons = (
            precondition.text
            if precondition.found is None
            else f"{precondition.text} Found: {precondition.found}."
            for precondition in self.preconditions
            if precondition.verdict is Verdict.REFUTED
        )
        return replace(self, summary=f"Not possible: a precondition failed: {' '.join(reasons)}")

    def carried_out(
        self,
        summary: str,
        steps: tuple[PlanStep, ...],
        total: Forecast | None = None,
        naive: NaiveWay | None = None,
    ) -> Plan:
        """Return the plan with steps and costs; the summary mentions members that fail."""
        failed = {} if total is None else total.failed
        if failed:
            ended = ", ".join(f"{name} with {error}" for name, error in failed.items())
            summary += f" Do not do it this way: in the forecast, members fail, {ended}."
        return replace(self, summary=summary, steps=steps, forecast=total, naive=naive)


def chosen_steps(
    plans: Sequence[Plan], number: int, group_ids: Collection[str] = ()
) -> tuple[tuple[tuple[Plan, PlanStep], ...], tuple[str, ...]]:
    """Return the step with this number of each plan, or of the plans for the named groups.

    Returns:
        The plans that have the step, each with the step, and notes on the others.

    Raises:
        UsageError: no plan has the step, or is for a named group.
        InputError: there is no plan.
    """
    if unknown := set(group_ids) - {plan.group_id for plan in plans}:
        raise UsageError(
            f"there is no plan for {', '.join(sorted(unknown))}; there are plans for "
            f"{', '.join(plan.group_id for plan in plans) or 'no group'}"
        )
    if not plans:
        raise InputError("expected a plan of a group, found none")
    chosen = [plan for plan in plans if not group_ids or plan.group_id in group_ids]
    steps = tuple((plan, step) for plan in chosen for step in plan.steps if step.number == number)
    if not steps:
        most = max(len(plan.steps) for plan in chosen)
        if not most:
            raise UsageError(
                "the plan has no step: there is nothing to do, or a precondition failed"
            )
        raise UsageError(
            f"expected --step of at most {most}, the last step of the plan, found {number}"
        )
    having = {plan.group_id for plan, _ in steps}
    shorter = [plan.group_id for plan in chosen if plan.group_id not in having]
    return steps, (f"no step {number} is planned for {first_names(shorter)}",) if shorter else ()
