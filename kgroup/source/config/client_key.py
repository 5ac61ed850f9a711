"""Which keys of Kafka's client configurations kgroup follows, passes over or cannot follow."""

from __future__ import annotations

import re
from collections.abc import Iterable

from kgroup.redaction import HIDDEN
from kgroup.source.config.client_setting import Setting


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
"""Whole numbers that mean the same there -> their names there."""

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
"""Keys of Kafka's clients that say nothing about how kgroup connects."""

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
"""Keys that change how Kafka's Java client connects, in ways that kgroup does not know."""

_NAME = re.compile(r"[a-z0-9_-]{1,40}|(?=.*\.)[A-Za-z0-9._-]{1,80}")
"""What looks like the key of a setting."""

_AWS_HANDLER = "software.amazon.msk.auth.iam.IAMClientCallbackHandler"
"""What it does, kafka-python's AWS_MSK_IAM does by itself."""


def notes_on_keys(settings: Iterable[Setting]) -> tuple[str, ...]:
    """Say which settings have no effect here though they might be meant to; never their values."""
    return tuple(note for setting in settings if (note := _note(setting)) is not None)


def _note(setting: Setting) -> str | None:
    key = setting.key
    if key in FOLLOWED or key in PASSED_OVER or setting.value in ("", _AWS_HANDLER):
        return None
    if key in UNFOLLOWED or key.startswith("config.providers."):
        return f"{setting.where} is for Kafka's Java client; kgroup does not follow it"
    from difflib import get_close_matches

    close = get_close_matches(key, FOLLOWED, 1, 0.8)
    meant = f"; did you mean {close[0]}?" if close else ""
    # A line of PEM or of a broken value is taken for a key; it may be a secret.
    where = setting.where if _NAME.fullmatch(key) else f"{HIDDEN} ({setting.origin})"
    return f"{where} is no setting of Kafka's clients; it has no effect{meant}"
