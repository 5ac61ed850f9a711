r"""SASL as configured by Kafka's `sasl.*` settings, as keyword arguments of kafka-python.

`sasl.jaas.config` is parsed as in Kafka (`JaasConfig`, based on Java's StreamTokenizer).

config    module flag (name = value)* ;
word      starts with a letter, _ or $, or a character above 0x9F; may continue with digits . - too
quoted    " or ' to the same quote or the end of the line; \a \b \f \n \r \t \v \0 … \377
          are escapes, any other character after a backslash is literal
number    starts with a digit, . or -; it is a value only if it is quoted
comment   // and / to the end of the line, /* to */

Tokens for OAUTHBEARER are generated here (unsecured), or come from a file or a token endpoint. Each
provider has the two methods that kafka-python calls: ``token()`` and ``extensions()``.
"""

from __future__ import annotations

import json
import logging
import re
import time
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import quote_plus, unquote, urlsplit

from kgroup.errors import KgroupError, UsageError
from kgroup.redaction import is_reference, is_secret, keep_secret
from kgroup.source.config.client_setting import (
    MOST_INT,
    MOST_LONG,
    ClientSetting,
    ClientSettings,
    Secret,
    read_secret,
    whole_number,
)
from kgroup.source.config.user_file import read_user_file, user_path

if TYPE_CHECKING:
    from kgroup.source.config.tls import Tls


_MODULES = {
    "PLAIN": ("PlainLoginModule", "ScramLoginModule"),
    "SCRAM-SHA-256": ("ScramLoginModule", "PlainLoginModule"),
    "SCRAM-SHA-512": ("ScramLoginModule", "PlainLoginModule"),
    "OAUTHBEARER": ("OAuthBearerLoginModule",),
    "GSSAPI": ("Krb5LoginModule",),
    "AWS_MSK_IAM": ("IAMLoginModule",),
}
"""Login modules with the options of a mechanism, the usual one first."""

MECHANISMS = tuple(_MODULES)

_LOGGERS_OF_BYTES = ("kafka.net.connection", "kafka.protocol.parser")
"""Loggers that write all sent bytes at level DEBUG, including passwords and tokens."""


@dataclass(frozen=True, slots=True)
class Sasl:
    """A SASL configuration.

    Attributes:
        mechanism: one of `MECHANISMS`.
        options: keyword arguments of kafka-python, without the mechanism.
        notes: settings that are not supported.
    """

    mechanism: str
    options: Mapping[str, Any] = field(repr=False)
    notes: tuple[str, ...] = ()

    @classmethod
    def read(cls, settings: ClientSettings) -> Sasl:
        """Return the configuration of the `sasl.*` settings.

        Raises:
            UsageError: a setting is missing, or is not supported.
        """
        mechanism = settings.choice("sasl.mechanism", MECHANISMS, "GSSAPI")
        setting = settings.get("sasl.jaas.config")
        usual = _MODULES[mechanism][0]
        if setting is None:
            if mechanism in ("GSSAPI", "AWS_MSK_IAM"):
                return cls(mechanism, _kerberos(settings, {}) if mechanism == "GSSAPI" else {})
            raise settings.missing(
                "sasl.jaas.config", f"sasl.mechanism {mechanism} needs a {usual} with its options"
            )
        module = parse_jaas(setting).resolved(setting.where)
        if module.short_name not in _MODULES[mechanism]:
            raise UsageError(
                f"{setting.where}: expected {usual} for sasl.mechanism {mechanism}, "
                "found another login module"
            )
        if mechanism == "OAUTHBEARER":
            provider = token_provider(settings, module, setting.where)
            return cls(mechanism, {"sasl_oauth_token_provider": provider})
        if mechanism == "GSSAPI":
            note = f"{setting.where}: kgroup logs in with the tickets of kinit; only serviceName"
            notes = (f"{note} is read",) if set(module.options) - {"serviceName"} else ()
            return cls(mechanism, _kerberos(settings, module.options), notes)
        if mechanism == "AWS_MSK_IAM":
            note = f"{setting.where}: kgroup takes AWS credentials from the environment and the"
            notes = (f"{note} default profile (AWS_PROFILE) only",) if module.options else ()
            return cls(mechanism, {}, notes)
        return cls(mechanism, _credentials(mechanism, module, setting.where))

    def kafka_options(self) -> dict[str, Any]:
        """Return the keyword arguments of a kafka-python client."""
        for name in _LOGGERS_OF_BYTES:
            logging.getLogger(name).setLevel(logging.INFO)
        provider = self.options.get("sasl_oauth_token_provider")
        if provider is not None:
            from kafka.net.sasl.oauth import AbstractTokenProvider

            AbstractTokenProvider.register(type(provider))
        return {"sasl_mechanism": self.mechanism, **self.options}


def _credentials(mechanism: str, module: LoginModule, where: str) -> dict[str, Any]:
    username, password = module.options.get("username"), module.options.get("password")
    for name, value in (("username", username), ("password", password)):
        if not value:
            raise UsageError(
                f"{where}: expected the option {name} of {module.short_name}, found none"
            )
    if mechanism.startswith("SCRAM-"):
        if "".join(module.options.get("tokenauth", "")).lower() == "true":
            raise UsageError(
                f"{where}: expected a user, found a delegation token (tokenauth), which is not "
                "supported"
            )
        # RFC 5802: = and , in user names must be escaped, which kafka-python does not do.
        username = Secret((username or "").replace("=", "=3D").replace(",", "=2C"))
    return {"sasl_plain_username": username, "sasl_plain_password": password}


def _kerberos(settings: ClientSettings, options: Mapping[str, str]) -> dict[str, Any]:
    setting = settings.get("sasl.kerberos.service.name")
    name = "".join(setting.value if setting is not None else options.get("serviceName", ""))
    if not name:
        raise settings.missing(
            "sasl.kerberos.service.name", "GSSAPI (the default of sasl.mechanism) needs it"
        )
    return {"sasl_kerberos_service_name": name}


_FLAGS = ("required", "requisite", "sufficient", "optional")
_ESCAPES = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}

_TOKEN = re.compile(
    r"""
      (?P<skip> [\x00-\x20]+ | //[^\r\n]* | /\*.*?(?:\*/|\Z) | /(?:.[^\r\n]*)? )
    | (?P<number> -?(?:\d+\.?\d*|\.\d*) )
    | (?P<word> [A-Za-z_$\u00a0-\U0010ffff][-.0-9A-Za-z_$\u00a0-\U0010ffff]* )
    | (?P<quoted> (?P<quote>["'])(?P<inner>(?:\\.|(?!(?P=quote))[^\\\r\n])*)(?:(?P=quote)|\\?\Z|) )
    | (?P<sign> . )
    """,
    re.VERBOSE | re.DOTALL,
)
_QUOTED_ESCAPE = re.compile(r"\\([0-3][0-7]{0,2}|[4-7][0-7]?|.)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class LoginModule:
    """One entry: the class of the login module, and its options, whose values are all secret."""

    name: str
    options: Mapping[str, Secret]

    @property
    def short_name(self) -> str:
        """The class name without its package."""
        return self.name.rpartition(".")[2]

    def resolved(self, where: str) -> LoginModule:
        """Return the module with the secrets that options refer to: ``password="env:NAME"``.

        Raises:
            KgroupError: as `read_secret`.
        """
        options = {
            key: Secret(read_secret(value, f"{where}, {key}"))
            if is_secret(key) and is_reference(value)
            else value
            for key, value in self.options.items()
        }
        return LoginModule(self.name, MappingProxyType(options))


def parse_jaas(setting: ClientSetting) -> LoginModule:
    """Parse the login module of `sasl.jaas.config`.

    Raises:
        UsageError: Kafka would reject it too; the message has the position, never the text.
    """
    tokens = _tokens(setting.value)
    position, kind, text = next(tokens)
    if kind not in ("word", "quoted") or not text:
        raise setting.expected(f"the class of a login module {_at(position)}")
    name = text
    position, kind, text = next(tokens)
    if text.lower() not in _FLAGS or kind not in ("word", "quoted"):
        raise setting.expected(f"{', '.join(_FLAGS)} {_at(position)}, after the login module")
    options = {}
    while (token := next(tokens))[1:] != ("sign", ";"):
        position, kind, key = token
        if kind == "end":
            raise setting.expected("a semicolon at the end of the text", "none")
        if kind not in ("word", "quoted"):
            raise setting.expected(f"the name of an option, or a semicolon, {_at(position)}")
        position, kind, text = next(tokens)
        if (kind, text) != ("sign", "="):
            raise setting.expected(f"= {_at(position)}, after the name of an option")
        position, kind, text = next(tokens)
        if kind not in ("word", "quoted"):
            raise setting.expected(f'a value in quotes {_at(position)} (as in name="value")')
        options[key] = Secret(text)
        if is_secret(key) and not is_reference(text):
            keep_secret(text)
    position, kind, _ = next(tokens)
    if kind != "end":
        raise setting.expected(f"nothing more {_at(position)}: Kafka takes one login module")
    return LoginModule(name, MappingProxyType(options))


def _at(position: int) -> str:
    return f"at character {position + 1}"


def _tokens(text: str) -> Iterator[tuple[int, str, str]]:
    """Yield position, kind (word, quoted, number, sign, end) and text; "end" repeats forever."""
    for match in _TOKEN.finditer(text):
        kind = match.lastgroup
        if match["skip"] is not None:
            continue
        if match["quoted"] is not None:
            yield match.start(), "quoted", _QUOTED_ESCAPE.sub(_character, match["inner"])
        else:
            assert kind is not None
            yield match.start(), kind, match[0]
    while True:
        yield len(text), "end", ""


def _character(match: re.Match[str]) -> str:
    escape = match[1]
    if escape[0] in "01234567":
        return chr(int(escape, 8))
    return _ESCAPES.get(escape, escape)


_HANDLER_KEY = "sasl.login.callback.handler.class"
_RETRIEVER_KEY = "sasl.oauthbearer.jwt.retriever.class"
_URL_KEY = "sasl.oauthbearer.token.endpoint.url"
_ID_KEY = "sasl.oauthbearer.client.credentials.client.id"
_SECRET_KEY = "sasl.oauthbearer.client.credentials.client.secret"
_RETRIEVERS = ("DefaultJwtRetriever", "ClientCredentialsJwtRetriever", "FileJwtRetriever")

_ERROR_NAME = re.compile("[a-z_]{1,40}")
_TIMEOUT_S = 10.0
_RENEW_BEFORE_S = 60
"""Seconds before its expiration at which a token is renewed."""


class TokenProvider(Protocol):
    """Interface that kafka-python calls for each connection."""

    def token(self) -> str:
        """Return a valid token."""

    def extensions(self) -> Mapping[str, str]:
        """Return the SASL extensions to send with the token."""


def token_provider(settings: ClientSettings, jaas: LoginModule, where: str) -> TokenProvider:
    """Return the token provider, chosen as by Kafka's login callback handlers.

    Args:
        settings: all settings.
        jaas: the login module.
        where: origin of the login module, to start messages with.

    Raises:
        UsageError: a setting is missing, or names Java code.
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
        claims: claims without ``iat`` and ``exp``.
        lifetime_s: seconds from ``iat`` to ``exp``.
        sasl_extensions: names and values.
    """

    claims: Mapping[str, Any] = field(repr=False)
    lifetime_s: int
    sasl_extensions: Mapping[str, str] = field(repr=False)

    def token(self) -> str:
        """Return a JWS with algorithm "none" and an empty signature."""
        now = time.time()
        claims = {"exp": now + self.lifetime_s, "iat": now, **self.claims}
        return f"{_base64(_json({'alg': 'none'}))}.{_base64(_json(claims))}."

    def extensions(self) -> Mapping[str, str]:
        """Return the extensions from the login module's options."""
        return self.sasl_extensions


@dataclass(frozen=True, slots=True)
class FileToken:
    """A token in a file that another program keeps valid (`FileJwtRetriever`)."""

    path: Path
    where: str
    sasl_extensions: Mapping[str, str] = field(repr=False)

    def token(self) -> str:
        """Return the contents of the file."""
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
        """Return the extensions from the login module's options."""
        return self.sasl_extensions


@dataclass(slots=True)
class EndpointToken:
    """A token from an endpoint, for client credentials (`ClientCredentialsJwtRetriever`).

    Attributes:
        url: URL of the endpoint, http or https.
        client_id: client id at the endpoint; sent with the secret in a Basic header.
        client_secret: secret of the client.
        scope: requested scope; None for the endpoint's default.
        tls: TLS configuration of the endpoint; None for http.
        timeout_s: timeout in seconds for each network operation.
        where: origin of the URL, to start messages with.
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
        """Return the current token, or request a new one if it expires soon."""
        if time.monotonic() >= self._renew_at:
            asked_at = time.monotonic()
            answer = self._ask()
            token = answer.get("access_token") or answer.get("id_token")
            if not isinstance(token, str) or not token.strip():
                raise self._error("an access_token in the answer", "none")
            lifetime_s = answer.get("expires_in")
            seconds = lifetime_s if isinstance(lifetime_s, int | float) else 0
            seconds = min(max(seconds, 0), MOST_INT)  # a JSON integer may exceed a float's range
            self._renew_at = asked_at + seconds - _RENEW_BEFORE_S
            self._token = Secret(token.strip())
            keep_secret(self._token)
        return _plain(self._token)

    def extensions(self) -> Mapping[str, str]:
        """Return the extensions from the login module's options."""
        return self.sasl_extensions

    def _ask(self) -> dict[str, Any]:
        """Post the request; redirects are not followed, as they would disclose the secret."""
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
        except (OSError, HTTPException, UnicodeError) as error:  # UnicodeError: invalid host name
            reason = getattr(error, "strerror", None) or error
            raise self._error("an answer", f"{type(error).__name__}: {reason}") from None
        finally:
            connection.close()
        try:
            answer = json.loads(data)
        except (ValueError, RecursionError):
            answer = None
        if response.status not in (200, 201):
            # RFC 6749, 5.2: the error is a short word; its description is arbitrary text.
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


def _secured(settings: ClientSettings, jaas: LoginModule, where: str) -> TokenProvider:
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
    except ValueError:  # an invalid IPv6 address or port
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
    """Return TLS for the endpoint from the login module's ``ssl.*`` options, as Kafka does."""
    from kgroup.source.config.tls import Tls

    options = [
        ClientSetting(option, _plain(value), where)
        for option, value in jaas.options.items()
        if option.startswith("ssl.")
    ]
    return Tls.read(ClientSettings.merged(options))


def _extensions(jaas: LoginModule, prefix: str) -> dict[str, str]:
    return {
        option.removeprefix(prefix): _plain(value)
        for option, value in jaas.options.items()
        if option.startswith(prefix)
    }


def _plain(value: str | None) -> str:
    """Return the real text of a `Secret` that is not secret: a user name, a scope."""
    return "" if value is None else "".join(value)


def _json(value: Mapping[str, Any]) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


def _base64(data: bytes) -> str:
    return urlsafe_b64encode(data).rstrip(b"=").decode()
