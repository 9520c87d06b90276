# Door: place or release a hold. Documentation: plugins/modules/hold.py.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

from ansible_collections.aicluster.baremetal.plugins.plugin_utils.base import RegistryAction


class ActionModule(RegistryAction):
    ARGUMENT_SPEC = {
        "name": {"type": "str"},
        "owner": {"type": "str"},
        "reason": {"type": "str"},
        "exit_condition": {"type": "str"},
        "automation": {"type": "bool", "default": False},
        "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
    }
    ARGUMENT_RULES = {"required_if": [("state", "present", ("reason", "exit_condition"))]}

    def execute(self):
        params = self.params
        name, owner = params["name"] or self.host, params["owner"] or self.actor
        if params["state"] == "absent":
            plan = self.registry.release(name, owner, self.actor, check=self.check_mode)
        else:
            text = (params["reason"], params["exit_condition"], params["automation"])
            if self.check_mode:
                plan = self.registry.plan_hold(name, owner, *text)
            else:
                plan = self.registry.hold(name, owner, *text, self.actor)
        return self.planned(plan, holds=self.registry.holds(name))
