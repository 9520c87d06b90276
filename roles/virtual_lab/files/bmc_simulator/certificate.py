# The self-signed certificate of one BMC: made once, kept in the node's directory, so that its fingerprint is stable.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import datetime
import hashlib
import ipaddress
import os
import pathlib
import ssl

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID


def _write_private(path: pathlib.Path, data: bytes) -> None:
    """Replace a file as a whole; only its owner may read it."""
    partial = path.with_suffix(path.suffix + ".new")
    descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "wb") as handle:
        handle.write(data)
    os.replace(partial, path)


def make_certificate(common_name: str, address: str) -> bytes:
    """Key and certificate in one PEM text. An elliptic curve key: making thousands of RSA keys takes minutes."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])
    start = datetime.datetime.now(datetime.timezone.utc) - datetime.timedelta(days=1)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(start)
        .not_valid_after(start + datetime.timedelta(days=3650))
        .add_extension(
            x509.SubjectAlternativeName([x509.DNSName(common_name), x509.IPAddress(ipaddress.ip_address(address))]),
            False,
        )
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), True)
        .sign(key, hashes.SHA256())
    )
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    ) + certificate.public_bytes(serialization.Encoding.PEM)


def ensure_certificate(directory: pathlib.Path, common_name: str, address: str) -> pathlib.Path:
    """The path of the node's PEM file, made if it is not there or not readable as a certificate."""
    path = directory / "bmc.pem"
    try:
        x509.load_pem_x509_certificate(path.read_bytes())
    except (OSError, ValueError):
        _write_private(path, make_certificate(common_name, address))
    return path


def fingerprint(path: pathlib.Path) -> str:
    """SHA-256 of the certificate, hex."""
    certificate = x509.load_pem_x509_certificate(path.read_bytes())
    return hashlib.sha256(certificate.public_bytes(serialization.Encoding.DER)).hexdigest()


def server_context(path: pathlib.Path) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(path)
    return context
