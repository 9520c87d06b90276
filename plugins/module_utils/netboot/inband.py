# The deployed node seen from inside: one SSH call with the pinned host key, what it says, and whether that is the node we wrote.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import re
import subprocess

from ..core.outcome import COULD_NOT_TEST, FAIL, PASS

# Reads only; each line is KEY=value. dmi serials are readable by root.
PROBE = (
    "echo product_serial=$(cat /sys/class/dmi/id/product_serial 2>/dev/null);"
    "echo chassis_serial=$(cat /sys/class/dmi/id/chassis_serial 2>/dev/null);"
    "echo root_uuid=$(findmnt -no UUID / 2>/dev/null);"
    "echo command_line=$(cat /proc/cmdline);"
    "echo uptime=$(cut -d' ' -f1 /proc/uptime);"
    "echo boot_id=$(cat /proc/sys/kernel/random/boot_id);"
    "echo hostname=$(cat /proc/sys/kernel/hostname);"
    "echo kernel=$(uname -r)"
)
_LINE = re.compile(r"([a-z_]+)=(.*)")
# What ssh says when another key than the pinned one is shown.
_WRONG_KEY = ("Host key verification failed", "REMOTE HOST IDENTIFICATION HAS CHANGED")


def ssh_argv(address, user, known_hosts_arguments, alias, key=None, port=22, connect_timeout=5):
    """The ssh command line: no questions, only the key pinned for `alias` (the node), no configuration of the caller's."""
    argv = [
        "ssh",
        "-F",
        "none",
        "-o",
        "BatchMode=yes",
        "-o",
        f"ConnectTimeout={connect_timeout}",
        "-o",
        "LogLevel=ERROR",
        *known_hosts_arguments,
    ]
    argv += [
        "-o",
        f"HostKeyAlias={alias}",
        "-o",
        "ControlMaster=no",
        "-o",
        "ControlPath=none",
        "-p",
        str(port),
        "-l",
        user,
    ]
    if key:
        argv += ["-o", "IdentitiesOnly=yes", "-i", key]
    return [*argv, address, PROBE]


def ask(argv, timeout=30):
    """(facts or None, what was seen in words, True when the host showed another key). Never raises for a node that does not answer."""
    try:
        done = subprocess.run(
            argv, capture_output=True, text=True, timeout=timeout, check=False, stdin=subprocess.DEVNULL
        )
    except subprocess.TimeoutExpired:
        return None, f"ssh did not end within {timeout} s", False
    if done.returncode == 0:
        return parse(done.stdout), "answered", False
    lines = [line.strip() for line in done.stderr.splitlines() if line.strip()]
    wrong = any(word in done.stderr for word in _WRONG_KEY)
    return None, lines[-1] if lines else f"ssh ended with status {done.returncode}", wrong


def parse(text):
    """{key: value} of the probe's output."""
    found = {}
    for line in text.splitlines():
        match = _LINE.fullmatch(line.strip())
        if match:
            found[match[1]] = match[2].strip()
    return found


def judge(facts, serial, root_uuid, image_bytes=None, served=(), verified=None):
    """Evidence items {check, outcome, value, limit, rule, source, detail} for what was written and what answers now.

    `served`: details of the `served` boot events of this attempt; None for `image_bytes` leaves that check out. `verified`: detail of its `written` event,
    which the ramdisk sends once the checksum of what it wrote is the manifest's. With it, an access log that shows no whole transfer does not gate:
    the count of bytes stays `could_not_test`, and what it would have shown is known by the checksum.
    """
    serials = [facts.get(key) for key in ("product_serial", "chassis_serial") if facts.get(key)]
    command_line = facts.get("command_line", "")
    items = [
        _item(
            "deploy.identity",
            COULD_NOT_TEST if not serials else PASS if serial in serials else FAIL,
            ", ".join(serials) or None,
            serial,
            "the serial read in-band equals the one that the BMC gave",
            "ssh: /sys/class/dmi/id",
        ),
        _item(
            "deploy.root",
            PASS if facts.get("root_uuid", "").lower() == root_uuid.lower() else FAIL,
            facts.get("root_uuid"),
            root_uuid,
            "the root file system is the image's",
            "ssh: findmnt",
        ),
        _item(
            "deploy.disk_boot",
            PASS if root_uuid.lower() in command_line.lower() and "aicluster.session" not in command_line else FAIL,
            command_line[:300],
            f"root=UUID={root_uuid}",
            "the running kernel was started from the disk",
            "ssh: /proc/cmdline",
        ),
    ]
    if image_bytes is not None:
        whole = [row for row in served if isinstance(row, dict) and row.get("complete") and row.get("status") == 200]
        seen = whole[-1]["bytes"] if whole else None
        item = _item(
            "deploy.image_bytes",
            COULD_NOT_TEST if seen is None else PASS if seen == image_bytes else FAIL,
            seen,
            image_bytes,
            "the image server sent the whole image to this node",
            "access log of the image server",
            unit="bytes",
        )
        if seen is None:
            item["detail"] = "the access log shows no whole transfer to this node"
            if verified:
                item["gates"] = False
                item["detail"] += f"; the ramdisk verified what it wrote: {verified}"
        items.append(item)
    return items


def _item(check, outcome, value, limit, rule, source, unit=None):
    return {
        "check": check,
        "outcome": outcome,
        "value": value,
        "unit": unit,
        "limit": limit,
        "rule": rule,
        "source": source,
        "simulated": False,
        "detail": None,
    }
