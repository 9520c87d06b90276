# GPU checks at their edges: nothing listed, nothing reported, models that are not in the table.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import pytest

from ansible_collections.aicluster.baremetal.plugins.module_utils.facts import nvidia_smi
from ansible_collections.aicluster.baremetal.plugins.module_utils.health import gpu, limits
from ansible_collections.aicluster.baremetal.plugins.module_utils.health.gpu_models import BRIDGED, MODELS, model_of

LIMITS = limits.resolve()
EMPTY = nvidia_smi.Report("580", "13", 0, (), False)


@pytest.fixture
def one(instruments):
    report = nvidia_smi.read_xml(instruments.tool("nvidia-smi", "-q", "-x").stdout)
    return lambda **change: report._replace(gpus=(report.gpus[0]._replace(**change),), attached=1)


def verdicts(report):
    models = {found.index: model_of(found.device_id)[1] for found in report.gpus}
    items = [
        gpu.ecc(report, models, LIMITS, False),
        gpu.memory_repair(report, models, LIMITS, False),
        gpu.thermal(report, False),
        gpu.pcie(report, models, {}, False),
        gpu.memory_size(report, models, False),
        gpu.fabric(report, models, False),
        gpu.persistence(report, False),
    ]
    return {item["check"]: item["outcome"] for item in items}


def test_no_gpu_listed_is_no_pass():
    assert "pass" not in verdicts(EMPTY).values()
    assert gpu.count(EMPTY, 8, False)["outcome"] == "fail"


@pytest.mark.parametrize(
    ("change", "check", "outcome"),
    [
        ({"volatile": nvidia_smi.Ecc(None, None, None, None)}, "gpu_ecc", "could_not_test"),
        ({"ecc_enabled": False}, "gpu_ecc", "fail"),
        ({"sram_threshold_exceeded": True}, "gpu_ecc", "fail"),
        ({"aggregate": nvidia_smi.Ecc(0, 5, 5, 0)}, "gpu_ecc", "fail"),
        ({"aggregate": nvidia_smi.Ecc(0, 4, 4, 0)}, "gpu_ecc", "pass"),
        ({"remapped_uncorrectable": None, "remap_pending": None}, "gpu_memory_repair", "could_not_test"),
        ({"remapped_uncorrectable": 512}, "gpu_memory_repair", "fail"),
        ({"remapped_uncorrectable": 7}, "gpu_memory_repair", "pass"),
        ({"remap_banks": {"none": 1}}, "gpu_memory_repair", "fail"),
        ({"recovery_action": "GPU_RESET"}, "gpu_memory_repair", "fail"),
        ({"reset_required": True}, "gpu_memory_repair", "fail"),
        ({"slowdown_reasons": None}, "gpu_thermal", "could_not_test"),
        ({"slowdown_reasons": ("sw_power_cap", "sync_boost")}, "gpu_thermal", "pass"),
        ({"slowdown_reasons": ("hw_power_brake_slowdown",)}, "gpu_thermal", "fail"),
        ({"margin_c": -2}, "gpu_thermal", "fail"),
        ({"pcie_width_current": None}, "gpu_pcie", "could_not_test"),
        ({"pcie_gen_current": 1}, "gpu_pcie", "pass"),
        ({"pcie_gen_max": 4}, "gpu_pcie", "fail"),
        ({"memory_mib": 40000}, "gpu_memory", "fail"),
        ({"device_id": "FFFF10DE"}, "gpu_memory", "could_not_test"),
        ({"fabric_state": "In Progress"}, "gpu_fabric", "fail"),
        ({"fabric_state": None}, "gpu_fabric", "could_not_test"),
        ({"persistence": None}, "gpu_persistence", "could_not_test"),
    ],
)
def test_edges(one, change, check, outcome):
    assert verdicts(one())[check] == "pass"
    assert verdicts(one(**change))[check] == outcome


def test_slot_width_decides_where_the_model_does_not(one):
    def width(current, slots):
        report = one(device_id="1EB810DE", pcie_gen_max=3, pcie_width_current=current)
        return gpu.pcie(report, {0: model_of("1EB810DE")[1]}, slots, False)["outcome"]

    assert width(8, {}) == "could_not_test"
    assert width(8, {"0000:1b:00.0": 8}) == "pass"
    assert width(8, {"0000:1b:00.0": 16}) == "fail"
    assert width(16, {}) == "pass"


def test_slow_links_and_bridged_cards(one):
    report = one()
    models = {0: model_of("233010DE")[1]}

    def outcome(speeds, found=report, table=None):
        table = models if table is None else table
        return gpu.nvlink(found, table, (nvidia_smi.Links(0, "x", "GPU-1", speeds),), False)["outcome"]

    assert outcome(dict.fromkeys(range(18), 26.562)) == "pass"
    assert outcome({**dict.fromkeys(range(17), 26.562), 17: 20.0}) == "fail"
    assert outcome({}) == "fail"
    bridged = one(device_id="233110DE")
    assert outcome({}, bridged, {0: model_of("233110DE")[1]}) == "pass"
    assert gpu.nvlink(report, models, (), False)["outcome"] == "could_not_test"


def test_table_of_models():
    assert set(BRIDGED) <= set(MODELS)
    for key, model in MODELS.items():
        assert key == key.upper() and len(key) == 4 and model.source and bool(model.links) == bool(model.link_gbytes)
    added = model_of("ABCD10DE", {"ABCD": {"links": 4, "link_gbytes": 25}})[1]
    assert (added.links, added.pcie_width, added.source) == (4, 0, "plan")
    assert model_of(None) == ("", None)
