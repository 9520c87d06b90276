# The BMC's certificate: requested, signed by an authority of the test, installed, seen on the wire, unchanged the second time.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import datetime
import ipaddress
from dataclasses import replace

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from ansible_collections.aicluster.baremetal.plugins.module_utils.bmc import certificate, operations, tls
from ansible_collections.aicluster.baremetal.plugins.module_utils.core import errors

from .conftest import endpoint, writes

SUBJECT = {
    "common_name": "gpu01-bmc", "organization": "Example", "organizational_unit": "Cluster", "city": "Here", "state_name": "There", "country": "DE",
}  # fmt: skip
PEM = serialization.Encoding.PEM


class Authority:
    def __init__(self):
        self.key = ec.generate_private_key(ec.SECP256R1())
        self.name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "test authority")])
        self.certificate = self.sign(self.name, self.key.public_key(), authority=True)

    def sign(self, name, public_key, authority=False):
        now = datetime.datetime.now(datetime.timezone.utc)
        builder = x509.CertificateBuilder().subject_name(name).issuer_name(self.name).public_key(public_key)
        builder = builder.serial_number(x509.random_serial_number()).not_valid_before(now - datetime.timedelta(hours=1))
        builder = builder.not_valid_after(now + datetime.timedelta(days=1))
        builder = builder.add_extension(x509.BasicConstraints(ca=authority, path_length=None), True)
        if not authority:
            address = x509.IPAddress(ipaddress.ip_address("127.0.0.1"))
            builder = builder.add_extension(x509.SubjectAlternativeName([address]), False)
        return builder.sign(self.key, hashes.SHA256())

    def of_request(self, csr):
        request = x509.load_pem_x509_csr(csr.encode())
        return self.sign(request.subject, request.public_key()).public_bytes(PEM).decode()

    def with_key(self):
        key = ec.generate_private_key(ec.SECP256R1())
        form, none = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        return self.sign(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "x")]), key.public_key()).public_bytes(
            PEM
        ).decode(), key.private_bytes(PEM, form, none).decode()


@pytest.fixture(scope="module")
def authority():
    return Authority()


def test_request_sign_install(fresh, authority, tmp_path):
    there = endpoint(fresh)
    planned = operations.signing_request(there, SUBJECT, check=True)
    assert planned.changed and planned.more["csr"] is None and not writes(fresh)
    csr = operations.signing_request(there, SUBJECT, ["IP:127.0.0.1"]).more["csr"]
    pem = authority.of_request(csr)
    planned = operations.certificate(there, pem, check=True)
    done = operations.certificate(there, pem, interval=0.1)
    assert done.changed and done.plan.diff() == planned.plan.diff() and done.after == planned.after
    shown = tls.fetch_fingerprint(there.address, there.port)
    assert done.more["fingerprint"] == shown != there.fingerprint
    before = len(writes(fresh))
    # with the old pin still in hand, as after a crash between the installation and its record
    assert not operations.certificate(there, pem).changed and len(writes(fresh)) == before
    with pytest.raises(errors.Refused) as caught:
        operations.power(there, "off")
    assert caught.value.code == "certificate_changed" and shown in caught.value.next_step
    assert operations.power(replace(there, fingerprint=shown), "off").changed is False
    # and it verifies by its authority, without any pin
    ca = tmp_path / "ca.pem"
    ca.write_bytes(authority.certificate.public_bytes(PEM))
    assert operations.info(endpoint(fresh, fingerprint=None, ca_path=str(ca)), ["system"])["system"]["serial"]
    assert fresh.state("gpu01")["sessions"] == 0


def test_a_key_of_our_own(fresh, authority):
    there = endpoint(fresh)
    pem, key = authority.with_key()
    with pytest.raises(errors.BaremetalError) as caught:
        operations.certificate(there, pem, interval=0.1)
    assert "signing request" in str(caught.value)
    done = operations.certificate(there, pem, key, interval=0.1)
    assert done.changed and "PRIVATE" not in str(done.as_result(True))


def test_accepted_and_not_shown(fresh, authority, monkeypatch):
    monkeypatch.setattr(certificate, "SHOWS_S", 0.5)
    fresh.set_behaviour("gpu01", accept_and_do_nothing=["certificate"])
    pem, key = authority.with_key()
    with pytest.raises(errors.DeadlineExceeded) as caught:
        operations.certificate(endpoint(fresh), pem, key, interval=0.1)
    assert caught.value.code == "accepted_not_moved" and "bmc_reset" in caught.value.next_step


def test_a_lost_answer(fresh, authority):
    fresh.set_behaviour("gpu01", answer_lost_after_post=1)
    pem, key = authority.with_key()
    done = operations.certificate(endpoint(fresh), pem, key, interval=0.1)
    assert done.changed and any("lost" in text for text in done.warnings)


def test_the_fence_is_asked(bmc, there, authority):
    def fence():
        raise errors.FencedOut("a newer attempt owns the node")

    before = len(writes(bmc))
    with pytest.raises(errors.FencedOut):
        operations.certificate(there, *authority.with_key(), fence=fence)
    assert len(writes(bmc)) == before


@pytest.mark.parametrize(
    "pem", [None, "", "no certificate", "-----BEGIN CERTIFICATE-----\n!!!\n-----END CERTIFICATE-----"]
)
def test_what_is_no_certificate(there, pem):
    with pytest.raises(errors.InvalidInput) as caught:
        operations.certificate(there, pem)
    assert caught.value.thing == "certificate"


def test_what_cannot_be(there, authority):
    pem, unused = authority.with_key()
    for arguments in ({"private_key": "no key"}, {"deadline_s": 0}):
        with pytest.raises(errors.InvalidInput):
            operations.certificate(there, pem, **arguments)
    with pytest.raises(errors.InvalidInput) as caught:
        operations.signing_request(there, {**SUBJECT, "city": None})
    assert caught.value.thing == "city"
