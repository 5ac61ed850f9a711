"""TLS as configured by Kafka's `ssl.*` settings, as a context of Python's `ssl`.

Key and trust stores: PEM, Java's JKS, and PKCS12.

JKS is parsed here, because the only Python library for it needs an abandoned C extension to be
built; PKCS12 is parsed by `cryptography`. The layout of JKS, big-endian; text is a uint16 size and
modified UTF-8:

    store    uint32 0xFEEDFEED, uint32 version 1 or 2, uint32 count, count of entry, digest
    entry    uint32 tag, text alias, int64 created at (epoch ms), then by tag
             1 (key): uint32 size, protected key, uint32 count, count of certificate
             2 (trusted): certificate
    certificate   text type (version 2 only), uint32 size, DER
    digest   SHA-1 of (password in UTF-16BE, "Mighty Aphrodite", all bytes before the digest)
    protected key   DER: SEQUENCE { SEQUENCE { OID 1.3.6.1.4.1.42.2.17.1.1, NULL }, OCTET STRING }
                    octets: 20 bytes of salt, PKCS#8 key xor stream, 20 bytes of check
                    stream: SHA-1(password, salt), SHA-1(password, last 20 bytes of stream), …
                    check: SHA-1(password, PKCS#8 key)
"""

from __future__ import annotations

import hashlib
import hmac
import re
import ssl
import struct
from base64 import b64decode, encodebytes
from binascii import Error as Base64Error
from dataclasses import dataclass, field
from tempfile import NamedTemporaryFile
from typing import TYPE_CHECKING

from kgroup.errors import UsageError
from kgroup.source.config.client_setting import ClientSetting, ClientSettings
from kgroup.source.config.user_file import read_user_file, user_path

if TYPE_CHECKING:
    from cryptography.x509 import Certificate


_PEM = re.compile(rb"-----BEGIN ([A-Z0-9 ]+)-----([A-Za-z0-9+/=\s]*)-----END \1-----")

_JKS_MAGIC = b"\xfe\xed\xfe\xed"
_JCEKS_MAGIC = b"\xce\xce\xce\xce"
_DER_SEQUENCE = b"\x30"
_DIGEST_SIZE = 20
_KEY_PROTECTOR_OID = bytes.fromhex("060a2b060104012a02110101")


class KeyStoreError(ValueError):
    """A store that cannot be read; the message says what was expected and found, no secrets."""


@dataclass(frozen=True, slots=True)
class PrivateKey:
    """A private key with its certificates.

    Attributes:
        pem: PKCS#8, possibly still encrypted with the key's password; never displayed.
        chain: DER, the key's own certificate first.
    """

    pem: bytes = field(repr=False)
    chain: tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class KeyStore:
    """Contents of a store.

    Attributes:
        certificates: certificates to trust, in DER.
        key: the first private key; None if there is none or it was not requested.
        key_count: number of private keys.
    """

    certificates: tuple[bytes, ...]
    key: PrivateKey | None
    key_count: int


def read_pem(data: bytes) -> KeyStore:
    """Parse certificates and at most one private key; other text is ignored.

    Raises:
        KeyStoreError: a block is not base64.
    """
    certificates, keys = [], []
    for match in _PEM.finditer(data):
        label = match[1]
        try:
            der = b64decode(b"".join(match[2].split()), validate=True)
        except Base64Error:
            raise KeyStoreError(f"expected base64 in its {label.decode()}") from None
        if label.endswith(b"CERTIFICATE"):
            certificates.append(der)
        elif label.endswith(b"PRIVATE KEY"):
            keys.append(pem(label, der))
    key = PrivateKey(keys[0], tuple(certificates)) if keys else None
    return KeyStore(tuple(certificates), key, len(keys))


def read_key_store(
    data: bytes, password: str | None, key_password: str | None, *, with_key: bool
) -> KeyStore:
    """Parse JKS or PKCS12, depending on the first bytes, as Java does.

    Args:
        data: the whole file.
        password: password of the store; without it, the integrity of JKS is not verified.
        key_password: password of the private key; None if it is the store's.
        with_key: whether the private key is needed, in addition to certificates.

    Raises:
        KeyStoreError: the password is wrong, the file is damaged, or of another kind.
    """
    if data.startswith(_JKS_MAGIC):
        return _read_jks(data, password, key_password or password, with_key)
    if data.startswith(_DER_SEQUENCE):
        return _read_pkcs12(data, password)
    if data.startswith(_JCEKS_MAGIC):
        raise KeyStoreError(
            "expected JKS or PKCS12, found JCEKS; convert it with keytool -importkeystore"
        )
    if b"-----BEGIN " in data:
        raise KeyStoreError("expected JKS or PKCS12, found PEM; set the store's type to PEM")
    raise KeyStoreError("expected JKS or PKCS12, found something else")


def _read_jks(
    data: bytes, password: str | None, key_password: str | None, with_key: bool
) -> KeyStore:
    body = memoryview(data)[:-_DIGEST_SIZE]
    if password is not None:
        digest = hashlib.sha1(_utf16(password) + b"Mighty Aphrodite" + body).digest()
        if not hmac.compare_digest(digest, data[-_DIGEST_SIZE:]):
            raise KeyStoreError("the password is wrong, or the file is damaged")
    try:
        certificates, keys = _jks_entries(body)
    except (struct.error, IndexError):
        raise KeyStoreError("the file is damaged: an entry ends past the end of the file") from None
    if not with_key or not keys:
        return KeyStore(certificates, None, len(keys))
    protected, chain = keys[0]
    if key_password is None:
        raise KeyStoreError("the private key needs a password, found none")
    key = pem(b"PRIVATE KEY", _unprotect(protected, _utf16(key_password)))
    return KeyStore(certificates, PrivateKey(key, chain), len(keys))


def _jks_entries(
    body: memoryview,
) -> tuple[tuple[bytes, ...], list[tuple[bytes, tuple[bytes, ...]]]]:
    """Return the certificates to trust, and the protected keys with their chains."""
    version, count = struct.unpack_from(">II", body, 4)
    if version not in (1, 2):
        raise KeyStoreError(f"expected JKS of version 1 or 2, found {version}")
    position = 12
    certificates: list[bytes] = []
    keys: list[tuple[bytes, tuple[bytes, ...]]] = []

    def take(length_format: str) -> bytes:
        nonlocal position
        (size,) = struct.unpack_from(length_format, body, position)
        start = position + struct.calcsize(length_format)
        position = start + size
        if position > len(body):
            raise IndexError
        return bytes(body[start:position])

    def take_certificate() -> bytes:
        if version == 2:
            take(">H")
        return take(">I")

    for _ in range(count):
        (tag,) = struct.unpack_from(">I", body, position)
        position += 4
        take(">H")
        position += 8
        if tag == 1:
            protected = take(">I")
            (length,) = struct.unpack_from(">I", body, position)
            position += 4
            chain = tuple(take_certificate() for _ in range(length))
            keys.append((protected, chain))
            certificates.extend(chain[:1])  # Java also trusts the certificate of a key entry
        elif tag == 2:
            certificates.append(take_certificate())
        else:
            raise KeyStoreError(f"expected an entry of kind 1 or 2, found {tag}")
    return tuple(certificates), keys


def _unprotect(protected: bytes, password: bytes) -> bytes:
    """Return the PKCS#8 key from Sun's key protection."""
    _, info, _ = _der(protected, 0)
    _, algorithm, end = _der(info, 0)
    _, octets, _ = _der(info, end)
    if not algorithm.startswith(_KEY_PROTECTOR_OID):
        raise KeyStoreError("expected a private key in Sun's protection, found another")
    salt, cipher = octets[:_DIGEST_SIZE], octets[_DIGEST_SIZE:-_DIGEST_SIZE]
    stream, block = bytearray(), salt
    while len(stream) < len(cipher):
        block = hashlib.sha1(password + block).digest()
        stream += block
    key = bytes(a ^ b for a, b in zip(cipher, stream, strict=False))
    if not hmac.compare_digest(hashlib.sha1(password + key).digest(), octets[-_DIGEST_SIZE:]):
        raise KeyStoreError("the password of its private key is wrong")
    return key


def _der(data: bytes, position: int) -> tuple[int, bytes, int]:
    """Return tag, content and end of the DER value at a position."""
    try:
        tag, size = data[position], data[position + 1]
        start = position + 2
        if size >= 0x80:
            start += size & 0x7F
            size = int.from_bytes(data[position + 2 : start], "big")
    except IndexError:
        size = len(data)
    if position + 2 + size > len(data):
        raise KeyStoreError("the private key is damaged")
    return tag, data[start : start + size], start + size


def _read_pkcs12(data: bytes, password: str | None) -> KeyStore:
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
    from cryptography.hazmat.primitives.serialization.pkcs12 import load_pkcs12

    if password is not None and "\0" in password:  # the library would panic and print it
        raise KeyStoreError("expected a password without NUL, found one with it")
    try:
        store = load_pkcs12(data, None if password is None else password.encode())
        others = [entry.certificate for entry in store.additional_certs]
        own = [] if store.cert is None else [store.cert.certificate]
        certificates = {
            certificate: certificate.public_bytes(Encoding.DER) for certificate in (*own, *others)
        }
        key = None
        if store.key is not None:
            pkcs8 = store.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
            chain = _chain(own, others)
            key = PrivateKey(pkcs8, tuple(certificates[certificate] for certificate in chain))
    except (ValueError, TypeError, UnsupportedAlgorithm):
        why = "a password is needed" if password is None else "the password is wrong"
        raise KeyStoreError(f"{why}, or the file is damaged or no PKCS12 that is known") from None
    return KeyStore(tuple(certificates.values()), key, int(key is not None))


def _chain(own: list[Certificate], others: list[Certificate]) -> list[Certificate]:
    """Return the certificates with each issuer after its subject; PKCS12 has no order."""
    by_subject = {certificate.subject: certificate for certificate in others}
    chain = own[:1]
    while chain and (issuer := by_subject.pop(chain[-1].issuer, None)) is not None:
        chain.append(issuer)
    return chain


def pem(label: bytes, der: bytes) -> bytes:
    """Encode DER as PEM."""
    return b"-----BEGIN %s-----\n%s-----END %s-----\n" % (label, encodebytes(der), label)


def _utf16(password: str) -> bytes:
    return password.encode("utf-16-be")


_VERSIONS = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
"""Supported TLS versions; older ones are ignored, as current Java rejects them too."""

_TLS_1_3_SUITES = frozenset(
    ("TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256")
)
_TYPES = ("JKS", "PKCS12", "PEM")


@dataclass(frozen=True, slots=True)
class Store:
    """A key store or trust store in the settings; it is read when a context is created.

    Attributes:
        source: setting that names the file, or contains PEM itself.
        pem: the text if the setting contains it, otherwise None.
        is_pem: whether the file is PEM; otherwise JKS or PKCS12.
        password: password of the store.
        key_password: password of the private key; None if it has no separate one.
    """

    source: ClientSetting
    pem: bytes | None
    is_pem: bool
    password: str | None
    key_password: str | None

    def read(self, *, with_key: bool) -> KeyStore:
        """Read the store.

        Raises:
            InputError: the file cannot be read.
            UsageError: the file is not such a store.
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
    """A TLS configuration: trusted certificates, client certificate, protocol versions and ciphers.

    Attributes:
        trust_store: None for the system's certificate authorities.
        key_store: None without a client certificate.
        check_host_name: whether the broker's certificate must match the host name.
        versions: lowest and highest TLS version.
        ciphers: OpenSSL's names of the cipher suites up to TLS 1.2; empty for its default.
        notes: settings that are not supported.
    """

    trust_store: Store | None
    key_store: Store | None
    check_host_name: bool
    versions: tuple[ssl.TLSVersion, ssl.TLSVersion]
    ciphers: tuple[str, ...]
    notes: tuple[str, ...]

    @classmethod
    def read(cls, settings: ClientSettings) -> Tls:
        """Return the configuration of the `ssl.*` settings.

        Raises:
            UsageError: settings are inconsistent.
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
        """Read the stores and return an SSL context.

        Raises:
            InputError: a store cannot be read.
            UsageError: a store contains nothing usable.
        """
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = self.check_host_name
        context.minimum_version, context.maximum_version = self.versions
        # Java trusts each certificate of the trust store itself, not only CA certificates.
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
    """Load the client's key and certificates, via a file that only this user may read."""
    entry = store.read(with_key=True)
    key = entry.key
    if key is None or (store.is_pem and entry.key_count != 1):
        raise UsageError(
            f"{store.source.where}: expected one private key, found {entry.key_count or 'none'}"
        )
    if not key.chain:
        raise UsageError(f"{store.source.where}: expected the key's certificate, found none")
    password = "".join(store.key_password or "")
    with NamedTemporaryFile(prefix="kgroup-", suffix=".pem") as file:
        file.write(key.pem + b"".join(pem(b"CERTIFICATE", der) for der in key.chain))
        file.flush()
        try:
            # Without a password argument, OpenSSL would prompt for one on the terminal.
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


def _trust_store(settings: ClientSettings) -> Store | None:
    inline = settings.get("ssl.truststore.certificates")
    return _store(settings, "ssl.truststore", inline, None)


def _key_store(settings: ClientSettings) -> Store | None:
    key = settings.get("ssl.keystore.key")
    chain = settings.get("ssl.keystore.certificate.chain")
    if key is None and chain is not None:
        raise settings.missing("ssl.keystore.key", f"{chain.where} is the certificate of one")
    if key is not None and chain is None:
        raise settings.missing("ssl.keystore.certificate.chain", f"{key.where} needs a certificate")
    return _store(settings, "ssl.keystore", key, chain)


def _store(
    settings: ClientSettings, prefix: str, inline: ClientSetting | None, chain: ClientSetting | None
) -> Store | None:
    """Return a store, validated by the rules of Kafka's `DefaultSslEngineFactory`."""
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


def _check_host_name(settings: ClientSettings) -> bool:
    setting = settings.by_key.get("ssl.endpoint.identification.algorithm")
    if setting is None or setting.value.lower() == "https":
        return True
    if setting.value:
        raise setting.expected("https, or nothing for no check of the host name")
    return False


def _versions(settings: ClientSettings) -> tuple[ssl.TLSVersion, ssl.TLSVersion]:
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
    setting: ClientSetting, names: tuple[str, ...], versions: tuple[ssl.TLSVersion, ssl.TLSVersion]
) -> tuple[tuple[ssl.TLSVersion, ssl.TLSVersion], tuple[str, ...], tuple[str, ...]]:
    """Return the TLS versions that have suites, the suites up to TLS 1.2, and notes.

    Python can select suites only up to TLS 1.2.
    """
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
    """Return OpenSSL's name of a suite up to TLS 1.2.

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
    except (ssl.SSLError, ValueError):  # the name contains NUL
        return False
    return any(cipher["name"] == name for cipher in context.get_ciphers())
