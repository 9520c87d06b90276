# Door: one node's row in the registry. Documentation: plugins/modules/node.py.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

from ansible_collections.aicluster.baremetal.plugins.module_utils.core import errors
from ansible_collections.aicluster.baremetal.plugins.module_utils.core.plan import Change, Plan
from ansible_collections.aicluster.baremetal.plugins.plugin_utils.base import RegistryAction

_TEXT_COLUMNS = (
    "name",
    "uuid",
    "site",
    "rack",
    "slot",
    "tenant",
    "platform",
    "role",
    "bmc_address",
    "bmc_credential",
    "bmc_fingerprint",
    "provision_mac",
    "provision_ip",
    "ansible_host",
    "maintenance_reason",
)


class ActionModule(RegistryAction):
    ARGUMENT_SPEC = {
        "serial": {"type": "str", "required": True},
        "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
        "initial_state": {"type": "str", "choices": ["registered", "manageable"], "default": "registered"},
        **{column: {"type": "str"} for column in _TEXT_COLUMNS},
        "bmc_port": {"type": "int"},
        "bmc_protocol": {"type": "str", "choices": ["redfish", "ipmi"]},
        "provision_prefix": {"type": "int"},
        "maintenance": {"type": "bool"},
        "parts": {"type": "list", "elements": "dict"},
        "facts": {"type": "dict"},
        "host_key": {"type": "str", "no_log": False},
        "reason": {"type": "str"},
    }

    def execute(self):
        params = self.params
        serial = params["serial"]
        if params["state"] == "absent":
            return self._retire(serial)
        own = {"registry", "serial", "state", "initial_state", "host_key", "reason"}
        columns = {key: value for key, value in params.items() if key not in own and value is not None}
        columns["state"] = params["initial_state"]
        # Both are judged before either is written, in check mode too: a task that is refused has done nothing.
        plan = self.registry.plan_node(serial, **columns)
        key_plan = self.registry.plan_host_key(serial, params["host_key"]) if params["host_key"] else Plan()
        if not self.check_mode:
            plan = self.registry.save_node(serial, self.actor, **columns)
            if params["host_key"]:
                key_plan = self.registry.pin_host_key(serial, params["host_key"], self.actor)
                self.refresh_known_hosts()
        changes = [*plan.changes, *key_plan.changes]
        try:
            node = self.registry.node(serial)
        except errors.NotFound:  # check mode of a new node
            node = None
        return self.planned(Plan(changes), node=node)

    def _retire(self, serial):
        try:
            node = self.registry.node(serial)
        except errors.NotFound:
            return {"changed": False, "node": None}
        plan = Plan([Change("state", node["state"], "retired")])
        if plan.changed:
            # The serial is the key of this module, so naming it is the consent; a name in its place is none.
            self.registry.transition(
                serial,
                node["state"],
                "retired",
                self.actor,
                self.params["reason"],
                check=self.check_mode,
                consent=serial,
            )
        if plan.changed and not self.check_mode:
            node = self.registry.node(serial)
        return self.planned(plan, node=node)
