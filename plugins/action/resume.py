# Undoes a drain of the same owner in the registry and in the scheduler; logic: scheduler.operations.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

from ansible_collections.aicluster.baremetal.plugins.module_utils.core import errors
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
        "owner": {"type": "str", "required": True},
        "automation": {"type": "bool", "default": True},
        "scheduler": {"type": "str", "choices": ["slurm", "none"], "default": "slurm"},
        "require_burn_in": {"type": "bool", "default": False},
        "strict": {"type": "bool", "default": True},
    }

    def execute(self):
        options = self.params
        if options["require_burn_in"]:
            operations.require_burn_in(self.registry, self.node)
        done = operations.resume(
            self.registry,
            self.port() if options["scheduler"] == "slurm" else None,
            self.node,
            options["owner"],
            self.actor,
            automation=options["automation"],
            check=self.check_mode,
        )
        blocked = done.pop("blocked")
        result = self.planned(done.pop("plan"), **done)
        if blocked and options["strict"]:
            error = errors.Refused(
                "the node stays out of work",
                host=self.node,
                thing="resume",
                wanted=f"no drain or hold but that of '{options['owner']}', and a node that the scheduler gives work",
                seen="; ".join(done["kept_by"]),
                next_step="ask whoever is named there, or mend the node; what belonged to this owner was undone (option strict: false accepts this)",
                code="kept_by_others",
            )
            return {**result, **error.as_result()}
        return result
