# Components, images and their rules, and which reset makes a written image run.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import contextlib
import http.client
import time

import pytest
from bmc_http import WORKER, S, ask

from bmc_simulator import firmware
from bmc_simulator.testing import firmware_image, fleet

UPDATE = "/redfish/v1/UpdateService"
INVENTORY = f"{UPDATE}/FirmwareInventory"
CHASSIS = "/redfish/v1/Chassis/1"
PARTS = {
    "BMC": {"version": "1.0.0", "auto": False},
    "BIOS": "1.0.0",
    "CPLD": {"version": "1.0.0", "activation": "ac_cycle"},
    "HGX": {"version": "1.0.0", "activation": "aux_cycle", "id": "HGX_FW_GPU", "name": "GPU tray"},
    "PSU": {"version": "1.0.0", "activation": "immediate"},
}


@pytest.fixture(scope="module")
def shared():
    quick = {"power_lag_s": 0.02, "task_seconds": 0.1, "manager_reset_s": 0.2, "aux_power_reset": True}
    with fleet(count=20, address=f"127.{WORKER}.9.1", behaviour=quick, components=PARTS) as running:
        running.unused = iter(running.bmcs)
        yield running


@pytest.fixture
def bmc(shared):
    """A BMC that no other test has used."""
    return next(shared.unused)


def push(bmc, image, deadline_s=10.0):
    """Send an image, follow its task to the end, return it."""
    answer = ask(bmc, "POST", f"{UPDATE}/update", image, headers={"Content-Type": "application/octet-stream"})
    assert answer.status == 202, answer
    end = time.monotonic() + deadline_s
    while time.monotonic() < end:
        task = ask(bmc, "GET", answer.json["@odata.id"])
        if task.status != 200 or task.json["TaskState"] not in ("Running", "New"):
            return task.json
        time.sleep(0.02)
    raise AssertionError(f"the task goes on: {task.json}")


def version(bmc, identity):
    return ask(bmc, "GET", f"{INVENTORY}/{identity}").json["Version"]


def staged(bmc, identity):
    return ask(bmc, "GET", f"{INVENTORY}/{identity}").json.get("Oem", {}).get("AICluster", {}).get("StagedVersion")


def test_immediate(shared, bmc):
    assert push(bmc, firmware_image("PSU", "2.0"))["TaskState"] == "Completed"
    assert version(bmc, "PSU") == "2.0"


def test_a_bmc_image_runs_after_the_bmc_restarts(shared, bmc):
    push(bmc, firmware_image("BMC", "2.0"))
    assert (version(bmc, "BMC"), staged(bmc, "BMC")) == ("1.0.0", "2.0")
    ask(bmc, "POST", "/redfish/v1/Managers/BMC/Actions/Manager.Reset", {"ResetType": "ForceRestart"})
    shared.wait(bmc.name, lambda state: state["firmware"]["BMC"] == "2.0")


def test_a_bios_image_runs_after_the_host_restarts(shared, bmc):
    ask(bmc, "POST", f"{S}/Actions/ComputerSystem.Reset", {"ResetType": "On"})
    shared.wait(bmc.name, lambda state: state["running"])
    push(bmc, firmware_image("BIOS", "2.0"))
    assert (version(bmc, "BIOS"), staged(bmc, "BIOS")) == ("1.0.0", "2.0")
    ask(bmc, "POST", f"{S}/Actions/ComputerSystem.Reset", {"ResetType": "ForceRestart"})
    shared.wait(bmc.name, lambda state: state["firmware"]["BIOS"] == "2.0")


def test_an_aux_cycle_is_not_enough_for_what_needs_mains_off(shared, bmc):
    for name in ("CPLD", "HGX", "BMC"):
        push(bmc, firmware_image(name, "2.0"))
    ask(bmc, "POST", f"{S}/Actions/ComputerSystem.Reset", {"ResetType": "On"})
    shared.wait(bmc.name, lambda state: state["running"])
    action = f"{CHASSIS}/Actions/Oem/NvidiaChassis.AuxPowerReset"
    assert ask(bmc, "POST", action, {"ResetType": "AuxPowerCycle"}).status == 400  # the server is on
    assert ask(bmc, "POST", action, {"ResetType": "AuxPowerCycleForce"}).status == 204
    state = shared.wait(bmc.name, lambda state: state["firmware"]["HGX"] == "2.0" and state["running"])
    assert (state["firmware"]["BMC"], state["firmware"]["CPLD"]) == ("2.0", "1.0.0")
    shared.wait(bmc.name, lambda _state: _back(bmc))
    assert ask(bmc, "POST", f"{CHASSIS}/Actions/Chassis.Reset", {"ResetType": "FullPowerCycle"}).status == 204
    shared.wait(bmc.name, lambda state: state["firmware"]["CPLD"] == "2.0")


def _back(bmc):
    with contextlib.suppress(OSError):
        return ask(bmc, "GET", S).status == 200
    return False


def test_an_image_is_only_taken_from_the_versions_it_names(shared, bmc):
    task = push(bmc, firmware_image("PSU", "3.0", accepts=[">=2.0", "<3.0"]))
    assert task["TaskState"] == "Exception" and "PSU runs 1.0.0" in str(task["Messages"])
    push(bmc, firmware_image("PSU", "2.0"))
    assert push(bmc, firmware_image("PSU", "3.0", accepts=[">=2.0", "<3.0"]))["TaskState"] == "Completed"
    task = push(bmc, firmware_image("BIOS", "2.0", requires={"PSU": [">=4"]}))
    assert task["TaskState"] == "Exception" and "needs PSU" in str(task["Messages"])
    rows = shared.images()[bmc.name]
    assert [(row["components"], row["outcome"]) for row in rows] == [
        ({"PSU": "3.0"}, "refused"),
        ({"PSU": "2.0"}, "written"),
        ({"PSU": "3.0"}, "written"),
        ({"BIOS": "2.0"}, "refused"),
    ]
    assert shared.counters(bmc.name)["image_pushes"] == 4


def test_targets_name_the_inventory_id(shared, bmc):
    boundary = "x-cut-x"
    body = (
        f'--{boundary}\r\nContent-Disposition: form-data; name="UpdateParameters"\r\nContent-Type: application/json\r\n'
        f'\r\n{{"Targets": ["{INVENTORY}/HGX_FW_GPU"]}}\r\n--{boundary}\r\nContent-Disposition: form-data; '
        'name="UpdateFile"; filename="f"\r\nContent-Type: application/octet-stream\r\n\r\n'
    ).encode() + firmware_image("HGX", "5.0")
    body += f"\r\n--{boundary}--\r\n".encode()
    headers = {"Content-Type": f"multipart/form-data; boundary={boundary}"}
    assert ask(bmc, "POST", f"{UPDATE}/update-multipart", body, headers=headers).status == 202
    shared.wait(bmc.name, lambda state: state["firmware_pending"].get("HGX") == "5.0")


def test_a_cut_upload_is_not_an_image(shared, bmc):
    shared.set_behaviour(bmc.name, upload_cut_after=1000, upload_cut_times=1)
    with pytest.raises((OSError, http.client.HTTPException)):
        push(bmc, firmware_image("PSU", "2.0", size=3_000_000))
    assert shared.counters(bmc.name)["image_pushes"] == 0
    assert push(bmc, firmware_image("PSU", "2.0", size=3_000_000))["TaskState"] == "Completed"
    task = push(bmc, firmware_image("PSU", "3.0")[:-1])
    assert task["TaskState"] == "Exception" and "not whole" in str(task["Messages"])


@pytest.mark.parametrize("lie, shown", [("percent", "Running"), ("state", "Completed")])
def test_a_task_that_lies(shared, bmc, lie, shown):
    shared.set_behaviour(bmc.name, task_lies=lie, task_lie_s=1.0)
    answer = ask(bmc, "POST", f"{UPDATE}/update", firmware_image("PSU", "2.0"))
    end, seen = time.monotonic() + 5, None
    while time.monotonic() < end and seen != 100:
        task = ask(bmc, "GET", answer.json["@odata.id"]).json
        seen = task["PercentComplete"]
    assert (seen, task["TaskState"], version(bmc, "PSU")) == (100, shown, "1.0.0")
    shared.wait(bmc.name, lambda state: state["firmware"]["PSU"] == "2.0")


def test_the_answer_to_an_image_comes_late(shared, bmc):
    """Whoever is killed in between has sent the image and knows nothing of it."""
    shared.set_behaviour(bmc.name, update_answer_s=1.0)
    image = firmware_image("PSU", "2.0")
    with pytest.raises(TimeoutError):
        ask(bmc, "POST", f"{UPDATE}/update", image, headers={"Content-Type": "application/octet-stream"}, timeout=0.4)
    shared.wait(bmc.name, lambda state: state["firmware"]["PSU"] == "2.0")


def test_the_server_is_worse_once_a_new_image_runs(shared, bmc):
    shared.set_behaviour(bmc.name, health_after_update="Critical")
    assert ask(bmc, "GET", S).json["Status"]["Health"] == "OK"
    push(bmc, firmware_image("PSU", "2.0"))
    status = ask(bmc, "GET", S).json["Status"]
    assert (status["Health"], status["HealthRollup"]) == ("Critical", "Critical")


def test_downgrades_only_when_forced(shared, bmc):
    shared.set_behaviour(bmc.name, downgrade_refused=True)
    task = push(bmc, firmware_image("PSU", "0.9"))
    assert task["TaskState"] == "Exception" and "newer than 0.9" in str(task["Messages"])


def test_one_update_at_a_time(shared, bmc):
    shared.set_behaviour(bmc.name, update_exclusive=True, task_seconds=2)
    assert ask(bmc, "POST", f"{UPDATE}/update", firmware_image("PSU", "2.0")).status == 202
    second = ask(bmc, "POST", f"{UPDATE}/update", firmware_image("PSU", "2.1"))
    assert second.status == 503 and second.headers["Retry-After"]


@pytest.mark.parametrize(
    "one, two, order", [("1.2", "1.2.0", 0), ("1.10", "1.9", 1), ("2.0a", "2.0b", -1), ("1.0", "1.0.1", -1)]
)
def test_order_of_versions(one, two, order):
    assert firmware.compare(one, two) == order
    assert firmware.compare(two, one) == -order


def test_conditions():
    assert firmware.fits("1.5", [">=1.2", "<2"]) and not firmware.fits("2.0", [">=1.2", "<2"])
    with pytest.raises(ValueError, match="wants a condition"):
        firmware.fits("1.0", ["about 2"])


def test_a_table_of_components():
    table = firmware.components({"BMC": "7", "CPLD": None, "NIC": {"version": "3", "activation": "ac_cycle"}})
    assert (table["BMC"].version, table["BMC"].activation, "CPLD" in table) == ("7", "bmc_reset", False)
    for wrong, complaint in (
        ({"X": {}}, "no version"),
        ({"X": {"version": "1", "activation": "y"}}, "activation wants"),
    ):
        with pytest.raises(ValueError, match=complaint):
            firmware.components(wrong)
