"""Topics that were asked about in vain: which of them there are, and what is said of the others."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import orjson
import pytest

from kgroup.errors import NotFoundError
from kgroup.history.query.commit_summary import commit_summaries
from kgroup.history.query.lag import lags
from kgroup.history.query.owner import timeline
from kgroup.history.sql.engine import DuckEngine
from kgroup.history.sql.question import LogEnd, check_topic
from kgroup.sample import sample_log_dir
from tests.history.recorded import Ask
from tests.history.warehouse_files import write_rows

T = 1_700_000_000_000
ID = "UX8f3nSqTZm0cRj1mY4Q9A"


def epoch(record: str, data: dict[str, Any]) -> dict[str, Any]:
    """Make a record of an epoch group; values as `decode-offsets` prints them."""
    value = {"version": 0, "data": data}
    return {"group_id": "g", "type": record, "value_json": orjson.dumps(value).decode()}


# A topic that each place names, and no other one does.
ROWS: dict[str, list[dict[str, Any]]] = {
    "assignments": [{"group_id": "g", "topic": "owned", "topic_id": ID, "partition": 0}],
    "offset_commits": [{"group_id": "g", "topic": "committed", "partition": 0}],
    "tombstones": [{"group_id": "g", "topic": "removed", "partition": 0, "type": "OffsetCommit"}],
    "log_ends": [{"topic": "ended", "partition": 0, "log_end_offset": 5}],
    "members": [
        {"group_id": "g", "subscribed_topics": ["wanted"]},
        {"group_id": "g", "subscribed_topics": None},
    ],
    "consumer_group_epochs": [
        epoch("ConsumerGroupRegularExpression", {"topics": ["matched"], "version": 1}),
        epoch(
            "ConsumerGroupPartitionMetadata",
            {"topics": [{"topicId": ID, "topicName": "counted", "numPartitions": 1}]},
        ),
        epoch(
            "StreamsGroupTopology",
            {
                "epoch": 1,
                "subtopologies": [
                    {
                        "subtopologyId": "0",
                        "sourceTopics": ["source"],
                        "sourceTopicRegex": [],
                        "repartitionSinkTopics": ["sink"],
                        "stateChangelogTopics": [
                            {"name": "changelog", "topicConfigs": [{"key": "a", "value": "b"}]}
                        ],
                        "repartitionSourceTopics": [{"name": "repartition"}],
                        "copartitionGroups": [{"sourceTopics": [0]}],
                    }
                ],
            },
        ),
        epoch("ConsumerGroupMetadata", {"epoch": 1, "topics": ["no record of these has topics"]}),
    ],
}
NAMES = {
    *("owned", "committed", "removed", "ended", "wanted", "matched", "counted", "source", "sink"),
    *("changelog", "repartition"),
}


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DuckEngine]:
    with DuckEngine(write_rows(tmp_path_factory.mktemp("rows"), ROWS)) as engine:
        yield engine


@pytest.mark.slow
@pytest.mark.parametrize("topic", sorted(NAMES))
def test_whatever_record_names_it_there_is_a_topic(engine: DuckEngine, topic: str) -> None:
    check_topic(engine, topic, None)
    check_topic(engine, topic, "test")
    with pytest.raises(NotFoundError, match="not in the records of cluster west"):
        check_topic(engine, topic, "west")


def test_a_topic_is_known_by_its_id_where_it_may_be_asked_for_so(engine: DuckEngine) -> None:
    check_topic(engine, ID, None, by_id=True)
    with pytest.raises(NotFoundError):
        check_topic(engine, ID, None)


def test_names_like_it_are_suggested_or_those_told_that_there_are(engine: DuckEngine) -> None:
    with pytest.raises(NotFoundError) as error:
        check_topic(engine, "chanelog", None)
    assert str(error.value) == ("topic 'chanelog' is not in the records; did you mean 'changelog'?")
    assert error.value.topic == "chanelog"
    with pytest.raises(NotFoundError) as error:
        check_topic(engine, "xyz", "test")
    first, last = sorted(NAMES)[:10], sorted(NAMES)[10:]
    assert str(error.value) == (
        "topic 'xyz' is not in the records of cluster test; choose one of "
        f"{', '.join(first)} and {len(last)} more"
    )
    with pytest.raises(NotFoundError, match=r"the records of .*; there are no topics$"):
        check_topic(engine, "xyz", "west")


_Asked = Callable[..., Sequence[object]]
QUESTIONS: dict[str, _Asked] = {
    "timeline": lambda engine, **of: timeline(engine, "order-service", **of).data,
    "commits": lambda engine, **of: (
        commit_summaries(engine, "order-service", pause_ms=1, **of).data
    ),
    "lag": lambda engine, **of: lags(engine, "order-service", **of).data,
}


@pytest.mark.slow
@pytest.mark.parametrize("ask", QUESTIONS.values(), ids=QUESTIONS)
def test_recorded_topics(recorded_engine: Ask, ask: _Asked) -> None:
    engine = recorded_engine(sample_log_dir())
    assert ask(engine, topic="orders")
    for topic in ("payments", "shipments"):  # others have these, and the log names them
        assert ask(engine, topic=topic) == ()
    assert ask(engine, topic="payments", until_ms=T) == ()
    with pytest.raises(NotFoundError, match="did you mean 'orders'"):
        ask(engine, topic="oders")
    with pytest.raises(NotFoundError, match=r"choose one of .*, orders, payments, shipments$"):
        ask(engine, topic="nosuch")


def test_a_topic_whose_end_is_given_is_there(recorded_engine: Ask) -> None:
    engine = recorded_engine(sample_log_dir())
    ends = [LogEnd("fresh", 0, 0, 5, T)]
    assert lags(engine, "order-service", topic="fresh", given=ends).data == ()
