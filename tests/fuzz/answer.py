"""Damaged answers of a broker, over a real socket, to every question about groups.

An input is the seed of the damage: of each answer some bytes are changed, but for its size.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from random import Random

from kgroup.errors import KgroupError
from kgroup.operation.describe import describe
from kgroup.operation.list_groups import list_groups
from kgroup.operation.locate import locate
from kgroup.source.broker.source import Cluster
from tests.fuzz.mutation import Input
from tests.fuzz.run import Lane
from tests.source.broker_answers import answering_broker, described

__all__ = ["ANSWERS"]

_MARK = b"answers of "
_TIMEOUT_S = 0.2
_WORDS = (b"\xff" * 4, b"\x7f" + b"\xff" * 3, b"\x80\0\0\0", b"\0" * 8, b"\0\0\0\1", b"\xff\xff")
_OWNED = b"\0\0\0\1\0\6orders\0\0\0\1\0\0\0\0"
_SUBSCRIPTION = b"\0\1" + b"\0\0\0\1\0\6orders" + b"\0\0\0\0" + _OWNED
_ASSIGNMENT = b"\0\1" + _OWNED + b"\0\0\0\0"


def _make_answers(seed: int, number: int) -> Input:
    """Make an input; equal numbers of equal seeds give equal ones."""
    random = Random(f"answers/{seed}/{number}")
    return Input("answers", _MARK + f"{random.getrandbits(64)}\n".encode(), random)


def _check_answers(data: bytes, folder: Path, random: Random) -> None:
    """Ask a broker whose answers are damaged for everything about its groups.

    Raises:
        Exception: anything that is not meant to end a command.
    """
    random = Random(data)
    share = random.choice((0.1, 0.3, 1.0))
    _ask(lambda body: _damaged(body, random) if random.random() < share else body)


def _ask(damage: Callable[[bytes], bytes]) -> None:
    with answering_broker() as broker:
        member = {"member_metadata": _SUBSCRIPTION, "member_assignment": _ASSIGNMENT}
        broker.handlers["DescribeGroups"] = lambda request: {
            "groups": [
                answer | {"members": [answer["members"][0] | member]}
                for answer in map(described, request.groups)
            ]
        }
        broker.damage = lambda _, body: damage(body)
        for question in (list_groups, describe, partial(locate, ["g", "h"])):
            with (
                suppress(KgroupError),
                Cluster(broker.bootstrap, timeout_s=_TIMEOUT_S) as cluster,
            ):
                question(cluster)


def _damaged(body: bytes, random: Random) -> bytes:
    for _ in range(random.choice((1, 1, 2, 5))):
        start = random.randint(0, len(body))
        new = random.choice((*_WORDS, bytes([random.randrange(256)]), b""))
        size = random.choice((0, len(new), len(new), 1, 8))
        body = body[:start] + new + body[start + size :]
    return body


def _ask_a_sound_broker(folder: Path) -> None:
    logging.getLogger("kafka").setLevel(logging.CRITICAL)  # as the command does
    _ask(bytes)


ANSWERS = Lane(_make_answers, _check_answers, _ask_a_sound_broker, _MARK)
"""Brokers that answer with damage."""
