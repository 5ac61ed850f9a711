"""The tables about simulations in docs: `python -m tests.simulation.simulate_page`."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from kgroup.assignor.client_facts import ON_ERROR
from kgroup.described_enum import DescribedEnum
from kgroup.model.group import GroupState
from kgroup.operation.simulate import shipped_scenarios
from kgroup.protocol.error_code import ErrorCode
from kgroup.simulation.classic.coordinator import TABLE
from kgroup.simulation.classic.group import RebalanceCause
from kgroup.simulation.client import consumer_membership, group_member, membership
from kgroup.simulation.client.config import ClientState
from kgroup.simulation.client.consumer_membership import FOLLOWS
from kgroup.simulation.consumer.coordinator import TABLE as HEARTBEATS
from kgroup.simulation.consumer.target_assignment import TABLE as RECONCILE
from kgroup.simulation.group_coordinator import TABLE as MIXED
from kgroup.simulation.group_coordinator import CoordinatorState
from kgroup.simulation.scenario.file import FIELDS
from kgroup.simulation.scenario.scenario import Action, KeptIn, Paused
from kgroup.simulation.zookeeper.consumer import FOLLOWS as ZOOKEEPER_CONSUMER_FOLLOWS
from kgroup.simulation.zookeeper.consumer import Trigger
from tests.simulation.consumer_answers import BEAT_EPOCH, REFUSALS
from tests.simulation.consumer_answers import FOLLOWS as GROUP_FOLLOWS

_DOCS = Path(__file__).parents[2] / "docs"
PAGE = _DOCS / "simulate.md"
PAGES = (PAGE, _DOCS / "reference" / "scenario.md", _DOCS / "reference" / "state-machines.md")
_STATES = (
    GroupState.EMPTY,
    GroupState.PREPARING_REBALANCE,
    GroupState.COMPLETING_REBALANCE,
    GroupState.STABLE,
    GroupState.DEAD,
)


def _table(head: tuple[str, ...], rows: Iterator[tuple[str, ...]]) -> str:
    lines = [head, tuple("---" for _ in head), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _sentence(handler: Callable[..., Any]) -> str:
    """Return the first sentence of what a handler's docstring says."""
    text = " ".join((handler.__doc__ or "").split())
    assert text, handler
    sentence = re.split(r"(?<=\.) (?:Kafka: )", text)[0].split(". ")[0].rstrip(".")
    return re.sub(r" \(`\w+`\)$", "", sentence) + "."


def _words(words: Any) -> str:
    return _table(
        ("word", "meaning"),
        ((f"`{word}`", word.sentence) for word in words if isinstance(word, DescribedEnum)),
    )


def _errors(table: Mapping[ErrorCode, Callable[..., Any]]) -> str:
    return _table(
        ("answer", "what the consumer does"),
        ((f"`{code.name}`", _sentence(handler)) for code, handler in table.items()),
    )


def _errors_by_library() -> str:
    return _table(
        ("library", "refused join", "removed", "old generation", "fenced", "its assignor fails"),
        (
            (name, e.refused, e.removed, e.outdated, e.fenced or "–", e.assignor_failed)
            for name, e in ON_ERROR.items()
        ),
    )


def _coordinator() -> str:
    return _table(
        ("request", "state", "what happens"),
        (
            (f"`{request.__name__}`", f"`{state}`", _sentence(handler))
            for request, handlers in TABLE.items()
            for state, handler in handlers.items()
        ),
    )


def _heartbeats() -> str:
    return _table(
        ("epoch", "what happens", "refused with"),
        (
            (
                "above 0" if epoch == BEAT_EPOCH else f"`{epoch}`",
                _sentence(handler),
                _refusals(epoch),
            )
            for epoch, handler in HEARTBEATS.items()
        ),
    )


def _member_states() -> str:
    return _table(
        ("state", "meaning", "what a heartbeat does"),
        (
            (f"`{state}`", state.sentence, _sentence(handler))
            for state, handler in RECONCILE.items()
        ),
    )


def _requests_to_consumer_groups() -> str:
    """States in which the same happens are one row."""
    rows = []
    for request, handlers in MIXED.items():
        for handler in dict.fromkeys(handlers.values()):
            states = [state for state, each in handlers.items() if each is handler]
            refusals = "" if states == [GroupState.EMPTY] else _refusals(request)
            names = ", ".join(f"`{state}`" for state in states)
            rows.append((f"`{request.__name__}`", names, _sentence(handler), refusals))
    return _table(("request", "state", "what happens", "refused with"), iter(rows))


def _refusals(key: type | int) -> str:
    return ", ".join(f"`{code.name}`" for code in REFUSALS[key])


def _transitions() -> str:
    def follows(state: GroupState, other: GroupState) -> bool:
        try:
            return state.to(other) is other
        except ValueError:
            return False

    return _table(
        ("state", "meaning", "may be followed by"),
        (
            (
                f"`{state}`",
                state.sentence,
                ", ".join(f"`{other}`" for other in _STATES if follows(state, other)),
            )
            for state in _STATES
        ),
    )


def _following(follows: Mapping[Any, Iterable[DescribedEnum]]) -> str:
    return _table(
        ("state", "meaning", "may be followed by"),
        (
            (f"`{state}`", state.sentence, ", ".join(f"`{word}`" for word in sorted(following)))
            for state, following in follows.items()
        ),
    )


def _fields(name: str) -> str:
    """Fields that mean the same are one row."""
    fields: dict[str, list[str]] = {}
    for field, text in FIELDS[name].items():
        fields.setdefault(text, []).append(f"`{field}`")
    return _table(
        ("field", "meaning"), ((", ".join(names), text) for text, names in fields.items())
    )


def _scenarios() -> str:
    return _table(
        ("name", "what happens"),
        ((f"`{scenario.name}`", scenario.title or "") for scenario in shipped_scenarios().data),
    )


MARK = re.compile(r"<!-- generated: (.*) -->")
TABLES: Mapping[str, Callable[[], str]] = {
    "scenarios": _scenarios,
    **{f"fields of {name or 'the file'}": lambda name=name: _fields(name) for name in FIELDS},  # type: ignore[misc]
    "steps": lambda: _words(Action),
    "pauses": lambda: _words(Paused),
    "offsets kept": lambda: _words(KeptIn),
    "connector states": lambda: _following(ZOOKEEPER_CONSUMER_FOLLOWS),
    "triggers": lambda: _words(Trigger),
    "states": _transitions,
    "requests": _coordinator,
    "causes": lambda: _words(RebalanceCause),
    "coordinator states": lambda: _words(CoordinatorState),
    "consumer states": lambda: _words(ClientState),
    "consumer group states": lambda: _following(GROUP_FOLLOWS),
    "heartbeats": _heartbeats,
    "member states": _member_states,
    "requests to consumer groups": _requests_to_consumer_groups,
    "consumer protocol states": lambda: _following(FOLLOWS),
    "answers to ConsumerGroupHeartbeat": lambda: _errors(consumer_membership.ON_CONSUMER_HEARTBEAT),
    "answers to JoinGroup": lambda: _errors(membership.ON_JOIN),
    "answers to SyncGroup": lambda: _errors(membership.ON_SYNC),
    "answers to Heartbeat": lambda: _errors(group_member.ON_HEARTBEAT),
    "answers to OffsetCommit": lambda: _errors(group_member.ON_COMMIT),
    "errors by client library": _errors_by_library,
}
"""What is written behind each mark ``<!-- generated: name -->``, up to the next blank line."""


def written(page: str) -> str:
    """Return a page with all of its tables as the code has them."""
    for name in MARK.findall(page):
        mark = f"<!-- generated: {name} -->\n\n"
        before, after = page.split(mark)
        rest = re.sub(r"\A(\|.*\n)*\n*", "", after)
        page = f"{before}{mark}{TABLES[name]()}\n{rest}".rstrip("\n") + "\n"
    return page


if __name__ == "__main__":
    for path in PAGES:
        path.write_text(written(path.read_text("utf-8")), "utf-8")
