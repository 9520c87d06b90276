# Controller-side door of bmc_certificate: a new certificate is pinned in the registry at once, for a pin that came from there.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

from ansible_collections.aicluster.baremetal.plugins.plugin_utils.bmc import BmcAction


class ActionModule(BmcAction):
    MODULE = "bmc_certificate"

    def remember(self, params, result):
        """Where the host has a pin and the task named none, the new certificate takes its place, also when an earlier run had installed it already."""
        fingerprint = result.get("fingerprint")
        if not fingerprint or result.get("failed") or self.check_mode or "bmc_fingerprint" in self._task.args:
            return
        have, serial = self.variable("bmc_fingerprint"), self.variable("aicluster_serial")
        if not have or have == fingerprint:
            return
        result["pinned"] = False
        if serial and self.setting("registry"):
            self.registry.save_node(serial, self.actor, bmc_fingerprint=fingerprint)
            result["pinned"] = True
        self.tell_inventory(result, self.host, (), {"bmc_fingerprint": fingerprint})
