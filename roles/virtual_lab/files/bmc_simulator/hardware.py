# What a simulated server is made of: GPU profiles, and parts whose serial numbers are derived from the node's.
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
    """One GPU complement. Memory as the vendor's data sheets print it."""

    model: str
    count: int
    memory_gib: int
    memory_type: str


# The names of the simulated instruments' profiles (role lab_instruments), and more for fleets of driver none.
GPU_PROFILES: dict[str, GpuProfile] = {
    "a100x4": GpuProfile("NVIDIA A100-SXM4-80GB", 4, 80, "HBM2E"),
    "a100x8": GpuProfile("NVIDIA A100-SXM4-80GB", 8, 80, "HBM2E"),
    "h100x8": GpuProfile("NVIDIA H100 80GB HBM3", 8, 80, "HBM3"),
    "h200x8": GpuProfile("NVIDIA H200", 8, 141, "HBM3"),
    "gb200x4": GpuProfile("NVIDIA GB200", 4, 186, "HBM3"),
    "mi250x4": GpuProfile("AMD Instinct MI250X", 4, 128, "HBM2E"),
    "b200x8": GpuProfile("NVIDIA B200", 8, 180, "HBM3"),
}


def gpu_serials(node_serial: str, profile: str | None) -> list[str]:
    """Serial numbers of the GPUs, in slot order: those that the simulated instruments of the node show."""
    return [f"SIM-{node_serial}-G{index}" for index in range(GPU_PROFILES[profile].count)] if profile else []


def _dimm_serial(node_serial: str, index: int) -> str:
    return str(int(hashlib.sha256(f"{node_serial}/dimm/{index}".encode()).hexdigest(), 16))[-8:]


def dimms(node: dict[str, Any]) -> list[dict[str, Any]]:
    """Memory modules: two that share the node's memory, or one if it is odd."""
    total = node["memory_mib"]
    count = 2 if total % 2 == 0 else 1
    return [
        {"slot": f"DIMM{index}", "size_mib": total // count, "serial": _dimm_serial(node["serial"], index)}
        for index in range(count)
    ]


def oem_strings(node: dict[str, Any]) -> list[str]:
    """What the operating system learns about its simulated hardware: SMBIOS OEM strings, or a file in nspawn nodes."""
    strings = ["aicluster.simulated=true"]
    if node["gpu_profile"]:
        strings.append(f"aicluster.gpu_profile={node['gpu_profile']}")
    if node["fault"]:
        strings.append(f"aicluster.fault={node['fault']}")
    return strings
