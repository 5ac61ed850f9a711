"""What must hold before a topic gets more partitions.

Source: `BuiltInPartitioner.partitionForKey` (murmur2 of the key, modulo the number of partitions),
`AutoOffsetResetStrategy` of Kafka 4.0 (`auto.offset.reset`).
"""

from __future__ import annotations

import re
from math import lcm
from shlex import quote

from kgroup.operation.plan.connect import OVERRIDE
from kgroup.operation.plan.coordinator import kafka_tool
from kgroup.operation.plan.plan import Precondition, Verdict
from kgroup.operation.plan.running import RunningGroup
from kgroup.operation.report import first_names

RESET = "auto.offset.reset"
_BY_DURATION = "by_duration:"
_DURATION = re.compile(
    r"P(?:(\d{1,9})D)?(?:T(?=\d)(?:(\d{1,9})H)?(?:(\d{1,9})M)?(?:(\d{1,9})(?:[.,](\d{0,9}))?S)?)?",
    re.ASCII | re.IGNORECASE,
)


def reset_duration_ms(reset: str) -> int | None:
    """Return how long ago the records are with which members begin; None: no time decides.

    Args:
        reset: `auto.offset.reset`: earliest, latest, none or by_duration:PnDTnHnMn.nS.

    Raises:
        ValueError: it is none of them.
    """
    if reset in ("earliest", "latest", "none"):
        return None
    found = _DURATION.fullmatch(reset.removeprefix(_BY_DURATION))
    if not reset.startswith(_BY_DURATION) or found is None or not any(found.groups()):
        raise ValueError(
            f"expected earliest, latest, none or by_duration:PnDTnHnMn.nS, found {reset!r}"
        )
    days, hours, minutes, seconds = (int(each or 0) for each in found.groups()[:4])
    whole_s = ((days * 24 + hours) * 60 + minutes) * 60 + seconds
    return whole_s * 1_000 + int((found[5] or "").ljust(3, "0")[:3])


def changed_keys(before: int, after: int) -> float:
    """Return which part of all keys the default partitioner sends elsewhere from then on.

    A hash has the same remainder by both numbers in as many of their least common multiple's
    classes as the smaller number says.
    """
    return 1 - min(before, after) / lcm(before, after)


def preconditions(
    running: RunningGroup,
    topic: str,
    before: int,
    count: int,
    reset: str | None,
    *,
    is_told: bool,
    is_restarted: bool = False,
) -> tuple[Precondition, ...]:
    """Tell what must hold before a topic that the group reads gets more partitions.

    Args:
        running: the group.
        topic: that it reads.
        before: how many partitions the topic has.
        count: how many it shall have.
        reset: what members have for `auto.offset.reset`; None where nobody says it.
        is_told: whether the cluster tells how many there are; else it is what members own, or the
            group has committed.
        is_restarted: whether members are to be restarted with another reset.
    """
    found = [running.rests, _more(running, topic, before, count, is_told=is_told)]
    if count <= before:
        return tuple(found)
    found.append(_keys(topic, before, count))
    if running.is_stopped:
        return tuple(found)
    found += [_joined(running, topic, before), _reset(running, reset)]
    if is_restarted:
        found.append(_commits(running))
    return tuple(found)


def _more(
    running: RunningGroup, topic: str, before: int, count: int, *, is_told: bool
) -> Precondition:
    text = f"{topic} has fewer than {count} partitions."
    if count == before:
        text = f"{topic} has {count} partitions."
    if count < before:
        return Precondition(
            "more-partitions",
            text,
            Verdict.REFUTED,
            str(before),
            "Partitions cannot be taken away: make another topic, and copy the records.",
        )
    if is_told:
        return Precondition("more-partitions", text, Verdict.VERIFIED, str(before))
    known = "known by commits" if running.is_stopped else "assigned"
    return Precondition(
        "more-partitions",
        text,
        Verdict.UNKNOWN,
        f"{before} are {known}, and this source does not tell more",
        kafka_tool(
            running.group.coordinator, "kafka-topics", "--describe", "--topic", quote(topic)
        ),
    )


def _keys(topic: str, before: int, count: int) -> Precondition:
    part = changed_keys(before, count)
    return Precondition(
        "keys",
        "Nobody relies on it that all records of a key are in one partition, or in their order.",
        Verdict.UNKNOWN,
        f"with the default partitioner (murmur2 of the key, modulo {before}, then {count}) "
        f"{100 * part:.3g} % of the keys go to another partition; what they have now stays",
        "Look whether records have keys, and whether members keep state or order by them. Then "
        "stop the producers, wait until the lag is 0, add the partitions, and start them: no "
        f"record overtakes another. A compacted {topic} keeps the last old value of each such key "
        "in its old partition.",
    )


def _joined(running: RunningGroup, topic: str, before: int) -> Precondition:
    text = f"No other topic is joined with {topic} by key: such topics need the same number."
    others = {name: n for name, n in running.scenario.topics.items() if name != topic}
    if not others:
        return Precondition("joined", text, Verdict.VERIFIED, "the group reads no other topic")
    alike = [name for name, n in others.items() if n == before]
    if not alike:
        found = ", ".join(f"{name} has {n}" for name, n in others.items())
        return Precondition("joined", text, Verdict.VERIFIED, f"{found}, and {topic} {before}")
    return Precondition(
        "joined",
        text,
        Verdict.UNKNOWN,
        f"also with {before} partitions: {first_names(alike)}",
        f"Look whether a member joins records of {topic} with theirs; if so, give them as many.",
    )


def _reset(running: RunningGroup, reset: str | None) -> Precondition:
    text = f"Members' {RESET} is known: a new partition has no commit."
    if reset is not None:
        found = f"--auto-offset-reset {reset}"
        return Precondition("auto-offset-reset", text, Verdict.VERIFIED, found)
    if running.connectors:
        return Precondition(
            "auto-offset-reset",
            text,
            Verdict.UNKNOWN,
            "Kafka Connect sets earliest for tasks of a sink connector, where nothing else is set",
            f"Look at consumer.{RESET} of the workers and at {OVERRIDE}{RESET} of the connector, "
            "and say it with --auto-offset-reset.",
        )
    return Precondition(
        "auto-offset-reset",
        text,
        Verdict.UNKNOWN,
        "no cluster tells it; the forecasts before step 1 and without the plan are of latest",
        f"Look at {RESET} of each member, and say it with --auto-offset-reset.",
    )


def _commits(running: RunningGroup) -> Precondition:
    text = "Every partition that the group reads has a commit: others would begin anew, too."
    committed = {(each.topic, each.partition) for each in running.group.offsets}
    lacking = [
        f"{topic}-{number}"
        for topic, count in running.scenario.topics.items()
        for number in range(count)
        if (topic, number) not in committed
    ]
    if not lacking:
        return Precondition("commits", text, Verdict.VERIFIED, f"{len(committed)} commits")
    return Precondition(
        "commits",
        text,
        Verdict.UNKNOWN,
        f"none of {first_names(lacking)}; the program may keep offsets elsewhere",
        "Wait until members have committed, and plan again; or look whether these partitions have "
        "records that were read and would be read again.",
    )
