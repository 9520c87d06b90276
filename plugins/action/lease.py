# Gives a node to one owner (slurm, kubernetes, maintenance), or takes it back.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

from ansible_collections.aicluster.baremetal.plugins.module_utils.core import errors
from ansible_collections.aicluster.baremetal.plugins.module_utils.core.plan import Change, Plan
from ansible_collections.aicluster.baremetal.plugins.plugin_utils.base import RegistryAction


class ActionModule(RegistryAction):
    ARGUMENT_SPEC = {
        "name": {"type": "str"},
        "lease": {"type": "str", "required": True, "choices": ["slurm", "kubernetes", "maintenance"]},
        "state": {"type": "str", "choices": ["acquired", "released"], "default": "acquired"},
    }

    def execute(self):
        node, lease = self.params["name"] or self.host, self.params["lease"]
        acquire = self.params["state"] == "acquired"
        if self.check_mode:
            present = self.registry.node(node)["lease"]
            if present not in (None, lease):
                raise errors.Conflict(
                    "the node is leased to another", host=node, thing="lease", wanted=lease, seen=present
                )
            return self.planned(Plan([Change("lease", present, lease if acquire else None)]))
        self.check_fence(node)
        call = self.registry.acquire_lease if acquire else self.registry.release_lease
        return self.planned(call(node, lease, self.actor))
