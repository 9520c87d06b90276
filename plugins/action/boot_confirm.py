# Door: the deployed node answers by SSH with the pinned key and is the one that was written. Documentation: plugins/modules/boot_confirm.py.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import os
import shlex
import time

from ansible_collections.aicluster.baremetal.plugins.module_utils.core import errors, outcome
from ansible_collections.aicluster.baremetal.plugins.module_utils.core.deadline import Deadline
from ansible_collections.aicluster.baremetal.plugins.module_utils.netboot import inband, timeline, wait
from ansible_collections.aicluster.baremetal.plugins.plugin_utils import known_hosts
from ansible_collections.aicluster.baremetal.plugins.plugin_utils.base import RegistryAction

# So many answers with another host key end the wait: right after the write an older system may still answer for a moment.
_WRONG_KEYS = 5


class ActionModule(RegistryAction):
    ARGUMENT_SPEC = {
        "limits": {"type": "dict", "default": {}},
        "private_key": {"type": "path"},
        "port": {"type": "int"},
        "poll": {"type": "float", "default": 1.0},
        "attempt": {"type": "int"},
        "fencing": {"type": "int"},
    }

    def execute(self):
        given = {key: float(value) for key, value in (self.params["limits"] or {}).items() if key != "reserved"}
        allowed = timeline.limits(given)
        if self.check_mode:
            return {"changed": False, "items": [], "node": {}}
        attempt, fencing = self.require_attempt()
        node = self.registry.node(self.host)
        grant = self._grant(attempt)
        if not node["host_key"]:
            raise errors.NotFound(
                "the deploy ramdisk reported no SSH host key, so the node cannot be recognised",
                host=self.host,
                thing="SSH host key",
                next_step="look at the boot timeline for step seeded, then deploy again",
                code="host_key_missing",
            )
        seconds = allowed["disk_boot"] + allowed["ssh"]
        facts = self._facts(node, attempt, fencing, seconds)
        self._record(attempt, facts)
        events = self.registry.boot_events(self.host, attempt)
        served = [row["detail"] for row in events if row["step"] == "served"]
        # The event itself is the ramdisk's word that the checksum was right, with or without details.
        written = [row["detail"] or "yes" for row in events if row["step"] == "written"]
        image = grant["spec"]["image"]
        items = inband.judge(
            facts, node["serial"], image["root_uuid"], image["size_bytes"], served, written[-1] if written else None
        )
        self.registry.record_evidence(self.host, attempt, items, self.actor)
        bad = [item for item in items if item["outcome"] == outcome.FAIL]
        bad += [item for item in items if item["outcome"] == outcome.COULD_NOT_TEST and outcome.gates(item)]
        if bad:
            image = bad[0]["check"] == "deploy.image_bytes"
            raise errors.BaremetalError(
                f"{bad[0]['rule']}: {'not so' if bad[0]['outcome'] == outcome.FAIL else 'could not be tested'}",
                host=self.host,
                thing=bad[0]["check"],
                wanted=bad[0]["limit"],
                seen=bad[0]["value"] or bad[0]["detail"],
                next_step="look at the boot timeline and at the boot server's access log, then deploy again"
                if image
                else "compare the registry's serial and MAC with the machine that was booted",
                code="image_not_proven" if image else "identity_mismatch",
            )
        return {"changed": False, "items": items, "node": facts}

    def _grant(self, attempt):
        grants = [grant for grant in self.registry.grants(self.host) if grant["attempt"] == attempt and grant["used"]]
        if not grants:
            raise errors.NotFound(
                "no boot of this attempt used a grant", host=self.host, thing="boot grant", seen=attempt
            )
        return grants[-1]

    def _address(self, node):
        return self.variable("ansible_host") or node["ansible_host"] or node["provision_ip"]

    def _facts(self, node, attempt, fencing, seconds):
        """What the node says over SSH, waited for until the deadline."""
        path = self.refresh_known_hosts()
        key = self.params["private_key"] or self.variable("ansible_ssh_private_key_file")
        if key:
            key = os.path.expanduser(key)
            if not os.access(key, os.R_OK):
                raise errors.InvalidInput(
                    "cannot be read", host=self.host, thing=f"SSH key {key}", wanted="a readable private key"
                )
        argv = inband.ssh_argv(
            self._address(node),
            self.variable("ansible_user") or "root",
            shlex.split(known_hosts.ssh_arguments(path)),
            node["name"],
            key,
            self.params["port"] or self.variable("ansible_port") or 22,
        )
        state = {"wrong": 0, "beat": 0.0}

        def probe():
            facts, seen, wrong = inband.ask(argv)
            state["wrong"] = state["wrong"] + 1 if wrong else 0
            if wrong:
                # Another worker that read the registry before us may have replaced the file after us.
                self.refresh_known_hosts()
            if state["wrong"] >= _WRONG_KEYS:
                raise errors.Refused(
                    "the host at this address shows another SSH host key than the one pinned at deployment",
                    host=self.host,
                    thing=f"SSH to {self._address(node)}",
                    wanted=node["host_key"][:60],
                    seen=seen,
                    next_step="find out who answers at this address; nothing was sent to it",
                    code="host_key_mismatch",
                )
            return facts is not None, facts if facts is not None else seen

        def heartbeat():
            if time.monotonic() - state["beat"] >= wait.HEARTBEAT_S:
                self.registry.heartbeat(attempt, fencing)
                state["beat"] = time.monotonic()

        limit = Deadline(
            seconds,
            "the disk boot: SSH with the pinned host key",
            host=self.host,
            next_step=timeline.missing_words("disk_boot")[1],
        )
        facts = limit.wait(probe, interval=self.params["poll"], each=heartbeat)
        self.refresh_known_hosts()
        return facts

    def _record(self, attempt, facts):
        """The two last events of the timeline; a run that takes over does not write them a second time."""
        known = {row["step"] for row in self.registry.boot_events(self.host, attempt)}
        if "disk_boot" not in known:
            try:
                age = max(0.0, float(facts.get("uptime", "")))
            except ValueError:
                age = None
            detail = f"kernel {facts.get('kernel')}, root {facts.get('root_uuid')}"
            self.registry.boot_event(self.host, attempt, "disk_boot", detail, "ssh", age_s=age)
        if "ssh" not in known:
            self.registry.boot_event(self.host, attempt, "ssh", facts.get("hostname"), "ssh")
