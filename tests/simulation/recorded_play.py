"""What a broker answered to random requests of both protocols, played to the state machine."""

from __future__ import annotations

from collections.abc import Iterator
from operator import itemgetter
from typing import Any, NamedTuple

from kgroup.simulation.rules import MigrationPolicy
from tests.broker.mixed_play import CLASSIC, expected_mixed_state, mixed_settings, plain
from tests.broker.play_file import encode, read_mixed_plays, request_of
from tests.broker.raw_client import as_version_has_it
from tests.simulation.world import MixedWorld


class Step(NamedTuple):
    """An act, with what the state machine says to it.

    Attributes:
        before: the group before it, as it is described.
        request: that was sent; None where the coordinator was loaded.
        answers: place and answer of each request that was answered, in the order of places.
        state: of the group after it, as it is described.
        sim: in which it was played.
    """

    act: dict[str, Any]
    before: Any
    request: Any
    answers: list[Any]
    state: Any
    sim: MixedWorld
    group_id: str


def replayed() -> Iterator[Step]:
    """Play each recorded play again."""
    settings = mixed_settings(MigrationPolicy.BIDIRECTIONAL, fails_over=True)
    for topics, acts in read_mixed_plays():
        sim = MixedWorld(settings, topics, CLASSIC)
        requests = [request_of(act) for act in acts]
        group_id = next(each.group_id for each in requests if each is not None)
        places: dict[int, tuple[int, int]] = {}
        for act, request in zip(acts, requests, strict=True):
            before = expected_mixed_state(sim, group_id)
            sim.next_id = act["new_id"]
            if act["fails_over"]:
                sim.fail_over(act["now_ms"])
                sim.pairs.clear()  # whose connections were closed
            else:
                places[id(request)] = (len(places), act["version"])
                sim.clock.run(act["now_ms"])
                sim.coordinator.handle(request)
                sim.clock.run(act["now_ms"])
            told = [[places[id(request)][0], encode(each)] for each in sim.answers]
            for asked, answer in sim.pairs:
                place, version = places[id(asked)]
                told.append([place, encode(plain(as_version_has_it(answer, version)))])
            sim.answers, sim.pairs = [], []
            state = expected_mixed_state(sim, group_id)
            yield Step(act, before, request, sorted(told, key=itemgetter(0)), state, sim, group_id)
