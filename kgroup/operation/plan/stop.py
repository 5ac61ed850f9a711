"""Instructions to stop a whole group, and to start a stopped group."""

from __future__ import annotations

from kgroup.model.group import Group
from kgroup.operation.plan.connect import (
    how_to_resume,
    how_to_stop_connectors,
    overrides,
    sink_connectors,
)
from kgroup.operation.plan.coordinator import kgroup_on
from kgroup.operation.plan.plan import Expected, PlanStep, SettingChange


def how_to_stop(group: Group) -> tuple[str, ...]:
    """Return how to stop the members, and when they have stopped."""
    stay = ""
    if removal(group):
        stay = (
            ": static members stay until their sessions have expired, or the command below, run "
            "before any is started, removes them"
        )
    stop = (
        "Shut down all members cleanly, so that what they have read is committed, and "
        "make sure that nothing starts them again."
    )
    if connectors := sink_connectors(group.members):
        stop = how_to_stop_connectors(connectors)
    return (stop, f"Wait until {seen_stopped(group)}{stay}.")


def how_to_start(group: Group) -> tuple[str, ...]:
    """Return how to start the members again, with the settings of the step."""
    if connectors := sink_connectors(group.members):
        return overrides(connectors), how_to_resume(connectors)
    return ("Start all members.",)


def removal(group: Group) -> tuple[str, ...]:
    """Return the command that removes static members, which do not leave when they stop."""
    if all(member.instance_id is None for member in group.members):
        return ()
    return (kgroup_on(group, "members remove", "--all", "--execute"),)


def seen_stopped(group: Group) -> str:
    """Return how to see that the group is stopped; a group without commits disappears."""
    shown = f"{kgroup_on(group, 'describe')} shows it Empty"
    return shown if group.offsets else f"{shown}, or no longer: it has no commits that stay"


def started_with(
    what: str, settings: tuple[SettingChange, ...], see: tuple[str, ...], expected: Expected
) -> PlanStep:
    """Return the step that configures and starts the members of a stopped group.

    Args:
        what: new configuration, to complete "Start the members with".
        settings: settings of the members.
        see: what is visible afterwards.
        expected: conditions that `kgroup plan verify` checks.
    """
    return PlanStep(
        1,
        f"Start the members with {what}",
        settings=settings,
        actions=(
            "Configure every application before the first one starts; the order does not matter.",
        ),
        see=see,
        back="Stop all members, and start them with their previous settings.",
        expected=expected,
    )
