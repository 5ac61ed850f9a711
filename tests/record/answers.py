"""What a broker itself says about its groups: the truth that tests compare decoded data with."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from tests.broker.maven import version_tuple
from tests.record.wire import Wire, WireError, jsonable

_DESCRIBE = {
    "consumer": "ConsumerGroupDescribe",
    "share": "ShareGroupDescribe",
    "streams": "StreamsGroupDescribe",
}


def ask(
    version: str,
    bootstrap: str,
    *,
    partitions: Mapping[str, int] | None = None,
    more_groups: Iterable[str] = (),
) -> dict[str, Any]:
    """Everything the broker tells about groups, offsets and topics, ready for JSON.

    `partitions` (topic to its number of partitions) and `more_groups` are for brokers too old to
    enumerate: before 0.10.2 a fetch of offsets names partitions, before 0.10 a group that only
    commits is not listed. Groups stand under the request that describes them, with the names and
    values of its answer; `offsets` has the committed ones, as the broker hands them to a client.
    """
    with Wire(version, bootstrap) as wire:
        topics = _topics(wire)
        listed = _list_groups(wire) if version_tuple(version) >= (0, 9) else []
        answer: dict[str, Any] = {
            "topics": topics,
            "log_end_offsets": {name: _end_offsets(wire, name, topics[name]) for name in topics},
            "groups": sorted(listed, key=lambda group: str(group["group_id"])),
            "described": {},
            "offsets": {},
        }
        names = {group["group_id"]: group.get("group_type", "classic") for group in listed}
        for name, group_type in sorted(names.items()):
            answer["described"][name] = _describe(wire, name, group_type.lower())
        for name in sorted({*names, *more_groups}):
            if names.get(name, "").lower() == "share":
                answer.setdefault("share_offsets", {})[name] = _share_offsets(wire, name)
            else:
                answer["offsets"][name] = _offsets(wire, name, partitions or {})
        plain: dict[str, Any] = jsonable(answer)
        return plain


def _topics(wire: Wire) -> dict[str, dict[str, Any]]:
    everything: list[Any] | None = None if version_tuple(wire.version) >= (0, 10) else []
    topics = {}
    for topic in wire.call("Metadata", topics=everything)["topics"]:
        topics[topic["name"]] = {
            "topic_id": topic.get("topic_id"),
            "partitions": len(topic["partitions"]),
        }
    return dict(sorted(topics.items()))


def _end_offsets(wire: Wire, topic: str, known: Mapping[str, Any]) -> list[int]:
    number = version_tuple(wire.version)
    more = {} if number >= (0, 10, 1) else {"max_num_offsets": 1}
    asked = [
        {"partition_index": index, "timestamp": -1, **more} for index in range(known["partitions"])
    ]
    answer = wire.call("ListOffsets", replica_id=-1, topics=[{"name": topic, "partitions": asked}])
    ends = {}
    for partition in answer["topics"][0]["partitions"]:
        old = partition.get("old_style_offsets")
        ends[partition["partition_index"]] = old[0] if old else partition["offset"]
    return [ends[index] for index in range(known["partitions"])]


def _list_groups(wire: Wire) -> list[dict[str, Any]]:
    answer = wire.call("ListGroups")
    if answer["error_code"]:
        raise WireError(f"ListGroups: error {answer['error_code']}")
    groups: list[dict[str, Any]] = answer["groups"]
    return groups


def _describe(wire: Wire, name: str, group_type: str) -> dict[str, Any]:
    api = _DESCRIBE.get(group_type, "DescribeGroups")
    field = "groups" if api == "DescribeGroups" else "group_ids"
    answer = wire.call(api, None, **{field: [name]})
    group: dict[str, Any] = answer["groups"][0]
    if group["error_code"]:
        raise WireError(f"{api} {name!r}: {group}")
    return {"api": api} | group


def _offsets(wire: Wire, name: str, partitions: Mapping[str, int]) -> list[dict[str, Any]]:
    number = version_tuple(wire.version)
    if number >= (0, 10, 2):
        version = 7 if number >= (2, 5) else None
        answer = wire.call("OffsetFetch", version, group_id=name, topics=None)
    else:
        asked = [
            {"name": topic, "partition_indexes": list(range(count))}
            for topic, count in partitions.items()
        ]
        answer = wire.call("OffsetFetch", group_id=name, topics=asked)
    if answer.get("error_code"):
        raise WireError(f"OffsetFetch {name!r}: error {answer['error_code']}")
    offsets = []
    for topic in answer["topics"]:
        for partition in topic["partitions"]:
            if partition["error_code"] not in (0, 3):  # 3: no offset, as 0.8 says it
                raise WireError(f"OffsetFetch {name!r}: {partition}")
            if partition["committed_offset"] >= 0:
                row = {"topic": topic["name"], "partition": partition["partition_index"]}
                row["offset"] = partition["committed_offset"]
                if "committed_leader_epoch" in partition:
                    row["leader_epoch"] = partition["committed_leader_epoch"]
                row["metadata"] = partition["metadata"]
                offsets.append(row)
    return sorted(offsets, key=lambda row: (row["topic"], row["partition"]))


def _share_offsets(wire: Wire, name: str) -> list[dict[str, Any]]:
    if version_tuple(wire.version) < (4, 1):
        return []
    group = {"group_id": name, "topics": None}
    (answer,) = wire.call("DescribeShareGroupOffsets", groups=[group])["groups"]
    if answer["error_code"]:
        raise WireError(f"DescribeShareGroupOffsets {name!r}: {answer}")
    topics: list[dict[str, Any]] = answer["topics"]
    return topics
