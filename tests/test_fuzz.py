"""The fuzzer: a short run of it, and proof that it sees what it is there to see."""

from __future__ import annotations

import os
import signal
import time
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any
from unittest.mock import patch

import pytest

from kgroup.columnar import schema
from kgroup.protocol.batch import batch_v2
from kgroup.protocol.batch.record_batch import read_batches
from tests.columnar import log_writer
from tests.columnar.equality import DifferentError
from tests.examples import examples
from tests.fuzz import check as checks
from tests.fuzz.batch_lane import check_batches, make_batches
from tests.fuzz.check import check
from tests.fuzz.corpus import recorded_logs
from tests.fuzz.lane import LANES, lane_of
from tests.fuzz.message_tree import Node, key_tree, text, value_tree
from tests.fuzz.mutation import KINDS, make_input, sound_log
from tests.fuzz.run import LOGS, Outcome, Plan, run

pytestmark = pytest.mark.slow

SEED = 20261121
KEPT = sorted((Path(__file__).parent / "data" / "fuzz").iterdir())


def test_damaged_logs_are_read(tmp_path: Path) -> None:
    """Some inputs of most kinds; `make fuzz` goes on from here."""
    count = examples(60)
    tally = run(Plan(SEED, range(count), tmp_path))
    assert [finding.detail for finding in tally.findings] == []
    assert tally.kinds.total() == count
    assert len(tally.kinds) > 0.8 * len(KINDS)


@pytest.mark.parametrize("name", sorted(LANES.keys() - {"logs"}))
def test_other_inputs(name: str, tmp_path: Path) -> None:
    lane = LANES[name]
    numbers = range(max(examples(30) // lane.inputs, examples(6)))
    if name == "files":  # each is a process of its own
        numbers = range(examples(1, 4))
    tally = run(Plan(SEED, numbers, tmp_path, lane=lane))
    assert [finding.detail for finding in tally.findings] == []
    assert tally.kinds.total() == len(numbers) * lane.inputs
    assert lane_of(lane.make(SEED, 0).data) is lane is not lane_of(sound_log())


@pytest.mark.parametrize("path", KEPT, ids=lambda path: path.stem)
def test_findings_that_were_mended(path: Path, tmp_path: Path) -> None:
    """In chunks of several sizes, once through every command."""
    for seed in range(examples(1)):
        check(path.read_bytes(), tmp_path, Random(seed), every_command=seed == 0)


def test_inputs_come_again() -> None:
    for number in range(0, 200, 7):
        first, second = make_input(SEED, number), make_input(SEED, number)
        assert (first.kind, first.data) == (second.kind, second.data)
        assert first.random.random() == second.random.random()
    assert make_input(SEED, 1).data != make_input(SEED + 1, 1).data
    log = make_batches(SEED, 1)
    assert (log.kind, log.data) == (make_batches(SEED, 1).kind, make_batches(SEED, 1).data)
    assert log.data not in (make_batches(SEED, 2).data, make_batches(SEED + 1, 1).data)


def test_lengths_come_right_around_what_is_changed() -> None:
    """A member's subscription, version 0, to the topic "t", without user data."""
    subscription = b"\0\0" + b"\0\0\0\1\0\1t" + b"\xff\xff\xff\xff"
    head = b"\0\0\0\x08consumer\0\0\0\7\0\5range\0\1m"
    member = b"\0\1m\0\0\0\0\0\0\0\1\0\0\0\x0d%s\0\0\0\0"
    members = b"\0\0\0\1" + member % subscription
    tree = value_tree(b"\0\2\0\1g", head + members)
    assert tree.data == head + members

    def changed(node: Node) -> Node:
        """The topic twice as long."""
        if node.data == b"\0\1t":
            return text("int16", b"tt")
        return node.with_parts(tuple(map(changed, node.parts))) if node.parts else node

    longer = b"\0\0" + b"\0\0\0\1\0\2tt" + b"\xff\xff\xff\xff"
    expected = head + members.replace(b"\x0d" + subscription, b"\x0e" + longer)
    assert changed(tree).data == expected


def test_recorded_messages_are_trees() -> None:
    """All but a transaction's markers, which have no schema: of others only bytes are damaged."""
    plains = [plain for log in recorded_logs() for unit in log for plain in unit.plains]
    odd = {
        plain.key
        for plain in plains
        if plain.key is not None
        if not key_tree(plain.key).parts
        or not (plain.value is None or value_tree(plain.key, plain.value).parts)
    }
    assert odd == {b"\0\0\0\0", b"\0\0\0\1"}


def test_the_batch_that_is_read_differently_is_found(tmp_path: Path) -> None:
    sound = b"".join(unit.data for log in recorded_logs()[:3] for unit in log)
    strange = log_writer.batch([log_writer.Plain(0, 0, b"\0\2\0\5other", None)])
    cells = schema.decoded_cells

    def broken_cells(key: bytes | None, *args: Any, **options: Any) -> tuple[Any, ...]:
        row = cells(key, *args, **options)
        return (*row[:2], "another", *row[3:]) if key and b"other" in key else row

    check_batches(sound + strange + sound, tmp_path, Random(0))
    with (
        patch.object(schema, "decoded_cells", broken_cells),
        pytest.raises(DifferentError, match="'group': 'other'} instead of") as raised,
    ):
        check_batches(sound + strange + sound, tmp_path, Random(0))
    size, data = raised.value.__notes__
    assert size == f"in these {len(strange)} bytes:"
    assert bytes.fromhex(data) == strange


PLANTED: dict[str, Outcome] = {
    "an error": "crashed",
    "another row": "different",
    "a batch left out": "different",
    "a segmentation fault": "crashed",
    "more memory than allowed": "grew",
    "more memory than there is": "grew",
}


def planted_check(data: bytes, folder: Path, random: Random) -> None:
    """Check a sound log, every time with a decoder that is broken in another way, then a right one.

    The folder tells how often it was called: it is that of all workers that follow each other.
    """
    calls = folder / "calls"
    number = calls.stat().st_size if calls.exists() else 0
    calls.write_bytes(bytes(number + 1))
    what = [*PLANTED, ""][min(number, len(PLANTED))]
    taken: list[bytes] = []
    decode, cells, read = batch_v2.decode_batch, schema.decoded_cells, read_batches

    def broken_decode(*args: Any) -> Any:
        if what == "an error":
            raise KeyError("planted")
        if what == "a segmentation fault":
            os.kill(os.getpid(), signal.SIGSEGV)
        if what == "more memory than allowed" and not taken:
            taken.append(b"x" * (200 << 20))
        if what == "more memory than there is":
            taken.append(bytes(1 << 44))
        return decode(*args)

    def broken_cells(*args: Any, **options: Any) -> tuple[Any, ...]:
        row = cells(*args, **options)
        return (*row[:2], "another group", *row[3:]) if what == "another row" else row

    def broken_read(*args: Any, **options: Any) -> Any:
        items = list(read(*args, **options))
        return iter(items[1:] if what == "a batch left out" else items)

    with (
        patch.object(batch_v2, "decode_batch", broken_decode),
        patch.object(schema, "decoded_cells", broken_cells),
        patch.object(checks, "read_batches", broken_read),
    ):
        checks.check(sound_log(), folder, random)


def test_what_goes_wrong_is_seen(tmp_path: Path) -> None:
    numbers = range(50, 50 + len(PLANTED) + 3)
    lane = replace(LOGS, check=planted_check)
    tally = run(Plan(SEED, numbers, tmp_path, lane=lane, limit_seconds=60, limit_bytes=150 << 20))
    assert [finding.outcome for finding in tally.findings] == list(PLANTED.values())
    assert [finding.number for finding in tally.findings] == list(numbers[: len(PLANTED)])
    assert tally.kinds.total() == len(numbers)
    for finding in tally.findings:
        assert finding.path.read_bytes() == make_input(SEED, finding.number).data
    error, row, _, fault, grown, memory = (finding.detail for finding in tally.findings)
    assert "KeyError: 'planted'" in error
    assert "another group" in row
    for trace in (fault, memory):
        assert "broken_decode" in trace
    assert grown.startswith("to ")


def endless_check(data: bytes, folder: Path, random: Random) -> None:
    def endless_decode(*args: Any) -> None:
        while True:
            time.sleep(0.01)

    with patch.object(batch_v2, "decode_batch", endless_decode):
        checks.check(sound_log(), folder, random)


def test_an_input_without_end_is_seen(tmp_path: Path) -> None:
    lane = replace(LOGS, check=endless_check)
    (finding,) = run(Plan(SEED, range(1), tmp_path, lane=lane, limit_seconds=1)).findings
    assert (finding.number, finding.outcome) == (0, "hung")
    assert "endless_decode" in finding.detail
