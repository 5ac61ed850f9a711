"""Whether groups could go to the consumer protocol (KIP-848) now, as their plan would see it."""

from __future__ import annotations

from collections.abc import Iterable

from kgroup.errors import BrokerError, InputError, NotFoundError, named_group
from kgroup.model.group import GroupType
from kgroup.model.problem import Problem
from kgroup.operation.check.look import finding_of
from kgroup.operation.check.rule import Finding, Rule
from kgroup.operation.description import GroupDescription
from kgroup.operation.plan.plan import Verdict
from kgroup.operation.plan.precondition.consumer_protocol import conditions
from kgroup.operation.plan.protocol_change import ProtocolChange
from kgroup.operation.plan.running import read_running
from kgroup.source.base import GroupSource

__all__ = ["check_readiness"]


def check_readiness(
    source: GroupSource, groups: Iterable[GroupDescription]
) -> tuple[list[Finding], list[Problem]]:
    """Tell of each classic group with members whether it could change now, and why it could not.

    Returns:
        A finding for each of them, and what could not be read.
    """
    findings, problems = [], []
    for group in groups:
        if group.type is not GroupType.CLASSIC or group.protocol_type != "consumer":
            continue
        if not group.members:
            continue
        try:
            findings.append(_of_group(source, group))
        except (BrokerError, InputError, NotFoundError) as error:
            reason = str(error).removeprefix(f"{named_group(group.group_id)}: ")
            problems.append(Problem(error.kind, reason, group_id=group.group_id))
    return findings, problems


def _of_group(source: GroupSource, group: GroupDescription) -> Finding:
    running = read_running(source, group.group_id)
    change = ProtocolChange(running, False, False, None, running.library)
    preconditions = tuple(conditions(change, None))
    refuted = [each for each in preconditions if each.verdict is Verdict.REFUTED]
    unknown = [each.code for each in preconditions if each.verdict is Verdict.UNKNOWN]
    text = f"Ready as far as is known; not known: {', '.join(unknown)}."  # a client's version never
    if refuted:
        text = f"Not ready: {'; '.join(f'{each.code} ({each.found})' for each in refuted)}."
    return finding_of(Rule.CONSUMER_PROTOCOL, text, group.group_id)
