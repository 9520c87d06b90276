# GPU checks through the simulated tools: a good server passes everything, each seeded fault is found by the check that is meant to find it.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import pytest

from ansible_collections.aicluster.baremetal.plugins.module_utils.core import outcome as outcomes
from ansible_collections.aicluster.baremetal.plugins.module_utils.health import burn_in, inventory
from ansible_collections.aicluster.baremetal.plugins.module_utils.health.gpu_suite import check_gpus
from ansible_collections.aicluster.baremetal.plugins.module_utils.health.plan import CHECKS, read_plan
from ansible_collections.aicluster.baremetal.plugins.module_utils.health.system import Ran

from .conftest import SERIALS, LabSystem

GPU_CHECKS = {name for name, check in CHECKS.items() if check.group == "gpu"}


def run(system, expected=None, **plan):
    full = read_plan({"schema": 1, "groups": ["gpu"], "expected": expected or {}, **plan})
    seen = inventory.inventory(system)
    seen["gpus"] = []
    items = check_gpus(full, system, system.kernel_log(), seen)
    return {item["check"]: item for item in items}, burn_in.summarise(burn_in.settle(items, full))


@pytest.mark.parametrize("profile", ["h100x8", "h200x8", "b200x8", "a100x8", "a100x4"])
def test_a_good_server_passes_every_check(instruments, profile):
    instruments.claim(profile).tool("setup")
    serials = SERIALS[: int(profile[-1])]
    items, (outcome, reason) = run(LabSystem(instruments), {"gpu_serials": serials}, gpu_diag_level=2)
    assert set(items) == GPU_CHECKS
    assert {
        name: item["outcome"] for name, item in items.items() if item["outcome"] not in ("pass", "not_applicable")
    } == {}
    assert all(item["simulated"] for item in items.values())
    assert (outcome, reason) == (outcomes.PASS, None)


@pytest.mark.parametrize(
    ("fault", "failing", "words"),
    [
        ("gpu3_ecc_dbe", {"gpu_ecc", "gpu_memory_repair", "gpu_xid", "gpu_diag"}, "1 uncorrectable ECC error"),
        ("gpu3_fell_off", {"gpu_count", "gpu_serials", "gpu_xid"}, "7 of 8 GPUs are there"),
        ("gpu3_thermal_slowdown", {"gpu_thermal"}, "hw slowdown and hw thermal slowdown active at 89 C"),
        ("gpu3_pcie_width", {"gpu_pcie", "gpu_diag"}, "PCIe link is x8 instead of x16"),
        (
            "gpu3_nvlink_down",
            {"gpu_nvlink", "gpu_topology", "gpu_xid", "gpu_diag"},
            "17 of 18 NVLinks are up (link 3 inactive)",
        ),
        ("gpu3_row_remap_failed", {"gpu_memory_repair", "gpu_xid", "gpu_diag"}, "a row remap has failed"),
    ],
)
def test_each_fault_is_found(instruments, fault, failing, words):
    instruments.claim("h100x8", fault).tool("setup")
    items, (outcome, reason) = run(LabSystem(instruments), {"gpu_serials": SERIALS}, gpu_diag_level=2)
    assert {name for name, item in items.items() if item["outcome"] == "fail"} == failing
    assert outcome == outcomes.FAIL
    assert words in reason and "(simulated)" in reason
    if fault != "gpu3_fell_off":
        assert f"GPU 3 (slot SXM4, 0000:61:00.0, serial {SERIALS[3]}): " in reason


def test_the_reason_names_part_cause_and_rule_once(instruments):
    instruments.claim("h100x8", "gpu3_ecc_dbe").tool("setup")
    _items, (_outcome, reason) = run(LabSystem(instruments), {"gpus": 8})
    assert reason.startswith(f"GPU 3 (slot SXM4, 0000:61:00.0, serial {SERIALS[3]}): 1 uncorrectable ECC error")
    assert "Xid 48" in reason and "gpu-ecc/1" in reason and reason.count("GPU 3 (slot") == 1


def test_nobody_says_how_many(instruments):
    instruments.claim("h100x8", serials=False).tool("setup")
    items, (outcome, reason) = run(LabSystem(instruments))
    assert items["gpu_count"]["outcome"] == outcomes.COULD_NOT_TEST
    assert outcome == outcomes.COULD_NOT_TEST and "nothing says how many" in reason


def test_no_gpus_wanted_and_none_there(instruments):
    instruments.claim(None, serials=False)
    for expected in ({}, {"gpus": 0}):
        items, _summary = run(LabSystem(instruments), expected)
        assert {item["outcome"] for item in items.values()} == {outcomes.NOT_APPLICABLE}
    items, (outcome, _reason) = run(LabSystem(instruments), {"gpus": 8})
    assert outcome == outcomes.COULD_NOT_TEST and items["gpu_count"]["outcome"] == outcomes.COULD_NOT_TEST


class Broken(LabSystem):
    """A tool that answers nonsense, is missing, or hangs."""

    def __init__(self, instruments, tool, answer):
        super().__init__(instruments)
        self.tool, self.answer = tool, answer

    def run(self, argv, timeout_s, stdin=None):
        if argv[: len(self.tool)] == list(self.tool):
            return self.answer
        return super().run(argv, timeout_s, stdin)


@pytest.mark.parametrize(
    "answer",
    [
        Ran(None, "", "", "tool: not installed", 0),
        Ran(None, "", "", "tool: did not end within 60 s", 60),
        Ran(0, "", "", "", 0),
        Ran(0, "{}", "", "", 0),
        Ran(255, "Error: unable to connect", "", "", 0),
    ],
)
@pytest.mark.parametrize(
    ("tool", "checks"),
    [
        (("nvidia-smi", "-q"), GPU_CHECKS - {"gpu_xid", "gpu_diag"}),
        (("nvidia-smi", "nvlink"), {"gpu_nvlink"}),
        (("nvidia-smi", "topo"), {"gpu_topology"}),
        (("dcgmi",), {"gpu_diag"}),
    ],
)
def test_a_tool_that_does_not_answer_is_never_a_pass(instruments, tool, checks, answer):
    instruments.tool("setup")
    items, (outcome, _reason) = run(Broken(instruments, tool, answer), {"gpus": 8})
    assert {name for name in checks if items[name]["outcome"] != outcomes.COULD_NOT_TEST} == set()
    assert outcome == outcomes.COULD_NOT_TEST


def test_instruments_beside_real_devices_are_not_believed(instruments):
    system = LabSystem(instruments)
    full = read_plan({"schema": 1, "groups": ["gpu"]})
    seen = dict(inventory.inventory(system), gpus=["0000:61:00.0"])
    items = check_gpus(full, system, "", seen)
    assert {item["outcome"] for item in items} == {outcomes.COULD_NOT_TEST}
