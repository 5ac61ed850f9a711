"""How the size of a record compares with the limit, and what is known of compression."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random

import pytest

from kgroup.assignor.base import TopicMetadata
from kgroup.assignor.group_spec import GroupSpec
from kgroup.assignor.member_spec import MemberSpec, UserData
from kgroup.errors import BrokerError, ProblemKind
from kgroup.model.cluster import TopicPartition
from kgroup.model.group import Broker
from kgroup.model.problem import Problem
from kgroup.operation.assign.group_record import assigned_record_bytes
from kgroup.operation.record_limit import compared_size, compresses_records
from kgroup.protocol.batch.batch_v2 import batch_size
from kgroup.protocol.record.coordinator_record import encode_key, encode_value
from kgroup.simulation.subscription import encode_assignment, encode_subscription
from kgroup.source.base import SettingReading
from tests.examples import examples
from tests.operation.plan.fake_cluster import FakeCluster
from tests.operation.sources import FakeSource

CODEC = "offsets.topic.compression.codec"


@pytest.mark.parametrize(
    ("size", "share"),
    [
        (500, "50% of"),
        (995, "99% of"),
        (999, "99% of"),
        (1000, "100% of"),
        (1001, "more than"),
        (1004, "more than"),
    ],
)
def test_a_size_that_fits_is_100_percent_only_if_it_is_the_limit(size: int, share: str) -> None:
    text = f"{share} max.message.bytes of __consumer_offsets (1,000"
    assert compared_size(size, 1000) == f"{text})"
    assert compared_size(size, 1000, is_assumed=True) == f"{text} by default)"


class Told(FakeCluster):
    """Brokers that return these codecs by broker id; None: the broker does not answer."""

    def __init__(self, codecs: Mapping[int, str | None] | None) -> None:
        super().__init__()
        self._codecs = codecs

    def broker_settings(self, names: object) -> SettingReading:
        if self._codecs is None:
            raise BrokerError(ProblemKind.DENIED, "not told")
        told = {each: {CODEC: codec} for each, codec in self._codecs.items() if codec is not None}
        silent = [each for each, codec in self._codecs.items() if codec is None]
        problems = [Problem(ProblemKind.SILENT, "no answer", broker=each) for each in silent]
        return SettingReading(told, tuple(problems))


@pytest.mark.parametrize(
    ("codecs", "of_any", "of_first"),
    [
        ({1: "0", 2: "0"}, False, False),
        ({1: "1", 2: "4"}, True, True),
        ({1: "0", 2: "1"}, None, False),
        ({1: "0", 2: None}, None, False),
        ({1: "1", 2: None}, None, True),
        ({1: None, 2: "0"}, None, None),
        ({1: "9"}, None, None),
        ({}, None, None),
        (None, None, None),
    ],
)
def test_compression_is_unknown_unless_it_is_told(
    codecs: Mapping[int, str | None] | None, of_any: bool | None, of_first: bool | None
) -> None:
    assert compresses_records(Told(codecs)) is of_any
    assert compresses_records(Told(codecs), Broker(1, "kafka-1", 9092)) is of_first


def test_a_source_without_brokers_does_not_tell_compression() -> None:
    assert compresses_records(FakeSource()) is None


@pytest.mark.parametrize("strategy", ["range", "sticky", "cooperative-sticky"])
def test_the_size_of_a_record_is_that_of_its_bytes(strategy: str) -> None:
    """Owned partitions count where a member sends them: in the message, in user data, or not."""
    draw = Random(strategy)
    for _ in range(examples(50)):
        topics = {f"topic-{'x' * number}": TopicMetadata(9) for number in range(draw.randint(1, 5))}
        every = [(topic, number) for topic in topics for number in range(9)]

        def drawn(every: Sequence[TopicPartition] = every) -> tuple[TopicPartition, ...]:
            return tuple(draw.sample(every, draw.randint(0, len(every))))

        members = tuple(
            MemberSpec(
                f"member-{number}",
                tuple(draw.sample([*topics], draw.randint(1, len(topics)))),
                instance_id=draw.choice((None, "ä")),
                client_id="c",
                host="/127.0.0.1",
                rack=draw.choice((None, "rack")),
                owned=draw.choice((None, drawn())),
                generation=draw.choice((None, 3)),
                version=draw.randint(0, 3),
                user_data=draw.choice((None, None, UserData(drawn(), 2))),
            )
            for number in range(draw.randint(1, 4))
        )
        spec = GroupSpec(strategy, members, topics, id="group", leader_id="member-0")
        assignment = {member.member_id: drawn() for member in members}
        value = {
            "protocolType": "consumer",
            "generation": 3,
            "protocol": strategy,
            "leader": "member-0",
            "currentStateTimestamp": 0,
            "members": [
                {
                    "memberId": member.member_id,
                    "groupInstanceId": member.instance_id,
                    "clientId": member.client_id,
                    "clientHost": member.host,
                    "rebalanceTimeout": 300_000,
                    "sessionTimeout": 45_000,
                    "subscription": encode_subscription(member, strategy),
                    "assignment": encode_assignment(assignment[member.member_id], member.version),
                }
                for member in members
            ],
        }
        key = encode_key("GroupMetadata", {"group": "group"})
        written = batch_size(len(key), len(encode_value("GroupMetadata", 3, value)))
        assert assigned_record_bytes(spec, assignment) == written


@pytest.mark.parametrize("size", [32_767, 32_768])
def test_names_that_are_too_long_for_kafka_have_no_record(size: int) -> None:
    name = "x" * size
    has_record = size <= 32_767  # a string's length is a signed 16-bit integer
    for spec in (
        GroupSpec("range", (MemberSpec("m", ("t",)),), {}, id=name),
        GroupSpec("range", (MemberSpec("m", (name,)),), {}, id="g"),
        GroupSpec("range", (MemberSpec("m", ("t",), rack=name),), {}, id="g"),
    ):
        assert (assigned_record_bytes(spec, {}) is not None) is has_record
