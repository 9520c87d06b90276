# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import json

import pytest

from ansible_collections.aicluster.baremetal.plugins.module_utils.core.errors import (
    BaremetalError,
    Refused,
    Unreachable,
    Unsupported,
)
from ansible_collections.aicluster.baremetal.plugins.module_utils.firmware import inband as subject
from ansible_collections.aicluster.baremetal.plugins.module_utils.firmware import port
from ansible_collections.aicluster.baremetal.plugins.module_utils.firmware.engine import Engine, Limits
from ansible_collections.aicluster.baremetal.plugins.module_utils.firmware.planner import Step, plan

from .conftest import component
from .fakes import Bmc, Clock, Images, Journal

PSID = "MT_0000000838"


class Node:
    """A node with one NIC and one drive, as its tools show it."""

    def __init__(self):
        self.flash, self.running, self.psid, self.image = "1.0", "1.0", PSID, (PSID, "2.0")
        self.drive, self.slots, self.down, self.missing = "A1", {}, False, ()
        self.calls = []

    def run(self, argv):
        self.calls.append(argv)
        if self.down:
            raise Unreachable("down", code="host_unreachable")
        if argv[0] in self.missing:
            return 127, "", f"{argv[0]}: not found"
        if argv[0] == "lspci":
            return 0, "0000:18:00.0 0207: 15b3:1021\n0000:18:00.1 0207: 15b3:1021\n", ""
        if argv[0] == "mstflint" and "burn" in argv:
            self.flash = self.image[1]
            return 0, "", ""
        if argv[0] == "mstflint" and "-i" in argv:
            return 0, f"FW Version: {self.image[1]}\nPSID: {self.image[0]}\n", ""
        if argv[0] == "mstflint":
            running = f"FW Version(Running): {self.running}\n" if self.running != self.flash else ""
            return 0, f"FW Version: {self.flash}\n{running}PSID: {self.psid}\n", ""
        if argv[:2] == ["nvme", "list"]:
            return (
                0,
                json.dumps({"Devices": [{"DevicePath": "/dev/nvme0n1", "Firmware": self.drive, "SerialNumber": "S1"}]}),
                "",
            )
        if argv[:2] == ["nvme", "fw-log"]:
            body = {
                "afi": 0x21 if self.slots else 1,
                **{f"Firmware Rev Slot {key}": value for key, value in self.slots.items()},
            }
            return 0, json.dumps({"nvme0": body}), ""
        if argv[:2] == ["nvme", "fw-commit"]:
            self.slots = {2: "A2"}
            return 0, "", ""
        if argv[:2] == ["nvme", "fw-download"]:
            return 0, "", ""
        if argv[0] == "nvidia-smi":
            return 0, "00000000:18:00.0, 96.00.68.00.01\n", ""
        return 0, "", ""

    def reboot(self):
        self.running = self.flash
        if self.slots:
            self.drive, self.slots = self.slots[2], {}

    def copy(self, path):
        return "/tmp/image.bin"


def step(**more):
    inventory, to_version = more.pop("inventory", ["0000:18:00.0"]), more.pop("to_version", "2.0")
    fields = {"path": "nic", "psid": [PSID], "oem": None, **more}
    return Step(1, 1, "nic", inventory, "1.0", to_version, {"path": "/i.bin"}, "host_reboot", "", **fields)


def test_the_interface_is_the_port():
    assert set(port.METHODS) <= set(dir(subject.WithInband))


def test_nic():
    node = Node()
    nic = subject.Nic(node.run, node.copy)
    assert nic.inventory() == [
        {"id": "0000:18:00.0", "name": PSID, "version": "1.0", "staged": None, "updateable": True, "path": "nic"}
    ]
    nic.write(step(), "0000:18:00.0", "/tmp/i.bin")
    assert node.calls[-1] == ["mstflint", "-d", "0000:18:00.0", "-i", "/tmp/i.bin", "-y", "burn"]
    row = nic.inventory()[0]
    assert (row["version"], row["staged"]) == ("1.0", "2.0")


@pytest.mark.parametrize(
    ("node", "wanted", "code"),
    [
        ({"psid": "MT_OTHER"}, [PSID], "psid_mismatch"),
        ({"image": ("MT_OTHER", "2.0")}, [PSID], "psid_mismatch"),
        ({}, ["MT_OTHER"], "psid_mismatch"),
        ({"psid": "N/A", "image": ("N/A", "2.0")}, ["N/A"], "psid_mismatch"),
        ({"image": (PSID, "3.0")}, [PSID], "image_mismatch"),
    ],
)
def test_never_onto_another_board(node, wanted, code):
    there = Node()
    for name, value in node.items():
        setattr(there, name, value)
    with pytest.raises(Refused) as caught:
        subject.Nic(there.run, there.copy).write(step(psid=wanted), "0000:18:00.0", "/tmp/i.bin")
    assert caught.value.code == code
    assert not any("burn" in call for call in there.calls)


def test_drive():
    node = Node()
    drive = subject.Nvme(node.run, node.copy)
    drive.write(step(path="nvme", to_version="A2"), "S1", "/tmp/d.bin")
    assert node.calls[-2:] == [
        ["nvme", "fw-download", "/dev/nvme0", "--fw=/tmp/d.bin"],
        ["nvme", "fw-commit", "/dev/nvme0", "--slot=0", "--action=1"],
    ]
    assert drive.inventory() == [
        {"id": "S1", "name": None, "version": "A1", "staged": "A2", "updateable": True, "path": "nvme"}
    ]
    with pytest.raises(Refused, match="gone"):
        drive.write(step(path="nvme"), "S9", "/tmp/d.bin")


def test_vbios_by_the_command_of_the_baseline():
    node = Node()
    gpu = subject.GpuVbios(node.run, node.copy)
    assert gpu.inventory()[0]["version"] == "96.00.68.00.01"
    gpu.write(step(oem={"command": ["flash", "--bus={device}", "{image}"]}), "00000000:18:00.0", "/tmp/v.rom")
    assert node.calls[-1] == ["flash", "--bus=00000000:18:00.0", "/tmp/v.rom"]
    with pytest.raises(Unsupported, match="oem: {command"):
        gpu.write(step(oem={}), "x", "/tmp/v.rom")


def test_a_tool_that_is_missing_or_fails():
    node = Node()
    node.missing = ("lspci",)
    with pytest.raises(Unsupported, match="install lspci"):
        subject.Nic(node.run, node.copy).inventory()
    tool = subject.Nic(lambda argv: (3, "", "bad flash"), node.copy)
    with pytest.raises(BaremetalError, match="3: bad flash") as caught:
        tool.call("mstflint", what="x")
    assert caught.value.code == "tool_failed"
    with pytest.raises(BaremetalError) as caught:
        subject.Nic(lambda argv: (0, "rubbish", ""), node.copy).read(subject.read.mstflint_query, "mstflint", what="x")
    assert caught.value.code == "tool_unreadable"


def test_bmc_and_node_in_one_plan(make):
    """The BIOS by the BMC and a NIC and a drive by their tools share one restart; while the node is down its tools are waited for."""
    clock, node = Clock(), Node()
    bmc = Bmc(clock, {"bios": "1.0"}, {"bios": "host_reboot"})
    inventory, restart = bmc.inventory, bmc.restart
    bmc.inventory = lambda only=None: [{**row, "path": "bmc"} for row in inventory(only)]
    down_until = [0.0]

    def reset(activation):
        restart(activation)
        node.reboot()
        down_until[0] = clock() + 60

    bmc.restart = reset

    def run(argv):
        node.down = clock() < down_until[0]
        return node.run(argv)

    there = subject.WithInband(bmc, run, node.copy, ["nic", "nvme"])
    baseline = make(
        bios=component(),
        nic=component(inventory="0000:18", path="nic", psid=[PSID]),
        drive=component(inventory="^S1$", path="nvme", rule="exact", wanted="A2"),
    )
    found = plan(*baseline, there.inventory())
    assert len(found.steps) == 3 and found.resets == 1
    engine = Engine(there, Journal(found, clock), found, Images(), Limits(), clock=clock, sleep=clock.sleep)
    outcome = engine.run()
    assert outcome.state == "active", outcome
    assert (node.running, node.drive, bmc.versions["bios"]) == ("2.0", "A2", "2.0")
    assert bmc.restarts == ["host_reboot"]
    assert plan(*baseline, there.inventory()).steps == []
