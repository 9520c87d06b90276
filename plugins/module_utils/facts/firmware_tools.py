# Readers of the tools that read firmware versions on a node: mstflint, nvme-cli, nvidia-smi. Text in, facts out.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import json
import re

from .values import Unreadable


def mstflint_query(text):
    """{"flash", "running", "psid", "image_type"} of `mstflint ... query`, of a device or of an image (then `running` is None).

    "FW Version" is what lies in the flash; "FW Version(Running)" is only shown where it is another one: that one runs until the next reset.
    """
    found = {}
    for line in text.splitlines():
        match = re.match(r"\s*(Image type|FW Version(?:\(Running\))?|PSID):\s+(\S+)", line)
        if match:
            found.setdefault(match.group(1), match.group(2))
    if "FW Version" not in found:
        raise Unreadable("this is no answer of mstflint query: it has no line FW Version")

    def value(key):
        word = found.get(key)
        return None if word in (None, "N/A") else word

    return {
        "flash": value("FW Version"),
        "running": value("FW Version(Running)"),
        "psid": value("PSID"),
        "image_type": value("Image type"),
    }


def pci_addresses(text):
    """Addresses of the devices in the output of `lspci -D -n`, first functions only: the functions of one card share its firmware."""
    found = re.findall(r"^([0-9a-f]{4,}:[0-9a-f]{2}:[0-9a-f]{2})\.([0-7])\s", text, re.MULTILINE | re.IGNORECASE)
    return sorted({f"{card.lower()}.0" for card, _function in found})


def nvme_devices(text):
    """[{"device": "/dev/nvme0", "serial", "model", "firmware"}] of `nvme list -o json` (the flat form of nvme-cli 1 and 2)."""
    try:
        rows = json.loads(text or "{}").get("Devices") or []
    except (ValueError, AttributeError):
        raise Unreadable("nvme list did not give JSON") from None
    found = {}
    for row in rows if isinstance(rows, list) else []:
        if not isinstance(row, dict):
            continue
        path = re.match(r"(/dev/nvme\d+)", str(row.get("DevicePath") or ""))
        if path:
            found[path.group(1)] = {
                "device": path.group(1),
                "serial": str(row.get("SerialNumber") or "").strip() or None,
                "model": str(row.get("ModelNumber") or "").strip() or None,
                "firmware": str(row.get("Firmware") or "").strip() or None,
            }
    return [found[key] for key in sorted(found)]


def nvme_staged(text):
    """The version that a drive takes at its next reset, of `nvme fw-log -o json`; None where there is none.

    NVM Express base specification, firmware slot information log: bits 6:4 of AFI are the slot of the next reset, 0 where it stays.
    """
    try:
        body = json.loads(text or "{}")
        row = next(iter(body.values())) if isinstance(body, dict) and body else {}
        afi = next((value for key, value in row.items() if "afi" in key.lower()), 0)
        afi = int(str(afi), 0)
        slot = afi >> 4 & 7
        if not slot or slot == afi & 7:
            return None
        value = next(
            (value for key, value in row.items() if re.search(rf"slot {slot}\b|frs{slot}\b", key, re.IGNORECASE)), None
        )
    except (ValueError, AttributeError, StopIteration):
        raise Unreadable("nvme fw-log did not give JSON") from None
    # "GDC5602Q", or the register as a number with the text behind it: "5917... (GDC5602Q)"
    inner = re.search(r"\(([^()]+)\)\s*$", str(value or ""))
    return (inner.group(1) if inner else str(value or "")).strip() or None


def gpu_vbios(text):
    """[{"bus", "version"}] of `nvidia-smi --query-gpu=pci.bus_id,vbios_version --format=csv,noheader`."""
    found = []
    for line in text.splitlines():
        parts = [part.strip() for part in line.split(",")]
        if len(parts) == 2 and re.fullmatch(r"[0-9A-Fa-f]+:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.\d", parts[0]):
            found.append({"bus": parts[0].lower(), "version": None if "N/A" in parts[1] else parts[1]})
    return found
