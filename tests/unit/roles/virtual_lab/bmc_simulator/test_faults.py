# Named faults, and the switches that only they use: each must be seen by a client.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import hashlib
import http.client
import json
import socket
import ssl
import time

import pytest
from bmc_http import CONTEXT, RESET, WORKER, S, ask

from bmc_simulator.behaviour import check_value
from bmc_simulator.faults import FAULTS
from bmc_simulator.fleet import Fleet, describe, parser
from bmc_simulator.testing import firmware_image, fleet

SESSIONS = "/redfish/v1/SessionService/Sessions"
BIOS = f"{S}/Bios"
MANAGER = "/redfish/v1/Managers/BMC"
UPDATE = "/redfish/v1/UpdateService"


@pytest.fixture(scope="module")
def shared():
    quick = {"power_lag_s": 0.02, "task_seconds": 0.2, "manager_reset_s": 0.2}
    with fleet(count=60, address=f"127.{WORKER}.11.1", behaviour=quick) as running:
        running.unused = iter(running.bmcs)
        yield running


@pytest.fixture
def bmc(shared):
    return next(shared.unused)


@pytest.fixture
def fault(shared, bmc):
    """Lay switches over the test's BMC."""
    return lambda **values: shared.set_behaviour(bmc.name, **values)


def test_every_named_fault_is_made_of_switches():
    for name, (values, meaning) in FAULTS.items():
        assert meaning.endswith("."), name
        for switch, value in values.items():
            check_value(switch, value)


def test_all_faults_on_the_command_line(tmp_path):
    options = parser().parse_args(["--count", "1000", "--all-faults", "1%", "--dir", str(tmp_path)])
    made = Fleet(describe(options))
    dealt = [name for number in range(1, 1001) for name in made.faults_of(f"sim{number:05d}")]
    assert {name: dealt.count(name) for name in FAULTS} == dict.fromkeys(FAULTS, 10)


def test_sessions_taken(bmc, fault):
    fault(sessions_taken=True)
    answer = ask(bmc, "POST", SESSIONS, {"UserName": bmc.username, "Password": bmc.password})
    assert answer.message_ids == ["SessionLimitExceeded"]
    assert ask(bmc, "GET", S).status == 200  # Basic works


def test_lockout_after(bmc, fault):
    fault(lockout_after=2, lockout_s=0.5)
    for _turn in range(2):
        ask(bmc, "GET", S, password="wrong")
    assert ask(bmc, "GET", S).status == 401
    time.sleep(0.6)
    assert ask(bmc, "GET", S).status == 200


def _fingerprint(bmc):
    with socket.create_connection((bmc.address, bmc.port), timeout=10) as raw, CONTEXT.wrap_socket(raw) as connection:
        return hashlib.sha256(connection.getpeercert(True)).hexdigest()


def test_certificates(shared, bmc, fault):
    verified = ssl.create_default_context(cafile=shared.ca_path)

    def trusted():
        with socket.create_connection((bmc.address, bmc.port), timeout=10) as raw:
            with verified.wrap_socket(raw, server_hostname=bmc.address):
                return _fingerprint(bmc)

    first = trusted()
    assert first == bmc.fingerprint
    fault(certificate="changed")
    assert trusted() != first
    for kind, complaint in (("self_signed", "self.signed"), ("expired", "expired")):
        fault(certificate=kind)
        with pytest.raises(ssl.SSLCertVerificationError, match=complaint):
            trusted()
    assert ask(bmc, "GET", "/redfish/v1").status == 200
    shared.reset_behaviour(bmc.name)
    assert trusted() == first


def test_a_slow_path(bmc, fault):
    fault(slow_path="/FirmwareInventory$", slow_s=0.4)
    began = time.monotonic()
    ask(bmc, "GET", f"{UPDATE}/FirmwareInventory")
    slow, began = time.monotonic() - began, time.monotonic()
    ask(bmc, "GET", f"{UPDATE}/FirmwareInventory/BMC")
    assert slow >= 0.4 > time.monotonic() - began


def test_a_client_that_does_not_wait_leaves_nothing_in_flight(shared, bmc, fault):
    fault(slow_path="/FirmwareInventory$", slow_s=60)
    for _turn in range(3):
        with pytest.raises(TimeoutError):
            ask(bmc, "GET", f"{UPDATE}/FirmwareInventory", timeout=1.0)
        time.sleep(1.5)
    assert shared.counters(bmc.name)["in_flight_peak"] == 1


def test_a_reused_connection_is_cut(bmc, fault):
    fault(reset_reused=True)
    connection = http.client.HTTPSConnection(bmc.address, bmc.port, timeout=10, context=CONTEXT)
    connection.request("GET", "/redfish/v1")
    connection.getresponse().read()
    with pytest.raises((OSError, http.client.HTTPException)):
        connection.request("GET", "/redfish/v1")
        connection.getresponse()
    connection.close()


def test_broken_json(bmc, fault):
    fault(broken_json_every_n=1)
    with pytest.raises(json.JSONDecodeError):
        ask(bmc, "GET", S)


def test_busy_for_a_while_after_a_restart(shared, bmc, fault):
    fault(warmup_s=30)
    ask(bmc, "POST", f"{MANAGER}/Actions/Manager.Reset", {"ResetType": "ForceRestart"})
    time.sleep(0.25)

    def back(_state):
        try:
            return ask(bmc, "GET", S).status == 503
        except OSError:
            return False

    shared.wait(bmc.name, back)


def test_a_stuck_bios_job_and_a_vanished_attribute_go_with_a_reset(shared, bmc, fault):
    fault(bios_job_stuck=True, vanished=["SriovGlobalEnable"])
    wanted = {"Attributes": {"SriovGlobalEnable": "Disabled"}}
    assert ask(bmc, "PATCH", f"{BIOS}/Settings", wanted).status == 503
    assert "SriovGlobalEnable" not in ask(bmc, "GET", BIOS).json["Attributes"]
    fault(bios_job_stuck=False)
    assert ask(bmc, "PATCH", f"{BIOS}/Settings", wanted).message_ids == ["PropertyUnknown"]
    fault(bios_job_stuck=True)
    ask(bmc, "POST", f"{MANAGER}/Actions/Manager.Reset", {"ResetType": "ForceRestart"})

    def back(_state):
        try:
            return "SriovGlobalEnable" in ask(bmc, "GET", BIOS).json["Attributes"]
        except OSError:
            return False

    shared.wait(bmc.name, back)
    assert ask(bmc, "PATCH", f"{BIOS}/Settings", wanted).status == 200


def test_unlicensed(bmc, fault):
    fault(license_required=["update", "bios", "media"])
    answers = (
        ask(bmc, "PATCH", f"{BIOS}/Settings", {"Attributes": {"BootMode": "Uefi"}}),
        ask(bmc, "POST", f"{UPDATE}/update", firmware_image("BIOS", "2.0")),
        ask(bmc, "POST", f"{S}/VirtualMedia/Cd/Actions/VirtualMedia.InsertMedia", {"Image": "http://192.0.2.1/a.iso"}),
    )
    for answer in answers:
        assert answer.status == 403 and answer.message_ids == ["OemLicenseNotPassed"]
        assert "SFT-OOB-LIC" in answer.json["error"]["message"]


def test_redirects_with_another_status(bmc, fault):
    fault(redirect_slash=True, redirect_status=301, etag_required=True, etag_missing_status=412)
    assert ask(bmc, "POST", RESET, {"ResetType": "On"}).status == 301
    assert ask(bmc, "PATCH", f"{S}/", {"AssetTag": "x"}).status == 412


def test_expanded_members_lack_what_they_should_have(bmc, fault):
    fault(expand_partial=True)
    member = ask(bmc, "GET", "/redfish/v1/Systems?$expand=.").json["Members"][0]
    assert "Id" not in member and "SerialNumber" in member


def test_the_gpu_baseboard_is_not_there_while_the_server_is_off(shared, bmc, fault):
    fault(two_systems="hgx_first", secondary_needs_power=True)
    assert ask(bmc, "GET", "/redfish/v1/Systems/HGX_Baseboard_0").status == 503
    ask(bmc, "POST", RESET, {"ResetType": "On"})
    shared.wait(bmc.name, lambda state: state["running"])
    assert ask(bmc, "GET", "/redfish/v1/Systems/HGX_Baseboard_0").status == 200


def test_media_and_log_parameters_that_are_wanted(bmc, fault):
    fault(media_needs=["TransferProtocolType"], clear_log_needs_type=True)
    insert = f"{S}/VirtualMedia/Cd/Actions/VirtualMedia.InsertMedia"
    answer = ask(bmc, "POST", insert, {"Image": "http://192.0.2.1/a.iso"})
    assert answer.status == 400
    assert answer.json["error"]["@Message.ExtendedInfo"][0]["RelatedProperties"] == ["#/TransferProtocolType"]
    clear = f"{S}/LogServices/SEL/Actions/LogService.ClearLog"
    assert ask(bmc, "POST", clear, {}).status == 400
    assert ask(bmc, "POST", clear, {"ClearType": "ClearAll"}).status == 204


def test_a_task_that_comes_late(bmc, fault):
    fault(task_late_s=0.4, task_seconds=1)
    answer = ask(bmc, "POST", f"{UPDATE}/update", firmware_image("BIOS", "2.0"))
    assert ask(bmc, "GET", answer.headers["Location"]).status == 404
    time.sleep(0.5)
    assert ask(bmc, "GET", answer.headers["Location"]).status == 202


def test_an_update_without_a_task(shared, bmc, fault):
    fault(update_answers_200=True)
    answer = ask(bmc, "POST", f"{UPDATE}/update", firmware_image("BIOS", "2.0"))
    assert answer.status == 200 and "TaskState" not in answer.json
    shared.wait(bmc.name, lambda state: state["firmware"]["BIOS"] == "2.0")


def test_a_bmc_that_runs_out_of_memory(shared, bmc, fault):
    fault(update_pause_s=30)
    ask(bmc, "POST", f"{UPDATE}/update", firmware_image("BIOS", "2.0"))
    shared.wait(bmc.name, lambda state: state["firmware"]["BIOS"] == "2.0")
    ask(bmc, "POST", f"{UPDATE}/update", firmware_image("BIOS", "3.0"))
    shared.wait(bmc.name, lambda state: "Exception" in state["tasks"].values())
    assert shared.state(bmc.name)["firmware"]["BIOS"] == "2.0"


def test_the_write_log_says_what_changed(shared, bmc):
    ask(bmc, "PATCH", S, {"AssetTag": "a1", "Boot": {"BootSourceOverrideTarget": "Pxe"}})
    ask(bmc, "PATCH", "/redfish/v1/AccountService/Accounts/1", {"Password": "another-secret"})
    first, second = shared.requests(bmc.name)
    assert first["body"] == {"AssetTag": "a1", "Boot": {"BootSourceOverrideTarget": "Pxe"}}
    assert {(row["pointer"], row["before"], row["after"]) for row in first["changes"]} == {
        ("/AssetTag", "", "a1"),
        ("/Boot/BootSourceOverrideTarget", "None", "Pxe"),
        ("/Boot/BootSourceOverrideEnabled", "Disabled", "Once"),
    }
    assert second["body"] == {"Password": "***"} and "another-secret" not in json.dumps(second)
