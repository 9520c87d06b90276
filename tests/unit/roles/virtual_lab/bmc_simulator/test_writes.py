# What PATCH, POST and DELETE do: accounts, boot, BIOS, media, updates, the BMC itself.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import http.server
import threading
import time

import pytest
from bmc_http import RESET, S, ask

from bmc_simulator.testing import firmware_image, running

ACCOUNTS = "/redfish/v1/AccountService/Accounts"
UPDATE = "/redfish/v1/UpdateService"


@pytest.fixture
def off(lab, bmc):
    """The node is off and has no override when a test starts."""
    ask(bmc, "POST", RESET, {"ResetType": "ForceOff"})
    ask(bmc, "PATCH", S, {"Boot": {"BootSourceOverrideTarget": "None"}})
    lab.wait("gpu01", lambda state: state["power"] == "Off")


def reset(lab, bmc, kind, power):
    assert ask(bmc, "POST", RESET, {"ResetType": kind}).status == 204
    return lab.wait("gpu01", lambda state: state["power"] == power)


def boot(bmc, **values):
    return ask(bmc, "PATCH", S, {"Boot": {f"BootSourceOverride{key}": value for key, value in values.items()}})


# ---- accounts ----------------------------------------------------------------------------------


def test_an_account_from_birth_to_death(bmc):
    new = {"UserName": "site", "Password": "a-good-secret", "RoleId": "Operator"}
    answer = ask(bmc, "POST", ACCOUNTS, new)
    place = answer.headers["Location"]
    assert answer.status == 201 and answer.json["Password"] is None
    assert ask(bmc, "POST", ACCOUNTS, new).status == 409
    assert ask(bmc, "GET", S, username="site", password="a-good-secret").status == 200
    assert ask(bmc, "PATCH", place, {"RoleId": "ReadOnly", "Password": "another-secret"}).status == 200
    assert ask(bmc, "GET", S, username="site", password="a-good-secret").status == 401
    assert ask(bmc, "POST", RESET, {"ResetType": "On"}, username="site", password="another-secret").status == 403
    assert ask(bmc, "DELETE", place).status == 204
    assert ask(bmc, "GET", S, username="site", password="another-secret").status == 401


@pytest.mark.parametrize("body", [{"UserName": "x"}, {"UserName": "x", "Password": "short", "RoleId": "Operator"},
                                  {"UserName": "x", "Password": "long-enough", "RoleId": "Emperor"}])  # fmt: skip
def test_an_account_that_is_refused(bmc, body):
    assert ask(bmc, "POST", ACCOUNTS, body).status == 400


def test_the_last_administrator_stays(bmc):
    assert ask(bmc, "DELETE", f"{ACCOUNTS}/1").status == 409


def test_lockout(lab, bmc):
    ask(bmc, "POST", ACCOUNTS, {"UserName": "locky", "Password": "right-secret", "RoleId": "ReadOnly"})
    ask(bmc, "PATCH", "/redfish/v1/AccountService", {"AccountLockoutThreshold": 2})
    for _turn in range(2):
        ask(bmc, "GET", S, username="locky", password="wrong")
    assert ask(bmc, "GET", S, username="locky", password="right-secret").status == 401
    place = next(
        f"{ACCOUNTS}/{account['id']}" for account in lab.state("gpu01")["accounts"] if account["username"] == "locky"
    )
    assert ask(bmc, "GET", place).json["Locked"] is True
    assert ask(bmc, "PATCH", place, {"Locked": False}).status == 200
    assert ask(bmc, "GET", S, username="locky", password="right-secret").status == 200
    ask(bmc, "PATCH", "/redfish/v1/AccountService", {"AccountLockoutThreshold": 0})


def test_password_change_is_asked_for_and_survives_a_restart(tmp_path):
    with running(1, directory=tmp_path, behaviour={"password_change_required": True}) as lab:
        bmc = lab["gpu01"]
        refused = ask(bmc, "GET", S)
        assert refused.status == 403 and refused.message_ids == ["PasswordChangeRequired"]
        place = refused.json["error"]["@Message.ExtendedInfo"][0]["MessageArgs"][0]
        assert ask(bmc, "PATCH", place, {"Password": "site-secret-1"}).status == 200
        assert ask(bmc, "GET", S, password="site-secret-1").status == 200
        fingerprint = bmc.fingerprint
    with running(1, directory=tmp_path, behaviour={"password_change_required": True}) as lab:
        bmc = lab["gpu01"]
        assert ask(bmc, "GET", S, password="site-secret-1").status == 200
        assert ask(bmc, "GET", S).status == 401
        assert bmc.fingerprint == fingerprint
    assert (tmp_path / "lab/nodes/gpu01/bmc-state.json").stat().st_mode & 0o077 == 0


# ---- power and boot ----------------------------------------------------------------------------


def test_power(lab, bmc, off):
    reset(lab, bmc, "On", "On")
    reset(lab, bmc, "GracefulShutdown", "Off")
    reset(lab, bmc, "PushPowerButton", "On")
    reset(lab, bmc, "ForceOff", "Off")
    assert ask(bmc, "POST", RESET, {"ResetType": "Explode"}).message_ids == ["ActionParameterValueNotInList"]
    assert ask(bmc, "POST", RESET, {}).message_ids == ["ActionParameterMissing"]


def test_power_follows_after_the_lag(lab, bmc, off):
    lab.set_behaviour(power_lag_s=0.6, intermediate_power_states=True)
    ask(bmc, "POST", RESET, {"ResetType": "On"})
    lab.wait("gpu01", lambda state: state["power"] == "PoweringOn", 0.5)
    assert ask(bmc, "GET", S).json["PowerState"] == "PoweringOn"
    lab.wait("gpu01", lambda state: state["power"] == "On")


def test_accepted_and_not_done(lab, bmc, off):
    lab.set_behaviour(accept_and_do_nothing=["power", "boot"])
    assert ask(bmc, "POST", RESET, {"ResetType": "On"}).status == 204
    assert boot(bmc, Target="Pxe", Enabled="Once").status == 200
    time.sleep(0.2)
    state = lab.state("gpu01")
    assert state["power"] == "Off" and state["override"]["target"] == "None"


def test_once_is_used_once(lab, bmc, off):
    answer = boot(bmc, Target="Pxe", Enabled="Once").json["Boot"]
    assert (answer["BootSourceOverrideTarget"], answer["BootSourceOverrideEnabled"]) == ("Pxe", "Once")
    seen = len(lab.events("gpu01"))
    reset(lab, bmc, "On", "On")
    assert lab.state("gpu01")["override"]["enabled"] == "Disabled"
    ask(bmc, "POST", RESET, {"ResetType": "ForceRestart"})
    lab.wait("gpu01", lambda _state: any(event["event"] == "boot" for event in lab.events("gpu01")[seen:]))
    boots = [
        (event["event"], event["target"], event["source"]) for event in lab.events("gpu01")[seen:] if "source" in event
    ]
    assert boots == [("power_on", "Pxe", "once"), ("boot", "None", "order")]


def test_continuous_stays(lab, bmc, off):
    boot(bmc, Target="Hdd", Enabled="Continuous")
    reset(lab, bmc, "On", "On")
    assert lab.state("gpu01")["override"] == {"target": "Hdd", "enabled": "Continuous", "mode": "UEFI", "uri": None}


@pytest.mark.parametrize(
    "mode, sent, status", [("absent", "UEFI", 400), ("read_only", "UEFI", 400), ("optional", "Legacy", 200)]
)
def test_boot_mode(lab, bmc, off, mode, sent, status):
    lab.set_behaviour(boot_mode=mode)
    assert ("BootSourceOverrideMode" in ask(bmc, "GET", S).json["Boot"]) == (mode != "absent")
    assert boot(bmc, Target="Pxe", Mode=sent).status == status
    boot(bmc, Target="None")
    lab.reset_behaviour()
    boot(bmc, Mode="UEFI")


def test_without_the_required_mode_it_falls_back_to_legacy(lab, bmc, off):
    lab.set_behaviour(boot_mode="required")
    boot(bmc, Target="Pxe", Enabled="Once")
    assert lab.state("gpu01")["override"]["mode"] == "Legacy"
    boot(bmc, Target="None", Mode="UEFI")


def test_a_patch_that_is_partly_wrong(bmc):
    answer = ask(bmc, "PATCH", S, {"AssetTag": "ok", "Model": "x"})
    assert answer.status == 200 and answer.json["AssetTag"] == "ok"
    assert answer.json["@Message.ExtendedInfo"][0]["MessageId"].endswith("PropertyNotWritable")
    assert ask(bmc, "PATCH", S, {"Model": "x"}).message_ids == ["PropertyNotWritable"]
    assert ask(bmc, "PATCH", S, {"Nonsense": "x"}).message_ids == ["PropertyUnknown"]


# ---- BIOS, media, updates, BMC -----------------------------------------------------------------


def test_bios_values_wait_for_the_next_boot(lab, bmc, off):
    settings = f"{S}/Bios/Settings"
    assert ask(bmc, "PATCH", settings, {"Attributes": {"HyperThreading": "Maybe"}}).status == 400
    assert ask(bmc, "PATCH", settings, {"Attributes": {"HyperThreading": "Disabled"}}).status == 200
    assert ask(bmc, "GET", f"{S}/Bios").json["Attributes"]["HyperThreading"] == "Enabled"
    assert ask(bmc, "GET", settings).json["Attributes"]["HyperThreading"] == "Disabled"
    reset(lab, bmc, "On", "On")
    assert ask(bmc, "GET", f"{S}/Bios").json["Attributes"]["HyperThreading"] == "Disabled"


@pytest.mark.parametrize("owner", [S, "/redfish/v1/Managers/BMC"])
def test_media(bmc, owner):
    media = f"{owner}/VirtualMedia/Cd"
    insert, eject = f"{media}/Actions/VirtualMedia.InsertMedia", f"{media}/Actions/VirtualMedia.EjectMedia"
    assert ask(bmc, "POST", insert, {"Image": "file:///etc/passwd"}).status == 400
    assert ask(bmc, "POST", insert, {"Image": "http://10.0.0.1/os.iso"}).status == 204
    shown = ask(bmc, "GET", f"{S}/VirtualMedia/Cd").json
    assert shown["Inserted"] is True and shown["ImageName"] == "os.iso"
    assert ask(bmc, "POST", eject, {}).status == 204
    assert ask(bmc, "GET", media).json["Image"] is None


def finish(bmc, answer):
    assert answer.status == 202
    end = time.monotonic() + 10
    while time.monotonic() < end:
        monitor = ask(bmc, "GET", answer.headers["Location"])
        if monitor.status != 202:
            return monitor
        time.sleep(0.05)
    raise AssertionError("the task does not end")


def multipart(image):
    boundary = "----lab"
    parts = [
        f'--{boundary}\r\nContent-Disposition: form-data; name="UpdateParameters"\r\nContent-Type: application/json\r\n\r\n'
        '{"Targets": []}\r\n'.encode(),
        f'--{boundary}\r\nContent-Disposition: form-data; name="UpdateFile"; filename="fw.bin"\r\n'
        "Content-Type: application/octet-stream\r\n\r\n".encode()
        + image
        + b"\r\n",
        f"--{boundary}--\r\n".encode(),
    ]
    return b"".join(parts), {"Content-Type": f"multipart/form-data; boundary={boundary}"}


def test_multipart_update_of_the_bios(lab, bmc, off):
    body, headers = multipart(firmware_image("BIOS", "2.1.0", 300_000))
    task = finish(bmc, ask(bmc, "POST", f"{UPDATE}/update-multipart", body, headers=headers)).json
    assert task["TaskState"] == "Completed" and task["PercentComplete"] == 100
    assert ask(bmc, "GET", f"{UPDATE}/FirmwareInventory/BIOS").json["Version"] == "2.1.0"
    assert list((lab.directory / "lab/nodes/gpu01").glob("up*")) == []


def test_an_update_with_a_foreign_image_fails(bmc):
    answer = ask(bmc, "POST", f"{UPDATE}/update", b"garbage", headers={"Content-Type": "application/octet-stream"})
    task = finish(bmc, answer).json
    assert task["TaskState"] == "Exception" and "not a firmware image" in task["Messages"][0]["Message"] + str(
        task["Messages"]
    )


def test_simple_update_fetches_its_image(bmc):
    image = firmware_image("CPLD", "3.0.0")

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200 if self.path == "/fw.bin" else 404)
            self.send_header("Content-Length", str(len(image)))
            self.end_headers()
            self.wfile.write(image)

        def log_message(self, *_args):
            pass

    with http.server.HTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            url, action = f"http://127.0.0.1:{server.server_port}", f"{UPDATE}/Actions/UpdateService.SimpleUpdate"
            assert (
                finish(bmc, ask(bmc, "POST", action, {"ImageURI": f"{url}/none.bin"})).json["TaskState"] == "Exception"
            )
            assert finish(bmc, ask(bmc, "POST", action, {"ImageURI": f"{url}/fw.bin"})).json["TaskState"] == "Completed"
        finally:
            server.shutdown()


def test_a_task_that_is_gone_when_it_is_over(lab, bmc):
    lab.set_behaviour(task_monitor_gone=True)
    answer = ask(bmc, "POST", f"{UPDATE}/update", firmware_image("CPLD", "4.0.0"))
    assert finish(bmc, answer).status == 404


def test_a_reset_bmc_is_away_and_comes_back_without_sessions(lab, bmc):
    login = ask(
        bmc,
        "POST",
        "/redfish/v1/SessionService/Sessions",
        {"UserName": bmc.username, "Password": bmc.password},
        auth=False,
    )
    started = ask(bmc, "GET", "/redfish/v1/Managers/BMC").json["LastResetTime"]
    assert (
        ask(bmc, "POST", "/redfish/v1/Managers/BMC/Actions/Manager.Reset", {"ResetType": "ForceRestart"}).status == 204
    )
    end, away = time.monotonic() + 10, False
    while time.monotonic() < end:
        try:
            if ask(bmc, "GET", S).status == 200 and away:
                break
        except OSError:
            away = True
        time.sleep(0.02)
    assert away and time.monotonic() < end
    assert ask(bmc, "GET", S, headers={"X-Auth-Token": login.headers["X-Auth-Token"]}).status == 401
    assert lab["gpu01"].port == bmc.port
    assert ask(bmc, "GET", "/redfish/v1/Managers/BMC").json["LastResetTime"] > started


def test_clear_log(bmc):
    entries = f"{S}/LogServices/SEL/Entries"
    ask(bmc, "PATCH", S, {"Boot": {"BootSourceOverrideTarget": "None"}})
    assert ask(bmc, "GET", entries).json["Members@odata.count"] > 0
    assert ask(bmc, "POST", f"{S}/LogServices/SEL/Actions/LogService.ClearLog", {}).status == 204
    assert ask(bmc, "GET", entries).json["Members"] == []
