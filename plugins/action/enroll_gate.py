# Says whether a node may be enrolled: its newest burn-in passed on the software that is installed now.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

from ansible_collections.aicluster.baremetal.plugins.module_utils.scheduler import operations
from ansible_collections.aicluster.baremetal.plugins.plugin_utils.base import RegistryAction


class ActionModule(RegistryAction):
    ARGUMENT_SPEC = {"name": {"type": "str"}, "required": {"type": "bool", "default": True}}

    def execute(self):
        node = self.params["name"] or self.host
        look = operations.require_burn_in if self.params["required"] else operations.burn_in_gate
        gate = look(self.registry, node)
        gate.pop("items")
        attempt, _fencing = self.attempt
        job = operations.recorded(self.registry, node, operations.JOB_CHECK, attempt) if attempt else None
        return {"changed": False, "burn_in": gate, "first_job_done": job is not None}
