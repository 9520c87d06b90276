# Takes a node out of work in the registry and in its scheduler; logic: scheduler.operations.
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
        "owner": {"type": "str", "required": True},
        "reason": {"type": "str", "required": True},
        "exit_condition": {"type": "str", "default": ""},
        "automation": {"type": "bool", "default": True},
        "hold": {"type": "bool", "default": True},
        "scheduler": {"type": "str", "choices": ["slurm", "none"], "default": "slurm"},
        "wait": {"type": "bool", "default": False},
        "deadline": {"type": "float", "default": 3600.0},
    }

    def execute(self):
        options = self.params
        done = operations.drain(
            self.registry,
            self.port() if options["scheduler"] == "slurm" else None,
            self.node,
            options["owner"],
            options["reason"],
            self.actor,
            automation=options["automation"],
            exit_condition=options["exit_condition"],
            record=options["hold"],
            wait_s=options["deadline"] if options["wait"] else None,
            each=self.heartbeat,
            check=self.check_mode,
        )
        plan = done.pop("plan")
        return self.planned(plan, **done)
