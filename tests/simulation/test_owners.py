"""Owners and readers of many partitions at once, against the same told one partition at a time."""

from __future__ import annotations

from collections import Counter
from random import Random

from kgroup.model.cluster import TopicPartition
from kgroup.simulation.clock import Clock
from kgroup.simulation.partition_logs import PartitionLogs
from kgroup.simulation.timeline import Owners
from tests.examples import examples

NAMES = ("a", "b", "c")


def test_partitions_that_are_told_together_are_recorded_as_those_told_alone() -> None:
    random = Random(3)
    for _ in range(examples(100, 400)):
        clock = Clock()
        partitions = list[TopicPartition]()
        together, alone = Owners(clock, partitions), Owners(clock, partitions)
        owned: dict[str, set[int]] = {name: set() for name in NAMES}
        for _ in range(random.randint(1, 25)):
            clock.run(clock.now_ms + random.choice((0, 1, 10)))
            if not partitions or random.random() < 0.05:
                new = range(len(partitions), len(partitions) + random.randint(1, 9))
                partitions += [("t", number) for number in new]
                together.exist(new)
                for row in new:
                    alone.exist([row])
            name = random.choice(NAMES)
            some = random.sample(range(len(partitions)), random.randint(0, len(partitions)))
            match random.choice(("begin", "begin", "end", "stand", "hold")):
                case "begin":
                    together.begin(name, some)
                    for row in some:
                        alone.begin(name, [row])
                    owned[name] |= {*some}
                case "end":
                    ended = [row for row in some if row in owned[name]]
                    together.end(name, ended)
                    for row in ended:
                        alone.end(name, [row])
                    owned[name] -= {*ended}
                case "stand":
                    is_still = random.random() < 0.5
                    together.stand(name, some, is_still=is_still)
                    for row in some:
                        alone.stand(name, [row], is_still=is_still)
                case "hold":
                    is_held = random.random() < 0.5
                    together.hold(is_held=is_held)
                    alone.hold(is_held=is_held)
        assert together.ownerships == alone.ownerships
        assert together.standstills == alone.standstills
        for row in range(len(partitions)):
            for gap in ("unowned", "unread"):
                ours, theirs = getattr(together, gap), getattr(alone, gap)
                assert ours.total_ms(row) == theirs.total_ms(row)
                assert ours.longest_ms(row) == theirs.longest_ms(row)
        counted: Counter[tuple[object, object]] = Counter()
        for history in together.histories:
            counted[history.owned, history.still] += history.partitions
        assert counted == Counter((history.owned, history.still) for history in alone.histories)


def again_and_skipped(spans: list[tuple[int, int]]) -> tuple[int, int]:
    """Count record by record; a record is skipped if one that was come to later was not read."""
    times = [sum(begin <= record < end for begin, end in spans) for record in range(200)]
    last = max((end for _, end in spans), default=0)
    return sum(max(n - 1, 0) for n in times), sum(not n for n in times[:last])


def test_what_is_read_in_one_go_is_one_span() -> None:
    random = Random(4)
    for _ in range(examples(300, 1200)):
        logs = PartitionLogs(Clock(), 0)
        (at,) = logs.create([("t", 0)])
        logs.ends[at] = 199
        position, spans = 0, []
        for _ in range(random.randint(1, 6)):
            begin = random.choice((position, position, 0, random.randrange(100)))
            logs.begin_all([at], [begin], "latest", int.__call__)
            position = min(begin + random.choice((0, random.randrange(99))), 199)
            logs.end_all([at], int.__call__, [position])
            spans.append((begin, position))
        assert logs.again_and_skipped().get(at, (0, 0)) == again_and_skipped(spans)


def test_positions_of_many_partitions_are_those_of_each() -> None:
    random = Random(5)
    for _ in range(examples(100, 400)):
        clock = Clock()
        logs = PartitionLogs(clock, random.choice((0, 0.3, 10, 999.9)))
        rows = range(6)
        for row in rows:
            clock.run(clock.now_ms + random.choice((0, 0, 777)))
            assert [*logs.create([("t", row)])] == [row]
            logs.ends[row] = random.randrange(100)
        for _ in range(5):
            clock.run(clock.now_ms + random.randrange(3_000))
            logs.hold(is_held=random.random() < 0.3)
        for at_ms in (None, *random.choices(range(clock.now_ms), k=5)):
            ends = [logs.end_offset(row, at_ms) for row in rows]
            assert logs.end_offsets(rows, at_ms) == ends
