r"""Key and trust stores: PEM, Java's JKS, and PKCS12.

JKS is read here, since its one Python library wants an abandoned C extension built wherever it is
installed; PKCS12 is read by `cryptography`. The layout of JKS, big-endian; text is an uint16 size
and modified UTF-8:

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
import struct
from base64 import b64decode, encodebytes
from binascii import Error as Base64Error
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cryptography.x509 import Certificate

_PEM = re.compile(rb"-----BEGIN ([A-Z0-9 ]+)-----([A-Za-z0-9+/=\s]*)-----END \1-----")

_JKS_MAGIC = b"\xfe\xed\xfe\xed"
_JCEKS_MAGIC = b"\xce\xce\xce\xce"
_DER_SEQUENCE = b"\x30"
_DIGEST_SIZE = 20
_KEY_PROTECTOR_OID = bytes.fromhex("060a2b060104012a02110101")


class KeyStoreError(ValueError):
    """A store that cannot be read; the text says what was expected and found, and no secret."""


@dataclass(frozen=True, slots=True)
class PrivateKey:
    """A private key with its certificates.

    Attributes:
        pem: PKCS#8, perhaps still encrypted with the key's password; never shown.
        chain: DER, the key's own certificate first.
    """

    pem: bytes = field(repr=False)
    chain: tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class KeyStore:
    """What a store holds.

    Attributes:
        certificates: DER, those that a trust store is made of.
        key: the first private key, None where there is none or it was not asked for.
        key_count: how many private keys there are.
    """

    certificates: tuple[bytes, ...]
    key: PrivateKey | None
    key_count: int


def read_pem(data: bytes) -> KeyStore:
    """Read certificates and at most one private key; other text around them is passed over.

    Raises:
        KeyStoreError: a block is no base64.
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
    """Read JKS or PKCS12; the first bytes tell which, as for Java.

    Args:
        data: the whole file.
        password: of the store; without it JKS is not checked for damage.
        key_password: of the private key, None where it is the store's.
        with_key: whether the private key is wanted; else only certificates.

    Raises:
        KeyStoreError: a wrong password, damage, or another kind of file.
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
    """Give the certificates to trust, and the protected keys with their chains."""
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
            certificates.extend(chain[:1])  # Java trusts the certificate of a key entry as well
        elif tag == 2:
            certificates.append(take_certificate())
        else:
            raise KeyStoreError(f"expected an entry of kind 1 or 2, found {tag}")
    return tuple(certificates), keys


def _unprotect(protected: bytes, password: bytes) -> bytes:
    """Undo Sun's key protector; give PKCS#8."""
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
    """Give tag and content of the DER value at a position, and where it ends."""
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

    if password is not None and "\0" in password:  # the library would print it and panic
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
    """Put the issuer of each certificate behind it: PKCS12 has them in no order."""
    by_subject = {certificate.subject: certificate for certificate in others}
    chain = own[:1]
    while chain and (issuer := by_subject.pop(chain[-1].issuer, None)) is not None:
        chain.append(issuer)
    return chain


def pem(label: bytes, der: bytes) -> bytes:
    """Write DER as PEM."""
    return b"-----BEGIN %s-----\n%s-----END %s-----\n" % (label, encodebytes(der), label)


def _utf16(password: str) -> bytes:
    return password.encode("utf-16-be")
