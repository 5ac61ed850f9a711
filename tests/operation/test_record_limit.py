"""How the size of a record compares with the limit, and what is known of compression."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from kgroup.errors import BrokerError, ProblemKind
from kgroup.model.group import Broker
from kgroup.model.problem import Problem
from kgroup.operation.record_limit import compared_size, compresses_records
from kgroup.source.base import SettingReading
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
