# Controller-side door of bmc_firmware: one node. The work needs the registry before and after each image, so it is done here and nowhere else.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

from ansible_collections.aicluster.baremetal.plugins.module_utils.core import errors
from ansible_collections.aicluster.baremetal.plugins.module_utils.doors import bmc as door
from ansible_collections.aicluster.baremetal.plugins.plugin_utils import firmware as shared
from ansible_collections.aicluster.baremetal.plugins.plugin_utils.bmc import BmcAction


class ActionModule(BmcAction):
    ARGUMENT_SPEC = {
        **door.CONNECTION,
        **shared.OPTIONS,
        "siblings": {"type": "list", "elements": "str"},
    }
    ARGUMENT_RULES = {
        "required_together": door.TOGETHER,
        "mutually_exclusive": [["bmc_credential", "bmc_username"]],
    }

    def execute(self):
        if self.far:
            raise errors.InvalidInput(
                "firmware is sent from the controller only",
                thing="delegate_to",
                wanted="no delegate_to",
                seen=self.far,
                next_step="run ansible-playbook where the BMC network is reachable",
            )
        params = self.fill_in()
        siblings = params["siblings"] if params["siblings"] is not None else self.variable("aicluster_siblings", [])
        fence = self.fence()
        with shared.prepared(params) as (baseline, images, options):
            result = shared.firmware.update(
                door.endpoint_of(params, self.host),
                self.registry,
                self.host,
                baseline,
                options(siblings),
                images=images,
                actor=self.actor,
                fence=fence,
                attempt=self.attempt,
                check=self.check_mode,
                tell=self._display.v,
            )
        for warning in result.get("bmc_warnings") or ():
            self._display.warning(f"{self.host}: {warning}")
        return shared.finish(result, bool(self._task.diff), params.get("bmc_password"))
