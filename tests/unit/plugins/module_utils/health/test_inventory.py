# What a node says it is made of.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

from ansible_collections.aicluster.baremetal.plugins.module_utils.health import inventory
from ansible_collections.aicluster.baremetal.plugins.module_utils.health.system import System

from .conftest import SERIALS


def test_this_machine():
    found = inventory.inventory(System())
    assert found["memory_bytes"] > 2**20 and found["cpu"]["threads"] >= 1
    assert found["simulated"] is False and found["hardware_strings"] == {}


def test_lab_node(lab_system):
    found = inventory.inventory(lab_system)
    assert found["simulated"] is True
    assert found["hardware_strings"]["gpu_profile"] == "h100x8" and found["hardware_strings"][
        "gpu_serials"
    ] == ",".join(SERIALS)


def test_a_damaged_marker_still_means_simulated(instruments, lab_system):
    (instruments.root / "usr/lib/aicluster/instruments.json").write_text("{")
    assert inventory.instruments(lab_system) == {"simulated": True}


class Tree(System):
    """Files by path."""

    def __init__(self, files):
        self.files = files

    def read(self, path):
        return self.files.get(path)

    def read_bytes(self, path):
        text = self.files.get(path)
        return text if isinstance(text, bytes) or text is None else text.encode()

    def names(self, directory):
        return sorted(
            {path[len(directory) + 1 :].split("/")[0] for path in self.files if path.startswith(directory + "/")}
        )


def test_pci_devices_and_cards():
    base = "/sys/bus/pci/devices/"
    system = Tree(
        {
            f"{base}0000:61:00.0/vendor": "0x10de\n",
            f"{base}0000:61:00.0/class": "0x030200\n",
            f"{base}0000:61:00.0/../max_link_width": "16\n",
            f"{base}0000:62:00.0/vendor": "0x10de\n",
            f"{base}0000:62:00.0/class": "0x068000\n",  # an NVSwitch is no GPU
            f"{base}0000:63:00.0/vendor": "0x8086\n",
            f"{base}0000:63:00.0/class": "0x030000\n",
            "/sys/class/net/eth0/address": "52:54:00:AA:00:01\n",
            "/sys/class/net/eth0/type": "1\n",
            "/sys/class/net/lo/address": "00:00:00:00:00:00\n",
            "/sys/class/net/lo/type": "772\n",
            "/sys/class/net/ib0/address": "80:00\n",
            "/sys/class/net/ib0/type": "32\n",
        }
    )
    assert inventory.pci_gpus(system) == ["0000:61:00.0"]
    assert inventory.slot_widths(system, ["0000:61:00.0", "0000:62:00.0"]) == {"0000:61:00.0": 16}
    assert inventory.network_cards(system) == {"eth0": "52:54:00:aa:00:01"}
