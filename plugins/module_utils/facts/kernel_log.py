# Reader of kernel log lines in any of dmesg's forms and /dev/kmsg's own; finds what speaks against the hardware.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import re
from typing import NamedTuple

from . import xid
from .nvidia_smi import short_bus_id


class Line(NamedTuple):
    """One message: seconds since boot where the form has them (else None), and the text."""

    seconds: float | None
    text: str


class Event(NamedTuple):
    """Something in the log that matters. `kind`: xid, sxid, gpu_lost, pcie_limited, mce, aer, io_error, filesystem, oom, lockup, segfault.
    `action` is one of xid's; `device` a PCI address, a disk name or empty; `code` the Xid or SXid number or None."""

    kind: str
    action: str
    seconds: float | None
    device: str
    code: int | None
    text: str


_KMSG = re.compile(r"^(\d+),(\d+),(\d+),[^;]*;(.*)$")
_BRACKET = re.compile(r"^(?:<\d+>)?\[\s*(\d+\.\d+)\]\s?(.*)$")
_CTIME = re.compile(r"^\[\w{3} \w{3}\s+\d+ [\d:]+ \d{4}\]\s?(.*)$")
_DECODED = re.compile(r"^\w+\s*:\w+\s*:\s(.*)$")
_ISO = re.compile(r"^\d{4}-\d\d-\d\dT[\d:]+[.,]\d+[+-][\d:]+\s(.*)$")


def read_lines(text):
    """tuple of Line. Continuation lines of /dev/kmsg (they begin with a blank) and comment lines are left out."""
    found = []
    for raw in text.splitlines():
        if not raw.strip() or raw.startswith((" ", "#")):
            continue
        match = _KMSG.match(raw)
        if match:
            found.append(Line(int(match.group(3)) / 1e6, match.group(4)))
            continue
        decoded = _DECODED.match(raw)
        rest = decoded.group(1) if decoded else raw
        match = _BRACKET.match(rest)
        if match:
            found.append(Line(float(match.group(1)), match.group(2)))
            continue
        match = _CTIME.match(rest) or _ISO.match(rest)
        found.append(Line(None, match.group(1) if match else rest))
    return tuple(found)


_XID = re.compile(r"NVRM: Xid \((?:PCI:)?([0-9a-fA-F:.]+)\): (\d+),\s*(.*)")
_SXID = re.compile(r"nvidia-nvswitch\d*: SXid \((?:PCI:)?([0-9a-fA-F:.]+)\): (\d+),\s*(.*)")
# Fallen off the bus comes without an Xid in several wordings. Source: reports of operators; NVIDIA driver strings.
_LOST = re.compile(
    r"(GPU has fallen off the bus|GPU is lost|RmInitAdapter failed|rev ff\b|GPU is on the bus, but is not accessible)",
    re.IGNORECASE,
)
_PCI = re.compile(r"\b((?:[0-9a-fA-F]{4}:)?[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-7])\b")
_LIMITED = re.compile(
    r"^(\S+) ([0-9a-fA-F:.]+): ([\d.]+) Gb/s available PCIe bandwidth, limited by ([\d.]+) GT/s PCIe x(\d+) link at (\S+) "
    r"\(capable of ([\d.]+) Gb/s with ([\d.]+) GT/s PCIe x(\d+) link\)"
)
# Drivers whose devices are judged by their PCIe link; a root port that is x1 by design is not.
_LINK_DRIVERS = ("mlx5_core", "nvidia", "nvme")
_IO_ERROR = re.compile(
    r"(?:blk_update_request|Buffer I/O error|I/O error)[^,]*,? (?:on )?dev (\w+)|^print_req_error: .* dev (\w+)",
    re.IGNORECASE,
)
_FILESYSTEM = re.compile(r"(XFS|EXT4-fs error|BTRFS error|JBD2)[^:]*:? .*(error|corrupt|abort|shut)", re.IGNORECASE)
_MCE = re.compile(r"(\[Hardware Error\]|mce: .*Machine check|EDAC .*: \d+ UE )", re.IGNORECASE)
_AER = re.compile(r"AER: .*(Uncorrected|Fatal)", re.IGNORECASE)
_LOCKUP = re.compile(
    r"(soft lockup|hard LOCKUP|rcu.*detected stalls|blocked for more than \d+ seconds|Kernel panic|BUG: unable to handle|Oops:)"
)


def _event(line):
    text = line.text
    match = _XID.search(text)
    if match:
        action, _words = xid.action(int(match.group(2)), match.group(3))
        return Event("xid", action, line.seconds, short_bus_id(match.group(1)), int(match.group(2)), text)
    match = _SXID.search(text)
    if match:
        rest = match.group(3).lower()
        if not rest.startswith(("fatal", "non-fatal", "nonfatal")):
            return None  # data lines repeat the code of the event before them: count it once
        fatal = rest.startswith("fatal")
        return Event(
            "sxid",
            xid.RESET if fatal else xid.IGNORE,
            line.seconds,
            short_bus_id(match.group(1)),
            int(match.group(2)),
            text,
        )
    if _LOST.search(text) and ("NVRM" in text or "nvidia" in text.lower() or "rev ff" in text):
        pci = _PCI.search(text)
        return Event("gpu_lost", xid.REBOOT, line.seconds, short_bus_id(pci.group(1)) if pci else "", None, text)
    match = _LIMITED.match(text)
    if match:
        driver, device = match.group(1), match.group(2)
        narrow = int(match.group(5)) < int(match.group(9))
        wanted = narrow and (driver in _LINK_DRIVERS or (driver == "pci" and int(match.group(9)) >= 8))
        return Event(
            "pcie_limited", xid.CHECK if wanted else xid.IGNORE, line.seconds, short_bus_id(device), None, text
        )
    match = _IO_ERROR.search(text)
    if match:
        return Event("io_error", xid.CHECK, line.seconds, match.group(1) or match.group(2) or "", None, text)
    for kind, pattern, action in (
        ("mce", _MCE, xid.CHECK),
        ("aer", _AER, xid.CHECK),
        ("filesystem", _FILESYSTEM, xid.CHECK),
        ("lockup", _LOCKUP, xid.CHECK),
    ):
        if pattern.search(text):
            return Event(kind, action, line.seconds, "", None, text)
    if "Out of memory: Killed process" in text or "oom-kill:" in text:
        return Event("oom", xid.APPLICATION, line.seconds, "", None, text)
    if "segfault at" in text:
        return Event("segfault", xid.APPLICATION, line.seconds, "", None, text)
    return None


def find_events(lines):
    """tuple of Event for the lines that matter, in order."""
    return tuple(event for event in map(_event, lines) if event)
