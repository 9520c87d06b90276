# Groups of the inventory plugin.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

from ansible_collections.aicluster.baremetal.plugins.inventory import registry

NODE = {
    "state": "burn_in_failed",
    "rack": "R 1",
    "role": "compute",
    "platform": None,
    "site": "fra-1",
    "held": False,
    "parts": [],
}


def test_names_are_valid_group_names():
    assert registry.group_name("gpu", "NVIDIA H100 80GB HBM3") == "gpu_nvidia_h100_80gb_hbm3"
    assert registry.group_name("rack", "R-1/ä") == "rack_r_1"


def test_groups_of_a_node_without_gpus():
    assert registry.groups_of(NODE) == ["state_burn_in_failed", "rack_r_1", "role_compute", "site_fra_1", "gpu_none"]


def test_a_node_with_gpus_is_in_a_group_for_each_model_and_held_is_one_too():
    gpus = [{"kind": "gpu", "model": "H100"}, {"kind": "gpu", "model": "H100"}, {"kind": "drive", "model": "PM9"}]
    groups = registry.groups_of({**NODE, "parts": gpus, "held": True})
    assert "gpu_h100" in groups and "gpu_none" not in groups
    assert groups[-1] == "held"


def test_gpus_of_unknown_model_are_gpus():
    assert "gpu_none" not in registry.groups_of({**NODE, "parts": [{"kind": "gpu", "model": None}]})
