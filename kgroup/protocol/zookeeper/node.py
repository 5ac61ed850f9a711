"""Decoding of the ZooKeeper nodes that Kafka writes, in every format that was released.

==============================================  ====================================================
``/consumers/<group>/ids/<consumer>``           0.7: ``{ "<topic>": <streams> }``,
                                                ``*<streams>*<regex>`` (white list),
                                                ``!<streams>!<regex>`` (black list); 0.8: JSON with
                                                version 1, subscription, pattern; later timestamp
``…/owners/<topic>/<partition>``                ``<consumer>-<thread>``
``…/offsets/<topic>/<partition>``               decimal
``/brokers/ids/<id>``                           0.7: ``<creator>:<host>:<port>``; 0.8: JSON with
                                                host, port, jmx_port; versions 2 (0.9) to 5 (2.7)
                                                have endpoints, 3 and later an optional rack
``/brokers/topics/<topic>``                     JSON: replicas by partition; versions 1 to 3
``/brokers/topics/<topic>/<broker>``            0.7: number of partitions on that broker
``/brokers/topics/<t>/partitions/<p>/state``    JSON with leader, leader_epoch, isr
``/controller``                                 JSON with brokerid; 0.8.0 beta: the bare id
==============================================  ====================================================

Partitions of 0.7 are ``<broker>-<number>``. Kafka up to 0.8.1 writes regular expressions into JSON
without escaping their backslashes; its own reader accepts them unescaped, and so does this module.
Every decoder raises ValueError, with a sentence as its message, for other bytes.

Source: kafka.utils.ZkUtils, kafka.consumer.TopicCount, kafka.cluster.Broker of 0.7.2 to 0.8.2.2,
kafka.zk.ZkData of 2.8.2.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from kgroup.model.cluster import TopicPartition
from kgroup.model.zookeeper import (
    BrokerNode,
    ConfigNode,
    ControllerNode,
    Endpoint,
    LegacyTopicNode,
    Node,
    OffsetNode,
    OwnerNode,
    PartitionStateNode,
    RegistrationNode,
    SubscriptionPattern,
    TopicNode,
)

_NUMBER = re.compile(r"-?[0-9]{1,19}")
_PARTITION = re.compile(r"(?:([0-9]{1,10})-)?([0-9]{1,10})")
_WILDCARD = re.compile(r"([*!])([0-9]{1,9})\1(.*)", re.DOTALL)
_THREAD = re.compile(r"(.+)-(0|[1-9][0-9]{0,8})", re.DOTALL)
_CONSUMER = re.compile(r"(.+)-[0-9]{13}-[0-9a-f]{1,8}", re.DOTALL)
_ESCAPE = re.compile(r'\\(?:(["\\/bfnrt]|u[0-9a-fA-F]{4})|)')
_ENDPOINT = re.compile(r"([A-Za-z0-9_.-]+)://\[?([^\[\]/]*?)\]?:([0-9]{1,5})")
_SHOWN = 60
_MAX_LONG = (1 << 63) - 1
_MAX_INT = (1 << 31) - 1


def decode_registration(node: Node, group_id: str, consumer_id: str) -> RegistrationNode:
    """Decode the id and the subscription of a consumer."""
    text = _text(node.data, "a subscription")
    wildcard = _WILDCARD.fullmatch(text)
    version = timestamp_ms = None
    if wildcard is not None:
        marker, streams, regex = wildcard.groups()
        pattern = (
            SubscriptionPattern.WHITE_LIST if marker == "*" else SubscriptionPattern.BLACK_LIST
        )
        subscription = _subscription({regex: int(streams)})
    else:
        value = _object(text)
        if "subscription" in value or "pattern" in value:
            word = _field(value, "pattern", str)
            # Kafka treats every other word as "static".
            pattern = (
                SubscriptionPattern(word)
                if word in tuple(SubscriptionPattern)
                else SubscriptionPattern.STATIC
            )
            subscription = _subscription(_field(value, "subscription", dict))
            version = _optional_int(value, "version")
            timestamp_ms = _optional_int(value, "timestamp")
        else:
            pattern = SubscriptionPattern.STATIC
            subscription = _subscription(value)
    return RegistrationNode(
        node.path,
        group_id,
        consumer_id,
        consumer_host(group_id, consumer_id),
        version,
        pattern,
        subscription,
        timestamp_ms,
        node.stat,
    )


def consumer_host(group_id: str, consumer_id: str) -> str | None:
    """Return the host in a consumer id ``<group>_<host>-<ms>-<hex>``; None if it has none."""
    match = _CONSUMER.fullmatch(consumer_id.removeprefix(f"{group_id}_"))
    return match[1] if match and consumer_id.startswith(f"{group_id}_") else None


def decode_owner(
    node: Node,
    group_id: str,
    topic: str,
    partition: str,
    consumer_ids: frozenset[str] = frozenset(),
) -> OwnerNode:
    """Decode a partition's owner; `consumer_ids` are the group's consumers, see `split_thread`."""
    thread_id = _text(node.data, "the id of a consumer thread")
    if not thread_id:
        raise ValueError("expected the id of a consumer thread, found nothing")
    broker, number = split_partition(partition)
    consumer_id, thread = split_thread(thread_id, consumer_ids)
    return OwnerNode(
        node.path, group_id, topic, broker, number, thread_id, consumer_id, thread, node.stat
    )


def split_thread(text: str, consumer_ids: frozenset[str]) -> tuple[str, int | None]:
    """Split ``<consumer>-<thread>``; a text that is a consumer id is not split.

    A consumer id may itself end in a hyphen and digits, and clients in other languages write it
    without a thread.
    """
    match = None if text in consumer_ids else _THREAD.fullmatch(text)
    return (match[1], int(match[2])) if match else (text, None)


def split_partition(name: str) -> tuple[int | None, int]:
    """Split ``<broker>-<number>`` of Kafka 0.7; later partitions have no broker."""
    match = _PARTITION.fullmatch(name)
    if match is None or int(match[2]) > _MAX_INT:
        raise ValueError(f"expected the number of a partition as the node's name, found {name!r}")
    return (None if match[1] is None else int(match[1])), int(match[2])


def decode_offset(node: Node, group_id: str, topic: str, partition: str) -> OffsetNode:
    """Decode a committed offset."""
    broker, number = split_partition(partition)
    offset = decode_number(node, "offset")
    return OffsetNode(node.path, group_id, topic, broker, number, offset, node.stat)


def decode_number(node: Node, what: str) -> int:
    """Decode a 64-bit decimal number; `what` names it in the error."""
    text = _text(node.data, f"an {what}" if what[0] in "aeiou" else f"a {what}")
    if _NUMBER.fullmatch(text) is None or not -_MAX_LONG - 1 <= int(text) <= _MAX_LONG:
        raise ValueError(f"expected the decimal number of the {what}, found {_short(text)}")
    return int(text)


def decode_broker(node: Node, name: str) -> BrokerNode:
    """Decode the endpoints of a broker; `name` is its id."""
    broker_id = _broker_id(name)
    text = _text(node.data, "a broker's registration")
    if not text.lstrip().startswith("{"):
        parts = text.split(":")
        if len(parts) != 3 or not parts[1] or _port(parts[2]) is None:
            raise ValueError(f"expected a broker's registration, found {_short(text)}")
        plain = Endpoint("PLAINTEXT", "PLAINTEXT", parts[1], int(parts[2]))
        return BrokerNode(
            node.path, broker_id, None, parts[1], plain.port, (plain,), None, None, None, node.stat
        )
    value = _object(text)
    host, port = value.get("host"), _optional_int(value, "port")
    if host is not None and not isinstance(host, str):
        raise ValueError(f"host: expected a text, found {_short(host)}")
    host, port = (host, port) if host and port is not None and port > 0 else (None, None)
    if "endpoints" in value:
        endpoints = _endpoints(value)
    elif host is None or port is None:
        raise ValueError(f"expected host and port, found {_short(text)}")
    else:
        endpoints = (Endpoint("PLAINTEXT", "PLAINTEXT", host, port),)
    jmx_port = _optional_int(value, "jmx_port")
    rack = value.get("rack")
    return BrokerNode(
        node.path,
        broker_id,
        _optional_int(value, "version"),
        host,
        port,
        endpoints,
        rack if isinstance(rack, str) else None,
        jmx_port if jmx_port is not None and jmx_port > 0 else None,
        _optional_int(value, "timestamp"),
        node.stat,
    )


def _endpoints(value: Mapping[str, Any]) -> tuple[Endpoint, ...]:
    protocols = value.get("listener_security_protocol_map") or {}
    if not isinstance(protocols, dict):
        protocols = {}
    endpoints = []
    for text in _field(value, "endpoints", list):
        parts = _ENDPOINT.fullmatch(text) if isinstance(text, str) else None
        if parts is None or _port(parts[3]) is None:
            raise ValueError(f"endpoints: expected NAME://host:port, found {_short(text)}")
        listener = parts[1].upper()
        protocol = protocols.get(listener, protocols.get(parts[1], listener))
        endpoints.append(Endpoint(listener, str(protocol), parts[2], int(parts[3])))
    return tuple(endpoints)


def decode_topic(node: Node, topic: str) -> TopicNode:
    """Decode the replica assignment of a topic."""
    value = _object(_text(node.data, "a topic's replicas"))
    partitions = {}
    for number, replicas in _field(value, "partitions", dict).items():
        broker, partition = split_partition(number)
        if broker is not None:
            raise ValueError(f"partitions: expected numbers, found {number!r}")
        partitions[partition] = _int_list(replicas, f"partitions.{number}")
    topic_id = value.get("topic_id")
    return TopicNode(
        node.path,
        topic,
        _optional_int(value, "version"),
        topic_id if isinstance(topic_id, str) else None,
        dict(sorted(partitions.items())),
        node.stat,
    )


def decode_legacy_topic(node: Node, topic: str, broker_id: str) -> LegacyTopicNode:
    """Decode the number of a topic's partitions on a broker of Kafka 0.7."""
    count = decode_number(node, "count of partitions")
    if count < 0:
        raise ValueError(f"expected the count of partitions, found {count}")
    return LegacyTopicNode(node.path, topic, _broker_id(broker_id), count)


def decode_partition_state(node: Node, topic: str, partition: str) -> PartitionStateNode:
    """Decode the leader and the in-sync replicas of a partition."""
    broker, number = split_partition(partition)
    if broker is not None:
        raise ValueError(f"expected the number of a partition, found {partition!r}")
    value = _object(_text(node.data, "a partition's state"))
    leader = _required_int(value, "leader")
    return PartitionStateNode(
        node.path,
        topic,
        number,
        _optional_int(value, "version"),
        leader if leader >= 0 else None,
        _optional_int(value, "leader_epoch"),
        _int_list(_field(value, "isr", list), "isr"),
        _optional_int(value, "controller_epoch"),
        node.stat,
    )


def decode_controller(node: Node) -> ControllerNode:
    """Decode the controller's broker id."""
    text = _text(node.data, "the controller")
    if _NUMBER.fullmatch(text):
        return ControllerNode(node.path, int(text), None, None, node.stat)
    value = _object(text)
    return ControllerNode(
        node.path,
        _required_int(value, "brokerid"),
        _optional_int(value, "version"),
        _optional_int(value, "timestamp"),
        node.stat,
    )


def decode_cluster_id(node: Node) -> str:
    """Decode the cluster id, ``/cluster/id``."""
    cluster_id: str = _field(_object(_text(node.data, "the cluster's id")), "id", str)
    return cluster_id


def decode_config(node: Node, topic: str) -> ConfigNode:
    """Decode the configuration of a topic."""
    config = _field(_object(_text(node.data, "a configuration")), "config", dict)
    settings = {str(key): str(value) for key, value in sorted(config.items())}
    return ConfigNode(node.path, topic, settings)


def decode_reassignment(node: Node) -> Mapping[TopicPartition, tuple[int, ...]]:
    """Decode the target replicas of partitions: ``/admin/reassign_partitions``."""
    targets = {}
    for row in _field(_object(_text(node.data, "a reassignment")), "partitions", list):
        at = _topic_partition(row)
        targets[at] = _int_list(row.get("replicas"), "partitions.replicas")
    return dict(sorted(targets.items()))


def decode_election(node: Node) -> tuple[TopicPartition, ...]:
    """Decode the requested leader elections: ``/admin/preferred_replica_election``."""
    rows = _field(_object(_text(node.data, "an election")), "partitions", list)
    return tuple(sorted({_topic_partition(row) for row in rows}))


def _topic_partition(row: Any) -> TopicPartition:
    if not isinstance(row, dict):
        raise ValueError(f"partitions: expected objects, found {_short(row)}")
    return _field(row, "topic", str), _required_int(row, "partition")


def _subscription(value: Mapping[str, Any]) -> Mapping[str, int]:
    for topic, streams in value.items():
        if type(streams) is not int or not 1 <= streams <= _MAX_INT:
            raise ValueError(
                f"expected a number of streams for {topic!r}, at least 1, found {_short(streams)}"
            )
    return dict(value)


def _text(data: bytes | None, what: str) -> str:
    if data is None:
        raise ValueError(f"expected {what}, found a node without data")
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise ValueError(f"expected {what}, found bytes {data[:8].hex(' ')}") from None


def _object(text: str) -> dict[str, Any]:
    """Parse a JSON object as Kafka's reader (Scala's JSON) does."""
    try:
        try:
            value = json.loads(text, strict=False)
        except json.JSONDecodeError:
            # Kafka's reader keeps a backslash that does not start an escape sequence.
            escaped = _ESCAPE.sub(lambda match: match[0] if match[1] else r"\\", text)
            value = json.loads(escaped, strict=False)
    except (ValueError, RecursionError):
        raise ValueError(f"expected JSON, found {_short(text)}") from None
    if not isinstance(value, dict):
        raise ValueError(f"expected a JSON object, found {_short(text)}")
    return value


def _field(value: Mapping[str, Any], name: str, kind: type[Any]) -> Any:
    field = value.get(name)
    if not isinstance(field, kind):
        what = "a text" if kind is str else "an object" if kind is dict else "a list"
        had = _short(field) if name in value else "none"
        raise ValueError(f"{name}: expected {what}, found {had}")
    return field


def _optional_int(value: Mapping[str, Any], name: str) -> int | None:
    """Return a number, also if it is quoted, as timestamps are; None if it is missing."""
    number = value.get(name)
    if isinstance(number, str) and _NUMBER.fullmatch(number):
        return int(number)
    if number is None or type(number) is int:
        return number
    raise ValueError(f"{name}: expected a whole number, found {_short(number)}")


def _required_int(value: Mapping[str, Any], name: str) -> int:
    number = _optional_int(value, name)
    if number is None:
        raise ValueError(f"{name}: expected a whole number, found none")
    return number


def _int_list(value: Any, name: str) -> tuple[int, ...]:
    if not isinstance(value, list) or any(type(number) is not int for number in value):
        raise ValueError(f"{name}: expected a list of whole numbers, found {_short(value)}")
    return tuple(value)


def _broker_id(name: str) -> int:
    if not (name.isascii() and name.isdecimal() and len(name) <= 10):
        raise ValueError(f"expected a broker id as the node's name, found {name!r}")
    return int(name)


def _port(text: str) -> int | None:
    return int(text) if re.fullmatch("[0-9]{1,5}", text) and 0 < int(text) < 1 << 16 else None


def _short(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return repr(text) if len(text) <= _SHOWN else f"{text[:_SHOWN]!r}…"
