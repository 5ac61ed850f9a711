"""Why a broker cannot be talked to, in one line: from what kafka-python and ssl raise."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from typing import Any

from kgroup.errors import BrokerError, KgroupError, ProblemKind

BROKEN = frozenset({ProblemKind.DISCONNECTED, ProblemKind.UNREACHABLE, ProblemKind.THROTTLED})
"""Kinds of errors of connections that another attempt may mend."""

_CERTIFICATE_EXPIRED = 10
_CERTIFICATE_NOT_YET_VALID = 9
_WRONG_NAME = (62, 64)
"""OpenSSL's X509_V_ERR_… of host names and of addresses."""
_PACKAGES = {
    "GSSAPI": "needs Kerberos, for which the Python package gssapi is not installed",
    "AWS_MSK_IAM": "needs AWS credentials, and the Python package botocore is not installed",
}
"""What is missing for a login by a mechanism."""

_FRAME = re.compile(r"Invalid frame length: (\d+)")
_WAITED = re.compile(r"timed out after (\d+)")
_ERRNO = re.compile(r"(\d+) E[A-Z]+")


def connection_error(
    error: BaseException, who: str, options: Mapping[str, Any], broker_id: int | None = None
) -> KgroupError:
    """Explain why a connection failed or broke.

    The text begins with `who`: ``broker 1 (kafka-1:9093)`` or ``kafka-1:9093``; options are those
    of kafka-python's client.

    Returns:
        A `BrokerError` of kind "refused" (it will not let us in, or we do not trust it),
        "unreachable", "silent", "disconnected" or "unusable"; an error that is for users already
        comes back as it is.
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

    from kgroup.source.broker.connection.connection_manager import TooSlow

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
    """Say what is wrong with the broker's certificate."""
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
    """Say why the two sides found no common TLS."""
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
    """Tell who answers, by the four bytes that were taken for the size of an answer."""
    first = size.to_bytes(4, "big", signed=False) if size < 1 << 32 else b""
    if first[:2] in (b"\x15\x03", b"\x16\x03"):
        return "speaks TLS on this port; set security.protocol to SSL or SASL_SSL"
    if first == b"HTTP":
        return "speaks HTTP on this port, not Kafka's protocol"
    return f"does not speak Kafka's protocol on this port: it begins an answer of {size} bytes"


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    """Give an error and what it was made of, the outermost first."""
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
    """Drop the name of the error that kafka-python puts before what the broker said."""
    return text.partition(": ")[2] or text
