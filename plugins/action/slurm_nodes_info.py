# What the registry says should stand in slurm.conf: lines of the nodes that have Slurm's lease, and the names that must go.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

from ansible_collections.aicluster.baremetal.plugins.module_utils.scheduler import operations
from ansible_collections.aicluster.baremetal.plugins.plugin_utils.base import RegistryAction


class ActionModule(RegistryAction):
    ARGUMENT_SPEC = {"memory_percent": {"type": "int", "default": 97}, "planned": {"type": "dict", "default": {}}}

    def execute(self):
        entries, remove, unknown = operations.node_entries(
            self.registry,
            memory_percent=self.params["memory_percent"],
            planned=self.params["planned"] if self.check_mode else None,
        )
        return {"changed": False, "nodes": entries, "remove": remove, "without_hardware": unknown}
