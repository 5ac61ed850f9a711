"""Key stores that Java wrote (`tests/broker/key_stores.py`), PEM, and TLS contexts made of them."""

from __future__ import annotations

import ssl
import tempfile
import traceback
from base64 import b64decode
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

import pytest

from kgroup.errors import InputError, UsageError
from kgroup.source.config.client_setting import ClientSetting, ClientSettings
from kgroup.source.config.tls import KeyStoreError, Tls, read_key_store, read_pem
from tests.broker.key_stores import FOLDER, KEY_PASSWORD, STORE_PASSWORD

CA = (FOLDER / "ca.der").read_bytes()
CLIENT = (FOLDER / "client.der").read_bytes()
KEY = (FOLDER / "client.key.der").read_bytes()
JKS = (FOLDER / "client.jks").read_bytes()
STRANGER = (FOLDER / "stranger.pem").read_text()
PEM = (FOLDER / "client.pem").read_bytes()


def tls(settings: Mapping[str, str]) -> Tls:
    return Tls.read(
        ClientSettings.merged([ClientSetting(*item, "test") for item in settings.items()])
    )


def der(pem: bytes) -> bytes:
    return b64decode(b"".join(pem.splitlines()[1:-1]))


@pytest.mark.parametrize("name", ["trust.jks", "trust.p12", "trust-legacy.p12"])
def test_trust_stores_of_java(name: str) -> None:
    store = read_key_store((FOLDER / name).read_bytes(), STORE_PASSWORD, None, with_key=False)
    assert store.certificates == (CA,)
    assert store.key is None


@pytest.mark.parametrize(
    ("name", "key_password"),
    [("client.jks", KEY_PASSWORD), ("client.p12", None), ("client-legacy.p12", None)],
)
def test_key_stores_of_java(name: str, key_password: str | None) -> None:
    data = (FOLDER / name).read_bytes()
    store = read_key_store(data, STORE_PASSWORD, key_password, with_key=True)
    assert set(store.certificates) == {CA, CLIENT}
    assert store.key is not None
    assert store.key.chain == (CLIENT, CA)
    assert der(store.key.pem) == KEY
    assert store.key_count == 1


@pytest.mark.parametrize("name", ["client.jks", "client.p12", "client-legacy.p12"])
def test_wrong_passwords(name: str) -> None:
    data = (FOLDER / name).read_bytes()
    with pytest.raises(KeyStoreError, match=r"^the password is wrong"):
        read_key_store(data, "wrong", None, with_key=True)


@pytest.mark.parametrize("name", ["client.p12", "client-legacy.p12"])
def test_a_password_with_nul(name: str, capfd: pytest.CaptureFixture[str]) -> None:
    """The library that reads PKCS12 would print it, and panic."""
    with pytest.raises(KeyStoreError, match="without NUL"):
        read_key_store((FOLDER / name).read_bytes(), "se\0cret", None, with_key=True)
    assert capfd.readouterr().err == ""


def test_wrong_password_of_the_key() -> None:
    for password in ("wrong", None):  # without its own, that of the store is tried
        with pytest.raises(KeyStoreError, match=r"^the password of its private key is wrong"):
            read_key_store(JKS, STORE_PASSWORD, password, with_key=True)
    with pytest.raises(KeyStoreError, match="needs a password"):
        read_key_store(JKS, None, None, with_key=True)


def test_jks_cut_anywhere() -> None:
    for size in range(len(JKS)):
        for password in (STORE_PASSWORD, None):
            with pytest.raises(KeyStoreError):
                read_key_store(JKS[:size], password, KEY_PASSWORD, with_key=True)


def test_jks_damaged_anywhere() -> None:
    for position in range(len(JKS)):
        damaged = bytearray(JKS)
        damaged[position] ^= 0xFF
        with pytest.raises(KeyStoreError):
            read_key_store(bytes(damaged), STORE_PASSWORD, KEY_PASSWORD, with_key=True)
        with suppress(KeyStoreError):  # without the password nothing tells damage for certain
            read_key_store(bytes(damaged), None, KEY_PASSWORD, with_key=True)


@pytest.mark.parametrize(
    ("data", "found"),
    [
        (b"\xce\xce\xce\xce\0\0\0\x02", "JCEKS"),
        (PEM, "found PEM"),
        (b"", "something else"),
        (b"\x30\x03\x02\x01\x05", "no PKCS12 that is known"),
    ],
)
def test_other_files(data: bytes, found: str) -> None:
    with pytest.raises(KeyStoreError, match=found):
        read_key_store(data, STORE_PASSWORD, None, with_key=True)


@pytest.mark.parametrize(
    "text", [PEM, b"Bag Attributes\n" + PEM + b"bye", PEM.replace(b"\n", b" ")]
)
def test_pem(text: bytes) -> None:
    store = read_pem(text)
    assert store.certificates == (CLIENT, CA)
    assert store.key is not None
    assert store.key.chain == (CLIENT, CA)
    assert store.key.pem.startswith(b"-----BEGIN ENCRYPTED PRIVATE KEY-----\n")


def test_pem_of_no_base64() -> None:
    with pytest.raises(KeyStoreError, match="expected base64 in its CERTIFICATE"):
        read_pem(b"-----BEGIN CERTIFICATE-----\nAAA\n-----END CERTIFICATE-----")


def test_context_has_what_the_settings_say(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    settings = {
        "ssl.truststore.location": f"{FOLDER}/trust.p12",
        "ssl.truststore.password": STORE_PASSWORD,
        "ssl.keystore.location": f"{FOLDER}/client.jks",
        "ssl.keystore.password": STORE_PASSWORD,
        "ssl.key.password": KEY_PASSWORD,
        "ssl.enabled.protocols": "TLSv1.2, TLSv1.1",
        "ssl.cipher.suites": "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256,"
        "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256,TLS_AES_128_GCM_SHA256,TLS_UNHEARD_OF",
    }
    made = tls(settings)
    context = made.context()
    assert context.get_ca_certs(binary_form=True) == [CA]
    assert (context.check_hostname, context.verify_mode) == (True, ssl.CERT_REQUIRED)
    assert context.minimum_version == context.maximum_version == ssl.TLSVersion.TLSv1_2
    old = [cipher["name"] for cipher in context.get_ciphers() if cipher["protocol"] != "TLSv1.3"]
    assert old == ["ECDHE-ECDSA-AES128-GCM-SHA256", "ECDHE-RSA-CHACHA20-POLY1305"]
    assert list(tmp_path.iterdir()) == []
    for secret in (STORE_PASSWORD, KEY_PASSWORD):
        assert secret not in repr(made)
    assert tls({"ssl.endpoint.identification.algorithm": ""}).context().check_hostname is False
    assert tls({"ssl.endpoint.identification.algorithm": "HTTPS"}).check_host_name is True


def test_the_file_of_the_key_is_private_and_short_lived(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    modes = []

    def look(_: ssl.SSLContext, file: str, **rest: object) -> NoReturn:
        modes.append(Path(file).stat().st_mode & 0o777)
        raise ssl.SSLError

    monkeypatch.setattr(ssl.SSLContext, "load_cert_chain", look)
    key = {"ssl.keystore.location": f"{FOLDER}/client.p12", "ssl.keystore.password": STORE_PASSWORD}
    with pytest.raises(UsageError, match="the private key or a certificate is damaged"):
        tls(key).context()
    assert modes == [0o600]
    assert list(tmp_path.iterdir()) == []


def test_suites_of_tls_1_3() -> None:
    new = "TLS_AES_128_GCM_SHA256,TLS_AES_256_GCM_SHA384,TLS_CHACHA20_POLY1305_SHA256"
    only = tls({"ssl.cipher.suites": new})
    assert only.versions == (ssl.TLSVersion.TLSv1_3, ssl.TLSVersion.TLSv1_3)
    assert only.notes == ()
    some = tls({"ssl.cipher.suites": "TLS_AES_128_GCM_SHA256"})
    assert some.notes == (
        "ssl.cipher.suites (test) chooses among suites of TLS 1.3; kgroup offers them all",
    )
    none = tls({"ssl.cipher.suites": "TLS_RSA_WITH_AES_128_CBC_SHA"})
    assert none.versions == (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_2)
    assert none.ciphers == ("AES128-SHA",)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"ssl.truststore.location": f"{FOLDER}/no-such"},
            f"location {FOLDER}/no-such (test): cannot read it: No such",
        ),
        (
            {
                "ssl.truststore.location": f"{FOLDER}/trust.jks",
                "ssl.truststore.password": "wr0ng-sekret",
            },
            "trust.jks (test): the password is wrong, or the file is damaged",
        ),
        (
            {"ssl.truststore.type": "PEM", "ssl.truststore.location": f"{FOLDER}/ca.der"},
            "expected certificates to trust, found none",
        ),
        (
            {"ssl.keystore.type": "PEM", "ssl.keystore.location": f"{FOLDER}/ca.pem"},
            "expected one private key, found none",
        ),
        (
            {"ssl.keystore.type": "PEM", "ssl.keystore.location": f"{FOLDER}/client.pem"},
            "the private key is encrypted; ssl.key.password is not set",
        ),
        (
            {
                "ssl.keystore.type": "PEM",
                "ssl.keystore.location": f"{FOLDER}/client.pem",
                "ssl.key.password": "wr0ng-sekret",
            },
            "the private key is encrypted; ssl.key.password is wrong",
        ),
        (
            {
                "ssl.keystore.type": "PEM",
                "ssl.keystore.key": STRANGER.partition("-----BEGIN CERT")[0],
                "ssl.keystore.certificate.chain": (FOLDER / "ca.pem").read_text(),
            },
            "the private key is not that of its first certificate",
        ),
    ],
)
def test_stores_that_cannot_be_used(settings: dict[str, str], message: str) -> None:
    with pytest.raises(InputError if "cannot read it" in message else UsageError) as caught:
        tls(settings).context()
    assert message in str(caught.value)
    shown = "".join(traceback.format_exception(caught.value))
    for secret in ("wr0ng", "PRIVATE KEY--", *STRANGER.splitlines()[1:3]):
        assert secret not in shown
