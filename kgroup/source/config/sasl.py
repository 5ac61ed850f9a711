"""SASL as Kafka's `sasl.*` settings describe it, as keyword arguments of kafka-python."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from kgroup.errors import UsageError
from kgroup.source.config.client_setting import Secret, Settings
from kgroup.source.config.jaas import LoginModule, parse_jaas

_MODULES = {
    "PLAIN": ("PlainLoginModule", "ScramLoginModule"),
    "SCRAM-SHA-256": ("ScramLoginModule", "PlainLoginModule"),
    "SCRAM-SHA-512": ("ScramLoginModule", "PlainLoginModule"),
    "OAUTHBEARER": ("OAuthBearerLoginModule",),
    "GSSAPI": ("Krb5LoginModule",),
    "AWS_MSK_IAM": ("IAMLoginModule",),
}
"""Login modules that give a mechanism what it needs, the usual one first."""

MECHANISMS = tuple(_MODULES)

_LOGGERS_OF_BYTES = ("kafka.net.connection", "kafka.protocol.parser")
"""They write all that is sent at level DEBUG, passwords and tokens too."""


@dataclass(frozen=True, slots=True)
class Sasl:
    """How to log in.

    Attributes:
        mechanism: one of `MECHANISMS`.
        options: keyword arguments of kafka-python besides the mechanism.
        notes: what could not be followed.
    """

    mechanism: str
    options: Mapping[str, Any] = field(repr=False)
    notes: tuple[str, ...] = ()

    @classmethod
    def read(cls, settings: Settings) -> Sasl:
        """Take the `sasl.*` settings.

        Raises:
            UsageError: something is missing, or is what kgroup cannot do.
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
        module = parse_jaas(setting)
        if module.short_name not in _MODULES[mechanism]:
            raise UsageError(
                f"{setting.where}: expected {usual} for sasl.mechanism {mechanism}, "
                "found another login module"
            )
        if mechanism == "OAUTHBEARER":
            from kgroup.source.config.oauth_token import token_provider

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
        """Give the keyword arguments of a kafka-python client."""
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
        # RFC 5802: = and , in names are escaped, which kafka-python leaves to its caller.
        username = Secret((username or "").replace("=", "=3D").replace(",", "=2C"))
    return {"sasl_plain_username": username, "sasl_plain_password": password}


def _kerberos(settings: Settings, options: Mapping[str, str]) -> dict[str, Any]:
    setting = settings.get("sasl.kerberos.service.name")
    name = "".join(setting.value if setting is not None else options.get("serviceName", ""))
    if not name:
        raise settings.missing(
            "sasl.kerberos.service.name", "GSSAPI (the default of sasl.mechanism) needs it"
        )
    return {"sasl_kerberos_service_name": name}
