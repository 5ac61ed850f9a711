"""Nodes of ZooKeeper, and fetchers, as sheets."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING

from kgroup.render.cell import GROUP, PARTITION, TOPIC, Column, Kind, columns_of

if TYPE_CHECKING:
    from kgroup.operation.zookeeper.nodes import RegisteredConsumer, TreeNode


_CONSUMER = Column("consumer_id", Kind.NAME)
_THREAD = Column("thread", Kind.NUMBER)
_SESSION = Column("session_id", Kind.TEXT)

CONSUMER_COLUMNS = columns_of(
    "kgroup.operation.zookeeper.nodes.RegisteredConsumer",
    GROUP,
    _CONSUMER,
    Column("host", Kind.TEXT),
    Column("pattern", Kind.TEXT),
    Column(
        "streams",
        Kind.TEXT,
        value=lambda item: _streams(item),
        form="as topic(2) or /regular expression/(1)",
    ),
    Column(
        "topics",
        Kind.TEXT,
        value=lambda item: None if item.topics is None else ",".join(item.topics),
        form="comma-separated",
    ),
    Column("owned_count", Kind.NUMBER),
    Column("version", Kind.NUMBER),
    Column("registered_ms", Kind.TIME),
    Column("timestamp_ms", Kind.TIME),
    _SESSION,
)
OWNER_COLUMNS = columns_of(
    "kgroup.operation.zookeeper.nodes.OwnedPartition",
    GROUP,
    TOPIC,
    Column("broker", Kind.NUMBER),
    PARTITION,
    _CONSUMER,
    _THREAD,
    Column("registered", Kind.FLAG),
    Column("since_ms", Kind.TIME),
    _SESSION,
    Column("thread_id", Kind.NAME),
)
NODE_COLUMNS = columns_of(
    "kgroup.operation.zookeeper.nodes.TreeNode",
    Column("path", Kind.NAME),
    Column("kind", Kind.TEXT),
    Column(
        "value",
        Kind.TEXT,
        value=lambda item: _value(item),
        form="as JSON, else the data as text or base64",
    ),
    Column("error", Kind.TEXT),
    Column("mtime_ms", Kind.TIME),
    Column("ctime_ms", Kind.TIME),
    Column("version", Kind.NUMBER),
    Column("children", Kind.NUMBER),
    _SESSION,
)
FETCH_COLUMNS = columns_of(
    "kgroup.operation.zookeeper.fetcher.Fetch",
    GROUP,
    _CONSUMER,
    _THREAD,
    Column("fetcher", Kind.NAME),
    Column("fetcher_id", Kind.NUMBER),
    Column(
        "broker",
        Kind.TEXT,
        value=lambda item: item.broker and item.broker.label,
        form="as host:port (id)",
    ),
    TOPIC,
    PARTITION,
    Column("state", Kind.TEXT),
    Column("committed_offset", Kind.NUMBER),
    Column("committed_in", Kind.TEXT),
    Column("log_start_offset", Kind.NUMBER),
    Column("log_end_offset", Kind.NUMBER),
    Column("fetch_offset", Kind.NUMBER),
    Column("reset", Kind.TEXT),
)


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
