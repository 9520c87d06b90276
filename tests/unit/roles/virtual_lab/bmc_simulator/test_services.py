# Volumes, boot order, sensors, certificates, time servers, subscriptions, secure boot: what a client can change and what it then reads.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import datetime
import hashlib
import socket
import ssl

import pytest
from bmc_http import CONTEXT, RESET, WORKER, S, ask
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization

from bmc_simulator.certificate import Authority
from bmc_simulator.testing import fleet, node_config, running

RAID = f"{S}/Storage/scsi"
NETWORK = "/redfish/v1/Managers/BMC/NetworkProtocol"
CERTIFICATES = f"{NETWORK}/HTTPS/Certificates"
SERVICE = "/redfish/v1/CertificateService/Actions/CertificateService"
SUBSCRIPTIONS = "/redfish/v1/EventService/Subscriptions"
CHASSIS = "/redfish/v1/Chassis/1"


@pytest.fixture(scope="module")
def shared():
    quick = {"power_lag_s": 0.02}
    with fleet(count=20, address=f"127.{WORKER}.15.1", behaviour=quick, ipmi=True) as running_fleet:
        running_fleet.unused = iter(running_fleet.bmcs)
        yield running_fleet


@pytest.fixture
def bmc(shared):
    return next(shared.unused)


def drives(*slots):
    return {"Drives": [{"@odata.id": f"{RAID}/Drives/{slot}"} for slot in slots]}


def test_a_volume_from_making_to_deleting(bmc):
    made = ask(
        bmc, "POST", f"{RAID}/Volumes", {"RAIDType": "RAID1", "DisplayName": "os", "Links": drives("disk1", "disk2")}
    )
    assert made.status == 201 and made.json["CapacityBytes"] == 480 * 10**9
    path = made.headers["Location"]
    assert ask(bmc, "GET", f"{RAID}/Drives/disk1").json["Links"]["Volumes"] == [{"@odata.id": path}]
    again = ask(bmc, "POST", f"{RAID}/Volumes", {"RAIDType": "RAID0", "Links": drives("disk1")})
    assert again.status == 409
    assert ask(bmc, "POST", f"{RAID}/Drives/disk1/Actions/Drive.SecureErase", {}).status == 409
    assert ask(bmc, "DELETE", path).status == 204
    assert ask(bmc, "GET", f"{RAID}/Volumes").json["Members"] == []
    assert ask(bmc, "POST", f"{RAID}/Drives/disk1/Actions/Drive.SecureErase", {}).status == 202


@pytest.mark.parametrize(
    "body, complaint",
    [
        ({"RAIDType": "RAID1", "Links": drives("disk1")}, "PropertyValueIncorrect"),
        ({"RAIDType": "RAID7", "Links": drives("disk1")}, "PropertyValueNotInList"),
        ({"RAIDType": "RAID0", "Links": drives("disk0")}, "PropertyValueNotInList"),
        ({"Links": drives("disk1")}, "CreateFailedMissingReqProperties"),
        ({"RAIDType": "RAID0", "Links": drives("disk1"), "CapacityBytes": 10**15}, "PropertyValueOutOfRange"),
    ],
)
def test_volumes_that_cannot_be(shared, body, complaint):
    bmc = shared.bmcs[19]
    assert ask(bmc, "POST", f"{RAID}/Volumes", body).message_ids == [complaint]
    nvme = {"RAIDType": "RAID0", "Links": {"Drives": [{"@odata.id": f"{S}/Storage/nvme/Drives/disk0"}]}}
    assert ask(bmc, "POST", f"{S}/Storage/nvme/Volumes", nvme).status == 405


def test_volumes_by_task(shared, bmc):
    shared.set_behaviour(bmc.name, volume_task_s=0.2)
    made = ask(bmc, "POST", f"{RAID}/Volumes", {"RAIDType": "RAID0", "Links": drives("disk1", "disk2")})
    assert made.status == 202 and made.headers["Location"]
    shared.wait(bmc.name, lambda state: len(state["volumes"]) == 1)


def test_boot_order(bmc):
    boot = ask(bmc, "GET", S).json["Boot"]
    options = [
        row["@odata.id"].rsplit("/", 1)[1] for row in ask(bmc, "GET", boot["BootOptions"]["@odata.id"]).json["Members"]
    ]
    assert boot["BootOrder"] == options
    wanted = [options[2], options[0]]
    assert ask(bmc, "PATCH", S, {"Boot": {"BootOrder": wanted}}).status == 200
    assert ask(bmc, "GET", S).json["Boot"]["BootOrder"] == wanted + [name for name in options if name not in wanted]
    assert ask(bmc, "PATCH", S, {"Boot": {"BootOrder": ["Boot9999"]}}).status == 400


def test_sensors_follow_the_power_state(shared, bmc):
    metrics = ask(bmc, "GET", f"{CHASSIS}/EnvironmentMetrics").json
    assert metrics["PowerWatts"]["Reading"] == 35.0
    assert ask(bmc, "GET", f"{CHASSIS}/Sensors/GPU0_Temp").json["Reading"] is None
    ask(bmc, "POST", RESET, {"ResetType": "On"})
    shared.wait(bmc.name, lambda state: state["running"])
    assert ask(bmc, "GET", f"{CHASSIS}/Sensors/GPU0_Temp").json["Reading"] == 41.0
    assert ask(bmc, "GET", f"{CHASSIS}/Power").status == 404
    shared.set_behaviour(bmc.name, sensor_schemas="old")
    assert ask(bmc, "GET", f"{CHASSIS}/Power").json["PowerControl"][0]["PowerConsumedWatts"] > 1000
    assert ask(bmc, "GET", f"{CHASSIS}/Sensors").status == 404
    assert "Sensors" not in ask(bmc, "GET", CHASSIS).json


def test_time_servers(bmc):
    wanted = {"NTP": {"ProtocolEnabled": True, "NTPServers": ["10.0.0.1", "ntp.example"]}}
    assert ask(bmc, "PATCH", NETWORK, wanted).status == 200
    assert ask(bmc, "GET", NETWORK).json["NTP"] == wanted["NTP"]
    # an empty object leaves an element as it is, null takes it away
    ask(bmc, "PATCH", NETWORK, {"NTP": {"NTPServers": [None, {}]}})
    assert ask(bmc, "GET", NETWORK).json["NTP"]["NTPServers"] == ["ntp.example"]
    assert ask(bmc, "PATCH", NETWORK, {"NTP": {"NTPServers": ["a b"]}}).status == 400


def _has_ipmi(bmc):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
        client.settimeout(0.3)
        # Get Channel Authentication Capabilities
        client.sendto(bytes.fromhex("0600ff07000000000000000000092018c88100388e04b5"), (bmc.address, bmc.ipmi_port))
        try:
            return bool(client.recv(100))
        except OSError:
            return False


def test_ipmi_is_switched_off_and_on(shared, bmc):
    assert _has_ipmi(bmc)
    assert ask(bmc, "PATCH", NETWORK, {"IPMI": {"ProtocolEnabled": False}}).status == 200
    shared.wait(bmc.name, lambda _state: not _has_ipmi(bmc))
    assert ask(bmc, "GET", NETWORK).json["IPMI"]["ProtocolEnabled"] is False
    ask(bmc, "PATCH", NETWORK, {"IPMI": {"ProtocolEnabled": True}})
    shared.wait(bmc.name, lambda _state: _has_ipmi(bmc))


def test_subscriptions(bmc):
    body = {"Destination": "syslog://192.0.2.1:514", "Protocol": "SyslogUDP", "SubscriptionType": "Syslog"}
    made = ask(bmc, "POST", SUBSCRIPTIONS, body)
    assert made.status == 201 and ask(bmc, "GET", made.headers["Location"]).json["Destination"] == body["Destination"]
    assert ask(bmc, "POST", SUBSCRIPTIONS, {"Destination": "ftp://x", "Protocol": "Redfish"}).status == 400
    assert ask(bmc, "DELETE", made.headers["Location"]).status == 204
    assert ask(bmc, "GET", SUBSCRIPTIONS).json["Members"] == []


def test_secure_boot_counts_from_the_next_boot(shared, bmc):
    assert ask(bmc, "PATCH", f"{S}/SecureBoot", {"SecureBootEnable": True}).status == 200
    assert ask(bmc, "GET", f"{S}/SecureBoot").json["SecureBootCurrentBoot"] == "Disabled"
    ask(bmc, "POST", RESET, {"ResetType": "On"})
    shared.wait(bmc.name, lambda state: state["settings"]["secure_boot_now"])
    assert ask(bmc, "GET", f"{S}/SecureBoot").json["SecureBootCurrentBoot"] == "Enabled"


# ---- certificates ------------------------------------------------------------------------------


def _shown(bmc):
    with socket.create_connection((bmc.address, bmc.port), timeout=10) as raw, CONTEXT.wrap_socket(raw) as connection:
        return hashlib.sha256(connection.getpeercert(True)).hexdigest()


def _csr(bmc, **more):
    body = {
        "CertificateCollection": {"@odata.id": CERTIFICATES},
        "CommonName": "bmc.example",
        "AlternativeNames": [bmc.address],
        "Organization": "Example",
        "OrganizationalUnit": "Lab",
        "City": "Town",
        "State": "State",
        "Country": "DE",
        **more,
    }
    return ask(bmc, "POST", f"{SERVICE}.GenerateCSR", body)


def _signed(authority, text):
    request = x509.load_pem_x509_csr(text.encode())
    now = datetime.datetime.now(datetime.timezone.utc)
    return (
        x509.CertificateBuilder()
        .subject_name(request.subject)
        .issuer_name(authority.certificate.subject)
        .public_key(request.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now)
        .not_valid_after(now + datetime.timedelta(days=10))
        .add_extension(request.extensions.get_extension_for_class(x509.SubjectAlternativeName).value, False)
        .sign(authority.key, hashes.SHA256())
        .public_bytes(serialization.Encoding.PEM)
        .decode()
    )


def _replace(bmc, text):
    body = {
        "CertificateString": text,
        "CertificateType": "PEM",
        "CertificateUri": {"@odata.id": f"{CERTIFICATES}/1"},
    }
    return ask(bmc, "POST", f"{SERVICE}.ReplaceCertificate", body)


@pytest.mark.parametrize("algorithm", ["TPM_ALG_ECDSA", "TPM_ALG_RSA"])
def test_a_certificate_by_signing_request(shared, bmc, tmp_path, algorithm):
    authority, before = Authority(tmp_path), _shown(bmc)
    answer = _csr(bmc, KeyPairAlgorithm=algorithm)
    assert answer.status == 200
    assert _replace(bmc, _signed(authority, answer.json["CSRString"])).status == 200
    shared.wait(bmc.name, lambda _state: _shown(bmc) != before)
    trusted = ssl.create_default_context(cafile=str(authority.path))
    with socket.create_connection((bmc.address, bmc.port), timeout=10) as raw:
        with trusted.wrap_socket(raw, server_hostname=bmc.address):
            pass
    shown = ask(bmc, "GET", f"{CERTIFICATES}/1").json
    assert shown["Subject"]["CommonName"] == "bmc.example"
    assert shown["Fingerprint"].replace(":", "").lower() == _shown(bmc)
    # its neighbour keeps the one that they shared
    other = next(entry for entry in shared.bmcs if entry.name != bmc.name and entry.fingerprint == before)
    assert _shown(other) == before


def test_a_certificate_for_another_key_is_refused(bmc, tmp_path):
    authority = Authority(tmp_path)
    first = _csr(bmc).json["CSRString"]
    _csr(bmc)
    answer = _replace(bmc, _signed(authority, first))
    assert answer.status == 400 and "does not belong to the key" in str(answer.json)
    assert _replace(bmc, "nonsense").status == 400


def test_key_and_certificate_together_on_a_lab_bmc(tmp_path):
    with running([node_config()]) as lab:
        bmc = lab["gpu01"]
        pem = Authority(tmp_path).issue("new", ["127.0.0.1"]).decode()
        assert _replace(bmc, pem).status == 200
        logged = lab.requests("gpu01")[-1]["body"]["CertificateString"]
        assert "PRIVATE" not in logged and "BEGIN CERTIFICATE" in logged
        lab.wait("gpu01", lambda _state: _changed(lab, bmc))


def _changed(lab, bmc):
    try:
        shown = _shown(bmc)
    except OSError:
        return False
    return shown != bmc.fingerprint and lab["gpu01"].fingerprint == shown
