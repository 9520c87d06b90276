# Door: follow a node's boot to its end, confirm the disk boot, and end the attempt at once. Documentation: plugins/modules/boot_follow.py.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

from ansible_collections.aicluster.baremetal.plugins.action import boot_confirm, node_lifecycle
from ansible_collections.aicluster.baremetal.plugins.module_utils.core import errors
from ansible_collections.aicluster.baremetal.plugins.module_utils.core.plan import Change, Plan
from ansible_collections.aicluster.baremetal.plugins.module_utils.netboot import wait
from ansible_collections.aicluster.baremetal.plugins.module_utils.registry import transitions


class ActionModule(boot_confirm.ActionModule):
    """One task for what takes a node long: in a play that goes in step no node then waits for another, and what came of it is on record at once."""

    def execute(self):
        _reserved, allowed = wait.limits(self.params["limits"])
        if self.check_mode:
            # Begin wrote nothing in check mode, so there is no attempt to end.
            diff = Plan([Change(f"{self.host}.attempt", "under way", f"ended: {node_lifecycle.NOT_KNOWN}")]).diff()
            return {"changed": True, "last_step": None, "items": [], "node": {}, "diff": diff}
        attempt, fencing = self.require_attempt()
        try:
            progress = wait.for_step(self.registry, self.host, attempt, fencing, "done", allowed, self.params["poll"])
            found = super().execute()
        except errors.BaremetalError as error:
            self._failed(attempt, fencing, error.with_host(self.host))
            raise
        except Exception as error:
            self._failed(attempt, fencing, f"{self.host}: an unexpected error ({type(error).__name__}: {error})")
            raise
        working = transitions.STAGES[self.registry.attempt(attempt)["stage"]]["working"]
        state = self.registry.finish(self.host, attempt, fencing, "pass", self.actor)
        found.update(
            changed=True,
            last_step=progress.step,
            node_state=state,
            diff=Plan([Change(f"{self.host}.state", working, state)]).diff(),
        )
        self.tell_inventory(found, self.host, (), {"aicluster_state": state, "aicluster_attempt": None})
        return found

    def _failed(self, attempt, fencing, reason):
        """End the attempt; a run that was fenced out has nothing more to say about the node, another one owns it."""
        if isinstance(reason, errors.FencedOut):
            return
        try:
            self.registry.finish(self.host, attempt, fencing, "fail", self.actor, str(reason))
        except errors.FencedOut:
            pass
