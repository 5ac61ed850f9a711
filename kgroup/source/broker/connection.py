"""Connections to brokers that never block, and one-line reasons for failed connections.

kafka-python's event loop runs in one thread. Two steps of connecting block: resolving a host name,
and fetching a token from an endpoint or a file. They run in their own threads, so that the timeout
applies to them too and other brokers do not wait. An abandoned thread ends with the process.

Bytes that a broker sent before it closed a connection are still read.
"""

from __future__ import annotations

import os
import re
import socket
import ssl
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from threading import Thread
from time import monotonic
from typing import TYPE_CHECKING, Any, TypeVar

import kafka.errors as kafka_errors
from kafka.cluster import collect_hosts, expand_to_canonical_bootstrap_hosts
from kafka.future import Future
from kafka.net.inet import KafkaNetSocket
from kafka.net.manager import KafkaConnectionManager
from kafka.net.sasl.oauth import AbstractTokenProvider
from kafka.net.transport import KafkaSSLTransport, KafkaTCPTransport

from kgroup.errors import BrokerError, KgroupError, ProblemKind
from kgroup.model.group import server_text

if TYPE_CHECKING:
    from kgroup.source.config.sasl import TokenProvider


BROKEN = frozenset({ProblemKind.DISCONNECTED, ProblemKind.UNREACHABLE, ProblemKind.THROTTLED})
"""Kinds of connection errors after which a retry may succeed."""

_CERTIFICATE_EXPIRED = 10
_CERTIFICATE_NOT_YET_VALID = 9
_WRONG_NAME = (62, 64)
"""OpenSSL's X509_V_ERR_… of host names and of addresses."""
_PACKAGES = {
    "GSSAPI": "needs Kerberos, for which the Python package gssapi is not installed",
    "AWS_MSK_IAM": "needs AWS credentials, and the Python package botocore is not installed",
}
"""Missing Python package, by SASL mechanism."""

_RECEIVED = 1 << 20
"""Maximum bytes to receive at once."""

_FRAME = re.compile(r"Invalid frame length: (\d+)")
_WAITED = re.compile(r"timed out after (\d+)")
_ERRNO = re.compile(r"(\d+) E[A-Z]+")


def connection_error(
    error: BaseException, who: str, options: Mapping[str, Any], broker_id: int | None = None
) -> KgroupError:
    """Return the error that explains why a connection failed or broke.

    The message starts with `who`: ``broker 1 (kafka-1:9093)`` or ``kafka-1:9093``; options are
    those of kafka-python's client.

    Returns:
        A `BrokerError` of kind "refused" (the broker rejects the client, or is not trusted),
        "unreachable", "silent", "disconnected" or "unusable"; an error that is already meant for
        users is returned unchanged.
    """
    causes = list(_causes(error))
    for cause in causes:
        if isinstance(cause, KgroupError):
            return cause
    kind, reason = _reason(causes, options)
    return BrokerError(kind, f"{who} {reason}", broker_id)


def _reason(causes: list[BaseException], options: Mapping[str, Any]) -> tuple[ProblemKind, str]:
    import ssl

    import kafka.errors as kafka_errors

    if isinstance(causes[0], TooSlow):
        return ProblemKind.SILENT, str(causes[0].args[0])
    for cause in causes:
        if isinstance(cause, ssl.SSLCertVerificationError):
            return ProblemKind.REFUSED, _certificate(cause)
        if isinstance(cause, ssl.SSLError):
            return ProblemKind.REFUSED, _tls(getattr(cause, "reason", None) or "", cause)
    error = causes[0]
    text = _text(error)
    mechanism = options.get("sasl_mechanism")
    if isinstance(error, kafka_errors.UnsupportedSaslMechanismError):
        return ProblemKind.REFUSED, (
            f"does not let clients log in by {mechanism}; expected in sasl.mechanism one of those "
            "that its listener has enabled (sasl.enabled.mechanisms)"
        )
    if isinstance(error, kafka_errors.IllegalSaslStateError):
        return ProblemKind.REFUSED, (
            f"expects no login on this port, found {options.get('security_protocol')}; set "
            "security.protocol to what the listener has, or use the port of another listener"
        )
    if isinstance(error, kafka_errors.SaslAuthenticationFailedError):
        return ProblemKind.REFUSED, (
            f"refused the login by {mechanism}: {_after_colon(text)}; check sasl.jaas.config and "
            "sasl.mechanism"
        )
    if isinstance(error, kafka_errors.AuthorizationError):
        return ProblemKind.REFUSED, f"refused access: {text}"
    if isinstance(error, kafka_errors.KafkaTimeoutError | kafka_errors.RequestTimedOutError):
        waited = _WAITED.search(text)
        within = f"within {int(waited[1]) / 1000:.1f} s" if waited is not None else "in time"
        return ProblemKind.SILENT, f"did not answer {within}"
    frame = _FRAME.search(text)
    if frame is not None:
        return ProblemKind.REFUSED, _not_kafka(int(frame[1]))
    if isinstance(error, kafka_errors.KafkaConnectionError):
        return _connection(text, causes, options)
    if isinstance(error, kafka_errors.KafkaError):
        return ProblemKind.UNUSABLE, f"gave an answer that cannot be used: {text}"
    if isinstance(error, RuntimeError) and mechanism in _PACKAGES:
        return ProblemKind.REFUSED, _PACKAGES[mechanism]
    return ProblemKind.UNUSABLE, f"could not be logged in to: {type(error).__name__}"


def _connection(
    text: str, causes: list[BaseException], options: Mapping[str, Any]
) -> tuple[ProblemKind, str]:
    protocol = options.get("security_protocol", "PLAINTEXT")
    if "DNS" in text:
        return ProblemKind.UNREACHABLE, "cannot be found: no address is known for this name (DNS)"
    if "timed out" in text:
        return (
            ProblemKind.SILENT,
            "cannot be reached: the connection timed out; is a firewall in between?",
        )
    if "andshake failed" in text:
        return ProblemKind.REFUSED, _no_handshake(f"{causes[-1]}")
    number = _ERRNO.fullmatch(text)
    if number is not None:
        return ProblemKind.UNREACHABLE, f"cannot be reached: {os.strerror(int(number[1]))}"
    if protocol == "PLAINTEXT":
        hint = (
            "the port may be one of TLS or of a login, found security.protocol PLAINTEXT, or not "
            "one of Kafka at all (ZooKeeper's is 2181)"
        )
    elif protocol == "SSL":
        hint = "the port may expect a login or a client's certificate, found security.protocol SSL"
    else:
        hint = f"found security.protocol {protocol}; is the port one of another listener?"
    return ProblemKind.DISCONNECTED, f"closed the connection; {hint}"


def _certificate(error: Any) -> str:
    """Return what is wrong with the broker's certificate."""
    if error.verify_code in _WRONG_NAME:
        return (
            f"has a certificate for another name: {error.verify_message.rstrip('.')}; connect by a "
            "name that the certificate has, or switch the check off by an empty "
            "ssl.endpoint.identification.algorithm"
        )
    if error.verify_code == _CERTIFICATE_EXPIRED:
        return "has a certificate that has expired; it needs a new one"
    if error.verify_code == _CERTIFICATE_NOT_YET_VALID:
        return "has a certificate that is not valid yet; compare the clocks"
    return (
        f"has a certificate of an unknown authority ({error.verify_message}); expected one that "
        "ssl.truststore.location trusts"
    )


def _tls(reason: str, error: BaseException) -> str:
    """Return why the TLS handshake failed."""
    if "CERTIFICATE_REQUIRED" in reason or "BAD_CERTIFICATE" in reason:
        return (
            "expects a certificate of the client that it trusts, found none or another; set "
            "ssl.keystore.location"
        )
    if "ALERT_UNKNOWN_CA" in reason or "ALERT_CERTIFICATE" in reason:
        return "does not trust the certificate of the client in ssl.keystore.location"
    if "PROTOCOL_VERSION" in reason or "UNSUPPORTED_PROTOCOL" in reason:
        return "has no version of TLS in common with ssl.enabled.protocols"
    if "HANDSHAKE_FAILURE" in reason or "NO_SHARED_CIPHER" in reason:
        return "found no common cipher suite or protocol, or wants a client's certificate"
    return _no_handshake(reason.lower().replace("_", " ") or str(error))


def _no_handshake(detail: str) -> str:
    return (
        f"did not answer as TLS does ({detail}); the port may be one without TLS: compare "
        "security.protocol with the listener"
    )


def _not_kafka(size: int) -> str:
    """Return which protocol the server speaks, from the four bytes read as a response size."""
    first = size.to_bytes(4, "big", signed=False) if size < 1 << 32 else b""
    if first[:2] in (b"\x15\x03", b"\x16\x03"):
        return "speaks TLS on this port; set security.protocol to SSL or SASL_SSL"
    if first == b"HTTP":
        return "speaks HTTP on this port, not Kafka's protocol"
    return f"does not speak Kafka's protocol on this port: it starts a response of {size} bytes"


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    """Yield an error and its causes, outermost first."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        inner = error.args[0] if error.args else None
        if isinstance(inner, BaseException):
            yield inner
        error = error.__cause__ or error.__context__


def _text(error: BaseException) -> str:
    return str(error.args[0]) if error.args and error.args[0] else type(error).__name__


def _after_colon(text: str) -> str:
    """Remove the error name that kafka-python puts before the broker's message."""
    return text.partition(": ")[2] or text


T = TypeVar("T")


class TooSlow(kafka_errors.KafkaConnectionError):  # type: ignore[misc]
    """A step before the connection takes too long; the message continues the broker's name."""


class ConnectionManager(KafkaConnectionManager):  # type: ignore[misc]
    """Creates connections; `BrokerClient` decides when."""

    def __init__(self, net: Any, **options: Any) -> None:
        # `canonical_servers` implements this option without blocking.
        super().__init__(net, **{**options, "client_dns_lookup": "use_all_dns_ips"})
        self._pending: dict[object, Any] = {}

    async def canonical_servers(self, servers: list[str], timeout_s: float) -> list[str]:
        """Return the canonical names of servers, which Kerberos needs; see `client.dns.lookup`.

        Raises:
            TooSlow: the lookup takes too long.
        """
        hosts = await self._aside(
            "canonical",
            lambda: expand_to_canonical_bootstrap_hosts(collect_hosts(servers, randomize=False)),
            monotonic() + timeout_s,
            "cannot be found: no answer to the look-up of names (DNS)",
        )
        return [server_text(host, port) for host, port, _ in hosts]

    async def _connect(
        self,
        node: Any,
        conn: Any,
        reset_backoff_on_connect: bool = True,
        timeout_at: float | None = None,
    ) -> None:
        """Fetch a token first if one is needed; kafka-python would block while fetching it."""
        provider = conn.config["sasl_oauth_token_provider"]
        if provider is not None:
            what = "cannot be logged in to: no token for it"
            try:
                token = await self._aside("token", provider.token, timeout_at, what)
            except Exception as error:
                conn.connection_lost(error)
                return
            conn.config["sasl_oauth_token_provider"] = _FirstToken(token, provider)
        await super()._connect(
            node, conn, reset_backoff_on_connect=reset_backoff_on_connect, timeout_at=timeout_at
        )

    async def _build_transport(self, node: Any, timeout_at: float | None = None) -> Any:
        sock = await self._connected_socket(node.host, node.port, timeout_at)
        if self.ssl_enabled:
            options = {key: value for key, value in self.config.items() if key.startswith("ssl_")}
            transport = KafkaSSLTransport(self._net, sock, host=node.host, **options)
            try:
                await self._shake_hands(transport._sock, timeout_at)
            except Exception as error:
                transport._sock.close()
                if isinstance(error, TooSlow):
                    raise
                raise kafka_errors.KafkaConnectionError(f"Handshake failed: {error}") from error
        else:
            transport = _Transport(self._net, sock, host=node.host)
        _keep_last_words(transport)
        return transport

    async def _shake_hands(self, sock: Any, timeout_at: float | None) -> None:
        """Do the TLS handshake; kafka-python's own waits forever, with the socket open."""
        timeout_s = _share(timeout_at)
        end = None if timeout_s is None else monotonic() + timeout_s
        try:
            while True:
                try:
                    sock.do_handshake()
                    return
                except ssl.SSLWantReadError:
                    await self._net.wait_read(sock, timeout_at=end)
                except ssl.SSLWantWriteError:
                    await self._net.wait_write(sock, timeout_at=end)
        except kafka_errors.KafkaTimeoutError:
            raise TooSlow(f"did not answer the TLS handshake within {timeout_s:.1f} s") from None

    async def _connected_socket(self, host: str, port: int, timeout_at: float | None) -> Any:
        """Try the addresses of a name in turn, with a share of the time for each."""
        try:
            addresses = await self._aside(
                (host, port),
                lambda: socket.getaddrinfo(host, port, type=socket.SOCK_STREAM),
                timeout_at,
                "cannot be found: no answer to the look-up of its name (DNS)",
            )
        except (OSError, UnicodeError) as error:
            raise kafka_errors.KafkaConnectionError(f"DNS look-up failed: {error}") from error
        failure: Exception = kafka_errors.KafkaConnectionError("DNS look-up found no address")
        for number, address in enumerate(addresses):
            left = len(addresses) - number
            end = timeout_at and monotonic() + (timeout_at - monotonic()) / left
            try:
                return await KafkaNetSocket().connect(
                    self._net, address, self.config["socket_options"], timeout_at=end
                )
            except kafka_errors.KafkaTimeoutError:
                failure = kafka_errors.KafkaConnectionError("Connection timed out")
            except OSError as error:
                failure = kafka_errors.KafkaConnectionError(f"unable to connect: {error}")
            except kafka_errors.KafkaConnectionError as error:
                failure = error
        raise failure

    async def _aside(
        self, key: object, work: Callable[[], T], timeout_at: float | None, what: str
    ) -> T:
        """Run a blocking function in a thread; concurrent calls with the same key share the result.

        Raises:
            TooSlow: it takes too long; the message starts with `what`.
        """
        pending = self._pending.get(key)
        if pending is None:
            pending = self._pending[key] = Future()
            pending.add_both(lambda _: self._pending.pop(key))
            Thread(target=self._work, args=(work, pending), daemon=True).start()
        timeout_s = _share(timeout_at)
        try:
            result: T = await self.wait_for(pending, timeout_s and 1000 * timeout_s)
        except kafka_errors.KafkaTimeoutError:
            raise TooSlow(f"{what} within {timeout_s:.1f} s") from None
        return result

    def _work(self, work: Callable[[], Any], pending: Any) -> None:
        done: Callable[[], Any]
        try:
            result = work()
        except Exception as error:
            failure = error
            done = lambda: pending.failure(failure)  # noqa: E731
        else:
            done = lambda: pending.success(result)  # noqa: E731
        with suppress(RuntimeError):  # the event loop was closed
            self._net.call_soon_threadsafe(done)


class _Transport(KafkaTCPTransport):  # type: ignore[misc]
    """Receives more at once than the 4 KiB of kafka-python: a Fetch response has megabytes."""

    def _sock_recv(self) -> tuple[bytes, Any]:
        parts: list[bytes] = []
        failure: Exception | None = None
        while failure is None:
            try:
                part = self._sock.recv(_RECEIVED)
            except (BlockingIOError, InterruptedError):
                break
            except OSError as error:
                failure = kafka_errors.KafkaConnectionError(error)
            else:
                parts.append(part)
                if not part:
                    failure = kafka_errors.KafkaConnectionError("socket disconnected")
        return b"".join(parts), failure


class _FirstToken(AbstractTokenProvider):  # type: ignore[misc]
    """Returns an already fetched token for the first login, and new tokens after that."""

    def __init__(self, token: str, provider: TokenProvider) -> None:
        self._tokens = [token]
        self._provider = provider

    def token(self) -> str:
        return self._tokens.pop() if self._tokens else self._provider.token()

    def extensions(self) -> Mapping[str, str]:
        return self._provider.extensions()


def _share(timeout_at: float | None) -> float | None:
    """Return the seconds for one step: not all, so that its own timeout is reported."""
    return None if timeout_at is None else 0.9 * max(0, timeout_at - monotonic())


def _keep_last_words(transport: Any) -> None:
    """Deliver the last bytes of a connection before its end.

    kafka-python 3.0 drops bytes that it reads together with the end of the connection. They contain
    the broker's reason for rejecting a login, or a TLS alert that shows a port without TLS.
    """
    receive = transport._sock_recv

    def receive_all() -> tuple[bytes, Any]:
        data, error = receive()
        if data and error is not None:
            transport._sock_recv = lambda: (b"", error)
            return data, None
        return data, error

    transport._sock_recv = receive_all
