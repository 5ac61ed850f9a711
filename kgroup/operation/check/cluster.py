"""What is wrong with the brokers that coordinate groups, and with where they keep them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from kgroup.model.offsets_partition import OFFSETS_TOPIC
from kgroup.operation.check.look import Evidence, finding_of
from kgroup.operation.check.rule import Finding, Rule, Severity
from kgroup.operation.report import first_names

_FEW_GROUPS = 20
"""Fewer in all are not spread evenly, and need not be."""


def check_cluster(evidence: Evidence) -> Iterator[Finding]:
    """Judge a cluster of which all groups were looked at."""
    yield from _coordinators(evidence)
    yield from _offsets_topic(evidence)


def _coordinators(evidence: Evidence) -> Iterator[Finding]:
    cluster = evidence.cluster
    groups = evidence.now.groups.values()
    coordinated = Counter(group.coordinator.id for group in groups if group.coordinator)
    total = sum(coordinated.values())
    if cluster is None or len(cluster.brokers) < 2 or total < _FEW_GROUPS:
        return
    mean = total / len(cluster.brokers)
    for broker, count in coordinated.items():
        if count > mean * evidence.limits.coordinated:
            yield finding_of(
                Rule.COORDINATOR_LOAD,
                f"Broker {broker} coordinates {count} of {total} groups; {mean:.0f} are the mean "
                f"of {len(cluster.brokers)} brokers.",
                broker=broker,
            )


def _offsets_topic(evidence: Evidence) -> Iterator[Finding]:
    topic = evidence.cluster and evidence.cluster.topics.get(OFFSETS_TOPIC)
    if not topic or not topic.partitions or evidence.cluster is None:
        return
    parts = topic.partitions
    headless = sorted(number for number, each in parts.items() if each.leader is None)
    behind = sorted(number for number, each in parts.items() if len(each.isr) < len(each.replicas))
    if headless:
        yield _of_topic(f"Partitions without a leader: {first_names(headless)}.")
    if behind:
        yield _of_topic(f"Partitions with replicas that are not in sync: {first_names(behind)}.")
    policy = evidence.offsets_policy
    if policy is not None and policy != "compact":
        yield _of_topic(f"cleanup.policy is {policy}: commits are deleted.")
    if len(evidence.cluster.brokers) < 2:
        return
    if all(len(each.replicas) == 1 for each in parts.values()):
        text = f"One replica, of {len(evidence.cluster.brokers)} brokers."
        yield _of_topic(text, Severity.WARNING)
    if len(parts) == 1:
        text = "One partition: one broker coordinates all groups."
        yield _of_topic(text, Severity.WARNING)


def _of_topic(reason: str, severity: Severity = Severity.ERROR) -> Finding:
    return finding_of(Rule.OFFSETS_TOPIC, reason, severity=severity, topic=OFFSETS_TOPIC)
