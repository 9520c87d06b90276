# Door: read nodes from the registry. Documentation: plugins/modules/node_info.py.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

from ansible_collections.aicluster.baremetal.plugins.module_utils.core import errors
from ansible_collections.aicluster.baremetal.plugins.plugin_utils.base import RegistryAction

INCLUDE = ("parts", "holds", "attempts", "evidence", "boot_events", "audit", "why")


class ActionModule(RegistryAction):
    ARGUMENT_SPEC = {
        "names": {"type": "list", "elements": "str"},
        "states": {"type": "list", "elements": "str"},
        "include": {"type": "list", "elements": "str", "choices": list(INCLUDE), "default": []},
        "expected": {"type": "bool", "default": False},
        "verify_audit": {"type": "bool", "default": False},
    }

    def execute(self):
        params, registry = self.params, self.registry
        include = params["include"]
        nodes = registry.nodes(state=params["states"], names=params["names"], parts="parts" in include)
        if params["names"]:
            known = {node["name"] for node in nodes} | {node["serial"] for node in nodes}
            missing = [name for name in params["names"] if name not in known]
            if (
                missing and params["states"]
            ):  # a node in another state is simply not asked for; one that is not there is a mistake
                there = registry.nodes(names=missing)
                known = {node["name"] for node in there} | {node["serial"] for node in there}
                missing = [name for name in missing if name not in known]
            if missing:
                raise errors.NotFound(
                    "the registry has no such node",
                    thing="names",
                    wanted="names or chassis serials of nodes",
                    seen=", ".join(missing),
                    next_step="check the spelling, or run the discover playbook",
                )
        for node in nodes:
            serial = node["serial"]
            if "holds" in include:
                node["holds"] = registry.holds(serial)
            if "attempts" in include:
                node["attempts"] = [
                    {**attempt, "steps": registry.steps(attempt["id"])} for attempt in registry.attempts(serial)
                ]
            if "evidence" in include:
                node["evidence"] = registry.evidence(serial)
            if "boot_events" in include:
                node["boot_events"] = registry.boot_events(serial)
            if "audit" in include:
                node["audit"] = registry.audit_rows(serial)
            if "why" in include:
                node["why"] = registry.why(serial)
        result = {"changed": False, "nodes": nodes}
        if params["expected"]:
            result["expected"] = registry.compare_expected()
        if params["verify_audit"]:
            result["audit"] = registry.verify_audit()
        return result
