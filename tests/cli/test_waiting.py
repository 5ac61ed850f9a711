"""`--timeout` holds wherever something never answers on the way to a broker."""

from __future__ import annotations

import re
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from kgroup.source.broker import client
from tests.broker.key_stores import FOLDER
from tests.cli.command_line import Cli, Result
from tests.source.broker_answers import described
from tests.source.fake_broker import HOST, FakeBroker, fake_broker

pytestmark = pytest.mark.slow

MODULES = "org.apache.kafka.common.security"
PLAIN = f'{MODULES}.plain.PlainLoginModule required username="alice" password="s3kret";'
OAUTH = f"{MODULES}.oauthbearer.OAuthBearerLoginModule required"
HANDLER = f"{MODULES}.oauthbearer.OAuthBearerLoginCallbackHandler"
TRUST = ("ssl.truststore.type=PEM", f"ssl.truststore.location={FOLDER}/ca.pem")
TIMEOUTS_S = (0.4, 2, 20)
"""The next one where a busy machine did not come as far as the step in question in that time."""
LONG_S = 300
"""What never answers does so after this, for a test that fails to end as well."""


@pytest.fixture
def never() -> Iterator[Callable[[object], None]]:
    """Waits until the test is over."""
    over = Event()

    def wait(_: object = None) -> None:
        over.wait(LONG_S)

    yield wait
    over.set()


@pytest.fixture
def silent() -> Iterator[str]:
    """A port that takes connections, and nobody answers."""
    with socket.create_server((HOST, 0)) as listener:
        yield f"{HOST}:{listener.getsockname()[1]}"


@contextmanager
def soon() -> Iterator[None]:
    started = time.monotonic()
    yield
    assert time.monotonic() - started < LONG_S / 3


def listed(cli: Cli, server: str, *settings: str, timeout_s: float) -> Result:
    options = [word for setting in settings for word in ("-X", setting)]
    return cli("list", "--no-lag", "-b", server, "--timeout", timeout_s, *options)


def refused(cli: Cli, pattern: str, server: str, *settings: str) -> None:
    """Expect that a list fails with this message."""
    for timeout_s in TIMEOUTS_S:
        with soon():
            result = listed(cli, server, *settings, timeout_s=timeout_s)
        assert (result.status, result.out) == (1, "")
        if result.err != f"kgroup: error: {server} did not answer in time\n":
            break
    assert re.fullmatch(f"kgroup: error: {pattern}\n", result.err)


@pytest.mark.parametrize(
    "settings",
    [
        (),
        ("security.protocol=SSL", *TRUST),
        ("security.protocol=SASL_PLAINTEXT", "sasl.mechanism=PLAIN", f"sasl.jaas.config={PLAIN}"),
        ("security.protocol=SASL_SSL", *TRUST, "sasl.mechanism=PLAIN", f"sasl.jaas.config={PLAIN}"),
    ],
    ids=["plain", "tls", "login", "login-tls"],
)
def test_broker_that_takes_the_connection_only(
    cli: Cli, silent: str, settings: tuple[str, ...]
) -> None:
    what = " the TLS handshake" if TRUST[0] in settings else ""
    refused(cli, rf"{silent} did not answer{what} within \d+\.\d s", silent, *settings)


@pytest.mark.parametrize("is_only", [True, False])
def test_the_only_broker_is_given_most_of_the_time(cli: Cli, silent: str, is_only: bool) -> None:
    """With another one behind it, it gets a third at most."""
    servers = silent if is_only else f"{silent},{HOST}:1"
    least, most = (0.5, 0.8) if is_only else (0.1, 0.34)
    for timeout_s in (1, 3, 20):
        result = listed(cli, servers, timeout_s=timeout_s)
        waited = re.match(rf"kgroup: error: {silent} did not answer within (\d+\.\d) s", result.err)
        part = float(waited[1]) / timeout_s if waited else 0.0
        assert waited or "in time" in result.err
        assert part <= most
        if part > least:  # else a busy machine did not come so far before most of it was over
            break
    assert part > least


def test_a_warehouse_is_not_built_by_a_longer_wait(cli: Cli, silent: str, tmp_path: Path) -> None:
    for timeout_s in TIMEOUTS_S:
        words = ("history", "build", "--to", tmp_path / "w", "-b", silent, "--timeout", timeout_s)
        result = cli(*words)
        assert (result.status, list(tmp_path.iterdir())) == (1, [])
        waited = re.search(r"did not answer within (\d+\.\d) s", result.err)
        assert waited or "in time" in result.err
        if waited:
            break
    assert waited
    assert float(waited[1]) <= timeout_s


@pytest.mark.parametrize("step", ["SaslHandshake", "SaslAuthenticate"])
def test_broker_that_does_not_go_on_with_the_login(
    cli: Cli, never: Callable[[object], None], step: str
) -> None:
    with fake_broker() as fake, soon():
        fake.handlers = {
            "SaslHandshake": lambda _: {"error_code": 0, "mechanisms": ["PLAIN"]},
            "SaslAuthenticate": lambda _: {},
            step: never,
        }
        fake.newest = {"SaslHandshake": 1}
        login = ("sasl.mechanism=PLAIN", f"sasl.jaas.config={PLAIN}")
        for timeout_s in TIMEOUTS_S:
            result = listed(
                cli, fake.bootstrap, "security.protocol=SASL_PLAINTEXT", *login, timeout_s=timeout_s
            )
            if step in fake.names:
                break
        assert step in fake.names
    assert (result.status, result.out) == (1, "")
    assert result.err.startswith(f"kgroup: error: {fake.bootstrap} did not answer ")
    assert len(result.err.splitlines()) == 1
    assert "s3kret" not in result.err


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_token_endpoint_that_takes_the_connection_only(cli: Cli, silent: str, scheme: str) -> None:
    jaas = f'{OAUTH} clientId="me" clientSecret="s3kret" ssl.truststore.type="PEM" '
    jaas += f'ssl.truststore.location="{FOLDER}/ca.pem";'
    with fake_broker() as fake:
        refused(
            cli,
            rf"{fake.bootstrap} cannot be logged in to: no token for it within \d+\.\d s",
            fake.bootstrap,
            "security.protocol=SASL_PLAINTEXT",
            "sasl.mechanism=OAUTHBEARER",
            f"sasl.jaas.config={jaas}",
            f"sasl.login.callback.handler.class={HANDLER}",
            f"sasl.oauthbearer.token.endpoint.url={scheme}://{silent}/token",
        )
        assert fake.names == []


@pytest.fixture
def slow_names(monkeypatch: pytest.MonkeyPatch) -> dict[str, Callable[[object], None]]:
    """Names that are looked up only when what is put here for them comes back: 127.0.0.1."""
    waits: dict[str, Callable[[object], None]] = {}
    look_up = socket.getaddrinfo

    def getaddrinfo(host: Any, *args: Any, **options: Any) -> Any:
        if host not in waits:
            return look_up(host, *args, **options)
        waits[host](host)
        return look_up(HOST, *args, **options)

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    return waits


@pytest.mark.parametrize("lookup", ["use_all_dns_ips", "resolve_canonical_bootstrap_servers_only"])
def test_name_that_is_looked_up_for_ever(
    cli: Cli, slow_names: Any, never: Callable[[object], None], lookup: str
) -> None:
    slow_names["kafka.test"] = never
    server = "kafka.test:9092"
    why = r"cannot be found: no answer to .* \(DNS\) within \d+\.\d s"
    refused(cli, f"{server} {why}", server, f"client.dns.lookup={lookup}")


def test_name_that_is_looked_up_slowly(
    cli: Cli, slow_names: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A look-up that takes longer than the first greeting is waited for, and done once."""
    monkeypatch.setattr(client, "SOON_S", 0.05)
    asked = []

    def slowly(name: object) -> None:
        asked.append(name)
        time.sleep(0.3)

    slow_names["kafka.test"] = slowly
    with fake_broker() as fake:
        answering(fake)
        result = listed(cli, f"kafka.test:{fake.port}", timeout_s=30)
    assert (result.status, result.err.count("error")) == (0, 0)
    assert asked == ["kafka.test"]


def test_name_with_an_address_that_leads_nowhere(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody refuses there, as behind a firewall; then the next address is tried."""
    with fake_broker() as fake, socket.socket() as full, ExitStack() as stack, soon():
        answering(fake)
        full.bind((HOST, 0))
        full.listen(0)
        for _ in range(2):  # whoever comes after these is not let in
            waiting = stack.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex(full.getsockname())
        addresses = [
            (socket.AF_INET, socket.SOCK_STREAM, 6, "", (HOST, port))
            for port in (full.getsockname()[1], fake.port)
        ]
        monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: addresses)
        for timeout_s in (1, 6, 60):
            result = listed(cli, "kafka.test:9092", timeout_s=timeout_s)
            if result.status == 0:
                break
    assert (result.status, result.err.count("error")) == (0, 0)


def test_one_name_of_many_that_is_looked_up_for_ever(
    cli: Cli, slow_names: Any, never: Callable[[object], None]
) -> None:
    """The groups of the other brokers are listed."""
    slow_names["kafka.test"] = never
    with fake_broker() as fake, soon():
        answering(fake, {"node_id": 2, "host": "kafka.test", "port": 9092, "rack": None})
        for timeout_s in (1, 5, 50):
            result = listed(cli, fake.bootstrap, timeout_s=timeout_s)
            if result.status == 4:
                break
    assert result.status == 4
    assert "g" in result.out
    assert "roker 2 (kafka.test:9092) cannot be found: no answer to the look-up" in result.err


def test_following_a_broker_that_hangs_up_whatever_it_is_asked(cli: Cli) -> None:
    """After its first answer it still takes connections and tells its versions, no more."""
    with fake_broker() as fake, soon():
        answering(fake)
        metadata = fake.handlers["Metadata"]

        def hang_up_from_now_on(request: Any) -> Any:
            fake.handlers = dict.fromkeys(fake.handlers, lambda _: None)
            return metadata(request)

        fake.handlers["Metadata"] = hang_up_from_now_on
        result = cli("decode-offsets", "-b", fake.bootstrap, "--follow", "--timeout", 1)
    assert (result.status, result.out) == (1, "")
    assert result.err == (
        "kgroup: error: no broker has answered for 1 s; the last reason: broker 1 "
        f"({fake.bootstrap}) closed the connection\n"
    )


def answering(fake: FakeBroker, *more_brokers: dict[str, Any]) -> None:
    """Make a broker of Kafka 0.11 with the group "g" and the topic `__consumer_offsets`."""
    broker = {"node_id": 1, "host": HOST, "port": fake.port, "rack": None}
    partition = {
        "error_code": 0,
        "partition_index": 0,
        "leader_id": 1,
        "replica_nodes": [1],
        "isr_nodes": [1],
    }
    offsets = {
        "error_code": 0,
        "name": "__consumer_offsets",
        "is_internal": True,
        "partitions": [partition],
    }
    fake.newest = {"Metadata": 4}
    fake.handlers = {
        "Metadata": lambda _: {
            "brokers": [broker, *more_brokers],
            "cluster_id": "fake",
            "controller_id": 1,
            "topics": [offsets],
        },
        "ListGroups": lambda _: {
            "error_code": 0,
            "groups": [{"group_id": "g", "protocol_type": "consumer"}],
        },
        "DescribeGroups": lambda request: {"groups": list(map(described, request.groups))},
        "OffsetFetch": lambda _: {"topics": [], "error_code": 0},
    }
