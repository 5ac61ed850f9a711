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


class Verdict(DescribedEnum):
    """What is known about a precondition."""

    VERIFIED = ("verified", "It holds.")
    REFUTED = ("refuted", "It does not hold: the plan cannot be carried out so.")
    UNKNOWN = ("unknown", "It cannot be verified from here; `check` says how to find out.")


@dataclass(frozen=True, slots=True)
class Precondition:
    """A condition that must hold before a plan starts.

    Attributes:
        code: a word for scripts.
        text: what must hold; in a sentence.
        verdict: what is known of it.
        found: on what the verdict rests; None where nothing was found.
        check: how to find out, or what to do where it does not hold; None where it holds.
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
        member: member whose setting it is; None of every member that is restarted.
        name: name of the setting, as Kafka calls it.
        before: value that it has; None where nobody tells.
        after: value that it shall have; None where it is taken out.
    """

    member: str | None
    name: str
    before: str | None
    after: str | None


@dataclass(frozen=True, slots=True)
class Forecast:
    """Simulated costs of a step, or of all steps.

    Attributes:
        rebalances: generations or epochs that come; of consumers on ZooKeeper how often some
            rebalance, who do it together.
        moved: how often a partition changes its owner.
        stopped: partitions that nobody reads for a while.
        longest_stop_ms: longest time that nobody reads a partition; None where there is none.
        stopped_ms: how long partitions stand still, all together.
        most_partitions: most partitions that a member has at a time.
        read_again: records that are read once more; of small groups the most that came of several
            courses of chance, of which the rest is the first.
        skipped: records that nobody reads.
        failed: members whose programs end; by name, with Kafka's name of the error.
        is_at_rest: whether the group rests in the end; where it does not, more comes of it than is
            told here.
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
        type: protocol of the group; one on ZooKeeper is looked for there.
        assignor: assignor that it uses.
        is_restarted: whether every member has another id than before the step.
        members: number of members that there are at least.
        state: state of the group.
        topics: topics to which members subscribe.
        commits: where consumers on ZooKeeper have committed; `both` where Kafka has the commits
            that ZooKeeper has, `kafka` where it is ahead.
        instance_ids: static members that there are at least, and no dynamic ones; without any: no
            static ones.
        partitions: partitions of the topics that the group then owns all of; by topic.
        protocol: protocol that every member speaks; `consumer`.
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
        name: name by which the plan calls it.
        member_id, client_id, client_host: as in `kgroup.model.group.Member`.
        instance_id: `group.instance.id` of a static member; None of a dynamic one.
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
        origin: store that has them, as that command names it; `kafka` is the cluster of -b, -C or
            the environment, `sql` the database of --sql, the profile or the environment, as a URL
            may have a password, and a plan has none.
        goal: store that gets them; likewise.
        new_id: id of the group there; None where it keeps its id.
        table: table of a database; None of the profile's, or the default.
        columns: columns of the table; as --sql-column takes them.
        creates_table: whether a missing table is made.
        is_last: whether both stores are to have the same then; otherwise members go on meanwhile,
            and the second is to have something of each partition.
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
        title: what is done.
        restarted: members that are restarted; one after another, in this order.
        settings: settings that are changed before.
        actions: what to do; in order.
        commands: what to run; in order.
        see: what is to be seen afterwards.
        back: how to go back from here.
        expected: what `kgroup plan verify` looks for.
        forecast: what the step costs; None where it does nothing to the group that is simulated.
        seen: members that were there when `kgroup plan verify` found it done first; None before.
        met: members that `kgroup plan verify` saw before the step was done; they were not there
            before it, and are to be restarted, too; None where there are none.
        copies: offsets that it copies; None where it copies none.
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
        text: what happens; in a sentence.
        forecast: what the simulator says of it.
    """

    text: str
    forecast: Forecast


@dataclass(frozen=True, slots=True)
class NaiveWay:
    """The obvious alternative to the plan, and its costs.

    Attributes:
        text: what happens; in a sentence.
        forecast: what the simulator says of it.
    """

    text: str
    forecast: Forecast


@dataclass(frozen=True, slots=True)
class Plan:
    """A plan for a group.

    Attributes:
        group_id: id of the group.
        target: what the group is to be moved to.
        goal: which of the target; a strategy, or a topic with its partitions; None where there is
            nothing to choose.
        summary: what it comes to; in a sentence.
        type: protocol of the group.
        assignor: assignor that the group uses; None where it is not known.
        members: members of the group when it is planned.
        preconditions: what must hold; in the order in which it is to be looked at.
        steps: what is done; none where there is nothing to do, or a precondition is refuted.
        forecast: what all steps cost; None without any.
        naive: what the plan saves; None where there is no other way.
        cluster_id: id of the cluster; base64url, as Kafka prints it; None where the source does not
            tell.
        assumed: what the forecast goes by and no source tells.
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
        reasons = (
            precondition.text
            if precondition.found is None
            else f"{precondition.text} Found: {precondition.found}."
            for precondition in self.preconditions
            if precondition.verdict is Verdict.REFUTED
        )
        return replace(
            self, summary=f"It cannot be done so. This does not hold: {' '.join(reasons)}"
        )

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
    having = {plan.group_id for plan, _ in steps}
    shorter = [plan.group_id for plan in chosen if plan.group_id not in having]
    return steps, (f"no step {number} is planned for {first_names(shorter)}",) if shorter else ()
