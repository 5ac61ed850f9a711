"""Address of ZooKeeper: ``host:port,host:port/chroot``, as in Kafka's ``zookeeper.connect``."""

from __future__ import annotations

import re
from dataclasses import dataclass

from kgroup.errors import UsageError
from kgroup.model.group import server_text
from kgroup.redaction import keep_userinfo

_DEFAULT_PORT = 2181
_HOST = re.compile(
    r"(?:(?P<name>[0-9A-Za-z_.%-]+)|\[(?P<ipv6>[0-9A-Za-z:.%]+)\])(?::(?P<port>[0-9]{1,5}))?"
)


@dataclass(frozen=True, slots=True)
class ZookeeperAddress:
    """Servers of one ensemble.

    Attributes:
        servers: host and port of each, in the order given.
        chroot: path of Kafka's root node, such as ``/kafka``; empty if none.
    """

    servers: tuple[tuple[str, int], ...]
    chroot: str

    def __str__(self) -> str:
        return ",".join(server_text(*server) for server in self.servers) + self.chroot


def parse_address(text: str) -> ZookeeperAddress:
    """Parse servers and chroot.

    Raises:
        UsageError: the text has another form.
    """
    keep_userinfo(text)
    hosts, slash, chroot = text.strip().partition("/")
    servers = []
    for item in filter(None, (part.strip() for part in hosts.split(","))):
        match = _HOST.fullmatch(item)
        port = int(match["port"] or _DEFAULT_PORT) if match else 0
        if match is None or not 0 < port < 65536:
            raise _wrong(text)
        servers.append((match["name"] or match["ipv6"], port))
    path = chroot.rstrip("/")
    if not servers or (path and any(part in ("", ".", "..") for part in path.split("/"))):
        raise _wrong(text)
    return ZookeeperAddress(tuple(servers), f"{slash}{path}" if path else "")


def _wrong(text: str) -> UsageError:
    return UsageError(
        f"--zookeeper: expected HOST:PORT,HOST:PORT/CHROOT (an IPv6 address in brackets), found "
        f"{text!r}"
    )
