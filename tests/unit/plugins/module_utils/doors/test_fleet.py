# The door of fleet: options are those of the per-host modules, wrong ones are said before anything is sent, and the result is the same as the module's.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import pytest

from ansible_collections.aicluster.baremetal.plugins.module_utils.core.errors import InvalidInput
from ansible_collections.aicluster.baremetal.plugins.module_utils.doors import bmc, fleet
from bmc_simulator import testing


def test_options_are_the_modules_with_their_defaults():
    wanted = {"state": "on", "fallback": "none", "graceful_timeout": 120.0}
    assert wanted.items() <= fleet.check_options("power", {"state": "on"}).items()
    assert fleet.check_options("health", {})["accepted"] == ["OK"]
    for name, (module, seconds) in fleet.OPERATIONS.items():
        assert seconds > 0 and (module is None or module in bmc.MODULES), name
    assert fleet.usual_seconds("power", {"state": "on"}) == fleet.usual_seconds("power") == 300
    assert fleet.usual_seconds("power", {"state": "ac_cycle"}) > 900  # the BMC starts, and then the server


@pytest.mark.parametrize(
    "operation, given, later, words",
    [
        ("power", {}, (), "state"),
        ("power", {"state": "sideways"}, (), "sideways"),
        ("power", {"state": "on", "bmc_address": "10.0.0.1"}, (), "bmc_address"),
        ("log", {"state": "cleared"}, (), "logs"),
        ("account", {"username": "u", "credential": "a"}, ("credential",), "twice"),
        ("account", {}, ("credential",), "username"),
        ("account", {"username": "u"}, ("nonsense",), "nonsense"),
    ],
)
def test_wrong_options_are_said_at_once(operation, given, later, words):
    with pytest.raises(InvalidInput) as caught:
        fleet.check_options(operation, given, later)
    assert words in str(caught.value)


def test_each_hosts_own_values_are_checked_with_the_rest():
    options = fleet.check_options("boot", {}, ("target",))
    assert fleet.host_options("boot", options, {"target": "pxe"})["target"] == "pxe"
    for wrong in ("nowhere", None):
        with pytest.raises(InvalidInput):
            fleet.host_options("boot", options, {"target": wrong})


def test_a_profile_is_read_once(tmp_path):
    path = tmp_path / "profile.yml"
    path.write_text("attributes: {A: 1, B: 2}\n")
    found = fleet.check_options("bios", {"profile": str(path), "attributes": {"B": 3}})
    assert found["attributes"] == {"A": 1, "B": 3} and found["profile"] is None


# Every operation, with options that would change something where it can: a new operation without a line here fails.
WRITES = {
    "account": {"username": "second", "password": "Another-word-1"},
    "bios": {"attributes": {"BootMode": "Legacy"}},
    "boot": {"target": "pxe"},
    "firmware_info": {},
    "health": {},
    "info": {"sections": ["system"]},
    "log": {"state": "cleared", "logs": ["SEL"]},
    "power": {"state": "on"},
    "reset": {},
    "sensors": {},
    "settings": {"hostname": "another"},
    "start": {"target": "pxe", "mode": "uefi"},
    "virtual_media": {"image": "http://127.0.0.1/x.iso"},
}
READS = ("firmware_info", "health", "info", "sensors")


def connection(it):
    return {
        **dict.fromkeys(bmc.CONNECTION),
        "bmc_address": it.address,
        "bmc_port": it.port,
        "bmc_username": it.username,
        "bmc_password": it.password,
        "bmc_fingerprint": it.fingerprint,
    }


def refuse(paced=True):
    pytest.fail("a write in check mode")


def test_check_mode_of_every_operation_foretells_and_writes_nothing():
    assert set(WRITES) == set(fleet.OPERATIONS)
    with testing.running(1) as lab:
        it = lab["gpu01"]
        for action, wanted in (("On", "On"), ("ForceOff", "Off")):  # leaves entries in the log
            lab.control.call("power", node="gpu01", action=action)
            lab.wait("gpu01", lambda state, wanted=wanted: state["power"] == wanted)
        for operation, options in WRITES.items():
            params = {**fleet.check_options(operation, options), **connection(it)}
            found = fleet.call(operation, params, "gpu01", 30.0, True, True, refuse)
            assert found["changed"] == (operation not in READS), (operation, found)
            assert lab.requests("gpu01") == [], operation
            if operation == "sensors":
                assert set(found["info"]) >= {"power", "thermal"} and found["info"]["thermal"]


def test_a_start_is_the_override_and_then_the_power_each_with_its_hooks():
    hooks = []
    with testing.running(1) as lab:
        it = lab["gpu01"]
        params = {**fleet.check_options("start", WRITES["start"]), **connection(it)}

        def call(check=False):
            return fleet.call(
                "start",
                params,
                "gpu01",
                30.0,
                check,
                True,
                lambda paced=True: hooks.append("paced" if paced else "write"),
                before_power=lambda: hooks.append("power"),
            )

        foretold = call(check=True)
        assert hooks == []
        found = call()
        assert hooks == ["write", "paced", "power"]
        assert found["changed"] and found["diff"] == foretold["diff"] and found["before"]["power"] == "off"
        assert found["after"]["boot"]["target"] == "pxe" and found["after"]["power"] == "on"
        writes = [(entry["method"], entry["path"].rsplit("/", 1)[-1]) for entry in lab.requests("gpu01")]
        assert [method for method, _name in writes] == ["PATCH", "POST"] and writes[1][1] == "ComputerSystem.Reset"


def test_a_bmc_that_does_not_take_the_override_is_not_switched():
    with testing.running(1) as lab:
        it = lab["gpu01"]
        params = {**fleet.check_options("start", {"target": "cd", "http_uri": None}), **connection(it)}
        params["target"] = "uefi_http"
        params["http_uri"] = "ftp://no"
        with pytest.raises(InvalidInput):
            fleet.call("start", params, "gpu01", 30.0, False, False, None)
        assert lab.requests("gpu01") == [] and lab.state("gpu01")["power"] == "Off"


def test_the_result_is_the_modules():
    with testing.running(1) as lab:
        it = lab["gpu01"]
        params = {**fleet.check_options("boot", {"target": "pxe"}), **connection(it)}
        one = bmc.execute("bmc_boot", params, True, True, None, "gpu01")
        many = fleet.call("boot", params, "gpu01", 30.0, True, True, None)
        assert many == one and many["changed"]
        found = fleet.call(
            "health", {**params, **fleet.check_options("health", {"power": "on"})}, "gpu01", 30.0, False, False, None
        )
        assert found["failed"] and found["error"]["code"] == "health_gate" and found["outcome"] == "fail"
        assert [item["outcome"] for item in found["items"]] == ["pass", "fail"]
