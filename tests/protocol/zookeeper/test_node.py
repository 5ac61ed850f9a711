"""Single nodes, in the forms that each version of Kafka writes; spelled as its sources spell them.

Recorded trees are in `test_tree`.
"""

from __future__ import annotations

import pytest

from kgroup.model.zookeeper import Endpoint, Node, RegistrationNode, Stat, SubscriptionPattern
from kgroup.protocol.zookeeper import node as decoder

ID = "g_kafka-1.example.org-1400000000000-1a2b3c4d"


def node(text: str | None) -> Node:
    return Node("/path", None if text is None else text.encode(), Stat(ctime_ms=7))


def registration(text: str | None) -> RegistrationNode:
    return decoder.decode_registration(node(text), "g", ID)


@pytest.mark.parametrize(
    ("text", "pattern", "subscription", "version", "timestamp_ms"),
    [
        # 0.7: StaticTopicCount.dbString, WildcardTopicCount.dbString
        ('{ "orders": 4,"pay": 1 }', "static", {"orders": 4, "pay": 1}, None, None),
        ("{  }", "static", {}, None, None),
        ("*4*white.*", "white_list", {"white.*": 4}, None, None),
        ('{ "orders": 2147483647 }', "static", {"orders": 2147483647}, None, None),  # Java's int
        ("!12!black.*|a*b!c", "black_list", {"black.*|a*b!c": 12}, None, None),
        # 0.8.0 beta has no timestamp, and mergeJsonFields sorts the fields
        (
            '{ "pattern":"static", "subscription":{ "orders": 2 }, "version":1 }',
            "static",
            {"orders": 2},
            1,
            None,
        ),
        # 0.8.0 and 0.8.1 do not escape the regular expression
        (
            r'{ "pattern":"white_list", "subscription":{ "a\.b\w+\\d" : 3 }, '
            '"timestamp":"1400000000001", "version":1 }',
            "white_list",
            {r"a\.b\w+\d": 3},
            1,
            1400000000001,
        ),
        # 0.8.2 escapes it
        (
            r'{"version":1,"subscription":{"a\\.b\/c":1},"pattern":"black_list","timestamp":"5"}',
            "black_list",
            {r"a\.b/c": 1},
            1,
            5,
        ),
        # clients in other languages write the time as a number
        (
            '{"version":1,"subscription":{"t":1},"pattern":"static","timestamp":1400000000001}',
            "static",
            {"t": 1},
            1,
            1400000000001,
        ),
        # every other word is "static" to Kafka
        ('{"version":1,"subscription":{"t":1},"pattern":"odd"}', "static", {"t": 1}, 1, None),
    ],
)
def test_registrations_of_every_version(
    text: str,
    pattern: str,
    subscription: dict[str, int],
    version: int | None,
    timestamp_ms: int | None,
) -> None:
    found = registration(text)
    assert (found.pattern, found.subscription) == (SubscriptionPattern(pattern), subscription)
    assert (found.version, found.timestamp_ms) == (version, timestamp_ms)
    assert (found.consumer_id, found.host, found.stat.ctime_ms) == (ID, "kafka-1.example.org", 7)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (None, "without data"),
        ("", "expected JSON"),
        ("{", "expected JSON"),
        ("[1]", "expected a JSON object"),
        ("*x*white", "expected JSON"),
        ("*4!white", "expected JSON"),
        ("!4*black", "expected JSON"),
        ("*0*white", "at least 1"),
        ('{ "t": 2147483648 }', "at least 1"),
        ('{"version":1,"pattern":"static"}', "subscription: expected an object, found none"),
        ('{"version":1,"subscription":{"t":1}}', "pattern: expected a text, found none"),
        ('{"version":1,"subscription":{"t":0},"pattern":"static"}', "number of streams for 't'"),
        ('{"version":1,"subscription":{"t":"1"},"pattern":"static"}', "number of streams"),
        ('{"version":1,"subscription":{"t":true},"pattern":"static"}', "number of streams"),
        ('{"version":1.5,"subscription":{},"pattern":"static"}', "version: expected a whole"),
        ("[" * 100_000, "expected JSON"),
    ],
)
def test_what_is_no_registration_says_why(text: str | None, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        registration(text)


def test_bytes_that_are_no_text_say_so() -> None:
    with pytest.raises(ValueError, match="found bytes ff fe"):
        decoder.decode_registration(Node("/p", b"\xff\xfe"), "g", "c")


@pytest.mark.parametrize(
    ("consumer_id", "host"),
    [
        ("g_host-1400000000000-1a2b3c4d", "host"),
        ("g_my-host.lan-1400000000000-0", "my-host.lan"),
        ("other_host-1400000000000-1a2b3c4d", None),
        ("g_chosen", None),
        ("chosen", None),
    ],
)
def test_the_host_is_in_the_name_that_kafka_gives(consumer_id: str, host: str | None) -> None:
    assert decoder.consumer_host("g", consumer_id) == host


@pytest.mark.parametrize(
    ("text", "consumer_ids", "consumer_id", "thread"),
    [
        ("g_h-1400000000000-1a2b3c4d-0", [], "g_h-1400000000000-1a2b3c4d", 0),
        ("c-12", [], "c", 12),
        ("g_h-1400000000000-12345678-3", [], "g_h-1400000000000-12345678", 3),
        # a client that writes its own name alone, as Go's and node's do
        ("g_h-1400000000000-12345678", ["g_h-1400000000000-12345678"], None, None),
        ("alone", [], "alone", None),
        ("c-01", [], "c-01", None),
    ],
)
def test_owners_are_threads(
    text: str, consumer_ids: list[str], consumer_id: str | None, thread: int | None
) -> None:
    owner = decoder.decode_owner(node(text), "g", "t", "4", frozenset(consumer_ids))
    assert (owner.thread_id, owner.partition, owner.broker) == (text, 4, None)
    assert (owner.consumer_id, owner.thread) == (consumer_id or text, thread)


def test_partitions_of_0_7_are_numbered_by_broker() -> None:
    assert decoder.split_partition("2-13") == (2, 13)
    assert decoder.split_partition("13") == (None, 13)
    assert decoder.split_partition("2147483647") == (None, (1 << 31) - 1)  # Java's int
    for name in ("", "x", "-1", "1-2-3", "2147483648", "٣"):
        with pytest.raises(ValueError, match="number of a partition"):
            decoder.split_partition(name)


def test_offsets_are_decimal() -> None:
    assert decoder.decode_offset(node("9223372036854775807"), "g", "t", "0").offset == (1 << 63) - 1
    assert decoder.decode_offset(node("-1"), "g", "t", "0-2").offset == -1
    lowest = decoder.decode_offset(node("-9223372036854775808"), "g", "t", "0").offset
    assert lowest == -(1 << 63)
    beyond = ("9223372036854775808", "-9223372036854775809")
    for text in ("", " 1", "1\n", "1_0", "1.0", "٣", *beyond):
        with pytest.raises(ValueError, match="decimal number of the offset"):
            decoder.decode_offset(node(text), "g", "t", "0")
    with pytest.raises(ValueError, match="expected an offset, found a node without data"):
        decoder.decode_offset(node(None), "g", "t", "0")


PLAIN = Endpoint("PLAINTEXT", "PLAINTEXT", "h", 9092)


@pytest.mark.parametrize(
    ("text", "host", "endpoints", "version", "jmx_port", "rack"),
    [
        ("10.0.0.1-1400000000000:h:9092", "h", [PLAIN], None, None, None),
        ('{ "host":"h", "jmx_port":-1, "port":9092, "version":1 }', "h", [PLAIN], 1, None, None),
        (
            '{"jmx_port":9999,"timestamp":"1400000000001","host":"h","version":1,"port":9092}',
            "h",
            [PLAIN],
            1,
            9999,
            None,
        ),
        ('{"host":"h","port":9092}', "h", [PLAIN], None, None, None),
        (
            '{"version":2,"host":"h","port":9092,"jmx_port":-1,"timestamp":"1",'
            '"endpoints":["PLAINTEXT://h:9092","SSL://[::1]:9093"]}',
            "h",
            [PLAIN, Endpoint("SSL", "SSL", "::1", 9093)],
            2,
            None,
            None,
        ),
        (
            '{"listener_security_protocol_map":{"CLIENT":"SASL_SSL","INSIDE":"PLAINTEXT"},'
            '"endpoints":["CLIENT://h:9094","INSIDE://:9095"],"rack":"dc1","jmx_port":-1,'
            '"features":{},"host":null,"timestamp":"1","port":-1,"version":5}',
            None,
            [Endpoint("CLIENT", "SASL_SSL", "h", 9094), Endpoint("INSIDE", "PLAINTEXT", "", 9095)],
            5,
            None,
            "dc1",
        ),
    ],
)
def test_brokers_of_every_version(
    text: str,
    host: str | None,
    endpoints: list[Endpoint],
    version: int | None,
    jmx_port: int | None,
    rack: str | None,
) -> None:
    broker = decoder.decode_broker(node(text), "3")
    assert (broker.id, broker.host, broker.port) == (3, host, 9092 if host else None)
    assert (list(broker.endpoints), broker.version) == (endpoints, version)
    assert (broker.jmx_port, broker.rack) == (jmx_port, rack)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("h:9092", "expected a broker's registration"),
        ("c:h:0", "expected a broker's registration"),
        ('{"version":1}', "expected host and port"),
        ('{"version":1,"host":5,"port":9092}', "host: expected a text"),
        ('{"version":2,"endpoints":["h:9092"]}', "expected NAME://host:port"),
        ('{"version":2,"endpoints":"PLAINTEXT://h:1"}', "endpoints: expected a list"),
    ],
)
def test_what_is_no_broker_says_why(text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        decoder.decode_broker(node(text), "3")


def test_topics_of_every_version() -> None:
    old = decoder.decode_topic(
        node('{ "partitions":{ "10":[ 1, 2 ], "2":[ 2 ] }, "version":1 }'), "t"
    )
    assert list(old.partitions.items()) == [(2, (2,)), (10, (1, 2))]
    new = decoder.decode_topic(
        node(
            '{"removing_replicas":{},"partitions":{"0":[1]},"topic_id":"aaaaaaaaaaaaaaaaaaaaaA",'
            '"adding_replicas":{},"version":3}'
        ),
        "t",
    )
    assert (new.version, new.topic_id, new.partitions) == (3, "aaaaaaaaaaaaaaaaaaaaaA", {0: (1,)})
    for text in ("{}", '{"partitions":{"x":[1]}}', '{"partitions":{"0":["1"]}}'):
        with pytest.raises(ValueError, match="partition"):
            decoder.decode_topic(node(text), "t")
    assert decoder.decode_legacy_topic(node("5"), "t", "2").partition_count == 5
    with pytest.raises(ValueError, match="expected the count of partitions, found -1"):
        decoder.decode_legacy_topic(node("-1"), "t", "2")


def test_partition_states_and_controllers() -> None:
    text = '{"controller_epoch":3,"leader":-1,"version":1,"leader_epoch":7,"isr":[]}'
    state = decoder.decode_partition_state(node(text), "t", "4")
    assert (state.partition, state.leader, state.leader_epoch) == (4, None, 7)
    assert (state.isr, state.controller_epoch) == ((), 3)
    controller = decoder.decode_controller(
        node('{"version":1,"brokerid":2,"timestamp":"1400000000001"}')
    )
    assert (controller.broker, controller.timestamp_ms) == (2, 1400000000001)
    assert decoder.decode_controller(node("2")).broker == 2


def test_what_an_administrator_asked_for() -> None:
    moved = decoder.decode_reassignment(
        node(
            '{"version":1,"partitions":[{"topic":"t","partition":1,"replicas":[2,1]},'
            '{"topic":"a","partition":0,"replicas":[3]}]}'
        )
    )
    assert list(moved.items()) == [(("a", 0), (3,)), (("t", 1), (2, 1))]
    elected = decoder.decode_election(
        node('{"version":1,"partitions":[{"topic":"t","partition":1},{"topic":"a","partition":0}]}')
    )
    assert elected == (("a", 0), ("t", 1))
    config = decoder.decode_config(node('{"version":1,"config":{"retention.ms":"5"}}'), "t")
    assert config.config == {"retention.ms": "5"}
    assert decoder.decode_cluster_id(node('{"version":"1","id":"abc"}')) == "abc"
