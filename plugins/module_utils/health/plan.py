# The burn-in plan: which checks there are, which of them gate, and what a plan may say. Read and refused before any work.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

from typing import NamedTuple

from ..core.errors import InvalidInput
from ..core.units import parse_size
from . import limits

SCHEMA = 1


class Check(NamedTuple):
    """`required`: could_not_test keeps the node out. `advisory`: even a failure only goes into the evidence."""

    group: str
    required: bool
    advisory: bool


# Every check that a plan can name, in the order in which faults are reported: the cause before its consequences.
CHECKS = {
    "identity": Check("hardware", True, False),
    "hardware_cpus": Check("hardware", False, False),
    "hardware_memory": Check("hardware", False, False),
    "hardware_disks": Check("hardware", False, False),
    "hardware_nics": Check("hardware", False, False),
    "gpu_count": Check("gpu", True, False),
    "gpu_serials": Check("gpu", False, False),
    "gpu_ecc": Check("gpu", True, False),
    "gpu_memory_repair": Check("gpu", True, False),
    "gpu_memory": Check("gpu", True, False),
    "gpu_thermal": Check("gpu", True, False),
    "gpu_pcie": Check("gpu", True, False),
    "gpu_nvlink": Check("gpu", True, False),
    "gpu_topology": Check("gpu", True, False),
    "gpu_fabric": Check("gpu", True, False),
    "gpu_persistence": Check("gpu", False, True),
    "gpu_xid": Check("gpu", True, False),
    "gpu_diag": Check("gpu", True, False),
    "cpu_stress": Check("stress", True, False),
    "memory_stress": Check("stress", True, False),
    "disk_stress": Check("disk", True, False),
    "network": Check("network", True, False),
    "clock_sync": Check("clock", True, False),
    "clock_offset": Check("clock", True, False),
    "kernel_log": Check("kernel", True, False),
    "pcie_links": Check("kernel", True, False),
}
GROUPS = ("hardware", "stress", "disk", "network", "clock", "gpu", "kernel")

_DEFAULTS = {
    "groups": list(GROUPS),
    "checks": {},
    "seconds": 6,
    "cpu_method": "all",
    "memory_method": "all",
    "memory_fraction": 0.5,
    "memory_rate": "64 MiB",
    "disk_path": "/var/tmp",
    "disk_size": "64 MiB",
    "network": {},
    "gpu_diag_level": 1,
    "gpu_models": {},
    "limits": {},
    "expected": {},
    "time": {},
    "lock_wait_s": 120,
}
_EXPECTED = ("serial", "cpus", "memory_bytes", "disk_serials", "macs", "gpus", "gpu_serials")


def read_plan(plan):
    """The plan with all defaults filled in; InvalidInput on anything that this version does not know, before any work."""

    def refuse(message, wanted=None, seen=None):
        raise InvalidInput(message, thing="burn-in plan", wanted=wanted, seen=seen)

    if not isinstance(plan, dict):
        refuse("is not a dictionary", seen=type(plan).__name__)
    if plan.get("schema") != SCHEMA:
        refuse("unknown schema", SCHEMA, plan.get("schema"))
    unknown = set(plan) - set(_DEFAULTS) - {"schema"}
    if unknown:
        refuse("unknown keys", ", ".join(sorted(_DEFAULTS)), ", ".join(sorted(unknown)))
    full = dict(_DEFAULTS, **{key: value for key, value in plan.items() if value is not None})
    if set(full["groups"]) - set(GROUPS) or not full["groups"]:
        refuse("unknown groups", ", ".join(GROUPS), full["groups"])
    for name, options in full["checks"].items():
        if name not in CHECKS:
            refuse("unknown check", ", ".join(CHECKS), name)
        if not isinstance(options, dict) or set(options) - {"required", "advisory", "enabled"}:
            refuse(f"options of check {name}", "required, advisory, enabled", options)
    if set(full["expected"]) - set(_EXPECTED):
        refuse("unknown expectations", ", ".join(_EXPECTED), ", ".join(sorted(set(full["expected"]) - set(_EXPECTED))))
    try:
        full["seconds"] = float(full["seconds"])
        full["memory_fraction"] = float(full["memory_fraction"])
        full["disk_bytes"] = parse_size(full["disk_size"])
        full["memory_rate_bytes"] = parse_size(full["memory_rate"])
        full["gpu_diag_level"] = int(full["gpu_diag_level"])
    except (TypeError, ValueError) as error:
        refuse(str(error))
    if not 1 <= full["seconds"] <= 7 * 86400:
        refuse("seconds out of range", "1 to 604800", full["seconds"])
    if not 0 < full["memory_fraction"] <= 0.95:
        refuse("memory_fraction out of range", "above 0, at most 0.95", full["memory_fraction"])
    full["limits"] = limits.resolve(full["limits"])
    return full


def enabled(plan, name):
    """Whether the plan asks for this check."""
    return CHECKS[name].group in plan["groups"] and plan["checks"].get(name, {}).get("enabled", True)
