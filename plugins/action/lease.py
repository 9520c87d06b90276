# Gives a node to one owner (slurm, kubernetes, maintenance), or takes it back; logic: scheduler.operations.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

from ansible_collections.aicluster.baremetal.plugins.module_utils.scheduler import operations
from ansible_collections.aicluster.baremetal.plugins.plugin_utils.slurm import (
    CONTROLLER_ARGUMENT,
    NODE_ARGUMENT,
    SlurmAction,
)


class ActionModule(SlurmAction):
    ARGUMENT_SPEC = {
        **NODE_ARGUMENT,
        **CONTROLLER_ARGUMENT,
        "lease": {"type": "str", "required": True, "choices": ["slurm", "kubernetes", "maintenance"]},
        "state": {"type": "str", "choices": ["acquired", "released"], "default": "acquired"},
        "consent": {"type": "str"},
    }

    def execute(self):
        node, lease, consent = self.node, self.params["lease"], self.params["consent"]
        if not self.check_mode:
            self.check_fence(node)
        if self.params["state"] == "acquired":
            return self.planned(self.registry.acquire_lease(node, lease, self.actor, check=self.check_mode))
        if lease == "maintenance" or self.registry.node(node)["lease"] != lease:  # no scheduler has it to give back
            return self.planned(self.registry.release_lease(node, lease, self.actor, check=self.check_mode))
        port = self.port() if lease == "slurm" and consent is None else None
        done = operations.release_lease(
            self.registry, port, node, lease, self.actor, consent=consent, check=self.check_mode
        )
        return self.planned(done["plan"])
