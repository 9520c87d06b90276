# Who runs this: the identity of a controller process, whether it still lives, and workers that die with their parent.
#
# `kill -9` of ansible-playbook leaves its forked workers running; they would go on writing to BMCs. So each worker asks the kernel for a death
# signal, and an attempt stores its owner so that the next run can tell a dead controller from a busy one.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import ctypes
import hashlib
import os
import re
import signal
import socket
import sys
from dataclasses import asdict, dataclass

_PR_SET_PDEATHSIG = 1  # prctl(2)
_armed_in = None


@dataclass(frozen=True)
class Owner:
    """One process on one boot of one machine. `started` is the start time in clock ticks since boot (proc(5), field 22), 0 if unknown.

    `boot_id` is BOOT/PIDNAMESPACE/MACHINE: the same pid in another container is another process, and only on the same machine does another boot mean
    that the old one is over. MACHINE is missing where the machine has no identity, and in what older releases stored.
    """

    host: str
    boot_id: str
    pid: int
    started: int

    def as_dict(self):
        return asdict(self)

    def place(self):
        """(boot, PID namespace, machine); what is unknown is empty."""
        return tuple([*self.boot_id.split("/", 2), "", "", ""][:3])


def _read(path):
    try:
        with open(path, encoding="ascii", errors="replace") as handle:
            return handle.read().strip()
    except OSError:
        return ""


def _boot():
    """(boot, PID namespace), empty where it cannot be known."""
    try:
        return _read("/proc/sys/kernel/random/boot_id"), os.readlink("/proc/self/ns/pid")
    except OSError:
        return "", ""


def _machine():
    """An identity of this machine, empty where it has none. Hashed: machine-id(5) is not for giving out.

    Clones often share /etc/machine-id; the UUID of the system tells them apart where this user may read it.
    """
    number = _read("/etc/machine-id")
    if not re.fullmatch(
        "[0-9a-f]{32}", number
    ):  # containers have none, an image before its first boot says "uninitialized"
        return ""
    text = f"aicluster/{number}/{_read('/sys/class/dmi/id/product_uuid').lower()}"
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def _boot_id():
    boot, namespace = _boot()
    return "/".join(part for part in (boot, namespace, _machine()) if part) if boot and namespace else ""


def _stat(pid):
    """(parent pid, start ticks, state letter) of a process, or None when there is none."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as handle:
            fields = handle.read().rpartition(")")[2].split()
    except OSError:
        return None
    return int(fields[1]), int(fields[19]), fields[0]


def identify(pid):
    """The Owner for a live process of this machine."""
    stat = _stat(pid)
    return Owner(socket.gethostname(), _boot_id(), pid, stat[1] if stat else 0)


def this_controller():
    """The Owner that stands for this run: the ansible-playbook process, also when called from one of its forked workers."""
    pid = os.environ.get("AICLUSTER_CONTROLLER_PID")
    if pid and pid.isdigit() and _stat(int(pid)):
        return identify(int(pid))
    return identify(os.getpid())


def is_alive(owner):
    """True or False where it can be known, None when the owner is, or may be, on another machine or in another container."""
    if not isinstance(owner, Owner):
        owner = Owner(**owner)
    if owner.host != socket.gethostname():
        return None
    boot, namespace, machine = owner.place()
    here = _boot()
    if not boot or boot != here[0]:
        # The host name alone does not make it this machine: two controllers may share one. Where the machine is the same it was rebooted.
        return False if boot and here[0] and machine and machine == _machine() else None
    if namespace != here[1]:
        return None  # another container of this machine
    stat = _stat(owner.pid)
    if stat is None or stat[2] in "ZX":
        return False
    return not owner.started or stat[1] == owner.started


def die_with_parent(parent=None, number=signal.SIGKILL):
    """Make the kernel send SIGKILL (or signal `number`) to this process when its parent ends (Linux). Returns True when armed.

    Another signal is for a process that has something to give back first and writes nothing more meanwhile; it replaces what was armed before.

    `parent`: the pid that the caller knows as its parent; if it is already gone when the signal is armed, this process ends at once.
    The signal is tied to the parent's *thread* that forked; Ansible forks its workers from the main thread.
    """
    global _armed_in
    if not sys.platform.startswith("linux"):
        return False
    if _armed_in != (os.getpid(), number):
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.prctl(_PR_SET_PDEATHSIG, int(number), 0, 0, 0) != 0:
            return False
        _armed_in = (os.getpid(), number)
    if parent is not None and os.getppid() != parent:
        os.kill(os.getpid(), signal.SIGKILL)
    return True


def arm_forks():
    """In a controller process: every child forked from now on by os.fork (Ansible's workers) dies with it, and knows it as its controller.

    Idempotent. Children started by subprocess are not touched: they exec and may be meant to outlive us.
    """
    pid = os.getpid()
    if os.environ.get("AICLUSTER_CONTROLLER_PID") == str(pid):
        return
    os.environ["AICLUSTER_CONTROLLER_PID"] = str(pid)

    def in_child():
        # A grandchild forked by a worker must die with the worker, not be killed because its parent is not the controller.
        controller = _stat(pid)
        if os.getppid() == pid:
            die_with_parent(pid)
        elif (
            controller is None or controller[2] in "ZX"
        ):  # it died before this line; killed, it stays a zombie until its own parent looks
            os.kill(os.getpid(), signal.SIGKILL)

    os.register_at_fork(after_in_child=in_child)
