# Reads Slurm through its controller: is it reachable, up, what does it say of the node, has the node registered.
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
        "want": {"type": "str", "choices": ["reachable", "up", "node", "registered"], "default": "node"},
        "deadline": {"type": "float", "default": 120.0},
    }

    def execute(self):
        want = self.params["want"]
        # A host that is gone must not cost every node of the play a full command limit.
        port = self.port(20) if want == "reachable" else self.port()
        result = {"changed": False, "controller": port.where, "node": None}
        if want == "reachable":
            port.reachable()
            return result
        port.ping()
        if want == "node":
            result["node"] = port.observe(self.node)
        elif want == "registered" and not self.check_mode:
            result["node"] = operations.wait_registered(port, self.node, self.params["deadline"], self.heartbeat)
        return result
