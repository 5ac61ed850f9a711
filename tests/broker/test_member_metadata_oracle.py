"""What assignors, Streams and Connect put into a group, against their own classes of 4.3.1."""

from __future__ import annotations

import json
import struct
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from kgroup.protocol.record import connect_protocol, consumer_protocol
from tests.broker import maven

KAFKA = "4.3.1"
CASES = 2200


def test_member_metadata() -> None:
    folder = Path(__file__).parent / "java"
    sources = [folder / "RandomMemberMetadata.java", folder / "RandomMessages.java"]
    classes = maven.compile_java(sources, KAFKA, "streams")
    main = "org.apache.kafka.clients.consumer.RandomMemberMetadata"
    args = ["20260607", str(CASES)]
    done = maven.run_java(KAFKA, main, args, classes=classes, heap="256m", artifacts="streams")
    counts: Counter[str] = Counter()
    for text in done.stdout.splitlines():
        line = json.loads(text)
        ours = _READ[line["kind"]](bytes.fromhex(line["bytes"]))
        if line["kind"].endswith("sticky"):
            assert ours == line["read"], line
        else:
            assert _sorted(ours) == _sorted(line["read"]), line
        counts[line["kind"]] += 1
    print(f"{counts.total()} cases: {dict(counts)}, 0 differences")
    assert counts == dict.fromkeys(_READ, CASES)


def _user_data(kind: str, raw: bytes, protocol: str) -> Any:
    """Decode user data inside a subscription or an assignment (version 0) of nothing."""
    message = struct.pack(">hii", 0, 0, len(raw)) + raw
    if kind == "subscription":
        return consumer_protocol.decode_subscription(message, protocol)["userData"]
    return consumer_protocol.decode_assignment(message, protocol)["userData"]


def _sticky(raw: bytes) -> dict[str, Any]:
    data = _user_data("subscription", raw, "sticky")
    if "error" in data:  # Kafka then takes the member as one without partitions
        return {"partitions": [], "generation": -1}
    partitions = [
        [topic["topic"], partition]
        for topic in data["previousAssignment"]
        for partition in topic["partitions"]
    ]
    return {"partitions": partitions, "generation": data.get("generation")}


def _cooperative(raw: bytes) -> dict[str, Any]:
    data = _user_data("subscription", raw, "cooperative-sticky")
    return {"partitions": [], "generation": -1 if "error" in data else data["generation"]}


def _stream_subscription(raw: bytes) -> dict[str, Any]:
    data = _user_data("subscription", raw, "stream")
    version = data["version"]
    tasks: list[dict[str, Any]] = []
    for name, total in (("prevTasks", -2), ("standbyTasks", -3)):  # LATEST_OFFSET, UNKNOWN
        tasks += [_task(task, total) for task in data.get(name, ())]
    for item in data.get("taskOffsetSums", ()):
        if version >= 10:
            tasks.append(_task(item, item["offsetSum"]))
        else:
            tasks += [
                {
                    "subtopology": item["topicGroupId"],
                    "partition": partition["partition"],
                    "topology": None,
                    "sum": partition["offsetSum"],
                }
                for partition in item["partitionToOffsetSum"]
            ]
    end_point = data.get("userEndPoint")
    return {
        "version": version,
        "latestSupportedVersion": data.get("latestSupportedVersion", -1),
        "processId": data["processId"],
        "userEndPoint": end_point or None,
        "tasks": tasks,
        "errorCode": data.get("errorCode", 0),
        "clientTags": {tag["key"]: tag["value"] for tag in data.get("clientTags", ())},
    }


def _stream_assignment(raw: bytes) -> dict[str, Any]:
    data = _user_data("assignment", raw, "stream")
    return {
        "version": data["version"],
        "commonlySupportedVersion": data.get("commonlySupportedVersion", -1),
        "activeTasks": [_task(task) for task in data["activeTasks"]],
        "standbyTasks": [
            {**_task(task), "partitions": _partitions(task["topicPartitions"])}
            for task in data["standbyTasks"]
        ],
        "hosts": _hosts(data.get("partitionsByHost", ())),
        "standbyHosts": _hosts(data.get("standbyPartitionsByHost", ())),
        "errorCode": data.get("errorCode", 0),
        "nextRebalanceMs": data.get("nextRebalanceMs", 0x7FFF_FFFF_FFFF_FFFF),
    }


def _task(task: Mapping[str, Any], total: int | None = None) -> dict[str, Any]:
    made = {
        "subtopology": task["topicGroupId"],
        "partition": task["partition"],
        "topology": task.get("namedTopology"),
    }
    return made if total is None else {**made, "sum": total}


def _hosts(hosts: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    return [
        {"host": x["host"], "port": x["port"], "partitions": _partitions(x["topicPartitions"])}
        for x in hosts
    ]


def _partitions(partitions: Iterable[Mapping[str, Any]]) -> list[list[Any]]:
    return [[item["topic"], item["partition"]] for item in partitions]


def _connect_metadata(raw: bytes) -> dict[str, Any]:
    data = connect_protocol.decode_metadata(raw)
    read: dict[str, Any] = {"url": data["url"], "offset": data["configOffset"]}
    if data["version"] >= 1:
        allocation = data["allocation"]
        read["allocation"] = None if allocation is None else _connect_fields(allocation)
    return read


def _connect_assignment(raw: bytes) -> dict[str, Any]:
    return _connect_fields(connect_protocol.decode_assignment(raw))


def _connect_fields(data: Mapping[str, Any]) -> dict[str, Any]:
    read = {
        "error": data["error"],
        "leader": data["leader"],
        "leaderUrl": data["leaderUrl"],
        "offset": data["configOffset"],
        "assigned": _connect_tasks(data["assignment"]),
    }
    if data["version"] >= 1:
        read["version"] = data["version"]
        read["revoked"] = _connect_tasks(data["revoked"])
        read["delay"] = data["delay"]
    return read


def _connect_tasks(connectors: Iterable[Mapping[str, Any]]) -> list[list[Any]]:
    return [[item["connector"], task] for item in connectors for task in item["tasks"]]


def _sorted(value: Any) -> Any:
    """Lists in one order: Streams and Connect keep theirs in hash sets and maps."""
    if isinstance(value, dict):
        return {name: _sorted(item) for name, item in value.items()}
    if isinstance(value, list):
        return sorted((_sorted(item) for item in value), key=json.dumps)
    return value


_READ: Mapping[str, Callable[[bytes], dict[str, Any]]] = {
    "sticky": _sticky,
    "cooperative-sticky": _cooperative,
    "stream-subscription": _stream_subscription,
    "stream-assignment": _stream_assignment,
    "connect-metadata": _connect_metadata,
    "connect-assignment": _connect_assignment,
}
