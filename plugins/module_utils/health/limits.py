# Pass limits of the burn-in, as data: name, default, unit and where the number comes from. A plan may override each of them.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

from typing import NamedTuple

from ..core.errors import InvalidInput


class Limit(NamedTuple):
    default: float
    unit: str
    source: str


# Floors of rates are only there to catch a device that does not work properly; what a healthy device reaches is recorded, not assumed.
LIMITS = {
    "gpu_uncorrectable_volatile": Limit(
        0,
        "errors",
        "any uncorrectable error since the driver was loaded asks for a reset before new work (NVIDIA GPU memory error management)",
    ),
    "gpu_sram_uncorrectable_aggregate": Limit(
        4,
        "errors",
        "more than four over the board's life usually lead to replacement (NVIDIA RMA guidance, as operators report it)",
    ),
    "gpu_retired_pages": Limit(63, "pages", "the retirement table holds 64 pages (NVIDIA dynamic page retirement)"),
    "gpu_remapped_uncorrectable": Limit(
        511, "rows", "512 remapped rows are a reason for replacement (NVIDIA A100 GPU memory error management)"
    ),
    "memory_missing_fraction": Limit(
        0.05, "of the memory", "firmware and kernel keep a few percent (checkers of large clouds allow 3 to 7 percent)"
    ),
    "memory_missing_bytes": Limit(
        256 * 2**20, "bytes", "what firmware, kernel image and crash kernel keep on a small machine"
    ),
    "clock_offset_s": Limit(
        0.1, "s", "log and event times of different nodes must be comparable; NTP in one site stays far below"
    ),
    "clock_controller_offset_s": Limit(
        60, "s", "coarse: the time to connect and to start the check is in it; Kerberos allows five minutes"
    ),
    "disk_write_floor": Limit(5e6, "bytes/s", "project floor: a disk slower than this cannot hold an operating system"),
    "disk_read_floor": Limit(5e6, "bytes/s", "project floor: a disk slower than this cannot hold an operating system"),
    "network_link_fraction": Limit(
        0.8, "of the link rate", "one TCP stream on an idle link; 1500-byte frames carry at most 94 percent"
    ),
    "network_floor": Limit(20e6, "bit/s", "project floor where the link does not say its rate (virtual machines)"),
}


def resolve(overrides=None):
    """{name: number} with the plan's overrides; InvalidInput for an unknown name or a value that is not a number."""
    values = {name: limit.default for name, limit in LIMITS.items()}
    for name, value in (overrides or {}).items():
        if name not in LIMITS:
            raise InvalidInput("unknown limit", thing="burn-in plan", wanted=", ".join(sorted(LIMITS)), seen=name)
        try:
            values[name] = float(value)
        except (TypeError, ValueError):
            raise InvalidInput(f"limit {name} is not a number", thing="burn-in plan", seen=value)
    return values
