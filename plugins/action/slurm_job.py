# Runs the first job on a node and records what it printed; a job that is on record for the attempt is not run again.
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
        "command": {"type": "list", "elements": "str", "default": ["hostname"]},
        "gres": {"type": "str", "default": ""},
        "expect": {"type": "str", "default": ""},
        "simulated": {"type": "bool", "default": False},
        "deadline": {"type": "float", "default": 120.0},
    }

    def execute(self):
        options = self.params
        attempt, _fencing = self.require_attempt()
        done = operations.first_job(
            self.registry,
            self.port(options["deadline"] + 60),
            self.node,
            attempt,
            options["command"],
            self.actor,
            gres=options["gres"],
            expect=options["expect"],
            seconds=options["deadline"],
            simulated=options["simulated"],
            check=self.check_mode,
        )
        return self.planned(done.pop("plan"), **done)
