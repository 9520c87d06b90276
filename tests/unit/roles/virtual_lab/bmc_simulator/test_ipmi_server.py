# IPMI of a fleet: pyghmi as the client that nobody here wrote, many BMCs on one port, both cipher suites, privileges.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import json
import pathlib
import subprocess
import sys

import pytest
from bmc_http import RESET, WORKER, S, ask

from bmc_simulator.testing import fleet

pytest.importorskip("pyghmi")

CLIENT = """
import json, sys
from pyghmi.ipmi import command
targets, user, password, steps = json.loads(sys.argv[1])
out = []
for address, port in targets:
    try:
        client = command.Command(bmc=address, userid=user, password=password, port=port)
        answers = [getattr(client, name)(*args) for name, args in steps]
        out.append([list(answer) if hasattr(answer, "send") else answer for answer in answers])
    except Exception as error:
        out.append({"error": str(error)})
print(json.dumps(out, default=str))
"""


@pytest.fixture(scope="module")
def shared():
    accounts = [
        {"username": "admin", "password": "factory-secret"},
        {"username": "operator", "password": "operator-secret", "role": "Operator"},
    ]
    quick = {"power_lag_s": 0.02}
    with fleet(count=200, address=f"127.{WORKER}.13.1", behaviour=quick, ipmi=True, accounts=accounts) as running:
        yield running


def ipmi(bmcs, *steps, username="admin", password="factory-secret"):
    targets = [(bmc.address, bmc.ipmi_port) for bmc in bmcs]
    argument = json.dumps([targets, username, password, steps])
    result = subprocess.run(
        [sys.executable, "-c", CLIENT, argument], capture_output=True, text=True, timeout=120, check=False
    )
    assert result.stdout, result.stderr
    return json.loads(result.stdout)


def test_twenty_bmcs_on_one_port_from_one_client(shared):
    bmcs = shared.bmcs[:20]
    answers = ipmi(bmcs, ["get_power", []], ["set_power", ["on"]])
    assert [answer[0] for answer in answers] == [{"powerstate": "off"}] * 20
    for bmc in bmcs:
        shared.wait(bmc.name, lambda state: state["power"] == "On")
    assert ask(bmcs[3], "GET", S).json["PowerState"] == "On"
    entry = shared.requests(bmcs[3].name)[-1]
    assert (entry["method"], entry["path"], entry["account"]) == ("IPMI", "power:On", "admin")
    assert shared.control.call("stats", node=bmcs[3].name)[bmcs[3].name]["ipmi_sessions"] == 1


def test_the_last_of_two_hundred_answers_too(shared):
    bmc = shared.bmcs[199]
    assert len({entry.address for entry in shared.bmcs if entry.ipmi_port}) == 200
    ask(bmc, "POST", RESET, {"ResetType": "On"})
    shared.wait(bmc.name, lambda state: state["power"] == "On")
    power, boot = ipmi([bmc], ["get_power", []], ["set_bootdev", ["network", False, True]])[0]
    assert power == {"powerstate": "on"} and boot == {"bootdev": "network"}
    state = shared.state(bmc.name)["override"]
    assert (state["target"], state["enabled"], state["mode"]) == ("Pxe", "Once", "UEFI")
    # the inventory is read from the FRU in pieces
    inventory = dict(ipmi([bmc], ["get_inventory", []])[0][0])
    assert inventory["System"]["Serial Number"] == bmc.serial


def test_wrong_passwords_and_unknown_names_are_told(shared):
    bmc = shared.bmcs[30]
    assert "password" in ipmi([bmc], ["get_power", []], password="wrong")[0]["error"].lower()
    assert ipmi([bmc], ["get_power", []], username="nobody")[0]["error"]


def test_an_operator_is_no_administrator(shared):
    bmc = shared.bmcs[31]
    disable = ["raw_command", [6, 0x47, [], [2, 0]]]
    power, refused = ipmi([bmc], ["get_power", []], disable, username="operator", password="operator-secret")[0]
    assert power == {"powerstate": "off"} and refused["code"] == 0xD4
    assert ipmi([bmc], disable)[0][0]["code"] == 0
    assert [row["enabled"] for row in shared.state(bmc.name)["accounts"]] == [False, True]
    assert shared.requests(bmc.name)[-1]["changes"] == [{"pointer": "/Enabled", "before": True, "after": False}]


def test_a_suite_that_is_switched_off(shared):
    one, other = shared.bmcs[40], shared.bmcs[41]
    shared.set_behaviour(one.name, ipmi_suites=["3"])
    shared.set_behaviour(other.name, ipmi_suites=["17"])
    answers = ipmi([one, other], ["get_power", []])
    assert answers == [[{"powerstate": "off"}], [{"powerstate": "off"}]]


def test_a_forced_password_change_locks_ipmi_out(shared):
    bmc = shared.bmcs[50]
    shared.set_behaviour(bmc.name, password_change_required=True)
    assert "error" in ipmi([bmc], ["get_power", []])[0]


def test_a_silent_bmc(shared):
    bmc = shared.bmcs[51]
    shared.set_behaviour(bmc.name, unreachable="silent")
    assert "error" in ipmi([bmc], ["get_power", []])[0]
    shared.set_behaviour(bmc.name, unreachable="no")
    assert ipmi([bmc], ["get_power", []])[0] == [{"powerstate": "off"}]


def test_the_inventory_has_the_port_as_the_modules_take_it(shared):
    hosts = json.loads(pathlib.Path(shared.inventory).read_text())["nodes"]["hosts"]
    assert {hosts[bmc.name]["bmc_ipmi_port"] for bmc in shared.bmcs} == {bmc.ipmi_port for bmc in shared.bmcs}
    assert all(hosts[bmc.name]["bmc_port"] == bmc.port for bmc in shared.bmcs)
