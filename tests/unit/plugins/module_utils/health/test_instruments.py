# The simulated tools themselves: they run under every awk that is here, answer in the real tools' shapes, and say that they are simulated.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import os
import shutil
import subprocess

import pytest

from ansible_collections.aicluster.baremetal.plugins.module_utils.facts import dcgm, kernel_log, nvidia_smi

from .conftest import FILES, SERIALS

PROFILES = {"h100x8": (8, 18), "h200x8": (8, 18), "b200x8": (8, 18), "a100x8": (8, 12), "a100x4": (4, 12)}


@pytest.mark.parametrize("profile", sorted(PROFILES))
def test_profiles_in_every_form(instruments, profile):
    count, links = PROFILES[profile]
    instruments.claim(profile)
    report = nvidia_smi.read_xml(instruments.tool("nvidia-smi", "-q", "-x").stdout)
    text = nvidia_smi.read_query(instruments.tool("nvidia-smi", "-q").stdout)
    assert report.simulated and text.simulated
    assert len(report.gpus) == report.attached == count
    assert [found.serial for found in report.gpus] == SERIALS[:count]
    # both forms say the same
    assert [found._replace(module_id=None) for found in report.gpus] == [
        found._replace(module_id=None) for found in text.gpus
    ]
    rows = nvidia_smi.read_csv(
        instruments.tool("nvidia-smi", "--query-gpu=index,uuid,memory.total,pci.bus_id", "--format=csv").stdout
    )
    assert [(row["uuid"], row["pci.bus_id"]) for row in rows] == [(found.uuid, found.bus_id) for found in report.gpus]
    found = nvidia_smi.read_nvlink_status(instruments.tool("nvidia-smi", "nvlink", "-s").stdout)
    assert [entry.active() for entry in found] == [links] * count
    assert len(nvidia_smi.read_topology(instruments.tool("nvidia-smi", "topo", "-m").stdout)) == count * count
    diagnostic = dcgm.read_json(instruments.tool("dcgmi", "diag", "-r", "2", "-j").stdout)
    assert diagnostic.simulated and {test.status for test in diagnostic.tests} == {"pass"}
    listed = instruments.tool("nvidia-smi", "-L").stdout.splitlines()
    assert len(listed) == count and listed[0].startswith("GPU 0: ")


@pytest.mark.parametrize(
    ("fault", "count", "codes"),
    [
        ("gpu3_ecc_dbe", 8, [48, 63, 94]),
        ("gpu3_fell_off", 7, [79, None]),
        ("gpu3_thermal_slowdown", 8, []),
        ("gpu3_pcie_width", 8, [None]),
        ("gpu3_nvlink_down", 8, [74]),
        ("gpu3_row_remap_failed", 8, [64]),
    ],
)
def test_faults_and_setup(instruments, fault, count, codes):
    instruments.claim("h100x8", fault)
    ran = instruments.tool("setup")
    if os.geteuid() == 0:
        assert ran.returncode == 0, ran.stderr
        nodes = sorted(path.name for path in (instruments.root / "dev").iterdir())
        assert nodes == [*(f"nvidia{number}" for number in range(count)), "nvidiactl"]
    text = (instruments.root / "run/aicluster/simulated-kernel.log").read_text()
    assert text.startswith("# simulated")
    events = kernel_log.find_events(kernel_log.read_lines(text))
    assert [event.code for event in events] == codes
    assert {event.device for event in events} <= {"0000:61:00.0"}
    assert len(nvidia_smi.read_xml(instruments.tool("nvidia-smi", "-q", "-x").stdout).gpus) == count


def test_what_is_not_known_is_refused(instruments):
    assert instruments.tool("nvidia-smi", "--gpu-reset").returncode == 2
    assert instruments.tool("nvidia-smi", "--query-gpu=nonsense", "--format=csv").returncode == 2
    assert instruments.tool("dcgmi", "diag", "-r", "4").returncode == 255
    instruments.claim("h100x8", "gpu3_on_fire")
    ran = instruments.tool("setup")
    assert ran.returncode == 1 and "gpu3_on_fire" in ran.stderr
    instruments.claim("z9000x8")
    assert instruments.tool("nvidia-smi", "-L").returncode == 9
    assert instruments.tool("setup").returncode == 1
    instruments.claim(None, serials=False)
    assert instruments.tool("nvidia-smi", "-q", "-x").returncode == 9
    assert instruments.tool("setup").returncode == 0


def test_strings_from_smbios(instruments):
    (instruments.root / "etc/aicluster/hardware-strings").unlink()
    table = instruments.root / "sys/firmware/dmi/tables"
    table.mkdir(parents=True)
    # the bytes before the first string are the structure's own
    texts = [
        b"aicluster.simulated=true",
        b"aicluster.gpu_profile=a100x4",
        b"aicluster.gpu_serials=1,2,3,4",
        b"aicluster.fault=gpu1_fell_off",
    ]
    (table / "DMI").write_bytes(b"\x0b\x05\x00\x0e\x04" + b"\0".join(texts) + b"\0\0\x7f\x04\x00\x7f\0\0")
    report = nvidia_smi.read_xml(instruments.tool("nvidia-smi", "-q", "-x").stdout)
    assert [found.serial for found in report.gpus] == ["1", "3", "4"]


@pytest.mark.parametrize("awk", ["mawk", "gawk", "busybox awk", "original-awk"])
def test_every_awk_says_the_same(instruments, awk, tmp_path):
    if not shutil.which(awk.split()[0]):
        pytest.skip(f"{awk} is not installed")
    wanted = instruments.claim("h100x8", "gpu3_ecc_dbe").tool("nvidia-smi", "-q", "-x").stdout
    (tmp_path / "bin").mkdir()
    script = tmp_path / "bin" / "awk"
    script.write_text(f'#!/bin/sh\nexec {awk} "$@"\n')
    script.chmod(0o755)
    environment = {
        "PATH": f"{tmp_path}/bin:/usr/bin:/bin",
        "AICLUSTER_INSTRUMENTS_ROOT": str(instruments.root),
        "LC_ALL": "C",
    }
    ran = subprocess.run(
        ["sh", str(FILES / "nvidia-smi"), "-q", "-x"],
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )

    def steady(text):
        return [line for line in text.splitlines() if "timestamp" not in line]

    assert steady(ran.stdout) == steady(wanted)
