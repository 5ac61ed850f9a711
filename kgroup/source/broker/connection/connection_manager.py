"""kafka-python's connections, with nothing that blocks, and without losing a broker's last words.

Its event loop runs in one thread. Two things that connecting needs can only be waited for: the
addresses of a name (DNS), and a token of an endpoint or a file. They are done in threads of their
own, so that a timeout bounds them too and other brokers are not kept waiting. A thread that is
given up ends with the process.
"""

from __future__ import annotations

import socket
import ssl
from collections.abc import Callable, Mapping
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

from kgroup.model.group import server_text

if TYPE_CHECKING:
    from kgroup.source.config.oauth_token import TokenProvider

T = TypeVar("T")


class TooSlow(kafka_errors.KafkaConnectionError):  # type: ignore[misc]
    """What comes before a connection takes too long; the text goes on from the broker's name."""


class ConnectionManager(KafkaConnectionManager):  # type: ignore[misc]
    """Makes connections; `BrokerClient` decides when."""

    def __init__(self, net: Any, **options: Any) -> None:
        # `canonical_servers` does what this option asks for, without blocking.
        super().__init__(net, **{**options, "client_dns_lookup": "use_all_dns_ips"})
        self._pending: dict[object, Any] = {}

    async def canonical_servers(self, servers: list[str], timeout_s: float) -> list[str]:
        """Give the canonical names of servers, which Kerberos needs; see `client.dns.lookup`.

        Raises:
            TooSlow: that takes too long.
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
        """Get a token first where one is needed, for kafka-python would block on it."""
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
            transport = KafkaTCPTransport(self._net, sock, host=node.host)
        _keep_last_words(transport)
        return transport

    async def _shake_hands(self, sock: Any, timeout_at: float | None) -> None:
        """Agree on TLS; kafka-python's own way waits for ever, with the socket open."""
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
        """Do in a thread what blocks; who asks for it again meanwhile waits for the same.

        Raises:
            TooSlow: it takes too long; the text begins with `what`.
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
        with suppress(RuntimeError):  # closed meanwhile
            self._net.call_soon_threadsafe(done)


class _FirstToken(AbstractTokenProvider):  # type: ignore[misc]
    """Has a token for the first login at hand; when that expires, asks for another one."""

    def __init__(self, token: str, provider: TokenProvider) -> None:
        self._tokens = [token]
        self._provider = provider

    def token(self) -> str:
        return self._tokens.pop() if self._tokens else self._provider.token()

    def extensions(self) -> Mapping[str, str]:
        return self._provider.extensions()


def _share(timeout_at: float | None) -> float | None:
    """Give the seconds that one step may take: who waits for all of them hears which it was."""
    return None if timeout_at is None else 0.9 * max(0, timeout_at - monotonic())


def _keep_last_words(transport: Any) -> None:
    """Hand over the last bytes of a connection before its end.

    kafka-python 3.0 drops what it read together with the end of the connection. That is where a
    broker says why it refuses a login, or in a TLS alert that this is no port without TLS.
    """
    receive = transport._sock_recv

    def receive_all() -> tuple[bytes, Any]:
        data, error = receive()
        if data and error is not None:
            transport._sock_recv = lambda: (b"", error)
            return data, None
        return data, error

    transport._sock_recv = receive_all
