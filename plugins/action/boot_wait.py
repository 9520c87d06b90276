# Door: wait for a step of a node's boot. Documentation: plugins/modules/boot_wait.py.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

from ansible_collections.aicluster.baremetal.plugins.module_utils.netboot import timeline, wait
from ansible_collections.aicluster.baremetal.plugins.plugin_utils.base import RegistryAction


class ActionModule(RegistryAction):
    ARGUMENT_SPEC = {
        "until": {"type": "str", "choices": ["reserved", *timeline.ORDER], "default": "done"},
        "limits": {"type": "dict", "default": {}},
        "poll": {"type": "float", "default": 1.0},
        "attempt": {"type": "int"},
        "fencing": {"type": "int"},
    }

    def execute(self):
        reserved, allowed = wait.limits(self.params["limits"])
        if self.check_mode:
            return {"changed": False, "last_step": None, "events": []}
        attempt, fencing = self.require_attempt()
        if self.params["until"] == "reserved":
            wait.for_reservation(self.registry, self.host, attempt, fencing, reserved, min(0.5, self.params["poll"]))
            return {"changed": False, "last_step": "reserved", "events": []}
        progress = wait.for_step(
            self.registry, self.host, attempt, fencing, self.params["until"], allowed, self.params["poll"]
        )
        events = [{key: row[key] for key in ("step", "time", "source", "detail")} for row in progress.rows]
        return {"changed": False, "last_step": progress.step, "events": events}
