"""What the end of `__consumer_offsets` adds to groups, from a made-up broker's log."""

from __future__ import annotations

import struct
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest

from kgroup.model.group import Group, PastGeneration
from kgroup.protocol.error_code import ErrorCode
from kgroup.source.base import Question
from kgroup.source.broker import offsets_log
from kgroup.source.broker.source import LiveCluster
from tests.columnar.log_writer import Plain, batch
from tests.operation.log_files import commit, group_metadata, text
from tests.source.broker_answers import committed, coordinator, described, ends, metadata, offsets
from tests.source.fake_broker import FakeBroker, fake_broker
from tests.source.fake_log import FakeLog, fetched

NUMBER = 1  # "g".hashCode() is 103, of 3 partitions


@pytest.fixture
def broker(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeBroker]:
    """It has the group "g", which committed t-0 at 7.

    Its log is read two offsets at a time, one batch in each answer.
    """
    monkeypatch.setattr(offsets_log, "FETCH_SIZE", 1)
    monkeypatch.setattr(offsets_log, "FIRST_WINDOW", 2)
    monkeypatch.setattr(offsets_log, "WINDOW_SIZE", 1)
    with fake_broker() as fake:
        fake.handlers = {
            "Metadata": metadata(fake, offsets()),
            "FindCoordinator": lambda _: coordinator(fake),
            "OffsetFetch": lambda _: committed(("t", 0, 7)),
        }
        fake.newest = {"Metadata": 4, "OffsetFetch": 5, "ListOffsets": 1, "FindCoordinator": 1}
        yield fake


def read(
    broker: FakeBroker,
    *records: Plain,
    state: str = "Empty",
    error: int = 0,
    error_below: int = 0,
    before: Callable[[int], None] = lambda _: None,
    timeout_s: float = 10,
    **question: Any,
) -> tuple[Group, tuple[str, ...]]:
    """Read the group from a broker with such a log; give the notes too.

    The leader returns NOT_LEADER_OR_FOLLOWER for records below `error_below`. `before` gets
    each offset that is fetched.
    """
    batches = [(record.offset, batch([record])) for record in records]
    log = FakeLog(batches, error=error)
    gone = FakeLog(batches, error=ErrorCode.NOT_LEADER_OR_FOLLOWER)

    def fetch(request: Any) -> Any:
        at = request.topics[0].partitions[0].fetch_offset
        before(at)
        return fetched(request, {NUMBER: gone if at < error_below else log}.__getitem__)

    broker.newest["Fetch"] = 4
    broker.handlers |= {
        "DescribeGroups": lambda _: {"groups": [described("g", state)]},
        "ListOffsets": lambda request: ends(request, 0, len(records)),
        "Fetch": fetch,
    }
    with LiveCluster(broker.bootstrap, timeout_s=timeout_s) as source:
        reading = source.read(["g"], Question(**question))
    assert reading.problems == ()
    return reading.image.groups["g"], reading.notes


def fetches(broker: FakeBroker) -> list[int]:
    """Offsets from which the log was read."""
    return [
        request.topics[0].partitions[0].fetch_offset
        for name, _, request in broker.asked
        if name == "Fetch"
    ]


def test_the_newest_generation_and_the_commit_that_counts(broker: FakeBroker) -> None:
    """Behind the commit that the coordinator told of, another one has come meanwhile."""
    group, notes = read(
        broker,
        commit(0, "other", committed=7, time_ms=300),
        commit(1, "g", committed=7, time_ms=200),
        group_metadata(2, "g", generation=1),
        group_metadata(3, "g", generation=2),
        commit(4, "g", committed=9, time_ms=400),
    )
    assert (group.generation_id, notes) == (2, ())
    assert [offset.commit_timestamp_ms for offset in group.offsets] == [200]


@pytest.mark.slow
def test_a_topic_that_goes_while_it_is_read(broker: FakeBroker) -> None:
    there, gone = broker.handlers["Metadata"], metadata(broker)
    broker.handlers["Metadata"] = lambda request: (gone if fetches(broker) else there)(request)
    record = group_metadata(0, "g", generation=1)
    group, notes = read(broker, record, error=ErrorCode.NOT_LEADER_OR_FOLLOWER, timeout_s=1)
    assert group.generation_id is None
    assert [note.partition(";")[0] for note in notes] == [
        f"__consumer_offsets-{NUMBER}: its leader returned LEADER_NOT_AVAILABLE"
    ]


def test_times_of_commits_are_read_where_they_matter_only(broker: FakeBroker) -> None:
    records = (
        commit(0, "g", committed=7, time_ms=200),
        group_metadata(1, "g", generation=1),
        group_metadata(2, "g", generation=2),
        commit(3, "other"),
    )
    group, notes = read(broker, *records, commit_times=False)
    assert (group.generation_id, fetches(broker)) == (2, [2, 3])
    assert ([offset.commit_timestamp_ms for offset in group.offsets], notes) == ([None], ())
    broker.asked.clear()
    group, _ = read(broker, *records)
    assert [offset.commit_timestamp_ms for offset in group.offsets] == [200]
    assert fetches(broker) == [2, 3, 0, 1]


def compact(value: str | None) -> bytes:
    """Length plus one, and the text; 0 for null."""
    return b"\0" if value is None else bytes([len(value) + 1]) + value.encode()


def member_metadata(offset: int, member_id: str, assignor: str | None) -> Plain:
    """Version 0: instance, rack, client, host, topics, regex, timeout, assignor, no tags."""
    texts = b"".join(map(compact, (None, None, "c", "/127.0.0.1")))
    value = b"\0\0" + texts + b"\x01\0" + b"\0\0\0\x01" + compact(assignor) + b"\0"
    return Plain(offset, -1, struct.pack(">h", 5) + text("g") + text(member_id), value)


def test_the_assignors_that_members_of_a_consumer_group_prefer(broker: FakeBroker) -> None:
    """Only if they are asked for, and the newest of each member; all of them, or none."""
    nothing: dict[str, Any] = {"topic_partitions": []}
    members = [
        {
            "member_id": member_id,
            "client_id": "c",
            "client_host": "/127.0.0.1",
            "subscribed_topic_names": ["t"],
            "assignment": nothing,
            "target_assignment": nothing,
        }
        for member_id in ("a", "b")
    ]
    described_group = {
        "group_id": "g",
        "group_state": "Stable",
        "assignor_name": "range",
        "members": members,
    }
    listed = {"group_id": "g", "protocol_type": "consumer", "group_type": "consumer"}
    broker.newest |= {"ListGroups": 5}
    broker.handlers |= {
        "ListGroups": lambda _: {"error_code": 0, "groups": [listed]},
        "ConsumerGroupDescribe": lambda _: {"groups": [described_group]},
    }
    records = (
        member_metadata(0, "a", "range"),
        member_metadata(1, "b", "range"),
        member_metadata(2, "b", None),
        commit(3, "g", committed=7),
    )

    def preferred(*records: Plain, **question: Any) -> list[str | None]:
        group, _ = read(broker, *records, **question)
        assert [member.member_id for member in group.members] == ["a", "b"]
        return [member.assignor for member in group.members]

    assert preferred(*records, preferences=True) == ["range", None]
    assert preferred(*records) == [None, None]
    assert preferred(records[0], *records[3:], preferences=True) == [None, None]


def data(raw: bytes) -> bytes:
    """Length and bytes."""
    return struct.pack(">i", len(raw)) + raw


def partitions(count: int) -> bytes:
    """Topic t with its first partitions; no topic if there are none."""
    own = struct.pack(f">i{count}i", count, *range(count))
    return struct.pack(">i", 1) + text("t") + own if count else struct.pack(">i", 0)


def generation(
    offset: int, number: int, strategy: str, **members: tuple[int, int | None, int]
) -> Plain:
    """Version 0, with what each member claims, its generation before that, and what it gets."""
    value = struct.pack(">h", 0) + text("consumer") + struct.pack(">i", number) + text(strategy)
    value += text("m") + struct.pack(">i", len(members))
    for name, (claimed, before, got) in members.items():
        sent = struct.pack(">hi", 2, 1) + text("t") + struct.pack(">i", -1) + partitions(claimed)
        sent += struct.pack(">i", -1 if before is None else before)
        assigned = struct.pack(">h", 0) + partitions(got) + struct.pack(">i", -1)
        value += text(name) + text("c") + text("/h") + struct.pack(">i", 9) + data(sent)
        value += data(assigned)
    return Plain(offset, -1, struct.pack(">h", 2) + text("g"), value)


PAST: Mapping[str, Any] = {
    "state": "Stable",
    "commit_times": False,
    "preferences": True,
    "generations": True,
}


def test_earlier_generations_of_present_members(broker: FakeBroker) -> None:
    """The log is read back to a generation without any of them, or as far as allowed."""
    records = (
        generation(0, 1, "sticky", m=(0, None, 3)),
        generation(1, 2, "range", gone=(0, None, 3)),
        commit(2, "other"),
        generation(3, 3, "range", m=(0, None, 1), old=(2, 2, 2)),
        generation(4, 4, "range", m=(0, 3, 0), new=(0, None, 3)),
        commit(5, "other"),
        generation(6, 5, "range", m=(0, 4, 3)),
    )
    group, notes = read(broker, *records, **PAST)
    assert group.generation_id == 5
    assert group.past_generations == (
        PastGeneration(4, "range", ("m", "new"), idle=("m",), unclaimed=("m",)),
        PastGeneration(3, "range", ("m", "old"), claimed=("old",)),
    )
    assert (notes, fetches(broker)) == ((), [5, 6, 3, 4, 1, 2])
    for unused in ("preferences", "generations"):
        broker.asked.clear()
        group, notes = read(broker, *records, **{**PAST, unused: False})
        assert (group.past_generations, notes, fetches(broker)) == ((), (), [5, 6])
    group, notes = read(broker, *records, log_budget=400, **PAST)
    assert [each.generation_id for each in group.past_generations] == [4, 3]
    assert notes == ()


@pytest.mark.parametrize(
    ("strategy", "generations", "is_read"),
    [("cooperative-sticky", False, True), ("stream", True, False)],
)
def test_the_strategy_decides_whether_earlier_generations_matter(
    broker: FakeBroker, strategy: str, generations: bool, is_read: bool
) -> None:
    """What claimed nothing in a cooperative group lists an eager strategy, too."""
    records = (
        generation(0, 1, strategy, m=(0, None, 3)),
        commit(1, "other"),
        generation(2, 2, strategy, m=(0, None, 3)),
        commit(3, "other"),
    )
    group, _ = read(broker, *records, **{**PAST, "generations": generations})
    assert (bool(group.past_generations), 0 in fetches(broker)) == (is_read, is_read)


def test_what_ends_the_search_of_earlier_generations_is_no_failure(
    broker: FakeBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An error, or the bytes that may be read for them alone; then nothing is missing."""
    records = [generation(number, number, "range", m=(0, None, 3)) for number in range(8)]
    group, notes = read(broker, *records, error_below=4, **PAST)
    assert (group.generation_id, notes) == (7, ())
    assert [each.generation_id for each in group.past_generations] == [6, 5, 4]
    assert fetches(broker) == [6, 7, 4, 5, 2]  # it is not asked again
    broker.asked.clear()
    monkeypatch.setattr(offsets_log, "PAST_BUDGET", 1)
    group, notes = read(broker, *records, **PAST)
    assert [each.generation_id for each in group.past_generations] == [6, 5, 4]
    assert (notes, fetches(broker)) == ((), [6, 7, 4, 5])


def test_earlier_generations_of_many_members_are_few(
    broker: FakeBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A snapshot contains their ids."""
    records = [generation(n, n, "range", m=(0, None, 3), o=(0, None, 0)) for n in range(7)]
    records.append(generation(7, 7, "range", m=(0, None, 3)))
    monkeypatch.setattr(offsets_log, "MOST_IDS", 3)
    group, notes = read(broker, *records, **PAST)
    assert ([each.generation_id for each in group.past_generations], notes) == ([6, 5], ())


@pytest.mark.slow
def test_other_requests_have_time_after_the_search_of_earlier_generations(
    broker: FakeBroker,
) -> None:
    """Each answer takes a fifth of the time limit of the command."""
    records = [generation(number, number, "range", m=(0, None, 3)) for number in range(20)]

    def slowly(offset: int) -> None:
        time.sleep(0.4)

    group, notes = read(broker, *records, before=slowly, timeout_s=2, **PAST)
    assert (group.generation_id, notes) == (19, ())
    assert len(fetches(broker)) <= 4


def test_a_generation_that_is_written_again_counts_once(broker: FakeBroker) -> None:
    """Coordinators do so when a static member returns."""
    records = (
        generation(0, 3, "range", m=(0, None, 1), old=(2, 2, 2)),
        generation(1, 3, "range", m=(0, None, 1), new=(2, 2, 2)),
        generation(2, 4, "range", m=(0, None, 1), old=(0, None, 2)),
        generation(3, 4, "range", m=(0, None, 3)),
    )
    group, _ = read(broker, *records, **PAST)
    assert [(each.generation_id, each.members) for each in group.past_generations] == [
        (3, ("m", "new"))
    ]


def test_no_earlier_generations_of_other_members(broker: FakeBroker) -> None:
    """The coordinator's answer is older or newer than the record."""
    records = (
        generation(0, 3, "range", m=(0, None, 1), other=(2, 2, 2)),
        generation(1, 4, "range", other=(0, None, 3)),
    )
    group, _ = read(broker, *records, **PAST)
    assert (group.generation_id, group.past_generations) == (None, ())


def test_for_the_last_commit_only_what_follows_it_is_read(broker: FakeBroker) -> None:
    """Also one that has come after the coordinator's answer."""
    records = (
        commit(0, "g", committed=7, time_ms=100),
        group_metadata(1, "g", generation=1),
        commit(2, "g", committed=9, time_ms=300),
        commit(3, "other", committed=7, time_ms=400),
    )
    group, notes = read(broker, *records, last_commits=True)
    assert [offset.commit_timestamp_ms for offset in group.offsets] == [300]
    assert (notes, fetches(broker)) == ((), [2, 3])
    late = (*records[:1], *(commit(number, "other") for number in range(1, 8)))
    group, (note,) = read(broker, *late, last_commits=True, log_budget=1)
    assert [offset.commit_timestamp_ms for offset in group.offsets] == [None]
    assert note.endswith("allowed; the time of the last commit is unknown for 1 group.")


def test_no_more_is_read_than_allowed(broker: FakeBroker) -> None:
    records = (
        group_metadata(0, "g", generation=1),
        *(commit(number, "other") for number in range(1, 8)),
    )
    group, (note,) = read(broker, *records, log_budget=1)
    assert (group.generation_id, fetches(broker)) == (None, [6, 7])
    assert "more bytes would have to be read back than allowed" in note
    broker.asked.clear()
    group, notes = read(broker, *records, log_budget=0)
    assert (group.generation_id, notes, fetches(broker)) == (None, (), [])


@pytest.mark.parametrize("state", ["PreparingRebalance", "CompletingRebalance"])
def test_of_a_rebalance_in_flight_the_log_tells_what_was_before(
    broker: FakeBroker, state: str
) -> None:
    record = group_metadata(0, "g", generation=4, time_ms=500)
    group, _ = read(broker, record, commit(1, "g", committed=7), state=state)
    assert group.generation_id is None
    assert group.last_stable is not None
    assert (group.last_stable.generation_id, group.last_stable.recorded_ms) == (4, 500)


def test_a_log_that_may_not_be_read(broker: FakeBroker) -> None:
    group, (note,) = read(
        broker, group_metadata(0, "g", generation=1), error=ErrorCode.TOPIC_AUTHORIZATION_FAILED
    )
    assert (group.generation_id, len(group.offsets)) == (None, 1)
    assert note.startswith(
        f"__consumer_offsets-{NUMBER}: its leader returned TOPIC_AUTHORIZATION_FAILED (it needs "
        "READ"
    )
