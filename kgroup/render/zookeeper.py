"""Nodes of ZooKeeper, and fetchers, as sheets."""

from __future__ import annotations

import json
from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING

from kgroup.render.cell import GROUP, PARTITION, TOPIC, Column, Kind
from kgroup.render.sheet import Sheet

if TYPE_CHECKING:
    from kgroup.operation.zookeeper.nodes import RegisteredConsumer, TreeNode


_CONSUMER = Column("consumer_id", Kind.NAME, "name of the consumer")
_THREAD = Column("thread", Kind.NUMBER, "number of the consumer's stream that reads it")
_SESSION = Column("session_id", Kind.TEXT, "session with which the node goes")

CONSUMER_COLUMNS = (
    GROUP,
    _CONSUMER,
    Column("host", Kind.TEXT, "its machine, as far as its name has it"),
    Column("pattern", Kind.TEXT, "static, white_list or black_list"),
    Column(
        "streams",
        Kind.TEXT,
        "streams of each topic, or of the list: topic(2) /regular expression/(1)",
        lambda item: _streams(item),
    ),
    Column(
        "topics",
        Kind.TEXT,
        "topics that it reads, with commas between",
        lambda item: None if item.topics is None else ",".join(item.topics),
    ),
    Column("owned_count", Kind.NUMBER, "partitions that it owns"),
    Column("version", Kind.NUMBER, "version of the node's data"),
    Column("registered_ms", Kind.TIME, "when it registered, by ZooKeeper's clock"),
    Column("timestamp_ms", Kind.TIME, "the same by its own clock"),
    _SESSION,
)
consumer_sheet = partial(Sheet.of, CONSUMER_COLUMNS)  # one row a consumer
OWNER_COLUMNS = (
    GROUP,
    TOPIC,
    Column("broker", Kind.NUMBER, "of Kafka 0.7, which numbers partitions broker by broker"),
    PARTITION,
    _CONSUMER,
    _THREAD,
    Column("registered", Kind.FLAG, "whether the consumer is among those of the group"),
    Column("since_ms", Kind.TIME, "when the consumer took the partition"),
    _SESSION,
    Column("thread_id", Kind.NAME, "consumer and stream, as the node has them"),
)
owner_sheet = partial(Sheet.of, OWNER_COLUMNS)  # one row an owner node
NODE_COLUMNS = (
    Column("path", Kind.NAME, "path of the node"),
    Column("kind", Kind.TEXT, "what Kafka keeps there"),
    Column(
        "value",
        Kind.TEXT,
        "what is decoded, as JSON; else the data as text or base64",
        lambda item: _value(item),
    ),
    Column("error", Kind.TEXT, "why the data could not be decoded"),
    Column("mtime_ms", Kind.TIME, "when the data were written last"),
    Column("ctime_ms", Kind.TIME, "when the node was created"),
    Column("version", Kind.NUMBER, "how often they were written after that"),
    Column("children", Kind.NUMBER, "nodes right below it"),
    _SESSION,
)
node_sheet = partial(Sheet.of, NODE_COLUMNS)  # one row a node
FETCH_COLUMNS = (
    GROUP,
    _CONSUMER,
    _THREAD,
    Column("fetcher", Kind.NAME, "Java thread that fetches"),
    Column("fetcher_id", Kind.NUMBER, "number of the fetcher among those of one broker"),
    Column(
        "broker",
        Kind.TEXT,
        "leader that is asked: host:port (id)",
        lambda item: item.broker and item.broker.label,
    ),
    TOPIC,
    PARTITION,
    Column("state", Kind.TEXT, "fetching, or why not"),
    Column("committed_offset", Kind.NUMBER, "offset that is committed"),
    Column("committed_in", Kind.TEXT, "where: zookeeper, kafka or both"),
    Column("log_start_offset", Kind.NUMBER, "offset of the first record that is still there"),
    Column("log_end_offset", Kind.NUMBER, "offset that the next record written there gets"),
    Column("fetch_offset", Kind.NUMBER, "where a fetcher begins that is started now"),
    Column("reset", Kind.TEXT, "why that is not the committed offset"),
)
fetch_sheet = partial(Sheet.of, FETCH_COLUMNS)  # one row a partition that is owned


def _streams(consumer: RegisteredConsumer) -> str:
    is_list = consumer.pattern != "static"
    return " ".join(
        f"/{name}/({count})" if is_list else f"{name}({count})"
        for name, count in consumer.streams.items()
    )


def _value(node: TreeNode) -> str | None:
    if node.value is None:
        return node.raw if node.text is None else node.text
    return json.dumps(node.value, ensure_ascii=False, default=asdict, separators=(",", ":"))
