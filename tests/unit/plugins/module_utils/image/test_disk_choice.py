# The disk rule: the controller's and the ramdisk's answer on the same cases, the latter from its own shell file on a made-up /sys.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import pathlib
import shutil
import subprocess

import pytest

from ansible_collections.aicluster.baremetal.plugins.module_utils.core.errors import Refused
from ansible_collections.aicluster.baremetal.plugins.module_utils.image.disk_choice import choose

SHELL_RULE = pathlib.Path(__file__).resolve().parents[5] / "roles" / "os_image" / "files" / "deploy" / "disks.sh"
GIB = 1 << 30
NVME0 = {"name": "nvme0n1", "size_bytes": 8 * GIB, "type": "nvme", "serial": "A1"}
NVME1 = {"name": "nvme1n1", "size_bytes": 16 * GIB, "type": "nvme", "serial": "A2"}
SSD = {"name": "sda", "size_bytes": 4 * GIB, "type": "ssd", "serial": "S-1"}
HDD = {"name": "sdb", "size_bytes": 64 * GIB, "type": "hdd", "serial": ""}

CASES = [
    ("one disk, any rule", [NVME0], {}, 0, "nvme0n1"),
    ("type", [NVME0, SSD, HDD], {"type": "ssd"}, 0, "sda"),
    ("hdd without a serial", [NVME0, SSD, HDD], {"type": "hdd"}, 0, "sdb"),
    ("smallest size", [NVME0, NVME1], {"type": "nvme", "min_bytes": 9 * GIB}, 0, "nvme1n1"),
    ("largest size", [NVME0, NVME1], {"max_bytes": 8 * GIB}, 0, "nvme0n1"),
    ("serial", [NVME0, NVME1, SSD], {"serial": "A2"}, 0, "nvme1n1"),
    ("serial is compared whole", [NVME0], {"serial": "A"}, 0, "disk_none"),
    ("serial of a disk of another type", [NVME0, SSD], {"serial": "S-1", "type": "nvme"}, 0, "disk_none"),
    ("two match", [NVME0, NVME1], {"type": "nvme"}, 0, "disk_many"),
    ("none of that type", [NVME0], {"type": "hdd"}, 0, "disk_none"),
    ("no disks", [], {}, 0, "disk_none"),
    ("as large as the image", [SSD], {}, 4 * GIB, "sda"),
    ("one byte too small", [SSD], {}, 4 * GIB + 1, "disk_small"),
]


@pytest.mark.parametrize("case, disks, rule, image, wanted", CASES, ids=[case[0] for case in CASES])
def test_controller(case, disks, rule, image, wanted):
    if wanted.startswith("disk_"):
        with pytest.raises(Refused) as refused:
            choose(disks, rule, image, host="gpu01")
        assert refused.value.code == wanted
        assert all(disk["name"] in str(refused.value) for disk in disks)
    else:
        assert choose(disks, rule, image)["name"] == wanted


def make_sys(root, disks):
    for disk in disks:
        block = root / "block" / disk["name"]
        (block / "queue").mkdir(parents=True)
        (block / "device").mkdir()
        (block / "size").write_text(f"{disk['size_bytes'] // 512}\n")
        (block / "queue" / "rotational").write_text("1\n" if disk["type"] == "hdd" else "0\n")
        if disk["name"].startswith("nvme"):
            (block / "device" / "serial").write_text(f"{disk['serial']}   \n")
        elif disk["serial"]:
            (block / "device" / "vpd_pg80").write_bytes(
                b"\0\x80\0" + bytes([len(disk["serial"])]) + disk["serial"].encode()
            )
    for name in ("loop0", "sr0", "nvme0c0n1", "zram0"):  # none of these is a disk
        block = root / "block" / name
        block.mkdir(parents=True)
        (block / "size").write_text("999999999\n")
        if name == "nvme0c0n1":
            (block / "hidden").write_text("1\n")


@pytest.mark.skipif(not shutil.which("busybox"), reason="the ramdisk's shell is busybox")
@pytest.mark.parametrize("case, disks, rule, image, wanted", CASES, ids=[case[0] for case in CASES])
def test_ramdisk(tmp_path, case, disks, rule, image, wanted):
    (tmp_path / "block").mkdir()
    make_sys(tmp_path, disks)
    settings = {
        "DISK_TYPE": rule.get("type", "any"),
        "DISK_MIN_BYTES": str(rule.get("min_bytes", 0)),
        "DISK_MAX_BYTES": str(rule.get("max_bytes", 0)),
        "DISK_SERIAL": rule.get("serial", ""),
        "IMAGE_SIZE": str(image),
        "sys": str(tmp_path),
        "PATH": "/usr/bin:/bin",
    }
    done = subprocess.run(
        ["busybox", "sh", "-c", f". {SHELL_RULE}; choose_disk"],
        env=settings,
        capture_output=True,
        text=True,
        check=False,
    )
    reasons = {"disk_none": "no disk", "disk_many": "more than one disk", "disk_small": "too small"}
    if wanted in reasons:
        assert done.returncode == 1
        assert reasons[wanted] in done.stdout
        assert all(f"{disk['name']} {disk['size_bytes']} {disk['type']}" in done.stdout for disk in disks)
    else:
        assert (done.returncode, done.stderr) == (0, "")
        assert done.stdout.split()[0] == wanted
