# Readers of what Linux says about the machine: /proc/cpuinfo, /proc/meminfo, lsblk -J, chronyc -c tracking, lscpu -J. Pure.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import json
import re
from typing import NamedTuple

from .values import Unreadable


class Cpu(NamedTuple):
    model: str | None
    threads: int
    sockets: int


class Disk(NamedTuple):
    """`kind`: nvme, ssd, hdd or virtual (a disk that does not say)."""

    name: str
    serial: str | None
    model: str | None
    size_bytes: int
    kind: str


class Clock(NamedTuple):
    """State of chrony. `offset_s` is the clock's distance from NTP time; `synchronised` False while no source is chosen."""

    synchronised: bool
    source: str | None
    stratum: int
    offset_s: float
    root_dispersion_s: float


def read_cpuinfo(text):
    """Cpu from /proc/cpuinfo (x86 and ARM; ARM has no model name and no sockets there)."""
    threads = len(re.findall(r"^processor\s*:", text, re.MULTILINE))
    if not threads:
        raise Unreadable("no processor in /proc/cpuinfo")
    model = re.search(r"^model name\s*:\s*(.+)$", text, re.MULTILINE)
    sockets = len(set(re.findall(r"^physical id\s*:\s*(\d+)$", text, re.MULTILINE)))
    return Cpu(model.group(1).strip() if model else None, threads, max(1, sockets))


def read_meminfo(text):
    """{"MemTotal": bytes, ...} from /proc/meminfo."""
    found = {name: int(value) * 1024 for name, value in re.findall(r"^([\w()]+):\s+(\d+) kB$", text, re.MULTILINE)}
    if "MemTotal" not in found:
        raise Unreadable("no MemTotal in /proc/meminfo")
    return found


def read_lscpu(text):
    """{field: value} from `lscpu -J`; nested entries (newer util-linux) are flattened."""
    try:
        document = json.loads(text)
    except ValueError as error:
        raise Unreadable(f"lscpu: {error}") from None
    found = {}

    def walk(entries):
        for entry in entries:
            found[str(entry.get("field", "")).rstrip(":")] = entry.get("data")
            walk(entry.get("children") or [])

    walk(document.get("lscpu") or [])
    if not found:
        raise Unreadable("lscpu: no field")
    return found


def read_lsblk(text):
    """tuple of Disk from `lsblk -J -b -d -o NAME,SERIAL,MODEL,SIZE,ROTA,TYPE,TRAN`; only whole disks, no RAM, loop or optical devices.
    ROTA is a text in old util-linux and a boolean in new."""
    try:
        document = json.loads(text)
    except ValueError as error:
        raise Unreadable(f"lsblk: {error}") from None
    disks = []
    for entry in document.get("blockdevices") or []:
        if entry.get("type") != "disk" or str(entry.get("name", "")).startswith(("zram", "ram", "loop", "fd", "nbd")):
            continue
        rotating = entry.get("rota") in (True, "1", 1)
        if entry.get("tran") == "nvme" or str(entry["name"]).startswith("nvme"):
            kind = "nvme"
        elif str(entry["name"]).startswith("vd"):
            kind = "virtual"
        else:
            kind = "hdd" if rotating else "ssd"
        serial = (entry.get("serial") or "").strip() or None
        model = (entry.get("model") or "").strip() or None
        disks.append(Disk(entry["name"], serial, model, int(entry.get("size") or 0), kind))
    return tuple(disks)


def read_chrony_tracking(text):
    """Clock from `chronyc -c tracking` (one line of comma separated values; field order in chronyc(1), "tracking")."""
    fields = text.strip().splitlines()[-1].split(",") if text.strip() else []
    if len(fields) < 14:
        raise Unreadable(f"not an answer of chronyc -c tracking: {text.strip()[:200]!r}")
    try:
        stratum, offset, dispersion = int(fields[2]), float(fields[4]), float(fields[11])
    except ValueError:
        raise Unreadable(f"not an answer of chronyc -c tracking: {text.strip()[:200]!r}") from None
    # leap status "Not synchronised", and reference id 0 or 7F7F0101 (the local clock) are no time source
    chosen = fields[13].strip().lower() != "not synchronised" and fields[0] not in ("00000000", "7F7F0101", "")
    return Clock(chosen, fields[1] or None, stratum, offset, dispersion)
