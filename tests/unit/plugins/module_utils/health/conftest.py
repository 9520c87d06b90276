# Shared by the tests of the health room: the simulated instruments in a directory of their own, and a system that tools answer in.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import os
import pathlib
import shutil
import subprocess

import pytest

from ansible_collections.aicluster.baremetal.plugins.module_utils.health.system import Ran, System

FILES = pathlib.Path(__file__).resolve().parents[5] / "roles" / "lab_instruments" / "files"
SERIALS = [f"16000000000{number:02d}" for number in range(8)]


class Instruments:
    """The real scripts of the role, installed in a directory; `tool` runs one of them."""

    def __init__(self, root):
        self.root = root
        library = root / "usr" / "lib" / "aicluster"
        (library / "instruments").mkdir(parents=True)
        for name in ("instruments.awk", "hardware.sh", "setup"):
            shutil.copy(FILES / name, library / "instruments" / name)
        shutil.copytree(FILES / "profiles", library / "instruments" / "profiles")
        shutil.copy(FILES / "instruments.json", library / "instruments.json")
        (root / "dev").mkdir()
        (root / "run").mkdir()
        (root / "etc" / "aicluster").mkdir(parents=True)
        self.claim("h100x8")

    def claim(self, profile, fault=None, serials=True):
        lines = ["aicluster.simulated=true"]
        if profile:
            lines.append(f"aicluster.gpu_profile={profile}")
        if serials:
            lines.append("aicluster.gpu_serials=" + ",".join(SERIALS[: int((profile or "x0")[-1])]))
        if fault:
            lines.append(f"aicluster.fault={fault}")
        (self.root / "etc" / "aicluster" / "hardware-strings").write_text("\n".join(lines) + "\n")
        return self

    def tool(self, *argv, awk=None):
        environment = {
            "PATH": "/usr/sbin:/usr/bin:/sbin:/bin",
            "AICLUSTER_INSTRUMENTS_ROOT": str(self.root),
            "LC_ALL": "C",
        }
        path = self.root / "usr/lib/aicluster/instruments/setup" if argv[0] == "setup" else FILES / argv[0]
        return subprocess.run(
            ["sh", str(path), *argv[1:]], env=environment, capture_output=True, text=True, timeout=60, check=False
        )


class LabSystem(System):
    """This machine, but the GPU tools, the marker and the hardware strings come from an instruments directory, and nothing has a kernel log."""

    def __init__(self, instruments, kernel=""):
        self.instruments, self.kernel = instruments, kernel

    def run(self, argv, timeout_s, stdin=None):
        if argv[0] in ("nvidia-smi", "dcgmi"):
            ran = self.instruments.tool(*argv)
            return Ran(ran.returncode, ran.stdout, ran.stderr, "", 0.0)
        return super().run(argv, timeout_s, stdin)

    def _moved(self, path):
        for prefix in ("/usr/lib/aicluster", "/etc/aicluster", "/run/aicluster"):
            if str(path).startswith(prefix):
                return str(self.instruments.root) + str(path)
        return path

    def read(self, path):
        return super().read(self._moved(path))

    def read_bytes(self, path):
        return super().read_bytes(self._moved(path))

    def kernel_log(self):
        return self.kernel

    def container(self):
        return None


@pytest.fixture
def instruments(tmp_path):
    made = Instruments(tmp_path / "lab")
    yield made
    for node in (made.root / "dev").iterdir():
        os.unlink(node)


@pytest.fixture
def lab_system(instruments):
    return LabSystem(instruments)
