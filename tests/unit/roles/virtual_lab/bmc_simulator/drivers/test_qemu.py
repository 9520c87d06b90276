# The QEMU driver: its command line (pure), and a real machine that runs its firmware for a few seconds.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import asyncio
import json
import os
import pathlib
import shutil
import signal
import time

import pytest

from bmc_simulator.drivers.base import Boot, DriverError
from bmc_simulator.node import Node
from bmc_simulator.qmp import QmpError
from bmc_simulator.schema import check_lab
from bmc_simulator.testing import node_config, running

DISKS = [
    {"slot": "disk0", "serial": "S0", "size": "64 MiB", "type": "nvme"},
    {"slot": "disk1", "serial": "S1", "size": "64 MiB", "type": "hdd"},
    {"slot": "disk2", "serial": "S2", "size": "64 MiB", "type": "ssd", "bus": "virtio"},
]
needs_qemu = pytest.mark.skipif(not shutil.which("qemu-system-x86_64"), reason="needs qemu-system-x86_64")


@pytest.fixture
def driver(tmp_path):
    config = node_config(driver="qemu", disks=DISKS, fault="gpu3_ecc_dbe")
    config["nics"][0]["tap"] = "gpu01n0"
    lab = {
        "name": "t",
        "dir": str(tmp_path),
        "run_dir": str(tmp_path / "run"),
        "net_namespace": "t-net",
        "nodes": [config],
    }
    lab = check_lab(lab)
    return Node(lab["nodes"][0], lab).driver


def devices(command):
    return [command[index + 1] for index, word in enumerate(command) if word == "-device"]


@pytest.mark.parametrize(
    "target, order",
    [
        ("None", ["disk0", "disk1", "disk2", "nic0", "cd0"]),
        ("Pxe", ["nic0", "disk0", "disk1", "disk2", "cd0"]),
        ("Cd", ["cd0", "disk0", "disk1", "disk2", "nic0"]),
        ("Hdd", ["disk0", "disk1", "disk2", "nic0", "cd0"]),
    ],
)
def test_boot_order(driver, target, order):
    index = driver.order(Boot(target))
    assert sorted(index, key=index.get) == order and sorted(index.values()) == [1, 2, 3, 4, 5]
    text = " ".join(devices(driver.command(Boot(target))))
    assert all(f"id={device}," in text for device in order)


class Machine:
    """QEMU's rule for boot indices: no two devices may hold the same one. Cuts off after `left` writes."""

    def __init__(self, order, left=1000):
        self.order, self.left = dict(order), left

    async def __call__(self, command, path, property, value=None):
        device = path.rsplit("/", 1)[1]
        if command == "qom-get":
            return self.order[device]
        if self.left == 0:
            raise QmpError("gone")
        self.left -= 1
        if value in (index for other, index in self.order.items() if other != device):
            raise QmpError(f"The bootindex {value} has already been used")
        self.order[device] = value


@pytest.mark.parametrize("cut", range(1, 10))
def test_an_order_that_was_cut_off_half_way_can_be_set_again(driver, cut):
    driver._qmp = machine = Machine(driver.order(Boot()), left=cut)
    with pytest.raises(DriverError):
        asyncio.run(driver.set_boot(Boot("Pxe")))
    machine.left = 1000
    asyncio.run(driver.set_boot(Boot("Cd")))
    assert machine.order == driver.order(Boot("Cd"))
    machine.left = 0
    asyncio.run(driver.set_boot(Boot("Cd")))  # nothing to write


def test_command_line(driver):
    command = driver.command(Boot())
    text = " ".join(command)
    assert command[:4] == ["ip", "netns", "exec", "t-net"]
    assert "tcg,thread=multi,tb-size=256" in command
    assert "type=1,manufacturer=AI Cluster Lab,product=Virtual GPU Server,serial=LAB-test-0001" in text
    assert (
        "value=aicluster.simulated=true,value=aicluster.gpu_profile=h100x8,value=aicluster.fault=gpu3_ecc_dbe" in text
    )
    nvme, hdd, virtio = (next(word for word in devices(command) if f"id=disk{number}," in word) for number in range(3))
    assert nvme.startswith("nvme,") and "serial=S0" in nvme
    assert hdd.startswith("scsi-hd,") and "rotation_rate=7200" in hdd
    assert virtio.startswith("virtio-blk-pci,")
    assert "tap,id=net0,ifname=gpu01n0" in text and text.count("format=raw") == 3


@needs_qemu
@pytest.mark.slow
def test_a_real_machine(tmp_path):
    """Blank disks, one-time PXE, reset by the BMC, a killed simulator, a killed QEMU, the end."""
    config = node_config(driver="qemu", disks=DISKS, memory_mib=256, cpus=1)
    config["nics"] = config["nics"][:1]
    with running([config], directory=tmp_path) as lab:
        directory = tmp_path / "lab/nodes/gpu01"
        lab.control.call("power", node="gpu01", action="On")
        lab.wait("gpu01", lambda state: state["power"] == "On", 60)
        assert (directory / "disk0.raw").stat().st_size == 64 * 2**20 and (
            directory / "disk0.raw"
        ).stat().st_blocks == 0
        pid = int((tmp_path / "run/gpu01.pid").read_text())
        lab.control.call("power", node="gpu01", action="ForceRestart")
        end = time.monotonic() + 30
        while not any(event["event"] == "boot" for event in lab.events("gpu01")) and time.monotonic() < end:
            time.sleep(0.1)
        assert lab.events("gpu01")[-1]["reason"] == "reset"
        marks = [json.loads(line) for line in (directory / "console.times.jsonl").read_text().splitlines()]
        assert [mark["event"] for mark in marks if mark["event"] != "output"] == ["power on", "reset"]

        lab.process.send_signal(signal.SIGKILL)
        lab.process.wait()
        assert os.path.exists(f"/proc/{pid}")
    with running([config], directory=tmp_path) as lab:
        assert lab.state("gpu01")["power"] == "On"
        assert int((tmp_path / "run/gpu01.pid").read_text()) == pid
        os.kill(pid, signal.SIGKILL)
        lab.wait("gpu01", lambda state: state["power"] == "Off")
        lab.control.call("power", node="gpu01", action="On")
        lab.wait("gpu01", lambda state: state["power"] == "On", 60)
        pid = int((tmp_path / "run/gpu01.pid").read_text())
    assert not pathlib.Path(f"/proc/{pid}").exists()
    assert list((tmp_path / "run").iterdir()) == []
