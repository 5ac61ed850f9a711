"""Findings from migration plans: readiness for the consumer protocol, and better strategies."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from kgroup.errors import BrokerError, InputError, NotFoundError, named_group
from kgroup.model.group import Group, GroupType
from kgroup.model.problem import Problem
from kgroup.operation.check.look import finding_of
from kgroup.operation.check.rule import Finding, Rule
from kgroup.operation.describe import GroupDescription
from kgroup.operation.plan.advice import Proposal, judge_strategy
from kgroup.operation.plan.consumer_protocol import ProtocolChange, conditions
from kgroup.operation.plan.forecast import USUAL
from kgroup.operation.plan.plan import MigrationTarget, Verdict
from kgroup.operation.plan.running_group import read_running
from kgroup.operation.plan.static_membership import seconds
from kgroup.operation.printed_command import Reach, reaching
from kgroup.simulation.client.config import COOPERATIVE_STICKY
from kgroup.source.base import GroupSource


def check_readiness(
    source: GroupSource, groups: Iterable[GroupDescription]
) -> tuple[list[Finding], list[Problem]]:
    """Check whether classic groups with members could change to the consumer protocol now.

    Returns:
        A finding for each group, with the reasons if it could not; and what could not be read.
    """
    findings, problems = [], []
    for group in (description.group for description in groups):
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


def judge_strategies(
    source: GroupSource, findings: Iterable[Finding]
) -> tuple[list[Finding], list[Problem]]:
    """Add to findings about eager strategies whether cooperative-sticky is worth it.

    It is recommended if `kgroup plan GROUP` recommends it; both use the same forecast.

    Returns:
        All findings, and what could not be read.
    """
    judged, problems = [], []
    for finding in findings:
        strategy: Proposal | str | None = None
        if finding.code is Rule.EAGER_STRATEGY and finding.group_id is not None:
            options = reaching(Reach.SOURCE)
            try:
                strategy = judge_strategy(source, finding.group_id, USUAL, options=options)
            except (BrokerError, InputError, NotFoundError) as error:
                reason = str(error).removeprefix(f"{named_group(finding.group_id)}: ")
                problems.append(Problem(error.kind, reason, group_id=finding.group_id))
        judged.append(finding if strategy is None else _judged(finding, strategy))
    return judged, problems


def _judged(finding: Finding, proposal: Proposal | str) -> Finding:
    against = proposal if isinstance(proposal, str) else proposal.against
    if isinstance(proposal, str) or against is not None:
        objection = (
            (against or "")
            .removeprefix(f"{MigrationTarget.ASSIGNOR} {COOPERATIVE_STICKY}: ")
            .rstrip(".")
        )
        reason = f"{finding.reason} {COOPERATIVE_STICKY} is not worthwhile: {objection}."
        return replace(finding, reason=reason, advice="Nothing to do.")
    assert proposal.now is not None
    assert proposal.then is not None
    now_ms, then_ms = (compared.forecast.stopped_ms for compared in (proposal.now, proposal.then))
    return replace(
        finding,
        reason=f"{finding.reason} A rolling restart stops partitions for {seconds(now_ms)} in "
        f"total; with {COOPERATIVE_STICKY}, for {seconds(then_ms)}.",
        advice=f"Change to {COOPERATIVE_STICKY}: the plan has the steps.",
        commands=(proposal.command,),
    )


def _of_group(source: GroupSource, group: Group) -> Finding:
    running = read_running(source, group.group_id)
    change = ProtocolChange(running, False, False, None, running.library)
    preconditions = tuple(conditions(change, None))
    refuted = [
        precondition for precondition in preconditions if precondition.verdict is Verdict.REFUTED
    ]
    unknown = [
        precondition.code
        for precondition in preconditions
        if precondition.verdict is Verdict.UNKNOWN
    ]
    # Client versions are always unknown.
    text = f"Ready as far as known; unknown: {', '.join(unknown)}."
    if refuted:
        reasons = "; ".join(f"{condition.code} ({condition.found})" for condition in refuted)
        text = f"Not ready: {reasons}."
    return finding_of(Rule.CONSUMER_PROTOCOL, text, group.group_id)
