# Takes a node out of work in the registry and in its scheduler; logic: scheduler.operations.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

from ansible_collections.aicluster.baremetal.plugins.module_utils.core import errors
from ansible_collections.aicluster.baremetal.plugins.module_utils.core.plan import Plan
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
        "release": {"type": "bool", "default": False},
        "deadline": {"type": "float", "default": 3600.0},
    }

    def execute(self):
        options = self.params
        if options["release"] and not options["wait"]:
            raise errors.InvalidInput(
                "a lease is released only once no work runs",
                host=self.node,
                thing="release",
                wanted="wait: true with release: true",
                seen="wait: false",
                next_step="add wait: true, and deadline where an hour is too short",
            )
        scheduler = self.port() if options["scheduler"] == "slurm" else None
        if options["release"] and scheduler is None:
            lease = self.registry.node(self.node)["lease"]
            if lease not in (None, "maintenance"):
                raise errors.Refused(
                    "this scheduler is not asked whether work runs, so its lease is not released",
                    host=self.node,
                    thing="release",
                    wanted="scheduler: slurm, for a node that is leased to slurm",
                    seen=f"scheduler: none, leased to {lease}",
                    next_step="drain it without release; then module lease with state=released and consent, the serial of the node",
                )
        done = operations.drain(
            self.registry,
            scheduler,
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
        if options["release"] and scheduler is not None:
            plan = Plan([*plan.changes, *self._release(scheduler, done)])
        return self.planned(plan, **done)

    def _release(self, scheduler, done):
        """The changes of giving Slurm's lease back. In check mode the node is not drained yet, so Slurm is not asked."""
        if self.check_mode:
            return self.registry.release_lease(self.node, "slurm", self.actor, check=True).changes
        self.check_fence(self.node)
        released = operations.release_lease(
            self.registry, scheduler, self.node, "slurm", self.actor, owner=self.params["owner"]
        )
        if released["plan"].changed:
            done["scheduler"] = released["scheduler"]
        return released["plan"].changes
