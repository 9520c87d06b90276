# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.aicluster.baremetal.plugins.module_utils.facts import firmware_tools as subject
from ansible_collections.aicluster.baremetal.plugins.module_utils.facts.values import Unreadable

DEVICE = """Image type:            FS4
FW Version:            28.39.3004
FW Version(Running):   28.39.1002
FW Release Date:       30.11.2023
Product Version:       28.39.3004
Rom Info:              type=UEFI version=14.32.17 cpu=AMD64,AARCH64
                       type=PXE version=3.7.300 cpu=AMD64
Description:           UID                GuidsNumber
Base GUID:             a088c20300000000        16
Base MAC:              a088c2000000            16
Image VSID:            N/A
Device VSID:           N/A
PSID:                  MT_0000000838
Security Attributes:   secure-fw
"""


def test_mstflint():
    assert subject.mstflint_query(DEVICE) == {
        "flash": "28.39.3004",
        "running": "28.39.1002",
        "psid": "MT_0000000838",
        "image_type": "FS4",
    }
    same = "".join(line + "\n" for line in DEVICE.splitlines() if "Running" not in line)
    assert subject.mstflint_query(same)["running"] is None
    assert subject.mstflint_query("FW Version: 1.2\nPSID: N/A")["psid"] is None
    with pytest.raises(Unreadable):
        subject.mstflint_query("-E- Cannot open Device: 04:00.0. No such file or directory")


def test_pci_addresses():
    text = """0000:18:00.0 0207: 15b3:1021
0000:18:00.1 0207: 15b3:1021
0000:3a:00.0 0200: 15B3:a2dc (rev 01)
0000:3a:00.2 0801: 15b3:c2d5
"""
    assert subject.pci_addresses(text) == ["0000:18:00.0", "0000:3a:00.0"]
    assert subject.pci_addresses("") == []


def test_nvme_list():
    rows = [
        {"DevicePath": "/dev/nvme0n1", "Firmware": "GDC5602Q", "ModelNumber": "SAMSUNG X ", "SerialNumber": " S1 "},
        {"DevicePath": "/dev/nvme0n2", "Firmware": "GDC5602Q", "ModelNumber": "SAMSUNG X", "SerialNumber": "S1"},
        {"DevicePath": "/dev/nvme10n1", "Firmware": "", "SerialNumber": None},
        None,
    ]
    assert subject.nvme_devices(json.dumps({"Devices": rows})) == [
        {"device": "/dev/nvme0", "serial": "S1", "model": "SAMSUNG X", "firmware": "GDC5602Q"},
        {"device": "/dev/nvme10", "serial": None, "model": None, "firmware": None},
    ]
    assert subject.nvme_devices("") == []
    with pytest.raises(Unreadable):
        subject.nvme_devices("Failed to open")


@pytest.mark.parametrize(
    ("afi", "slots", "version"),
    [
        (1, {"1": "A"}, None),
        (0x21, {"1": "A", "2": "B"}, "B"),
        (0x11, {"1": "A"}, None),
        ("0x21", {"1": "A", "2": "5207871546 (GDC5702Q)"}, "GDC5702Q"),
        (0x21, {"1": "A"}, None),
    ],
)
def test_nvme_staged(afi, slots, version):
    body = {"Active Firmware Slot (afi)": afi, **{f"Firmware Rev Slot {slot}": name for slot, name in slots.items()}}
    assert subject.nvme_staged(json.dumps({"nvme0": body})) == version


def test_gpu_vbios():
    text = "00000000:18:00.0, 96.00.68.00.01\n00000000:2A:00.0, [N/A]\nNo devices were found\n"
    assert subject.gpu_vbios(text) == [
        {"bus": "00000000:18:00.0", "version": "96.00.68.00.01"},
        {"bus": "00000000:2a:00.0", "version": None},
    ]


@given(st.text(max_size=200))
def test_any_text_is_read_or_unreadable(text):
    for reader in (subject.mstflint_query, subject.nvme_devices, subject.nvme_staged):
        try:
            reader(text)
        except Unreadable:
            pass
    subject.pci_addresses(text)
    subject.gpu_vbios(text)
