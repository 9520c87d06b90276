# Door: record an event of the boot timeline that only the controller sees. Documentation: plugins/modules/boot_event.py.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

from ansible_collections.aicluster.baremetal.plugins.plugin_utils.base import RegistryAction


class ActionModule(RegistryAction):
    ARGUMENT_SPEC = {
        "step": {"type": "str", "choices": ["power_on", "disk_boot", "ssh"], "required": True},
        "detail": {"type": "raw"},
        "attempt": {"type": "int"},
        "fencing": {"type": "int"},
    }

    def execute(self):
        if not self.check_mode:
            attempt, fencing = self.require_attempt()
            # The step call checks the fence in the same transaction: an old controller leaves no event.
            self.registry.step(self.host, attempt, fencing, f"boot:{self.params['step']}", self.params["detail"])
            self.registry.boot_event(self.host, attempt, self.params["step"], self.params["detail"], "controller")
        return {"changed": False}
