# Slurm behind the scheduler port: scontrol and squeue through any way to run a command (local, SSH, a container).
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import re

from ..core.errors import BaremetalError, NotFound, Refused, Unreachable
from . import transform
from .port import SchedulerPort, check_owner, drain_reason, plan_drain, plan_resume, split_reason

__all__ = ["SlurmPort", "check_owner", "drain_reason", "plan_drain", "plan_resume", "split_reason"]

# scontrol retries a dead controller for 9 s and a missing slurm.conf for 60 s by itself; one limit covers both.
_COMMAND_SECONDS = 25
_NODE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")
# Slurm says "not found" of plugins, files and commands too.
_ABSENT = re.compile(r"\bNode \S+ not found|Invalid node name")
_DOWN = ("Unable to contact slurm controller", "Connection refused", "Socket timed out", "Zero Bytes were transmitted")
_NO_CONFIG = ("cannot stat file", "Unable to process configuration file", "Could not establish a configuration source")
_AUTH = ("Protocol authentication error", "Munge", "munge", "authentication")
_DENIED = ("Access/permission denied", "Invalid user id", "Operation not permitted")
_ABSENT_VIEW = {
    "present": False,
    "state": "ABSENT",
    "base": "ABSENT",
    "drained": False,
    "drain_owner": None,
    "reason": "",
    "jobs": [],
    "busy": False,
    "responding": False,
    "registered": False,
    "invalid": False,
    "gres": "",
    "flags": [],
}


class SlurmPort(SchedulerPort):
    """`run(argv) -> (rc, out, err)` executes on a machine that has Slurm's client tools and may administrate nodes; `where` names it in errors."""

    def __init__(self, run, where="the Slurm controller", **options):
        super().__init__(**options)
        self._run, self.where = run, where

    def _call(self, node, *argv):
        """stdout of one command; every failure becomes a typed error that says what to do."""
        rc, out, err = self._run(["timeout", str(_COMMAND_SECONDS), *argv])
        text = (out + "\n" + err).strip()
        if rc == 0:
            return out
        said = text.splitlines()[-1].strip() if text else f"exit status {rc}"
        common = {"host": node, "thing": f"{argv[0]} on {self.where}", "seen": said}
        if rc == 127:
            raise Unreachable(
                f"{argv[0]} is not installed there",
                code="slurm_client_missing",
                next_step="install slurm-client there, or name the right host (option slurm_controller)",
                **common,
            )
        if _ABSENT.search(text):
            raise NotFound("Slurm does not know this node", next_step="enrol it first", **common)
        if any(word in text for word in _NO_CONFIG):
            raise Unreachable(
                "Slurm is not configured there",
                code="slurm_not_configured",
                next_step="run the role slurm_controller, or name the right host (option slurm_controller)",
                **common,
            )
        if rc == 124 or any(word in text for word in _DOWN):
            raise Unreachable(
                "the Slurm controller does not answer",
                code="slurm_down",
                next_step=f"start slurmctld (systemctl status slurmctld; journalctl -u slurmctld) on {self.where}, then run this again",
                **common,
            )
        if any(word in text for word in _DENIED):
            raise Refused(
                "this user may not administrate nodes",
                code="slurm_denied",
                next_step="connect to the controller as root, as SlurmUser or as a Slurm administrator",
                **common,
            )
        if any(word in text for word in _AUTH):
            raise Unreachable(
                "munge does not vouch for us",
                code="slurm_munge",
                next_step="check that munge runs there and that both ends have the same key and the same time",
                **common,
            )
        raise BaremetalError(
            f"failed with exit status {rc}",
            code="slurm_failed",
            next_step="run the same command by hand there",
            **common,
        )

    def reachable(self):
        """Run nothing much on the controller's host; the runner raises Unreachable when it cannot."""
        rc, out, err = self._run(["true"])
        if rc != 0:
            said = (err.strip() or out.strip() or f"exit status {rc}").splitlines()[-1][:300]
            raise Unreachable(
                "no command runs on the Slurm controller",
                thing=self.where,
                wanted="exit status 0 of the command true",
                seen=said,
                code="host_unreachable",
                next_step=f"mend the login or the become of {self.where} (`ansible -m ansible.builtin.ping {self.where}`), then run this again",
            )

    def ping(self):
        """True when the (primary or a backup) controller says UP; Unreachable otherwise."""
        rc, out, err = self._run(["timeout", str(_COMMAND_SECONDS), "scontrol", "ping"])
        if re.search(r"\bis UP\b|\bare (?:UP|[A-Z/]*UP)", out):
            return True
        if rc == 127 or any(word in err for word in _NO_CONFIG):
            self._call(None, "scontrol", "ping")
        said = (out.strip() or err.strip() or f"exit status {rc}").splitlines()[0]
        raise Unreachable(
            "the Slurm controller does not answer",
            thing=f"slurmctld on {self.where}",
            wanted="UP",
            seen=said,
            code="slurm_down",
            next_step=f"start slurmctld (systemctl status slurmctld; journalctl -u slurmctld) on {self.where}, then run this again",
        )

    def observe(self, node):
        self._check_name(node)
        try:
            found = transform.nodes(self._call(node, "scontrol", "show", "node", node))
        except NotFound:
            return dict(_ABSENT_VIEW)
        match = [item for item in found if item["name"] == node]
        if not match:
            return dict(_ABSENT_VIEW)
        view = match[0]
        try:
            view["jobs"] = transform.jobs(
                self._call(node, "squeue", "--noheader", "--nodelist", node, "--format", "%i|%T|%u|%j")
            )
        except NotFound:
            view["jobs"] = []
        view["present"] = True
        view["responding"] = "NOT_RESPONDING" not in view["flags"]
        # Slurm's word for a node whose slurmd reported less than slurm.conf promises; it cannot be resumed into work.
        view["invalid"] = "INVALID_REG" in view["flags"]
        view["busy"] = bool(view["jobs"]) or view["alloc_cpus"] > 0 or "COMPLETING" in view["flags"]
        return view

    def _write_drain(self, node, reason):
        self._call(node, "scontrol", "update", f"nodename={node}", "state=drain", f"reason={reason}")

    def _write_resume(self, node):
        self._call(node, "scontrol", "update", f"nodename={node}", "state=resume")

    def run_job(self, node, command, name, gres="", seconds=120.0):
        """Run `command` (argv) as one job on exactly this node and wait for it; (rc, stdout, stderr). A job of that name left by a dead run is ended."""
        self._check_name(node)
        for job in self.observe(node)["jobs"]:
            if job["name"] == name:
                self._guard()
                self._call(node, "scancel", job["id"])
        limit = max(1, int(seconds))
        argv = [
            "timeout",
            "--kill-after=10",
            str(limit),
            "srun",
            "--nodes=1",
            "--ntasks=1",
            f"--nodelist={node}",
            f"--job-name={name}",
        ]
        argv += [f"--time={limit // 60 + 1}", f"--immediate={limit}"] + ([f"--gres={gres}"] if gres else [])
        self._guard()
        return self._run([*argv, *command])

    @staticmethod
    def _check_name(node):
        # A name with brackets or commas would be a list of nodes for scontrol: one call would then drain many.
        if not isinstance(node, str) or not _NODE_NAME.fullmatch(node):
            raise Refused(
                "not a single node's name",
                thing="node name",
                seen=repr(node),
                next_step="name one node",
                code="invalid_name",
            )
