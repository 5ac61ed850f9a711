"""Tokens for SASL/OAUTHBEARER: made here (unsecured), from a file, or from a token endpoint.

Each provider has the two methods that kafka-python asks for: ``token()`` and ``extensions()``.
"""

from __future__ import annotations

import json
import re
import time
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import quote_plus, unquote, urlsplit

from kgroup.errors import KgroupError, UsageError
from kgroup.redaction import keep_secret
from kgroup.source.config.client_setting import Secret, Setting, Settings
from kgroup.source.config.number import MOST_INT, MOST_LONG, whole_number
from kgroup.source.config.user_file import read_user_file, user_path

if TYPE_CHECKING:
    from kgroup.source.config.jaas import LoginModule
    from kgroup.source.config.tls import Tls

_HANDLER_KEY = "sasl.login.callback.handler.class"
_RETRIEVER_KEY = "sasl.oauthbearer.jwt.retriever.class"
_URL_KEY = "sasl.oauthbearer.token.endpoint.url"
_ID_KEY = "sasl.oauthbearer.client.credentials.client.id"
_SECRET_KEY = "sasl.oauthbearer.client.credentials.client.secret"
_RETRIEVERS = ("DefaultJwtRetriever", "ClientCredentialsJwtRetriever", "FileJwtRetriever")

_ERROR_NAME = re.compile("[a-z_]{1,40}")
_TIMEOUT_S = 10.0
_RENEW_BEFORE_S = 60
"""A token of an endpoint is asked for anew when it is this near to its end."""


class TokenProvider(Protocol):
    """What kafka-python asks for at each connection."""

    def token(self) -> str:
        """Give a token that is valid now."""

    def extensions(self) -> Mapping[str, str]:
        """Give the SASL extensions to send with it."""


def token_provider(settings: Settings, jaas: LoginModule, where: str) -> TokenProvider:
    """Choose the provider as Kafka's login callback handlers do.

    Args:
        settings: all settings.
        jaas: the login module.
        where: where the login module came from, to begin messages with.

    Raises:
        UsageError: something is missing, or is code that only Java can run.
    """
    handler = settings.get(_HANDLER_KEY)
    name = "" if handler is None else handler.value.rpartition(".")[2]
    if handler is None or name == "OAuthBearerUnsecuredLoginCallbackHandler":
        return _unsecured(jaas, where)
    if name == "OAuthBearerLoginCallbackHandler":
        return _secured(settings, jaas, where)
    raise handler.expected(
        "a handler of Kafka itself (OAuthBearerLoginCallbackHandler for a token endpoint)"
    )


@dataclass(frozen=True, slots=True)
class UnsecuredToken:
    """An unsigned token for tests (`OAuthBearerUnsecuredLoginCallbackHandler`).

    Attributes:
        claims: without ``iat`` and ``exp``.
        lifetime_s: from ``iat`` to ``exp``.
        sasl_extensions: names and values.
    """

    claims: Mapping[str, Any] = field(repr=False)
    lifetime_s: int
    sasl_extensions: Mapping[str, str] = field(repr=False)

    def token(self) -> str:
        """Make a JWS with algorithm "none" and an empty signature."""
        now = time.time()
        claims = {"exp": now + self.lifetime_s, "iat": now, **self.claims}
        return f"{_base64(_json({'alg': 'none'}))}.{_base64(_json(claims))}."

    def extensions(self) -> Mapping[str, str]:
        """Give what the login module's options say."""
        return self.sasl_extensions


@dataclass(frozen=True, slots=True)
class FileToken:
    """A token that something else keeps fresh in a file (`FileJwtRetriever`)."""

    path: Path
    where: str
    sasl_extensions: Mapping[str, str] = field(repr=False)

    def token(self) -> str:
        """Read the file."""
        try:
            token = read_user_file(self.path, f"{self.where}: {self.path}").decode().strip()
        except UnicodeDecodeError:
            raise KgroupError(
                f"{self.where}: cannot read {self.path}: it is no UTF-8 text"
            ) from None
        if not token:
            raise KgroupError(f"{self.where}: expected a token in {self.path}, found nothing")
        keep_secret(token)
        return token

    def extensions(self) -> Mapping[str, str]:
        """Give what the login module's options say."""
        return self.sasl_extensions


@dataclass(slots=True)
class EndpointToken:
    """A token from an endpoint, for client credentials (`ClientCredentialsJwtRetriever`).

    Attributes:
        url: of the endpoint, http or https.
        client_id: as the endpoint knows this client; with its secret in a Basic header.
        client_secret: its secret.
        scope: to ask for, None for the endpoint's default.
        tls: of the endpoint; None for http.
        timeout_s: for each step on the network.
        where: where the url came from, to begin messages with.
        sasl_extensions: names and values.
    """

    url: str
    client_id: str
    client_secret: Secret
    scope: str | None
    tls: Tls | None
    timeout_s: float
    where: str
    sasl_extensions: Mapping[str, str] = field(repr=False)
    _token: Secret = field(default=Secret(), init=False, repr=False)
    _renew_at: float = field(default=0.0, init=False, repr=False)

    def token(self) -> str:
        """Give the last token while it is valid for long enough, else ask for a new one."""
        if time.monotonic() >= self._renew_at:
            asked_at = time.monotonic()
            answer = self._ask()
            found = answer.get("access_token") or answer.get("id_token")
            if not isinstance(found, str) or not found.strip():
                raise self._error("an access_token in the answer", "none")
            lifetime_s = answer.get("expires_in")
            seconds = lifetime_s if isinstance(lifetime_s, int | float) else 0
            seconds = min(max(seconds, 0), MOST_INT)  # a number in JSON may be longer than a float
            self._renew_at = asked_at + seconds - _RENEW_BEFORE_S
            self._token = Secret(found.strip())
            keep_secret(self._token)
        return _plain(self._token)

    def extensions(self) -> Mapping[str, str]:
        """Give what the login module's options say."""
        return self.sasl_extensions

    def _ask(self) -> dict[str, Any]:
        """Post the request; redirections are not followed, as they would carry the secret away."""
        from http.client import HTTPConnection, HTTPException, HTTPSConnection

        parts = urlsplit(self.url)
        assert parts.hostname is not None
        connection = (
            HTTPConnection(parts.hostname, parts.port, timeout=self.timeout_s)
            if self.tls is None
            else HTTPSConnection(
                parts.hostname, parts.port, timeout=self.timeout_s, context=self.tls.context()
            )
        )
        credentials = b":".join((self.client_id.encode(), self.client_secret.encode()))
        body = "grant_type=client_credentials"
        if self.scope is not None:
            body += f"&scope={self.scope}"
        headers = {
            "Accept": "application/json",
            "Authorization": "Basic " + b64encode(credentials).decode(),
            "Cache-Control": "no-cache",
            "Content-Type": "application/x-www-form-urlencoded",
        }
        path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        try:
            connection.request("POST", path, body.encode(), headers)
            response = connection.getresponse()
            data = response.read(1 << 20)
        except (OSError, HTTPException, UnicodeError) as error:  # the last of a host's name
            reason = getattr(error, "strerror", None) or error
            raise self._error("an answer", f"{type(error).__name__}: {reason}") from None
        finally:
            connection.close()
        try:
            answer = json.loads(data)
        except (ValueError, RecursionError):
            answer = None
        if response.status not in (200, 201):
            # RFC 6749, 5.2: the error's name is a short word; its description may say anything.
            name = answer.get("error") if isinstance(answer, dict) else None
            told = f" ({name})" if isinstance(name, str) and _ERROR_NAME.fullmatch(name) else ""
            raise self._error("status 200", f"{response.status}{told}; check client id and secret")
        if not isinstance(answer, dict):
            raise self._error("a JSON object", "something else")
        return answer

    def _error(self, expected: str, found: str) -> KgroupError:
        url = self.url.partition("?")[0]
        return KgroupError(f"{self.where}: expected {expected} from {url}, found {found}")


def _unsecured(jaas: LoginModule, where: str) -> UnsecuredToken:
    claims: dict[str, Any] = {}
    for option, value in jaas.options.items():
        kind, _, name = option.removeprefix("unsecuredLogin").partition("_")
        if kind not in ("StringClaim", "NumberClaim", "ListClaim") or not name:
            continue
        if name in ("iat", "exp"):
            raise UsageError(f"{where}: expected no {option}: kgroup computes that claim")
        claims[name] = _claim(kind, value, f"{where}: {option}")
    principal = _plain(jaas.options.get("unsecuredLoginPrincipalClaimName")) or "sub"
    if not claims.get(principal):
        raise UsageError(
            f"{where}: expected unsecuredLoginStringClaim_{principal}, the user to log in as "
            f"(or {_HANDLER_KEY}, to ask a token endpoint), found neither"
        )
    lifetime = _plain(jaas.options.get("unsecuredLoginLifetimeSeconds")) or "3600"
    lifetime_s = whole_number(lifetime, MOST_LONG) if lifetime.isascii() else None
    if lifetime_s is None:
        raise UsageError(f"{where}: unsecuredLoginLifetimeSeconds: expected a whole number")
    return UnsecuredToken(claims, lifetime_s, _extensions(jaas, "unsecuredLoginExtension_"))


def _claim(kind: str, value: Secret, where: str) -> object:
    if kind == "ListClaim":
        return _plain(value[1:]).split(value[0]) if len(value) > 1 else []
    if kind == "StringClaim":
        return _plain(value)
    try:
        return float(value)
    except ValueError:
        raise UsageError(f"{where}: expected a number") from None


def _secured(settings: Settings, jaas: LoginModule, where: str) -> TokenProvider:
    retriever = settings.get(_RETRIEVER_KEY)
    if retriever is not None and retriever.value.rpartition(".")[2] not in _RETRIEVERS:
        raise retriever.expected(" or ".join(_RETRIEVERS))
    url = settings.get(_URL_KEY)
    if url is None:
        raise settings.missing(_URL_KEY, f"{_HANDLER_KEY} needs a token endpoint")
    extensions = _extensions(jaas, "extension_")
    try:
        parts = urlsplit(url.value)
        has_host = bool(parts.hostname) and parts.port != 0
    except ValueError:  # brackets that are no IPv6 address, or a port that is none
        raise url.expected("https://HOST/PATH, http or file:") from None
    if parts.scheme == "file":
        return FileToken(user_path(unquote(parts.path), url.where), url.where, extensions)
    if parts.scheme not in ("http", "https") or not has_host or "@" in parts.netloc:
        raise UsageError(
            f"{url.where}: expected https://HOST/PATH, http or file:, without user and password"
        )
    client_id = settings.text(_ID_KEY) or _plain(jaas.options.get("clientId"))
    client_secret = settings.text(_SECRET_KEY) or _plain(jaas.options.get("clientSecret"))
    if not client_id or not client_secret:
        missing = "clientSecret" if client_id else "clientId"
        key = _SECRET_KEY if client_id else _ID_KEY
        raise UsageError(f"{where}: expected {missing} (or the setting {key}), found neither")
    scope = settings.text("sasl.oauthbearer.scope") or _plain(jaas.options.get("scope")) or None
    if settings.choice("sasl.oauthbearer.header.urlencode", ("TRUE", "FALSE"), "FALSE") == "TRUE":
        client_id, client_secret = quote_plus(client_id), quote_plus(_plain(client_secret))
        scope = None if scope is None else quote_plus(scope)
    keep_secret(client_secret)
    keep_secret(f"{client_id}:{_plain(client_secret)}")
    timeout_ms = settings.whole_number("sasl.login.connect.timeout.ms", MOST_INT)
    return EndpointToken(
        url=url.value,
        client_id=client_id,
        client_secret=Secret(_plain(client_secret)),
        scope=scope,
        tls=_endpoint_tls(jaas, where) if parts.scheme == "https" else None,
        timeout_s=timeout_ms / 1000 if timeout_ms else _TIMEOUT_S,
        where=url.where,
        sasl_extensions=extensions,
    )


def _endpoint_tls(jaas: LoginModule, where: str) -> Tls:
    """Take TLS to the endpoint from ``ssl.*`` among the login module's options, as Kafka does."""
    from kgroup.source.config.tls import Tls

    options = [
        Setting(option, _plain(value), where)
        for option, value in jaas.options.items()
        if option.startswith("ssl.")
    ]
    return Tls.read(Settings.merged(options))


def _extensions(jaas: LoginModule, prefix: str) -> dict[str, str]:
    return {
        option.removeprefix(prefix): _plain(value)
        for option, value in jaas.options.items()
        if option.startswith(prefix)
    }


def _plain(value: str | None) -> str:
    """Give the real text of a secret that is none: a user's name, a scope."""
    return "" if value is None else "".join(value)


def _json(value: Mapping[str, Any]) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


def _base64(data: bytes) -> str:
    return urlsafe_b64encode(data).rstrip(b"=").decode()
