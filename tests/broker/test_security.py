"""Files of client properties against a broker with listeners of every kind.

Each file goes to kgroup (its keyword arguments, to plain connections of kafka-python) and to
Kafka's own Java Admin client, which says whether the file is right.
"""

import logging
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from kafka import KafkaAdminClient
from kafka.admin import ScramMechanism, UserScramCredentialUpsertion
from kafka.net.selector import NetworkSelector
from kafka.protocol.admin.groups import ListGroupsRequest

from kgroup.errors import BrokerError, KgroupError
from kgroup.source.client_config import ClientConfig, client_config
from kgroup.source.connection_error import connection_error
from kgroup.source.connection_manager import ConnectionManager
from tests.broker.key_stores import FOLDER, KEY_PASSWORD, STORE_PASSWORD
from tests.broker.maven import compile_java, run_java
from tests.broker.process import HOST, free_port, running
from tests.broker.servers import Broker

VERSION = "4.3.1"
PASSWORD = "wönder=\\\"land'; #1"
SECRETS = (PASSWORD, "wönder", "land'; #1", STORE_PASSWORD, KEY_PASSWORD, "wr0ng-sekret")
MODULES = "org.apache.kafka.common.security"
PLAIN = f"{MODULES}.plain.PlainLoginModule"
SCRAM = f"{MODULES}.scram.ScramLoginModule"
OAUTH = f"{MODULES}.oauthbearer.OAuthBearerLoginModule"
PROTOCOLS = {
    "PLAINTEXT": "PLAINTEXT",
    "TLS": "SSL",
    "MTLS": "SSL",
    "SASL": "SASL_PLAINTEXT",
    "SASLTLS": "SASL_SSL",
}


class SecureBroker(Broker):
    """A broker with a listener of each kind."""

    def __init__(self, work: Path) -> None:
        super().__init__(VERSION, work)
        self.ports = dict.fromkeys(PROTOCOLS, 0)

    def choose_ports(self) -> None:
        super().choose_ports()
        self.ports = {name: free_port() for name in PROTOCOLS} | {"PLAINTEXT": self.port}

    @property
    def config(self) -> dict[str, str]:
        common = super().config
        extra = [f"{name}://{HOST}:{self.ports[name]}" for name in list(PROTOCOLS)[1:]]
        protocols = [f"{name}:{protocol}" for name, protocol in PROTOCOLS.items()]
        users = f'user_alice="{_quoted(PASSWORD)}"'
        config = {
            "listeners": ",".join([common["listeners"], *extra]),
            "listener.security.protocol.map": ",".join(["CONTROLLER:PLAINTEXT", *protocols]),
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(FOLDER / "server.pem"),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(FOLDER / "ca.pem"),
            "listener.name.mtls.ssl.client.auth": "required",
            "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER",
            "listener.name.sasltls.sasl.enabled.mechanisms": "SCRAM-SHA-512,OAUTHBEARER,PLAIN",
            "connections.max.reauth.ms": "0",
        }
        for name in ("sasl", "sasltls"):
            jaas = f"listener.name.{name}.%s.sasl.jaas.config"
            config[jaas % "plain"] = _written(f"{PLAIN} required {users};")
            config[jaas % "scram-sha-256"] = f"{SCRAM} required;"
            config[jaas % "scram-sha-512"] = f"{SCRAM} required;"
            config[jaas % "oauthbearer"] = f'{OAUTH} required unsecuredLoginStringClaim_sub="b";'
        return common | config


def _quoted(text: str) -> str:
    """Escape for a quoted value of JAAS."""
    return text.replace("\\", "\\\\").replace('"', '\\"')


def _written(value: str) -> str:
    """Escape a value for a properties file."""
    escaped = value.replace("\\", "\\\\").replace("\n", "\\n\\\n")
    return "".join(c if c.isascii() else f"\\u{ord(c):04x}" for c in escaped)


def _login(module: str, **options: str) -> str:
    pairs = "".join(f'\n  {name}="{_quoted(value)}"' for name, value in options.items())
    return f"{module} required{pairs} ;"


ALICE = {"username": "alice", "password": PASSWORD}
TRUST_PEM = {"ssl.truststore.type": "PEM", "ssl.truststore.location": f"{FOLDER}/ca.pem"}
TRUST_JKS = {
    "ssl.truststore.location": f"{FOLDER}/trust.jks",
    "ssl.truststore.password": STORE_PASSWORD,
}
CLIENT_PEM = (FOLDER / "client.pem").read_text()
CERTIFICATES = (
    CLIENT_PEM.partition("-----BEGIN CERT")[1] + CLIENT_PEM.partition("-----BEGIN CERT")[2]
)
CLIENT_KEY = CLIENT_PEM.partition("-----BEGIN CERT")[0]

GOOD: Mapping[str, tuple[str, Mapping[str, str]]] = {
    "plaintext": ("PLAINTEXT", {"group.id": "x"}),
    "trust-pem": ("TLS", TRUST_PEM),
    "trust-pem-inline": (
        "TLS",
        {
            "ssl.truststore.type": "PEM",
            "ssl.truststore.certificates": (FOLDER / "ca.pem").read_text().replace("\n", " "),
        },
    ),
    "trust-jks": ("TLS", TRUST_JKS),
    "trust-jks-no-password": ("TLS", {"ssl.truststore.location": f"{FOLDER}/trust.jks"}),
    "trust-pkcs12": (
        "TLS",
        {
            "ssl.truststore.type": "PKCS12",
            "ssl.truststore.location": f"{FOLDER}/trust.p12",
            "ssl.truststore.password": STORE_PASSWORD,
        },
    ),
    "trust-pkcs12-called-jks": (
        "TLS",
        {
            "ssl.truststore.location": f"{FOLDER}/trust-legacy.p12",
            "ssl.truststore.password": STORE_PASSWORD,
        },
    ),
    "no-host-name-check": (
        "localhost:TLS",
        {**TRUST_PEM, "ssl.endpoint.identification.algorithm": ""},
    ),
    "old-tls-one-suite": (
        "TLS",
        {
            **TRUST_PEM,
            "ssl.enabled.protocols": "TLSv1.2,TLSv1.1",
            "ssl.cipher.suites": "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384",
        },
    ),
    "key-pem": (
        "MTLS",
        {
            **TRUST_PEM,
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": f"{FOLDER}/client.pem",
            "ssl.key.password": KEY_PASSWORD,
        },
    ),
    "key-pem-inline": (
        "MTLS",
        {
            **TRUST_JKS,
            "ssl.keystore.type": "PEM",
            "ssl.keystore.certificate.chain": CERTIFICATES.strip(),
            "ssl.keystore.key": CLIENT_KEY.strip(),
            "ssl.key.password": KEY_PASSWORD,
        },
    ),
    "key-jks": (
        "MTLS",
        {
            **TRUST_JKS,
            "ssl.keystore.location": f"{FOLDER}/client.jks",
            "ssl.keystore.password": STORE_PASSWORD,
            "ssl.key.password": KEY_PASSWORD,
        },
    ),
    "key-pkcs12": (
        "MTLS",
        {
            **TRUST_JKS,
            "ssl.keystore.type": "PKCS12",
            "ssl.keystore.location": f"{FOLDER}/client.p12",
            "ssl.keystore.password": STORE_PASSWORD,
        },
    ),
    "plain": ("SASL", {"sasl.mechanism": "PLAIN", "sasl.jaas.config": _login(PLAIN, **ALICE)}),
    "scram-256": (
        "SASL",
        {"sasl.mechanism": "SCRAM-SHA-256", "sasl.jaas.config": _login(SCRAM, **ALICE)},
    ),
    "scram-512-odd-name": (
        "SASL",
        {
            "sasl.mechanism": "SCRAM-SHA-512",
            "sasl.jaas.config": _login(SCRAM, username="a=b,c", password=PASSWORD),
        },
    ),
    "oauthbearer": (
        "SASL",
        {
            "sasl.mechanism": "OAUTHBEARER",
            "sasl.jaas.config": _login(OAUTH, unsecuredLoginStringClaim_sub="alice"),
        },
    ),
    "plain-tls": (
        "SASLTLS",
        {**TRUST_JKS, "sasl.mechanism": "PLAIN", "sasl.jaas.config": _login(PLAIN, **ALICE)},
    ),
    "scram-512-tls": (
        "SASLTLS",
        {
            **TRUST_PEM,
            "sasl.mechanism": "SCRAM-SHA-512",
            "sasl.jaas.config": _login(SCRAM, **ALICE),
        },
    ),
    "oauthbearer-tls": (
        "SASLTLS",
        {
            **TRUST_PEM,
            "sasl.mechanism": "OAUTHBEARER",
            "sasl.jaas.config": _login(
                OAUTH,
                unsecuredLoginStringClaim_sub="alice",
                unsecuredLoginNumberClaim_age="7",
                unsecuredLoginListClaim_scope="|read|write",
            ),
        },
    ),
}

WRONG = {"username": "alice", "password": "wr0ng-sekret"}
BAD: Mapping[str, tuple[str, Mapping[str, str], str]] = {
    "wrong-password-plain": (
        "SASL",
        {"sasl.mechanism": "PLAIN", "sasl.jaas.config": _login(PLAIN, **WRONG)},
        "refused the login by PLAIN: Authentication failed: Invalid username or password; "
        "check sasl.jaas.config and sasl.mechanism",
    ),
    "wrong-password-scram": (
        "SASLTLS",
        {
            **TRUST_PEM,
            "sasl.mechanism": "SCRAM-SHA-512",
            "sasl.jaas.config": _login(SCRAM, **WRONG),
        },
        "refused the login by SCRAM-SHA-512: Authentication failed .*; check",
    ),
    "unknown-mechanism": (
        "SASLTLS",
        {
            **TRUST_PEM,
            "sasl.mechanism": "SCRAM-SHA-256",
            "sasl.jaas.config": _login(SCRAM, **ALICE),
        },
        "does not let clients log in by SCRAM-SHA-256; expected",
    ),
    "unknown-authority": ("TLS", {}, "has a certificate of an unknown authority"),
    "wrong-host-name": (
        "localhost:TLS",
        TRUST_PEM,
        "has a certificate for another name: .*'localhost'",
    ),
    "no-client-certificate": ("MTLS", TRUST_PEM, "expects a certificate of the client"),
    "strange-client-certificate": (
        "MTLS",
        {
            **TRUST_PEM,
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": f"{FOLDER}/stranger.pem",
        },
        "does not trust the certificate of the client|expects a certificate of the client that",
    ),
    "plaintext-to-tls": (
        "TLS",
        {"security.protocol": "PLAINTEXT"},
        "speaks TLS on this port; set security.protocol to SSL or SASL_SSL|"
        "closed the connection; the port may be one of TLS",
    ),
    "tls-to-plaintext": (
        "PLAINTEXT",
        {**TRUST_PEM, "security.protocol": "SSL"},
        "did not answer as TLS does .*; the port may be one without TLS",
    ),
    "no-login-to-sasl": (
        "SASL",
        {"security.protocol": "PLAINTEXT"},
        "closed the connection; the port may be one of TLS or of a login",
    ),
    "login-to-no-sasl": (
        "PLAINTEXT",
        {
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "PLAIN",
            "sasl.jaas.config": _login(PLAIN, **ALICE),
        },
        "expects no login on this port, found SASL_PLAINTEXT",
    ),
    "nobody-there": ("CLOSED", {}, "cannot be reached: Connection refused"),
    "no-such-name": (
        "no-such-host.invalid:TLS",
        {},
        r"cannot be found: no address is known for this name \(DNS\)",
    ),
}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureBroker]:
    server = SecureBroker(tmp_path_factory.mktemp("secure"))
    with running(server):
        admin = KafkaAdminClient(**server.client_options)
        for user in ("alice", "a=b,c"):
            for mechanism in (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512):
                credential = UserScramCredentialUpsertion(user, mechanism, PASSWORD)
                assert admin.alter_user_scram_credentials([credential]) == {user: None}
        admin.close()
        server.ports["CLOSED"] = free_port()
        yield server


@pytest.fixture(scope="module")
def files(server: SecureBroker, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Write each case as a file."""
    folder = tmp_path_factory.mktemp("clients")
    files = {}
    bad = {name: (listener, settings) for name, (listener, settings, _) in BAD.items()}
    for name, (listener, settings) in {**GOOD, **bad}.items():
        host, _, port = listener.rpartition(":")
        whole = {
            "bootstrap.servers": f"{host or HOST}:{server.ports[port]}",
            "security.protocol": PROTOCOLS.get(port, "PLAINTEXT"),
            **settings,
        }
        files[name] = folder / f"{name}.properties"
        lines = (f"{key}={_written(value)}\n" for key, value in whole.items())
        files[name].write_text("".join(lines), "ascii")
    return files


def test_java_agrees_with_the_files(files: dict[str, Path]) -> None:
    source = Path(__file__).parent / "java" / "ListGroupsWith.java"
    classes = compile_java([source], VERSION)
    done = run_java(
        VERSION, "ListGroupsWith", [str(file) for file in files.values()], classes=classes
    )
    outcomes = dict(zip(files, done.stdout.decode().split(), strict=True))
    assert {name: outcomes[name] for name in GOOD} == dict.fromkeys(GOOD, "ok")
    assert not {name for name in BAD if outcomes[name] == "ok"}


@pytest.mark.parametrize("name", GOOD)
def test_connects(name: str, files: dict[str, Path], caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG):
        config = client_config(environment={}, command_config=files[name])
        assert config.notes == ()
        assert _list_groups(config).error_code == 0
    _assert_no_secret(caplog.text, repr(config))


@pytest.mark.parametrize("name", ["scram-512-tls", "key-jks"])
def test_suits_every_client(name: str, files: dict[str, Path]) -> None:
    config = client_config(environment={}, command_config=files[name])
    admin = KafkaAdminClient(**config.kafka_options())
    try:
        assert admin.list_groups() == []
    finally:
        admin.close()


@pytest.mark.parametrize("name", BAD)
def test_says_why_not(
    name: str,
    files: dict[str, Path],
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
) -> None:
    with caplog.at_level(logging.DEBUG):
        config = client_config(environment={}, command_config=files[name])
        with pytest.raises(KgroupError) as caught:
            _list_groups(config)
    line = str(caught.value)
    assert re.match(rf"{re.escape(config.bootstrap_servers[0])} ({BAD[name][2]})", line), line
    assert "\n" not in line
    assert isinstance(caught.value, BrokerError)
    _assert_no_secret(caplog.text, repr(config), line, str(caught.getrepr(showlocals=False)))
    _assert_no_secret(*capfd.readouterr())


def _list_groups(config: ClientConfig) -> Any:
    """Connect to the first bootstrap server and ask for its groups, once."""
    options = config.kafka_options()
    net = NetworkSelector()
    manager = ConnectionManager(net, **options)

    async def ask() -> Any:
        connection = manager.get_connection(
            "bootstrap-0", timeout_ms=8000, refresh_metadata_on_err=False
        )
        await manager.wait_for(connection.init_future, 8000)
        return await connection.send_request(ListGroupsRequest())

    try:
        return net.run(ask)
    except Exception as error:
        raise connection_error(error, config.bootstrap_servers[0], options) from error
    finally:
        manager.close()
        net.close()


def _assert_no_secret(*texts: str) -> None:
    for text in texts:
        for secret in SECRETS:
            for shown in (secret, repr(secret)[1:-1], repr(secret.encode())[2:-1]):
                assert shown not in text, text[max(0, text.index(shown) - 300) :][:600]
