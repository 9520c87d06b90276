# The node's side of all I/O: running a tool with a deadline, reading a file, and what kind of place this is (image tree, container, machine).
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import os
import signal
import subprocess
import time
from typing import NamedTuple


class Ran(NamedTuple):
    """What came of one command. `rc` None: it could not be started (`problem` says why) or was stopped at its deadline."""

    rc: int | None
    out: str
    err: str
    problem: str
    seconds: float

    def brief(self):
        """One line that says what went wrong, for a result's detail."""
        if self.problem:
            return self.problem
        text = (self.err.strip() or self.out.strip()).splitlines()
        return f"exit status {self.rc}" + (f": {text[-1][:200]}" if text else "")


class System:
    """The real machine. Tests give the checks another object with the same methods where a machine cannot be had."""

    def run(self, argv, timeout_s, stdin=None):
        """Run a command in its own session, so that at the deadline it is stopped with everything it started."""
        started = time.monotonic()
        environment = dict(os.environ, LC_ALL="C", PATH="/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")
        try:
            process = subprocess.Popen(
                argv,
                stdin=subprocess.PIPE if stdin is not None else subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=environment,
                start_new_session=True,
            )
        except OSError as error:
            word = "not installed" if isinstance(error, FileNotFoundError) else error.strerror
            return Ran(None, "", "", f"{argv[0]}: {word}", 0.0)
        try:
            out, err = process.communicate(stdin.encode() if stdin is not None else None, timeout=timeout_s)
        except BaseException as error:  # also when node-check itself is stopped: the stress must not outlive it
            try:
                os.killpg(process.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            out, err = process.communicate()
            if not isinstance(error, subprocess.TimeoutExpired):
                raise
            return Ran(
                None,
                out.decode("utf-8", "replace"),
                err.decode("utf-8", "replace"),
                f"{argv[0]}: did not end within {timeout_s:g} s",
                time.monotonic() - started,
            )
        return Ran(
            process.returncode,
            out.decode("utf-8", "replace"),
            err.decode("utf-8", "replace"),
            "",
            time.monotonic() - started,
        )

    def read(self, path):
        """Text of a file, or None where it does not exist or cannot be read."""
        try:
            with open(path, encoding="utf-8", errors="replace") as stream:
                return stream.read()
        except OSError:
            return None

    def read_bytes(self, path):
        try:
            with open(path, "rb") as stream:
                return stream.read()
        except OSError:
            return None

    def kernel_log(self):
        """The kernel's messages since boot in /dev/kmsg's own form, or None where they cannot be read (a container, no right)."""
        try:
            log = os.open("/dev/kmsg", os.O_RDONLY | os.O_NONBLOCK)
        except OSError:
            return None
        records = []
        try:
            while True:
                try:
                    records.append(os.read(log, 8192).decode("utf-8", "replace"))
                except BrokenPipeError:  # a message was overwritten while reading: go on with the next
                    continue
                except (BlockingIOError, OSError):
                    break
        finally:
            os.close(log)
        return "".join(records)

    def uptime(self):
        """Seconds since boot, on the clock of the kernel's messages."""
        return time.clock_gettime(time.CLOCK_MONOTONIC)

    def now(self):
        return time.time()

    def sleep(self, seconds):
        time.sleep(seconds)

    def free_bytes(self, path):
        status = os.statvfs(path)
        return status.f_bavail * status.f_frsize

    def names(self, directory):
        """Sorted names in a directory; empty where there is none."""
        try:
            return sorted(os.listdir(directory))
        except OSError:
            return []

    def container(self):
        """The container manager's name ("systemd-nspawn", "docker"), or None on a machine of its own."""
        text = self.read("/run/systemd/container") or self.read("/run/host/container-manager")
        if text and text.strip():
            return text.strip()
        environment = self.read_bytes("/proc/1/environ") or b""
        for part in environment.split(b"\0"):
            if part.startswith(b"container="):
                return part[len(b"container=") :].decode("utf-8", "replace") or "container"
        return None
