"""A ZooKeeper that refuses."""

from __future__ import annotations

import socket

HOST = "127.0.0.1"


def refused() -> str:
    with socket.create_server((HOST, 0)) as listener:
        return f"{HOST}:{listener.getsockname()[1]}"
