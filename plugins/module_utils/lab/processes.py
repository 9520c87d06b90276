# The lab's processes: which there are, and ending them one by one by id, with proof that each is gone.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import os
import signal

from ..core.deadline import Deadline
from ..core.errors import DeadlineExceeded
from ..core.process import identify, is_alive
from .network import NAMESPACE_DIRECTORY


def command_line(pid):
    """The argument vector of a process, [] when it is gone or a kernel thread."""
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as handle:
            return [part.decode(errors="replace") for part in handle.read().split(b"\0") if part]
    except OSError:
        return []


def program(pid):
    """The name of a process's program without its directory, empty when it is gone."""
    return os.path.basename((command_line(pid) or [""])[0])


def _parent(pid):
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as handle:
            return int(handle.read().rpartition(")")[2].split()[1])
    except (OSError, ValueError):
        return 0


def _all_pids():
    return [int(entry) for entry in os.listdir("/proc") if entry.isdigit()]


def _above(pid):
    """The process and all its ancestors: what must never be ended from here."""
    chain = set()
    while pid > 1 and pid not in chain:
        chain.add(pid)
        pid = _parent(pid)
    return chain


def in_namespaces(namespaces):
    """{pid: namespace} of the processes that run inside the named network namespaces, less this process and its ancestors."""
    inodes = {}
    for namespace in namespaces:
        try:
            inodes[os.stat(os.path.join(NAMESPACE_DIRECTORY, namespace)).st_ino] = namespace
        except OSError:
            continue
    found, spared = {}, _above(os.getpid())
    for pid in _all_pids() if inodes else ():
        try:
            inode = os.stat(f"/proc/{pid}/ns/net").st_ino
        except OSError:
            continue
        if inode in inodes and pid not in spared:
            found[pid] = inodes[inode]
    return found


def with_argument(text):
    """Processes that were started with exactly this argument (a path that only one lab uses), less this process and its ancestors."""
    spared = _above(os.getpid())
    return [pid for pid in _all_pids() if pid not in spared and text in command_line(pid)]


def with_environment(setting):
    """Processes that were started with this NAME=value in their environment, less this process and its ancestors."""
    spared, wanted, found = _above(os.getpid()), setting.encode(), []
    for pid in _all_pids():
        try:
            with open(f"/proc/{pid}/environ", "rb") as handle:
                if pid not in spared and wanted in handle.read().split(b"\0"):
                    found.append(pid)
        except OSError:
            continue
    return found


def describe(pids):
    return ", ".join(f"{pid} ({' '.join(command_line(pid))[:80] or 'ended'})" for pid in sorted(pids)) or "none"


def end(pids, seconds=20, thing="processes of the lab gone"):
    """TERM each, wait, KILL what is left, wait; returns the pids that were sent a signal. Raises DeadlineExceeded naming the survivors.

    A process is told apart from a later one of the same pid by its start time.
    """
    owners = [owner for owner in (identify(pid) for pid in sorted(pids)) if owner.started]

    def alive():
        return [owner for owner in owners if is_alive(owner)]

    signalled = [owner.pid for owner in alive()]
    for number, limit in ((signal.SIGTERM, seconds), (signal.SIGKILL, 10)):
        left = alive()
        for owner in left:
            try:
                os.kill(owner.pid, number)
            except ProcessLookupError:
                pass
        deadline = Deadline(limit, thing, next_step="end them by hand: kill -9 PID")
        try:
            deadline.wait(
                lambda: (not alive(), [owner.pid for owner in alive()]),
                interval=0.1,
                describe=describe,
            )
            return signalled
        except DeadlineExceeded:
            if number == signal.SIGKILL:
                raise
    return signalled
