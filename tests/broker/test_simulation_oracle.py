"""The classic coordinator as a state machine against brokers: the same requests to both.

Declared differences, which the sequences keep away from:

- A leader that joins with a version below 5 in a group with static members is never answered:
  the broker breaks off where it should tell it of an instance.
- While a rebalance is under way, brokers of 4.0 and later describe members with the assignment that
  they had before; the state machine does so too, but that is the only state in which they differ.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import pytest

from kgroup.model.problem import ProblemLog
from kgroup.protocol.record.coordinator_record import decode_members
from kgroup.source.log.segment_file import find_segments
from kgroup.source.log.source import read_segment
from tests.broker.group_play import VERSIONS, Play, play_broker, settings
from tests.broker.servers import Broker
from tests.broker.timed_play import run_prompt, run_timed
from tests.examples import in_depth

SEQUENCES = in_depth(300, 60)
TIMED_SEQUENCES = in_depth(40, 20)

Record = tuple[str, Mapping[str, Any], Mapping[str, Any] | None]


@pytest.fixture(scope="module", params=VERSIONS)
def prompt_broker(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Broker]:
    """Run a broker that does not wait for the first members."""
    with play_broker(request.param, tmp_path_factory.mktemp("prompt"), 0) as server:
        yield server


@pytest.fixture(scope="module", params=VERSIONS)
def patient_broker(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Broker]:
    """Run a broker that waits 600 ms for the first members."""
    with play_broker(request.param, tmp_path_factory.mktemp("patient"), 600) as server:
        yield server


def report(plays: list[Play]) -> str:
    different = [play for play in plays if play.differences]
    lines = [f"{len(different)} of {len(plays)} sequences differ"]
    for play in different[:3]:
        lines += [f"sequence {play.seed}:", *play.log[-12:], *play.differences]
    return "\n".join(lines)


def test_answers_states_and_records(prompt_broker: Broker) -> None:
    version = prompt_broker.version
    plays = [
        Play(version, prompt_broker.bootstrap, seed, settings(version, 0))
        for seed in range(SEQUENCES)
    ]
    with ThreadPoolExecutor(2) as pool:
        plays = list(pool.map(run_prompt, plays))
    assert not any(play.differences for play in plays), report(plays)
    assert sum(play.count for play in plays) > 30 * SEQUENCES
    compare_records(prompt_broker, plays)


def test_time(patient_broker: Broker) -> None:
    version = patient_broker.version
    plays = [
        Play(version, patient_broker.bootstrap, seed, settings(version, 600), timed=True)
        for seed in range(TIMED_SEQUENCES)
    ]
    plays = run_timed(plays)
    assert not any(play.differences for play in plays), report(plays)
    assert sum(play.cut for play in plays) <= TIMED_SEQUENCES / 8
    compare_records(patient_broker, plays)


def compare_records(server: Broker, plays: list[Play]) -> None:
    """Compare the records of each group with those that its coordinator wrote.

    Those of the group itself one by one; of offsets the last of each partition, as a request's
    partitions come in any order.
    """
    written: dict[str, list[Record]] = {}
    problems = ProblemLog()
    for segment in find_segments([server.log_dir]):
        for record in read_segment(segment, problems):
            assert record.key is not None
            value = None if record.value is None else record.value["data"]
            key = record.key["data"]
            written.setdefault(key["group"], []).append((record.type, key, value))
    assert not problems.problems()
    compared = 0
    for play in plays:
        expected = Written.of(play.written)
        got = Written.of(written.get(play.group_id, []))
        if not play.timed or play.cut:  # since then, members have been forgotten
            del got.groups[len(expected.groups) :]
        assert got.groups == expected.groups, play.group_id
        if not play.cut:  # a group forgets offsets with its last member, now or then
            assert got.offsets == expected.offsets, play.group_id
        compared += len(got.groups) + len(got.offsets)
    assert compared > len(plays)


@dataclass(frozen=True)
class Written:
    """What a group's records say, without times."""

    groups: list[Any]
    offsets: dict[tuple[str, int], Any]

    @classmethod
    def of(cls, records: list[Record]) -> Written:
        groups = [value for kind, _, value in records if kind == "GroupMetadata"]
        offsets = {
            (key["topic"], key["partition"]): value and (value["offset"], value["metadata"])
            for kind, key, value in records
            if kind == "OffsetCommit"
        }
        return cls([value and group_value(value) for value in groups], offsets)


def group_value(value: Mapping[str, Any]) -> Mapping[str, Any]:
    """Decode what members said and got; older records do not tell of instances."""
    members = [{"groupInstanceId": None, **member} for member in value["members"]]
    group = {name: value[name] for name in ("protocolType", "generation", "protocol", "leader")}
    if members and isinstance(members[0]["subscription"], bytes):
        decode_members(group | {"members": members})
    return group | {"members": members}
