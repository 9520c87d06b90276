# DHCP reservations of the nodes that are being deployed: one file a node in dnsmasq's dhcp-hostsdir, kept equal to the registry.
#
# dnsmasq reads a new or changed file by itself, but forgets a removed one only at SIGHUP, so a removal is followed by that signal.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import os
import re
import signal
import tempfile

from ..core.plan import Change, Plan
from .addresses import normal_mac
from .dnsmasq import reservation

_NAME = re.compile(r"[0-9a-f]{12}")


def file_name(mac):
    return normal_mac(mac).replace(":", "")


def wanted(nodes):
    """{file name: content} for node dicts of the registry; nodes without MAC or address are left out (the grant refuses them by name)."""
    result = {}
    for node in nodes:
        if node.get("provision_mac") and node.get("provision_ip"):
            result[file_name(node["provision_mac"])] = reservation(
                node["provision_mac"], node["provision_ip"], node["name"]
            )
    return result


def observe(directory):
    """{file name: content} of what stands there; files that are not ours are not looked at."""
    found = {}
    for name in sorted(os.listdir(directory)):
        if _NAME.fullmatch(name):
            with open(os.path.join(directory, name), encoding="utf-8") as handle:
                found[name] = handle.read()
    return found


def plan(observed, target):
    return Plan([Change(name, observed.get(name), target.get(name)) for name in sorted(set(observed) | set(target))])


def apply(directory, changes, scratch):
    """Write and remove files; returns True when dnsmasq must be told (something was removed or replaced).

    `scratch`: a directory of the same file system for half-written files, because dnsmasq reads whatever appears in `directory`.
    """
    signal_needed = False
    for change in changes.changes:
        path = os.path.join(directory, change.thing)
        if change.before is not None:
            signal_needed = True
        if change.after is None:
            os.unlink(path)
            continue
        handle, temporary = tempfile.mkstemp(dir=scratch)
        with os.fdopen(handle, "w", encoding="utf-8") as out:
            out.write(change.after)
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)
    return signal_needed


def tell_dnsmasq(pid_file):
    """SIGHUP to the process in the pid file; False when there is none (it reads everything at its next start)."""
    try:
        with open(pid_file, encoding="ascii") as handle:
            pid = int(handle.read().strip())
        with open(f"/proc/{pid}/comm", encoding="utf-8") as handle:
            if handle.read().strip() != "dnsmasq":
                return False
        os.kill(pid, signal.SIGHUP)
    except (OSError, ValueError):
        return False
    return True
