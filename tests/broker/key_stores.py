"""Certificates and key stores of the tests, in `tests/data/key_stores`.

    python -m tests.broker.key_stores    # writes them anew, with Java and openssl; valid 100 years

`ca` signs `server` (for 127.0.0.1 and kafka.test, not for localhost) and `client`; `stranger` signs
itself. The keys are for tests only.
"""

from __future__ import annotations

import ipaddress
import subprocess
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

from tests.broker.maven import compile_java, run_java

FOLDER = Path(__file__).parent.parent / "data" / "key_stores"

STORE_PASSWORD = "store-sekret"
KEY_PASSWORD = "key-sekret"

_BORN = datetime(2020, 1, 1, tzinfo=UTC)


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _signed(
    name: str, key: ec.EllipticCurvePrivateKey, issuer: str, issuer_key: ec.EllipticCurvePrivateKey
) -> x509.Certificate:
    builder = (
        x509.CertificateBuilder()
        .subject_name(_name(name))
        .issuer_name(_name(issuer))
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(_BORN)
        .not_valid_after(_BORN + timedelta(days=36500))
        .add_extension(x509.BasicConstraints(name == "ca", None), critical=True)
    )
    if name == "server":
        address = x509.IPAddress(ipaddress.ip_address("127.0.0.1"))
        names = x509.SubjectAlternativeName([address, x509.DNSName("kafka.test")])
        builder = builder.add_extension(names, critical=False)
    return builder.sign(issuer_key, SHA256())


def main() -> None:
    """Write all files anew."""
    FOLDER.mkdir(exist_ok=True)
    keys = {name: ec.generate_private_key(ec.SECP256R1()) for name in ("ca", "server", "client")}
    keys["stranger"] = ec.generate_private_key(ec.SECP256R1())
    certificates = {name: _signed(name, key, "ca", keys["ca"]) for name, key in keys.items()}
    own = keys["stranger"]
    certificates["stranger"] = _signed("stranger", own, "stranger", own)
    pem = {
        name: certificate.public_bytes(Encoding.PEM) for name, certificate in certificates.items()
    }
    pkcs8 = {
        name: key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        for name, key in keys.items()
    }
    (FOLDER / "ca.pem").write_bytes(pem["ca"])
    (FOLDER / "server.pem").write_bytes(pkcs8["server"] + pem["server"] + pem["ca"])
    (FOLDER / "stranger.pem").write_bytes(pkcs8["stranger"] + pem["stranger"])
    with TemporaryDirectory() as work:
        plain = Path(work) / "client.key.pem"
        plain.write_bytes(pkcs8["client"])
        encrypt = f"openssl pkcs8 -topk8 -v1 PBE-SHA1-3DES -passout pass:{KEY_PASSWORD} -in {plain}"
        key = subprocess.run(encrypt.split(), check=True, capture_output=True).stdout
        (FOLDER / "client.pem").write_bytes(key + pem["client"] + pem["ca"])
        for name in ("ca", "client"):
            file = FOLDER / f"{name}.der"
            file.write_bytes(certificates[name].public_bytes(Encoding.DER))
        key_file = FOLDER / "client.key.der"
        key_file.write_bytes(
            keys["client"].private_bytes(Encoding.DER, PrivateFormat.PKCS8, NoEncryption())
        )
    source = Path(__file__).parent / "java" / "MakeStores.java"
    classes = compile_java([source], "4.3.1")
    args = [str(FOLDER), STORE_PASSWORD, KEY_PASSWORD]
    run_java("4.3.1", "MakeStores", args, classes=classes)


if __name__ == "__main__":
    main()
