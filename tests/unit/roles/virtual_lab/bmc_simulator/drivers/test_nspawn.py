# The nspawn driver as far as it can be seen without root: what makes a node itself, its command. Containers are tried by the lab's scenarios.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import pytest

from bmc_simulator.node import Node
from bmc_simulator.schema import check_lab
from bmc_simulator.testing import node_config


@pytest.fixture
def driver(tmp_path):
    config = node_config(driver="nspawn", root="/srv/root", fault="gpu3_ecc_dbe")
    lab = check_lab({"name": "t", "dir": str(tmp_path), "run_dir": str(tmp_path / "run"), "nodes": [config]})
    return Node(lab["nodes"][0], lab).driver


def test_what_makes_a_node_itself(driver, tmp_path):
    driver._personalise(tmp_path / "etc")
    assert (tmp_path / "etc/aicluster/hardware-strings").read_text().splitlines() == [
        "aicluster.simulated=true",
        "aicluster.gpu_profile=h100x8",
        "aicluster.fault=gpu3_ecc_dbe",
        "aicluster.serial=LAB-test-0001",
    ]
    assert (tmp_path / "etc/hostname").read_text() == "gpu01\n"


def test_a_name_that_the_node_gave_itself_stays(driver, tmp_path):
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/hostname").write_text("renamed\n")
    driver._personalise(tmp_path / "etc")
    assert (tmp_path / "etc/hostname").read_text() == "renamed\n"
    assert not (tmp_path / "etc/machine-id").exists()


def test_command(driver):
    command = driver._command()
    command = command[command.index("systemd-nspawn") :]
    assert command[-1] == "--boot" and "--network-namespace-path=/run/netns/t-gpu01" in command
