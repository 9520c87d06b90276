# One supervisord a lab: it runs the lab's long-running programs, starts them again when they crash, and is the one place to stop them.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import os
import subprocess
import sys
import time
import xmlrpc.client

from ..core.deadline import Deadline
from ..core.errors import BaremetalError, NotFound
from ..core.plan import Change, Plan
from . import processes

try:
    from supervisor.xmlrpc import SupervisorTransport
except ImportError:
    SupervisorTransport = None

RUNNING, STARTING, BACKOFF, FATAL, STOPPED, EXITED = "RUNNING", "STARTING", "BACKOFF", "FATAL", "STOPPED", "EXITED"

OWNER_VARIABLE = "AICLUSTER_LAB_DIR"  # set in supervisord.conf for supervisord and all that it starts


class Supervisor:
    """The supervisord of one lab. `directory` holds supervisord.conf and supervisor.d, `run_directory` its socket and pid file."""

    def __init__(self, directory, run_directory, namespaces=(), command_prefix=()):
        self.directory = directory
        self.configuration = os.path.join(directory, "supervisord.conf")
        self.log = os.path.join(directory, "log", "supervisord.log")
        self.socket = os.path.join(run_directory, "supervisor.sock")
        self.namespaces, self.command_prefix = list(namespaces), list(command_prefix)

    def _call(self, method, *arguments):
        if SupervisorTransport is None:
            raise NotFound(
                "the package supervisor is not installed for this Python",
                thing=sys.executable,
                next_step="make venv, and use its Python",
            )
        proxy = xmlrpc.client.ServerProxy(
            "http://127.0.0.1", transport=SupervisorTransport(None, None, f"unix://{self.socket}")
        )
        return getattr(proxy.supervisor, method)(*arguments)

    def alive(self):
        """True when supervisord answers on its socket."""
        if not os.path.exists(self.socket):
            return False
        try:
            return self._call("getState")["statename"] == "RUNNING"
        except (OSError, xmlrpc.client.Error):
            return False

    def programs(self):
        """{program: {state, pid, detail}} as supervisord sees them."""
        rows = self._call("getAllProcessInfo")
        return {
            row["name"]: {"state": row["statename"], "pid": row["pid"], "detail": row["spawnerr"] or row["description"]}
            for row in rows
        }

    def leftovers(self):
        """Programs that an earlier supervisord of this lab started and that outlived it, known by the mark in their environment.

        Virtual servers are none of them: like real ones they run on when the simulator ends, and the next simulator takes them over.
        """
        mark = f"{OWNER_VARIABLE}={self.directory}"
        found = set(processes.with_argument(self.configuration)) | set(processes.with_environment(mark))
        return sorted(pid for pid in found if not processes.program(pid).startswith("qemu-system"))

    def everything(self):
        """All processes of the lab: the above, its virtual servers, and whatever runs inside its namespaces (a playbook too)."""
        marked = processes.with_environment(f"{OWNER_VARIABLE}={self.directory}")
        return sorted({*self.leftovers(), *marked, *processes.in_namespaces(self.namespaces)})

    def plan_start(self):
        """What has to change for every configured program to run."""
        if not self.alive():
            changes = [Change("supervisord", None, "running")]
            left = self.leftovers()
            if left:
                changes.insert(0, Change("processes of an earlier run", processes.describe(left), None))
            return Plan(changes)
        added, changed, removed = self._call("reloadConfig")[0]
        changes = [Change(f"program {name}", None, "running") for name in added]
        changes += [Change(f"program {name}", "other configuration", "running") for name in changed]
        changes += [Change(f"program {name}", "running", None) for name in removed]
        touched = {*added, *changed, *removed}
        changes += [
            Change(f"program {name}", row["state"].lower(), "running")
            for name, row in self.programs().items()
            if name not in touched and row["state"] not in (RUNNING, STARTING)
        ]
        return Plan(changes)

    def start(self, todo, seconds=30):
        """Carry out plan_start and wait until every program runs; DeadlineExceeded names those that do not, with the end of their logs."""
        things = {change.thing: change for change in todo.changes}
        if "supervisord" in things:
            left = self.leftovers()
            if left:
                processes.end(left, thing="processes of an earlier run gone")
            if os.path.exists(self.socket):
                os.unlink(self.socket)
            argv = [*self.command_prefix, sys.executable, "-m", "supervisor.supervisord", "-c", self.configuration]
            done = subprocess.run(
                argv, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL, timeout=60, cwd="/"
            )
            if done.returncode:
                raise BaremetalError(
                    "supervisord did not start",
                    thing=self.configuration,
                    seen=(done.stderr or done.stdout).strip()[-500:],
                    next_step=f"read {self.log}",
                )
            Deadline(seconds, "supervisord answers on its socket", next_step=f"read {self.log}").wait(
                lambda: (self.alive(), self.socket), interval=0.1
            )
        else:
            for thing, change in things.items():
                name = thing.removeprefix("program ")
                if change.after is None or change.before == "other configuration":
                    self._call("stopProcessGroup", name)
                    self._call("removeProcessGroup", name)
                if change.after and (change.before is None or change.before == "other configuration"):
                    self._call("addProcessGroup", name)
                elif change.after:
                    self._call("startProcess", name, False)
        return self.wait_running(seconds)

    def wait_running(self, seconds=30):
        def probe():
            rows = self.programs()
            bad = {name: row for name, row in rows.items() if row["state"] != RUNNING}
            if any(row["state"] == FATAL for row in bad.values()):
                raise self._broken({name: row for name, row in bad.items() if row["state"] == FATAL})
            return (not bad, rows)

        return Deadline(
            seconds, "every program of the lab running", next_step=f"supervisorctl -c {self.configuration} status"
        ).wait(
            probe,
            interval=0.2,
            describe=lambda rows: ", ".join(
                f"{name} {row['state']}" for name, row in rows.items() if row["state"] != RUNNING
            ),
        )

    def crash_watch(self, limit=2):
        """A callable for a wait: raises when a program was started again `limit` times meanwhile, for then it will never answer.

        supervisord itself gives up only on programs that end within their first second.
        """
        starts, pids = {}, {name: row["pid"] for name, row in self.programs().items()}

        def watch():
            rows = self.programs()
            for name, row in rows.items():
                if row["pid"] and row["pid"] != pids.get(name):
                    pids[name] = row["pid"]
                    starts[name] = starts.get(name, 0) + 1
            crashing = {name: rows[name] for name, number in starts.items() if number >= limit}
            if crashing:
                raise self._broken(crashing)

        return watch

    def _broken(self, rows):
        tails = []
        for name, row in rows.items():
            tail = ""
            for stream in ("Stdout", "Stderr"):  # a program whose errors go to its output has no error log to read
                try:
                    tail = tail or self._call(f"readProcess{stream}Log", name, -400, 0)
                except xmlrpc.client.Error:
                    continue
            tails.append(f"{name}: {row['detail']} {tail.strip()}".strip())
        return BaremetalError(
            "programs of the lab do not stay up",
            thing=self.configuration,
            wanted="running",
            seen="; ".join(tails),
            next_step="read the program's log in the lab's log directory",
        )

    def plan_stop(self):
        changes = []
        if self.alive():
            changes.append(Change("supervisord", "running", None))
        left = self.everything()
        if left and not changes:
            changes.append(Change("processes of an earlier run", processes.describe(left), None))
        elif not changes and os.path.exists(self.socket):
            changes.append(Change(self.socket, "present", None))
        return Plan(changes)

    def stop(self, seconds=30):
        """Stop supervisord and all that runs in the lab, prove by pid that each is gone; returns the pids."""
        pids = set(self.everything())
        if self.alive():
            pids |= {self._call("getPID"), *(row["pid"] for row in self.programs().values() if row["pid"])}
            try:
                self._call("shutdown")
            except (OSError, xmlrpc.client.Error):
                pass  # it may hang up while it answers; the wait below is the proof
            waited = Deadline(seconds, "supervisord ended")
            while self.alive() and not waited.expired():
                time.sleep(0.2)
        processes.end(pids | set(self.everything()))
        if os.path.exists(self.socket):
            os.unlink(self.socket)
        return sorted(pids)
