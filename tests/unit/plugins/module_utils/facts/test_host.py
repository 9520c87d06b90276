# Readers of what Linux says about the machine.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import json

import pytest

from ansible_collections.aicluster.baremetal.plugins.module_utils.facts import host
from ansible_collections.aicluster.baremetal.plugins.module_utils.facts.values import Unreadable


def test_this_machine():
    with open("/proc/cpuinfo", encoding="utf-8") as cpuinfo, open("/proc/meminfo", encoding="utf-8") as meminfo:
        assert host.read_cpuinfo(cpuinfo.read()).threads >= 1
        assert host.read_meminfo(meminfo.read())["MemTotal"] > 2**20


def test_lsblk_old_and_new():
    devices = [
        {"name": "nvme0n1", "serial": "S1 ", "model": "X", "size": "100", "rota": "0", "type": "disk", "tran": "nvme"},
        {"name": "sda", "serial": None, "model": None, "size": 200, "rota": True, "type": "disk", "tran": "sas"},
        {"name": "vda", "serial": "V1", "size": 1, "rota": True, "type": "disk"},
        {"name": "sr0", "size": 1, "rota": True, "type": "rom"},
        {"name": "zram0", "size": 1, "rota": False, "type": "disk"},
    ]
    disks = host.read_lsblk(json.dumps({"blockdevices": devices}))
    assert [(disk.name, disk.serial, disk.size_bytes, disk.kind) for disk in disks] == [
        ("nvme0n1", "S1", 100, "nvme"),
        ("sda", None, 200, "hdd"),
        ("vda", "V1", 1, "virtual"),
    ]


def test_lscpu_nested():
    text = json.dumps(
        {"lscpu": [{"field": "CPU(s):", "data": "8", "children": [{"field": "On-line CPU(s) list:", "data": "0-7"}]}]}
    )
    assert host.read_lscpu(text) == {"CPU(s)": "8", "On-line CPU(s) list": "0-7"}


def test_chrony():
    good = "0A4D0101,10.77.1.1,3,1796060000.1,0.000012,0.000001,0.00002,1.2,0.0,0.1,0.0002,0.0003,64.0,Normal\n"
    clock = host.read_chrony_tracking(good)
    assert clock.synchronised and clock.source == "10.77.1.1" and clock.offset_s == 0.000012
    assert not host.read_chrony_tracking(
        "00000000,,0,0.0,0.0,0.0,0.0,0.0,0.0,0.0,1.0,1.0,0.0,Not synchronised"
    ).synchronised
    assert not host.read_chrony_tracking(good.replace("0A4D0101", "7F7F0101")).synchronised


@pytest.mark.parametrize(
    "reader", [host.read_cpuinfo, host.read_meminfo, host.read_lsblk, host.read_lscpu, host.read_chrony_tracking]
)
def test_foreign_text_is_refused(reader):
    with pytest.raises(Unreadable):
        reader("506 Cannot talk to daemon")
