"""Sequences that are played to a broker again where it may have been late."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TypeVar

from tests.broker.consumer_play import ConsumerPlay
from tests.broker.group_play import Play

ATTEMPTS = 4
"""How often a sequence is played: a busy machine may delay a request past a timeout."""

_P = TypeVar("_P", bound=Play | ConsumerPlay)


def run_timed(plays: list[_P]) -> list[_P]:
    """Play all sequences at once, and alone, until they agree, those that differ.

    What differs in every attempt is a fault.
    """
    with ThreadPoolExecutor(len(plays)) as pool:
        list(pool.map(lambda play: play.run(), plays))
    return [_again(play) if play.differences else play for play in plays]


def run_prompt(play: _P) -> _P:
    """Play a sequence in which nothing waits; likewise."""
    play.run()
    return _again(play) if play.differences else play


def _again(play: _P) -> _P:
    for attempt in range(1, ATTEMPTS):
        play = replace(play, attempt=attempt)
        play.run()
        if not play.differences:
            break
    return play
