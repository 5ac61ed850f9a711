"""TLS to a real ZooKeeper that asks for certificates, and what is said where it fails."""

from __future__ import annotations

import ssl
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from kazoo.client import KazooClient

from kgroup.source.zookeeper.address import parse_address
from kgroup.source.zookeeper.source import Zookeeper
from tests.broker.key_stores import FOLDER, KEY_PASSWORD, STORE_PASSWORD
from tests.broker.process import HOST, free_port, running
from tests.broker.servers import ZooKeeper
from tests.cli.command_line import Cli, Result
from tests.contract.offset_store import changes_to, essence

TRUST = {
    "zookeeper.ssl.client.enable": "true",
    "zookeeper.ssl.truststore.location": str(FOLDER / "trust.jks"),
    "zookeeper.ssl.truststore.password": STORE_PASSWORD,
}
PEM_TRUST = {
    "zookeeper.ssl.client.enable": "true",
    "zookeeper.ssl.truststore.location": str(FOLDER / "ca.pem"),
    "zookeeper.ssl.truststore.type": "PEM",
}
KEY = {
    "zookeeper.ssl.keystore.location": str(FOLDER / "client.p12"),
    "zookeeper.ssl.keystore.type": "PKCS12",
    "zookeeper.ssl.keystore.password": STORE_PASSWORD,
}


class SecureZooKeeper(ZooKeeper):
    """One with a second port, for TLS, whose clients must show a certificate."""

    jvm = (
        *ZooKeeper.jvm,
        "-Dzookeeper.serverCnxnFactory=org.apache.zookeeper.server.NettyServerCnxnFactory",
    )
    secure_port = 0

    def choose_ports(self) -> None:
        super().choose_ports()
        self.secure_port = free_port()

    @property
    def config(self) -> dict[str, str]:
        return super().config | {
            "secureClientPort": str(self.secure_port),
            "secureClientPortAddress": HOST,
            "ssl.keyStore.location": str(FOLDER / "server.pem"),
            "ssl.trustStore.location": str(FOLDER / "ca.pem"),
            "ssl.clientAuth": "need",
        }


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureZooKeeper]:
    server = SecureZooKeeper(tmp_path_factory.mktemp("zookeeper-tls"))
    with running(server):
        client = KazooClient(hosts=server.connect)
        client.start(timeout=60)
        client.create("/consumers/g/offsets/t/0", b"5", makepath=True)
        client.stop()
        client.close()
        yield server


def run(cli: Cli, folder: Path, settings: Mapping[str, str], connect: str) -> Result:
    file = folder / "client.properties"
    file.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
    options = ("--command-config", file, "--timeout", "20")
    return cli("list", "--no-lag", "--zookeeper", connect, *options)


@pytest.mark.parametrize("trust", [TRUST, PEM_TRUST])
def test_certificates_both_ways(
    server: SecureZooKeeper, cli: Cli, tmp_path: Path, trust: Mapping[str, str]
) -> None:
    result = run(cli, tmp_path, {**trust, **KEY}, f"{HOST}:{server.secure_port}")
    assert (result.status, result.err) == (0, "")
    assert result.out.splitlines()[1].split()[:2] == ["g", "zookeeper"]


def test_offsets_are_written_over_tls(server: SecureZooKeeper) -> None:
    context = ssl.create_default_context(cafile=FOLDER / "ca.pem")
    context.load_cert_chain(FOLDER / "client.pem", password=KEY_PASSWORD)
    address = parse_address(f"{HOST}:{server.secure_port}")
    with Zookeeper(address, context=context) as store:
        assert store.write_offsets({"secure": changes_to({("t", 0): 7})}) == ()
        assert essence(store.read_offsets(["secure"]).offsets["secure"]) == {("t", 0): 7}
        assert store.delete_groups(["secure"]) == ()


def test_what_is_said_where_it_fails(server: SecureZooKeeper, cli: Cli, tmp_path: Path) -> None:
    secure = f"{HOST}:{server.secure_port}"
    stranger = PEM_TRUST | {"zookeeper.ssl.truststore.location": str(FOLDER / "stranger.pem")}
    for settings, connect, text in (
        (TRUST, secure, "certificate"),  # none is shown
        (stranger | KEY, secure, "shows a certificate that is not trusted"),
        (TRUST | KEY, server.connect, "does not agree on TLS"),
        ({}, secure, "closes the connection"),
    ):
        result = run(cli, tmp_path, settings, connect)
        assert (result.status, result.out) == (1, ""), text
        assert result.err.startswith(f"kgroup: error: ZooKeeper {connect} ")
        assert text in result.err
        assert STORE_PASSWORD not in result.err
        assert KEY_PASSWORD not in result.err
        assert len(result.err.splitlines()) == 1
