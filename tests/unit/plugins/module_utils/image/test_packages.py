# Package list of a tree, on text that dpkg wrote.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import pathlib
import subprocess

import pytest

from ansible_collections.aicluster.baremetal.plugins.module_utils.image.packages import (
    installed_packages,
    kernel_package,
)

STATUS = """Package: slurmd
Status: install ok installed
Version: 22.05.8-4+deb12u3
Description: compute node daemon
 Status: deinstall ok config-files
 .
 more text

Package: gone
Status: deinstall ok config-files
Version: 1

Package: half
Status: install ok half-configured
Version: 2

Package: linux-image-6.1.0-57-cloud-amd64
Status: install ok installed
Version: 6.1.176-1
"""


def test_only_installed_packages_count():
    assert installed_packages(STATUS) == {
        "linux-image-6.1.0-57-cloud-amd64": "6.1.176-1",
        "slurmd": "22.05.8-4+deb12u3",
    }


def test_kernel_package():
    packages = installed_packages(STATUS)
    assert kernel_package(packages, "6.1.0-57-cloud-amd64") == ("linux-image-6.1.0-57-cloud-amd64", "6.1.176-1")
    assert kernel_package(packages, "6.1.0-58-cloud-amd64") == (None, None)


@pytest.mark.skipif(not pathlib.Path("/var/lib/dpkg/status").exists(), reason="needs a machine with dpkg")
def test_agrees_with_dpkg_on_this_machine():
    listed = subprocess.run(
        ["dpkg-query", "-W", "-f", "${db:Status-Status} ${Package} ${Version}\n"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    wanted = dict(line.split()[1:] for line in listed.splitlines() if line.startswith("installed "))
    assert installed_packages(pathlib.Path("/var/lib/dpkg/status").read_text()) == wanted
