"""Play scenarios of consumer groups."""

from __future__ import annotations

from base64 import urlsafe_b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.resources import files

from kgroup.assignor.spec import MemberSpec
from kgroup.errors import InputError, NotFoundError
from kgroup.model.group import Member
from kgroup.operation.assign.group import before_rebalance, find_group, group_spec
from kgroup.operation.report import Report, first_names
from kgroup.simulation.client.config import ClientConfig
from kgroup.simulation.scenario.file import read_scenario
from kgroup.simulation.scenario.play import play
from kgroup.simulation.scenario.scenario import Action, MemberPlan, Scenario, Start, Step
from kgroup.simulation.timeline import Simulation
from kgroup.source.base import GroupSource

__all__ = [
    "ShippedScenario",
    "group_as_it_is",
    "read_scenario",
    "scenario_names",
    "shipped_scenario",
    "shipped_scenarios",
    "simulate",
    "with_steps",
]

_WATCHED_MS = 120_000
"""How long a group is watched to which nothing happens, or one thing at the begin."""
_SOON_MS = 1_000

_FOLDER = files("kgroup.simulation.scenario") / "shipped"


@dataclass(frozen=True, slots=True)
class ShippedScenario:
    """A scenario that comes with kgroup.

    Attributes:
        name: by which it is played.
        title: what happens in it.
        about: what there is to see.
    """

    name: str
    title: str | None
    about: str | None


def scenario_names() -> tuple[str, ...]:
    """Return the names of the shipped scenarios."""
    return tuple(sorted(each.name.removesuffix(".toml") for each in _FOLDER.iterdir()))


def shipped_scenario(name: str) -> str:
    """Return the text of a shipped scenario, one of `scenario_names`."""
    return (_FOLDER / f"{name}.toml").read_text("utf-8")


def shipped_scenarios() -> Report[ShippedScenario]:
    """Return the shipped scenarios, sorted by name."""
    found = []
    for name in scenario_names():
        scenario = read_scenario(shipped_scenario(name), name)
        found.append(ShippedScenario(name, scenario.title, scenario.about))
    return Report(tuple(found))


def simulate(
    scenario: Scenario, *, seed: int = 0, runs: int = 1, until_stable: bool = False
) -> Report[Simulation]:
    """Play a scenario, once or with several seeds, of which this is the first.

    Returns:
        What happened in each run; notes say what was not over at the end.
    """
    found = tuple(play(scenario, seed + run, until_stable=until_stable) for run in range(runs))
    unfinished = [each.rebalances[-1] for each in found if each.rebalances]
    counts = {
        "a rebalance was not over": sum(each.end_ms is None for each in unfinished),
        "the group did not rest": sum(not each.is_at_rest for each in found if until_stable),
    }
    end = f"at the end, after {scenario.duration_ms / 1000:,g} s"
    return Report(
        found,
        notes=tuple(
            f"{end}, {what}" + (f" in {count} of {runs} runs" if runs > 1 else "")
            for what, count in counts.items()
            if count
        ),
    )


def group_as_it_is(source: GroupSource, group_id: str) -> Report[Scenario]:
    """Make a scenario in which a group is as a source knows it, and nothing happens.

    Returns:
        The scenario; notes are what was assumed.

    Raises:
        NotFoundError: there is no such group.
        InputError: it is none of the classic protocol, or nobody knows what its members read.
    """
    reading, found = find_group(source, group_id)
    if not found.members:
        raise InputError(
            f"group {group_id}: expected members, found none (state {found.state or 'unknown'})",
            group_id=group_id,
        )
    report = group_spec(source, reading, found, hint="")
    (spec,) = report.data
    if spec.protocol not in ("classic", "consumer"):
        raise InputError(
            f"group {group_id}: expected a group of the classic or the consumer protocol, found "
            f"{found.type}",
            group_id=group_id,
        )
    is_consumer_group = spec.protocol == "consumer"
    notes = list(report.notes)
    group = before_rebalance(found, [])
    known = {member.member_id: member for member in group.members}
    names = _names(spec.members_as_sent)
    members = {}
    for each in spec.members_as_sent:
        name, member = names[each.member_id], known[each.member_id]
        config = _config(group_id, name, each, member)
        if member.classic_protocols is not None:
            notes.append(f"{name} uses the classic protocol; it is taken for one that does not")
        if is_consumer_group:
            config = _of_consumer_group(config, member)
        else:
            config = _of_classic_group(config, spec.strategy, member)
        members[name] = MemberPlan(config)
    generation_id = group.group_epoch if is_consumer_group else group.generation_id
    if generation_id is None:
        counted = "epoch" if is_consumer_group else "generation"
        notes.append(f"the group's {counted} is not known; it is counted from 1")
    first = spec.members_as_sent[0].member_id
    if spec.leader_id is None and not is_consumer_group:
        notes.append(f"the group's leader is not known; {names[first]} is taken")
    topics = {name: topic.partitions for name, topic in spec.topics.items()}
    owned = {each.member_id: each.owned or () for each in spec.members_as_sent}
    gone = sorted({at for each in owned.values() for at in each if at[1] >= topics.get(at[0], 0)})
    if gone:
        text = first_names([f"{topic}-{number}" for topic, number in gone])
        notes.append(f"members own partitions that are not there, which are left out: {text}")
    offsets = {
        (each.topic, each.partition): each.committed_offset
        for each in group.offsets
        if each.partition < topics.get(each.topic, 0)
    }
    start = Start(
        generation_id or 1,
        spec.strategy,
        spec.leader_id or first,
        {
            names[member_id]: (member_id, tuple(at for at in each if at not in gone))
            for member_id, each in owned.items()
        },
        offsets,
        {each: offset + spec.lags.get(each, 0) for each, offset in offsets.items()},
        {name: urlsafe_b64encode(each).decode()[:22] for name, each in spec.topic_ids.items()},
        is_consumer_group,
    )
    title = f"Group {group_id} as it is"
    scenario = Scenario(group_id, topics, members, (), _WATCHED_MS, title, start=start)
    return Report((scenario,), report.errors, tuple(notes))


def _names(members: Sequence[MemberSpec]) -> Mapping[str, str]:
    """Name members by their instances or clients, where these tell them apart; by id."""
    ids = [each.member_id for each in members]
    for names in ([each.instance_id for each in members], [each.client_id for each in members]):
        told = [name for name in names if name]
        if len(set(told)) == len(ids):
            return dict(zip(ids, told, strict=True))
    return dict(zip(ids, ids, strict=True))


def _config(group_id: str, name: str, spec: MemberSpec, member: Member) -> ClientConfig:
    """Configure a consumer as far as its coordinator knows how, and else by default."""
    config = ClientConfig(
        group_id, spec.client_id or name, spec.topics, instance_id=spec.instance_id, rack=spec.rack
    )
    timeout_ms = member.rebalance_timeout_ms or config.max_poll_interval_ms
    return replace(config, max_poll_interval_ms=timeout_ms)


def _of_classic_group(config: ClientConfig, strategy: str, member: Member) -> ClientConfig:
    session_ms = member.session_timeout_ms or config.session_timeout_ms
    return replace(
        config,
        strategies=(strategy,),
        session_timeout_ms=session_ms,
        heartbeat_interval_ms=min(config.heartbeat_interval_ms, session_ms // 3),
    )


def _of_consumer_group(config: ClientConfig, member: Member) -> ClientConfig:
    subscription = member.subscription
    assert subscription is not None  # its group would have been refused
    return replace(
        config,
        topics=tuple(subscription.topics or ()),
        regex=subscription.regex or None,
        group_protocol="consumer",
        remote_assignor=member.assignor,
    )


def with_steps(scenario: Scenario, steps: Sequence[tuple[Action, str]]) -> Scenario:
    """Let something happen to members of a group that is there, a second from its begin.

    Raises:
        NotFoundError: the group has no such member.
    """
    ids = {} if scenario.start is None else scenario.start.members
    names = {member_id: name for name, (member_id, _) in ids.items()} | {n: n for n in ids}
    found = []
    for action, member in steps:
        if member not in names:
            raise NotFoundError(
                f"group {scenario.group_id}: expected a member ({first_names(list(ids))}), found "
                f"{member!r}",
                group_id=scenario.group_id,
            )
        found.append(Step(_SOON_MS, action, names[member]))
    return replace(scenario, steps=(*found, *scenario.steps))
