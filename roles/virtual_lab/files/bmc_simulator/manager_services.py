# Settings of the BMC itself: time servers, protocols, event subscriptions, TLS certificates; and the secure boot state of the server.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import re
import urllib.parse
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import NameOID

from .messages import Problem
from .node import Node
from .resources import V1, Json, M, S, collection, kind, link, ok, resource
from .writes import Answer, Call, elements, of_type, one_of, parameters, patch, setting, write

NETWORK = f"{M}/NetworkProtocol"
CERTIFICATES = f"{NETWORK}/HTTPS/Certificates"
CERTIFICATE_SERVICE = f"{V1}/CertificateService"
EVENTS = f"{V1}/EventService"
SUBSCRIPTIONS = f"{EVENTS}/Subscriptions"
MAX_SUBSCRIPTIONS = 8


# ---- network protocols -------------------------------------------------------------------------


@write("PATCH", NETWORK, "ConfigureManager")
async def patch_network(call: Call) -> Answer:
    node = call.node
    settings = node.settings

    def hostname(value: Any) -> None:
        of_type(value, str, "HostName")
        if not re.fullmatch(r"[A-Za-z0-9]([A-Za-z0-9.-]{0,62})", value):
            raise Problem("PropertyValueFormatError", value, "HostName", related=("HostName",))
        settings["hostname"] = value

    def ntp(value: Any) -> None:
        of_type(value, dict, "NTP")
        new: Json = {}
        for name, wanted in value.items():
            if name == "ProtocolEnabled":
                new["ntp_enabled"] = of_type(wanted, bool, name)
            elif name == "NTPServers":
                of_type(wanted, list, name)
                servers = new["ntp_servers"] = elements(wanted, settings["ntp_servers"])
                for item in servers:
                    if not (isinstance(item, str) and re.fullmatch(r"[A-Za-z0-9.:-]{1,253}", item)):
                        raise Problem("PropertyValueFormatError", item, name, related=(f"NTP/{name}",))
            else:
                raise Problem("PropertyUnknown", name, related=(f"NTP/{name}",))
        if "settings" not in node.behaviour.accept_and_do_nothing:
            settings.update(new)

    def ipmi(value: Any) -> None:
        of_type(value, dict, "IPMI")
        for name, wanted in value.items():
            if name != "ProtocolEnabled":
                raise Problem("PropertyNotWritable", name, related=(f"IPMI/{name}",))
            settings["ipmi_enabled"] = of_type(wanted, bool, name)
        # the listener follows
        node.spawn(node.reachability(), "IPMI")

    return patch(call, {"HostName": hostname, "NTP": ntp, "IPMI": ipmi})


# ---- certificates ------------------------------------------------------------------------------


@resource(CERTIFICATE_SERVICE)
def certificate_service(node: Node, path: str) -> Json:
    return {
        "@odata.id": path,
        "@odata.type": kind("CertificateService"),
        "Id": "CertificateService",
        "Name": "Certificate Service",
        "CertificateLocations": link(f"{path}/CertificateLocations"),
        "Actions": {
            "#CertificateService.GenerateCSR": {"target": f"{path}/Actions/CertificateService.GenerateCSR"},
            "#CertificateService.ReplaceCertificate": {
                "target": f"{path}/Actions/CertificateService.ReplaceCertificate",
                "CertificateType@Redfish.AllowableValues": ["PEM"],
            },
        },
    }


@resource(f"{CERTIFICATE_SERVICE}/CertificateLocations")
def certificate_locations(node: Node, path: str) -> Json:
    found = [link(f"{CERTIFICATES}/1")] if node.certificate() else []
    return {
        "@odata.id": path,
        "@odata.type": kind("CertificateLocations"),
        "Id": "CertificateLocations",
        "Name": "Certificate Locations",
        "Links": {"Certificates": found, "Certificates@odata.count": len(found)},
    }


@resource(CERTIFICATES)
def certificate_collection(node: Node, path: str) -> Json:
    return collection(path, "Certificate", ["1"] if node.certificate() else [])


def _names(name: x509.Name) -> Json:
    keys = {
        NameOID.COMMON_NAME: "CommonName",
        NameOID.ORGANIZATION_NAME: "Organization",
        NameOID.ORGANIZATIONAL_UNIT_NAME: "OrganizationalUnit",
        NameOID.COUNTRY_NAME: "Country",
        NameOID.STATE_OR_PROVINCE_NAME: "State",
        NameOID.LOCALITY_NAME: "City",
    }
    return {keys[entry.oid]: entry.value for entry in name if entry.oid in keys}


@resource(CERTIFICATES + "/1")
def certificate_resource(node: Node, path: str) -> Json | None:
    text = node.certificate()
    if not text:
        return None
    found = x509.load_pem_x509_certificate(text.encode())
    return {
        "@odata.id": path,
        "@odata.type": kind("Certificate"),
        "Id": "1",
        "Name": "HTTPS Certificate",
        "CertificateString": text,
        "CertificateType": "PEM",
        "SerialNumber": found.serial_number.to_bytes((found.serial_number.bit_length() + 7) // 8 or 1).hex(":").upper(),
        "Subject": _names(found.subject),
        "Issuer": _names(found.issuer),
        "ValidNotBefore": found.not_valid_before_utc.strftime("%Y-%m-%dT%H:%M:%SZ"),
        "ValidNotAfter": found.not_valid_after_utc.strftime("%Y-%m-%dT%H:%M:%SZ"),
        "Fingerprint": found.fingerprint(hashes.SHA256()).hex(":").upper(),
        "FingerprintHashAlgorithm": "TPM_ALG_SHA256",
    }


@write("POST", f"{CERTIFICATE_SERVICE}/Actions/CertificateService.GenerateCSR", "ConfigureManager")
async def generate_csr(call: Call) -> Answer:
    action = "CertificateService.GenerateCSR"
    body = parameters(
        call,
        action,
        (
            "CertificateCollection",
            "CommonName",
            "AlternativeNames",
            "Organization",
            "OrganizationalUnit",
            "City",
            "State",
            "Country",
            "KeyPairAlgorithm",
            "KeyBitLength",
            "KeyCurveId",
            "KeyUsage",
            "Email",
            "ContactPerson",
        ),
        ("CertificateCollection", "CommonName", "Organization", "OrganizationalUnit", "City", "State", "Country"),
    )
    where = body["CertificateCollection"]
    if not isinstance(where, dict) or str(where.get("@odata.id", "")).rstrip("/") != CERTIFICATES:
        raise Problem(
            "ActionParameterValueNotInList", where, "CertificateCollection", action, related=("CertificateCollection",)
        )
    oids = {
        "CommonName": NameOID.COMMON_NAME,
        "Organization": NameOID.ORGANIZATION_NAME,
        "OrganizationalUnit": NameOID.ORGANIZATIONAL_UNIT_NAME,
        "City": NameOID.LOCALITY_NAME,
        "State": NameOID.STATE_OR_PROVINCE_NAME,
        "Country": NameOID.COUNTRY_NAME,
    }
    try:
        subject = x509.Name([x509.NameAttribute(oid, body[name]) for name, oid in oids.items()])
    except (ValueError, TypeError) as error:
        raise Problem("ActionParameterValueFormatError", str(error), "CommonName", action) from None
    wants_rsa = "RSA" in str(body.get("KeyPairAlgorithm", "")).upper()
    key = rsa.generate_private_key(65537, 2048) if wants_rsa else ec.generate_private_key(ec.SECP256R1())
    builder = x509.CertificateSigningRequestBuilder().subject_name(subject)
    names = [_alternative(str(item)) for item in body.get("AlternativeNames") or ()]
    if names:
        builder = builder.add_extension(x509.SubjectAlternativeName(names), False)
    # the key never leaves the BMC
    call.node.csr_key = key
    text = builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM).decode()
    return Answer(200, {"CertificateCollection": link(CERTIFICATES), "CSRString": text})


def _alternative(text: str) -> x509.GeneralName:
    import ipaddress

    kind_, _colon, value = text.rpartition(":")
    if kind_.upper() in ("", "DNS", "IP", "IP ADDRESS"):
        text = value
    try:
        return x509.IPAddress(ipaddress.ip_address(text))
    except ValueError:
        return x509.DNSName(text)


@write("POST", f"{CERTIFICATE_SERVICE}/Actions/CertificateService.ReplaceCertificate", "ConfigureManager")
async def replace_certificate(call: Call) -> Answer:
    action = "CertificateService.ReplaceCertificate"
    body = parameters(
        call,
        action,
        ("CertificateString", "CertificateType", "CertificateUri", "Password"),
        ("CertificateString", "CertificateType", "CertificateUri"),
    )
    where = body["CertificateUri"]
    if not isinstance(where, dict) or str(where.get("@odata.id", "")).rstrip("/") != f"{CERTIFICATES}/1":
        raise Problem("ActionParameterValueNotInList", where, "CertificateUri", action, related=("CertificateUri",))
    one_of(body["CertificateType"], ("PEM",), "CertificateType")
    pem = _with_key(call.node, body["CertificateString"], action)
    if "certificate" not in call.node.behaviour.accept_and_do_nothing:
        await call.node.install_certificate(pem)
    return Answer(200, certificate_resource(call.node, f"{CERTIFICATES}/1"), {"Location": f"{CERTIFICATES}/1"})


def _with_key(node: Node, text: Any, action: str) -> bytes:
    """Key and certificate as the TLS library wants them: the key is in the text, or it is the one of the last CSR."""

    def wrong(why: str) -> Problem:
        return Problem(
            "ActionParameterValueFormatError", why, "CertificateString", action, related=("CertificateString",)
        )

    if not isinstance(text, str):
        raise wrong("no text")
    raw = text.encode()
    try:
        certificate = x509.load_pem_x509_certificate(raw)
    except ValueError as error:
        raise wrong(f"no PEM certificate: {error}") from None
    blocks = re.findall(rb"-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----\n?", raw, re.DOTALL)
    key = node.csr_key
    given = re.search(rb"-----BEGIN [A-Z ]*PRIVATE KEY-----.+?-----END [A-Z ]*PRIVATE KEY-----", raw, re.DOTALL)
    try:
        if given:
            key = serialization.load_pem_private_key(given.group(), None)
    except (ValueError, TypeError) as error:
        raise wrong(f"the private key cannot be read: {error}") from None
    if key is None or key.public_key() != certificate.public_key():
        raise wrong("the certificate does not belong to the key of the last signing request")
    form = serialization.PrivateFormat.PKCS8
    pem = key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption())
    return pem + b"\n".join(block.strip() for block in blocks) + b"\n"


# ---- events ------------------------------------------------------------------------------------


@resource(EVENTS)
def event_service(node: Node, path: str) -> Json:
    return {
        "@odata.id": path,
        "@odata.type": kind("EventService"),
        "Id": "EventService",
        "Name": "Event Service",
        "ServiceEnabled": True,
        "DeliveryRetryAttempts": 3,
        "DeliveryRetryIntervalSeconds": 30,
        "EventFormatTypes": ["Event"],
        "Status": ok(),
        "Subscriptions": link(SUBSCRIPTIONS),
    }


@resource(SUBSCRIPTIONS)
def subscription_collection(node: Node, path: str) -> Json:
    return collection(path, "EventDestination", list(node.subscriptions))


@resource(SUBSCRIPTIONS + "/{number}")
def subscription_resource(node: Node, path: str, number: str) -> Json | None:
    row = node.subscriptions.get(number)
    if row is None:
        return None
    syslog = row["protocol"].startswith("Syslog")
    return {
        "@odata.id": path,
        "@odata.type": kind("EventDestination"),
        "Id": number,
        "Name": "Event Destination",
        "Destination": row["destination"],
        "Protocol": row["protocol"],
        "Context": row["context"],
        "SubscriptionType": "Syslog" if syslog else "RedfishEvent",
        "Status": ok(),
        **({} if syslog else {"EventFormatType": "Event"}),
    }


@write("POST", SUBSCRIPTIONS, "ConfigureManager")
async def subscribe(call: Call) -> Answer:
    node, body = call.node, call.body
    known = {
        "Destination",
        "Protocol",
        "Context",
        "SubscriptionType",
        "EventFormatType",
        "RegistryPrefixes",
        "ResourceTypes",
        "HttpHeaders",
        "Name",
        "SyslogFilters",
        "EventTypes",
        "DeliveryRetryPolicy",
        "VerifyCertificate",
        "MessageIds",
        "OriginResources",
    }
    for name in body:
        if name not in known and not name.startswith("@"):
            raise Problem("PropertyUnknown", name, related=(name,))
    for name in ("Destination", "Protocol"):
        if name not in body:
            raise Problem("CreateFailedMissingReqProperties", name, related=(name,))
        of_type(body[name], str, name)
    protocol = one_of(body["Protocol"], ("Redfish", "SyslogUDP", "SyslogTCP", "SyslogTLS"), "Protocol")
    syslog = protocol.startswith("Syslog")
    scheme = urllib.parse.urlsplit(body["Destination"]).scheme
    if scheme not in (("syslog", "") if syslog else ("http", "https")) and not (
        syslog and "://" not in body["Destination"]
    ):
        raise Problem("PropertyValueFormatError", body["Destination"], "Destination", related=("Destination",))
    if "SubscriptionType" in body:
        one_of(body["SubscriptionType"], ("Syslog",) if syslog else ("RedfishEvent",), "SubscriptionType")
    for name in ("RegistryPrefixes", "ResourceTypes", "EventTypes", "MessageIds", "OriginResources", "HttpHeaders"):
        if name in body:
            of_type(body[name], list, name)
    if "EventFormatType" in body:
        one_of(body["EventFormatType"], ("Event",), "EventFormatType")
    if len(node.subscriptions) >= MAX_SUBSCRIPTIONS:
        raise Problem("CreateLimitReachedForResource")
    number = node.next_id("subscription")
    row = {"destination": body["Destination"], "protocol": protocol, "context": str(body.get("Context") or "")}
    if "settings" not in node.behaviour.accept_and_do_nothing:
        node.subscriptions[number] = row
    node.save()
    path = f"{SUBSCRIPTIONS}/{number}"
    return Answer(201, subscription_resource(node, path, number), {"Location": path})


@write("PATCH", SUBSCRIPTIONS + "/{number}", "ConfigureManager")
async def patch_subscription(call: Call) -> Answer:
    row = call.node.subscriptions.get(call.arguments["number"])
    if row is None:
        raise Problem("ResourceMissingAtURI", call.path)

    def context(value: Any) -> None:
        row["context"] = of_type(value, str, "Context")

    return patch(call, {"Context": context})


@write("DELETE", SUBSCRIPTIONS + "/{number}", "ConfigureManager")
async def unsubscribe(call: Call) -> Answer:
    if call.arguments["number"] not in call.node.subscriptions:
        raise Problem("ResourceMissingAtURI", call.path)
    del call.node.subscriptions[call.arguments["number"]]
    call.node.save()
    return Answer()


# ---- secure boot -------------------------------------------------------------------------------


@resource(f"{S}/SecureBoot")
def secure_boot(node: Node, path: str) -> Json | None:
    if node.config["firmware"] != "uefi":
        return None
    return {
        "@odata.id": path,
        "@odata.type": kind("SecureBoot"),
        "Id": "SecureBoot",
        "Name": "UEFI Secure Boot",
        "SecureBootEnable": node.settings["secure_boot"],
        "SecureBootCurrentBoot": "Enabled" if node.settings["secure_boot_now"] else "Disabled",
        "SecureBootMode": "UserMode" if node.settings["secure_boot_now"] else "SetupMode",
    }


@write("PATCH", f"{S}/SecureBoot", "ConfigureComponents")
async def patch_secure_boot(call: Call) -> Answer:
    if call.node.config["firmware"] != "uefi":
        raise Problem("ResourceMissingAtURI", call.path)
    return patch(call, {"SecureBootEnable": setting(call.node, "secure_boot", "SecureBootEnable", bool)})


# ---- boot order --------------------------------------------------------------------------------


def boot_options(node: Node) -> dict[str, tuple[str, str]]:
    """Reference: display name and alias. Only without a machine: a lab's server keeps its firmware's own order."""
    if node.config["driver"] != "none" or node.config["firmware"] != "uefi":
        return {}
    rows = [("Hard disk", "Hdd")]
    for index in range(len(node.config["nics"])):
        rows += [(f"PXE on NIC {index}", "Pxe"), (f"HTTP on NIC {index}", "UefiHttp")]
    rows.append(("Virtual CD", "Cd"))
    return {f"Boot{number:04X}": row for number, row in enumerate(rows, 1)}


@resource(f"{S}/BootOptions")
def boot_option_collection(node: Node, path: str) -> Json | None:
    options = boot_options(node)
    return collection(path, "BootOption", list(options)) if options else None


@resource(S + "/BootOptions/{option}")
def boot_option(node: Node, path: str, option: str) -> Json | None:
    row = boot_options(node).get(option)
    if row is None:
        return None
    return {
        "@odata.id": path,
        "@odata.type": kind("BootOption"),
        "Id": option,
        "Name": row[0],
        "DisplayName": row[0],
        "BootOptionReference": option,
        "BootOptionEnabled": True,
        "Alias": row[1],
    }
