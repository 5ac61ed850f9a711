"""The user data of classic Kafka Streams as fields, for the programs of `schema_program`.

They are laid out as `consumer_protocol` says. Beside the types of `message.schema` there are:

    text        int16 length and ASCII, which modified UTF-8 writes as it is
    long text   int32 length and ASCII
    no name     int32 length that is 0, of a name that is null
    topics      what the numbers of topics mean, for which nothing is shown
    topic       one of these numbers, shown as the name
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from kgroup.protocol.message.schema import Field, fields


def subscription_info(version: int) -> tuple[Field, ...]:
    """The fields of a version; all bytes in it are text."""
    return _as_text(fields("member_metadata/SubscriptionInfoData", version))


def _as_text(members: Sequence[Field]) -> tuple[Field, ...]:
    return tuple(
        replace(
            field,
            type="long text" if field.type == "bytes" else field.type,
            fields=field.fields and _as_text(field.fields),
        )
        for field in members
    )


def assignment_info(version: int) -> tuple[Field, ...]:
    """The fields of a version."""
    topic = "text" if version < 5 else "topic"
    task = [_field("topicGroupId"), _field("partition")]
    if version >= 10:
        task.append(_field("namedTopology", "no name"))
    host = [_field("host", "text"), _field("port"), _topic_partitions(topic)]
    members = [
        (1, _field("version")),
        (3, _field("commonlySupportedVersion")),
        (1, _array("activeTasks", task)),
        (1, _array("standbyTasks", [*task, _topic_partitions("text")])),
        (5, _field("topics", "topics")),
        (2, _array("partitionsByHost", host)),
        (6, _array("standbyPartitionsByHost", host)),
        (4, _field("errorCode")),
        (7, _field("nextRebalanceMs", "int64")),
    ]
    return tuple(field for since, field in members if version >= since)


def _topic_partitions(topic: str) -> Field:
    return _array("topicPartitions", [_field("topic", topic), _field("partition")])


def _array(name: str, members: Sequence[Field]) -> Field:
    return replace(_field(name, "struct"), array=True, fields=tuple(members))


def _field(name: str, kind: str = "int32") -> Field:
    return Field(name, kind, False, False, False, None, None, None)
