"""Every node of a ZooKeeper, as it is: the truth that readers of it are compared with."""

from __future__ import annotations

import base64
from typing import Any

from kazoo.client import KazooClient


def read_tree(client: KazooClient, path: str = "/") -> list[dict[str, Any]]:
    """All nodes from `path` down, sorted by path: its path, data and stat.

    Data is under `text` where it is UTF-8 (None where there is none at all), else under `base64`;
    the stat has ZooKeeper's names.
    """
    data, stat = client.get(path)
    node: dict[str, Any] = {"path": path}
    try:
        node["text"] = None if data is None else data.decode()
    except UnicodeDecodeError:
        node["base64"] = base64.b64encode(data).decode()
    node["stat"] = {
        "czxid": stat.czxid,
        "mzxid": stat.mzxid,
        "ctime": stat.ctime,
        "mtime": stat.mtime,
        "version": stat.version,
        "cversion": stat.cversion,
        "aversion": stat.aversion,
        "ephemeralOwner": stat.ephemeralOwner,
        "dataLength": stat.dataLength,
        "numChildren": stat.numChildren,
        "pzxid": stat.pzxid,
    }
    nodes = [node]
    for name in sorted(client.get_children(path)):
        nodes += read_tree(client, f"{path.rstrip('/')}/{name}")
    return sorted(nodes, key=lambda each: str(each["path"]))
