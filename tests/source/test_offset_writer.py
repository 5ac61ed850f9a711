"""Answers to requests that write which no broker can be made to give at will; brokers are fakes."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import pytest

from kgroup.errors import BrokerError, ExitStatus, ProblemKind
from kgroup.model.offset import CommittedOffset, OffsetChange, StoreName
from kgroup.source.broker import client, offset_writer
from kgroup.source.broker.source import LiveCluster
from tests.cli.command_line import Cli
from tests.contract.offset_store import changes_to
from tests.source.broker_answers import committed, coordinator, described, ends
from tests.source.fake_broker import FakeBroker

LOADING, NOT_AVAILABLE, NOT_COORDINATOR, TIMED_OUT, UNKNOWN = 14, 15, 16, 7, -1
NOT_FOUND, UNKNOWN_MEMBER, FENCED_INSTANCE = 69, 25, 82
UNKNOWN_TOPIC, DENIED = 3, 29
THERE, WANTED = {("orders", 0): 7}, {("orders", 0): 9}


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker of this process is what it will be at once."""
    monkeypatch.setattr(client, "FIRST_BACKOFF_S", 0.01)


class State:
    """A group without members that has committed orders-0, and how writes of it end.

    Attributes:
        offset: None where nothing is committed.
        errors: codes of the next answers; None breaks the connection in the place of an answer.
        takes: whether what is answered with an error is done all the same.
        others: what another process commits right behind a commit; None: nobody does.
        states: of the group in the next answers to DescribeGroups; the last one stays.
    """

    def __init__(self, broker: FakeBroker) -> None:
        self.offset: int | None = 7
        self.errors: list[int | None] = []
        self.takes = False
        self.others: int | None = None
        self.metadata = ""
        self.states = ["Empty"]
        broker.handlers |= {
            "DescribeGroups": self.describe,
            "OffsetFetch": self.fetch,
            "OffsetCommit": self.commit,
            "OffsetDelete": self.delete,
            "DeleteGroups": self.delete_groups,
        }
        broker.newest |= {"OffsetCommit": 6, "DeleteGroups": 1}

    def error(self) -> int | None:
        return self.errors.pop(0) if self.errors else 0

    def describe(self, request: Any) -> dict[str, Any]:
        state = self.states.pop(0) if len(self.states) > 1 else self.states[0]
        return {"groups": [described(group_id, state) for group_id in request.groups]}

    def fetch(self, _: Any) -> dict[str, Any]:
        answer = committed(*([] if self.offset is None else [("orders", 0, self.offset)]))
        for topic in answer["topics"]:
            for partition in topic["partitions"]:
                partition["metadata"] = self.metadata
        return answer

    def commit(self, request: Any) -> dict[str, Any] | None:
        ((row,),) = (topic.partitions for topic in request.topics)
        error = self.error()
        if not error or self.takes:
            self.offset = row.committed_offset if self.others is None else self.others
            self.metadata = row.committed_metadata
        if error is None:
            return None
        partition = {"partition_index": row.partition_index, "error_code": error}
        return {"topics": [{"name": "orders", "partitions": [partition]}]}

    def delete(self, request: Any) -> dict[str, Any] | None:
        error = self.error()
        if error is None:
            return None
        partitions = [{"partition_index": 0, "error_code": 0}]
        self.offset = None if not error else self.offset
        return {"error_code": error, "topics": [{"name": "orders", "partitions": partitions}]}

    def delete_groups(self, request: Any) -> dict[str, Any] | None:
        error = self.error()
        if error is None:
            return None
        return {
            "results": [{"group_id": name, "error_code": error} for name in request.groups_names]
        }


@pytest.fixture
def state(broker: FakeBroker) -> State:
    return State(broker)


def write(broker: FakeBroker, changes: list[OffsetChange], timeout_s: float = 5) -> Any:
    with LiveCluster(broker.bootstrap, timeout_s=timeout_s) as store:
        return store.write_offsets({"g": changes})


def test_what_another_process_commits_right_behind_is_told(
    broker: FakeBroker, state: State
) -> None:
    """Both would say that all was done."""
    state.others = 11
    (problem,) = write(broker, changes_to(WANTED, THERE))
    at = problem.topic, problem.partition
    assert (problem.kind, at) == (ProblemKind.OVERWRITTEN, ("orders", 0))
    assert problem.reason == (
        "orders-0: expected offset 9, found offset 11; it was written, and another process "
        "committed after that."
    )
    state.others, state.offset = None, 7
    assert write(broker, changes_to(WANTED, THERE)) == ()


def test_what_cannot_be_read_back_is_not_called_done(broker: FakeBroker, state: State) -> None:
    def refuse_then(request: Any) -> dict[str, Any]:
        answer = state.fetch(request)
        return {**answer, "error_code": 30} if "OffsetCommit" in broker.names else answer

    broker.handlers["OffsetFetch"] = refuse_then
    (problem,) = write(broker, changes_to(WANTED, THERE))
    assert problem.kind is ProblemKind.UNKNOWN_END
    assert (
        "could not be read back: The cluster returned GROUP_AUTHORIZATION_FAILED" in problem.reason
    )


def test_large_groups_take_several_requests() -> None:
    """300 partitions with 4 KiB of metadata are more than one batch may have (1 MiB)."""
    large = [
        OffsetChange("t", number, None, CommittedOffset("t", number, 1, None, "m" * 4096))
        for number in range(300)
    ]
    small = changes_to(WANTED)
    mixed = [*small, *changes_to({("orders", 1): None}, {("orders", 1): 1})]
    with LiveCluster("nowhere:1") as store:
        assert store.divided({"large": large, "small": small, "mixed": mixed}) == {
            "large": 2,
            "mixed": 2,
        }


def test_a_cluster_is_called_by_its_id_once_that_is_known(broker: FakeBroker, state: State) -> None:
    where = f"the cluster {broker.bootstrap}"
    with LiveCluster([broker.bootstrap]) as store:
        assert store.store_name == StoreName(where)
        store.view([])
        assert store.store_name == StoreName(where, "fake")


@pytest.mark.parametrize("error", [LOADING, NOT_AVAILABLE, NOT_COORDINATOR, TIMED_OUT])
@pytest.mark.parametrize("takes", [False, True])
def test_a_commit_that_is_put_off_is_compared_before_it_is_sent_again(
    broker: FakeBroker, state: State, error: int, takes: bool
) -> None:
    """`COORDINATOR_NOT_AVAILABLE` may be of a write that too few replicas had in time."""
    state.errors, state.takes = [error], takes
    assert write(broker, changes_to(WANTED, THERE)) == ()
    assert state.offset == 9
    assert broker.names.count("OffsetCommit") == (1 if takes else 2)
    assert broker.names.count("OffsetFetch") == 3, "and what was written is read back"


def test_who_commits_meanwhile_is_not_written_over(broker: FakeBroker, state: State) -> None:
    state.errors = [NOT_COORDINATOR]

    def moved(_: Any) -> dict[str, Any]:
        if broker.names.count("OffsetCommit"):
            state.offset = 8
        return coordinator(broker)

    broker.handlers["FindCoordinator"] = moved
    (problem,) = write(broker, changes_to(WANTED, THERE))
    assert problem.kind is ProblemKind.CHANGED
    assert "orders-0: expected offset 7, found offset 8" in problem.reason
    assert broker.names.count("OffsetCommit") == 1


@pytest.mark.slow
def test_a_coordinator_that_never_loads(
    broker: FakeBroker, state: State, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The pauses take 0.5 and 1 s; the next one, of 2 s, would be longer than what is left."""
    monkeypatch.setattr(client, "FIRST_BACKOFF_S", 0.5)
    monkeypatch.setattr(client, "LAST_BACKOFF_S", 60)
    state.errors = [LOADING] * 1000
    (problem,) = write(broker, changes_to(WANTED, THERE), timeout_s=3.4)
    assert (problem.kind, problem.group_id) == (ProblemKind.NO_COORDINATOR, "g")
    assert "COORDINATOR_LOAD_IN_PROGRESS" in problem.reason
    assert state.offset == 7


def test_an_error_that_nobody_knows(broker: FakeBroker, state: State) -> None:
    state.errors = [UNKNOWN]
    (problem,) = write(broker, changes_to(WANTED, THERE))
    assert (problem.kind, problem.topic) == (ProblemKind.DENIED, None)
    assert problem.reason == "The cluster returned UNKNOWN."


def test_deletions_behind_a_commit_that_fail_are_told_by_partition(
    broker: FakeBroker, state: State
) -> None:
    """For a problem of the group says that nothing of it was done."""
    rows = [("orders", 0, 7), ("orders", 1, 8)]
    broker.handlers["OffsetFetch"] = lambda _: committed(("orders", 0, state.offset or 0), rows[1])
    there = {(topic, partition): offset for topic, partition, offset in rows}
    state.errors = [0, NOT_FOUND]
    (problem,) = write(broker, changes_to({("orders", 0): 9, ("orders", 1): None}, there))
    assert (problem.kind, problem.topic, problem.partition) == (ProblemKind.NOT_FOUND, "orders", 1)
    assert state.offset == 9


def test_an_answer_that_leaves_a_partition_out(broker: FakeBroker, state: State) -> None:
    broker.handlers["OffsetCommit"] = lambda _: {"topics": []}
    (problem,) = write(broker, changes_to(WANTED, THERE))
    assert problem.kind is ProblemKind.UNKNOWN_END
    assert "answered OffsetCommit without orders-0; it is unknown whether" in problem.reason


def test_a_broker_that_falls_silent_in_a_commit(broker: FakeBroker, state: State) -> None:
    over = threading.Event()

    def silent(_: Any) -> None:
        over.wait(60)

    broker.handlers["OffsetCommit"] = silent
    (problem,) = write(broker, changes_to(WANTED, THERE), timeout_s=3)
    over.set()
    assert problem.kind is ProblemKind.UNKNOWN_END
    assert "did not answer OffsetCommit within" in problem.reason
    assert "it is unknown whether the group was changed" in problem.reason
    assert broker.names.count("OffsetCommit") == 1


@pytest.fixture
def two_attempts(monkeypatch: pytest.MonkeyPatch) -> None:
    """However slow the machine is: the time is over when something has been tried again once."""
    waits: list[object] = []

    async def wait(backoff: object, what: str, **_: bool) -> bool:
        waits.append(backoff)
        return len(waits) == 1

    monkeypatch.setattr(client.Backoff, "wait", wait)


@pytest.mark.usefixtures("two_attempts")
@pytest.mark.parametrize(
    ("errors", "takes", "is_unknown"),
    [([None] * 9, True, True), ([TIMED_OUT] * 9, False, True), ([LOADING] * 9, False, False)],
    ids=["disconnected", "too few replicas", "loading"],
)
def test_a_broker_that_is_lost_behind_a_commit(
    broker: FakeBroker, state: State, errors: list[int | None], takes: bool, is_unknown: bool
) -> None:
    """What was sent may have been written, unless the coordinator had not loaded the group."""
    state.errors, state.takes = errors, takes

    def reads(_: Any) -> dict[str, Any] | None:
        return None if "OffsetCommit" in broker.names else committed(("orders", 0, 7))

    broker.handlers["OffsetFetch"] = reads
    (problem,) = write(broker, changes_to(WANTED, THERE), timeout_s=60)
    assert (problem.group_id, problem.topic) == ("g", None)
    assert (problem.kind is ProblemKind.UNKNOWN_END) is is_unknown
    assert ("it is unknown whether the group was changed" in problem.reason) is is_unknown


@pytest.mark.usefixtures("two_attempts")
def test_what_was_still_to_be_sent_over_a_connection_that_broke(
    broker: FakeBroker, state: State, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of two groups one was on its way, and the other waited for its turn."""
    monkeypatch.setattr(client, "IN_FLIGHT", 1)
    state.errors = [None]
    broker.handlers["FindCoordinator"] = lambda _: (
        None if "OffsetCommit" in broker.names else coordinator(broker)
    )
    with LiveCluster(broker.bootstrap, timeout_s=60) as store:
        problems = store.write_offsets(dict.fromkeys("gh", changes_to(WANTED, THERE)))
    assert [problem.group_id for problem in problems] == ["g", "h"]
    assert problems[0].kind is ProblemKind.UNKNOWN_END
    assert problems[1].kind is not ProblemKind.UNKNOWN_END
    assert broker.names.count("OffsetCommit") == 1


@pytest.mark.usefixtures("two_attempts")
def test_a_broker_that_is_lost_before_the_commit(broker: FakeBroker, state: State) -> None:
    broker.handlers["OffsetFetch"] = lambda _: None
    (problem,) = write(broker, changes_to(WANTED, THERE), timeout_s=60)
    assert problem.kind is ProblemKind.DISCONNECTED
    assert "unknown" not in problem.reason
    assert "OffsetCommit" not in broker.names


@pytest.mark.parametrize("newest", [6, 8])
@pytest.mark.parametrize(
    ("topic", "metadata", "reason"),
    [
        ("t" * 32_768, "", "The topic cannot be sent: expected 32,767 bytes at most"),
        ("orders", "ü" * 16_384, "The metadata cannot be sent: expected 32,767 bytes at most"),
        ("orders", "\ud800", "The metadata cannot be sent: expected Unicode characters"),
    ],
    ids=["topic", "metadata", "half a character"],
)
def test_what_no_request_can_have_keeps_no_other_waiting(
    broker: FakeBroker, state: State, newest: int, topic: str, metadata: str, reason: str
) -> None:
    broker.newest["OffsetCommit"] = newest
    unfit = CommittedOffset(topic, 1, 1, metadata=metadata)
    changes = [*changes_to(WANTED, THERE), OffsetChange(topic, 1, None, unfit)]
    (problem,) = write(broker, changes)
    assert (problem.kind, problem.topic) == (ProblemKind.UNSUPPORTED, topic)
    assert (problem.partition, problem.reason.startswith(reason)) == (1, True)
    assert state.offset == 9


def test_the_longest_texts_are_sent(broker: FakeBroker, state: State) -> None:
    longest = CommittedOffset("orders", 0, 9, metadata="ü" * 16_383 + "u")
    there = CommittedOffset("orders", 0, 7)
    assert write(broker, [OffsetChange("orders", 0, there, longest)]) == ()
    assert state.offset == 9


def test_a_group_that_can_have_no_such_name(broker: FakeBroker, state: State) -> None:
    group_id = "g" * 32_768
    with LiveCluster(broker.bootstrap) as store:
        (problem,) = store.write_offsets({group_id: changes_to(WANTED), "g": []})
        assert (problem.kind, problem.group_id) == (ProblemKind.UNSUPPORTED, group_id)
        assert problem.reason.startswith("No group can have this id: expected 32,767 bytes")
        (problem,) = store.read_offsets([group_id]).problems
        assert problem.kind is ProblemKind.UNSUPPORTED


@pytest.mark.parametrize("state_name", ["PreparingRebalance", "CompletingRebalance", "Stable"])
def test_a_group_that_is_not_empty_is_left_alone(
    broker: FakeBroker, state: State, state_name: str
) -> None:
    """Also where no members are told, as of one in a rebalance: they would commit over it."""
    broker.handlers["DescribeGroups"] = lambda request: {
        "groups": [described(group_id, state_name) | {"members": []} for group_id in request.groups]
    }
    (problem,) = write(broker, changes_to(WANTED, THERE))
    assert problem.kind is ProblemKind.ACTIVE
    assert problem.reason == (
        f"The group is {state_name}, with 0 members; only members may commit: stop or remove "
        "them first."
    )
    assert "OffsetCommit" not in broker.names


def test_offsets_that_cannot_be_deleted_keep_the_group_from_being_written(
    broker: FakeBroker, state: State
) -> None:
    """Kafka before 2.4 has no OffsetDelete: half of the plan would be done."""
    del broker.handlers["OffsetDelete"]
    rows = [("orders", 0, 7), ("orders", 1, 7)]
    broker.handlers["OffsetFetch"] = lambda _: committed(("orders", 0, state.offset or 0), rows[1])
    there = {(topic, partition): offset for topic, partition, offset in rows}
    (problem,) = write(broker, changes_to({("orders", 0): 9, ("orders", 1): None}, there))
    assert (problem.kind, problem.topic) == (ProblemKind.UNSUPPORTED, None)
    assert "OffsetCommit" not in broker.names
    (problem,) = write(broker, changes_to({("orders", 0): 9, ("orders", 1): None}, there))
    assert write(broker, changes_to(WANTED, THERE)) == (), "commits alone can be"


@pytest.mark.parametrize(
    ("epoch", "version", "sent"), [(None, 6, -1), (0, 6, 0), (3, 6, 3), (3, 5, None)]
)
def test_leader_epochs_go_along_where_they_can(
    broker: FakeBroker, state: State, epoch: int | None, version: int, sent: int | None
) -> None:
    """-1 is Kafka's word for none (`OffsetCommitRequest.json`, versions 6 and later)."""
    broker.newest["OffsetCommit"] = version
    after = CommittedOffset("orders", 0, 9, epoch)
    assert write(broker, [OffsetChange("orders", 0, CommittedOffset("orders", 0, 7), after)]) == ()
    (request,) = [request for name, _, request in broker.asked if name == "OffsetCommit"]
    ((row,),) = (topic.partitions for topic in request.topics)
    if sent is not None:
        assert row.committed_leader_epoch == sent


def test_how_a_group_is_divided_into_requests() -> None:
    """Each of 5,000 partitions, and of 900,000 bytes of records with 80 beside names, at most."""

    def sizes(count: int, group_id: str, topic: str, metadata: str | None) -> list[int]:
        offsets = [CommittedOffset(topic, n, n, metadata=metadata) for n in range(count)]
        return [len(part) for part in offset_writer.requests_of(group_id, offsets)]

    assert sizes(0, "g", "t", None) == []
    assert sizes(5_000, "g", "t", None) == [5_000]
    assert sizes(5_001, "g", "t", None) == [5_000, 1]
    assert sizes(901, "g" * 100, "t" * 100, "m" * 720) == [900, 1], "1,000 bytes each"
    assert sizes(901, "g" * 100, "t" * 100, "ü" * 360) == [900, 1], "bytes, not characters"
    assert sizes(900, "g" * 100, "t" * 100, "m" * 720) == [900]
    assert sizes(2, "g", "t", "m" * 1_000_000) == [1, 1], "one is never divided"


def test_a_problem_that_was_mended_is_not_told(broker: FakeBroker, state: State) -> None:
    """Who is found at last, and written, has no problem with how it was looked for."""
    errors = [NOT_AVAILABLE]
    broker.handlers["FindCoordinator"] = lambda _: coordinator(
        broker, errors.pop() if errors else 0
    )
    assert write(broker, changes_to(WANTED, THERE)) == ()
    assert state.offset == 9


@pytest.mark.parametrize(("code", "is_read"), [(0, True), (UNKNOWN_TOPIC, True), (DENIED, False)])
def test_a_partition_whose_offset_is_not_told(
    broker: FakeBroker, state: State, code: int, is_read: bool
) -> None:
    """Of one that may not be read nobody knows that nothing is committed: nothing is written."""

    def fetch(_: Any) -> dict[str, Any]:
        answer = committed(("orders", 0, state.offset or 0), ("orders", 1, -1))
        answer["topics"][1]["partitions"][0]["error_code"] = code
        return answer

    broker.handlers["OffsetFetch"] = fetch
    with LiveCluster(broker.bootstrap, timeout_s=5) as store:
        reading = store.read_offsets(["g"])
    assert ([offset.committed_offset for offset in reading.offsets.get("g", ())] == [7]) is is_read
    assert [problem.kind for problem in reading.problems] == (
        [] if is_read else [ProblemKind.DENIED]
    )
    problems = write(broker, changes_to(WANTED, THERE))
    assert [problem.kind for problem in problems] == ([] if is_read else [ProblemKind.DENIED])
    assert ("OffsetCommit" in broker.names) is is_read


@pytest.mark.parametrize("error", [NOT_FOUND, LOADING, None])
def test_the_first_of_two_requests_was_done(
    broker: FakeBroker, state: State, monkeypatch: pytest.MonkeyPatch, error: int | None
) -> None:
    """What is told of the second is told of its partition, also where it was sent again."""
    monkeypatch.setattr(offset_writer, "PARTITIONS_PER_REQUEST", 1)
    second = {"partition_index": 1, "error_code": NOT_FOUND}
    offsets = {0: 7, 1: 7}
    broker.handlers["OffsetFetch"] = lambda _: committed(
        *(("orders", each, offset) for each, offset in offsets.items())
    )
    errors = [0, error]

    def commits(request: Any) -> dict[str, Any] | None:
        ((row,),) = (topic.partitions for topic in request.topics)
        code = errors.pop(0) if errors else NOT_FOUND
        if code is None:
            return None
        if not code:
            offsets[row.partition_index] = row.committed_offset
        partition = {"partition_index": row.partition_index, "error_code": code}
        return {"topics": [{"name": "orders", "partitions": [partition]}]}

    broker.handlers["OffsetCommit"] = commits
    both = {("orders", 0): 7, ("orders", 1): 7}
    (problem,) = write(broker, changes_to({("orders", 0): 9, ("orders", 1): 9}, both))
    assert (problem.topic, problem.partition) == ("orders", second["partition_index"])
    assert problem.kind is ProblemKind.NOT_FOUND


def test_what_was_not_sent_is_not_taken_for_done(
    broker: FakeBroker, state: State, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody has deleted a group that is not there when it is first asked for."""
    state.errors = [NOT_FOUND]
    ask_once = client.BrokerClient.ask_once
    tries: list[object] = []

    async def fails_first(self: Any, *args: Any, **fields: Any) -> Any:
        tries.append(fields)
        if len(tries) == 1:
            raise BrokerError(ProblemKind.THROTTLED, "broker 1 is holding requests back", 1)
        return await ask_once(self, *args, **fields)

    monkeypatch.setattr(client.BrokerClient, "ask_once", fails_first)
    with LiveCluster(broker.bootstrap) as store:
        (problem,) = store.delete_groups(["g"])
    assert (problem.kind, len(tries)) == (ProblemKind.NOT_FOUND, 2)


@pytest.mark.usefixtures("two_attempts")
def test_a_deletion_without_an_answer(broker: FakeBroker, state: State) -> None:
    state.errors = [None]
    broker.handlers["FindCoordinator"] = lambda _: (
        None if "DeleteGroups" in broker.names else coordinator(broker)
    )
    with LiveCluster(broker.bootstrap, timeout_s=60) as store:
        (problem,) = store.delete_groups(["g"])
    assert (problem.kind, problem.group_id) == (ProblemKind.UNKNOWN_END, "g")


@pytest.mark.parametrize(
    ("errors", "kinds"),
    [
        ([NOT_FOUND], [ProblemKind.NOT_FOUND]),
        ([None, NOT_FOUND], []),
        ([NOT_COORDINATOR, 0], []),
        ([LOADING, NOT_FOUND], [ProblemKind.NOT_FOUND]),
    ],
    ids=["never there", "gone, though nobody heard", "moved", "loaded, and not there"],
)
def test_a_group_that_is_gone(
    broker: FakeBroker, state: State, errors: list[int | None], kinds: list[ProblemKind]
) -> None:
    state.errors, state.states = errors, ["Dead"]
    with LiveCluster(broker.bootstrap) as store:
        assert [group.kind for group in store.delete_groups(["g"])] == kinds


def test_a_deleted_group_that_exists_again_is_told(broker: FakeBroker, state: State) -> None:
    """A consumer that starts, or another process that commits, makes it again at once."""
    state.states = ["PreparingRebalance"]
    with LiveCluster(broker.bootstrap) as store:
        (problem,) = store.delete_groups(["g"])
    assert (problem.kind, problem.group_id) == (ProblemKind.OVERWRITTEN, "g")
    assert problem.reason == (
        "It was deleted, and exists again (state PreparingRebalance): a member joined, or another "
        "process committed, after that."
    )


@pytest.mark.parametrize(
    ("line", "found"), [("reset g --to-offset 9", 11), ("delete g", None)], ids=["reset", "delete"]
)
def test_a_backup_stays_where_another_process_changed_what_was_written(
    broker: FakeBroker, state: State, cli: Cli, tmp_path: Path, line: str, found: int | None
) -> None:
    """The change was carried out: the backup has what is lost."""
    state.others = found
    broker.handlers["ListOffsets"] = lambda request: ends(request, 0, 20)
    backup = tmp_path / "backup.json"
    line += f" -b {broker.bootstrap} --execute --yes --backup {backup} -o json"
    more = ("--allow-skip",) if found else ()
    result = cli("offsets", *line.split(), *more)
    assert result.status == ExitStatus.PARTLY
    document = json.loads(result.out)
    assert [row["result"] for row in document["data"]] == ["overwritten"]
    assert [each["kind"] for each in document["errors"]] == ["overwritten"]
    assert "nothing was changed" not in result.err
    assert [row["committed_offset"] for row in json.loads(backup.read_text())["data"]] == [7]


def test_a_deletion_that_cannot_be_read_back_is_not_called_done(
    broker: FakeBroker, state: State
) -> None:
    def describe(request: Any) -> dict[str, Any]:
        rows = state.describe(request)["groups"]
        return {"groups": [{**row, "error_code": 30} for row in rows]}

    broker.handlers["DescribeGroups"] = describe
    with LiveCluster(broker.bootstrap) as store:
        (problem,) = store.delete_groups(["g"])
    assert (problem.kind, problem.group_id) == (ProblemKind.UNKNOWN_END, "g")
    assert (
        "could not be read back: The cluster returned GROUP_AUTHORIZATION_FAILED" in problem.reason
    )


def test_a_static_member_whose_place_was_taken(broker: FakeBroker) -> None:
    def left(request: Any) -> dict[str, Any]:
        rows = [
            {
                "member_id": member.member_id,
                "group_instance_id": member.group_instance_id,
                "error_code": FENCED_INSTANCE if member.group_instance_id else 0,
            }
            for member in request.members
        ]
        return {"error_code": 0, "members": rows}

    broker.handlers["LeaveGroup"] = left
    broker.newest["LeaveGroup"] = 3
    with LiveCluster(broker.bootstrap) as store:
        problems = store.remove_members("g", {"m": None, "s": "pod-1"})
    assert list(problems) == ["s"]
    problem = problems["s"]
    assert problem.kind is ProblemKind.CHANGED
    assert problem.reason.startswith("pod-1: The cluster returned FENCED_INSTANCE_ID")


def test_a_member_that_is_gone_though_nobody_heard(broker: FakeBroker) -> None:
    errors: list[int | None] = [None, UNKNOWN_MEMBER, UNKNOWN_MEMBER]

    def left(_: Any) -> dict[str, Any] | None:
        error = errors.pop(0)
        return None if error is None else {"error_code": error}

    broker.handlers["LeaveGroup"] = left
    with LiveCluster(broker.bootstrap) as store:
        assert store.remove_members("g", {"m": None}) == {}
        (problem,) = store.remove_members("g", {"m": None}).values()
    assert problem.kind is ProblemKind.NOT_FOUND
