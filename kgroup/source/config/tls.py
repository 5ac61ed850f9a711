"""TLS as Kafka's `ssl.*` settings describe it, as a context of Python's `ssl`."""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from tempfile import NamedTemporaryFile

from kgroup.errors import UsageError
from kgroup.source.config.client_setting import Setting, Settings
from kgroup.source.config.key_store import KeyStore, KeyStoreError, pem, read_key_store, read_pem
from kgroup.source.config.user_file import read_user_file, user_path

_VERSIONS = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
"""Older ones in `ssl.enabled.protocols` are passed over: today's Java refuses them as well."""

_TLS_1_3_SUITES = frozenset(
    ("TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256")
)
_TYPES = ("JKS", "PKCS12", "PEM")


@dataclass(frozen=True, slots=True)
class Store:
    """A key store or trust store as it was named; it is read when a context is made of it.

    Attributes:
        source: the setting that names the file, or holds PEM itself.
        pem: the text where the setting holds it.
        is_pem: whether the file is PEM; else JKS or PKCS12.
        password: of the store.
        key_password: of the private key in it, None where it has none of its own.
    """

    source: Setting
    pem: bytes | None
    is_pem: bool
    password: str | None
    key_password: str | None

    def read(self, *, with_key: bool) -> KeyStore:
        """Read it.

        Raises:
            InputError: it cannot be read.
            UsageError: it is no such store.
        """
        where = self.source.where if self.pem is not None else self._where
        try:
            if self.pem is not None:
                return read_pem(self.pem)
            data = read_user_file(user_path(self.source.value, self._where), where)
            if self.is_pem:
                return read_pem(data)
            return read_key_store(data, self.password, self.key_password, with_key=with_key)
        except KeyStoreError as error:
            raise UsageError(f"{where}: {error}") from None

    @property
    def _where(self) -> str:
        return f"{self.source.key} {self.source.value} ({self.source.origin})"


@dataclass(frozen=True, slots=True)
class Tls:
    """What to trust, what to show, and what to offer.

    Attributes:
        trust_store: None for the authorities that the system trusts.
        key_store: None without a certificate of the client.
        check_host_name: whether the broker's certificate must be for the name that was called.
        versions: least and greatest version of TLS.
        ciphers: OpenSSL's names of the suites up to TLS 1.2; empty for its default.
        notes: what could not be followed.
    """

    trust_store: Store | None
    key_store: Store | None
    check_host_name: bool
    versions: tuple[ssl.TLSVersion, ssl.TLSVersion]
    ciphers: tuple[str, ...]
    notes: tuple[str, ...]

    @classmethod
    def read(cls, settings: Settings) -> Tls:
        """Take the `ssl.*` settings.

        Raises:
            UsageError: some of them make no sense together.
        """
        versions = _versions(settings)
        ciphers: tuple[str, ...] = ()
        notes: tuple[str, ...] = ()
        suites = settings.get("ssl.cipher.suites")
        if suites is not None:
            versions, ciphers, notes = _suites(
                suites, settings.items("ssl.cipher.suites"), versions
            )
        return cls(
            trust_store=_trust_store(settings),
            key_store=_key_store(settings),
            check_host_name=_check_host_name(settings),
            versions=versions,
            ciphers=ciphers,
            notes=notes,
        )

    def context(self) -> ssl.SSLContext:
        """Read the stores and make a context.

        Raises:
            InputError: a store cannot be read.
            UsageError: a store holds nothing that could be used.
        """
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = self.check_host_name
        context.minimum_version, context.maximum_version = self.versions
        # Java trusts each certificate of the trust store itself, not only those of authorities.
        context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
        if self.ciphers:
            context.set_ciphers(":".join(self.ciphers))
        if self.trust_store is None:
            context.load_default_certs()
        else:
            _trust(context, self.trust_store)
        if self.key_store is not None:
            _load_key(context, self.key_store)
        return context


def _trust(context: ssl.SSLContext, store: Store) -> None:
    certificates = store.read(with_key=False).certificates
    if not certificates:
        raise UsageError(f"{store.source.where}: expected certificates to trust, found none")
    try:
        context.load_verify_locations(cadata=b"".join(certificates))
    except (ssl.SSLError, ValueError):
        raise UsageError(
            f"{store.source.where}: expected certificates to trust, found a damaged one"
        ) from None


def _load_key(context: ssl.SSLContext, store: Store) -> None:
    """Load the client's key and certificates, through a file that only this user may read."""
    found = store.read(with_key=True)
    key = found.key
    if key is None or (store.is_pem and found.key_count != 1):
        raise UsageError(
            f"{store.source.where}: expected one private key, found {found.key_count or 'none'}"
        )
    if not key.chain:
        raise UsageError(f"{store.source.where}: expected the key's certificate, found none")
    password = "".join(store.key_password or "")
    with NamedTemporaryFile(prefix="kgroup-", suffix=".pem") as file:
        file.write(key.pem + b"".join(pem(b"CERTIFICATE", der) for der in key.chain))
        file.flush()
        try:
            # Without a password of its own, OpenSSL would ask for one on the terminal.
            context.load_cert_chain(file.name, password=lambda: password)
        except (ssl.SSLError, ValueError) as error:
            if getattr(error, "reason", None) == "KEY_VALUES_MISMATCH":
                why = "the private key is not that of its first certificate"
            elif b"ENCRYPTED" in key.pem:
                why = "the private key is encrypted; ssl.key.password is " + (
                    "not set" if store.key_password is None else "wrong, or its cipher unknown"
                )
            else:
                why = "the private key or a certificate is damaged"
            raise UsageError(f"{store.source.where}: {why}") from None


def _trust_store(settings: Settings) -> Store | None:
    inline = settings.get("ssl.truststore.certificates")
    return _store(settings, "ssl.truststore", inline, None)


def _key_store(settings: Settings) -> Store | None:
    key = settings.get("ssl.keystore.key")
    chain = settings.get("ssl.keystore.certificate.chain")
    if key is None and chain is not None:
        raise settings.missing("ssl.keystore.key", f"{chain.where} is the certificate of one")
    if key is not None and chain is None:
        raise settings.missing("ssl.keystore.certificate.chain", f"{key.where} needs a certificate")
    return _store(settings, "ssl.keystore", key, chain)


def _store(
    settings: Settings, prefix: str, inline: Setting | None, chain: Setting | None
) -> Store | None:
    """Put a store together, with the rules of Kafka's `DefaultSslEngineFactory`."""
    kind = settings.choice(f"{prefix}.type", _TYPES, "JKS")
    location = settings.get(f"{prefix}.location")
    password = settings.get(f"{prefix}.password")
    if inline is not None and location is not None:
        raise UsageError(f"{inline.where} and {location.where} are two stores; choose one of them")
    source = inline or location
    if source is None:
        if password is not None:
            raise settings.missing(f"{prefix}.location", f"{password.where} is there without it")
        return None
    if inline is not None and kind != "PEM":
        raise settings.missing(f"{prefix}.type", f"{inline.where} is PEM, so it must be PEM")
    if kind == "PEM" and password is not None:
        raise UsageError(
            f"{password.where}: expected none, since PEM has no store password; that of the "
            "private key is ssl.key.password"
        )
    if kind != "PEM" and password is None and prefix == "ssl.keystore":
        raise settings.missing(f"{prefix}.password", f"{source.where} needs it")
    texts = [setting.value for setting in (inline, chain) if setting is not None]
    return Store(
        source=source,
        pem="\n".join(texts).encode() if texts else None,
        is_pem=kind == "PEM",
        password=None if password is None else password.value,
        key_password=settings.text("ssl.key.password"),
    )


def _check_host_name(settings: Settings) -> bool:
    setting = settings.by_key.get("ssl.endpoint.identification.algorithm")
    if setting is None or setting.value.lower() == "https":
        return True
    if setting.value:
        raise setting.expected("https, or nothing for no check of the host name")
    return False


def _versions(settings: Settings) -> tuple[ssl.TLSVersion, ssl.TLSVersion]:
    setting = settings.get("ssl.enabled.protocols")
    if setting is None:
        return ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3
    versions = [
        _VERSIONS[name] for name in settings.items("ssl.enabled.protocols") if name in _VERSIONS
    ]
    if not versions:
        raise setting.expected(" or ".join(_VERSIONS))
    return min(versions), max(versions)


def _suites(
    setting: Setting, names: tuple[str, ...], versions: tuple[ssl.TLSVersion, ssl.TLSVersion]
) -> tuple[tuple[ssl.TLSVersion, ssl.TLSVersion], tuple[str, ...], tuple[str, ...]]:
    """Split suites into what Python can choose (up to TLS 1.2) and which versions they leave."""
    new = _TLS_1_3_SUITES.intersection(names)
    old = tuple(name for name in map(_openssl_name, names) if _is_known(name))
    left = [
        version
        for version, suites in ((ssl.TLSVersion.TLSv1_2, old), (ssl.TLSVersion.TLSv1_3, new))
        if suites and versions[0] <= version <= versions[1]
    ]
    if not left:
        raise setting.expected("suites that the enabled protocols have, by their standard names")
    note = f"{setting.where} chooses among suites of TLS 1.3; kgroup offers them all"
    notes = (note,) if ssl.TLSVersion.TLSv1_3 in left and new != _TLS_1_3_SUITES else ()
    return (min(left), max(left)), old, notes


def _openssl_name(name: str) -> str:
    """Give OpenSSL's name of a suite up to TLS 1.2.

    ``TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256`` is ``ECDHE-RSA-AES128-GCM-SHA256``.
    """
    exchange, _, cipher = name.removeprefix("TLS_").partition("_WITH_")
    cipher = cipher.replace("AES_", "AES").replace("_CBC", "")
    cipher = cipher.replace("CHACHA20_POLY1305_SHA256", "CHACHA20_POLY1305")
    return (cipher if exchange == "RSA" else f"{exchange}-{cipher}").replace("_", "-")


def _is_known(name: str) -> bool:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    try:
        context.set_ciphers(name)
    except (ssl.SSLError, ValueError):  # a NUL
        return False
    return any(cipher["name"] == name for cipher in context.get_ciphers())
