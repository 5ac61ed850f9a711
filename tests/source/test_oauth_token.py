"""Tokens for OAUTHBEARER: what is in them, and how an endpoint is asked.

The request's form is that of Kafka's `ClientSecretRequestFormatter`, the claims those of its
`OAuthBearerUnsecuredLoginCallbackHandler`.
"""

from __future__ import annotations

import json
import ssl
import threading
import time
import traceback
from base64 import b64encode, urlsafe_b64decode
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from kgroup.errors import KgroupError, UsageError
from kgroup.source.config.client_setting import ClientSetting, ClientSettings
from kgroup.source.config.sasl import TokenProvider, parse_jaas, token_provider
from tests.broker.key_stores import FOLDER

SECRET = "cl1ent-s3kret"
TOKEN = "aaa.t0ken.ccc"
HANDLER = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler"


def provider(options: str, **settings: str) -> TokenProvider:
    jaas = ClientSetting(
        "sasl.jaas.config", f"a.OAuthBearerLoginModule required {options};", "test"
    )
    named = [ClientSetting(key.replace("_", "."), value, "test") for key, value in settings.items()]
    return token_provider(ClientSettings.merged(named), parse_jaas(jaas), jaas.where)


def endpoint(url: str, options: str = "", **settings: str) -> TokenProvider:
    options = options or f'clientId="me" clientSecret="{SECRET}" scope="read"'
    settings.setdefault("sasl_login_callback_handler_class", HANDLER)
    return provider(options, sasl_oauthbearer_token_endpoint_url=url, **settings)


class Endpoint(HTTPServer):
    """Answers with what it is told, and keeps what it was asked."""

    status = 200
    answer: Any = None
    asked: list[tuple[str, dict[str, str], str]]

    class Handler(BaseHTTPRequestHandler):
        server: Endpoint

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"])).decode()
            self.server.asked.append((self.path, dict(self.headers), body))
            data = json.dumps(self.server.answer).encode()
            self.send_response(self.server.status)
            self.send_header("Content-Length", str(len(data)))
            self.send_header("Location", "/elsewhere")
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: object) -> None:
            pass

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), self.Handler)
        self.asked = []
        self.url = f"http://127.0.0.1:{self.server_port}/oauth2/token?x=1"


@pytest.fixture
def server() -> Iterator[Endpoint]:
    server = Endpoint()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


def test_unsecured() -> None:
    made = provider(
        'unsecuredLoginStringClaim_sub="a\\"lice" unsecuredLoginNumberClaim_age="7" '
        'unsecuredLoginListClaim_scope="|read|write" unsecuredLoginListClaim_none="" '
        'unsecuredLoginLifetimeSeconds="60" unsecuredLoginExtension_traceId="123"'
    )
    header, claims, signature = (_decoded(part) for part in made.token().split("."))
    assert json.loads(header) == {"alg": "none"}
    assert signature == b""
    found = json.loads(claims)
    assert abs(found.pop("iat") - time.time()) < 60
    assert 59 < found.pop("exp") - json.loads(claims)["iat"] < 61
    assert found == {"sub": 'a"lice', "age": 7, "scope": ["read", "write"], "none": []}
    assert made.extensions() == {"traceId": "123"}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("", "expected unsecuredLoginStringClaim_sub, the user to log in as"),
        ('unsecuredLoginPrincipalClaimName="user" unsecuredLoginStringClaim_sub="a"', "Claim_user"),
        ('unsecuredLoginStringClaim_exp="1"', "expected no unsecuredLoginStringClaim_exp"),
        ('unsecuredLoginNumberClaim_sub="cl1ent-s3kret"', "expected a number"),
        (
            'unsecuredLoginStringClaim_sub="a" unsecuredLoginLifetimeSeconds="cl1ent-s3kret"',
            "unsecuredLoginLifetimeSeconds: expected a whole number",
        ),
    ],
)
def test_bad_unsecured(options: str, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        provider(options)
    assert message in str(caught.value)
    assert SECRET not in "".join(traceback.format_exception(caught.value))


def test_endpoint_is_asked_as_kafka_does(server: Endpoint) -> None:
    server.answer = {"access_token": f" {TOKEN} ", "expires_in": 3600}
    made = endpoint(
        server.url, f'clientId="me" clientSecret="{SECRET}" scope="a b" extension_x="y"'
    )
    assert [made.token(), made.token()] == [TOKEN, TOKEN]
    assert f"Bearer {made.token()}" == f"Bearer {TOKEN}"  # kafka-python puts it in so
    assert made.extensions() == {"x": "y"}
    [(path, headers, body)] = server.asked
    assert path == "/oauth2/token?x=1"
    assert body == "grant_type=client_credentials&scope=a b"
    assert headers["Authorization"] == "Basic " + b64encode(f"me:{SECRET}".encode()).decode()
    assert headers["Content-Type"] == "application/x-www-form-urlencoded"
    for secret in (SECRET, TOKEN):
        assert secret not in repr(made)


def test_endpoint_by_settings_of_kafka_4(server: Endpoint) -> None:
    server.answer = {"id_token": TOKEN}
    jaas = ClientSetting("sasl.jaas.config", "a.OAuthBearerLoginModule required ;", "test")
    settings = {
        "sasl.login.callback.handler.class": HANDLER,
        "sasl.oauthbearer.token.endpoint.url": server.url,
        "sasl.oauthbearer.client.credentials.client.id": "m:e",
        "sasl.oauthbearer.client.credentials.client.secret": SECRET + "+",
        "sasl.oauthbearer.scope": "a b",
        "sasl.oauthbearer.header.urlencode": "true",
    }
    named = ClientSettings.merged([ClientSetting(*item, "test") for item in settings.items()])
    made = token_provider(named, parse_jaas(jaas), jaas.where)
    assert [made.token(), made.token()] == [TOKEN, TOKEN]
    assert len(server.asked) == 2  # how long it is valid was not said
    _, headers, body = server.asked[0]
    assert body.endswith("scope=a+b")
    assert headers["Authorization"] == "Basic " + b64encode(f"m%3Ae:{SECRET}%2B".encode()).decode()


@pytest.mark.parametrize(
    ("status", "answer", "message"),
    [
        (401, {"error": "invalid_client"}, r"status 200 from .*, found 401 \(invalid_client\)"),
        (302, {}, "found 302"),
        (200, {"token": TOKEN}, "expected an access_token in the answer"),
        (200, [TOKEN], "expected a JSON object"),
    ],
)
def test_endpoint_that_refuses(server: Endpoint, status: int, answer: Any, message: str) -> None:
    server.status, server.answer = status, answer
    with pytest.raises(KgroupError, match=message) as caught:
        endpoint(server.url).token()
    assert len(server.asked) == 1
    shown = "".join(traceback.format_exception(caught.value))
    assert SECRET not in shown
    assert TOKEN not in shown


@pytest.fixture
def secure_server(server: Endpoint) -> Endpoint:
    """The endpoint behind TLS, with a certificate of the tests' authority for 127.0.0.1."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(FOLDER / "server.pem")
    server.socket = context.wrap_socket(server.socket, server_side=True)
    server.url = server.url.replace("http:", "https:")
    return server


def test_endpoint_behind_tls(secure_server: Endpoint) -> None:
    secure_server.answer = {"access_token": TOKEN, "expires_in": 3600}
    trust = f'ssl.truststore.type="PEM" ssl.truststore.location="{FOLDER}/ca.pem"'
    made = endpoint(secure_server.url, f'clientId="me" clientSecret="{SECRET}" {trust}')
    assert f"Bearer {made.token()}" == f"Bearer {TOKEN}"
    assert len(secure_server.asked) == 1


def test_endpoint_that_is_not_trusted(secure_server: Endpoint) -> None:
    with pytest.raises(KgroupError, match=r"found SSLCertVerificationError: .*") as caught:
        endpoint(secure_server.url).token()
    assert "\n" not in str(caught.value)
    assert secure_server.asked == []
    assert SECRET not in "".join(traceback.format_exception(caught.value))


def test_endpoint_that_is_not_there(server: Endpoint) -> None:
    with pytest.raises(
        KgroupError,
        match=r"^sasl.oauthbearer.token.endpoint.url \(test\): .*Refused.*: Connection refused$",
    ):
        endpoint("http://127.0.0.1:1/").token()


def test_token_in_a_file(tmp_path: Path) -> None:
    file = tmp_path / "to ken"
    made = endpoint(file.as_uri())
    with pytest.raises(KgroupError, match=r"/to ken: cannot read it: No such file"):
        made.token()
    file.write_text("\n")
    with pytest.raises(KgroupError, match=r"expected a token in .*, found nothing"):
        made.token()
    file.write_text(f"{TOKEN}\n")
    assert f"Bearer {made.token()}" == f"Bearer {TOKEN}"


@pytest.mark.parametrize(
    ("url", "settings", "options", "message"),
    [
        ("ftp://x/", {}, "", "expected https://HOST/PATH"),
        ("https://u:p4ss@x/", {}, "", "without user and password"),
        ("http://x", {}, 'clientSecret="cl1ent-s3kret"', "expected clientId"),
        ("http://x", {}, 'clientId="a"', "expected clientSecret"),
        (
            "http://x",
            {"sasl_login_callback_handler_class": "my.Own"},
            "",
            "a handler of Kafka itself",
        ),
        (
            "http://x",
            {"sasl_oauthbearer_jwt_retriever_class": "a.JwtBearerJwtRetriever"},
            "",
            "Default",
        ),
    ],
)
def test_bad_endpoints(url: str, settings: dict[str, str], options: str, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        endpoint(url, options, **settings)
    assert message in str(caught.value)
    assert SECRET not in str(caught.value)
    assert "p4ss" not in str(caught.value)


def _decoded(part: str) -> bytes:
    return urlsafe_b64decode(part + "=" * (-len(part) % 4))
