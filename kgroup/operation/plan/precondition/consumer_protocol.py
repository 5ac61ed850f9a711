"""What must hold before a group goes to the consumer protocol, or back from it.

Source: `GroupMetadataManager.validateOnlineUpgrade`, `validateOnlineDowngrade...`,
`throwIfConsumerGroupIsFull` and `ConsumerGroup.fromClassicGroup` of 4.3.1,
`KafkaApis.isConsumerGroupProtocolEnabled`; `ClassicKafkaConsumer` of kafka-clients, which knows no
`SubscriptionPattern`.
"""

from __future__ import annotations

from collections.abc import Iterator

from kgroup.assignor.strategy import strategies
from kgroup.errors import near_names
from kgroup.model.client_library import LIBRDKAFKA
from kgroup.operation.plan.assignor import STRATEGY, one_by_one
from kgroup.operation.plan.connect import settable
from kgroup.operation.plan.coordinator import (
    ASSIGNORS,
    CONSUMER_GROUP_HEARTBEAT,
    MIGRATION_POLICY,
    PROTOCOLS,
    Brokers,
    kgroup_on,
)
from kgroup.operation.plan.plan import Precondition, Verdict
from kgroup.operation.plan.protocol_change import ProtocolChange
from kgroup.operation.report import first_names
from kgroup.simulation.consumer.settings import MigrationPolicy

_FEATURE = "group.version"
_SINCE = {"java": (4, 0), LIBRDKAFKA: (2, 12)}
"""Version of a client from which on its consumer protocol is for production."""


def conditions(change: ProtocolChange, version: tuple[int, ...] | None) -> Iterator[Precondition]:
    """Tell what must hold.

    Args:
        change: of the group.
        version: of the library that members will have; None where nobody says it.
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
    if not change.is_begun and change.is_eager:
        yield one_by_one(change.now, change.running.connectors)


def _support(change: ProtocolChange) -> Precondition:
    brokers = change.brokers
    code, text = "broker-support", "Brokers serve the consumer protocol (Kafka 4.0 or later)."
    if change.is_begun:
        found = "the group is a consumer group already"
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
    served = None if protocols is None else [each.strip() for each in protocols.lower().split(",")]
    if served is not None and "consumer" not in served:
        found = f"{PROTOCOLS} is {protocols} on {brokers.name}"
        check = f"Add consumer to {PROTOCOLS} of every broker, and restart the brokers."
        return Precondition(code, text, Verdict.REFUTED, found, check)
    if features.levels is None:
        check = f"{shown} shows {_FEATURE} with FinalizedVersionLevel 1."
        found = f"{brokers.name} does not tell its finalized features"
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
    text = f"A group with members may change: {MIGRATION_POLICY} is {needed} or bidirectional."
    policy = brokers.policy
    if policy is None:
        found = brokers.why or f"{brokers.name} does not tell {MIGRATION_POLICY}"
        return Precondition(code, text, Verdict.UNKNOWN, found, brokers.ask(MIGRATION_POLICY))
    found = f"{policy} on {brokers.name}"
    if policy.downgrades if back else policy.upgrades:
        return Precondition(code, text, Verdict.VERIFIED, found)
    refusal = (
        "INCONSISTENT_GROUP_PROTOCOL to members that come back with the classic protocol"
        if policy is MigrationPolicy.DISABLED
        else "the group would stay a consumer group, with members of the classic protocol"
    )
    if not back:
        refusal = "GROUP_ID_NOT_FOUND to members that come back with the consumer protocol"
    check = (
        f"Set {MIGRATION_POLICY}=bidirectional on every broker and restart the brokers, or plan it "
        f"with --stop: an empty group may always change. The broker's answer would be: {refusal}."
    )
    return Precondition(code, text, Verdict.REFUTED, found, check)


def _size(change: ProtocolChange) -> Precondition:
    brokers, stops = change.brokers, change.stops
    count = len(change.group.members)
    needed = {"group.consumer.max.size": count}
    text = f"The group of {count} is not larger than it may be."
    if not stops and any(each.instance_id for each in change.group.members):
        # The coordinator counts a static member and the one that comes in its place.
        needed = {"group.consumer.max.size": count + 1}
        text = f"The group of {count} may have one more, while a static member comes back."
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
        why = found or brokers.why or f"{brokers.name} does not tell {unknown[0]}"
        return Precondition("group-size", text, Verdict.UNKNOWN, why, brokers.ask("max.size"))
    return Precondition("group-size", text, Verdict.VERIFIED, found)


def _spoken(change: ProtocolChange) -> Precondition:
    text = "It is known which protocol each member speaks."
    by_name = change.running.by_name
    unknown = [name for name, each in by_name.items() if each.uses_classic_protocol is None]
    if unknown:
        return Precondition(
            "spoken-protocol",
            text,
            Verdict.UNKNOWN,
            f"nobody tells it of {first_names(unknown)}",
            "Look at group.protocol of each; members that have it already need no restart.",
        )
    classic = [name for name, each in by_name.items() if each.uses_classic_protocol]
    found = f"classic: {first_names(classic)}" if classic else "consumer: all of them"
    return Precondition("spoken-protocol", text, Verdict.VERIFIED, found)


def _known_assignor(change: ProtocolChange) -> Precondition:
    wanted = change.assignor
    code = "server-assignor"
    known = change.brokers.assignors
    check = change.brokers.ask(ASSIGNORS)
    if known is None:
        text = f"The broker has the assignor {wanted}." if wanted else "The broker assigns."
        usual = strategies("consumer")
        meant = "" if wanted is None or wanted in usual else near_names(wanted, usual)
        why = change.brokers.why or f"{change.brokers.name} does not tell {ASSIGNORS}"
        return Precondition(code, text, Verdict.UNKNOWN, f"{why}{meant}", check)
    found = f"{ASSIGNORS} is {', '.join(known)} on {change.brokers.name}"
    if wanted is None:
        text = f"The broker assigns, by {change.default}{_in_the_place_of(change)}."
        return Precondition(code, text, Verdict.VERIFIED, found)
    text = f"The broker has the assignor {wanted}"
    text += "." if wanted == change.now else f"{_in_the_place_of(change)}."
    if wanted in known:
        return Precondition(code, text, Verdict.VERIFIED, found)
    if any("." in each for each in known):
        found += "; what those classes call themselves nobody tells"
        return Precondition(code, text, Verdict.UNKNOWN, found, check)
    check = (
        f"Choose one of {', '.join(known)} with --assignor; members that ask for another one "
        f"are answered UNSUPPORTED_ASSIGNOR{near_names(wanted, known) or '.'}"
    )
    return Precondition(code, text, Verdict.REFUTED, found, check)


def _in_the_place_of(change: ProtocolChange) -> str:
    return f", in the place of {change.now}" if change.now else ""


def _user_data(change: ProtocolChange) -> Precondition:
    """Tell whether assignments hold what a broker cannot keep.

    Custom assignors may add something. That of librdkafka for cooperative-sticky gives back what
    members have sent with their subscriptions, which is something from the second rebalance on
    (`rd_kafka_group_MemberState_consumer_write`).
    """
    code, text = "user-data", "Assignments hold no data of a client-side assignor, to be lost."
    refusal = (
        "The broker answers GROUP_ID_NOT_FOUND to members that come back with the consumer "
        "protocol. Plan it with --stop, or move the group to range first: "
        f"{kgroup_on(change.group, 'plan assignor range')}"
    )
    by_name = change.running.by_name
    have = [name for name, each in by_name.items() if each.assignment_user_data]
    if have:
        found = f"those of {first_names(have)} do"
        return Precondition(code, text, Verdict.REFUTED, found, refusal)
    if change.is_eager or change.library == "java":
        return Precondition(code, text, Verdict.VERIFIED, f"none, by {change.now}")
    found = f"none yet; librdkafka adds some with {change.now} from the second rebalance on"
    if change.library == LIBRDKAFKA:
        return Precondition(code, text, Verdict.REFUTED, found, refusal)
    check = f"Say --client java where no member is of librdkafka. Else: {refusal}"
    return Precondition(code, text, Verdict.UNKNOWN, found, check)


def _client_version(library: str | None, version: tuple[int, ...] | None) -> Precondition:
    names = ", ".join(f"{'.'.join(map(str, least))} of {name}" for name, least in _SINCE.items())
    text = f"Clients know the consumer protocol: from {names} on."
    least = _SINCE.get(library or "")
    if least is None or version is None:
        return Precondition(
            "client-version",
            text,
            Verdict.UNKNOWN,
            f"members are of {library}; a cluster does not tell versions"
            if library
            else "a cluster does not tell by its protocol which clients a group has",
            "Say it with --client and --client-version, or look at the brokers' metrics, which "
            "count connections by clientSoftwareName and clientSoftwareVersion.",
        )
    found = f"{library} {'.'.join(map(str, version))}"
    if version >= least:
        return Precondition("client-version", text, Verdict.VERIFIED, found)
    check = f"Bring the programs to {'.'.join(map(str, least))} or later first."
    return Precondition("client-version", text, Verdict.REFUTED, found, check)


def _common_strategy(change: ProtocolChange) -> Precondition:
    text = f"Members that speak the classic protocol support {change.assignor}."
    by_name = change.running.by_name
    lists = {
        name: each.classic_protocols for name, each in by_name.items() if each.uses_classic_protocol
    }
    code = "common-strategy"
    if not lists:
        return Precondition(code, text, Verdict.VERIFIED, "there are none yet")
    without = [name for name, each in lists.items() if each and change.assignor not in each]
    if without:
        found = "; ".join(f"{name}: {', '.join(lists[name] or ())}" for name in without)
        check = (
            "Choose one that they have with --assignor; members without a strategy in common "
            "are answered INCONSISTENT_GROUP_PROTOCOL."
        )
        return Precondition(code, text, Verdict.REFUTED, found, check)
    if unknown := [name for name, each in lists.items() if not each]:
        found = f"a cluster does not tell it of {first_names(unknown)}"
        check = f"Look at {STRATEGY} of each."
        return Precondition(code, text, Verdict.UNKNOWN, found, check)
    return Precondition(code, text, Verdict.VERIFIED, f"{len(lists)} do")


def _patterns(change: ProtocolChange) -> Precondition:
    text = "No program subscribes with a SubscriptionPattern, which is for the broker to match."
    regexes = {
        name: each.subscription.regex
        for name, each in change.running.by_name.items()
        if each.subscription is not None and each.subscription.regex
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
