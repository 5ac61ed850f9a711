"""The fast lane: many damaged inputs of a few batches each in one log, read by two decoders.

The inputs of a log follow each other, and each of them is mostly right in its lengths and
checksums, so that all of them are read. Where the two differ, the log is cut down to the batches in
which they do.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from random import Random
from textwrap import wrap

from kgroup.columnar.batch_key import Limits
from kgroup.protocol.batch.record_batch import read_batches
from kgroup.protocol.batch.transaction import TransactionIndex
from tests.columnar import log_writer
from tests.columnar.equality import Way, check_both_ways
from tests.fresh_file import write_fresh
from tests.fuzz import mutation, record_mutation
from tests.fuzz.corpus import Unit, recorded_logs
from tests.fuzz.mutation import Damage, Input
from tests.fuzz.run import Lane

_INPUTS = 64
"""Inputs in one log."""

_BLIND = (
    *("flip", "set", "insert", "delete", "cut", "number", "varint", "repeat", "zeros"),
    *("splice", "shuffle", "length", "plausible", "bomb"),
)
"""What leaves lengths and checksums wrong: one such input would hide those behind it."""

_FAULTY = {
    "header": 3,
    "records": 3,
    "compressed": 2,
    "codec": 1,
    "inside": 2,
    "envelope": 4,
    "wrong": 1,
}
"""What leaves batches that cannot be read, which takes longer -> how often."""

_KINDS: Mapping[str, tuple[float, Damage]] = {
    name: (_FAULTY.get(name, weight), damage)
    for name, (weight, damage) in {**mutation.KINDS, **record_mutation.KINDS}.items()
    if name not in _BLIND
}
_MARK = log_writer.batch([], leader_epoch=1 << 20)
"""In front of the inputs: it tells these logs from those of `mutation`."""
_BETWEEN = log_writer.batch([])
"""Between faulty inputs: behind damage compiled code goes on where a batch was sound."""

_COUNTS = (1, 1, 1, 2, 2, 3)
"""Of batches in an input."""
_FEW = 3
"""Records that a batch may have, or more where there is none of its kind with fewer."""
_MOST_BYTES = 4096
_MOST_SHOWN = 4000
_WIDTH = 120
_REPLAYED = 16
"""One of so many logs is replayed too."""


def make_batches(seed: int, number: int) -> Input:
    """Make a log of `_INPUTS` inputs with damage of one kind; from equal numbers equal ones."""
    random = Random(f"batches/{seed}/{number}")
    kind = random.choices(list(_KINDS), [weight for weight, _ in _KINDS.values()])[0]
    _, damage = _KINDS[kind]
    inputs = [damage(_window(random), random) for _ in range(_INPUTS)]
    between = _BETWEEN if kind in _FAULTY else b""
    return Input(kind, _MARK + between.join(inputs), random)


def _begin(folder: Path) -> None:
    """Read a sound log: on a machine that never did, code is compiled."""
    check_batches(mutation.sound_log(), folder, Random(0))


def _window(random: Random) -> list[Unit]:
    """A few batches; what is recorded seldom is taken as often as all else."""
    kinds = _units()
    return [
        random.choice(kinds[random.randrange(len(kinds))]) for _ in range(random.choice(_COUNTS))
    ]


@cache
def _units() -> Sequence[Sequence[Unit]]:
    """Batches that are not large by format, codec, and types and versions of their records."""
    found: dict[tuple[object, ...], list[Unit]] = {}
    for unit in (unit for log in recorded_logs() for unit in log):
        kinds = {(plain.key or b"")[:2] + (plain.value or b"")[:2] for plain in unit.plains}
        for kind in sorted(kinds) if len(unit.data) < _MOST_BYTES else ():
            found.setdefault((unit.magic, unit.codec != "none", kind), []).append(unit)
    return [_small(units) for units in found.values()]


def _small(units: Sequence[Unit]) -> Sequence[Unit]:
    most = max(_FEW, min(len(unit.plains) for unit in units))
    return [unit for unit in units if len(unit.plains) <= most]


# ---- reading in two ways


def check_batches(data: bytes, folder: Path, random: Random) -> None:
    """Read a log by the compiled and by the reference decoder.

    Raises:
        DifferentError: they differ; with the bytes of the batches in which they do.
        Exception: whatever a reader lets out; likewise with a note of the bytes.
    """
    path = folder / "00000000000000000000.log"
    way = _way(Random(data))  # so that a file fails again

    def fault(items: list[bytes]) -> Exception | None:
        write_fresh(path, b"".join(items))
        try:
            check_both_ways(path, way)
        except Exception as error:
            return error
        return None

    if (exception := fault([data])) is not None:
        items = [bytes(data[item.position :][: item.size]) for item in read_batches(data)]
        least = _least(items, lambda part: type(fault(part)) is type(exception))
        error, shown = fault(least) or exception, b"".join(least)
        error.add_note(f"in these {len(shown)} bytes:")
        error.add_note("\n".join(wrap(shown[:_MOST_SHOWN].hex(), _WIDTH)))
        raise error


BATCHES = Lane(make_batches, check_batches, _begin, _MARK, _INPUTS)
"""Many small damaged logs, by two decoders."""


def _least(items: list[bytes], fails: Callable[[list[bytes]], bool]) -> list[bytes]:
    """Leave out items, many at a time and then fewer, as long as the rest still fails."""
    size = len(items) // 2
    while size:
        at = 0
        while at < len(items):
            rest = items[:at] + items[at + size :]
            if rest and fails(rest):
                items = rest
            else:
                at += size
        size //= 2
    return items


def _way(random: Random) -> Way:
    """Choose what is compared; sizes are so that little is read for nothing, in one thread."""
    offset = random.choice((None, None, 5, 1000))
    time_ms = random.choice((None, None, 1_790_000_000_000))
    for_replay = random.random() < 0.5
    limits = Limits(TransactionIndex, offset, time_ms, for_replay, for_replay)
    sizes = {
        "chunk": random.choice((4000, 8000, 8000, 1 << 24)),
        "piece": 1 << 16,
        "sound": (0, 0),
        "texts": (1 << 16, 1 << 18),
        "keys": 1 << 10,
        "key_table": 1 << 8,
        "workers": 1,
    }
    return Way(limits, random.randrange(_REPLAYED) == 0, sizes)
