"""Connection settings: Kafka's own client settings, from all places where they can be set.

In order of precedence: the flag ``--bootstrap-server``; ``-X key=value``; ``--command-config``;
``$KGROUP_BOOTSTRAP_SERVER``; the profile named by ``--profile`` or ``$KGROUP_PROFILE``, in
``~/.config/kgroup/config.toml`` or the file named by ``$KGROUP_CONFIG``. Where nothing names a
cluster, the caller takes the current profile of that file.

GSSAPI and AWS_MSK_IAM are passed through to kafka-python and are not tested.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kgroup.errors import UsageError
from kgroup.redaction import HIDDEN, keep_userinfo
from kgroup.source.config.client_setting import ClientSetting, ClientSettings
from kgroup.source.config.profile import config_file, read_profile
from kgroup.source.config.properties_file import read_properties

if TYPE_CHECKING:
    from kgroup.source.config.sasl import Sasl
    from kgroup.source.config.tls import Tls


_PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
_DNS_LOOKUPS = ("USE_ALL_DNS_IPS", "RESOLVE_CANONICAL_BOOTSTRAP_SERVERS_ONLY")

_DEFAULT_PORT = 9092
_SERVER = re.compile(
    r"(?:[0-9A-Za-z_.%-]*://)?(?:(?P<name>[0-9A-Za-z_.%-]+)|\[(?P<ipv6>[0-9A-Za-z:.%]+)\])"
    r"(?::(?P<port>\d{1,5}))?"
)
"""HOST, HOST:PORT or [IPV6]:PORT, optionally after a listener name, which Kafka ignores as well."""


@dataclass(frozen=True, slots=True)
class ClientConfig:
    """A complete, validated configuration.

    Attributes:
        bootstrap_servers: ``host:port``, in the order given.
        security_protocol: PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL.
        tls: TLS configuration; None without TLS.
        sasl: SASL configuration; None without SASL.
        client_id: name under which brokers log the requests.
        dns_lookup: DNS lookup mode, as kafka-python names it.
        timings: keyword arguments of kafka-python in milliseconds, those that were set.
        notes: settings that have no effect, for people.
        zookeeper_tls: TLS configuration for ZooKeeper; None without TLS.
        zookeeper_digest: ``user:password`` for ZooKeeper; None without authentication.
    """

    bootstrap_servers: tuple[str, ...]
    security_protocol: str
    tls: Tls | None
    sasl: Sasl | None
    client_id: str
    dns_lookup: str
    timings: Mapping[str, int]
    notes: tuple[str, ...]
    zookeeper_tls: Tls | None = None
    zookeeper_digest: str | None = None

    def kafka_options(self) -> dict[str, Any]:
        """Return the keyword arguments of a kafka-python client; this reads the key stores.

        Raises:
            InputError: a key store cannot be read.
            UsageError: a key store contains nothing usable.
        """
        options: dict[str, Any] = {
            "bootstrap_servers": list(self.bootstrap_servers),
            "security_protocol": self.security_protocol,
            "client_id": self.client_id,
            "client_dns_lookup": self.dns_lookup,
            **self.timings,
        }
        if self.tls is not None:
            options["ssl_context"] = self.tls.context()
        if self.sasl is not None:
            options |= self.sasl.kafka_options()
        return options


def client_config(
    *,
    environment: Mapping[str, str],
    bootstrap_server: str | None = None,
    overrides: Sequence[str] = (),
    command_config: Path | None = None,
    profile: str | None = None,
    needs_server: bool = True,
) -> ClientConfig:
    """Return the merged and validated configuration.

    Args:
        environment: environment variables of the process.
        bootstrap_server: ``--bootstrap-server``.
        overrides: each ``-X``, as ``key=value``.
        command_config: ``--command-config``, a Java properties file.
        profile: ``--profile``.
        needs_server: whether bootstrap servers are required.

    Raises:
        InputError: a file cannot be read.
        UsageError: a setting is missing or invalid; the message contains no secret.
    """
    profile_name = profile or environment.get("KGROUP_PROFILE")
    from_profile = read_profile(profile_name, config_file(environment)) if profile_name else []
    in_environment = environment.get("KGROUP_BOOTSTRAP_SERVER") or None
    settings = ClientSettings.merged(
        from_profile,
        _bootstrap(in_environment, "$KGROUP_BOOTSTRAP_SERVER"),
        [] if command_config is None else read_properties(command_config),
        parse_overrides(overrides),
        _bootstrap(bootstrap_server, "--bootstrap-server"),
    )
    notes_on_settings = notes_on_keys(settings.by_key.values())
    protocol = settings.choice("security.protocol", _PROTOCOLS, "PLAINTEXT")
    tls = sasl = None
    if protocol in ("SSL", "SASL_SSL"):
        from kgroup.source.config.tls import Tls

        tls = Tls.read(settings)
    if protocol.startswith("SASL_"):
        from kgroup.source.config.sasl import Sasl

        sasl = Sasl.read(settings)
        if sasl.mechanism == "AWS_MSK_IAM" and protocol != "SASL_SSL":
            raise UsageError(
                f"sasl.mechanism AWS_MSK_IAM needs security.protocol SASL_SSL, found {protocol}"
            )
    lookup = settings.choice("client.dns.lookup", (*_DNS_LOOKUPS, "DEFAULT"), _DNS_LOOKUPS[0])
    return ClientConfig(
        bootstrap_servers=(
            parse_servers(settings) if needs_server or settings.get("bootstrap.servers") else ()
        ),
        security_protocol=protocol,
        tls=tls,
        sasl=sasl,
        client_id=settings.text("client.id") or "kgroup",
        dns_lookup=(_DNS_LOOKUPS[0] if lookup == "DEFAULT" else lookup).lower(),
        timings={
            name: number
            for key, name in PASSED_TO_KAFKA_PYTHON.items()
            if (number := settings.whole_number(key)) is not None
        },
        notes=(
            *notes_on_settings,
            *_note_on_protocol(settings, protocol),
            *(tls.notes if tls is not None else ()),
            *(sasl.notes if sasl is not None else ()),
            *_note_on_server(
                settings, from_profile if profile != environment.get("KGROUP_PROFILE") else []
            ),
        ),
        zookeeper_tls=_zookeeper_tls(settings),
        zookeeper_digest=_zookeeper_digest(settings),
    )


def _bootstrap(servers: str | None, where: str) -> list[ClientSetting]:
    return [] if servers is None else [ClientSetting("bootstrap.servers", servers, where)]


def _zookeeper_tls(settings: ClientSettings) -> Tls | None:
    """Return TLS for ZooKeeper, from the settings that Kafka's brokers use."""
    if settings.choice("zookeeper.ssl.client.enable", ("TRUE", "FALSE"), "FALSE") == "FALSE":
        return None
    from kgroup.source.config.tls import Tls

    return Tls.read(settings.below("zookeeper."))


def _zookeeper_digest(settings: ClientSettings) -> str | None:
    setting = settings.get("zookeeper.digest")
    if setting is not None and ":" not in "".join(setting.value):
        raise setting.expected("USER:PASSWORD")
    if setting is None:
        return None
    keep_userinfo(f"{''.join(setting.value)}@")
    return setting.value


def parse_overrides(texts: Sequence[str]) -> Iterator[ClientSetting]:
    """Yield the settings given by `-X`, as ``key=value``.

    Raises:
        UsageError: a text has no key or no =.
    """
    for number, text in enumerate(texts, 1):
        key, equals, value = text.partition("=")
        if not equals or not key.strip():
            which = f" (the {number}. of {len(texts)})" if len(texts) > 1 else ""
            raise UsageError(f"-X{which}: expected KEY=VALUE, found no key or no =")
        yield ClientSetting(key.strip(), value, "-X")


def parse_servers(settings: ClientSettings) -> tuple[str, ...]:
    """Return the bootstrap servers, each with its port.

    Raises:
        UsageError: there are none, or they are invalid.
    """
    setting = settings.get("bootstrap.servers")
    if setting is None:
        raise settings.missing(
            "bootstrap.servers",
            "choose --bootstrap-server HOST:PORT, $KGROUP_BOOTSTRAP_SERVER, or a --command-config "
            "or --profile that has it",
        )
    servers = []
    for item in settings.items(setting.key):
        match = _SERVER.fullmatch(item)
        port = int(match["port"] or _DEFAULT_PORT) if match else 0
        if match is None or not 0 < port < 65536:
            raise setting.expected("HOST:PORT, … (an IPv6 address in brackets)")
        servers.append(f"{match['name'] or '[' + match['ipv6'] + ']'}:{port}")
    if not servers:
        raise setting.expected("HOST:PORT, …")
    return tuple(servers)


def _note_on_server(
    settings: ClientSettings, from_profile: Sequence[ClientSetting]
) -> Iterator[str]:
    """Yield a note if the environment overrides the servers of the profile in ``--profile``."""
    used = settings.get("bootstrap.servers")
    own = [setting for setting in from_profile if setting.key == "bootstrap.servers"]
    if used is not None and used.origin.startswith("$") and own and own[-1].value != used.value:
        yield f"{used.where} is stronger than {own[-1].origin}"


def _note_on_protocol(settings: ClientSettings, protocol: str) -> Iterator[str]:
    """Yield a note if brokers are contacted without the security that settings are for."""
    unused = [
        prefix
        for prefix, is_used in (
            ("sasl.", protocol.startswith("SASL_")),
            ("ssl.", protocol in ("SSL", "SASL_SSL")),
        )
        if not is_used
        and any(
            setting.value and key in FOLLOWED and key.startswith(prefix)
            for key, setting in settings.by_key.items()
        )
    ]
    if unused and settings.get("bootstrap.servers"):
        chosen = settings.get("security.protocol")
        origin = "the default" if chosen is None else chosen.origin
        yield (
            f"{' and '.join(f'{prefix}*' for prefix in unused)} settings have no effect: "
            f"security.protocol is {protocol} ({origin})"
        )


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


PASSED_TO_KAFKA_PYTHON = {
    "connections.max.idle.ms": "connections_max_idle_ms",
    "metadata.max.age.ms": "metadata_max_age_ms",
    "reconnect.backoff.max.ms": "reconnect_backoff_max_ms",
    "reconnect.backoff.ms": "reconnect_backoff_ms",
    "request.timeout.ms": "request_timeout_ms",
    "retry.backoff.ms": "retry_backoff_ms",
}
"""Settings with the same meaning in kafka-python (whole numbers), with its names for them."""

FOLLOWED = _words("""
    bootstrap.servers client.dns.lookup client.id security.protocol sasl.jaas.config
    sasl.kerberos.service.name sasl.login.callback.handler.class sasl.login.connect.timeout.ms
    sasl.mechanism sasl.oauthbearer.client.credentials.client.id
    sasl.oauthbearer.client.credentials.client.secret sasl.oauthbearer.header.urlencode
    sasl.oauthbearer.jwt.retriever.class sasl.oauthbearer.scope
    sasl.oauthbearer.token.endpoint.url ssl.cipher.suites ssl.enabled.protocols
    ssl.endpoint.identification.algorithm ssl.key.password ssl.keystore.certificate.chain
    ssl.keystore.key ssl.keystore.location ssl.keystore.password ssl.keystore.type
    ssl.truststore.certificates ssl.truststore.location ssl.truststore.password
    ssl.truststore.type
    zookeeper.digest zookeeper.ssl.cipher.suites zookeeper.ssl.client.enable
    zookeeper.ssl.enabled.protocols zookeeper.ssl.endpoint.identification.algorithm
    zookeeper.ssl.keystore.location zookeeper.ssl.keystore.password zookeeper.ssl.keystore.type
    zookeeper.ssl.truststore.location zookeeper.ssl.truststore.password
    zookeeper.ssl.truststore.type
""") | frozenset(PASSED_TO_KAFKA_PYTHON)

PASSED_OVER = _words("""
    acks allow.auto.create.topics auto.commit.interval.ms auto.offset.reset batch.size
    buffer.memory check.crcs client.rack compression.gzip.level compression.lz4.level
    compression.type compression.zstd.level default.api.timeout.ms delivery.timeout.ms
    enable.auto.commit enable.idempotence enable.metrics.push exclude.internal.topics
    fetch.max.bytes fetch.max.wait.ms fetch.min.bytes group.id group.instance.id group.protocol
    group.remote.assignor heartbeat.interval.ms interceptor.classes
    internal.throw.on.fetch.stable.offset.unsupported isolation.level key.deserializer
    key.serializer linger.ms max.block.ms max.in.flight.requests.per.connection
    max.partition.fetch.bytes max.poll.interval.ms max.poll.records max.request.size
    metadata.max.idle.ms metadata.recovery.rebootstrap.trigger.ms metadata.recovery.strategy
    metric.reporters metrics.num.samples metrics.recording.level metrics.sample.window.ms
    partition.assignment.strategy partitioner.adaptive.partitioning.enable
    partitioner.availability.timeout.ms partitioner.class partitioner.ignore.keys
    receive.buffer.bytes retries retry.backoff.max.ms send.buffer.bytes session.timeout.ms
    share.acknowledgement.mode share.acquire.mode socket.connection.setup.timeout.max.ms
    socket.connection.setup.timeout.ms transaction.timeout.ms transaction.two.phase.commit.enable
    transactional.id value.deserializer value.serializer
    zookeeper.clientCnxnSocket zookeeper.connect zookeeper.connection.timeout.ms
    zookeeper.session.timeout.ms zookeeper.set.acl zookeeper.ssl.protocol
    zookeeper.sync.time.ms
    sasl.kerberos.kinit.cmd sasl.kerberos.min.time.before.relogin
    sasl.kerberos.ticket.renew.jitter sasl.kerberos.ticket.renew.window.factor
    sasl.login.read.timeout.ms sasl.login.refresh.buffer.seconds
    sasl.login.refresh.min.period.seconds sasl.login.refresh.window.factor
    sasl.login.refresh.window.jitter sasl.login.retry.backoff.max.ms sasl.login.retry.backoff.ms
    sasl.oauthbearer.clock.skew.seconds sasl.oauthbearer.expected.audience
    sasl.oauthbearer.expected.issuer sasl.oauthbearer.jwks.endpoint.refresh.ms
    sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms
    sasl.oauthbearer.jwks.endpoint.retry.backoff.ms sasl.oauthbearer.jwks.endpoint.url
    sasl.oauthbearer.jwt.validator.class sasl.oauthbearer.scope.claim.name
    sasl.oauthbearer.sub.claim.name ssl.keymanager.algorithm ssl.protocol
    ssl.secure.random.implementation ssl.trustmanager.algorithm
""")
"""Keys of Kafka's clients that do not affect how kgroup connects."""

UNFOLLOWED = _words("""
    bootstrap.controllers config.providers sasl.client.callback.handler.class sasl.login.class
    sasl.oauthbearer.assertion.algorithm sasl.oauthbearer.assertion.claim.aud
    sasl.oauthbearer.assertion.claim.exp.seconds sasl.oauthbearer.assertion.claim.iss
    sasl.oauthbearer.assertion.claim.jti.include sasl.oauthbearer.assertion.claim.nbf.seconds
    sasl.oauthbearer.assertion.claim.sub sasl.oauthbearer.assertion.file
    sasl.oauthbearer.assertion.private.key.file
    sasl.oauthbearer.assertion.private.key.passphrase
    sasl.oauthbearer.assertion.template.file security.providers ssl.engine.factory.class
    ssl.provider
""")
"""Keys that affect how Kafka's Java client connects, and that kgroup does not support."""

_NAME = re.compile(r"[a-z0-9_-]{1,40}|(?=.*\.)[A-Za-z0-9._-]{1,80}")
"""Text that looks like the key of a setting."""

_SECURE = ("security.", "sasl.", "ssl.")
_NEAR_MISS = 0.9
"""Similarity to a setting that secures the connection, from which another key is an error."""

_AWS_HANDLER = "software.amazon.msk.auth.iam.IAMClientCallbackHandler"
"""Handler whose function is built into kafka-python's AWS_MSK_IAM."""


def notes_on_keys(settings: Iterable[ClientSetting]) -> tuple[str, ...]:
    """Return notes on settings without effect that may be intended; never with their values.

    Raises:
        UsageError: a setting is unknown and similar to one that secures the connection.
    """
    return tuple(note for setting in settings if (note := _note(setting)) is not None)


def _note(setting: ClientSetting) -> str | None:
    key = setting.key
    if key in FOLLOWED or key in PASSED_OVER or setting.value in ("", _AWS_HANDLER):
        return None
    if key in UNFOLLOWED or key.startswith("config.providers."):
        return f"{setting.where} is for Kafka's Java client; kgroup does not follow it"
    from difflib import get_close_matches

    close = get_close_matches(key, FOLLOWED, 1, 0.8)
    suggestion = f"; did you mean {close[0]}?" if close else ""
    # A line of PEM or of a broken value is parsed as a key; it may be secret.
    where = setting.where if _NAME.fullmatch(key) else f"{HIDDEN} ({setting.origin})"
    secures = [name for name in FOLLOWED if name.startswith(_SECURE)]
    meant = get_close_matches(key.lower(), secures, 1, _NEAR_MISS)
    if meant and not key.endswith(f".{meant[0]}"):  # with a prefix, it is for another client
        raise UsageError(f"{where} is no setting of Kafka's clients; did you mean {meant[0]}?")
    return f"{where} is no setting of Kafka's clients; it has no effect{suggestion}"
