# IPMI in front of the same node: pyghmi as client, one short process per login (it keeps state for the life of a process).
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import json
import os
import pathlib
import signal
import subprocess
import sys
import time

import pytest
from bmc_http import RESET, S, ask

from bmc_simulator.testing import node_config, running

pytest.importorskip("pyghmi")

CLIENT = """
import json, sys
from pyghmi.ipmi import command
address, port, user, password, steps = json.loads(sys.argv[1])
try:
    client = command.Command(bmc=address, userid=user, password=password, port=port)
    out = [getattr(client, name)(*args) for name, args in steps]
    out = [list(answer) if hasattr(answer, "send") else answer for answer in out]
    print(json.dumps(out, default=str))
except Exception as error:
    print(json.dumps({"error": str(error)}))
"""


@pytest.fixture(scope="module")
def shared_lab():
    with running([node_config(bmc={"protocols": ["redfish", "ipmi"]})]) as lab:
        yield lab


def ipmi(bmc, *steps, username=None, password=None):
    argument = json.dumps([bmc.address, bmc.ipmi_port, username or bmc.username, password or bmc.password, steps])
    result = subprocess.run(
        [sys.executable, "-c", CLIENT, argument], capture_output=True, text=True, timeout=60, check=False
    )
    assert result.stdout, result.stderr
    return json.loads(result.stdout)


def test_power_is_the_same_seen_from_both_sides(lab, bmc):
    assert ipmi(bmc, ["get_power", []], ["set_power", ["on"]])[0] == {"powerstate": "off"}
    lab.wait("gpu01", lambda state: state["power"] == "On")
    ask(bmc, "POST", RESET, {"ResetType": "ForceOff"})
    lab.wait("gpu01", lambda state: state["power"] == "Off")
    assert ipmi(bmc, ["get_power", []]) == [{"powerstate": "off"}]
    assert [(entry["method"], entry["path"], entry["via"]) for entry in lab.requests("gpu01")] == [
        ("IPMI", "power:On", "ipmi"),
        ("POST", RESET, "redfish"),
    ]


def test_boot_device(lab, bmc):
    answers = ipmi(bmc, ["set_bootdev", ["network", False, True]], ["get_bootdev", []])
    assert answers[1] == {"bootdev": "network", "persistent": False, "uefimode": True}
    assert ask(bmc, "GET", S).json["Boot"]["BootSourceOverrideTarget"] == "Pxe"
    answers = ipmi(bmc, ["set_bootdev", ["hd", True, False]], ["get_bootdev", []])
    assert answers[1] == {"bootdev": "hd", "persistent": True, "uefimode": False}
    ipmi(bmc, ["set_bootdev", ["default"]])
    assert lab.state("gpu01")["override"]["enabled"] == "Disabled"


def test_identity(bmc):
    inventory = dict(ipmi(bmc, ["get_inventory", []])[0])["System"]
    assert inventory["Serial Number"] == "LAB-test-0001"
    assert inventory["UUID"].lower() == ask(bmc, "GET", S).json["UUID"]


def test_a_wrong_password_and_a_wrong_name_are_told(bmc):
    assert ipmi(bmc, password="wrong")["error"] == "Incorrect password provided"
    assert "Unauthorized name" in ipmi(bmc, username="nobody")["error"]


def test_a_password_changed_on_either_side_counts_on_both(bmc):
    assert ipmi(bmc, ["set_user_password", [2, "set_password", "changed-by-ipmi"]]) == [True]
    assert ask(bmc, "GET", S, password="changed-by-ipmi").status == 200
    ask(bmc, "PATCH", "/redfish/v1/AccountService/Accounts/1", {"Password": bmc.password}, password="changed-by-ipmi")
    assert ipmi(bmc, ["get_power", []])[0]["powerstate"] in ("on", "off")


def children(pid):
    return [int(child) for child in pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def test_the_process_is_started_again_and_ends_with_the_simulator():
    with running([node_config(bmc={"protocols": ["ipmi"]})]) as lab:
        (first,) = children(lab.process.pid)
        os.kill(first, signal.SIGKILL)
        end = time.monotonic() + 20
        while children(lab.process.pid) in ([], [first]) and time.monotonic() < end:
            time.sleep(0.1)
        (second,) = children(lab.process.pid)
        assert second != first
        lab.process.kill()
        lab.process.wait()
        while os.path.exists(f"/proc/{second}") and time.monotonic() < end:
            if pathlib.Path(f"/proc/{second}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z":
                return
            time.sleep(0.05)
        assert not os.path.exists(f"/proc/{second}")
