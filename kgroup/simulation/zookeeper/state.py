"""Where a ZooKeeper consumer stands, and why it rebalances."""

from __future__ import annotations

from collections.abc import Mapping

from kgroup.word import Word


class Trigger(Word):
    """Why a consumer rebalances."""

    STARTED = ("consumer started", "The consumer has registered itself.")
    CONSUMERS = (
        "consumers changed",
        "A consumer of the group came or went, or may have before a new session.",
    )
    PARTITIONS = (
        "partitions changed",
        "A topic that it reads was made, or has more partitions, or may have before a new session.",
    )
    TOPICS = ("topics changed", "A topic came that its filter allows, or one went.")
    SESSION = ("session expired", "ZooKeeper has missed the consumer, which registers again.")
    BROKERS = (
        "brokers changed",
        "A broker came or went; who has found none once looks at that from then on.",
    )


class ConnectorState(Word):
    """Where a consumer stands between two rebalances, or in one."""

    NEW = ("new", "It has not rebalanced yet.")
    LOOKING = ("looking", "It reads its registration, and which brokers there are.")
    CLOSING = ("closing", "It stops its fetchers, drops what was fetched, and commits.")
    RELEASING = ("releasing", "It deletes its owner nodes.")
    ASSIGNING = ("assigning", "It reads who is there and which partitions, and assigns.")
    READING_OFFSETS = ("reading offsets", "It reads the offsets of its own part.")
    OWNING = ("owning", "It writes its owner nodes.")
    BACKING_OFF = ("backing off", "It could not go on, waits, and will try again.")
    FETCHING = ("fetching", "It owns its partitions and fetches.")
    WAITING = ("waiting", "There is no broker: it waits for one.")
    FAILED = ("failed", "It has tried often enough, and reads nothing.")
    CLOSED = ("closed", "It has ended in order.")


_S = ConnectorState
_BETWEEN = frozenset({_S.LOOKING, _S.CLOSED})
FOLLOWS: Mapping[ConnectorState, frozenset[ConnectorState]] = {
    _S.NEW: _BETWEEN | {_S.FAILED},
    _S.LOOKING: frozenset({_S.CLOSING, _S.WAITING, _S.BACKING_OFF}),
    _S.CLOSING: frozenset({_S.RELEASING}),
    _S.RELEASING: frozenset({_S.ASSIGNING}),
    _S.ASSIGNING: frozenset({_S.READING_OFFSETS, _S.BACKING_OFF}),
    _S.READING_OFFSETS: frozenset({_S.OWNING, _S.BACKING_OFF}),
    _S.OWNING: frozenset({_S.FETCHING, _S.BACKING_OFF}),
    _S.BACKING_OFF: frozenset({_S.LOOKING, _S.FAILED}),
    _S.FETCHING: _BETWEEN | {_S.FAILED},
    _S.WAITING: _BETWEEN | {_S.FAILED},
    _S.FAILED: _BETWEEN | {_S.FAILED},
    _S.CLOSED: frozenset(),
}
"""From each state to those that may follow."""
