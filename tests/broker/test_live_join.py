"""Whether a client can join a group: brokers answer clients as foretold."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from kgroup.operation.client_join import ClientJoin, client_join
from kgroup.source.broker.source import LiveCluster
from tests.broker.client.member import LibraryMember
from tests.broker.servers import Broker
from tests.waiting import until


@contextmanager
def member(
    library: str, server: Broker, group: str, strategy: str, log: Path, **more: Any
) -> Iterator[LibraryMember]:
    made = LibraryMember(library, server.bootstrap, group, ["orders"], strategy, log, **more)
    try:
        yield made
    finally:
        made.stop()  # else the broker, which others use too, would write records about it later


def asked(server: Broker, group: str, client: str) -> ClientJoin:
    with LiveCluster(server.bootstrap, of_silence=True) as source:
        (join,) = client_join(source, group, client).data
    return join


def test_a_client_joins_or_is_refused_as_foretold(orders_broker: Broker, tmp_path: Path) -> None:
    """Librdkafka is in the group; kafka-python comes."""
    group = "may-join"
    with member(
        "librdkafka", orders_broker, group, "cooperative-sticky", tmp_path / "first.log"
    ) as first:
        until(lambda: first.owned is not None and len(first.owned) == 3)
        refused = asked(orders_broker, group, "kafka-python:range")
        assert (refused.can_join, refused.answer) == (False, "INCONSISTENT_GROUP_PROTOCOL")
        log = tmp_path / "refused.log"
        with member("kafka-python", orders_broker, group, "range", log) as second:
            until(lambda: "InconsistentGroupProtocol" in log.read_text())
            assert not second.owned
        allowed = asked(orders_broker, group, "kafka-python:cooperative-sticky")
        assert (allowed.can_join, allowed.answer) == (True, None)
        assert allowed.then is not None
        assignment = allowed.then.plans[-1].assignment
        assert assignment is not None
        with member(
            "kafka-python", orders_broker, group, "cooperative-sticky", tmp_path / "second.log"
        ) as second:
            until(lambda: bool(first.owned and second.owned and len(first.owned) < 3))
            foretold = {name: {*owned} for name, owned in assignment.items()}
            assert len(foretold.pop("new-1")) == len(second.owned or ())
            (kept,) = foretold.values()
            assert kept == set(first.owned or ())


def test_a_group_of_consumers_and_one_of_the_consumer_protocol(
    orders_broker: Broker, tmp_path: Path
) -> None:
    """The policy is bidirectional, by default since 4.0."""
    with member(
        "kafka-python", orders_broker, "may-upgrade", "range", tmp_path / "first.log"
    ) as first:
        until(lambda: bool(first.owned))
        join = asked(orders_broker, "may-upgrade", "java:consumer")
        assert (join.can_join, join.answer) == (True, None)
        assert any("becomes a consumer group" in text for text in join.consequences)
