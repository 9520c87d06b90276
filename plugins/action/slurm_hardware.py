# Asks slurmd on the node what hardware it sees, and records it as evidence: the source of the node's line in slurm.conf.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

from ansible_collections.aicluster.baremetal.plugins.module_utils.core import errors
from ansible_collections.aicluster.baremetal.plugins.module_utils.core.plan import Change, Plan
from ansible_collections.aicluster.baremetal.plugins.module_utils.scheduler import operations, transform
from ansible_collections.aicluster.baremetal.plugins.plugin_utils.slurm import NODE_ARGUMENT, SlurmAction


class ActionModule(SlurmAction):
    ARGUMENT_SPEC = {**NODE_ARGUMENT, "gpu_type": {"type": "str"}}

    def execute(self):
        attempt, _fencing = self.attempt
        rc, out, err = self.runner(self.node, "the node")(["sh", "-c", transform.PROBE])
        if rc != 0:
            raise errors.NotFound(
                "slurmd -C did not work",
                host=self.node,
                thing="slurmd",
                seen=(err.strip() or out.strip() or f"exit status {rc}")[-300:],
                next_step="install slurmd there (role slurm_node), or mend the image",
            )
        seen = transform.probe(out)
        if self.params["gpu_type"]:
            seen["gpu_type"] = self.params["gpu_type"]
        simulated = seen.pop("simulated")
        before = operations.recorded(self.registry, self.node, operations.HARDWARE_CHECK)
        known = before and {**before["detail"], "simulated": before["simulated"]}
        plan = Plan([Change("hardware", known, {**seen, "simulated": simulated})])
        if plan and not self.check_mode:
            item = {
                "check": operations.HARDWARE_CHECK,
                "outcome": "pass",
                "value": seen["cpus"],
                "unit": "CPUs",
                "source": "slurmd -C",
                "simulated": simulated,
                "detail": seen,
            }
            self.registry.record_evidence(self.node, attempt, [item], self.actor)
        return self.planned(plan, hardware=seen, simulated=simulated)
