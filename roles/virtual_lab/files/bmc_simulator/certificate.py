# Certificates: the self-signed one of a lab's BMC, and those that a fleet's own authority signs; kept in files, so that fingerprints are stable.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import datetime
import hashlib
import ipaddress
import os
import pathlib
import ssl

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

_USAGES = (
    "digital_signature",
    "content_commitment",
    "key_encipherment",
    "data_encipherment",
    "key_agreement",
    "key_cert_sign",
    "crl_sign",
    "encipher_only",
    "decipher_only",
)


def write_private(path: pathlib.Path, data: bytes) -> None:
    """Replace a file as a whole; only its owner may read it."""
    partial = path.with_suffix(path.suffix + ".new")
    descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "wb") as handle:
        handle.write(data)
    os.replace(partial, path)


def _key_bytes(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


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
    return _key_bytes(key) + certificate.public_bytes(serialization.Encoding.PEM)


def ensure_certificate(
    directory: pathlib.Path, common_name: str, address: str, file_name: str = "bmc.pem"
) -> pathlib.Path:
    """The path of the node's PEM file, made if it is not there or not readable as a certificate."""
    path = directory / file_name
    try:
        x509.load_pem_x509_certificate(path.read_bytes())
    except (OSError, ValueError):
        write_private(path, make_certificate(common_name, address))
    return path


class Authority:
    """The certificate authority of a fleet: what clients trust (`ca.pem`), and its key."""

    def __init__(self, directory: pathlib.Path):
        self.directory = directory
        self.path = directory / "ca.pem"
        key_path = directory / "ca.key"
        try:
            self.certificate = x509.load_pem_x509_certificate(self.path.read_bytes())
            self.key = serialization.load_pem_private_key(key_path.read_bytes(), None)
        except (OSError, ValueError):
            self.key = ec.generate_private_key(ec.SECP256R1())
            name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "AI Cluster Lab simulated fleet")])
            self.certificate = self._sign(name, self.key.public_key(), name, [], 3650, authority=True)
            write_private(key_path, _key_bytes(self.key))
            self.path.write_bytes(self.certificate.public_bytes(serialization.Encoding.PEM))

    def _sign(self, subject, public_key, issuer, alternatives, days, authority=False) -> x509.Certificate:
        now = datetime.datetime.now(datetime.timezone.utc)
        start = now - datetime.timedelta(days=1 if days > 0 else 30)
        builder = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(issuer)
            .public_key(public_key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(start)
            .not_valid_after(now + datetime.timedelta(days=days))
            .add_extension(x509.BasicConstraints(ca=authority, path_length=0 if authority else None), True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(public_key), False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(self.key.public_key()), False)
        )
        if alternatives:
            builder = builder.add_extension(x509.SubjectAlternativeName(alternatives), False)
        if authority:
            usage = {name: name in ("key_cert_sign", "crl_sign", "digital_signature") for name in _USAGES}
            builder = builder.add_extension(x509.KeyUsage(**usage), True)
        return builder.sign(self.key, hashes.SHA256())

    def issue(self, common_name: str, addresses: list[str], days: int = 3650) -> bytes:
        """Key and certificate of a server in one PEM text; negative days: it has expired."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name[:64])])
        alternatives = [x509.DNSName(common_name)]
        alternatives += [x509.IPAddress(ipaddress.ip_address(address)) for address in addresses]
        certificate = self._sign(subject, key.public_key(), self.certificate.subject, alternatives, days)
        return _key_bytes(key) + certificate.public_bytes(serialization.Encoding.PEM)

    def ensure(self, file_name: str, common_name: str, addresses: list[str], days: int = 3650) -> pathlib.Path:
        """The PEM file of a server certificate of this authority, made if it is not there."""
        path = self.directory / file_name
        try:
            have = x509.load_pem_x509_certificate(path.read_bytes())
            have.verify_directly_issued_by(self.certificate)
        except (OSError, ValueError, TypeError, InvalidSignature):
            write_private(path, self.issue(common_name, addresses, days))
        return path


def fingerprint(path: pathlib.Path) -> str:
    """SHA-256 of the certificate, hex."""
    certificate = x509.load_pem_x509_certificate(path.read_bytes())
    return hashlib.sha256(certificate.public_bytes(serialization.Encoding.DER)).hexdigest()


def certificate_text(path: pathlib.Path) -> str:
    """The certificate of a PEM file, without its key."""
    return x509.load_pem_x509_certificate(path.read_bytes()).public_bytes(serialization.Encoding.PEM).decode()


def server_context(path: pathlib.Path) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(path)
    return context
