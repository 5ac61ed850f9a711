"""Migration plans: preconditions and steps, with a forecast of each step."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from shlex import join

from kgroup.errors import InputError, UsageError
from kgroup.model.group import GroupState, GroupType
from kgroup.model.offset import CommitStore
from kgroup.operation.printed_command import connection_words
from kgroup.operation.report import first_names
from kgroup.word import Word


class MigrationTarget(Word):
    """Targets of migrations."""

    ASSIGNOR = ("assignor", "Another strategy by which members assign partitions.")
    KAFKA_OFFSETS = ("kafka-offsets", "Commits of consumers on ZooKeeper in Kafka.")
    NEW_CONSUMER = ("new-consumer", "Java's consumer in the place of that on ZooKeeper.")
    STATIC_MEMBERSHIP = ("static-membership", "Members with names that outlive restarts.")
    PARTITIONS = ("partitions", "More partitions for a topic that the group reads.")
    CONSUMER_PROTOCOL = ("consumer-protocol", "The consumer protocol (KIP-848), or back from it.")
    EXTERNAL_OFFSETS = (
        "external-offsets",
        "Offsets in a table of a database, beside the results, in the place of Kafka; or back.",
    )


class Verdict(Word):
    """What is known about a precondition."""

    VERIFIED = ("verified", "It holds.")
    REFUTED = ("refuted", "It does not hold: the plan cannot be carried out so.")
    UNKNOWN = ("unknown", "It cannot be verified from here; `check` says how to find out.")


@dataclass(frozen=True, slots=True)
class Precondition:
    """A condition that must hold before a plan starts.

    Attributes:
        code: stable name, for scripts.
        text: the condition.
        found: evidence for the verdict; None without evidence.
        check: how to check it, or what to do if it does not hold; None if it holds.
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
        member: name of the member; None for all members that are restarted.
        name: Kafka's name of the setting.
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
        rebalances: number of generations or, with the consumer protocol, epochs; for ZooKeeper
            consumers, number of rebalances, counting simultaneous ones once.
        moved: number of times that a partition changes its owner.
        stopped: number of partitions that are not read for some time.
        longest_stop_ms: longest time in which a partition is not read; None without stops.
        stopped_ms: total time in which partitions are not read, summed over partitions.
        most_partitions: largest number of partitions that one member owns at a time.
        read_again: number of records read again; for small groups, the largest number of several
            simulations, of which the first one gives the other values.
        skipped: number of records that are not read.
        failed: members whose processes terminate, by name, with Kafka's name of the error.
        is_at_rest: whether the group is stable at the end; if not, the costs are incomplete.
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


@dataclass(frozen=True, slots=True)
class Expected:
    """Expected state of a group after a step; unset attributes are not checked.

    Attributes:
        type: group type; for ZooKeeper consumers, the group is read from ZooKeeper.
        assignor: assignor in use.
        is_restarted: whether every member has a different id than before the step.
        members: minimum number of members.
        state: group state.
        topics: topics that members subscribe to.
        commits: for ZooKeeper consumers, BOTH if commits in Kafka and ZooKeeper are equal, KAFKA if
            Kafka is ahead.
        instance_ids: instance ids that must exist, without any dynamic member; if empty, no member
            may be static.
        partitions: number of partitions by topic, all of which the group must own.
        protocol: protocol of every member, "consumer".
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
        origin: store to read, as named on the command line: `kafka` is the cluster of -b, -C or the
            environment, `sql` the database of --sql, the profile or the environment, because a URL
            may contain a password, which plans never do.
        goal: store to write, named in the same way.
        new_id: group id in the store to write; None: unchanged.
        table: table of the database; None: that of the profile, or the default.
        columns: columns of the table, in the format of --sql-column.
        creates_table: create the table if it does not exist.
        is_last: whether both stores must be equal afterwards; otherwise, members continue to
            commit, and the second store needs any offset for each partition.
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
        stores = dict(each.partition(":")[::2] for each in (self.origin, self.goal))
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
        number: number of the step, from 1.
        title: what is done.
        restarted: members to restart one by one, in this order.
        settings: settings to change before the restart.
        actions: what to do, in order.
        commands: commands to run, in order.
        see: what is visible afterwards.
        back: how to roll back from here.
        expected: conditions that `kgroup plan verify` checks.
        forecast: forecast; None if the step does not affect the simulated group.
        seen: members when `kgroup plan verify` first found the step done; None before.
        met: members that joined after the start of the step, as `kgroup plan verify` found before
            it was done; they must be restarted, too. None if there are none.
        copies: offsets to copy; None if none.
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
        text: the event.
        forecast: its simulated costs.
    """

    text: str
    forecast: Forecast


@dataclass(frozen=True, slots=True)
class NaiveWay:
    """The obvious alternative to the plan, and its costs."""

    text: str
    forecast: Forecast


@dataclass(frozen=True, slots=True)
class Plan:
    """A plan for one group.

    Attributes:
        goal: choice within the target: a strategy, or a topic with its number of partitions; None
            if there is none.
        summary: the plan in a sentence.
        type: group type.
        assignor: current assignor of the group.
        members: members at the time of planning.
        preconditions: preconditions, in the order in which to check them.
        steps: steps; empty if there is nothing to do, or a precondition is refuted.
        forecast: forecast of all steps; None without steps.
        naive: alternative without the plan; None if there is none.
        cluster_id: cluster id in base64url; None if unknown.
        assumed: assumptions of the forecast, which no source reports.
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
        """Whether no precondition is refuted, and no process is forecast to terminate."""
        return not self.is_refuted and not (self.forecast and self.forecast.failed)

    def refused(self) -> Plan:
        """Return the plan with a summary of its refuted preconditions."""
        refuted = (
            precondition
            for precondition in self.preconditions
            if precondition.verdict is Verdict.REFUTED
        )
        told = (
            precondition.text
            if precondition.found is None
            else f"{precondition.text} Found: {precondition.found}."
            for precondition in refuted
        )
        return replace(self, summary=f"It cannot be done so. This does not hold: {' '.join(told)}")

    def carried_out(
        self,
        summary: str,
        steps: tuple[PlanStep, ...],
        total: Forecast | None = None,
        naive: NaiveWay | None = None,
    ) -> Plan:
        """Return the plan with steps and costs; the summary mentions processes that terminate."""
        failed = {} if total is None else total.failed
        if failed:
            ended = ", ".join(f"{name} with {error}" for name, error in failed.items())
            summary += f" Do not do it so: in the forecast programs end, {ended}."
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
            raise UsageError("the plan has no step: nothing is to be done, or it cannot be done so")
        raise UsageError(f"expected --step of {most} at most, as the plan has, found {number}")
    there = {plan.group_id for plan, _ in steps}
    shorter = [plan.group_id for plan in chosen if plan.group_id not in there]
    return steps, (f"no step {number} is planned for {first_names(shorter)}",) if shorter else ()
