"""kafka-python's connections, without losing what a broker says before it closes one."""

from typing import Any

from kafka.net.manager import KafkaConnectionManager

__all__ = ["ConnectionManager"]


class ConnectionManager(KafkaConnectionManager):  # type: ignore[misc]
    """Hands over the last bytes of a connection before its end.

    kafka-python 3.0 drops what it read together with the end of the connection. That is where a
    broker says why it refuses a login, or in a TLS alert that this is no port without TLS.
    """

    async def _build_transport(self, node: Any, timeout_at: float | None = None) -> Any:
        transport = await super()._build_transport(node, timeout_at=timeout_at)
        receive = transport._sock_recv

        def receive_all() -> tuple[bytes, Any]:
            data, error = receive()
            if data and error is not None:
                transport._sock_recv = lambda: (b"", error)
                return data, None
            return data, error

        transport._sock_recv = receive_all
        return transport
