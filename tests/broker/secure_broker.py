"""A broker with listeners of every kind, and files of client properties, right and wrong."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from kafka import KafkaAdminClient
from kafka.admin import (
    ACL,
    ACLFilter,
    ACLOperation,
    ACLPermissionType,
    ACLResourcePatternType,
    ResourcePatternFilter,
    ResourceType,
)

from tests.broker.key_stores import FOLDER, KEY_PASSWORD, STORE_PASSWORD
from tests.broker.process import HOST, free_port
from tests.broker.servers import Broker
from tests.waiting import until

VERSION = "4.3.1"
PASSWORD = "wönder=\\\"land'; #1"
SECRETS = (PASSWORD, "wönder", "land'; #1", STORE_PASSWORD, KEY_PASSWORD, "wr0ng-sekret")
MODULES = "org.apache.kafka.common.security"
PLAIN = f"{MODULES}.plain.PlainLoginModule"
SCRAM = f"{MODULES}.scram.ScramLoginModule"
OAUTH = f"{MODULES}.oauthbearer.OAuthBearerLoginModule"
GUESTS = ("reader", "no-log", "no-group", "no-topic", "group-only", "operator", "deleter")
"""Users who may do nothing until they get rights; alice may do everything."""
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
        users = " ".join(f'user_{user}="{_quoted(PASSWORD)}"' for user in ("alice", *GUESTS))
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
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "User:ANONYMOUS;User:alice;User:a=b,c;User:CN=client",
        }
        for name in ("sasl", "sasltls"):
            jaas = f"listener.name.{name}.%s.sasl.jaas.config"
            config[jaas % "plain"] = written(f"{PLAIN} required {users};")
            config[jaas % "scram-sha-256"] = f"{SCRAM} required;"
            config[jaas % "scram-sha-512"] = f"{SCRAM} required;"
            config[jaas % "oauthbearer"] = f'{OAUTH} required unsecuredLoginStringClaim_sub="b";'
        return common | config


def create_acls(admin: KafkaAdminClient, acls: Sequence[ACL]) -> None:
    """Create the first ACLs of a broker, and wait until it knows them."""
    assert admin.create_acls(acls)["failed"] == []
    names = ResourcePatternFilter(ResourceType.ANY, None, ACLResourcePatternType.ANY)
    every = ACLFilter(None, None, ACLOperation.ANY, ACLPermissionType.ANY, names)
    until(lambda: len(admin.describe_acls(every)[0]) == len(acls))


def _quoted(text: str) -> str:
    """Escape for a quoted value of JAAS."""
    return text.replace("\\", "\\\\").replace('"', '\\"')


def written(value: str) -> str:
    """Escape a value for a properties file."""
    escaped = value.replace("\\", "\\\\").replace("\n", "\\n\\\n")
    return "".join(c if c.isascii() else f"\\u{ord(c):04x}" for c in escaped)


def login(module: str, **options: str) -> str:
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
    "plain": ("SASL", {"sasl.mechanism": "PLAIN", "sasl.jaas.config": login(PLAIN, **ALICE)}),
    "scram-256": (
        "SASL",
        {"sasl.mechanism": "SCRAM-SHA-256", "sasl.jaas.config": login(SCRAM, **ALICE)},
    ),
    "scram-512-odd-name": (
        "SASL",
        {
            "sasl.mechanism": "SCRAM-SHA-512",
            "sasl.jaas.config": login(SCRAM, username="a=b,c", password=PASSWORD),
        },
    ),
    "oauthbearer": (
        "SASL",
        {
            "sasl.mechanism": "OAUTHBEARER",
            "sasl.jaas.config": login(OAUTH, unsecuredLoginStringClaim_sub="alice"),
        },
    ),
    "plain-tls": (
        "SASLTLS",
        {**TRUST_JKS, "sasl.mechanism": "PLAIN", "sasl.jaas.config": login(PLAIN, **ALICE)},
    ),
    "scram-512-tls": (
        "SASLTLS",
        {**TRUST_PEM, "sasl.mechanism": "SCRAM-SHA-512", "sasl.jaas.config": login(SCRAM, **ALICE)},
    ),
    "oauthbearer-tls": (
        "SASLTLS",
        {
            **TRUST_PEM,
            "sasl.mechanism": "OAUTHBEARER",
            "sasl.jaas.config": login(
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
        {"sasl.mechanism": "PLAIN", "sasl.jaas.config": login(PLAIN, **WRONG)},
        "refused the login by PLAIN: Authentication failed: Invalid username or password; "
        "check sasl.jaas.config and sasl.mechanism",
    ),
    "wrong-password-scram": (
        "SASLTLS",
        {**TRUST_PEM, "sasl.mechanism": "SCRAM-SHA-512", "sasl.jaas.config": login(SCRAM, **WRONG)},
        "refused the login by SCRAM-SHA-512: Authentication failed .*; check",
    ),
    "unknown-mechanism": (
        "SASLTLS",
        {**TRUST_PEM, "sasl.mechanism": "SCRAM-SHA-256", "sasl.jaas.config": login(SCRAM, **ALICE)},
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
            "sasl.jaas.config": login(PLAIN, **ALICE),
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
