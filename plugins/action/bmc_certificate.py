# Controller-side door of bmc_certificate: a new certificate is pinned in the registry at once, for a pin that came from there.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

from ansible_collections.aicluster.baremetal.plugins.plugin_utils.bmc import BmcAction


class ActionModule(BmcAction):
    MODULE = "bmc_certificate"

    def remember(self, params, result):
        """Where the host has a pin and the task named none, the new certificate takes its place, also when an earlier run had installed it already."""
        fingerprint = result.get("fingerprint")
        if not fingerprint or result.get("failed") or "bmc_fingerprint" in self._task.args:
            return
        have, serial = self.variable("bmc_fingerprint"), self.variable("aicluster_serial")
        if not have or have == fingerprint:
            return
        result["pinned"] = bool(serial and self.setting("registry"))
        if result["pinned"]:
            pin = {"bmc_fingerprint": fingerprint}
            plan = (
                self.registry.plan_node(serial, **pin)
                if self.check_mode
                else self.registry.save_node(serial, self.actor, **pin)
            )
            self._add(result, plan)
        if not self.check_mode or result["before"] == result["after"]:
            # The BMC shows it: the tasks that follow need it, those of a check too. Before ansible-core 2.21 this alone makes the task a changed one.
            self.tell_inventory(result, self.host, (), {"bmc_fingerprint": fingerprint})

    def _add(self, result, plan):
        """The registry's part of the change, to that of the BMC."""
        if not plan.changed:
            return
        result["msg"] = f"{result['msg']}, {plan.summary()}" if result["changed"] else plan.summary()
        result["changed"] = True
        if self._task.diff:
            diff = result.get("diff") or {}
            result["diff"] = {side: diff.get(side, "") + text for side, text in plan.diff().items()}
