# The TLS certificate of a BMC: a signing request whose key never leaves the BMC, and the installation of a certificate, seen on the wire afterwards.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import re
import ssl
from dataclasses import replace

from ..core.deadline import Deadline
from ..core.errors import BaremetalError, InvalidInput, Refused, Unsupported
from ..core.plan import Change, Plan
from . import connect, tasks, transform
from .endpoint import check_seconds
from .errors import AnswerLost, HttpError
from .result import Result, known_identity, read_until
from .tls import fetch_fingerprint, fingerprint_of

BLOCK = re.compile(r"-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----", re.DOTALL)
KEY = re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----.+?-----END [A-Z ]*PRIVATE KEY-----", re.DOTALL)
# DSP0266, CertificateService.GenerateCSR: what it wants at least, and our option for it
SUBJECT = {
    "CommonName": "common_name",
    "Organization": "organization",
    "OrganizationalUnit": "organizational_unit",
    "City": "city",
    "State": "state_name",
    "Country": "country",
}
# How long a BMC's web server may take to come back with the new certificate; several want a restart of the BMC for it.
SHOWS_S = 180.0


# ---- pure ---------------------------------------------------------------------------------------------------------------------------------
def read_certificate(pem, host=None):
    """(SHA-256 of the first certificate, the PEM text with all of them) of what the user gave; InvalidInput where there is none."""
    blocks = BLOCK.findall(str(pem or ""))
    try:
        first = fingerprint_of(ssl.PEM_cert_to_DER_cert(blocks[0] + "\n"))
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(cadata="\n".join(blocks))  # parses them, no more
    except (IndexError, ValueError, ssl.SSLError) as error:
        raise InvalidInput(
            "this is no certificate",
            host=host,
            thing="certificate",
            wanted="PEM text, the BMC's own certificate first, then those between it and the authority",
            seen=f"{len(blocks)} certificates ({error})" if blocks else "no certificate",
            next_step="give the file that the authority signed",
        )
    return first, "\n".join(block.strip() for block in blocks) + "\n"


def read_key(pem, host=None):
    """The PEM text of a private key, or None where none was given."""
    if not pem:
        return None
    found = KEY.search(str(pem))
    if not found:
        raise InvalidInput(
            "this is no private key",
            host=host,
            thing="private_key",
            wanted="PEM text without a password",
            next_step="leave it out where the BMC made the signing request itself",
        )
    return found.group().strip() + "\n"


# ---- the operations -------------------------------------------------------------------------------------------------------------------------
def certificate(endpoint, pem, private_key=None, deadline_s=300.0, check=False, fence=None, interval=2.0):
    """Install a certificate. The BMC that shows it already is unchanged, whatever is pinned; afterwards it is proven by a handshake and an authenticated read.

    The result has `fingerprint`: what has to be pinned from now on.
    """
    check_seconds("timeout", deadline_s, endpoint.label)
    endpoint.require_redfish("IPMI has no certificates")
    wanted, text = read_certificate(pem, endpoint.label)
    key = read_key(private_key, endpoint.label)
    deadline = Deadline(deadline_s, "the certificate of the BMC", host=endpoint.label)
    shown = fetch_fingerprint(endpoint.address, endpoint.port, endpoint.connect_timeout)
    plan = Plan([Change("certificate", f"SHA-256 {shown}", f"SHA-256 {wanted}")])
    result = Result(plan.changed, plan, {"fingerprint": shown}, {"fingerprint": wanted})
    result.more = {"fingerprint": wanted}
    renewed = _trusting(endpoint, wanted)
    if not plan.changed:
        with connect(renewed, deadline) as client:
            client.system()
            result.warnings, result.bmc = client.warnings, known_identity(client)
        return result
    with connect(endpoint, deadline, fence) as client:
        # No session: the web server starts again with the new certificate, and the connection that could delete one is refused by the old pin.
        client.hide(key)
        place = _Place(client)
        result.warnings, result.bmc = client.warnings, known_identity(client)
        if check:
            place.refuse_if_nothing_can_be_done()
            return result
        _install(client, place, text + (key or ""), deadline)
    _verify(renewed, wanted, deadline, interval)
    return result


def signing_request(
    endpoint, subject, alternative_names=(), key_algorithm=None, deadline_s=180.0, check=False, fence=None
):
    """Have the BMC make a key and a signing request; the result has `csr`. It always is a change: the BMC keeps one such key, the last."""
    check_seconds("timeout", deadline_s, endpoint.label)
    endpoint.require_redfish("IPMI has no certificates")
    missing = [option for name, option in SUBJECT.items() if not subject.get(option)]
    if missing:
        raise InvalidInput(
            "a signing request needs all parts of a subject",
            host=endpoint.label,
            thing=", ".join(missing),
            wanted=", ".join(SUBJECT.values()),
            seen="not given",
        )
    deadline = Deadline(deadline_s, "the signing request", host=endpoint.label)
    plan = Plan([Change("signing request", None, subject["common_name"])])
    with connect(endpoint, deadline, fence) as client:
        client.login()
        place = _Place(client)
        if not place.generate:
            raise Unsupported(
                "the BMC makes no signing requests",
                host=endpoint.label,
                thing="CertificateService",
                wanted="the action GenerateCSR",
                seen="none",
                next_step="make the key yourself and install it with the certificate (private_key)",
            )
        result = Result(
            True, plan, warnings=client.warnings, source=client.source, bmc=known_identity(client), more={"csr": None}
        )
        if check:
            return result
        body = {name: str(subject[option]) for name, option in SUBJECT.items()}
        body["CertificateCollection"] = {"@odata.id": place.collection}
        if alternative_names:
            body["AlternativeNames"] = [str(item) for item in alternative_names]
        if key_algorithm:
            body["KeyPairAlgorithm"] = key_algorithm
        with client.patient(90.0):  # a BMC's processor takes its time for a key
            answer = client.post(place.generate, body)
        found = transform.text(answer.body or {}, "CSRString")
        if not found and tasks.handle_of(answer):
            outcome = tasks.require(
                client, tasks.follow(client, answer, deadline, thing="the signing request"), "the signing request"
            )
            found = transform.text(outcome.body, "CSRString")
        if "BEGIN" not in found:
            raise Refused(
                "the BMC accepted it and gave no signing request",
                host=endpoint.label,
                thing="GenerateCSR",
                wanted="CSRString",
                seen=found[:40] or "nothing",
                next_step="make the key yourself and install it with the certificate (private_key)",
                code="accepted_not_moved",
            )
        result.more["csr"] = found
        return result


def _trusting(endpoint, fingerprint):
    """The endpoint with the new certificate in the place of the old pin; one that verifies by authority goes on doing so."""
    return replace(endpoint, fingerprint=fingerprint) if endpoint.fingerprint else endpoint


class _Place:
    """Where the BMC keeps the certificate of its web server, and the actions that it has for it."""

    def __init__(self, client):
        self.client = client
        network = client.optional(transform.link(client.manager(), "NetworkProtocol"), None) or {}
        self.collection = transform.link(network, "HTTPS", "Certificates")
        self.service = client.optional(transform.link(client.root(), "CertificateService"), None) or {}
        self.generate = transform.text(self.service, "Actions", "#CertificateService.GenerateCSR", "target")
        self.replace = transform.text(self.service, "Actions", "#CertificateService.ReplaceCertificate", "target")
        self.uri = self._uri()
        if not self.collection and self.uri:
            self.collection = self.uri.rstrip("/").rsplit("/", 1)[0]

    def _uri(self):
        """The certificate in use: the only one of the web server's, or the one that the list of locations has below HTTPS."""
        page = self.client.optional(self.collection, None) if self.collection else None
        uris = [
            transform.text(item, "@odata.id") for item in transform.members_of(page or {}) if isinstance(item, dict)
        ]
        if not uris:
            locations = self.client.optional(transform.link(self.service, "CertificateLocations"), None) or {}
            uris = [uri for uri in transform.links(locations, "Links", "Certificates") if "/https/" in uri.lower()]
        return uris[0] if uris else ""

    def refuse_if_nothing_can_be_done(self):
        if not (self.replace and self.uri) and not self.collection:
            raise Unsupported(
                "the BMC lets no certificate be installed by Redfish",
                host=self.client.endpoint.label,
                thing="CertificateService",
                wanted="the action ReplaceCertificate, or a collection HTTPS/Certificates",
                seen="neither",
                next_step="install it on the BMC's web page",
            )


def _install(client, place, text, deadline):
    place.refuse_if_nothing_can_be_done()
    body = {"CertificateString": text, "CertificateType": "PEM"}
    try:
        answer = None
        if place.replace and place.uri:
            try:
                answer = client.post(place.replace, {**body, "CertificateUri": {"@odata.id": place.uri}})
            except HttpError as error:
                if error.status not in (404, 405, 501) or not place.collection:
                    raise
        if answer is None:
            answer = client.post(place.collection, body)
        if tasks.handle_of(answer):
            tasks.require(client, tasks.follow(client, answer, deadline, thing="the certificate"), "the certificate")
    except AnswerLost:
        client.warnings.append("the answer to installing the certificate was lost; what the BMC shows was read instead")
    except BaremetalError as error:
        # Its web server may have started again in the middle of the answer, with the new certificate.
        if error.code not in ("certificate_changed", "certificate_not_trusted"):
            raise


def _verify(endpoint, wanted, deadline, interval):
    class Handshake:  # what read_until knows of a client
        pass

    asker = Handshake()
    asker.endpoint = endpoint
    read_until(
        asker,
        Deadline(min(SHOWS_S, deadline.remaining()), "the new certificate", host=endpoint.label),
        lambda: fetch_fingerprint(endpoint.address, endpoint.port, endpoint.connect_timeout),
        lambda shown: shown == wanted,
        thing="certificate",
        wanted=f"SHA-256 {wanted}",
        message="the BMC accepted the certificate and does not show it",
        next_step="some BMCs take it at their next start (bmc_reset); then run again with the same certificate",
        interval=interval,
        describe=lambda shown: f"SHA-256 {shown}",
    )

    def good():
        with connect(
            endpoint, Deadline(min(30.0, max(1.0, deadline.remaining())), "an answer", host=endpoint.label)
        ) as client:
            client.system()
        return True

    read_until(
        asker,
        Deadline(min(SHOWS_S, deadline.remaining()), "the BMC with its new certificate", host=endpoint.label),
        good,
        bool,
        thing="certificate",
        wanted="an authenticated answer",
        message="the BMC shows the new certificate and does not answer",
        next_step="restart the BMC (bmc_reset over IPMI), and look at it with bmc_info",
        interval=interval,
        code="bmc_not_ready",
    )
