"""Migrate a group to the consumer protocol (KIP-848), or back, while it continues to read.

A classic group becomes a consumer group when the first member joins with the consumer protocol; it
may have members with both protocols. It becomes a classic group again when the last member with the
consumer protocol leaves, or rejoins with the classic protocol (`GroupMetadataManager` of 4.3.1).

Source: `GroupMetadataManager.validateOnlineUpgrade`, `validateOnlineDowngrade...`,
`throwIfConsumerGroupIsFull` and `ConsumerGroup.fromClassicGroup` of 4.3.1,
`KafkaApis.isConsumerGroupProtocolEnabled`; of kafka-clients 4.3.1, `ClassicKafkaConsumer`, which
does not support `SubscriptionPattern`, and `ConsumerConfig`, which rejects settings of the other
protocol.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from kgroup.assignor.client_facts import FACTS
from kgroup.assignor.strategy import strategies
from kgroup.errors import near_names
from kgroup.model.client_library import FRANZ_GO, KAFKA_CLIENTS, LIBRDKAFKA
from kgroup.model.group import Group, GroupType
from kgroup.model.pattern import parse_regex
from kgroup.operation.plan.assignor import STRATEGY, one_by_one, strategies_set, strategy_named
from kgroup.operation.plan.connect import settable
from kgroup.operation.plan.coordinator import (
    ASSIGNORS,
    CONSUMER_GROUP_HEARTBEAT,
    CONSUMER_SESSION,
    MIGRATION_POLICY,
    PROTOCOLS,
    Brokers,
    kgroup_on,
)
from kgroup.operation.plan.forecast import (
    NOT_PLANNED,
    PlayedStep,
    ProgramBehavior,
    forecast,
    how_to_restart,
    rolling_restart,
    stopped_group,
)
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
from kgroup.operation.plan.stop import how_to_start, how_to_stop, removal, started_with
from kgroup.operation.report import first_names
from kgroup.simulation.client.config import COOPERATIVE_STICKY, ConsumerConfig
from kgroup.simulation.rules import MigrationPolicy
from kgroup.simulation.scenario.scenario import MemberPlan

_PROTOCOL = "group.protocol"
_REMOTE = "group.remote.assignor"
_SESSION = "session.timeout.ms"
_HEARTBEAT = "heartbeat.interval.ms"
_JAVA_SESSION_MS = 45_000
_LEAST, _MOST = (f"group.consumer.{word}.session.timeout.ms" for word in ("min", "max"))


@dataclass(frozen=True)
class ProtocolChange:
    """Change of a group's protocol.

    Attributes:
        running: the group.
        back: whether to change to the classic protocol.
        stops: whether the group is stopped for the change.
        wanted: requested assignor or strategy; None: chosen automatically.
        library: client library of all members; None if unknown.
    """

    running: RunningGroup
    back: bool
    stops: bool
    wanted: str | None
    library: str | None = None

    @property
    def group(self) -> Group:
        """The group as the source knows it."""
        return self.running.group

    @property
    def brokers(self) -> Brokers:
        """The brokers of the group's cluster."""
        return self.running.brokers

    @property
    def protocol(self) -> str:
        """The new protocol, "consumer" or "classic"."""
        return "classic" if self.back else "consumer"

    @property
    def is_begun(self) -> bool:
        """Whether the group is a consumer group already, whose members may use either protocol."""
        return self.group.type is GroupType.CONSUMER

    @property
    def now(self) -> str:
        """Current strategy or assignor of the group."""
        assert self.running.scenario.start is not None
        return self.running.scenario.start.protocol

    @property
    def is_eager(self) -> bool:
        """Whether members with the classic protocol may revoke all partitions in a rebalance."""
        return self.now != COOPERATIVE_STICKY

    @property
    def default(self) -> str | None:
        """The broker's default assignor; None if unknown."""
        return (self.brokers.assignors or (None,))[0]

    @property
    def assignor(self) -> str | None:
        """The new assignor or strategy of the group; None for the broker's default."""
        if self.wanted is not None:
            return self.wanted
        if self.back:
            return "range" if self.now == "range" else COOPERATIVE_STICKY
        if self.is_begun:
            return self.group.assignor
        if self.now == "range":
            return "range"
        return "uniform" if "uniform" in (self.brokers.assignors or ()) else None

    @property
    def asked_for(self) -> str | None:
        """The assignor that members request; None if they use the broker's default."""
        return None if self.assignor == self.default else self.assignor

    @cached_property
    def moved(self) -> tuple[str, ...]:
        """Names of the members to restart: they use the other protocol, or may use it."""
        members = self.running.by_name
        if not self.is_begun:
            return () if self.back else tuple(members)
        return tuple(
            name
            for name, member in members.items()
            if member.uses_classic_protocol is not self.back
        )

    # --- simulation ---

    def plans(self, names: Sequence[str]) -> dict[str, MemberPlan]:
        """Return members configured for the new protocol."""
        members = self.running.scenario.members
        return {
            name: replace(members[name], config=self._config(members[name].config))
            for name in names
        }

    def _config(self, config: ConsumerConfig) -> ConsumerConfig:
        if not self.back:
            return replace(config, group_protocol="consumer", remote_assignor=self.asked_for)
        pattern = config.pattern
        if config.regex is not None:
            regex = parse_regex(config.regex)

            def pattern(topic: str) -> bool:
                return regex.fullmatch(topic) is not None

        assert self.assignor is not None
        return replace(
            config,
            group_protocol="classic",
            remote_assignor=None,
            regex=None,
            pattern=pattern,
            strategies=(self.assignor,),
            session_timeout_ms=self.brokers.number(CONSUMER_SESSION) or _JAVA_SESSION_MS,
        )

    # --- instructions ---

    def settings(self, names: Sequence[str]) -> Iterator[SettingChange]:
        """Yield the settings to change; clients reject settings of the other protocol."""
        session_ms = self.brokers.number(CONSUMER_SESSION)
        if self.library == FRANZ_GO:
            yield from self._franz_go_settings()
            return
        if self.back:
            assert self.assignor is not None
            asked = {member.assignor for member in self.group.members}
            yield SettingChange(None, _PROTOCOL, "consumer", "classic")
            yield SettingChange(None, _REMOTE, asked.pop() if len(asked) == 1 else None, None)
            yield strategies_set(None, None, (self.assignor,), self.library)
            if session_ms is not None and session_ms != _JAVA_SESSION_MS:
                yield SettingChange(None, _SESSION, None, str(session_ms))
            return
        yield SettingChange(None, _PROTOCOL, "classic", "consumer")
        if self.asked_for is not None:
            yield SettingChange(None, _REMOTE, None, self.asked_for)
        yield SettingChange(None, STRATEGY, None, None)
        timeouts = {self.running.by_name[name].session_timeout_ms for name in names}
        was = timeouts.pop() if len(timeouts) == 1 else None
        yield SettingChange(None, _SESSION, None if was is None else str(was), None)
        yield SettingChange(None, _HEARTBEAT, None, None)

    def _franz_go_settings(self) -> Iterator[SettingChange]:
        """Yield the settings of franz-go, which asks for the assignor that its balancer names."""
        option = FACTS[FRANZ_GO].consumer_setting or ""
        given = (option, None) if self.back else (None, option)
        yield SettingChange(None, option.removesuffix("()"), *given)
        client_side = "range" if self.assignor == "range" else "sticky"
        names = (self.assignor or client_side) if self.back else client_side
        yield strategies_set(None, None, (names,), FRANZ_GO)

    @property
    def _sessions(self) -> tuple[int, int] | None:
        """Session timeout of the members and of the broker, in milliseconds, if they differ."""
        timeouts = {member.session_timeout_ms for member in self.group.members}
        becomes = self.brokers.number(CONSUMER_SESSION)
        if self.back or self.is_begun or len(timeouts) != 1 or becomes is None:
            return None
        (was,) = timeouts
        return None if was is None or was == becomes else (was, becomes)

    @property
    def _may_keep_session(self) -> bool:
        low, high = self.brokers.number(_LEAST), self.brokers.number(_MOST)
        if self._sessions is None or low is None or high is None:
            return False
        return low <= self._sessions[0] <= high

    @property
    def about_session(self) -> tuple[str, ...]:
        """Instructions about the session timeout, if it changes."""
        if self._sessions is None:
            return ()
        was, becomes = self._sessions
        text = f"The session timeout becomes that of the broker: {becomes} ms instead of {was} ms"
        if self._may_keep_session:
            return (f"{text}. To keep it, run the command below.",)
        low, high = self.brokers.setting(_LEAST), self.brokers.setting(_MOST)
        if low is None or high is None:
            return (f"{text}.",)
        return (f"{text}; brokers allow {low} to {high} ms ({_LEAST}, {_MOST}).",)

    @property
    def session_commands(self) -> tuple[str, ...]:
        """Command that keeps the group's session timeout, if brokers allow it."""
        if self._sessions is None or not self._may_keep_session:
            return ()
        return (self.brokers.configure(self.group.group_id, self._sessions[0]),)


_FEATURE = "group.version"


def conditions(change: ProtocolChange, version: tuple[int, ...] | None) -> Iterator[Precondition]:
    """Yield the preconditions of a protocol change.

    Args:
        change: the change.
        version: version of the members' client library after the change; None if unknown.
    """
    yield change.running.rests
    if change.running.is_stopped:
        if not change.back:
            yield _support(change)
            yield _known_assignor(change)
            yield _client_version(change.library, version)
        return
    yield Precondition(
        "protocol-type",
        "Members are consumers: protocol type consumer.",
        Verdict.VERIFIED,
        f"protocol type {change.group.protocol_type or 'consumer'}",
    )
    yield from settable(change.running.connectors)
    if not change.back:
        yield _support(change)
    if not change.stops:
        yield _policy(change.brokers, back=change.back)
    yield _size(change)
    if change.is_begun:
        yield _spoken(change)
    if change.back:
        yield _common_strategy(change)
        yield _patterns(change)
        return
    yield _known_assignor(change)
    if not change.is_begun and not change.stops:
        yield _user_data(change)
    yield _client_version(change.library, version)
    if change.library is None:
        yield from change.running.library_condition(
            "the consumer protocol", lambda facts: facts.consumer_since is not None
        )
    if not change.is_begun and change.is_eager:
        yield one_by_one(change.now, change.running.connectors)


def _support(change: ProtocolChange) -> Precondition:
    brokers = change.brokers
    code, text = "broker-support", "Brokers serve the consumer protocol (Kafka 4.0 or later)."
    if change.is_begun:
        found = "the group is already a consumer group"
        return Precondition(code, text, Verdict.VERIFIED, found)
    features = brokers.features
    shown = brokers.tool("kafka-features", "describe")
    if features is None:
        check = f"{shown} shows {_FEATURE} with FinalizedVersionLevel 1."
        return Precondition(code, text, Verdict.UNKNOWN, brokers.why, check)
    if CONSUMER_GROUP_HEARTBEAT not in features.apis:
        found = f"{brokers.name} has no ConsumerGroupHeartbeat API"
        check = "Upgrade the brokers to Kafka 4.0 or later."
        return Precondition(code, text, Verdict.REFUTED, found, check)
    protocols = brokers.setting(PROTOCOLS)
    served = (
        None
        if protocols is None
        else [protocol.strip() for protocol in protocols.lower().split(",")]
    )
    if served is not None and "consumer" not in served:
        found = f"{PROTOCOLS} is {protocols} on {brokers.name}"
        check = f"Add consumer to {PROTOCOLS} of every broker, and restart the brokers."
        return Precondition(code, text, Verdict.REFUTED, found, check)
    if features.levels is None:
        check = f"{shown} shows {_FEATURE} with FinalizedVersionLevel 1."
        found = f"{brokers.name} does not report its finalized features"
        return Precondition(code, text, Verdict.UNKNOWN, found, check)
    level = features.levels.get(_FEATURE, 0)
    found = f"{_FEATURE} is finalized at {level}"
    if level < 1:
        upgrade = brokers.tool("kafka-features", "upgrade", "--feature", f"{_FEATURE}=1")
        check = f"Upgrade all brokers to 4.0 or later, then: {upgrade}"
        return Precondition(code, text, Verdict.REFUTED, found, check)
    return Precondition(code, text, Verdict.VERIFIED, found)


def _policy(brokers: Brokers, *, back: bool) -> Precondition:
    code = "migration-policy"
    needed = MigrationPolicy.DOWNGRADE if back else MigrationPolicy.UPGRADE
    text = (
        f"The protocol of a group with members may change: {MIGRATION_POLICY} is "
        f"{needed} or bidirectional."
    )
    policy = brokers.policy
    if policy is None:
        found = brokers.why or f"{brokers.name} does not report {MIGRATION_POLICY}"
        return Precondition(code, text, Verdict.UNKNOWN, found, brokers.ask(MIGRATION_POLICY))
    found = f"{policy} on {brokers.name}"
    if policy.downgrades if back else policy.upgrades:
        return Precondition(code, text, Verdict.VERIFIED, found)
    refusal = (
        "INCONSISTENT_GROUP_PROTOCOL to members that return with the classic protocol"
        if policy is MigrationPolicy.DISABLED
        else "the group would stay a consumer group, with members of the classic protocol"
    )
    if not back:
        refusal = "GROUP_ID_NOT_FOUND to members that return with the consumer protocol"
    check = (
        f"Set {MIGRATION_POLICY}=bidirectional on every broker and restart the brokers, "
        "or plan with --stop: an empty group can always change. The broker would "
        f"otherwise answer: {refusal}."
    )
    return Precondition(code, text, Verdict.REFUTED, found, check)


def _size(change: ProtocolChange) -> Precondition:
    brokers, stops = change.brokers, change.stops
    count = len(change.group.members)
    needed = {"group.consumer.max.size": count}
    text = f"The group of {count} does not exceed the maximum size."
    if not stops and any(member.instance_id for member in change.group.members):
        # The coordinator counts both a static member and its replacement.
        needed = {"group.consumer.max.size": count + 1}
        text = f"The group of {count} may have one more member, while a static member returns."
    if change.back:
        needed = {**({} if stops else needed), "group.max.size": count}
    limits = {name: brokers.number(name) for name in needed}
    found = ", ".join(f"{name} is {limit}" for name, limit in limits.items() if limit is not None)
    if over := [
        name for name, limit in limits.items() if limit is not None and limit < needed[name]
    ]:
        check = f"Raise {' and '.join(over)} on every broker, and restart the brokers."
        return Precondition("group-size", text, Verdict.REFUTED, found, check)
    unknown = [name for name, limit in limits.items() if limit is None]
    if unknown:
        why = found or brokers.why or f"{brokers.name} does not report {unknown[0]}"
        return Precondition("group-size", text, Verdict.UNKNOWN, why, brokers.ask("max.size"))
    return Precondition("group-size", text, Verdict.VERIFIED, found)


def _spoken(change: ProtocolChange) -> Precondition:
    text = "The protocol of each member is known."
    by_name = change.running.by_name
    unknown = [name for name, member in by_name.items() if member.uses_classic_protocol is None]
    if unknown:
        return Precondition(
            "spoken-protocol",
            text,
            Verdict.UNKNOWN,
            f"unknown for {first_names(unknown)}",
            "Check group.protocol of each; members that already have it need no restart.",
        )
    classic = [name for name, member in by_name.items() if member.uses_classic_protocol]
    found = f"classic: {first_names(classic)}" if classic else "consumer: all of them"
    return Precondition("spoken-protocol", text, Verdict.VERIFIED, found)


def _known_assignor(change: ProtocolChange) -> Precondition:
    wanted = change.assignor
    code = "server-assignor"
    known = change.brokers.assignors
    check = change.brokers.ask(ASSIGNORS)
    if known is None:
        text = f"The broker has the assignor {wanted}." if wanted else "The coordinator assigns."
        usual = strategies("consumer")
        suggestion = "" if wanted is None or wanted in usual else near_names(wanted, usual)
        why = change.brokers.why or f"{change.brokers.name} does not report {ASSIGNORS}"
        return Precondition(code, text, Verdict.UNKNOWN, f"{why}{suggestion}", check)
    found = f"{ASSIGNORS} is {', '.join(known)} on {change.brokers.name}"
    if wanted is None:
        text = f"The coordinator assigns, by {change.default}{_in_the_place_of(change)}."
        return Precondition(code, text, Verdict.VERIFIED, found)
    text = f"The broker has the assignor {wanted}"
    text += "." if wanted == change.now else f"{_in_the_place_of(change)}."
    if wanted in known:
        return Precondition(code, text, Verdict.VERIFIED, found)
    if any("." in name for name in known):
        found += "; the names of the assignors of those classes are unknown"
        return Precondition(code, text, Verdict.UNKNOWN, found, check)
    check = (
        f"Choose one of {', '.join(known)} with --assignor; members that request "
        f"another one get UNSUPPORTED_ASSIGNOR{near_names(wanted, known) or '.'}"
    )
    return Precondition(code, text, Verdict.REFUTED, found, check)


def _in_the_place_of(change: ProtocolChange) -> str:
    return f", instead of {change.now}" if change.now else ""


def _user_data(change: ProtocolChange) -> Precondition:
    """Return the precondition that assignments have no user data, which a broker cannot keep.

    Custom assignors may add user data. librdkafka's assignor for cooperative-sticky returns the
    user data of the subscriptions, which is not empty from the second rebalance on
    (`rd_kafka_group_MemberState_consumer_write`).
    """
    code, text = (
        "user-data",
        "Assignments contain no data of a client-side assignor that would be lost.",
    )
    refusal = (
        "The broker answers GROUP_ID_NOT_FOUND to members that come back with the consumer "
        "protocol. Plan it with --stop, or move the group to range first: "
        f"{kgroup_on(change.group, 'plan assignor range')}"
    )
    by_name = change.running.by_name
    have = [name for name, member in by_name.items() if member.assignment_user_data]
    if have:
        found = f"those of {first_names(have)} do"
        return Precondition(code, text, Verdict.REFUTED, found, refusal)
    if change.is_eager or change.library not in (None, LIBRDKAFKA):
        return Precondition(code, text, Verdict.VERIFIED, f"none, by {change.now}")
    found = f"none yet; librdkafka adds some with {change.now} from the second rebalance on"
    if change.library == LIBRDKAFKA:
        return Precondition(code, text, Verdict.REFUTED, found, refusal)
    check = f"Give --client java if no member uses librdkafka. Otherwise: {refusal}"
    return Precondition(code, text, Verdict.UNKNOWN, found, check)


def _client_version(library: str | None, version: tuple[int, ...] | None) -> Precondition:
    names = ", ".join(
        f"{facts.consumer_since} of {'java' if name == KAFKA_CLIENTS else name}"
        for name, facts in FACTS.items()
        if facts.consumer_since
    )
    text = f"Clients support the consumer protocol: {names} or later."
    since = library and FACTS[library].consumer_since
    if library is not None and since is None:
        found = f"{library} does not support it"
        check = "Give --client LIBRARY if members use another library, or will use it."
        return Precondition("client-version", text, Verdict.REFUTED, found, check)
    if since is None or version is None:
        return Precondition(
            "client-version",
            text,
            Verdict.UNKNOWN,
            f"members use {library}; a cluster does not report versions"
            if library
            else "a cluster does not report which clients a group has",
            "Give --client and --client-version, or look at the brokers' metrics, which "
            "count connections by clientSoftwareName and clientSoftwareVersion.",
        )
    found = f"{library} {'.'.join(map(str, version))}"
    if version >= tuple(map(int, since.split("."))):
        return Precondition("client-version", text, Verdict.VERIFIED, found)
    check = f"Upgrade the applications to {since} or later first."
    return Precondition("client-version", text, Verdict.REFUTED, found, check)


def _common_strategy(change: ProtocolChange) -> Precondition:
    text = f"Members that use the classic protocol support {change.assignor}."
    by_name = change.running.by_name
    lists = {
        name: member.classic_protocols
        for name, member in by_name.items()
        if member.uses_classic_protocol
    }
    code = "common-strategy"
    if not lists:
        return Precondition(code, text, Verdict.VERIFIED, "there are none yet")
    without = [name for name, names in lists.items() if names and change.assignor not in names]
    if without:
        found = "; ".join(f"{name}: {', '.join(lists[name] or ())}" for name in without)
        check = (
            "Choose an assignor that they support with --assignor; members without a "
            "common assignor get INCONSISTENT_GROUP_PROTOCOL."
        )
        return Precondition(code, text, Verdict.REFUTED, found, check)
    if unknown := [name for name, names in lists.items() if not names]:
        found = f"a cluster does not report it for {first_names(unknown)}"
        check = f"Check {STRATEGY} of each."
        return Precondition(code, text, Verdict.UNKNOWN, found, check)
    return Precondition(code, text, Verdict.VERIFIED, f"{len(lists)} do")


def _patterns(change: ProtocolChange) -> Precondition:
    text = "No application subscribes with a SubscriptionPattern, which only the broker can match."
    regexes = {
        name: member.subscription.regex
        for name, member in change.running.by_name.items()
        if member.subscription is not None and member.subscription.regex
    }
    if not regexes:
        found = "all subscribe to topics by name"
        return Precondition("patterns", text, Verdict.VERIFIED, found)
    return Precondition(
        "patterns",
        text,
        Verdict.UNKNOWN,
        "; ".join(f"{name}: {regex}" for name, regex in regexes.items()),
        "Let these programs subscribe with a java.util.regex.Pattern when they come back "
        "(classic consumers throw UnsupportedOperationException otherwise); RE2 and Java agree "
        "on most expressions, but Java's pattern need not match the whole name.",
    )


_IN_ORDER = "Shut it down cleanly, so that what it has read is committed."


def plan_consumer_protocol(
    running: RunningGroup,
    behavior: ProgramBehavior,
    *,
    back: bool = False,
    assignor: str | None = None,
    stops: bool = False,
    library: str | None = None,
    version: tuple[int, ...] | None = None,
) -> Plan:
    """Return a plan to change a group to the consumer protocol, or back.

    Args:
        running: the group.
        behavior: behavior of the group's applications.
        back: change to the classic protocol instead.
        assignor: new server-side assignor, or with `back` client-side strategy; None: the most
            similar one.
        stops: stop the group for the change.
        library: client library of all members; None to identify it from the members.
        version: version of the client library after the change; None if unknown.

    Raises:
        UsageError: the strategy is unknown.
    """
    if back and assignor is not None:
        assignor = strategy_named(assignor)
    group = running.group
    library = library or running.library
    stops = stops or bool(running.connectors)  # its tasks share settings and restarts
    change = ProtocolChange(running, back, stops, assignor, library)
    plan = plan_of(
        *(group, MigrationTarget.CONSUMER_PROTOCOL, "back" if back else None, (running.rests,)),
        f"Nothing to do: every member uses the {change.protocol} protocol.",
    )
    if not (change.moved or running.is_stopped):
        return plan
    plan = replace(plan, preconditions=tuple(conditions(change, version)))
    if plan.is_refuted:
        return plan.refused()
    if running.is_stopped:
        summary = "The group is stopped, so no restart is needed."
        return plan.carried_out(summary, (_start(change),))
    steps, total = forecast(change.running.scenario, _moves(change, behavior), behavior)
    return plan.carried_out(
        _summary(change), steps, total, None if stops else _naive(change, behavior)
    )


def _start(change: ProtocolChange) -> PlanStep:
    assignor = change.assignor or (None if change.back else change.default)
    type_ = GroupType.CLASSIC if change.back else GroupType.CONSUMER
    return started_with(
        f"the {change.protocol} protocol",
        tuple(replace(setting, before=None) for setting in change.settings(())),
        (f"{kgroup_on(change.group, 'describe')} shows the type {change.protocol}.",),
        Expected(type_, assignor, members=1, protocol=None if change.back else "consumer"),
    )


def _summary(change: ProtocolChange) -> str:
    way = "with the group stopped" if change.stops else "in one rolling restart"
    others = len(change.running.by_name) - len(change.moved)
    if others and not change.stops:
        way += f" of {len(change.moved)} of {len(change.running.by_name)} members"
    return f"To the {change.protocol} protocol {way}."


def _moves(change: ProtocolChange, behavior: ProgramBehavior) -> list[PlayedStep]:
    if change.stops:
        return [_stopped(change, behavior)]
    if change.back:
        return [_rolling(change, _back_step(change, behavior), behavior)]
    if change.is_begun or len(change.moved) == 1:
        return [_rolling(change, _others_step(change, change.moved, behavior), behavior)]
    first, others = change.moved[:1], change.moved[1:]
    return [
        _rolling(change, _first_step(change, first, behavior), behavior),
        _rolling(change, _others_step(change, others, behavior), behavior),
    ]


def _rolling(change: ProtocolChange, step: PlanStep, behavior: ProgramBehavior) -> PlayedStep:
    return rolling_restart(step, change.running.scenario, change.plans(step.restarted), behavior)


def _step(
    change: ProtocolChange,
    names: Sequence[str],
    title: str,
    see: Sequence[str],
    behavior: ProgramBehavior,
) -> PlanStep:
    count = len(change.running.by_name)
    if change.back:
        expected = Expected(GroupType.CLASSIC, change.assignor, is_restarted=True, members=count)
    else:
        assignor = change.assignor or change.default
        expected = Expected(
            GroupType.CONSUMER, assignor, is_restarted=True, members=count, protocol="consumer"
        )
    return PlanStep(
        0,
        title,
        tuple(names),
        tuple(change.settings(names)),
        (*([how_to_restart(behavior, len(names))] if len(names) > 1 else []), _IN_ORDER),
        see=tuple(see),
        back=_way_back(change),
        expected=expected,
    )


def _way_back(change: ProtocolChange) -> str:
    """Return how to roll back, which depends on the brokers' migration policy."""
    policy = change.brokers.policy
    stopped = "stop all members, and start them with their previous settings"
    if change.back:
        text = "Restart the members one by one with their previous settings."
        needed, may = MigrationPolicy.UPGRADE, policy is not None and policy.upgrades
        other = (
            "members that return to a classic group get GROUP_ID_NOT_FOUND: once the group is "
            f"classic, {stopped}"
        )
    else:
        text = (
            "Restart these members again with their previous settings: when the last of them "
            "stops, the group becomes a classic group again."
        )
        needed, may = MigrationPolicy.DOWNGRADE, policy is not None and policy.downgrades
        other = f"the group stays a consumer group: {stopped}"
    if may:
        return text
    if policy is None:
        return f"{text} If {MIGRATION_POLICY} is not {needed} or bidirectional, {other}."
    return f"Because {MIGRATION_POLICY} is {policy}, {other}."


def _first_step(
    change: ProtocolChange, names: Sequence[str], behavior: ProgramBehavior
) -> PlanStep:
    """Return the step that restarts one member: it converts the group, and tests the policy."""
    if change.is_eager:
        others = (
            "stop reading for a moment each time, as their assignor may be eager: they "
            "revoke everything and get it back at once"
        )
    else:
        others = "continue to read partitions that do not move"
    step = _step(
        change,
        names,
        "Restart one member with the consumer protocol",
        (
            _is_consumer_group(change),
            "The coordinator asks members that still use the classic protocol to rejoin "
            "whenever their assignment changes, but they wait for no other member; they "
            f"{others}.",
        ),
        behavior,
    )
    return replace(
        step,
        actions=(
            "Any member will do; `kgroup plan verify` checks this one.",
            *step.actions,
            *change.about_session,
        ),
        commands=change.session_commands,
        expected=replace(step.expected, protocol=None),
    )


def _is_consumer_group(change: ProtocolChange) -> str:
    assignor = change.assignor or change.default
    shown = f" and the assignor {assignor}" if assignor else ""
    return (
        "When the first member returns, the group becomes a consumer group: the group epoch "
        "continues from the generation, and the coordinator assigns instead of the leader. "
        f"{kgroup_on(change.group, 'describe')} shows the type consumer{shown}."
    )


def _others_step(
    change: ProtocolChange, names: Sequence[str], behavior: ProgramBehavior
) -> PlanStep:
    see = [
        "Heartbeat responses tell each restarted member what to revoke and what to take; it "
        "continues to read meanwhile.",
        f"{kgroup_on(change.group, 'describe', '-o', 'json')} has uses_classic_protocol: false for "
        "every member.",
    ]
    if any(change.running.by_name[name].instance_id for name in names):
        session_ms = change.brokers.number(CONSUMER_SESSION)
        see.append(
            "A static member that stops keeps its partitions until it returns, at most for the "
            f"session timeout of the broker ({CONSUMER_SESSION}"
            + (f", {session_ms} ms)." if session_ms is not None else ").")
        )
    if len(names) < len(change.running.by_name):
        return _step(
            change, names, "Restart the other members with the consumer protocol", see, behavior
        )
    see.insert(0, _is_consumer_group(change))
    step = _step(change, names, "Restart every member with the consumer protocol", see, behavior)
    return replace(
        step, actions=(*step.actions, *change.about_session), commands=change.session_commands
    )


def _back_step(change: ProtocolChange, behavior: ProgramBehavior) -> PlanStep:
    names = change.moved
    title = "Restart every member with the classic protocol"
    if len(names) < len(change.running.by_name):
        title = "Restart the members that use the consumer protocol with the classic protocol"
    return _step(
        change,
        names,
        title,
        (
            "The group stays a consumer group, with members of both protocols, until the last one "
            "that uses the consumer protocol stops or, if it is static, returns.",
            "Then it becomes a classic group whose generation continues from the epoch, and the "
            "leader assigns: from now on, a rebalance involves all members.",
            f"{kgroup_on(change.group, 'describe')} shows the type classic and the assignor "
            f"{change.assignor}.",
        ),
        behavior,
    )


def _stopped(change: ProtocolChange, behavior: ProgramBehavior) -> PlayedStep:
    names = tuple(change.running.by_name)
    step = _step(
        change,
        names,
        f"Stop the whole group, and start it with the {change.protocol} protocol",
        (f"{kgroup_on(change.group, 'describe')} shows the type {change.protocol}.",),
        behavior,
    )
    step = replace(
        step,
        actions=(*how_to_stop(change.group), *how_to_start(change.group), *change.about_session),
        commands=(*removal(change.group), *change.session_commands),
        back="Stop the group again, and start it with its previous settings.",
    )
    return stopped_group(step, change.running.scenario, change.plans(names), behavior)


def _naive(change: ProtocolChange, behavior: ProgramBehavior) -> NaiveWay:
    """Simulate a stop and start of the group."""
    plans = change.plans(tuple(change.running.by_name))
    move = stopped_group(NOT_PLANNED, change.running.scenario, plans, behavior)
    _, cost = forecast(change.running.scenario, [move], behavior)
    return NaiveWay("The whole group is stopped and started", cost)
