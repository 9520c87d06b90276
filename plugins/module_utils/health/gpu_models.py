# What each GPU model should show, by PCI device id: links, link rate, PCIe, memory, memory repair. Data; each row names its source.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

from typing import NamedTuple


class Model(NamedTuple):
    """`link_gbytes`: GB/s per NVLink and direction. `memory_mib`: the least that the driver shows. `remaps_rows`: Ampere and later data-centre parts
    remap rows (older ones retire pages). `fabric`: needs a running fabric manager (NVSwitch)."""

    name: str
    links: int
    link_gbytes: float
    pcie_gen: int
    pcie_width: int
    memory_mib: int
    ecc: bool
    remaps_rows: bool
    fabric: bool
    source: str


_A, _H, _B = "NVIDIA A100 data sheet", "NVIDIA H100/H200 data sheets", "NVIDIA Blackwell data sheets"

# PCI ids: pci.ids. Not by marketing name: boards show "Graphics Device" or "Device 2330" on older systems.
# GH200 and GB200 (C2C parts) may show PCIe width 1 (threshold file of DCGM 4.6), so their width is not judged (0).
MODELS = {
    "1DB1": Model("V100-SXM2-16GB", 6, 25, 3, 16, 16000, True, False, False, "NVIDIA V100 data sheet"),
    "1DB5": Model("V100-SXM2-32GB", 6, 25, 3, 16, 32000, True, False, False, "NVIDIA V100 data sheet"),
    "1EB8": Model(
        "T4", 0, 0, 3, 0, 15000, True, False, False, "NVIDIA T4 data sheet; servers wire the slot with 8 or 16 lanes"
    ),
    "20B0": Model("A100-SXM4-40GB", 12, 25, 4, 16, 40000, True, True, True, _A),
    "20B2": Model("A100-SXM4-80GB", 12, 25, 4, 16, 80000, True, True, True, _A),
    "20B5": Model("A100-PCIe-80GB", 12, 25, 4, 16, 80000, True, True, False, _A + "; links only with a bridge"),
    "20F1": Model("A100-PCIe-40GB", 12, 25, 4, 16, 40000, True, True, False, _A + "; links only with a bridge"),
    "2235": Model("A40", 0, 0, 4, 16, 45000, True, True, False, "NVIDIA A40 data sheet"),
    "26B9": Model("L40S", 0, 0, 4, 16, 45000, True, True, False, "NVIDIA L40S data sheet"),
    "2330": Model("H100-SXM5-80GB", 18, 25, 5, 16, 80000, True, True, True, _H),
    "2331": Model("H100-PCIe-80GB", 18, 25, 5, 16, 80000, True, True, False, _H + "; links only with bridges"),
    "2321": Model("H100-NVL-94GB", 18, 25, 5, 16, 93000, True, True, False, _H + "; links only with bridges"),
    "2335": Model("H200-SXM5-141GB", 18, 25, 5, 16, 140000, True, True, True, _H),
    "233B": Model("H200-NVL-141GB", 18, 25, 5, 16, 140000, True, True, False, _H + "; links only with bridges"),
    "2342": Model("GH200", 18, 25, 5, 0, 94000, True, True, False, _H),
    "2901": Model("B200-SXM", 18, 50, 5, 16, 178000, True, True, True, _B),
    "2941": Model("GB200", 18, 50, 5, 0, 178000, True, True, True, _B),
    "3182": Model("B300-SXM", 18, 50, 6, 16, 260000, True, True, True, _B),
}

# PCIe cards whose links exist only where a bridge is plugged: none at all is no fault of the GPU.
BRIDGED = ("20B5", "20F1", "2331", "2321", "233B")


def model_of(device_id, extra=None):
    """(id, Model) for nvidia-smi's "233010DE" (device and vendor), or (id, None) where the table has no row. `extra`: rows of the plan."""
    key = (device_id or "").upper().replace("0X", "")[:4]
    if extra and key in extra:
        row = dict(dict.fromkeys(Model._fields, 0), name=key, source="plan", **extra[key])
        return key, Model(**row)
    return key, MODELS.get(key)
