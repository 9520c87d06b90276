# The boot timeline: steps in order, what each missing step means, readers of dnsmasq's and nginx's logs, and where a dead run goes on. Pure.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import datetime
import json
import re

from ..core.errors import InvalidInput

# (step, seconds allowed after the step before it, what is missing in plain words, what to look at). The order is the order of one boot.
# The limits suit slow machines: a GPU server's firmware takes minutes from power on to its first DHCP request.
STEPS = (
    ("power_on", 60, "the node was not powered on", "look at the BMC of the node"),
    (
        "dhcp",
        900,
        "no DHCP request",
        "check that the node boots from the network card with the registered MAC and that the card's link is up",
    ),
    (
        "loader",
        120,
        "no boot question from the network loader",
        "check TFTP between the node and the boot server, and that Secure Boot is off",
    ),
    ("kernel", 120, "the deploy kernel was not fetched", "check the image store and the node's console"),
    (
        "ramdisk",
        300,
        "no call from the deploy ramdisk",
        "look at the node's console: the kernel may miss the network driver",
    ),
    ("disk_chosen", 120, "no disk was chosen", "look at the node's console"),
    ("writing", 120, "the image write did not begin", "look at the node's console"),
    ("written", 3600, "the image was not written to its end", "look at the node's console and the boot server's load"),
    ("seeded", 300, "the seed was not written", "look at the node's console"),
    ("boot_order", 120, "the EFI boot order was not set", "look at the node's console"),
    ("done", 120, "the ramdisk did not report its end", "look at the node's console"),
    ("disk_boot", 900, "the node did not boot its disk", "look at the node's console and its boot order"),
    ("ssh", 600, "SSH did not answer with the pinned host key", "look at the node's console and its network"),
)
ORDER = tuple(step[0] for step in STEPS)
MARKS = ("reserved", "served", "failed", "late")
# What the ramdisk itself may report; the rest is seen by the boot service and the controller, which nobody else may claim to be.
RAMDISK_STEPS = ("ramdisk", "disk_chosen", "writing", "written", "seeded", "boot_order", "done", "failed")
_BY_NAME = {step[0]: step for step in STEPS}


def limits(overrides=None):
    """{step: seconds} with a site's own values; raises InvalidInput for a step that does not exist."""
    result = {name: seconds for name, seconds, _words, _hint in STEPS}
    for name, seconds in (overrides or {}).items():
        if name not in result:
            raise InvalidInput(
                "there is no such boot step",
                thing=f"limit for {name}",
                wanted=", ".join(("reserved", *ORDER)),
                seen=name,
            )
        if not isinstance(seconds, (int, float)) or isinstance(seconds, bool) or seconds <= 0:
            raise InvalidInput(
                "must be seconds above 0", thing=f"limit for {name}", wanted="a number above 0", seen=seconds
            )
        result[name] = seconds
    return result


def missing_words(step):
    """("no DHCP request", "what to look at") for the step that did not come."""
    return _BY_NAME[step][2], _BY_NAME[step][3]


def seconds_of(text):
    """Unix seconds of an ISO 8601 time of the registry."""
    if isinstance(text, (int, float)):
        return float(text)
    parsed = (
        text
        if isinstance(text, datetime.datetime)
        else datetime.datetime.fromisoformat(str(text).replace("Z", "+00:00"))
    )
    return (parsed if parsed.tzinfo else parsed.replace(tzinfo=datetime.timezone.utc)).timestamp()


def moment(event):
    """Unix seconds at which the registry took the event in, by the registry's clock: what ages are counted from. `time`, which is for people, may have been
    taken from another machine's clock."""
    return seconds_of(event.get("recorded") or event["time"])


class Progress:
    """How far one boot came: the events of the attempt since its last power_on (a second boot of the same attempt starts anew)."""

    def __init__(self, events, started=None):
        rows = sorted(events, key=moment)
        last_on = max((i for i, event in enumerate(rows) if event["step"] == "power_on"), default=None)
        self.rows = rows if last_on is None else rows[last_on:]
        steps = [event for event in self.rows if event["step"] in ORDER]
        self.last = max(steps, key=lambda event: ORDER.index(event["step"])) if steps else None
        self.failure = next((event for event in self.rows if event["step"] == "failed"), None)
        # The newest sign of life counts for the limit: a ramdisk that reports progress while writing is not stuck.
        newest = [moment(event) for event in steps if self.last and event["step"] == self.last["step"]]
        self.since = max(newest) if newest else started

    @property
    def step(self):
        return self.last["step"] if self.last else None

    def next_step(self):
        """The step that should come now, or None after the last one."""
        if self.step is None:
            return ORDER[0]
        index = ORDER.index(self.step) + 1
        return ORDER[index] if index < len(ORDER) else None

    def reached(self, step):
        return self.step is not None and ORDER.index(self.step) >= ORDER.index(step)

    def overdue(self, now, allowed):
        """(step, limit) when the next step should have come by `now`, else None."""
        step = self.next_step()
        if step is None or self.since is None or now - self.since <= allowed[step]:
            return None
        return step, allowed[step]


def resume_point(events, now, allowed):
    """Where a run that took over an attempt goes on: ("ssh" | "wait" | "boot", why). `now`: Unix seconds by the registry's clock.

    ssh: the ramdisk finished, only the disk boot has to be confirmed. wait: the grant was used and the boot is not overdue, so it must not be
    cut off in the middle of a write. boot: nothing alive; a new grant and a restart are needed (before the grant is used nothing can be lost).
    """
    progress = Progress(events)
    if progress.failure is not None and not progress.reached("done"):
        return "boot", f"the last boot reported: {progress.failure.get('detail') or 'failed'}"
    if progress.reached("done"):
        return "ssh", f"the ramdisk finished before (last step {progress.step})"
    if progress.step is None:
        return "boot", "no boot of this attempt was seen"
    if not progress.reached("loader"):
        return "boot", f"the boot did not get to its question (last step {progress.step})"
    late = progress.overdue(now, allowed)
    if late:
        return "boot", f"{missing_words(late[0])[0]} within {late[1]} s after {progress.step}"
    return "wait", f"a boot is under way (last step {progress.step})"


_DNSMASQ = re.compile(r"dnsmasq-(?P<part>dhcp|tftp)\[\d+\]: (?:(?P<xid>\d+) )?(?P<text>.*)$")
_ACK = re.compile(r"DHCPACK\((?P<interface>[^)]+)\) (?P<address>\S+) (?P<mac>[0-9a-f:]{17})(?: (?P<name>\S+))?")
_VENDOR = re.compile(r"vendor class: (?P<vendor>.*)")
_USER = re.compile(r"user class: (?P<user>.*)")
_TFTP = re.compile(r"sent (?P<path>\S+) to (?P<address>\S+)")


class DnsmasqReader:
    """Feeds on dnsmasq's log lines (log-dhcp) and gives {kind: "dhcp"|"tftp", mac, address, detail} dicts.

    The vendor class stands on a line of its own with the same transaction number, so the reader remembers it until the answer's line.
    """

    def __init__(self):
        self._vendors = {}

    def feed(self, line):
        found = _DNSMASQ.search(line.rstrip("\n"))
        if not found:
            return None
        text, xid = found["text"], found["xid"]
        if found["part"] == "tftp":
            sent = _TFTP.match(text)
            return (
                {"kind": "tftp", "mac": None, "address": sent["address"], "detail": sent["path"].rpartition("/")[2]}
                if sent
                else None
            )
        for pattern, group in ((_VENDOR, "vendor"), (_USER, "user")):
            match = pattern.match(text)
            if match and xid:
                if len(self._vendors) > 1000:
                    self._vendors.clear()
                words = self._vendors.setdefault(xid, [])
                if match[group] not in words:
                    words.append(match[group])
                return None
        ack = _ACK.match(text)
        if not ack:
            return None
        words = self._vendors.pop(xid, [])
        return {
            "kind": "dhcp",
            "mac": ack["mac"],
            "address": ack["address"],
            "detail": " ".join([ack["address"]] + words),
        }


def read_nginx(line):
    """{time, address, method, path, status, bytes, complete} of one access log line of ours, or None for another line."""
    try:
        entry = json.loads(line)
        return {
            "time": float(entry["time"]),
            "address": str(entry["address"]),
            "method": str(entry["method"]),
            "path": str(entry["path"]),
            "status": int(entry["status"]),
            "bytes": int(entry["bytes"]),
            "complete": entry.get("complete") == "OK",
        }
    except (ValueError, KeyError, TypeError):
        return None
