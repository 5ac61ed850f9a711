"""Names of topics by their ids, as records of `__consumer_offsets` tell them.

Offset commits have both from version 4 of the value on, and so have the records of the types
…PartitionMetadata, which Kafka before 4.1 wrote.
"""

from __future__ import annotations

from collections.abc import Mapping

import orjson
import pyarrow as pa
import pyarrow.compute as pc

_LISTS = ("topics", "initializingTopics", "initializedTopics", "deletingTopics")
_GONE = "<UNKNOWN>"
"""What coordinators record for the name of a topic that is gone."""


def topic_names_in(facts: Mapping[str, pa.Table]) -> dict[str, str]:
    """Give the names that rows of tables tell, by topic id."""
    names: dict[str, str] = {}
    commits = facts.get("offset_commits")
    if commits is not None and commits["topic_id"].null_count < len(commits):
        pairs = commits.select(["topic_id", "topic"]).drop_null()
        pairs = pa.table(
            [pairs["topic_id"].cast(pa.string()), pairs["topic"].cast(pa.string())],
            names=["id", "name"],
        )
        names |= {
            row["id"]: row["name"]
            for row in pairs.group_by(["id", "name"], use_threads=False).aggregate([]).to_pylist()
        }
    epochs = facts.get("consumer_group_epochs")
    if epochs is not None:
        is_metadata = pc.ends_with(epochs["type"], "PartitionMetadata")
        for text in epochs["value_json"].filter(is_metadata).to_pylist():
            data = orjson.loads(text)["data"]
            for topic in (topic for name in _LISTS for topic in data.get(name) or ()):
                if topic["topicName"] != _GONE:
                    names[topic["topicId"]] = topic["topicName"]
    return names
