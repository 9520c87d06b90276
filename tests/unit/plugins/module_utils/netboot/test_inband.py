# The deployed node seen from inside: judged by serial, root file system and kernel command line; ssh never learns a key.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import subprocess

import pytest

from ansible_collections.aicluster.baremetal.plugins.module_utils.netboot import inband

UUID = "0b5a63b1-3c2a-4a3e-8d4d-2d2a1f0c9f11"
TEXT = f"""\
product_serial=S-1
chassis_serial=
root_uuid={UUID}
command_line=root=UUID={UUID} ro console=ttyS0
uptime=12.30
hostname=gpu01
"""
SERVED = ({"bytes": 10, "status": 200, "complete": False}, {"bytes": 4096, "status": 200, "complete": True})


def outcomes(text=TEXT, serial="S-1", size=4096, served=SERVED):
    return {
        item["check"].removeprefix("deploy."): item["outcome"]
        for item in inband.judge(inband.parse(text), serial, UUID, size, served)
    }


def test_the_right_node():
    assert outcomes() == {"identity": "pass", "root": "pass", "disk_boot": "pass", "image_bytes": "pass"}


def test_another_machine_another_root_and_a_ramdisk_are_found():
    assert outcomes(serial="S-2")["identity"] == "fail"
    assert outcomes(text=TEXT.replace("product_serial=S-1", "product_serial="))["identity"] == "could_not_test"
    assert outcomes(text=TEXT.replace(f"root_uuid={UUID}", "root_uuid=other"))["root"] == "fail"
    assert outcomes(text=TEXT.replace(f"root=UUID={UUID}", "aicluster.session=x"))["disk_boot"] == "fail"


def test_bytes_that_do_not_add_up_are_found():
    assert outcomes(size=8192)["image_bytes"] == "fail"
    assert outcomes(served=SERVED[:1])["image_bytes"] == "could_not_test"


def test_bytes_that_nobody_counted_do_not_gate_where_the_ramdisk_verified_the_checksum():
    def item(verified):
        return inband.judge(inband.parse(TEXT), "S-1", UUID, 4096, (), verified)[-1]

    known, unknown = item("4096 bytes, sha256 abc as in the manifest"), item(None)
    assert known["outcome"] == unknown["outcome"] == "could_not_test"
    assert known["gates"] is False and "sha256 abc" in known["detail"]
    assert "gates" not in unknown


def test_the_probe_is_valid_shell_and_gives_every_key():
    done = subprocess.run(["sh", "-c", inband.PROBE], capture_output=True, text=True, check=True)
    assert set(inband.parse(done.stdout)) >= {
        "product_serial",
        "root_uuid",
        "command_line",
        "uptime",
        "boot_id",
        "hostname",
        "kernel",
    }


def test_a_host_that_does_not_answer_is_words_not_an_exception(tmp_path):
    argv = inband.ssh_argv("127.0.0.1", "root", ["-o", f"UserKnownHostsFile={tmp_path}/none"], "gpu01", port=1)
    assert "HostKeyAlias=gpu01" in argv
    facts, seen, wrong = inband.ask(argv, timeout=20)
    if "No such file" in seen:
        pytest.skip("could_not_test: no ssh here")
    assert facts is None and "refused" in seen and not wrong
