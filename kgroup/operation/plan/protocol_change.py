"""What changes for whom when a group goes to the consumer protocol (KIP-848), or back.

Source: `ConsumerConfig` of kafka-clients 4.3.1, which refuses settings of the other protocol.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from kgroup.model.group import Group, GroupType
from kgroup.model.pattern import parse_regex
from kgroup.operation.plan.assignor import STRATEGY, configured_strategies
from kgroup.operation.plan.coordinator import CONSUMER_SESSION, Brokers
from kgroup.operation.plan.plan import SettingChange
from kgroup.operation.plan.running import RunningGroup
from kgroup.simulation.client.config import COOPERATIVE_STICKY, ClientConfig
from kgroup.simulation.scenario.scenario import MemberPlan

_PROTOCOL = "group.protocol"
_REMOTE = "group.remote.assignor"
_SESSION = "session.timeout.ms"
_HEARTBEAT = "heartbeat.interval.ms"
_JAVA_SESSION_MS = 45_000
_LEAST, _MOST = (f"group.consumer.{word}.session.timeout.ms" for word in ("min", "max"))


@dataclass(frozen=True)
class ProtocolChange:
    """A group that is to speak another protocol.

    Attributes:
        running: the group.
        back: whether it goes to the classic protocol.
        stops: whether it is stopped meanwhile.
        wanted: the assignor that it shall have, if somebody says it.
        library: of all members' clients, "java" or "librdkafka"; None where nobody says it.
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
        """Of its cluster."""
        return self.running.brokers

    @property
    def protocol(self) -> str:
        """Where it goes, "consumer" or "classic"."""
        return "classic" if self.back else "consumer"

    @property
    def is_begun(self) -> bool:
        """Whether the group is a consumer group, in which members may speak either."""
        return self.group.type is GroupType.CONSUMER

    @property
    def now(self) -> str:
        """Strategy or assignor of the group."""
        assert self.running.scenario.start is not None
        return self.running.scenario.start.protocol

    @property
    def is_eager(self) -> bool:
        """Whether members of the classic protocol may give up all when something changes."""
        return self.now != COOPERATIVE_STICKY

    @property
    def default(self) -> str | None:
        """The assignor of the broker, where members ask for none; None: unknown."""
        return (self.brokers.assignors or (None,))[0]

    @property
    def assignor(self) -> str | None:
        """The assignor or strategy that the group shall have; None: what the broker likes."""
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
        """The assignor that members are to ask for; None: none, it is that of the broker."""
        return None if self.assignor == self.default else self.assignor

    @cached_property
    def moved(self) -> tuple[str, ...]:
        """Names of the members that speak the other protocol, or may."""
        members = self.running.by_name
        if not self.is_begun:
            return () if self.back else tuple(members)
        return tuple(
            name for name, each in members.items() if each.uses_classic_protocol is not self.back
        )

    # --- for the simulator ---

    def plans(self, names: Sequence[str]) -> dict[str, MemberPlan]:
        """Configure members for their new protocol."""
        members = self.running.scenario.members
        return {
            name: replace(members[name], config=self._config(members[name].config))
            for name in names
        }

    def _config(self, config: ClientConfig) -> ClientConfig:
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

    # --- for people ---

    def settings(self, names: Sequence[str]) -> Iterator[SettingChange]:
        """Say what is to be set for members; settings of the other protocol are refused."""
        session_ms = self.brokers.number(CONSUMER_SESSION)
        if self.back:
            assert self.assignor is not None
            asked = {each.assignor for each in self.group.members}
            yield SettingChange(None, _PROTOCOL, "consumer", "classic")
            yield SettingChange(None, _REMOTE, asked.pop() if len(asked) == 1 else None, None)
            yield SettingChange(
                None, STRATEGY, None, configured_strategies((self.assignor,), self.library)
            )
            if session_ms is not None and session_ms != _JAVA_SESSION_MS:
                yield SettingChange(None, _SESSION, None, str(session_ms))
            return
        yield SettingChange(None, _PROTOCOL, "classic", "consumer")
        if self.asked_for is not None:
            yield SettingChange(None, _REMOTE, None, self.asked_for)
        yield SettingChange(None, STRATEGY, None, None)
        told = {self.running.by_name[each].session_timeout_ms for each in names}
        was = told.pop() if len(told) == 1 else None
        yield SettingChange(None, _SESSION, None if was is None else str(was), None)
        yield SettingChange(None, _HEARTBEAT, None, None)

    @property
    def _sessions(self) -> tuple[int, int] | None:
        """Return the members' session timeout and that of the broker, where they differ."""
        told = {each.session_timeout_ms for each in self.group.members}
        becomes = self.brokers.number(CONSUMER_SESSION)
        if self.back or self.is_begun or len(told) != 1 or becomes is None:
            return None
        (was,) = told
        return None if was is None or was == becomes else (was, becomes)

    @property
    def _may_keep_session(self) -> bool:
        low, high = self.brokers.number(_LEAST), self.brokers.number(_MOST)
        if self._sessions is None or low is None or high is None:
            return False
        return low <= self._sessions[0] <= high

    @property
    def about_session(self) -> tuple[str, ...]:
        """What is to be known of the session timeout, where it becomes another one."""
        if self._sessions is None:
            return ()
        was, becomes = self._sessions
        text = f"The session timeout becomes the broker's: {becomes} ms in place of {was} ms"
        if self._may_keep_session:
            return (f"{text}. To keep it run the command below.",)
        low, high = self.brokers.setting(_LEAST), self.brokers.setting(_MOST)
        if low is None or high is None:
            return (f"{text}.",)
        return (f"{text}; brokers allow {low} to {high} ms ({_LEAST}, {_MOST}).",)

    @property
    def session_commands(self) -> tuple[str, ...]:
        """The command by which the group keeps its session timeout, where it may."""
        if self._sessions is None or not self._may_keep_session:
            return ()
        return (self.brokers.configure(self.group.group_id, self._sessions[0]),)
