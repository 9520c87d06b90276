# Controller-side door of bmc_power.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

from ansible_collections.aicluster.baremetal.plugins.plugin_utils.bmc import BmcAction


class ActionModule(BmcAction):
    MODULE = "bmc_power"

    def fill_in(self):
        params = super().fill_in()
        if params["siblings"] is None:
            params["siblings"] = self.variable("aicluster_siblings", [])
        return params
