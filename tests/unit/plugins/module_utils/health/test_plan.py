# The burn-in plan: refused before any work where this version does not understand it; the summary's gating.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import pathlib

import pytest

from ansible_collections.aicluster.baremetal.plugins.module_utils.core.errors import InvalidInput
from ansible_collections.aicluster.baremetal.plugins.module_utils.core.outcome import combine_items, gates
from ansible_collections.aicluster.baremetal.plugins.module_utils.health import limits
from ansible_collections.aicluster.baremetal.plugins.module_utils.health.burn_in import settle, summarise
from ansible_collections.aicluster.baremetal.plugins.module_utils.health.items import (
    could_not_test,
    failed,
    not_applicable,
    passed,
)
from ansible_collections.aicluster.baremetal.plugins.module_utils.health.plan import CHECKS, GROUPS, read_plan


def test_defaults():
    plan = read_plan({"schema": 1})
    assert (
        plan["groups"] == list(GROUPS)
        and plan["limits"]["network_link_fraction"] == 0.8
        and plan["disk_bytes"] == 64 * 2**20
    )
    assert {check.group for check in CHECKS.values()} == set(GROUPS)


@pytest.mark.parametrize(
    "plan",
    [
        [],
        {},
        {"schema": 2},
        {"schema": 1, "second": 3},
        {"schema": 1, "groups": ["gpus"]},
        {"schema": 1, "groups": []},
        {"schema": 1, "checks": {"gpu_ec": {}}},
        {"schema": 1, "checks": {"gpu_ecc": {"require": True}}},
        {"schema": 1, "expected": {"gpu": 8}},
        {"schema": 1, "limits": {"gpu_errors": 1}},
        {"schema": 1, "limits": {"network_floor": "fast"}},
        {"schema": 1, "seconds": 0},
        {"schema": 1, "memory_fraction": 1.5},
        {"schema": 1, "disk_size": "much"},
    ],
)
def test_refused(plan):
    with pytest.raises(InvalidInput):
        read_plan(plan)


def test_every_limit_has_a_source():
    assert all(limit.source and limit.unit for limit in limits.LIMITS.values())
    assert limits.resolve({"network_floor": "5"})["network_floor"] == 5.0


def items(**outcomes_by_check):
    make = {
        "pass": passed,
        "fail": lambda check: failed(check, detail="broken", rule="r/1"),
        "could_not_test": lambda check: could_not_test(check, "why"),
        "not_applicable": lambda check: not_applicable(check, "why"),
    }
    return [make[word](check) for check, word in outcomes_by_check.items()]


@pytest.mark.parametrize(
    ("found", "checks", "wanted"),
    [
        ({"gpu_ecc": "pass", "clock_sync": "not_applicable"}, {}, "pass"),
        ({"gpu_ecc": "pass", "network": "could_not_test"}, {}, "could_not_test"),
        ({"gpu_ecc": "pass", "network": "could_not_test"}, {"network": {"required": False}}, "pass"),
        ({"gpu_ecc": "pass", "hardware_cpus": "could_not_test"}, {}, "pass"),
        (
            {"gpu_ecc": "pass", "hardware_cpus": "could_not_test"},
            {"hardware_cpus": {"required": True}},
            "could_not_test",
        ),
        ({"gpu_ecc": "pass", "hardware_cpus": "fail"}, {}, "fail"),
        ({"gpu_ecc": "pass", "gpu_persistence": "fail"}, {}, "pass"),
        ({"gpu_ecc": "pass", "gpu_persistence": "fail"}, {"gpu_persistence": {"advisory": False}}, "fail"),
        ({"gpu_ecc": "fail", "network": "could_not_test"}, {}, "fail"),
        ({"clock_sync": "not_applicable"}, {}, "not_applicable"),
        ({"network": "could_not_test"}, {"network": {"required": False}}, "not_applicable"),
        ({}, {}, "could_not_test"),
    ],
)
def test_gating(found, checks, wanted):
    settled = settle(items(**found), read_plan({"schema": 1, "checks": checks}))
    outcome, reason = summarise(settled)
    assert outcome == wanted
    # every check keeps its outcome, and whoever reads the evidence alone comes to the same decision
    assert {item["check"]: item["outcome"] for item in settled} == found
    if any(gates(item) for item in settled):
        assert combine_items(settled) == wanted
    assert wanted == "pass" or reason


def test_reason_starts_with_the_cause():
    _outcome, reason = summarise(items(kernel_log="fail", gpu_count="fail"))
    assert reason == "broken; rule r/1"
    untested = [could_not_test(name, "tool: not installed") for name in ("gpu_ecc", "gpu_thermal")]
    assert summarise(untested)[1] == "could not test gpu_ecc, gpu_thermal: tool: not installed"
    found = [
        failed("gpu_diag", faults=[("GPU 1", "b")], rule="d/1", detail="x"),
        failed("gpu_ecc", faults=[("GPU 1", "a")], rule="e/1", detail="y", simulated=True),
    ]
    assert summarise(found)[1] == "GPU 1: a, b; rules e/1, d/1 (simulated)"


def test_what_does_not_gate_says_what_was_found():
    (item,) = settle(items(gpu_persistence="fail"), read_plan({"schema": 1}))
    assert (item["outcome"], item["gates"], item["detail"]) == ("fail", False, "advisory in this plan; broken")
    (item,) = settle(items(hardware_cpus="could_not_test"), read_plan({"schema": 1}))
    assert (item["outcome"], item["gates"]) == ("could_not_test", False)
    assert item["detail"] == "optional in this plan; why"


def test_a_pass_says_how_much_was_not_tested():
    plan = read_plan({"schema": 1, "checks": {"network": {"required": False}}})
    found = items(gpu_ecc="pass", network="could_not_test", hardware_cpus="could_not_test", gpu_persistence="fail")
    assert summarise(settle(found, plan)) == (
        "pass",
        "1 check that does not gate failed: gpu_persistence; "
        "2 checks that do not gate could not be tested: hardware_cpus, network",
    )
    assert summarise(settle(items(gpu_ecc="pass"), plan)) == ("pass", None)


def test_documentation_has_every_check_and_limit():
    text = (pathlib.Path(__file__).resolve().parents[5] / "docs" / "burn_in.md").read_text(encoding="utf-8")
    for name, limit in limits.LIMITS.items():
        assert f"| `{name}` | {limit.default:g} | {limit.unit} | {limit.source} |" in text
    assert [name for name in CHECKS if f"`{name}`" not in text] == []
