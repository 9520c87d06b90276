# What a simulated server is made of: GPU profiles and parts with serial numbers that are derived from the node's serial number.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from typing import Any

MANUFACTURER = "AI Cluster Lab"
MODEL = "Virtual GPU Server"
FAULT = re.compile(r"[a-z0-9]+(_[a-z0-9]+)*")


@dataclass(frozen=True)
class GpuProfile:
    """One GPU complement. Memory as the vendor's data sheets print it, in GiB as the driver counts it."""

    model: str
    count: int
    memory_gib: int
    architecture: str


GPU_PROFILES: dict[str, GpuProfile] = {
    "a100x8": GpuProfile("NVIDIA A100-SXM4-80GB", 8, 80, "Ampere"),
    "h100x8": GpuProfile("NVIDIA H100 80GB HBM3", 8, 80, "Hopper"),
    "h200x8": GpuProfile("NVIDIA H200", 8, 141, "Hopper"),
    "b200x8": GpuProfile("NVIDIA B200", 8, 180, "Blackwell"),
}


def _digits(*parts: str, length: int) -> str:
    return str(int(hashlib.sha256("/".join(parts).encode()).hexdigest(), 16))[-length:]


def gpu_serials(node_serial: str, profile: str | None) -> list[str]:
    """Serial numbers of the GPUs, in slot order: 13 digits, the same for the same node serial and index."""
    if not profile:
        return []
    return ["16" + _digits(node_serial, "gpu", str(index), length=11) for index in range(GPU_PROFILES[profile].count)]


def dimm_serials(node_serial: str, count: int) -> list[str]:
    return [_digits(node_serial, "dimm", str(index), length=8) for index in range(count)]


def dimms(node: dict[str, Any]) -> list[dict[str, Any]]:
    """Memory modules: two that share the node's memory, or one if it is odd."""
    total = node["memory_mib"]
    count = 2 if total % 2 == 0 else 1
    return [
        {"slot": f"DIMM{index}", "size_mib": total // count, "serial": serial}
        for index, serial in enumerate(dimm_serials(node["serial"], count))
    ]


def oem_strings(node: dict[str, Any]) -> list[str]:
    """What the operating system learns about its simulated hardware: SMBIOS OEM strings, or lines of a file in nspawn nodes."""
    strings = ["aicluster.simulated=true"]
    if node["gpu_profile"]:
        strings.append(f"aicluster.gpu_profile={node['gpu_profile']}")
        strings.append("aicluster.gpu_serials=" + ",".join(gpu_serials(node["serial"], node["gpu_profile"])))
    if node["fault"]:
        strings.append(f"aicluster.fault={node['fault']}")
    return strings
